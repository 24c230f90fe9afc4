//! When the event of an undelivered delivery is written to the dead-letter store, when that is tried again, and where to
//! (ED-242 to ED-252).

use std::time::Duration;

use crate::time::Timestamp;

/// The schedule of writes. Plain values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterSettings {
    /// `dead_letter.delay`: from the decision to the first try (ED-245).
    pub delay: Duration,
    /// `dead_letter.max_unavailable`: how old the first failed try may become before the event is dropped; zero holds it for
    /// ever (ED-247).
    pub max_unavailable: Duration,
    /// `dead_letter.drop_if_not_found`: a container that is missing drops the event at once (ED-247).
    pub drop_if_not_found: bool,
    /// `dead_letter.require_reachable`: a destination that cannot be written to is refused when it is declared (ED-319).
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

/// When tries follow the first failed one, in seconds; then each [`LATER_TRIES_SECONDS`] (ED-247).
const TRIES_SECONDS: [u64; 4] = [0, 10, 60, 300];
const LATER_TRIES_SECONDS: u64 = 300;

/// Events of one blob at most, and their size together (ED-246).
pub const BLOB_EVENTS_MAX: usize = 1000;
/// See [`BLOB_EVENTS_MAX`].
pub const BLOB_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What follows a write that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailedWrite {
    /// It is tried again at this time.
    Again(Timestamp),
    /// The store was away for too long: the event is dropped.
    Drop,
}

impl DeadLetterSettings {
    /// When the first write is due.
    #[must_use]
    pub fn first_write(&self, decided: Timestamp) -> Timestamp {
        decided.plus(self.delay)
    }

    /// What follows a write that failed at `now`, when `failed` writes have failed with it and the first of them at
    /// `first_failed`.
    #[must_use]
    pub fn after_failed_write(
        &self,
        failed: u32,
        first_failed: Timestamp,
        now: Timestamp,
    ) -> AfterFailedWrite {
        let is_over = now.since(first_failed) >= self.max_unavailable;
        if is_over && !self.max_unavailable.is_zero() {
            return AfterFailedWrite::Drop;
        }
        let failed = failed as usize;
        let later = failed.saturating_sub(TRIES_SECONDS.len() - 1) as u64;
        let offset = TRIES_SECONDS
            .get(failed)
            .copied()
            .unwrap_or(TRIES_SECONDS[3] + later * LATER_TRIES_SECONDS);
        // A try that came late is not followed by all that it missed.
        let due = first_failed.plus(Duration::from_secs(offset));
        let next = now.plus(Duration::from_secs(TRIES_SECONDS[1]));
        AfterFailedWrite::Again(if due > now { due } else { next })
    }
}

/// The path of a blob in its container: `<SUBSCRIPTION>/<year>/<month>/<day>/<hour>/<uuid>.json`, in UTC, without leading
/// zeros (ED-249).
#[must_use]
pub fn blob_path(subscription: &str, written: Timestamp, uuid: &str) -> String {
    let seconds = i64::try_from(written.as_millis() / 1000).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    let hour = time.strftime("%Y/%-m/%-d/%-H");
    format!("{}/{hour}/{uuid}.json", subscription.to_ascii_uppercase())
}
