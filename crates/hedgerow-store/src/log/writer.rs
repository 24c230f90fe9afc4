//! Builds groups, writes them one at a time, syncs each before the next.
//!
//! A group that does not fit behind the last one begins the next segment. Up to the end of its last page it is
//! followed by zeros, so that no write has to read a page of a recycled segment first.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_core::time::Timestamp;
use tokio::sync::oneshot;

use super::Clock;
use super::group::{self, HEADER_BYTES, Header};
use super::queue::Work;
use super::segment::{self, Segment};
use super::shared::Shared;
use crate::error::StoreError;
use crate::failpoint;
use crate::record::codec::encode_record;
use crate::record::{Events, PackedEvents, Record};
use crate::{Appended, Group};

const PAGE_BYTES: u32 = 4096;
/// Unless so large a part of it is written, a segment is not left early.
const ROLL_DIVISOR: u32 = 8;

/// The one who writes. Owned by the commit thread, or by whoever drives the log step by step.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    clock: Clock,
    epoch: u32,
    /// Where groups go; `None` until the first group of a new store.
    active: Option<Arc<Segment>>,
    /// Where the next group goes in it.
    offset: u32,
    /// Up to here the active segment was written since it was opened.
    written_to: u32,
    next_number: u64,
    /// The end of the last group.
    end: Mark,
    high_water: Timestamp,
    next_seqs: HashMap<TopicId, u64>,
    /// The segment before the active one, until a group in the active one is durable.
    full: Option<Arc<Segment>>,
}

/// Where a writer goes on.
pub(crate) struct Start {
    pub epoch: u32,
    pub active: Option<Arc<Segment>>,
    pub next_number: u64,
    pub end: Mark,
    pub high_water: Timestamp,
    pub next_seqs: HashMap<TopicId, u64>,
}

/// A group that is built but not written.
struct Draft {
    buffer: Vec<u8>,
    records: Vec<Record>,
    /// For each record of events: which record, and where in the buffer its packed events end.
    events: Vec<(usize, usize)>,
    replies: Vec<(oneshot::Sender<Appended>, Appended)>,
}

impl Writer {
    /// Goes on at `start`.
    pub(crate) fn new(shared: Arc<Shared>, clock: Clock, start: Start) -> Self {
        let offset = start
            .active
            .as_ref()
            .map_or(0, |active| active.content().end);
        Self {
            shared,
            clock,
            epoch: start.epoch,
            active: start.active,
            offset,
            written_to: 0,
            next_number: start.next_number,
            end: start.end,
            high_water: start.high_water,
            next_seqs: start.next_seqs,
            full: None,
        }
    }

    /// Writes the batch as one group, syncs it, shows it and tells those who wait. Leaves `batch` empty.
    ///
    /// # Errors
    /// Nothing is known about the batch then. The log is closed before those who wait hear of it.
    pub(crate) fn commit(&mut self, batch: &mut Vec<Work>) -> Result<Arc<Group>, StoreError> {
        let mut draft = self.build(batch);
        let written = self.write_durably(&mut draft.buffer);
        let (active, header) = written.inspect_err(|_| self.shared.close())?;
        Ok(self.show(&active, &header, draft))
    }

    /// The segment to prepare, when the active one is half full.
    pub(crate) fn next_segment(&self) -> Option<u32> {
        let active = self.active.as_ref()?;
        (self.offset > active.capacity / 2).then_some(active.number + 1)
    }

    fn build(&mut self, batch: &mut Vec<Work>) -> Draft {
        self.high_water = (self.clock)().max(self.high_water);
        let bytes = HEADER_BYTES + batch.iter().map(Work::bytes).sum::<usize>();
        let mut draft = Draft {
            buffer: Vec::with_capacity(bytes + self.padding(bytes)),
            records: Vec::with_capacity(batch.len()),
            events: Vec::new(),
            replies: Vec::new(),
        };
        draft.buffer.resize(HEADER_BYTES, 0);
        for work in batch.drain(..) {
            match work {
                Work::Append {
                    topic,
                    events,
                    reply,
                } => {
                    self.add_events(&mut draft, topic, events, reply);
                }
                Work::Journal { record, frame } => {
                    draft.buffer.extend_from_slice(&frame);
                    draft.records.push(record);
                }
            }
        }
        draft
    }

