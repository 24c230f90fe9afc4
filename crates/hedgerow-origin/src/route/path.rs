//! A path as it is matched and forwarded: without dot segments, and with unreserved characters decoded (HP-154).

use std::borrow::Cow;
use std::fmt;

/// Why a path is refused with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// It does not begin with `/`.
    NotAbsolute,
    /// `%` without two hexadecimal digits behind it.
    Encoding,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAbsolute => "the path does not begin with \"/\"",
            Self::Encoding => "the path has \"%\" without two hexadecimal digits behind it",
        })
    }
}

impl std::error::Error for PathError {}

/// Removes dot segments and decodes unreserved characters. `%2F` stays as it is, and so does every other encoded character
/// that means something in a URL; its digits become upper case.
///
/// # Errors
///
/// If the encoding is not valid.
pub fn normalize(path: &str) -> Result<Cow<'_, str>, PathError> {
    if !path.starts_with('/') {
        return Err(PathError::NotAbsolute);
    }
    let decoded = decode(path)?;
    if !decoded
        .split('/')
        .any(|segment| segment == "." || segment == "..")
    {
        return Ok(decoded);
    }
    Ok(Cow::Owned(without_dots(&decoded)))
}

/// Decoding comes first: `%2e%2e` is a dot segment too.
fn decode(path: &str) -> Result<Cow<'_, str>, PathError> {
    if !path.contains('%') {
        return Ok(Cow::Borrowed(path));
    }
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        decoded.push_str(before);
        let digits = after.get(..2).ok_or(PathError::Encoding)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(PathError::Encoding);
        }
        let byte = u8::from_str_radix(digits, 16).map_err(|_| PathError::Encoding)?;
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            decoded.push(char::from(byte));
        } else {
            decoded.push('%');
            decoded.push_str(&digits.to_ascii_uppercase());
        }
        rest = after.get(2..).unwrap_or_default();
    }
    decoded.push_str(rest);
    Ok(Cow::Owned(decoded))
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    // Of an absolute path the first segment is what stands before its first slash: nothing.
    let segments = path.split('/').skip(1);
    let mut ends_in_slash = false;
    for segment in segments {
        ends_in_slash = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    let mut text = String::with_capacity(path.len());
    for segment in kept {
        text.push('/');
        text.push_str(segment);
    }
    if ends_in_slash || text.is_empty() {
        text.push('/');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HP-154: dot segments, encodings, and what stays as it is.
    #[test]
    fn paths_have_one_spelling() {
        let rows = [
            ("/", Ok("/")),
            ("/a/b", Ok("/a/b")),
            ("/a/./b", Ok("/a/b")),
            ("/a/../b", Ok("/b")),
            ("/a/b/..", Ok("/a/")),
            ("/a/.", Ok("/a/")),
            ("/..", Ok("/")),
            ("/../../etc/passwd", Ok("/etc/passwd")),
            ("/a/%2e%2e/b", Ok("/b")),
            ("/a/%2E./b", Ok("/b")),
            ("/%61%2Db%7e", Ok("/a-b~")),
            ("/a%2fb", Ok("/a%2Fb")),
            ("/a%2F..%2fb", Ok("/a%2F..%2Fb")),
            ("/a%20b%3f", Ok("/a%20b%3F")),
            ("/a//b", Ok("/a//b")),
            ("//a", Ok("//a")),
            ("/...", Ok("/...")),
            ("/%252e", Ok("/%252e")),
            ("", Err(PathError::NotAbsolute)),
            ("a", Err(PathError::NotAbsolute)),
            ("*", Err(PathError::NotAbsolute)),
            ("/%", Err(PathError::Encoding)),
            ("/%2", Err(PathError::Encoding)),
            ("/%zz", Err(PathError::Encoding)),
            ("/%+1", Err(PathError::Encoding)),
            ("/%é", Err(PathError::Encoding)),
        ];
        for (path, expect) in rows {
            let normal = normalize(path);
            assert_eq!(
                normal.as_deref(),
                expect.as_ref().map(|path| *path),
                "{path}"
            );
        }
    }
}
