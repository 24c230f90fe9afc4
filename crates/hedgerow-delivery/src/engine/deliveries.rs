//! Deliveries: which starts next, what its attempt's report means, what is recorded.
//!
//! Every record is queued here and counts when it comes back durable (`observe_…`). A start is queued before the
//! request's first byte, an end at its outcome; nobody waits for either (design D5).

use std::sync::Arc;

use hedgerow_core::credit::Signal;
use hedgerow_core::outcome::{DeadLetterReason, Met, Outcome, Verdict, classify};
use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::retry::{self, CrashedAttempt, DeliveryKey, FailedAttempt};
use hedgerow_core::time::{Now, Timestamp};
use hedgerow_store::record::{
    Dead, Failed, FailedDelivery, IN_FLIGHT, Progress, Record, Settled, SettledHow, Started,
    StartedDelivery, dead_text, unpack_event,
};
use hedgerow_store::view::{DueDelivery, FIRST_IN_FLIGHT};
use hedgerow_store::{StoreError, StoredEvent};

use super::Engine;
use crate::attempt::{self, Job, Report, ReportKind};
use crate::note::{AttemptNote, NoteNext};
use crate::plan::Plan;
use crate::runner::{Flight, Next};

/// A delivery that ends undelivered.
struct Ending {
    subscription: SubscriptionId,
    seq: u64,
    /// The row it stands under; `None` if it was never begun.
    row: Option<Timestamp>,
    reason: DeadLetterReason,
    progress: Option<Progress>,
}

