//! Purges: everything that is pending for a subscription is dropped, because an operator asked for it.
//!
//! A purge is a catalog change, and its place in the log says what it drops: all that was published before. From there on none
//! of that is attempted any more, whatever crashes. The rest is done bit by bit, however much it is:
//!
//! | what was pending | is dropped |
//! | --- | --- |
//! | not read yet | by the change itself: the cursor stands behind it from there on |
//! | waiting in memory for its first attempt | the same; counted by the first PURGED record |
//! | waiting for another attempt, held or not | row by row, in PURGED records |
//! | in flight | by its end: a success settles it, a failure drops it |
//! | a dead letter that waits to be written | not: its delivery was given up before |
//!
//! ```text
//!            first PURGED record is durable      no rows left        nothing in flight      the change is durable
//!  Settling ────────────────────────────▶ Dropping ───────────▶ Landing ───────────▶ Ending ──────────────────▶ gone
//! ```
//!
//! Until the first PURGED record comes back, others that were queued before may still move rows.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::retry::DeliveryKey;
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::{Catalog, Change, Subscription};
use hedgerow_store::history::{HistoryKind, HistoryNext, HistoryRecord};
use hedgerow_store::record::{Progress, Purged, Record};
use hedgerow_store::view::BEHIND_IN_FLIGHT;

use super::declarations::reply;
use super::room::ROOM_AGAIN_AFTER;
use super::{Engine, Phase};
use crate::command::{Answer, CommandError, PurgeReport};
use crate::note::event_id;
use crate::runner::DueKey;

/// Rows of the due index that one turn looks at, at most, for all purges together.
const ROWS_PER_TURN: usize = 4_096;
/// Rows of one PURGED record.
const ROWS_PER_RECORD: usize = 512;
/// PURGED records of one purge that may wait to be durable.
const RECORDS_QUEUED_MAX: usize = 64;
/// Deliveries of one purge whose ends are told to the history: their events are read for that. What became of the others is
/// known from the purge itself.
const REMEMBERED_MAX: usize = 10_000;

/// Purges that are under way.
pub(super) struct Purges {
    jobs: BTreeMap<SubscriptionId, Purge>,
    /// The one whose rows were looked at last.
    last: SubscriptionId,
    /// Who asked for the change that is on its way.
    asked: HashMap<SubscriptionId, Answer<PurgeReport>>,
}

struct Purge {
    /// Up to which event, exclusive.
    to_seq: u64,
    step: Step,
    /// PURGED records that are not durable yet.
    queued: usize,
    report: PurgeReport,
    /// Ends that were told to the history.
    remembered: usize,
    answers: Vec<Answer<PurgeReport>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Settling,
    /// Rows behind this one are looked at next.
    Dropping(DueKey),
    Landing,
    Ending,
}

impl Default for Purges {
    fn default() -> Self {
        Self {
            jobs: BTreeMap::new(),
            last: SubscriptionId(0),
            asked: HashMap::new(),
        }
    }
}

impl Purges {
    /// Whether a purge under way drops this delivery.
    pub(super) fn has(&self, id: SubscriptionId, seq: u64) -> bool {
        self.jobs.get(&id).is_some_and(|purge| seq < purge.to_seq)
    }

    /// The subscription is not purged any more, or is gone.
    pub(super) fn forget(&mut self, id: SubscriptionId) {
        let purge = self.jobs.remove(&id);
        for answer in purge.into_iter().flat_map(|purge| purge.answers) {
            reply(answer, Err(gone(id)));
        }
    }

    /// The same for all that are gone.
    pub(super) fn forget_gone(&mut self, catalog: &Catalog) {
        let gone = self.jobs.keys().copied();
        let gone: Vec<_> = gone
            .filter(|id| catalog.subscription(*id).is_none())
            .collect();
        for id in gone {
            self.forget(id);
        }
    }

    /// Whether the subscription is being purged.
    pub(super) fn is_under_way(&self, id: SubscriptionId) -> bool {
        self.jobs.contains_key(&id)
    }

    /// Whether everything is dropped, so that it may be said in the log.
    pub(super) fn is_over(&self, id: SubscriptionId) -> bool {
        self.jobs
            .get(&id)
            .is_some_and(|purge| purge.step == Step::Ending)
    }
}

impl Engine {
    /// Whether a purge under way drops this delivery.
    pub(super) fn is_purged(&self, id: SubscriptionId, seq: u64) -> bool {
        self.purges.has(id, seq)
    }

    /// The change that begins a purge.
    pub(super) fn purge_of(
        &mut self,
        subscription: &Subscription,
        answer: Answer<PurgeReport>,
    ) -> Change {
        let (id, topic) = (subscription.id, subscription.topic);
        self.purges.asked.insert(id, answer);
        let head = self.readers.get(&topic).map(|reader| reader.head);
        let from_seq = match (self.runners.get(&id), head) {
            (Some(runner), Some(head)) => runner.cursor(head),
            _ => self.view.cursor(id),
        };
        let at = self.now();
        Change::SubscriptionPurged { id, from_seq, at }
    }

