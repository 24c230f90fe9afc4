//! Answers requests that no HTTP can be read out of, as every other refusal is answered: with the vendor's error body and a
//! request id that stands in the log (ED-065, ED-067).
//!
//! The HTTP library answers these itself, with a bare head, as the last thing that it writes to a connection. This stands
//! between it and the connection and writes the whole answer in place of that head.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hedgerow_core::limits;
use hedgerow_dialect::event_grid::{self, ErrorCode, PublishError, Report};
use hedgerow_io::chance;
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::service::REQUEST_ID;
use crate::state::SharedApp;

/// What a record of TLS that begins a handshake begins with.
const TLS_HANDSHAKE: u8 = 22;
/// The head of the answer to a request that came to a port of TLS in the clear.
const REFUSED_HEAD: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
/// A bare head is no longer than this.
const BARE_HEAD_BYTES_MAX: usize = 256;

/// A connection on which bare refusals become whole ones.
pub struct Answering<S> {
    stream: S,
    app: SharedApp,
    /// The first byte that came.
    first: Option<u8>,
    /// What is written in place of a bare head, and how much of it has been.
    answer: Option<(Vec<u8>, usize)>,
}

impl<S> Answering<S> {
    pub const fn new(stream: S, app: SharedApp) -> Self {
        Self {
            stream,
            app,
            first: None,
            answer: None,
        }
    }
}

impl<S: AsyncWrite + Unpin> Answering<S> {
    /// Takes a bare head for itself. Returns whether it was one.
    fn take(&mut self, written: &[u8]) -> bool {
        let Some(status) = bare(written) else {
            return false;
        };
        let id = chance::uuid();
        let why = if self.first == Some(TLS_HANDSHAKE) {
            TO_PLAIN.to_owned()
        } else {
            why(status)
        };
        let error = PublishError::new(ErrorCode::BadRequest, why);
        tracing::info!(
            request_id = id,
            status = status.as_u16(),
            "a request could not be read: {}",
            error.message
        );
        let report = Report {
            request_id: &id,
            number: 0,
            time: self.app.time(),
        };
        self.answer = Some((whole(written, &error.to_body(&report), &id), 0));
        true
    }

    fn write_answer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some((answer, at)) = &mut self.answer
            && *at < answer.len()
        {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &answer[*at..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *at += written;
        }
        Poll::Ready(Ok(()))
    }
}

/// To a client that speaks TLS where there is none. It cannot read it: this is for the log.
const TO_PLAIN: &str = "The client speaks TLS, and this port speaks HTTP without it: use http:// in its address, or give this server \
                        a certificate (tls.certificate_file).";
/// To a client that speaks HTTP where it should be encrypted.
const TO_TLS: &str =
    "The request is not encrypted, and this port speaks TLS: use https:// in its address.";

/// Whether what a client sends to a port of TLS is HTTP in the clear: its request begins with a method.
pub const fn is_plain(first: u8) -> bool {
    first.is_ascii_uppercase()
}

/// The whole answer to a request that came to a port of TLS in the clear.
pub fn to_plain(app: &SharedApp) -> Vec<u8> {
    let id = chance::uuid();
    let error = PublishError::new(ErrorCode::BadRequest, TO_TLS);
    tracing::info!(
        request_id = id,
        status = StatusCode::BAD_REQUEST.as_u16(),
        "a request could not be read: {}",
        error.message
    );
    let report = Report {
        request_id: &id,
        number: 0,
        time: app.time(),
    };
    whole(REFUSED_HEAD, &error.to_body(&report), &id)
}

/// The status of a head that the library wrote by itself: every head of ours has a request id.
fn bare(written: &[u8]) -> Option<StatusCode> {
    if written.len() > BARE_HEAD_BYTES_MAX || !written.ends_with(b"\r\n\r\n") {
        return None;
    }
    let head = std::str::from_utf8(written).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.get(2..5)?;
    let status = StatusCode::from_bytes(status.as_bytes()).ok()?;
    (status.is_client_error() && !head.contains(REQUEST_ID.as_str())).then_some(status)
}

fn why(status: StatusCode) -> String {
    match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => format!(
            "The request has more than the maximum of {} headers, or its head has more than the maximum of {} bytes.",
            limits::REQUEST_HEADERS_MAX,
            limits::REQUEST_HEAD_BYTES_MAX
        ),
        StatusCode::URI_TOO_LONG => "The target of the request is too long.".to_owned(),
        _ => "The head of the request is no HTTP/1.1: its request line or one of its headers cannot be read.".to_owned(),
    }
}

/// The bare head with a body.
fn whole(bare: &[u8], body: &[u8], id: &str) -> Vec<u8> {
    let mut whole = Vec::with_capacity(bare.len() + body.len() + BARE_HEAD_BYTES_MAX);
    let lines = bare.split_inclusive(|byte| *byte == b'\n');
    for line in lines.filter(|line| !line.starts_with(b"content-length:") && *line != b"\r\n") {
        whole.extend_from_slice(line);
    }
    let more = format!(
        "content-type: {}\r\ncontent-length: {}\r\n{REQUEST_ID}: {id}\r\n\r\n",
        event_grid::CONTENT_TYPE,
        body.len()
    );
    whole.extend_from_slice(more.as_bytes());
    whole.extend_from_slice(body);
    whole
}

impl<S: AsyncRead + Unpin> AsyncRead for Answering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let at = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if self.first.is_none() {
            self.first = buffer.filled().get(at).copied();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Answering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        written: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.take(written) {
            return Poll::Ready(Ok(written.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        written: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut parts = written.iter().filter(|part| !part.is_empty());
        if let (Some(one), None) = (parts.next(), parts.next())
            && self.take(one)
        {
            return Poll::Ready(Ok(one.len()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.write_answer(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.write_answer(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_heads_of_the_library_are_bare() {
        let date = "date: Mon, 30 Nov 2026 12:00:00 GMT\r\n\r\n";
        let rows = [
            (
                format!(
                    "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n{date}"
                ),
                Some(400),
            ),
            (
                format!(
                    "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n{date}"
                ),
                Some(431),
            ),
            (
                format!("HTTP/1.1 400 Bad Request\r\nx-ms-request-id: 1\r\n{date}"),
                None,
            ),
            (
                format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{date}"),
                None,
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n".to_owned(), None),
            ("HTTP/1.1 400 Bad Request\r\n".to_owned(), None),
            ("HTTP/1.".to_owned(), None),
            (String::new(), None),
        ];
        for (written, expect) in rows {
            let found = bare(written.as_bytes()).map(|status| status.as_u16());
            assert_eq!(found, expect, "{written}");
        }
    }
}
