//! How much the store has room for of what many deliveries add to it at once: ends without an attempt, moves of what was held,
//! purges. They wait, and go on in slices as cleaning gives room back.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::limits;

use super::Engine;
use crate::endpoints::StoreRoom;

/// When room is looked for again.
pub(super) const ROOM_AGAIN_AFTER: Duration = Duration::from_millis(100);

impl Engine {
    /// How many deliveries may be written about in records of many, beside what is reserved for attempts and ends that are
    /// under way.
    pub(super) fn room_for_rows(&self) -> usize {
        count(self.free_room() / limits::DELIVERY_ROW_BYTES_MAX)
    }

    /// How many deliveries may end, each with a record of its own.
    pub(super) fn room_for_ends(&self) -> usize {
        count(self.free_room() / limits::ATTEMPT_RECORDS_BYTES_MAX)
    }

    /// Events of batches under way, but the first of each: that one has its seat.
    pub(super) fn beside_first(&self) -> usize {
        Arc::strong_count(&self.beside) - 1
    }

    /// What needs the room of an attempt beside attempts: ends under way, events of batches but the first, and notices of
    /// dead letters.
    pub(super) fn beside_attempts(&self) -> usize {
        self.endings.under_way() + self.beside_first() + self.letter_writes.notices_under_way()
    }

    /// What room there is for attempts, of so many bytes for records, beside what is under way otherwise. Whether the store is full
    /// takes a look at the disk: it is as it was when attempts were started last.
    pub(super) fn room_for_attempts(&self, record_room_bytes: u64) -> StoreRoom {
        let attempts = count(record_room_bytes / limits::ATTEMPT_RECORDS_BYTES_MAX);
        StoreRoom {
            is_full: self.is_store_full,
            attempts_max: attempts.saturating_sub(self.beside_attempts()),
        }
    }

    fn free_room(&self) -> u64 {
        let under_way = (self.endpoints.taken() + self.beside_attempts()) as u64;
        let reserved = under_way * limits::ATTEMPT_RECORDS_BYTES_MAX;
        let room_bytes = self.store.record_room().room_bytes;
        room_bytes.saturating_sub(reserved)
    }
}

fn count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}
