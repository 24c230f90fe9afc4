//! `delivery_headers`: headers of a delivery (ED-138).

use hedgerow_dialect::event_grid::{DeliveryHeaders, delivery_headers};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::table::{Case, Run};

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

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    match input.subscription.event_delivery_schema.as_deref() {
        None | Some("EventGridSchema") => assert!(input.origin.is_none()),
        Some("CloudEventSchemaV1_0") => return Ok(Run::LeftOut("needs CloudEvents (ED-138)")),
        Some(other) => return Err(format!("unknown schema {other}")),
    }
    if input.subscription.destination.is_some() {
        return Ok(Run::LeftOut("needs batching (ED-139)"));
    }
    let [event] = input.events.as_slice() else {
        return Err("not one event".to_owned());
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
        .map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into(),
            )
        })
        .collect();
    // The form of the body is that of `encode`; see the convert cases.
    Ok(Run::result(
        json!({ "headers": headers, "body_form": "array" }),
    ))
}
