//! How much room the log has: the arithmetic by which `bytes_max` is never exceeded (design D6).
//!
//! What lies in `log/` and `kept/` at any moment:
//!
//! | bytes | counted as |
//! | --- | --- |
//! | sealed segments, whole; the active one as far as it is written; their indexes; kept files | *used* |
//! | the rest of the active segment | reserve: 1 segment |
//! | the next segment, made ahead of time | reserve: 1 segment |
//! | a copy under way, of a part that is cleaned or of a kept file that is written anew | reserve: 1 segment, or what the largest run of segments to be cleaned takes |
//! | records of attempts after publishing was refused, the active segment's index, two manifests | reserve: 1 segment |
//! | free files | what is left; they are removed before something else needs their room |
//!
//! So `bytes_max` is the watermark and four segments, or an eighth of the whole if that is more. Publishing is refused when
//! what is used, what waits in the queue and the request are more than the watermark, before anything is written. Records
//! are not refused: an attempt starts only if there is room for those of all attempts under way
//! ([`Usage::record_room_bytes`]); ends without an attempt, moves of what was held and purges wait for room in the same way.
//!
//! A log that is opened with more in it than fits, because `bytes_max` was lowered, could not even write what makes it smaller.
//! For it the bound is what is used and four segments, and goes down with what is used until it is `bytes_max`; publishing is
//! refused meanwhile ([`Shared::allow_what_is_there`]).

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use super::LogOptions;
use super::group::HEADER_BYTES;
use super::kept::Pressure;
use super::segment::Segment;
use super::shared::Shared;
use crate::error::{Fullness, StoreError};
use crate::{RecordRoom, Usage};

/// Segments whose bytes are on disk and not used: the rest of the active one, and the next one.
pub(super) const AHEAD_SEGMENTS: u64 = 2;
/// Segments that a copy takes, if no run is larger.
const COPY_SEGMENTS: u64 = 1;
/// Segments for records when publishing is refused.
const RECORD_SEGMENTS: u64 = 1;
/// Segments that the watermark lies below `bytes_max`, at least.
const RESERVE_SEGMENTS: u64 = AHEAD_SEGMENTS + COPY_SEGMENTS + RECORD_SEGMENTS;
/// The part of the bytes that the watermark lies below it at least, so that in a large store cleaning keeps pace.
const RESERVE_DIVISOR: u64 = 8;
/// What the largest publish request takes, about, in its stored form: the log is full when it would be refused.
const REQUEST_BYTES: u64 = 2 * 1024 * 1024;
/// When this part of a segment is left for records, the next segment is begun.
const ROLL_DIVISOR: u64 = 8;
/// What has no bound of its own in the room for records, such as an index, takes less than this part of a segment.
const BESIDE_RECORDS_DIVISOR: u64 = 8;
/// What a group adds to its frames: a header, and zeros up to the next multiple of 64 bytes.
const GROUP_OVERHEAD_BYTES: u64 = HEADER_BYTES as u64 + 64;

impl LogOptions {
    /// At how many used bytes publishing is refused. At least two segments.
    #[must_use]
    pub fn watermark_bytes(&self) -> u64 {
        let segment_bytes = u64::from(self.segment_bytes);
        let segments = (self.bytes_max / segment_bytes).max(2 + RESERVE_SEGMENTS);
        (segments - RESERVE_SEGMENTS.max(segments / RESERVE_DIVISOR)) * segment_bytes
    }
}

impl Shared {
    /// Says whether an append of `bytes` is admitted when `queued` bytes wait.
    pub(crate) fn admit_append(&self, bytes: u64, queued: u64) -> Result<(), StoreError> {
        let watermark_bytes = self.options.watermark_bytes();
        if self.would_take(bytes, queued) > watermark_bytes {
            let used_bytes = self.used_bytes();
            return Err(StoreError::Full(Fullness::Log {
                used_bytes,
                watermark_bytes,
            }));
        }
        if queued + bytes > self.options.queue_bytes_max && queued > 0 {
            let queue_bytes_max = self.options.queue_bytes_max;
            return Err(StoreError::Busy {
                queued_bytes: queued,
                queue_bytes_max,
            });
        }
        if self.missing_bytes.load(Ordering::Relaxed) > 0 {
            return self
                .check_space()
                .map_or(Ok(()), |fullness| Err(StoreError::Full(fullness)));
        }
        Ok(())
    }

