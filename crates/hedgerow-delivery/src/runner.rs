//! What is known about the deliveries of one subscription between two looks at the clock: which wait for their first
//! attempt, which are due soon, which are in flight, which exchanges are open late.
//!
//! Decides which delivery is next. Does not read the log, write records or speak HTTP; [`crate::engine`] does. Holds
//! positions, never bytes (design D6).
//!
//! ```text
//!            offer                next                    report
//!  (log) ----------> waiting ----------------> in flight ----------> settled, or dead
//!                                 ^                 |
//!                                 |                 | failed; the record became durable
//!                                due <--------------+        (ED-207: only then is it put here)
//!                                 ^
//!                                 | refill from the view's due index, up to the horizon
//! ```

mod gathering;
mod order;
mod rows;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use hedgerow_core::hold::{DueOrder, Probation};
use hedgerow_core::outcome::Outcome;
use hedgerow_core::pace::StartPace;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::{IN_FLIGHT, Progress};
use hedgerow_store::view::BEHIND_IN_FLIGHT;
use tokio::task::AbortHandle;

pub(crate) use self::gathering::Gathering;
use crate::endpoints::Seat;
use crate::expiries::Expiries;
use crate::late::{ExchangeId, LateExchanges};
use crate::letters::{LETTERS_MAX, Letters};
use crate::metrics::SubscriptionMetrics;
use crate::origins::{LastFailed, NoOrigin};
use crate::plan::Plan;
use crate::response_times::ResponseTimes;
use crate::windows::Tickets;

/// Deliveries of one subscription that wait in memory for their first attempt. Beyond it the subscription falls behind
/// the reader and is read for from its own cursor.
pub(crate) const WAITING_MAX: usize = 4096;
/// What waits counts as little if no more than one of so many events is wanted, of so many at least.
const SPARSE_AMONG: u64 = 4;
const SPARSE_FROM: u64 = 256;
/// Rows of the due index of one subscription that are held in memory after a refill; up to twice as many before the
/// latest ones are let go again.
pub(crate) const DUE_ROWS_MAX: usize = 8192;

/// A place in the due index of one subscription.
pub(crate) type DueKey = (Timestamp, u64);

/// The deliveries of one subscription.
pub(crate) struct Runner {
    pub(crate) id: SubscriptionId,
    pub(crate) topic: TopicId,
    /// Read at the time of each attempt.
    pub(crate) plan: Arc<Plan>,
    /// What is counted of it.
    pub(crate) metrics: Arc<SubscriptionMetrics>,
    /// The first event that was not offered yet, of a subscription that stands before the reader; `None` at the reader, whose
    /// place is its place.
    pub(crate) behind_at: Option<u64>,
    waiting: VecDeque<Waiting>,
    due: BTreeMap<DueKey, Progress>,
    /// Rows of the due index that were held, and are due now at another time than they stand under.
    ready: BTreeMap<DueOrder, (Timestamp, Progress)>,
    /// Its probation.
    pub(crate) probation: Probation,
    /// The end of the newest hold.
    pub(crate) held: Held,
    pub(crate) letters: Letters,
    /// What expires next, while the subscription is paused.
    pub(crate) expiries: Option<Expiries>,
    /// Deliveries of batches that came apart, and the parts that they belong to.
    parts: HashMap<u64, u64>,
    /// What is known beside if its events are ordered.
    pub(crate) order: Option<Box<order::Order>>,
    /// Which origin of its group failed last for which event.
    pub(crate) last_failed: LastFailed,
    /// Why nothing can be sent to its group, if that was said.
    pub(crate) no_origin: Option<NoOrigin>,
    /// The batches that are being made.
    pub(crate) gathering: Option<Gathering>,
    /// How long its batches took to be answered.
    pub(crate) response_times: ResponseTimes,
    /// How often batches were begun to be made, and the bytes of the body that was made last.
    pub(crate) gathered: u64,
    pub(crate) body_bytes: usize,
    /// Every row of the due index up to here is in `due` or `letters`; rows behind it are only in the view.
    horizon: DueKey,
    flights: HashMap<u64, Flight>,
    /// Deliveries that end without having been attempted, while their events are read. Nothing behind them is attempted for
    /// the first time before they have ended: the cursor passes events in their order.
    unbegun: BTreeSet<u64>,
    /// Exchanges that are open after their timeout.
    pub(crate) late: LateExchanges,
    /// Successes whose record is not durable yet: what a crash would send again.
    pub(crate) unsettled_successes: u64,
    /// Whether it stands in the queue of its endpoint.
    pub(crate) is_queued: bool,
    /// No attempt starts before: the endpoint takes only so many a minute (ED-167).
    pub(crate) not_before: Timestamp,
    /// Whether people were told that its endpoint does not take its credentials, since it took them last.
    pub(crate) is_unauthorized: bool,
    /// The pace that it asks for itself, if it does.
    pace: Option<StartPace>,
    /// Whether it stands in the queue of those with something to end.
    pub(crate) is_ending: bool,
    /// Deliveries whose events are read for their end, which nobody waits for.
    pub(crate) ending: usize,
}

