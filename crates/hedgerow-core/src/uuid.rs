//! UUIDs as text (RFC 9562): 32 hexadecimal digits in five groups.

/// The groups of digits, each behind a hyphen but the first.
const GROUPS: [std::ops::Range<usize>; 5] = [0..8, 8..12, 12..16, 16..20, 20..32];

/// These bits as text, in lower case. Version and variant are the caller's.
#[must_use]
pub fn uuid_text(bits: u128) -> String {
    let hex = format!("{bits:032x}");
    GROUPS.map(|group| &hex[group]).join("-")
}

/// Whether a text is a UUID as [`uuid_text`] writes it.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    let is_sign = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9562, section 4.
    #[test]
    fn the_groups_have_their_lengths() {
        let text = uuid_text(0xf81d_4fae_7dec_11d0_a765_00a0_c91e_6bf6);
        assert_eq!(text, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
        assert_eq!(uuid_text(1), "00000000-0000-0000-0000-000000000001");
    }
}
