//! What is shown of handshakes with endpoints.

use hedgerow_delivery::command::SubscriptionInfo;
use hedgerow_store::catalog::{Exchange, Provisioning, Subscription, Validation, ValidationState};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::handle::refusal;

/// Refuses a declaration whose endpoint did not consent. The subscription stays, with what was found out (ED-161); or what
/// was in force before the update does (ED-163).
pub fn check(info: &SubscriptionInfo) -> Result<(), ApiError> {
    let subscription = &info.subscription;
    if subscription.newest_provisioning() != Provisioning::Failed {
        return Ok(());
    }
    let hint = if subscription.is_active() {
        "what was declared before stays in force; correct the endpoint and declare the update again; GET shows the whole \
         exchange"
    } else {
        "correct the endpoint and declare the event subscription again; GET shows the whole exchange"
    };
    Err(ApiError::not_validated(failure(subscription), hint))
}

/// Says which endpoint did not consent, and why.
pub fn failure(subscription: &Subscription) -> String {
    let endpoint = subscription.newest().destination.endpoint();
    let reason = refusal(subscription).unwrap_or_default();
    format!("endpoint validation of {endpoint} failed: {reason}")
}

/// Adds how far a subscription, and an update of it, has come.
pub fn show(subscription: &Subscription, json: &mut Value) {
    json["provisioningState"] = json!(subscription.provisioning().as_str());
    if let Some(rate) = subscription.allowed_rate {
        json["allowedRequestsPerMinute"] = json!(rate);
    }
    let validation = subscription.validation.as_ref();
    let exchange = validation.and_then(|validation| shown(&validation.state));
    let origins = validation.map(|validation| shown_origins(validation, subscription));
    match &subscription.update {
        None => {
            if let Some(exchange) = exchange {
                json["validation"] = exchange;
            }
            if let Some(origins) = origins.filter(|origins| !origins.is_empty()) {
                json["origins"] = origins.into();
            }
        }
        // What is in force stands beside it (ED-163).
        Some(update) => {
            let state = subscription.newest_provisioning().as_str();
            json["update"] = update.to_public_json();
            json["update"]["provisioningState"] = json!(state);
            if let Some(exchange) = exchange {
                json["update"]["validation"] = exchange;
            }
            if let Some(origins) = origins.filter(|origins| !origins.is_empty()) {
                json["update"]["origins"] = origins.into();
            }
        }
    }
}

/// How far each origin of a group has come that has to consent (HP-202). Never its token.
fn shown_origins(validation: &Validation, subscription: &Subscription) -> Vec<Value> {
    let asked = validation.origins.iter().map(|(address, origin)| {
        let mut json = json!({
            "address": address,
            "provisioningState": origin.state.provisioning().as_str(),
        });
        if let Some(exchange) = shown(&origin.state) {
            json["validation"] = exchange;
        }
        json
    });
    let in_force = subscription.update.is_none();
    let consented = subscription.consented.iter().filter(|_| in_force);
    let before = consented.filter(|address| !validation.origins.contains_key(*address));
    let before = before.map(|address| {
        let state = Provisioning::Succeeded.as_str();
        json!({ "address": address, "provisioningState": state })
    });
    asked.chain(before).collect()
}

/// What is known of a handshake that has not succeeded (ED-161). Never its token.
fn shown(state: &ValidationState) -> Option<Value> {
    let mut json = shown_exchange(state.exchange()?);
    let until = match state {
        ValidationState::AwaitingManualAction { until, .. } => Some(until.to_string()),
        _ => None,
    };
    json["until"] = json!(until);
    Some(json)
}

/// What was exchanged.
pub fn shown_exchange(exchange: &Exchange) -> Value {
    let header = |(name, value): &(String, String)| json!({ "name": name, "value": value });
    let headers: Vec<Value> = exchange.headers.iter().map(header).collect();
    json!({
        "message": exchange.message,
        "time": exchange.time.to_string(),
        "tries": exchange.tries,
        "status": exchange.status,
        "headers": headers,
        "body": exchange.body,
        "error": exchange.error,
    })
}
