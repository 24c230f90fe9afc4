//! Percent escapes.

/// The byte that the two hexadecimal digits at the beginning of `text` mean.
pub(crate) fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (high, low) = (digit(*text.first()?)?, digit(*text.get(1)?)?);
    u8::try_from(high << 4 | low).ok()
}

/// Decodes form-encoded text: escapes, and `+` for a space. What is no escape stays as it is.
pub(crate) fn decode_form(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| hex_pair(behind)).flatten();
        let (byte, after) = match escaped {
            Some(byte) => (byte, &behind[2..]),
            None if *first == b'+' => (b' ', behind),
            None => (*first, behind),
        };
        decoded.push(byte);
        rest = after;
    }
    decoded
}
