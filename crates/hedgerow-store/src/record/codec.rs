//! How records become frames and frames records.
//!
//! A frame is `kind u8, version u8, zero u16, payload length u32`, then the payload; all numbers little-endian. A
//! kind or version that this version does not know is refused as written by a newer one: skipping it could lose a
//! settlement or an event.

use std::ops::RangeInclusive;

use bytes::Bytes;
use hedgerow_core::event::{Event, EventHead};
use hedgerow_core::position::{Position, TopicId};
use hedgerow_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::change::are_seq_chunks;
use super::moved::FirstMoved;
use super::{
    CatalogChange, Events, Kind, PackedEvents, PublishId, Record, Seek, SeqChunks, Snapshot,
};
use crate::StoredEvent;
use crate::error::StoreError;
use crate::log::EventsRange;

/// The bytes before a frame's payload.
pub const FRAME_HEADER_BYTES: usize = 8;
/// The bytes before the packed events in the payload of EVENTS.
pub const EVENTS_HEADER_BYTES: usize = 32;
/// The bytes of a publish id and its content hash, and the flag that says that they are there.
const PUBLISH_ID_BYTES: usize = 32;
const HAS_PUBLISH_ID: u8 = 1;
/// The versions of a kind's frames that can be read. No server ever wrote the first version of HOLD.
const fn versions(kind: Kind) -> RangeInclusive<u8> {
    match kind {
        Kind::Hold => 2..=2,
        Kind::Moved => 1..=2,
        _ => 1..=1,
    }
}

/// The version that the frame of a record has.
fn version(record: &Record, kind: Kind) -> u8 {
    match record {
        Record::Moved(moved) => moved.version(),
        _ => *versions(kind).end(),
    }
}

/// The bytes before each packed event.
const LENGTH_BYTES: usize = 4;

/// Packs events one by one.
#[derive(Debug, Default)]
pub struct PackedEventsBuilder {
    count: u32,
    bytes: Vec<u8>,
}

impl PackedEventsBuilder {
    /// Starts with room for `bytes` bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            count: 0,
            bytes: Vec::with_capacity(bytes),
        }
    }

    /// Adds an event behind the others.
    ///
    /// # Panics
    /// If all events together reach 4 GiB.
    pub fn push(&mut self, event: &Event<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        extend_with_postcard(event, &mut self.bytes);
        let length = self.bytes.len() - start - LENGTH_BYTES;
        let length = u32::try_from(length).expect("a request body is far below 4 GiB");
        self.bytes[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
    }

    /// Bytes of those packed so far.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The packed events.
    #[must_use]
    pub fn finish(self) -> PackedEvents {
        PackedEvents {
            count: self.count,
            bytes: self.bytes.into(),
            publish_id: None,
        }
    }
}

impl PackedEvents {
    /// Packs these events.
    #[must_use]
    pub fn pack(events: &[Event<'_>]) -> Self {
        let mut builder = PackedEventsBuilder::default();
        for event in events {
            builder.push(event);
        }
        builder.finish()
    }

    /// Takes events that are packed already. Their form is checked when they are read.
    #[must_use]
    pub fn from_parts(count: u32, bytes: Bytes) -> Self {
        Self {
            count,
            bytes,
            publish_id: None,
        }
    }

    /// The same, of a request with this id.
    #[must_use]
    pub fn with_publish_id(self, publish_id: Option<PublishId>) -> Self {
        Self { publish_id, ..self }
    }

    /// The id of the request they came with.
    #[must_use]
    pub fn publish_id(&self) -> Option<PublishId> {
        self.publish_id
    }

    /// How many events there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The size of all of them, lengths included.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Them all, as they are stored.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The events in order, each with its stored form, which shares these bytes.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Bytes, Event<'_>), StoreError>> {
        self.ranges().map(|range| {
            let range = range?;
            let event = unpack_event(&self.bytes[range.clone()])?;
            Ok((self.bytes.slice(range), event))
        })
    }

