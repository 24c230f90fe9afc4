//! How long the newest batches of a subscription took to be answered (ED-321): they succeed or fail as a whole within one
//! timeout, so whoever asks for large ones wants to know how much of it is left.

use std::collections::VecDeque;
use std::time::Duration;

/// Batches that are remembered.
const REMEMBERED_MAX: usize = 256;

/// The newest of them.
#[derive(Debug, Default)]
pub(crate) struct ResponseTimes(VecDeque<Duration>);

impl ResponseTimes {
    /// A batch was answered after this time, or was not by then.
    pub(crate) fn note(&mut self, time: Duration) {
        if self.0.len() == REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(time);
    }

    /// So many were answered, 95 % of them within this time.
    pub(crate) fn percentile_95(&self) -> Option<(usize, Duration)> {
        let mut times: Vec<Duration> = self.0.iter().copied().collect();
        times.sort_unstable();
        let at = (times.len() * 95).div_ceil(100).checked_sub(1)?;
        Some((times.len(), *times.get(at)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-321.
    #[test]
    fn the_percentile_is_of_the_newest_ones() {
        let mut times = ResponseTimes::default();
        assert_eq!(times.percentile_95(), None);
        let millis = Duration::from_millis;
        times.note(millis(7));
        assert_eq!(times.percentile_95(), Some((1, millis(7))));
        let mut times = ResponseTimes::default();
        for time in 1..=100 {
            times.note(millis(time));
        }
        assert_eq!(times.percentile_95(), Some((100, millis(95))));
        for _ in 0..256 {
            times.note(millis(1));
        }
        assert_eq!(times.percentile_95(), Some((256, millis(1))));
    }
}
