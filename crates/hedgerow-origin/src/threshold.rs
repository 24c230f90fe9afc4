//! How many of the newest samples must be good, and what follows from it: how many failures in a row make an origin
//! unhealthy, how many successes bring it back, and how long both take at worst (HP-064, HP-065, HP-113).

use std::time::Duration;

use crate::limits;

/// Sample size and required successes, 1 ≤ x ≤ n ≤ 255 (HP-064).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    sample_size: u8,
    required: u8,
}

impl Default for Thresholds {
    /// n = 4, x = 3.
    fn default() -> Self {
        Self {
            sample_size: 4,
            required: 3,
        }
    }
}

impl Thresholds {
    /// n = `sample_size` and x = `required`; `None` outside of HP-064's ranges.
    #[must_use]
    pub fn new(sample_size: u32, required: u32) -> Option<Self> {
        let is_valid =
            limits::SAMPLE_SIZE.contains(&sample_size) && (1..=sample_size).contains(&required);
        Some(Self {
            sample_size: u8::try_from(sample_size).ok().filter(|_| is_valid)?,
            required: u8::try_from(required).ok()?,
        })
    }

    /// HP-113: n := max(n, u) and x := n − u + 1, so that from all-good exactly u failures in a row make an origin
    /// unhealthy. `None` when that leaves HP-064's ranges: u below 1 or above 255.
    #[must_use]
    pub fn from_unhealthy_threshold(sample_size: u32, unhealthy: u32) -> Option<Self> {
        let sample_size = sample_size.max(unhealthy);
        Self::new(sample_size, (sample_size - unhealthy).checked_add(1)?)
    }

    /// n, the samples that count.
    #[must_use]
    pub const fn sample_size(self) -> u8 {
        self.sample_size
    }

    /// x, the successes among them that make an origin healthy.
    #[must_use]
    pub const fn required(self) -> u8 {
        self.required
    }

    /// Failures in a row from all-good to unhealthy: n − x + 1 (HP-065).
    #[must_use]
    pub const fn failures_to_unhealthy(self) -> u32 {
        self.failures_allowed() as u32 + 1
    }

    /// Successes in a row from all-bad to healthy: x (HP-065).
    #[must_use]
    pub const fn successes_to_healthy(self) -> u32 {
        self.required as u32
    }

    /// How long a fault stays unnoticed at worst: (n − x + 1)·I + T (HP-065). `interval` is the effective one.
    #[must_use]
    pub fn worst_detection(self, interval: Duration, timeout: Duration) -> Duration {
        after(self.failures_to_unhealthy(), interval, timeout)
    }

    /// How long a recovery stays unnoticed at worst: x·I + T (HP-065).
    #[must_use]
    pub fn worst_recovery(self, interval: Duration, timeout: Duration) -> Duration {
        after(self.successes_to_healthy(), interval, timeout)
    }

    /// Failures among n samples that an origin may have and still be healthy: n − x.
    pub(crate) const fn failures_allowed(self) -> u8 {
        self.sample_size.saturating_sub(self.required)
    }
}

fn after(samples: u32, interval: Duration, timeout: Duration) -> Duration {
    interval.saturating_mul(samples).saturating_add(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HP-064: what is outside of the ranges, x > n among it, is no threshold.
    #[test]
    fn only_what_can_be_healthy_is_a_threshold() {
        let rows = [
            (0, 0, false),
            (1, 0, false),
            (0, 1, false),
            (1, 1, true),
            (4, 5, false),
            (255, 255, true),
            (256, 1, false),
            (u32::MAX, u32::MAX, false),
        ];
        for (n, x, expect) in rows {
            assert_eq!(Thresholds::new(n, x).is_some(), expect, "{n}/{x}");
        }
    }

    /// HP-113: the rows of its table, and u outside of 1 to 255.
    #[test]
    fn an_unhealthy_threshold_is_another_spelling() {
        let rows = [
            (4, 2, Some((4, 3, 65))),
            (4, 3, Some((4, 2, 95))),
            (4, 4, Some((4, 1, 125))),
            (4, 5, Some((5, 1, 155))),
            (10, 4, Some((10, 7, 125))),
            (4, 0, None),
            (4, 255, Some((255, 1, 255 * 30 + 5))),
            (4, 256, None),
            (0, u32::MAX, None),
            (u32::MAX, 0, None),
        ];
        for (n, u, expect) in rows {
            let got = Thresholds::from_unhealthy_threshold(n, u).map(|thresholds| {
                let detection =
                    thresholds.worst_detection(Duration::from_secs(30), Duration::from_secs(5));
                assert_eq!(thresholds.failures_to_unhealthy(), u);
                (
                    thresholds.sample_size(),
                    thresholds.required(),
                    detection.as_secs(),
                )
            });
            assert_eq!(got, expect, "n {n}, u {u}");
        }
    }
}
