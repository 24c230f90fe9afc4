//! Lists that the server gives page by page.

use std::ops::RangeInclusive;

use clap::Args;
use hedgerow_core::name::SubscriptionName;
use http::Method;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::source::SourceTopic;
use crate::client::Client;
use crate::failure::Failure;

/// Which entries of a list are wanted.
#[derive(Debug, Args)]
pub struct Which {
    /// Only of this topic, of a domain (`domains/DOMAIN`), or of a topic of one (`domains/DOMAIN/topics/TOPIC`).
    #[arg(long, value_name = "TOPIC")]
    topic: Option<SourceTopic>,
    /// Only of this subscription of the topic.
    #[arg(long, value_name = "NAME", requires = "topic")]
    event_subscription: Option<SubscriptionName>,
    /// Entries at most.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    limit: usize,
}

/// Entries that are asked for at a time.
const PAGE: RangeInclusive<usize> = 1..=100;

/// The files of written dead letters of the subscription that is asked for.
pub async fn written(client: &Client, which: &Which) -> Result<Vec<Value>, Failure> {
    let (Some(topic), Some(name)) = (&which.topic, &which.event_subscription) else {
        return Err(Failure::new(
            "name the topic and the subscription whose files are meant",
        ));
    };
    let topic = super::event::in_path(&topic.name);
    let path = format!("/topics/{topic}/eventSubscriptions/{name}/deadLetters");
    // The path names them already.
    let unnamed = Which {
        topic: None,
        event_subscription: None,
        limit: which.limit,
    };
    list(client, &path, &unnamed).await
}

/// The entries of the list at `path` that are wanted.
pub async fn list(client: &Client, path: &str, which: &Which) -> Result<Vec<Value>, Failure> {
    let mut entries: Vec<Value> = Vec::new();
    let mut after = None;
    while entries.len() < which.limit {
        let wanted = (which.limit - entries.len()).clamp(*PAGE.start(), *PAGE.end());
        let path = format!("{path}?{}", query(which, after.as_deref(), wanted));
        let page = client.admin(Method::GET, &path, None).await?.body;
        entries.extend_from_slice(super::value(&page)?);
        after = match &page["next"] {
            Value::String(cursor) => Some(cursor.clone()),
            Value::Number(cursor) => Some(cursor.to_string()),
            _ => break,
        };
    }
    Ok(entries)
}

fn query(which: &Which, after: Option<&str>, limit: usize) -> String {
    let mut query = Serializer::new(String::new());
    if let Some(topic) = &which.topic {
        query.append_pair("topic", &topic.name);
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
