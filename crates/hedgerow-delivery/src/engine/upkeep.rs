//! What the clock asks for: refilling due deliveries from the view, writing down the reader's places, checkpoints, and
//! the orderly stop.

use std::time::Instant;

use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Mark, SubscriptionId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::{CleanStop, Read, Record};
use hedgerow_store::{Group, StoreError};

use super::{Engine, Internal, Phase};
use crate::runner::DUE_ROWS_MAX;

/// How far ahead due deliveries are held in memory (design D6: retries further off stay on disk).
const WINDOW: std::time::Duration = std::time::Duration::from_secs(60);
/// How long before the end of what is held the next part is fetched.
const REFILL_AHEAD: std::time::Duration = std::time::Duration::from_secs(30);

/// How many times the size of a checkpoint may wait for the next one while one is written.
const CHECKPOINTS_WAITING_MAX: usize = 4;

/// The part of the store that may be followed before the next checkpoint: what it says is not needed any more cannot be
/// forgotten before. Twice as much may be, while a checkpoint is written, and a part besides before places are written
/// down; so half of the store is left for what is owed.
const CHECKPOINT_PART: u64 = 8;
const PLACES_PART: u64 = 16;

/// When what is to be done next.
pub(super) struct Upkeep {
    /// When the readers' places are written down; `None` while none moved.
    places_at: Option<Instant>,
    /// When the view is written down; `None` while it did not change.
    checkpoint_at: Option<Instant>,
    /// Up to where the last checkpoint went, or the one under way goes.
    checkpoint: Mark,
    is_checkpointing: bool,
    /// Bytes of log that were followed since the last checkpoint began, and since places were written down.
    checkpoint_log_bytes: u64,
    places_log_bytes: u64,
    /// How much the store may hold before publishing is refused.
    watermark_bytes: u64,
    /// When the stop no longer waits for running attempts.
    drained_at: Option<Instant>,
    is_clean_stop_queued: bool,
}

impl Upkeep {
    pub(super) fn new(checkpoint: Mark, watermark_bytes: u64) -> Self {
        Self {
            places_at: None,
            checkpoint_at: None,
            checkpoint,
            is_checkpointing: false,
            checkpoint_log_bytes: 0,
            places_log_bytes: 0,
            watermark_bytes,
            drained_at: None,
            is_clean_stop_queued: false,
        }
    }

    /// Takes note of a group that was followed.
    pub(super) fn followed(&mut self, group: &Group) {
        self.checkpoint_log_bytes += group.bytes as u64;
        self.places_log_bytes += group.bytes as u64;
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let checkpoint_at = self.checkpoint_at.filter(|_| !self.is_checkpointing);
        let drained_at = self.drained_at.filter(|_| !self.is_clean_stop_queued);
        [self.places_at, checkpoint_at, drained_at]
            .into_iter()
            .flatten()
            .min()
    }
}

impl Engine {
    /// Looks at the subscriptions whose time has come.
    pub(super) fn wake_the_due(&mut self) -> Result<(), StoreError> {
        let now = self.now();
        while let Some((at, id)) = self.wakes.first().copied().filter(|(at, _)| *at <= now) {
            self.wakes.remove(&(at, id));
            self.queue_if_ready(id)?;
            self.queue_letters(id);
            self.plan_wake(id)?;
        }
        Ok(())
    }

    /// Refills a subscription's due deliveries if it is time, and says when to look at it again.
    pub(super) fn plan_wake(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        self.refill(id)?;
        let now = self.now();
        let Some(runner) = self.runners.get(&id) else {
            return Ok(());
        };
        // What is due already waits for its turn, not for the clock.
        let due = runner.next_due().filter(|due| *due > now);
        let letter = runner.letters.next_start().filter(|due| *due > now);
        let refill = runner.horizon().map(|(at, _)| {
            Timestamp::from_millis(
                at.as_millis()
                    .saturating_sub(REFILL_AHEAD.as_millis() as u64),
            )
        });
        // A refill that finds the memory full waits until something was delivered.
        let refill = refill.filter(|at| *at > now);
        // Whatever waits may start then.
        let paced = Some(runner.not_before).filter(|at| *at > now);
        let held = Some(runner.held.until).filter(|until| *until > now);
        let all = due.into_iter().chain(letter).chain(refill);
        if let Some(at) = all.chain(paced).chain(held).min() {
            self.wakes.insert((at, id));
        }
        Ok(())
    }

