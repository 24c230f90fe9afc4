//! The thread that writes, and what it shares with those who record and ask.
//!
//! | state | records are | what ends it |
//! | --- | --- | --- |
//! | not opened | waiting | the first turn of the thread |
//! | on | written | a failure of the disk, a full one included: one warning |
//! | off | dropped, and counted | a write that succeeds; tried each time the retry interval has passed |
//!
//! Locks are taken in the order files, queue. Recording takes only the queue's, which is never held across a write.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use hedgerow_core::time::Timestamp;

use super::files::Files;
use super::ids::{AcceptedEvent, Runs};
use super::kept::{Kept, Wanted};
use super::queue::Queue;
use super::record::{HistoryRecord, kept_id};
use super::{HistoryOptions, lock};
use crate::disk::Disk;
use crate::log::Clock;

/// How often the bounds are looked at while there is nothing to write.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

/// What the writer shares with those who record and ask.
pub(super) struct Shared {
    disk: Arc<dyn Disk>,
    options: HistoryOptions,
    clock: Clock,
    /// When records could first be handed in.
    begun: Timestamp,
    pub(super) queue: Queue,
    state: Mutex<State>,
    /// The thread had its first turn, or never will.
    opened: Condvar,
    pub(super) written: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) ids_written: AtomicU64,
    pub(super) ids_dropped: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The first turn is over, or will never be.
    is_opened: bool,
    /// Attempts. Not there before they could be opened.
    files: Option<Files<HistoryRecord>>,
    /// Ids of accepted events. Not there before they could be opened, or if none are kept.
    ids: Option<Files<Runs>>,
    /// The disk failed: nothing is written before then.
    off_until: Option<Timestamp>,
    /// Drops that a warning told of.
    dropped_told: u64,
}

impl Shared {
    pub(super) fn new(disk: Arc<dyn Disk>, options: HistoryOptions, clock: Clock) -> Self {
        Self {
            queue: Queue::new(options.queue_bytes_max, options.buffer_bytes),
            disk,
            options,
            begun: clock(),
            clock,
            state: Mutex::default(),
            opened: Condvar::new(),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            ids_written: AtomicU64::new(0),
            ids_dropped: AtomicU64::new(0),
        }
    }

    /// Writes until the queue is closed and empty.
    pub(super) fn run(&self) {
        self.turn();
        loop {
            self.queue.wait(self.options.flush_interval, IDLE_INTERVAL);
            if self.turn() {
                break;
            }
        }
        self.end();
    }

    /// Nothing is taken in or written any more.
    pub(super) fn end(&self) {
        lock(&self.state).is_opened = true;
        self.opened.notify_all();
        self.queue.end();
    }

    /// Takes what waits and writes it; true if nothing comes after it.
    fn turn(&self) -> bool {
        let mut state = lock(&self.state);
        let mut taken = self.queue.take();
        // Read behind taking: whoever waits for a flush had the bounds looked at by a time that is not before.
        let now = (self.clock)();
        let count = taken.records.len();
        for record in &mut taken.records {
            record.bound();
        }
        let runs = Runs::gather(taken.runs);
        let ids = runs.iter().map(Runs::len).sum::<usize>();
        let Written {
            records: written,
            ids: ids_written,
        } = state.write(self, &taken.records, &runs, now);
        self.ids_written
            .fetch_add(ids_written as u64, Ordering::Relaxed);
        self.ids_dropped
            .fetch_add((ids - ids_written) as u64, Ordering::Relaxed);
        self.written.fetch_add(written as u64, Ordering::Relaxed);
        let lost = (count - written) as u64;
        let dropped = self.dropped.fetch_add(lost, Ordering::Relaxed) + lost;
        state.tell_of_drops(dropped);
        if !state.is_opened {
            state.is_opened = true;
            self.opened.notify_all();
        }
        drop(state);
        self.queue.done(taken.flushes);
        taken.is_last
    }

    pub(super) fn attempts_of(
        &self,
        event_id: &str,
        limit: usize,
        wants: &dyn Fn(&HistoryRecord) -> bool,
    ) -> Vec<HistoryRecord> {
        let wanted = Wanted::new(event_id);
        let mut records = Vec::new();
        let search = {
            let state = self.opened_state();
            // With both locks held a record is either still waiting or in the files.
            let queue = self.queue.lock();
            let waiting = queue.records.iter().rev();
            let matching = waiting
                .filter(|record| kept_id(&record.event_id) == wanted.event_id && wants(record));
            records.extend(matching.take(limit).cloned());
            state.files.as_ref().map(|files| files.search(wanted))
        };
        for record in &mut records {
            record.bound();
        }
        if let Some(search) = search {
            search.run(limit, wants, &mut records);
        }
        records
    }

