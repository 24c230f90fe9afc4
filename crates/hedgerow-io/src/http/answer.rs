//! What a server answered: the complete head, and the body as far as anybody wants it.
//!
//! The head alone decides what an attempt met (ED-127). The body is read within bounds, to keep an excerpt of it and to
//! use the connection again; or dropped, which closes the connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::channel::Channel;
use super::pool::Pool;

/// An answer whose head has arrived. Redirects are answers like any other.
#[derive(Debug)]
pub struct Answer {
    /// The status; never an informational one but 101.
    pub status: StatusCode,
    /// The headers as they were sent.
    pub headers: HeaderMap,
    /// The rest.
    pub body: AnswerBody,
}

/// The body of an answer that has not been read yet, and the connection it arrives on. Dropping it closes the connection.
pub struct AnswerBody {
    pub(super) incoming: Incoming,
    pub(super) channel: Channel,
    pub(super) home: Home,
}

/// Where a connection goes when its exchange is over.
pub(super) struct Home {
    pub(super) pool: Arc<Pool>,
    /// How long it may be idle there.
    pub(super) keep: Duration,
}

/// The beginning of a body, and how long it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// The first bytes as they were sent: any bytes at all, not only text.
    pub bytes: Bytes,
    /// The length of the body in bytes: all of it when `is_complete`, otherwise at least so much.
    pub body_bytes: u64,
    /// Whether the body was read to its end.
    pub is_complete: bool,
}

/// Why a body could not be read whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is longer than the caller takes.
    #[error("the answer's body is longer than {bytes_max} bytes")]
    TooLong {
        /// What the caller takes.
        bytes_max: usize,
    },
    /// The connection failed, or the server sent less than it said.
    #[error("the answer's body ended early")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl std::fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerBody").finish_non_exhaustive()
    }
}

impl AnswerBody {
    /// Whether the head says that there is no body: nothing is left to be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// Reads the body within the client's bounds (ED-127: 64 KiB and 2 s) and keeps its beginning. A body that was read
    /// to its end leaves its connection for the next request; a longer, slower or broken one is cut off together with
    /// its connection, which is no error.
    pub async fn finish(mut self) -> Excerpt {
        let options = self.home.pool.options();
        let (bytes_max, time_max) = (options.body_bytes_max as u64, options.body_time_max);
        let mut kept = Kept::new(&self.incoming, options.excerpt_bytes_max);
        let is_complete = self.incoming.is_end_stream()
            || tokio::time::timeout(time_max, self.read(&mut kept, bytes_max))
                .await
                .unwrap_or(false);
        let excerpt = kept.into_excerpt(is_complete);
        if is_complete {
            self.leave().await;
        }
        excerpt
    }

    /// Reads the whole body, at most `bytes_max` of it. How long that may take is up to the caller, who drops the future.
    pub async fn collect(self, bytes_max: usize) -> Result<Bytes, BodyError> {
        let mut whole = BytesMut::new();
        self.read_into(&mut whole, bytes_max).await?;
        Ok(whole.freeze())
    }

    /// The same into a buffer of the caller's, which has what arrived also when that was not all: because it is longer, the
    /// connection failed, or the future was dropped.
    pub async fn read_into(
        mut self,
        whole: &mut BytesMut,
        bytes_max: usize,
    ) -> Result<(), BodyError> {
        while let Some(frame) = self.channel.drive(self.incoming.frame()).await {
            let frame = frame.map_err(|error| BodyError::Broken(error.into()))?;
            let Ok(chunk) = frame.into_data() else {
                continue;
            };
            let room = bytes_max - whole.len();
            whole.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                return Err(BodyError::TooLong { bytes_max });
            }
        }
        self.leave().await;
        Ok(())
    }

    /// Reads on until the body ends (true), breaks or becomes too long (false).
    async fn read(&mut self, kept: &mut Kept, bytes_max: u64) -> bool {
        while kept.read_bytes <= bytes_max {
            match self.channel.drive(self.incoming.frame()).await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        kept.add(&chunk);
                    }
                }
            }
        }
        false
    }

    /// Leaves the connection for the next request if it can take one. Otherwise (the server wants it closed, or answered
    /// before it had read the request) it is closed.
    async fn leave(mut self) {
        if self.channel.is_ready().await {
            self.home.pool.put(self.channel, self.home.keep);
        }
    }
}

/// What has been read so far.
struct Kept {
    excerpt: BytesMut,
    excerpt_bytes_max: usize,
    read_bytes: u64,
    /// What `Content-Length` says, 0 without one.
    declared_bytes: u64,
}

impl Kept {
    fn new(incoming: &Incoming, excerpt_bytes_max: usize) -> Self {
        Self {
            excerpt: BytesMut::new(),
            excerpt_bytes_max,
            read_bytes: 0,
            declared_bytes: incoming.size_hint().exact().unwrap_or(0),
        }
    }

    fn add(&mut self, chunk: &Bytes) {
        self.read_bytes += chunk.len() as u64;
        let room = self.excerpt_bytes_max - self.excerpt.len();
        self.excerpt
            .extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    fn into_excerpt(self, is_complete: bool) -> Excerpt {
        Excerpt {
            bytes: self.excerpt.freeze(),
            body_bytes: self.read_bytes.max(self.declared_bytes),
            is_complete,
        }
    }
}
