//! How often attempts of one subscription may start at its endpoint: `maxRequestsPerSecond`.
//!
//! No second, wherever it begins, has more starts than the limit. Starts are spread over it, so that a receiver that counts by
//! shorter times is not met with all of them at once; of a high limit a fiftieth may start together, to make up for timers that
//! come late, and the rate that is sustained is lower by so much.

use std::num::NonZeroU32;

use crate::time::Timestamp;

/// One of so many starts in a second may be made up for.
const TOGETHER_PART: u32 = 50;
const MICROS_PER_SECOND: u64 = 1_000_000;
const MICROS_PER_MILLI: u64 = 1_000;

/// The starts of one subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartPace {
    per_second: NonZeroU32,
    /// From one start to the next, in microseconds.
    interval: u64,
    /// How many microseconds before its time one may start.
    early: u64,
    /// When the next one would start if all did in time, in microseconds since 1970.
    next: u64,
}

impl StartPace {
    /// Nothing has started yet.
    #[must_use]
    pub fn new(per_second: NonZeroU32) -> Self {
        let together = u64::from(per_second.get() / TOGETHER_PART);
        // Those that start together stand at the end of one second and at the beginning of the next: both count.
        let sustained = u64::from(per_second.get()) - together;
        let interval = MICROS_PER_SECOND.div_ceil(sustained);
        Self {
            per_second,
            interval,
            early: together * interval,
            next: 0,
        }
    }

    /// The limit.
    #[must_use]
    pub const fn per_second(&self) -> NonZeroU32 {
        self.per_second
    }

    /// An attempt starts. Returns when the next one may.
    pub fn start(&mut self, now: Timestamp) -> Timestamp {
        let now = now.as_millis().saturating_mul(MICROS_PER_MILLI);
        self.next = self.next.max(now).saturating_add(self.interval);
        let earliest = self.next.saturating_sub(self.early);
        Timestamp::from_millis(earliest.div_ceil(MICROS_PER_MILLI))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts as often as it may, where timers are late by `late_ms` each time; the starts in milliseconds.
    fn starts(per_second: u32, late_ms: u64) -> Vec<u64> {
        let mut pace = StartPace::new(NonZeroU32::new(per_second).unwrap());
        let mut now = 1_000_000;
        let mut starts = Vec::new();
        while now < 1_010_000 {
            starts.push(now);
            let next = pace.start(Timestamp::from_millis(now)).as_millis();
            if next > now {
                now = next + late_ms;
            }
        }
        starts
    }

    #[test]
    fn no_second_has_more_than_the_limit() {
        for per_second in [1, 2, 3, 7, 10, 49, 50, 99, 100, 333, 1_000, 1_001, 10_000] {
            for late_ms in [0, 1, 3] {
                let starts = starts(per_second, late_ms);
                for (at, first) in starts.iter().enumerate() {
                    let end = starts.partition_point(|start| *start < first + 1_000);
                    let count = end - at;
                    assert!(
                        count <= per_second as usize,
                        "{count} of {per_second}, late by {late_ms}"
                    );
                }
            }
        }
    }

    #[test]
    fn nearly_as_many_as_the_limit_start() {
        for per_second in [1, 10, 49, 100, 1_000, 10_000] {
            let count = starts(per_second, 0).len() as f64 / 10.0;
            let part = count / f64::from(per_second);
            assert!(part > 0.96, "{part} of {per_second}");
        }
        let late = starts(1_000, 1).len();
        assert!(late > 9_600, "{late} starts with late timers");
    }

    #[test]
    fn what_was_not_used_is_not_kept() {
        let mut pace = StartPace::new(NonZeroU32::new(2).unwrap());
        let at = Timestamp::from_millis;
        assert_eq!(pace.start(at(1_000)), at(1_500));
        assert_eq!(pace.start(at(60_000)), at(60_500));
        assert_eq!(pace.start(at(60_500)), at(61_000));
    }
}
