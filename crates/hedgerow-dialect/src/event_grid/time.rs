//! Whether a text is an `eventTime`: ISO 8601 date and time with an offset (section 1.6).
//!
//! The profile is that of RFC 3339, with 0 to 7 fractional digits. The text is kept as sent; nothing is computed here.

/// Says whether `text` is a date-time with an offset.
pub(super) fn is_event_time(text: &str) -> bool {
    parse(text.as_bytes()).is_some()
}

fn parse(text: &[u8]) -> Option<()> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(after(rest, b"-")?, 2)?;
    let (day, rest) = number(after(rest, b"-")?, 2)?;
    let (hour, rest) = number(after(rest, b"Tt")?, 2)?;
    let (minute, rest) = number(after(rest, b":")?, 2)?;
    let (second, rest) = number(after(rest, b":")?, 2)?;
    let is_real = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let rest = match after(rest, b".") {
        None => rest,
        Some(fraction) => {
            let digits = fraction
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            if !(1..=7).contains(&digits) {
                return None;
            }
            &fraction[digits..]
        }
    };
    (is_real && is_offset(rest)).then_some(())
}

fn is_offset(text: &[u8]) -> bool {
    if matches!(text, b"Z" | b"z") {
        return true;
    }
    let parts = after(text, b"+-").and_then(|rest| {
        let (hours, rest) = number(rest, 2)?;
        let (minutes, rest) = number(after(rest, b":")?, 2)?;
        Some((hours, minutes, rest))
    });
    matches!(parts, Some((0..24, 0..60, [])))
}

/// The rest after one byte that must be one of `wanted`.
fn after<'a>(text: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let (first, rest) = text.split_first()?;
    wanted.contains(first).then_some(rest)
}

/// A number of exactly `digits` digits, and the rest.
fn number(text: &[u8], digits: usize) -> Option<(u32, &[u8])> {
    let (number, rest) = text.split_at_checked(digits)?;
    let value = number.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit()
            .then(|| value * 10 + u32::from(byte - b'0'))
    })?;
    Some((value, rest))
}

const fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::is_event_time;

    #[test]
    fn date_times_with_an_offset_are_taken() {
        for text in [
            "2030-01-02T03:04:05Z",
            "2030-01-02T03:04:05.1Z",
            "2030-01-02T03:04:05.1234567Z",
            "2030-01-02T03:04:05+00:00",
            "2030-01-02T03:04:05.123456-11:30",
            "2028-02-29T23:59:59z",
            "2000-02-29t00:00:00Z",
        ] {
            assert!(is_event_time(text), "{text}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        for text in [
            "",
            "2030-01-02",
            "2030-01-02T03:04:05",
            "2030-01-02T03:04Z",
            "2030-01-02 03:04:05Z",
            "2030-01-02T03:04:05.Z",
            "2030-01-02T03:04:05.12345678Z",
            "2030-01-02T03:04:05,1Z",
            "2030-01-02T03:04:05+0200",
            "2030-01-02T03:04:05+24:00",
            "2030-01-02T03:04:05+02:60",
            "2030-01-02T03:04:05+02:00 ",
            "2030-13-02T03:04:05Z",
            "2030-00-02T03:04:05Z",
            "2030-02-29T03:04:05Z",
            "2100-02-29T03:04:05Z",
            "2030-04-31T03:04:05Z",
            "2030-01-02T24:00:00Z",
            "2030-01-02T03:60:00Z",
            "2030-01-02T03:04:60Z",
            "+2030-01-02T03:04:05Z",
            "30-01-02T03:04:05Z",
            "２030-01-02T03:04:05Z",
        ] {
            assert!(!is_event_time(text), "{text}");
        }
    }
}
