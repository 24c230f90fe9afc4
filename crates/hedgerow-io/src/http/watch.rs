//! Looks at one exchange: the bytes that went out, to which address, and how long each part of it took. For people who try an
//! endpoint out, and for probes; nobody else pays for it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::connect::Connection;

/// What an exchange goes through, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The host's name has addresses.
    Named,
    /// The first of its addresses is about to be tried. From here on a connection costs time of the host's own.
    Trying,
    /// One of them took the connection.
    Connected,
    /// It is encrypted.
    Encrypted,
    /// The first byte of the answer came.
    FirstByte,
    /// Nothing more is wanted of it.
    Over,
}

/// How long each part took; `None` for what was not needed, or not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// The look-up of the host's name.
    pub name: Option<Duration>,
    /// The TCP connection.
    pub connect: Option<Duration>,
    /// The TLS handshake.
    pub tls: Option<Duration>,
    /// From the open connection to the first byte of the answer: the way of the request, and the work of the receiver.
    pub first_byte: Option<Duration>,
    /// From the beginning to [`Mark::Over`].
    pub total: Option<Duration>,
}

/// Watches one exchange. A clone watches the same one, also when its future is dropped.
#[derive(Debug, Clone)]
pub struct Watch(Arc<Mutex<Seen>>);

#[derive(Debug)]
struct Seen {
    began: Instant,
    named: Option<Instant>,
    trying: Option<Instant>,
    connected: Option<Instant>,
    encrypted: Option<Instant>,
    first_byte: Option<Instant>,
    over: Option<Instant>,
    sent: Vec<u8>,
    sent_total: u64,
    sent_max: usize,
    address: Option<SocketAddr>,
    until: Option<Instant>,
}

impl Watch {
    /// Begins now. The first `sent_max` bytes that go out are kept.
    #[must_use]
    pub fn begin(sent_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Seen {
            began: Instant::now(),
            named: None,
            trying: None,
            connected: None,
            encrypted: None,
            first_byte: None,
            over: None,
            sent: Vec::new(),
            sent_total: 0,
            sent_max,
            address: None,
            until: None,
        })))
    }

    /// The same for a caller who gives up at this time: where a name has several addresses, none of them takes all of what
    /// is left (HP-026).
    #[must_use]
    pub fn until(self, deadline: Instant) -> Self {
        self.seen().until = Some(deadline);
        self
    }

    /// When its caller gives up, if that is known.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.seen().until
    }

    /// When it began.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.seen().began
    }

    /// When this was reached, if it was.
    #[must_use]
    pub fn reached(&self, mark: Mark) -> Option<Instant> {
        let seen = self.seen();
        match mark {
            Mark::Named => seen.named,
            Mark::Trying => seen.trying,
            Mark::Connected => seen.connected,
            Mark::Encrypted => seen.encrypted,
            Mark::FirstByte => seen.first_byte,
            Mark::Over => seen.over,
        }
    }

    /// Notes the address that is connected to.
    pub fn note_address(&self, address: SocketAddr) {
        self.seen().address = Some(address);
    }

    /// The address that was connected to, or tried last.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.seen().address
    }

    /// Notes that this is reached now; what was noted before stays.
    pub fn mark(&self, mark: Mark) {
        let mut seen = self.seen();
        let place = match mark {
            Mark::Named => &mut seen.named,
            Mark::Trying => &mut seen.trying,
            Mark::Connected => &mut seen.connected,
            Mark::Encrypted => &mut seen.encrypted,
            Mark::FirstByte => &mut seen.first_byte,
            Mark::Over => &mut seen.over,
        };
        place.get_or_insert_with(Instant::now);
    }

    /// How long the parts took.
    #[must_use]
    pub fn timings(&self) -> Timings {
        let seen = self.seen();
        let part = |from: Option<Instant>, to: Option<Instant>| Some(to?.duration_since(from?));
        let began = Some(seen.began);
        let open = seen.encrypted.or(seen.connected);
        Timings {
            name: part(began, seen.named),
            connect: part(seen.named.or(began), seen.connected),
            tls: part(seen.connected, seen.encrypted),
            first_byte: part(open, seen.first_byte),
            total: part(began, seen.over),
        }
    }

    /// The bytes that were written to the connection, as far as they are kept, and how many there were.
    #[must_use]
    pub fn sent(&self) -> (Vec<u8>, u64) {
        let seen = self.seen();
        (seen.sent.clone(), seen.sent_total)
    }

    /// The connection, watched.
    pub(super) fn over(&self, connection: Connection) -> Connection {
        Connection::new(Watched {
            connection,
            watch: self.clone(),
        })
    }

    fn note_sent(&self, slices: &[io::IoSlice<'_>], mut bytes: usize) {
        let mut seen = self.seen();
        seen.sent_total += bytes as u64;
        for slice in slices {
            let written = bytes.min(slice.len());
            bytes -= written;
            let kept = written.min(seen.sent_max - seen.sent.len());
            seen.sent.extend_from_slice(&slice[..kept]);
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection under a [`Watch`].
struct Watched {
    connection: Connection,
    watch: Watch,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.connection).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.watch.mark(Mark::FirstByte);
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write_vectored(context, slices);
        if let Poll::Ready(Ok(bytes)) = &written {
            self.watch.note_sent(slices, *bytes);
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
