//! What became of batches (ED-178, ED-218 to ED-221): one answer, and a record of each delivery.

use std::collections::HashMap;
use std::sync::Arc;

use hedgerow_core::batch::{Division, divide};
use hedgerow_core::credit::Signal;
use hedgerow_core::outcome::{Outcome, Verdict, classify};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry::{self, DeliveryKey};
use hedgerow_core::time::Timestamp;
use hedgerow_store::history::HistoryKind;
use hedgerow_store::record::{
    Divided, DividedDelivery, Failed, FailedDelivery, IN_FLIGHT, Progress, Record, Settled,
    SettledHow,
};
use hedgerow_store::{StoreError, StoredEvent};

use super::Engine;
use super::attempts::without_attempt;
use crate::attempt::{AttemptEnd, GONE};
use crate::note::{AttemptNote, NoteNext};
use crate::plan::Plan;
use crate::remember::{self, AllWaiting, Circumstances};
use crate::runner::Flight;

/// Deliveries of one record.
pub(super) const PER_RECORD: usize = 512;

/// A delivery of a batch that has landed.
struct Landed {
    /// Its place in the request, from 0.
    place: usize,
    seq: u64,
    event: StoredEvent,
    flight: Flight,
}

/// What the answers to a batch mean, to be recorded together.
#[derive(Default)]
struct Settling {
    delivered: Vec<(u64, Timestamp)>,
    failed: Vec<FailedDelivery>,
    divided: Vec<DividedDelivery>,
}

/// The part that each event of a batch of so many belongs to, by its place: the number of the part's first delivery.
fn parts_of(division: Division, events: usize, landed: &[Landed]) -> Vec<u64> {
    let mut parts = vec![0; events];
    for part in division.parts(events) {
        let first = landed.iter().find(|one| one.place >= part.start);
        let first = first.map_or(0, |one| one.seq);
        for place in part {
            parts[place] = first;
        }
    }
    parts
}

impl Engine {
    /// Takes what became of a batch.
    pub(super) fn batch_ended(
        &mut self,
        key: DeliveryKey,
        mut end: AttemptEnd,
        stays_open: bool,
    ) -> Result<(), StoreError> {
        let id = key.subscription;
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let plan = Arc::clone(&runner.plan);
        let events = end.events();
        let sent = std::iter::once((key.seq, end.event.clone())).chain(end.others.drain(..));
        let landed = sent.enumerate().filter_map(|(place, (seq, event))| {
            let flight = runner.land_attempt(seq, end.attempt)?;
            Some(Landed {
                place,
                seq,
                event,
                flight,
            })
        });
        let mut landed: Vec<Landed> = landed.collect();
        runner.response_times.note(end.duration);
        let metrics = Arc::clone(&runner.metrics);
        metrics.note_batch(events);
        let floors = &self.settings.retry.floors;
        let met = classify(plan.kind, &end.found.met, &plan.overrides, floors);
        let named = Verdict::Retry {
            outcome: Outcome::GenericError,
            status: end.found.met.status(),
            floor: floors.other,
            retry_after: None,
        };
        let is_accepted = landed.iter().any(|one| end.entries.accepts(one.place));
        let whole = match met {
            Verdict::Success if !is_accepted => named,
            met => met,
        };
        let is_new = landed.iter().any(|one| !one.flight.is_settled);
        if whole == Verdict::Success && is_new {
            metrics.note_processing(end.duration);
        }
        let division = divide(&plan.batch_answers, events, &met);
        let parts = division.map(|division| parts_of(division, events, &landed));
        self.land_batch(id, &mut landed, &whole, division, &end)?;
        let mut settling = Settling::default();
        let mut nexts = Vec::with_capacity(landed.len());
        for one in &landed {
            let verdict = match met {
                Verdict::Success if !end.entries.accepts(one.place) => named,
                met => met,
            };
            if let Some(route) = &end.route {
                let has_failed = verdict != Verdict::Success && parts.is_none();
                self.note_origin(id, one.seq, route.id, has_failed);
            }
            let next = match (&parts, one.flight.progress) {
                _ if one.flight.is_settled => NoteNext::Delivered,
                (Some(parts), Some(progress)) => {
                    let part = parts[one.place];
                    self.divide_one(id, one, progress, part, &mut settling)?
                }
                (_, Some(progress)) => {
                    self.count_one(id, one, &verdict, &end);
                    self.settle_one(id, one, &verdict, progress, &end, &mut settling)?
                }
                (_, None) => NoteNext::Delivered,
            };
            nexts.push((verdict.outcome(), next));
        }
        self.journal_batch(id, settling)?;
        self.close_batch(key, &landed, &nexts, end.attempt, stays_open);
        let kind = match division {
            None => HistoryKind::BatchAttempt(events as u32),
            Some(_) => HistoryKind::BatchDivided(events as u32),
        };
        let status = end.found.met.status();
        let told = landed.iter().zip(&nexts);
        let told = told.map(|(one, (outcome, next))| (one.seq, &one.event, *outcome, *next));
        self.tell_batch(id, &plan, kind, told, end);
        if plan.disable_on_gone && status == GONE {
            self.note_gone(id)?;
        }
        self.look_again(id)
    }