    pub(super) fn accepted(
        &self,
        event_id: &str,
        limit: usize,
        wants: &dyn Fn(&AcceptedEvent) -> bool,
    ) -> Vec<AcceptedEvent> {
        let wanted = Wanted::new(event_id);
        let mut found = Vec::new();
        let search = {
            let state = self.opened_state();
            let queue = self.queue.lock();
            for run in queue.runs.iter().rev() {
                run.find(wanted.hash, &mut found);
            }
            state.ids.as_ref().map(|ids| ids.search(wanted))
        };
        found.retain(|event| wants(event));
        found.truncate(limit);
        if let Some(search) = search {
            search.run(limit, wants, &mut found);
        }
        found
    }

    pub(super) fn keeps_ids(&self) -> bool {
        self.options.ids_bytes_max > 0
    }

    pub(super) fn known_since(&self) -> Option<Timestamp> {
        self.opened_state().files.as_ref().map(Files::known_since)
    }

    pub(super) fn complete_since(&self) -> Option<Timestamp> {
        self.known_since().map(|since| since.max(self.begun))
    }

    pub(super) fn ids_known_since(&self) -> Option<Timestamp> {
        self.opened_state().ids.as_ref().map(Files::known_since)
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        let state = lock(&self.state);
        let attempts = state.files.as_ref().map_or(0, Files::disk_bytes);
        attempts + state.ids.as_ref().map_or(0, Files::disk_bytes)
    }

    /// The state, once the history was opened or could not be.
    fn opened_state(&self) -> std::sync::MutexGuard<'_, State> {
        let state = lock(&self.state);
        let waited = self.opened.wait_while(state, |state| !state.is_opened);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    /// Writes records, unless the history is off; says how many were written.
    fn write(
        &mut self,
        shared: &Shared,
        records: &[HistoryRecord],
        runs: &[Runs],
        now: Timestamp,
    ) -> Written {
        let mut written = Written::default();
        if self.off_until.is_some_and(|until| now < until) {
            return written;
        }
        let result = self.try_write(shared, records, runs, now, &mut written);
        match result {
            Ok(()) => {
                if self.off_until.take().is_some() {
                    tracing::info!("the history is written again");
                }
            }
            Err(error) => {
                if self.off_until.is_none() {
                    tracing::warn!(
                        %error,
                        "the history cannot be written and is off for now; attempts of this time are not remembered. \
                         Free space on the disk of the data directory, or lower history.bytes_max"
                    );
                }
                self.off_until = Some(now.plus(shared.options.retry_interval));
            }
        }
        written
    }

    fn try_write(
        &mut self,
        shared: &Shared,
        records: &[HistoryRecord],
        runs: &[Runs],
        now: Timestamp,
        written: &mut Written,
    ) -> io::Result<()> {
        // What was handed in before a failed opening is lost.
        let since = self.off_until.map_or(shared.begun, |_| now);
        let files = opened(&mut self.files, shared, &shared.options, since)?;
        let result;
        (written.records, result) = files.append(records, now);
        result?;
        if shared.keeps_ids() {
            let options = shared.options.of_ids();
            let ids = opened(&mut self.ids, shared, &options, since)?;
            let (count, result) = ids.append(runs, now);
            written.ids = runs[..count].iter().map(Runs::len).sum();
            result?;
        }
        Ok(())
    }

    /// Warns of records that were lost since the last time.
    fn tell_of_drops(&mut self, dropped: u64) {
        // While it is off, the reason has been told; a warning for each ten thousand is enough otherwise.
        let is_first = self.dropped_told == 0;
        let lost = dropped - self.dropped_told;
        if self.off_until.is_some() || lost == 0 || !(is_first || lost >= 10_000) {
            return;
        }
        self.dropped_told = dropped;
        tracing::warn!(
            dropped,
            "the history cannot follow: attempts are made but not remembered"
        );
    }
}

/// What was written.
#[derive(Default)]
struct Written {
    records: usize,
    ids: usize,
}

/// Opens the files of one kind, unless they are open.
fn opened<'a, K: Kept>(
    files: &'a mut Option<Files<K>>,
    shared: &Shared,
    options: &HistoryOptions,
    since: Timestamp,
) -> io::Result<&'a mut Files<K>> {
    if files.is_none() {
        let disk = Arc::clone(&shared.disk);
        *files = Some(Files::open(disk, options.clone(), since)?);
    }
    Ok(files.as_mut().expect("they were just opened"))
}
