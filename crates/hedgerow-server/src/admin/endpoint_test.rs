//! Tests an endpoint: the handshake as it would be made and one test event, with everything that was exchanged; declares and
//! stores nothing (ED-312).

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::name::SubscriptionName;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_delivery::command::Command;
use hedgerow_delivery::dry_run::DryRunQuery;
use hedgerow_delivery::endpoint_test::{EndpointTest, EndpointTestQuery, TestDelivery, TestNext};
use hedgerow_delivery::wire::{Timings, WireAnswer, WireRequest};
use hedgerow_io::chance;
use hedgerow_store::StoredEvent;
use hedgerow_store::catalog::split_source;
use hedgerow_store::record::PackedEvents;
use serde_json::{Map, Value, json};

use super::dry_run::{named, origins_of, shown, shown_handshake};
use super::extract::Source;
use super::json_body;
use super::sample::{Defaults, Sample};
use super::subscriptions::{complete, keep_secrets, profile_of};
use crate::error::ApiError;
use crate::state::{App, SharedApp};

/// The domain topic of a test event for all of a domain.
const DOMAIN_TOPIC: &str = "sample";

pub async fn post(
    State(app): State<SharedApp>,
    Source(topic): Source,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let mut body = json_body(&app, request).await?;
    let Some(members) = body.as_object_mut() else {
        return Err(ApiError::member("", "must be an object"));
    };
    let sample = members.remove("event").filter(|event| !event.is_null());
    let (name, spec) = match members.remove("eventSubscription") {
        None | Some(Value::Null) => given(&app, &topic, body).await?,
        Some(Value::String(name)) => declared(&app, &topic, &name, members).await?,
        Some(_) => return Err(ApiError::member("eventSubscription", "must be a text")),
    };
    let event = event(&app, &topic, sample)?;
    let engine = app.engine()?;
    let mut tried = Vec::new();
    for origin in origins_of(&engine, &spec) {
        let query = EndpointTestQuery {
            endpoint: DryRunQuery {
                topic: topic.clone(),
                name: name.clone(),
                spec: spec.clone(),
                origin: origin.clone(),
            },
            event: event.clone(),
        };
        let test = engine.test_endpoint(query).await?;
        tried.push((origin, shown_test(&spec, &test)));
    }
    Ok(Json(shown(&spec, tried)))
}

/// The endpoint of a subscription that is declared.
async fn declared(
    app: &App,
    topic: &str,
    name: &str,
    members: &Map<String, Value>,
) -> Result<(SubscriptionName, Box<SubscriptionSpec>), ApiError> {
    if let Some(other) = members.keys().next() {
        let message = "is given beside an eventSubscription, which is tested as it is declared";
        return Err(ApiError::member(other, message));
    }
    let get = |answer| Command::Subscription {
        topic: topic.to_owned(),
        name: name.to_owned(),
        answer,
    };
    let found = app.engine()?.ask(get).await?.subscription;
    Ok((found.name.clone(), Box::new(found.declared().clone())))
}

/// One that the request has.
async fn given(
    app: &App,
    topic: &str,
    mut body: Value,
) -> Result<(SubscriptionName, Box<SubscriptionSpec>), ApiError> {
    let name = named(&body)?;
    let engine = app.engine()?;
    complete(app, profile_of(&engine, topic), &mut body);
    keep_secrets(&engine, topic, name.as_str(), &mut body).await?;
    Ok((name, Box::new(SubscriptionSpec::check(&body)?.spec)))
}

/// What is sent: the sample, or one that is made up.
fn event(app: &App, source: &str, sample: Option<Value>) -> Result<StoredEvent, ApiError> {
    let engine = app.engine()?;
    let (of, domain_topic) = split_source(source);
    let topics = engine.topics();
    let topic = topics.get(&of.to_ascii_lowercase());
    let topic = topic.ok_or_else(|| ApiError::no_topic(source))?;
    let published = app.time();
    let defaults = Defaults {
        id: &chance::uuid(),
        now: published,
        domain_topic: domain_topic.unwrap_or(DOMAIN_TOPIC),
    };
    let sample = match sample {
        Some(sample) => Sample::new(&topic.spec, sample, &defaults)?,
        None => Sample::made_up(&topic.spec, &defaults)?,
    };
    let event = sample.event(topic, &mut chance::uuid)?;
    let packed = PackedEvents::pack(&[event]);
    let bytes = packed.get(0).and_then(Result::ok);
    let bytes = bytes.ok_or_else(|| ApiError::member("event", "is none"))?;
    Ok(StoredEvent { published, bytes })
}

