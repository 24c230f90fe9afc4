//! The newest groups, in memory, bounded by the size of their buffers (design D6).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hedgerow_core::position::{Mark, Position, TopicId};

use crate::Group;
use crate::record::{Events, Record};

/// The newest groups.
pub(crate) struct Ring {
    bytes_max: usize,
    bytes: usize,
    groups: VecDeque<Arc<Group>>,
    /// How many groups have left at the front.
    gone: u64,
    /// The end of the newest group that is not here.
    previous_end: Mark,
    /// Where the events of each topic are, in order.
    topics: HashMap<TopicId, VecDeque<Entry>>,
}

/// The place of one record of events.
struct Entry {
    first_seq: u64,
    count: u32,
    record: u32,
    /// Counted from the first group that was ever in the ring.
    group: u64,
}

impl Ring {
    /// An empty ring behind `end`.
    pub(crate) fn new(bytes_max: usize, end: Mark) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            groups: VecDeque::new(),
            gone: 0,
            previous_end: end,
            topics: HashMap::new(),
        }
    }

    /// Adds the newest group; the oldest ones leave.
    pub(crate) fn push(&mut self, group: Arc<Group>) {
        let number = self.gone + self.groups.len() as u64;
        for (record, events) in events_of(&group) {
            self.topics
                .entry(events.topic)
                .or_default()
                .push_back(Entry {
                    first_seq: events.first_seq,
                    count: events.packed.count(),
                    record,
                    group: number,
                });
        }
        self.bytes += group.memory_bytes();
        self.groups.push_back(group);
        while self.bytes > self.bytes_max && self.groups.len() > 1 {
            self.pop();
        }
    }

    /// The groups from `from` on, about `bytes_max` bytes of them; `None` if older ones would be needed.
    pub(crate) fn groups(&self, from: Mark, bytes_max: usize) -> Option<Vec<Arc<Group>>> {
        if from < self.previous_end {
            return None;
        }
        let first = self.groups.partition_point(|group| group.start < from);
        let mut bytes = 0;
        let mut groups = Vec::new();
        for group in self.groups.range(first..) {
            if !groups.is_empty() && bytes + group.memory_bytes() > bytes_max {
                break;
            }
            bytes += group.memory_bytes();
            groups.push(Arc::clone(group));
        }
        Some(groups)
    }

    /// The records that hold a topic's events from `from` on, each as its group and which of its records it is: as
    /// many as have about `bytes_max` bytes, at least one. Empty if the first of these events is not here.
    pub(crate) fn find(&self, from: Position, bytes_max: usize) -> Vec<(Arc<Group>, usize)> {
        let mut found = Vec::new();
        let Some(entries) = self.topics.get(&from.topic) else {
            return found;
        };
        let behind = entries.partition_point(|entry| entry.first_seq <= from.seq);
        let Some(first) = behind.checked_sub(1) else {
            return found;
        };
        if from.seq - entries[first].first_seq >= u64::from(entries[first].count) {
            return found;
        }
        let mut bytes = 0;
        for entry in entries.range(first..) {
            let group = &self.groups[(entry.group - self.gone) as usize];
            found.push((Arc::clone(group), entry.record as usize));
            if let Record::Events(events) = &group.records[entry.record as usize] {
                bytes += events.packed.len_bytes();
            }
            if bytes >= bytes_max {
                break;
            }
        }
        found
    }

    fn pop(&mut self) {
        let Some(group) = self.groups.pop_front() else {
            return;
        };
        for (_, events) in events_of(&group) {
            if let Some(entries) = self.topics.get_mut(&events.topic) {
                entries.pop_front();
                if entries.is_empty() {
                    self.topics.remove(&events.topic);
                }
            }
        }
        self.gone += 1;
        self.bytes -= group.memory_bytes();
        self.previous_end = group.end;
    }
}

/// The records of events in a group, and which of its records they are.
fn events_of(group: &Group) -> impl Iterator<Item = (u32, &Events)> {
    group
        .records
        .iter()
        .enumerate()
        .filter_map(|(index, record)| match record {
            Record::Events(events) => Some((index as u32, events)),
            _ => None,
        })
}
