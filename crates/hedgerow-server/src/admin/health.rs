//! `/healthz`: whether requests should be sent here. Needs no token and tells nothing else.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};

use crate::state::{Phase, SharedApp};

pub async fn get(State(app): State<SharedApp>) -> (StatusCode, Json<Value>) {
    let (code, status) = match app.phase() {
        Phase::Serving => (StatusCode::OK, "ok"),
        Phase::Recovering => (StatusCode::SERVICE_UNAVAILABLE, "recovering"),
        Phase::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    };
    (code, Json(json!({ "status": status })))
}