    /// The ids of the events in order; the rest of each stays unread.
    pub fn ids(&self) -> impl Iterator<Item = Result<&str, StoreError>> {
        self.ranges().map(|range| unpack_id(&self.bytes[range?]))
    }

    /// The stored forms of the events in order, unread; they share these bytes.
    pub fn slices(&self) -> impl Iterator<Item = Result<Bytes, StoreError>> {
        self.ranges().map(|range| Ok(self.bytes.slice(range?)))
    }

    /// The stored form of the event at `index`, counted from 0; it shares these bytes.
    pub fn get(&self, index: u64) -> Option<Result<Bytes, StoreError>> {
        let index = usize::try_from(index).ok()?;
        self.ranges()
            .nth(index)
            .map(|range| Ok(self.bytes.slice(range?)))
    }

    fn ranges(&self) -> Ranges<'_> {
        Ranges {
            bytes: &self.bytes,
            at: 0,
            left: self.count,
        }
    }
}

impl Events {
    /// The event at `position`, if it is one of these.
    #[must_use]
    pub fn event_at(&self, position: Position) -> Option<StoredEvent> {
        if self.topic != position.topic {
            return None;
        }
        let index = position.seq.checked_sub(self.first_seq)?;
        // Bytes from a group with a right crc have the form in which they were packed.
        let bytes = self.packed.get(index)?.ok()?;
        Some(StoredEvent {
            published: self.published,
            bytes,
        })
    }

    /// The events from number `from` on, each with its number.
    pub fn events_from(&self, from: u64) -> impl Iterator<Item = (u64, StoredEvent)> {
        let skipped = usize::try_from(from.saturating_sub(self.first_seq)).unwrap_or(usize::MAX);
        let published = self.published;
        self.packed
            .slices()
            .enumerate()
            .skip(skipped)
            .filter_map(move |(index, bytes)| {
                Some((
                    self.first_seq + index as u64,
                    StoredEvent {
                        published,
                        bytes: bytes.ok()?,
                    },
                ))
            })
    }
}

/// Walks the lengths of packed events. Ends after the first error.
struct Ranges<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u32,
}

impl Iterator for Ranges<'_> {
    type Item = Result<std::ops::Range<usize>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let start = self.at + LENGTH_BYTES;
        let end = self
            .bytes
            .get(self.at..start)
            .map(|length| start + u32_at(length, 0) as usize)
            .filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            self.left = 0;
            return Some(Err(StoreError::damaged("the length of a stored event")));
        };
        self.at = end;
        Some(Ok(start..end))
    }
}

/// Reads the stored form of one event; text is borrowed from it.
pub fn unpack_event(stored: &[u8]) -> Result<Event<'_>, StoreError> {
    match postcard::take_from_bytes(stored) {
        Ok((event, [])) => Ok(event),
        _ => Err(StoreError::damaged("a stored event")),
    }
}

/// Reads the id of a stored event, and nothing else of it.
pub fn unpack_id(stored: &[u8]) -> Result<&str, StoreError> {
    // It is the first member of an event.
    let (id, _) = postcard::take_from_bytes(stored)
        .map_err(|_| StoreError::damaged("the id of an event".to_owned()))?;
    Ok(id)
}

/// Reads what the stored form of an event begins with, and nothing behind it; text is borrowed from it.
pub fn unpack_head(stored: &[u8]) -> Result<EventHead<'_>, StoreError> {
    let (head, _) =
        postcard::take_from_bytes(stored).map_err(|_| StoreError::damaged("a stored event"))?;
    Ok(head)
}

