//! Remembers the first byte that a server sent: it tells TLS from HTTP when the answer cannot be read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose first byte is remembered.
pub struct FirstByte<S> {
    stream: S,
    seen: Seen,
}

/// The first byte, 0 before it came: neither TLS nor HTTP begins with that.
#[derive(Clone, Default)]
pub struct Seen(Arc<AtomicU8>);

impl Seen {
    /// Whether it begins a record of TLS in which a server complains, or goes on.
    pub fn is_of_tls(&self) -> bool {
        const ALERT: u8 = 21;
        const HANDSHAKE: u8 = 22;
        matches!(self.0.load(Ordering::Relaxed), ALERT | HANDSHAKE)
    }
}

impl<S> FirstByte<S> {
    /// The stream, and where its first byte will be.
    pub fn of(stream: S) -> (Self, Seen) {
        let seen = Seen::default();
        let of_stream = seen.clone();
        (
            Self {
                stream,
                seen: of_stream,
            },
            seen,
        )
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstByte<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if let Some(first) = buffer.filled().get(before) {
            // Nobody else writes: the stream is read by one task.
            if self.seen.0.load(Ordering::Relaxed) == 0 {
                self.seen.0.store(*first, Ordering::Relaxed);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstByte<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
