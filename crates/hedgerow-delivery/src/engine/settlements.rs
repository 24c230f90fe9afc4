//! What became of attempts: each report is judged by the rules, and what it means is queued for the log. It counts when it
//! comes back as a durable record (`observe_…`); a retry is put among the due ones then, and not before (ED-207).

use std::sync::Arc;

use hedgerow_core::credit::Signal;
use hedgerow_core::dead_letter;
use hedgerow_core::outcome::{DeadLetterReason, Verdict, classify};
use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::retry::{self, DeliveryKey, FailedAttempt};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::delivery;
use hedgerow_store::history::HistoryKind;
use hedgerow_store::record::{
    Dead, DeadThen, DropReason, Failed, FailedDelivery, IN_FLIGHT, Owed, PendingWrite, Progress,
    Record, Settled, SettledHow, dead_text, unpack_event, unpack_head,
};
use hedgerow_store::{StoreError, StoredEvent};

use super::Engine;
use super::attempts::Ending;
use crate::attempt::{AttemptEnd, GONE, ReportKind};
use crate::attempt_log::{self, AttemptLine, LineCircumstances};
use crate::metrics::SubscriptionMetrics;
use crate::note::{AttemptNote, NoteNext};
use crate::notice::containers_of;
use crate::plan::Plan;
use crate::remember::{Circumstances, remember};
use crate::runner::{DueKey, Flight};

/// Notes of late exchanges that are kept beside those of open ones, so that looking through them is rare.
const LATE_ORDER_SLACK: usize = 1024;

impl Engine {
    /// Takes what became of an attempt.
    pub(super) fn delivery_report(
        &mut self,
        key: DeliveryKey,
        kind: ReportKind,
    ) -> Result<(), StoreError> {
        match kind {
            ReportKind::Ended { end, stays_open } => self.attempt_ended(key, end, stays_open),
            ReportKind::LateSuccess(end) => self.late_success(key, end),
            ReportKind::LateClosed { attempt } => {
                if let Some(runner) = self.runners.get_mut(&key.subscription) {
                    runner.late.close((key.seq, attempt));
                }
                Ok(())
            }
            ReportKind::Gathered(gathered) => self.gathered(key.subscription, gathered),
            ReportKind::NotGathered { token, seq, error } => {
                self.not_gathered(DeliveryKey { seq, ..key }, token, error)
            }
            ReportKind::ReadToEnd { reason, event } => self.read_to_end(key, reason, &event),
            ReportKind::Unreadable { attempt, error } => self.unreadable(key, attempt, error),
        }
    }

    fn attempt_ended(
        &mut self,
        key: DeliveryKey,
        end: AttemptEnd,
        stays_open: bool,
    ) -> Result<(), StoreError> {
        // A subscription that is gone, or was pointed elsewhere, has landed its flights already.
        let Some(runner) = self.runners.get_mut(&key.subscription) else {
            return Ok(());
        };
        let plan = Arc::clone(&runner.plan);
        if end.is_batch {
            return self.batch_ended(key, end, stays_open);
        }
        let Some(mut flight) = runner.land_attempt(key.seq, end.attempt) else {
            return Ok(());
        };
        let metrics = Arc::clone(&runner.metrics);
        let verdict = classify(
            plan.kind,
            &end.found.met,
            &plan.overrides,
            &self.settings.retry.floors,
        );
        let outcome = verdict.outcome();
        // What we refused ourselves says nothing about the endpoint (FC-15).
        let signal = if end.found.is_our_refusal {
            Signal::Neutral
        } else {
            Signal::of(outcome)
        };
        self.give_back(flight.seat.take(), signal);
        let end_status = end.found.met.status();
        let progress = flight.progress.filter(|_| !flight.is_settled);
        if let Some(route) = &end.route {
            self.note_origin(key.subscription, key.seq, route.id, outcome.is_some());
        }
        match (outcome, progress) {
            (Some(outcome), _) => metrics.note_failed(outcome, end.found.met.status()),
            (None, Some(_)) => note_delivered(&metrics, &end),
            (None, None) => {}
        }
        self.note_for_holds(key, &mut flight, &verdict, &end)?;
        let next = match progress {
            Some(progress) => self.settle(key, &verdict, progress, &end)?,
            // An earlier attempt succeeded late, while this one ran.
            None => NoteNext::Delivered,
        };
        if let (true, NoteNext::Due(due)) = (stays_open, next) {
            self.keep_open(key, end.attempt, &flight, &[(due, key.seq)]);
        } else if stays_open {
            // The delivery is final: nobody waits for a late success.
            flight.abort.abort();
        }
        let note = AttemptNote::of_attempt(&plan, &end, &end.event, outcome, next);
        let line = self.line(&plan, key, &note, &end.event);
        self.tell(
            note,
            line,
            Circumstances::of_attempt(HistoryKind::Attempt, key, end),
        );
        if plan.disable_on_gone && end_status == GONE {
            tracing::warn!(
                topic = &*plan.topic_name,
                subscription = &*plan.subscription_name,
                "its endpoint answered 410: the subscription is paused until somebody resumes it"
            );
            self.note_gone(key.subscription)?;
        }
        self.look_again(key.subscription)
    }

