//! One HTTP/1.1 connection, and one exchange over it at a time.
//!
//! The connection has no task of its own: it moves only while somebody waits for an exchange or a body. So whoever drops
//! the channel closes the connection at once, in every state.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Context;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::ext::ReasonPhrase;
use hyper_util::rt::TokioIo;

use super::connect::Connection;
use super::pool::Slot;
use super::target::Target;

/// A request as it goes onto the wire.
pub(super) type Outgoing = Request<Full<Bytes>>;

/// What moves a connection when it is polled.
type Driver = http1::Connection<TokioIo<Connection>, Full<Bytes>>;

/// An open connection with its place among the counted ones.
pub(super) struct Channel {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once it has ended. It must be dropped then: what is still queued in it comes back only by that.
    connection: Option<Pin<Box<Driver>>>,
    /// Counts the connection as open for as long as the channel lives.
    slot: Slot,
    head_bytes_max: usize,
}

/// Why there is no answer.
pub(super) enum ExchangeError {
    /// The connection had ended before anything of the request was written: here it is again.
    Unsent(Box<Outgoing>, Option<hyper::Error>),
    /// The request, or a part of it, may have reached the server.
    Failed(hyper::Error),
    /// The head of the answer has more bytes than it may.
    HeadTooLong { bytes: usize, bytes_max: usize },
}

impl Channel {
    /// A channel over a new connection that reads answers with heads of at most `head_bytes_max`.
    pub(super) async fn new(
        connection: Connection,
        slot: Slot,
        head_bytes_max: usize,
    ) -> Result<Self, hyper::Error> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(head_bytes_max)
            .handshake(TokioIo::new(connection))
            .await?;
        Ok(Self {
            sender,
            connection: Some(Box::pin(connection)),
            slot,
            head_bytes_max,
        })
    }

    /// Where it leads to.
    pub(super) const fn target(&self) -> &Target {
        self.slot.target()
    }

    /// Writes `request` and waits for the complete head of the answer.
    pub(super) async fn exchange(
        &mut self,
        request: Outgoing,
    ) -> Result<Response<Incoming>, ExchangeError> {
        if !self.is_ready().await {
            return Err(ExchangeError::Unsent(Box::new(request), None));
        }
        let answer = self.sender.try_send_request(request);
        let answer = self
            .drive(answer)
            .await
            .map_err(|mut error| match error.take_message() {
                Some(request) => ExchangeError::Unsent(Box::new(request), Some(error.into_error())),
                None => ExchangeError::Failed(error.into_error()),
            })?;
        // hyper refuses what is not a head yet when its buffer is full; one that came whole in one read may be longer.
        let (bytes, bytes_max) = (head_bytes(&answer), self.head_bytes_max);
        if bytes > bytes_max {
            return Err(ExchangeError::HeadTooLong { bytes, bytes_max });
        }
        Ok(answer)
    }

    /// Whether the next request can be sent now: the connection is open and no exchange is going on. Notices when the
    /// server has closed the connection, or said something unasked, in the meantime. Does not wait.
    pub(super) async fn is_ready(&mut self) -> bool {
        poll_fn(|context| {
            self.poll_connection(context);
            (self.connection.is_some() && self.sender.is_ready()).into()
        })
        .await
    }

    /// Waits for `future` while the connection moves.
    pub(super) async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            // First the connection: when it ends in this turn, the future learns of it in the same one.
            self.poll_connection(context);
            future.as_mut().poll(context)
        })
        .await
    }

    fn poll_connection(&mut self, context: &mut Context<'_>) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        if connection.as_mut().poll(context).is_ready() {
            // An error has reached the exchange that it belongs to; without one it is of no interest.
            self.connection = None;
        }
    }
}

/// How many bytes the head of an answer has, without the blanks that may stand around the values of its headers.
fn head_bytes(answer: &Response<Incoming>) -> usize {
    const STATUS_LINE: usize = "HTTP/1.1 200 \r\n".len();
    const END: usize = "\r\n".len();
    let reason = match answer.extensions().get::<ReasonPhrase>() {
        Some(reason) => reason.as_bytes().len(),
        None => answer.status().canonical_reason().map_or(0, str::len),
    };
    let headers = answer.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + ":\r\n".len());
    STATUS_LINE + reason + headers.sum::<usize>() + END
}
