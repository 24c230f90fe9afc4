//! The form of what is in kept files: blocks, aligned to 64 bytes.
//!
//! ```text
//!  0 "HGkb"             4 crc32c u32         8 version u32        12 kind u32
//! 16 length of meta    20 length of bytes   24 crc32c of bytes   28 zero u32
//! 32 store id, first half u64               40 topic u32         44 zeros
//! ```
//! Then meta, `postcard`, and bytes. The first crc is over header, with that crc as zero, and meta: opening a file reads
//! those and leaves the events alone.

use bytes::Bytes;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::OwedDelivery;
use crate::record::Owed;
use crate::record::codec::{u32_at, u64_at};

pub(super) const HEADER_BYTES: usize = 64;
const MAGIC: &[u8; 4] = b"HGkb";
pub(super) const VERSION: u32 = 1;
const EVENTS: u32 = 1;
const UPDATES: u32 = 2;

/// A block without its events' bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Meta {
    /// Events of one topic, ascending.
    Events(TopicId, Vec<Entry>),
    /// What became of deliveries of events in this file.
    Updates(Vec<Update>),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub seq: u64,
    pub published: Timestamp,
    /// The length of its stored form.
    pub len_bytes: u32,
    /// The deliveries that are unsettled.
    pub owed: Vec<OwedDelivery>,
}

/// What became of one delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Update {
    pub topic: TopicId,
    pub subscription: SubscriptionId,
    pub seq: u64,
    /// What is owed now; `None` if it is settled.
    pub state: Option<(Timestamp, Owed)>,
}

/// The header of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    crc: u32,
    pub version: u32,
    kind: u32,
    pub meta_bytes: u32,
    pub bytes: u32,
    pub bytes_crc: u32,
    store: u64,
    topic: TopicId,
}

impl Header {
    /// Reads a header of this store.
    pub(super) fn read(header: &[u8; HEADER_BYTES], store: u64) -> Option<Self> {
        let read = Self {
            crc: u32_at(header, 4),
            version: u32_at(header, 8),
            kind: u32_at(header, 12),
            meta_bytes: u32_at(header, 16),
            bytes: u32_at(header, 20),
            bytes_crc: u32_at(header, 24),
            store: u64_at(header, 32),
            topic: TopicId(u32_at(header, 40)),
        };
        (&header[..4] == MAGIC && read.store == store).then_some(read)
    }

    /// The block's size, up to the next one.
    pub(super) fn block_bytes(&self) -> u64 {
        let bytes = HEADER_BYTES as u64 + u64::from(self.meta_bytes) + u64::from(self.bytes);
        bytes.next_multiple_of(HEADER_BYTES as u64)
    }

    /// Whether header and meta are as they were written.
    pub(super) fn is_whole(&self, header: &[u8; HEADER_BYTES], meta: &[u8]) -> bool {
        crc_of(header, meta) == self.crc
    }

    /// The meta, if it can be read.
    pub(super) fn meta(&self, meta: &[u8]) -> Option<Meta> {
        match self.kind {
            EVENTS => Some(Meta::Events(self.topic, postcard::from_bytes(meta).ok()?)),
            UPDATES => Some(Meta::Updates(postcard::from_bytes(meta).ok()?)),
            _ => None,
        }
    }
}

/// Appends a block to `buffer`, padded to the next one. Returns its header.
pub(super) fn encode(meta: &Meta, bytes: &[Bytes], store: u64, buffer: &mut Vec<u8>) -> Header {
    let start = buffer.len();
    buffer.resize(start + HEADER_BYTES, 0);
    let (kind, topic) = match meta {
        Meta::Events(topic, entries) => {
            extend(entries, buffer);
            (EVENTS, *topic)
        }
        Meta::Updates(updates) => {
            extend(updates, buffer);
            (UPDATES, TopicId(0))
        }
    };
    let meta_end = buffer.len();
    for part in bytes {
        buffer.extend_from_slice(part);
    }
    let header = Header {
        crc: 0,
        version: VERSION,
        kind,
        meta_bytes: length(meta_end - start - HEADER_BYTES),
        bytes: length(buffer.len() - meta_end),
        bytes_crc: crc32c::crc32c(&buffer[meta_end..]),
        store,
        topic,
    };
    buffer.resize(start + header.block_bytes() as usize, 0);
    let block = &mut buffer[start..];
    block[..4].copy_from_slice(MAGIC);
    block[8..12].copy_from_slice(&header.version.to_le_bytes());
    block[12..16].copy_from_slice(&header.kind.to_le_bytes());
    block[16..20].copy_from_slice(&header.meta_bytes.to_le_bytes());
    block[20..24].copy_from_slice(&header.bytes.to_le_bytes());
    block[24..28].copy_from_slice(&header.bytes_crc.to_le_bytes());
    block[32..40].copy_from_slice(&header.store.to_le_bytes());
    block[40..44].copy_from_slice(&header.topic.0.to_le_bytes());
    let (head, rest) = block.split_at(HEADER_BYTES);
    let head: &[u8; HEADER_BYTES] = head.try_into().expect("a header's size");
    let crc = crc_of(head, &rest[..header.meta_bytes as usize]);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
    Header { crc, ..header }
}

/// A block as it would be if nothing had become of anything; one of events as it is. For the mutants of the proof.
pub(crate) fn without_updates(block: &[u8]) -> Vec<u8> {
    let mut block = block.to_vec();
    if block.len() < HEADER_BYTES || u32_at(&block, 12) != UPDATES {
        return block;
    }
    let meta_end = HEADER_BYTES + u32_at(&block, 16) as usize;
    let (head, rest) = block.split_at_mut(HEADER_BYTES);
    // An empty list, and what is behind it is not read.
    rest[..meta_end - HEADER_BYTES].fill(0);
    let header: &[u8; HEADER_BYTES] = (&*head).try_into().expect("a header's size");
    let crc = crc_of(header, &rest[..meta_end - HEADER_BYTES]);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
    block
}

fn crc_of(header: &[u8; HEADER_BYTES], meta: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&header[..4]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let crc = crc32c::crc32c_append(crc, &header[8..]);
    crc32c::crc32c_append(crc, meta)
}

fn extend<T: Serialize>(value: &T, buffer: &mut Vec<u8>) {
    let taken = std::mem::take(buffer);
    *buffer = postcard::to_extend(value, taken).expect("plain values, and memory does not fail");
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a block is far below 4 GiB")
}
