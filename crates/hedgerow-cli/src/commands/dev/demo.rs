//! What there is to try: topics, and subscriptions that deliver to the receiver.
//!
//! | topic | subscription | wants | delivers to | so that its events |
//! | --- | --- | --- | --- | --- |
//! | `demo` | `demo` | everything | the receiver, whose answer can be switched | arrive |
//! | `demo-ce`, CloudEvents | `demo-ce` | everything | the receiver | arrive as CloudEvents |
//! | `demo` | `demo-fails` | the type `Demo.Fails` | a path that always answers 429 | fail, are retried, end as dead letters |
//! | `$deadletter` | `demo-letters` | everything | a path that always answers 200 | tell of dead letters that were written |
//!
//! A second start on the same data directory points the subscriptions at the new receiver, before anything is attempted;
//! their ids, everything else that was set on them and what is owed to them stay, and so does an endpoint that somebody gave them.

use std::path::Path;

use hedgerow_core::name::{DEAD_LETTER_TOPIC, SubscriptionName, TopicName};
use hedgerow_core::spec::{
    DeadLetterDestination, Destination, EndpointUrl, InputSchema, SubscriptionSpec, TopicSpec,
};
use hedgerow_server::{HandleError, TopicEntry, local_dead_letters};
use http::StatusCode;
use serde_json::{Value, json};

use super::Running;
use super::receiver::Answer;
use crate::failure::Failure;
use crate::output::line;

/// The topic, and the subscription to all of it.
pub const DEMO: &str = "demo";
/// The topic of CloudEvents, and the subscription to all of it.
pub const DEMO_CE: &str = "demo-ce";
/// The subscription whose deliveries fail, and the directory of its dead letters.
pub const DEMO_FAILS: &str = "demo-fails";
/// The subscription that is told of dead letters.
pub const DEMO_LETTERS: &str = "demo-letters";
/// The type of the events that the one that fails wants.
pub const FAILING_TYPE: &str = "Demo.Fails";

/// What was declared.
pub struct Declared {
    /// `demo`.
    pub topic: TopicEntry,
    /// `demo-ce`.
    pub cloud_events: TopicEntry,
}

/// Why it was not.
pub enum Failed {
    /// The server ended; it says itself why.
    Stopped,
    Because(Failure),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Because(failure)
    }
}

impl From<HandleError> for Failed {
    fn from(error: HandleError) -> Self {
        match error {
            HandleError::Stopped => Self::Stopped,
            other => Self::Because(Failure::because("cannot declare the demo", &other)),
        }
    }
}

/// A subscription to declare.
struct Subscription {
    topic: &'static str,
    name: &'static str,
    endpoint: String,
    /// What it is declared with the first time, beside its endpoint.
    first: Value,
}

/// Declares everything.
pub async fn declare(running: &Running) -> Result<Declared, Failed> {
    let topic = running.topic(DEMO, InputSchema::EventGridSchema).await?;
    let cloud_events = running
        .topic(DEMO_CE, InputSchema::CloudEventSchemaV1_0)
        .await?;
    make_directory(&running.dead_letters.join(DEMO_FAILS))?;
    let subscriptions = [
        Subscription {
            topic: DEMO,
            name: DEMO,
            endpoint: format!("{}/", running.receiver.url()),
            first: json!({ "deadLetterDestination": local_default() }),
        },
        Subscription {
            topic: DEMO_CE,
            name: DEMO_CE,
            endpoint: format!("{}/", running.receiver.url()),
            first: json!({
                "eventDeliverySchema": "CloudEventSchemaV1_0",
                "deadLetterDestination": local_default(),
            }),
        },
        Subscription {
            topic: DEMO,
            name: DEMO_FAILS,
            endpoint: running
                .receiver
                .url_with(Answer::status(StatusCode::TOO_MANY_REQUESTS)),
            first: fails(),
        },
        Subscription {
            topic: DEAD_LETTER_TOPIC,
            name: DEMO_LETTERS,
            endpoint: running.receiver.url_with(Answer::status(StatusCode::OK)),
            first: json!({ "deadLetterDestination": local_default() }),
        },
    ];
    let mut pending = 0;
    for subscription in subscriptions {
        pending += running.declare(&subscription).await?;
    }
    if pending > 0 {
        let s = if pending == 1 { "" } else { "s" };
        line(&format!("{pending} event{s} owed from the last start"));
    }
    Ok(Declared {
        topic,
        cloud_events,
    })
}

