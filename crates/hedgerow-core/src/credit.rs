//! How many attempts may run against one endpoint (scheme, host and port) at a time: concurrency credits (design D7).
//!
//! Additive increase, multiplicative decrease. One [`Credits`] belongs to one endpoint and is shared by all
//! subscriptions behind it; who gets the next credit is decided in [`turns`](crate::turns). The timeout of an attempt returns
//! its credit, even if its exchange stays open for a late success (ED-180).
//!
//! Attempts run in one of two lanes, each with a limit of its own, so that who waits for an answer costs those who get
//! theirs nothing:
//!
//! | an attempt is | it counts in | until |
//! | --- | --- | --- |
//! | quick | the quick lane | its end, or it was open for a second: then it is slow, and counts no longer there |
//! | slow | the slow lane | its end |
//!
//! | lane | its limit learns from | starts while |
//! | --- | --- | --- |
//! | quick | the ends of quick attempts | fewer are open than its limit |
//! | slow | the ends of slow attempts | fewer are open than its limit, and than half of the quick lane's while somebody quick is there |
//!
//! A limit rises by one after as many successes of attempts that found the lane full: one more per round, and never
//! because of idle time. It is halved when an attempt meets `Busy`, `TimedOut` or `SocketError`, but only once per round:
//! attempts that were started before the last halving do not halve again. So the timeouts of those that hang take nothing
//! from those that answer, and a host that hangs as a whole has everybody in the slow lane.

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
    /// How many halvings each lane had had when it was given.
    rounds: Lanes<u64>,
    /// The lane in which it was the last one.
    filled: Option<Lane>,
}

/// One for each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lanes<T> {
    quick: T,
    slow: T,
}

impl<T> Lanes<T> {
    const fn of(&self, lane: Lane) -> &T {
        match lane {
            Lane::Quick => &self.quick,
            Lane::Slow => &self.slow,
        }
    }

    const fn of_mut(&mut self, lane: Lane) -> &mut T {
        match lane {
            Lane::Quick => &mut self.quick,
            Lane::Slow => &mut self.slow,
        }
    }
}

/// What a lane has learnt.
#[derive(Debug, Clone, Copy)]
struct Window {
    limit: u32,
    /// Attempts that run.
    open: u32,
    /// Halvings so far.
    round: u64,
    /// Successes at the limit since it last changed.
    successes: u32,
}

/// The credits of one endpoint.
#[derive(Debug, Clone)]
pub struct Credits {
    settings: CreditSettings,
    lanes: Lanes<Window>,
    /// Somebody waits who would start a quick one.
    is_quick_wanted: bool,
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
        let window = Window {
            limit: settings.start.clamp(settings.min, settings.max),
            open: 0,
            round: 0,
            successes: 0,
        };
        Self {
            settings,
            lanes: Lanes {
                quick: window,
                slow: window,
            },
            is_quick_wanted: false,
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
        self.lanes.of_mut(lane).open += 1;
        Some(Credit {
            rounds: Lanes {
                quick: self.lanes.quick.round,
                slow: self.lanes.slow.round,
            },
            filled: self.is_full(lane).then_some(lane),
        })
    }

    /// An attempt of the quick lane has been open for a second.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn turn_slow(&mut self) {
        assert!(self.lanes.quick.open > 0, "no quick attempt is open");
        self.lanes.quick.open -= 1;
        self.lanes.slow.open += 1;
    }

    /// Takes a credit back, of an attempt that counts in `lane` now, and learns from what the attempt met.
    ///
    /// # Panics
    ///
    /// If more credits come back than were given.
    #[allow(clippy::needless_pass_by_value)] // Taken by value, so that a credit comes back once.
    pub fn release(&mut self, credit: Credit, lane: Lane, signal: Signal) {
        let Credit { rounds, filled } = credit;
        let is_success_at_limit = filled == Some(lane) || self.is_full(lane);
        let settings = self.settings;
        let window = self.lanes.of_mut(lane);
        assert!(window.open > 0, "a credit came back that was never given");
        window.open -= 1;
        match signal {
            Signal::Success if is_success_at_limit => window.count_success(settings),
            Signal::Overload if *rounds.of(lane) == window.round => window.halve(settings),
            Signal::Success | Signal::Overload | Signal::Neutral | Signal::GivenUp => {}
        }
    }

    /// How many quick attempts may run.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.lanes.quick.limit
    }

    /// Attempts that run.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.quick() + self.slow()
    }

    /// Those of them in the quick lane.
    #[must_use]
    pub const fn quick(&self) -> u32 {
        self.lanes.quick.open
    }

    /// Those of them in the slow lane: more than may start there, since quick ones become slow.
    #[must_use]
    pub const fn slow(&self) -> u32 {
        self.lanes.slow.open
    }

    /// No further attempt may start in this lane now.
    #[must_use]
    pub fn is_full(&self, lane: Lane) -> bool {
        match lane {
            Lane::Quick => self.quick() >= self.limit(),
            Lane::Slow => self.slow() >= self.slow_limit(),
        }
    }

    /// How many attempts of the slow lane may run now.
    #[must_use]
    pub fn slow_limit(&self) -> u32 {
        let limit = self.lanes.slow.limit;
        if self.is_quick_wanted || self.quick() > 0 {
            limit.min(self.half())
        } else {
            limit
        }
    }

    /// Half of the quick lane's limit, rounded down, but never nothing.
    #[must_use]
    pub fn half(&self) -> u32 {
        (self.limit() / 2).max(1)
    }

    /// How many quick attempts those nothing is known of may have beside others: three quarters of the limit, so that one is
    /// left, but never none.
    #[must_use]
    pub fn share_of_new(&self) -> u32 {
        let kept = (self.limit() / 4).max(1);
        (self.limit() - kept).max(1)
    }

    /// Where so many slow attempts are open, those nothing is known of start no further ones.
    #[must_use]
    pub const fn slow_max(&self) -> u32 {
        self.settings.max.saturating_mul(4)
    }
}

impl Window {
    fn count_success(&mut self, settings: CreditSettings) {
        self.successes += 1;
        if self.successes >= self.limit {
            self.successes = 0;
            self.limit = (self.limit + 1).min(settings.max);
        }
    }

    fn halve(&mut self, settings: CreditSettings) {
        self.limit = (self.limit / 2).max(settings.min);
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
    }

    #[test]
    fn slow_ones_leave_the_quick_lane() {
        let mut credits = credits(4);
        let given = fill(&mut credits);
        for _ in &given {
            credits.turn_slow();
        }
        assert_eq!((credits.quick(), credits.slow()), (0, 4));
        assert_eq!(fill(&mut credits).len(), 4);
        assert!(credits.is_full(Lane::Slow));
    }

    #[test]
    fn who_is_slow_and_alone_may_have_all_of_its_lane() {
        let mut credits = credits(4);
        let slow = |credits: &mut Credits| {
            std::iter::from_fn(|| credits.acquire(Lane::Slow)).collect::<Vec<_>>()
        };
        credits.want_quick(true);
        assert_eq!(slow(&mut credits).len(), 2);
        credits.want_quick(false);
        assert_eq!(slow(&mut credits).len(), 2);
    }

    #[test]
    fn what_slow_ones_meet_says_nothing_about_quick_ones() {
        let mut credits = credits(4);
        let given = fill(&mut credits);
        for _ in &given {
            credits.turn_slow();
        }
        for credit in given {
            credits.release(credit, Lane::Slow, Signal::Overload);
        }
        assert_eq!((credits.limit(), credits.slow_limit()), (4, 2));
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
            assert_eq!(credits.lanes.of(lane).limit, 8);
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
