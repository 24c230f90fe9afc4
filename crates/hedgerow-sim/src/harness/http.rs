//! A small HTTP client for tools: one connection, one request at a time, always with a deadline.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a request may take.
const REQUEST_WAIT_MAX: Duration = Duration::from_secs(30);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// A header beside those every request has: name and value.
    pub header: (&'static str, String),
    /// Its body.
    pub body: Bytes,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Seconds of `Retry-After`.
    pub retry_after: Option<u64>,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// The body as text, for messages.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection that is opened when it is needed and after each failure.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// A connection to an address, not opened yet.
    pub const fn new(address: SocketAddr) -> Self {
        Self {
            address,
            sender: None,
        }
    }

    /// Another connection to the same address.
    pub const fn another(&self) -> Self {
        Self::new(self.address)
    }

    /// Sends a request. After an error nobody knows whether it was served.
    pub async fn send(&mut self, call: Call) -> Result<Answer, String> {
        let answered = timeout(REQUEST_WAIT_MAX, self.exchange(call)).await;
        let result = answered.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        if result.is_err() {
            self.sender = None;
        }
        result
    }

    async fn exchange(&mut self, call: Call) -> Result<Answer, String> {
        let request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .header(call.header.0, call.header.1)
            .body(Full::new(call.body))
            .map_err(text)?;
        let sender = self.open().await?;
        let response = sender.send_request(request).await.map_err(text)?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after");
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        let body = body
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        Ok(Answer {
            status,
            retry_after,
            body,
        })
    }

    async fn open(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, String> {
        if let Some(sender) = &mut self.sender
            && sender.ready().await.is_err()
        {
            self.sender = None;
        }
        if self.sender.is_none() {
            let stream = TcpStream::connect(self.address).await.map_err(text)?;
            stream.set_nodelay(true).map_err(text)?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(text)?;
            // Ends with the connection; its error is met by the request that uses it.
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        Ok(self.sender.as_mut().expect("it was opened above"))
    }
}

#[allow(clippy::needless_pass_by_value)] // The shape that `map_err` wants.
fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Whether the server at an address serves: `/healthz` answers 200.
pub async fn is_healthy(address: SocketAddr) -> bool {
    let call = Call {
        method: Method::GET,
        path: "/healthz".to_owned(),
        header: ("accept", "*/*".to_owned()),
        body: Bytes::new(),
    };
    Connection::new(address)
        .send(call)
        .await
        .is_ok_and(|answer| answer.status == 200)
}
