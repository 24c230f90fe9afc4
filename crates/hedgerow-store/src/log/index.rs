//! The index of a sealed segment in a file of its own, so that opening need not read the segment.
//!
//! A [small file](crate::small_file) `HGix`. The body holds what `content` knows of the segment, and the headers of its
//! first and last group.
//!
//! An index is a copy: nothing rests on it that the segment does not say. It is written off the commit path when the
//! first group of the next segment is durable, because only then nothing can be added to the segment any more. It is
//! used only if it belongs to this store and segment, if the two headers stand in the segment as it says, and if the
//! next segment begins with the group that follows its last one (`recover`). One that is damaged, missing, stale or of
//! another version costs a scan of the segment, and is written again.

use std::io;

use hedgerow_core::position::{Mark, TopicId};
use serde::{Deserialize, Serialize};

use super::content::{Content, Edges, Parts, Stretch, TopicRange};
use super::group::{self, Found, HEADER_BYTES, Header};
use super::segment::{self, DIRECTORY, Segment};
use super::store_prefix;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::failpoint;
use crate::small_file::{self, Fault, Form};

/// Another version is no error: the index is made again.
const FORM: Form = Form {
    magic: b"HGix",
    version: 1,
};
/// Under this name an index is written before it gets its own.
const NEW_PATH: &str = "log/new-index";

/// What an index says of its segment, whatever became of that.
#[derive(Debug)]
pub(crate) struct Said {
    /// The end of the last group.
    pub end: Mark,
    /// The number of the last group.
    pub last_group: u64,
    /// The first and the last event of each topic.
    pub topics: Vec<(TopicId, u64, u64)>,
}

/// Why an index is refused that is whole.
pub(crate) const IS_STALE: &str = "it does not fit the segments beside it; if there is none behind it, the end of the log was \
                                   lost, and `hedgerow store check` says so";

