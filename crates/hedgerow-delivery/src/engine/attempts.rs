//! Starting and ending attempts: which delivery is next, what a stop, a change or a crash does to those in flight.
//!
//! A start is queued for the log before the request's first byte; nobody waits for it (design D5).

use std::sync::Arc;

use hedgerow_core::credit::Signal;
use hedgerow_core::limits;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry::{self, CrashedAttempt, DeliveryKey};
use hedgerow_core::time::Timestamp;
use hedgerow_store::history::HistoryNext;
use hedgerow_store::record::{IN_FLIGHT, Progress, Record, Started, StartedDelivery};
use hedgerow_store::view::FIRST_IN_FLIGHT;
use hedgerow_store::{StoreError, StoredEvent, Usage};

use super::{Engine, Phase};
use crate::attempt::{self, Job};
use crate::endpoints::Seat;
use crate::runner::{Flight, Next, Runner};

/// A delivery that ends undelivered.
pub(super) struct Ending {
    pub(super) key: DeliveryKey,
    /// The row it stands under; `None` if it was never begun.
    pub(super) row: Option<Timestamp>,
    pub(super) reason: DeadLetterReason,
    pub(super) progress: Option<Progress>,
}

impl Engine {
    /// Lets deliveries begin.
    pub(super) fn release(&mut self) -> Result<(), StoreError> {
        if self.phase == Phase::Held {
            self.phase = Phase::Running;
        }
        let mut ids: Vec<_> = self.runners.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            self.queue_if_ready(id)?;
            self.queue_letters(id);
        }
        self.release_validations();
        self.take_up_replays();
        Ok(())
    }

    /// Starts attempts until nobody may start one.
    pub(super) fn start_attempts(&mut self) -> Result<(), StoreError> {
        let usage = self.store.usage();
        self.note_fullness(&usage);
        let may_start =
            self.phase == Phase::Running && usage.queued_bytes < limits::JOURNAL_QUEUE_BYTES_MAX;
        self.endpoints.end_rest();
        self.endpoints.grow_older(self.turn.instant);
        self.look_at_groups();
        let room = self.room_for_attempts(usage.record_room_bytes);
        if !may_start {
            return Ok(());
        }
        loop {
            let had_group_turn = self.start_at_a_group(room)?;
            let Some((seated, mut seat)) = self.endpoints.next_turn(self.turn, room) else {
                if had_group_turn {
                    continue;
                }
                return Ok(());
            };
            if self.endpoints.end_wait_for_origins(seated) {
                self.start_at_origin(seated, Some(seat), room)?;
                continue;
            }
            if let Some(runner) = self.runners.get_mut(&seated) {
                runner.is_queued = false;
            }
            let Some((id, next)) = self.take_turn(seated) else {
                self.endpoints.release(seat, Signal::GivenUp, self.turn);
                // Something else may be first now, or has to end.
                self.queue_ended(seated);
                continue;
            };
            if id != seated {
                self.endpoints.pass(&mut seat, id);
            }
            self.start_one(id, next, seat)?;
        }
    }

    /// Starts what was taken, or lets it be made into a batch.
    pub(super) fn start_one(
        &mut self,
        id: SubscriptionId,
        next: Next,
        seat: Seat,
    ) -> Result<(), StoreError> {
        let batches = |runner: &Runner| runner.plan.batch.is_some();
        if self.runners.get(&id).is_some_and(batches) {
            self.gather(id, next, seat);
        } else {
            self.start(id, &next, seat)?;
        }
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }

    /// What was due when its subscription stood in line may have to end by the time of its turn.
    pub(super) fn queue_ended(&mut self, id: SubscriptionId) {
        if let Some(runner) = self.runners.get(&id)
            && let Some(next) = self.first_due(runner)
            && self.why_it_ends(runner, &next).is_some()
        {
            self.queue_ending(id);
        }
    }

    /// Says when the store becomes full, and when it is no longer.
    fn note_fullness(&mut self, usage: &Usage) {
        if usage.is_full() == self.is_store_full {
            return;
        }
        self.is_store_full = usage.is_full();
        let (used_bytes, watermark_bytes) = (usage.used_bytes, usage.watermark_bytes);
        if let Some(fullness) = usage.fullness {
            tracing::warn!(
                used_bytes,
                watermark_bytes,
                "the store is full: publishing is refused, endpoints that fail are tried every 10 s; {fullness}"
            );
        } else {
            tracing::info!(used_bytes, watermark_bytes, "the store has room again");
        }
    }

    fn start(&mut self, id: SubscriptionId, next: &Next, seat: Seat) -> Result<(), StoreError> {
        let now = self.clock.now();
        if next.row.is_none()
            && let Some(runner) = self.runners.get(&id)
        {
            self.moved.insert(runner.topic);
        }
        let tickets = self.tickets(id);
        let progress = progress_of_start(next, now.timestamp);
        let delivery = StartedDelivery {
            seq: next.seq,
            replaces_due: next.row,
            progress,
        };
        self.store.journal(Record::Started(Started {
            subscription: id,
            deliveries: vec![delivery],
        }))?;
        let runner = self
            .runners
            .get_mut(&id)
            .expect("a delivery was just taken from it");
        let job = Job {
            key: DeliveryKey {
                subscription: id,
                seq: next.seq,
            },
            topic: runner.topic,
            attempt: progress.attempts,
            plan: Arc::clone(&runner.plan),
            started: now,
            route: seat.route.clone(),
            exchange: self.clock.open_exchange(),
        };
        if let Some(route) = &job.route {
            self.groups.note_start(route);
        }
        let attempt = attempt::run(Arc::clone(&self.context), job, self.report_to.clone());
        let abort = self.spawner.spawn(attempt).abort_handle();
        runner.note_start(now.timestamp);
        runner.take_off(
            next.seq,
            Flight {
                is_attempt: true,
                tickets,
                is_paced: false,
                seat: Some(seat),
                progress: Some(progress),
                row: Some(IN_FLIGHT),
                is_settled: false,
                _beside: None,
                abort,
            },
        );
        Ok(())
    }

    /// What stood in flight when the server ended has an attempt without a recorded end (ED-207).
    pub(super) fn take_up_in_flight(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let rows = self.view.due(id, FIRST_IN_FLIGHT, IN_FLIGHT, usize::MAX)?;
        for row in rows {
            // Nothing but attempts stands there.
            let (seq, Some(progress)) = (row.seq, row.attempt()) else {
                continue;
            };
            let key = DeliveryKey {
                subscription: id,
                seq,
            };
            if progress.attempts == 0 {
                // It was begun without an attempt (ED-315), and when it is due again was not written any more.
                self.journal_due(key, self.began, progress)?;
                continue;
            }
            let (next, progress) = self.after_lost_end(id, progress);
            self.end_without_outcome(key, next, progress, None)?;
        }
        Ok(())
    }

    /// What follows an attempt whose end nobody recorded, and what it is remembered as.
    fn after_lost_end(&self, id: SubscriptionId, progress: Progress) -> (retry::Next, Progress) {
        let policy = self.policy(id);
        // An attempt of this process was ended by it when the store failed; one from before was lost in a crash.
        if progress.last_attempt >= self.process_began {
            let next = retry::after_abort(&policy, progress.attempts, self.began);
            return (next, without_answer(progress, Outcome::Aborted));
        }
        let crashes = self.view.crashes_with_this_one(&progress);
        let attempt = CrashedAttempt {
            attempts: progress.attempts,
            started: progress.last_attempt,
            crashes,
            now: self.began,
        };
        let (next, outcome) = retry::after_crash(&self.settings.retry, &policy, &attempt);
        let progress = Progress {
            crashes,
            crash_epoch: self.epoch,
            ..progress
        };
        (next, without_answer(progress, outcome))
    }

    /// Ends the tasks of everything in flight, because this engine ends. Records nothing.
    pub(super) fn drop_flights(&mut self) {
        self.validations.abort_all();
        self.replays.abort_all();
        for runner in self.runners.values_mut() {
            if let Some(gathering) = &runner.gathering {
                gathering.abort.abort();
            }
            runner
                .land_all()
                .iter()
                .for_each(|(_, flight)| flight.abort.abort());
            runner.late.end_all();
        }
    }

    /// Records what follows an attempt in flight that has no outcome of its own.
    fn end_without_outcome(
        &mut self,
        key: DeliveryKey,
        next: retry::Next,
        progress: Progress,
        seat: Option<Seat>,
    ) -> Result<(), StoreError> {
        let is_purged = self.is_purged(key.subscription, key.seq);
        let told = match next {
            retry::Next::Due(_) if is_purged => HistoryNext::Purged,
            retry::Next::Due(due) => HistoryNext::Due(due),
            retry::Next::Dead(reason) => HistoryNext::Dead(reason),
        };
        self.remember_without_outcome(key, told, progress);
        if let Some(runner) = self.runners.get(&key.subscription) {
            runner.metrics.note_failed(progress.last_outcome, 0);
        }
        match next {
            retry::Next::Due(_) if is_purged => {
                self.journal_purged(key, IN_FLIGHT)?;
                self.give_back(seat, Signal::GivenUp);
            }
            retry::Next::Due(due) => {
                self.journal_due(key, due, progress)?;
                self.give_back(seat, Signal::GivenUp);
            }
            retry::Next::Dead(reason) => {
                let row = Some(IN_FLIGHT);
                let ending = Ending {
                    key,
                    row,
                    reason,
                    progress: Some(progress),
                };
                self.end_after_reading(key.subscription, &[ending], seat, false);
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
        self.put_gathering_back(id);
        let now = self.now();
        let policy = self.policy(id);
        let flights = self
            .runners
            .get_mut(&id)
            .map(Runner::land_all)
            .unwrap_or_default();
        for (seq, flight) in flights {
            if !flight.is_attempt {
                // Its event is being read for its terminal record; that ends soon.
                self.take_off(id, seq, flight);
                continue;
            }
            flight.abort.abort();
            if let Some(tickets) = flight.tickets {
                self.give_up(id, tickets)?;
            }
            let Some(progress) = flight.progress.filter(|_| !flight.is_settled) else {
                self.give_back(flight.seat, Signal::GivenUp);
                continue;
            };
            let progress = without_answer(progress, outcome);
            let next = if outcome == Outcome::Canceled {
                // It counts, but whoever changes an endpoint ends no event: the new one gets it though it was the last attempt.
                retry::Next::Due(now)
            } else {
                retry::after_abort(&policy, progress.attempts, now)
            };
            let key = DeliveryKey {
                subscription: id,
                seq,
            };
            self.end_without_outcome(key, next, progress, flight.seat)?;
        }
        Ok(())
    }

    fn take_off(&mut self, id: SubscriptionId, seq: u64, flight: Flight) {
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.take_off(seq, flight);
        }
    }

    pub(super) fn give_back(&mut self, seat: Option<Seat>, signal: Signal) {
        if let Some(seat) = seat {
            self.endpoints.release(seat, signal, self.turn);
        }
    }
}

