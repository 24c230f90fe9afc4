//! Sends requests over connections it keeps: one call, one request on the wire (design D10).
//!
//! A request is given to another connection only when the one it was meant for had been closed before anything of it was
//! written. Once a byte may have left, whatever happens is the answer to this attempt; whether there is another one is
//! decided by the caller, who also sets the deadline by dropping the future. Dropping it closes the connection.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri, Version};
use http_body_util::Full;

use super::address::Denied;
use super::answer::{Answer, AnswerBody, Home};
use super::channel::{Channel, ExchangeError, Outgoing};
use super::connect::{Connect, ConnectError, Connecting};
use super::options::ClientOptions;
use super::pool::{Connections, Pool};
use super::target::Target;
use super::watch::{Mark, Watch};

/// Why there is no answer. What it means for a delivery is decided by the rule table (ED-182).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The host's name has no address, or none that could be found.
    #[error("the host's name cannot be resolved")]
    Resolution(#[source] io::Error),
    /// We refuse to connect there: our refusal, not the receiver's fault.
    #[error(transparent)]
    Denied(Denied),
    /// No address of the host accepted a connection.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The connection could not be encrypted, or the other side could not prove who it is.
    #[error("no TLS connection")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
    /// The connection ended before the head of an answer was complete. The request may have been received.
    #[error("the connection was closed before the answer")]
    Reset(#[source] Box<dyn Error + Send + Sync>),
    /// What came back is not HTTP/1.1, or its head is too long.
    #[error("the answer is not valid HTTP")]
    Protocol(#[source] Box<dyn Error + Send + Sync>),
    /// All connections that this process may have are in use. Nothing was sent.
    #[error(
        "all {connections_max} connections are in use; raise the limit or deliver to fewer slow endpoints at once"
    )]
    TooManyConnections {
        /// The limit of the process.
        connections_max: usize,
    },
}

impl From<ConnectError> for SendError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Resolution(source) => Self::Resolution(source),
            ConnectError::Denied(denied) => Self::Denied(denied),
            ConnectError::Connect(source) => Self::Connect(source),
            ConnectError::Tls(source) => Self::Tls(source),
        }
    }
}

/// Sends requests. A clone shares the connections.
#[derive(Clone)]
pub struct Client {
    connector: Arc<dyn Connect>,
    pool: Arc<Pool>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client that opens its connections with `connector`.
    ///
    /// # Panics
    ///
    /// When `head_bytes_max` is under 8,192.
    #[must_use]
    pub fn new(connector: Arc<dyn Connect>, options: ClientOptions) -> Self {
        assert!(
            options.head_bytes_max >= 8_192,
            "an answer's head may have at least 8,192 bytes"
        );
        Self {
            connector,
            pool: Arc::new(Pool::new(options)),
        }
    }

    /// Sends `request` to `target` and waits for the complete head of the answer. Informational answers (1xx) are
    /// skipped, redirects are returned.
    ///
    /// Of the request's URI the path and the query are sent; `Host` and `Content-Length` are added where they are
    /// missing. Dropping the future ends the exchange and closes its connection.
    pub async fn send(
        &self,
        target: &Target,
        request: Request<Bytes>,
    ) -> Result<Answer, SendError> {
        let mut request = outgoing(target, request);
        while let Some(mut channel) = self.pool.take(target) {
            match channel.exchange(request).await {
                Ok(answer) => return Ok(self.answer(channel, answer)),
                Err(ExchangeError::Unsent(unsent, _)) => request = *unsent,
                Err(ExchangeError::Failed(error)) => return Err(failure(error)),
                Err(ExchangeError::HeadTooLong { bytes, bytes_max }) => {
                    return Err(head_too_long(bytes, bytes_max));
                }
            }
        }
        let connect = || self.connector.connect(target);
        let channel = self.open(target, connect).await?;
        self.first_exchange(channel, request).await
    }