/// What reading an index gave.
#[derive(Debug)]
pub(crate) enum Reading {
    /// There is no file.
    Missing,
    /// There is one that cannot be used, and why.
    Refused(&'static str),
    /// It is whole and fits the segment.
    Whole(Box<Index>),
}

/// How an index compares with its segment.
#[derive(Debug)]
pub(crate) enum Comparison {
    /// There is none.
    Missing,
    /// It says what is there.
    Same,
    /// It says something else, and why.
    Differs(&'static str),
}

/// An index that was read.
#[derive(Debug)]
pub(crate) struct Index {
    pub content: Content,
    pub first: Header,
    pub last: Header,
    /// Where the last group begins.
    pub last_start: Mark,
}

#[derive(Serialize, Deserialize)]
struct Body {
    store_id: [u8; 16],
    segment: u32,
    /// The headers of the first and the last group.
    first: Vec<u8>,
    last: Vec<u8>,
    last_offset: u32,
    /// By id.
    topics: Vec<TopicBody>,
}

#[derive(Serialize, Deserialize)]
struct TopicBody {
    topic: TopicId,
    first_seq: u64,
    last_seq: u64,
    bytes: u64,
    stretches: Vec<StretchBody>,
}

/// A stretch, told from the one before it.
#[derive(Serialize, Deserialize)]
struct StretchBody {
    /// Beyond the first event of the stretch before it, or of the topic.
    seqs: u64,
    /// Beyond the end of the stretch before it, or the start of the segment.
    gap: u32,
    len: u32,
    frames_crc: Option<u32>,
}

/// Bytes of an index at most, beside its topics: the form's head, ids, two headers, an offset and lengths.
const BASE_BYTES_MAX: u64 = 64 + 16 + 2 * (HEADER_BYTES as u64 + 5) + 3 * 5;
/// Bytes of a topic at most, beside its stretches: an id, two numbers, a size and a count, as `postcard` writes them.
const TOPIC_BYTES_MAX: u64 = 5 + 3 * 10 + 5;
/// Bytes of a stretch at most: a number, a gap, a length and a crc.
const STRETCH_BYTES_MAX: u64 = 10 + 5 + 5 + 1 + 5;

/// How many bytes the index of a segment with this content takes at most.
pub(crate) fn bytes_max(content: &Content) -> u64 {
    let stretches = content.topics.values().map(|range| range.stretches.len());
    let stretches = stretches.sum::<usize>() as u64;
    BASE_BYTES_MAX + content.topics.len() as u64 * TOPIC_BYTES_MAX + stretches * STRETCH_BYTES_MAX
}

/// The bytes of the index of segment `number` with this content; `None` if it has no group.
pub(crate) fn encode(store_id: [u8; 16], number: u32, content: &Content) -> Option<Vec<u8>> {
    let edges = content.edges.as_ref()?;
    let mut topics: Vec<_> = content
        .topics
        .iter()
        .map(|(topic, range)| topic_body(*topic, range))
        .collect();
    topics.sort_unstable_by_key(|body| body.topic);
    let body = Body {
        store_id,
        segment: number,
        first: edges.first.to_vec(),
        last: edges.last.to_vec(),
        last_offset: edges.last_offset,
        topics,
    };
    Some(FORM.encode(&body))
}

/// Reads the index of a segment and compares it with the segment's first and last group.
pub(crate) fn read(disk: &dyn Disk, store_id: [u8; 16], segment: &Segment) -> Reading {
    match read_file(disk, segment.number) {
        Ok(bytes) => reading_of(&bytes, store_id, segment),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Reading::Missing,
        // A bad sector under a copy is no reason not to open.
        Err(_) => Reading::Refused("it cannot be read"),
    }
}

/// Compares the index of a segment with all that was read of the segment.
pub(crate) fn compare(disk: &dyn Disk, store_id: [u8; 16], segment: &Segment) -> Comparison {
    let bytes = match read_file(disk, segment.number) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Comparison::Missing,
        Err(_) => return Comparison::Differs("it cannot be read"),
    };
    if encode(store_id, segment.number, &segment.content()).as_ref() == Some(&bytes) {
        return Comparison::Same;
    }
    match reading_of(&bytes, store_id, segment) {
        Reading::Refused(reason) => Comparison::Differs(reason),
        Reading::Whole(_) | Reading::Missing => Comparison::Differs("it does not fit its segment"),
    }
}

fn reading_of(bytes: &[u8], store_id: [u8; 16], segment: &Segment) -> Reading {
    match decode(bytes, store_id, segment) {
        Ok(index) => Reading::Whole(Box::new(index)),
        Err(reason) => Reading::Refused(reason),
    }
}

/// Writes the index of a sealed segment, durably. Does nothing for a segment without groups.
pub(crate) fn write(
    disk: &dyn Disk,
    store_id: [u8; 16],
    segment: &Segment,
) -> Result<(), StoreError> {
    let Some(bytes) = encode(store_id, segment.number, &segment.content()) else {
        return Ok(());
    };
    let path = segment::index_path(segment.number);
    failpoint::hit("index-write");
    small_file::write(disk, NEW_PATH, &bytes).map_err(StoreError::io("write", NEW_PATH))?;
    failpoint::hit("index-rename");
    disk.rename(NEW_PATH, &path)
        .map_err(StoreError::io("rename", NEW_PATH))?;
    failpoint::hit("index-renamed");
    disk.sync_dir(DIRECTORY)
        .map_err(StoreError::io("sync", DIRECTORY))
}

/// Removes the index of a segment if there is one. Need not be durable: without its segment it is of no effect.
pub(crate) fn remove(disk: &dyn Disk, number: u32) -> Result<(), StoreError> {
    let path = segment::index_path(number);
    match disk.remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn read_file(disk: &dyn Disk, number: u32) -> io::Result<Vec<u8>> {
    let path = segment::index_path(number);
    small_file::read(disk, &path, super::SEGMENT_BYTES_MAX.into())
}

/// What the index of a segment says; `None` if there is none that is whole. The segment need not be there.
pub(crate) fn said(disk: &dyn Disk, store_id: [u8; 16], number: u32) -> Option<Said> {
    let bytes = read_file(disk, number).ok()?;
    let body = body_of(&bytes, store_id, number).ok()?;
    let Found::Header(last) = Header::find(&body.last, store_prefix(&store_id), number) else {
        return None;
    };
    let topics = body.topics.iter();
    Some(Said {
        end: group::end_of(Mark::new(number, body.last_offset), &last),
        last_group: last.number,
        topics: topics
            .map(|body| (body.topic, body.first_seq, body.last_seq))
            .collect(),
    })
}

fn body_of(bytes: &[u8], store_id: [u8; 16], number: u32) -> Result<Body, &'static str> {
    let body: Body = FORM.decode(bytes).map_err(|fault| match fault {
        Fault::Magic => "it is no index",
        Fault::Crc => "its crc is wrong",
        Fault::Version(_) => "it has another version",
        Fault::Body => "its body cannot be read",
    })?;
    if body.store_id != store_id || body.segment != number {
        return Err("it belongs to another store or segment");
    }
    Ok(body)
}

fn decode(bytes: &[u8], store_id: [u8; 16], segment: &Segment) -> Result<Index, &'static str> {
    let body = body_of(bytes, store_id, segment.number)?;
    let store = store_prefix(&store_id);
    let (first, first_bytes) = edge(segment, store, 0, &body.first)?;
    let (last, last_bytes) = edge(segment, store, body.last_offset, &body.last)?;
    let last_start = Mark::new(segment.number, body.last_offset);
    let end = group::end_of(last_start, &last).offset();
    let topics = body.topics.iter().map(topic_range).collect();
    Ok(Index {
        content: Content {
            end,
            previous_end: first.synced_through,
            edges: Some(Edges {
                first: first_bytes,
                last: last_bytes,
                last_offset: body.last_offset,
            }),
            topics,
        },
        first,
        last,
        last_start,
    })
}

