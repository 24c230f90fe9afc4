//! Sends one probe now, through the same connector as all others, and shows its parts. It is no sample of any group.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use hedgerow_origin::outcome::{Demands, Met, Reason};
use hedgerow_origin::settings::Group;
use hedgerow_origin::target::ProbeTarget;
use hedgerow_prober::probe::{Exchange, probe};
use http::Uri;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::json_body;
use crate::error::ApiError;
use crate::state::{App, SharedApp};

/// What a probe of a URL may say beside it.
const OF_URL: [&str; 5] = [
    "url",
    "method",
    "host_header",
    "timeout_s",
    "verify_certificate_name",
];
/// What one of a group may say.
const OF_GROUP: [&str; 2] = ["group", "origin"];

/// A probe that is to be sent.
struct Wanted {
    origin: Option<String>,
    target: ProbeTarget,
    demands: Demands,
}

pub async fn post(State(app): State<SharedApp>, request: Request) -> Result<Json<Value>, ApiError> {
    let body = json_body(&app, request).await?;
    let Some(members) = body.as_object() else {
        return Err(ApiError::member("", "must be an object"));
    };
    let wanted = match (members.get("url"), members.get("group")) {
        (Some(Value::String(url)), None) => vec![of_url(url, members)?],
        (None, Some(Value::String(group))) => of_group(&app, group, members)?,
        _ => {
            let message = "must be given, or group: the one of both, as a text";
            return Err(ApiError::member("url", message));
        }
    };
    let mut probes = JoinSet::new();
    for (place, wanted) in wanted.into_iter().enumerate() {
        let origins = std::sync::Arc::clone(&app.origins);
        probes.spawn(async move {
            let at = || Duration::from_millis(origins.clock.now().timestamp.as_millis());
            let ended = probe(&*origins.connector, &wanted.target, &wanted.demands, at).await;
            let shown = match ended {
                Ok(exchange) => shown(&wanted, &exchange),
                Err(aborted) => json!({
                    "origin": wanted.origin,
                    "url": wanted.target.url(),
                    "method": wanted.target.method.as_str(),
                    "result": "probe_aborted",
                    "message": aborted.why,
                }),
            };
            (place, shown)
        });
    }
    let mut value = Vec::new();
    while let Some(ended) = probes.join_next().await {
        value.push(ended.map_err(|_| ApiError::internal())?);
    }
    value.sort_by_key(|(place, _)| *place);
    let value: Vec<Value> = value.into_iter().map(|(_, shown)| shown).collect();
    Ok(Json(json!({ "value": value })))
}

fn refuse_others(members: &Map<String, Value>, known: &[&str]) -> Result<(), ApiError> {
    let mut others = members.keys();
    match others.find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => {
            let message = format!("is unknown here; known are {}", known.join(", "));
            Err(ApiError::member(other, &message))
        }
    }
}

/// A target as a group of one origin would have it, so that it is judged as one.
fn of_url(text: &str, members: &Map<String, Value>) -> Result<Wanted, ApiError> {
    refuse_others(members, &OF_URL)?;
    let no_url = || ApiError::member("url", "must be an http or https URL without user name");
    let url: Uri = text.parse().map_err(|_| no_url())?;
    let authority = url.authority().ok_or_else(no_url)?;
    let scheme = url.scheme_str().ok_or_else(no_url)?;
    if !matches!(scheme, "http" | "https") || authority.as_str().contains('@') {
        return Err(no_url());
    }
    let default = if scheme == "https" { 443 } else { 80 };
    let port = url.port_u16().unwrap_or(default);
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let group = json!({
        "probe": {
            "protocol": scheme,
            "path": path,
            "method": members.get("method"),
            "timeout_s": members.get("timeout_s"),
            // It is sent once: only that no timeout exceeds it matters.
            "interval_s": 255,
        },
        "origins": [{
            "name": "url",
            "host": authority.host(),
            "http_port": port,
            "https_port": port,
            "host_header": members.get("host_header"),
            "verify_certificate_name": members.get("verify_certificate_name"),
        }],
    });
    let group = Group::read(&group);
    let group = group.map_err(|refusal| ApiError::refusal("probe", &refusal))?;
    let origin = group.settings().origins.first().ok_or_else(no_url)?;
    Ok(Wanted {
        origin: None,
        target: ProbeTarget::of(&group, origin),
        demands: group.rules().demands,
    })
}

/// The origins of a group that are enabled, or the one that is named.
fn of_group(app: &App, name: &str, members: &Map<String, Value>) -> Result<Vec<Wanted>, ApiError> {
    refuse_others(members, &OF_GROUP)?;
    let table = app.engine()?.origins();
    let found = table.group_named(name);
    let (_, declared) = found.ok_or_else(|| ApiError::none("origin group", name))?;
    let only = match members.get("origin") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name),
        Some(_) => return Err(ApiError::member("origin", "must be a text")),
    };
    let origins = declared.group.settings().origins.iter();
    let wanted = origins.filter(|origin| match only {
        None => origin.enabled,
        Some(only) => origin.name == *only,
    });
    let wanted = wanted.map(|origin| Wanted {
        origin: Some(origin.name.clone()),
        target: ProbeTarget::of(&declared.group, origin),
        demands: declared.group.rules().demands,
    });
    let wanted: Vec<_> = wanted.collect();
    match only {
        Some(only) if wanted.is_empty() => Err(ApiError::none("origin", only)),
        _ => Ok(wanted),
    }
}

fn shown(wanted: &Wanted, exchange: &Exchange) -> Value {
    let judged = exchange.observation.judge(&wanted.demands);
    let status = match exchange.observation.met {
        Met::Response(response) => Some(response.status),
        Met::Failure(_) => None,
    };
    let parts = exchange.observation.parts;
    json!({
        "origin": wanted.origin,
        "url": wanted.target.url(),
        "method": wanted.target.method.as_str(),
        "host_header": wanted.target.host_header,
        "result": judged.err().map_or("success", Reason::as_str),
        "status": status,
        "address": exchange.peer.map(|peer| peer.to_string()),
        "dns_us": parts.dns_us,
        "connect_us": parts.connect_us,
        "tls_us": parts.tls_us,
        "first_byte_us": parts.first_byte_us,
        "total_us": parts.total_us,
        "elapsed_us": exchange.observation.elapsed_us,
        "excerpt": String::from_utf8_lossy(&exchange.excerpt),
    })
}
