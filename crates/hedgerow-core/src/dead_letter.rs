//! When the event of an undelivered delivery is written to the dead-letter store, when that is tried again, when it is
//! given up, and what the blob is called.
//!
//! Decides ED-245 to ED-247 and ED-249. Whether and why a delivery ends undelivered is [`crate::outcome`] and
//! [`crate::retry`]; what stands in the blob is a dialect's; where blobs are kept is decided elsewhere.
//!
//! ```text
//!  decided ── write_due ──▶ try ── works ──────────────────────────────────▶ written
//!                            ▲      │ fails
//!                            │      ▼
//!                            └── after_failed_write ── unavailable too long ─▶ given up
//! ```

mod blob;

use std::time::Duration;

pub use self::blob::{BlobId, BlobName, Hour, LetterSource, Span, blob_name};
use crate::time::Timestamp;

/// How dead letters of a subscription are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterSettings {
    /// `deadLetter.delay`: from the decision to the first try (ED-245).
    pub delay: Duration,
    /// `deadLetter.maxUnavailable`: from the first try that failed to giving up; zero to never give up (ED-247).
    pub max_unavailable: Duration,
    /// `deadLetter.dropIfNotFound`: whether a missing container ends it at once (ED-247).
    pub drop_if_not_found: bool,
    /// `deadLetter.requireReachable`: whether a subscription is refused whose store cannot be written to (ED-319).
    pub require_reachable: bool,
}

impl Default for DeadLetterSettings {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(300),
            max_unavailable: Duration::from_secs(14_400),
            drop_if_not_found: false,
            require_reachable: false,
        }
    }
}

/// When tries are made again, counted from the first one that failed; after the last, again and again in the distance
/// [`REPEAT`]. Source: ED-247, the schedule of the vendor's namespaces.
const SLOTS: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(300),
];
const REPEAT: Duration = Duration::from_secs(300);

/// A try to write that failed.
#[derive(Debug, Clone, Copy)]
pub struct FailedWrite {
    /// When the first try failed; that of this one if it is the first.
    pub first_failed: Timestamp,
    /// When this one failed.
    pub failed: Timestamp,
    /// Whether the store says that there is no such container.
    pub is_not_found: bool,
}

/// What follows a try that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailedWrite {
    /// Another try.
    Due(Timestamp),
    /// Nothing: the store was unavailable for too long.
    Unavailable,
    /// Nothing: there is no such container, and that is not waited for.
    NotFound,
}

/// Says when the write of a delivery that ended at `decided` is due (ED-245). The delay is the delivery's own.
#[must_use]
pub fn write_due(settings: &DeadLetterSettings, decided: Timestamp) -> Timestamp {
    decided.plus(settings.delay)
}

/// Decides what follows a try that failed (ED-247). The last one is made at the end of the time that is allowed, so that
/// a store that comes back in the last minutes is not missed.
#[must_use]
pub fn after_failed_write(settings: &DeadLetterSettings, failed: &FailedWrite) -> AfterFailedWrite {
    if failed.is_not_found && settings.drop_if_not_found {
        return AfterFailedWrite::NotFound;
    }
    let next = next_slot(failed.first_failed, failed.failed);
    if settings.max_unavailable.is_zero() {
        return AfterFailedWrite::Due(next);
    }
    let end = failed.first_failed.plus(settings.max_unavailable);
    if failed.failed >= end {
        AfterFailedWrite::Unavailable
    } else {
        AfterFailedWrite::Due(next.min(end))
    }
}

