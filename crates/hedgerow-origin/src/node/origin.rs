//! An origin in a group of this node: its window, its health, and what real requests say of it.

use std::collections::VecDeque;
use std::time::Duration;

use super::{GroupEntry, StreamId};
use crate::health::{Change, Health, Terms};
use crate::outcome::{Met, Observation, Reason};
use crate::passive::{Passive, Wanted, is_signal, may_eject};
use crate::schedule::Progress;
use crate::settings::{Group, OriginSettings};
use crate::snapshot::OriginView;
use crate::window::Window;

/// The longest span over which the percentage of good samples is told (HP-106).
pub(super) const PERCENTAGE_SPAN: Duration = Duration::from_secs(300);
/// Samples that are kept for it: one a second, which is the most that an origin gets of one stream.
const RECENT_MAX: usize = 300;

#[derive(Debug)]
pub(super) struct Origin {
    /// No other origin of this node has it.
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) terms: Terms,
    pub(super) window: Window,
    pub(super) health: Health,
    /// `None` while it is not probed for this group.
    pub(super) stream: Option<StreamId>,
    pub(super) is_draining: bool,
    /// What was told of that.
    pub(super) is_draining_told: bool,
    passive: Passive,
    /// Failures of real requests were added to its window, and no probe has been good since (HP-193).
    is_ejected: bool,
    /// When samples came, and whether they were good (HP-106).
    recent: VecDeque<(Duration, bool)>,
}

/// What a failure of a real request led to.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) place: usize,
    /// The stream of which a probe is wanted.
    pub(super) stream: Option<StreamId>,
    /// Its window has the failures now (HP-193).
    pub(super) is_ejected: bool,
    pub(super) change: Option<Change>,
}

impl Origin {
    /// An origin that was added or enabled now.
    pub(super) fn new(id: u32, name: &str, terms: Terms, now: Duration) -> Self {
        Self {
            id,
            name: name.to_owned(),
            window: Window::new(terms.rules.thresholds),
            health: Health::new(now),
            terms,
            stream: None,
            is_draining: false,
            is_draining_told: false,
            passive: Passive::default(),
            is_ejected: false,
            recent: VecDeque::new(),
        }
    }

    /// The group's settings changed: the samples are judged anew (HP-007, HP-066).
    pub(super) fn change(&mut self, terms: Terms, now: Duration) -> Option<Change> {
        self.terms = terms;
        self.window.resize(terms.rules.thresholds);
        self.health.judge(&self.window, &terms, now)
    }

    /// It begins with these samples (HP-075, HP-197).
    pub(super) fn begin(&mut self, window: Window, now: Duration) -> Option<Change> {
        self.window = window;
        self.health.judge(&self.window, &self.terms, now)
    }

    /// It is no longer probed for this group: its window is dropped (HP-031).
    pub(super) fn stop(&mut self, now: Duration) {
        *self = Self::new(self.id, &self.name, self.terms, now);
    }

    pub(super) fn sampled(
        &mut self,
        observation: Observation,
        group: &Group,
        now: Duration,
    ) -> Option<Change> {
        if let Met::Response(response) = observation.met {
            self.is_draining = response.drains && group.settings().drain_header;
        }
        let is_good = observation.judge(&self.terms.rules.demands).is_ok();
        self.is_ejected &= !is_good;
        self.recent.push_back((observation.at, is_good));
        let first = observation.at.saturating_sub(PERCENTAGE_SPAN);
        while self.recent.len() > RECENT_MAX
            || self.recent.front().is_some_and(|(at, _)| *at < first)
        {
            self.recent.pop_front();
        }
        self.window.push(observation);
        self.health.judge(&self.window, &self.terms, now)
    }

    pub(super) fn tick(&mut self, now: Duration) -> Option<Change> {
        self.health.tick(&self.terms, now)
    }

    pub(super) fn next_change(&self, now: Duration) -> Option<Duration> {
        self.health.next_change(&self.terms, now)
    }

    /// What its newest sample means for the burst of its stream.
    pub(super) fn progress(&self, now: Duration) -> Progress {
        let judgement = self.health.judgement();
        let waits =
            self.terms.rules.waits_for_threshold || self.health.is_in_grace(&self.terms, now);
        let has_failed = judgement.newest.is_some_and(|newest| newest.is_err());
        match judgement.is_decided {
            true => Progress::Decided,
            false if waits && has_failed => Progress::Waiting,
            false => Progress::Undecided,
        }
    }

    /// The share of good samples in the newest part of time, in per cent; `None` without samples (HP-106).
    pub(super) fn percentage(&self, span: Duration, now: Duration) -> Option<f64> {
        let first = now.saturating_sub(span);
        let newest = self.recent.iter().rev();
        let within: Vec<bool> = newest
            .take_while(|(at, _)| *at > first)
            .map(|(_, is_good)| *is_good)
            .collect();
        let good = within.iter().filter(|is_good| **is_good).count();
        (!within.is_empty()).then(|| 100.0 * good as f64 / within.len() as f64)
    }

    pub(super) fn view(&self, settings: &OriginSettings, now: Duration) -> OriginView {
        OriginView {
            id: self.id,
            is_enabled: settings.enabled,
            is_draining: self.is_draining,
            state: self.health.state(),
            is_held_out: self.health.is_held_out(&self.terms, now),
            priority: settings.priority,
            latency_us: self.health.judgement().latency_us,
            weight: settings.weight,
            ramp_weight: self.health.weight(settings.weight, &self.terms, now),
        }
    }
}

impl GroupEntry {
    /// HP-192, HP-193: what a real request to an origin met.
    pub(super) fn met(&mut self, id: u32, met: Met, now: Duration) -> Option<Asked> {
        let settings = self.group.settings();
        let (enabled, ejected) = (
            self.group.enabled_origins(),
            self.origins
                .iter()
                .filter(|origin| origin.is_ejected && origin.id != id)
                .count(),
        );
        let (place, origin) = self
            .origins
            .iter_mut()
            .enumerate()
            .find(|(_, origin)| origin.id == id)?;
        if !settings.passive_signals || origin.stream.is_none() {
            return None;
        }
        let Wanted::Probe { failures } = origin.passive.note(is_signal(&met), now) else {
            return None;
        };
        let is_ejected = settings.passive_ejection && may_eject(enabled, ejected);
        let mut change = None;
        if is_ejected {
            origin.is_ejected = true;
            for _ in 0..failures {
                origin.window.push(Observation {
                    met,
                    ..Observation::failure(now, Duration::ZERO, Reason::Status)
                });
            }
            change = origin.health.judge(&origin.window, &origin.terms, now);
        }
        Some(Asked {
            place,
            stream: origin.stream,
            is_ejected,
            change,
        })
    }
}
