//! What became of each attempt, and which events were accepted, for people who ask later: logs of their own, lossy and
//! never synced (design D12, ED-311).
//!
//! | module | holds |
//! | --- | --- |
//! | `record` | what is remembered of an attempt |
//! | `ids` | what is remembered of an accepted event: the hash of its id, and its position |
//! | `kept` | what both have in common: a stored form, and ids to be found by |
//! | `frame` | the stored form, and the head of a file |
//! | `index` | the index of a sealed file: from an event's id to places in the file, in few reads |
//! | `files` | the files in `history/` and `history-ids/`: the one that grows, the sealed ones, what is forgotten |
//! | `queue` | what waits to be written: bounded, drops what does not fit |
//! | `writer` | the thread that writes, and being off while the disk fails |
//!
//! Nothing here is on the way of an event: [`HistoryHandle::record`] never waits for the disk, a full queue or a full disk
//! loses records and nothing else, and damage is met by warnings. Whoever decides something asks the log, not this.

mod files;
mod frame;
mod ids;
mod index;
mod kept;
mod queue;
mod record;
mod writer;

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hedgerow_core::time::Timestamp;

pub use self::ids::AcceptedEvent;
use self::ids::Run;
pub use self::record::{
    DETAIL_BYTES_MAX, EVENT_ID_BYTES_MAX, EXCERPT_BYTES_MAX, HistoryKind, HistoryNext,
    HistoryRecord, OriginMode, ResponseExcerpt, ToOrigin,
};
use self::writer::Shared;
use crate::disk::Disk;
use crate::log::Clock;
use crate::record::Events;

/// Bytes at which a file of ids is sealed: it tells of many more events than one of attempts, and the index of the file that
/// grows is in memory.
const IDS_FILE_BYTES: u32 = 4 << 20;

/// How the history is kept. Plain values.
#[derive(Debug, Clone)]
pub struct HistoryOptions {
    /// Whether there is one at all.
    pub is_enabled: bool,
    /// Bytes that it may take on the disk, indexes included; the oldest files go first.
    pub bytes_max: u64,
    /// How long a record is kept at least, unless `bytes_max` is reached. An event can be pending for a day, and its
    /// attempts are to be known a day after it is final (ED-311): two days.
    pub age_max: Duration,
    /// Bytes at which a file is sealed; smaller if that would be more than an eighth of `bytes_max`.
    pub file_bytes: u32,
    /// Bytes that the ids of accepted events may take on the disk beside that, indexes included: 22 to 45 for each event, so
    /// the default is for some ten to twenty million. Without any an event is found by its id only if there was an attempt.
    pub ids_bytes_max: u64,
    /// Bytes of records that may wait for the writer, and of ids; more are dropped.
    pub queue_bytes_max: usize,
    /// Bytes of waiting records at which they are written at once.
    pub buffer_bytes: usize,
    /// How long a record waits at most until it is written, if there are few.
    pub flush_interval: Duration,
    /// How long the history is off after the disk failed or was full.
    pub retry_interval: Duration,
    /// No file is begun while the disk has less space left: events need it more.
    pub disk_reserve_bytes: u64,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            is_enabled: true,
            bytes_max: 512 << 20,
            age_max: Duration::from_secs(48 * 3_600),
            file_bytes: 16 << 20,
            ids_bytes_max: 512 << 20,
            queue_bytes_max: 8 << 20,
            buffer_bytes: 64 << 10,
            flush_interval: Duration::from_millis(200),
            retry_interval: Duration::from_secs(30),
            disk_reserve_bytes: 192 << 20,
        }
    }
}

impl HistoryOptions {
    /// How ids of accepted events are kept.
    fn of_ids(&self) -> Self {
        Self {
            bytes_max: self.ids_bytes_max,
            file_bytes: self.file_bytes.min(IDS_FILE_BYTES),
            ..self.clone()
        }
    }

    /// The size at which files are sealed.
    fn sealed_file_bytes(&self) -> u32 {
        let share = u32::try_from(self.bytes_max / 8).unwrap_or(u32::MAX);
        self.file_bytes
            .min(share)
            .clamp(frame::FILE_BYTES_MIN, frame::FILE_BYTES_MAX)
    }
}

/// What the history did so far, and what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryCounters {
    /// Records written since the start.
    pub written: u64,
    /// Records lost since the start: the queue was full, or the history was off.
    pub dropped: u64,
    /// Ids of accepted events written since the start.
    pub ids_written: u64,
    /// Ids of accepted events lost since the start.
    pub ids_dropped: u64,
    /// Bytes on the disk now, indexes included.
    pub disk_bytes: u64,
}

/// The history of one data directory, and the thread that writes it. Dropping it writes what waits and ends the thread.
pub struct History {
    handle: HistoryHandle,
    thread: Option<JoinHandle<()>>,
}