/// Appends the frame of `record` to `buffer`.
///
/// # Panics
/// If the payload reaches 4 GiB.
pub fn encode_record(record: &Record, buffer: &mut Vec<u8>) {
    let start = buffer.len();
    let kind = record_kind(record);
    let version = version(record, kind);
    buffer.extend_from_slice(&[kind as u8, version, 0, 0, 0, 0, 0, 0]);
    match record {
        Record::Events(events) => {
            encode_events_header(events, buffer);
            buffer.extend_from_slice(&events.packed.bytes);
        }
        Record::Started(started) => extend_with_postcard(started, buffer),
        Record::Failed(failed) => extend_with_postcard(failed, buffer),
        Record::Settled(settled) => extend_with_postcard(settled, buffer),
        Record::Dead(dead) => extend_with_postcard(dead, buffer),
        Record::Read(read) => extend_with_postcard(read, buffer),
        Record::Catalog(change) => {
            buffer.extend_from_slice(&change.revision.to_le_bytes());
            buffer.extend_from_slice(&change.json);
        }
        Record::CleanStop(stop) => extend_with_postcard(stop, buffer),
        Record::Hold(hold) => extend_with_postcard(hold, buffer),
        Record::Moved(moved) if version == 1 => {
            extend_with_postcard(&FirstMoved::from(moved), buffer);
        }
        Record::Moved(moved) => extend_with_postcard(moved, buffer),
        Record::Lease(lease) => extend_with_postcard(lease, buffer),
        Record::Seek(seek) => extend_with_postcard(seek, buffer),
        Record::Snapshot(snapshot) => extend_with_postcard(snapshot, buffer),
        Record::Purged(purged) => extend_with_postcard(purged, buffer),
        Record::Resent(resent) => extend_with_postcard(resent, buffer),
        Record::Begun(begun) => extend_with_postcard(begun, buffer),
        Record::Divided(divided) => extend_with_postcard(divided, buffer),
    }
    let length = buffer.len() - start - FRAME_HEADER_BYTES;
    let length = u32::try_from(length).expect("a record is far below 4 GiB");
    buffer[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
}

/// The size of the frame of EVENTS with these events.
pub(crate) fn events_frame_bytes(packed: &PackedEvents) -> usize {
    let id_bytes = packed.publish_id.map_or(0, |_| PUBLISH_ID_BYTES);
    FRAME_HEADER_BYTES + EVENTS_HEADER_BYTES + id_bytes + packed.len_bytes()
}

/// Reads one frame. The bytes of events and of catalog changes are shared with `frame`.
pub fn decode_record(frame: &Bytes) -> Result<Record, StoreError> {
    let (kind, length) = frame_header(frame)?;
    if frame.len() != FRAME_HEADER_BYTES + length {
        return Err(StoreError::damaged("the length of a record"));
    }
    let payload = frame.slice(FRAME_HEADER_BYTES..);
    match kind {
        Kind::Events => decode_events(&payload),
        Kind::Started => from_postcard(&payload).map(Record::Started),
        Kind::Failed => from_postcard(&payload).map(Record::Failed),
        Kind::Settled => from_postcard(&payload).map(Record::Settled),
        Kind::Dead => from_postcard(&payload).map(Record::Dead),
        Kind::Read => from_postcard(&payload).map(Record::Read),
        Kind::Catalog => decode_catalog(&payload),
        Kind::CleanStop => from_postcard(&payload).map(Record::CleanStop),
        Kind::Hold => from_postcard(&payload).map(Record::Hold),
        Kind::Moved if frame[1] == 1 => {
            from_postcard(&payload).map(|moved: FirstMoved| Record::Moved(moved.into()))
        }
        Kind::Moved => from_postcard(&payload).map(Record::Moved),
        Kind::Lease => from_postcard(&payload).map(Record::Lease),
        Kind::Seek => decode_seek(&payload),
        Kind::Snapshot => decode_snapshot(&payload),
        Kind::Purged => from_postcard(&payload).map(Record::Purged),
        Kind::Resent => from_postcard(&payload).map(Record::Resent),
        Kind::Begun => from_postcard(&payload).map(Record::Begun),
        Kind::Divided => from_postcard(&payload).map(Record::Divided),
    }
}

/// Splits a group's payload into its frames.
pub(crate) fn split_frames(payload: &Bytes) -> impl Iterator<Item = Result<Bytes, StoreError>> {
    let mut rest = payload.clone();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let frame = match frame_header(&rest) {
            Ok((_, length)) if FRAME_HEADER_BYTES + length <= rest.len() => {
                Ok(rest.split_to(FRAME_HEADER_BYTES + length))
            }
            Ok(_) => Err(StoreError::damaged("the length of a record")),
            Err(error) => Err(error),
        };
        if frame.is_err() {
            rest.clear();
        }
        Some(frame)
    })
}

