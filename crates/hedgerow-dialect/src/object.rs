//! Writes JSON objects member by member, and says beforehand how long they become, so that a body is allocated once.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_core::time::Timestamp;

/// The value of a member.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    /// A text, to be quoted.
    Text(&'a str),
    /// Two texts as one.
    Joined(&'static str, &'a str),
    /// JSON, which goes out byte for byte.
    Json(&'a str),
    /// Bytes, as a text.
    Base64(&'a [u8]),
    /// A number.
    Number(u64),
    /// A time, as a text.
    Time(Timestamp),
}

/// Takes the members of an object in their order.
pub(crate) trait Members {
    /// Takes one. Its name needs no escape.
    fn member(&mut self, name: &str, value: Value<'_>);

    /// Takes one if there is a text.
    fn text_if_some(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.member(name, Value::Text(text));
        }
    }
}

/// The length of an object without members.
const BRACES: usize = "{}".len();

/// Adds up how long an object becomes.
#[derive(Debug, Default)]
pub(crate) struct Length {
    members: usize,
}

impl Length {
    /// In bytes.
    pub(crate) const fn bytes(&self) -> usize {
        // The first member has no comma before it.
        BRACES + self.members.saturating_sub(",".len())
    }
}

impl Members for Length {
    fn member(&mut self, name: &str, value: Value<'_>) {
        self.members += ",\"\":".len() + name.len() + value.len();
    }
}

/// Writes an object to the end of a text. It is whole after [`Writer::finish`].
#[derive(Debug)]
pub(crate) struct Writer<'b> {
    body: &'b mut Vec<u8>,
    is_first: bool,
}

impl<'b> Writer<'b> {
    pub(crate) fn begin(body: &'b mut Vec<u8>) -> Self {
        body.push(b'{');
        Self {
            body,
            is_first: true,
        }
    }

    pub(crate) fn finish(self) {
        self.body.push(b'}');
    }
}

impl Members for Writer<'_> {
    fn member(&mut self, name: &str, value: Value<'_>) {
        let before: &[u8] = if self.is_first { b"\"" } else { b",\"" };
        self.is_first = false;
        self.body.extend_from_slice(before);
        self.body.extend_from_slice(name.as_bytes());
        self.body.extend_from_slice(b"\":");
        value.push(self.body);
    }
}

impl Value<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Text(text) => QUOTES + escaped_len(text),
            Self::Joined(first, second) => QUOTES + escaped_len(first) + escaped_len(second),
            Self::Json(text) => text.len(),
            Self::Base64(bytes) => QUOTES + bytes.len().div_ceil(3) * 4,
            Self::Time(_) => QUOTES + "2030-01-02T03:04:05.0000000Z".len(),
            Self::Number(number) => number.checked_ilog10().unwrap_or(0) as usize + 1,
        }
    }

    pub(crate) fn push(self, body: &mut Vec<u8>) {
        match self {
            Self::Text(text) => push_quoted(body, text),
            Self::Joined(first, second) => {
                let begin = body.len();
                push_quoted(body, first);
                body.pop();
                let middle = body.len();
                push_quoted(body, second);
                body.remove(middle);
                debug_assert_eq!(body[begin], b'"', "one pair of quotes is left");
            }
            Self::Json(text) => body.extend_from_slice(text.as_bytes()),
            Self::Base64(bytes) => {
                body.push(b'"');
                let begin = body.len();
                body.resize(begin + bytes.len().div_ceil(3) * 4, 0);
                STANDARD
                    .encode_slice(bytes, &mut body[begin..])
                    .expect("the room was computed for it");
                body.push(b'"');
            }
            Self::Time(time) => {
                write!(body, "\"{time}\"").expect("memory takes it");
            }
            Self::Number(number) => {
                serde_json::to_writer(body, &number).expect("memory takes it");
            }
        }
    }
}

const QUOTES: usize = "\"\"".len();

fn escaped_len(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

fn push_quoted(body: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(body, text).expect("a text is always JSON, and memory takes it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_exact() {
        let odd = "\u{0}\u{1f}\u{8}\u{c}\r\n\t\"\\/\u{7f}é🌿";
        let values = [
            Value::Text(odd),
            Value::Text(""),
            Value::Joined("#", odd),
            Value::Json("{ \"a\" : 1.10 }"),
            Value::Base64(b""),
            Value::Base64(b"a"),
            Value::Base64(&[0, 255, 16, 3]),
            Value::Number(0),
            Value::Number(9),
            Value::Number(10),
            Value::Number(u64::MAX),
            Value::Time(Timestamp::ZERO),
            Value::Time(Timestamp::from_millis(1_893_553_445_006)),
        ];
        for count in 0..=values.len() {
            let mut length = Length::default();
            let mut body = Vec::new();
            let mut writer = Writer::begin(&mut body);
            for (index, value) in values[..count].iter().enumerate() {
                let name = format!("m{index}");
                length.member(&name, *value);
                writer.member(&name, *value);
            }
            writer.finish();
            assert_eq!(length.bytes(), body.len());
            let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(read.as_object().unwrap().len(), count);
        }
    }

    #[test]
    fn joined_texts_are_one() {
        let mut body = Vec::new();
        Value::Joined("#", "1\"").push(&mut body);
        assert_eq!(body, br##""#1\"""##);
    }
}
