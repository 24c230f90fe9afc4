//! Origin groups: what they are, how their origins are doing, and how many probes these get. Bodies have the names of the
//! health-probe settings.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Query, Request, State};
use hedgerow_core::name::OriginGroupName;
use hedgerow_core::spec::Warning;
use hedgerow_delivery::origin_groups::{GroupDone, OriginTable, Put, Wish};
use hedgerow_origin::settings::Group;
use hedgerow_origin::target::key_of_host;
use hedgerow_store::catalog::OriginGroup;
use http::StatusCode;
use serde_json::{Value, json};

use super::extract::Names;
use super::origin_patch::patched;
use super::subscriptions::{DECLARE_TRIES_MAX, refuse_other};
use super::{json_body, shown_warning};
use crate::error::ApiError;
use crate::origins::{GroupLoad, OriginEstimate, estimate_of, warnings};
use crate::state::{App, SharedApp};

/// Members of answers that are no settings.
const READ_ONLY: [&str; 7] = [
    "name",
    "created_time",
    "changed_time",
    "change",
    "dry_run",
    "estimate",
    "warnings",
];

/// What a query may have.
#[derive(Debug, Default)]
pub struct OriginQuery {
    /// Whether a change is only judged.
    pub is_dry_run: bool,
    /// How many nodes serve the group; none is said to be one.
    nodes: Option<u32>,
    /// Only changes with a higher number.
    after: u64,
}

impl OriginQuery {
    /// Reads the pairs of a query, of which only some are taken.
    ///
    /// # Errors
    /// If there is another one, or one that cannot be read.
    pub fn of(pairs: Vec<(String, String)>, taken: &[&str]) -> Result<Self, ApiError> {
        let invalid = |name: &str, message: &str| {
            let message = format!("{name}: {message}");
            ApiError::invalid(message, "correct the query of the request")
        };
        let mut query = Self::default();
        for (name, value) in pairs {
            if !taken.contains(&name.as_str()) {
                let known = format!("is no parameter here; known are {}", taken.join(", "));
                return Err(invalid(&name, &known));
            }
            match name.as_str() {
                "dryRun" => {
                    let read = value.parse();
                    query.is_dry_run = read.map_err(|_| invalid(&name, "must be true or false"))?;
                }
                "nodes" => {
                    let read = value
                        .parse()
                        .ok()
                        .filter(|nodes| (1..=100_000).contains(nodes));
                    let rule = "must be a whole number from 1 to 100000";
                    query.nodes = Some(read.ok_or_else(|| invalid(&name, rule))?);
                }
                _ => {
                    let read = value.parse();
                    let rule = "must be the number of a change";
                    query.after = read.map_err(|_| invalid(&name, rule))?;
                }
            }
        }
        Ok(query)
    }
}

/// The pairs of a query.
pub type Pairs = Query<Vec<(String, String)>>;

pub async fn list(State(app): State<SharedApp>) -> Result<Json<Value>, ApiError> {
    let table = app.engine()?.origins();
    let value = table.groups.iter();
    let value: Vec<Value> = value.map(|(name, group)| shown(name, group)).collect();
    Ok(Json(json!({ "value": value })))
}

pub async fn get(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
) -> Result<Json<Value>, ApiError> {
    let table = app.engine()?.origins();
    let (name, group) = found(&table, &name)?;
    Ok(Json(shown(name, group)))
}

pub async fn put(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
    Query(pairs): Pairs,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let query = OriginQuery::of(pairs, &["dryRun"])?;
    let mut body = json_body(&app, request).await?;
    let name: OriginGroupName = name.parse()?;
    refuse_other(&body, "name", name.as_str())?;
    let wanted = read(&mut body)?;
    declare(&app, name, wanted, None, query.is_dry_run).await
}

/// Changes what the body names and keeps the rest. Of two changes at the same time none is lost.
pub async fn patch(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
    Query(pairs): Pairs,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let query = OriginQuery::of(pairs, &["dryRun"])?;
    let patch = json_body(&app, request).await?;
    if !patch.is_object() {
        return Err(ApiError::member("", "must be an object"));
    }
    let mut tries = 1;
    loop {
        let table = app.engine()?.origins();
        let (name, present) = found(&table, &name)?;
        refuse_other(&patch, "name", name.as_str())?;
        let mut patch = patch.clone();
        remove_read_only(&mut patch);
        let wanted = read(&mut patched(present.group.settings(), patch))?;
        let expected = Some(present.group.clone());
        let declared = declare(&app, name.clone(), wanted, expected, query.is_dry_run).await;
        if tries >= DECLARE_TRIES_MAX || !declared.as_ref().is_err_and(ApiError::is_changed) {
            return declared;
        }
        tries += 1;
    }
}

