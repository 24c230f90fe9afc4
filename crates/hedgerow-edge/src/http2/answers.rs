//! What clients of HTTP/2 get, and what is told of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hedgerow_origin::outcome::Reason;
use http::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::answer::Own;
use crate::decide::About;
use crate::edge::Shared;
use crate::observer::Exchange;
use crate::routing::Entry;
use crate::upstream::NotSent;

/// The body of an answer.
pub(crate) enum Body {
    /// It is there.
    Whole(Option<Bytes>),
    /// It comes from an origin.
    Parts(mpsc::Receiver<Result<Bytes, Cut>>),
}

/// The origin's response will not end: the stream is reset (HP-176).
#[derive(Debug)]
pub(crate) struct Cut(pub Reason);

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the response of the origin is not whole: {}", self.0)
    }
}

impl std::error::Error for Cut {}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match &mut *self {
            Self::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Parts(parts) => {
                let part = std::task::ready!(parts.poll_recv(context));
                Poll::Ready(part.map(|part| part.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            Self::Parts(_) => SizeHint::default(),
        }
    }
}

/// What is told of a request once it ends.
pub(crate) struct Log {
    shared: Arc<Shared>,
    about: About,
    entry: Option<Arc<Entry>>,
    method: String,
    began: Instant,
}

impl Log {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        about: About,
        entry: Option<Arc<Entry>>,
        method: &str,
        began: Instant,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            about,
            entry,
            method: method.to_owned(),
            began,
        }
    }

    pub(crate) fn ended(
        &self,
        status: u16,
        reason: Option<&'static str>,
        attempts: u32,
        origin: Option<&str>,
    ) {
        let entry = self.entry.as_deref();
        self.shared.observer.ended(&Exchange {
            route: entry.map(|entry| entry.name.as_str()),
            group: entry.map(|entry| entry.settings.origin_group.as_str()),
            origin,
            method: &self.method,
            status,
            reason,
            attempts,
            reference: &self.about.reference,
            client: self.about.client,
            elapsed: self.began.elapsed(),
        });
    }

    pub(crate) fn own(&self, own: &Own, attempts: u32, origin: Option<&str>) -> Response<Body> {
        self.ended(own.status, Some(own.code), attempts, origin);
        let names = self.shared.options.profile.names();
        let body = Bytes::from(own.body(&self.about.reference));
        let mut response = Response::builder()
            .status(own.status)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(names.reference, &self.about.reference);
        if let Some(after) = own.retry_after {
            response = response.header(http::header::RETRY_AFTER, after.as_secs().max(1));
        }
        if self.about.shows_details {
            response = response.header(names.error, own.code);
        }
        let response = response.body(Body::Whole(Some(body)));
        response.unwrap_or_else(|_| Response::new(Body::Whole(None)))
    }

    pub(crate) fn redirect(&self, status: u16, location: &str) -> Response<Body> {
        self.ended(status, None, 0, None);
        let names = self.shared.options.profile.names();
        let response = Response::builder()
            .status(status)
            .header(http::header::LOCATION, location)
            .header(names.reference, &self.about.reference)
            .body(Body::Whole(None));
        response.unwrap_or_else(|_| Response::new(Body::Whole(None)))
    }

    pub(crate) fn not_sent(
        &self,
        not_sent: NotSent,
        attempts: u32,
        origin: Option<&str>,
    ) -> Response<Body> {
        let own = match not_sent {
            NotSent::Refused(refusal) => Own::refused(refusal),
            NotSent::TooLarge => Own::BODY_TOO_LARGE,
            // Nobody reads what one gets that is gone.
            NotSent::Late | NotSent::Gone => Own::LATE,
            NotSent::Origin => Own::failed(Reason::ConnectionReset),
        };
        self.own(&own, attempts, origin)
    }
}
