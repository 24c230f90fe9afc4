//! The durable log: one order, one writer, one sync stream (design D1).
//!
//! | module | does |
//! | --- | --- |
//! | `group` | the form of what is written and synced together |
//! | `segment` | one file of groups |
//! | `content` | what is in a segment, and where to look for a topic's events |
//! | `index` | the same in a file, for opening without reading the segment |
//! | `fence` | notices that the directory has another owner |
//! | `superblock` | who the store is, and its epoch |
//! | `recover` | opens a log: end, torn tail or damage |
//! | `scan` | reads the groups of a file in order |
//! | [`check`] | verifies a store that nobody uses |
//! | `inspect` | looks at a log that nobody uses |
//! | [`lost`] | what a log has lost at its end, as what lies beside it says |
//! | `queue` | what waits to be written |
//! | `writer` | builds, writes and syncs groups |
//! | `pool` | makes and recycles segments |
//! | `clean` | what is copied before a segment is forgotten |
//! | `kept` | the files it is copied to |
//! | `ring` | the newest groups in memory |
//! | `read` | reads groups and events, from the ring or from disk |
//! | `threads` | those that commit, tend segments and clean |
//! | `room` | how much there is room for, so that `bytes_max` is never exceeded |
//! | `shared` | what these share: checkpoints, closing |
//!
//! The life of a log: [`Log::open`] finds and repairs what is on the disk; its owner replays the groups of
//! [`RecoveredLog`] into the view; [`RecoveredLog::start`] begins to write. The first error of a write or a sync closes
//! the log for good, and its owner opens it again.

pub mod check;
mod clean;
mod content;
mod fence;
mod group;
mod index;
pub(crate) mod inspect;
pub(crate) mod kept;
pub mod lost;
mod pool;
mod queue;
mod read;
mod recover;
mod ring;
mod room;
mod scan;
mod segment;
mod shared;
mod superblock;
mod threads;
mod writer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_core::time::Timestamp;
use tokio::sync::{oneshot, watch};

pub(crate) use self::content::EventsRange;
use self::fence::Fence;
use self::inspect::Events;
use self::kept::OwedDelivery;
use self::pool::Pool;
use self::queue::Work;
pub use self::recover::OpenWork;
use self::recover::Tail;
use self::shared::{Files, Shared};
use self::threads::Cleaner;
use self::writer::{Start, Writer};
use crate::disk::{Disk, DiskLock};
use crate::error::StoreError;
use crate::record::{PackedEvents, Record};
use crate::view::baseline::{self, Baseline};
use crate::{Appending, Group, Liveness, RecordRoom, Store, StoredEvent, Usage};

/// Issues the time of the server (design D4).
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The smallest segment.
pub const SEGMENT_BYTES_MIN: u32 = 64 * 1024;
/// The largest segment: offsets in it fit 32 bits with room to spare.
pub const SEGMENT_BYTES_MAX: u32 = 1024 * 1024 * 1024;
const LOCK: &str = "LOCK";
const MIB: usize = 1024 * 1024;

/// How a log is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of a segment, a multiple of 4096. Segments made earlier keep theirs.
    pub segment_bytes: u32,
    /// How large the log and the kept files may become together, everything counted that lies in `log/` and `kept/` at
    /// any moment. Publishing is refused an eighth below this, but at least four segments (`room` has the arithmetic).
    pub bytes_max: u64,
    /// A segment of which only a part is needed is cleaned when it is as old as this, or when the log takes more than
    /// half of its bytes.
    pub keep_after: Duration,
    /// Publishing is refused while the disk has less space left than this.
    pub disk_reserve_bytes: u64,
    /// How much memory the newest groups may take.
    pub ring_bytes: usize,
    /// How large a group may become, if it is not a single larger record.
    pub group_bytes_max: usize,
    /// How much may wait to be written when more is published.
    pub queue_bytes_max: u64,
    /// So many free files are written once in advance, because that makes their syncs faster.
    pub zeroed_segments: usize,
    /// More free files than this are removed.
    pub free_segments_max: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * MIB as u32,
            bytes_max: 8 * 1024 * MIB as u64,
            keep_after: Duration::from_secs(600),
            disk_reserve_bytes: 64 * MIB as u64,
            ring_bytes: 64 * MIB,
            group_bytes_max: 4 * MIB,
            queue_bytes_max: 64 * MIB as u64,
            zeroed_segments: 2,
            free_segments_max: 8,
        }
    }
}

