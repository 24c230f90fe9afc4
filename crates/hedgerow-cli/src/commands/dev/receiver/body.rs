//! The body of an answer: whole, or one that drips.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Interval;

/// The time between two bytes.
const DRIP_INTERVAL: Duration = Duration::from_millis(100);

/// The body of an answer.
pub enum AnswerBody {
    /// Known from the beginning.
    Whole(Full<Bytes>),
    /// A byte at a time, as long as somebody reads.
    Drip(Interval),
}

impl AnswerBody {
    /// A body that never ends. To be made inside a runtime.
    pub fn drip() -> Self {
        Self::Drip(tokio::time::interval(DRIP_INTERVAL))
    }
}

impl From<String> for AnswerBody {
    fn from(text: String) -> Self {
        Self::Whole(Full::from(text))
    }
}

impl Default for AnswerBody {
    fn default() -> Self {
        Self::Whole(Full::default())
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Drip(interval) => interval
                .poll_tick(context)
                .map(|_| Some(Ok(Frame::data(Bytes::from_static(b"."))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Drip(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Drip(_) => SizeHint::default(),
        }
    }
}
