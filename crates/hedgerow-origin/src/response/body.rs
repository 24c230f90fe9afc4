//! The body of a response: counted, and thrown away (HP-044, HP-046).

use crate::limits;
use crate::outcome::BodyEnd;

/// Bytes of a chunk's size line, or of one line of a trailer: nobody needs more.
const LINE_BYTES_MAX: usize = 1_024;
/// Lines of a trailer.
const TRAILER_LINES_MAX: usize = 100;

/// A line, and the bytes behind it.
type Line<'b> = (Vec<u8>, &'b [u8]);

/// How far a body has been read.
#[derive(Debug, Clone)]
pub(super) struct Body {
    state: State,
    /// Bytes of it so far, chunk framing not counted.
    bytes: u64,
    /// The line of chunk framing that comes.
    line: Vec<u8>,
    trailer_lines: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Length { left: u64 },
    UntilClose,
    ChunkSize,
    Chunk { left: u64 },
    ChunkEnd,
    Trailer,
}

impl Body {
    pub(super) const fn none() -> Self {
        Self::in_state(State::Length { left: 0 })
    }

    pub(super) const fn of_length(length: u64) -> Self {
        Self::in_state(State::Length { left: length })
    }

    pub(super) const fn chunked() -> Self {
        Self::in_state(State::ChunkSize)
    }

    pub(super) const fn until_close() -> Self {
        Self::in_state(State::UntilClose)
    }

    const fn in_state(state: State) -> Self {
        Self {
            state,
            bytes: 0,
            line: Vec::new(),
            trailer_lines: 0,
        }
    }

    /// How it ended, if it did with these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<BodyEnd> {
        let mut rest = bytes;
        loop {
            match self.state {
                State::Length { left: 0 } => return Some(BodyEnd::Complete),
                State::Length { left } | State::Chunk { left } if self.is_too_much(left) => {
                    return Some(BodyEnd::TooLarge);
                }
                _ if rest.is_empty() => return None,
                State::Length { left } => {
                    let (left, behind) = self.count(left, rest);
                    self.state = State::Length { left };
                    rest = behind;
                }
                State::UntilClose => {
                    let is_too_much = self.is_too_much(rest.len() as u64);
                    let (_, behind) = self.count(u64::MAX, rest);
                    if is_too_much {
                        return Some(BodyEnd::TooLarge);
                    }
                    rest = behind;
                }
                State::Chunk { left: 0 } => self.state = State::ChunkEnd,
                State::Chunk { left } => {
                    let (left, behind) = self.count(left, rest);
                    self.state = State::Chunk { left };
                    rest = behind;
                }
                State::ChunkSize | State::ChunkEnd | State::Trailer => {
                    let (line, behind) = match self.take_line(rest)? {
                        Ok(line) => line,
                        Err(end) => return Some(end),
                    };
                    rest = behind;
                    if let Some(end) = self.take_framing(&line) {
                        return Some(end);
                    }
                }
            }
        }
    }

    /// So many bytes more would be more than is read.
    const fn is_too_much(&self, more: u64) -> bool {
        self.bytes.saturating_add(more) > limits::RESPONSE_BODY_BYTES_MAX
    }

    /// How it ended, when no more bytes come.
    pub(super) fn end(&mut self, is_clean: bool) -> BodyEnd {
        match self.state {
            State::UntilClose if is_clean => BodyEnd::Complete,
            State::Length { left: 0 } => BodyEnd::Complete,
            _ => BodyEnd::Cut,
        }
    }

    /// What is left to come of so many bytes, and the bytes behind them.
    fn count<'b>(&mut self, left: u64, bytes: &'b [u8]) -> (u64, &'b [u8]) {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        self.bytes = self.bytes.saturating_add(taken as u64);
        let rest = bytes.get(taken..).unwrap_or_default();
        (left.saturating_sub(taken as u64), rest)
    }

    /// A line of chunk framing without its end; `None` when more bytes are needed, broken framing when it is too long.
    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> Option<Result<Line<'b>, BodyEnd>> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(bytes.len(), |end| end + 1);
        let (line, rest) = bytes.split_at_checked(length)?;
        self.line.extend_from_slice(line);
        if self.line.len() > LINE_BYTES_MAX {
            return Some(Err(BodyEnd::Cut));
        }
        end?;
        let mut line = std::mem::take(&mut self.line);
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(Ok((line, rest)))
    }

    fn take_framing(&mut self, line: &[u8]) -> Option<BodyEnd> {
        match self.state {
            State::ChunkSize => match chunk_size(line) {
                Some(0) => self.state = State::Trailer,
                Some(left) => self.state = State::Chunk { left },
                None => return Some(BodyEnd::Cut),
            },
            State::ChunkEnd if line.is_empty() => self.state = State::ChunkSize,
            State::Trailer if line.is_empty() => return Some(BodyEnd::Complete),
            State::Trailer => {
                self.trailer_lines += 1;
                return (self.trailer_lines > TRAILER_LINES_MAX).then_some(BodyEnd::Cut);
            }
            _ => return Some(BodyEnd::Cut),
        }
        None
    }
}

/// Hexadecimal digits, with extensions behind `;` that do not matter.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let is_size = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_size)?;
    u64::from_str_radix(digits, 16).ok()
}
