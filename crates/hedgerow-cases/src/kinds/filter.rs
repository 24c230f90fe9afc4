//! `filter`: whether a filter wants an event, and which clause says no (ED-083 to ED-115).

use hedgerow_core::filter::Filter;
use hedgerow_core::spec::FilterSpec;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::table::{Case, Run};

pub(super) const ADVANCED: &str = "needs advanced filters (ED-091 to ED-118)";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    schema: Option<String>,
    event: Option<Box<RawValue>>,
    event_text: Option<String>,
    filter: Box<RawValue>,
    #[serde(default)]
    #[allow(dead_code)] // Only with advanced filters.
    settings: Option<Value>,
}

#[derive(Deserialize)]
struct Advanced {
    #[serde(rename = "advancedFilters")]
    filters: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "eventType")]
    grid_type: Option<String>,
    #[serde(rename = "type")]
    cloud_type: Option<String>,
    subject: Option<String>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    // Looked at before the rest, which may hold numbers that no float holds.
    let advanced: Advanced = parse(input.filter.get())?;
    if advanced.filters.is_some() {
        return Ok(Run::LeftOut(ADVANCED));
    }
    let filter: Value = parse(input.filter.get())?;
    let text = input
        .event
        .as_ref()
        .map_or(input.event_text.as_deref(), |raw| Some(raw.get()));
    let event: Event = parse(text.ok_or("no event")?)?;
    let event_type = match input.schema.as_deref() {
        None | Some("EventGridSchema") => event.grid_type,
        Some("CloudEventSchemaV1_0") => event.cloud_type,
        Some(other) => return Err(format!("unknown schema {other}")),
    };
    let filter = Filter::new(&FilterSpec::check(&filter, "").map_err(|error| error.to_string())?);
    let subject = event.subject.unwrap_or_default();
    let matched = filter.matches(&event_type.unwrap_or_default(), &subject);
    Ok(Run::result(json!({
        "matched": matched.is_ok(),
        "failed": matched.err().map(|clause| clause.to_string()),
    })))
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
