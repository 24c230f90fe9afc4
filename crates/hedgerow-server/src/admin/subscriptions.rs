//! Event subscriptions: what they want, and how they are doing.

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::name::SubscriptionName;
use hedgerow_core::spec::{SubscriptionSpec, Warning};
use hedgerow_delivery::command::{Command, SubscriptionInfo};
use http::StatusCode;
use serde_json::{Value, json};

use super::extract::Names;
use super::json_body;
use crate::error::ApiError;
use crate::state::SharedApp;

pub async fn put(
    State(app): State<SharedApp>,
    Names((topic, name)): Names<(String, String)>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let name: SubscriptionName = name.parse()?;
    let mut body = json_body(&app, request).await?;
    if let Some(members) = body.as_object_mut() {
        let timeout = members
            .entry("responseTimeoutSeconds")
            .or_insert(Value::Null);
        if timeout.is_null() {
            *timeout = json!(app.response_timeout.as_secs());
        }
    }
    let checked = SubscriptionSpec::check(&body)?;
    let spec = Box::new(checked.spec);
    let engine = app.engine()?;
    let mut warnings = checked.warnings;
    if let Some(destination) = &spec.dead_letter
        && let Err(error) = engine.probe_dead_letters(destination).await
    {
        let message = format!("{error}: {}", cause(&error));
        if app.require_reachable {
            return Err(ApiError::invalid(
                format!("deadLetterDestination: {message}"),
                "make it writable for the server, or switch dead_letter.require_reachable off",
            ));
        }
        tracing::warn!(%name, message, "a dead-letter destination cannot be written to");
        let field = "deadLetterDestination".to_owned();
        warnings.push(Warning { field, message });
    }
    let put = |answer| Command::PutSubscription {
        topic,
        name,
        spec,
        answer,
    };
    let (info, is_new) = engine.ask(put).await?;
    let (topic, subscription) = (&info.topic_name, &info.subscription.name);
    let change = if is_new { "created" } else { "declared again" };
    tracing::info!(topic, %subscription, "event subscription {change}");
    let mut json = shown(&info);
    if !warnings.is_empty() {
        json["warnings"] = warnings.iter().map(shown_warning).collect();
    }
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(json)))
}

pub async fn list(
    State(app): State<SharedApp>,
    Names(topic): Names<String>,
) -> Result<Json<Value>, ApiError> {
    let list = app
        .engine()?
        .ask(|answer| Command::Subscriptions { topic, answer })
        .await?;
    let value: Vec<Value> = list.iter().map(shown).collect();
    Ok(Json(json!({ "value": value })))
}

pub async fn get(
    State(app): State<SharedApp>,
    Names((topic, name)): Names<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let info = app
        .engine()?
        .ask(|answer| Command::Subscription {
            topic,
            name,
            answer,
        })
        .await?;
    Ok(Json(shown(&info)))
}

pub async fn delete(
    State(app): State<SharedApp>,
    Names((topic, name)): Names<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let (of, subscription) = (topic.clone(), name.clone());
    app.engine()?
        .ask(|answer| Command::DeleteSubscription {
            topic,
            name,
            answer,
        })
        .await?;
    tracing::info!(topic = of, subscription, "event subscription deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Never the whole URL of an endpoint: its query is a secret (ED-121).
fn shown(info: &SubscriptionInfo) -> Value {
    let subscription = &info.subscription;
    let mut json = subscription.spec.to_public_json();
    json["name"] = json!(subscription.name.as_str());
    json["id"] = json!(subscription.id.0);
    json["topic"] = json!(info.topic_name);
    json["createdTime"] = json!(subscription.created.to_string());
    // There is no handshake in this version: what was accepted is in force.
    json["provisioningState"] = json!("Succeeded");
    json["status"] = json!({
        // ED-304: matched = delivered + deadLettered + dropped + pending.
        "matched": info.counters.matched + info.waiting,
        "delivered": info.counters.delivered,
        "deadLettered": info.counters.dead_lettered,
        "dropped": info.counters.dropped,
        "pending": info.pending,
        "inFlight": info.in_flight,
        "behind": info.behind,
        "nextDue": info.next_due.map(|due| due.to_string()),
    });
    json
}

fn cause(error: &dyn std::error::Error) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

fn shown_warning(warning: &Warning) -> Value {
    json!({ "field": warning.field, "message": warning.message })
}
