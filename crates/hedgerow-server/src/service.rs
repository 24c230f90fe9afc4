//! One request: the guard, then the publish route or the admin API. Every answer carries a request id (ED-067).

use axum::Router;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use hedgerow_io::chance;
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use tower_service::Service as _;

use crate::admin;
use crate::error::ApiError;
use crate::publish::{self, event_grid};
use crate::state::SharedApp;

/// The header of the request id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");

/// An answer: a whole one of the publish route, or the router's.
pub type Answer = Response<Either<Full<Bytes>, axum::body::Body>>;

/// Answers requests.
pub struct Requests {
    app: SharedApp,
    admin: Router,
}

impl Requests {
    pub fn new(app: SharedApp) -> Self {
        Self {
            admin: admin::router(app.clone()),
            app,
        }
    }

    pub async fn answer(&self, request: Request<Incoming>) -> Answer {
        let id = chance::uuid();
        let mut answer = self.route(request, &id).await;
        let value = HeaderValue::from_str(&id).expect("a UUID is hexadecimal digits and hyphens");
        answer.headers_mut().insert(REQUEST_ID, value);
        answer
    }

    async fn route(&self, request: Request<Incoming>, id: &str) -> Answer {
        let (parts, body) = request.into_parts();
        if let Some(guard) = &self.app.guard
            && let Err(foreign) = guard.judge(&parts)
        {
            return ApiError::from(foreign).into_response().map(Either::Right);
        }
        if let Some(route) = publish::route(&self.app.public_url, &parts) {
            let answer = event_grid::answer(&self.app, route, &parts, body, id).await;
            return answer.map(Either::Left);
        }
        if admin::is_guarded(parts.uri.path()) && !self.app.token.is_borne_by(&parts.headers) {
            return ApiError::unauthorized().into_response().map(Either::Right);
        }
        let mut router = self.admin.clone();
        let answer = router.call(Request::from_parts(parts, body)).await;
        let answer = answer.unwrap_or_else(|never| match never {});
        tracing::debug!(
            request_id = id,
            status = answer.status().as_u16(),
            "admin request"
        );
        answer.map(Either::Right)
    }
}
