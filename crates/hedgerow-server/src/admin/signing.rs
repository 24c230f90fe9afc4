//! Rotates the secret that the deliveries of a subscription are signed with (ED-142). Once the new one is in force, it is the
//! only time that it is shown.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::limits;
use hedgerow_core::name::SubscriptionName;
use hedgerow_core::spec::{SigningSecret, SigningSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::Command;
use hedgerow_delivery::declare::SubscriptionDeclaration;
use hedgerow_io::chance;
use serde_json::{Value, json};

use super::extract::SourceAnd;
use super::json_body;
use super::subscriptions::{DECLARE_TRIES_MAX, declare};
use crate::error::ApiError;
use crate::state::{App, SharedApp};

/// How long the present secret holds besides if nothing is said: a day to tell every receiver.
const PREVIOUS_MINUTES: u32 = 1_440;
/// Bytes of a secret that is drawn: as many as the hash has.
const DRAWN_BYTES: usize = 32;

/// What is asked for.
struct Order {
    secret: SigningSecret,
    /// Until when the present one holds; `None`: no longer.
    previous_until: Option<Timestamp>,
}

pub async fn rotate(
    State(app): State<SharedApp>,
    SourceAnd(topic, name): SourceAnd,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let body = json_body(&app, request).await?;
    let order = read(&body, app.time())?;
    for _ in 1..DECLARE_TRIES_MAX {
        let rotated = rotate_once(&app, &topic, &name, &order).await;
        if !rotated.as_ref().is_err_and(ApiError::is_changed) {
            return rotated;
        }
    }
    rotate_once(&app, &topic, &name, &order).await
}

async fn rotate_once(
    app: &App,
    topic: &str,
    name: &str,
    order: &Order,
) -> Result<Json<Value>, ApiError> {
    let engine = app.engine()?;
    let get = |answer| Command::Subscription {
        topic: topic.to_owned(),
        name: name.to_owned(),
        answer,
    };
    let present = engine.ask(get).await?.subscription;
    let base = present.declared().clone();
    let mut spec = base.clone();
    let signing = match spec.signing.take() {
        None => SigningSpec::new(order.secret.clone()),
        Some(signing) if signing.secret == order.secret => {
            return Err(ApiError::member(
                "secret",
                "must be another one than the present",
            ));
        }
        Some(signing) => signing.rotated(order.secret.clone(), order.previous_until),
    };
    let until = signing
        .previous
        .as_ref()
        .and_then(|previous| previous.until);
    spec.signing = Some(signing);
    let name: SubscriptionName = present.name.clone();
    let declaration = SubscriptionDeclaration {
        topic: topic.to_owned(),
        name: name.clone(),
        spec: Box::new(spec),
        expected: Some(Box::new(base)),
    };
    declare(&engine, declaration).await?;
    tracing::info!(topic, subscription = %name, "signing secret rotated by an operator");
    Ok(Json(json!({
        "secret": order.secret.as_str(),
        "previousSecretValidUntil": until.map(|until| until.to_string()),
    })))
}

fn read(body: &Value, now: Timestamp) -> Result<Order, ApiError> {
    const KNOWN: [&str; 2] = ["secret", "previousSecretValidMinutes"];
    let Some(members) = body.as_object() else {
        return Err(ApiError::member("", "must be an object"));
    };
    if let Some(name) = members.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        let message = format!("is unknown here; known are {}", KNOWN.join(", "));
        return Err(ApiError::member(name, &message));
    }
    let secret = match members.get("secret") {
        None | Some(Value::Null) => SigningSecret::of_bytes(&chance::bytes::<DRAWN_BYTES>()),
        Some(Value::String(text)) => {
            SigningSecret::parse(text).map_err(|message| ApiError::member("secret", &message))?
        }
        Some(_) => return Err(ApiError::member("secret", "must be a text")),
    };
    let range = limits::PREVIOUS_SECRET_MINUTES;
    let minutes = match members.get("previousSecretValidMinutes") {
        None | Some(Value::Null) => Some(PREVIOUS_MINUTES),
        Some(value) => value.as_u64().and_then(|count| u32::try_from(count).ok()),
    };
    let Some(minutes) = minutes.filter(|minutes| range.contains(minutes)) else {
        let message = format!(
            "must be an integer from {} to {}",
            range.start(),
            range.end()
        );
        return Err(ApiError::member("previousSecretValidMinutes", &message));
    };
    let span = Duration::from_secs(u64::from(minutes) * 60);
    Ok(Order {
        secret,
        previous_until: (minutes > 0).then(|| now.plus(span)),
    })
}
