//! What became of an event's deliveries, attempt by attempt (ED-311). Answered from the history, which is lossy.

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::outcome::Outcome;
use hedgerow_delivery::resend::ResendQuery;
use hedgerow_store::history::{HistoryKind, HistoryNext, HistoryRecord};
use hedgerow_store::record::DropReason;
use serde_json::{Value, json};

use super::extract::{Bearer, Names, PageQuery, SourceAnd};
use super::json_body;
use crate::error::ApiError;
use crate::state::SharedApp;

/// Records of an answer at most: the newest ones.
const RECORDS_MAX: usize = 1_000;

pub async fn attempts(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
    Names(event_id): Names<String>,
    query: PageQuery,
) -> Result<Json<Value>, ApiError> {
    query.judge(&grant)?;
    // What became of a topic that is gone is told too, but nothing is kept of the topics of a domain.
    let (topic, subscription) = (query.topic, query.subscription);
    if let Some(topic) = topic.as_ref().filter(|topic| topic.contains('/')) {
        return Err(ApiError::no_topic(topic));
    }
    let is_named = |asked: Option<&String>, name: &str| {
        asked.is_none_or(|asked| asked.eq_ignore_ascii_case(name))
    };
    // Ids are the publishers' own: the same one can be another's, and others' records take no room in the answer.
    let reached = move |record: &HistoryRecord| {
        grant.reaches(&record.topic_name)
            && is_named(topic.as_ref(), &record.topic_name)
            && is_named(subscription.as_ref(), &record.subscription_name)
    };
    let engine = app.engine()?;
    let attempts = engine
        .attempts_where(event_id, RECORDS_MAX, reached)
        .await?;
    let value: Vec<Value> = attempts.records.iter().map(shown).collect();
    Ok(Json(json!({
        "value": value,
        "isTruncated": attempts.is_truncated,
        "knownSince": attempts.known_since.map(|time| time.to_string()),
    })))
}

/// Delivers an event again, to one subscription or to all that it matched.
pub async fn resend(
    State(app): State<SharedApp>,
    SourceAnd(topic, event_id): SourceAnd,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let body = json_body(&app, request).await?;
    let subscription = only(&body)?;
    let (of, id) = (topic.clone(), event_id.clone());
    let query = ResendQuery {
        topic,
        event_id,
        subscription,
    };
    let resent = app.engine()?.resend(query).await?;
    for one in &resent {
        let (subscription, result) = (&one.subscription, one.how.as_str());
        tracing::info!(
            topic = of,
            event_id = id,
            subscription,
            result,
            "asked to be resent"
        );
    }
    let shown = resent
        .iter()
        .map(|one| json!({ "eventSubscription": one.subscription, "result": one.how.as_str() }));
    let value: Vec<Value> = shown.collect();
    Ok(Json(json!({ "eventId": id, "value": value })))
}

/// The one subscription that a body names, if it names one.
fn only(body: &Value) -> Result<Option<String>, ApiError> {
    let members = body
        .as_object()
        .ok_or_else(|| ApiError::member("", "must be an object"))?;
    if let Some(unknown) = members.keys().find(|name| *name != "eventSubscription") {
        return Err(ApiError::member(
            unknown,
            "is no member; known is eventSubscription",
        ));
    }
    match members.get("eventSubscription") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(name.clone())),
        Some(_) => Err(ApiError::member("eventSubscription", "must be a text")),
    }
}

/// One record of the history.
pub(super) fn shown(record: &HistoryRecord) -> Value {
    let (kind, is_attempt) = match record.kind {
        HistoryKind::Attempt | HistoryKind::BatchAttempt(_) => ("Attempt", true),
        HistoryKind::LateSuccess | HistoryKind::BatchLateSuccess(_) => ("LateSuccess", true),
        HistoryKind::BatchDivided(_) => ("BatchDivided", true),
        HistoryKind::EndWithoutAttempt => ("EndWithoutAttempt", false),
        HistoryKind::AttemptWithoutOutcome => ("AttemptWithoutOutcome", true),
        HistoryKind::DeadLetterEnd => ("DeadLetterEnd", false),
        HistoryKind::Resent => ("Resent", false),
    };
    let outcome = record.outcome.map_or("Delivered", Outcome::as_str);
    let (due, reason, written) = match record.next {
        HistoryNext::Delivered | HistoryNext::Purged => (None, None, None),
        HistoryNext::Due(due) => (Some(due.to_string()), None, None),
        HistoryNext::Dead(reason) | HistoryNext::Dropped(reason, _) => {
            (None, Some(reason.as_str()), None)
        }
        HistoryNext::DeadLetter(reason, due) => {
            (None, Some(reason.as_str()), Some(due.to_string()))
        }
        HistoryNext::DeadLettered(reason) => {
            let written = record.ended.to_string();
            (None, Some(reason.as_str()), Some(written))
        }
    };
    let drop_reason = match record.next {
        HistoryNext::Dead(_) => Some(DropReason::NoDeadLetterDestination),
        HistoryNext::Dropped(_, why) => Some(why),
        HistoryNext::Purged => Some(DropReason::Purged),
        _ => None,
    };
    let latency_ms = u64::try_from(record.latency.as_millis()).unwrap_or(u64::MAX);
    let has_latency = is_attempt && record.kind != HistoryKind::AttemptWithoutOutcome;
    let excerpt = record.excerpt.as_ref();
    let mut shown = json!({
        "eventId": record.event_id,
        "topic": record.topic_name,
        "eventSubscription": record.subscription_name,
        "kind": kind,
        "attempt": is_attempt.then_some(record.attempt),
        "batchEvents": record.kind.batch_events(),
        "publishTime": record.published.to_string(),
        "startTime": is_attempt.then(|| record.started.to_string()),
        "endTime": record.ended.to_string(),
        "latencyInMs": has_latency.then_some(latency_ms),
        "outcome": is_attempt.then_some(outcome),
        "httpStatus": (record.status > 0).then_some(record.status),
        "detail": record.detail,
        "responseExcerpt": excerpt.map(|excerpt| excerpt.text.as_str()),
        "responseBytes": excerpt.map(|excerpt| excerpt.body_bytes),
        "nextAttemptTime": due,
        "reason": reason,
        "deadLetterTime": written,
        "dropReason": drop_reason.map(DropReason::as_str),
        "final": !matches!(record.next, HistoryNext::Due(_)),
    });
    if let Some(to) = &record.to {
        shown["origin"] = json!({
            "group": to.group,
            "name": to.origin,
            "address": to.address,
            "mode": to.mode.as_str(),
            "insteadOf": to.instead_of,
        });
    }
    shown
}
