//! Event subscriptions of topics, domains and domain topics: what they want, and how they are doing.

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::name::SubscriptionName;
use hedgerow_core::outcome::Outcome;
use hedgerow_core::spec::{
    DeadLetterDestination, Destination, Profile, SpecError, SubscriptionSpec, Warning,
};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::{
    Command, CommandError, EndedHold, EngineHandle, HoldInfo, SubscriptionInfo,
};
use hedgerow_delivery::declare::{Declared, SubscriptionDeclaration};
use hedgerow_store::catalog::split_source;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::extract::{Source, SourceAnd};
use super::{json_body, merge, shown_warning, validation};
use crate::config::profile::dead_letter_of;
use crate::error::ApiError;
use crate::local_dead_letters::local_container;
use crate::state::{App, SharedApp};

/// How often a change in part, or one that keeps a secret, is made anew because something else was declared meanwhile: each time another change was made,
/// so that of so many at a time each is.
pub(super) const DECLARE_TRIES_MAX: usize = 64;

pub async fn put(
    State(app): State<SharedApp>,
    SourceAnd(topic, name): SourceAnd,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let body = json_body(&app, request).await?;
    for _ in 1..DECLARE_TRIES_MAX {
        // Only a secret that is kept depends on what was declared before.
        let put = put_over(&app, &topic, &name, body.clone(), None).await;
        if !put.as_ref().is_err_and(ApiError::is_changed) {
            return put;
        }
    }
    put_over(&app, &topic, &name, body, None).await
}

/// Changes what the body names and keeps the rest, secrets too: a merge patch (RFC 7396) of the newest declaration, also if
/// that is an update that waits. Of two at the same time none is lost: one is made of what the other left.
pub async fn patch(
    State(app): State<SharedApp>,
    SourceAnd(topic, name): SourceAnd,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let patch = json_body(&app, request).await?;
    if !patch.is_object() {
        return Err(ApiError::member("", "must be an object"));
    }
    for _ in 1..DECLARE_TRIES_MAX {
        let patched = patch_once(&app, &topic, &name, &patch).await;
        if !patched.as_ref().is_err_and(ApiError::is_changed) {
            return patched;
        }
    }
    patch_once(&app, &topic, &name, &patch).await
}

async fn patch_once(
    app: &App,
    topic: &str,
    name: &str,
    patch: &Value,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let get = |answer| Command::Subscription {
        topic: topic.to_owned(),
        name: name.to_owned(),
        answer,
    };
    let present = app.engine()?.ask(get).await?.subscription;
    let base = present.declared();
    let declaration = merge::patched(base.to_masked_json(), patch.clone());
    let name = present.name.as_str();
    refuse_other(patch, "topic", topic)?;
    refuse_other(patch, "name", name)?;
    let (status, Json(mut json)) =
        put_over(app, topic, name, declaration, Some(base.clone())).await?;
    if let Some(warnings) = json.get_mut("warnings").and_then(Value::as_array_mut) {
        // What was declared before was warned of then.
        warnings.retain(|warning| {
            let field = warning["field"].as_str().unwrap_or_default();
            field == "deadLetterDestination" || merge::names(patch, field)
        });
    }
    Ok((status, Json(json)))
}

/// Declares a subscription as the body says, where `expected` is what is declared of it now, if that is given; and waits for
/// its endpoint.
async fn put_over(
    app: &App,
    topic: &str,
    name: &str,
    mut body: Value,
    expected: Option<SubscriptionSpec>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let name: SubscriptionName = name.parse()?;
    refuse_other(&body, "topic", topic)?;
    refuse_other(&body, "name", name.as_str())?;
    let engine = app.engine()?;
    complete(app, profile_of(&engine, topic), &mut body);
    let expected = match expected {
        Some(present) => {
            present.keep_secrets(&mut body)?;
            Some(present)
        }
        None => keep_secrets(&engine, topic, name.as_str(), &mut body).await?,
    };
    let checked = SubscriptionSpec::check(&body)?;
    let declaration = SubscriptionDeclaration {
        topic: topic.to_owned(),
        name,
        spec: Box::new(checked.spec),
        expected: expected.map(Box::new),
    };
    let (of, _) = split_source(topic);
    let declared = engine.topics().get(&of.to_ascii_lowercase()).cloned();
    let keys = declared.map(|topic| declaration.spec.key_warnings(topic.spec.input_schema));
    let made = declare(&engine, declaration).await?;
    let wait = app.validation_answer_wait;
    let info = engine.await_answer(made.info, wait).await?;
    validation::check(&info)?;
    let mut json = shown(&info);
    let mut warnings = checked.warnings;
    warnings.extend(keys.unwrap_or_default());
    warnings.extend(made.dead_letter_problem.map(|message| Warning {
        field: "deadLetterDestination".to_owned(),
        message,
    }));
    if !warnings.is_empty() {
        json["warnings"] = warnings.iter().map(shown_warning).collect();
    }
    let status = if made.declared.is_new() {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(json)))
}

