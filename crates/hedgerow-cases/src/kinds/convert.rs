//! `convert`: what a published event looks like when it is delivered (ED-037, ED-039, ED-042, ED-047, ED-056,
//! ED-072, ED-130 to ED-137).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hedgerow_core::spec::{DeliverySchema, InputSchema};
use hedgerow_dialect::delivery::{self, Form};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::publish_request::{Given, PublishRequest};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    from: String,
    to: String,
    event_text: Option<String>,
    topic_path: Option<String>,
    domain: Option<String>,
    headers: Option<Map<String, Value>>,
    body: Option<String>,
    body_base64: Option<String>,
    mapping: Option<Value>,
    publish_time: Option<String>,
    generated_id: Option<String>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let from = InputSchema::ALL
        .into_iter()
        .find(|schema| schema.as_str() == input.from)
        .ok_or("unknown input schema")?;
    let schema = DeliverySchema::named(&input.to).ok_or("unknown delivery schema")?;
    if schema.check_for(from, None).is_err() {
        // What the admin API answers to a declaration that cannot be accepted.
        return Ok(Run::result(json!({ "accepted": false, "status": 400 })));
    }
    let body = body(&input)?;
    let request = PublishRequest::new(&Given {
        schema: Some(&input.from),
        mapping: input.mapping.as_ref(),
        headers: input.headers.as_ref(),
        topic_path: input.topic_path.as_deref(),
        domain: input.domain.as_deref(),
        publish_time: input.publish_time.as_deref(),
        generated_id: input.generated_id.as_deref(),
    })?;
    let events = request.read(&body).map_err(|error| format!("{error:?}"))?;
    let (event, topic_path) = &events[0];
    let delivered = delivery::body(schema, event, topic_path, request.publish_time());
    let delivered = std::str::from_utf8(&delivered).map_err(|error| error.to_string())?;
    let text = match delivery::form(schema, false) {
        Form::Array => delivered
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .ok_or("no array")?,
        Form::Object => delivered,
    };
    let (data_text, members_but_data) = parts(text).map_err(|error| error.to_string())?;
    Ok(Run::result(json!({
        "accepted": true,
        "text": text,
        "members": members_but_data,
        "data_text": data_text,
    })))
}

/// The body of the request that publishes the event.
fn body(input: &Input) -> Result<Vec<u8>, String> {
    if let Some(text) = &input.event_text {
        let is_alone = input.from == "CloudEventSchemaV1_0";
        let body = if is_alone {
            text.clone()
        } else {
            format!("[{text}]")
        };
        return Ok(body.into_bytes());
    }
    match (&input.body, &input.body_base64) {
        (Some(text), None) => Ok(text.clone().into_bytes()),
        (None, Some(text)) => BASE64_STANDARD.decode(text).map_err(|e| e.to_string()),
        _ => Err("one of event_text, body and body_base64".to_owned()),
    }
}

/// The data as text, and all other members.
pub fn parts(event: &str) -> serde_json::Result<(Option<String>, Map<String, Value>)> {
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        data: Option<&'a RawValue>,
    }
    let data: Data<'_> = serde_json::from_str(event)?;
    let mut members: Map<String, Value> = serde_json::from_str(event)?;
    members.remove("data");
    Ok((data.data.map(|data| data.get().to_owned()), members))
}

/// `null` is data too.
fn present<'a, D: serde::Deserializer<'a>>(json: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(json).map(Some)
}
