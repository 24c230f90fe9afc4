//! Reads groups and events, from memory where they are there, else from disk. Runs beside the writer.

use std::sync::Arc;

use hedgerow_core::position::{Mark, Position};

use super::lock;
use super::scan::Scanner;
use super::segment::{self, Segment};
use super::shared::Shared;
use crate::error::{Place, StoreError};
use crate::record::Record;
use crate::{Group, StoredEvent};

/// So many groups that were read for one event are kept for the next one.
const OLD_GROUPS_MAX: usize = 64;
/// How far a search for one event reads ahead: a little more than a step of the offset index.
const EVENT_WINDOW_BYTES: usize = 32 * 1024;

/// Events of one topic in a row, up to a number of bytes.
struct Row {
    next: Position,
    bytes_left: usize,
    events: Vec<(u64, StoredEvent)>,
}

impl Shared {
    /// The durable groups that start at or after `from`.
    pub(crate) fn groups(
        &self,
        from: Mark,
        bytes_max: usize,
    ) -> Result<Vec<Arc<Group>>, StoreError> {
        loop {
            if let Some(groups) = lock(&self.ring).groups(from, bytes_max) {
                return Ok(groups);
            }
            match self.groups_on_disk(from, bytes_max) {
                // Its segment was recycled while it was read: the log begins later now.
                Err(StoreError::Forgotten { .. }) => {}
                result => return result,
            }
        }
    }

    /// The event at `position` if its group is in memory.
    pub(crate) fn read_recent(&self, position: Position) -> Option<StoredEvent> {
        let (group, record) = lock(&self.ring).find(position, 0).pop()?;
        event_in(&group.records[record], position)
    }

    /// The event at `position`.
    pub(crate) fn read(&self, position: Position) -> Result<StoredEvent, StoreError> {
        if let Some(event) = self.read_recent(position) {
            return Ok(event);
        }
        let row = self.read_from(position, 0)?;
        row.into_iter()
            .next()
            .map(|(_, event)| event)
            .ok_or_else(|| self.forgotten(position))
    }