/// The end of the newest hold: what became due before it was held until then.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) until: Timestamp,
    /// What is remembered of it for a delivery that ends without a further attempt; nothing of a pause.
    pub(crate) outcome: Option<Outcome>,
    /// Whether its end was written down, since it has ended otherwise than by its time.
    pub(crate) is_noted: bool,
}

/// A delivery that was never attempted.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    seq: u64,
    published: Timestamp,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Standing {
    /// It was not begun: its event was not offered yet, or it waits for its first attempt.
    NotBegun,
    /// Its attempt runs, or its event is read to end it without one.
    InFlight {
        /// Whether it is an attempt.
        is_attempt: bool,
        /// With this attempt counted.
        progress: Option<Progress>,
    },
    /// Its next attempt is due at this time.
    Due(Timestamp, Progress),
}

/// What is next for a subscription.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Next {
    pub(crate) seq: u64,
    /// P of ED-203.
    pub(crate) published: Timestamp,
    /// When it became due.
    pub(crate) due: Timestamp,
    /// The row it stands under in the due index; `None` before the first attempt.
    pub(crate) row: Option<Timestamp>,
    /// The attempts so far; `None` before the first.
    pub(crate) progress: Option<Progress>,
}

impl Next {
    /// Attempts so far.
    pub(crate) fn attempts(&self) -> u16 {
        self.progress.map_or(0, |progress| progress.attempts)
    }

    pub(crate) fn order(&self) -> DueOrder {
        DueOrder {
            due: self.due,
            published: self.published,
            seq: self.seq,
        }
    }
}

/// An attempt, or the reading of an event that has expired.
pub(crate) struct Flight {
    /// Whether it is an attempt.
    pub(crate) is_attempt: bool,
    /// What it carries for the holds; only attempts do.
    pub(crate) tickets: Option<Tickets>,
    /// Whether it is one of those that end at a pace.
    pub(crate) is_paced: bool,
    /// Its leave; an event that is read because of a crash has none.
    pub(crate) seat: Option<Seat>,
    /// With this attempt counted; `None` if the delivery ends without one.
    pub(crate) progress: Option<Progress>,
    /// The row it stands under in the view once its start is folded: [`IN_FLIGHT`], or the due time of a delivery that
    /// is being ended without another attempt; `None` if it was never begun.
    pub(crate) row: Option<Timestamp>,
    /// An earlier exchange of the same delivery succeeded late: this one's result decides nothing.
    pub(crate) is_settled: bool,
    /// One of these exists for each event of a batch but the first.
    pub(crate) _beside: Option<Arc<()>>,
    /// Ends the attempt's task.
    pub(crate) abort: AbortHandle,
}

impl Runner {
    pub(crate) fn new(
        id: SubscriptionId,
        topic: TopicId,
        plan: Arc<Plan>,
        metrics: Arc<SubscriptionMetrics>,
        behind_at: Option<u64>,
    ) -> Self {
        let pace = plan.limits.max_requests_per_second.map(StartPace::new);
        Self {
            id,
            topic,
            plan,
            metrics,
            behind_at,
            waiting: VecDeque::new(),
            due: BTreeMap::new(),
            ready: BTreeMap::new(),
            probation: Probation::default(),
            held: Held::default(),
            letters: Letters::default(),
            expiries: None,
            parts: HashMap::default(),
            order: None,
            last_failed: LastFailed::default(),
            no_origin: None,
            gathering: None,
            response_times: ResponseTimes::default(),
            gathered: 0,
            body_bytes: 0,
            horizon: BEHIND_IN_FLIGHT,
            flights: HashMap::default(),
            unbegun: BTreeSet::new(),
            late: LateExchanges::default(),
            unsettled_successes: 0,
            is_queued: false,
            not_before: Timestamp::ZERO,
            is_unauthorized: false,
            pace,
            is_ending: false,
            ending: 0,
        }
    }