/// The header that the index says is at `offset`, if it is.
fn edge(
    segment: &Segment,
    store: u64,
    offset: u32,
    expected: &[u8],
) -> Result<(Header, [u8; HEADER_BYTES]), &'static str> {
    let mut bytes = [0; HEADER_BYTES];
    let read = segment.file.read_at(u64::from(offset), &mut bytes);
    if !matches!(read, Ok(HEADER_BYTES)) || bytes != expected {
        return Err("it does not fit its segment");
    }
    match Header::find(&bytes, store, segment.number) {
        Found::Header(header) => Ok((header, bytes)),
        _ => Err("it does not fit its segment"),
    }
}

fn topic_body(topic: TopicId, range: &TopicRange) -> TopicBody {
    let (mut seq, mut offset) = (range.first_seq, 0);
    let stretches = range.stretches.iter().map(|stretch| {
        let body = StretchBody {
            seqs: stretch.first_seq - seq,
            gap: stretch.start - offset,
            len: stretch.end - stretch.start,
            frames_crc: match stretch.of {
                Parts::Groups => None,
                Parts::Frames { crc } => Some(crc),
            },
        };
        (seq, offset) = (stretch.first_seq, stretch.end);
        body
    });
    let stretches = stretches.collect();
    TopicBody {
        topic,
        first_seq: range.first_seq,
        last_seq: range.last_seq,
        bytes: range.bytes,
        stretches,
    }
}

fn topic_range(body: &TopicBody) -> (TopicId, TopicRange) {
    let (mut seq, mut offset) = (body.first_seq, 0);
    let stretches = body.stretches.iter().map(|stretch| {
        seq += stretch.seqs;
        let start = offset + stretch.gap;
        offset = start + stretch.len;
        let of = stretch
            .frames_crc
            .map_or(Parts::Groups, |crc| Parts::Frames { crc });
        Stretch {
            first_seq: seq,
            start,
            end: offset,
            of,
        }
    });
    let range = TopicRange {
        first_seq: body.first_seq,
        last_seq: body.last_seq,
        bytes: body.bytes,
        stretches: stretches.collect(),
    };
    (body.topic, range)
}
