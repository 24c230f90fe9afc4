//! `hedgerow publish`: one event, to try something out.

use clap::Args;
use hedgerow_core::name::{DomainTopicName, TopicName};
use hedgerow_core::time::Timestamp;
use hedgerow_io::chance;
use hedgerow_io::clock::{Clock, SystemClock};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::ServerOptions;
use super::schema::Schema;
use crate::failure::Failure;
use crate::output;

/// Publishes one event.
#[derive(Debug, Args)]
pub struct PublishCommand {
    /// The topic's name, or the domain's.
    #[arg(long, value_name = "TOPIC")]
    topic: TopicName,
    /// One of the topic's keys; without one, a token that may publish is used.
    #[arg(
        long,
        value_name = "KEY",
        env = "HEDGEROW_TOPIC_KEY",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    key: Option<String>,
    /// The schema that the topic takes. With customeventschema the data alone is the event, and must be an object.
    #[arg(
        long,
        value_name = "SCHEMA",
        ignore_case = true,
        default_value = "eventgridschema"
    )]
    schema: Schema,
    /// Where a CloudEvent comes from.
    #[arg(long, value_name = "URI", default_value = "/hedgerow/publish")]
    source: String,
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
    /// The domain topic that the event is for, if --topic is a domain. With customeventschema the data says it.
    #[arg(long, value_name = "NAME")]
    domain_topic: Option<DomainTopicName>,
    #[command(flatten)]
    server: ServerOptions,
}

/// A `CloudEvent` as it is published.
#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'a str,
    id: &'a str,
    source: &'a str,
    r#type: &'a str,
    subject: &'a str,
    time: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    domaintopic: Option<&'a str>,
    datacontenttype: &'a str,
    data: &'a RawValue,
}

/// An event as it is published.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "these are the names on the wire")]
struct Event<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    event_type: &'a str,
    subject: &'a str,
    event_time: &'a str,
    data: &'a RawValue,
    data_version: &'a str,
}

impl PublishCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = match self.key {
            Some(_) => self.server.anonymous_client(),
            None => self.server.client()?,
        };
        let mut id = self.id.unwrap_or_else(chance::uuid);
        let now = SystemClock::new(Timestamp::ZERO).now().timestamp;
        let time = &now.to_string();
        let domain_topic = self.domain_topic.as_ref().map(DomainTopicName::as_str);
        let (content_type, events) = match self.schema {
            Schema::EventGridSchema => {
                let event = Event {
                    id: &id,
                    topic: domain_topic,
                    event_type: &self.event_type,
                    subject: &self.subject,
                    event_time: time,
                    data: &self.data,
                    data_version: "",
                };
                ("application/json", serde_json::to_string(&[event]))
            }
            Schema::CloudEventSchemaV1_0 => {
                let event = CloudEvent {
                    specversion: "1.0",
                    id: &id,
                    source: &self.source,
                    r#type: &self.event_type,
                    subject: &self.subject,
                    time,
                    domaintopic: domain_topic,
                    datacontenttype: "application/json",
                    data: &self.data,
                };
                (
                    "application/cloudevents+json",
                    serde_json::to_string(&event),
                )
            }
            Schema::CustomEventSchema if domain_topic.is_some() => {
                return Err(Failure::new("--domain-topic is not for custom events")
                    .with_hint("say it in the data, in the field that the domain maps to topic"));
            }
            Schema::CustomEventSchema => ("application/json", Ok(format!("[{}]", self.data))),
        };
        let events = events.expect("texts and JSON are valid JSON");
        let id_found = client
            .publish(
                self.topic.as_str(),
                self.key.as_deref(),
                content_type,
                events,
            )
            .await?;
        if self.schema == Schema::CustomEventSchema {
            // Its id is the topic's to find, or the server's to make, which says it if a header can.
            let Some(found) = id_found else {
                output::done("the event is accepted", &json!({}), self.server.output);
                return Ok(());
            };
            id = found;
        }
        let sentence = format!("event {} is accepted", output::printable(&id));
        output::done(&sentence, &json!({ "id": id }), self.server.output);
        Ok(())
    }
}

fn json_text(text: &str) -> Result<Box<RawValue>, String> {
    RawValue::from_string(text.to_owned()).map_err(|error| format!("must be JSON: {error}"))
}
