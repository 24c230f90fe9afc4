//! What a client's connection has to be able to do.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A client's connection.
pub trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Sees to it that the client does not take what it got for whole, when the connection is dropped (HP-176).
    ///
    /// # Errors
    ///
    /// If the system refuses.
    fn cut(&mut self) -> io::Result<()>;
}

impl ClientStream for TcpStream {
    fn cut(&mut self) -> io::Result<()> {
        // A reset, where an orderly end could be that of a body without a length.
        self.set_zero_linger()
    }
}

impl ClientStream for TlsStream<TcpStream> {
    fn cut(&mut self) -> io::Result<()> {
        self.get_mut().0.set_zero_linger()
    }
}

/// For tests: there is no reset to be had.
impl ClientStream for DuplexStream {
    fn cut(&mut self) -> io::Result<()> {
        Ok(())
    }
}