impl LogOptions {
    /// The largest frame.
    fn record_bytes_max(&self) -> usize {
        self.segment_bytes as usize - group::HEADER_BYTES
    }

    /// How much goes into one group.
    fn batch_bytes_max(&self) -> usize {
        self.group_bytes_max.min(self.record_bytes_max())
    }

    fn check(&self) {
        assert!(
            (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes)
                && self.segment_bytes.is_multiple_of(4096),
            "a segment has 64 KiB to 1 GiB in whole pages"
        );
    }
}

/// A log that was opened and made durable, and is not written to yet.
pub struct RecoveredLog {
    shared: Arc<Shared>,
    clock: Clock,
    epoch: u32,
    tail: Tail,
    next_seqs: HashMap<TopicId, u64>,
    work: OpenWork,
    lock: DiskLock,
}

/// An open log: the embedded [`Store`].
pub struct Log {
    shared: Arc<Shared>,
    epoch: u32,
    /// In a log that is driven step by step.
    writer: Mutex<Option<Writer>>,
    /// Wakes the thread that cleans, if there is one.
    cleaner: Mutex<Option<Cleaner>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<DiskLock>>,
}

impl Log {
    /// Opens the log in a data directory, or makes one. Whatever it then shows is durable.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`StoreError::Damaged`], [`StoreError::Newer`], [`StoreError::Io`].
    ///
    /// # Panics
    /// If the segment size is no whole number of pages between 64 KiB and 1 GiB.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        clock: Clock,
    ) -> Result<RecoveredLog, StoreError> {
        let lock = take_lock(&*disk)?;
        Self::open_locked(disk, options, clock, lock)
    }

    /// The same for one who has the lock.
    pub(crate) fn open_locked(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        clock: Clock,
        lock: DiskLock,
    ) -> Result<RecoveredLog, StoreError> {
        options.check();
        let found = recover::open(&disk, &options)?;
        let next_seqs = recover::next_seqs(&found.segments);
        let fence = Arc::new(Fence::new(Arc::clone(&disk), found.store_id, found.epoch));
        let pool = Pool::new(
            Arc::clone(&disk),
            fence,
            options.segment_bytes,
            options.free_segments_max,
            found.free,
            found.next_free,
            found.segments.back().map_or(0, |newest| newest.number),
        );
        let end = found.tail.end();
        let files = Files {
            segments: found.segments,
            unindexed: found.unindexed,
            pool,
            kept: found.kept,
        };
        let shared = Shared::new(disk, options, found.store_id, files, end);
        shared.allow_what_is_there();
        Ok(RecoveredLog {
            shared: Arc::new(shared),
            clock,
            epoch: found.epoch,
            tail: found.tail,
            next_seqs,
            work: found.work,
            lock,
        })
    }

    /// The epoch, raised at each open.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The end of what was forgotten; groups behind it can be read.
    #[must_use]
    pub fn oldest(&self) -> Mark {
        self.shared.oldest()
    }

    /// Writes what is queued as one group, at most so much as a group can hold; `None` if nothing is queued. Only for
    /// a log that is driven step by step.
    ///
    /// # Errors
    /// After the first one the log is closed.
    pub fn commit_queued(&self) -> Result<Option<Arc<Group>>, StoreError> {
        let mut writer = lock(&self.writer);
        self.check_open()?;
        let Some(writer) = writer.as_mut() else {
            return Ok(None);
        };
        let mut batch = Vec::new();
        self.shared
            .queue
            .take(self.shared.options.batch_bytes_max(), &mut batch);
        if batch.is_empty() {
            return Ok(None);
        }
        let group = writer.commit(&mut batch)?;
        if let Some(number) = writer.next_segment() {
            self.shared.prepare(number);
        }
        self.shared.write_indexes();
        Ok(Some(group))
    }

    /// Writes what is queued, unless the log has failed, then closes it and gives up the directory. Blocks until the
    /// last sync is done. Dropping the log does the same.
    pub fn close(&self) {
        self.shared.queue.close();
        while matches!(self.commit_queued(), Ok(Some(_))) {}
        lock(&self.cleaner).take();
        for thread in lock(&self.threads).drain(..) {
            // A thread that panicked has closed the log already.
            let _ = thread.join();
        }
        self.shared.close();
        lock(&self.lock).take();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.close();
    }
}

