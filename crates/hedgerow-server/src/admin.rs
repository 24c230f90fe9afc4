//! The admin API below `/api/v1`, and `/healthz`. One module a noun; bodies have the shapes of Event Grid's properties.

mod apply;
mod dead_letters;
mod dry_run;
mod events;
mod explanation;
mod extract;
mod health;
mod merge;
mod routes;
mod store;
mod subscriptions;
mod terminal_records;
mod tokens;
mod topics;
mod validation;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use hedgerow_core::limits;
use hedgerow_core::spec::{self, Warning};
use http::{Method, Uri};
use serde_json::{Value, json};

use self::routes::{Reach, Routes, Rule};
use crate::access::Right;
use crate::body::{self, BodyError};
use crate::error::ApiError;
use crate::metrics;
use crate::state::{App, SharedApp};

pub use self::subscriptions::{
    complete as complete_subscription, declare as declare_subscription, keep_secrets,
};
pub use self::validation::failure as validation_failure;

/// Whether a path needs the admin token.
pub fn is_guarded(path: &str) -> bool {
    matches!(path, "/api" | "/api/") || path.starts_with("/api/v")
}

/// Whether a request is for the admin API or what is beside it, and not a publisher's who missed the right path. Who reads at a
/// path of no kind looks for a page.
pub fn is_meant(method: &Method, path: &str) -> bool {
    let is_page = matches!(path, "/" | "/healthz" | "/metrics") || path.starts_with("/metrics/");
    let reads = matches!(*method, Method::GET | Method::HEAD) && !path.contains("/api/event");
    is_page || reads || is_guarded(path)
}

/// Everything but the publish route.
pub fn router(app: SharedApp) -> Router {
    let (router, _) = routes();
    router
        .route("/healthz", get(health::get))
        .route("/metrics", get(metrics::get))
        .route("/metrics/event-grid", get(metrics::get_event_grid))
        .fallback(|uri: Uri| async move { ApiError::no_route(uri.path()) })
        .method_not_allowed_fallback(|| async { ApiError::method() })
        .with_state(app)
}

fn shown_warning(warning: &Warning) -> Value {
    json!({ "field": warning.field, "message": warning.message })
}

/// The routes of the API, and who may ask them (docs/reference/admin-api.md).
fn routes() -> (Router<SharedApp>, Vec<Rule>) {
    use Reach::{Grid, Lists, NewTopic, Topic};
    use Right::{Admin, Operate, Read};
    const TOPIC: &str = "/api/v1/topics/{topic}";
    const LIST_KEYS: &str = "/api/v1/topics/{topic}/listKeys";
    const REGENERATE_KEY: &str = "/api/v1/topics/{topic}/regenerateKey";
    const SUBSCRIPTIONS: &str = "/api/v1/topics/{topic}/eventSubscriptions";
    const SUBSCRIPTION: &str = "/api/v1/topics/{topic}/eventSubscriptions/{name}";
    const FULL_URL: &str = "/api/v1/topics/{topic}/eventSubscriptions/{name}/getFullUrl";
    const PAUSE: &str = "/api/v1/topics/{topic}/eventSubscriptions/{name}/pause";
    const RESUME: &str = "/api/v1/topics/{topic}/eventSubscriptions/{name}/resume";
    const RESET: &str = "/api/v1/topics/{topic}/eventSubscriptions/{name}/reset";
    const PURGE: &str = "/api/v1/topics/{topic}/eventSubscriptions/{name}/purge";
    const VALIDATE_ENDPOINT: &str = "/api/v1/topics/{topic}/validateEndpoint";
    const ATTEMPTS: &str = "/api/v1/events/{eventId}/attempts";
    const RESEND: &str = "/api/v1/topics/{topic}/events/{eventId}/resend";
    const EXPLANATION: &str = "/api/v1/events/{eventId}/explanation";
    const DEAD_LETTERS: &str = "/api/v1/deadLetters";
    const TERMINAL_RECORDS: &str = "/api/v1/terminalRecords";
    const TOKENS: &str = "/api/v1/tokens";
    let (get, put, post, delete) = (Method::GET, Method::PUT, Method::POST, Method::DELETE);
    let get = |path| (get.clone(), path);
    let put = |path| (put.clone(), path);
    let post = |path| (post.clone(), path);
    let delete = |path| (delete.clone(), path);
    Routes::default()
        .add(get("/api/v1/topics"), (Read, Lists), topics::list)
        .add(put(TOPIC), (Admin, NewTopic), topics::put)
        .add(get(TOPIC), (Read, Topic), topics::get)
        .add(delete(TOPIC), (Admin, Topic), topics::delete)
        .add(post(LIST_KEYS), (Admin, Topic), topics::list_keys)
        .add(post(REGENERATE_KEY), (Admin, Topic), topics::regenerate_key)
        .add(get(SUBSCRIPTIONS), (Read, Topic), subscriptions::list)
        .add(put(SUBSCRIPTION), (Admin, Topic), subscriptions::put)
        .add(get(SUBSCRIPTION), (Read, Topic), subscriptions::get)
        .add(
            (Method::PATCH, SUBSCRIPTION),
            (Admin, Topic),
            subscriptions::patch,
        )
        .add(delete(SUBSCRIPTION), (Admin, Topic), subscriptions::delete)
        .add(post(FULL_URL), (Admin, Topic), subscriptions::full_url)
        .add(post(PAUSE), (Operate, Topic), subscriptions::pause)
        .add(post(RESUME), (Operate, Topic), subscriptions::resume)
        .add(post(RESET), (Operate, Topic), subscriptions::reset)
        .add(post(PURGE), (Operate, Topic), subscriptions::purge)
        .add(post(VALIDATE_ENDPOINT), (Admin, Topic), dry_run::post)
        .add(post(RESEND), (Operate, Topic), events::resend)
        .add(get(ATTEMPTS), (Read, Lists), events::attempts)
        .add(get(EXPLANATION), (Read, Lists), explanation::get)
        .add(get(DEAD_LETTERS), (Read, Lists), dead_letters::list)
        .add(get(TERMINAL_RECORDS), (Read, Lists), terminal_records::list)
        .add(post("/api/v1/apply"), (Admin, Lists), apply::post)
        .add(get("/api/v1/store"), (Read, Grid), store::get)
        .add(post(TOKENS), (Admin, Grid), tokens::create)
        .add(get(TOKENS), (Admin, Grid), tokens::list)
        .add(
            delete("/api/v1/tokens/{name}"),
            (Admin, Grid),
            tokens::delete,
        )
        .finish()
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
    Ok(spec::parse(&bytes, limits::SPEC_BYTES_MAX)?)
}
