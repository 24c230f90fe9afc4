//! Deliveries that ended undelivered, with the reason.

use axum::Json;
use axum::extract::State;
use hedgerow_delivery::command::{Command, TerminalQuery};
use hedgerow_store::view::{Disposition, TerminalRecord};
use serde_json::{Value, json};

use super::extract::{Bearer, PageQuery};
use crate::error::ApiError;
use crate::state::SharedApp;

pub async fn list(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
    page: PageQuery,
) -> Result<Json<Value>, ApiError> {
    page.judge(&grant)?;
    let query = TerminalQuery {
        after: page.after(|text| text.parse().ok())?,
        topic: page.topic,
        subscription: page.subscription,
        limit: page.limit,
    };
    let page = app
        .engine()?
        .ask(|answer| Command::TerminalRecords { query, answer })
        .await?;
    let value: Vec<Value> = page
        .records
        .iter()
        .filter(|(_, record)| grant.reaches(&record.topic_name))
        .map(|(_, record)| shown(record))
        .collect();
    Ok(Json(
        json!({ "value": value, "next": page.next.map(|next| next.to_string()) }),
    ))
}

fn shown(record: &TerminalRecord) -> Value {
    let progress = record.progress;
    let status = progress
        .map(|progress| progress.last_status)
        .filter(|status| *status > 0);
    let attempted = progress.filter(|progress| progress.attempts > 0);
    let (disposition, drop_reason) = match record.disposition {
        Disposition::DeadLettered => ("DeadLettered", None),
        Disposition::Dropped(reason) => ("Dropped", Some(reason.as_str())),
    };
    json!({
        "topic": record.topic_name,
        "eventSubscription": record.subscription_name,
        "eventId": record.event_id,
        "eventType": record.event_type,
        "subject": record.subject,
        "reason": record.reason.as_str(),
        "deliveryAttempts": progress.map_or(0, |progress| progress.attempts),
        "lastDeliveryOutcome": progress.map(|progress| progress.last_outcome.as_str()),
        "lastHttpStatusCode": status,
        "publishTime": record.published.to_string(),
        "lastDeliveryAttemptTime": attempted.map(|progress| progress.last_attempt.to_string()),
        "decidedTime": record.decided.to_string(),
        "disposition": disposition,
        "dropReason": drop_reason,
    })
}
