//! Tokens: made, listed without their secrets, deleted.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::limits;
use hedgerow_core::time::Timestamp;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::extract::Names;
use super::json_body;
use crate::access::{Right, Rights, TopicPrefix};
use crate::error::ApiError;
use crate::state::SharedApp;
use crate::tokens::{FIRST, NewToken, Token, TokenError};

pub async fn create(
    State(app): State<SharedApp>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let new = read(&json_body(&app, request).await?, app.time())?;
    let made = change(&app, move |app| app.tokens.create(new, app.time())).await?;
    let (token, secret) = made;
    tracing::info!(token = %token.grant.name, rights = ?token.grant.rights.names(), "token created");
    let mut json = shown(&token);
    json["secret"] = json!(secret);
    Ok((StatusCode::CREATED, Json(json)))
}

pub async fn list(State(app): State<SharedApp>) -> Json<Value> {
    let first = json!({
        "name": FIRST,
        "rights": Rights::all().names(),
        "topicPrefix": "",
        "createdTime": null,
        "expirationTimeUtc": null,
    });
    let tokens = app.tokens.list();
    let value: Vec<Value> = std::iter::once(first)
        .chain(tokens.iter().map(shown))
        .collect();
    Json(json!({ "value": value }))
}

pub async fn delete(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
) -> Result<StatusCode, ApiError> {
    let token = name.clone();
    change(&app, move |app| app.tokens.delete(&name)).await?;
    tracing::info!(token, "token deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a change, which waits for the disk, on a thread for that.
async fn change<T: Send + 'static>(
    app: &SharedApp,
    change: impl FnOnce(&SharedApp) -> Result<T, TokenError> + Send + 'static,
) -> Result<T, ApiError> {
    let app = Arc::clone(app);
    let changed = tokio::task::spawn_blocking(move || change(&app)).await;
    Ok(changed.map_err(|_| ApiError::internal())??)
}

fn read(body: &Value, now: Timestamp) -> Result<NewToken, ApiError> {
    const KNOWN: [&str; 4] = ["name", "rights", "topicPrefix", "expirationTimeUtc"];
    let Some(members) = body.as_object() else {
        return Err(ApiError::member("", "must be an object"));
    };
    if let Some(name) = members.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        let message = format!("is unknown here; known are {}", KNOWN.join(", "));
        return Err(ApiError::member(name, &message));
    }
    let name = text(members, "name")?.unwrap_or_default();
    let is_name = |text: &str| {
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        limits::TOKEN_NAME_LEN.contains(&text.len()) && text.bytes().all(is_sign)
    };
    if !is_name(name) {
        let message = "must have 1 to 64 characters from letters, digits, \"-\" and \"_\"";
        return Err(ApiError::member("name", message));
    }
    let prefix = match text(members, "topicPrefix")? {
        None => Ok(TopicPrefix::default()),
        // Who writes it wants less than everything: a script whose variable is not set (FC-26).
        Some("") => Err("must not be empty; leave it out if the token is to hold for all topics"),
        Some(prefix) => TopicPrefix::parse(prefix),
    };
    let expires = match text(members, "expirationTimeUtc")? {
        None => None,
        Some(text) => Some(text.parse::<Timestamp>().map_err(|_| {
            let message = "must be a time as in \"2030-01-02T03:04:05Z\"";
            ApiError::member("expirationTimeUtc", message)
        })?),
    };
    if expires.is_some_and(|expires| expires <= now) {
        return Err(ApiError::member("expirationTimeUtc", "must not be past"));
    }
    Ok(NewToken {
        name: name.into(),
        rights: rights(members.get("rights"))?,
        prefix: prefix.map_err(|message| ApiError::member("topicPrefix", message))?,
        expires,
    })
}

fn rights(value: Option<&Value>) -> Result<Rights, ApiError> {
    let rights = value.and_then(Value::as_array).and_then(|names| {
        let rights = names.iter().map(|name| Right::parse(name.as_str()?));
        rights.collect::<Option<Rights>>()
    });
    rights.filter(|rights| !rights.is_empty()).ok_or_else(|| {
        let message = "must be a list with some of \"read\", \"publish\", \"operate\", \"admin\"";
        ApiError::member("rights", message)
    })
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, ApiError> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ApiError::member(name, "must be a text")),
    }
}

/// Never the secret.
fn shown(token: &Token) -> Value {
    json!({
        "name": token.grant.name,
        "rights": token.grant.rights.names(),
        "topicPrefix": token.grant.prefix.as_str(),
        "createdTime": token.created.to_string(),
        "expirationTimeUtc": token.expires.map(|expires| expires.to_string()),
    })
}
