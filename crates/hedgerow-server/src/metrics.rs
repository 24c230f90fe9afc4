//! `/metrics` (ED-297 to ED-304): what was counted and how every subscription is doing, in `OpenMetrics`.
//!
//! | samples | begin at zero |
//! | --- | --- |
//! | counters and histograms | with the process |
//! | `hedgerow_deliveries` | with the subscription: the store keeps them, and they balance (ED-304) |
//! | other gauges | are as they are |
//!
//! While the store is being opened there are counters only. Series are bounded: subscriptions beyond
//! `metrics.subscriptions_max` are added up in one, `_other`, and origins beyond `metrics.origins_max` are left out.

mod edge;
mod families;
mod origins;
mod text;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};

use self::origins::OriginScrape;
pub use self::text::Spelling;
use crate::access::Right;
use crate::error::ApiError;
use crate::state::SharedApp;

/// `/metrics`.
pub async fn get(State(app): State<SharedApp>, headers: HeaderMap) -> Result<Response, ApiError> {
    answer(&app, &headers, Spelling::Ours).await
}

/// `/metrics/event-grid`: the same in the vendor's spelling.
pub async fn get_event_grid(
    State(app): State<SharedApp>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    answer(&app, &headers, Spelling::Vendors).await
}

async fn answer(
    app: &SharedApp,
    headers: &HeaderMap,
    spelling: Spelling,
) -> Result<Response, ApiError> {
    if app.metrics_options.needs_token {
        let grant = app.tokens.grant(headers, app.time());
        let grant = grant.ok_or_else(ApiError::unauthorized)?;
        if !grant.rights.has(Right::Read) {
            return Err(ApiError::without_right(&grant, Right::Read));
        }
        if !grant.is_whole() {
            return Err(ApiError::of_the_grid(&grant));
        }
    }
    // An engine that goes away meanwhile is none.
    let engine = app.engine().ok();
    let gauges = match &engine {
        Some(engine) => engine.gauges().await.unwrap_or_default(),
        None => Vec::new(),
    };
    let usage = engine.map(|engine| engine.store().usage());
    let origins_max = app.metrics_options.origins_max;
    let origins = OriginScrape::of(&app.origins, origins_max).await;
    let app = Arc::clone(app);
    // Of thousands of subscriptions it is megabytes: attempts do not wait for that.
    let write = move || {
        let scrape = families::Scrape {
            metrics: &app.metrics,
            gauges: &gauges,
            usage,
            now: app.time(),
            subscriptions_max: app.metrics_options.subscriptions_max,
        };
        let mut families = scrape.families();
        families.extend(origins.families());
        families.extend(edge::families(&app.edge));
        text::write(&families, spelling)
    };
    let text = tokio::task::spawn_blocking(write).await;
    let text = text.map_err(|_| ApiError::internal())?;
    let mut response = text.into_response();
    let content_type = HeaderValue::from_static(text::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
}