/// Refuses a body that is about something else than its path: an answer may be sent back as it came, and to its own place.
pub(super) fn refuse_other(body: &Value, member: &str, in_path: &str) -> Result<(), ApiError> {
    let is_other = match body.get(member) {
        None | Some(Value::Null) => false,
        Some(Value::String(named)) => !named.eq_ignore_ascii_case(in_path),
        Some(_) => true,
    };
    if is_other {
        let message = format!("must be \"{in_path}\", as in the path, or be left out");
        return Err(ApiError::member(member, &message));
    }
    Ok(())
}

/// A subscription that was declared.
pub struct Made {
    pub info: SubscriptionInfo,
    pub declared: Declared,
    /// What is wrong with its dead-letter destination.
    pub dead_letter_problem: Option<String>,
}

/// Declares a subscription. It is durable then, and its endpoint may still be asked.
pub async fn declare(
    engine: &EngineHandle,
    declaration: SubscriptionDeclaration,
) -> Result<Made, ApiError> {
    let problem = dead_letter_problem(engine, &declaration.spec).await?;
    let (of, named) = (declaration.topic.clone(), declaration.name.to_string());
    let (mut info, declared) = engine.declare_subscription(declaration).await?;
    let note = |answer| Command::NoteDeadLetterProblem {
        topic: of,
        name: named,
        problem: problem.clone(),
        answer,
    };
    // It may be deleted already.
    let _ = engine.ask(note).await;
    info.dead_letter_problem.clone_from(&problem);
    let (topic, subscription) = (&info.topic_name, &info.subscription.name);
    let change = match declared {
        Declared::Created => "created",
        Declared::Changed => "changed",
        Declared::AskedAgain { .. } => "declared again, its endpoint is asked again",
        Declared::Unchanged => "declared again",
    };
    tracing::info!(topic, %subscription, "event subscription {change}");
    Ok(Made {
        info,
        declared,
        dead_letter_problem: problem,
    })
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

/// Puts the secrets of a subscription into a declaration where their masks stand (ED-149). Gives what they were taken of, if
/// there were any to keep.
pub async fn keep_secrets(
    engine: &EngineHandle,
    topic: &str,
    name: &str,
    body: &mut Value,
) -> Result<Option<SubscriptionSpec>, CommandError> {
    if !SubscriptionSpec::has_masks(body) {
        return Ok(None);
    }
    let get = |answer| Command::Subscription {
        topic: topic.to_owned(),
        name: name.to_owned(),
        answer,
    };
    match engine.ask(get).await {
        Ok(info) => {
            let present = info.subscription.declared().clone();
            present.keep_secrets(body).map_err(CommandError::Invalid)?;
            Ok(Some(present))
        }
        // Then there is nothing to keep, and the masks are refused.
        Err(CommandError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a declaration of what was sent: without what is only shown, with the server's defaults, or those of the profile of what it
/// is made for.
pub fn complete(app: &App, profile: Option<Profile>, body: &mut Value) {
    if let Some(members) = body.as_object_mut() {
        merge::remove_read_only(members);
        add_defaults(members, app, profile);
    }
}

/// The profile of the topic or domain with this name, if it has one of its own.
pub fn profile_of(engine: &EngineHandle, source: &str) -> Option<Profile> {
    let (name, _) = split_source(source);
    let topics = engine.topics();
    topics.get(&name.to_ascii_lowercase())?.spec.profile
}

/// Writes what the server's settings say into a declaration that does not say it.
fn add_defaults(members: &mut Map<String, Value>, app: &App, profile: Option<Profile>) {
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
    let dead_letter = profile.map_or(app.dead_letter, |profile| {
        // The server's own settings hold where its profile is the same.
        if profile == app.profile {
            app.dead_letter
        } else {
            dead_letter_of(profile, app.dead_letter)
        }
    });
    let groups = [
        ("deadLetter", dead_letter.to_json()),
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
    Source(topic): Source,
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
    SourceAnd(topic, name): SourceAnd,
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
    SourceAnd(topic, name): SourceAnd,
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
    tracing::info!(topic = of, subscription, "full URL of an endpoint read");
    Ok(Json(match &info.subscription.spec.destination {
        Destination::WebHook { endpoint_url, .. } => {
            json!({ "endpointUrl": endpoint_url.as_str() })
        }
        // Its origins have a URL each, all with this path.
        Destination::OriginGroup(to) => json!({ "path": to.path().as_str() }),
    }))
}

/// Nothing is attempted from now on (ED-312).
pub async fn pause(app: State<SharedApp>, names: SourceAnd) -> Answer {
    set_paused(app, names, true).await
}

/// What was held meanwhile goes on.
pub async fn resume(app: State<SharedApp>, names: SourceAnd) -> Answer {
    set_paused(app, names, false).await
}

type Answer = Result<Json<Value>, ApiError>;

async fn set_paused(
    State(app): State<SharedApp>,
    SourceAnd(topic, name): SourceAnd,
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
pub async fn reset(State(app): State<SharedApp>, SourceAnd(topic, name): SourceAnd) -> Answer {
    let reset = |answer| Command::ResetSubscription {
        topic,
        name,
        answer,
    };
    let (info, ended) = app.engine()?.ask(reset).await?;
    let (topic, subscription) = (&info.topic_name, &info.subscription.name);
    let count = ended.len();
    tracing::info!(topic, %subscription, ended = count, "probation and delayed delivery ended by an operator");
    let mut json = shown(&info);
    json["ended"] = ended.iter().map(shown_end).collect();
    Ok(Json(json))
}

fn shown_end(ended: &EndedHold) -> Value {
    let held = ended.held.iter();
    let held: Vec<_> = held
        .map(|(topic, name)| json!({ "topic": topic, "name": name }))
        .collect();
    json!({
        "state": ended.state.as_str(),
        "cause": ended.period.cause.as_str(),
        "level": ended.period.level,
        "since": ended.period.since.to_string(),
        "until": ended.period.until.to_string(),
        "eventSubscriptions": held,
    })
}

/// Drops what is pending.
pub async fn purge(State(app): State<SharedApp>, SourceAnd(topic, name): SourceAnd) -> Answer {
    let (of, subscription) = (topic.clone(), name.clone());
    let purge = |answer| Command::PurgeSubscription {
        topic,
        name,
        answer,
    };
    let report = app.engine()?.ask(purge).await?;
    let (dropped, skipped, in_flight) = (report.dropped, report.skipped, report.in_flight);
    tracing::info!(
        topic = of,
        subscription,
        dropped,
        skipped,
        in_flight,
        "event subscription purged by an operator"
    );
    Ok(Json(json!({
        "dropped": dropped,
        "skipped": skipped,
        "inFlight": in_flight,
    })))
}

pub async fn delete(
    State(app): State<SharedApp>,
    SourceAnd(topic, name): SourceAnd,
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
        "limits": shown_limits(info),
        "nextDue": info.next_due.map(|due| due.to_string()),
        "deadLetterProblem": info.dead_letter_problem,
        "batches": shown_batches(info),
        "purgedTime": subscription.purges.last().map(|purge| purge.at.to_string()),
    });
    json
}

/// From this part of the timeout on a batch that was answered in time was close to failing as a whole (ED-321).
const NEAR_TIMEOUT_PERCENT: u128 = 80;

/// How large batches may be, how long the newest took to be answered, and a warning if that is close to the timeout.
fn shown_batches(info: &SubscriptionInfo) -> Value {
    let spec = &info.subscription.spec;
    let Some(limits) = spec.batch.limits() else {
        return Value::Null;
    };
    let timeout_ms = spec.response_timeout.as_millis();
    let of = info
        .batch_responses
        .map(|(count, time)| (count, time.as_millis()));
    let is_near = of.is_some_and(|(_, ms)| ms * 100 >= timeout_ms * NEAR_TIMEOUT_PERCENT);
    let warning = is_near.then_some(
        "batches are answered close to the timeout, and fail as a whole behind it: ask for fewer events, or raise \
         responseTimeoutSeconds",
    );
    json!({
        "maxEvents": limits.events_max,
        "preferredBytes": limits.preferred_bytes,
        "answered": of.map(|(count, _)| count),
        "responseTime95PercentInMs": of.map(|(_, ms)| ms as u64),
        "responseTimeoutInMs": timeout_ms as u64,
        "warning": warning,
    })
}

/// What keeps more attempts from starting: its own limits, and those of the endpoint that it shares (design D7).
fn shown_limits(info: &SubscriptionInfo) -> Value {
    let limits = info.subscription.spec.endpoint_limits;
    json!({
        "openAttempts": info.open_attempts,
        "maxConcurrency": limits.max_concurrency,
        "maxRequestsPerSecond": limits.max_requests_per_second,
        "notBefore": info.not_before.map(|time| time.to_string()),
        "endpoint": info.endpoint.map(|endpoint| json!({
            "openAttempts": endpoint.open,
            "openAttemptsLimit": endpoint.limit,
            "slowAttempts": endpoint.slow_open,
            "slowAttemptsLimit": endpoint.slow_limit,
        })),
    })
}

pub(super) fn shown_hold(hold: &HoldInfo) -> Value {
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
