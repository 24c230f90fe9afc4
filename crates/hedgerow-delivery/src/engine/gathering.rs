//! Which deliveries travel together (ED-211 to ED-220): taken when it is their subscription's turn, made into a body by a task
//! ([`crate::gather`]), and started when that is filled.
//!
//! Whatever changes a subscription as a whole first puts back what is being gathered.

use std::sync::Arc;

use hedgerow_core::credit::Signal;
use hedgerow_core::hold::Gate;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::retry::{self, DeliveryKey};
use hedgerow_store::StoreError;
use hedgerow_store::record::{IN_FLIGHT, Progress, Record, Started, StartedDelivery};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::attempts::progress_of_start;
use super::batches::PER_RECORD;
use super::{Engine, Phase};
use crate::endpoints::Seat;
use crate::gather::{self, Gather, Gathered, Leave};
use crate::runner::{Flight, Gathering, Next, Runner};

impl Engine {
    /// Lets a batch be made of a delivery whose turn it is, which was taken, and of what may travel with it.
    pub(super) fn gather(&mut self, id: SubscriptionId, first: Next, seat: Seat) {
        let now = self.now();
        let room = self.room_for_ends();
        let gate = self.runners.get(&id).map(|runner| self.gate(runner));
        let (stopped, began) = (self.stopped, self.began);
        let runner = self
            .runners
            .get_mut(&id)
            .expect("a delivery was just taken from it");
        let plan = Arc::clone(&runner.plan);
        let limits = plan.batch.expect("its events travel together");
        // The lone trial is one event in one request (ED-324).
        let count = match gate {
            Some(Gate::Open) => gather::worth_reading(&plan, &limits).min(room),
            _ => 1,
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
        };
        let token = runner.gathered;
        let task = gather::run(Arc::clone(&self.context), job, self.report_to.clone());
        let abort = self.spawner.spawn(task).abort_handle();
        runner.gathering = Some(Gathering::new(token, candidates, seat, abort));
    }

    /// Puts back what is being gathered for a subscription.
    pub(super) fn put_gathering_back(&mut self, id: SubscriptionId) {
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        if let Some(gathering) = runner.gathering.take() {
            gathering.abort.abort();
            let (_, left, seat) = gathering.split(&[]);
            runner.put_back(left);
            self.give_back(Some(seat), Signal::GivenUp);
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
        let Some(runner) = self.gathering_of(id, gathered.token) else {
            return Ok(());
        };
        let may_start = match self.gate(runner) {
            Gate::Open => true,
            Gate::Trial => gathered.seqs.len() == 1,
            Gate::OnTrial | Gate::Held(_) => false,
        };
        if !may_start || runner.plan.is_paused || self.phase != Phase::Running {
            self.put_gathering_back(id);
            return self.look_again(id);
        }
        if let Some(runner) = self.runners.get_mut(&id)
            && let Some(gathering) = runner.gathering.take()
        {
            let abort = gathering.abort.clone();
            if gathering.passes_over(&gathered.seqs) {
                self.begin_all(id, gathering)?;
                return self.look_again(id);
            }
            let (started, left, seat) = gathering.split(&gathered.seqs);
            runner.put_back(left);
            runner.body_bytes = gathered.body_bytes;
            self.start_batch(id, &started, seat, &abort, gathered.leave)?;
        }
        self.look_again(id)
    }

    /// Some that were never begun do not travel with those behind them. The cursor passes events in their order, so a crash
    /// would forget them: all are begun before any of them starts, and come back as due.
    fn begin_all(&mut self, id: SubscriptionId, gathering: Gathering) -> Result<(), StoreError> {
        let (_, all, seat) = gathering.split(&[]);
        let (unbegun, rows): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|next| next.row.is_none());
        let mut events: Vec<_> = unbegun
            .iter()
            .map(|next| (next.seq, next.published))
            .collect();
        events.sort_unstable();
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.put_back(rows);
            self.moved.insert(runner.topic);
        }
        self.give_back(Some(seat), Signal::GivenUp);
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
        batch: &[Next],
        seat: Seat,
        abort: &AbortHandle,
        leave: oneshot::Sender<Leave>,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut tickets = self.tickets(id);
        let progress: Vec<Progress> = batch
            .iter()
            .map(|next| progress_of_start(next, now.timestamp))
            .collect();
        let mut deliveries: Vec<StartedDelivery> = batch
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
        if batch.iter().any(|next| next.row.is_none()) {
            self.moved.insert(runner.topic);
        }
        runner.note_start(now.timestamp);
        let mut seat = Some(seat);
        for (next, progress) in batch.iter().zip(&progress) {
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
        let started = Leave {
            attempt: progress.first().map_or(1, |progress| progress.attempts),
            started: now,
            exchange: self.clock.open_exchange(),
        };
        // A task that is gone was ended, and its deliveries with it.
        let _ = leave.send(started);
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
