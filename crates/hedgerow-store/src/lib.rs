//! Remembers: the durable log of everything that must survive, and the view that is built from it.
//!
//! | module | holds |
//! | --- | --- |
//! | [`record`] | the records of the log, and their stored form |
//! | [`disk`] | the seam to the file system: the real one, and one that loses power |
//! | [`log`] | groups, segments, the commit thread, recovery |
//! | [`conformance`] | the suite that every store must pass, for tests |
//! | [`memory`] | the model of a store: obvious, slow, trusted |
//! | [`view`] | cursors, exceptions and due deliveries: a fold over the log, checkpointed in a table |
//! | [`history`] | what became of each attempt, for people: lossy, and apart from everything else |
//! | [`catalog`] | what users declared: topics and subscriptions, and its changes |
//! | `small_file` | the form of the small files beside the log |
//! | [`secrets`] | seals what must not stand readable on disk |
//! | [`recover`] | builds the view again |
//! | [`stat`] | what fills the disk, and for whom it is kept |
//! | [`error`] | what can go wrong, by what the caller does about it |
//!
//! Only this crate knows formats on disk.

pub mod catalog;
pub mod conformance;
pub mod disk;
pub mod error;
pub mod failpoint;
pub mod history;
pub mod log;
pub mod memory;
pub mod record;
pub mod recover;
pub mod secrets;
mod small_file;
pub mod stat;
pub mod view;

use std::ops::RangeInclusive;
use std::sync::Arc;

use hedgerow_core::position::{Mark, Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use roaring::RoaringTreemap;
use tokio::sync::{oneshot, watch};

use crate::error::Fullness;
pub use crate::error::StoreError;
use crate::record::{PackedEvents, Record};

/// An append-only store with one order of events, journal and catalog records (design D8).
///
/// # Order
/// Records become durable in the order in which they were queued, `append` and `journal` together.
///
/// # Durability
/// Nothing is shown by [`Store::groups`] before it is durable, and an [`Appending`] resolves with `Ok` only then. What
/// is queued when the store fails may or may not be there after it was opened again.
///
/// # Failure
/// A store that failed a write or a sync is closed for good: every later call answers [`StoreError::Closed`]. Its
/// owner opens it again from disk; a failed sync is never retried (design D5).
///
/// # Ownership
/// A store is opened by one owner at a time, in an *epoch* that is higher each time. When another one has opened it
/// since, every call that changes something, and every call from the first refused one on, answers
/// [`StoreError::Fenced`]: nothing of the former owner may follow what the new one has seen (design D8).
pub trait Store: Send + Sync + 'static {
    /// Queues events behind everything queued so far. Does not block.
    ///
    /// # Errors
    /// [`StoreError::Full`] at the watermark and [`StoreError::Busy`] when too many bytes are queued: nothing was
    /// stored, the publisher is told to come back.
    fn append(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError>;

    /// Queues events that the server itself publishes, behind everything queued so far, as [`Store::journal`] does a record: they
    /// belong to what the records behind them say, and are not refused at the watermark. Few and small ones.
    fn append_own(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError>;

    /// Queues a record behind everything queued so far. Does not block, and is not refused at the watermark: room is
    /// kept for it. Whoever must know that it is durable sees it come back from [`Store::groups`]. Never called with
    /// [`Record::Events`].
    fn journal(&self, record: Record) -> Result<(), StoreError>;

    /// The end of what is durable; changes after each sync. The sender goes away when the store closes.
    fn durable(&self) -> watch::Receiver<Mark>;

    /// The durable groups that start at or after `from`, in order, at least one if there is one, about `bytes_max`
    /// bytes at most. `from` is [`Mark::ZERO`], or the `end` of a group (which may be the end of a segment that was
    /// recycled since: the answer then begins with the oldest group there is, and its number tells whether one is
    /// missing). May read the disk.
    fn groups(&self, from: Mark, bytes_max: usize) -> Result<Vec<Arc<Group>>, StoreError>;

    /// The events of the group that holds the event at `position`. Does not read the disk: `None` if the group is not
    /// in memory.
    fn read_recent(&self, position: Position) -> Option<StoredEvent>;

    /// The events of the topic from `from` on, each with its number, without a gap, about `bytes_max` bytes at most, as far as
    /// they are in memory. Does not read the disk: empty if the first one is not there.
    fn read_recent_from(&self, from: Position, bytes_max: usize) -> Vec<(u64, StoredEvent)> {
        let mut events = Vec::new();
        let (mut position, mut bytes) = (from, 0);
        while bytes <= bytes_max
            && let Some(event) = self.read_recent(position)
        {
            bytes += event.bytes.len();
            events.push((position.seq, event));
            position.seq += 1;
        }
        events
    }

    /// The event at `position`. May read the disk.
    ///
    /// # Errors
    /// [`StoreError::Forgotten`] if it is not there any more, or not yet.
    fn read(&self, position: Position) -> Result<StoredEvent, StoreError>;

    /// The events of the topic from `from` on, each with its number, without a gap, at least one if there is one, about
    /// `bytes_max` bytes at most. For readers that are behind. May read the disk.
    ///
    /// # Errors
    /// [`StoreError::Forgotten`] if the first one is not there any more, or not yet.
    fn read_from(
        &self,
        from: Position,
        bytes_max: usize,
    ) -> Result<Vec<(u64, StoredEvent)>, StoreError>;

    /// Looks whether nobody has opened the store since. To be asked before anything beside the store is changed that
    /// belongs to its owner, as the view's table does. May read the disk.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if somebody has, [`StoreError::Closed`] if the store is closed.
    fn check_owner(&self) -> Result<(), StoreError>;

    /// Says that the view is synced up to `through`, and what is still needed; frees what can be freed.
    fn checkpoint(&self, through: Mark, liveness: &dyn Liveness) -> Result<(), StoreError>;

    /// The event at `position`, for somebody who is about to owe it: waits until everything that an earlier checkpoint allowed
    /// to be forgotten is forgotten, and answers only what is still on disk then. It stays if it is needed from before this
    /// call on. May take as long as the disk does.
    ///
    /// # Errors
    /// [`StoreError::Forgotten`] if it is not there any more, or not yet; also if memory remembers it, and the disk does not.
    fn read_to_keep(&self, position: Position) -> Result<StoredEvent, StoreError> {
        self.read(position)
    }

    /// How full the store is. Asks the disk.
    fn usage(&self) -> Usage;

    /// What there is room for, as [`Store::usage`] says, without asking the disk: it is asked many times a second.
    fn record_room(&self) -> RecordRoom {
        let usage = self.usage();
        RecordRoom {
            queued_bytes: usage.queued_bytes,
            room_bytes: usage.record_room_bytes,
        }
    }
}

/// An append on its way. Resolves after the sync that covers it; resolves with an error of the channel when the store
/// closed before that, and then the events may or may not have been kept.
pub type Appending = oneshot::Receiver<Appended>;

/// What an append was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Where the first event stands; the others follow.
    pub first: Position,
    /// P of ED-203.
    pub published: Timestamp,
}

/// What was written and synced together.
#[derive(Debug)]
pub struct Group {
    /// Counts the groups of a store from 1, without a gap: a reader that kept the number of the last group it saw knows
    /// whether the next one it is given follows.
    pub number: u64,
    /// Where it begins.
    pub start: Mark,
    /// Where the next one may begin.
    pub end: Mark,
    /// Its records in order. Bytes in them are shared with the group's buffer.
    pub records: Vec<Record>,
    /// The size of the backing buffer.
    pub bytes: usize,
}

/// What a record that is no events takes beside its own size: the list in it.
const RECORD_LIST_BYTES: usize = 128;

impl Group {
    /// About how much memory it takes: its buffer and its decoded records.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes + self.records.len() * (size_of::<Record>() + RECORD_LIST_BYTES)
    }
}

