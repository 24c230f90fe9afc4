//! When a token expires: ISO 8601, or a date as the .NET clients write it in the United States (ED-020).

use jiff::civil;
use jiff::tz::Offset;

use crate::time::{self, DateTime, after, number};

/// Nanoseconds since 1970.
pub(super) fn nanoseconds(text: &[u8]) -> Option<i128> {
    let time = time::parse(text, b"T ", usize::MAX).or_else(|| american(text))?;
    let field = |value: u32| i8::try_from(value).ok();
    let civil = civil::DateTime::new(
        i16::try_from(time.year).ok()?,
        field(time.month)?,
        field(time.day)?,
        field(time.hour)?,
        field(time.minute)?,
        field(time.second)?,
        i32::try_from(time.nanosecond).ok()?,
    );
    let utc = Offset::UTC.to_timestamp(civil.ok()?).ok()?;
    let ahead = i128::from(time.offset.unwrap_or(0)) * 60 * 1_000_000_000;
    Some(utc.as_nanosecond() - ahead)
}

/// `M/d/yyyy h:mm:ss AM`. Newer locale data have a narrow no-break space before AM and PM.
fn american(text: &[u8]) -> Option<DateTime> {
    let (month, rest) = short(text)?;
    let (day, rest) = short(after(rest, b"/")?)?;
    let (year, rest) = number(after(rest, b"/")?, 4)?;
    let (hour, rest) = short(after(rest, b" ")?)?;
    let (minute, rest) = number(after(rest, b":")?, 2)?;
    let (second, rest) = number(after(rest, b":")?, 2)?;
    let half = rest
        .strip_prefix(b" ")
        .or_else(|| rest.strip_prefix("\u{202f}".as_bytes()))?;
    let afternoon = match half {
        b"AM" | b"am" => 0,
        b"PM" | b"pm" => 12,
        _ => return None,
    };
    if !(1..=12).contains(&hour) {
        return None;
    }
    let time = DateTime {
        year,
        month,
        day,
        hour: hour % 12 + afternoon,
        minute,
        second,
        nanosecond: 0,
        offset: None,
    };
    time.is_real().then_some(time)
}

/// A number of one or two digits, and the rest.
fn short(text: &[u8]) -> Option<(u32, &[u8])> {
    number(text, 2).or_else(|| number(text, 1))
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    const MINUTE: i128 = 60_000_000_000;

    #[test]
    fn both_forms_are_read() {
        let expected = nanoseconds(b"2030-01-02T15:04:05Z").unwrap();
        assert_eq!(expected, 1_893_596_645_000_000_000);
        for (text, minutes) in [
            ("2030-01-02T15:04:05", 0),
            ("2030-01-02 15:04:05", 0),
            ("2030-01-02 15:04:05+00:00", 0),
            ("2030-01-02T15:04:05.000000+02:00", -120),
            ("2030-01-02T15:04:05-01:30", 90),
            ("1/2/2030 3:04:05 PM", 0),
            ("01/02/2030 03:04:05 pm", 0),
            ("1/2/2030 3:04:05\u{202f}PM", 0),
            ("1/2/2030 3:04:05 AM", -720),
        ] {
            let found = nanoseconds(text.as_bytes());
            assert_eq!(found, Some(expected + minutes * MINUTE), "{text}");
        }
        let fraction = nanoseconds(b"2030-01-02T15:04:05.1234567899").unwrap();
        assert_eq!(fraction - expected, 123_456_789);
    }

    #[test]
    fn everything_else_is_not() {
        for text in [
            "",
            "soon",
            "1893596645",
            "2030-01-02",
            "2030-01-02T15:04",
            "2030-01-02T15:04:05.",
            "2030-01-02T15:04:05+02",
            "2030-02-30T15:04:05Z",
            "13/2/2030 3:04:05 PM",
            "2/30/2030 3:04:05 PM",
            "1/2/2030 13:04:05 PM",
            "1/2/2030 0:04:05 AM",
            "1/2/2030 3:04:05",
            "1/2/2030 3:04:05PM",
            "1/2/2030 3:04:05 XM",
            "1/2/30 3:04:05 PM",
            "0000-00-00T00:00:00Z",
        ] {
            assert_eq!(nanoseconds(text.as_bytes()), None, "{text}");
        }
    }
}
