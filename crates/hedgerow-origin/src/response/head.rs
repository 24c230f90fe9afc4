//! The head of a response: status line, header lines, blank line.

use crate::outcome::Reason;
use crate::settings::is_token;

/// How the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// What of a head matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) drains: bool,
}

const BEGINNING: &[u8] = b"HTTP/1.";

/// Looks for the end of a head, and looks at no byte twice.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EndSearch {
    at: usize,
    line_begins: usize,
}

impl EndSearch {
    /// Where the head ends, behind its blank line; `bytes` are those of earlier calls and more. A line may end without CR, as
    /// most clients take it.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(byte) = bytes.get(self.at) {
            let line_end = self.at;
            self.at += 1;
            if *byte != b'\n' {
                continue;
            }
            let line = bytes.get(self.line_begins..line_end).unwrap_or_default();
            if self.line_begins > 0 && matches!(line, b"" | b"\r") {
                return Some(self.at);
            }
            self.line_begins = self.at;
        }
        None
    }
}

/// Whether bytes can be the beginning of a head: what is no HTTP/1 is not waited for to become it.
pub(super) fn begins_well(bytes: &[u8]) -> Result<(), Reason> {
    let length = bytes.len().min(BEGINNING.len());
    let is_good = bytes.get(..length) == BEGINNING.get(..length);
    is_good.then_some(()).ok_or(Reason::MalformedResponse)
}

impl Head {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Reason> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let status_line = lines.next().map(without_cr).unwrap_or_default();
        let (status, is_http_10) = status(status_line).ok_or(Reason::MalformedResponse)?;
        let mut head = Self {
            status,
            framing: Framing::UntilClose,
            drains: false,
        };
        let mut length: Option<u64> = None;
        let mut is_chunked = false;
        for line in lines.map(without_cr).filter(|line| !line.is_empty()) {
            let (name, value) = header(line).ok_or(Reason::MalformedResponse)?;
            if name.eq_ignore_ascii_case(b"content-length") {
                let given = decimal(value).ok_or(Reason::MalformedResponse)?;
                if length.is_some_and(|length| length != given) {
                    return Err(Reason::MalformedResponse);
                }
                length = Some(given);
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                // One final chunked, said once.
                if is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Reason::MalformedResponse);
                }
                is_chunked = true;
            } else if name.eq_ignore_ascii_case(b"x-hedgerow-drain") {
                head.drains = value == b"1";
            }
        }
        head.framing = match (is_chunked, length) {
            (true, None) if !is_http_10 => Framing::Chunked,
            (true, _) => return Err(Reason::MalformedResponse),
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::UntilClose,
        };
        Ok(head)
    }
}

/// `HTTP/1.1 200 OK`, where the reason phrase may be missing (HP-040). The status, and whether the version is 1.0.
fn status(line: &[u8]) -> Option<(u16, bool)> {
    let rest = line.strip_prefix(BEGINNING)?;
    let (minor, rest) = rest.split_first()?;
    let rest = rest.strip_prefix(b" ")?;
    let (digits, reason) = rest.split_at_checked(3)?;
    let is_version = minor.is_ascii_digit();
    let is_reason = reason.is_empty() || (reason.starts_with(b" ") && is_text(reason));
    let status = decimal(digits).and_then(|status| u16::try_from(status).ok())?;
    let is_valid = is_version && is_reason && (100..600).contains(&status);
    is_valid.then_some((status, *minor == b'0'))
}

/// Name and value. A folded line, a space before the colon and control characters are refused.
fn header(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at_checked(colon)?;
    let value = without_blanks(value.get(1..)?);
    let is_valid = !name.is_empty() && name.iter().copied().all(is_token) && is_text(value);
    is_valid.then_some((name, value))
}

/// Spaces and tabs only: a bare CR or a form feed at the edge of a value is no blank, and others would read another value.
fn without_blanks(bytes: &[u8]) -> &[u8] {
    let mut value = bytes;
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn is_text(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

/// Digits only.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let is_digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_digits)?;
    text.parse().ok()
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
