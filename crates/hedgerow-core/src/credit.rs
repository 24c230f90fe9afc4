//! How many attempts may run against one endpoint (scheme, host and port) at a time: concurrency credits (design D7).
//!
//! Additive increase, multiplicative decrease. One [`Credits`] belongs to one endpoint and is shared by all
//! subscriptions behind it; who gets the next credit is not decided here. The timeout of an attempt returns its credit,
//! even if its exchange stays open for a late success (ED-180).
//!
//! | state | what happens | what ends it |
//! | --- | --- | --- |
//! | open: `in_flight < limit` | a credit is given to whoever asks | the last credit is given |
//! | full: `in_flight >= limit` | nothing is given; successes of attempts that filled the limit count towards one more | a release, or a raised limit |
//!
//! The limit rises by one after `limit` successes of attempts that were started when the limit was reached: one more
//! per round, and never because of idle time. It is halved when an attempt meets `Busy`, `TimedOut` or `SocketError`,
//! but only once per round: attempts that were started before the last halving do not halve again.

use crate::outcome::Outcome;

/// Bounds of the limit. Counts of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditSettings {
    /// The limit of a new endpoint.
    pub start: u32,
    /// The limit never falls below this; at least 1.
    pub min: u32,
    /// The limit never rises above this.
    pub max: u32,
}

impl Default for CreditSettings {
    fn default() -> Self {
        Self {
            start: 16,
            min: 1,
            max: 256,
        }
    }
}

/// What an attempt said about the endpoint's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The endpoint accepted.
    Success,
    /// The endpoint has too much to do.
    Overload,
    /// The attempt failed for a reason that says nothing about capacity, or was given up.
    Neutral,
}

impl Signal {
    /// The signal of an attempt that ended with `outcome`, `None` for a success.
    #[must_use]
    pub const fn of(outcome: Option<Outcome>) -> Self {
        match outcome {
            None => Self::Success,
            Some(Outcome::Busy | Outcome::TimedOut | Outcome::SocketError) => Self::Overload,
            Some(_) => Self::Neutral,
        }
    }
}

/// Leave for one attempt. Comes back through [`Credits::release`] exactly once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a credit that is not released is lost"]
pub struct Credit {
    /// How many halvings there had been when it was given.
    round: u64,
    /// It was the last one.
    filled: bool,
}

/// The credits of one endpoint.
#[derive(Debug, Clone)]
pub struct Credits {
    settings: CreditSettings,
    limit: u32,
    in_flight: u32,
    round: u64,
    /// Successes at the limit since it last changed.
    successes: u32,
}

impl Credits {
    /// The credits of an endpoint nothing is known about.
    #[must_use]
    pub fn new(settings: CreditSettings) -> Self {
        let min = settings.min.max(1);
        let settings = CreditSettings {
            min,
            max: settings.max.max(min),
            ..settings
        };
        let limit = settings.start.clamp(settings.min, settings.max);
        Self {
            settings,
            limit,
            in_flight: 0,
            round: 0,
            successes: 0,
        }
    }

    /// Gives leave for one attempt, `None` when the limit is reached.
    pub fn acquire(&mut self) -> Option<Credit> {
        if self.is_full() {
            return None;
        }
        self.in_flight += 1;
        Some(Credit {
            round: self.round,
            filled: self.is_full(),
        })
    }

    /// Takes a credit back and learns from what the attempt met.
    ///
    /// # Panics
    ///
    /// If more credits come back than were given.
    #[allow(clippy::needless_pass_by_value)] // Taken by value, so that a credit comes back once.
    pub fn release(&mut self, credit: Credit, signal: Signal) {
        assert!(
            self.in_flight > 0,
            "a credit came back that was never given"
        );
        let Credit { round, filled } = credit;
        let was_full = self.is_full();
        self.in_flight -= 1;
        match signal {
            Signal::Success if filled || was_full => self.count_success(),
            Signal::Overload if round == self.round => self.halve(),
            Signal::Success | Signal::Overload | Signal::Neutral => {}
        }
    }

    /// Attempts that may run at a time.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Attempts that run.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// No further attempt may start now.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.in_flight >= self.limit
    }

    fn count_success(&mut self) {
        self.successes += 1;
        if self.successes >= self.limit {
            self.successes = 0;
            self.limit = (self.limit + 1).min(self.settings.max);
        }
    }

    fn halve(&mut self) {
        self.limit = (self.limit / 2).max(self.settings.min);
        self.round += 1;
        self.successes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credits(start: u32) -> Credits {
        Credits::new(CreditSettings {
            start,
            min: 1,
            max: 8,
        })
    }

    fn fill(credits: &mut Credits) -> Vec<Credit> {
        std::iter::from_fn(|| credits.acquire()).collect()
    }

    fn return_all(credits: &mut Credits, given: Vec<Credit>, signal: Signal) {
        for credit in given {
            credits.release(credit, signal);
        }
    }

    #[test]
    fn gives_no_more_than_the_limit() {
        let mut credits = credits(4);
        assert_eq!(fill(&mut credits).len(), 4);
        assert!(credits.is_full());
    }

    #[test]
    fn rises_by_one_per_limit_of_successes_up_to_the_maximum() {
        let mut credits = credits(2);
        for _ in 0..200 {
            let given = credits.acquire();
            let rest = fill(&mut credits);
            return_all(
                &mut credits,
                given.into_iter().chain(rest).collect(),
                Signal::Success,
            );
        }
        assert_eq!(credits.limit(), 8);
    }

    #[test]
    fn does_not_rise_while_nothing_fills_it() {
        let mut credits = credits(2);
        for _ in 0..100 {
            let credit = credits.acquire().unwrap();
            credits.release(credit, Signal::Success);
        }
        assert_eq!(credits.limit(), 2);
    }

    #[test]
    fn halves_once_per_round() {
        let mut credits = credits(8);
        let given = fill(&mut credits);
        return_all(&mut credits, given, Signal::Overload);
        assert_eq!(credits.limit(), 4);
        let given = fill(&mut credits);
        return_all(&mut credits, given, Signal::Overload);
        assert_eq!(credits.limit(), 2);
    }

    #[test]
    fn never_falls_below_one() {
        let mut credits = credits(1);
        for _ in 0..5 {
            let credit = credits.acquire().unwrap();
            credits.release(credit, Signal::Overload);
        }
        assert_eq!(credits.limit(), 1);
    }

    #[test]
    fn an_error_that_is_no_overload_changes_nothing() {
        assert_eq!(Signal::of(Some(Outcome::NotFound)), Signal::Neutral);
        assert_eq!(Signal::of(Some(Outcome::Busy)), Signal::Overload);
        assert_eq!(Signal::of(None), Signal::Success);
    }
}