    /// A purge holds from here on in the log.
    pub(super) fn begin_purge(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let answer = self.purges.asked.remove(&id);
        let found = self.view.catalog().subscription(id);
        let (Some(to_seq), Some(topic)) = (
            found.and_then(Subscription::purging_to),
            found.map(|found| found.topic),
        ) else {
            return Ok(());
        };
        self.put_gathering_back(id);
        let mut unbegun = Vec::new();
        let mut skipped = 0;
        if let Some(runner) = self.runners.get_mut(&id) {
            unbegun = runner.purge(to_seq);
            runner.metrics.note_purged(unbegun.len() as u64);
            // The reader has seen all that was published before.
            skipped = runner
                .behind_at
                .take()
                .map_or(0, |at| to_seq.saturating_sub(at));
            if skipped > 0 {
                runner.metrics.note_skipped(to_seq);
            }
        }
        if let Some(reader) = self.readers.get_mut(&topic) {
            reader.behind.remove(&id);
        }
        self.moved.insert(topic);
        let count = unbegun.len() as u64;
        let report = PurgeReport {
            dropped: count,
            skipped,
            in_flight: 0,
        };
        self.start_purge(id, to_seq, report, answer)?;
        let unbegun: Vec<_> = unbegun.into_iter().map(|seq| (seq, None)).collect();
        self.remember_purged(id, unbegun);
        // What was being gathered stands in line again.
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }

    /// Goes on with a purge that was under way when the server ended.
    pub(super) fn take_up_purge(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let found = self.view.catalog().subscription(id);
        match found.and_then(Subscription::purging_to) {
            Some(to_seq) => self.start_purge(id, to_seq, PurgeReport::default(), None),
            None => Ok(()),
        }
    }

    /// Writes the first PURGED record. One that is under way is taken over, with who waits for it.
    fn start_purge(
        &mut self,
        id: SubscriptionId,
        to_seq: u64,
        report: PurgeReport,
        answer: Option<Answer<PurgeReport>>,
    ) -> Result<(), StoreError> {
        let purge = self.purges.jobs.entry(id).or_insert_with(|| Purge {
            to_seq,
            step: Step::Settling,
            queued: 0,
            report: PurgeReport::default(),
            remembered: 0,
            answers: Vec::new(),
        });
        if purge.answers.is_empty() {
            // Nobody waits for what a former one dropped.
            purge.report = PurgeReport::default();
        }
        purge.to_seq = to_seq;
        purge.step = Step::Settling;
        purge.report.dropped += report.dropped;
        purge.report.skipped += report.skipped;
        purge.answers.extend(answer);
        self.journal_purge(id, report.dropped, Vec::new())
    }

    fn journal_purge(
        &mut self,
        id: SubscriptionId,
        unbegun: u64,
        deliveries: Vec<(u64, Timestamp)>,
    ) -> Result<(), StoreError> {
        if let Some(purge) = self.purges.jobs.get_mut(&id) {
            purge.queued += 1;
        }
        self.store.journal(Record::Purged(Purged {
            subscription: id,
            unbegun,
            deliveries,
        }))
    }

