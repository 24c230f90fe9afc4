//! Decimal numbers as JSON writes them, compared exactly (ED-097): no binary float, no limit of digits.
//!
//! A number is its significant digits and where the decimal point lies, so comparing two needs no arithmetic: sign, then
//! magnitude, then digits as texts.

use std::cmp::Ordering;

/// Exponents beyond it, either way, count as this one. Operands of filters stay within it
/// ([`crate::limits::FILTER_EXPONENT_MAX`]), so comparing a number of an event with them stays exact.
const EXPONENT_MAX: i64 = 1 << 60;

/// A number, read from its text without copying it.
///
/// Its value is the digits, one part behind the other, behind `0.`, times ten to the power of the exponent. There is no
/// zero at either end of the digits; zero itself has none, and exponent 0.
#[derive(Debug, Clone, Copy)]
pub struct Decimal<'a> {
    is_negative: bool,
    digits: [&'a [u8]; 2],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Reads a text that is completely a JSON number.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, rest) = split_digits(rest);
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => {
                let (fraction, rest) = split_digits(rest);
                if fraction.is_empty() {
                    return None;
                }
                (fraction, rest)
            }
            None => ("", rest),
        };
        let power = match rest.strip_prefix(['e', 'E']) {
            Some(power) => parse_power(power)?,
            None if rest.is_empty() => 0,
            None => return None,
        };
        Some(Self::of(
            is_negative,
            whole.as_bytes(),
            fraction.as_bytes(),
            power,
        ))
    }

    fn of(is_negative: bool, whole: &'a [u8], fraction: &'a [u8], power: i64) -> Self {
        // At most one zero, and then it is all there is before the point.
        let whole = whole.strip_prefix(b"0").unwrap_or(whole);
        let (fraction, skipped) = if whole.is_empty() {
            let significant = trim_start(fraction);
            (significant, fraction.len() - significant.len())
        } else {
            (fraction, 0)
        };
        let fraction = trim_end(fraction);
        let point = whole.len();
        let whole = if fraction.is_empty() {
            trim_end(whole)
        } else {
            whole
        };
        if whole.is_empty() && fraction.is_empty() {
            return Self {
                is_negative: false,
                digits: [b"", b""],
                exponent: 0,
            };
        }
        Self {
            is_negative,
            digits: [whole, fraction],
            exponent: power + signed(point) - signed(skipped),
        }
    }

    /// Where the decimal point lies, counted from before the first significant digit.
    #[must_use]
    pub const fn exponent(&self) -> i64 {
        self.exponent
    }

    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.digits.iter().flat_map(|part| part.iter().copied())
    }

    fn is_zero(&self) -> bool {
        self.digits.iter().all(|part| part.is_empty())
    }

    /// -1, 0 or 1.
    fn sign(&self) -> i8 {
        match (self.is_zero(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitude = || {
            let by_size = self.exponent.cmp(&other.exponent);
            by_size.then_with(|| self.digits().cmp(other.digits()))
        };
        self.sign().cmp(&other.sign()).then_with(|| {
            if self.is_negative {
                magnitude().reverse()
            } else {
                magnitude()
            }
        })
    }
}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal<'_> {}

/// A number that owns its digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnedDecimal {
    is_negative: bool,
    digits: Box<[u8]>,
    exponent: i64,
}

impl OwnedDecimal {
    /// The number.
    #[must_use]
    pub fn get(&self) -> Decimal<'_> {
        Decimal {
            is_negative: self.is_negative,
            digits: [&self.digits, b""],
            exponent: self.exponent,
        }
    }
}

impl From<Decimal<'_>> for OwnedDecimal {
    fn from(number: Decimal<'_>) -> Self {
        Self {
            is_negative: number.is_negative,
            digits: number.digits().collect(),
            exponent: number.exponent,
        }
    }
}

/// A number of digits in memory, which is far below the bound.
fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(EXPONENT_MAX)
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// An exponent as written; too large ones become the largest.
fn parse_power(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let power = digits.bytes().fold(0_i64, |power, digit| {
        let longer = power.saturating_mul(10);
        longer
            .saturating_add(i64::from(digit - b'0'))
            .min(EXPONENT_MAX)
    });
    Some(sign * power)
}

fn trim_start(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    &digits[zeros..]
}

fn trim_end(digits: &[u8]) -> &[u8] {
    let zeros = digits
        .iter()
        .rev()
        .take_while(|digit| **digit == b'0')
        .count();
    &digits[..digits.len() - zeros]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal<'_> {
        Decimal::parse(text).unwrap_or_else(|| panic!("{text} is a number"))
    }

    /// ED-097.
    #[test]
    fn numbers_are_compared_exactly() {
        let groups = [
            vec!["-1e400"],
            vec!["-9007199254740993"],
            vec!["-9007199254740992"],
            vec!["-5.5"],
            vec!["-5.4"],
            vec!["-0.001", "-1e-3", "-0.1E-02"],
            vec!["0", "-0", "0.0", "0e5", "-0.000e-7"],
            vec!["1e-999999999999999999999"],
            vec!["1e-400"],
            vec!["0.3", "0.30", "3e-1", "0.03E+1"],
            vec!["0.30000000000000004"],
            vec!["1", "1.0", "1e0", "10e-1"],
            vec!["1.10", "1.1"],
            vec!["99.999"],
            vec!["100", "1e2", "1E+2", "100.000"],
            vec!["9007199254740992"],
            vec!["9007199254740993", "9.007199254740993e15"],
            vec!["12345678901234567890"],
            vec!["1e399"],
            vec!["1e400", "10e399", "0.1e401"],
            vec!["1e999999999999999999999"],
        ];
        for (at, group) in groups.iter().enumerate() {
            for (other_at, other) in groups.iter().enumerate() {
                for (a, b) in group.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
                    let found = number(a).cmp(&number(b));
                    assert_eq!(found, at.cmp(&other_at), "{a} and {b}");
                    let (one, two) = (OwnedDecimal::from(number(a)), OwnedDecimal::from(number(b)));
                    assert_eq!(one == two, at == other_at, "{a} and {b}");
                    assert_eq!(one.get().cmp(&two.get()), found, "{a} and {b}");
                }
            }
        }
    }

    #[test]
    fn what_is_only_partly_a_number_is_none() {
        let texts = [
            "", "-", "+1", "01", "-01", "1.", ".5", "1e", "1e+", "1e5x", "5a", " 5", "5 ", "0x5",
            "NaN", "1_0", "1.2.3",
        ];
        for text in texts {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }
}
