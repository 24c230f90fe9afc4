//! How many attempts may run against one endpoint (scheme, host and port) at a time: concurrency credits (design D7).
//!
//! Additive increase, multiplicative decrease. One [`Credits`] belongs to one endpoint and is shared by all
//! subscriptions behind it; who gets the next credit is decided in [`turns`](crate::turns). The timeout of an attempt returns
//! its credit, even if its exchange stays open for a late success (ED-180).
//!
//! Attempts run in one of two lanes, and the slow lane gets half of the credits, so that who waits for an answer there
//! costs those who get theirs nothing:
//!
//! | state of an attempt | its credit | what ends it |
//! | --- | --- | --- |
//! | quick | one | its end, or it was open for a second: then it is slow |
//! | slow, within half of the limit | one | its end |
//! | slow, beyond that half | none: it was given back to the quick ones | its end |
//!
//! | lane | starts while | |
//! | --- | --- | --- |
//! | quick | a credit is free | attempts without a credit are at most [`CreditSettings::max`] |
//! | slow | fewer are open than the limit, and fewer slow ones than half of it | the whole limit while nobody quick is there |
//!
//! The limit rises by one after `limit` successes of attempts that found their lane full: one more per round, and never
//! because of idle time. It is halved when an attempt meets `Busy`, `TimedOut` or `SocketError`, but only once per round:
//! attempts that were started before the last halving do not halve again.

use crate::outcome::Outcome;

/// Bounds of the limit. Counts of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditSettings {
    /// The limit of a new endpoint.
    pub start: u32,
    /// The limit never falls below this; at least 1. With 1 there are no halves, and everybody waits for the attempt that
    /// runs.
    pub min: u32,
    /// The limit never rises above this.
    pub max: u32,
}

impl Default for CreditSettings {
    fn default() -> Self {
        Self {
            start: 16,
            min: 2,
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
    /// The attempt failed for a reason that says nothing about capacity.
    Neutral,
    /// There was no attempt, or it was given up.
    GivenUp,
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

/// Which attempts one counts among.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Those that are expected to end within a second.
    Quick,
    /// Those that have been open for a second, and those of subscriptions that had such ones.
    Slow,
}

/// Leave for one attempt. Comes back through [`Credits::release`] exactly once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a credit that is not released is lost"]
pub struct Credit {
    /// How many halvings there had been when it was given.
    round: u64,
    /// It was the last one of its lane.
    filled: bool,
}

/// The credits of one endpoint.
#[derive(Debug, Clone)]
pub struct Credits {
    settings: CreditSettings,
    limit: u32,
    quick: u32,
    slow: u32,
    /// Somebody waits who would start a quick one.
    is_quick_wanted: bool,
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
            quick: 0,
            slow: 0,
            is_quick_wanted: false,
            round: 0,
            successes: 0,
        }
    }

    /// Says whether somebody waits who would start in the quick lane.
    pub const fn want_quick(&mut self, is_wanted: bool) {
        self.is_quick_wanted = is_wanted;
    }

    /// Gives leave for one attempt, `None` when its lane is full.
    pub fn acquire(&mut self, lane: Lane) -> Option<Credit> {
        if self.is_full(lane) {
            return None;
        }
        match lane {
            Lane::Quick => self.quick += 1,
            Lane::Slow => self.slow += 1,
        }
        Some(Credit {
            round: self.round,
            filled: self.is_full(lane),
        })
    }

