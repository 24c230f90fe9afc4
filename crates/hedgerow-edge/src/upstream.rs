//! One exchange with an origin over one connection: the request out, the head of its response in, and the body on to the client.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use hedgerow_origin::outcome::Reason;
use hedgerow_prober::failure::of_broken;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::guard::{Piece, Refusal, RequestGuard};
use crate::limits;
use crate::response::{Asked, HeadRead, ResponseHead, ResponseReader};

/// What ends a body that is sent in chunks.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// For a response whose request is still being sent: how long that takes is no matter of the response.
pub(crate) const NO_DEADLINE: Duration = Duration::from_secs(365 * 86_400);

/// Why there is no head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken {
    pub reason: Reason,
    /// Nothing at all came back.
    pub is_silent: bool,
}

/// Why a response that was begun did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The origin's fault.
    Origin(Reason),
    /// The client is gone, or takes nothing.
    Client,
}

/// Why the body of a request did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// What the client sends is no body.
    Refused(Refusal),
    /// It is longer than is taken.
    TooLarge,
    /// The client sends nothing for too long.
    Late,
    /// The client is gone.
    Gone,
    /// The origin takes no more of it; it may have answered all the same.
    Origin,
}

/// Sends a whole request.
pub(crate) async fn send(write: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    write.write_all(bytes).await?;
    write.flush().await
}

/// Reads the final head of a response. Each byte that comes gives it time again, as the first one does (HP-170).
pub(crate) async fn read_head(
    read: &mut (impl AsyncRead + Unpin),
    reader: &mut ResponseReader,
    head: &mut ResponseHead,
    asked: Asked,
    pause: Duration,
) -> Result<(), Broken> {
    reader.begin();
    let mut is_silent = reader.is_empty();
    let broken = |reason, is_silent| Broken { reason, is_silent };
    loop {
        while !reader.is_empty() {
            match reader.next_head(head, asked) {
                Ok(HeadRead::Final) => return Ok(()),
                Ok(HeadRead::Interim) => {}
                Ok(HeadRead::More) => break,
                Err(reason) => return Err(broken(reason, false)),
            }
        }
        match timeout(pause, fill(read, reader)).await {
            Err(_) => return Err(broken(Reason::Timeout, is_silent)),
            Ok(Ok(0)) => return Err(broken(Reason::ConnectionReset, is_silent)),
            Ok(Ok(_)) => is_silent = false,
            Ok(Err(error)) => return Err(broken(of_broken(&error), is_silent)),
        }
    }
}

/// Reads what has come of a response, at least a byte; 0 at its end.
pub(crate) async fn fill(
    read: &mut (impl AsyncRead + Unpin),
    reader: &mut ResponseReader,
) -> io::Result<usize> {
    let buffer = reader.buffer();
    if buffer.capacity() - buffer.len() < limits::READ_BYTES / 4 {
        buffer.reserve(limits::READ_BYTES);
    }
    read.read_buf(buffer).await
}

/// The next part of a response's body, when it comes; `None` at its end.
pub(crate) async fn next_data(
    read: &mut (impl AsyncRead + Unpin),
    reader: &mut ResponseReader,
    pause: Duration,
) -> Result<Option<Bytes>, Reason> {
    loop {
        match reader.next_piece()? {
            Piece::Data(data) => return Ok(Some(data)),
            Piece::End => return Ok(None),
            Piece::More => {}
        }
        match timeout(pause, fill(read, reader)).await {
            Err(_) => return Err(Reason::Timeout),
            Ok(Ok(0)) if reader.may_end_with_connection() => return Ok(None),
            Ok(Ok(0) | Err(_)) => return Err(Reason::IncompleteResponse),
            Ok(Ok(_)) => {}
        }
    }
}

/// What stopped the parts of a body that were there from being taken.
enum Stopped {
    /// They are enough to be written.
    Full,
    /// No more has come.
    More,
    /// The body has ended.
    End,
}

