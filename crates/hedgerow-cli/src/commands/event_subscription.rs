//! `hedgerow event-subscription`: who gets which events. Its options have the names, meanings and bounds that users of
//! the vendor's command line know (ED-322).

pub mod advanced_filter;
mod advice;
mod confirm;
mod delivery_attribute;
mod repeated;
pub(super) mod settings;
mod signing;
mod test_endpoint;
mod test_filter;
mod validate;

use clap::{Args, Subcommand};
use hedgerow_core::name::SubscriptionName;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use self::advice::advice;
use self::settings::Settings;
use self::signing::Rotate;
use self::test_endpoint::TestEndpoint;
use self::test_filter::TestFilter;
use self::validate::Validate;
use super::ServerOptions;
use super::source::SourceTopic;
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
    /// Makes a subscription; one of the same name is declared anew and keeps its id. Exits with 3 if it is declared, and not in
    /// force because its endpoint has not consented yet.
    Create {
        #[command(flatten)]
        place: Place,
        /// The URL that events are posted to.
        #[arg(long, value_name = "URL")]
        endpoint: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Changes what is given and keeps the rest. Exits with 3 if the change is declared, and waits for the endpoint's consent.
    Update {
        #[command(flatten)]
        place: Place,
        /// The URL that events are posted to; without it, the present one.
        #[arg(long, value_name = "URL")]
        endpoint: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Shows a subscription and how it is doing.
    Show {
        #[command(flatten)]
        place: Place,
        /// Shows the whole URL of the endpoint too. Its query is a secret.
        #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value = "false", default_missing_value = "true")]
        include_full_endpoint_url: bool,
    },
    /// Asks an endpoint as its handshake would, and declares nothing: says what each step came to. Exits with 1 unless the
    /// endpoint consents.
    Validate(Validate),
    /// Tries a filter on a sample event, and declares nothing: says what each clause found. Exits with 1 unless the event is
    /// wanted.
    TestFilter(TestFilter),
    /// Tests an endpoint: makes the handshake as it would be made, sends one test event, and shows all that was exchanged. Declares
    /// and stores nothing. Exits with 1 unless the event is delivered.
    TestEndpoint(TestEndpoint),
    /// Lists the subscriptions of a topic.
    List(Source),
    /// Deletes a subscription and everything owed to it.
    Delete(Place),
    /// Attempts nothing until it is resumed. What is due meanwhile is held, without counting attempts; its time to live goes
    /// on.
    Pause(Place),
    /// Goes on with a subscription that was paused.
    Resume(Place),
    /// Ends what holds a subscription: its probation, and delayed delivery at its endpoint.
    Reset(Place),
    /// Makes a new secret that what is sent is signed with, and prints it, this once. The present one holds besides for a while, so
    /// that receivers can change theirs.
    RotateSigningSecret(Rotate),
    /// Drops everything that is pending: what waits for its first attempt, for another one, or for the end of what holds it.
    /// It cannot be taken back.
    Purge {
        #[command(flatten)]
        place: Place,
        /// Does not ask first. Without a terminal nothing is asked.
        #[arg(long, short = 'y')]
        yes: bool,
    },
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
    /// The topic: its name, or its full resource id; `domains/DOMAIN` for everything of a domain, `domains/DOMAIN/topics/TOPIC`
    /// for one topic of a domain. `$deadletter`, or the resource id of the storage account, tells of dead letters that were
    /// written.
    #[arg(
        long = "source-resource-id",
        visible_alias = "resource-id",
        value_name = "TOPIC"
    )]
    topic: SourceTopic,
}

impl Source {
    fn path(&self) -> String {
        format!("{}/eventSubscriptions", self.topic.path)
    }
}

const LIST: [Column; 11] = [
    ("NAME", "/name"),
    ("ENDPOINT", "/destination/properties/endpointBaseUrl"),
    ("STATE", "/provisioningState"),
    ("MATCHED", "/status/matched"),
    ("DELIVERED", "/status/delivered"),
    ("DEAD-LETTERED", "/status/deadLettered"),
    ("DROPPED", "/status/dropped"),
    ("PENDING", "/status/pending"),
    ("IN FLIGHT", "/status/inFlight"),
    ("HOLD", "/status/hold/state"),
    ("NEXT DUE", "/status/nextDue"),
];