    /// An attempt starts, and the next one when the endpoint and its own limit let it.
    pub(crate) fn note_start(&mut self, now: Timestamp) {
        if let Some(interval) = self.plan.start_interval {
            self.not_before = now.plus(interval);
        }
        if let Some(pace) = &mut self.pace {
            self.not_before = self.not_before.max(pace.start(now));
        }
    }

    /// What was started before is not known: it may be as much as the limits allow.
    pub(crate) fn follow_unknown_starts(&mut self, began: Timestamp) {
        let own = self.pace.map(|_| Duration::from_secs(1));
        if let Some(interval) = self.plan.start_interval.max(own) {
            self.not_before = began.plus(interval);
        }
    }

    /// Takes over a changed limit, beginning with the next attempt.
    pub(crate) fn follow_pace(&mut self) {
        let limit = self.plan.limits.max_requests_per_second;
        if limit != self.pace.map(|pace| pace.per_second()) {
            self.pace = limit.map(StartPace::new);
        }
    }

    /// Whether another delivery may wait in memory.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    /// Whether so little waits that reading on is worth while.
    pub(crate) fn wants_more(&self) -> bool {
        self.waiting.len() <= WAITING_MAX / 2
    }

    /// Takes a delivery that the filter wants.
    pub(crate) fn offer(&mut self, seq: u64, published: Timestamp) {
        self.metrics.note_match(seq);
        self.waiting.push_back(Waiting { seq, published });
    }

    /// Takes the deliveries that wait for their first attempt, if they are few among the events that the log has to keep for
    /// their sake. `head` is the reader's place.
    pub(crate) fn take_sparse(&mut self, head: u64) -> Vec<(u64, Timestamp)> {
        let Some(first) = self.waiting.front() else {
            return Vec::new();
        };
        let kept = self.behind_at.unwrap_or(head).saturating_sub(first.seq);
        let wanted = self.waiting.len() as u64;
        if kept < SPARSE_FROM || kept / wanted < SPARSE_AMONG {
            return Vec::new();
        }
        let taken = self.waiting.drain(..);
        let taken: Vec<_> = taken.map(|one| (one.seq, one.published)).collect();
        self.note_begun(&taken);
        taken
    }

    /// The first event that was not attempted yet and may have to be, given the reader's place.
    pub(crate) fn cursor(&self, head: u64) -> u64 {
        let first = self.waiting.front().map(|waiting| waiting.seq);
        let first = first.or(self.behind_at).unwrap_or(head);
        let unbegun = self.unbegun.first().copied();
        let gathering = self.gathering.iter().flat_map(Gathering::unbegun);
        let gathering = gathering.map(|next| next.seq).min();
        let unbegun = unbegun.into_iter().chain(gathering).min();
        unbegun.map_or(first, |unbegun| unbegun.min(first))
    }

    /// The first delivery that may be attempted for the first time, due at the end of the newest hold if it was published
    /// before (ED-228).
    fn first_waiting(&self) -> Option<Next> {
        let may_begin = self.unbegun.is_empty() && self.gathering.is_none();
        let waiting = self.waiting.front().filter(|_| may_begin)?;
        // Ordered ones are begun before they are attempted.
        if self.is_ordered(waiting.seq) {
            return None;
        }
        Some(self.unattempted(*waiting))
    }

    /// When the first delivery that was never attempted may be, in the past or to come.
    pub(crate) fn first_attempt_due(&self) -> Option<Timestamp> {
        self.first_waiting().map(|next| next.due)
    }

    fn unattempted(&self, waiting: Waiting) -> Next {
        let Waiting { seq, published } = waiting;
        Next {
            seq,
            published,
            due: published.max(self.held.until),
            row: None,
            progress: None,
        }
    }

    /// The first delivery in order that is due, if one is.
    pub(crate) fn first_due(&self, now: Timestamp) -> Option<Next> {
        let candidates = [self.first_waiting(), self.first_ready(), self.first_retry()];
        let due = candidates
            .into_iter()
            .flatten()
            .filter(|next| next.due <= now);
        due.min_by_key(Next::order)
    }

