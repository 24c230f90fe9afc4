//! The options of `create` and `update`, under the names of the vendor's command line and with its bounds (ED-322), and the
//! declaration that they make.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::{ArgAction, Args};
use hedgerow_core::limits;
use hedgerow_core::spec::{DeliverySchema, OnFailure};
use serde_json::{Value, json};

use super::advanced_filter::AdvancedFilters;
use super::delivery_attribute::DeliveryAttributes;
use crate::failure::Failure;

/// What a subscription wants and how it gets it. What is not given keeps its value, or its default.
#[derive(Debug, Args)]
pub(super) struct Settings {
    /// The form in which events are sent: `EventGridSchema` (by default), `CloudEventSchemaV1_0` or `CustomInputSchema`. It
    /// never changes.
    #[arg(long, value_name = "SCHEMA", value_parser = delivery_schema)]
    pub event_delivery_schema: Option<DeliverySchema>,
    /// The oldest version of TLS that is spoken with the endpoint: 1.2 (by default) or 1.3.
    #[arg(long, value_name = "VERSION")]
    pub minimum_tls_version_allowed: Option<String>,
    /// A file with certificates in PEM that are trusted as roots for the endpoint beside the server's; without a value, none.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "", value_parser = certificates)]
    pub extra_ca_certificates: Option<Certificates>,
    /// Requests that the endpoint gets at a time at most, 1 to 10000; without a value, as many as it is found to take.
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true, value_parser = concurrency)]
    pub max_concurrency: Option<Limit>,
    /// Requests that it gets in a second at most, 1 to 10000; without a value, any number.
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true, value_parser = requests_per_second)]
    pub max_requests_per_second: Option<Limit>,
    #[command(flatten)]
    pub delivery_attributes: DeliveryAttributes,
    /// A secret that what is sent is signed with, `whsec_` and base64; without a value, nothing is signed. It stands in the
    /// history of the shell; `rotate-signing-secret` makes one that does not.
    #[arg(long, value_name = "SECRET", num_args = 0..=1, default_missing_value = "")]
    pub signing_secret: Option<String>,
    /// Only events of these types; without a value, of all types.
    #[arg(long, value_name = "TYPE", num_args = 0.., action = ArgAction::Append)]
    pub included_event_types: Option<Vec<String>>,
    /// Only events whose subject begins so.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub subject_begins_with: Option<String>,
    /// Only events whose subject ends so.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub subject_ends_with: Option<String>,
    /// Whether these two look at case.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub subject_case_sensitive: Option<bool>,
    #[command(flatten)]
    pub advanced_filters: AdvancedFilters,
    /// Whether advanced filters look into arrays.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub enable_advanced_filtering_on_arrays: Option<bool>,
    /// When the subscription is deleted, with what is owed to it: as in 2030-01-02T03:04:05Z, or a day, which begins at midnight UTC;
    /// without a value, never.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "")]
    pub expiration_date: Option<String>,
    /// Labels, for people; without a value, none.
    #[arg(long, value_name = "LABEL", num_args = 0.., action = ArgAction::Append)]
    pub labels: Option<Vec<String>>,
    /// Attempts after which an event is given up, 1 to 30; 30 by default.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = attempts)]
    pub max_delivery_attempts: Option<u16>,
    /// Minutes after which an event is given up, 1 to 1440; 1440 by default.
    #[arg(long, value_name = "MINUTES", allow_negative_numbers = true, value_parser = minutes)]
    pub event_ttl: Option<u32>,
    /// Seconds that the endpoint has to answer, 1 to 300; the server's setting by default, which is 30.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = response_timeout)]
    pub response_timeout: Option<u32>,
    /// Answers that end an event at once, beside those that do anyway: 205 to 599; without a value, none.
    #[arg(long, value_name = "STATUS", num_args = 0.., action = ArgAction::Append)]
    pub final_statuses: Option<Vec<u16>>,
    /// Answers after which an event is tried again, though it would end; without a value, none.
    #[arg(long, value_name = "STATUS", num_args = 0.., action = ArgAction::Append)]
    pub retriable_statuses: Option<Vec<u16>>,
    /// Whether an answer 410 pauses the subscription until `resume`; not by default.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub disable_on_gone: Option<bool>,
    /// Failures of one kind in a row that begin a probation, 1 to 100; the server's setting by default, which is 3.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = threshold)]
    pub probation_threshold: Option<u32>,
    /// Whether what is due during a probation after a client error is given up at once.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub probation_deadletter_on_client_error: Option<bool>,
    /// Whether deliveries wait while their endpoint fails; they do by default.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub delayed_delivery: Option<bool>,
    /// Events that have to fail at the endpoint before they do; the server's setting by default, which is 10.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = delayed_events)]
    pub delayed_delivery_events: Option<u32>,
    /// Seconds that they wait at first; the server's setting by default, which is 60.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = window)]
    pub delayed_delivery_first_window: Option<u32>,
    /// Seconds that they wait at most; the server's setting by default, which is 14400.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = window)]
    pub delayed_delivery_max_window: Option<u32>,
    /// Events that are sent together at most, 1 to 5000; one at a time by default, and 10 if only the size is given. A batch
    /// succeeds or fails as a whole: ask for no more than the endpoint handles within its timeout. Without a value, as if it were
    /// not given: events go alone if the size is not given either.
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true, value_parser = batch_events)]
    pub max_events_per_batch: Option<Limit>,
    /// Kilobytes that are preferably sent together, 1 to 1024; 64 if only the count is given. An event that is larger goes alone.
    /// Without a value, as if it were not given.
    #[arg(long, value_name = "KILOBYTES", num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true, value_parser = batch_kilobytes)]
    pub preferred_batch_size_in_kilobytes: Option<Limit>,
    /// Whether the events of a batch that failed for good are sent again one by one; not by default.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub batch_isolate_on_final: Option<bool>,
    /// Whether a batch that is answered 413 is sent again in two halves; not by default.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub batch_split_on_413: Option<bool>,
    /// Whether a success may name events of its batch that failed, in its `batchItemFailures`; not by default.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub batch_per_entry_acknowledgement: Option<bool>,
    /// What orders events: `subject`, or a path into the data such as `data.customer.id`. Those with one key are sent one after
    /// the other; without a value, none are.
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "")]
    pub ordering_key: Option<String>,
    /// What becomes of a key whose event fails for good: `skip` (by default) ends the event and sends the next one, `block` tries
    /// it again for as long as it takes.
    #[arg(long, value_name = "WHAT")]
    pub ordering_on_failure: Option<OnFailure>,
    /// Where events that are given up are written: a directory below the server's setting `dead_letter.directory`; without
    /// a value, nowhere.
    #[arg(long, value_name = "DIRECTORY", num_args = 0..=1, default_missing_value = "")]
    pub deadletter_endpoint: Option<String>,
    /// Seconds after which they are written, 0 to 3600; the server's setting by default, which is 300.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = delay)]
    pub deadletter_delay: Option<u32>,
    /// Seconds for which a directory that cannot be written to is waited for, up to 604800, and 0 for ever; the server's
    /// setting by default, which is 14400.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = unavailable)]
    pub deadletter_max_unavailable: Option<u32>,
    /// Whether an event is dropped at once if the directory is missing.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub deadletter_drop_if_not_found: Option<bool>,
    /// Whether the subscription is refused if the directory cannot be written to now.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub deadletter_require_reachable: Option<bool>,
}