/// Attempts at 0 s, 10 s and 30 s: the third begins a probation and is the last, and the event becomes a dead letter soon.
/// All of it in the time that somebody watches. After 429 no slot is left out, whatever chance adds; after 503, which has a
/// longer floor, one may be.
fn fails() -> Value {
    json!({
        "filter": { "includedEventTypes": [FAILING_TYPE] },
        "retryPolicy": { "maxDeliveryAttempts": 3 },
        "deadLetterDestination": {
            "endpointType": "LocalDirectory",
            "properties": { "path": DEMO_FAILS },
        },
        "deadLetter": { "delay": 10 },
    })
}

/// Where subscriptions send dead letters that do not say it (ED-313).
fn local_default() -> Value {
    let path = local_dead_letters::local_container();
    DeadLetterDestination::LocalDirectory { path }.to_json()
}

/// The server makes no directories of dead letters but the one that all lie in.
fn make_directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|error| {
        Failure::because(
            format!(
                "cannot make the directory of dead letters {}",
                path.display()
            ),
            &error,
        )
    })
}

impl Running {
    async fn topic(&self, name: &str, input_schema: InputSchema) -> Result<TopicEntry, Failed> {
        let name: TopicName = name.parse().expect("a valid name");
        let spec = TopicSpec {
            input_schema,
            ..TopicSpec::default()
        };
        Ok(self.handle.ensure_topic(&name, &spec).await?)
    }

    /// Declares a subscription, or points it at its endpoint. Returns what is owed to it.
    async fn declare(&self, subscription: &Subscription) -> Result<u64, Failed> {
        let name: SubscriptionName = subscription.name.parse().expect("a valid name");
        let topic = subscription.topic;
        let spec = match self.handle.declared(topic, &name).await? {
            None => subscription.spec()?,
            Some(mut present) => {
                let wanted = subscription.endpoint()?;
                if let Destination::WebHook { endpoint_url, .. } = &mut present.destination
                    && is_of_a_receiver(endpoint_url, &wanted)
                {
                    *endpoint_url = wanted;
                }
                present
            }
        };
        let entry = self.handle.ensure_subscription(topic, &name, &spec).await?;
        Ok(entry.pending)
    }
}

/// Whether an endpoint is that of the receiver of an earlier start: the same but for its port. Any other is somebody's own, and stays.
fn is_of_a_receiver(endpoint: &EndpointUrl, wanted: &EndpointUrl) -> bool {
    let parts = |url: &EndpointUrl| {
        let url = url::Url::parse(url.as_str()).ok()?;
        let host = url.host_str()?.to_owned();
        Some((
            url.scheme().to_owned(),
            host,
            url[url::Position::BeforePath..].to_owned(),
        ))
    };
    parts(endpoint) == parts(wanted)
}

impl Subscription {
    fn endpoint(&self) -> Result<EndpointUrl, Failure> {
        EndpointUrl::parse(&self.endpoint)
            .map_err(|rule| Failure::new(format!("the URL of the receiver {rule}")))
    }

    /// What it is declared with the first time.
    fn spec(&self) -> Result<SubscriptionSpec, Failure> {
        let mut json = self.first.clone();
        let properties = json!({ "endpointUrl": self.endpoint });
        json["destination"] = json!({ "endpointType": "WebHook", "properties": properties });
        let checked = SubscriptionSpec::check(&json).map_err(|error| {
            Failure::because(
                format!("cannot declare the subscription {}", self.name),
                &error,
            )
        })?;
        Ok(checked.spec)
    }
}
