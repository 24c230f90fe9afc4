//! The seam between a client and the network: something that opens connections to a [`Target`].
//!
//! A real server has one [`GuardedConnector`](super::GuardedConnector); tests and the simulator put a network of their
//! own here ([`scripted`](super::scripted)).

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::address::Denied;
use super::target::Target;
use super::watch::{Mark, Watch};

/// A connection that is being opened. Dropping it gives up.
pub type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<Connection, ConnectError>> + Send + 'a>>;

/// Opens connections. The caller bounds how long that may take by dropping the future.
pub trait Connect: Send + Sync + 'static {
    /// Opens a connection to `target`, encrypted if its scheme says so, ready for HTTP/1.1.
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a>;

    /// The same, by the same rules, for somebody who watches. Whoever knows the parts of it marks them.
    fn connect_watched<'a>(&'a self, target: &'a Target, watch: &'a Watch) -> Connecting<'a> {
        watch.mark(Mark::Trying);
        self.connect(target)
    }
}

/// An open connection. Dropping it closes it.
pub struct Connection(Box<dyn Stream>);

/// Bytes both ways.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

impl Connection {
    /// A connection over any stream of bytes.
    #[must_use]
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Box::new(stream))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

/// Why there is no connection. Nothing of a request has been sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name has no address, or none that could be found.
    #[error("the host's name cannot be resolved")]
    Resolution(#[source] io::Error),
    /// We refuse to connect there: our refusal, not the receiver's fault.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// No address of the host accepted a connection.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The connection could not be encrypted, or the other side could not prove who it is.
    #[error("no TLS connection")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
}