impl RecoveredLog {
    /// The groups from `from` on; see [`Store::groups`].
    pub fn groups(&self, from: Mark, bytes_max: usize) -> Result<Vec<Arc<Group>>, StoreError> {
        self.shared.groups(from, bytes_max)
    }

    /// The end of the last group, [`Mark::ZERO`] if there was never one.
    #[must_use]
    pub fn end(&self) -> Mark {
        self.tail.end()
    }

    /// The number that the next group gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.tail.next_number()
    }

    /// The baseline that belongs to its oldest segment; `None` if the log was never forgotten, and needs none.
    ///
    /// # Errors
    /// [`StoreError::Unrecoverable`] if it is missing.
    pub(crate) fn baseline(&self) -> Result<Option<Baseline>, StoreError> {
        let oldest = self.oldest();
        if oldest == Mark::ZERO {
            return Ok(None);
        }
        let segments = self.shared.segments();
        let number = segments.front().map_or(0, |oldest| oldest.number);
        match baseline::read(&*self.shared.disk, self.shared.store_id, number)? {
            Some(baseline) => Ok(Some(baseline)),
            None => Err(StoreError::Unrecoverable { segment: number }),
        }
    }

    /// The events there are.
    pub(crate) fn events(&self) -> Events {
        let kept = self.shared.kept.files();
        inspect::events_in(&self.shared.segments(), kept.iter().map(|file| &**file))
    }

    /// Hands on what is owed for kept events, as of the beginning of the log.
    pub(crate) fn for_each_owed(
        &self,
        take: &mut dyn FnMut(Position, OwedDelivery) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.shared.kept.for_each_owed(take)
    }

    /// The end of what was forgotten, [`Mark::ZERO`] if nothing was; groups behind it can be read.
    #[must_use]
    pub fn oldest(&self) -> Mark {
        self.shared.oldest()
    }

    /// The epoch of this open: raised by one each time.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Drawn when the store was made.
    #[must_use]
    pub fn store_id(&self) -> [u8; 16] {
        self.shared.store_id
    }

    /// What opening it took.
    #[must_use]
    pub fn work(&self) -> OpenWork {
        self.work
    }

    /// The highest time that the server is known to have issued. The clock goes on from there.
    #[must_use]
    pub fn clock_high_water(&self) -> Timestamp {
        self.tail.clock()
    }

    /// Begins to write, on threads of its own. `next_seqs` says for each topic which `seq` comes next; what the log
    /// itself saw counts if it is higher, and 1 where neither knows.
    #[must_use]
    pub fn start(self, next_seqs: &HashMap<TopicId, u64>) -> Log {
        let (log, writer) = self.into_log(next_seqs);
        let (threads, cleaner) = threads::start(&log.shared, writer);
        *lock(&log.cleaner) = Some(cleaner);
        lock(&log.threads).extend(threads);
        log
    }

    /// The same without threads: nothing is written until [`Log::commit_queued`] is called.
    #[must_use]
    pub fn start_synchronous(self, next_seqs: &HashMap<TopicId, u64>) -> Log {
        let (log, writer) = self.into_log(next_seqs);
        *lock(&log.writer) = Some(writer);
        log
    }

    fn into_log(self, next_seqs: &HashMap<TopicId, u64>) -> (Log, Writer) {
        let mut seqs = self.next_seqs;
        for (topic, next) in next_seqs {
            let seq = seqs.entry(*topic).or_insert(1);
            *seq = (*seq).max(*next);
        }
        let start = Start {
            epoch: self.epoch,
            active: self.shared.segments().back().cloned(),
            next_number: self.tail.next_number(),
            end: self.tail.end(),
            high_water: self.tail.clock(),
            next_seqs: seqs,
        };
        let writer = Writer::new(Arc::clone(&self.shared), self.clock, start);
        let log = Log {
            shared: self.shared,
            epoch: self.epoch,
            writer: Mutex::new(None),
            cleaner: Mutex::default(),
            threads: Mutex::default(),
            lock: Mutex::new(Some(self.lock)),
        };
        (log, writer)
    }
}

