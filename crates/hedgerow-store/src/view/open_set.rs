//! The unsettled positions of one subscription. In memory bitmaps of 65,536 positions: dense they cost one bit an event,
//! sparse two bytes (on-disk page, Exceptions). Stored in parts of 2,048 positions, so that a change rewrites little.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use roaring::{RoaringBitmap, RoaringTreemap};

use super::rows::damaged_view;
use crate::error::StoreError;

/// A set of event numbers that remembers which of its parts changed since the last checkpoint.
#[derive(Debug, Default)]
pub(super) struct OpenSet {
    /// By the number's upper bits; never an empty one.
    chunks: BTreeMap<u64, RoaringBitmap>,
    changed: BTreeSet<u64>,
    len: u64,
}

const CHUNK_BITS: u32 = 16;
const PART_BITS: u32 = 11;
/// A part as a plain bitmap; sparser ones are stored as a list of 16-bit numbers.
const PART_BYTES: usize = (1 << PART_BITS) / 8;

const fn split(seq: u64) -> (u64, u32) {
    (seq >> CHUNK_BITS, (seq & 0xFFFF) as u32)
}

impl OpenSet {
    pub(super) fn insert(&mut self, seq: u64) -> bool {
        let (chunk, low) = split(seq);
        let is_new = self.chunks.entry(chunk).or_default().insert(low);
        if is_new {
            self.len += 1;
            self.changed.insert(seq >> PART_BITS);
        }
        is_new
    }

    pub(super) fn remove(&mut self, seq: u64) -> bool {
        let (chunk, low) = split(seq);
        let Some(bitmap) = self.chunks.get_mut(&chunk) else {
            return false;
        };
        let was_there = bitmap.remove(low);
        if was_there {
            self.len -= 1;
            self.changed.insert(seq >> PART_BITS);
            if bitmap.is_empty() {
                self.chunks.remove(&chunk);
            }
        }
        was_there
    }

