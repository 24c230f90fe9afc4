//! Dead letters: those that wait to be written (ED-248), listed from the moment of the decision, and the blobs of those that were.

use axum::Json;
use axum::extract::State;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::{DeadLetterInfo, DeadLetterPlace, DeadLetterQuery};
use hedgerow_delivery::written_letters::WrittenBlob;
use serde_json::{Value, json};

use super::extract::{Bearer, Names, PageQuery};
use crate::error::ApiError;
use crate::state::SharedApp;

pub async fn list(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
    page: PageQuery,
) -> Result<Json<Value>, ApiError> {
    page.judge(&grant)?;
    let query = DeadLetterQuery {
        after: page.after(|text| place(text).map(Some))?,
        topic: page.topic,
        subscription: page.subscription,
        limit: page.limit,
    };
    let page = app.engine()?.dead_letters(query).await?;
    let letters = page.letters.iter();
    let reached = letters.filter(|letter| grant.reaches(&letter.topic_name));
    let value: Vec<Value> = reached.map(shown).collect();
    let next = page.next.map(|place| {
        format!(
            "{}-{}-{}",
            place.subscription.0,
            place.due.as_millis(),
            place.seq
        )
    });
    Ok(Json(json!({ "value": value, "next": next })))
}

/// The blobs of a subscription, in the order of time.
pub async fn written(
    State(app): State<SharedApp>,
    Names((topic, subscription)): Names<(String, String)>,
    page: PageQuery,
) -> Result<Json<Value>, ApiError> {
    page.refuse_names()?;
    let engine = app.engine()?;
    let page = engine
        .written_letters(topic, subscription, page.after, page.limit)
        .await?;
    let value: Vec<Value> = page.blobs.iter().map(shown_blob).collect();
    Ok(Json(json!({ "value": value, "next": page.next })))
}

/// What stands in one of them.
pub async fn records(
    State(app): State<SharedApp>,
    Names((topic, subscription, blob)): Names<(String, String, String)>,
) -> Result<Json<Value>, ApiError> {
    let engine = app.engine()?;
    let found = engine.written_records(topic, subscription, blob).await?;
    let records = found.records.iter();
    let records: Vec<Value> = records
        .filter_map(|record| serde_json::from_str(record).ok())
        .collect();
    let mut json = shown_blob(&found.blob);
    json["records"] = json!(records);
    Ok(Json(json))
}

fn shown_blob(blob: &WrittenBlob) -> Value {
    json!({
        "blob": blob.uuid,
        "name": blob.name,
        "bytes": blob.bytes,
        "writtenTime": blob.written.to_string(),
    })
}

fn place(text: &str) -> Option<DeadLetterPlace> {
    let mut parts = text.split('-');
    let mut part = || parts.next()?.parse::<u64>().ok();
    let (subscription, due, seq) = (part()?, part()?, part()?);
    Some(DeadLetterPlace {
        subscription: SubscriptionId(subscription.try_into().ok()?),
        due: Timestamp::from_millis(due),
        seq,
    })
}

fn shown(info: &DeadLetterInfo) -> Value {
    let letter = &info.letter;
    let progress = letter.progress;
    json!({
        "topic": info.topic_name,
        "eventSubscription": info.subscription_name,
        "eventId": info.event_id,
        "reason": letter.reason.as_str(),
        "deliveryAttempts": progress.map_or(0, |progress| progress.attempts),
        "lastDeliveryOutcome": progress.map(|progress| progress.last_outcome.as_str()),
        "publishTime": letter.published.to_string(),
        "decidedTime": letter.decided.to_string(),
        "writeTime": info.place.due.to_string(),
        "failedWrites": letter.write.failed,
        "firstFailedWriteTime": letter.write.first_failed.map(|time| time.to_string()),
    })
}