    fn refill(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        while self.refill_once(id)? {}
        Ok(())
    }

    /// Fetches the next rows if it is time. Returns whether it may be time again at once: dead letters are among the rows,
    /// and must not keep what is behind them away.
    fn refill_once(&mut self, id: SubscriptionId) -> Result<bool, StoreError> {
        let now = self.now();
        let Some(runner) = self.runners.get(&id) else {
            return Ok(false);
        };
        let Some(horizon) = runner.horizon() else {
            return Ok(false);
        };
        if horizon.0 > now.plus(REFILL_AHEAD) || runner.is_full() {
            return Ok(false);
        }
        let through = now.plus(WINDOW);
        let rows = self.view.due(id, horizon, through, DUE_ROWS_MAX)?;
        let whole_window = (through, u64::MAX);
        let new_horizon = match rows.last() {
            Some(last) if rows.len() == DUE_ROWS_MAX => (last.due, last.seq),
            Some(_) => whole_window,
            // Nothing in the window: hold everything before the next row there is.
            None => match self.view.due(id, whole_window, Timestamp::MAX, 1)?.first() {
                Some(far) => (Timestamp::from_millis(far.due.as_millis() - 1), u64::MAX),
                None => (Timestamp::MAX, u64::MAX),
            },
        };
        let open = rows
            .into_iter()
            .filter(|row| self.view.is_open(id, row.seq))
            .filter(|row| row.attempt().is_none() || !self.is_purged(id, row.seq))
            .filter(|row| !self.resends.is_on_its_way(id, row.seq))
            .collect();
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.refill(open, new_horizon);
        }
        self.queue_if_ready(id)?;
        self.queue_letters(id);
        Ok(true)
    }

    /// Does what is to be done by now.
    pub(super) fn upkeep(&mut self) -> Result<(), StoreError> {
        let now = self.instant();
        self.write_down_places(now)?;
        self.checkpoint(now)?;
        if self.phase == Phase::Stopping {
            self.go_on_stopping(now)?;
        }
        Ok(())
    }

    fn write_down_places(&mut self, now: Instant) -> Result<(), StoreError> {
        let has_moved = !self.moved.is_empty();
        let is_much = self.upkeep.places_log_bytes > self.upkeep.watermark_bytes / PLACES_PART;
        match self.upkeep.places_at {
            None if has_moved => {
                self.upkeep.places_at = Some(now + self.settings.read_interval);
            }
            Some(at) if at <= now || is_much => {
                self.upkeep.places_at = None;
                self.upkeep.places_log_bytes = 0;
                self.journal_places()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Says in the log how far the readers have come, where that is not what was said last.
    fn journal_places(&mut self) -> Result<(), StoreError> {
        let moved = std::mem::take(&mut self.moved);
        self.begin_sparse(&moved)?;
        for topic in moved {
            let Some(reader) = self.readers.get_mut(&topic) else {
                continue;
            };
            let runners = reader
                .subscriptions
                .iter()
                .filter_map(|id| self.runners.get(id));
            let stranded = reader
                .stranded
                .iter()
                .map(|id| (*id, self.view.cursor(*id)));
            let laggards = runners
                .map(|runner| (runner.id, runner.cursor(reader.head)))
                .chain(stranded)
                .filter(|(_, cursor)| *cursor < reader.head)
                .collect();
            let read = Read {
                topic,
                read_to: reader.head,
                laggards,
            };
            if reader.written.as_ref() != Some(&read) {
                match self.store.journal(Record::Read(read.clone())) {
                    Ok(()) => reader.written = Some(read),
                    // The places written down last hold; the log forgets less.
                    Err(StoreError::TooLarge { .. }) => tracing::warn!(
                        topic = topic.0,
                        subscriptions = read.laggards.len(),
                        "too many subscriptions are behind to write down; raise store.segment_bytes"
                    ),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self, now: Instant) -> Result<(), StoreError> {
        if self.upkeep.is_checkpointing {
            return Ok(());
        }
        if self.upkeep.checkpoint_at.is_none() && self.view.mark() != self.upkeep.checkpoint {
            self.upkeep.checkpoint_at = Some(now + self.settings.checkpoint_interval);
        }
        let is_time = self.upkeep.checkpoint_at.is_some_and(|at| at <= now);
        let is_much =
            self.upkeep.checkpoint_log_bytes > self.upkeep.watermark_bytes / CHECKPOINT_PART;
        if is_time || is_much || self.view.waiting_bytes() > self.settings.checkpoint_bytes {
            self.begin_checkpoint()?;
        }
        Ok(())
    }

    fn begin_checkpoint(&mut self) -> Result<(), StoreError> {
        let checkpoint = self.view.begin_checkpoint()?;
        self.upkeep.is_checkpointing = true;
        self.upkeep.checkpoint_at = None;
        self.upkeep.checkpoint_log_bytes = 0;
        self.upkeep.checkpoint = checkpoint.mark();
        let (store, disk) = (self.store.clone(), self.disk.clone());
        let writing = self.spawner.spawn_blocking(move || {
            // The table may be another owner's by now.
            store.check_owner()?;
            checkpoint.write(disk.as_ref())
        });
        self.tell_end(writing, Internal::Checkpointed);
        Ok(())
    }

    /// Changes of the view pile up in memory while a checkpoint takes its time: the log is followed again when it is
    /// written.
    pub(super) fn must_wait_for_checkpoint(&self) -> bool {
        let waiting_max = CHECKPOINTS_WAITING_MAX * self.settings.checkpoint_bytes;
        self.upkeep.is_checkpointing && self.view.waiting_bytes() > waiting_max
    }

    pub(super) fn checkpointed(
        &mut self,
        result: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.upkeep.is_checkpointing = false;
        result?;
        self.view.finish_checkpoint();
        self.store.checkpoint(self.upkeep.checkpoint, &self.view)
    }

    /// No attempt starts from now on; running ones get the drain time.
    pub(super) fn begin_to_stop(&mut self) -> Result<(), StoreError> {
        self.phase = Phase::Stopping;
        self.put_all_gatherings_back();
        self.replays.stop_all();
        let now = self.instant();
        self.upkeep.drained_at = Some(now + self.settings.drain);
        tracing::info!(
            running = self.endpoints.taken(),
            "stopping; no new attempts"
        );
        self.go_on_stopping(now)
    }

    fn go_on_stopping(&mut self, now: Instant) -> Result<(), StoreError> {
        if self.upkeep.is_clean_stop_queued {
            return Ok(());
        }
        let is_over = self.upkeep.drained_at.is_some_and(|at| at <= now);
        if is_over {
            let mut ids: Vec<_> = self.runners.keys().copied().collect();
            ids.sort_unstable();
            for id in ids {
                self.abort_flights(id, Outcome::Aborted)?;
            }
        }
        let is_idle = self.runners.values().all(|runner| runner.in_flight() == 0);
        // What is written twice is no harm; what is written once is better.
        let is_idle = is_idle && (is_over || self.letter_writes.under_way() == 0);
        if is_idle {
            self.upkeep.is_clean_stop_queued = true;
            self.journal_places()?;
            let stop = CleanStop { epoch: self.epoch };
            self.store.journal(Record::CleanStop(stop))?;
        }
        Ok(())
    }

    /// Writes the view down for the last time; the next start has nothing to fold.
    pub(super) async fn last_checkpoint(&mut self) -> Result<(), StoreError> {
        self.begin_checkpoint()?;
        self.wait_for_checkpoint().await
    }

    pub(super) async fn wait_for_checkpoint(&mut self) -> Result<(), StoreError> {
        while self.upkeep.is_checkpointing {
            match self.events.recv().await {
                Some(Internal::Checkpointed(result)) => {
                    self.upkeep.is_checkpointing = false;
                    result?;
                    self.view.finish_checkpoint();
                }
                Some(
                    Internal::ReadBehind { .. }
                    | Internal::LettersWritten(_)
                    | Internal::DestinationLookedAt { .. }
                    | Internal::ResendRead(_)
                    | Internal::KeysRead { .. }
                    | Internal::HandshakeEnded { .. },
                ) => {}
                None => return Err(StoreError::Closed),
            }
        }
        Ok(())
    }
}
