//! What subscriptions ask for.

use std::time::Duration;

use hedgerow_core::time::Timestamp;
use serde_json::{Value, json};

use super::{
    DOMAIN_TOPICS, EVENT_TYPES, EndpointPlan, MINUTE, Plan, SIGNING_SECRET, SUBJECT_HEADER,
    SubscriptionPlan, TopicKind,
};
use crate::dice::Dice;

/// One of the subscriptions of a day.
pub(super) fn subscription(
    seed: u64,
    number: u64,
    kinds: &[TopicKind],
    endpoints: &[EndpointPlan],
    faults: Duration,
) -> SubscriptionPlan {
    let mut dice = Dice::of(&[seed, 6, number]);
    let name = format!("sub{number}");
    let topic = dice.between(0..=kinds.len() as u64 - 1) as usize;
    let endpoint = dice.between(0..=endpoints.len() as u64 - 1) as usize;
    let host = &endpoints[endpoint].host;
    let mut json = json!({
        "destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": Plan::url(host, &name)}},
        "retryPolicy": {
            "maxDeliveryAttempts": dice.pick(&[30, 30, 30, 1, 2, 4, 8]),
            "eventTimeToLiveInMinutes": dice.pick(&[1440, 1440, 1, 2, 10, 60, 240]),
        },
        "responseTimeoutSeconds": dice.pick(&[30, 30, 30, 1, 5, 100, 179, 180, 300]),
        "eventDeliverySchema": dice.pick(&["EventGridSchema", "EventGridSchema", "CloudEventSchemaV1_0"]),
        "probation": {
            "threshold": dice.pick(&[3, 3, 3, 1, 2, 10]),
            "deadLetterOnClientError": dice.percent(10),
        },
        "delayedDelivery": {
            "enabled": dice.percent(70),
            "events": dice.pick(&[10, 10, 1, 3]),
            "firstWindow": dice.pick(&[60, 60, 5]),
            "maxWindow": dice.pick(&[14_400, 600]),
        },
    });
    if dice.percent(50) {
        json["deadLetterDestination"] =
            json!({"endpointType": "LocalDirectory", "properties": {"path": name}});
        json["deadLetter"] = json!({
            "delay": dice.pick(&[300, 300, 0, 3_600]),
            "maxUnavailable": dice.pick(&[14_400, 14_400, 600, 0]),
            "dropIfNotFound": dice.percent(20),
        });
    }
    if dice.percent(15) {
        json["retry"] = dice.pick_value(&[
            json!({"retriableStatuses": [400, 401]}),
            json!({"finalStatuses": [500, 404]}),
            json!({"retriableStatuses": [403, 413]}),
        ]);
    }
    let wants: Vec<&'static str> = match dice.between(0..=3) {
        0 => vec![EVENT_TYPES[0]],
        1 => EVENT_TYPES[1..].to_vec(),
        _ => Vec::new(),
    };
    if !wants.is_empty() {
        json["filter"] = json!({"includedEventTypes": wants});
    }
    batch(seed, number, &mut json);
    ordering(seed, number, &mut json);
    extras(seed, number, &mut json);
    expiration(seed, number, faults, &mut json);
    if kinds[topic] == TopicKind::CloudDomain {
        json["eventDeliverySchema"] = "CloudEventSchemaV1_0".into();
    }
    let named = [None, Some(DOMAIN_TOPICS[0]), Some(DOMAIN_TOPICS[1])];
    let domain_topic = Dice::of(&[seed, 51, number]).pick(&named);
    SubscriptionPlan {
        name,
        topic,
        domain_topic: domain_topic.filter(|_| kinds[topic] != TopicKind::Topic),
        json,
    }
}

/// Some subscriptions want their events together.
fn batch(seed: u64, number: u64, json: &mut Value) {
    let mut dice = Dice::of(&[seed, 14, number]);
    if !dice.percent(45) {
        return;
    }
    let properties = &mut json["destination"]["properties"];
    let is_by_size = dice.percent(40);
    if is_by_size {
        properties["preferredBatchSizeInKilobytes"] = dice.pick(&[1, 1, 2, 4, 64]).into();
    }
    if !is_by_size || dice.percent(60) {
        properties["maxEventsPerBatch"] = dice.pick(&[1, 2, 3, 5, 10, 100]).into();
    }
    json["batch"] = json!({
        "isolateOnFinal": dice.percent(40),
        "splitOn413": dice.percent(60),
        "perEntryAcknowledgement": dice.percent(50),
    });
}

/// Some subscriptions want the events of a key one after the other.
fn ordering(seed: u64, number: u64, json: &mut Value) {
    let mut dice = Dice::of(&[seed, 15, number]);
    if dice.percent(30) {
        json["ordering"] = json!({
            "key": dice.pick(&["subject", "data.order.key"]),
            "onFailure": dice.pick(&["skip", "skip", "block"]),
        });
    }
}

/// Some subscriptions go at a time.
fn expiration(seed: u64, number: u64, faults: Duration, json: &mut Value) {
    let mut dice = Dice::of(&[seed, 19, number]);
    if dice.percent(12) {
        let span = dice.seconds(30 * MINUTE..=faults.as_secs());
        let at = Timestamp::from_millis(crate::START_MS).plus(span);
        json["expirationTimeUtc"] = at.to_string().into();
    }
}

/// Some subscriptions have headers of their own, signatures, or limits.
fn extras(seed: u64, number: u64, json: &mut Value) {
    let mut dice = Dice::of(&[seed, 16, number]);
    if dice.percent(25) {
        json["signing"] = json!({ "secret": SIGNING_SECRET });
    }
    let properties = &mut json["destination"]["properties"];
    if dice.percent(25) {
        properties["deliveryAttributeMappings"] = json!([
            {"name": SUBJECT_HEADER, "type": "Dynamic", "properties": {"sourceField": "subject"}},
        ]);
    }
    if dice.percent(25) {
        properties["maxConcurrency"] = dice.pick(&[1, 2, 5]).into();
    }
    if dice.percent(20) {
        properties["maxRequestsPerSecond"] = dice.pick(&[1, 2, 10]).into();
    }
}

impl Dice {
    fn pick_value(&mut self, among: &[Value]) -> Value {
        among[(self.draw() % among.len() as u64) as usize].clone()
    }
}
