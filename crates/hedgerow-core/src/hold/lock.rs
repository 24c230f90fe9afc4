//! What both machines have in common: a period in which nothing starts, then one trial at a time until a success.

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::time::Timestamp;

/// A time in which nothing starts, half-open: [since, until). After it only trials start, until one succeeds.
///
/// Stored (postcard): members are neither moved nor removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// What the attempt met that began it.
    pub cause: Outcome,
    /// The how manieth in a row it is, from 1: n of ED-237. 0 if it holds nothing: see [`Period::over`].
    pub level: u16,
    /// When it began: G of the attempt that began it.
    pub since: Timestamp,
    /// When it ends.
    pub until: Timestamp,
}

impl Period {
    /// All that is remembered of a hold that is over: when it ended. What became due before was held until then (ED-228).
    #[must_use]
    pub const fn over(at: Timestamp) -> Self {
        Self {
            cause: Outcome::Probation,
            level: 0,
            since: at,
            until: at,
        }
    }

    /// Whether it holds nothing, and only says when a hold ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.level == 0
    }
}

/// Whether an attempt may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Open,
    /// One may, and nothing else while it runs.
    Trial,
    /// None may: a trial runs.
    OnTrial,
    /// None may before this time.
    Held(Timestamp),
}

impl Gate {
    /// What two gates in a row let through; of two holds the later end counts (ED-239).
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Held(a), Self::Held(b)) => Self::Held(a.max(b)),
            (Self::Held(until), _) | (_, Self::Held(until)) => Self::Held(until),
            (Self::OnTrial, _) | (_, Self::OnTrial) => Self::OnTrial,
            (Self::Trial, _) | (_, Self::Trial) => Self::Trial,
            (Self::Open, Self::Open) => Self::Open,
        }
    }
}

/// What an attempt carries from its start to its end: whether it is the trial, and whether it began in this period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a trial whose ticket does not come back keeps everything else from starting"]
pub struct Ticket {
    generation: u32,
    is_trial: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Lock {
    period: Option<Period>,
    /// Counts periods: an attempt of another generation than the present one began before the present period.
    generation: u32,
    is_on_trial: bool,
}

impl Lock {
    pub(super) fn restored(period: Option<Period>) -> Self {
        Self {
            period,
            ..Self::default()
        }
    }

    pub(super) const fn period(&self) -> Option<Period> {
        self.period
    }

    pub(super) fn gate(&self, now: Timestamp) -> Gate {
        match self.period {
            None => Gate::Open,
            Some(period) if now < period.until => Gate::Held(period.until),
            Some(_) if self.is_on_trial => Gate::OnTrial,
            Some(_) => Gate::Trial,
        }
    }

    /// An attempt starts, which the gate allowed.
    pub(super) fn start(&mut self) -> Ticket {
        let is_trial = self.period.is_some();
        self.is_on_trial = is_trial;
        Ticket {
            generation: self.generation,
            is_trial,
        }
    }

    /// An attempt ended without a success. Says whether that counts: not if it began before the period that there is.
    pub(super) fn land(&mut self, ticket: Ticket) -> bool {
        let is_of_this_period = ticket.generation == self.generation;
        if ticket.is_trial && is_of_this_period {
            self.is_on_trial = false;
        }
        self.period.is_none() || is_of_this_period
    }

    pub(super) fn begin(&mut self, period: Period) {
        self.period = Some(period);
        self.generation = self.generation.wrapping_add(1);
        self.is_on_trial = false;
    }

    /// Ends the period, and says whether there was one.
    pub(super) fn end(&mut self) -> bool {
        self.is_on_trial = false;
        self.period.take().is_some()
    }
}
