//! The value of a `ce-` header as text, as the HTTP binding of CloudEvents 1.0.2 says in section 3.1.3.2: quotes are taken
//! away, then percent escapes are decoded, once. What is no UTF-8 then is refused.

use std::borrow::Cow;

const NOT_UTF8: &str = "is no UTF-8 after percent-decoding";

/// Decodes a value, or says what is wrong with it.
pub(super) fn decode(value: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    let unquoted = unquote(value);
    let decoded = match unquoted {
        Cow::Borrowed(bytes) => decode_percent(bytes)?,
        Cow::Owned(bytes) => Cow::Owned(decode_percent(&bytes)?.into_owned()),
    };
    match decoded {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes)
            .map(Cow::Borrowed)
            .map_err(|_| NOT_UTF8),
        Cow::Owned(bytes) => String::from_utf8(bytes)
            .map(Cow::Owned)
            .map_err(|_| NOT_UTF8),
    }
}

/// A quoted string (RFC 9110, section 5.6.4) without its quotes; anything else as it is.
fn unquote(value: &[u8]) -> Cow<'_, [u8]> {
    let inner = value
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    let Some(inner) = inner else {
        return Cow::Borrowed(value);
    };
    let mut unquoted = Vec::with_capacity(inner.len());
    let mut rest = inner.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => unquoted.extend(rest.next()),
            // It ends within: this is no quoted string.
            b'"' => return Cow::Borrowed(value),
            _ => unquoted.push(*byte),
        }
    }
    Cow::Owned(unquoted)
}

fn decode_percent(value: &[u8]) -> Result<Cow<'_, [u8]>, &'static str> {
    if !value.contains(&b'%') {
        return Ok(Cow::Borrowed(value));
    }
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, behind)) = rest.split_first() {
        if *first == b'%' {
            let byte = crate::escapes::hex_pair(behind)
                .ok_or("has a % that is not followed by two hexadecimal digits")?;
            decoded.push(byte);
            rest = &behind[2..];
        } else {
            decoded.push(*first);
            rest = behind;
        }
    }
    Ok(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-037, FC-02.
    #[test]
    fn escapes_are_decoded_once() {
        for (value, expected) in [
            ("caf%C3%A9%20%25%22x", "café %\"x"),
            ("caf%c3%a9", "café"),
            ("%2520", "%20"),
            ("plain text", "plain text"),
            ("café", "café"),
            ("%61", "a"),
            ("%F0%9F%8C%BF", "🌿"),
            (r#""quoted \"text\" \\ %41""#, r#"quoted "text" \ A"#),
            (r#""a"b""#, r#""a"b""#),
            ("\"", "\""),
            ("", ""),
        ] {
            assert_eq!(decode(value.as_bytes()).as_deref(), Ok(expected), "{value}");
        }
        assert!(matches!(decode(b"plain"), Ok(Cow::Borrowed("plain"))));
    }

    #[test]
    fn what_cannot_be_decoded_is_refused() {
        for value in [
            "%C3%28",
            "%C0%A0",
            "%ED%A0%80",
            "100%",
            "%2",
            "%zz",
            "%+1",
            "%FF",
        ] {
            assert!(decode(value.as_bytes()).is_err(), "{value}");
        }
        assert!(decode(b"caf\xe9").is_err(), "Latin-1");
    }
}