    /// Tells probation and delayed delivery how an attempt ended.
    fn note_for_holds(
        &mut self,
        key: DeliveryKey,
        flight: &mut Flight,
        verdict: &Verdict,
        end: &AttemptEnd,
    ) -> Result<(), StoreError> {
        let Some(tickets) = flight.tickets.take() else {
            return Ok(());
        };
        match (verdict, flight.progress) {
            (Verdict::Success, _) => self.note_success(key.subscription),
            (_, Some(progress)) if !flight.is_settled => {
                let started = progress.last_attempt;
                let base = retry::floor_base(&self.settings.retry, started, end.ended);
                self.note_failure(key.subscription, &[key], tickets, verdict, base)
            }
            // An earlier attempt succeeded late: this one's failure decides nothing.
            _ => self.give_up(key.subscription, tickets),
        }
    }

    fn read_to_end(
        &mut self,
        key: DeliveryKey,
        reason: DeadLetterReason,
        event: &StoredEvent,
    ) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get_mut(&key.subscription) else {
            return Ok(());
        };
        let plan = Arc::clone(&runner.plan);
        let Some(mut flight) = runner.land(key.seq) else {
            return Ok(());
        };
        self.endings.ended(usize::from(flight.is_paced));
        self.give_back(flight.seat.take(), Signal::GivenUp);
        if flight.is_settled {
            return self.look_again(key.subscription);
        }
        let now = self.now();
        let ending = Ending {
            key,
            row: flight.row,
            reason,
            progress: flight.progress,
        };
        let next = self.journal_dead(&ending, now, event)?;
        let note = AttemptNote::without_attempt(&plan, event, now, next);
        let line = self.line(&plan, key, &note, event);
        self.tell(note, line, Circumstances::of_end(key, event, now));
        self.look_again(key.subscription)
    }

    /// The event of a delivery cannot be read. That is a failure of the store, unless nobody needs the event any more: the
    /// delivery was settled, its subscription went, or a purge let the log forget it, while the read was on its way.
    fn unreadable(
        &mut self,
        key: DeliveryKey,
        attempt: Option<u16>,
        error: StoreError,
    ) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get_mut(&key.subscription) else {
            return Ok(());
        };
        let landed = match attempt {
            Some(attempt) => runner.land_attempt(key.seq, attempt),
            None => runner.land(key.seq),
        };
        let Some(flight) = landed else { return Ok(()) };
        self.endings.ended(usize::from(flight.is_paced));
        self.give_back(flight.seat, Signal::GivenUp);
        if let Some(tickets) = flight.tickets {
            self.give_up(key.subscription, tickets)?;
        }
        let is_forgotten = matches!(error, StoreError::Forgotten { .. });
        if is_forgotten && !flight.is_settled && self.is_purged(key.subscription, key.seq) {
            self.drop_forgotten(key, flight.row)?;
        } else if !flight.is_settled {
            return Err(error);
        }
        self.look_again(key.subscription)
    }

    /// The log line of an attempt, if anybody reads it.
    pub(super) fn line(
        &self,
        plan: &Arc<Plan>,
        key: DeliveryKey,
        note: &AttemptNote,
        event: &StoredEvent,
    ) -> Option<AttemptLine> {
        let percent = self.settings.success_log_percent;
        if !attempt_log::is_wanted(note, key, percent) {
            return None;
        }
        let runner = self.runners.get(&key.subscription)?;
        let topic = self.view.catalog().topic(runner.topic)?;
        let position = Position {
            topic: runner.topic,
            seq: key.seq,
        };
        let circumstances = LineCircumstances {
            key,
            system_id: delivery::system_id(&self.context.store_id, key.subscription, position),
            input_schema: topic.spec.input_schema.as_str(),
            probation_count: 0,
        };
        Some(AttemptLine::new(note, plan, circumstances, event, percent))
    }

    /// Tells the log, observers and the history.
    fn tell(&self, note: AttemptNote, line: Option<AttemptLine>, circumstances: Circumstances) {
        self.notify(&note);
        let runner = self.runners.get(&circumstances.key.subscription);
        if let Some(runner) = runner {
            let history = self.context.history.as_ref();
            remember(history, runner, note, line, circumstances);
        }
    }

    /// Tells observers.
    pub(super) fn notify(&self, note: &AttemptNote) {
        if self.notes.receiver_count() > 0 {
            // They may have gone in this moment.
            let _ = self.notes.send(note.clone());
        }
    }

    pub(super) fn look_again(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }

    /// Records what an attempt's verdict means for its delivery.
    fn settle(
        &mut self,
        key: DeliveryKey,
        verdict: &Verdict,
        progress: Progress,
        end: &AttemptEnd,
    ) -> Result<NoteNext, StoreError> {
        match self.after_verdict(key, verdict, progress, end.ended) {
            None => {
                let delivered = vec![(key.seq, IN_FLIGHT)];
                self.journal_delivered(key.subscription, delivered, SettledHow::Delivered)?;
                Ok(NoteNext::Delivered)
            }
            Some((next, progress)) => {
                self.journal_failed(key, next, progress, end.ended, &end.event)
            }
        }
    }

    /// What follows an attempt that ended so, and what is remembered of it; `None` if its delivery is delivered.
    pub(super) fn after_verdict(
        &self,
        key: DeliveryKey,
        verdict: &Verdict,
        progress: Progress,
        ended: Timestamp,
    ) -> Option<(retry::Next, Progress)> {
        match *verdict {
            Verdict::Success => None,
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
                    key,
                    attempts: progress.attempts,
                    first_attempt: progress.first_attempt,
                    started: progress.last_attempt,
                    ended,
                    floor,
                    retry_after,
                    hold_until: self.hold_until(key.subscription),
                };
                let policy = self.policy(key.subscription);
                let next = retry::after_failure(&self.settings.retry, &policy, &failed);
                Some((next, progress))
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
                let next = retry::Next::Dead(reason);
                let runner = self.runners.get(&key.subscription);
                if runner.is_none_or(|runner| !runner.plan.blocks) {
                    return Some((next, progress));
                }
                let failed = FailedAttempt {
                    key,
                    attempts: progress.attempts,
                    first_attempt: progress.first_attempt,
                    started: progress.last_attempt,
                    ended,
                    floor: std::time::Duration::ZERO,
                    retry_after: None,
                    hold_until: self.hold_until(key.subscription),
                };
                Some((self.never_dead(next, &failed), progress))
            }
        }
    }

    pub(super) fn policy(&self, id: SubscriptionId) -> retry::RetryPolicy {
        self.runners
            .get(&id)
            .map_or_else(Default::default, |runner| runner.plan.policy)
    }

    /// Records the end of an attempt in flight that was no success.
    pub(super) fn journal_failed(
        &mut self,
        key: DeliveryKey,
        next: retry::Next,
        progress: Progress,
        ended: Timestamp,
        event: &StoredEvent,
    ) -> Result<NoteNext, StoreError> {
        match next {
            retry::Next::Due(_) if self.is_purged(key.subscription, key.seq) => {
                self.journal_purged(key, IN_FLIGHT)?;
                Ok(NoteNext::Purged)
            }
            retry::Next::Due(due) => {
                self.journal_due(key, due, progress)?;
                Ok(NoteNext::Due(due))
            }
            retry::Next::Dead(reason) => {
                let ending = Ending {
                    key,
                    row: Some(IN_FLIGHT),
                    reason,
                    progress: Some(progress),
                };
                self.journal_dead(&ending, ended, event)
            }
        }
    }

    /// Records that a delivery in flight is due again.
    pub(super) fn journal_due(
        &mut self,
        key: DeliveryKey,
        due: Timestamp,
        progress: Progress,
    ) -> Result<(), StoreError> {
        let deliveries = vec![FailedDelivery {
            seq: key.seq,
            due,
            progress,
        }];
        let failed = Failed {
            subscription: key.subscription,
            deliveries,
        };
        self.store.journal(Record::Failed(failed))?;
        if let Some(runner) = self.runners.get_mut(&key.subscription) {
            runner.late.moved_to(key.seq, due);
        }
        Ok(())
    }

    /// Records the decision that a delivery ends undelivered, and what follows for its event (ED-244, ED-245).
    fn journal_dead(
        &mut self,
        ending: &Ending,
        decided: Timestamp,
        event: &StoredEvent,
    ) -> Result<NoteNext, StoreError> {
        let unpacked = unpack_head(&event.bytes)?;
        let DeliveryKey { subscription, seq } = ending.key;
        let plan = self.runners.get(&subscription).map(|runner| &runner.plan);
        let plan = plan.filter(|plan| plan.dead_letter_destination.is_some());
        let is_circular =
            |plan: &Plan| -> Result<bool, StoreError> {
                Ok(plan.is_of_notices
                    && plan.is_circular(&containers_of(&unpack_event(&event.bytes)?)))
            };
        let plan = match plan {
            Some(plan) if is_circular(plan)? => None,
            plan => plan,
        };
        let write_due = plan.map(|plan| dead_letter::write_due(&plan.dead_letter, decided));
        let then = match write_due {
            Some(due) => DeadThen::WriteDue(due, PendingWrite::default()),
            None => DeadThen::Dropped(DropReason::NoDeadLetterDestination),
        };
        let dead = Dead {
            subscription,
            seq,
            due: ending.row,
            reason: ending.reason,
            decided,
            published: event.published,
            progress: ending.progress,
            then,
            event_id: dead_text(&unpacked.id),
            event_type: dead_text(&unpacked.event_type),
            subject: dead_text(unpacked.subject.as_deref().unwrap_or_default()),
        };
        self.store.journal(Record::Dead(dead))?;
        if let Some(runner) = self.runners.get_mut(&subscription) {
            runner.late.end(seq);
            if let DeadThen::Dropped(reason) = then {
                runner.metrics.note_dropped(reason);
            }
        }
        let reason = ending.reason;
        Ok(match write_due {
            Some(due) => NoteNext::DeadLetter { reason, due },
            None => NoteNext::Dead(reason),
        })
    }

    /// Keeps an exchange open after its timeout, for the deliveries of these rows; beyond the caps the oldest one is ended
    /// (ED-180).
    pub(super) fn keep_open(
        &mut self,
        key: DeliveryKey,
        attempt: u16,
        flight: &Flight,
        rows: &[DueKey],
    ) {
        let Some(runner) = self.runners.get_mut(&key.subscription) else {
            return;
        };
        let counted = Arc::clone(&self.late_count);
        let (id, abort) = ((key.seq, attempt), flight.abort.clone());
        runner.late.keep_open(id, rows, abort, counted);
        if runner.late.len() > self.settings.late_exchanges_per_subscription_max {
            runner.late.close_oldest();
        }
        self.late_order.push_back((key, attempt));
        while self.late_open() > self.settings.late_exchanges_max {
            let Some((oldest, attempt)) = self.late_order.pop_front() else {
                break;
            };
            if let Some(runner) = self.runners.get_mut(&oldest.subscription) {
                runner.late.close((oldest.seq, attempt));
            }
        }
        // Most of them have closed by themselves since they were noted.
        if self.late_order.len() > 2 * self.late_open() + LATE_ORDER_SLACK {
            let runners = &self.runners;
            self.late_order.retain(|(key, attempt)| {
                let runner = runners.get(&key.subscription);
                runner.is_some_and(|runner| runner.late.is_open((key.seq, *attempt)))
            });
        }
    }

    fn late_open(&self) -> usize {
        Arc::strong_count(&self.late_count) - 1
    }

    pub(super) fn observe_failed(&mut self, failed: &Failed) {
        let id = failed.subscription;
        let purges = &self.purges;
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        for delivery in &failed.deliveries {
            if self.view.is_open(id, delivery.seq) && !purges.has(id, delivery.seq) {
                runner.note_due(delivery.due, delivery.seq, Owed::Attempt(delivery.progress));
            }
        }
        // It may be the next one to be due, or in a pause to expire.
        let is_paused = runner.expiries.is_some();
        if let Some(due) = runner.next_due() {
            self.wakes.insert((due, id));
        }
        if is_paused {
            self.wakes.insert((self.now(), id));
        }
    }

    pub(super) fn observe_settled(&mut self, settled: &Settled) -> Result<(), StoreError> {
        let id = settled.subscription;
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        for (seq, due) in &settled.deliveries {
            runner.drop_due(*due, *seq);
            runner.end_in_line(*seq);
        }
        let count = settled.deliveries.len() as u64;
        runner.unsettled_successes = runner.unsettled_successes.saturating_sub(count);
        self.queue_if_ready(id)
    }

    pub(super) fn observe_dead(&mut self, dead: &Dead) {
        let id = dead.subscription;
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        if let Some(due) = dead.due {
            runner.drop_due(due, dead.seq);
        }
        if runner.order.is_some() {
            runner.end_in_line(dead.seq);
            self.wakes.insert((self.turn.timestamp, id));
        }
        if let DeadThen::WriteDue(due, write) = dead.then {
            runner.note_due(due, dead.seq, Owed::DeadLetter(dead.pending(write)));
            self.wakes.insert((due, id));
        }
    }
}

/// Counts a delivery.
fn note_delivered(metrics: &SubscriptionMetrics, end: &AttemptEnd) {
    metrics.note_delivered(
        end.ended.since(end.event.published),
        end.duration,
        end.attempt,
    );
}
