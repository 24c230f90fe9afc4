//! Filters by event type and subject (ED-084, ED-086 to ED-090), and what of a filter is accepted.

use hedgerow_core::filter::Filter;
use hedgerow_core::spec::FilterSpec;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::cases::{Case, Run, members, run};

const ADVANCED: &str = "needs advanced filters (ED-091 to ED-118)";

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

#[test]
fn filter_cases() {
    run("filter", &[], check_match);
}

fn check_match(case: &Case) -> Run {
    let input: Input = case.input();
    // Looked at before the rest, which may hold numbers that no float holds.
    let advanced: Advanced = serde_json::from_str(input.filter.get()).unwrap();
    if advanced.filters.is_some() {
        return Run::Skipped(ADVANCED);
    }
    let filter: Value = serde_json::from_str(input.filter.get()).unwrap();
    let text = input
        .event
        .as_ref()
        .map_or(input.event_text.as_deref(), |raw| Some(raw.get()));
    let event: Event = serde_json::from_str(text.expect("an event")).unwrap();
    let event_type = match input.schema.as_deref() {
        None | Some("EventGridSchema") => event.grid_type,
        Some("CloudEventSchemaV1_0") => event.cloud_type,
        Some(other) => panic!("{}: unknown schema {other}", case.id),
    };
    let filter = Filter::new(&FilterSpec::check(&filter, "").unwrap());
    let subject = event.subject.unwrap_or_default();
    let matched = filter.matches(&event_type.unwrap_or_default(), &subject);
    Run::Result(members(json!({
        "matched": matched.is_ok(),
        "failed": matched.err().map(|clause| clause.to_string()),
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigInput {
    filter: Value,
    #[serde(default)]
    #[allow(dead_code)] // Only with advanced filters.
    settings: Option<Value>,
}

#[test]
fn filter_config_cases() {
    run("filter_config", &[], check_config);
}

fn check_config(case: &Case) -> Run {
    let input: ConfigInput = case.input();
    if input.filter.get("advancedFilters").is_some() {
        return Run::Skipped(ADVANCED);
    }
    Run::Result(match FilterSpec::check(&input.filter, "") {
        Ok(_) => members(json!({ "accepted": true, "operators": [] })),
        Err(error) => members(json!({ "accepted": false, "status": 400, "field": error.field })),
    })
}