    /// Gives the seat of a batch back, and tells the holds of it: it is one attempt.
    fn land_batch(
        &mut self,
        id: SubscriptionId,
        landed: &mut [Landed],
        whole: &Verdict,
        division: Option<Division>,
        end: &AttemptEnd,
    ) -> Result<(), StoreError> {
        let signal = if end.found.is_our_refusal {
            Signal::Neutral
        } else {
            Signal::of(whole.outcome())
        };
        let keys = landed.iter().filter(|one| !one.flight.is_settled);
        let keys: Vec<_> = keys
            .map(|one| DeliveryKey {
                subscription: id,
                seq: one.seq,
            })
            .collect();
        let mut tickets = None;
        for one in landed {
            self.give_back(one.flight.seat.take(), signal);
            tickets = tickets.or_else(|| one.flight.tickets.take());
        }
        let Some(tickets) = tickets else {
            return Ok(());
        };
        match whole {
            Verdict::Success => self.note_success(id),
            // What comes apart counts as no attempt, and earlier attempts have delivered what is settled.
            _ if division.is_some() || keys.is_empty() => self.give_up(id, tickets),
            _ => {
                let base = retry::floor_base(&self.settings.retry, end.started, end.ended);
                self.note_failure(id, &keys, tickets, whole, base)
            }
        }
    }

    /// A delivery whose batch comes apart is due at once, as if it had not been attempted (ED-221).
    fn divide_one(
        &mut self,
        id: SubscriptionId,
        one: &Landed,
        progress: Progress,
        part: u64,
        settling: &mut Settling,
    ) -> Result<NoteNext, StoreError> {
        let key = DeliveryKey {
            subscription: id,
            seq: one.seq,
        };
        if self.is_purged(id, one.seq) {
            self.journal_purged(key, IN_FLIGHT)?;
            return Ok(NoteNext::Purged);
        }
        let due = self.now();
        settling.divided.push(DividedDelivery {
            seq: one.seq,
            due,
            progress: without_attempt(progress, &one.event),
            part,
        });
        Ok(NoteNext::Due(due))
    }

    fn count_one(&self, id: SubscriptionId, one: &Landed, verdict: &Verdict, end: &AttemptEnd) {
        let Some(runner) = self.runners.get(&id) else {
            return;
        };
        if let Some(outcome) = verdict.outcome() {
            runner.metrics.note_failed(outcome, end.found.met.status());
            return;
        }
        let since_published = end.ended.since(one.event.published);
        runner
            .metrics
            .note_delivered_in_batch(since_published, end.attempt);
    }

