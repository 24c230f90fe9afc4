//! Whether a text is a date and time with an offset, as RFC 3339 has it (section 1.6, ED-045). It is kept as sent; nothing is
//! computed here.

/// A date and time as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DateTime {
    pub year: u32,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    /// Of the second; what is finer is cut off.
    pub nanosecond: u32,
    /// Minutes ahead of UTC, if it says so.
    pub offset: Option<i32>,
}

impl DateTime {
    /// Whether there is such a day and time.
    pub const fn is_real(&self) -> bool {
        self.month >= 1
            && self.month <= 12
            && self.day >= 1
            && self.day <= days_in(self.year, self.month)
            && self.hour < 24
            && self.minute < 60
            && self.second < 60
    }
}

/// Says whether `text` is a date-time with an offset and at most `fraction_digits_max` digits behind the second.
pub(crate) fn is_date_time(text: &str, fraction_digits_max: usize) -> bool {
    parse(text.as_bytes(), b"Tt", fraction_digits_max).is_some_and(|time| time.offset.is_some())
}

/// Reads ISO 8601 with one of `separators` between date and time. The offset may be missing.
pub(crate) fn parse(
    text: &[u8],
    separators: &[u8],
    fraction_digits_max: usize,
) -> Option<DateTime> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(after(rest, b"-")?, 2)?;
    let (day, rest) = number(after(rest, b"-")?, 2)?;
    let (hour, rest) = number(after(rest, separators)?, 2)?;
    let (minute, rest) = number(after(rest, b":")?, 2)?;
    let (second, rest) = number(after(rest, b":")?, 2)?;
    let (nanosecond, rest) = match after(rest, b".") {
        None => (0, rest),
        Some(fraction) => {
            let digits = fraction
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            if !(1..=fraction_digits_max).contains(&digits) {
                return None;
            }
            let nanos = (0..9).fold(0, |nanos, at| {
                let digit = fraction[..digits].get(at).map_or(0, |byte| byte - b'0');
                nanos * 10 + u32::from(digit)
            });
            (nanos, &fraction[digits..])
        }
    };
    let offset = match rest {
        [] => None,
        rest => Some(offset(rest)?),
    };
    let time = DateTime {
        year,
        month,
        day,
        hour,
        minute,
        second,
        nanosecond,
        offset,
    };
    time.is_real().then_some(time)
}

/// Minutes ahead of UTC.
fn offset(text: &[u8]) -> Option<i32> {
    if matches!(text, b"Z" | b"z") {
        return Some(0);
    }
    let (hours, rest) = number(after(text, b"+-")?, 2)?;
    let (minutes, rest) = number(after(rest, b":")?, 2)?;
    if hours >= 24 || minutes >= 60 || !rest.is_empty() {
        return None;
    }
    let ahead = i32::try_from(hours * 60 + minutes).ok()?;
    Some(if text[0] == b'-' { -ahead } else { ahead })
}

/// The rest after one byte that must be one of `wanted`.
pub(crate) fn after<'a>(text: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let (first, rest) = text.split_first()?;
    wanted.contains(first).then_some(rest)
}

/// A number of exactly `digits` digits, and the rest.
pub(crate) fn number(text: &[u8], digits: usize) -> Option<(u32, &[u8])> {
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
    use super::is_date_time;

    fn is_event_time(text: &str) -> bool {
        is_date_time(text, 7)
    }

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
