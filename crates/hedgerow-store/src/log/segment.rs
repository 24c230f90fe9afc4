//! One segment: a file of groups, and what is known about its content.
//!
//! The file of segment `n` is `log/<n as 8 hex digits>.seg`, its index (`index`) `log/<n as 8 hex digits>.idx`. A file
//! without content of value is `log/free-<any>`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hedgerow_core::position::{Mark, Position};

use super::content::{Content, Stretch};
use super::group::Header;
use super::index;
use crate::disk::DiskFile;
use crate::error::StoreError;

/// The directory of segments.
pub(crate) const DIRECTORY: &str = "log";

/// The path of a segment.
pub(crate) fn path(number: u32) -> String {
    format!("{DIRECTORY}/{number:08x}.seg")
}

/// The path of a segment's index.
pub(crate) fn index_path(number: u32) -> String {
    format!("{DIRECTORY}/{number:08x}.idx")
}

/// The path of a free file.
pub(crate) fn free_path(number: u64) -> String {
    format!("{DIRECTORY}/free-{number}")
}

/// The segment that a file name in the directory stands for.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    number_before(name, ".seg")
}

/// The segment whose index a file name in the directory stands for.
pub(crate) fn index_number_of(name: &str) -> Option<u32> {
    number_before(name, ".idx")
}

fn number_before(name: &str, ending: &str) -> Option<u32> {
    let digits = name
        .strip_suffix(ending)
        .filter(|digits| digits.len() == 8)?;
    u32::from_str_radix(digits, 16).ok()
}

/// The number of a free file.
pub(crate) fn free_number_of(name: &str) -> Option<u64> {
    name.strip_prefix("free-")?.parse().ok()
}

/// An open segment.
pub(crate) struct Segment {
    /// Its number, which is its generation too.
    pub number: u32,
    /// Its file.
    pub file: Arc<dyn DiskFile>,
    /// How many bytes groups may take.
    pub capacity: u32,
    /// Written by the committer after each sync, read by everybody.
    content: RwLock<Content>,
    /// What its index takes at most; 0 while it is written to.
    index_bytes: AtomicU64,
}

impl Segment {
    /// A segment without groups.
    pub(crate) fn new(number: u32, file: Arc<dyn DiskFile>, capacity: u32) -> Self {
        Self {
            number,
            file,
            capacity,
            content: RwLock::default(),
            index_bytes: AtomicU64::new(0),
        }
    }

    /// Reserves the bytes of its index: nothing is added to it any more.
    pub(crate) fn seal(&self) {
        let index_bytes = index::bytes_max(&self.content());
        self.index_bytes.store(index_bytes, Ordering::Relaxed);
    }

    /// What its index takes at most, once it is sealed.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.index_bytes.load(Ordering::Relaxed)
    }

    /// What is in it.
    pub(crate) fn content(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of its last durable group, [`Mark::ZERO`] if it has none.
    pub(crate) fn end(&self) -> Mark {
        match self.content().end {
            0 => Mark::ZERO,
            end => Mark::new(self.number, end),
        }
    }

    /// Takes note of the durable group at `offset`, behind those known already. `group` is the whole of it.
    ///
    /// # Errors
    /// If its frames cannot be read; nothing is noted then.
    pub(crate) fn note(
        &self,
        offset: u32,
        header: &Header,
        group: &[u8],
    ) -> Result<(), StoreError> {
        self.content_mut().note(offset, header, group)
    }

    /// Says what is in it, as its index has it.
    pub(crate) fn restore(&self, content: Content) {
        *self.content_mut() = content;
    }

    /// Where to look for the topic's events from `position` on: about `bytes_max` bytes, at least one stretch. Empty if
    /// the event is not in this segment.
    pub(crate) fn stretches(&self, position: Position, bytes_max: usize) -> Vec<Stretch> {
        match self.content().topics.get(&position.topic) {
            Some(range) if (range.first_seq..=range.last_seq).contains(&position.seq) => {
                range.stretches_from(position.seq, bytes_max)
            }
            _ => Vec::new(),
        }
    }

    fn content_mut(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }
}