/// Shown only if it was asked for, behind the endpoint.
const FULL_ENDPOINT: Column = ("full endpoint", "/destination/properties/endpointUrl");
const FULL_ENDPOINT_AT: usize = 5;

const ONE: [Column; 57] = [
    ("name", "/name"),
    ("id", "/id"),
    ("topic", "/topic"),
    ("state", "/provisioningState"),
    ("endpoint", "/destination/properties/endpointBaseUrl"),
    ("allowed requests a minute", "/allowedRequestsPerMinute"),
    ("update's state", "/update/provisioningState"),
    (
        "update's endpoint",
        "/update/destination/properties/endpointBaseUrl",
    ),
    (
        "minimum TLS version",
        "/destination/properties/minimumTlsVersionAllowed",
    ),
    ("max concurrency", "/destination/properties/maxConcurrency"),
    (
        "max requests per second",
        "/destination/properties/maxRequestsPerSecond",
    ),
    ("delivery schema", "/eventDeliverySchema"),
    (
        "delivery attribute mappings",
        "/destination/properties/deliveryAttributeMappings",
    ),
    ("signing secret", "/signing/secret"),
    (
        "previous signing secret valid until",
        "/signing/previousSecretValidUntil",
    ),
    ("included event types", "/filter/includedEventTypes"),
    ("subject begins with", "/filter/subjectBeginsWith"),
    ("subject ends with", "/filter/subjectEndsWith"),
    ("subject case sensitive", "/filter/isSubjectCaseSensitive"),
    ("advanced filters", "/filter/advancedFilters"),
    ("expires", "/expirationTimeUtc"),
    ("labels", "/labels"),
    ("max delivery attempts", "/retryPolicy/maxDeliveryAttempts"),
    (
        "event ttl, minutes",
        "/retryPolicy/eventTimeToLiveInMinutes",
    ),
    ("final statuses", "/retry/finalStatuses"),
    ("retriable statuses", "/retry/retriableStatuses"),
    ("disable on gone", "/retry/disableOnGone"),
    ("response timeout, seconds", "/responseTimeoutSeconds"),
    (
        "max events per batch",
        "/destination/properties/maxEventsPerBatch",
    ),
    (
        "preferred batch size, kilobytes",
        "/destination/properties/preferredBatchSizeInKilobytes",
    ),
    ("batch isolate on final", "/batch/isolateOnFinal"),
    ("batch split on 413", "/batch/splitOn413"),
    (
        "batch per-entry acknowledgement",
        "/batch/perEntryAcknowledgement",
    ),
    ("ordering key", "/ordering/key"),
    ("ordering on failure", "/ordering/onFailure"),
    (
        "batches answered within, 95 %, ms",
        "/status/batches/responseTime95PercentInMs",
    ),
    ("batches' problem", "/status/batches/warning"),
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
    ("open attempts", "/status/limits/openAttempts"),
    (
        "open attempts at the endpoint, limit",
        "/status/limits/endpoint/openAttemptsLimit",
    ),
    ("hold", "/status/hold/state"),
    ("held back because of", "/status/hold/cause"),
    ("held back since", "/status/hold/since"),
    ("held back until", "/status/hold/until"),
    ("next trial", "/status/hold/nextTrial"),
    ("held events", "/status/hold/held"),
    ("next due", "/status/nextDue"),
];

