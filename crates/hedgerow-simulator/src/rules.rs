//! The specification's times, written down a second time and as plainly as can be: what the engine decides is held
//! against them. Bounds and not exact times, because a receiver sees its side of an exchange only.

use std::time::Duration;

use hedgerow_core::outcome::{Outcome, Overrides};
use hedgerow_core::time::Timestamp;

/// ED-192.
const SLOTS: [u64; 10] = [10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200];
const REPEAT: u64 = 43_200;
/// More than there are in any time to live and any hold.
const SLOTS_MAX: usize = 1_000;
/// ED-195.
const LATENCY_ALLOWANCE: Duration = Duration::from_secs(1);
/// ED-185.
const RETRY_AFTER_MAX: u64 = 6 * 3_600;

/// A failed attempt, as far as the world knows it.
#[derive(Debug, Clone, Copy)]
pub struct Failure {
    /// T0.
    pub first: Timestamp,
    /// S.
    pub started: Timestamp,
    /// F is not before this, and not after it.
    pub ended: (Timestamp, Timestamp),
    pub status: u16,
    /// What the answer asked for, in seconds.
    pub retry_after: Option<u64>,
    /// The end of a hold that is in force.
    pub hold: Option<Timestamp>,
    pub has_jitter: bool,
}

/// The earliest and the latest time for which the next attempt may be due (ED-195, ED-198).
pub fn next_due(failure: &Failure) -> (Timestamp, Timestamp) {
    let (early, late) = failure.ended;
    let asked = match failure.status {
        429 | 503 => failure.retry_after.unwrap_or(0).min(RETRY_AFTER_MAX),
        _ => 0,
    };
    let earliest = |ended: Timestamp, base: Timestamp| {
        let floored = base.plus(floor(failure.status));
        let asked = ended.plus(Duration::from_secs(asked));
        floored
            .max(asked)
            .max(failure.hold.unwrap_or(Timestamp::ZERO))
    };
    let is_slow = early.since(failure.started) > LATENCY_ALLOWANCE;
    let from = earliest(early, if is_slow { early } else { failure.started });
    let to = earliest(late, late);
    let slot_at = |index: usize| failure.first.plus(slot(index));
    let jitter = |index: usize| {
        if failure.has_jitter {
            (slot(index) / 10).min(Duration::from_secs(30))
        } else {
            Duration::ZERO
        }
    };
    let first = (0..SLOTS_MAX)
        .find(|index| slot_at(*index).plus(jitter(*index)) >= from)
        .unwrap_or_default();
    let last = (0..SLOTS_MAX)
        .find(|index| slot_at(*index) >= to && slot_at(*index) > late)
        .unwrap_or_default();
    (slot_at(first), slot_at(last).plus(jitter(last)))
}

fn slot(index: usize) -> Duration {
    let beyond = (index + 1).saturating_sub(SLOTS.len()) as u64;
    let written = SLOTS[index.min(SLOTS.len() - 1)];
    Duration::from_secs(written + beyond * REPEAT)
}

/// Section 4.3.
fn floor(status: u16) -> Duration {
    Duration::from_secs(match status {
        401 | 404 => 300,
        408 => 120,
        503 => 30,
        _ => 10,
    })
}

/// ED-224: how long probation lasts, for the outcomes that a webhook can have.
pub fn probation(outcome: Outcome) -> Option<Duration> {
    let seconds = match outcome {
        Outcome::Busy | Outcome::TimedOut => 10,
        Outcome::SocketError => 30,
        Outcome::NotFound
        | Outcome::ResolutionError
        | Outcome::Unauthorized
        | Outcome::Forbidden => 300,
        _ => return None,
    };
    Some(Duration::from_secs(seconds))
}

/// Whether a status ends a delivery for good (section 8.4), unless it is declared otherwise.
pub const fn is_final(status: u16) -> bool {
    matches!(status, 400 | 401 | 403 | 413)
}

/// Whether it ends one of a subscription that declares otherwise for some.
pub fn is_final_for(overrides: &Overrides, status: u16) -> bool {
    let is_declared = overrides.final_statuses.contains(&status);
    let is_retried = overrides.retriable_statuses.contains(&status);
    !is_retried && (is_final(status) || is_declared)
}

/// ED-174.
pub const fn is_success(status: u16) -> bool {
    matches!(status, 200..=204)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-191, ED-192, ED-194, W1: the slots of a day.
    #[test]
    fn slots_are_the_specifications() {
        let at = |seconds: u64| Timestamp::from_millis(1_000_000 + seconds * 1000);
        let mut ended = 0;
        let mut all = Vec::new();
        while ended < 86_400 {
            let failure = Failure {
                first: at(0),
                started: at(ended),
                ended: (at(ended), at(ended)),
                status: 500,
                retry_after: None,
                hold: None,
                has_jitter: false,
            };
            let (from, to) = next_due(&failure);
            assert_eq!(from, to);
            ended = from.since(at(0)).as_secs();
            all.push(ended);
        }
        assert_eq!(
            all,
            [
                10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400
            ]
        );
    }
}
