//! Reads the responses of an origin out of the bytes that come (HP-043, HP-175). What two readers could take for different
//! responses is malformed; a connection on which one came is never used again.

use bytes::BytesMut;
use hedgerow_origin::outcome::Reason;

use crate::guard::{
    BodyReader, Field, Framing, LineEnd, Piece, Refusal, Search, Span, decimal, is_value, members,
    read_fields,
};
use crate::limits;
use crate::names::Known;

/// The head of a response. It is used again for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseHead {
    bytes: BytesMut,
    reason: Span,
    fields: Vec<Field>,
    /// Its status.
    pub status: u16,
    /// How its body is framed: what the head says, whatever the request was.
    declared: Framing,
    /// How its body is framed, as an answer to the request that was sent.
    pub framing: Framing,
    /// Whether the origin takes another request on the connection.
    pub keeps_alive: bool,
    /// Whether the origin asks not to be used (HP-198).
    pub drains: bool,
    /// Whether `Connection` names fields.
    pub names_fields: bool,
}

impl ResponseHead {
    /// The reason phrase.
    #[must_use]
    pub fn reason(&self) -> &[u8] {
        self.reason.of(&self.bytes)
    }

    /// Its fields: names, values and what they mean.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8], Known)> + Clone {
        let field = |field: &Field| {
            let (name, value) = (field.name.of(&self.bytes), field.value.of(&self.bytes));
            (name, value, field.known)
        };
        self.fields.iter().map(field)
    }

    /// The length that the head says, also where no body follows: in answer to `HEAD`.
    #[must_use]
    pub const fn declared_length(&self) -> Option<u64> {
        match self.declared {
            Framing::Length(length) => Some(length),
            _ => None,
        }
    }

    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    fn read(&mut self, bytes: BytesMut) -> Result<(), Reason> {
        let malformed = |_: Refusal| Reason::MalformedResponse;
        let line_feed = memchr::memchr(b'\n', &bytes).ok_or(Reason::MalformedResponse)?;
        let line = bytes.get(..line_feed).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (status, is_10, reason) = status_line(line).ok_or(Reason::MalformedResponse)?;
        let mut fields = std::mem::take(&mut self.fields);
        let read = read_fields(
            &bytes,
            line_feed + 1,
            LineEnd::Lenient,
            limits::FIELDS_MAX,
            &mut fields,
        );
        self.fields = fields;
        read.map_err(|refusal| match refusal {
            Refusal::HeadTooLarge => Reason::HeaderTooLarge,
            refusal => malformed(refusal),
        })?;
        self.bytes = bytes;
        (self.status, self.reason) = (status, reason);
        self.judge_fields(is_10)
    }

    fn judge_fields(&mut self, is_10: bool) -> Result<(), Reason> {
        let (mut length, mut is_chunked): (Option<u64>, bool) = (None, false);
        let (mut closes, mut keeps) = (false, !is_10);
        (self.drains, self.names_fields) = (false, false);
        for field in &self.fields {
            let value = field.value.of(&self.bytes);
            match field.known {
                Known::ContentLength => {
                    let given = decimal(value).ok_or(Reason::MalformedResponse)?;
                    if length.is_some_and(|length| length != given) {
                        return Err(Reason::MalformedResponse);
                    }
                    length = Some(given);
                }
                Known::TransferEncoding => {
                    if is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Reason::MalformedResponse);
                    }
                    is_chunked = true;
                }
                Known::Connection => {
                    for member in members(value) {
                        if member.eq_ignore_ascii_case(b"close") {
                            closes = true;
                        } else if member.eq_ignore_ascii_case(b"keep-alive") {
                            keeps = true;
                        } else {
                            self.names_fields = true;
                        }
                    }
                }
                Known::Drain => self.drains = value == b"1",
                _ => {}
            }
        }
        self.keeps_alive = keeps && !closes;
        self.declared = match (length, is_chunked) {
            (Some(_), true) => return Err(Reason::MalformedResponse),
            (None, true) if is_10 => return Err(Reason::MalformedResponse),
            (None, true) => Framing::Chunked,
            (Some(length), false) => Framing::Length(length),
            (None, false) => Framing::UntilClose,
        };
        Ok(())
    }
}

