//! The built-in receiver of `dev`: a webhook endpoint whose answer can be switched while it runs, and which remembers
//! what arrived last. It decides nothing about deliveries; what became of them is the server's to say.
//!
//! | request | answer |
//! | --- | --- |
//! | `POST /answer/WORD` | always the same: a status, without `Retry-After`, or `late`, `hang`, `drip`, `redirect`, `close` |
//! | `POST` to any other path | the current answer |
//! | handshakes, at any path | yes ([`handshake`]) |
//! | `PUT /answer` | switches the answer: `{"status":503,"retryAfter":60,"delayMs":0}`, in the server's time, or `{"answer":"hang"}` |
//! | `GET /answer` | the current answer |
//! | `GET /received?limit=100` | what arrived last, the newest first |
//!
//! Events that arrive at any path are remembered. Like the server under `dev` it refuses a foreign `Host` or `Origin`, so that no web page can talk to it (design D11).

mod answer;
mod body;
mod handshake;
mod record;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hedgerow_server::ServerTime;
use http::header::{ALLOW, HOST, LOCATION, ORIGIN, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub use self::answer::Answer;
use self::answer::How;
use self::body::AnswerBody;
use self::record::{RECEIVED_MAX, Record};

/// Events that `GET /received` lists when it is not told how many.
const RECEIVED_LISTED: usize = 100;
/// Bytes of a request: the largest event there is, and its array.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
/// Paths whose answer is in them.
const FIXED: &str = "/answer/";

/// A receiver that listens. Cheap to clone.
#[derive(Clone)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    now: ServerTime,
    state: Mutex<State>,
}

struct State {
    answer: Answer,
    record: Record,
}

/// The connection is closed without an answer.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("told to close the connection")
    }
}

impl std::error::Error for Closed {}

type Page = Response<AnswerBody>;
type Answered = Result<Page, Closed>;

impl Receiver {
    /// Begins to listen on loopback, on any free port.
    pub async fn start(now: ServerTime) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = State {
            answer: Answer::status(StatusCode::OK),
            record: Record::default(),
        };
        let shared = Arc::new(Shared {
            now,
            state: Mutex::new(state),
        });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared })
    }

    /// Its address as a URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The URL that always gets this answer.
    pub fn url_with(&self, answer: Answer) -> String {
        format!("{}{FIXED}{}", self.url(), answer.word())
    }

    /// What it answers now.
    pub fn answer(&self) -> Answer {
        self.shared.state().answer
    }

    /// What it answers from now on. Requests that wait already get the answer before.
    pub fn switch(&self, answer: Answer) {
        self.shared.state().answer = answer;
    }
}

impl Shared {
    /// The state. A poisoned lock is used as it is: every change is one assignment or one push.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    serve(stream, shared).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the receiver cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { handle(request, &shared).await }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the receiver ended early");
    }
}

async fn handle(request: Request<Incoming>, shared: &Shared) -> Answered {
    if !is_ours(request.headers()) {
        return Ok(refusal(
            StatusCode::FORBIDDEN,
            "call the receiver by its own address, not from a web page",
        ));
    }
    Ok(match (request.method(), request.uri().path()) {
        (&Method::POST, _) => return receive(request, shared).await,
        (&Method::OPTIONS, _) => {
            let mut answer = Response::new(AnswerBody::default());
            let methods = HeaderValue::from_static("POST, OPTIONS");
            answer.headers_mut().insert(ALLOW, methods);
            handshake::allow(request.headers(), answer)
        }
        (&Method::GET, "/answer") => {
            let answer = shared.state().answer;
            page(StatusCode::OK, answer.to_json().to_string())
        }
        (&Method::PUT, "/answer") => switch(request, shared).await,
        (&Method::GET, "/received") => list(request.uri().query().unwrap_or_default(), shared),
        _ => refusal(
            StatusCode::NOT_FOUND,
            "there are POST to any path, PUT and GET /answer, GET /received",
        ),
    })
}

async fn receive(request: Request<Incoming>, shared: &Shared) -> Answered {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return Ok(too_long());
    };
    let body = body.to_bytes();
    if handshake::is_validation(&head.headers) {
        return Ok(match handshake::echo_code(&body) {
            Some(json) => page(StatusCode::OK, json.to_string()),
            None => refusal(StatusCode::BAD_REQUEST, "there is no validation code"),
        });
    }
    let path = head.uri.path();
    let answer = match path.strip_prefix(FIXED) {
        None => Some(shared.state().answer),
        // The demonstration's retries keep their slots: no Retry-After pushes them back.
        Some(word) => Answer::from_word(word).map(|answer| Answer {
            retry_after: None,
            ..answer
        }),
    };
    let Some(answer) = answer else {
        let message =
            "after /answer/ comes a status from 200 to 599, late, hang, drip, redirect or close";
        return Ok(refusal(StatusCode::NOT_FOUND, message));
    };
    let received = record::Request {
        headers: &head.headers,
        path,
        body: &body,
        status: answer.sent_status().map(|status| status.as_u16()),
        time: (shared.now)(),
    };
    shared.state().record.add(&received);
    wait(answer.delay, &shared.now).await;
    respond(answer, head.headers.get(HOST)).await
}

