//! Events that wait to be written to the dead-letter store (ED-248): listed from the moment of the decision.

use axum::Json;
use axum::extract::{Query, State};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::PendingEvent;
use serde::Deserialize;
use serde_json::{Value, json};

use super::extract::Names;
use crate::error::ApiError;
use crate::state::SharedApp;

const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// How the page is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// `next` of the page before.
    after: Option<String>,
    limit: Option<usize>,
}

pub async fn list(
    State(app): State<SharedApp>,
    Names((topic, name)): Names<(String, String)>,
    page: Result<Query<Page>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let refused =
        |what: &str| ApiError::invalid(what.to_owned(), "correct the query of the request");
    let Query(page) = page.map_err(|error| refused(&error.body_text()))?;
    let limit = page.limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(refused("limit: must be a whole number from 1 to 1000"));
    }
    let after = match &page.after {
        None => (Timestamp::ZERO, 0),
        Some(text) => {
            parse_after(text).ok_or_else(|| refused("after: must be the next of a page"))?
        }
    };
    let engine = app.engine()?;
    let events = engine
        .pending_dead_letters(topic, name, after, limit)
        .await?;
    let next = events
        .last()
        .filter(|_| events.len() == limit)
        .map(|last| format!("{}-{}", last.due.as_millis(), last.seq));
    let value: Vec<Value> = events.iter().map(shown).collect();
    Ok(Json(json!({ "value": value, "next": next })))
}

fn parse_after(text: &str) -> Option<(Timestamp, u64)> {
    let (due, seq) = text.split_once('-')?;
    Some((Timestamp::from_millis(due.parse().ok()?), seq.parse().ok()?))
}

fn shown(event: &PendingEvent) -> Value {
    let pending = &event.pending;
    let progress = pending.progress;
    json!({
        "eventId": event.event_id,
        "eventType": event.event_type,
        "subject": event.subject,
        "reason": pending.reason.as_str(),
        "deliveryAttempts": progress.map_or(0, |progress| progress.attempts),
        "lastDeliveryOutcome": progress.map(|progress| progress.last_outcome.as_str()),
        "publishTime": pending.published.to_string(),
        "decidedTime": pending.decided.to_string(),
        "writeDueTime": event.due.to_string(),
        "failedWrites": pending.write.failed,
        "firstFailedWriteTime": pending.write.first_failed.map(|time| time.to_string()),
    })
}