fn shown_test(spec: &SubscriptionSpec, test: &EndpointTest) -> Value {
    let handshake = test.handshake.as_ref().map(|handshake| {
        let mut json = shown_handshake(spec, handshake);
        let wire = handshake.wire.as_ref();
        json["request"] = wire.map_or(Value::Null, shown_request);
        json["timings"] = wire.map_or(Value::Null, |wire| shown_timings(&wire.timings));
        json
    });
    json!({
        "handshake": handshake,
        "event": shown_event(test),
    })
}

fn shown_event(test: &EndpointTest) -> Value {
    let Some(delivery) = &test.delivery else {
        let reason = "it is not sent to an endpoint that has not consented";
        return json!({ "result": "NotSent", "message": reason });
    };
    let (result, after, reason) = match delivery.next {
        TestNext::Delivered => ("Delivered", None, None),
        TestNext::Retry { after } => ("Retry", Some(after), None),
        TestNext::Expired { after } => ("TimeToLiveExceeded", Some(after), None),
        TestNext::DeadLettered { reason, after } => ("DeadLettered", Some(after), Some(reason)),
        TestNext::Dropped { reason } => ("Dropped", None, Some(reason)),
    };
    json!({
        "result": result,
        "message": message(delivery),
        "outcome": delivery.outcome.map(Outcome::as_str),
        "afterMs": after.map(milliseconds),
        "deadLetterReason": reason.map(DeadLetterReason::as_str),
        "pausesSubscription": delivery.pauses,
        "request": shown_request(&delivery.wire),
        "answer": delivery.answer.as_ref().map(shown_answer),
        "error": delivery.error,
        "timings": shown_timings(&delivery.wire.timings),
    })
}

/// What a delivery with this answer would come to, in a sentence.
fn message(delivery: &TestDelivery) -> String {
    let outcome = delivery.outcome.map_or("", |outcome| outcome.as_str());
    let what = match delivery.next {
        TestNext::Delivered => return "an event with this answer is delivered".to_owned(),
        TestNext::Retry { after } => format!("is tried again in about {} s", seconds(after)),
        TestNext::Expired { after } => {
            let seconds = seconds(after);
            format!("expires: the next attempt would be in {seconds} s, after its time to live")
        }
        TestNext::DeadLettered { reason, after } => {
            let (seconds, reason) = (seconds(after), reason.as_str());
            format!("is dead-lettered in {seconds} s: {reason}")
        }
        TestNext::Dropped { reason } => format!(
            "is dropped, for there is no dead-letter destination: {}",
            reason.as_str()
        ),
    };
    let mut message = format!("an event with this outcome, {outcome}, {what}");
    if let Some(entry) = &delivery.entry {
        message.push_str("; ");
        message.push_str(entry);
    }
    if delivery.pauses {
        message.push_str("; the subscription is paused");
    }
    message
}

fn shown_request(wire: &WireRequest) -> Value {
    match &wire.sent {
        None => Value::Null,
        Some(sent) => json!({
            "line": sent.line,
            "headers": shown_headers(&sent.headers),
            "body": sent.body,
            "isCut": sent.is_cut,
        }),
    }
}

fn shown_answer(answer: &WireAnswer) -> Value {
    json!({
        "status": answer.status,
        "headers": shown_headers(&answer.headers),
        "body": answer.body,
        "isCut": answer.is_cut,
    })
}

fn shown_headers(headers: &[(String, String)]) -> Vec<Value> {
    let header = |(name, value): &(String, String)| json!({ "name": name, "value": value });
    headers.iter().map(header).collect()
}

fn shown_timings(timings: &Timings) -> Value {
    json!({
        "nameMs": timings.name.map(milliseconds),
        "connectMs": timings.connect.map(milliseconds),
        "tlsMs": timings.tls.map(milliseconds),
        "firstByteMs": timings.first_byte.map(milliseconds),
        "totalMs": timings.total.map(milliseconds),
    })
}

/// To the microsecond: on loopback all of it may be less than a millisecond.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// For a sentence; `afterMs` has it exactly.
fn seconds(time: Duration) -> u64 {
    (time + Duration::from_millis(500)).as_secs()
}