    /// The first delivery in order that became due, whatever holds it.
    pub(crate) fn first_held(&self, now: Timestamp) -> Option<Next> {
        let waiting = self.first_waiting().map(|next| Next {
            due: next.published,
            ..next
        });
        let candidates = [waiting, self.first_ready(), self.first_retry()];
        let due = candidates
            .into_iter()
            .flatten()
            .filter(|next| next.due <= now);
        due.min_by_key(Next::order)
    }

    /// When the first delivery in memory is due, in the past or to come.
    pub(crate) fn first_to_come(&self) -> Option<Timestamp> {
        let candidates = [self.first_waiting(), self.first_ready(), self.first_retry()];
        candidates.into_iter().flatten().map(|next| next.due).min()
    }

    fn first_ready(&self) -> Option<Next> {
        self.ready.first_key_value().map(Self::next_ready)
    }

    fn first_retry(&self) -> Option<Next> {
        self.due.first_key_value().map(Self::next_retry)
    }

    fn next_ready((order, (row, progress)): (&DueOrder, &(Timestamp, Progress))) -> Next {
        Next {
            seq: order.seq,
            published: order.published,
            due: order.due,
            row: Some(*row),
            progress: Some(*progress),
        }
    }

    fn next_retry(((due, seq), progress): (&DueKey, &Progress)) -> Next {
        Next {
            seq: *seq,
            published: progress.published,
            due: *due,
            row: Some(*due),
            progress: Some(*progress),
        }
    }

    /// Puts a delivery back that was first of those that wait for their first attempt.
    fn put_first(&mut self, next: &Next) {
        self.waiting.push_front(Waiting {
            seq: next.seq,
            published: next.published,
        });
    }

    /// Takes a delivery that was found to be first.
    pub(crate) fn take(&mut self, next: &Next) {
        match next.row {
            None => {
                debug_assert!(
                    self.waiting
                        .front()
                        .is_some_and(|first| first.seq == next.seq)
                );
                self.waiting.pop_front();
            }
            Some(row) => {
                self.due.remove(&(row, next.seq));
                self.ready.remove(&next.order());
                if let Some(order) = &mut self.order {
                    order.parked.remove(&next.seq);
                    order.ready.remove(&next.seq);
                }
                if let Some(expiries) = &mut self.expiries {
                    expiries.remove(next.published, next.seq);
                    self.drop_ready(row, next.seq);
                }
            }
        }
    }

    /// Begins to look for what expires if the subscription is paused, and ends it if it is not.
    pub(crate) fn follow_pause(&mut self) {
        if !self.plan.is_paused {
            self.expiries = None;
        } else if self.expiries.is_none() {
            self.expiries = Some(Expiries::new());
        }
    }

    /// Takes note of rows that were looked at, up to `last`, or of the rest.
    pub(crate) fn note_expiries(&mut self, rows: Vec<(DueKey, Progress)>, last: Option<DueKey>) {
        let flights = &self.flights;
        if let Some(expiries) = &mut self.expiries {
            // What is in flight is noted when it has failed.
            let waiting = rows
                .into_iter()
                .filter(|(key, _)| !flights.contains_key(&key.1));
            expiries.note_looked_at(waiting, last);
        }
    }

    fn drop_expiry(&mut self, seq: u64) {
        if let Some(expiries) = &mut self.expiries {
            expiries.retain(|other| other != seq);
        }
    }

    /// The delivery that expires first, whenever that is, while the subscription is paused.
    pub(crate) fn first_to_expire(&self) -> Option<Next> {
        let retry = self.expiries.as_ref().and_then(Expiries::first);
        let candidates = [self.first_waiting(), retry].into_iter().flatten();
        candidates.min_by_key(|next| (next.published, next.seq))
    }

    /// Whether the delivery is in flight.
    pub(crate) fn is_in_flight(&self, seq: u64) -> bool {
        self.flights.contains_key(&seq)
    }

    /// Whether no further row of the due index should be held in memory.
    pub(crate) fn is_full(&self) -> bool {
        self.due.len() + self.ready.len() >= DUE_ROWS_MAX || self.letters.len() >= LETTERS_MAX
    }