/// Passes the body of a response on. `reply` is what is to be written before it. In chunks if `is_chunked`.
pub(crate) async fn relay(
    read: &mut (impl AsyncRead + Unpin),
    reader: &mut ResponseReader,
    write: &mut (impl AsyncWrite + Unpin),
    reply: &mut Vec<u8>,
    is_chunked: bool,
    (pause, client_pause): (Duration, Duration),
) -> Result<(), Cut> {
    loop {
        // All that is there goes out in one piece.
        let stopped = loop {
            match reader.next_piece().map_err(Cut::Origin)? {
                Piece::Data(data) => add_piece(reply, &data, is_chunked),
                Piece::End => break Stopped::End,
                Piece::More => break Stopped::More,
            }
            if reply.len() >= limits::READ_BYTES_LARGE {
                break Stopped::Full;
            }
        };
        let mut is_ended = matches!(stopped, Stopped::End);
        if !is_ended {
            flush(write, reply, client_pause).await?;
        }
        if matches!(stopped, Stopped::More) {
            match timeout(pause, fill(read, reader)).await {
                Err(_) => return Err(Cut::Origin(Reason::Timeout)),
                Ok(Ok(0)) if reader.may_end_with_connection() => is_ended = true,
                Ok(Ok(0) | Err(_)) => return Err(Cut::Origin(Reason::IncompleteResponse)),
                Ok(Ok(_)) => {}
            }
        }
        if is_ended {
            if is_chunked {
                reply.extend_from_slice(LAST_CHUNK);
            }
            return flush(write, reply, client_pause).await;
        }
    }
}

/// Writes all that is in `reply`, and empties it.
pub(crate) async fn flush(
    write: &mut (impl AsyncWrite + Unpin),
    reply: &mut Vec<u8>,
    pause: Duration,
) -> Result<(), Cut> {
    if reply.is_empty() {
        return Ok(());
    }
    let mut rest = reply.as_slice();
    while !rest.is_empty() {
        // Whoever takes something within the time is slow, and not gone.
        match timeout(pause, write.write(rest)).await {
            Ok(Ok(written)) if written > 0 => rest = rest.get(written..).unwrap_or_default(),
            _ => return Err(Cut::Client),
        }
    }
    reply.clear();
    match timeout(pause, write.flush()).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(Cut::Client),
    }
}

/// Adds a part of a body, as a chunk if it is sent in chunks.
pub(crate) fn add_piece(out: &mut Vec<u8>, data: &[u8], is_chunked: bool) {
    use std::io::Write as _;
    if !is_chunked {
        out.extend_from_slice(data);
    } else if !data.is_empty() {
        // Writing to memory does not fail.
        let _ = write!(out, "{:x}\r\n", data.len());
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}

/// Counts a body against what is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance(u64);

impl Allowance {
    pub(crate) const fn new(bytes_max: u64) -> Self {
        Self(bytes_max)
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), NotSent> {
        self.0 = self.0.checked_sub(bytes as u64).ok_or(NotSent::TooLarge)?;
        Ok(())
    }
}

/// Passes the body of a client's request on to the origin. `out` is what is to be written before it.
pub(crate) async fn upload(
    guard: &mut RequestGuard,
    read: &mut (impl AsyncRead + Unpin),
    write: &mut (impl AsyncWrite + Unpin),
    out: &mut Vec<u8>,
    is_chunked: bool,
    (mut allowance, pause): (Allowance, Duration),
) -> Result<(), NotSent> {
    loop {
        let stopped = loop {
            match guard.next_piece().map_err(NotSent::Refused)? {
                Piece::Data(data) => {
                    allowance.take(data.len())?;
                    add_piece(out, &data, is_chunked);
                }
                Piece::End => break Stopped::End,
                Piece::More => break Stopped::More,
            }
            if out.len() >= limits::READ_BYTES_LARGE {
                break Stopped::Full;
            }
        };
        if is_chunked && matches!(stopped, Stopped::End) {
            out.extend_from_slice(LAST_CHUNK);
        }
        match timeout(pause, send(write, out)).await {
            Ok(Ok(())) => {}
            // It takes nothing, or is gone.
            Ok(Err(_)) | Err(_) => return Err(NotSent::Origin),
        }
        out.clear();
        match stopped {
            Stopped::Full => {}
            Stopped::More => fill_request(guard, read, pause).await?,
            Stopped::End => return Ok(()),
        }
    }
}

/// Reads what has come of a request's body.
pub(crate) async fn fill_request(
    guard: &mut RequestGuard,
    read: &mut (impl AsyncRead + Unpin),
    pause: Duration,
) -> Result<(), NotSent> {
    let buffer = guard.buffer();
    if buffer.capacity() - buffer.len() < limits::READ_BYTES / 4 {
        buffer.reserve(limits::READ_BYTES);
    }
    match timeout(pause, read.read_buf(buffer)).await {
        Err(_) => Err(NotSent::Late),
        Ok(Ok(0) | Err(_)) => Err(NotSent::Gone),
        Ok(Ok(_)) => Ok(()),
    }
}