    /// An attempt of the quick lane has been open for a second.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn turn_slow(&mut self) {
        assert!(self.quick > 0, "no quick attempt is open");
        self.quick -= 1;
        self.slow += 1;
    }

    /// Takes a credit back, of an attempt that counts in `lane` now, and learns from what the attempt met.
    ///
    /// # Panics
    ///
    /// If more credits come back than were given.
    #[allow(clippy::needless_pass_by_value)] // Taken by value, so that a credit comes back once.
    pub fn release(&mut self, credit: Credit, lane: Lane, signal: Signal) {
        let Credit { round, filled } = credit;
        let was_full = self.is_full(lane);
        let open = match lane {
            Lane::Quick => &mut self.quick,
            Lane::Slow => &mut self.slow,
        };
        assert!(*open > 0, "a credit came back that was never given");
        *open -= 1;
        match signal {
            Signal::Success if filled || was_full => self.count_success(),
            Signal::Overload if round == self.round => self.halve(),
            Signal::Success | Signal::Overload | Signal::Neutral | Signal::GivenUp => {}
        }
    }

    /// Credits in all.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Attempts that run, with a credit or without.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.quick + self.slow
    }

    /// Those of them in the slow lane.
    #[must_use]
    pub const fn slow(&self) -> u32 {
        self.slow
    }

    /// Credits that are out. Above the limit only after it fell.
    #[must_use]
    pub fn given(&self) -> u32 {
        self.quick + self.slow.min(self.half())
    }

    /// No further attempt may start in this lane now.
    #[must_use]
    pub fn is_full(&self, lane: Lane) -> bool {
        match lane {
            Lane::Quick => {
                let without = self.slow.saturating_sub(self.half());
                self.given() >= self.limit || without >= self.settings.max
            }
            Lane::Slow => {
                let is_anybody_quick = self.is_quick_wanted || self.quick > 0;
                let is_half_full = is_anybody_quick && self.slow >= self.half();
                self.in_flight() >= self.limit || is_half_full
            }
        }
    }

    /// What the slow lane gets beside others: the half, rounded down, but never nothing.
    #[must_use]
    pub fn half(&self) -> u32 {
        (self.limit / 2).max(1)
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
        std::iter::from_fn(|| credits.acquire(Lane::Quick)).collect()
    }

    fn return_all(credits: &mut Credits, given: Vec<Credit>, signal: Signal) {
        for credit in given {
            credits.release(credit, Lane::Quick, signal);
        }
    }

    #[test]
    fn gives_no_more_than_the_limit() {
        let mut credits = credits(4);
        assert_eq!(fill(&mut credits).len(), 4);
        assert!(credits.is_full(Lane::Quick));
        assert!(credits.is_full(Lane::Slow));
    }

    #[test]
    fn slow_ones_beyond_the_half_hold_no_credit() {
        let mut credits = credits(4);
        let given = fill(&mut credits);
        for _ in &given {
            credits.turn_slow();
        }
        assert_eq!((credits.in_flight(), credits.given()), (4, 2));
        assert_eq!(fill(&mut credits).len(), 2, "the other half");
        assert_eq!((credits.in_flight(), credits.given()), (6, 4));
        assert!(credits.is_full(Lane::Slow));
    }

    #[test]
    fn who_is_slow_and_alone_has_every_credit() {
        let mut credits = credits(4);
        let slow = |credits: &mut Credits| {
            std::iter::from_fn(|| credits.acquire(Lane::Slow)).collect::<Vec<_>>()
        };
        credits.want_quick(true);
        assert_eq!(slow(&mut credits).len(), 2);
        credits.want_quick(false);
        assert_eq!(slow(&mut credits).len(), 2);
        assert_eq!(
            fill(&mut credits).len(),
            2,
            "still half of it for quick ones"
        );
    }

    #[test]
    fn attempts_without_a_credit_are_bounded() {
        let mut credits = credits(4);
        for _ in 0..100 {
            for _ in fill(&mut credits) {
                credits.turn_slow();
            }
        }
        assert!(credits.is_full(Lane::Quick));
        assert_eq!(credits.in_flight(), 10, "8, and those with a credit");
    }

    #[test]
    fn one_credit_has_no_halves() {
        let mut credits = credits(1);
        assert_eq!(fill(&mut credits).len(), 1);
        credits.turn_slow();
        assert!(credits.is_full(Lane::Quick) && credits.is_full(Lane::Slow));
    }

    #[test]
    fn rises_by_one_per_limit_of_successes_up_to_the_maximum() {
        for lane in [Lane::Quick, Lane::Slow] {
            let mut credits = credits(2);
            for _ in 0..200 {
                let given: Vec<_> = std::iter::from_fn(|| credits.acquire(lane)).collect();
                for credit in given {
                    credits.release(credit, lane, Signal::Success);
                }
            }
            assert_eq!(credits.limit(), 8);
        }
    }

    #[test]
    fn does_not_rise_while_nothing_fills_it() {
        let mut credits = credits(2);
        for _ in 0..100 {
            let credit = credits.acquire(Lane::Quick).unwrap();
            credits.release(credit, Lane::Quick, Signal::Success);
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
    fn never_falls_below_the_minimum() {
        let mut credits = credits(1);
        for _ in 0..5 {
            let credit = credits.acquire(Lane::Quick).unwrap();
            credits.release(credit, Lane::Quick, Signal::Overload);
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
