//! `batch`: which events travel in one request, and what an answer means for them (ED-132, ED-211 to ED-221).

use std::collections::BTreeMap;

use hedgerow_core::batch::{Alike, Division, Filling, Offer, divide};
use hedgerow_core::outcome::{Floors, Met, Overrides, Verdict, classify};
use hedgerow_core::spec::{BatchSpec, DeliverySchema, SubscriptionSpec};
use hedgerow_dialect::delivery::{Form, form};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::read_values::Kind;
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    destination: Map<String, Value>,
    schema: Option<String>,
    #[serde(default = "webhook")]
    kind: Kind,
    #[serde(default)]
    settings: Map<String, Value>,
    events: Vec<Event>,
    answer: Option<Answer>,
}

fn webhook() -> Kind {
    Kind::W
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Event {
    name: String,
    bytes: usize,
    #[serde(default)]
    attempts: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    status: u16,
}

/// The events of one request, and the bytes of its body.
struct Body<'e> {
    events: Vec<&'e Event>,
    bytes: usize,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let schema = match input.schema.as_deref() {
        None => DeliverySchema::default(),
        Some(name) => {
            DeliverySchema::named(name).ok_or_else(|| format!("unknown schema {name}"))?
        }
    };
    let spec = declared(&input)?;
    let bodies = bodies(&spec, schema, &input.events);
    let mut result = json!({
        "form": if spec.limits().is_some() { "batch" } else { "single" },
        "bodies": groups(
            bodies.iter().map(|body| names(&body.events)).collect(),
            case.expect.get("bodies"),
        ),
        "body_bytes": sorted(bodies.iter().map(|body| body.bytes).collect()),
    });
    if let Some(answer) = &input.answer {
        let (after, requeued) = answered(&spec, &input, answer, &bodies);
        result["after"] = after;
        result["requeued"] = groups(requeued, case.expect.get("requeued"));
    }
    Ok(Run::result(result))
}

/// What the declaration says, as the server reads it.
fn declared(input: &Input) -> Result<BatchSpec, String> {
    let mut properties = input.destination.clone();
    properties.insert("endpointUrl".to_owned(), json!("https://example.com/hook"));
    let mut declared = json!({
        "destination": { "endpointType": "WebHook", "properties": properties },
        "batch": {},
    });
    for (name, value) in &input.settings {
        match name.strip_prefix("batch.") {
            Some(member) => declared["batch"][member] = value.clone(),
            None => return Err(format!("unknown setting {name}")),
        }
    }
    let checked = SubscriptionSpec::check(&declared).map_err(|error| error.to_string())?;
    Ok(checked.spec.batch)
}

/// Forms requests, one after the other, until nothing is due.
fn bodies<'e>(spec: &BatchSpec, schema: DeliverySchema, events: &'e [Event]) -> Vec<Body<'e>> {
    let Some(limits) = spec.limits() else {
        let brackets = match form(schema, false) {
            Form::Array => "[]".len(),
            Form::Object => 0,
        };
        let single = events.iter().map(|event| Body {
            events: vec![event],
            bytes: brackets + event.bytes,
        });
        return single.collect();
    };
    let mut due: Vec<&Event> = events.iter().collect();
    let mut bodies = Vec::new();
    while !due.is_empty() {
        let mut filling = Filling::new(limits);
        let mut joined = Vec::new();
        let mut left = Vec::new();
        let mut is_closed = false;
        for event in due {
            let alike = Alike {
                attempts: event.attempts,
                group: None,
                headers: &event.headers,
            };
            let offer = if is_closed {
                Offer::Full
            } else {
                filling.offer(alike, event.bytes)
            };
            is_closed |= offer == Offer::Full;
            match offer {
                Offer::Joins => joined.push(event),
                Offer::PassedOver | Offer::Full => left.push(event),
            }
        }
        bodies.push(Body {
            events: joined,
            bytes: filling.bytes(),
        });
        due = left;
    }
    bodies
}

/// What every event is after every request got this answer, and which go out together next.
fn answered(
    spec: &BatchSpec,
    input: &Input,
    answer: &Answer,
    bodies: &[Body<'_>],
) -> (Value, Vec<Vec<String>>) {
    let met = Met::Response {
        status: answer.status,
        retry_after: None,
    };
    let overrides = Overrides::default();
    let verdict = classify(input.kind.into(), &met, &overrides, &Floors::default());
    let mut after = Map::new();
    let mut requeued = Vec::new();
    for body in bodies {
        let division = divide(&spec.answers, body.events.len(), &verdict);
        for event in &body.events {
            after.insert(event.name.clone(), state(event, &verdict, division));
        }
        let parts = division.map(|division| division.parts(body.events.len()));
        for part in parts.into_iter().flatten() {
            requeued.push(names(&body.events[part]));
        }
    }
    (Value::Object(after), requeued)
}

fn state(event: &Event, verdict: &Verdict, division: Option<Division>) -> Value {
    let counted = event.attempts + 1;
    match (division, verdict) {
        (Some(Division::OneByOne), _) => json!({"state": "due_alone", "attempts": event.attempts}),
        (Some(Division::Halves), _) => json!({"state": "due_split", "attempts": event.attempts}),
        (None, Verdict::Success) => json!({"state": "delivered", "attempts": counted}),
        (None, Verdict::Retry { outcome, .. }) => {
            json!({"state": "waiting", "attempts": counted, "outcome": outcome.as_str()})
        }
        (None, Verdict::Final { reason, .. }) => {
            json!({"state": "final", "attempts": counted, "reason": reason.as_str()})
        }
    }
}

fn names(events: &[&Event]) -> Vec<String> {
    let mut names: Vec<_> = events.iter().map(|event| event.name.clone()).collect();
    names.sort();
    names
}

/// Groups of names. Their order does not count (ED-002): it is the expected one if they are the same.
fn groups(mut groups: Vec<Vec<String>>, expected: Option<&Value>) -> Value {
    let read = |expected: &Value| serde_json::from_value(expected.clone()).ok();
    let mut same: Vec<Vec<String>> = expected.and_then(read).unwrap_or_default();
    for group in &mut same {
        group.sort();
    }
    same.sort();
    groups.sort();
    match expected {
        Some(expected) if same == groups => expected.clone(),
        _ => json!(groups),
    }
}

fn sorted(mut numbers: Vec<usize>) -> Vec<usize> {
    numbers.sort_unstable();
    numbers
}
