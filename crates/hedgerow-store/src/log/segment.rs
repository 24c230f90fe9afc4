//! One segment: a file of groups, and what is known about its content.
//!
//! The file of segment `n` is `log/<n as 8 hex digits>.seg`. A file without content of value is `log/free-<any>`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use hedgerow_core::position::{Mark, Position, TopicId};

use crate::disk::DiskFile;
use crate::record::Record;

/// The directory of segments.
pub(crate) const DIRECTORY: &str = "log";
/// At least so many bytes are between two entries of a topic's offset index.
const INDEX_STEP_BYTES: u32 = 16 * 1024;

/// The path of a segment.
pub(crate) fn path(number: u32) -> String {
    format!("{DIRECTORY}/{number:08x}.seg")
}

/// The path of a free file.
pub(crate) fn free_path(number: u64) -> String {
    format!("{DIRECTORY}/free-{number}")
}

/// The segment that a file name in the directory stands for.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    let digits = name
        .strip_suffix(".seg")
        .filter(|digits| digits.len() == 8)?;
    u32::from_str_radix(digits, 16).ok()
}

/// The number of a free file.
pub(crate) fn free_number_of(name: &str) -> Option<u64> {
    name.strip_prefix("free-")?.parse().ok()
}

/// An open segment.
pub(crate) struct Segment {
    /// Its number, which is its generation too.
    pub number: u32,
    /// Its file.
    pub file: Arc<dyn DiskFile>,
    /// How many bytes groups may take.
    pub capacity: u32,
    /// Written by the committer after each sync, read by everybody.
    content: RwLock<Content>,
}

/// What the durable groups of a segment hold.
#[derive(Debug, Default, Clone)]
pub(crate) struct Content {
    /// The end of the last durable group, 0 if there is none.
    pub end: u32,
    /// The end of the group before the segment's first one, in another segment.
    pub previous_end: Mark,
    /// The events of each topic.
    pub topics: HashMap<TopicId, TopicRange>,
}

/// The events of one topic in one segment.
#[derive(Debug, Default, Clone)]
pub(crate) struct TopicRange {
    /// The first one.
    pub first_seq: u64,
    /// The last one. All between are there.
    pub last_seq: u64,
    /// Where to begin to look: increasing, the first entry is the topic's first group.
    index: Vec<IndexEntry>,
}

/// The group at `offset` is the first one that holds events from `first_seq` on.
#[derive(Debug, Clone, Copy)]
struct IndexEntry {
    first_seq: u64,
    offset: u32,
}

/// The events of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventsRange {
    pub topic: TopicId,
    pub first_seq: u64,
    /// At least 1.
    pub count: u32,
}

/// The events of these records.
pub(crate) fn ranges_of(records: &[Record]) -> impl Iterator<Item = EventsRange> {
    records.iter().filter_map(|record| match record {
        Record::Events(events) => Some(EventsRange {
            topic: events.topic,
            first_seq: events.first_seq,
            count: events.packed.count(),
        }),
        _ => None,
    })
}

impl Segment {
    /// A segment without groups.
    pub(crate) fn new(number: u32, file: Arc<dyn DiskFile>, capacity: u32) -> Self {
        Self {
            number,
            file,
            capacity,
            content: RwLock::default(),
        }
    }

    /// What is in it.
    pub(crate) fn content(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of its last durable group, [`Mark::ZERO`] if it has none.
    pub(crate) fn end(&self) -> Mark {
        match self.content().end {
            0 => Mark::ZERO,
            end => Mark::new(self.number, end),
        }
    }

    /// Takes note of a durable group behind those known already, with the events in it.
    pub(crate) fn note(
        &self,
        start: Mark,
        end: Mark,
        synced_through: Mark,
        events: impl Iterator<Item = EventsRange>,
    ) {
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        if content.end == 0 {
            content.previous_end = synced_through;
        }
        for range in events {
            content
                .topics
                .entry(range.topic)
                .or_default()
                .note(range, start.offset());
        }
        content.end = end.offset();
    }

    /// The offset of a group at or before the one that holds the event, with none of the topic's older events to be
    /// missed. `None` if the event is not in this segment.
    pub(crate) fn find(&self, position: Position) -> Option<u32> {
        let content = self.content();
        let range = content.topics.get(&position.topic)?;
        if position.seq < range.first_seq || position.seq > range.last_seq {
            return None;
        }
        let behind = range
            .index
            .partition_point(|entry| entry.first_seq <= position.seq);
        Some(range.index[behind - 1].offset)
    }
}

impl TopicRange {
    fn note(&mut self, events: EventsRange, offset: u32) {
        let first_seq = events.first_seq;
        match self.index.last() {
            Some(newest) if offset - newest.offset < INDEX_STEP_BYTES => {}
            Some(_) => self.index.push(IndexEntry { first_seq, offset }),
            None => {
                self.first_seq = first_seq;
                self.index.push(IndexEntry { first_seq, offset });
            }
        }
        self.last_seq = first_seq + u64::from(events.count) - 1;
    }
}