impl EventSubscriptionCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::Create {
                place,
                endpoint,
                settings,
            } => {
                let body = settings.declare(Some(endpoint))?;
                declare(&client, Method::PUT, &place, &body, format).await
            }
            Action::Update {
                place,
                endpoint,
                settings,
            } => {
                let body = settings.declare(endpoint)?;
                if body == json!({}) {
                    return Err(Failure::new("nothing to change is given").with_hint(
                        "`hedgerow event-subscription update --help` lists what there is",
                    ));
                }
                declare(&client, Method::PATCH, &place, &body, format).await
            }
            Action::Show {
                place,
                include_full_endpoint_url,
            } => {
                let mut shown = client.admin(Method::GET, &place.path(), None).await?.body;
                let mut columns = ONE.to_vec();
                if include_full_endpoint_url {
                    columns.insert(FULL_ENDPOINT_AT, FULL_ENDPOINT);
                    let path = format!("{}/getFullUrl", place.path());
                    let full = client.admin(Method::POST, &path, None).await?.body;
                    shown["destination"]["properties"]["endpointUrl"] = full["endpointUrl"].clone();
                }
                output::one(&shown, &columns, format);
                if let Some(advice) = advice(&shown) {
                    output::error_line(&advice);
                }
                Ok(())
            }
            Action::TestFilter(test) => test.run(&client, format).await,
            Action::TestEndpoint(test) => test.run(client, format).await,
            Action::Validate(validate) => validate.run(&client, format).await,
            Action::List(source) => {
                let reply = client.admin(Method::GET, &source.path(), None).await?;
                output::list(&output::by_name(super::value(&reply.body)?), &LIST, format);
                Ok(())
            }
            Action::Delete(place) => {
                client.admin(Method::DELETE, &place.path(), None).await?;
                let sentence = format!("event subscription {} deleted", place.name);
                output::done(&sentence, &super::deleted(place.name.as_str()), format);
                Ok(())
            }
            Action::Pause(place) => {
                let sentence = format!("event subscription {} paused", place.name);
                operate(&client, &place, "pause", &sentence, format).await
            }
            Action::Resume(place) => {
                let sentence = format!("event subscription {} resumed", place.name);
                operate(&client, &place, "resume", &sentence, format).await
            }
            Action::Reset(place) => {
                let path = format!("{}/reset", place.path());
                let reply = client.admin(Method::POST, &path, None).await?;
                output::done(&was_reset(&place, &reply.body), &reply.body, format);
                Ok(())
            }
            Action::RotateSigningSecret(rotate) => rotate.run(&client, format).await,
            Action::Purge { place, yes } => {
                let what = format!(
                    "everything pending for event subscription {} of {} is dropped",
                    place.name, place.source.topic.name
                );
                if !yes && !confirm::agrees(&what)? {
                    return Err(Failure::new("nothing was purged"));
                }
                let path = format!("{}/purge", place.path());
                let reply = client.admin(Method::POST, &path, None).await?;
                output::done(&purged(&place, &reply.body), &reply.body, format);
                Ok(())
            }
        }
    }
}

/// What a purge dropped, in a sentence.
fn purged(place: &Place, report: &Value) -> String {
    let count = |member: &str| report[member].as_u64().unwrap_or_default();
    let (skipped, in_flight) = (count("skipped"), count("inFlight"));
    let passed_over = match skipped {
        0 => String::new(),
        skipped => format!(", {skipped} events of the topic passed over unread"),
    };
    let last_ones = match in_flight {
        0 => String::new(),
        in_flight => format!("; {in_flight} attempts still run, and are the last ones"),
    };
    let (name, dropped) = (&place.name, count("dropped"));
    format!("event subscription {name} purged: {dropped} dropped{passed_over}{last_ones}")
}

/// What a reset ended, and for whom, in a sentence.
fn was_reset(place: &Place, answer: &Value) -> String {
    let text =
        |value: &Value, member: &str| output::printable(value[member].as_str().unwrap_or_default());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of = |ended: &Value| {
        let cause = text(ended, "cause");
        if ended["state"] != "Delayed" {
            return format!("its probation after {cause} is ended");
        }
        let held = list(&ended["eventSubscriptions"]);
        let held = held
            .iter()
            .map(|held| format!("{}/{}", text(held, "topic"), text(held, "name")));
        let held = held.collect::<Vec<_>>().join(", ");
        format!("delayed delivery to its endpoint is ended, for {held}")
    };
    let name = &place.name;
    let ended: Vec<_> = list(&answer["ended"]).iter().map(of).collect();
    let ended = if ended.is_empty() {
        format!("nothing held event subscription {name} back, nothing was ended")
    } else {
        format!("event subscription {name} reset: {}", ended.join("; "))
    };
    let still = if answer["isPaused"] == true {
        "; it is still paused"
    } else {
        ""
    };
    format!("{ended}{still}")
}

