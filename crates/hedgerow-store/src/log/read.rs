//! Reads groups and events, from memory where they are there, else from disk. Runs beside the writer.
//!
//! Whoever reads one topic's events from disk reads the stretches of its offset index only, and not much more than it
//! asked for: a reader that is far behind costs what it is given. What was read for one is kept for the next, because
//! those that are behind in the same topic want the same.
//!
//! Every group and every stretch that is read is checked by its crc. One that is wrong is damage, unless its segment was
//! recycled meanwhile.

use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::position::{Mark, Position};

use super::content::{Parts, STRETCH_BYTES_MAX, Stretch};
use super::lock;
use super::scan::Scanner;
use super::segment::{self, Segment};
use super::shared::Shared;
use crate::error::{Place, StoreError};
use crate::record::{Record, codec};
use crate::{Group, StoredEvent};

/// So many parts of the log that were read for one event are kept for the next one.
const OLD_PARTS_MAX: usize = 64;

/// Records that were read from disk together.
pub(crate) struct OldPart {
    records: Vec<Record>,
    /// The size of the backing buffer.
    bytes: usize,
}

/// Events of one topic in a row, up to a number of bytes.
struct Row {
    next: Position,
    bytes_left: usize,
    /// How much may still be read from disk for it.
    read_left: usize,
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

