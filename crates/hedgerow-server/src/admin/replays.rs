//! Replays of dead letters (ED-265). What is another's is not there (FC-26): a replay belongs to its topic.

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::spec::ReplaySpec;
use hedgerow_delivery::command::{Command, CommandError, EngineHandle};
use hedgerow_delivery::replay::{ReplayCommand, ReplayInfo, ReplaySteer};
use http::StatusCode;
use serde_json::{Value, json};

use super::extract::{Bearer, Names};
use super::json_body;
use crate::access::Grant;
use crate::error::ApiError;
use crate::state::SharedApp;

/// Begins a replay.
pub async fn create(
    State(app): State<SharedApp>,
    Names((topic, subscription)): Names<(String, String)>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let spec = Box::new(ReplaySpec::check(&json_body(&app, request).await?)?);
    let create = |answer| {
        Command::Replay(ReplayCommand::Create {
            topic,
            subscription,
            spec,
            answer,
        })
    };
    let info = app.engine()?.ask(create).await?;
    let (topic, subscription) = (&info.topic_name, &info.subscription_name);
    let (id, is_dry_run) = (info.replay.id, info.replay.spec.is_dry_run);
    tracing::info!(
        topic,
        subscription,
        id,
        is_dry_run,
        "replay of dead letters begun"
    );
    Ok((StatusCode::CREATED, Json(shown(&info))))
}

pub async fn list(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
) -> Result<Json<Value>, ApiError> {
    let list = |answer| Command::Replay(ReplayCommand::List { answer });
    let all = app.engine()?.ask(list).await?;
    let reached = all.iter().filter(|info| grant.reaches(&info.topic_name));
    let value: Vec<Value> = reached.map(shown).collect();
    Ok(Json(json!({ "value": value })))
}

pub async fn get(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
    Names(id): Names<String>,
) -> Result<Json<Value>, ApiError> {
    let info = reached(&app.engine()?, &grant, &id).await?;
    Ok(Json(shown(&info)))
}

pub async fn stop(app: State<SharedApp>, bearer: Bearer, names: Names<String>) -> Answer {
    set(app, bearer, names, ReplaySteer::Stop).await
}

pub async fn resume(app: State<SharedApp>, bearer: Bearer, names: Names<String>) -> Answer {
    set(app, bearer, names, ReplaySteer::Resume).await
}

pub async fn cancel(app: State<SharedApp>, bearer: Bearer, names: Names<String>) -> Answer {
    set(app, bearer, names, ReplaySteer::Cancel).await
}

type Answer = Result<Json<Value>, ApiError>;

async fn set(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
    Names(id): Names<String>,
    steer: ReplaySteer,
) -> Answer {
    let engine = app.engine()?;
    let id = reached(&engine, &grant, &id).await?.replay.id;
    let set = |answer| Command::Replay(ReplayCommand::Set { id, steer, answer });
    let info = engine.ask(set).await?;
    let (topic, subscription) = (&info.topic_name, &info.subscription_name);
    let state = info.replay.state.as_str();
    tracing::info!(topic, subscription, id, state, "replay of dead letters");
    Ok(Json(shown(&info)))
}

/// The replay with this id, if it is there for the bearer.
async fn reached(engine: &EngineHandle, grant: &Grant, text: &str) -> Result<ReplayInfo, ApiError> {
    let not_found = || CommandError::NotFound {
        what: "replay",
        name: text.to_owned(),
    };
    let id: u32 = text.parse().map_err(|_| not_found())?;
    let get = |answer| Command::Replay(ReplayCommand::Get { id, answer });
    let info = engine.ask(get).await?;
    if grant.reaches(&info.topic_name) {
        Ok(info)
    } else {
        Err(not_found().into())
    }
}

fn shown(info: &ReplayInfo) -> Value {
    let replay = &info.replay;
    let mut json = replay.spec.to_json();
    let counts = &replay.counts;
    json["id"] = json!(replay.id);
    json["topic"] = json!(info.topic_name);
    json["eventSubscription"] = json!(info.subscription_name);
    json["state"] = json!(replay.state.as_str());
    json["createdTime"] = json!(replay.created.to_string());
    json["endedTime"] = json!(replay.ended.map(|time| time.to_string()));
    json["progress"] = json!({
        "blobs": counts.blobs,
        "replayed": counts.replayed,
        "skipped": counts.skipped,
        "unreadable": counts.unreadable,
        "blob": replay.place.as_ref().map(|place| place.blob.as_str()),
    });
    json["problem"] = json!(info.problem);
    json
}