    /// The first delivery that waits for its first attempt, and when its event was accepted.
    pub(crate) fn oldest_waiting(&self) -> Option<(u64, Timestamp)> {
        let first = self.waiting.front();
        first.map(|waiting| (waiting.seq, waiting.published))
    }

    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Notes that an attempt runs.
    pub(crate) fn take_off(&mut self, seq: u64, flight: Flight) {
        self.ending += usize::from(flight.is_paced);
        if !self.parts.is_empty() {
            self.parts.remove(&seq);
        }
        self.late.moved_to(seq, flight.row.unwrap_or(IN_FLIGHT));
        if flight.row.is_none() {
            self.unbegun.insert(seq);
        }
        self.flights.insert(seq, flight);
    }

    /// The attempt of this delivery ended.
    pub(crate) fn land(&mut self, seq: u64) -> Option<Flight> {
        self.unbegun.remove(&seq);
        let flight = self.flights.remove(&seq);
        if flight.as_ref().is_some_and(|flight| flight.is_paced) {
            self.ending -= 1;
        }
        flight
    }

    /// The attempt of this number ended; `None` if it is not the one that runs, which was ended before.
    pub(crate) fn land_attempt(&mut self, seq: u64, attempt: u16) -> Option<Flight> {
        let Entry::Occupied(flight) = self.flights.entry(seq) else {
            return None;
        };
        let progress = flight.get().progress?;
        (progress.attempts == attempt).then(|| flight.remove())
    }

    /// Everything in flight, for ending it.
    pub(crate) fn land_all(&mut self) -> Vec<(u64, Flight)> {
        self.unbegun.clear();
        self.ending = 0;
        let mut flights: Vec<_> = self.flights.drain().collect();
        flights.sort_unstable_by_key(|(seq, _)| *seq);
        flights
    }

    /// A late exchange succeeded: takes its deliveries off that are not final and that it delivers, and returns the rows they
    /// stand under. Their other late exchanges are ended.
    pub(crate) fn settle_late(
        &mut self,
        exchange: ExchangeId,
        delivers: impl Fn(u64) -> bool,
    ) -> Vec<DueKey> {
        let taken = self.late.take(exchange, delivers);
        for (row, seq) in &taken {
            self.drop_due(*row, *seq);
            if let Some(flight) = self.flights.get_mut(seq) {
                flight.is_settled = true;
            }
        }
        taken
    }

    /// Where a delivery stands that is known here, given the reader's place, and where its row may stand; `None` if it is not,
    /// as when its row is only in the view. Looks through at most `rows_left` rows, and counts them.
    pub(crate) fn standing(
        &self,
        seq: u64,
        head: u64,
        hint: Option<Timestamp>,
        rows_left: &mut usize,
    ) -> Option<Standing> {
        if let Some(flight) = self.flights.get(&seq) {
            return Some(Standing::InFlight {
                is_attempt: flight.is_attempt,
                progress: flight.progress,
            });
        }
        let gathering = self.gathering.as_ref();
        if let Some(next) = gathering.and_then(|gathering| gathering.get(seq)) {
            let standing = next.progress.filter(|_| next.row.is_some());
            return Some(standing.map_or(Standing::NotBegun, |progress| {
                Standing::Due(next.due, progress)
            }));
        }
        let parked = self.order.as_ref().and_then(|order| order.parked.get(&seq));
        if let Some((row, progress)) = parked {
            return Some(Standing::Due(*row, *progress));
        }
        let is_ahead = seq >= self.behind_at.unwrap_or(head);
        // They wait in the order in which they were read.
        let waits = || {
            self.waiting
                .binary_search_by_key(&seq, |one| one.seq)
                .is_ok()
        };
        if is_ahead || waits() {
            return Some(Standing::NotBegun);
        }
        if let Some((at, progress)) = hint.and_then(|at| Some((at, self.due.get(&(at, seq))?))) {
            return Some(Standing::Due(at, *progress));
        }
        let rows = self.due.iter().take(*rows_left);
        let mut looked_at = 0;
        let due = rows
            .inspect(|_| looked_at += 1)
            .find(|(key, _)| key.1 == seq);
        *rows_left -= looked_at;
        due.map(|(key, progress)| Standing::Due(key.0, *progress))
    }

    /// The deliveries in flight, in no order.
    pub(crate) fn flight_seqs(&self) -> impl Iterator<Item = u64> + '_ {
        self.flights.keys().copied()
    }
}
