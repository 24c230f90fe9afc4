//! Headers of a delivery (ED-138).

use hedgerow_dialect::event_grid::{DeliveryHeaders, delivery_headers};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cases::{Case, Run, members, run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    subscription: Subscription,
    events: Vec<Event>,
    #[serde(default)]
    attempts_made: u16,
    origin: Option<String>,
    #[serde(default)]
    settings: Settings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Subscription {
    name: String,
    event_delivery_schema: Option<String>,
    destination: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    system_id: String,
    #[serde(rename = "dataVersion")]
    data_version: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(rename = "delivery.subscriptionNameCase")]
    name_case: Option<NameCase>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum NameCase {
    Upper,
    Configured,
}

#[test]
fn delivery_headers_cases() {
    run("delivery_headers", &[], check);
}

fn check(case: &Case) -> Run {
    let input: Input = case.input();
    match input.subscription.event_delivery_schema.as_deref() {
        None | Some("EventGridSchema") => assert!(input.origin.is_none(), "{}", case.id),
        Some("CloudEventSchemaV1_0") => return Run::Skipped("needs CloudEvents (ED-138)"),
        Some(other) => panic!("{}: unknown schema {other}", case.id),
    }
    if input.subscription.destination.is_some() {
        return Run::Skipped("needs batching (ED-139)");
    }
    let [event] = input.events.as_slice() else {
        panic!("{}: one event", case.id)
    };
    let headers = delivery_headers(&DeliveryHeaders {
        subscription_name: &input.subscription.name,
        upper_case_name: input.settings.name_case != Some(NameCase::Configured),
        attempts_made: input.attempts_made,
        data_version: event.data_version.as_deref().unwrap_or_default(),
        system_id: &event.system_id,
    });
    let headers: Map<String, Value> = headers
        .iter()
        .filter(|(name, _)| *name != "user-agent")
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()))
        .collect();
    // The form of the body is that of `encode`; see the convert cases.
    Run::Result(members(json!({ "headers": headers, "body_form": "array" })))
}
