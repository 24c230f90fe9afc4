//! What the durable groups of a segment hold: its first and its last group, and for each topic its events and where to
//! look for them.
//!
//! The offset index of a topic is a row of *stretches*: parts of the segment outside of which there is none of its
//! events. Whoever reads one topic reads its stretches and nothing else. A group that is mainly the topic's is covered
//! whole, many of them in a stretch, and carries its own crc. Of a group that is mainly other topics' a stretch covers
//! the topic's frames only, and the index keeps their crc. So what is read for a topic is a small multiple of what the
//! topic has, whatever its share of the traffic.

use std::collections::HashMap;

use hedgerow_core::position::{Mark, TopicId};
use hedgerow_core::time::Timestamp;

use super::group::{self, HEADER_BYTES, Header};
use crate::error::StoreError;
use crate::record::codec;

/// A stretch does not grow beyond this; a single group or frame may be longer.
pub(crate) const STRETCH_BYTES_MAX: u32 = 16 * 1024;
/// At most so many bytes of other topics are read with a stretch rather than left out of it, and no more than follow.
const GAP_BYTES_MAX: u32 = 1024;
/// A group of this size is covered whole, whatever is in it: an entry for less costs more than it saves.
const WHOLE_GROUP_BYTES: usize = 1024;

/// What the durable groups of a segment hold.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// The end of the last durable group, 0 if there is none.
    pub end: u32,
    /// The end of the group before the segment's first one, in another segment.
    pub previous_end: Mark,
    /// The first group and the last one; `None` if there is none.
    pub edges: Option<Edges>,
    /// The events of each topic.
    pub topics: HashMap<TopicId, TopicRange>,
}

/// The headers of the first and the last group of a segment, as they stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edges {
    pub first: [u8; HEADER_BYTES],
    pub last: [u8; HEADER_BYTES],
    /// Where the last group begins.
    pub last_offset: u32,
}

/// The events of one topic in one segment.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct TopicRange {
    /// The first one.
    pub first_seq: u64,
    /// The last one. All between are there.
    pub last_seq: u64,
    /// The size of their frames.
    pub bytes: u64,
    /// Where they are: increasing, never empty.
    pub stretches: Vec<Stretch>,
}

/// A part of a segment that holds events of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The first of the topic's events in it.
    pub first_seq: u64,
    /// The offset of its first byte.
    pub start: u32,
    /// The offset behind its last byte.
    pub end: u32,
    /// What it is made of.
    pub of: Parts,
}

/// What a stretch is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Whole groups.
    Groups,
    /// Frames of one group.
    Frames {
        /// The crc32c of the stretch.
        crc: u32,
    },
}

/// The events of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventsRange {
    pub topic: TopicId,
    pub first_seq: u64,
    /// At least 1.
    pub count: u32,
    /// Where the frame begins in the group's payload, and its size.
    pub at: usize,
    pub bytes: usize,
}

impl Content {
    /// Takes note of the group at `offset`, behind those known already. `group` is the whole of it.
    ///
    /// # Errors
    /// If its frames cannot be read; nothing is noted then.
    pub(crate) fn note(
        &mut self,
        offset: u32,
        header: &Header,
        group: &[u8],
    ) -> Result<(), StoreError> {
        let frames =
            codec::event_ranges(&group[HEADER_BYTES..]).collect::<Result<Vec<EventsRange>, _>>()?;
        let end = group::align(offset + group.len() as u32);
        let place = Place { offset, end, group };
        let mut shares: HashMap<TopicId, usize> = HashMap::new();
        for events in &frames {
            *shares.entry(events.topic).or_default() += events.bytes;
        }
        for events in frames {
            let is_whole = place.is_covered_whole(shares[&events.topic]);
            self.topics
                .entry(events.topic)
                .or_default()
                .note(events, &place, is_whole);
        }
        let bytes: [u8; HEADER_BYTES] = group[..HEADER_BYTES]
            .try_into()
            .expect("a group begins with its header");
        if let Some(edges) = &mut self.edges {
            edges.last = bytes;
            edges.last_offset = offset;
        } else {
            self.previous_end = header.synced_through;
            self.edges = Some(Edges {
                first: bytes,
                last: bytes,
                last_offset: offset,
            });
        }
        self.end = end;
        Ok(())
    }

