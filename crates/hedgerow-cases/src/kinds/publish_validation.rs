//! `publish_validation`: which publish requests are accepted (ED-030 to ED-047, ED-053, ED-057, ED-058,
//! ED-066, ED-069 to ED-073).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::publish_request::{Given, PublishRequest};
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
    let body = match (&input.body, &input.body_base64, &input.generate) {
        (Some(text), None, None) => text.clone().into_bytes(),
        (None, Some(text), None) => BASE64_STANDARD
            .decode(text)
            .map_err(|error| error.to_string())?,
        (None, None, Some(generate)) => generate.body(),
        _ => return Err("one of body, body_base64 and generate".to_owned()),
    };
    let request = PublishRequest::new(&Given {
        schema: input.schema.as_deref(),
        mapping: input.mapping.as_ref(),
        headers: Some(&input.headers),
        topic_path: input.topic_path.as_deref(),
        domain: input.domain.as_deref(),
        ..Given::default()
    })?;
    let result = match request.read(&body) {
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
        let rest = match self.schema.as_deref() {
            None | Some("EventGridSchema") => {
                r#""subject":"s","eventType":"t","eventTime":"2030-01-02T03:04:05Z""#
            }
            Some("CloudEventSchemaV1_0") => r#""specversion":"1.0","source":"/s","type":"t""#,
            Some(other) => panic!("no events of the schema {other} are generated"),
        };
        let event =
            |padding: usize| format!(r#"{{"id":"1",{rest},"data":"{}"}}"#, "x".repeat(padding));
        let least = event(0).len();
        let brackets_and_commas = if self.single { 0 } else { self.events + 1 };
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
        let body = if self.single {
            assert_eq!(events.len(), 1, "one event stands alone");
            events[0].clone()
        } else {
            format!("[{}]", events.join(","))
        };
        assert!(self.body_bytes.is_none_or(|bytes| body.len() == bytes));
        assert!(
            self.event_bytes
                .is_none_or(|bytes| events[0].len() == bytes)
        );
        body.into_bytes()
    }
}
