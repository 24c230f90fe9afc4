//! The admin API below `/api/v1`, and `/healthz`. One module a noun; bodies have the shapes of Event Grid's properties.

mod dead_letters;
mod events;
mod extract;
mod health;
mod store;
mod subscriptions;
mod terminal_records;
mod topics;

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post, put};
use hedgerow_core::limits;
use hedgerow_core::spec::{self, Warning};
use http::Uri;
use serde_json::{Value, json};

use crate::body::{self, BodyError};
use crate::error::ApiError;
use crate::state::{App, SharedApp};

/// Whether a path needs the admin token.
pub fn is_guarded(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// Everything but the publish route.
pub fn router(app: SharedApp) -> Router {
    let subscription = put(subscriptions::put)
        .get(subscriptions::get)
        .delete(subscriptions::delete);
    Router::new()
        .route("/healthz", get(health::get))
        .route("/api/v1/topics", get(topics::list))
        .route(
            "/api/v1/topics/{topic}",
            put(topics::put).get(topics::get).delete(topics::delete),
        )
        .route("/api/v1/topics/{topic}/listKeys", post(topics::list_keys))
        .route(
            "/api/v1/topics/{topic}/regenerateKey",
            post(topics::regenerate_key),
        )
        .route(
            "/api/v1/topics/{topic}/eventSubscriptions",
            get(subscriptions::list),
        )
        .route(
            "/api/v1/topics/{topic}/eventSubscriptions/{name}",
            subscription,
        )
        .route("/api/v1/events/{eventId}/attempts", get(events::attempts))
        .route("/api/v1/store", get(store::get))
        .route("/api/v1/deadLetters", get(dead_letters::list))
        .route("/api/v1/terminalRecords", get(terminal_records::list))
        .fallback(|uri: Uri| async move { ApiError::no_route(uri.path()) })
        .method_not_allowed_fallback(|| async { ApiError::method() })
        .with_state(app)
}

fn shown_warning(warning: &Warning) -> Value {
    json!({ "field": warning.field, "message": warning.message })
}

/// The JSON of a request's body. An empty body is an empty object.
async fn json_body(app: &App, request: Request) -> Result<Value, ApiError> {
    let mut body = request.into_body();
    let read = body::read(&mut body, limits::SPEC_BYTES_MAX, app.body_timeout).await;
    if read == Err(BodyError::TooLarge) {
        body::discard(body);
    }
    let bytes = read?;
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    Ok(spec::parse(&bytes)?)
}
