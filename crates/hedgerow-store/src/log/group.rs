//! The form of a group: what is written and synced together.
//!
//! 64 bytes of header, then the frames of its records ([`crate::record::codec`]). Groups begin at multiples of 64
//! bytes and never span segments; what is between the end of one and the start of the next is zero and not read.
//!
//! ```text
//!  0 magic u32          4 crc32c u32             8 epoch u32          12 segment u32
//! 16 number u64        24 payload length u32    28 version u32       32 synced through u64
//! 40 clock u64         48 store id, first half  56 zero u64
//! ```
//! The crc is over the header, with the crc as zero, and the payload. A group's number is that of the one before it
//! plus one, over segments and epochs. The segment's number is in it because a recycled segment is full of older
//! groups; the store epoch, because the tail of a crash is.

use bytes::Bytes;
use hedgerow_core::position::Mark;
use hedgerow_core::time::Timestamp;

use crate::Group;
use crate::error::StoreError;
use crate::record::codec::{decode_record, split_frames, u32_at, u64_at};

/// The size of a group's header, and what groups are aligned to.
pub(crate) const HEADER_BYTES: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"HGgr");
const VERSION: u32 = 1;

/// The smallest multiple of the alignment that is not below `bytes`.
pub(crate) const fn align(bytes: u32) -> u32 {
    bytes.next_multiple_of(HEADER_BYTES as u32)
}

/// The header of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Raised at each open.
    pub epoch: u32,
    /// The segment it was written to.
    pub segment: u32,
    /// One more than that of the group before it.
    pub number: u64,
    /// The size of the frames.
    pub payload_bytes: u32,
    /// The end of the last group whose sync had returned when this one was written. As groups are written one at a
    /// time this is the end of the group before it.
    pub synced_through: Mark,
    /// The highest time that the server had issued.
    pub clock: Timestamp,
    /// The first half of the store's id: a segment of another store is none of ours.
    pub store: u64,
}

/// What is at a place where a group could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A header of this store and segment, its crc not checked yet.
    Header(Header),
    /// The same, of a version that we do not know.
    Newer(Header, u32),
    /// Anything else.
    Nothing,
}

impl Header {
    /// Looks for a header of this store and segment at the start of `bytes`.
    pub(crate) fn find(bytes: &[u8], store: u64, segment: u32) -> Found {
        if bytes.len() < HEADER_BYTES || u32_at(bytes, 0) != MAGIC {
            return Found::Nothing;
        }
        let header = Self {
            epoch: u32_at(bytes, 8),
            segment: u32_at(bytes, 12),
            number: u64_at(bytes, 16),
            payload_bytes: u32_at(bytes, 24),
            synced_through: Mark(u64_at(bytes, 32)),
            clock: Timestamp::from_millis(u64_at(bytes, 40)),
            store: u64_at(bytes, 48),
        };
        if header.store != store || header.segment != segment {
            return Found::Nothing;
        }
        match u32_at(bytes, 28) {
            VERSION => Found::Header(header),
            version => Found::Newer(header, version),
        }
    }

    /// The size of the group, header included.
    pub(crate) fn group_bytes(&self) -> usize {
        HEADER_BYTES + self.payload_bytes as usize
    }

    /// Writes the header to the front of `group`, whose payload is complete.
    pub(crate) fn seal(&self, group: &mut [u8]) {
        group[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        group[4..8].fill(0);
        group[8..12].copy_from_slice(&self.epoch.to_le_bytes());
        group[12..16].copy_from_slice(&self.segment.to_le_bytes());
        group[16..24].copy_from_slice(&self.number.to_le_bytes());
        group[24..28].copy_from_slice(&self.payload_bytes.to_le_bytes());
        group[28..32].copy_from_slice(&VERSION.to_le_bytes());
        group[32..40].copy_from_slice(&self.synced_through.0.to_le_bytes());
        group[40..48].copy_from_slice(&self.clock.as_millis().to_le_bytes());
        group[48..56].copy_from_slice(&self.store.to_le_bytes());
        group[56..64].fill(0);
        let crc = crc32c::crc32c(&group[..self.group_bytes()]);
        group[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The clock in a header that was found to be whole.
pub(crate) fn clock_in(header: &[u8; HEADER_BYTES]) -> Timestamp {
    Timestamp::from_millis(u64_at(header, 40))
}

/// Whether the crc of a group, header and payload, is right.
pub(crate) fn is_intact(group: &[u8]) -> bool {
    let crc = crc32c::crc32c(&group[..4]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &group[8..]) == u32_at(group, 4)
}

/// Reads the records of a group whose crc was checked. They share `buffer`.
pub(crate) fn decode(start: Mark, header: &Header, buffer: &Bytes) -> Result<Group, StoreError> {
    let bytes = buffer.len();
    let records = split_frames(&buffer.slice(HEADER_BYTES..))
        .map(|frame| decode_record(&frame?))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Group {
        number: header.number,
        start,
        end: end_of(start, header),
        records,
        bytes,
    })
}

/// Where the group behind the one at `start` may begin.
pub(crate) fn end_of(start: Mark, header: &Header) -> Mark {
    let end = start.offset() as usize + header.group_bytes();
    Mark::new(start.segment(), align(end as u32))
}
