//! Where a body ends: by its length, by its chunks, or by the end of the connection (HP-168). Takes bytes as they come, and gives
//! what of them is the body. The extensions of chunks and the trailer are dropped.

use bytes::{Bytes, BytesMut};

use crate::limits;

use super::fields::{HeadSearch, LineEnd, read_fields};
use super::refusal::Refusal;
use crate::names::Known;

/// How a body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// There is none.
    #[default]
    None,
    /// By its length, which may be 0.
    Length(u64),
    /// By chunks.
    Chunked,
    /// Up to the end of the connection: responses only.
    UntilClose,
}

/// What a body reader found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// More bytes are needed.
    More,
    /// A part of the body.
    Data(Bytes),
    /// The body has ended.
    End,
}

/// Reads one body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyReader {
    state: State,
    /// Bytes of all extensions so far.
    extension_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So much is left.
    Length(u64),
    UntilClose,
    /// The line of a chunk's size comes.
    Size,
    /// So much of the chunk is left.
    Chunk(u64),
    /// CR LF comes.
    ChunkEnd,
    Trailer(HeadSearch),
    End,
}

impl BodyReader {
    /// A reader of a body that is framed so.
    #[must_use]
    pub const fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::End,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size,
            Framing::UntilClose => State::UntilClose,
        };
        Self {
            state,
            extension_bytes: 0,
        }
    }

    /// Whether nothing of it is to come.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Whether the end of the connection ends it in order.
    #[must_use]
    pub const fn may_end_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose | State::End)
    }

    /// Takes the next part of the body from the front of `buffer`, and what frames it.
    ///
    /// # Errors
    ///
    /// If the framing is not valid.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Piece, Refusal> {
        loop {
            match self.state {
                State::End => return Ok(Piece::End),
                _ if buffer.is_empty() => return Ok(Piece::More),
                State::UntilClose => return Ok(Piece::Data(buffer.split().freeze())),
                State::Length(left) => {
                    let data = take(buffer, left);
                    self.state = match left - data.len() as u64 {
                        0 => State::End,
                        left => State::Length(left),
                    };
                    return Ok(Piece::Data(data));
                }
                State::Chunk(left) => {
                    let data = take(buffer, left);
                    self.state = match left - data.len() as u64 {
                        0 => State::ChunkEnd,
                        left => State::Chunk(left),
                    };
                    return Ok(Piece::Data(data));
                }
                State::ChunkEnd => match &buffer[..] {
                    [b'\r', b'\n', ..] => {
                        drop(buffer.split_to(2));
                        self.state = State::Size;
                    }
                    [b'\r'] => return Ok(Piece::More),
                    _ => return Err(Refusal::Chunk),
                },
                State::Size => {
                    let Some((size, length)) = self.size(buffer)? else {
                        return Ok(Piece::More);
                    };
                    drop(buffer.split_to(length));
                    self.state = match size {
                        0 => State::Trailer(HeadSearch::new(LineEnd::Strict)),
                        size => State::Chunk(size),
                    };
                }
                State::Trailer(mut search) => {
                    let end = search.find(buffer);
                    let end = end.map_err(|_| Refusal::Trailer)?;
                    let length = end.unwrap_or(buffer.len());
                    if length > limits::TRAILER_BYTES_MAX {
                        return Err(Refusal::Trailer);
                    }
                    let Some(end) = end else {
                        self.state = State::Trailer(search);
                        return Ok(Piece::More);
                    };
                    judge_trailer(buffer.get(..end).unwrap_or_default())?;
                    drop(buffer.split_to(end));
                    self.state = State::End;
                }
            }
        }
    }

    /// The size that a line at the front of `buffer` says, and the line's length.
    fn size(&mut self, buffer: &[u8]) -> Result<Option<(u64, usize)>, Refusal> {
        let looked_at = buffer.len().min(limits::CHUNK_LINE_BYTES_MAX);
        let looked_at = buffer.get(..looked_at).unwrap_or_default();
        let line_feed = memchr::memchr(b'\n', looked_at);
        let line = match line_feed {
            Some(line_feed) => {
                let line = looked_at.get(..line_feed).unwrap_or_default();
                line.strip_suffix(b"\r").ok_or(Refusal::Chunk)?
            }
            // What has come may be refused before the rest of it.
            None => looked_at.strip_suffix(b"\r").unwrap_or(looked_at),
        };
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let digits = digits.count();
        let (number, extension) = line.split_at_checked(digits).unwrap_or_default();
        let is_extension = match extension {
            [] => true,
            [b';', extension @ ..] => extension
                .iter()
                .all(|byte| matches!(*byte, b'\t' | b' '..=b'~')),
            _ => false,
        };
        let is_whole = line_feed.is_some();
        let is_good = is_extension
            && digits <= limits::CHUNK_SIZE_DIGITS_MAX
            && (digits > 0 || (!is_whole && line.is_empty()));
        if !is_good || (!is_whole && looked_at.len() == limits::CHUNK_LINE_BYTES_MAX) {
            return Err(Refusal::Chunk);
        }
        let Some(line_feed) = line_feed else {
            return Ok(None);
        };
        self.extension_bytes += extension.len();
        if self.extension_bytes > limits::CHUNK_EXTENSION_BYTES_MAX {
            return Err(Refusal::Chunk);
        }
        let number = std::str::from_utf8(number).map_err(|_| Refusal::Chunk)?;
        let size = u64::from_str_radix(number, 16).map_err(|_| Refusal::Chunk)?;
        // The sum of all sizes is counted by somebody: no single one may end that.
        if size > u64::from(u32::MAX) << 16 {
            return Err(Refusal::Chunk);
        }
        Ok(Some((size, line_feed + 1)))
    }
}

fn take(buffer: &mut BytesMut, left: u64) -> Bytes {
    let length = usize::try_from(left).unwrap_or(usize::MAX);
    buffer.split_to(length.min(buffer.len())).freeze()
}

/// The trailer is dropped, but what would frame another request is not let pass in silence.
fn judge_trailer(trailer: &[u8]) -> Result<(), Refusal> {
    let mut fields = Vec::new();
    let read = read_fields(trailer, 0, LineEnd::Strict, limits::FIELDS_MAX, &mut fields);
    read.map_err(|_| Refusal::Trailer)?;
    let is_framing = |known| {
        matches!(
            known,
            Known::ContentLength | Known::TransferEncoding | Known::Host | Known::Disguised
        )
    };
    if fields.iter().any(|field| is_framing(field.known)) {
        return Err(Refusal::Trailer);
    }
    Ok(())
}