async fn operate(
    client: &Client,
    place: &Place,
    verb: &str,
    sentence: &str,
    format: Format,
) -> Result<(), Failure> {
    let path = format!("{}/{verb}", place.path());
    let reply = client.admin(Method::POST, &path, None).await?;
    output::done(sentence, &reply.body, format);
    Ok(())
}

async fn declare(
    client: &Client,
    method: Method,
    place: &Place,
    body: &Value,
    format: Format,
) -> Result<(), Failure> {
    let reply = client.admin(method, &place.path(), Some(body)).await?;
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
        place.source.topic.name,
        output::printable(endpoint)
    );
    output::done(&sentence, &reply.body, format);
    super::show_warnings(&reply.body);
    // Last, where it is seen: nothing is delivered yet.
    advice(&reply.body).map_or(Ok(()), |advice| Err(Failure::not_in_force(advice)))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_change_says_what_is_given_and_nothing_else() {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            settings: Settings,
        }
        let declared = |words: &[&str], endpoint: Option<&str>| {
            let line = Line::try_parse_from(std::iter::once(&"x").chain(words)).unwrap();
            let endpoint = endpoint.map(str::to_owned);
            line.settings.declare(endpoint).unwrap()
        };
        assert_eq!(declared(&[], None), json!({}));
        let more = [
            "--response-timeout=20",
            "--final-statuses",
            "404",
            "410",
            "--retriable-statuses",
            "--disable-on-gone",
            "--probation-threshold=5",
            "--probation-deadletter-on-client-error=true",
            "--delayed-delivery=false",
            "--delayed-delivery-events=20",
            "--delayed-delivery-first-window=30",
            "--delayed-delivery-max-window=600",
        ];
        let expected = json!({
            "responseTimeoutSeconds": 20,
            "retry": {"finalStatuses": [404, 410], "retriableStatuses": [], "disableOnGone": true},
            "probation": {"threshold": 5, "deadLetterOnClientError": true},
            "delayedDelivery": {"enabled": false, "events": 20, "firstWindow": 30, "maxWindow": 600},
        });
        assert_eq!(declared(&more, None), expected);
        let words = [
            "--included-event-types",
            "--subject-ends-with",
            ".jpg",
            "--max-delivery-attempts",
            "3",
            "--advanced-filter",
            "data.n",
            "NumberGreaterThan",
            "-5",
            "--advanced-filter",
            "subject",
            "StringIn",
            "a",
            "b",
            "--labels",
            "x",
            "y",
            "--deadletter-endpoint",
            "--deadletter-delay",
            "0",
            "--max-events-per-batch",
            "1000",
        ];
        let expected = json!({
            "destination": {"endpointType": "WebHook", "properties": {
                "endpointUrl": "http://127.0.0.1:1/new", "maxEventsPerBatch": 1000,
            }},
            "filter": {
                "includedEventTypes": null,
                "subjectEndsWith": ".jpg",
                "advancedFilters": [
                    {"operatorType": "NumberGreaterThan", "key": "data.n", "value": -5},
                    {"operatorType": "StringIn", "key": "subject", "values": ["a", "b"]},
                ],
            },
            "retryPolicy": {"maxDeliveryAttempts": 3},
            "deadLetter": {"delay": 0},
            "deadLetterDestination": null,
            "labels": ["x", "y"],
        });
        assert_eq!(declared(&words, Some("http://127.0.0.1:1/new")), expected);
        let none = json!({"filter": {"advancedFilters": null}});
        assert_eq!(declared(&["--advanced-filter"], None), none);
    }
}
