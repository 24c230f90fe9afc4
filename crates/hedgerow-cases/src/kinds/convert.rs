//! `convert`: what a published event looks like when it is delivered (ED-039, ED-040, ED-042, ED-133).

use hedgerow_core::spec::{DeliverySchema, InputSchema};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::delivery::{self, Form};
use hedgerow_dialect::event_grid::{Request, decode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::read_values::timestamp;
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    from: String,
    to: String,
    event_text: Option<String>,
    topic_path: Option<String>,
    domain: Option<String>,
    // The rest is for other schemas.
    #[allow(dead_code)]
    headers: Option<Value>,
    #[allow(dead_code)]
    body: Option<String>,
    #[allow(dead_code)]
    body_base64: Option<String>,
    #[allow(dead_code)]
    mapping: Option<Value>,
    publish_time: Option<String>,
    #[allow(dead_code)]
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
    if from != InputSchema::EventGridSchema {
        return Ok(Run::LeftOut("needs other schemas (ED-037 to ED-056)"));
    }
    if input.domain.is_some() {
        return Ok(Run::LeftOut("needs domains (ED-072)"));
    }
    let body = format!("[{}]", input.event_text.ok_or("no event_text")?);
    let topic_path = input.topic_path.ok_or("no topic_path")?;
    let published = match &input.publish_time {
        Some(time) => timestamp(time)?,
        None => Timestamp::ZERO,
    };
    let request = Request {
        content_type: None,
        topic_path: &topic_path,
    };
    let events = decode(body.as_bytes(), &request).map_err(|error| format!("{error:?}"))?;
    let delivered = delivery::body(schema, &events[0], &topic_path, published);
    let delivered = std::str::from_utf8(&delivered).map_err(|error| error.to_string())?;
    let event = match delivery::form(schema, false) {
        Form::Array => delivered
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .ok_or("no array")?,
        Form::Object => delivered,
    };
    let (data_text, members_but_data) = parts(event).map_err(|error| error.to_string())?;
    Ok(Run::result(json!({
        "accepted": true,
        "members": members_but_data,
        "data_text": data_text,
    })))
}

/// The data as text, and all other members.
fn parts(event: &str) -> serde_json::Result<(Option<String>, Map<String, Value>)> {
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
