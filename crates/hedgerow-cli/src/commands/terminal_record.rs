//! `hedgerow terminal-record`: what was not delivered, and why.

use std::ops::RangeInclusive;

use clap::{Args, Subcommand};
use hedgerow_core::name::{SubscriptionName, TopicName};
use http::Method;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::ServerOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column};

/// Terminal records: what was not delivered, and why.
#[derive(Debug, Args)]
pub struct TerminalRecordCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists the records, the oldest first.
    List(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// Only of this topic.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<TopicName>,
    /// Only of this subscription of the topic.
    #[arg(long, value_name = "NAME", requires = "topic")]
    event_subscription: Option<SubscriptionName>,
    /// Records at most.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    limit: usize,
}

/// Records that are asked for at a time.
const PAGE: RangeInclusive<usize> = 1..=100;

const LIST: [Column; 9] = [
    ("EVENT ID", "/eventId"),
    ("EVENT TYPE", "/eventType"),
    ("TOPIC", "/topic"),
    ("SUBSCRIPTION", "/eventSubscription"),
    ("REASON", "/reason"),
    ("ATTEMPTS", "/deliveryAttempts"),
    ("LAST OUTCOME", "/lastDeliveryOutcome"),
    ("EVENT", "/disposition"),
    ("DECIDED", "/decidedTime"),
];

impl TerminalRecordCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let Action::List(which) = self.action;
        let records = list(&client, &which).await?;
        output::list(&records, &LIST, self.server.output);
        Ok(())
    }
}

async fn list(client: &Client, which: &Which) -> Result<Vec<Value>, Failure> {
    let mut records: Vec<Value> = Vec::new();
    let mut after = None;
    while records.len() < which.limit {
        let wanted = (which.limit - records.len()).clamp(*PAGE.start(), *PAGE.end());
        let path = format!(
            "/terminalRecords?{}",
            query(which, after.as_deref(), wanted)
        );
        let page = client.admin(Method::GET, &path, None).await?.body;
        records.extend_from_slice(super::value(&page)?);
        after = match &page["next"] {
            Value::String(cursor) => Some(cursor.clone()),
            Value::Number(cursor) => Some(cursor.to_string()),
            _ => break,
        };
    }
    Ok(records)
}

fn query(which: &Which, after: Option<&str>, limit: usize) -> String {
    let mut query = Serializer::new(String::new());
    if let Some(topic) = &which.topic {
        query.append_pair("topic", topic.as_str());
    }
    if let Some(name) = &which.event_subscription {
        query.append_pair("eventSubscription", name.as_str());
    }
    if let Some(after) = after {
        query.append_pair("after", after);
    }
    query.append_pair("limit", &limit.to_string());
    query.finish()
}
