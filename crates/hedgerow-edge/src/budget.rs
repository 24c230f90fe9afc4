//! How many retries a group may have (HP-174): so many that an origin's failure is hidden, so few that they do not bring down
//! the others.

use std::time::Duration;

use crate::limits;

/// Slots that the window is counted in.
const SLOTS: usize = 10;

/// Counts what happened within [`limits::RETRY_WINDOW`]. *Now* is a time since any moment, the same for all calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recent {
    /// How many in a slot, and which slot that was.
    slots: [(u64, u64); SLOTS],
}

impl Recent {
    /// Counts one.
    pub fn count(&mut self, now: Duration) {
        let slot = slot(now);
        let place = usize::try_from(slot % SLOTS as u64).unwrap_or(0);
        if let Some((of, count)) = self.slots.get_mut(place) {
            if *of != slot {
                (*of, *count) = (slot, 0);
            }
            *count += 1;
        }
    }

    /// How many there were.
    #[must_use]
    pub fn sum(&self, now: Duration) -> u64 {
        let slot = slot(now);
        let recent = self
            .slots
            .iter()
            .filter(|(of, _)| *of <= slot && slot - of < SLOTS as u64);
        recent.map(|(_, count)| count).sum()
    }
}

/// One is never 0, which is that of slots without anything.
fn slot(now: Duration) -> u64 {
    let length = limits::RETRY_WINDOW.as_millis() as u64 / SLOTS as u64;
    now.as_millis() as u64 / length.max(1) + SLOTS as u64
}

/// Whether another retry is allowed after so many requests and retries.
#[must_use]
pub const fn may_retry(requests: u64, retries: u64) -> bool {
    // In percent, so that nothing is rounded.
    (retries + 1) * 100 <= requests * limits::RETRY_PERCENT + limits::RETRIES_FREE * 100
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HP-174: a fifth of the requests of the last ten seconds, and three more.
    #[test]
    fn retries_are_a_part_of_the_requests() {
        for (requests, retries, expect) in [
            (0, 0, true),
            (0, 2, true),
            (0, 3, false),
            (4, 3, false),
            (5, 3, true),
            (5, 4, false),
            (100, 22, true),
            (100, 23, false),
        ] {
            assert_eq!(may_retry(requests, retries), expect, "{requests} {retries}");
        }
    }

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let at = Duration::from_millis;
        let mut recent = Recent::default();
        recent.count(at(0));
        recent.count(at(999));
        recent.count(at(5_000));
        assert_eq!(recent.sum(at(9_999)), 3);
        assert_eq!(recent.sum(at(10_000)), 1);
        assert_eq!(recent.sum(at(15_000)), 0);
        recent.count(at(20_500));
        assert_eq!(recent.sum(at(20_500)), 1);
        assert_eq!(recent.sum(at(1_000_000)), 0);
    }
}
