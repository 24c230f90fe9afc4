//! Reads the requests of one connection of HTTP/1 out of the bytes that come, strictly (HP-168): whatever two readers could
//! take for different requests is refused, and nothing behind it is ever looked at.
//!
//! It does no input or output. What is sent to an origin is written anew from what was read here, so that no other reader's
//! opinion matters.

mod body;
mod fields;
mod head;
mod refusal;
#[cfg(test)]
mod tests;

use bytes::BytesMut;

use crate::limits;

pub use self::body::{BodyReader, Framing, Piece};
use self::fields::HeadSearch;
pub use self::fields::{Field, Span};
pub(crate) use self::fields::{LineEnd, decimal, is_value, members, read_fields};
pub use self::head::{Head, Version};
pub use self::refusal::Refusal;

pub(crate) use self::fields::HeadSearch as Search;

/// Reads requests.
#[derive(Debug, Clone)]
pub struct RequestGuard {
    buffer: BytesMut,
    state: State,
    search: HeadSearch,
    /// A blank line in front of a request was passed over already.
    has_skipped: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Head,
    Body(BodyReader),
    /// Nothing is read any more.
    Refused(Refusal),
}

impl Default for RequestGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestGuard {
    /// A reader of a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buffer: BytesMut::new(),
            state: State::Head,
            search: HeadSearch::new(LineEnd::Strict),
            has_skipped: false,
        }
    }

    /// Where bytes that come are put.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Bytes that wait to be read.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the body of the last request has been read to its end, or was never there.
    #[must_use]
    pub const fn is_between_requests(&self) -> bool {
        matches!(self.state, State::Head)
    }

    /// Reads the head of the next request, if it is there as a whole. Returns whether it is.
    ///
    /// # Errors
    ///
    /// If it is refused, or something before it was. To be called between requests.
    pub fn next_head(&mut self, head: &mut Head) -> Result<bool, Refusal> {
        match &self.state {
            State::Head => {}
            State::Body(_) => return Ok(false),
            State::Refused(refusal) => return Err(*refusal),
        }
        let read = self.read_head(head);
        if let Err(refusal) = read {
            self.state = State::Refused(refusal);
        }
        read
    }

    /// Reads the next part of the body of the request whose head was read last.
    ///
    /// # Errors
    ///
    /// If its framing is refused.
    pub fn next_piece(&mut self) -> Result<Piece, Refusal> {
        let body = match &mut self.state {
            State::Head => return Ok(Piece::End),
            State::Body(body) => body,
            State::Refused(refusal) => return Err(*refusal),
        };
        let piece = body.next(&mut self.buffer);
        match &piece {
            Ok(_) if body.is_ended() => self.state = State::Head,
            Ok(_) => {}
            Err(refusal) => self.state = State::Refused(*refusal),
        }
        piece
    }

    /// Takes bytes that came and reads all that is whole. For those who have no use for what is read.
    ///
    /// # Errors
    ///
    /// If a request is refused.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Fed>, Refusal> {
        self.buffer.extend_from_slice(bytes);
        let mut fed = Vec::new();
        loop {
            if self.is_between_requests() {
                let mut head = Head::default();
                if !self.next_head(&mut head)? {
                    return Ok(fed);
                }
                fed.push(Fed::Head(Box::new(head)));
            } else {
                match self.next_piece()? {
                    Piece::More => return Ok(fed),
                    Piece::Data(data) => fed.push(Fed::Data(data)),
                    Piece::End => {}
                }
            }
        }
    }

    /// What was not read, when the connection is no longer one of HTTP.
    pub fn take_rest(&mut self) -> BytesMut {
        self.buffer.split()
    }

    fn read_head(&mut self, head: &mut Head) -> Result<bool, Refusal> {
        // Some clients send a line end behind a body (RFC 9112, 2.2).
        if !self.has_skipped && self.search == HeadSearch::new(LineEnd::Strict) {
            match &self.buffer[..] {
                [b'\r', b'\n', ..] => {
                    drop(self.buffer.split_to(2));
                    self.has_skipped = true;
                }
                [b'\r'] => return Ok(false),
                _ => {}
            }
        }
        match self.buffer.first() {
            None => return Ok(false),
            // What begins with no method is not waited for to become one.
            Some(first) if !fields::is_token(*first) => return Err(Refusal::RequestLine),
            Some(_) => {}
        }
        let Some(end) = self.search.find(&self.buffer)? else {
            let length = self.buffer.len();
            let line_max = limits::URL_BYTES_MAX + limits::METHOD_BYTES_MAX + " HTTP/1.1\r\n".len();
            if self.search.is_in_first_line() && length > line_max {
                return Err(Refusal::UriTooLong);
            }
            if length > limits::HEAD_BYTES_MAX {
                return Err(Refusal::HeadTooLarge);
            }
            return Ok(false);
        };
        if end > limits::HEAD_BYTES_MAX {
            return Err(Refusal::HeadTooLarge);
        }
        self.search = HeadSearch::new(LineEnd::Strict);
        self.has_skipped = false;
        head.read(self.buffer.split_to(end))?;
        let body = BodyReader::new(head.framing);
        if !body.is_ended() {
            self.state = State::Body(body);
        }
        Ok(true)
    }
}

/// What was read out of bytes that were fed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fed {
    /// The head of a request.
    Head(Box<Head>),
    /// A part of its body.
    Data(bytes::Bytes),
}
