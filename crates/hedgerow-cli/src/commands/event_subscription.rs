//! `hedgerow event-subscription`: who gets which events. Its options have the names, meanings and bounds that users of
//! the vendor's command line know (ED-322).

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::{ArgAction, Args, Subcommand};
use hedgerow_core::limits;
use hedgerow_core::name::{NameError, SubscriptionName, TopicName};
use hedgerow_core::spec::DeliverySchema;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::ServerOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Event subscriptions: who gets which events.
#[derive(Debug, Args)]
pub struct EventSubscriptionCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a subscription; one of the same name is declared anew and keeps its id.
    Create {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        settings: Settings,
    },
    /// Changes what is given and keeps the rest. The endpoint has to be given again: its address is a secret that the
    /// server does not show.
    Update {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        settings: Settings,
    },
    /// Shows a subscription and how it is doing.
    Show(Place),
    /// Lists the subscriptions of a topic.
    List(Source),
    /// Deletes a subscription and everything owed to it.
    Delete(Place),
}

/// Which subscription.
#[derive(Debug, Args)]
struct Place {
    /// The subscription's name.
    #[arg(long, short = 'n', value_name = "NAME")]
    name: SubscriptionName,
    #[command(flatten)]
    source: Source,
}

impl Place {
    fn path(&self) -> String {
        format!("{}/{}", self.source.path(), self.name)
    }
}

/// Of what.
#[derive(Debug, Args)]
struct Source {
    /// The topic: its name, or its full resource id.
    #[arg(
        long = "source-resource-id",
        visible_alias = "resource-id",
        value_name = "TOPIC"
    )]
    topic: SourceTopic,
}

impl Source {
    fn path(&self) -> String {
        format!("/topics/{}/eventSubscriptions", self.topic.0)
    }
}

/// A topic, given by its name or its resource id.
#[derive(Debug, Clone)]
struct SourceTopic(TopicName);

impl FromStr for SourceTopic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = "must be a topic's name, or its full resource id, \
             `/…/providers/Microsoft.EventGrid/topics/NAME`";
        let name = if text.starts_with('/') {
            topic_of_id(text).ok_or(refused)?
        } else {
            text
        };
        name.parse()
            .map(Self)
            .map_err(|error: NameError| error.to_string())
    }
}

/// The name at the end of `/subscriptions/…/providers/Microsoft.EventGrid/topics/NAME`.
fn topic_of_id(id: &str) -> Option<&str> {
    let mut parts = id.trim_end_matches('/').rsplit('/');
    let (name, kind, provider) = (parts.next()?, parts.next()?, parts.next()?);
    let is_topic =
        kind.eq_ignore_ascii_case("topics") && provider.eq_ignore_ascii_case("Microsoft.EventGrid");
    is_topic.then_some(name)
}

/// What a subscription wants and how it gets it. What is not given keeps its value, or its default.
#[derive(Debug, Args)]
struct Settings {
    /// The URL that events are posted to.
    #[arg(long, value_name = "URL")]
    endpoint: String,
    /// The form in which events are sent: `EventGridSchema` (by default), `CloudEventSchemaV1_0` or `CustomInputSchema`. It
    /// never changes.
    #[arg(long, value_name = "SCHEMA", value_parser = delivery_schema)]
    event_delivery_schema: Option<DeliverySchema>,
    /// Only events of these types; without a value, of all types.
    #[arg(long, value_name = "TYPE", num_args = 0.., action = ArgAction::Append)]
    included_event_types: Option<Vec<String>>,
    /// Only events whose subject begins so.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    subject_begins_with: Option<String>,
    /// Only events whose subject ends so.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    subject_ends_with: Option<String>,
    /// Whether these two look at case.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    subject_case_sensitive: Option<bool>,
    /// Attempts after which an event is given up, 1 to 30; 30 by default.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = attempts)]
    max_delivery_attempts: Option<u16>,
    /// Minutes after which an event is given up, 1 to 1440; 1440 by default.
    #[arg(long, value_name = "MINUTES", allow_negative_numbers = true, value_parser = minutes)]
    event_ttl: Option<u32>,
    /// Where events that are given up are written: a directory below the server's setting `dead_letter.directory`; without
    /// a value, nowhere.
    #[arg(long, value_name = "DIRECTORY", num_args = 0..=1, default_missing_value = "")]
    deadletter_endpoint: Option<String>,
    /// Seconds after which they are written, 0 to 3600; the server's setting by default, which is 300.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = delay)]
    deadletter_delay: Option<u32>,
    /// Seconds for which a directory that cannot be written to is waited for, up to 604800, and 0 for ever; the server's
    /// setting by default, which is 14400.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = unavailable)]
    deadletter_max_unavailable: Option<u32>,
    /// Whether an event is dropped at once if the directory is missing.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    deadletter_drop_if_not_found: Option<bool>,
    /// Whether the subscription is refused if the directory cannot be written to now.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    deadletter_require_reachable: Option<bool>,
}

