//! What the writer, readers and cleaners of a log share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hedgerow_core::position::Mark;
use tokio::sync::watch;

use super::clean::Plan;
use super::fence::Fence;
use super::index;
use super::kept::Kept;
use super::pool::Pool;
use super::queue::Queue;
use super::read::OldPart;
use super::ring::Ring;
use super::segment::Segment;
use super::{LogOptions, lock};
use crate::Group;
use crate::disk::Disk;
use crate::error::StoreError;

/// After so many bytes of groups the writer looks at the free space again.
const SPACE_CHECK_BYTES: u64 = 1024 * 1024;

/// What the parts of an open log share.
pub(crate) struct Shared {
    pub disk: Arc<dyn Disk>,
    pub options: LogOptions,
    pub store_id: [u8; 16],
    pub pool: Pool,
    pub fence: Arc<Fence>,
    pub queue: Queue,
    /// What is kept of segments that were forgotten.
    pub kept: Kept,
    /// The newest groups.
    pub ring: Mutex<Ring>,
    /// What was read from disk lately.
    pub old_parts: Mutex<VecDeque<Arc<OldPart>>>,
    /// Oldest first, the active one last. The writer adds, checkpoints remove.
    pub(super) segments: RwLock<VecDeque<Arc<Segment>>>,
    /// Sealed segments whose index has to be written, oldest first.
    unindexed: Mutex<VecDeque<Arc<Segment>>>,
    /// Goes away when the log closes.
    durable: Mutex<Option<watch::Sender<Mark>>>,
    durable_end: watch::Receiver<Mark>,
    closed: AtomicBool,
    /// Bytes of groups since the free space was looked at.
    unchecked_bytes: AtomicU64,
    /// Bytes that should be free on the disk and are not; 0 if all is well.
    pub(super) missing_bytes: AtomicU64,
    /// The next segment could not be made ahead of time.
    pub(super) spare_missing: AtomicBool,
    /// What to clean next, for the thread that cleans.
    plan: Mutex<Option<Plan>>,
    /// Held while a plan is carried out.
    cleaning: Mutex<()>,
    is_cleaning_short_of_space: AtomicBool,
    /// What the next cleanings copy at once, at most.
    pub copy_bytes: AtomicU64,
    /// What was forgotten and still has its file.
    pub leaving_bytes: AtomicU64,
    /// The least that was used since the log was opened with more than fits; 0 if it was not.
    pub(super) excess_bytes: AtomicU64,
    pub cleaned_segments: AtomicU64,
    pub copied_events: AtomicU64,
}

/// What a log was opened with.
pub(crate) struct Files {
    /// Oldest first.
    pub segments: VecDeque<Arc<Segment>>,
    /// Those of them whose index has to be written.
    pub unindexed: VecDeque<Arc<Segment>>,
    pub pool: Pool,
    pub kept: Kept,
}