    /// What the verdict means for one delivery, which follows its own schedule (ED-219).
    fn settle_one(
        &mut self,
        id: SubscriptionId,
        one: &Landed,
        verdict: &Verdict,
        progress: Progress,
        end: &AttemptEnd,
        settling: &mut Settling,
    ) -> Result<NoteNext, StoreError> {
        let key = DeliveryKey {
            subscription: id,
            seq: one.seq,
        };
        let Some((next, progress)) = self.after_verdict(key, verdict, progress, end.ended) else {
            settling.delivered.push((one.seq, IN_FLIGHT));
            return Ok(NoteNext::Delivered);
        };
        match next {
            retry::Next::Due(due) if !self.is_purged(id, one.seq) => {
                settling.failed.push(FailedDelivery {
                    seq: one.seq,
                    due,
                    progress,
                });
                Ok(NoteNext::Due(due))
            }
            next => self.journal_failed(key, next, progress, end.ended, &one.event),
        }
    }

    fn journal_batch(&mut self, id: SubscriptionId, settling: Settling) -> Result<(), StoreError> {
        self.journal_delivered(id, settling.delivered, SettledHow::Delivered)?;
        for deliveries in settling.failed.chunks(PER_RECORD) {
            self.store.journal(Record::Failed(Failed {
                subscription: id,
                deliveries: deliveries.to_vec(),
            }))?;
        }
        for deliveries in settling.divided.chunks(PER_RECORD) {
            self.store.journal(Record::Divided(Divided {
                subscription: id,
                deliveries: deliveries.to_vec(),
            }))?;
        }
        let moved = settling.failed.iter().map(|one| (one.seq, one.due));
        let apart = settling.divided.iter().map(|one| (one.seq, one.due));
        if let Some(runner) = self.runners.get_mut(&id) {
            for (seq, due) in moved.chain(apart) {
                runner.late.moved_to(seq, due);
            }
        }
        Ok(())
    }

