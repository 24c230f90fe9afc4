//! Event subscriptions: what they want, and how they are doing.

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::name::SubscriptionName;
use hedgerow_core::outcome::Outcome;
use hedgerow_core::spec::{
    DeadLetterDestination, Destination, SpecError, SubscriptionSpec, Warning,
};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::{Command, EngineHandle, HoldInfo, SubscriptionInfo};
use hedgerow_store::catalog::Provisioning;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::extract::Names;
use super::{json_body, merge, shown_warning, validation};
use crate::error::ApiError;
use crate::local_dead_letters::local_container;
use crate::state::{App, SharedApp};

pub async fn put(
    State(app): State<SharedApp>,
    Names((topic, name)): Names<(String, String)>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let body = json_body(&app, request).await?;
    declare(&app, topic, &name, body).await
}

/// Changes what the body names and keeps the rest, secrets too: a merge patch (RFC 7396) of the newest declaration, also if
/// that is an update that waits.
pub async fn patch(
    State(app): State<SharedApp>,
    Names((topic, name)): Names<(String, String)>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let patch = json_body(&app, request).await?;
    if !patch.is_object() {
        return Err(ApiError::member("", "must be an object"));
    }
    let (of, named) = (topic.clone(), name.clone());
    let get = |answer| Command::Subscription {
        topic: of,
        name: named,
        answer,
    };
    let present = app.engine()?.ask(get).await?.subscription;
    // What waits for its endpoint's consent was declared last. What failed changes nothing (ED-163), later changes neither.
    let waiting = present.update.as_deref();
    let waiting = waiting.filter(|_| present.newest_provisioning() != Provisioning::Failed);
    let newest = waiting.unwrap_or(&present.spec);
    let declaration = merge::patched(newest.to_json(), patch.clone());
    let name = present.name.as_str();
    let (status, Json(mut json)) = declare(&app, topic, name, declaration).await?;
    if let Some(warnings) = json.get_mut("warnings").and_then(Value::as_array_mut) {
        // What was declared before was warned of then.
        warnings.retain(|warning| {
            let field = warning["field"].as_str().unwrap_or_default();
            field == "deadLetterDestination" || merge::names(&patch, field)
        });
    }
    Ok((status, Json(json)))
}