/// `HTTP/1.1 200 OK`: the status, whether the version is 1.0, and the reason phrase.
fn status_line(line: &[u8]) -> Option<(u16, bool, Span)> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let is_10 = match rest.first()? {
        b'0' => true,
        b'1' => false,
        _ => return None,
    };
    let rest = rest.get(1..)?.strip_prefix(b" ")?;
    let digits = rest.get(..3)?;
    let status = u16::try_from(decimal(digits)?).ok()?;
    let reason = match rest.get(3..)? {
        [] => &[],
        [b' ', reason @ ..] => reason,
        _ => return None,
    };
    let is_good = (100..600).contains(&status) && reason.iter().all(|byte| is_value(*byte));
    let span = Span::new(line.len() - reason.len(), line.len());
    is_good.then_some((status, is_10, span))
}

/// What the request was that a response answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Its method was `HEAD`: no body follows.
    pub is_head: bool,
    /// It asked for a WebSocket: 101 may come.
    pub wants_websocket: bool,
}

/// What came of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadRead {
    /// More bytes are needed.
    More,
    /// An interim response (1xx but 101); the next head follows.
    Interim,
    /// The final head. After 101 no HTTP follows.
    Final,
}

/// Reads responses.
#[derive(Debug, Clone)]
pub struct ResponseReader {
    buffer: BytesMut,
    search: Search,
    interim: u8,
    body: BodyReader,
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseReader {
    /// A reader of a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buffer: BytesMut::new(),
            search: Search::new(LineEnd::Lenient),
            interim: 0,
            body: BodyReader::new(Framing::None),
        }
    }

    /// Where bytes that come are put.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Whether nothing has come of the next response.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Begins with another request.
    pub fn begin(&mut self) {
        self.interim = 0;
        self.search = Search::new(LineEnd::Lenient);
    }

    /// Reads the next head, if it is there as a whole.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn next_head(&mut self, head: &mut ResponseHead, asked: Asked) -> Result<HeadRead, Reason> {
        const BEGINNING: &[u8] = b"HTTP/1.";
        let length = self.buffer.len().min(BEGINNING.len());
        if self.buffer.get(..length) != BEGINNING.get(..length) {
            return Err(Reason::MalformedResponse);
        }
        let end = self.search.find(&self.buffer);
        let end = end.map_err(|_| Reason::MalformedResponse)?;
        if end.unwrap_or(self.buffer.len()) > limits::HEAD_BYTES_MAX {
            return Err(Reason::HeaderTooLarge);
        }
        let Some(end) = end else {
            return Ok(HeadRead::More);
        };
        self.search = Search::new(LineEnd::Lenient);
        head.read(self.buffer.split_to(end))?;
        match head.status {
            101 if asked.wants_websocket => head.framing = Framing::None,
            101 => return Err(Reason::MalformedResponse),
            100..=199 => {
                self.interim += 1;
                if self.interim > limits::INTERIM_RESPONSES_MAX {
                    return Err(Reason::MalformedResponse);
                }
                return Ok(HeadRead::Interim);
            }
            204 | 304 => head.framing = Framing::None,
            _ if asked.is_head => head.framing = Framing::None,
            _ => head.framing = head.declared,
        }
        self.body = BodyReader::new(head.framing);
        Ok(HeadRead::Final)
    }

    /// Reads the next part of the body.
    ///
    /// # Errors
    ///
    /// If its framing breaks.
    pub fn next_piece(&mut self) -> Result<Piece, Reason> {
        let piece = self.body.next(&mut self.buffer);
        piece.map_err(|_| Reason::IncompleteResponse)
    }

    /// Whether the body has been read to its end.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.body.is_ended()
    }

    /// Whether the end of the connection ends the body in order (HP-044).
    #[must_use]
    pub const fn may_end_with_connection(&self) -> bool {
        self.body.may_end_with_connection()
    }

    /// What was not read, when the connection is no longer one of HTTP.
    pub fn take_rest(&mut self) -> BytesMut {
        self.buffer.split()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, asked: Asked) -> Result<(HeadRead, ResponseHead), Reason> {
        let mut reader = ResponseReader::new();
        reader.buffer().extend_from_slice(text.as_bytes());
        let mut head = ResponseHead::default();
        loop {
            let read = reader.next_head(&mut head, asked)?;
            if read != HeadRead::Interim {
                return Ok((read, head));
            }
        }
    }

    /// HP-043, HP-175: what two readers could understand differently is malformed.
    #[test]
    fn framing_of_responses_is_strict() {
        let rows: &[(&str, Result<Framing, Reason>)] = &[
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
                Ok(Framing::Length(5)),
            ),
            (
                "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n",
                Ok(Framing::Length(5)),
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 5\n\n",
                Ok(Framing::Length(5)),
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nContent-Length: 5\r\n\r\n",
                Ok(Framing::Length(5)),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n",
                Ok(Framing::Chunked),
            ),
            ("HTTP/1.0 200 OK\r\n\r\n", Ok(Framing::UntilClose)),
            (
                "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
                Ok(Framing::None),
            ),
            (
                "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
                Ok(Framing::None),
            ),
            (
                "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                Ok(Framing::Length(0)),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            ("HTTP/2 200 OK\r\n\r\n", Err(Reason::MalformedResponse)),
            ("HTTP/1.2 200 OK\r\n\r\n", Err(Reason::MalformedResponse)),
            ("HTTP/1.1 2000 OK\r\n\r\n", Err(Reason::MalformedResponse)),
            ("HTTP/1.1 099 OK\r\n\r\n", Err(Reason::MalformedResponse)),
            ("HTTP/1.1  200 OK\r\n\r\n", Err(Reason::MalformedResponse)),
            (
                "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            (
                "HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n",
                Err(Reason::MalformedResponse),
            ),
            ("SSH-2.0-OpenSSH\r\n", Err(Reason::MalformedResponse)),
            ("<html>", Err(Reason::MalformedResponse)),
        ];
        for (text, expect) in rows {
            let framing = read(text, Asked::default()).map(|(_, head)| head.framing);
            assert_eq!(framing, *expect, "{text:?}");
        }
    }

    /// HP-042, HP-183: endless interim responses and endless heads end.
    #[test]
    fn endless_heads_end() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n";
        let last = "HTTP/1.1 200 OK\r\n\r\n";
        let rows = [
            (format!("{}{last}", interim.repeat(8)), Ok(200)),
            (
                format!("{}{last}", interim.repeat(9)),
                Err(Reason::MalformedResponse),
            ),
            (
                format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(65_536)),
                Err(Reason::HeaderTooLarge),
            ),
            (
                format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(257)),
                Err(Reason::HeaderTooLarge),
            ),
        ];
        for (text, expect) in rows {
            let status = read(&text, Asked::default()).map(|(_, head)| head.status);
            assert_eq!(status, expect);
        }
    }

    /// HP-181: 101 is final where a WebSocket was asked for; an answer to HEAD has no body.
    #[test]
    fn a_response_depends_on_its_request() {
        let websocket = Asked {
            wants_websocket: true,
            ..Asked::default()
        };
        let (_, head) = read("HTTP/1.1 101 X\r\n\r\n", websocket).unwrap();
        assert_eq!((head.status, head.framing), (101, Framing::None));
        let asked = Asked {
            is_head: true,
            ..Asked::default()
        };
        let (_, head) = read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", asked).unwrap();
        assert_eq!(
            (head.framing, head.declared_length()),
            (Framing::None, Some(5))
        );
    }
}
