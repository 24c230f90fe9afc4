//! Deliveries that end without another attempt, because their time is over or an operator said so: a stream of its own, at a
//! pace, so that many at once delay nobody's attempts (ED-325). Each event is read first: the terminal record names it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::retry::DeliveryKey;
use hedgerow_store::record::Progress;

use super::attempts::Ending;
use super::{Engine, Phase};
use crate::attempt::{self, Report, ReportKind};
use crate::endpoints::Seat;
use crate::runner::{Flight, Next};

/// Deliveries of one subscription that end together: one task reads their events, in order.
const TOGETHER_MAX: usize = 256;
/// Deliveries that end at a time, over all subscriptions.
const AT_A_TIME_MAX: usize = 1024;
/// The pace is kept in parts of a second.
const PART: Duration = Duration::from_millis(100);
const PARTS_PER_SECOND: u32 = 10;

/// Those that have something to end, in order.
#[derive(Default)]
pub(super) struct Endings {
    queue: VecDeque<SubscriptionId>,
    under_way: usize,
    /// On the machine's own clock: what a machine can do does not follow server time.
    part_began: Option<Instant>,
    ended_in_part: u32,
}

impl Endings {
    /// How many more may end now.
    fn left(&mut self, now: Instant, per_second: u32) -> usize {
        let is_over = |began| now.saturating_duration_since(began) >= PART;
        if self.part_began.is_none_or(is_over) {
            self.part_began = Some(now);
            self.ended_in_part = 0;
        }
        let of_part = (per_second / PARTS_PER_SECOND).max(1);
        of_part.saturating_sub(self.ended_in_part) as usize
    }

    /// When to look again, if something waits for the pace.
    pub(super) fn next(&self) -> Option<Instant> {
        let waits = !self.queue.is_empty() && self.under_way < AT_A_TIME_MAX;
        self.part_began.filter(|_| waits).map(|began| began + PART)
    }

    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Some of them came to their end, or are no longer wanted.
    pub(super) fn ended(&mut self, count: usize) {
        self.under_way -= count;
    }
}

impl Engine {
    /// Lets a subscription stand in line that has something to end.
    pub(super) fn queue_ending(&mut self, id: SubscriptionId) {
        if let Some(runner) = self.runners.get_mut(&id)
            && !runner.is_ending
        {
            runner.is_ending = true;
            self.endings.queue.push_back(id);
        }
    }

    /// Ends what has to end, as far as the pace and the room of the store allow.
    pub(super) fn end_deliveries(&mut self) {
        let now = self.instant();
        while self.phase == Phase::Running
            && self.endings.under_way < AT_A_TIME_MAX
            && !self.endings.queue.is_empty()
        {
            let left = self.endings.left(now, self.settings.ended_per_second);
            let left = left.min(self.room_for_ends());
            if left == 0 {
                break;
            }
            let Some(id) = self.endings.queue.pop_front() else {
                break;
            };
            let endings = self.take_endings(id, left.min(TOGETHER_MAX));
            if let Some(runner) = self.runners.get_mut(&id) {
                runner.is_ending = false;
            }
            self.endings.ended_in_part += endings.len() as u32;
            self.endings.under_way += endings.len();
            self.end_after_reading(id, &endings, None, true);
        }
    }

    fn take_endings(&mut self, id: SubscriptionId, count: usize) -> Vec<Ending> {
        let mut endings = Vec::new();
        while endings.len() < count
            && let Some(runner) = self.runners.get(&id)
            && let Some(next) = self.first_due(runner)
            && let Some(reason) = self.why_it_ends(runner, &next)
        {
            endings.push(Ending {
                key: DeliveryKey {
                    subscription: id,
                    seq: next.seq,
                },
                row: next.row,
                reason,
                progress: self.progress_at_end(id, &next),
            });
            if next.row.is_none() {
                self.moved.insert(runner.topic);
            }
            if let Some(runner) = self.runners.get_mut(&id) {
                runner.take(&next);
            }
        }
        self.want_a_look(id);
        endings
    }

    /// What is remembered of a delivery that ends: that it was held, if it was (ED-228).
    fn progress_at_end(&self, id: SubscriptionId, next: &Next) -> Option<Progress> {
        let runner = self.runners.get(&id)?;
        let is_held = runner.probation.gate(self.now()) != hedgerow_core::hold::Gate::Open
            && runner.held.until > self.now();
        let was_held = next.row.is_none() && next.due > next.published;
        let outcome = runner.held.outcome.filter(|_| is_held || was_held);
        match (next.progress, outcome) {
            (Some(progress), Some(last_outcome)) => Some(Progress {
                last_outcome,
                ..progress
            }),
            (None, Some(outcome)) => Some(Progress::unattempted(next.published, outcome)),
            // Of one that was begun without an attempt nothing is known, unless it was held.
            (progress, None) => progress.filter(|known| {
                // Of what was held, or had no origin, the reason is known without an attempt (ED-228, ED-315).
                let known_for = [Outcome::Probation, Outcome::Disabled];
                known.attempts > 0 || known_for.contains(&known.last_outcome)
            }),
        }
    }

    /// Ends deliveries without another attempt, in order, once their events were read.
    pub(super) fn end_after_reading(
        &mut self,
        id: SubscriptionId,
        endings: &[Ending],
        mut seat: Option<Seat>,
        is_paced: bool,
    ) {
        let runner = self
            .runners
            .get_mut(&id)
            .expect("deliveries were just taken from it");
        let topic = runner.topic;
        let wanted: Vec<_> = endings.iter().map(|one| (one.key, one.reason)).collect();
        let (store, reports) = (Arc::clone(&self.store), self.report_to.clone());
        let task = self.spawner.spawn(async move {
            for (key, reason) in wanted {
                let seq = key.seq;
                let kind = match attempt::read(&store, Position { topic, seq }).await {
                    Ok(event) => ReportKind::ReadToEnd { reason, event },
                    Err(error) => ReportKind::Unreadable {
                        attempt: None,
                        error,
                    },
                };
                // The engine may be gone; then the delivery is found again after the restart.
                let _ = reports.send(Report { key, kind }).await;
            }
        });
        for ending in endings {
            let flight = Flight {
                is_attempt: false,
                tickets: None,
                is_paced,
                seat: seat.take(),
                progress: ending.progress,
                row: ending.row,
                is_settled: false,
                _beside: None,
                abort: task.abort_handle(),
            };
            runner.take_off(ending.key.seq, flight);
        }
    }
}
