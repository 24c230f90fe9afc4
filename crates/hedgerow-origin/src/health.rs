//! The state of one origin in one group over time: its changes (HP-067), the grace of an origin that starts (HP-115), the ramp
//! of one that has come back (HP-194), and the damping of one that changes too often (HP-195).
//!
//! ```text
//!              success, or the window is decided
//!   unknown ------------------------------------> healthy <----> unhealthy
//!      \________________________________________________________/
//!        failure, unless it waits for its threshold or has grace left
//! ```
//!
//! A state changes when a sample comes, when the group's settings change, and at the end of a grace (HP-066).

use std::time::Duration;

use serde::Serialize;

use crate::limits;
use crate::outcome::Reason;
use crate::settings::{Group, OriginSettings};
use crate::window::{Judgement, Rules, State, Window};

/// What of a group's settings its origins' health depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// How samples are judged.
    pub rules: Rules,
    /// How long the origin is unknown rather than unhealthy after it was added or enabled (HP-115).
    pub grace: Duration,
    /// How long its weight rises after it has come back; zero for not at all (HP-194).
    pub ramp: Duration,
    /// Whether it is held out when it changes too often (HP-195).
    pub is_damped: bool,
}

impl Terms {
    /// The terms of an origin of this group.
    #[must_use]
    pub fn of(group: &Group, origin: &OriginSettings) -> Self {
        let settings = group.settings();
        Self {
            rules: group.rules(),
            grace: Duration::from_secs(origin.startup_grace_s.into()),
            ramp: Duration::from_secs(settings.ramp_s.into()),
            is_damped: settings.flap_damping,
        }
    }
}

/// A change of state, for the log and for metrics (HP-067).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The state before.
    pub from: State,
    /// The state now.
    pub to: State,
    /// k.
    pub successes: u8,
    /// s.
    pub samples: u8,
    /// n.
    pub sample_size: u8,
    /// x.
    pub required: u8,
    /// Why the newest sample failed, if it did.
    pub last_reason: Option<Reason>,
}

impl Change {
    /// Whether it counts as a transition: changes out of unknown, and back, do not.
    #[must_use]
    pub fn is_transition(&self) -> bool {
        self.from != State::Unknown && self.to != State::Unknown
    }
}

/// The health of one origin in one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    judgement: Judgement,
    state: State,
    /// When this state began.
    since: Duration,
    /// When the origin was added or enabled.
    added: Duration,
    /// It had its first success, which ends its grace.
    has_succeeded: bool,
    /// When it last came back from unhealthy.
    came_back: Option<Duration>,
    penalty: Penalty,
}

