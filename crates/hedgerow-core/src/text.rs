//! How much of a text from outside is kept or repeated: a beginning of whole characters.

/// The longest beginning of whole characters that has at most so many bytes.
#[must_use]
pub fn beginning(text: &str, bytes_max: usize) -> &str {
    &text[..beginning_len(text, bytes_max)]
}

/// Cuts a text to that beginning.
pub fn cut(text: &mut String, bytes_max: usize) {
    text.truncate(beginning_len(text, bytes_max));
}

fn beginning_len(text: &str, bytes_max: usize) -> usize {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_stay_whole() {
        for (text, bytes_max, expect) in [
            ("", 0, ""),
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("abc", 0, ""),
            ("aü", 2, "a"),
            ("aü", 3, "aü"),
            ("😀", 3, ""),
            ("a😀b", 5, "a😀"),
        ] {
            assert_eq!(beginning(text, bytes_max), expect, "{text} {bytes_max}");
            let mut owned = text.to_owned();
            cut(&mut owned, bytes_max);
            assert_eq!(owned, expect);
        }
    }
}
