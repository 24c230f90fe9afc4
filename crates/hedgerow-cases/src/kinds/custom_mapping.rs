//! `custom_mapping`: which mappings are accepted, and what they make of an event (ED-048 to ED-055, ED-071).

use hedgerow_core::spec::{DeliverySchema, InputSchema, TopicSpec};
use hedgerow_dialect::delivery;
use serde::Deserialize;
use serde_json::{Value, json};

use super::convert::parts;
use crate::publish_request::{Given, PublishRequest, topic_spec};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    mapping: Value,
    event_text: Option<String>,
    topic_path: Option<String>,
    domain: Option<String>,
    publish_time: Option<String>,
    generated_id: Option<String>,
}

const SCHEMA: &str = InputSchema::CustomEventSchema.as_str();

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let Some(event_text) = &input.event_text else {
        let topic = topic_spec(SCHEMA, Some(&input.mapping));
        return Ok(Run::result(match TopicSpec::check(&topic) {
            Ok(_) => json!({ "accepted": true }),
            Err(error) => json!({ "accepted": false, "status": 400, "field": error.field }),
        }));
    };
    let request = PublishRequest::new(&Given {
        schema: Some(SCHEMA),
        mapping: Some(&input.mapping),
        topic_path: input.topic_path.as_deref(),
        domain: input.domain.as_deref(),
        publish_time: input.publish_time.as_deref(),
        generated_id: input.generated_id.as_deref(),
        ..Given::default()
    })?;
    let body = format!("[{event_text}]");
    let events = match request.read(body.as_bytes()) {
        Ok(events) => events,
        Err(error) => {
            let status = error.status().as_u16();
            return Ok(Run::result(json!({ "accepted": false, "status": status })));
        }
    };
    let (event, topic) = &events[0];
    let schema = DeliverySchema::EventGridSchema;
    let delivered = delivery::body(schema, event, topic, request.publish_time());
    let delivered = std::str::from_utf8(&delivered).map_err(|error| error.to_string())?;
    let alone = delivered
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .ok_or("no array")?;
    let (data_text, envelope) = parts(alone).map_err(|error| error.to_string())?;
    Ok(Run::result(
        json!({ "accepted": true, "envelope": envelope, "data_text": data_text }),
    ))
}
