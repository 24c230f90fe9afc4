//! The URL that completes a handshake: `/validate/TOKEN`, for whoever knows the token and nobody else (ED-158, ED-159,
//! ED-168). Needs no other credential. What is called is not logged: the token is a secret.

use bytes::Bytes;
use hedgerow_delivery::command::CommandError;
use hedgerow_delivery::validation::{Callback, Called};
use hedgerow_dialect::handshake::cloud_events::allowed_rate;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;

use crate::state::App;

/// Where the URLs are.
const PREFIX: &str = "/validate/";
/// Longer than any token.
const TOKEN_BYTES_MAX: usize = 128;

/// The token in a request for such a URL.
pub fn token(request: &Parts) -> Option<&str> {
    let token = request.uri.path().strip_prefix(PREFIX)?;
    (!token.contains('/')).then_some(token)
}

/// Completes the handshake, if there is one to complete.
pub async fn answer(app: &App, token: &str, request: &Parts) -> Response<Full<Bytes>> {
    let is_post = request.method == Method::POST;
    if !is_post && request.method != Method::GET {
        let mut response = text(
            StatusCode::METHOD_NOT_ALLOWED,
            "Open this URL with GET or POST.",
        );
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, POST"));
        return response;
    }
    let callback = Callback {
        token: token.to_owned(),
        is_post,
        rate: allowed_rate(&request.headers),
    };
    let called = match app.engine() {
        _ if token.len() > TOKEN_BYTES_MAX => Ok(Called::Unknown),
        Ok(engine) => engine.call_back(callback).await,
        Err(_) => Err(CommandError::Unavailable),
    };
    match called {
        Ok(Called::Completed {
            topic,
            subscription,
        }) => {
            let said = format!(
                "The event subscription {subscription} of topic {topic} is validated. Its endpoint receives events from now on."
            );
            text(StatusCode::OK, &said)
        }
        Ok(Called::Used) => text(StatusCode::GONE, "This URL was used already."),
        Ok(Called::Expired) => text(
            StatusCode::GONE,
            "This URL has expired. Declare the event subscription again.",
        ),
        Ok(Called::Unknown) => text(
            StatusCode::NOT_FOUND,
            "No event subscription waits for this URL.",
        ),
        Ok(Called::GetOnly) => {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Open this URL with GET.");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET"));
            response
        }
        Err(_) => {
            let said = "The server cannot tell now. Open this URL again in a moment.";
            let mut response = text(StatusCode::SERVICE_UNAVAILABLE, said);
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
    }
}

fn text(status: StatusCode, said: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{said}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