    /// The same over a connection of its own, for somebody who watches: what is sent and how long its parts take is the same as
    /// for the first request to a target. The connection is not kept for others.
    pub async fn send_watched(
        &self,
        target: &Target,
        request: Request<Bytes>,
        watch: &Watch,
    ) -> Result<Answer, SendError> {
        let request = outgoing(target, request);
        let connect = || -> Connecting<'_> {
            Box::pin(async move {
                let connection = self.connector.connect_watched(target, watch).await?;
                // Some connectors know no parts.
                watch.mark(Mark::Connected);
                Ok(watch.over(connection))
            })
        };
        let channel = self.open(target, connect).await?;
        let mut answer = self.first_exchange(channel, request).await?;
        answer.body.home.keep = Duration::ZERO;
        Ok(answer)
    }

    async fn first_exchange(
        &self,
        mut channel: Channel,
        request: Outgoing,
    ) -> Result<Answer, SendError> {
        match channel.exchange(request).await {
            Ok(answer) => Ok(self.answer(channel, answer)),
            Err(ExchangeError::Failed(error) | ExchangeError::Unsent(_, Some(error))) => {
                Err(failure(error))
            }
            Err(ExchangeError::Unsent(_, None)) => {
                Err(SendError::Reset("closed as soon as it was open".into()))
            }
            Err(ExchangeError::HeadTooLong { bytes, bytes_max }) => {
                Err(head_too_long(bytes, bytes_max))
            }
        }
    }

    /// Closes the connections that have been idle for long enough. Happens by itself while requests are sent; worth
    /// calling every few seconds when they may stop.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    /// How many connections there are to all targets together.
    #[must_use]
    pub fn connections(&self) -> Connections {
        self.pool.connections()
    }

    /// How many connections there are to one target, for a caller that bounds them.
    #[must_use]
    pub fn connections_to(&self, target: &Target) -> Connections {
        self.pool.connections_to(target)
    }

    async fn open<'a>(
        &self,
        target: &Target,
        connect: impl FnOnce() -> Connecting<'a>,
    ) -> Result<Channel, SendError> {
        let connections_max = self.pool.options().connections_max;
        let slot = self
            .pool
            .reserve(target)
            .ok_or(SendError::TooManyConnections { connections_max })?;
        let connection = connect().await?;
        Channel::new(connection, slot, self.pool.options().head_bytes_max)
            .await
            .map_err(failure)
    }

    fn answer(&self, channel: Channel, answer: http::Response<hyper::body::Incoming>) -> Answer {
        let (head, incoming) = answer.into_parts();
        let home = Home {
            pool: Arc::clone(&self.pool),
            keep: idle_time(&head.headers, self.pool.options().idle_time_max),
        };
        let body = AnswerBody {
            incoming,
            channel,
            home,
        };
        Answer {
            status: head.status,
            headers: head.headers,
            body,
        }
    }
}

/// The request as it goes onto the wire: HTTP/1.1 in origin form, with the headers that every request has.
fn outgoing(target: &Target, request: Request<Bytes>) -> Outgoing {
    let (mut head, body) = request.into_parts();
    let path_and_query = head.uri.into_parts().path_and_query;
    head.uri = Uri::from(path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/")));
    head.version = Version::HTTP_11;
    head.headers.entry(HOST).or_insert_with(|| {
        HeaderValue::from_str(&target.authority()).expect("a URL's host has visible ASCII only")
    });
    // ED-128: also when there is no body, except where a length would announce one that is not expected.
    if !body.is_empty() || [Method::POST, Method::PUT, Method::PATCH].contains(&head.method) {
        head.headers
            .entry(CONTENT_LENGTH)
            .or_insert_with(|| body.len().into());
    }
    Request::from_parts(head, Full::new(body))
}

/// How long a connection may be idle: as the setting says, but a second less than the server offers, so that ours ends
/// first.
fn idle_time(headers: &HeaderMap, setting: Duration) -> Duration {
    const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
    let offered = headers
        .get_all(KEEP_ALIVE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|parameter| parameter.split_once('='))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))
        .find_map(|(_, seconds)| seconds.trim().trim_matches('"').parse::<u64>().ok());
    match offered {
        Some(seconds) => setting.min(Duration::from_secs(seconds.saturating_sub(1))),
        None => setting,
    }
}

fn head_too_long(bytes: usize, bytes_max: usize) -> SendError {
    SendError::Protocol(format!("its head has {bytes} bytes, at most {bytes_max} are read").into())
}

fn failure(error: hyper::Error) -> SendError {
    if error.is_parse() || error.is_parse_too_large() || error.is_user() {
        SendError::Protocol(error.into())
    } else {
        SendError::Reset(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_end_before_the_servers_do() {
        let rows: &[(&[&str], u64)] = &[
            (&[], 4),
            (&["timeout=5"], 4),
            (&["timeout=3, max=100"], 2),
            (&["max=100, Timeout = \"2\""], 1),
            (&["max=100", "timeout=2"], 1),
            (&["timeout=1"], 0),
            (&["timeout=0"], 0),
            (&["timeout=x"], 4),
            (&["timeout"], 4),
            (&["timeout=99999999999999999999999"], 4),
        ];
        for (values, expect) in rows {
            let headers = values
                .iter()
                .map(|value| {
                    (
                        HeaderName::from_static("keep-alive"),
                        HeaderValue::from_static(value),
                    )
                })
                .collect();
            let kept = idle_time(&headers, Duration::from_secs(4));
            assert_eq!(kept.as_secs(), *expect, "{values:?}");
        }
    }

    #[test]
    fn requests_are_in_origin_form_with_query() {
        let target = Target::from_url(&"https://example.com:8443/".parse().unwrap()).unwrap();
        let rows = [
            (
                "https://example.com:8443/a/b?code=s%2Fx&c",
                "/a/b?code=s%2Fx&c",
            ),
            ("/a?b", "/a?b"),
            ("https://example.com:8443", "/"),
        ];
        for (uri, expect) in rows {
            let request = Request::post(uri).body(Bytes::from_static(b"[]")).unwrap();
            let request = outgoing(&target, request);
            assert_eq!(request.uri().to_string(), expect);
            assert_eq!(request.headers()[HOST], "example.com:8443");
            assert_eq!(request.headers()[CONTENT_LENGTH], "2");
        }
        let options = outgoing(&target, Request::options("/").body(Bytes::new()).unwrap());
        assert!(!options.headers().contains_key(CONTENT_LENGTH));
        let empty = outgoing(&target, Request::post("/").body(Bytes::new()).unwrap());
        assert_eq!(empty.headers()[CONTENT_LENGTH], "0");
    }
}
