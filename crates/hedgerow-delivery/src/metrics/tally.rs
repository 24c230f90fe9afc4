//! Counts by reason, and what failed attempts are counted by.

use std::collections::BTreeMap;
use std::sync::Mutex;

use hedgerow_core::outcome::Outcome;

use super::lock;

/// Statuses that failures of one subscription are counted by; further ones are counted together.
const ERRORS_MAX: usize = 32;

/// What an attempt failed with, as it is counted: the status if there was one, else the outcome (ED-300).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptError {
    /// An HTTP status.
    Status(u16),
    /// There was no answer.
    Outcome(&'static str),
    /// One of those for which there was no room.
    Other,
}

impl AttemptError {
    /// What an attempt failed with.
    #[must_use]
    pub fn new(outcome: Outcome, status: u16) -> Self {
        if status > 0 {
            Self::Status(status)
        } else {
            Self::Outcome(outcome.as_str())
        }
    }

    /// The value of `error`.
    #[must_use]
    pub fn error(self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::Outcome(name) => name.to_owned(),
            Self::Other => "Other".to_owned(),
        }
    }

    /// The value of `error_type` (ED-300).
    #[must_use]
    pub fn error_type(self) -> &'static str {
        match self {
            Self::Status(400..=499) => "Http4xx",
            Self::Status(500..=599) => "Http5xx",
            Self::Outcome("TimedOut") => "Timeout",
            Self::Outcome("SocketError" | "ResolutionError") => "Network",
            Self::Outcome("Probation") => "Probation",
            Self::Status(_) | Self::Outcome(_) | Self::Other => "Other",
        }
    }
}

/// Counts by reason. For what is rare; the lock is held for an addition.
#[derive(Debug)]
pub struct Tally<K>(Mutex<BTreeMap<K, u64>>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone> Tally<K> {
    /// Counts for a reason of a closed set.
    pub fn add(&self, reason: K, count: u64) {
        *lock(&self.0).entry(reason).or_default() += count;
    }

    /// Counts for a reason of an open set, or for `other` if there are too many.
    pub(super) fn add_or(&self, reason: K, other: K, count: u64) {
        let mut counts = lock(&self.0);
        let is_known = counts.contains_key(&reason) || counts.len() < ERRORS_MAX;
        let reason = if is_known { reason } else { other };
        *counts.entry(reason).or_default() += count;
    }

    /// All counts, by reason.
    #[must_use]
    pub fn counts(&self) -> Vec<(K, u64)> {
        let counts = lock(&self.0);
        counts
            .iter()
            .map(|(reason, count)| (reason.clone(), *count))
            .collect()
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> u64 {
        lock(&self.0).values().sum()
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_core::position::SubscriptionId;

    use super::*;
    use crate::metrics::{Metrics, SubscriptionNames};

    /// ED-300: the status if there was one, else the outcome; and a bounded number of them.
    #[test]
    fn errors_have_types_and_a_bound() {
        for (outcome, status, error, error_type) in [
            (Outcome::BadRequest, 400, "400", "Http4xx"),
            (Outcome::Busy, 503, "503", "Http5xx"),
            (Outcome::GenericError, 302, "302", "Other"),
            (Outcome::TimedOut, 0, "TimedOut", "Timeout"),
            (Outcome::TimedOut, 408, "408", "Http4xx"),
            (Outcome::SocketError, 0, "SocketError", "Network"),
            (Outcome::ResolutionError, 0, "ResolutionError", "Network"),
            (Outcome::Probation, 0, "Probation", "Probation"),
            (Outcome::Aborted, 0, "Aborted", "Other"),
        ] {
            let found = AttemptError::new(outcome, status);
            assert_eq!(
                (found.error().as_str(), found.error_type()),
                (error, error_type)
            );
        }
        let metrics = Metrics::default().subscription(
            SubscriptionId(1),
            &std::sync::Arc::default(),
            SubscriptionNames::default(),
        );
        for status in 400..600 {
            metrics.note_failed(Outcome::GenericError, status);
        }
        let counts = metrics.failed.counts();
        assert_eq!(counts.len(), ERRORS_MAX + 1);
        assert_eq!(metrics.failed.sum(), 200);
        assert_eq!(
            counts.last(),
            Some(&(AttemptError::Other, 200 - ERRORS_MAX as u64))
        );
    }
}
