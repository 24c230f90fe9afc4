//! Which deliveries travel together (ED-211 to ED-220): taken when it is their subscription's turn, made into a body by a task
//! ([`crate::gather`]), and started when that is filled. Where an endpoint takes more than one at a time and nobody else wants to
//! go there, one task makes several bodies, so that one is made while the one before is started.
//!
//! Whatever changes a subscription as a whole first puts back what is being gathered.

use std::sync::Arc;

use hedgerow_core::credit::Signal;
use hedgerow_core::hold::Gate;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::retry::{self, DeliveryKey};
use hedgerow_store::StoreError;
use hedgerow_store::record::{IN_FLIGHT, Progress, Record, Started, StartedDelivery};

use super::attempts::progress_of_start;
use super::batches::PER_RECORD;
use super::{Engine, Phase};
use crate::attempt::Job;
use crate::endpoints::Seat;
use crate::gather::{self, Batch, Gather, Gathered};
use crate::plan::To;
use crate::runner::{Flight, Gathering, Next, Runner, WAITING_MAX};

/// Batches that one task makes at most: enough that waking it costs little beside making them.
const AHEAD_MAX: usize = 8;
/// Deliveries that are taken for more than one batch at most: a quarter of those that wait in memory, so that what has to be put
/// back is soon looked through.
const AHEAD_EVENTS_MAX: usize = WAITING_MAX / 4;

impl Engine {
    /// Lets batches be made of a delivery whose turn it is, which was taken, and of what may travel with it.
    pub(super) fn gather(&mut self, id: SubscriptionId, first: Next, seat: Seat) {
        let now = self.now();
        let room = self.room_for_ends();
        // The lone trial is one event in one request (ED-324).
        let runner = self.runners.get(&id);
        let is_lone = runner.is_none_or(|runner| self.gate(runner) != Gate::Open);
        let batches_max = if is_lone { 1 } else { self.batches_at_once(id) };
        let (stopped, began) = (self.stopped, self.began);
        let runner = self
            .runners
            .get_mut(&id)
            .expect("a delivery was just taken from it");
        let plan = Arc::clone(&runner.plan);
        let limits = plan.batch.expect("its events travel together");
        let count = if is_lone {
            1
        } else {
            let of_one = gather::worth_reading(&plan, &limits);
            let of_all = of_one.saturating_mul(batches_max);
            of_one.max(of_all.min(AHEAD_EVENTS_MAX)).min(room)
        };
        let policy = plan.policy;
        let ends = |next: &Next| {
            let due = retry::after_restart(next.due, stopped, began);
            retry::is_expired(&policy, next.published, due)
        };
        let candidates = runner.take_alike(first, now, count, ends);
        runner.gathered += 1;
        let job = Gather {
            subscription: id,
            topic: runner.topic,
            token: runner.gathered,
            plan,
            limits,
            is_line: candidates
                .first()
                .is_some_and(|first| runner.is_ordered(first.seq)),
            seqs: candidates.iter().map(|next| next.seq).collect(),
            capacity: runner.body_bytes,
            batches_max,
        };
        let token = runner.gathered;
        let task = gather::run(Arc::clone(&self.context), job, self.report_to.clone());
        let abort = self.spawner.spawn(task).abort_handle();
        runner.gathering = Some(Gathering::new(token, candidates, seat, abort));
    }

    /// How many batches of a subscription may be made in a row: as many as may start now, if nobody else wants to.
    fn batches_at_once(&self, id: SubscriptionId) -> usize {
        let Some(runner) = self.runners.get(&id) else {
            return 1;
        };
        let plan = &runner.plan;
        // Those of a key go one behind the other, and what starts at a pace needs no hurry.
        let is_paced =
            plan.start_interval.is_some() || plan.limits.max_requests_per_second.is_some();
        // And each goes to an origin of its own, which is chosen when it is its turn.
        if runner.order.is_some() || is_paced {
            return 1;
        }
        let To::Endpoint { endpoint, .. } = &plan.to else {
            return 1;
        };
        let own = plan.limits.max_concurrency.map_or(usize::MAX, |max| {
            max.get().saturating_sub(self.open_attempts(runner)) as usize
        });
        // This one has its seat.
        let spare = self.endpoints.spare(endpoint, id).min(own);
        AHEAD_MAX.min(1 + spare)
    }

    /// Puts back what is being gathered for a subscription.
    pub(super) fn put_gathering_back(&mut self, id: SubscriptionId) {
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        if let Some(gathering) = runner.gathering.take() {
            gathering.abort.abort();
            let (left, seat) = gathering.into_rest();
            runner.put_back(left);
            self.give_back(seat, Signal::GivenUp);
        }
    }

    /// The same for all.
    pub(super) fn put_all_gatherings_back(&mut self) {
        let gathering = self
            .runners
            .values()
            .filter(|runner| runner.gathering.is_some());
        let mut ids: Vec<_> = gathering.map(|runner| runner.id).collect();
        ids.sort_unstable();
        for id in ids {
            self.put_gathering_back(id);
        }
    }