    fn add_events(
        &mut self,
        draft: &mut Draft,
        topic: TopicId,
        packed: PackedEvents,
        reply: oneshot::Sender<Appended>,
    ) {
        let published = self.high_water;
        let next_seq = self.next_seqs.entry(topic).or_insert(1);
        let first_seq = *next_seq;
        *next_seq += u64::from(packed.count());
        let record = Record::Events(Events {
            topic,
            first_seq,
            published,
            packed,
        });
        encode_record(&record, &mut draft.buffer);
        draft.events.push((draft.records.len(), draft.buffer.len()));
        draft.records.push(record);
        let first = Position {
            topic,
            seq: first_seq,
        };
        draft.replies.push((reply, Appended { first, published }));
    }

    /// The active segment if `bytes` fit behind the last group, else the next one.
    fn segment_with_room(&mut self, bytes: usize) -> Result<Arc<Segment>, StoreError> {
        // One from a time of larger segments is not gone on with: it would be more than may be held now.
        if let Some(active) = &self.active
            && active.capacity <= self.shared.options.segment_bytes
            && self.offset as usize + bytes <= active.capacity as usize
            && !(self.offset > active.capacity / ROLL_DIVISOR && self.shared.wants_a_new_segment())
        {
            return Ok(Arc::clone(active));
        }
        self.shared.check_owner()?;
        let number = self.active.as_ref().map_or(1, |active| active.number + 1);
        let next = self.shared.pool.take(number)?;
        assert!(
            bytes <= next.capacity as usize,
            "the queue admits only what fits a segment"
        );
        self.shared.add_segment(Arc::clone(&next));
        self.full = self.active.replace(Arc::clone(&next));
        self.offset = 0;
        self.written_to = 0;
        Ok(next)
    }

    /// How many zeros follow a group of `bytes` bytes.
    fn padding(&self, bytes: usize) -> usize {
        let end = self.offset + bytes as u32;
        if end <= self.written_to {
            0
        } else {
            (end.next_multiple_of(PAGE_BYTES) - end) as usize
        }
    }

    /// Seals and writes the group in `buffer`, and syncs it. Returns where it is.
    fn write_durably(
        &mut self,
        buffer: &mut Vec<u8>,
    ) -> Result<(Arc<Segment>, Header), StoreError> {
        let active = self.segment_with_room(buffer.len())?;
        let header = Header {
            epoch: self.epoch,
            segment: active.number,
            number: self.next_number,
            payload_bytes: (buffer.len() - HEADER_BYTES) as u32,
            synced_through: self.end,
            clock: self.high_water,
            store: self.shared.store_prefix(),
        };
        header.seal(buffer);
        self.write(&active, buffer)?;
        Ok((active, header))
    }

    fn write(&mut self, active: &Segment, buffer: &mut Vec<u8>) -> Result<(), StoreError> {
        let len = buffer.len();
        buffer.resize(len + self.padding(len), 0);
        let offset = u64::from(self.offset);
        let failed = |doing| StoreError::io(doing, segment::path(active.number));
        failpoint::hit("group-write");
        if failpoint::is_armed("group-write-half") {
            active
                .file
                .write_at(offset, &buffer[..len / 2])
                .map_err(failed("write"))?;
        }
        failpoint::hit("group-write-half");
        active
            .file
            .write_at(offset, buffer)
            .map_err(failed("write"))?;
        failpoint::hit("group-sync");
        active.file.sync_data().map_err(failed("sync"))?;
        failpoint::hit("group-synced");
        self.written_to = self.written_to.max(self.offset + buffer.len() as u32);
        buffer.truncate(len);
        Ok(())
    }

    /// Shows a durable group to readers, then tells those who wait.
    fn show(&mut self, active: &Segment, header: &Header, draft: Draft) -> Arc<Group> {
        let Draft {
            buffer,
            mut records,
            events,
            replies,
        } = draft;
        let start = Mark::new(active.number, self.offset);
        let end = group::end_of(start, header);
        let bytes = buffer.capacity();
        let buffer = Bytes::from(buffer);
        for (record, packed_end) in events {
            if let Record::Events(events) = &mut records[record] {
                let packed = packed_end - events.packed.len_bytes()..packed_end;
                events.packed =
                    PackedEvents::from_parts(events.packed.count(), buffer.slice(packed))
                        .with_publish_id(events.packed.publish_id());
            }
        }
        let group = Arc::new(Group {
            number: header.number,
            start,
            end,
            records,
            bytes,
        });
        active
            .note(start.offset(), header, &buffer)
            .expect("frames that were just made can be read");
        self.offset = end.offset();
        self.end = end;
        self.next_number += 1;
        self.shared.show(&group);
        if let Some(full) = self.full.take() {
            self.shared.seal(full);
        }
        for (reply, appended) in replies {
            // Whoever went away does not want to know.
            let _ = reply.send(appended);
        }
        group
    }
}