impl Engine {
    /// Lets a subscription stand in line if it has something to deliver now.
    pub(super) fn queue_if_ready(&mut self, id: SubscriptionId) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        let may_start = runner.unsettled_successes < self.settings.unsettled_successes_max;
        if !self.is_stopping && !runner.is_queued && may_start && runner.has_next(now) {
            runner.is_queued = true;
            self.endpoints.queue(&runner.plan.target, id);
        }
    }

    /// Starts attempts until nobody may start one.
    pub(super) fn start_attempts(&mut self) -> Result<(), StoreError> {
        while !self.is_stopping && self.credits.len() < self.settings.attempts_max {
            let Some((id, credit)) = self.endpoints.next_turn() else {
                break;
            };
            let now = self.clock.now();
            let Some(runner) = self.runners.get_mut(&id) else {
                continue;
            };
            runner.is_queued = false;
            let plan = Arc::clone(&runner.plan);
            let Some(next) = runner.take_next(now.timestamp) else {
                self.endpoints
                    .release(&plan.target, credit, Signal::Neutral);
                continue;
            };
            // What became due while the server was away is due now (ED-208), and judged by that time.
            let due = retry::after_restart(next.due, self.began.max(next.published));
            // Reading an expired event takes the turn's credit too: so that is bounded as attempts are.
            self.credits.insert((id, next.seq), credit);
            if retry::is_expired(&plan.policy, next.published, due) {
                self.expire(id, &next);
            } else {
                self.start(id, &next, now)?;
            }
            self.queue_if_ready(id);
            self.plan_wake(id)?;
        }
        Ok(())
    }

    fn start(&mut self, id: SubscriptionId, next: &Next, now: Now) -> Result<(), StoreError> {
        let progress = match next.progress {
            Some(before) => Progress {
                attempts: before.attempts + 1,
                last_attempt: now.timestamp,
                ..before
            },
            None => Progress {
                published: next.published,
                attempts: 1,
                first_attempt: now.timestamp,
                last_attempt: now.timestamp,
                last_outcome: Outcome::Delivering,
                last_status: 0,
                crashes: 0,
                crash_epoch: 0,
            },
        };
        let replaces_due = next.progress.is_some().then_some(next.due);
        let delivery = StartedDelivery {
            seq: next.seq,
            replaces_due,
            progress,
        };
        self.store.journal(Record::Started(Started {
            subscription: id,
            deliveries: vec![delivery],
        }))?;
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let job = Job {
            subscription: id,
            position: Position {
                topic: runner.topic,
                seq: next.seq,
            },
            attempt: progress.attempts,
            plan: Arc::clone(&runner.plan),
            started: now,
        };
        let attempt = attempt::run(Arc::clone(&self.context), job, self.report_to.clone());
        let abort = self.spawner.spawn(attempt).abort_handle();
        runner.take_off(
            next.seq,
            Flight {
                is_attempt: true,
                progress: Some(progress),
                row: Some(IN_FLIGHT),
                is_settled: false,
                abort,
            },
        );
        Ok(())
    }

    /// Ends a delivery whose time to live had passed when it was due (ED-203). Its event is read first: the terminal
    /// record names it.
    fn expire(&mut self, id: SubscriptionId, next: &Next) {
        let row = next.progress.map(|_| next.due);
        self.end_after_reading(Ending {
            subscription: id,
            seq: next.seq,
            row,
            reason: DeadLetterReason::TimeToLiveExceeded,
            progress: next.progress,
        });
    }

    /// Reads the event of a delivery that ends without another attempt, then ends it.
    fn end_after_reading(&mut self, ending: Ending) {
        let Some(runner) = self.runners.get_mut(&ending.subscription) else {
            return;
        };
        let position = Position {
            topic: runner.topic,
            seq: ending.seq,
        };
        let (store, reports) = (Arc::clone(&self.store), self.report_to.clone());
        let (subscription, seq, reason) = (ending.subscription, ending.seq, ending.reason);
        let task = self.spawner.spawn(async move {
            let kind = match attempt::read(&store, position).await {
                Ok(event) => ReportKind::ReadToEnd { reason, event },
                Err(error) => ReportKind::Unreadable(error),
            };
            // The engine may be gone; then the delivery is found again after the restart.
            let _ = reports
                .send(Report {
                    subscription,
                    seq,
                    attempt: 0,
                    kind,
                })
                .await;
        });
        let abort = task.abort_handle();
        runner.take_off(
            ending.seq,
            Flight {
                is_attempt: false,
                progress: ending.progress,
                row: ending.row,
                is_settled: false,
                abort,
            },
        );
    }

    /// Takes what became of an attempt.
    pub(super) fn delivery_report(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        attempt: u16,
        kind: ReportKind,
    ) -> Result<(), StoreError> {
        match kind {
            ReportKind::Ended {
                met,
                ended,
                event,
                stays_open,
            } => self.attempt_ended(id, seq, attempt, &met, ended, &event, stays_open),
            ReportKind::ReadToEnd { reason, event } => self.read_to_end(id, seq, reason, &event),
            ReportKind::LateSuccess => self.late_success(id, seq),
            ReportKind::LateClosed => {
                if let Some(runner) = self.runners.get_mut(&id) {
                    runner.late_closed(seq);
                }
                Ok(())
            }
            ReportKind::Unreadable(error) => Err(error),
        }
    }

    #[allow(clippy::too_many_arguments)] // One report, taken apart once.
    fn attempt_ended(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        attempt: u16,
        met: &Met,
        ended: Now,
        event: &StoredEvent,
        stays_open: bool,
    ) -> Result<(), StoreError> {
        let credit = self.credits.remove(&(id, seq));
        // A subscription that is gone took its flights with it.
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let plan = Arc::clone(&runner.plan);
        let Some(flight) = runner.land(seq) else {
            return Ok(());
        };
        let verdict = classify(plan.kind, met, &plan.overrides, &self.settings.retry.floors);
        if let Some(credit) = credit {
            self.endpoints
                .release(&plan.target, credit, Signal::of(verdict.outcome()));
        }
        let Some(progress) = flight.progress.filter(|_| !flight.is_settled) else {
            return self.look_again(id);
        };
        let next = self.settle(id, seq, &verdict, progress, ended.timestamp, event)?;
        if let (true, NoteNext::Due(due)) = (stays_open, next) {
            self.keep_open(id, seq, flight, due);
        } else if stays_open {
            // The delivery is final: nobody waits for a late success.
            flight.abort.abort();
        }
        self.note(
            &plan,
            event,
            attempt,
            &verdict,
            progress,
            ended.timestamp,
            next,
        );
        self.look_again(id)
    }

    fn look_again(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        self.queue_if_ready(id);
        self.plan_wake(id)
    }

    /// Records what an attempt's verdict means for its delivery.
    fn settle(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        verdict: &Verdict,
        progress: Progress,
        ended: Timestamp,
        event: &StoredEvent,
    ) -> Result<NoteNext, StoreError> {
        match *verdict {
            Verdict::Success => {
                self.journal_delivered(id, seq, IN_FLIGHT, SettledHow::Delivered)?;
                Ok(NoteNext::Delivered)
            }
            Verdict::Retry {
                outcome,
                status,
                floor,
                retry_after,
            } => {
                let progress = Progress {
                    last_outcome: outcome,
                    last_status: status,
                    ..progress
                };
                let failed = FailedAttempt {
                    key: DeliveryKey {
                        subscription: id,
                        seq,
                    },
                    attempts: progress.attempts,
                    first_attempt: progress.first_attempt,
                    started: progress.last_attempt,
                    ended,
                    floor,
                    retry_after,
                    hold_until: None,
                };
                let policy = self.policy(id);
                let next = retry::after_failure(&self.settings.retry, &policy, &failed);
                self.journal_failed(id, seq, next, progress, ended, event)
            }
            Verdict::Final {
                outcome,
                status,
                reason,
            } => {
                let progress = Progress {
                    last_outcome: outcome,
                    last_status: status,
                    ..progress
                };
                self.journal_failed(id, seq, retry::Next::Dead(reason), progress, ended, event)
            }
        }
    }

    fn policy(&self, id: SubscriptionId) -> retry::RetryPolicy {
        self.runners
            .get(&id)
            .map_or_else(Default::default, |runner| runner.plan.policy)
    }

    fn journal_delivered(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        row: Timestamp,
        how: SettledHow,
    ) -> Result<(), StoreError> {
        let settled = Settled {
            subscription: id,
            deliveries: vec![(seq, row)],
            how,
        };
        self.store.journal(Record::Settled(settled))?;
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.unsettled_successes += 1;
            runner.forget_late(seq);
        }
        Ok(())
    }

    /// Records the end of an attempt in flight that was no success.
    fn journal_failed(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        next: retry::Next,
        progress: Progress,
        decided: Timestamp,
        event: &StoredEvent,
    ) -> Result<NoteNext, StoreError> {
        match next {
            retry::Next::Due(due) => {
                let deliveries = vec![FailedDelivery { seq, due, progress }];
                self.store.journal(Record::Failed(Failed {
                    subscription: id,
                    deliveries,
                }))?;
                if let Some(runner) = self.runners.get_mut(&id) {
                    runner.moved_to(seq, due);
                }
                Ok(NoteNext::Due(due))
            }
            retry::Next::Dead(reason) => {
                let row = Some(IN_FLIGHT);
                let ending = Ending {
                    subscription: id,
                    seq,
                    row,
                    reason,
                    progress: Some(progress),
                };
                self.journal_dead(&ending, decided, event)?;
                Ok(NoteNext::Dead(reason))
            }
        }
    }

    fn journal_dead(
        &mut self,
        ending: &Ending,
        decided: Timestamp,
        event: &StoredEvent,
    ) -> Result<(), StoreError> {
        let unpacked = unpack_event(&event.bytes)?;
        let dead = Dead {
            subscription: ending.subscription,
            seq: ending.seq,
            due: ending.row,
            reason: ending.reason,
            decided,
            published: event.published,
            progress: ending.progress,
            event_id: dead_text(&unpacked.id),
            event_type: dead_text(&unpacked.event_type),
            subject: dead_text(unpacked.subject.as_deref().unwrap_or_default()),
        };
        self.store.journal(Record::Dead(dead))?;
        if let Some(runner) = self.runners.get_mut(&ending.subscription) {
            runner.forget_late(ending.seq);
        }
        Ok(())
    }

    fn read_to_end(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        reason: DeadLetterReason,
        event: &StoredEvent,
    ) -> Result<(), StoreError> {
        let credit = self.credits.remove(&(id, seq));
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let plan = Arc::clone(&runner.plan);
        if let Some(credit) = credit {
            self.endpoints
                .release(&plan.target, credit, Signal::Neutral);
        }
        let Some(flight) = runner.land(seq).filter(|flight| !flight.is_settled) else {
            return self.look_again(id);
        };
        let now = self.now();
        let (row, progress) = (flight.row, flight.progress);
        let ending = Ending {
            subscription: id,
            seq,
            row,
            reason,
            progress,
        };
        self.journal_dead(&ending, now, event)?;
        self.note_without_attempt(&plan, event, reason);
        self.look_again(id)
    }

    /// A success that came after its timeout (ED-178). A retry that is in flight is left to finish; its result decides
    /// nothing.
    fn late_success(&mut self, id: SubscriptionId, seq: u64) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let Some(row) = runner.settle_late(seq) else {
            return Ok(());
        };
        self.journal_delivered(id, seq, row, SettledHow::DeliveredLate)?;
        self.look_again(id)
    }

    fn keep_open(&mut self, id: SubscriptionId, seq: u64, flight: Flight, due: Timestamp) {
        let per_subscription = self.settings.late_exchanges_per_subscription_max;
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        runner.keep_open(seq, flight.abort, due);
        if runner.late_exchanges() > per_subscription {
            runner.abort_a_late_exchange();
        }
        self.late_order.push_back(id);
        while self.late_order.len() > self.settings.late_exchanges_max {
            if let Some(oldest) = self.late_order.pop_front()
                && let Some(runner) = self.runners.get_mut(&oldest)
            {
                runner.abort_a_late_exchange();
            }
        }
    }

    /// What stood in flight when the server ended has an attempt without a recorded end (ED-207).
    pub(super) fn take_up_in_flight(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let rows = self.view.due(id, FIRST_IN_FLIGHT, IN_FLIGHT, usize::MAX)?;
        for DueDelivery { seq, progress, .. } in rows {
            let crashes = self.view.crashes_with_this_one(&progress);
            let crashed = CrashedAttempt {
                attempts: progress.attempts,
                started: progress.last_attempt,
                crashes,
                now: self.began,
            };
            let policy = self.policy(id);
            let (next, outcome) = retry::after_crash(&self.settings.retry, &policy, &crashed);
            let progress = Progress {
                last_outcome: outcome,
                last_status: 0,
                crashes,
                crash_epoch: self.epoch,
                ..progress
            };
            match next {
                retry::Next::Due(due) => {
                    let deliveries = vec![FailedDelivery { seq, due, progress }];
                    self.store.journal(Record::Failed(Failed {
                        subscription: id,
                        deliveries,
                    }))?;
                }
                retry::Next::Dead(reason) => self.end_after_reading(Ending {
                    subscription: id,
                    seq,
                    row: Some(IN_FLIGHT),
                    reason,
                    progress: Some(progress),
                }),
            }
        }
        Ok(())
    }

    /// Ends what runs with `outcome`: because the server stops (ED-189), or the subscription changed.
    pub(super) fn abort_flights(
        &mut self,
        id: SubscriptionId,
        outcome: Outcome,
    ) -> Result<(), StoreError> {
        let now = self.now();
        let policy = self.policy(id);
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let plan = Arc::clone(&runner.plan);
        for (seq, flight) in runner.land_all() {
            if !flight.is_attempt {
                // Its event is being read for its terminal record; that ends soon.
                self.put_back(id, seq, flight);
                continue;
            }
            flight.abort.abort();
            if let Some(credit) = self.credits.remove(&(id, seq)) {
                self.endpoints
                    .release(&plan.target, credit, Signal::Neutral);
            }
            let Some(progress) = flight.progress.filter(|_| !flight.is_settled) else {
                continue;
            };
            let progress = Progress {
                last_outcome: outcome,
                last_status: 0,
                ..progress
            };
            match retry::after_abort(&policy, progress.attempts, now) {
                retry::Next::Due(due) => {
                    let deliveries = vec![FailedDelivery { seq, due, progress }];
                    self.store.journal(Record::Failed(Failed {
                        subscription: id,
                        deliveries,
                    }))?;
                    if let Some(runner) = self.runners.get_mut(&id) {
                        runner.moved_to(seq, due);
                    }
                }
                retry::Next::Dead(reason) => self.end_after_reading(Ending {
                    subscription: id,
                    seq,
                    row: Some(IN_FLIGHT),
                    reason,
                    progress: Some(progress),
                }),
            }
        }
        Ok(())
    }

    fn put_back(&mut self, id: SubscriptionId, seq: u64, flight: Flight) {
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.take_off(seq, flight);
        }
    }

    pub(super) fn observe_failed(&mut self, failed: &Failed) {
        let id = failed.subscription;
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        for delivery in &failed.deliveries {
            if self.view.is_open(id, delivery.seq) {
                runner.note_due(delivery.due, delivery.seq, delivery.progress);
            }
        }
        if let Some(due) = runner.next_due() {
            self.wakes.insert((due, id));
        }
    }

    pub(super) fn observe_settled(&mut self, settled: &Settled) {
        let id = settled.subscription;
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        for (seq, due) in &settled.deliveries {
            runner.drop_due(*due, *seq);
        }
        let count = settled.deliveries.len() as u64;
        runner.unsettled_successes = runner.unsettled_successes.saturating_sub(count);
        self.queue_if_ready(id);
    }

    pub(super) fn observe_dead(&mut self, dead: &Dead) {
        if let Some(runner) = self.runners.get_mut(&dead.subscription)
            && let Some(due) = dead.due
        {
            runner.drop_due(due, dead.seq);
        }
    }

    #[allow(clippy::too_many_arguments)] // Everything a line about an attempt says.
    fn note(
        &self,
        plan: &Plan,
        event: &StoredEvent,
        attempt: u16,
        verdict: &Verdict,
        progress: Progress,
        ended: Timestamp,
        next: NoteNext,
    ) {
        let (outcome, status) = match *verdict {
            Verdict::Success => (None, 0),
            Verdict::Retry {
                outcome, status, ..
            }
            | Verdict::Final {
                outcome, status, ..
            } => (Some(outcome), status),
        };
        self.tell(&AttemptNote {
            topic: plan.topic_name.clone(),
            subscription: plan.subscription_name.clone(),
            event_id: event_id(event),
            attempt,
            outcome,
            status,
            duration: ended.since(progress.last_attempt),
            next,
        });
    }

    fn note_without_attempt(&self, plan: &Plan, event: &StoredEvent, reason: DeadLetterReason) {
        self.tell(&AttemptNote {
            topic: plan.topic_name.clone(),
            subscription: plan.subscription_name.clone(),
            event_id: event_id(event),
            attempt: 0,
            outcome: None,
            status: 0,
            duration: std::time::Duration::ZERO,
            next: NoteNext::Dead(reason),
        });
    }

    /// One log line an attempt, carrying everything; and observers.
    fn tell(&self, note: &AttemptNote) {
        let due_in_ms = match note.next {
            NoteNext::Due(due) => Some(due.since(self.now()).as_millis() as u64),
            NoteNext::Delivered | NoteNext::Dead(_) => None,
        };
        let settlement = match note.next {
            NoteNext::Delivered => "ack",
            NoteNext::Due(_) => "retry",
            NoteNext::Dead(_) => "drop",
        };
        let reason = match note.next {
            NoteNext::Dead(reason) => Some(reason.as_str()),
            NoteNext::Delivered | NoteNext::Due(_) => None,
        };
        tracing::info!(
            target: "hedgerow::attempt",
            topic = note.topic,
            subscription = note.subscription,
            event_id = note.event_id,
            attempt = note.attempt,
            outcome = note.outcome.map(|outcome| outcome.as_str()),
            status = note.status,
            duration_ms = note.duration.as_millis() as u64,
            settlement,
            reason,
            due_in_ms,
        );
        // Nobody may be listening.
        let _ = self.notes.send(note.clone());
    }
}

fn event_id(event: &StoredEvent) -> String {
    unpack_event(&event.bytes).map_or_else(|_| String::new(), |event| event.id.into_owned())
}
