//! `hedgerow publish`: one event, to try something out.

use clap::Args;
use hedgerow_core::name::TopicName;
use hedgerow_core::time::Timestamp;
use hedgerow_io::chance;
use hedgerow_io::clock::{Clock, SystemClock};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::ServerOptions;
use crate::failure::Failure;
use crate::output;

/// Publishes one event.
#[derive(Debug, Args)]
pub struct PublishCommand {
    /// The topic's name.
    #[arg(long, value_name = "TOPIC")]
    topic: TopicName,
    /// One of the topic's keys.
    #[arg(
        long,
        value_name = "KEY",
        env = "HEDGEROW_TOPIC_KEY",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    key: String,
    /// The event's id; a new UUID by default.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The event's type.
    #[arg(long = "type", value_name = "TYPE", default_value = "Hedgerow.Sample")]
    event_type: String,
    /// What the event is about.
    #[arg(long, value_name = "SUBJECT", default_value = "sample")]
    subject: String,
    /// The event's data, any JSON; it arrives as it is written here.
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true, value_parser = json_text)]
    data: Box<RawValue>,
    #[command(flatten)]
    server: ServerOptions,
}

/// An event as it is published.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "these are the names on the wire")]
struct Event<'a> {
    id: &'a str,
    event_type: &'a str,
    subject: &'a str,
    event_time: String,
    data: &'a RawValue,
    data_version: &'a str,
}

impl PublishCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.anonymous_client();
        let id = self.id.unwrap_or_else(chance::uuid);
        let event = Event {
            id: &id,
            event_type: &self.event_type,
            subject: &self.subject,
            event_time: SystemClock::new(Timestamp::ZERO)
                .now()
                .timestamp
                .to_string(),
            data: &self.data,
            data_version: "",
        };
        let events = serde_json::to_string(&[event]).expect("texts and JSON are valid JSON");
        client
            .publish(self.topic.as_str(), &self.key, events)
            .await?;
        let sentence = format!("event {} is accepted", output::printable(&id));
        output::done(&sentence, &json!({ "id": id }), self.server.output);
        Ok(())
    }
}

fn json_text(text: &str) -> Result<Box<RawValue>, String> {
    RawValue::from_string(text.to_owned()).map_err(|error| format!("must be JSON: {error}"))
}