/// What is declared of a subscription besides its destination, whose whole URL the server keeps to itself (ED-121).
pub const DECLARED: [&str; 7] = [
    "filter",
    "retryPolicy",
    "retry",
    "responseTimeoutSeconds",
    "eventDeliverySchema",
    "deadLetterDestination",
    "deadLetter",
];

const LIST: [Column; 10] = [
    ("NAME", "/name"),
    ("ENDPOINT", "/destination/properties/endpointBaseUrl"),
    ("STATE", "/provisioningState"),
    ("MATCHED", "/status/matched"),
    ("DELIVERED", "/status/delivered"),
    ("DEAD-LETTERED", "/status/deadLettered"),
    ("DROPPED", "/status/dropped"),
    ("PENDING", "/status/pending"),
    ("IN FLIGHT", "/status/inFlight"),
    ("NEXT DUE", "/status/nextDue"),
];

const ONE: [Column; 25] = [
    ("name", "/name"),
    ("id", "/id"),
    ("topic", "/topic"),
    ("state", "/provisioningState"),
    ("endpoint", "/destination/properties/endpointBaseUrl"),
    ("delivery schema", "/eventDeliverySchema"),
    ("included event types", "/filter/includedEventTypes"),
    ("subject begins with", "/filter/subjectBeginsWith"),
    ("subject ends with", "/filter/subjectEndsWith"),
    ("subject case sensitive", "/filter/isSubjectCaseSensitive"),
    ("max delivery attempts", "/retryPolicy/maxDeliveryAttempts"),
    (
        "event ttl, minutes",
        "/retryPolicy/eventTimeToLiveInMinutes",
    ),
    ("response timeout, seconds", "/responseTimeoutSeconds"),
    (
        "dead-letter directory",
        "/deadLetterDestination/properties/path",
    ),
    ("dead-letter delay, seconds", "/deadLetter/delay"),
    (
        "dead-letter max unavailable, seconds",
        "/deadLetter/maxUnavailable",
    ),
    (
        "dead-letter drop if not found",
        "/deadLetter/dropIfNotFound",
    ),
    ("dead-letter problem", "/status/deadLetterProblem"),
    ("matched", "/status/matched"),
    ("delivered", "/status/delivered"),
    ("dead-lettered", "/status/deadLettered"),
    ("dropped", "/status/dropped"),
    ("pending", "/status/pending"),
    ("in flight", "/status/inFlight"),
    ("next due", "/status/nextDue"),
];

impl EventSubscriptionCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::Create { place, settings } => {
                put(&client, &place, settings.apply(&json!({})), format).await
            }
            Action::Update { place, settings } => {
                let present = client.admin(Method::GET, &place.path(), None).await?.body;
                put(&client, &place, settings.apply(&present), format).await
            }
            Action::Show(place) => {
                let reply = client.admin(Method::GET, &place.path(), None).await?;
                output::one(&reply.body, &ONE, format);
                Ok(())
            }
            Action::List(source) => {
                let reply = client.admin(Method::GET, &source.path(), None).await?;
                output::list(super::value(&reply.body)?, &LIST, format);
                Ok(())
            }
            Action::Delete(place) => {
                client.admin(Method::DELETE, &place.path(), None).await?;
                let sentence = format!("event subscription {} deleted", place.name);
                output::done(&sentence, &Value::Null, format);
                Ok(())
            }
        }
    }
}

