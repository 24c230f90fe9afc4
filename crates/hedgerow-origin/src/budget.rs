//! How many probes a node sends (HP-190), and when its own lateness is at fault (HP-191).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// One probe a second to one origin; and the span in which a node's are counted.
const SECOND: Duration = Duration::from_secs(1);
/// Origins whose last probe is remembered before those that are more than a second ago are forgotten.
const ORIGINS_KEPT: usize = 1_024;

/// The probes of the last second.
#[derive(Debug, Clone)]
pub struct Budget {
    per_second: usize,
    starts: VecDeque<Duration>,
    origins: HashMap<(String, u16), Duration>,
}

/// Why a probe waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delayed {
    /// The node has sent as many as it may, until then.
    ByNode(Duration),
    /// The origin was probed less than a second ago; it may be again then.
    ByOrigin(Duration),
}

impl Budget {
    /// At most so many probes a second, at least one.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        Self {
            per_second: per_second.max(1) as usize,
            starts: VecDeque::new(),
            origins: HashMap::new(),
        }
    }

    /// Takes a probe of this host and port into account that starts now, if it may.
    ///
    /// # Errors
    ///
    /// Until when it has to wait.
    pub fn start(&mut self, host: &str, port: u16, now: Duration) -> Result<(), Delayed> {
        let is_past = |start: &Duration| start.saturating_add(SECOND) <= now;
        while self.starts.front().is_some_and(is_past) {
            self.starts.pop_front();
        }
        if let Some(first) = self.starts.front()
            && self.starts.len() >= self.per_second
        {
            return Err(Delayed::ByNode(first.saturating_add(SECOND)));
        }
        let origin = (host.to_owned(), port);
        if let Some(last) = self.origins.get(&origin).filter(|last| !is_past(last)) {
            return Err(Delayed::ByOrigin(last.saturating_add(SECOND)));
        }
        if self.origins.len() >= ORIGINS_KEPT {
            self.origins.retain(|_, last| !is_past(last));
        }
        self.starts.push_back(now);
        self.origins.insert(origin, now);
        Ok(())
    }
}

/// A probe that timed out while the prober's own timer was late says nothing about the origin, but not more than three
/// times in a row (HP-191).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SelfCheck {
    in_a_row: u32,
}

impl SelfCheck {
    /// Whether a probe that timed out is no sample, because the timer fired so late.
    pub fn is_own_fault(&mut self, late: Duration, timeout: Duration) -> bool {
        let allowed = Duration::from_millis(100).max(timeout / 5);
        if late <= allowed || self.in_a_row >= 3 {
            self.in_a_row = 0;
            return false;
        }
        self.in_a_row += 1;
        true
    }

    /// A probe ended otherwise.
    pub const fn passed(&mut self) {
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// HP-190: so many probes in any second, and one to each origin.
    #[test]
    fn no_second_has_more_probes_than_the_budget() {
        let mut budget = Budget::new(3);
        assert_eq!(budget.start("a", 80, at(0)), Ok(()));
        assert_eq!(
            budget.start("a", 80, at(999)),
            Err(Delayed::ByOrigin(at(1_000)))
        );
        assert_eq!(budget.start("a", 81, at(500)), Ok(()));
        assert_eq!(budget.start("b", 80, at(600)), Ok(()));
        assert_eq!(
            budget.start("c", 80, at(999)),
            Err(Delayed::ByNode(at(1_000)))
        );
        assert_eq!(budget.start("c", 80, at(1_000)), Ok(()));
        assert_eq!(
            budget.start("d", 80, at(1_001)),
            Err(Delayed::ByNode(at(1_500)))
        );
    }

    /// HP-191: late by more than max(100 ms, T/5) is our own fault, three times in a row.
    #[test]
    fn a_late_timer_is_our_own_fault_three_times() {
        let mut check = SelfCheck::default();
        let timeout = Duration::from_secs(5);
        assert!(!check.is_own_fault(at(1_000), timeout));
        for _ in 0..3 {
            assert!(check.is_own_fault(at(1_001), timeout));
        }
        assert!(!check.is_own_fault(at(9_000), timeout));
        assert!(check.is_own_fault(at(1_001), timeout));
        check.passed();
        for _ in 0..3 {
            assert!(check.is_own_fault(at(1_001), timeout));
        }
        let mut check = SelfCheck::default();
        assert!(check.is_own_fault(at(201), Duration::from_secs(1)));
        assert!(!SelfCheck::default().is_own_fault(at(200), Duration::from_secs(1)));
    }
}