/// The first time of the schedule that began at `first` and is later than `after`. Slots that passed meanwhile are left
/// out.
fn next_slot(first: Timestamp, after: Timestamp) -> Timestamp {
    let passed = after.since(first);
    let slot = SLOTS.into_iter().find(|slot| *slot > passed);
    slot.map_or_else(
        || {
            let steps = passed.as_millis() / REPEAT.as_millis() + 1;
            let step = u64::try_from(REPEAT.as_millis() * steps).unwrap_or(u64::MAX);
            first.plus(Duration::from_millis(step))
        },
        |slot| first.plus(slot),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECIDED: Timestamp = Timestamp::from_millis(1_893_553_445_006);

    fn at(seconds: u64) -> Timestamp {
        DECIDED.plus(Duration::from_secs(seconds))
    }

    fn settings(max_unavailable: u64) -> DeadLetterSettings {
        DeadLetterSettings {
            max_unavailable: Duration::from_secs(max_unavailable),
            ..DeadLetterSettings::default()
        }
    }

    /// Tries that all fail at once: their times in seconds from the first one, and what ended them.
    fn tries(settings: &DeadLetterSettings, count: usize) -> (Vec<u64>, Option<AfterFailedWrite>) {
        let first_failed = at(300);
        let (mut failed, mut times) = (first_failed, Vec::new());
        for _ in 0..count {
            times.push(failed.since(first_failed).as_secs());
            let try_failed = FailedWrite {
                first_failed,
                failed,
                is_not_found: false,
            };
            match after_failed_write(settings, &try_failed) {
                AfterFailedWrite::Due(due) => failed = due,
                end => return (times, Some(end)),
            }
        }
        (times, None)
    }

    /// ED-245.
    #[test]
    fn a_write_is_due_after_the_delay() {
        for (delay, due) in [(0, 0), (300, 300), (3_600, 3_600)] {
            let settings = DeadLetterSettings {
                delay: Duration::from_secs(delay),
                ..DeadLetterSettings::default()
            };
            assert_eq!(write_due(&settings, DECIDED), at(due));
        }
        assert_eq!(write_due(&DeadLetterSettings::default(), DECIDED), at(300));
    }

    /// ED-247: 0, 10 s, 1 min, 5 min, then every 5 min.
    #[test]
    fn tries_follow_the_schedule() {
        let (times, end) = tries(&settings(0), 8);
        assert_eq!(
            (times, end),
            (vec![0, 10, 60, 300, 600, 900, 1_200, 1_500], None)
        );
    }

    /// ED-247: given up when the first failed try is as old as the setting says; zero never gives up.
    #[test]
    fn it_is_given_up_in_time() {
        for (max, last, count) in [
            (14_400, 14_400, 51),
            (5, 5, 2),
            (100, 100, 4),
            (300, 300, 4),
        ] {
            let (times, end) = tries(&settings(max), 10_000);
            assert_eq!(end, Some(AfterFailedWrite::Unavailable), "{max}");
            assert_eq!((times.last(), times.len()), (Some(&last), count), "{max}");
        }
        let (times, end) = tries(&settings(0), 5_000);
        assert_eq!((times.last(), end), (Some(&(4_997 * 300)), None));
    }

    /// Slots that passed while a try took its time, or the server was away, are left out.
    #[test]
    fn slots_that_passed_are_left_out() {
        for (failed, due) in [
            (9, 10),
            (10, 60),
            (59, 60),
            (61, 300),
            (299, 300),
            (300, 600),
            (7_250, 7_500),
        ] {
            let failed = FailedWrite {
                first_failed: DECIDED,
                failed: at(failed),
                is_not_found: false,
            };
            let next = after_failed_write(&DeadLetterSettings::default(), &failed);
            assert_eq!(next, AfterFailedWrite::Due(at(due)));
        }
    }

    /// ED-247: a missing container is an unavailable store, unless the setting says otherwise.
    #[test]
    fn a_missing_container_can_end_it() {
        let failed = FailedWrite {
            first_failed: DECIDED,
            failed: DECIDED,
            is_not_found: true,
        };
        let waits = DeadLetterSettings::default();
        assert_eq!(
            after_failed_write(&waits, &failed),
            AfterFailedWrite::Due(at(10))
        );
        let drops = DeadLetterSettings {
            drop_if_not_found: true,
            ..waits
        };
        assert_eq!(
            after_failed_write(&drops, &failed),
            AfterFailedWrite::NotFound
        );
        let unavailable = FailedWrite {
            is_not_found: false,
            ..failed
        };
        assert_eq!(
            after_failed_write(&drops, &unavailable),
            AfterFailedWrite::Due(at(10))
        );
    }
}