async fn put(client: &Client, place: &Place, body: Value, format: Format) -> Result<(), Failure> {
    let reply = client
        .admin(Method::PUT, &place.path(), Some(&body))
        .await?;
    let done = if reply.status == StatusCode::CREATED {
        "created"
    } else {
        "updated"
    };
    let endpoint = reply
        .body
        .pointer("/destination/properties/endpointBaseUrl");
    let endpoint = endpoint.and_then(Value::as_str).unwrap_or_default();
    let sentence = format!(
        "event subscription {} {done}: {} -> {}",
        place.name,
        place.source.topic.0,
        output::printable(endpoint)
    );
    output::done(&sentence, &reply.body, format);
    let warnings = reply.body.get("warnings").and_then(Value::as_array);
    for warning in warnings.into_iter().flatten() {
        let text = |name: &str| {
            warning
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        output::error_line(&format!("warning: {}: {}", text("field"), text("message")));
    }
    Ok(())
}

impl Settings {
    /// The declaration that says what `present` says but for what is given.
    fn apply(self, present: &Value) -> Value {
        let mut body = Map::new();
        for name in DECLARED {
            if let Some(value) = present.get(name) {
                body.insert(name.to_owned(), value.clone());
            }
        }
        let mut body = Value::Object(body);
        body["destination"] = json!({
            "endpointType": "WebHook",
            "properties": { "endpointUrl": self.endpoint },
        });
        if let Some(schema) = self.event_delivery_schema {
            body["eventDeliverySchema"] = json!(schema.as_str());
        }
        let types = self.included_event_types.map(|types| {
            if types.is_empty() {
                Value::Null
            } else {
                json!(types)
            }
        });
        let given = [
            ("filter", "includedEventTypes", types),
            (
                "filter",
                "subjectBeginsWith",
                self.subject_begins_with.map(Value::from),
            ),
            (
                "filter",
                "subjectEndsWith",
                self.subject_ends_with.map(Value::from),
            ),
            (
                "filter",
                "isSubjectCaseSensitive",
                self.subject_case_sensitive.map(Value::from),
            ),
            (
                "retryPolicy",
                "maxDeliveryAttempts",
                self.max_delivery_attempts.map(Value::from),
            ),
            (
                "retryPolicy",
                "eventTimeToLiveInMinutes",
                self.event_ttl.map(Value::from),
            ),
            (
                "deadLetter",
                "delay",
                self.deadletter_delay.map(Value::from),
            ),
            (
                "deadLetter",
                "maxUnavailable",
                self.deadletter_max_unavailable.map(Value::from),
            ),
            (
                "deadLetter",
                "dropIfNotFound",
                self.deadletter_drop_if_not_found.map(Value::from),
            ),
            (
                "deadLetter",
                "requireReachable",
                self.deadletter_require_reachable.map(Value::from),
            ),
        ];
        for (group, name, value) in given {
            if let Some(value) = value {
                body[group][name] = value;
            }
        }
        if let Some(endpoint) = self.deadletter_endpoint {
            body["deadLetterDestination"] = dead_letter_destination(&endpoint);
        }
        body
    }
}

/// A container's resource id is declared as one, so that the server says what it thinks of it.
fn dead_letter_destination(endpoint: &str) -> Value {
    if endpoint.is_empty() {
        Value::Null
    } else if endpoint.starts_with("/subscriptions/") {
        json!({ "endpointType": "StorageBlob", "properties": { "resourceId": endpoint } })
    } else {
        json!({ "endpointType": "LocalDirectory", "properties": { "path": endpoint } })
    }
}

/// The schema of that name, however its letters are written, as the vendor's command line takes them.
fn delivery_schema(text: &str) -> Result<DeliverySchema, String> {
    let mut all = DeliverySchema::ALL.into_iter();
    let found = all.find(|schema| schema.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names = DeliverySchema::ALL.map(DeliverySchema::as_str);
        format!("must be one of {}", names.join(", "))
    })
}

fn delay(text: &str) -> Result<u32, String> {
    bounded(text, &limits::DEAD_LETTER_DELAY_SECONDS)
}

fn unavailable(text: &str) -> Result<u32, String> {
    bounded(text, &limits::DEAD_LETTER_UNAVAILABLE_SECONDS)
}

fn attempts(text: &str) -> Result<u16, String> {
    bounded(text, &limits::DELIVERY_ATTEMPTS)
}

fn minutes(text: &str) -> Result<u32, String> {
    bounded(text, &limits::TIME_TO_LIVE_MINUTES)
}

/// An integer within its bounds; the error names them, and `clap` adds the option and the value.
fn bounded<T>(text: &str, range: &RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        format!(
            "must be an integer from {} to {}",
            range.start(),
            range.end()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_names_or_resource_ids() {
        let id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/orders";
        for text in ["orders", id, &id.to_lowercase(), &format!("{id}/")] {
            assert_eq!(
                text.parse::<SourceTopic>().unwrap().0.as_str(),
                "orders",
                "{text}"
            );
        }
        for text in [
            "",
            "/orders",
            "o!",
            "/a/Microsoft.Storage/storageAccounts/orders",
        ] {
            text.parse::<SourceTopic>().unwrap_err();
        }
    }

    #[test]
    fn updates_keep_what_is_not_given() {
        let settings = Settings {
            endpoint: "http://127.0.0.1:1/new".to_owned(),
            event_delivery_schema: Some(DeliverySchema::CloudEventSchemaV1_0),
            included_event_types: Some(Vec::new()),
            subject_begins_with: None,
            subject_ends_with: Some(".jpg".to_owned()),
            subject_case_sensitive: None,
            max_delivery_attempts: Some(3),
            event_ttl: None,
            deadletter_endpoint: Some("late".to_owned()),
            deadletter_delay: Some(0),
            deadletter_max_unavailable: None,
            deadletter_drop_if_not_found: None,
            deadletter_require_reachable: None,
        };
        let present = json!({
            "name": "a", "id": "b", "status": {"matched": 1},
            "destination": {"endpointType": "WebHook", "properties": {"endpointBaseUrl": "http://127.0.0.1:1/old"}},
            "filter": {"includedEventTypes": ["A"], "subjectBeginsWith": "x"},
            "retryPolicy": {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 5},
            "retry": {"finalStatuses": [410]},
            "deadLetter": {"delay": 300, "maxUnavailable": 60},
        });
        let expected = json!({
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": "http://127.0.0.1:1/new"}},
            "filter": {"includedEventTypes": null, "subjectBeginsWith": "x", "subjectEndsWith": ".jpg"},
            "retryPolicy": {"maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 5},
            "retry": {"finalStatuses": [410]},
            "eventDeliverySchema": "CloudEventSchemaV1_0",
            "deadLetter": {"delay": 0, "maxUnavailable": 60},
            "deadLetterDestination": {"endpointType": "LocalDirectory", "properties": {"path": "late"}},
        });
        assert_eq!(settings.apply(&present), expected);
    }
}