    /// Drops a delivery whose attempt ended, and would have been followed by another one.
    pub(super) fn journal_purged(
        &mut self,
        key: DeliveryKey,
        row: Timestamp,
    ) -> Result<(), StoreError> {
        let id = key.subscription;
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.late.end(key.seq);
            runner.metrics.note_purged(1);
        }
        self.journal_purge(id, 0, vec![(key.seq, row)])
    }

    /// Drops a delivery that was to be ended, and whose event was forgotten since the purge.
    pub(super) fn drop_forgotten(
        &mut self,
        key: DeliveryKey,
        row: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        if let Some(row) = row {
            return self.journal_purged(key, row);
        }
        if let Some(runner) = self.runners.get(&key.subscription) {
            runner.metrics.note_purged(1);
        }
        self.journal_purge(key.subscription, 1, Vec::new())
    }

    pub(super) fn observe_purged(&mut self, purged: &Purged) {
        if let Some(purge) = self.purges.jobs.get_mut(&purged.subscription) {
            // Those of another engine's were folded before this one began.
            purge.queued = purge.queued.saturating_sub(1);
        }
    }

    /// Does a part of what is under way. Returns whether there is more to do at once.
    pub(super) fn go_on_purging(&mut self) -> Result<bool, StoreError> {
        if self.phase == Phase::Stopping || self.purges.jobs.is_empty() {
            return Ok(false);
        }
        let mut has_more = false;
        let mut rows_left = ROWS_PER_TURN;
        // They take turns: whoever had rows last is behind all others.
        let last = self.purges.last;
        let jobs = &self.purges.jobs;
        let behind = jobs.range((Excluded(last), Unbounded));
        let all = behind.chain(jobs.range(..=last));
        let ids: Vec<_> = all.map(|(id, _)| *id).collect();
        for id in ids {
            has_more |= self.go_on_with(id, &mut rows_left)?;
        }
        Ok(has_more)
    }

    fn go_on_with(
        &mut self,
        id: SubscriptionId,
        rows_left: &mut usize,
    ) -> Result<bool, StoreError> {
        let Some(purge) = self.purges.jobs.get_mut(&id) else {
            return Ok(false);
        };
        match purge.step {
            Step::Settling if purge.queued == 0 => {
                purge.step = Step::Dropping(BEHIND_IN_FLIGHT);
                Ok(true)
            }
            Step::Dropping(after) if purge.queued < RECORDS_QUEUED_MAX => {
                if *rows_left == 0 {
                    return Ok(true);
                }
                self.purges.last = id;
                self.drop_rows(id, after, rows_left)
            }
            Step::Landing if purge.queued == 0 => {
                self.land_purge(id)?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// Drops some rows of the due index.
    fn drop_rows(
        &mut self,
        id: SubscriptionId,
        after: DueKey,
        rows_left: &mut usize,
    ) -> Result<bool, StoreError> {
        let count = self.room_for_rows().min(*rows_left);
        if count == 0 {
            self.wakes.insert((self.now().plus(ROOM_AGAIN_AFTER), id));
            return Ok(false);
        }
        let rows = self.view.due(id, after, Timestamp::MAX, count)?;
        *rows_left -= rows.len();
        let next = match rows.last() {
            Some(last) if rows.len() == count => Step::Dropping((last.due, last.seq)),
            _ => Step::Landing,
        };
        let mut dropped = Vec::new();
        let mut told = Vec::new();
        let mut runner = self.runners.get_mut(&id);
        for row in rows {
            let Some(progress) = row.attempt() else {
                continue;
            };
            let is_in_flight = runner.as_ref().is_some_and(|one| one.is_in_flight(row.seq));
            if !self.purges.has(id, row.seq) || is_in_flight || !self.view.is_open(id, row.seq) {
                continue;
            }
            if let Some(runner) = &mut runner {
                runner.late.end(row.seq);
            }
            dropped.push((row.seq, row.due));
            told.push((row.seq, Some(progress)));
        }
        if let Some(runner) = runner {
            runner.metrics.note_purged(dropped.len() as u64);
        }
        for deliveries in dropped.chunks(ROWS_PER_RECORD) {
            self.journal_purge(id, 0, deliveries.to_vec())?;
        }
        self.remember_purged(id, told);
        if let Some(purge) = self.purges.jobs.get_mut(&id) {
            purge.report.dropped += dropped.len() as u64;
            purge.step = next;
        }
        Ok(true)
    }

    /// Everything that waited is dropped, durably: answers, and says that it is over once nothing is in flight.
    fn land_purge(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let runner = self.runners.get(&id);
        let Some(purge) = self.purges.jobs.get_mut(&id) else {
            return Ok(());
        };
        let to_seq = purge.to_seq;
        // All are counted for those who are told; then it is enough that there is one.
        let counted_max = if purge.answers.is_empty() {
            1
        } else {
            usize::MAX
        };
        let in_flight = runner.map_or(0, |runner| {
            let purged = runner.flight_seqs().filter(|seq| *seq < to_seq);
            purged.take(counted_max).count()
        });
        let report = PurgeReport {
            in_flight: in_flight as u64,
            ..purge.report
        };
        for answer in purge.answers.drain(..) {
            reply(answer, Ok(report));
        }
        if in_flight == 0 {
            purge.step = Step::Ending;
            self.note_end_of_purge(id)?;
        }
        Ok(())
    }

    /// Tells the history what was dropped, as far as it is not too much. Their events are read for that, by a task; one that
    /// is forgotten by then stays untold.
    fn remember_purged(&mut self, id: SubscriptionId, told: Vec<(u64, Option<Progress>)>) {
        let (Some(history), Some(runner), Some(purge)) = (
            &self.context.history,
            self.runners.get(&id),
            self.purges.jobs.get_mut(&id),
        ) else {
            return;
        };
        let count = told.len().min(REMEMBERED_MAX - purge.remembered);
        purge.remembered += count;
        if count == 0 {
            return;
        }
        let (plan, topic, at) = (Arc::clone(&runner.plan), runner.topic, self.turn.timestamp);
        let (store, history) = (Arc::clone(&self.store), history.clone());
        self.spawner.spawn_blocking(move || {
            for (seq, progress) in told.into_iter().take(count) {
                let position = Position { topic, seq };
                let event = store.read_recent(position);
                let Some(event) = event.or_else(|| store.read(position).ok()) else {
                    continue;
                };
                history.record(HistoryRecord {
                    kind: HistoryKind::EndWithoutAttempt,
                    event_id: event_id(&event),
                    topic,
                    topic_name: plan.topic_name.clone(),
                    subscription: id,
                    subscription_name: plan.subscription_name.clone(),
                    seq,
                    attempt: 0,
                    published: event.published,
                    started: progress.map_or(at, |progress| progress.last_attempt),
                    ended: at,
                    latency: Duration::ZERO,
                    outcome: None,
                    status: 0,
                    detail: None,
                    excerpt: None,
                    to: None,
                    next: HistoryNext::Purged,
                });
            }
        });
    }
}

fn gone(id: SubscriptionId) -> CommandError {
    CommandError::NotFound {
        what: "event subscription",
        name: format!("number {}", id.0),
    }
}
