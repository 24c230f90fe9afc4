//! The lines of a head: where it ends, and the fields in it. Requests and responses are read by the same rules, but a response's
//! lines may end without CR, as probes take them.

use crate::names::{Known, known};

use super::refusal::Refusal;

/// A part of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        // A head has 64 KiB at most.
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    pub(crate) const fn start(self) -> usize {
        self.start as usize
    }

    /// Its bytes in the head that it is of.
    #[must_use]
    pub fn of(self, head: &[u8]) -> &[u8] {
        head.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// A field of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name as it was written.
    pub name: Span,
    /// Its value without the blanks around it.
    pub value: Span,
    /// What the name means.
    pub known: Known,
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// With CR LF only.
    Strict,
    /// With LF, before which there may be a CR.
    Lenient,
}

/// Looks for the end of a head, and looks at no byte twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadSearch {
    line_end: LineEnd,
    at: usize,
    line_begins: usize,
}

impl HeadSearch {
    pub(crate) const fn new(line_end: LineEnd) -> Self {
        Self {
            line_end,
            at: 0,
            line_begins: 0,
        }
    }

    /// Where the head ends, behind its blank line. `bytes` are those of earlier calls and more.
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        while let Some(offset) = memchr::memchr(b'\n', bytes.get(self.at..).unwrap_or_default()) {
            let line_feed = self.at + offset;
            let line = bytes.get(self.line_begins..line_feed).unwrap_or_default();
            let (is_blank, has_cr) = match line {
                [] => (true, false),
                [b'\r'] => (true, true),
                [.., last] => (false, *last == b'\r'),
            };
            if !has_cr && self.line_end == LineEnd::Strict {
                return Err(Refusal::BareLineEnd);
            }
            self.at = line_feed + 1;
            self.line_begins = self.at;
            if is_blank {
                return Ok(Some(self.at));
            }
        }
        self.at = bytes.len();
        Ok(None)
    }

    /// Whether the first line has not ended yet.
    pub(crate) const fn is_in_first_line(&self) -> bool {
        self.line_begins == 0
    }
}

/// Characters of a token: a method, or the name of a field.
pub(crate) const fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let is_word = (byte as u8).is_ascii_alphanumeric();
        table[byte] = is_word;
        byte += 1;
    }
    let others = b"!#$%&'*+-.^_`|~";
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
};

/// Characters of a value: no controls but the tab.
pub(crate) const fn is_value(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || byte == b'\t'
}

/// Reads the fields of `head` from `at` to the blank line that ends it.
pub(crate) fn read_fields(
    head: &[u8],
    mut at: usize,
    line_end: LineEnd,
    fields_max: usize,
    fields: &mut Vec<Field>,
) -> Result<(), Refusal> {
    fields.clear();
    loop {
        let rest = head.get(at..).unwrap_or_default();
        match rest {
            [b'\r', b'\n', ..] | [] => return Ok(()),
            [b'\n', ..] if line_end == LineEnd::Lenient => return Ok(()),
            [b' ' | b'\t', ..] => return Err(Refusal::Folded),
            _ => {}
        }
        if fields.len() == fields_max {
            return Err(Refusal::HeadTooLarge);
        }
        let name_length = rest.iter().position(|byte| !is_token(*byte));
        let name_length = name_length.unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(name_length).unwrap_or_default();
        let [b':', after @ ..] = after else {
            return Err(Refusal::FieldName);
        };
        if name.is_empty() {
            return Err(Refusal::FieldName);
        }
        let blanks = after.iter().take_while(|byte| is_blank(**byte)).count();
        let after = after.get(blanks..).unwrap_or_default();
        let length = after.iter().position(|byte| !is_value(*byte));
        let length = length.unwrap_or(after.len());
        let (value, after) = after.split_at_checked(length).unwrap_or_default();
        let end_length = match after {
            [b'\r', b'\n', ..] => 2,
            [b'\n', ..] if line_end == LineEnd::Lenient => 1,
            [b'\n' | b'\r', ..] => return Err(Refusal::BareLineEnd),
            _ => return Err(Refusal::FieldValue),
        };
        let trailing = value.iter().rev().take_while(|byte| is_blank(**byte));
        let trailing = trailing.count();
        let value_at = at + name_length + 1 + blanks;
        fields.push(Field {
            name: Span::new(at, at + name_length),
            value: Span::new(value_at, value_at + length - trailing),
            known: known(name),
        });
        at = value_at + length + end_length;
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Digits only, and no more than fit.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// The members of a list that is separated by commas.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}
