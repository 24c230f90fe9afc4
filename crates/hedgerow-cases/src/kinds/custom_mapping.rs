//! `custom_mapping`: which mappings are accepted, and what they make of an event (ED-048 to ED-055, ED-071).

use hedgerow_core::spec::TopicSpec;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    mapping: Value,
    event_text: Option<String>,
    // The rest is for events.
    #[allow(dead_code)]
    topic_path: Option<String>,
    #[allow(dead_code)]
    domain: Option<String>,
    #[allow(dead_code)]
    publish_time: Option<String>,
    #[allow(dead_code)]
    generated_id: Option<String>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    if input.event_text.is_some() {
        return Ok(Run::LeftOut("needs custom schemas (ED-051 to ED-055)"));
    }
    let topic = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "inputSchemaMappingType": "Json", "properties": input.mapping },
    });
    Ok(Run::result(match TopicSpec::check(&topic) {
        Ok(_) => json!({ "accepted": true }),
        Err(error) => json!({ "accepted": false, "status": 400, "field": error.field }),
    }))
}