/// The kind and the payload length of the frame at the start of `bytes`.
fn frame_header(bytes: &[u8]) -> Result<(Kind, usize), StoreError> {
    let Some(header) = bytes.get(..FRAME_HEADER_BYTES) else {
        return Err(StoreError::damaged("the header of a record"));
    };
    let kind = match header[0] {
        1 => Kind::Events,
        2 => Kind::Started,
        3 => Kind::Failed,
        4 => Kind::Settled,
        5 => Kind::Hold,
        6 => Kind::Dead,
        7 => Kind::Lease,
        8 => Kind::Seek,
        9 => Kind::Snapshot,
        10 => Kind::Catalog,
        11 => Kind::Read,
        12 => Kind::CleanStop,
        13 => Kind::Moved,
        14 => Kind::Purged,
        15 => Kind::Resent,
        16 => Kind::Begun,
        17 => Kind::Divided,
        other => {
            return Err(StoreError::Newer {
                what: format!("a record of kind {other}"),
            });
        }
    };
    if !versions(kind).contains(&header[1]) {
        let what = format!("a record of kind {} in version {}", header[0], header[1]);
        return Err(StoreError::Newer { what });
    }
    Ok((kind, u32_at(header, 4) as usize))
}

fn record_kind(record: &Record) -> Kind {
    match record {
        Record::Events(_) => Kind::Events,
        Record::Started(_) => Kind::Started,
        Record::Failed(_) => Kind::Failed,
        Record::Settled(_) => Kind::Settled,
        Record::Dead(_) => Kind::Dead,
        Record::Read(_) => Kind::Read,
        Record::Catalog(_) => Kind::Catalog,
        Record::CleanStop(_) => Kind::CleanStop,
        Record::Hold(_) => Kind::Hold,
        Record::Moved(_) => Kind::Moved,
        Record::Lease(_) => Kind::Lease,
        Record::Seek(_) => Kind::Seek,
        Record::Snapshot(_) => Kind::Snapshot,
        Record::Purged(_) => Kind::Purged,
        Record::Resent(_) => Kind::Resent,
        Record::Begun(_) => Kind::Begun,
        Record::Divided(_) => Kind::Divided,
    }
}

/// `topic u32, count u32, first seq u64, publish time u64, flags u8, zeros`. With the flag 1 the publish id and the content
/// hash follow, 16 bytes each.
fn encode_events_header(events: &Events, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(&events.topic.0.to_le_bytes());
    buffer.extend_from_slice(&events.packed.count.to_le_bytes());
    buffer.extend_from_slice(&events.first_seq.to_le_bytes());
    buffer.extend_from_slice(&events.published.as_millis().to_le_bytes());
    let flags = u64::from(events.packed.publish_id.is_some()) * u64::from(HAS_PUBLISH_ID);
    buffer.extend_from_slice(&flags.to_le_bytes());
    if let Some(publish_id) = events.packed.publish_id {
        buffer.extend_from_slice(&publish_id.id.to_le_bytes());
        buffer.extend_from_slice(&publish_id.content_hash.to_le_bytes());
    }
}

