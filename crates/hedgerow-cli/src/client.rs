//! The CLI's own client: talks to one Hedgerow server over HTTP/1.1, with TLS or without, one connection a request. It follows no redirect,
//! takes no proxy from the environment, and sends nothing twice.

mod first_byte;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::response::Parts;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use self::first_byte::FirstByte;
use crate::failure::{Failure, in_full};
use crate::output::printable;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the answer may take, its body included.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Where a command gets its token from.
const TOKEN_HINT: &str = "give another token with --token or --token-file, set HEDGEROW_TOKEN, or run the command where \
                          ./data/admin-token is";
/// Bytes of an answer: far above the largest page that the server gives.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A server that commands talk to.
#[derive(Debug, Clone)]
pub struct ServerUrl {
    /// As written, without a slash at the end.
    text: String,
    /// A name or an address, without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Whether the server is to speak TLS.
    has_tls: bool,
    /// What goes into the `Host` header.
    authority: String,
    /// Empty, or with a slash at its beginning and none at its end.
    path: String,
}

/// Asks a server.
#[derive(Debug, Clone)]
pub struct Client {
    server: ServerUrl,
    token: Option<String>,
    /// Certificates of the authorities to trust, in place of the system's.
    ca_file: Option<PathBuf>,
    answer_timeout: Duration,
}

/// What a server answered.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its JSON; `Null` if it had none.
    pub body: Value,
}

