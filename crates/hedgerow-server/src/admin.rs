//! The admin API below `/api/v1`, and `/healthz`. One module a noun; bodies have the shapes of Event Grid's properties.

mod apply;
mod dead_letters;
mod domains;
mod dry_run;
mod edge_routes;
mod endpoint_test;
mod events;
mod explanation;
mod extract;
mod filter_test;
mod health;
mod merge;
mod origin_groups;
mod origin_patch;
mod probe;
mod replays;
mod routes;
mod sample;
mod signing;
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

pub use self::origin_groups::many_probes;
pub use self::subscriptions::{
    complete as complete_subscription, declare as declare_subscription, keep_secrets, profile_of,
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

/// Adds the routes of what subscriptions are made for, below its own path.
macro_rules! add_source {
    ($routes:expr, $path:literal) => {
        $routes
            .add(
                (Method::GET, concat!($path, "/eventSubscriptions")),
                (Read, Topic),
                subscriptions::list,
            )
            .add(
                (Method::PUT, concat!($path, "/eventSubscriptions/{name}")),
                (Admin, Topic),
                subscriptions::put,
            )
            .add(
                (Method::GET, concat!($path, "/eventSubscriptions/{name}")),
                (Read, Topic),
                subscriptions::get,
            )
            .add(
                (Method::PATCH, concat!($path, "/eventSubscriptions/{name}")),
                (Admin, Topic),
                subscriptions::patch,
            )
            .add(
                (Method::DELETE, concat!($path, "/eventSubscriptions/{name}")),
                (Admin, Topic),
                subscriptions::delete,
            )
            .add(
                (
                    Method::POST,
                    concat!($path, "/eventSubscriptions/{name}/getFullUrl"),
                ),
                (Admin, Topic),
                subscriptions::full_url,
            )
            .add(
                (
                    Method::POST,
                    concat!($path, "/eventSubscriptions/{name}/pause"),
                ),
                (Operate, Topic),
                subscriptions::pause,
            )
            .add(
                (
                    Method::POST,
                    concat!($path, "/eventSubscriptions/{name}/resume"),
                ),
                (Operate, Topic),
                subscriptions::resume,
            )
            .add(
                (
                    Method::POST,
                    concat!($path, "/eventSubscriptions/{name}/reset"),
                ),
                (Operate, Topic),
                subscriptions::reset,
            )
            .add(
                (
                    Method::POST,
                    concat!($path, "/eventSubscriptions/{name}/purge"),
                ),
                (Operate, Topic),
                subscriptions::purge,
            )
            .add(
                (
                    Method::POST,
                    concat!($path, "/eventSubscriptions/{name}/rotateSigningSecret"),
                ),
                (Admin, Topic),
                signing::rotate,
            )
            .add(
                (Method::POST, concat!($path, "/validateEndpoint")),
                (Admin, Topic),
                dry_run::post,
            )
            .add(
                (Method::POST, concat!($path, "/testEndpoint")),
                (Admin, Topic),
                endpoint_test::post,
            )
            .add(
                (Method::POST, concat!($path, "/testFilter")),
                (Operate, Topic),
                filter_test::post,
            )
            .add(
                (Method::POST, concat!($path, "/events/{eventId}/resend")),
                (Operate, Topic),
                events::resend,
            )
    };
}

/// The routes of the API, and who may ask them (docs/reference/admin-api.md).
fn routes() -> (Router<SharedApp>, Vec<Rule>) {
    use Reach::{Grid, Lists, NewTopic, Topic};
    use Right::{Admin, Operate, Read};
    const TOPIC: &str = "/api/v1/topics/{topic}";
    const DOMAIN: &str = "/api/v1/domains/{domain}";
    const DOMAIN_TOPICS: &str = "/api/v1/domains/{domain}/topics";
    const DOMAIN_TOPIC: &str = "/api/v1/domains/{domain}/topics/{domainTopic}";
    const ATTEMPTS: &str = "/api/v1/events/{eventId}/attempts";
    const EXPLANATION: &str = "/api/v1/events/{eventId}/explanation";
    const DEAD_LETTERS: &str = "/api/v1/deadLetters";
    const WRITTEN: &str = "/api/v1/topics/{topic}/eventSubscriptions/{name}/deadLetters";
    const RECORDS: &str = "/api/v1/topics/{topic}/eventSubscriptions/{name}/deadLetters/{blob}";
    const REPLAYS_OF: &str = "/api/v1/topics/{topic}/eventSubscriptions/{name}/replays";
    const REPLAYS: &str = "/api/v1/replays";
    const REPLAY: &str = "/api/v1/replays/{replay}";
    const STOP_REPLAY: &str = "/api/v1/replays/{replay}/stop";
    const RESUME_REPLAY: &str = "/api/v1/replays/{replay}/resume";
    const CANCEL_REPLAY: &str = "/api/v1/replays/{replay}/cancel";
    const TERMINAL_RECORDS: &str = "/api/v1/terminalRecords";
    const TOKENS: &str = "/api/v1/tokens";
    let (get, put, post, delete) = (Method::GET, Method::PUT, Method::POST, Method::DELETE);
    let get = |path| (get.clone(), path);
    let put = |path| (put.clone(), path);
    let post = |path| (post.clone(), path);
    let delete = |path| (delete.clone(), path);
    let routes = Routes::default()
        .add(get("/api/v1/topics"), (Read, Lists), topics::list)
        .add(put(TOPIC), (Admin, NewTopic), topics::put)
        .add(get(TOPIC), (Read, Topic), topics::get)
        .add(delete(TOPIC), (Admin, Topic), topics::delete)
        .add(
            post("/api/v1/topics/{topic}/listKeys"),
            (Admin, Topic),
            topics::list_keys,
        )
        .add(
            post("/api/v1/topics/{topic}/regenerateKey"),
            (Admin, Topic),
            topics::regenerate_key,
        )
        .add(get("/api/v1/domains"), (Read, Lists), domains::list)
        .add(put(DOMAIN), (Admin, NewTopic), domains::put)
        .add(get(DOMAIN), (Read, Topic), topics::get)
        .add(delete(DOMAIN), (Admin, Topic), topics::delete)
        .add(
            post("/api/v1/domains/{domain}/listKeys"),
            (Admin, Topic),
            topics::list_keys,
        )
        .add(
            post("/api/v1/domains/{domain}/regenerateKey"),
            (Admin, Topic),
            topics::regenerate_key,
        )
        .add(get(DOMAIN_TOPICS), (Read, Topic), domains::topics)
        .add(put(DOMAIN_TOPIC), (Admin, Topic), domains::put_topic)
        .add(get(DOMAIN_TOPIC), (Read, Topic), domains::get_topic)
        .add(delete(DOMAIN_TOPIC), (Admin, Topic), domains::delete_topic);
    let routes = add_source!(routes, "/api/v1/topics/{topic}");
    let routes = add_source!(routes, "/api/v1/domains/{domain}");
    let routes = add_source!(routes, "/api/v1/domains/{domain}/topics/{domainTopic}");
    add_origins(routes)
        .add(get(ATTEMPTS), (Read, Lists), events::attempts)
        .add(get(EXPLANATION), (Read, Lists), explanation::get)
        .add(get(DEAD_LETTERS), (Read, Lists), dead_letters::list)
        .add(get(WRITTEN), (Read, Topic), dead_letters::written)
        .add(get(RECORDS), (Read, Topic), dead_letters::records)
        .add(post(REPLAYS_OF), (Operate, Topic), replays::create)
        .add(get(REPLAYS), (Read, Lists), replays::list)
        .add(get(REPLAY), (Read, Lists), replays::get)
        .add(post(STOP_REPLAY), (Operate, Lists), replays::stop)
        .add(post(RESUME_REPLAY), (Operate, Lists), replays::resume)
        .add(post(CANCEL_REPLAY), (Operate, Lists), replays::cancel)
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

/// Adds the routes of origin groups, of routes to them, and of probes by hand.
fn add_origins(routes: Routes) -> Routes {
    use Reach::Grid;
    use Right::{Admin, Operate, Read};
    const GROUPS: &str = "/api/v1/origin-groups";
    const GROUP: &str = "/api/v1/origin-groups/{name}";
    const STATUS: &str = "/api/v1/origin-groups/{name}/status";
    const ESTIMATE: &str = "/api/v1/origin-groups/{name}/estimate";
    const ROUTES: &str = "/api/v1/routes";
    const ROUTE: &str = "/api/v1/routes/{name}";
    let get = |path| (Method::GET, path);
    let (admin, read) = ((Admin, Grid), (Read, Grid));
    routes
        .add(get(GROUPS), read, origin_groups::list)
        .add((Method::PUT, GROUP), admin, origin_groups::put)
        .add((Method::PATCH, GROUP), admin, origin_groups::patch)
        .add(get(GROUP), read, origin_groups::get)
        .add((Method::DELETE, GROUP), admin, origin_groups::delete)
        .add(get(STATUS), read, origin_groups::status)
        .add(get(ESTIMATE), read, origin_groups::estimate)
        .add(get(ROUTES), read, edge_routes::list)
        .add((Method::PUT, ROUTE), admin, edge_routes::put)
        .add((Method::PATCH, ROUTE), admin, edge_routes::patch)
        .add(get(ROUTE), read, edge_routes::get)
        .add((Method::DELETE, ROUTE), admin, edge_routes::delete)
        .add(
            (Method::POST, "/api/v1/probe"),
            (Operate, Grid),
            probe::post,
        )
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