/// Records attempts, and answers what is known of them. Cheap to clone. Once its [`History`] is dropped it takes nothing
/// in any more, and can still be asked.
#[derive(Clone)]
pub struct HistoryHandle {
    shared: Arc<Shared>,
}

impl History {
    /// Begins to keep a history in `disk`, which is this process's own, by the time that `clock` tells. Opening happens on
    /// the writer's thread; whatever goes wrong is a warning.
    #[must_use]
    pub fn start(disk: Arc<dyn Disk>, options: HistoryOptions, clock: Clock) -> Self {
        let shared = Arc::new(Shared::new(disk, options, clock));
        let writer = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("hedgerow-history".to_owned())
            .spawn(move || writer.run());
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                tracing::warn!(%error, "the history's thread cannot be started; attempts are not remembered");
                shared.end();
                None
            }
        };
        Self {
            handle: HistoryHandle { shared },
            thread,
        }
    }

    /// The way to record and to ask.
    #[must_use]
    pub fn handle(&self) -> HistoryHandle {
        self.handle.clone()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.handle.shared.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // The panic has been printed; readers must not wait for the thread.
            self.handle.shared.end();
        }
    }
}

impl HistoryHandle {
    /// Remembers an attempt, or drops it if too much waits. Never waits for the disk.
    pub fn record(&self, record: HistoryRecord) {
        if !self.shared.queue.push(record) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The same of several.
    pub fn record_all(&self, records: Vec<HistoryRecord>) {
        let lost = self.shared.queue.push_all(records) as u64;
        self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
    }

    /// Remembers the ids of accepted events, or drops those for which there is no room. Never waits for the disk.
    pub fn accept(&self, events: &Events) {
        if self.shared.keeps_ids() {
            let lost = self.shared.queue.push_runs(Run::of(events)) as u64;
            self.shared.ids_dropped.fetch_add(lost, Ordering::Relaxed);
        }
    }

    /// The accepted events with this id that are remembered, about the newest first, each once, at most `limit`. What waits
    /// to be written is included. Reads the disk.
    #[must_use]
    pub fn accepted(&self, event_id: &str, limit: usize) -> Vec<AcceptedEvent> {
        self.accepted_where(event_id, limit, |_| true)
    }

    /// The same of those that are wanted, which alone count for `limit`.
    #[must_use]
    pub fn accepted_where(
        &self,
        event_id: &str,
        limit: usize,
        wants: impl Fn(&AcceptedEvent) -> bool,
    ) -> Vec<AcceptedEvent> {
        let mut found = self.shared.accepted(event_id, limit, &wants);
        // What was written just before a crash may be told of once more.
        let mut seen = HashSet::new();
        found.retain(|event| seen.insert(event.position));
        found
    }

    /// From when on it knows which events were accepted; `None` if none are remembered, or they cannot be.
    #[must_use]
    pub fn ids_known_since(&self) -> Option<Timestamp> {
        self.shared.ids_known_since()
    }

    /// What is remembered of the event with this id, the newest first, at most `limit` records. What waits to be written
    /// is included. Reads the disk.
    #[must_use]
    pub fn attempts_of(&self, event_id: &str, limit: usize) -> Vec<HistoryRecord> {
        self.attempts_where(event_id, limit, |_| true)
    }

    /// The same of those that are wanted, which alone count for `limit`.
    #[must_use]
    pub fn attempts_where(
        &self,
        event_id: &str,
        limit: usize,
        wants: impl Fn(&HistoryRecord) -> bool,
    ) -> Vec<HistoryRecord> {
        self.shared.attempts_of(event_id, limit, &wants)
    }

    /// From when on it knows: attempts that ended earlier are forgotten, or were never recorded. `None` while the history
    /// cannot be opened.
    #[must_use]
    pub fn known_since(&self) -> Option<Timestamp> {
        self.shared.known_since()
    }

    /// From when on what it did not drop is there for certain. Attempts that ended before it was opened may have been recorded,
    /// and lost by a crash before they were written.
    #[must_use]
    pub fn complete_since(&self) -> Option<Timestamp> {
        self.shared.complete_since()
    }

    /// What it did so far.
    #[must_use]
    pub fn counters(&self) -> HistoryCounters {
        HistoryCounters {
            written: self.shared.written.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            ids_written: self.shared.ids_written.load(Ordering::Relaxed),
            ids_dropped: self.shared.ids_dropped.load(Ordering::Relaxed),
            disk_bytes: self.shared.disk_bytes(),
        }
    }

    /// Waits until everything recorded before is written or lost, and what is too old or too much is forgotten.
    pub fn flush(&self) {
        self.shared.queue.flush();
    }
}

impl std::fmt::Debug for HistoryHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistoryHandle")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