impl std::str::FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim_end_matches('/');
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("not a URL: {error}"))?;
        let has_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => {
                let rule = "must begin with http:// or https://, as in http://127.0.0.1:8080";
                return Err(rule.to_owned());
            }
        };
        let Some(authority) = uri
            .authority()
            .filter(|authority| !authority.host().is_empty())
        else {
            return Err("has no host; write it as in http://127.0.0.1:8080".to_owned());
        };
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err("must have neither user nor query; give the token with --token".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority
                .port_u16()
                .unwrap_or(if has_tls { 443 } else { 80 }),
            has_tls,
            authority: authority.as_str().to_owned(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// What a server answered, whatever it says.
struct Answer {
    status: StatusCode,
    /// The id of the event that was published, where only the server can know it.
    event_id: Option<String>,
    body: Value,
}

impl Reply {
    fn success(status: StatusCode, body: Value) -> Result<Self, Failure> {
        if status.is_success() {
            Ok(Self { status, body })
        } else {
            Err(refusal(status, &body))
        }
    }

    /// The same of the admin API: a token that is refused is corrected where the command got it.
    fn of_admin(status: StatusCode, body: Value) -> Result<Self, Failure> {
        Self::success(status, body).map_err(|failure| {
            if status == StatusCode::UNAUTHORIZED {
                failure.with_hint(TOKEN_HINT)
            } else {
                failure
            }
        })
    }
}

impl Client {
    /// A client of one server. Without a token it can only ask what everybody may.
    pub fn new(server: ServerUrl, token: Option<String>) -> Self {
        Self {
            server,
            token,
            ca_file: None,
            answer_timeout: ANSWER_TIMEOUT,
        }
    }

    /// Trusts the authorities in a file, in place of the system's.
    #[must_use]
    pub fn trusting(self, ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, ..self }
    }

    /// Waits so long for answers: for what takes the server longer than most.
    #[must_use]
    pub fn waiting(self, answer_timeout: Duration) -> Self {
        Self {
            answer_timeout,
            ..self
        }
    }

    /// Asks the admin API. `path` begins behind `/api/v1`.
    pub async fn admin(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Reply, Failure> {
        let mut request = self.admin_request(method, path)?;
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let answer = self.send(request, body.into()).await?;
        Reply::of_admin(answer.status, answer.body)
    }

    /// Asks the admin API, and gives the answer whatever it says.
    pub async fn admin_unjudged(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<(StatusCode, Value), Failure> {
        let request = self.admin_request(method, path)?;
        let request = request.header(CONTENT_TYPE, "application/json");
        let answer = self.send(request, body.to_string().into()).await?;
        Ok((answer.status, answer.body))
    }

    /// Asks the admin API for something that may not be there.
    pub async fn admin_if_found(
        &self,
        method: Method,
        path: &str,
    ) -> Result<Option<Value>, Failure> {
        let answer = self
            .send(self.admin_request(method, path)?, Bytes::new())
            .await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status => Reply::of_admin(status, answer.body).map(|reply| Some(reply.body)),
        }
    }

    /// Publishes the text of an array of events, with a key of the topic or else with the token. Gives the event's id if the server
    /// says it.
    pub async fn publish(
        &self,
        topic: &str,
        key: Option<&str>,
        content_type: &str,
        events: String,
    ) -> Result<Option<String>, Failure> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/{topic}/api/events", self.server.path))
            .header(CONTENT_TYPE, content_type);
        let request = match (key, &self.token) {
            (Some(key), _) => request.header("aeg-sas-key", key),
            (None, Some(token)) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            (None, None) => {
                let missing = Failure::new("neither a key nor a token is given");
                return Err(missing.with_hint(
                    "give one of the topic's keys with --key or HEDGEROW_TOPIC_KEY, or a token that may publish with \
                     --token or --token-file",
                ));
            }
        };
        let answer = self.send(request, events.into()).await?;
        Reply::success(answer.status, answer.body)?;
        Ok(answer.event_id)
    }

    fn admin_request(&self, method: Method, path: &str) -> Result<http::request::Builder, Failure> {
        let Some(token) = &self.token else {
            return Err(Failure::new("the admin token is missing").with_hint(
                "give it with --token or --token-file, set HEDGEROW_TOKEN, or run the command where \
                 ./data/admin-token is",
            ));
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/api/v1{path}", self.server.path))
            .header(AUTHORIZATION, format!("Bearer {token}"));
        Ok(request)
    }

    /// Sends a request and reads the whole answer, whatever it says.
    async fn send(&self, request: http::request::Builder, body: Bytes) -> Result<Answer, Failure> {
        let request = request
            .header(HOST, &self.server.authority)
            .body(Full::new(body))
            .map_err(|error| Failure::because("cannot write the request", &error))?;
        let changes_nothing = request.method() == Method::GET;
        let lost = |reason: String| {
            let message = format!("no answer from {}: {reason}", self.server.text);
            let failure = Failure::new(message);
            if changes_nothing {
                return failure;
            }
            failure.with_hint(
                "the server may have done what it was asked; look before you do it again",
            )
        };
        let stream = self.connect().await?;
        let answered = async {
            if !self.server.has_tls {
                let (stream, first) = FirstByte::of(stream);
                let exchanged = exchange(stream, request).await.map_err(|reason| {
                    if first.is_of_tls() {
                        self.speaks_tls()
                    } else {
                        lost(reason)
                    }
                });
                return match exchanged {
                    Ok((head, body)) if is_for_tls(head.status, &body) => Err(self.speaks_tls()),
                    exchanged => exchanged,
                };
            }
            let ca_file = self.ca_file.as_deref();
            let stream = tls::shake_hands(stream, &self.server.host, ca_file).await?;
            exchange(stream, request).await.map_err(lost)
        };
        let answered = tokio::time::timeout(self.answer_timeout, answered).await;
        let (head, bytes) = answered.map_err(|_| {
            lost(format!(
                "nothing came in {} s",
                self.answer_timeout.as_secs()
            ))
        })??;
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            // An error page of something in between is shown by its status alone.
            Err(_) if bytes.is_empty() || !head.status.is_success() => Value::Null,
            Err(error) => return Err(lost(format!("the answer is no JSON: {error}"))),
        };
        let event_id = head.headers.get("hedgerow-event-id");
        let event_id = event_id.and_then(|id| id.to_str().ok());
        Ok(Answer {
            status: head.status,
            event_id: event_id.map(str::to_owned),
            body,
        })
    }

    /// Whatever is asked without TLS is nothing to a server that speaks it: nothing was done.
    fn speaks_tls(&self) -> Failure {
        let (text, secure) = (
            &self.server.text,
            self.server.text.replacen("http", "https", 1),
        );
        Failure::new(format!("the server at {text} speaks TLS")).with_hint(format!("use {secure}"))
    }

    async fn connect(&self) -> Result<TcpStream, Failure> {
        let ServerUrl {
            text, host, port, ..
        } = &self.server;
        let connecting = TcpStream::connect((host.as_str(), *port));
        let reason = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => in_full(&error),
            Err(_) => format!("no connection in {} s", CONNECT_TIMEOUT.as_secs()),
        };
        Err(Failure::new(format!("cannot connect to {text}: {reason}"))
            .with_hint("is the server running there? --server or HEDGEROW_SERVER says where it is"))
    }
}