    /// How full the log is, and whether the disk has room now: others use it too, and nobody may be publishing.
    pub(crate) fn usage(&self) -> Usage {
        let of_disk = self.check_space();
        let used_bytes = self.used_bytes();
        let watermark_bytes = self.options.watermark_bytes();
        let RecordRoom {
            queued_bytes,
            room_bytes,
        } = self.record_room();
        let request_bytes = REQUEST_BYTES.min(self.options.record_bytes_max() as u64);
        let is_log_full = self.would_take(request_bytes, queued_bytes) > watermark_bytes;
        let of_log = is_log_full.then_some(Fullness::Log {
            used_bytes,
            watermark_bytes,
        });
        Usage {
            used_bytes,
            watermark_bytes,
            fullness: of_log.or(of_disk),
            queued_bytes,
            record_room_bytes: room_bytes,
            recycled_segments: self.pool.recycled(),
            kept_bytes: self.kept.bytes(),
            cleaned_segments: self.cleaned_segments.load(Ordering::Relaxed),
            copied_events: self.copied_events.load(Ordering::Relaxed),
            compacted_files: self.kept.compacted_files(),
        }
    }

    /// What there is room for, of records.
    pub(crate) fn record_room(&self) -> RecordRoom {
        let queued_bytes = self.queue.bytes();
        let taken = self.used_bytes() + 2 * queued_bytes;
        RecordRoom {
            queued_bytes,
            room_bytes: self.records_end().saturating_sub(taken),
        }
    }

    /// What would be used with so many more bytes behind those that are queued, and what of the reserve is promised already.
    /// A group that does not fit the rest of its segment leaves less of it unused than it takes itself: so twice.
    fn would_take(&self, bytes: u64, queued: u64) -> u64 {
        let rest = {
            let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
            segments.back().map_or(0, |active| {
                u64::from(active.capacity.saturating_sub(active.content().end))
            })
        };
        let more = queued + bytes;
        let fits = more + GROUP_OVERHEAD_BYTES <= rest;
        let promised = self.copy_reserve() - COPY_SEGMENTS * self.segment_bytes();
        self.used_bytes() + promised + if fits { more } else { 2 * more }
    }

    /// Whether the room for records is nearly used up, so that the active segment should be sealed: only then can it be
    /// cleaned, and what it says of deliveries takes less when it is kept.
    pub(super) fn wants_a_new_segment(&self) -> bool {
        self.used_bytes() + self.segment_bytes() / ROLL_DIVISOR > self.records_end()
    }

    /// Allows what is there, if it is more than fits, and says so.
    pub(super) fn allow_what_is_there(&self) {
        let used_bytes = self.whole_bytes();
        let records_end = self.options.watermark_bytes() + RECORD_SEGMENTS * self.segment_bytes();
        if used_bytes <= records_end + self.segment_bytes() / BESIDE_RECORDS_DIVISOR {
            return;
        }
        self.excess_bytes.store(used_bytes, Ordering::Relaxed);
        tracing::warn!(
            used_bytes,
            bytes_max = self.options.bytes_max,
            allowed_bytes = self.bytes_max(),
            "more is stored than store.bytes_max has room for: publishing is refused until deliveries have made it less, and \
             what is stored may take allowed_bytes until then; let subscriptions catch up or raise store.bytes_max"
        );
    }

    /// The least that was used since the log was opened with more than fits; 0 if that is not so, or no longer.
    fn excess(&self) -> u64 {
        if self.excess_bytes.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let used_bytes = self.whole_bytes();
        let used_bytes = if used_bytes <= self.options.watermark_bytes() {
            0
        } else {
            used_bytes
        };
        let before = self.excess_bytes.fetch_min(used_bytes, Ordering::Relaxed);
        before.min(used_bytes)
    }

    /// What the whole may take now: the setting, unless there was more when the log was opened.
    fn bytes_max(&self) -> u64 {
        let needed = self.excess() + RESERVE_SEGMENTS * self.segment_bytes();
        self.options.bytes_max.max(needed)
    }

    /// At how many used bytes there is no room for records.
    fn records_end(&self) -> u64 {
        let watermark_bytes = self.options.watermark_bytes().max(self.excess());
        watermark_bytes + RECORD_SEGMENTS * self.segment_bytes()
    }

    /// How much room there is.
    pub(super) fn pressure(&self) -> Pressure {
        let (used_bytes, watermark_bytes) = (self.used_bytes(), self.options.watermark_bytes());
        if used_bytes >= watermark_bytes + RECORD_SEGMENTS * self.segment_bytes() / 2 {
            Pressure::RecordsToo
        } else if used_bytes >= watermark_bytes {
            Pressure::Full
        } else {
            Pressure::None
        }
    }