/// One event as read back.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// P of ED-203.
    pub published: Timestamp,
    /// The stored form of the event; [`record::unpack_event`] reads it. Shared with its group's buffer.
    pub bytes: bytes::Bytes,
}

/// What the cleaner of a store asks the view (design D8).
pub trait Liveness {
    /// Whether any event of the topic in this range of `seq` is still owed to somebody, or was not offered to
    /// everybody yet.
    fn is_needed(&self, topic: TopicId, seqs: RangeInclusive<u64>) -> bool;

    /// Which events of the topic in this range are, and which behind it.
    fn needed(&self, topic: TopicId, seqs: RangeInclusive<u64>) -> Needed;

    /// Every subscription and its topic.
    fn subscriptions(&self) -> Vec<(SubscriptionId, TopicId)> {
        Vec::new()
    }

    /// Whether a view can be built again from a log that begins with this segment.
    fn has_baseline(&self, _segment: u32) -> bool {
        true
    }
}

/// Which events of one topic are needed.
#[derive(Debug, Clone, PartialEq)]
pub struct Needed {
    /// Those that are owed to somebody.
    pub open: RoaringTreemap,
    /// All from here on, because a subscription, the reader or a snapshot stands before them; [`u64::MAX`] for none.
    pub from: u64,
}

impl Needed {
    /// How many of these events are needed.
    #[must_use]
    pub fn count_of(&self, seqs: &RoaringTreemap) -> u64 {
        let below = |seqs: &RoaringTreemap| {
            let last = self.from.checked_sub(1);
            last.map_or(0, |last| seqs.rank(last))
        };
        seqs.len() - below(seqs) + below(&(&self.open & seqs))
    }

    /// Whether an event is needed.
    #[must_use]
    pub fn contains(&self, seq: u64) -> bool {
        seq >= self.from || self.open.contains(seq)
    }
}

impl Default for Needed {
    fn default() -> Self {
        Self {
            open: RoaringTreemap::new(),
            from: u64::MAX,
        }
    }
}

/// What a store has room for, of what is written about deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRoom {
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
    /// Bytes that records may take besides.
    pub room_bytes: u64,
}

/// How full a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes that cannot be forgotten yet: whole segments of the log, and kept files.
    pub used_bytes: u64,
    /// At how many of them publishing is refused.
    pub watermark_bytes: u64,
    /// Why the largest publish request would be refused, if it would.
    pub fullness: Option<Fullness>,
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
    /// Bytes that records other than events may still take.
    pub record_room_bytes: u64,
    /// Segments given over to new data so far, counted since the store was opened.
    pub recycled_segments: u64,
    /// Bytes of kept files.
    pub kept_bytes: u64,
    /// Segments that were read before they were forgotten, counted since the store was opened.
    pub cleaned_segments: u64,
    /// Events that were copied from segments to kept files, counted since the store was opened.
    pub copied_events: u64,
    /// Kept files that were written anew because little in them was needed, counted since the store was opened.
    pub compacted_files: u64,
}

impl Usage {
    /// Whether the largest publish request would be refused.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.fullness.is_some()
    }
}