fn append_work(topic: TopicId, events: PackedEvents) -> (Work, Appending) {
    assert!(events.count() > 0, "an append has at least one event");
    let (reply, appending) = oneshot::channel();
    let work = Work::Append {
        topic,
        events,
        reply,
    };
    (work, appending)
}

impl Store for Log {
    fn append(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError> {
        let (work, appending) = append_work(topic, events);
        let bytes = self.frame_bytes(&work)?;
        self.push(work, |queued| self.shared.admit_append(bytes, queued))?;
        Ok(appending)
    }

    fn append_own(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError> {
        let (work, appending) = append_work(topic, events);
        self.frame_bytes(&work)?;
        self.push(work, |_| Ok(()))?;
        Ok(appending)
    }

    fn journal(&self, record: Record) -> Result<(), StoreError> {
        assert!(
            !matches!(record, Record::Events(_)),
            "events are appended, not journaled"
        );
        let work = Work::journal(record);
        self.frame_bytes(&work)?;
        self.push(work, |_| Ok(()))
    }

    fn durable(&self) -> watch::Receiver<Mark> {
        self.shared.durable()
    }

    fn groups(&self, from: Mark, bytes_max: usize) -> Result<Vec<Arc<Group>>, StoreError> {
        self.check_open()?;
        self.shared.groups(from, bytes_max)
    }

    fn read_recent(&self, position: Position) -> Option<StoredEvent> {
        self.shared.read_recent(position)
    }

    fn read_recent_from(&self, from: Position, bytes_max: usize) -> Vec<(u64, StoredEvent)> {
        self.shared.read_recent_from(from, bytes_max)
    }

    fn read(&self, position: Position) -> Result<StoredEvent, StoreError> {
        self.check_open()?;
        self.shared.read(position)
    }

    fn read_from(
        &self,
        from: Position,
        bytes_max: usize,
    ) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        self.check_open()?;
        self.shared.read_from(from, bytes_max)
    }

    fn check_owner(&self) -> Result<(), StoreError> {
        self.check_open()?;
        self.shared.check_owner()
    }

    fn checkpoint(&self, through: Mark, liveness: &dyn Liveness) -> Result<(), StoreError> {
        self.check_open()?;
        self.shared.check_owner()?;
        let plan = self.shared.plan_cleaning(through, liveness);
        match &*lock(&self.cleaner) {
            Some(cleaner) => {
                self.shared.leave_plan(plan);
                cleaner.wake();
                Ok(())
            }
            None => self.shared.clean(&plan),
        }
    }

    fn read_to_keep(&self, position: Position) -> Result<StoredEvent, StoreError> {
        self.check_open()?;
        self.shared.clean_as_planned();
        self.shared.read_on_disk(position)
    }

    fn usage(&self) -> Usage {
        self.shared.usage()
    }

    fn record_room(&self) -> RecordRoom {
        self.shared.record_room()
    }
}

impl Log {
    fn check_open(&self) -> Result<(), StoreError> {
        if self.shared.is_closed() {
            Err(self.shared.fence.why_closed())
        } else {
            Ok(())
        }
    }

    fn push(
        &self,
        work: Work,
        admit: impl FnOnce(u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match self.shared.queue.push(work, admit) {
            Err(StoreError::Closed) => Err(self.shared.fence.why_closed()),
            pushed => pushed,
        }
    }

    fn frame_bytes(&self, work: &Work) -> Result<u64, StoreError> {
        let (bytes, bytes_max) = (work.bytes(), self.shared.options.record_bytes_max());
        if bytes > bytes_max {
            return Err(StoreError::TooLarge { bytes, bytes_max });
        }
        Ok(bytes as u64)
    }
}

/// Makes the directory this process's own.
pub(crate) fn take_lock(disk: &dyn Disk) -> Result<DiskLock, StoreError> {
    disk.lock(LOCK).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => StoreError::Locked {
            directory: disk.name(),
        },
        _ => StoreError::io("lock", LOCK)(error),
    })
}

/// Locks; a holder that panicked left the content whole, as every section under a lock here does.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of a store's id that its groups carry.
fn store_prefix(store_id: &[u8; 16]) -> u64 {
    u64::from_le_bytes(store_id[..8].try_into().expect("eight bytes"))
}