impl Shared {
    /// A log with these files, whose last group ends at `end`.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        store_id: [u8; 16],
        files: Files,
        end: Mark,
    ) -> Self {
        let Files {
            segments,
            unindexed,
            pool,
            kept,
        } = files;
        let (durable, durable_end) = watch::channel(end);
        Self {
            disk,
            ring: Mutex::new(Ring::new(options.ring_bytes, end)),
            options,
            store_id,
            fence: Arc::clone(pool.fence()),
            pool,
            queue: Queue::default(),
            kept,
            old_parts: Mutex::default(),
            segments: RwLock::new(segments),
            unindexed: Mutex::new(unindexed),
            durable: Mutex::new(Some(durable)),
            durable_end,
            closed: AtomicBool::new(false),
            unchecked_bytes: AtomicU64::new(0),
            missing_bytes: AtomicU64::new(0),
            spare_missing: AtomicBool::new(false),
            plan: Mutex::default(),
            cleaning: Mutex::default(),
            is_cleaning_short_of_space: AtomicBool::new(false),
            copy_bytes: AtomicU64::new(0),
            leaving_bytes: AtomicU64::new(0),
            excess_bytes: AtomicU64::new(0),
            cleaned_segments: AtomicU64::new(0),
            copied_events: AtomicU64::new(0),
        }
    }

    /// The part of the store's id that groups carry.
    pub(crate) fn store_prefix(&self) -> u64 {
        super::store_prefix(&self.store_id)
    }

    /// The end of what is durable, as it changes.
    pub(crate) fn durable(&self) -> watch::Receiver<Mark> {
        self.durable_end.clone()
    }

    /// All segments, oldest first.
    pub(crate) fn segments(&self) -> VecDeque<Arc<Segment>> {
        self.segments
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The end of what was forgotten.
    pub(crate) fn oldest(&self) -> Mark {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments
            .front()
            .map_or(Mark::ZERO, |oldest| oldest.content().previous_end)
    }

    /// Adds the segment that is written to from now on.
    pub(crate) fn add_segment(&self, segment: Arc<Segment>) {
        self.segments
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(segment);
    }

    /// Shows a group that is durable to those who follow the log.
    pub(crate) fn show(&self, group: &Arc<Group>) {
        lock(&self.ring).push(Arc::clone(group));
        if let Some(durable) = &*lock(&self.durable) {
            durable.send_replace(group.end);
        }
        let bytes = u64::from(group.end.offset() - group.start.offset());
        if self.unchecked_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes >= SPACE_CHECK_BYTES {
            self.unchecked_bytes.store(0, Ordering::Relaxed);
            self.check_space();
        }
    }

    /// Makes segment `number` and a spare file ahead of time. On a full disk the log goes on without them, but nothing
    /// new is published; any other error closes it, as a failed sync must not be tried again.
    pub(crate) fn prepare(&self, number: u32) {
        let prepared = self.pool.prepare(number, self.room_for_files());
        let was_missing = self
            .spare_missing
            .swap(prepared.is_err(), Ordering::Relaxed);
        match prepared {
            Ok(()) => {}
            Err(error) if error.is_disk_full() => {
                if !was_missing {
                    tracing::warn!(
                        %error,
                        "no room for the next segment, publishing stops; free space"
                    );
                }
            }
            Err(error) => self.close_for(&error),
        }
        self.check_space();
    }

    /// Says that nothing will be added to a segment any more: its index can be written.
    pub(crate) fn seal(&self, segment: Arc<Segment>) {
        segment.seal();
        lock(&self.unindexed).push_back(segment);
    }

    /// Whether a segment waits for its index.
    pub(crate) fn lacks_indexes(&self) -> bool {
        !lock(&self.unindexed).is_empty()
    }

    /// Writes the indexes that are missing. One that finds no room is left out: it saves time at the next start and no
    /// more. Any other error closes the log, as a failed sync must not be tried again.
    pub(crate) fn write_indexes(&self) {
        loop {
            // The lock must not be held while it is written.
            let next = lock(&self.unindexed).pop_front();
            let Some(segment) = next else { return };
            match self.write_index(&segment) {
                Ok(()) => {}
                Err(error) if error.is_disk_full() => {
                    tracing::warn!(%error, "no room for the index of a segment; free space");
                }
                Err(error) => return self.close_for(&error),
            }
        }
    }

    /// Writes the index of one segment, unless it was released. A release removes the segment from the list first and
    /// its index then; so whoever of the two comes last removes the index.
    fn write_index(&self, segment: &Segment) -> Result<(), StoreError> {
        if !self.has_segment(segment.number) {
            return Ok(());
        }
        // Its name may be that of an index of another owner.
        self.fence.check()?;
        index::write(&*self.disk, self.store_id, segment)?;
        if self.has_segment(segment.number) {
            Ok(())
        } else {
            index::remove(&*self.disk, segment.number)
        }
    }

    fn has_segment(&self, number: u32) -> bool {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.iter().any(|segment| segment.number == number)
    }

    /// Leaves a plan to the thread that cleans; one that it has not begun is no longer wanted.
    pub(crate) fn leave_plan(&self, plan: Plan) {
        *lock(&self.plan) = Some(plan);
    }

    /// Cleans what was planned last, unless the log has closed; after whoever cleans already.
    pub(crate) fn clean_as_planned(&self) {
        let _one_at_a_time = lock(&self.cleaning);
        let plan = lock(&self.plan).take();
        if let Some(plan) = plan.filter(|_| !self.is_closed()) {
            // What went wrong was said.
            let _ = self.clean(&plan);
        }
    }

    /// Does what was planned. Without room for it the log goes on, and the next plan is tried.
    ///
    /// # Errors
    /// The log is closed then.
    pub(crate) fn clean(&self, plan: &Plan) -> Result<(), StoreError> {
        let cleaned = self.carry_out(plan);
        let is_short = matches!(&cleaned, Err(error) if error.is_disk_full());
        let was_short = self
            .is_cleaning_short_of_space
            .swap(is_short, Ordering::Relaxed);
        match cleaned {
            Err(error) if is_short => {
                if !was_short {
                    tracing::warn!("no room to keep what is needed of old segments: {error}");
                }
                self.check_space();
                Ok(())
            }
            cleaned => cleaned.inspect_err(|error| self.close_for(error)),
        }
    }

    /// Forgets the oldest segment; its file is the caller's.
    pub(crate) fn remove_oldest(&self, number: u32) {
        let mut segments = self
            .segments
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let oldest = segments.pop_front();
        assert!(
            oldest.is_some_and(|oldest| oldest.number == number),
            "segments are forgotten oldest first"
        );
    }

    /// Closes the log if the directory has another owner.
    pub(crate) fn check_owner(&self) -> Result<(), StoreError> {
        self.fence.check().inspect_err(|_| self.close())
    }

    /// Whether the log has failed or was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the log because of an error, and says so.
    pub(crate) fn close_for(&self, error: &StoreError) {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(cause, "the store closes: {error}");
        self.close();
    }

    /// Closes the log for good: nothing is taken in, everybody who waits hears of it.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.queue.discard();
        lock(&self.durable).take();
    }
}
