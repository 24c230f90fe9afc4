//! Tries the handshake with an endpoint, and declares nothing (ED-312): what each step came to.

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_core::name::SubscriptionName;
use hedgerow_core::spec::{DeliverySchema, SubscriptionSpec};
use hedgerow_delivery::command::EngineHandle;
use hedgerow_delivery::dry_run::{DryRun, DryRunQuery, Step};
use hedgerow_store::catalog::Provisioning;
use serde_json::{Value, json};

use super::extract::Source;
use super::subscriptions::{complete, keep_secrets, profile_of};
use super::{json_body, validation};
use crate::error::ApiError;
use crate::state::SharedApp;

/// What the endpoint is told where the request names no subscription.
const NAME: &str = "dry-run";

pub async fn post(
    State(app): State<SharedApp>,
    Source(topic): Source,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let mut body = json_body(&app, request).await?;
    let name = named(&body)?;
    let engine = app.engine()?;
    complete(&app, profile_of(&engine, &topic), &mut body);
    keep_secrets(&engine, &topic, name.as_str(), &mut body).await?;
    let spec = Box::new(SubscriptionSpec::check(&body)?.spec);
    let mut tried = Vec::new();
    for origin in origins_of(&engine, &spec) {
        let query = DryRunQuery {
            topic: topic.clone(),
            name: name.clone(),
            spec: spec.clone(),
            origin: origin.clone(),
        };
        let dry_run = engine.dry_run(query).await?;
        tried.push((origin, shown_handshake(&spec, &dry_run)));
    }
    Ok(Json(shown(&spec, tried)))
}

/// The enabled origins of a group, each of which is tried; `None` alone for an endpoint, which has none.
pub fn origins_of(engine: &EngineHandle, spec: &SubscriptionSpec) -> Vec<Option<String>> {
    let Some(group) = spec.destination.origin_group() else {
        return vec![None];
    };
    let table = engine.origins();
    let found = table.group_named(group.as_str());
    let origins = found.map(|(_, found)| found.group.settings().origins.iter());
    let enabled = origins
        .into_iter()
        .flatten()
        .filter(|origin| origin.enabled);
    let names: Vec<_> = enabled.map(|origin| Some(origin.name.clone())).collect();
    // What is wrong with a group that has none is told by the first try.
    if names.is_empty() { vec![None] } else { names }
}

/// What was tried: of an endpoint as it is, of a group origin by origin.
pub fn shown(spec: &SubscriptionSpec, tried: Vec<(Option<String>, Value)>) -> Value {
    let mut all = Vec::new();
    for (origin, mut json) in tried {
        if origin.is_none() {
            json["endpointBaseUrl"] = json!(spec.destination.endpoint());
            return json;
        }
        json["origin"] = json!(origin);
        all.push(json);
    }
    json!({ "endpointBaseUrl": spec.destination.endpoint(), "origins": all })
}

/// The name that the endpoint is told.
pub fn named(body: &Value) -> Result<SubscriptionName, ApiError> {
    match &body["name"] {
        Value::Null => Ok(NAME.parse()?),
        Value::String(name) => Ok(name.parse()?),
        _ => Err(ApiError::member("name", "must be a text")),
    }
}

/// What each step of a handshake came to.
pub fn shown_handshake(spec: &SubscriptionSpec, dry_run: &DryRun) -> Value {
    let handshake = match spec.event_delivery_schema {
        DeliverySchema::CloudEventSchemaV1_0 => "Options",
        DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => "ValidationEvent",
    };
    let would_be = match dry_run.failed_at {
        None => Provisioning::Succeeded,
        Some(_) if dry_run.is_by_hand => Provisioning::AwaitingManualAction,
        Some(_) => Provisioning::Failed,
    };
    let has_tls = dry_run.has_tls;
    let steps = Step::ALL.into_iter();
    let steps = steps.filter(|step| has_tls || *step != Step::Tls);
    let steps: Vec<Value> = steps.map(|step| shown_step(step, dry_run)).collect();
    json!({
        "handshake": handshake,
        "provisioningState": would_be.as_str(),
        "steps": steps,
        "allowedRequestsPerMinute": dry_run.rate.per_minute(),
        "validation": validation::shown_exchange(&dry_run.exchange),
    })
}

fn shown_step(step: Step, dry_run: &DryRun) -> Value {
    let name = match step {
        Step::Name => "name",
        Step::Address => "address",
        Step::Connection => "connection",
        Step::Tls => "tls",
        Step::Answer => "answer",
        Step::Consent => "consent",
    };
    let failed_at = dry_run.failed_at;
    let outcome = match failed_at {
        Some(failed_at) if step > failed_at => "NotReached",
        Some(failed_at) if step == failed_at => "Failed",
        Some(_) if dry_run.is_connection_unknown => "Unknown",
        _ => "Succeeded",
    };
    let message = (failed_at == Some(step)).then_some(dry_run.exchange.message.as_str());
    json!({ "step": name, "outcome": outcome, "message": message })
}
