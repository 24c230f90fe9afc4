//! Deliveries that ended undelivered, with the reason.

use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use hedgerow_delivery::command::{Command, TerminalQuery};
use hedgerow_store::view::{Disposition, TerminalRecord};
use serde_json::{Value, json};

use super::extract::Parameters;
use crate::error::ApiError;
use crate::state::SharedApp;

/// Records of a page, if the request does not say it.
const LIMIT_DEFAULT: usize = 100;
/// Records of a page at most.
const LIMIT_MAX: usize = 1000;

pub async fn list(
    State(app): State<SharedApp>,
    Parameters(parameters): Parameters,
) -> Result<Json<Value>, ApiError> {
    let query = query(parameters)?;
    let page = app
        .engine()?
        .ask(|answer| Command::TerminalRecords { query, answer })
        .await?;
    let value: Vec<Value> = page
        .records
        .iter()
        .map(|(_, record)| shown(record))
        .collect();
    Ok(Json(
        json!({ "value": value, "next": page.next.map(|next| next.to_string()) }),
    ))
}

fn query(parameters: Vec<(String, String)>) -> Result<TerminalQuery, ApiError> {
    let mut query = TerminalQuery {
        limit: LIMIT_DEFAULT,
        ..TerminalQuery::default()
    };
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in parameters {
        if seen.contains(&name) {
            return Err(invalid(&name, "stands twice in the query"));
        }
        match name.as_str() {
            "topic" => query.topic = Some(value),
            "eventSubscription" => query.subscription = Some(value),
            "after" => query.after = number(&name, &value, 0..=u64::MAX)?,
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

pub(super) fn number<T: FromStr + PartialOrd + std::fmt::Display>(
    name: &str,
    text: &str,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, ApiError> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let rule = format!(
            "must be a whole number from {} to {}",
            range.start(),
            range.end()
        );
        invalid(name, &rule)
    })
}

pub(super) fn invalid(name: &str, message: &str) -> ApiError {
    ApiError::invalid(
        format!("{name}: {message}"),
        "correct the query of the request",
    )
}

fn shown(record: &TerminalRecord) -> Value {
    let progress = record.progress;
    let status = progress
        .map(|progress| progress.last_status)
        .filter(|status| *status > 0);
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
        "lastDeliveryAttemptTime": progress.map(|progress| progress.last_attempt.to_string()),
        "decidedTime": record.decided.to_string(),
        "disposition": disposition,
        "dropReason": drop_reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_queries_are_refused() {
        let parse = |text: &str| {
            let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
            query(
                pairs
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
            )
        };
        for text in ["", "topic=orders&eventSubscription=a&after=7&limit=1000"] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in [
            "limit=0",
            "limit=1001",
            "limit=x",
            "after=-1",
            "after=",
            "topics=orders",
            "topic=a&topic=b",
            "eventSubscription=a",
        ] {
            assert!(parse(text).is_err(), "{text} is accepted");
        }
    }
}
