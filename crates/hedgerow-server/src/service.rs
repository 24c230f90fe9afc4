//! One request: the guard, then the publish route or the admin API. Every answer carries a request id (ED-067).

use axum::Router;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use hedgerow_dialect::event_grid::Report;
use hedgerow_io::chance;
use http::header::{CONNECTION, HeaderName, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use tower_service::Service as _;

use crate::admin;
use crate::body;
use crate::callback;
use crate::connections::Kind;
use crate::error::{ApiError, Refusal};
use crate::framing;
use crate::publish::{self, handler};
use crate::state::SharedApp;

/// The header of the request id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");

/// The body of an answer: a whole one of the publish route, or the router's.
pub type AnswerBody = Either<Full<Bytes>, axum::body::Body>;
/// An answer.
pub type Answer = Response<AnswerBody>;

/// Answers requests.
pub struct Requests {
    app: SharedApp,
    admin: Router,
}

impl Requests {
    /// What it answers from.
    pub const fn app(&self) -> &SharedApp {
        &self.app
    }

    pub fn new(app: SharedApp) -> Self {
        Self {
            admin: admin::router(app.clone()),
            app,
        }
    }

    /// Whose share of the connections a request takes.
    pub fn kind(request: &Request<Incoming>) -> Kind {
        let path = request.uri().path();
        if path == "/healthz" {
            Kind::Health
        } else if path == "/" || path.ends_with("/api/events") {
            Kind::Publish
        } else {
            Kind::Admin
        }
    }

    /// The answer to a request of a kind whose share is taken. The connection ends with it.
    pub fn refuse_beyond_share(&self, kind: Kind) -> Answer {
        let id = chance::uuid();
        let mut answer = match kind {
            Kind::Publish => {
                let report = Report {
                    request_id: &id,
                    number: 0,
                    time: self.app.time(),
                };
                let answer = Refusal::beyond_share().into_response(&report);
                answer.map(Either::Left)
            }
            Kind::Admin | Kind::Health => {
                let answer = ApiError::beyond_share().into_response();
                answer.map(Either::Right)
            }
        };
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(CONNECTION, close);
        name(&mut answer, &id);
        answer
    }

    pub async fn answer(&self, request: Request<Incoming>) -> Answer {
        let id = chance::uuid();
        let mut answer = self.route(request, &id).await;
        name(&mut answer, &id);
        answer
    }

    async fn route(&self, request: Request<Incoming>, id: &str) -> Answer {
        let (mut parts, body) = request.into_parts();
        if let Err(why) = framing::judge(&parts) {
            let refusal = Refusal::framing(why);
            tracing::info!(
                request_id = id,
                "a request is refused: {}",
                refusal.message()
            );
            let report = Report {
                request_id: id,
                number: 0,
                time: self.app.time(),
            };
            return refusal.into_response(&report).map(Either::Left);
        }
        if let Some(guard) = &self.app.guard
            && let Err(foreign) = guard.judge(&parts)
        {
            // Publishers get the vendor's shape (ED-065, ED-067), also where their topic cannot be told.
            let path = parts.uri.path();
            let publishes = parts.method == Method::POST && path == "/";
            if admin::is_meant(&parts.method, path) && !publishes {
                return ApiError::from(foreign).into_response().map(Either::Right);
            }
            let report = Report {
                request_id: id,
                number: 0,
                time: self.app.time(),
            };
            let answer = Refusal::from(foreign).into_response(&report);
            return answer.map(Either::Left);
        }
        if let Some(route) = publish::route(&self.app.public_url, &parts) {
            let answer = handler::answer(&self.app, route, &parts, body, id).await;
            return answer.map(Either::Left);
        }
        if let Some(token) = callback::token(&parts) {
            let answer = callback::answer(&self.app, token, &parts).await;
            return answer.map(Either::Left);
        }
        if !admin::is_meant(&parts.method, parts.uri.path()) {
            let answer = handler::answer_nowhere(&self.app, &parts, body, id);
            return answer.map(Either::Left);
        }
        if admin::is_guarded(parts.uri.path()) {
            match self.app.tokens.grant(&parts.headers, self.app.time()) {
                Some(grant) => drop(parts.extensions.insert(grant)),
                None => return ApiError::unauthorized().into_response().map(Either::Right),
            }
        }
        if let Some(coding) = body::coding(&parts.headers) {
            body::discard(body);
            return ApiError::coding(&coding).into_response().map(Either::Right);
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

fn name(answer: &mut Answer, id: &str) {
    let value = HeaderValue::from_str(id).expect("a UUID is hexadecimal digits and hyphens");
    answer.headers_mut().insert(REQUEST_ID, value);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use hedgerow_delivery::grid::GridState;
    use http::StatusCode;
    use http::header::{HOST, RETRY_AFTER};
    use http_body_util::BodyExt as _;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use serde_json::Value;
    use tokio::sync::watch;

    use super::*;
    use crate::config::Config;
    use crate::public_url::PublicUrl;
    use crate::state::{App, Counted};
    use crate::tokens::Tokens;

    /// Status, whether it says when to come back, and the body.
    async fn ask(requests: &Arc<Requests>, method: &str, path: &str) -> (StatusCode, bool, Value) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let requests = Arc::clone(requests);
        let service = service_fn(move |request| {
            let requests = Arc::clone(&requests);
            async move { Ok::<_, Infallible>(requests.answer(request).await) }
        });
        let server = hyper::server::conn::http1::Builder::new();
        tokio::spawn(server.serve_connection(TokioIo::new(theirs), service));
        let client = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await;
        let (mut sender, connection) = client.unwrap();
        tokio::spawn(connection);
        let token = format!("Bearer {}", "t".repeat(43));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost");
        let request = request
            .header("authorization", token)
            .body(Full::<Bytes>::default());
        let (head, body) = sender
            .send_request(request.unwrap())
            .await
            .unwrap()
            .into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap();
        (head.status, head.headers.contains_key(RETRY_AFTER), body)
    }

    /// Design D5 and D6: while there is no engine everybody is told to come back.
    #[tokio::test]
    async fn without_an_engine_everything_is_unavailable() {
        for (state, stops, status) in [
            (GridState::Opening, false, "recovering"),
            (GridState::Opening, true, "stopping"),
            (GridState::Stopped, false, "stopping"),
        ] {
            let (_grid, seen) = watch::channel(state);
            let config = Config::default();
            let url = PublicUrl::new(None, config.listen, false);
            let data = tempfile::tempdir().unwrap();
            std::fs::write(data.path().join("admin-token"), "t".repeat(43)).unwrap();
            let tokens = Tokens::load_or_create(data.path()).unwrap();
            let origins = crate::origins::of_nobody(seen.clone());
            let app = Arc::new(App::new(
                &config,
                None,
                url,
                tokens,
                seen,
                Counted::default(),
                origins,
            ));
            if stops {
                app.begin_to_stop();
            }
            let requests = Arc::new(Requests::new(app));
            let (code, _, body) = ask(&requests, "GET", "/healthz").await;
            assert_eq!(
                (code.as_u16(), &body["status"]),
                (503, &Value::from(status))
            );
            let (code, comes_back, body) = ask(&requests, "POST", "/orders/api/events").await;
            assert_eq!((code.as_u16(), comes_back), (503, true));
            assert_eq!(body["error"]["code"], "ServiceUnavailable");
            let (code, comes_back, body) = ask(&requests, "GET", "/api/v1/topics").await;
            assert_eq!((code.as_u16(), comes_back), (503, true));
            assert_eq!(body["error"]["code"], "Unavailable");
        }
    }
}
