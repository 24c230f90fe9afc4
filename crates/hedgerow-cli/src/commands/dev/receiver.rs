//! The built-in receiver of `dev`: a webhook endpoint whose answer can be switched while it runs, and which remembers
//! what arrived last. It decides nothing about deliveries; what became of them is the server's to say.
//!
//! | request | answer |
//! | --- | --- |
//! | `POST` to any path | the current answer; each event of the array is remembered |
//! | `PUT /answer` | switches the answer: `{"status":503,"retryAfter":60,"delayMs":0}`, the last two optional |
//! | `GET /answer` | the current answer |
//! | `GET /received?limit=100` | what arrived last, the newest first |
//!
//! Like the server under `dev` it refuses a foreign `Host` or `Origin`, so that no web page can talk to it (design D11).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hedgerow_io::clock::{Clock, SystemClock};
use http::header::{HOST, ORIGIN, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Events that are remembered.
const RECEIVED_MAX: usize = 1_000;
/// Events that `GET /received` lists when it is not told how many.
const RECEIVED_LISTED: usize = 100;
/// Bytes of a request: the largest event there is, and its array.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes of an event's id, type or subject that are remembered.
const TEXT_BYTES_MAX: usize = 256;
/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
/// Statuses that a webhook can answer.
const STATUSES: RangeInclusive<u64> = 200..=599;
/// Seconds of `Retry-After`: a day, four times what is obeyed (ED-185).
const RETRY_AFTER_SECONDS: RangeInclusive<u64> = 0..=86_400;
/// Longer than any response timeout (ED-176).
const DELAYS_MS: RangeInclusive<u64> = 0..=600_000;

/// What the receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// Seconds of `Retry-After`, if it is sent.
    pub retry_after: Option<u64>,
    /// How long the answer takes.
    pub delay: Duration,
}

impl Answer {
    /// This status, at once.
    pub const fn status(status: StatusCode) -> Self {
        Self {
            status,
            retry_after: None,
            delay: Duration::ZERO,
        }
    }

    /// No answer before any timeout has passed.
    pub const fn hang() -> Self {
        Self {
            status: StatusCode::OK,
            retry_after: None,
            delay: Duration::from_millis(*DELAYS_MS.end()),
        }
    }

    /// Reads `{"status":503,"retryAfter":60,"delayMs":0}`. The error says which member is wrong and what it may be.
    fn from_json(value: &Value) -> Result<Self, String> {
        let members = value
            .as_object()
            .ok_or("must be an object, such as {\"status\":503}")?;
        let known = ["status", "retryAfter", "delayMs"];
        if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!(
                "{name:?} is unknown here; known are {}",
                known.join(", ")
            ));
        }
        let status = integer(members, "status", &STATUSES)?.ok_or("status is required")?;
        let status = u16::try_from(status)
            .ok()
            .and_then(|code| StatusCode::from_u16(code).ok());
        Ok(Self {
            status: status.expect("statuses from 200 to 599 are valid"),
            retry_after: integer(members, "retryAfter", &RETRY_AFTER_SECONDS)?,
            delay: Duration::from_millis(integer(members, "delayMs", &DELAYS_MS)?.unwrap_or(0)),
        })
    }

    fn to_json(self) -> Value {
        let delay_ms = self.delay.as_millis() as u64;
        let mut json = json!({ "status": self.status.as_u16(), "delayMs": delay_ms });
        if let Some(seconds) = self.retry_after {
            json["retryAfter"] = seconds.into();
        }
        json
    }
}

/// In words, for the terminal.
impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Self::hang() {
            return f.write_str("nothing, until the attempt times out");
        }
        write!(f, "{}", self.status)?;
        if let Some(seconds) = self.retry_after {
            write!(f, ", Retry-After {seconds} s")?;
        }
        if !self.delay.is_zero() {
            write!(f, ", after {} ms", self.delay.as_millis())?;
        }
        Ok(())
    }
}

/// A receiver that listens. Cheap to clone.
#[derive(Clone)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    clock: SystemClock,
    state: Mutex<State>,
}

struct State {
    answer: Answer,
    /// The newest first.
    received: VecDeque<Value>,
    /// All that ever arrived.
    total: u64,
}

