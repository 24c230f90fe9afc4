//! A set of statuses that a probe's answer may have to be a success. 200 alone unless a group says otherwise (HP-040).

use std::ops::RangeInclusive;

/// What such a set may hold: final statuses that no server uses to say that it cannot serve.
const RANGE: RangeInclusive<u16> = 200..=499;
const WORDS: usize = 5;

/// A set of statuses of 200 to 499.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statuses([u64; WORDS]);

impl Default for Statuses {
    /// 200 alone.
    fn default() -> Self {
        Self([1, 0, 0, 0, 0])
    }
}

impl Statuses {
    /// Those among `statuses` that can be expected.
    #[must_use]
    pub fn of(statuses: impl IntoIterator<Item = u16>) -> Self {
        let mut words = [0; WORDS];
        for status in statuses {
            let (word, bit) = place(status);
            if let Some(word) = words.get_mut(word) {
                *word |= bit;
            }
        }
        Self(words)
    }

    /// Whether this one is among them.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        let (word, bit) = place(status);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Those of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let mut words = self.0;
        for (word, other) in words.iter_mut().zip(other.0) {
            *word |= other;
        }
        Self(words)
    }
}

/// The word of a status, and its bit in it; for one that cannot be expected no word that there is.
fn place(status: u16) -> (usize, u64) {
    if !RANGE.contains(&status) {
        return (WORDS, 0);
    }
    let number = status - RANGE.start();
    (usize::from(number / 64), 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FC-24: whatever is put in is in it, and nothing else; no interim answer and no 5xx can be.
    #[test]
    fn a_set_holds_what_was_put_in() {
        let all = Statuses::of(0..1_000);
        let held: Vec<u16> = (0..1_000).filter(|status| all.contains(*status)).collect();
        assert_eq!(held, RANGE.collect::<Vec<_>>());
        assert_eq!(Statuses::of([200]), Statuses::default());
        let both = Statuses::of([204, 301]).with(Statuses::of([499, 500]));
        let held: Vec<u16> = (0..1_000).filter(|status| both.contains(*status)).collect();
        assert_eq!(held, [204, 301, 499]);
    }
}