pub async fn delete(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
) -> Result<StatusCode, ApiError> {
    app.engine()?.delete_origin_group(name.clone()).await?;
    tracing::info!(group = name, "origin group deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// How the origins of a group are doing on this node (HP-207).
pub async fn status(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
    Query(pairs): Pairs,
) -> Result<Json<Value>, ApiError> {
    let query = OriginQuery::of(pairs, &["after", "nodes"])?;
    let engine = app.engine()?;
    let table = engine.origins();
    let (name, group) = found(&table, &name)?;
    let status = app.origins.prober.status(name.as_str()).await;
    let users = engine.users_of_origin_group(name.to_string()).await?;
    let estimate = estimates(&app, &table, name, &group.group, query.nodes).await;
    Ok(Json(json!({
        "name": name.as_str(),
        "region": app.origins.region,
        "probing": group.group.settings().probe.enabled,
        "fail_open": group.group.settings().fail_open,
        // Nothing for the moment between a declaration and its first probe.
        "status": status,
        "estimate": estimate,
        "recent": app.origins.story.recent(name.as_str(), query.after),
        "used_by": users,
    })))
}

/// How many probes the origins of a group get (HP-085, HP-088).
pub async fn estimate(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
    Query(pairs): Pairs,
) -> Result<Json<Value>, ApiError> {
    let query = OriginQuery::of(pairs, &["nodes"])?;
    let table = app.engine()?.origins();
    let (name, group) = found(&table, &name)?;
    let estimate = estimates(&app, &table, name, &group.group, query.nodes).await;
    let mut json = json!({ "name": name.as_str(), "estimate": estimate });
    add_warnings(&mut json, &estimate);
    Ok(Json(json))
}

fn found<'t>(
    table: &'t OriginTable,
    name: &str,
) -> Result<(&'t OriginGroupName, &'t OriginGroup), ApiError> {
    let found = table.group_named(name);
    let found = found.map(|(name, group)| (name, &**group));
    found.ok_or_else(|| ApiError::none("origin group", name))
}

fn remove_read_only(body: &mut Value) {
    if let Some(members) = body.as_object_mut() {
        members.retain(|name, _| !READ_ONLY.contains(&name.as_str()));
    }
}

/// Reads a declaration, or an answer that is sent back.
fn read(body: &mut Value) -> Result<Box<Group>, ApiError> {
    remove_read_only(body);
    let read = Group::read(body);
    let group = read.map_err(|refusal| ApiError::refusal("origin group", &refusal))?;
    Ok(Box::new(group))
}

async fn declare(
    app: &App,
    name: OriginGroupName,
    wanted: Box<Group>,
    expected: Option<Group>,
    is_dry_run: bool,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let wish = Wish {
        name,
        wanted,
        expected: expected.map(Box::new),
        is_dry_run,
    };
    let engine = app.engine()?;
    let done = engine.put_origin_group(wish).await?;
    let GroupDone {
        name,
        declared,
        put,
    } = &done;
    if !is_dry_run {
        tracing::info!(group = %name, change = change_of(*put), "origin group declared");
    }
    let estimate = estimate_in_use(app, &engine.origins(), name, &declared.group);
    let mut json = shown(name, declared);
    json["change"] = json!(change_of(*put));
    if is_dry_run {
        json["dry_run"] = json!(true);
    }
    json["estimate"] = json!(estimate);
    add_warnings(&mut json, &estimate);
    Ok((status_of(*put, is_dry_run), Json(json)))
}

/// What a declaration did, as it is told.
pub const fn change_of(put: Put) -> &'static str {
    match put {
        Put::Created => "created",
        Put::Changed => "changed",
        Put::Unchanged => "unchanged",
    }
}

/// The status of its answer.
pub fn status_of(put: Put, is_dry_run: bool) -> StatusCode {
    if put == Put::Created && !is_dry_run {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}

fn shown(name: &OriginGroupName, group: &OriginGroup) -> Value {
    // Plain values with text keys always serialize.
    let mut json = serde_json::to_value(&group.group).unwrap_or_default();
    json["name"] = json!(name.as_str());
    json["created_time"] = json!(group.created.to_string());
    json["changed_time"] = json!(group.changed.to_string());
    json
}

fn add_warnings(json: &mut Value, estimate: &[OriginEstimate]) {
    let warnings = warnings(estimate);
    if !warnings.is_empty() {
        json["warnings"] = warnings.iter().map(shown_warning).collect();
    }
}

/// What is said of a group whose origins get many probes (HP-088).
pub fn many_probes(
    app: &App,
    table: &OriginTable,
    name: &OriginGroupName,
    group: &Group,
) -> Vec<Warning> {
    warnings(&estimate_in_use(app, table, name, group))
}

/// The estimate of a group that is used, as are all others: the most that there will be.
fn estimate_in_use(
    app: &App,
    table: &OriginTable,
    name: &OriginGroupName,
    group: &Group,
) -> Vec<OriginEstimate> {
    let in_use = |group| GroupLoad {
        group,
        idle_level: 0,
    };
    let others = neighbours(table, name, group);
    let others: Vec<_> = others.into_iter().map(|(_, group)| in_use(group)).collect();
    estimate_of(in_use(group), &others, 1, &app.origins.region)
}

/// The same as it is now on this node, for so many nodes like it.
async fn estimates(
    app: &App,
    table: &OriginTable,
    name: &OriginGroupName,
    group: &Group,
    nodes: Option<u32>,
) -> Vec<OriginEstimate> {
    let prober = &app.origins.prober;
    let level = async |name: &OriginGroupName| {
        let status = prober.status(name.as_str()).await;
        status.map_or(0, |status| status.idle_level)
    };
    let mut others = Vec::new();
    for (name, group) in neighbours(table, name, group) {
        let idle_level = level(name).await;
        others.push(GroupLoad { group, idle_level });
    }
    let idle_level = level(name).await;
    let of = GroupLoad { group, idle_level };
    estimate_of(of, &others, nodes.unwrap_or(1), &app.origins.region)
}

/// The other groups that have an origin on a host of this one.
fn neighbours<'t>(
    table: &'t OriginTable,
    name: &OriginGroupName,
    group: &Group,
) -> Vec<(&'t OriginGroupName, &'t Group)> {
    let hosts = |group: &Group| -> BTreeSet<String> {
        let origins = group.settings().origins.iter();
        origins.map(|origin| key_of_host(&origin.host)).collect()
    };
    let own = hosts(group);
    let others = table.groups.iter().filter(|(other, _)| *other != name);
    let others = others.filter(|(_, other)| !own.is_disjoint(&hosts(&other.group)));
    others.map(|(name, other)| (name, &other.group)).collect()
}