    /// Kept files and sealed segments whole, with their indexes; the active one as far as it is written. (One from a time of
    /// larger segments counts as one of today's: what comes next seals it, and then it can be forgotten.)
    pub(crate) fn used_bytes(&self) -> u64 {
        self.bytes_with_active(|active| active.content().end.min(self.options.segment_bytes))
    }

    /// The same with an active segment from a time of larger ones whole, as it will count when it is sealed.
    fn whole_bytes(&self) -> u64 {
        self.bytes_with_active(|active| {
            if active.capacity > self.options.segment_bytes {
                active.capacity
            } else {
                active.content().end
            }
        })
    }

    fn bytes_with_active(&self, bytes_of: impl FnOnce(&Segment) -> u32) -> u64 {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let beside = self.kept.bytes() + self.leaving_bytes.load(Ordering::Relaxed);
        let Some(active) = segments.back() else {
            return beside;
        };
        let sealed = segments.iter().take(segments.len() - 1);
        let sealed: u64 = sealed
            .map(|segment| u64::from(segment.capacity) + segment.index_bytes())
            .sum();
        sealed + u64::from(bytes_of(active)) + beside
    }

    /// Says what the next cleanings will copy at once, at most.
    pub(super) fn reserve_copy(&self, bytes: u64) {
        self.copy_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What is reserved for a copy.
    fn copy_reserve(&self) -> u64 {
        let planned = self.copy_bytes.load(Ordering::Relaxed);
        let writing = self.kept.writing_bytes();
        planned
            .max(writing)
            .max(COPY_SEGMENTS * self.segment_bytes())
    }

    /// What the rest of the active segment, the next one and free files may take together.
    pub(super) fn room_for_files(&self) -> u64 {
        let taken = self.used_bytes() + self.copy_reserve();
        self.bytes_max().saturating_sub(taken)
    }

    /// What a copy may take, once the free files have made room for it.
    pub(super) fn room_for_copy(&self) -> Result<u64, StoreError> {
        self.trim_free_files()?;
        let ahead = AHEAD_SEGMENTS * self.segment_bytes() + self.pool.free_bytes();
        Ok(self.bytes_max().saturating_sub(self.used_bytes() + ahead))
    }

    /// Removes free files for which there is no room any more.
    pub(super) fn trim_free_files(&self) -> Result<(), StoreError> {
        self.pool.trim(self.room_for_files())
    }

    /// Counts what was forgotten for as long as the answer lives.
    pub(super) fn leave(&self, bytes: u64) -> Leaving<'_> {
        self.leaving_bytes.fetch_add(bytes, Ordering::Relaxed);
        Leaving {
            bytes,
            all: &self.leaving_bytes,
        }
    }

    fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes.into()
    }

    /// What free files may take that are made in advance: nothing on a disk that would have less left than its reserve then.
    pub(super) fn room_for_advance(&self) -> u64 {
        let with_file = self.options.disk_reserve_bytes + self.segment_bytes();
        if self.disk.free_space().unwrap_or(0) < with_file {
            0
        } else {
            self.room_for_files()
        }
    }

    /// Looks whether the disk has room; says so if not. Before that free files are removed: only segments can use them, and
    /// the reserve is for the view, kept files and dead letters too.
    pub(super) fn check_space(&self) -> Option<Fullness> {
        let mut reserve_bytes = self.options.disk_reserve_bytes;
        if self.spare_missing.load(Ordering::Relaxed) {
            reserve_bytes += 2 * self.segment_bytes();
        }
        let mut free_bytes = self.disk.free_space().unwrap_or(0);
        if free_bytes < reserve_bytes && !self.is_closed() {
            match self.pool.give_back(reserve_bytes - free_bytes) {
                Ok(true) => free_bytes = self.disk.free_space().unwrap_or(0),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "free files stay on a full disk"),
            }
        }
        let missing = reserve_bytes.saturating_sub(free_bytes);
        self.missing_bytes.store(missing, Ordering::Relaxed);
        (missing > 0).then_some(Fullness::Disk {
            free_bytes,
            reserve_bytes,
        })
    }
}

/// Bytes that are forgotten and still on disk.
pub(super) struct Leaving<'a> {
    bytes: u64,
    all: &'a AtomicU64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