    /// Records that deliveries were accepted.
    pub(super) fn journal_delivered(
        &mut self,
        id: SubscriptionId,
        deliveries: Vec<(u64, Timestamp)>,
        how: SettledHow,
    ) -> Result<(), StoreError> {
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.unsettled_successes += deliveries.len() as u64;
            for (seq, _) in &deliveries {
                runner.late.end(*seq);
            }
        }
        let settled = |deliveries| {
            Record::Settled(Settled {
                subscription: id,
                deliveries,
                how,
            })
        };
        match deliveries.len() {
            0 => Ok(()),
            1..=PER_RECORD => self.store.journal(settled(deliveries)),
            _ => {
                for deliveries in deliveries.chunks(PER_RECORD) {
                    self.store.journal(settled(deliveries.to_vec()))?;
                }
                Ok(())
            }
        }
    }

    /// Keeps the exchange of a batch open that has timed out, if it may deliver something.
    fn close_batch(
        &mut self,
        key: DeliveryKey,
        landed: &[Landed],
        nexts: &[(Option<Outcome>, NoteNext)],
        attempt: u16,
        stays_open: bool,
    ) {
        if !stays_open {
            return;
        }
        let rows = landed
            .iter()
            .zip(nexts)
            .filter_map(|(one, (_, next))| match next {
                NoteNext::Due(due) => Some((*due, one.seq)),
                _ => None,
            });
        let rows: Vec<_> = rows.collect();
        let Some(first) = landed.first() else {
            return;
        };
        if rows.is_empty() {
            // Every delivery is final: nobody waits for a late success.
            first.flight.abort.abort();
        } else {
            self.keep_open(key, attempt, &first.flight, &rows);
        }
    }

    /// Tells the log, observers and the history of each event.
    fn tell_batch<'e>(
        &self,
        id: SubscriptionId,
        plan: &Arc<Plan>,
        kind: HistoryKind,
        events: impl Iterator<Item = (u64, &'e StoredEvent, Option<Outcome>, NoteNext)>,
        mut end: AttemptEnd,
    ) {
        let Some(runner) = self.runners.get(&id) else {
            return;
        };
        let history = self.context.history.as_ref();
        let by = end.record_to.take();
        let mut all: Option<AllWaiting> = None;
        let mut left = kind.batch_events().unwrap_or(1) as usize;
        for (seq, event, outcome, next) in events {
            left = left.saturating_sub(1);
            let key = DeliveryKey {
                subscription: id,
                seq,
            };
            let mut note = AttemptNote::of_attempt(plan, &end, event, outcome, next);
            note.batch_events = kind.batch_events();
            note.is_late = matches!(
                kind,
                HistoryKind::LateSuccess | HistoryKind::BatchLateSuccess(_)
            );
            if end.found.met.is_success() && outcome.is_some() {
                note.detail = end.entries.reason();
            }
            let line = self.line(plan, key, &note, event);
            self.notify(&note);
            let circumstances = Circumstances::of_batch(kind, key, event.published, end.started);
            let waiting = remember::waiting(history.is_some(), runner, note, line, &circumstances);
            match &mut all {
                None => all = Some(AllWaiting::of(waiting)),
                Some(all) => all.with(waiting, left),
            }
        }
        if let Some(all) = all {
            remember::hand_on(history, all, by);
        }
    }

    /// A success that came after its timeout (ED-178): of a batch it settles the whole. Retries that are in flight are left to
    /// finish; their results decide nothing.
    pub(super) fn late_success(
        &mut self,
        key: DeliveryKey,
        mut end: AttemptEnd,
    ) -> Result<(), StoreError> {
        let id = key.subscription;
        self.put_gathering_back(id);
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let plan = Arc::clone(&runner.plan);
        let others = std::mem::take(&mut end.others);
        let mut sent: HashMap<u64, (usize, StoredEvent)> = HashMap::new();
        let events = std::iter::once((key.seq, end.event.clone())).chain(others);
        for (place, (seq, event)) in events.enumerate() {
            sent.insert(seq, (place, event));
        }
        let events = sent.len();
        let rows = runner.settle_late((key.seq, end.attempt), |seq| {
            let place = sent.get(&seq).map(|(place, _)| *place);
            place.is_some_and(|place| end.entries.accepts(place))
        });
        if rows.is_empty() {
            return self.look_again(id);
        }
        runner.metrics.note_processing(end.duration);
        let settled = rows.iter().filter_map(|(_, seq)| {
            let (_, event) = sent.remove(seq)?;
            let since_published = end.ended.since(event.published);
            runner
                .metrics
                .note_delivered_in_batch(since_published, end.attempt);
            Some((*seq, event))
        });
        let settled: Vec<_> = settled.collect();
        let deliveries = rows.into_iter().map(|(row, seq)| (seq, row)).collect();
        self.journal_delivered(id, deliveries, SettledHow::DeliveredLate)?;
        self.note_success(id)?;
        let kind = match plan.batch {
            None => HistoryKind::LateSuccess,
            Some(_) => HistoryKind::BatchLateSuccess(events as u32),
        };
        let told = settled
            .iter()
            .map(|(seq, event)| (*seq, event, None, NoteNext::Delivered));
        self.tell_batch(id, &plan, kind, told, end);
        self.look_again(id)
    }

    pub(super) fn observe_divided(&mut self, divided: &Divided) -> Result<(), StoreError> {
        let id = divided.subscription;
        let purges = &self.purges;
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        for delivery in &divided.deliveries {
            if self.view.is_open(id, delivery.seq) && !purges.has(id, delivery.seq) {
                let owed = hedgerow_store::record::Owed::Apart(delivery.progress, delivery.part);
                runner.note_due(delivery.due, delivery.seq, owed);
            }
        }
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }
}