/// Whether a server says that it is to be spoken to over TLS: another program's says so with an alert.
fn is_for_tls(status: StatusCode, body: &[u8]) -> bool {
    let says = b"this port speaks TLS";
    status == StatusCode::BAD_REQUEST && body.windows(says.len()).any(|part| part == says)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(Parts, Bytes), String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| in_full(&error))?;
    let connection = tokio::spawn(connection);
    let exchanged = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| in_full(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| in_full(error.as_ref()))?;
        Ok((head, body.to_bytes()))
    }
    .await;
    connection.abort();
    exchanged
}

/// What a refused request means to its user. Both APIs put their reasons under `error`; the admin API adds a hint, the
/// publish route details.
pub fn refusal(status: StatusCode, body: &Value) -> Failure {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let Some(message) = text("/error/message") else {
        return Failure::new(format!("the server answered {status}"));
    };
    // An endpoint's words may be among them.
    let mut message = printable(message);
    let details = body.pointer("/error/details").and_then(Value::as_array);
    for detail in details.into_iter().flatten() {
        let text = |name: &str| detail[name].as_str().map(printable);
        let mut detail = text("message").unwrap_or_default();
        // Of a group or a route: where it is, and the code for a search.
        if let (Some(code), Some(target)) = (text("code"), text("target")) {
            detail = format!("{target} {detail} [{code}]");
        }
        if !message.contains(&detail) {
            message.push_str("\n  ");
            message.push_str(&detail);
        }
    }
    let failure = Failure::new(message);
    match text("/error/hint").filter(|hint| !hint.is_empty()) {
        Some(hint) => failure.with_hint(printable(hint)),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_taken_apart() {
        let rows = [
            ("http://127.0.0.1:8080", "127.0.0.1", 8080, ""),
            ("http://localhost/", "localhost", 80, ""),
            ("http://[::1]:9/grid/", "::1", 9, "/grid"),
            ("https://events.example.com", "events.example.com", 443, ""),
            (
                "https://events.example.com:8443",
                "events.example.com",
                8443,
                "",
            ),
        ];
        for (text, host, port, path) in rows {
            let server: ServerUrl = text.parse().unwrap();
            assert_eq!(
                (server.host.as_str(), server.port, server.path.as_str()),
                (host, port, path)
            );
        }
    }

    #[test]
    fn other_urls_are_refused_with_a_reason() {
        let rows = [
            ("127.0.0.1:8080", "http://"),
            ("ftp://a", "http://"),
            ("http://me@a", "neither user nor query"),
            ("http://a?b", "neither user nor query"),
        ];
        for (text, reason) in rows {
            let error = text.parse::<ServerUrl>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn refusals_keep_message_hint_and_details() {
        let admin =
            json!({"error": {"code": "NotFound", "message": "no topic", "hint": "make one"}});
        let failure = refusal(StatusCode::NOT_FOUND, &admin).to_string();
        assert_eq!(failure, "error: no topic\nhint: make one");
        let publish = json!({"error": {"code": "BadRequest", "message": "invalid", "details": [
            {"code": "InputJsonInvalid", "message": "event 0 has no id"}]}});
        let failure = refusal(StatusCode::BAD_REQUEST, &publish).to_string();
        assert_eq!(failure, "error: invalid\n  event 0 has no id");
        let other = refusal(StatusCode::BAD_GATEWAY, &Value::Null).to_string();
        assert_eq!(other, "error: the server answered 502 Bad Gateway");
    }
}
