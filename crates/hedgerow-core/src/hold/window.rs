//! Delayed delivery: an endpoint at which many deliveries fail is left alone, longer each time (ED-234 to ED-241).

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::lock::Lock;
use super::{DelayedDeliverySettings, Gate, Period, Ticket};
use crate::outcome::Outcome;
use crate::position::SubscriptionId;
use crate::retry::DeliveryKey;
use crate::time::Timestamp;

/// Delayed delivery at one endpoint, shared by the subscriptions that deliver to it.
#[derive(Debug, Clone, Default)]
pub struct Window {
    lock: Lock,
    /// Deliveries that failed since the last success; no longer kept once a window began.
    failed: BTreeSet<(SubscriptionId, u64)>,
    release: Option<Release>,
}

impl Window {
    /// Goes on with a window that was stored, after a restart.
    #[must_use]
    pub fn restored(period: Option<Period>) -> Self {
        Self {
            lock: Lock::restored(period),
            ..Self::default()
        }
    }

    /// The window that is in force, or after which there was no success yet.
    #[must_use]
    pub const fn period(&self) -> Option<Period> {
        self.lock.period()
    }

    /// Whether an attempt may start.
    #[must_use]
    pub fn gate(&self, now: Timestamp) -> Gate {
        self.lock.gate(now)
    }

    /// An attempt starts. Only when [`Window::gate`] lets one through.
    pub fn start(&mut self) -> Ticket {
        self.lock.start()
    }

    /// An attempt of these deliveries ended with a failure that is not final. `base` is G of ED-195. Says whether a window
    /// began.
    pub fn failed(
        &mut self,
        settings: &DelayedDeliverySettings,
        ticket: Ticket,
        keys: &[DeliveryKey],
        outcome: Outcome,
        base: Timestamp,
    ) -> bool {
        if !self.lock.land(ticket) {
            return false;
        }
        let level = if let Some(window) = self.lock.period() {
            window.level.saturating_add(1)
        } else {
            // Several failures of one event count once (ED-236).
            let keys = keys.iter().map(|key| (key.subscription, key.seq));
            self.failed.extend(keys);
            if self.failed.len() < settings.events as usize {
                return false;
            }
            1
        };
        self.failed.clear();
        self.release = None;
        self.lock.begin(Period {
            cause: outcome,
            level,
            since: base,
            until: base.plus(length(settings, level)),
        });
        true
    }

    /// An attempt ended with a final failure, which says nothing about the endpoint, or without an outcome. If it was the
    /// trial, the next due delivery is the next one.
    pub fn gave_up(&mut self, ticket: Ticket) {
        self.lock.land(ticket);
    }

    /// An attempt succeeded, in time or late. What was held starts at this rate (ED-238). Says whether that ended a window.
    pub fn succeeded(&mut self, now: Timestamp, per_second: u32) -> bool {
        let was_delayed = self.end();
        if was_delayed {
            self.release = Some(Release::new(now, per_second));
        }
        was_delayed
    }

    /// When the newest window ended, if what it held starts at a rate.
    #[must_use]
    pub fn released(&self) -> Option<Timestamp> {
        self.release.as_ref().map(|release| release.began)
    }

    /// Goes on to let what a window held start at this rate, after a restart. `ended` is when the window did.
    pub fn go_on_releasing(&mut self, ended: Timestamp, per_second: u32) {
        if self.period().is_none() && self.released() < Some(ended) {
            self.release = Some(Release::new(ended, per_second));
        }
    }

    /// An operator asked for it. Says whether that ended a window.
    pub fn end(&mut self) -> bool {
        self.failed.clear();
        self.lock.end()
    }

    /// When a delivery may start that became due then: now, unless it was held by a window and others of them came first.
    #[must_use]
    pub fn may_start_at(&self, due: Timestamp, now: Timestamp) -> Timestamp {
        let release = self.release.as_ref();
        release.map_or(now, |release| release.may_start_at(due, now))
    }

    /// A delivery starts that became due then.
    pub fn note_start(&mut self, due: Timestamp, now: Timestamp) {
        if let Some(release) = &mut self.release {
            release.note_start(due, now);
        }
    }
}

/// How long window `level` lasts (ED-237).
fn length(settings: &DelayedDeliverySettings, level: u16) -> Duration {
    let doublings = u32::from(level.saturating_sub(1)).min(31);
    let length = settings.first_window.saturating_mul(1 << doublings);
    length.min(settings.max_window)
}

/// Lets what a window held start at a rate, never more than that in any second. What became due later is not slowed.
#[derive(Debug, Clone)]
pub struct Release {
    began: Timestamp,
    per_second: usize,
    /// The newest starts, at most as many as may start in a second.
    starts: VecDeque<Timestamp>,
}

impl Release {
    fn new(began: Timestamp, per_second: u32) -> Self {
        Self {
            began,
            per_second: per_second.max(1) as usize,
            starts: VecDeque::new(),
        }
    }

    fn may_start_at(&self, due: Timestamp, now: Timestamp) -> Timestamp {
        let is_limited = due <= self.began && self.starts.len() >= self.per_second;
        let first = self.starts.front().filter(|_| is_limited);
        first.map_or(now, |first| now.max(first.plus(Duration::from_secs(1))))
    }

    fn note_start(&mut self, due: Timestamp, now: Timestamp) {
        if due <= self.began {
            if self.starts.len() >= self.per_second {
                self.starts.pop_front();
            }
            self.starts.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_starts_at_a_rate() {
        let at = Timestamp::from_millis;
        let mut window = Window::default();
        let settings = DelayedDeliverySettings {
            events: 1,
            ..DelayedDeliverySettings::default()
        };
        let key = DeliveryKey {
            subscription: SubscriptionId(1),
            seq: 1,
        };
        let ticket = window.start();
        assert!(window.failed(&settings, ticket, &[key], Outcome::GenericError, at(1_000)));
        assert_eq!(window.gate(at(60_999)), Gate::Held(at(61_000)));
        assert_eq!(window.gate(at(61_000)), Gate::Trial);
        assert!(window.succeeded(at(61_000), 100));
        let held = at(61_000);
        let mut starts = Vec::new();
        for _ in 0..250 {
            let start = window.may_start_at(held, starts.last().copied().unwrap_or(at(61_000)));
            window.note_start(held, start);
            starts.push(start);
        }
        let seconds = [61_000, 62_000, 63_000].map(at);
        assert_eq!(
            starts.iter().filter(|start| **start == seconds[0]).count(),
            100
        );
        assert_eq!(
            starts.iter().filter(|start| **start == seconds[1]).count(),
            100
        );
        assert_eq!(
            starts.iter().filter(|start| **start == seconds[2]).count(),
            50
        );
        assert_eq!(
            window.may_start_at(at(61_001), at(61_002)),
            at(61_002),
            "never held"
        );
    }

    #[test]
    fn windows_double_up_to_the_longest() {
        let settings = DelayedDeliverySettings::default();
        let minutes = |level| length(&settings, level).as_secs() / 60;
        assert_eq!(
            [1, 2, 3, 8, 9, u16::MAX].map(minutes),
            [1, 2, 4, 128, 240, 240]
        );
    }
}
