//! Topics and their keys; much of it is that of domains too.

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::name::TopicName;
use hedgerow_core::spec::{Checked, TopicSpec};
use hedgerow_delivery::command::{Command, KeyName};
use hedgerow_store::catalog::{Topic, TopicKeys};
use http::StatusCode;
use serde_json::{Value, json};

use super::extract::{Bearer, Names, Source};
use super::{json_body, shown_warning};
use crate::access::Grant;
use crate::error::ApiError;
use crate::public_url::PublicUrl;
use crate::state::{App, SharedApp};

pub async fn put(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
    Names(name): Names<String>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let checked = TopicSpec::check(&json_body(&app, request).await?)?;
    if checked.spec.source.is_some() && !grant.is_whole() {
        // It tells of everybody's dead letters.
        return Err(ApiError::of_the_grid(&grant));
    }
    declare(&app, &name, checked).await
}

/// Declares a topic or a domain.
pub(super) async fn declare(
    app: &App,
    name: &str,
    Checked { spec, warnings }: Checked<TopicSpec>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let name: TopicName = name.parse()?;
    let engine = app.engine()?;
    let (topic, is_new) = engine
        .ask(|answer| Command::PutTopic { name, spec, answer })
        .await?;
    if is_new {
        let kind = if topic.is_domain() { "domain" } else { "topic" };
        tracing::info!(topic = %topic.name, "{kind} created");
    }
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let mut json = shown(&topic, &app.public_url);
    if !warnings.is_empty() {
        json["warnings"] = warnings.iter().map(shown_warning).collect();
    }
    Ok((status, Json(json)))
}

pub async fn list(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
) -> Result<Json<Value>, ApiError> {
    listed(&app, &grant, |topic| !topic.is_domain()).await
}

/// What is shown of topics of one kind that somebody may see.
pub(super) async fn listed(
    app: &App,
    grant: &Grant,
    is_wanted: impl Fn(&Topic) -> bool,
) -> Result<Json<Value>, ApiError> {
    let topics = app
        .engine()?
        .ask(|answer| Command::Topics { answer })
        .await?;
    let value: Vec<Value> = topics
        .iter()
        .filter(|topic| is_wanted(topic) && grant.reaches(topic.name.as_str()))
        .map(|topic| shown(topic, &app.public_url))
        .collect();
    Ok(Json(json!({ "value": value })))
}

pub async fn get(
    State(app): State<SharedApp>,
    Source(name): Source,
) -> Result<Json<Value>, ApiError> {
    let topic = app
        .engine()?
        .ask(|answer| Command::Topic { name, answer })
        .await?;
    Ok(Json(shown(&topic, &app.public_url)))
}

pub async fn delete(
    State(app): State<SharedApp>,
    Source(name): Source,
) -> Result<StatusCode, ApiError> {
    let topic = name.clone();
    app.engine()?
        .ask(|answer| Command::DeleteTopic { name, answer })
        .await?;
    tracing::info!(topic, "topic or domain deleted");
    Ok(StatusCode::NO_CONTENT)
}

pub async fn list_keys(
    State(app): State<SharedApp>,
    Source(name): Source,
) -> Result<Json<Value>, ApiError> {
    let topic = app
        .engine()?
        .ask(|answer| Command::Topic { name, answer })
        .await?;
    Ok(Json(shown_keys(&topic.keys)))
}

pub async fn regenerate_key(
    State(app): State<SharedApp>,
    Source(name): Source,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let key = key_name(&json_body(&app, request).await?)?;
    let topic = name.clone();
    let engine = app.engine()?;
    let keys = engine
        .ask(|answer| Command::RegenerateKey { name, key, answer })
        .await?;
    tracing::info!(topic, ?key, "key regenerated");
    Ok(Json(shown_keys(&keys)))
}

fn key_name(body: &Value) -> Result<KeyName, ApiError> {
    let members = body.as_object();
    let name = members
        .filter(|members| members.len() == 1)
        .and_then(|m| m.get("keyName"));
    match name.and_then(Value::as_str) {
        Some("key1") => Ok(KeyName::Key1),
        Some("key2") => Ok(KeyName::Key2),
        _ => Err(ApiError::invalid(
            "keyName: must be \"key1\" or \"key2\", and the only member",
            "send {\"keyName\":\"key1\"}",
        )),
    }
}

pub(super) fn shown(topic: &Topic, public_url: &PublicUrl) -> Value {
    let mut json = topic.spec.to_json();
    json["name"] = json!(topic.name.as_str());
    json["id"] = json!(topic.id.0);
    if topic.spec.source.is_none() {
        json["endpoint"] = json!(public_url.topic_endpoint(topic.name.as_str()));
    }
    json["createdTime"] = json!(topic.created.to_string());
    json
}

fn shown_keys(keys: &TopicKeys) -> Value {
    json!({ "key1": keys.key1, "key2": keys.key2 })
}