/// Declares a subscription as the body says.
pub async fn declare(
    app: &App,
    topic: String,
    name: &str,
    mut body: Value,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let name: SubscriptionName = name.parse()?;
    complete(app, &mut body);
    let checked = SubscriptionSpec::check(&body)?;
    let spec = Box::new(checked.spec);
    let engine = app.engine()?;
    let problem = dead_letter_problem(&engine, &spec).await?;
    let (of, named) = (topic.clone(), name.to_string());
    let declared = engine.topics().get(&topic.to_ascii_lowercase()).cloned();
    let keys = declared.map(|topic| spec.filter.key_warnings(topic.spec.input_schema, "filter"));
    let wait = app.validation_answer_wait;
    let (mut info, is_new) = engine.put_subscription(topic, name, spec, wait).await?;
    info.dead_letter_problem.clone_from(&problem);
    let mut warnings = checked.warnings;
    warnings.extend(keys.unwrap_or_default());
    warnings.extend(problem.clone().map(|message| Warning {
        field: "deadLetterDestination".to_owned(),
        message,
    }));
    let note = |answer| Command::NoteDeadLetterProblem {
        topic: of,
        name: named,
        problem,
        answer,
    };
    // It may be deleted already.
    let _ = engine.ask(note).await;
    let (topic, subscription) = (&info.topic_name, &info.subscription.name);
    let change = if is_new { "created" } else { "declared again" };
    tracing::info!(topic, %subscription, "event subscription {change}");
    validation::check(&info)?;
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

/// What keeps dead letters from being written to where they are declared to go, if anything does (ED-319).
async fn dead_letter_problem(
    engine: &EngineHandle,
    spec: &SubscriptionSpec,
) -> Result<Option<String>, ApiError> {
    let Some(destination) = &spec.dead_letter_destination else {
        return Ok(None);
    };
    match engine.probe_dead_letters(destination).await {
        Ok(()) => Ok(None),
        Err(error) if spec.dead_letter.require_reachable => {
            let refused = SpecError {
                field: "deadLetterDestination".to_owned(),
                message: error.message,
            };
            Err(refused.into())
        }
        Err(error) => Ok(Some(error.message)),
    }
}

/// Makes a declaration of what was sent: without what is only shown, with the server's defaults.
pub fn complete(app: &App, body: &mut Value) {
    if let Some(members) = body.as_object_mut() {
        merge::remove_read_only(members);
        add_defaults(members, app);
    }
}

/// Writes what the server's settings say into a declaration that does not say it.
fn add_defaults(members: &mut Map<String, Value>, app: &App) {
    let set_if_absent = |members: &mut Map<String, Value>, name: &str, default: Value| {
        let member = members.entry(name).or_insert(Value::Null);
        if member.is_null() {
            *member = default;
        }
    };
    let seconds = app.response_timeout.as_secs();
    set_if_absent(members, "responseTimeoutSeconds", json!(seconds));
    if app.dead_letter_local_default && !members.contains_key("deadLetterDestination") {
        // One that says `null` wants none (ED-313).
        let local = DeadLetterDestination::LocalDirectory {
            path: local_container(),
        };
        members.insert("deadLetterDestination".to_owned(), local.to_json());
    }
    let groups = [
        ("deadLetter", app.dead_letter.to_json()),
        ("probation", app.probation.to_json()),
        ("delayedDelivery", app.delayed_delivery.to_json()),
    ];
    for (group, defaults) in groups {
        set_if_absent(members, group, json!({}));
        let declared = members.get_mut(group).and_then(Value::as_object_mut);
        if let (Some(declared), Value::Object(defaults)) = (declared, defaults) {
            for (name, default) in defaults {
                set_if_absent(declared, &name, default);
            }
        }
    }
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

/// The whole URL of the endpoint, its query too: the one answer that has it (ED-121).
pub async fn full_url(
    State(app): State<SharedApp>,
    Names((topic, name)): Names<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let (of, subscription) = (topic.clone(), name.clone());
    let info = app
        .engine()?
        .ask(|answer| Command::Subscription {
            topic,
            name,
            answer,
        })
        .await?;
    let Destination::WebHook { endpoint_url, .. } = &info.subscription.spec.destination;
    tracing::info!(topic = of, subscription, "full URL of an endpoint read");
    Ok(Json(json!({ "endpointUrl": endpoint_url.as_str() })))
}

/// Nothing is attempted from now on (ED-312).
pub async fn pause(app: State<SharedApp>, names: Names<(String, String)>) -> Answer {
    set_paused(app, names, true).await
}

/// What was held meanwhile goes on.
pub async fn resume(app: State<SharedApp>, names: Names<(String, String)>) -> Answer {
    set_paused(app, names, false).await
}

type Answer = Result<Json<Value>, ApiError>;

async fn set_paused(
    State(app): State<SharedApp>,
    Names((topic, name)): Names<(String, String)>,
    is_paused: bool,
) -> Answer {
    let pause = |answer| Command::PauseSubscription {
        topic,
        name,
        is_paused,
        answer,
    };
    let info = app.engine()?.ask(pause).await?;
    let (topic, subscription) = (&info.topic_name, &info.subscription.name);
    let change = if is_paused { "paused" } else { "resumed" };
    tracing::info!(topic, %subscription, "event subscription {change}");
    Ok(Json(shown(&info)))
}

/// Ends probation and delayed delivery at once (ED-232).
pub async fn reset(
    State(app): State<SharedApp>,
    Names((topic, name)): Names<(String, String)>,
) -> Answer {
    let reset = |answer| Command::ResetSubscription {
        topic,
        name,
        answer,
    };
    let info = app.engine()?.ask(reset).await?;
    let (topic, subscription) = (&info.topic_name, &info.subscription.name);
    tracing::info!(topic, %subscription, "probation and delayed delivery ended by an operator");
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
    json["isPaused"] = json!(subscription.is_paused);
    validation::show(subscription, &mut json);
    json["status"] = json!({
        // ED-304: matched = delivered + deadLettered + dropped + pending.
        "matched": info.counters.matched + info.waiting,
        "delivered": info.counters.delivered,
        "deadLettered": info.counters.dead_lettered,
        "dropped": info.counters.dropped,
        "pending": info.pending,
        "inFlight": info.in_flight,
        "behind": info.behind,
        "hold": shown_hold(&info.hold),
        "nextDue": info.next_due.map(|due| due.to_string()),
        "deadLetterProblem": info.dead_letter_problem,
    });
    json
}

fn shown_hold(hold: &HoldInfo) -> Value {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    json!({
        "state": hold.state.as_str(),
        "cause": hold.cause.map(Outcome::as_str),
        "level": hold.level,
        "since": time(hold.since),
        "until": time(hold.until),
        "nextTrial": time(hold.next_trial),
        "held": hold.held,
    })
}