    /// The events of a topic from `from` on, as far as their groups are in memory.
    pub(crate) fn read_recent_from(
        &self,
        from: Position,
        bytes_max: usize,
    ) -> Vec<(u64, StoredEvent)> {
        let mut row = Row {
            next: from,
            bytes_left: bytes_max,
            read_left: 0,
            events: Vec::new(),
        };
        // Taken out of the lock: adding is long.
        let recent = lock(&self.ring).find(from, bytes_max);
        for (group, record) in &recent {
            row.add(&group.records[*record]);
        }
        row.events
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

    /// The same, if it is on disk: memory remembers events of segments that are forgotten.
    pub(crate) fn read_on_disk(&self, position: Position) -> Result<StoredEvent, StoreError> {
        let segments = self.segments();
        let mut stretches = segments.iter().map(|one| one.stretches(position, 0));
        if stretches.any(|found| !found.is_empty()) || self.kept.has(position) {
            self.read(position)
        } else {
            Err(self.forgotten(position))
        }
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
            read_left: bytes_max,
            events: Vec::new(),
        };
        let recent = lock(&self.ring).find(from, bytes_max);
        for (group, record) in &recent {
            row.add(&group.records[*record]);
        }
        if row.events.is_empty() {
            // Taken out of the lock: adding is long.
            self.add_old(&mut row);
        }
        // Each step ends with a segment at the latest.
        while recent.is_empty() && row.wants_more() {
            match self.read_row(&mut row) {
                Ok(true) => {}
                // Its segment was cleaned while it was read.
                Ok(false) | Err(StoreError::Forgotten { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        if row.events.is_empty() {
            row.events = self.kept.read_from(from, bytes_max)?;
        }
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

    /// Goes on with the row in the segment that has its next event; says whether anything was added.
    fn read_row(&self, row: &mut Row) -> Result<bool, StoreError> {
        let found = self.segments().into_iter().find_map(|segment| {
            let stretches = segment.stretches(row.next, row.read_left);
            (!stretches.is_empty()).then_some((segment, stretches))
        });
        let Some((segment, stretches)) = found else {
            return Ok(false);
        };
        let before = row.next.seq;
        for (at, stretch) in stretches.iter().enumerate() {
            self.add_old(row);
            if !row.wants_more() {
                break;
            }
            let next = stretches.get(at + 1);
            if next.is_some_and(|next| next.first_seq <= row.next.seq) {
                continue;
            }
            match stretch.of {
                Parts::Groups => self.read_groups(row, &segment, stretch)?,
                Parts::Frames { crc } => self.read_frames(row, &segment, stretch, crc)?,
            }
        }
        Ok(row.next.seq > before)
    }

    fn read_groups(
        &self,
        row: &mut Row,
        segment: &Segment,
        stretch: &Stretch,
    ) -> Result<(), StoreError> {
        let window = row.read_left.max(STRETCH_BYTES_MAX as usize);
        let mut scanner = self
            .scanner(segment, stretch.end)
            .reading_ahead(window.min(stretch.len()));
        let mut offset = stretch.start;
        while offset < stretch.end && row.wants_more() {
            let before = scanner.read_bytes;
            let group = self.read_group(&mut scanner, segment, offset)?;
            row.has_read(scanner.read_bytes - before);
            offset = group.end.offset();
            if row.add_all(&group.records) || !row.wants_more() {
                self.keep(group.records, group.bytes);
            }
        }
        Ok(())
    }

    fn read_frames(
        &self,
        row: &mut Row,
        segment: &Segment,
        stretch: &Stretch,
        crc: u32,
    ) -> Result<(), StoreError> {
        let mut bytes = vec![0; stretch.len()];
        let read = segment
            .file
            .read_at(u64::from(stretch.start), &mut bytes)
            .map_err(StoreError::io("read", segment::path(segment.number)))?;
        if read < bytes.len() || crc32c::crc32c(&bytes) != crc {
            return Err(self.unreadable(segment, stretch.start));
        }
        row.has_read(read as u64);
        let records = codec::split_frames(&Bytes::from(bytes))
            .map(|frame| codec::decode_record(&frame?))
            .collect::<Result<Vec<_>, _>>()?;
        // What does not fit now is what the next call begins with.
        if row.add_all(&records) || !row.wants_more() {
            self.keep(records, read);
        }
        Ok(())
    }

    /// Goes on with the row in what was read from disk lately.
    fn add_old(&self, row: &mut Row) {
        // Taken out of the lock: adding is long.
        let mut next = self.old_part_with(row.next);
        while let Some(old) = next.filter(|_| row.wants_more()) {
            next = if row.add_all(&old.records) {
                self.old_part_with(row.next)
            } else {
                None
            };
        }
    }

    fn old_part_with(&self, position: Position) -> Option<Arc<OldPart>> {
        lock(&self.old_parts)
            .iter()
            .find(|old| has(old, position))
            .cloned()
    }

    pub(super) fn scanner<'a>(&self, segment: &'a Segment, end: u32) -> Scanner<'a> {
        Scanner::new(&*segment.file, self.store_prefix(), segment.number, end)
    }

    pub(super) fn read_group(
        &self,
        scanner: &mut Scanner<'_>,
        segment: &Segment,
        offset: u32,
    ) -> Result<Group, StoreError> {
        scanner
            .read_group(offset)?
            .ok_or_else(|| self.unreadable(segment, offset))
    }

    /// Keeps records for the next one who asks, within an eighth of the ring's bytes.
    fn keep(&self, records: Vec<Record>, bytes: usize) {
        let bytes_max = self.options.ring_bytes / 8;
        let mut old = lock(&self.old_parts);
        old.push_front(Arc::new(OldPart { records, bytes }));
        let mut kept_bytes = 0;
        let fitting = old
            .iter()
            .take(OLD_PARTS_MAX)
            .take_while(|part| {
                kept_bytes += part.bytes;
                kept_bytes <= bytes_max
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
        self.events.is_empty() || (self.bytes_left > 0 && self.read_left > 0)
    }

    /// Takes note that so much was read from disk for it.
    fn has_read(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.read_left = self.read_left.saturating_sub(bytes);
    }

    /// Adds what follows from these records; says whether there was anything.
    fn add_all(&mut self, records: &[Record]) -> bool {
        let before = self.events.len();
        for record in records {
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

fn has(part: &OldPart, position: Position) -> bool {
    part.records.iter().any(|record| match record {
        Record::Events(events) => {
            events.topic == position.topic
                && position.seq >= events.first_seq
                && position.seq - events.first_seq < u64::from(events.packed.count())
        }
        _ => false,
    })
}
