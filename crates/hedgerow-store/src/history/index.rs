//! The index of a sealed file, in a file of its own beside it: from an event's id to places in the file, in few reads and
//! without loading it.
//!
//! | part | bytes |
//! | --- | --- |
//! | head | 64, see [`Summary`] |
//! | filter | blocks of 64: 480 bits and their crc32c. An id belongs to one block and sets six bits in it; about ten bits an id |
//! | fences | the first hash of each page (u64), and their crc32c; then zeros up to a multiple of 4096 |
//! | pages | of 4096: 340 entries of hash u64 and offset u32, sorted, rest zero; count u32 and crc32c at the end |
//!
//! A look-up reads one block of the filter, which sends away all but about two in a hundred ids that are not there; then
//! the fences; then one page, or a few if an id has many records. Every part carries its own checksum, because nothing
//! was synced: after a power cut any of them may be from another time.

use std::hash::Hasher;
use std::io;

use hedgerow_core::time::Timestamp;
use siphasher::sip::SipHasher13;

use super::frame::{u32_at, u64_at};
use super::record::kept_id;
use crate::disk::DiskFile;

const MAGIC: [u8; 8] = *b"HGROWHIX";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 64;
const PAGE_BYTES: usize = 4_096;
const ENTRY_BYTES: usize = 12;
const ENTRIES_PER_PAGE: usize = 340;
/// Where a page's number of entries stands, and behind it the checksum.
const PAGE_COUNT_AT: usize = PAGE_BYTES - 8;
const BLOCK_BYTES: usize = 64;
const BLOCK_BITS: u64 = 480;
const BITS_PER_ID: usize = 10;
const BITS_SET: u32 = 6;

/// A place where an event is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Of the event's id.
    pub hash: u64,
    /// Where the frame begins.
    pub offset: u32,
}

/// What the head of an index says. In the file: magic (8), version u32, then these in order, zeros, crc32c at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    pub number: u32,
    /// As in the head of the file: tells an index that belongs to another file of the same number.
    pub begun: Timestamp,
    /// When the newest record ended.
    pub newest: Timestamp,
    /// Where the last frame ends.
    pub file_bytes: u32,
    pub entries: u32,
    pub filter_blocks: u32,
}

/// Where an id may be told of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Offsets, ascending.
    At(Vec<u32>),
    /// The index is damaged; the file itself has to be searched.
    Damaged,
}

/// The hash under which an event's id is indexed. Its key is fixed: hashes stand on the disk.
pub(super) fn hash(event_id: &str) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x6865_6467_6572_6f77, 0x6869_7374_6f72_7921);
    hasher.write(kept_id(event_id).as_bytes());
    hasher.finish()
}

/// The bytes of an index, the head apart from the rest: it is written last, so that a head says that there is a rest.
pub(super) struct Built {
    pub summary: Summary,
    pub head: [u8; HEAD_BYTES],
    pub rest: Vec<u8>,
}

/// Where the rest begins.
pub(super) const REST_AT: u64 = HEAD_BYTES as u64;

/// Makes the index of a file. `summary` lacks the counts.
pub(super) fn build(summary: Summary, mut entries: Vec<Entry>) -> Built {
    entries.sort_unstable();
    let summary = Summary {
        entries: entries.len() as u32,
        filter_blocks: filter_blocks(&entries) as u32,
        ..summary
    };
    let mut rest = filter(&entries, u64::from(summary.filter_blocks));
    let fences_start = rest.len();
    for page in entries.chunks(ENTRIES_PER_PAGE) {
        rest.extend_from_slice(&page[0].hash.to_le_bytes());
    }
    let crc = crc32c::crc32c(&rest[fences_start..]);
    rest.extend_from_slice(&crc.to_le_bytes());
    rest.resize(summary.pages_at() as usize - HEAD_BYTES, 0);
    for page in entries.chunks(ENTRIES_PER_PAGE) {
        let start = rest.len();
        for entry in page {
            rest.extend_from_slice(&entry.hash.to_le_bytes());
            rest.extend_from_slice(&entry.offset.to_le_bytes());
        }
        rest.resize(start + PAGE_COUNT_AT, 0);
        rest.extend_from_slice(&(page.len() as u32).to_le_bytes());
        let crc = crc32c::crc32c(&rest[start..]);
        rest.extend_from_slice(&crc.to_le_bytes());
    }
    Built {
        head: summary.to_bytes(),
        summary,
        rest,
    }
}

