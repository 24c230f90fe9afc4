//! `publish_validation`: which publish requests are accepted (ED-030 to ED-047, ED-057, ED-058, ED-066).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hedgerow_dialect::event_grid::{Request, decode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    schema: Option<String>,
    #[serde(default)]
    headers: Map<String, Value>,
    topic_path: Option<String>,
    domain: Option<String>,
    mapping: Option<Value>,
    body: Option<String>,
    body_base64: Option<String>,
    generate: Option<Generate>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Generate {
    #[serde(default = "one")]
    events: usize,
    event_bytes: Option<usize>,
    body_bytes: Option<usize>,
    schema: Option<String>,
    #[serde(default)]
    single: bool,
}

fn one() -> usize {
    1
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    match input.schema.as_deref() {
        None | Some("EventGridSchema") => assert!(input.mapping.is_none()),
        Some("CloudEventSchemaV1_0") => {
            return Ok(Run::LeftOut("needs CloudEvents (ED-034 to ED-047)"));
        }
        Some("CustomEventSchema") => {
            return Ok(Run::LeftOut("needs custom schemas (ED-048 to ED-053)"));
        }
        Some(other) => return Err(format!("unknown schema {other}")),
    }
    if input.domain.is_some() {
        return Ok(Run::LeftOut("needs domains (ED-069 to ED-073)"));
    }
    let body = match (&input.body, &input.body_base64, &input.generate) {
        (Some(text), None, None) => text.clone().into_bytes(),
        (None, Some(text), None) => BASE64_STANDARD
            .decode(text)
            .map_err(|error| error.to_string())?,
        (None, None, Some(generate)) => generate.body(),
        _ => return Err("one of body, body_base64 and generate".to_owned()),
    };
    let content_type = input
        .headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let request = Request {
        content_type: content_type.and_then(|(_, value)| value.as_str()),
        topic_path: input.topic_path.as_deref().unwrap_or("/topics/orders"),
    };
    let result = match decode(&body, &request) {
        Ok(events) => json!({ "status": 200, "accepted": events.len() }),
        Err(error) => {
            let failing: Vec<_> = error
                .details
                .iter()
                .filter_map(|detail| detail.index)
                .collect();
            json!({
                "status": error.status().as_u16(),
                "accepted": 0,
                "code": error.code.as_str(),
                "failing": failing,
            })
        }
    };
    Ok(Run::result(result))
}

impl Generate {
    fn body(&self) -> Vec<u8> {
        assert!(
            self.schema.is_none() && !self.single,
            "only for CloudEvents"
        );
        let event = |padding: usize| {
            let rest = r#""subject":"s","eventType":"t","eventTime":"2030-01-02T03:04:05Z""#;
            format!(r#"{{"id":"1",{rest},"data":"{}"}}"#, "x".repeat(padding))
        };
        let least = event(0).len();
        let brackets_and_commas = self.events + 1;
        let padding = match (self.event_bytes, self.body_bytes) {
            (Some(bytes), None) => vec![bytes - least; self.events],
            (None, Some(bytes)) => {
                let all = bytes - brackets_and_commas - least * self.events;
                let each = all / self.events;
                let mut padding = vec![each; self.events];
                padding[0] += all - each * self.events;
                padding
            }
            (None, None) => vec![0; self.events],
            _ => panic!("one of event_bytes and body_bytes"),
        };
        let events: Vec<String> = padding.into_iter().map(event).collect();
        let body = format!("[{}]", events.join(","));
        assert!(self.body_bytes.is_none_or(|bytes| body.len() == bytes));
        assert!(
            self.event_bytes
                .is_none_or(|bytes| events[0].len() == bytes)
        );
        body.into_bytes()
    }
}