    /// The highest time that had been given out when its last group was written; [`Timestamp::ZERO`] without a group.
    pub(crate) fn clock(&self) -> Timestamp {
        self.edges
            .as_ref()
            .map_or(Timestamp::ZERO, |edges| group::clock_in(&edges.last))
    }
}

/// A group and where it is.
struct Place<'a> {
    offset: u32,
    end: u32,
    group: &'a [u8],
}

impl Place<'_> {
    /// Whether the index of a topic with so many bytes in the group covers all of it.
    fn is_covered_whole(&self, topic_bytes: usize) -> bool {
        let bytes = self.group.len();
        bytes <= WHOLE_GROUP_BYTES
            || (bytes <= STRETCH_BYTES_MAX as usize && topic_bytes * 2 >= bytes)
    }
}

impl TopicRange {
    /// How many events there are.
    pub(crate) fn count(&self) -> u64 {
        self.last_seq - self.first_seq + 1
    }

    fn note(&mut self, events: EventsRange, place: &Place<'_>, is_whole: bool) {
        if self.stretches.is_empty() {
            self.first_seq = events.first_seq;
        }
        self.last_seq = events.first_seq + u64::from(events.count) - 1;
        self.bytes += events.bytes as u64;
        if is_whole {
            self.note_group(events.first_seq, place);
        } else {
            self.note_frame(&events, place);
        }
    }

    fn note_group(&mut self, first_seq: u64, place: &Place<'_>) {
        if let Some(last) = self
            .stretches
            .last_mut()
            .filter(|last| last.of == Parts::Groups && last.takes(place.offset, place.end))
        {
            last.end = place.end;
            return;
        }
        self.stretches.push(Stretch {
            first_seq,
            start: place.offset,
            end: place.end,
            of: Parts::Groups,
        });
    }

    fn note_frame(&mut self, events: &EventsRange, place: &Place<'_>) {
        let at = HEADER_BYTES + events.at;
        let start = place.offset + at as u32;
        let end = start + events.bytes as u32;
        if let Some(last) = self.stretches.last_mut()
            && let Parts::Frames { crc } = &mut last.of
            && last.start > place.offset
            && reaches(last.start, last.end, start, end)
        {
            let from = (last.end - place.offset) as usize;
            *crc = crc32c::crc32c_append(*crc, &place.group[from..at + events.bytes]);
            last.end = end;
            return;
        }
        let crc = crc32c::crc32c(&place.group[at..at + events.bytes]);
        self.stretches.push(Stretch {
            first_seq: events.first_seq,
            start,
            end,
            of: Parts::Frames { crc },
        });
    }

    /// The stretches to read for the topic's events from `seq` on: about `bytes_max` bytes, at least one. Groups that
    /// are neighbours come as one.
    pub(crate) fn stretches_from(&self, seq: u64, bytes_max: usize) -> Vec<Stretch> {
        let behind = self
            .stretches
            .partition_point(|stretch| stretch.first_seq <= seq);
        let mut found: Vec<Stretch> = Vec::new();
        let mut bytes = 0;
        for stretch in &self.stretches[behind.saturating_sub(1)..] {
            if !found.is_empty() && bytes + stretch.len() > bytes_max {
                break;
            }
            bytes += stretch.len();
            match found.last_mut() {
                Some(last)
                    if last.of == Parts::Groups
                        && stretch.of == Parts::Groups
                        && is_near(last.end, stretch.start, stretch.end) =>
                {
                    last.end = stretch.end;
                }
                _ => found.push(*stretch),
            }
        }
        found
    }
}

impl Stretch {
    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether a part behind it can become a part of it; one that is in it already can.
    fn takes(&self, start: u32, end: u32) -> bool {
        end == self.end || reaches(self.start, self.end, start, end)
    }
}

/// Whether a part from `start` to `end` is near enough to a stretch, and the two together are small enough.
fn reaches(stretch_start: u32, stretch_end: u32, start: u32, end: u32) -> bool {
    is_near(stretch_end, start, end) && end - stretch_start <= STRETCH_BYTES_MAX
}

/// Whether what is between is read rather than left out.
fn is_near(stretch_end: u32, start: u32, end: u32) -> bool {
    start >= stretch_end && start - stretch_end <= GAP_BYTES_MAX.min(end - start)
}