    /// The events of a topic from `from` on.
    pub(crate) fn read_from(
        &self,
        from: Position,
        bytes_max: usize,
    ) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        let mut row = Row {
            next: from,
            bytes_left: bytes_max,
            events: Vec::new(),
        };
        let recent = lock(&self.ring).find(from, bytes_max);
        for (group, record) in &recent {
            row.add(&group.records[*record]);
        }
        if row.events.is_empty() {
            // Taken out of the lock: adding is long.
            let old = lock(&self.old_groups)
                .iter()
                .find(|old| has(old, from))
                .cloned();
            if let Some(old) = old {
                row.add_all(&old);
            }
        }
        // Each step ends with a segment at the latest.
        while recent.is_empty() && row.wants_more() && self.read_row(&mut row)? {}
        if row.events.is_empty() {
            Err(self.forgotten(from))
        } else {
            Ok(row.events)
        }
    }

    fn groups_on_disk(&self, from: Mark, bytes_max: usize) -> Result<Vec<Arc<Group>>, StoreError> {
        let mut groups = Vec::new();
        let mut bytes = 0;
        for segment in self
            .segments()
            .iter()
            .filter(|one| one.number >= from.segment())
        {
            let mut offset = if segment.number == from.segment() {
                from.offset()
            } else {
                0
            };
            let end = segment.content().end;
            let mut scanner = self.scanner(segment, end).reading_ahead(bytes_max);
            while offset < end {
                let group = self.read_group(&mut scanner, segment, offset)?;
                if bytes + group.bytes > bytes_max && !groups.is_empty() {
                    return Ok(groups);
                }
                offset = group.end.offset();
                bytes += group.bytes;
                groups.push(Arc::new(group));
            }
        }
        Ok(groups)
    }

    /// Goes on with the row in the segment that has its next event; says whether there is one.
    fn read_row(&self, row: &mut Row) -> Result<bool, StoreError> {
        let found = self
            .segments()
            .into_iter()
            .find_map(|segment| segment.find(row.next).map(|offset| (segment, offset)));
        let Some((segment, mut offset)) = found else {
            return Ok(false);
        };
        let end = segment.content().end;
        let window = EVENT_WINDOW_BYTES.max(row.bytes_left);
        let mut scanner = self.scanner(&segment, end).reading_ahead(window);
        while offset < end && row.wants_more() {
            let group = self.read_group(&mut scanner, &segment, offset)?;
            offset = group.end.offset();
            if row.add_all(&group) {
                self.keep(group);
            }
        }
        Ok(true)
    }

    fn scanner<'a>(&self, segment: &'a Segment, end: u32) -> Scanner<'a> {
        Scanner::new(&*segment.file, self.store_prefix(), segment.number, end)
    }

    fn read_group(
        &self,
        scanner: &mut Scanner<'_>,
        segment: &Segment,
        offset: u32,
    ) -> Result<Group, StoreError> {
        scanner
            .read_group(offset)?
            .ok_or_else(|| self.unreadable(segment, offset))
    }

    /// Keeps a group for the next one who asks, within an eighth of the ring's bytes.
    fn keep(&self, group: Group) {
        let bytes_max = self.options.ring_bytes / 8;
        let mut old = lock(&self.old_groups);
        old.push_front(Arc::new(group));
        let mut bytes = 0;
        let fitting = old
            .iter()
            .take(OLD_GROUPS_MAX)
            .take_while(|group| {
                bytes += group.bytes;
                bytes <= bytes_max
            })
            .count();
        old.truncate(fitting);
    }

    /// Why a durable group cannot be read: its segment was recycled meanwhile, or it is damaged.
    fn unreadable(&self, segment: &Segment, offset: u32) -> StoreError {
        let place = Mark::new(segment.number, offset);
        match self.segments().front() {
            Some(oldest) if oldest.number <= segment.number => StoreError::damaged(format!(
                "{}: the group at {place}",
                segment::path(segment.number)
            )),
            _ => StoreError::Forgotten {
                what: Place::Mark(place),
                oldest: self.oldest(),
            },
        }
    }

    fn forgotten(&self, position: Position) -> StoreError {
        StoreError::Forgotten {
            what: Place::Position(position),
            oldest: self.oldest(),
        }
    }
}

impl Row {
    fn wants_more(&self) -> bool {
        self.events.is_empty() || self.bytes_left > 0
    }

    /// Adds what follows from a group; says whether there was anything.
    fn add_all(&mut self, group: &Group) -> bool {
        let before = self.events.len();
        for record in &group.records {
            self.add(record);
        }
        self.events.len() > before
    }

    /// Adds what follows from one record, as far as there are bytes left, but at least the first event.
    fn add(&mut self, record: &Record) {
        let Record::Events(events) = record else {
            return;
        };
        if events.topic != self.next.topic || events.first_seq > self.next.seq {
            return;
        }
        for (seq, event) in events.events_from(self.next.seq) {
            if event.bytes.len() > self.bytes_left && !self.events.is_empty() {
                self.bytes_left = 0;
                return;
            }
            self.bytes_left = self.bytes_left.saturating_sub(event.bytes.len());
            self.events.push((seq, event));
            self.next.seq = seq + 1;
        }
    }
}

fn event_in(record: &Record, position: Position) -> Option<StoredEvent> {
    match record {
        Record::Events(events) => events.event_at(position),
        _ => None,
    }
}

fn has(group: &Group, position: Position) -> bool {
    group.records.iter().any(|record| match record {
        Record::Events(events) => {
            events.topic == position.topic
                && position.seq >= events.first_seq
                && position.seq - events.first_seq < u64::from(events.packed.count())
        }
        _ => false,
    })
}
