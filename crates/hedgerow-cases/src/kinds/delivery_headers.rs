//! `delivery_headers`: headers of a delivery (ED-132, ED-138, ED-139).

use hedgerow_core::spec::DeliverySchema;
use hedgerow_dialect::delivery::{
    CommonText, Content, DeliveryHeaders, Form, ResolvedHeaders, form, headers,
};
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
    #[serde(default)]
    destination: Destination,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Destination {
    max_events_per_batch: Option<u32>,
    preferred_batch_size_in_kilobytes: Option<u32>,
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
    let schema = match input.subscription.event_delivery_schema.as_deref() {
        None => DeliverySchema::default(),
        Some(name) => {
            DeliverySchema::named(name).ok_or_else(|| format!("unknown schema {name}"))?
        }
    };
    let destination = &input.subscription.destination;
    let is_batched = destination.max_events_per_batch.is_some()
        || destination.preferred_batch_size_in_kilobytes.is_some();
    let mut version = CommonText::default();
    for event in &input.events {
        version.note(event.data_version.as_deref().unwrap_or_default());
    }
    let content = match &input.events[..] {
        [event] if !is_batched => Content::One {
            system_id: &event.system_id,
            data_version: event.data_version.as_deref(),
        },
        events => Content::Batch {
            events: events.len(),
            data_version: version.get(),
        },
    };
    let headers = headers(&DeliveryHeaders {
        schema,
        subscription_name: &input.subscription.name,
        upper_case_name: input.settings.name_case != Some(NameCase::Configured),
        attempts_made: input.attempts_made,
        origin: input.origin.as_deref(),
        content,
        traceparent: None,
        custom: &ResolvedHeaders::none(),
        is_signed: false,
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
    let body_form = match form(schema, is_batched) {
        Form::Array => "array",
        Form::Object => "object",
    };
    Ok(Run::result(
        json!({ "headers": headers, "body_form": body_form }),
    ))
}