/// How often the time is looked at while an answer takes its time: it may pass faster than the clocks.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Waits for so long a time of the server's.
async fn wait(delay: Duration, now: &ServerTime) {
    let end = now().plus(delay);
    loop {
        let left = end.since(now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK_INTERVAL)).await;
    }
}

/// Answers an event.
async fn respond(answer: Answer, host: Option<&HeaderValue>) -> Answered {
    let mut response = Response::new(AnswerBody::default());
    match answer.how {
        How::Status(status) => *response.status_mut() = status,
        How::Hang => std::future::pending().await,
        How::Close => return Err(Closed),
        How::Drip => *response.body_mut() = AnswerBody::drip(),
        How::Redirect => {
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
            let location = format!("http://{host}{FIXED}200");
            if let Ok(location) = HeaderValue::from_str(&location) {
                response.headers_mut().insert(LOCATION, location);
            }
        }
    }
    if let Some(seconds) = answer.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    Ok(response)
}

async fn switch(request: Request<Incoming>, shared: &Shared) -> Page {
    let Ok(body) = Limited::new(request.into_body(), BODY_BYTES_MAX)
        .collect()
        .await
    else {
        return too_long();
    };
    let answer = serde_json::from_slice(&body.to_bytes())
        .map_err(|error| format!("the body must be JSON, such as {{\"status\":503}}: {error}"))
        .and_then(|value| Answer::from_json(&value));
    match answer {
        Ok(answer) => {
            shared.state().answer = answer;
            page(StatusCode::OK, answer.to_json().to_string())
        }
        Err(message) => refusal(StatusCode::BAD_REQUEST, &message),
    }
}

fn list(query: &str, shared: &Shared) -> Page {
    let mut parameters = url::form_urlencoded::parse(query.as_bytes());
    let limit = match parameters.find(|(name, _)| name == "limit") {
        None => RECEIVED_LISTED,
        Some((_, text)) => match text.parse() {
            Ok(limit) if limit <= RECEIVED_MAX => limit,
            _ => {
                let message = format!("limit must be an integer from 0 to {RECEIVED_MAX}");
                return refusal(StatusCode::BAD_REQUEST, &message);
            }
        },
    };
    let state = shared.state();
    // Not through a `Value`: events are shown byte for byte.
    let value = serde_json::to_string(&state.record.newest(limit)).unwrap_or_default();
    let total = state.record.total;
    drop(state);
    page(
        StatusCode::OK,
        format!(r#"{{"total":{total},"value":{value}}}"#),
    )
}

/// Whether a request was meant for this receiver: it was called by a name of this machine, and not by a page from
/// somewhere else.
fn is_ours(headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or_default())
    };
    let host = text(HOST).unwrap_or_default();
    let is_same_origin = |origin: &str| origin.strip_prefix("http://") == Some(host);
    is_loopback(host) && text(ORIGIN).is_none_or(is_same_origin)
}

fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else {
        return false;
    };
    let name = authority.host().trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn page(status: StatusCode, json: String) -> Page {
    let response = Response::builder()
        .status(status)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(AnswerBody::from(json + "\n"));
    response.expect("these parts are valid")
}

fn refusal(status: StatusCode, message: &str) -> Page {
    let json = json!({ "error": { "message": message } });
    page(status, json.to_string())
}

fn too_long() -> Page {
    let message = "the request is too long, or ended early";
    refusal(StatusCode::PAYLOAD_TOO_LARGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_may_call() {
        let rows = [
            (Some("127.0.0.1:4000"), None, true),
            (Some("localhost:4000"), None, true),
            (Some("[::1]:4000"), None, true),
            (Some("127.0.0.1:4000"), Some("http://127.0.0.1:4000"), true),
            (Some("127.0.0.1:4000"), Some("http://127.0.0.1:4001"), false),
            (Some("127.0.0.1:4000"), Some("https://evil.example"), false),
            (Some("127.0.0.1:4000"), Some("null"), false),
            (Some("evil.example:4000"), None, false),
            (Some("127.0.0.1.evil.example"), None, false),
            (None, None, false),
        ];
        for (host, origin, expected) in rows {
            let mut headers = HeaderMap::new();
            let values = [(HOST, host), (ORIGIN, origin)];
            for (name, value) in values.into_iter().filter_map(|(n, v)| v.map(|v| (n, v))) {
                headers.insert(name, value.parse().unwrap());
            }
            assert_eq!(is_ours(&headers), expected, "{host:?} {origin:?}");
        }
    }
}