    pub(super) fn contains(&self, seq: u64) -> bool {
        let (chunk, low) = split(seq);
        self.chunks
            .get(&chunk)
            .is_some_and(|bitmap| bitmap.contains(low))
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// All of them, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.chunks.iter().flat_map(|(chunk, bitmap)| {
            bitmap
                .iter()
                .map(move |low| (chunk << CHUNK_BITS) | u64::from(low))
        })
    }

    /// Those in the range, ascending.
    fn iter_in(&self, seqs: RangeInclusive<u64>) -> impl Iterator<Item = u64> + '_ {
        let (first, last) = (*seqs.start(), *seqs.end());
        self.chunks
            .range(first >> CHUNK_BITS..=last >> CHUNK_BITS)
            .flat_map(|(chunk, bitmap)| {
                bitmap
                    .iter()
                    .map(move |low| (chunk << CHUNK_BITS) | u64::from(low))
            })
            .filter(move |seq| seqs.contains(seq))
    }

    /// Those in the range.
    pub(super) fn set_in(&self, seqs: RangeInclusive<u64>) -> RoaringTreemap {
        RoaringTreemap::from_sorted_iter(self.iter_in(seqs)).expect("they come in ascending order")
    }

    /// Whether one of them lies in the range.
    pub(super) fn intersects(&self, seqs: RangeInclusive<u64>) -> bool {
        let (first, last) = (*seqs.start(), *seqs.end());
        self.chunks
            .range(first >> CHUNK_BITS..=last >> CHUNK_BITS)
            .any(|(chunk, bitmap)| {
                let base = chunk << CHUNK_BITS;
                let low = first.saturating_sub(base).min(0xFFFF) as u32;
                let high = (last - base).min(0xFFFF) as u32;
                bitmap.range_cardinality(low..=high) > 0
            })
    }

    /// These in the place of those that there are.
    pub(super) fn replace(&mut self, seqs: &[u64]) {
        let gone: Vec<u64> = self.iter().collect();
        for seq in gone {
            self.remove(seq);
        }
        for seq in seqs {
            self.insert(*seq);
        }
    }

    /// All of them, in a form to be stored whole.
    pub(super) fn chunks(&self) -> Vec<(u64, Vec<u8>)> {
        let chunks = self.chunks.iter().map(|(chunk, bitmap)| {
            let mut bytes = Vec::with_capacity(bitmap.serialized_size());
            bitmap
                .serialize_into(&mut bytes)
                .expect("memory takes what is written");
            (*chunk, bytes)
        });
        chunks.collect()
    }

    /// Takes what was stored whole, in the place of what there is. All parts count as changed.
    pub(super) fn restore(&mut self, chunks: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        *self = Self::default();
        for (chunk, bytes) in chunks {
            let bitmap = RoaringBitmap::deserialize_from(bytes.as_slice())
                .map_err(|_| damaged_view("open positions cannot be read"))?;
            self.len += bitmap.len();
            let parts = bitmap
                .iter()
                .map(|low| ((chunk << CHUNK_BITS) | u64::from(low)) >> PART_BITS);
            self.changed.extend(parts);
            self.chunks.insert(*chunk, bitmap);
        }
        Ok(())
    }

    /// Takes the changed parts: each with its number and stored form, `None` if it is empty.
    pub(super) fn take_changes(&mut self) -> Vec<(u64, Option<Vec<u8>>)> {
        let changed = std::mem::take(&mut self.changed);
        changed
            .into_iter()
            .map(|part| (part, self.stored_part(part)))
            .collect()
    }

    fn stored_part(&self, part: u64) -> Option<Vec<u8>> {
        let first = part << PART_BITS;
        let (chunk, low) = split(first);
        let range = low..low + (1 << PART_BITS);
        let bitmap = self.chunks.get(&chunk)?;
        let count = bitmap.range_cardinality(range.clone()) as usize;
        let offsets = bitmap.range(range).map(|position| position - low);
        if count == 0 {
            return None;
        }
        if count * 2 < PART_BYTES {
            return Some(
                offsets
                    .flat_map(|offset| (offset as u16).to_le_bytes())
                    .collect(),
            );
        }
        let mut bits = vec![0; PART_BYTES];
        offsets.for_each(|offset| bits[offset as usize / 8] |= 1 << (offset % 8));
        Some(bits)
    }

    /// Adds a part as it was stored.
    pub(super) fn load(&mut self, part: u64, stored: &[u8]) -> Result<(), StoreError> {
        let (chunk, low) = split(part << PART_BITS);
        let bitmap = self.chunks.entry(chunk).or_default();
        let before = bitmap.len();
        if stored.len() == PART_BYTES {
            let is_set = |offset: &u32| stored[*offset as usize / 8] & (1 << (offset % 8)) != 0;
            bitmap.extend(
                (0..1 << PART_BITS)
                    .filter(is_set)
                    .map(|offset| low + offset),
            );
        } else {
            let (pairs, rest) = stored.as_chunks::<2>();
            let offsets = pairs
                .iter()
                .map(|pair| u32::from(u16::from_le_bytes(*pair)));
            if !rest.is_empty() || offsets.clone().any(|offset| offset >= 1 << PART_BITS) {
                return Err(StoreError::damaged("the open positions in a record"));
            }
            bitmap.extend(offsets.map(|offset| low + offset));
        }
        self.len += bitmap.len() - before;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_over_chunk_borders() {
        let mut set = OpenSet::default();
        for seq in [1, 65_535, 65_536, 200_000] {
            assert!(set.insert(seq));
        }
        assert!(!set.insert(1));
        assert!(set.intersects(2..=65_535));
        assert!(!set.intersects(2..=65_534));
        assert!(set.intersects(65_536..=65_536));
        assert!(!set.intersects(65_537..=199_999));
        assert!(set.intersects(65_537..=200_000));
        assert!(!set.intersects(200_001..=u64::MAX));
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 65_535, 65_536, 200_000]);
        assert!(set.remove(65_536) && !set.remove(65_536));
        assert_eq!(set.len(), 3);
    }

    #[test]
    fn changed_parts_are_stored_once_and_load_again() {
        let mut set = OpenSet::default();
        for seq in (0..10_000)
            .filter(|seq| seq % 3 != 0)
            .chain([70_000, 1 << 40])
        {
            set.insert(seq);
        }
        let mut stored: BTreeMap<_, _> = set.take_changes().into_iter().collect();
        set.remove(70_000);
        set.insert(6);
        let changes = set.take_changes();
        assert_eq!(changes.len(), 2, "only the parts that changed");
        stored.extend(changes);
        let mut loaded = OpenSet::default();
        for (part, bytes) in stored {
            if let Some(bytes) = bytes {
                assert!(bytes.len() <= PART_BYTES);
                loaded.load(part, &bytes).unwrap();
            }
        }
        assert_eq!(
            loaded.iter().collect::<Vec<_>>(),
            set.iter().collect::<Vec<_>>()
        );
        assert_eq!(loaded.len(), set.len());
    }
}
