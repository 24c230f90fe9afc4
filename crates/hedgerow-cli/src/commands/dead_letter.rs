//! `hedgerow dead-letter`: what was not delivered and waits to be written.

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

/// Dead letters: what was not delivered and waits to be written to its dead-letter directory.
#[derive(Debug, Args)]
pub struct DeadLetterCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists those that wait, by subscription and time. `terminal-record list` says what became of the others.
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
    /// Dead letters at most.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    limit: usize,
}

/// Dead letters that are asked for at a time.
const PAGE: RangeInclusive<usize> = 1..=100;

const LIST: [Column; 8] = [
    ("EVENT ID", "/eventId"),
    ("TOPIC", "/topic"),
    ("SUBSCRIPTION", "/eventSubscription"),
    ("REASON", "/reason"),
    ("ATTEMPTS", "/deliveryAttempts"),
    ("LAST OUTCOME", "/lastDeliveryOutcome"),
    ("FAILED WRITES", "/failedWrites"),
    ("WRITE DUE", "/writeTime"),
];

impl DeadLetterCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let Action::List(which) = self.action;
        let letters = list(&client, &which).await?;
        output::list(&letters, &LIST, self.server.output);
        Ok(())
    }
}

async fn list(client: &Client, which: &Which) -> Result<Vec<Value>, Failure> {
    let mut letters: Vec<Value> = Vec::new();
    let mut after = None;
    while letters.len() < which.limit {
        let wanted = (which.limit - letters.len()).clamp(*PAGE.start(), *PAGE.end());
        let path = format!("/deadLetters?{}", query(which, after.as_deref(), wanted));
        let page = client.admin(Method::GET, &path, None).await?.body;
        letters.extend_from_slice(super::value(&page)?);
        after = match &page["next"] {
            Value::String(cursor) => Some(cursor.clone()),
            Value::Number(cursor) => Some(cursor.to_string()),
            _ => break,
        };
    }
    Ok(letters)
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