impl Receiver {
    /// Begins to listen on loopback, on any free port.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = State {
            answer: Answer::status(StatusCode::OK),
            received: VecDeque::new(),
            total: 0,
        };
        let clock = SystemClock::new(hedgerow_core::time::Timestamp::ZERO);
        let shared = Arc::new(Shared {
            clock,
            state: Mutex::new(state),
        });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared })
    }

    /// Its address as a URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
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

    fn remember(&self, headers: &HeaderMap, body: &[u8], status: StatusCode) {
        let now = self.clock.now().timestamp.to_string();
        let count = headers
            .get("aeg-delivery-count")
            .and_then(|value| value.to_str().ok());
        let count = count.and_then(|count| count.parse::<u64>().ok());
        let events = match serde_json::from_slice(body) {
            Ok(Value::Array(events)) => events,
            Ok(event) => vec![event],
            Err(_) => vec![Value::Null],
        };
        let mut state = self.state();
        for event in events {
            state.total += 1;
            state.received.push_front(json!({
                "id": shortened(&event, "id"),
                "eventType": shortened(&event, "eventType"),
                "subject": shortened(&event, "subject"),
                "deliveryCount": count,
                "receivedTime": now,
                "status": status.as_u16(),
            }));
        }
        state.received.truncate(RECEIVED_MAX);
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
        async move { Ok::<_, Infallible>(handle(request, &shared).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the receiver ended early");
    }
}

async fn handle(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    if !is_ours(request.headers()) {
        return refusal(
            StatusCode::FORBIDDEN,
            "call the receiver by its own address, not from a web page",
        );
    }
    match (request.method(), request.uri().path()) {
        (&Method::POST, _) => receive(request, shared).await,
        (&Method::GET, "/answer") => {
            let answer = shared.state().answer;
            page(StatusCode::OK, &answer.to_json())
        }
        (&Method::PUT, "/answer") => switch(request, shared).await,
        (&Method::GET, "/received") => list(request.uri().query().unwrap_or_default(), shared),
        _ => refusal(
            StatusCode::NOT_FOUND,
            "there are POST to any path, PUT and GET /answer, GET /received",
        ),
    }
}

async fn receive(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request is too long, or ended early",
        );
    };
    let answer = shared.state().answer;
    shared.remember(&head.headers, &body.to_bytes(), answer.status);
    if !answer.delay.is_zero() {
        tokio::time::sleep(answer.delay).await;
    }
    let mut response = Response::new(Full::default());
    *response.status_mut() = answer.status;
    if let Some(seconds) = answer.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

async fn switch(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let Ok(body) = Limited::new(request.into_body(), BODY_BYTES_MAX)
        .collect()
        .await
    else {
        return refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request is too long, or ended early",
        );
    };
    let answer = serde_json::from_slice(&body.to_bytes())
        .map_err(|error| format!("the body must be JSON, such as {{\"status\":503}}: {error}"))
        .and_then(|value| Answer::from_json(&value));
    match answer {
        Ok(answer) => {
            shared.state().answer = answer;
            page(StatusCode::OK, &answer.to_json())
        }
        Err(message) => refusal(StatusCode::BAD_REQUEST, &message),
    }
}

fn list(query: &str, shared: &Shared) -> Response<Full<Bytes>> {
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
    let newest: Vec<&Value> = state.received.iter().take(limit).collect();
    page(
        StatusCode::OK,
        &json!({ "total": state.total, "value": newest }),
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

fn integer(
    members: &Map<String, Value>,
    name: &str,
    range: &RangeInclusive<u64>,
) -> Result<Option<u64>, String> {
    let Some(value) = members.get(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = value.as_u64().filter(|number| range.contains(number));
    let rule = || {
        format!(
            "{name} must be an integer from {} to {}",
            range.start(),
            range.end()
        )
    };
    number.ok_or_else(rule).map(Some)
}

fn shortened<'a>(event: &'a Value, name: &str) -> Option<&'a str> {
    let text = event.get(name).and_then(Value::as_str)?;
    Some(hedgerow_core::text::beginning(text, TEXT_BYTES_MAX))
}

fn page(status: StatusCode, json: &Value) -> Response<Full<Bytes>> {
    let response = Response::builder()
        .status(status)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Full::from(format!("{json}\n")));
    response.expect("these parts are valid")
}

fn refusal(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    page(status, &json!({ "error": { "message": message } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_strictly() {
        let good = json!({"status": 503, "retryAfter": 60, "delayMs": 5});
        let answer = Answer::from_json(&good).unwrap();
        assert_eq!(answer.to_json(), good);
        assert_eq!(
            answer.to_string(),
            "503 Service Unavailable, Retry-After 60 s, after 5 ms"
        );
        let rows = [
            (json!(503), "must be an object"),
            (json!({}), "status is required"),
            (
                json!({"status": 199}),
                "status must be an integer from 200 to 599",
            ),
            (
                json!({"status": 600}),
                "status must be an integer from 200 to 599",
            ),
            (
                json!({"status": "503"}),
                "status must be an integer from 200 to 599",
            ),
            (
                json!({"status": 503.5}),
                "status must be an integer from 200 to 599",
            ),
            (
                json!({"status": 503, "retryAfter": -1}),
                "retryAfter must be an integer from 0 to 86400",
            ),
            (
                json!({"status": 200, "delayMs": 600_001}),
                "delayMs must be an integer from 0 to 600000",
            ),
            (
                json!({"status": 200, "delay": 1}),
                "\"delay\" is unknown here",
            ),
        ];
        for (json, reason) in rows {
            let error = Answer::from_json(&json).unwrap_err();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }

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