/// What is known of a delivery whose attempt starts now.
pub(super) fn progress_of_start(next: &Next, now: Timestamp) -> Progress {
    match next.progress {
        Some(before) => Progress {
            attempts: before.attempts + 1,
            first_attempt: if before.attempts == 0 {
                now
            } else {
                before.first_attempt
            },
            last_attempt: now,
            ..before
        },
        None => Progress {
            published: next.published,
            attempts: 1,
            first_attempt: now,
            last_attempt: now,
            last_outcome: Outcome::Delivering,
            last_status: 0,
            crashes: 0,
            crash_epoch: 0,
        },
    }
}

/// What is known of it if the attempt is not counted. When the one before it started is not known any more, if there was one.
pub(super) fn without_attempt(progress: Progress, event: &StoredEvent) -> Progress {
    let attempts = progress.attempts.saturating_sub(1);
    if attempts == 0 {
        return Progress {
            crashes: progress.crashes,
            crash_epoch: progress.crash_epoch,
            ..Progress::unattempted(progress.published.max(event.published), Outcome::Delivering)
        };
    }
    Progress {
        attempts,
        ..progress
    }
}

fn without_answer(progress: Progress, outcome: Outcome) -> Progress {
    Progress {
        last_outcome: outcome,
        last_status: 0,
        ..progress
    }
}