    /// A body is filled: its deliveries start, unless something has come between.
    pub(super) fn gathered(
        &mut self,
        id: SubscriptionId,
        gathered: Gathered,
    ) -> Result<(), StoreError> {
        let Gathered {
            token,
            batch,
            is_last,
        } = gathered;
        let seqs = batch.seqs();
        let Some(runner) = self.gathering_of(id, token) else {
            return Ok(());
        };
        let may_start = match self.gate(runner) {
            Gate::Open => true,
            Gate::Trial => seqs.len() == 1,
            Gate::OnTrial | Gate::Held(_) => false,
        };
        if !may_start || runner.plan.is_paused || self.phase != Phase::Running {
            self.put_gathering_back(id);
            return self.look_again(id);
        }
        let gathering = runner.gathering.as_ref();
        if gathering.is_some_and(|gathering| gathering.passes_over(&seqs)) {
            self.begin_all(id)?;
            return self.look_again(id);
        }
        let Some(seat) = self.take_seat_for_batch(id, seqs[0]) else {
            self.put_gathering_back(id);
            return self.look_again(id);
        };
        if let Some(runner) = self.runners.get_mut(&id)
            && let Some(mut gathering) = runner.gathering.take()
        {
            let started = gathering.take(&seqs);
            if is_last {
                let (left, _) = gathering.into_rest();
                runner.put_back(left);
            } else {
                runner.gathering = Some(gathering);
            }
            runner.body_bytes = batch.body_bytes();
            self.start_batch(id, &started, seat, batch)?;
        }
        self.look_again(id)
    }

    /// The seat of a batch that begins with this delivery: the one that was given to the first, or another one.
    fn take_seat_for_batch(&mut self, id: SubscriptionId, first: u64) -> Option<Seat> {
        let gathering = self.runners.get_mut(&id)?.gathering.as_mut()?;
        if let Some(seat) = gathering.seat.take() {
            return Some(seat);
        }
        let first = *gathering.get(first)?;
        self.take_seat_for_next(id, &first)
    }

    /// Some that were never begun do not travel with those behind them. The cursor passes events in their order, so a crash
    /// would forget them: all are begun before any of them starts, and come back as due.
    fn begin_all(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let Some(gathering) = runner.gathering.take() else {
            return Ok(());
        };
        gathering.abort.abort();
        let (all, seat) = gathering.into_rest();
        let (unbegun, rows): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|next| next.row.is_none());
        let mut events: Vec<_> = unbegun
            .iter()
            .map(|next| (next.seq, next.published))
            .collect();
        events.sort_unstable();
        runner.put_back(rows);
        self.moved.insert(runner.topic);
        self.give_back(seat, Signal::GivenUp);
        self.begin(id, &events)
    }

    fn gathering_of(&self, id: SubscriptionId, token: u64) -> Option<&Runner> {
        let runner = self.runners.get(&id)?;
        let gathering = runner.gathering.as_ref()?;
        (gathering.token == token).then_some(runner)
    }

    fn start_batch(
        &mut self,
        id: SubscriptionId,
        starting: &[Next],
        seat: Seat,
        batch: Batch,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut tickets = self.tickets(id);
        let progress: Vec<Progress> = starting
            .iter()
            .map(|next| progress_of_start(next, now.timestamp))
            .collect();
        let mut deliveries: Vec<StartedDelivery> = starting
            .iter()
            .zip(&progress)
            .map(|(next, progress)| StartedDelivery {
                seq: next.seq,
                replaces_due: next.row,
                progress: *progress,
            })
            .collect();
        while !deliveries.is_empty() {
            let left = deliveries.split_off(deliveries.len().min(PER_RECORD));
            self.store.journal(Record::Started(Started {
                subscription: id,
                deliveries: std::mem::replace(&mut deliveries, left),
            }))?;
        }
        let runner = self
            .runners
            .get_mut(&id)
            .expect("deliveries were just taken from it");
        if starting.iter().any(|next| next.row.is_none()) {
            self.moved.insert(runner.topic);
        }
        let job = Job {
            key: DeliveryKey {
                subscription: id,
                seq: starting[0].seq,
            },
            topic: runner.topic,
            attempt: progress[0].attempts,
            plan: Arc::clone(&runner.plan),
            started: now,
            route: seat.route.clone(),
            exchange: self.clock.open_exchange(),
        };
        if let Some(route) = &job.route {
            self.groups.note_start(route);
        }
        let sending = gather::send(
            Arc::clone(&self.context),
            job,
            batch,
            self.report_to.clone(),
        );
        let abort = self.spawner.spawn(sending).abort_handle();
        runner.note_start(now.timestamp);
        let mut seat = Some(seat);
        for (next, progress) in starting.iter().zip(&progress) {
            let is_first = seat.is_some();
            runner.take_off(
                next.seq,
                Flight {
                    is_attempt: true,
                    tickets: tickets.take(),
                    is_paced: false,
                    seat: seat.take(),
                    progress: Some(*progress),
                    row: Some(IN_FLIGHT),
                    is_settled: false,
                    _beside: (!is_first).then(|| Arc::clone(&self.beside)),
                    abort: abort.clone(),
                },
            );
        }
        Ok(())
    }

    /// An event for a batch cannot be read. That is a failure of the store, unless a purge let the log forget it.
    pub(super) fn not_gathered(
        &mut self,
        key: DeliveryKey,
        token: u64,
        error: StoreError,
    ) -> Result<(), StoreError> {
        let id = key.subscription;
        if self.gathering_of(id, token).is_none() {
            return Ok(());
        }
        self.put_gathering_back(id);
        let is_forgotten = matches!(error, StoreError::Forgotten { .. });
        if is_forgotten && self.is_purged(id, key.seq) {
            return self.look_again(id);
        }
        Err(error)
    }

    /// Subscriptions of a topic for which a batch is being made.
    pub(super) fn gathering_in(&self, topic: TopicId) -> Vec<SubscriptionId> {
        let runners = self.runners.values();
        let gathering =
            runners.filter(|runner| runner.topic == topic && runner.gathering.is_some());
        gathering.map(|runner| runner.id).collect()
    }
}