impl Summary {
    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.begun.as_millis().to_le_bytes());
        bytes[24..32].copy_from_slice(&self.newest.as_millis().to_le_bytes());
        bytes[32..36].copy_from_slice(&self.file_bytes.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.entries.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.filter_blocks.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the head of an index; `None` if it is none, torn, damaged or newer: it can be made anew from its file.
    pub(super) fn read(file: &dyn DiskFile) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEAD_BYTES];
        let is_valid = file.read_at(0, &mut bytes)? == HEAD_BYTES
            && bytes[..8] == MAGIC
            && u32_at(&bytes, 60) == crc32c::crc32c(&bytes[..60])
            && u32_at(&bytes, 8) == VERSION;
        let summary = Self {
            number: u32_at(&bytes, 12),
            begun: Timestamp::from_millis(u64_at(&bytes, 16)),
            newest: Timestamp::from_millis(u64_at(&bytes, 24)),
            file_bytes: u32_at(&bytes, 32),
            entries: u32_at(&bytes, 36),
            filter_blocks: u32_at(&bytes, 40),
        };
        Ok((is_valid && summary.entries > 0 && summary.filter_blocks > 0).then_some(summary))
    }

    fn pages(&self) -> usize {
        (self.entries as usize).div_ceil(ENTRIES_PER_PAGE)
    }

    fn fences_at(&self) -> u64 {
        (HEAD_BYTES + self.filter_blocks as usize * BLOCK_BYTES) as u64
    }

    fn pages_at(&self) -> u64 {
        let fences_end = self.fences_at() + self.pages() as u64 * 8 + 4;
        fences_end.next_multiple_of(PAGE_BYTES as u64)
    }

    /// The size of the whole index.
    pub(super) fn index_bytes(&self) -> u64 {
        self.pages_at() + (self.pages() * PAGE_BYTES) as u64
    }

    /// Finds where ids with this hash are told of.
    pub(super) fn find(&self, index: &dyn DiskFile, hash: u64) -> io::Result<Found> {
        match self.may_hold(index, hash)? {
            Some(true) => {}
            Some(false) => return Ok(Found::At(Vec::new())),
            None => return Ok(Found::Damaged),
        }
        let Some(first_page) = self.first_page(index, hash)? else {
            return Ok(Found::Damaged);
        };
        let mut offsets = Vec::new();
        for number in first_page..self.pages() {
            let at = self.pages_at() + (number * PAGE_BYTES) as u64;
            let Some(page) = read_page(index, at)? else {
                return Ok(Found::Damaged);
            };
            let start = page.partition_point(|entry| entry.hash < hash);
            let end = page.partition_point(|entry| entry.hash <= hash);
            offsets.extend(page[start..end].iter().map(|entry| entry.offset));
            if end < page.len() {
                break;
            }
        }
        Ok(Found::At(offsets))
    }

    /// Asks the filter; `None` if its block is damaged.
    fn may_hold(&self, index: &dyn DiskFile, hash: u64) -> io::Result<Option<bool>> {
        let mut block = [0; BLOCK_BYTES];
        let number = block_of(hash, u64::from(self.filter_blocks));
        let at = (HEAD_BYTES + number * BLOCK_BYTES) as u64;
        let is_whole = index.read_at(at, &mut block)? == BLOCK_BYTES;
        if !is_whole || u32_at(&block, 60) != crc32c::crc32c(&block[..60]) {
            return Ok(None);
        }
        Ok(Some(bits_of(hash).all(|bit| {
            block[(bit / 8) as usize] & (1 << (bit % 8)) != 0
        })))
    }

    /// The first page that can hold the hash; `None` if the fences are damaged.
    fn first_page(&self, index: &dyn DiskFile, hash: u64) -> io::Result<Option<usize>> {
        let mut fences = vec![0; self.pages() * 8 + 4];
        let is_whole = index.read_at(self.fences_at(), &mut fences)? == fences.len();
        let crc = fences.split_off(self.pages() * 8);
        if !is_whole || u32_at(&crc, 0) != crc32c::crc32c(&fences) {
            return Ok(None);
        }
        let (mut low, mut high) = (0, self.pages());
        while low < high {
            let middle = usize::midpoint(low, high);
            if u64_at(&fences, middle * 8) < hash {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        // Pages from `low` on begin at or behind the hash; the one before may hold it too.
        Ok(Some(low.saturating_sub(1)))
    }
}

fn read_page(index: &dyn DiskFile, at: u64) -> io::Result<Option<Vec<Entry>>> {
    let mut bytes = vec![0; PAGE_BYTES];
    let is_whole = index.read_at(at, &mut bytes)? == PAGE_BYTES;
    let count = u32_at(&bytes, PAGE_COUNT_AT) as usize;
    let crc = crc32c::crc32c(&bytes[..PAGE_BYTES - 4]);
    if !is_whole || u32_at(&bytes, PAGE_BYTES - 4) != crc || count > ENTRIES_PER_PAGE {
        return Ok(None);
    }
    let entries = bytes[..count * ENTRY_BYTES].chunks_exact(ENTRY_BYTES);
    let entries = entries.map(|bytes| Entry {
        hash: u64_at(bytes, 0),
        offset: u32_at(bytes, 8),
    });
    Ok(Some(entries.collect()))
}

/// How many blocks the filter of these (sorted) entries has.
fn filter_blocks(entries: &[Entry]) -> usize {
    let ids = entries.chunk_by(|a, b| a.hash == b.hash).count();
    (ids * BITS_PER_ID).div_ceil(BLOCK_BITS as usize).max(1)
}

fn filter(entries: &[Entry], blocks: u64) -> Vec<u8> {
    let mut filter = vec![0; blocks as usize * BLOCK_BYTES];
    for entry in entries {
        let start = block_of(entry.hash, blocks) * BLOCK_BYTES;
        for bit in bits_of(entry.hash) {
            filter[start + (bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
    for block in filter.chunks_exact_mut(BLOCK_BYTES) {
        let crc = crc32c::crc32c(&block[..60]);
        block[60..].copy_from_slice(&crc.to_le_bytes());
    }
    filter
}

/// The block of a hash, by its upper half.
fn block_of(hash: u64, blocks: u64) -> usize {
    (((hash >> 32) * blocks) >> 32) as usize
}

/// The bits of a hash in its block: nine bits of a mixture for each, scaled to the block.
fn bits_of(hash: u64) -> impl Iterator<Item = u64> {
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..BITS_SET).map(move |index| (((mixed >> (10 + 9 * index)) & 511) * BLOCK_BITS) >> 9)
}