fn decode_events(payload: &Bytes) -> Result<Record, StoreError> {
    if payload.len() < EVENTS_HEADER_BYTES {
        return Err(StoreError::damaged("the header of stored events"));
    }
    let flags = payload[24];
    if flags & !HAS_PUBLISH_ID != 0 {
        return Err(StoreError::Newer {
            what: format!("events with flags {flags}"),
        });
    }
    let mut events_at = EVENTS_HEADER_BYTES;
    let mut publish_id = None;
    if flags & HAS_PUBLISH_ID != 0 {
        events_at += PUBLISH_ID_BYTES;
        let Some(bytes) = payload.get(EVENTS_HEADER_BYTES..events_at) else {
            return Err(StoreError::damaged("the publish id of stored events"));
        };
        let (id, content_hash) = bytes.split_at(PUBLISH_ID_BYTES / 2);
        publish_id = Some(PublishId {
            id: u128::from_le_bytes(id.try_into().expect("sixteen bytes")),
            content_hash: u128::from_le_bytes(content_hash.try_into().expect("sixteen bytes")),
        });
    }
    Ok(Record::Events(Events {
        topic: TopicId(u32_at(payload, 0)),
        first_seq: u64_at(payload, 8),
        published: Timestamp::from_millis(u64_at(payload, 16)),
        packed: PackedEvents::from_parts(u32_at(payload, 4), payload.slice(events_at..))
            .with_publish_id(publish_id),
    }))
}

fn decode_catalog(payload: &Bytes) -> Result<Record, StoreError> {
    if payload.len() < 8 {
        return Err(StoreError::damaged("the header of a catalog change"));
    }
    Ok(Record::Catalog(CatalogChange {
        revision: u64_at(payload, 0),
        json: payload.slice(8..),
    }))
}

fn decode_seek(payload: &[u8]) -> Result<Record, StoreError> {
    let seek: Seek = from_postcard(payload)?;
    check_chunks(&seek.open)?;
    Ok(Record::Seek(seek))
}

fn decode_snapshot(payload: &[u8]) -> Result<Record, StoreError> {
    let snapshot: Snapshot = from_postcard(payload)?;
    if let Some(place) = &snapshot.place {
        check_chunks(&place.open)?;
    }
    Ok(Record::Snapshot(snapshot))
}

fn check_chunks(chunks: &SeqChunks) -> Result<(), StoreError> {
    if are_seq_chunks(chunks) {
        Ok(())
    } else {
        Err(StoreError::damaged("the positions in a record"))
    }
}

fn extend_with_postcard<T: Serialize + ?Sized>(value: &T, buffer: &mut Vec<u8>) {
    let taken = std::mem::take(buffer);
    *buffer =
        postcard::to_extend(value, taken).expect("our types serialise, and memory does not fail");
}

fn from_postcard<T: DeserializeOwned>(payload: &[u8]) -> Result<T, StoreError> {
    match postcard::take_from_bytes(payload) {
        Ok((value, [])) => Ok(value),
        _ => Err(StoreError::damaged("the body of a record")),
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The events in a group's payload, without reading the events themselves.
pub(crate) fn event_ranges(
    payload: &[u8],
) -> impl Iterator<Item = Result<EventsRange, StoreError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < payload.len() {
            match event_range_at(payload, &mut at) {
                Ok(None) => {}
                Ok(Some(range)) => return Some(Ok(range)),
                Err(error) => {
                    at = payload.len();
                    return Some(Err(error));
                }
            }
        }
        None
    })
}

/// Reads the frame at `at` and moves `at` behind it.
fn event_range_at(payload: &[u8], at: &mut usize) -> Result<Option<EventsRange>, StoreError> {
    let start = *at;
    let (kind, length) = frame_header(&payload[start..])?;
    let bytes = FRAME_HEADER_BYTES + length;
    let Some(frame) = payload.get(start..start + bytes) else {
        return Err(StoreError::damaged("the length of a record"));
    };
    *at = start + bytes;
    if kind != Kind::Events {
        return Ok(None);
    }
    let Some(header) = frame.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + EVENTS_HEADER_BYTES)
    else {
        return Err(StoreError::damaged("the header of stored events"));
    };
    Ok(Some(EventsRange {
        topic: TopicId(u32_at(header, 0)),
        first_seq: u64_at(header, 8),
        count: u32_at(header, 4),
        at: start,
        bytes,
    }))
}
