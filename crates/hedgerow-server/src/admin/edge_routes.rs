//! Routes of the edge listener: which requests go to which origin group.

use axum::Json;
use axum::extract::{Query, Request, State};
use hedgerow_core::name::RouteName;
use hedgerow_delivery::origin_groups::{OriginTable, RouteDone, Wish};
use hedgerow_origin::route::RouteSettings;
use hedgerow_store::catalog::DeclaredRoute;
use http::StatusCode;
use serde_json::{Value, json};

use super::extract::Names;
use super::json_body;
use super::merge::merge;
use super::origin_groups::{OriginQuery, Pairs, change_of, status_of};
use super::subscriptions::{DECLARE_TRIES_MAX, refuse_other};
use crate::error::ApiError;
use crate::state::{App, SharedApp};

/// Members of answers that are no settings.
const READ_ONLY: [&str; 5] = ["name", "created_time", "changed_time", "change", "dry_run"];

pub async fn list(State(app): State<SharedApp>) -> Result<Json<Value>, ApiError> {
    let table = app.engine()?.origins();
    let value = table.routes.iter();
    let value: Vec<Value> = value.map(|(name, route)| shown(name, route)).collect();
    Ok(Json(json!({ "value": value })))
}

pub async fn get(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
) -> Result<Json<Value>, ApiError> {
    let table = app.engine()?.origins();
    let (name, route) = found(&table, &name)?;
    Ok(Json(shown(name, route)))
}

pub async fn put(
    State(app): State<SharedApp>,
    Names(name): Names<String>,
    Query(pairs): Pairs,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let query = OriginQuery::of(pairs, &["dryRun"])?;
    let mut body = json_body(&app, request).await?;
    let name: RouteName = name.parse()?;
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
        // Plain values with text keys always serialize.
        let mut route = serde_json::to_value(&present.route).unwrap_or_default();
        merge(&mut route, patch.clone());
        let wanted = read(&mut route)?;
        let expected = Some(present.route.clone());
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
    app.engine()?.delete_route(name.clone()).await?;
    tracing::info!(route = name, "route deleted");
    Ok(StatusCode::NO_CONTENT)
}

fn found<'t>(
    table: &'t OriginTable,
    name: &str,
) -> Result<(&'t RouteName, &'t DeclaredRoute), ApiError> {
    let found = table.route_named(name);
    let found = found.map(|(name, route)| (name, &**route));
    found.ok_or_else(|| ApiError::none("route", name))
}

/// Reads a declaration, or an answer that is sent back.
fn read(body: &mut Value) -> Result<Box<RouteSettings>, ApiError> {
    if let Some(members) = body.as_object_mut() {
        members.retain(|name, _| !READ_ONLY.contains(&name.as_str()));
    }
    let read = RouteSettings::read(body);
    let route = read.map_err(|refusal| ApiError::refusal("route", &refusal))?;
    Ok(Box::new(route))
}

async fn declare(
    app: &App,
    name: RouteName,
    wanted: Box<RouteSettings>,
    expected: Option<RouteSettings>,
    is_dry_run: bool,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let wish = Wish {
        name,
        wanted,
        expected: expected.map(Box::new),
        is_dry_run,
    };
    let RouteDone {
        name,
        declared,
        put,
    } = app.engine()?.put_route(wish).await?;
    if !is_dry_run {
        tracing::info!(route = %name, change = change_of(put), "route declared");
    }
    let mut json = shown(&name, &declared);
    json["change"] = json!(change_of(put));
    if is_dry_run {
        json["dry_run"] = json!(true);
    }
    Ok((status_of(put, is_dry_run), Json(json)))
}

fn shown(name: &RouteName, route: &DeclaredRoute) -> Value {
    // Plain values with text keys always serialize.
    let mut json = serde_json::to_value(&route.route).unwrap_or_default();
    json["name"] = json!(name.as_str());
    json["created_time"] = json!(route.created.to_string());
    json["changed_time"] = json!(route.changed.to_string());
    json
}