impl Settings {
    /// The declaration of what is given, and of nothing else. As a change, `null` takes a member back to its default.
    pub fn declare(self, endpoint: Option<String>) -> Result<Value, Failure> {
        let mut body = self.signing();
        let held_and_tried = self.held_and_tried();
        let attributes = self.delivery_attributes.to_json()?;
        let webhook = self.webhook(endpoint).into_iter();
        for (name, value) in webhook.chain([("deliveryAttributeMappings", attributes)]) {
            if let Some(value) = value {
                body["destination"]["endpointType"] = json!("WebHook");
                body["destination"]["properties"][name] = value;
            }
        }
        let filters = self.advanced_filters.to_json()?;
        let given = [
            (
                "filter",
                "includedEventTypes",
                self.included_event_types.as_deref().map(list_or_all),
            ),
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
            ("filter", "advancedFilters", filters),
            (
                "filter",
                "enableAdvancedFilteringOnArrays",
                self.enable_advanced_filtering_on_arrays.map(Value::from),
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
        for (group, name, value) in given.into_iter().chain(held_and_tried) {
            if let Some(value) = value {
                body[group][name] = value;
            }
        }
        match self.ordering_key.as_deref() {
            Some("") => body["ordering"] = Value::Null,
            Some(key) => body["ordering"]["key"] = json!(key),
            None => {}
        }
        if let Some(what) = self.ordering_on_failure {
            body["ordering"]["onFailure"] = json!(what.as_str());
        }
        if let Some(seconds) = self.response_timeout {
            body["responseTimeoutSeconds"] = json!(seconds);
        }
        if let Some(schema) = self.event_delivery_schema {
            body["eventDeliverySchema"] = json!(schema.as_str());
        }
        if let Some(endpoint) = self.deadletter_endpoint {
            body["deadLetterDestination"] = dead_letter_destination(&endpoint);
        }
        if let Some(time) = self.expiration_date {
            body["expirationTimeUtc"] = expiration(&time);
        }
        if let Some(labels) = self.labels {
            body["labels"] = json!(labels);
        }
        Ok(body)
    }

    /// What is given of signatures. The secret before goes with the one that it belongs to.
    fn signing(&self) -> Value {
        match self.signing_secret.as_deref() {
            None => json!({}),
            Some("") => json!({ "signing": null }),
            Some(secret) => json!({ "signing": { "secret": secret, "previousSecret": null,
                "previousSecretValidUntil": null } }),
        }
    }

    /// What is given of the endpoint: a member of its properties, and its value.
    fn webhook(&self, endpoint: Option<String>) -> [(&'static str, Option<Value>); 7] {
        [
            ("endpointUrl", endpoint.map(Value::from)),
            (
                "minimumTlsVersionAllowed",
                self.minimum_tls_version_allowed.clone().map(Value::from),
            ),
            (
                "extraCaCertificates",
                self.extra_ca_certificates
                    .as_ref()
                    .map(|text| json!(text.0)),
            ),
            (
                "maxConcurrency",
                self.max_concurrency.map(|limit| json!(limit.0)),
            ),
            (
                "maxRequestsPerSecond",
                self.max_requests_per_second.map(|limit| json!(limit.0)),
            ),
            (
                "maxEventsPerBatch",
                self.max_events_per_batch.map(|limit| json!(limit.0)),
            ),
            (
                "preferredBatchSizeInKilobytes",
                self.preferred_batch_size_in_kilobytes
                    .map(|limit| json!(limit.0)),
            ),
        ]
    }

    /// What is given of how an attempt is judged and when none are made: group, member and value.
    fn held_and_tried(&self) -> [(&'static str, &'static str, Option<Value>); 12] {
        [
            (
                "retry",
                "finalStatuses",
                self.final_statuses.as_deref().map(Value::from),
            ),
            (
                "retry",
                "retriableStatuses",
                self.retriable_statuses.as_deref().map(Value::from),
            ),
            (
                "retry",
                "disableOnGone",
                self.disable_on_gone.map(Value::from),
            ),
            (
                "probation",
                "threshold",
                self.probation_threshold.map(Value::from),
            ),
            (
                "probation",
                "deadLetterOnClientError",
                self.probation_deadletter_on_client_error.map(Value::from),
            ),
            (
                "delayedDelivery",
                "enabled",
                self.delayed_delivery.map(Value::from),
            ),
            (
                "delayedDelivery",
                "events",
                self.delayed_delivery_events.map(Value::from),
            ),
            (
                "delayedDelivery",
                "firstWindow",
                self.delayed_delivery_first_window.map(Value::from),
            ),
            (
                "delayedDelivery",
                "maxWindow",
                self.delayed_delivery_max_window.map(Value::from),
            ),
            (
                "batch",
                "isolateOnFinal",
                self.batch_isolate_on_final.map(Value::from),
            ),
            (
                "batch",
                "splitOn413",
                self.batch_split_on_413.map(Value::from),
            ),
            (
                "batch",
                "perEntryAcknowledgement",
                self.batch_per_entry_acknowledgement.map(Value::from),
            ),
        ]
    }
}

/// A day begins at midnight UTC.
fn expiration(time: &str) -> Value {
    match time.len() {
        0 => Value::Null,
        10 => Value::from(format!("{time}T00:00:00Z")),
        _ => Value::from(time),
    }
}

fn list_or_all(types: &[String]) -> Value {
    if types.is_empty() {
        Value::Null
    } else {
        json!(types)
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

/// What a file of certificates says; `None` for none.
#[derive(Debug, Clone)]
pub(super) struct Certificates(Option<String>);

fn certificates(path: &str) -> Result<Certificates, String> {
    if path.is_empty() {
        return Ok(Certificates(None));
    }
    let text = std::fs::read_to_string(path);
    text.map(|text| Certificates(Some(text)))
        .map_err(|error| format!("cannot read {path}: {error}"))
}

/// A limit that is given, or `None` to have none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit(Option<u32>);

fn concurrency(text: &str) -> Result<Limit, String> {
    limit(text, &limits::MAX_CONCURRENCY)
}

fn requests_per_second(text: &str) -> Result<Limit, String> {
    limit(text, &limits::MAX_REQUESTS_PER_SECOND)
}

fn limit<T>(text: &str, range: &RangeInclusive<T>) -> Result<Limit, String>
where
    T: FromStr + PartialOrd + Display + Into<u32>,
{
    if text.is_empty() || text == "none" {
        return Ok(Limit(None));
    }
    bounded(text, range).map(|count| Limit(Some(count.into())))
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

pub fn attempts(text: &str) -> Result<u16, String> {
    bounded(text, &limits::DELIVERY_ATTEMPTS)
}

pub fn minutes(text: &str) -> Result<u32, String> {
    bounded(text, &limits::TIME_TO_LIVE_MINUTES)
}

fn response_timeout(text: &str) -> Result<u32, String> {
    bounded(text, &limits::RESPONSE_TIMEOUT_SECONDS)
}

fn threshold(text: &str) -> Result<u32, String> {
    bounded(text, &limits::PROBATION_THRESHOLD)
}

fn delayed_events(text: &str) -> Result<u32, String> {
    bounded(text, &limits::DELAYED_DELIVERY_EVENTS)
}

fn window(text: &str) -> Result<u32, String> {
    bounded(text, &limits::DELAYED_DELIVERY_WINDOW_SECONDS)
}

fn batch_events(text: &str) -> Result<Limit, String> {
    limit(text, &limits::BATCH_EVENTS)
}

fn batch_kilobytes(text: &str) -> Result<Limit, String> {
    limit(text, &limits::BATCH_KILOBYTES)
}

/// An integer within its bounds; the error names them, and `clap` adds the option and the value.
pub(super) fn bounded<T>(text: &str, range: &RangeInclusive<T>) -> Result<T, String>
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
