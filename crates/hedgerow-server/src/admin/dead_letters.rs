//! Dead letters that wait to be written (ED-248): listed from the moment of the decision. Those that were written are terminal
//! records.

use axum::Json;
use axum::extract::State;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::{DeadLetterInfo, DeadLetterPlace, DeadLetterQuery};
use serde_json::{Value, json};

use super::extract::Parameters;
use super::terminal_records::{invalid, number};
use crate::error::ApiError;
use crate::state::SharedApp;

/// Dead letters of a page, if the request does not say it, and at most.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

pub async fn list(
    State(app): State<SharedApp>,
    Parameters(parameters): Parameters,
) -> Result<Json<Value>, ApiError> {
    let page = app.engine()?.dead_letters(query(parameters)?).await?;
    let value: Vec<Value> = page.letters.iter().map(shown).collect();
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

fn query(parameters: Vec<(String, String)>) -> Result<DeadLetterQuery, ApiError> {
    let mut query = DeadLetterQuery {
        limit: LIMIT_DEFAULT,
        ..DeadLetterQuery::default()
    };
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in parameters {
        if seen.contains(&name) {
            return Err(invalid(&name, "stands twice in the query"));
        }
        match name.as_str() {
            "topic" => query.topic = Some(value),
            "eventSubscription" => query.subscription = Some(value),
            "after" => {
                let place = place(&value);
                query.after =
                    Some(place.ok_or_else(|| invalid("after", "must be the next of a page"))?);
            }
            "limit" => query.limit = number(&name, &value, 1..=LIMIT_MAX)?,
            _ => {
                let known = "is no parameter; known are topic, eventSubscription, after and limit";
                return Err(invalid(&name, known));
            }
        }
        seen.push(name);
    }
    if query.subscription.is_some() && query.topic.is_none() {
        return Err(invalid("eventSubscription", "needs the parameter topic"));
    }
    Ok(query)
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