impl Health {
    /// The health of an origin that was added or enabled now: unknown.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self {
            judgement: Judgement::default(),
            state: State::Unknown,
            since: now,
            added: now,
            has_succeeded: false,
            came_back: None,
            penalty: Penalty::default(),
        }
    }

    /// Judges a window after it took a sample, or after the terms changed. Returns the change of state, if there is one.
    pub fn judge(&mut self, window: &Window, terms: &Terms, now: Duration) -> Option<Change> {
        self.judgement = window.judge(&terms.rules);
        self.has_succeeded |= self.judgement.successes > 0;
        self.tick(terms, now)
    }

    /// Lets time pass: the end of a grace changes the state without a sample.
    pub fn tick(&mut self, terms: &Terms, now: Duration) -> Option<Change> {
        let from = self.state;
        let to = match self.judgement.state {
            State::Unhealthy if self.is_in_grace(terms, now) => State::Unknown,
            judged => judged,
        };
        if to == from {
            return None;
        }
        self.state = to;
        self.since = now;
        match (from, to) {
            (State::Healthy, State::Unhealthy) if terms.is_damped => self.penalty.add(now),
            (State::Unhealthy, State::Healthy) => self.came_back = Some(now),
            _ => {}
        }
        let thresholds = terms.rules.thresholds;
        Some(Change {
            from,
            to,
            successes: self.judgement.successes,
            samples: self.judgement.samples,
            sample_size: thresholds.sample_size(),
            required: thresholds.required(),
            last_reason: self.judgement.newest.and_then(Result::err),
        })
    }

    /// The state by its samples.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// When this state began.
    #[must_use]
    pub const fn since(&self) -> Duration {
        self.since
    }

    /// What the samples said last.
    #[must_use]
    pub const fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// Whether it is held out although its window is good (HP-195).
    #[must_use]
    pub fn is_held_out(&self, terms: &Terms, now: Duration) -> bool {
        terms.is_damped && self.state == State::Healthy && self.penalty.holds(now)
    }

    /// The weight of an origin whose own is `weight`, on its ramp: max(1, ⌊weight · max(0.1, age / ramp)⌋) (HP-194). The caller
    /// takes the whole weight when no other origin is healthy.
    #[must_use]
    pub fn weight(&self, weight: u32, terms: &Terms, now: Duration) -> u32 {
        let ramp = terms.ramp.as_millis();
        let age = self.age(now).as_millis();
        if age >= ramp {
            return weight;
        }
        let share = u128::from(weight).saturating_mul(age.saturating_mul(10).max(ramp));
        let weight = share.checked_div(ramp.saturating_mul(10));
        let weight = weight.and_then(|weight| u32::try_from(weight).ok());
        weight.unwrap_or(u32::MAX).max(1)
    }

    /// Whether [`Health::tick`] can change the state, [`Health::is_held_out`] or [`Health::weight`] without a sample, and
    /// when next.
    #[must_use]
    pub fn next_change(&self, terms: &Terms, now: Duration) -> Option<Duration> {
        let grace_end = self.added.saturating_add(terms.grace);
        let grace = (self.judgement.state == State::Unhealthy && self.is_in_grace(terms, now))
            .then_some(grace_end);
        let hold = self
            .is_held_out(terms, now)
            .then(|| self.penalty.release())
            .flatten();
        // A hundredth of the ramp is less than the weight's own steps, or close to them.
        let step = (terms.ramp / 100).max(Duration::from_millis(100));
        let ramp = (self.age(now) < terms.ramp).then(|| now.saturating_add(step));
        let times = [grace, hold, ramp].into_iter().flatten();
        times.min().map(|time| time.max(now))
    }

    /// Since it was added or came back.
    fn age(&self, now: Duration) -> Duration {
        let from = self
            .came_back
            .map_or(self.added, |time| time.max(self.added));
        now.saturating_sub(from)
    }

    /// Whether it is unknown rather than unhealthy still (HP-115).
    #[must_use]
    pub fn is_in_grace(&self, terms: &Terms, now: Duration) -> bool {
        !self.has_succeeded && now < self.added.saturating_add(terms.grace)
    }
}

/// What changes have cost an origin, and whether it is held out for it (HP-195).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Penalty {
    /// At `at`.
    value: f64,
    at: Duration,
    /// Since when it is held out, if it was.
    held_since: Option<Duration>,
}

impl Penalty {
    fn add(&mut self, now: Duration) {
        let is_held = self.holds(now);
        self.value = self.value(now) + limits::FLAP_PENALTY;
        self.at = now;
        if !is_held {
            self.held_since = (self.value >= limits::FLAP_HELD_FROM).then_some(now);
        }
    }

    fn value(&self, now: Duration) -> f64 {
        let half_lives =
            now.saturating_sub(self.at).as_secs_f64() / limits::FLAP_HALF_LIFE.as_secs_f64();
        self.value * (-half_lives).exp2()
    }

    fn holds(&self, now: Duration) -> bool {
        self.held_since.is_some_and(|since| {
            now < since.saturating_add(limits::FLAP_HELD_MAX)
                && self.value(now) >= limits::FLAP_HELD_TO
        })
    }

    /// When the hold ends.
    fn release(&self) -> Option<Duration> {
        let latest = self.held_since?.saturating_add(limits::FLAP_HELD_MAX);
        let half_lives = (self.value / limits::FLAP_HELD_TO).log2().max(0.0);
        let fallen = limits::FLAP_HALF_LIFE.as_secs_f64() * half_lives;
        // One millisecond on it is below, not at, where it is released.
        let fallen = Duration::try_from_secs_f64(fallen)
            .unwrap_or(Duration::MAX)
            .saturating_add(Duration::from_millis(1));
        Some(latest.min(self.at.saturating_add(fallen)))
    }
}
