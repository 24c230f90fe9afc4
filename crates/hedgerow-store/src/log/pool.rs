//! Where segments come from and where they go: free files, the next segment, recycling.
//!
//! Writing over blocks that were written before is two to three times as fast to sync as writing fresh ones, so a
//! segment that nobody needs is renamed to be a later one. A rename is made durable before the first group is written
//! under the new name: otherwise a power cut could leave new groups in a file with an old number, where nobody looks
//! for them.
//!
//! One free file is kept back beside the next segment, so that there is room to settle on a full disk; it is given up when
//! `bytes_max` leaves no room for it. The others are removed when the disk has no more left than its reserve.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::fence::Fence;
use super::index;
use super::lock;
use super::room::AHEAD_SEGMENTS;
use super::segment::{self, DIRECTORY, Segment};
use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::failpoint;

/// Free files that are kept on a full disk, so that there is a next segment for records.
const SPARE_FILES: usize = 1;
/// How much is zeroed by one write.
const ZEROING_STEP_BYTES: usize = 1024 * 1024;

/// Free files and the next segment.
pub(crate) struct Pool {
    disk: Arc<dyn Disk>,
    fence: Arc<Fence>,
    segment_bytes: u32,
    /// More free files than this are removed.
    free_max: usize,
    inner: Mutex<Inner>,
    recycled: AtomicU64,
}

struct Inner {
    free: VecDeque<FreeFile>,
    /// The next segment under its name, durably.
    next: Option<Arc<Segment>>,
    /// The newest segment that was taken.
    newest: u32,
    /// No free file has this number or a higher one.
    next_free: u64,
}

/// A file without content of value.
pub(crate) struct FreeFile {
    pub path: String,
    pub file: Arc<dyn DiskFile>,
    /// Whether it was a segment before.
    pub is_used: bool,
}

impl Pool {
    /// A pool that begins with these files. No free file has the number `next_free` or a higher one, no segment one
    /// above `newest`.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        fence: Arc<Fence>,
        segment_bytes: u32,
        free_max: usize,
        free: VecDeque<FreeFile>,
        next_free: u64,
        newest: u32,
    ) -> Self {
        let inner = Mutex::new(Inner {
            free,
            next: None,
            newest,
            next_free,
        });
        Self {
            disk,
            fence,
            segment_bytes,
            free_max,
            inner,
            recycled: AtomicU64::new(0),
        }
    }

    /// What notices another owner of the directory.
    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.fence
    }

    /// How many segments were made of used files.
    pub(crate) fn recycled(&self) -> u64 {
        self.recycled.load(Ordering::Relaxed)
    }

    /// Segment `number`, ready to be written to.
    pub(crate) fn take(&self, number: u32) -> Result<Arc<Segment>, StoreError> {
        let mut inner = lock(&self.inner);
        let next = match inner.next.take() {
            Some(next) => next,
            None => self.make(&mut inner, number)?,
        };
        assert_eq!(next.number, number, "segments are taken in order");
        inner.newest = number;
        Ok(next)
    }

    /// Makes segment `number` and a free file ahead of time, unless they are there; the free file only if it fits `room`
    /// bytes. A wish that comes late, when the segment was taken already, is no wish.
    pub(crate) fn prepare(&self, number: u32, room: u64) -> Result<(), StoreError> {
        let mut inner = lock(&self.inner);
        if number > inner.newest && inner.next.is_none() {
            inner.next = Some(self.make(&mut inner, number)?);
        }
        self.trim_to(&mut inner, room)?;
        if inner.free.is_empty() && self.fits(1, room) {
            let file = self.create(inner.new_path(), false)?;
            inner.free.push_back(file);
        }
        Ok(())
    }

    /// Makes free files that were written once, until there are `count` free files, as long as they fit `room` bytes.
    pub(crate) fn fill(&self, count: usize, room: impl Fn() -> u64) -> Result<(), StoreError> {
        loop {
            let path = {
                let mut inner = lock(&self.inner);
                if inner.free.len() >= count || !self.fits(inner.free.len() + 1, room()) {
                    return Ok(());
                }
                inner.new_path()
            };
            // Long, so outside of the lock: the first group must not wait for it.
            let file = self.create(path, true)?;
            lock(&self.inner).free.push_back(file);
        }
    }

    /// Removes free files until the others fit `room` bytes.
    pub(crate) fn trim(&self, room: u64) -> Result<(), StoreError> {
        self.trim_to(&mut lock(&self.inner), room)
    }

    fn trim_to(&self, inner: &mut Inner, room: u64) -> Result<(), StoreError> {
        while !inner.free.is_empty() && !self.fits(inner.free.len(), room) {
            if let Some(last) = inner.free.pop_back() {
                let removed = self.disk.remove(&last.path);
                removed.map_err(StoreError::io("remove", last.path))?;
            }
        }
        Ok(())
    }

    /// Removes free files from the newest on until `bytes` are given back, but for the one that is kept for records. Says
    /// whether any was removed.
    pub(crate) fn give_back(&self, bytes: u64) -> Result<bool, StoreError> {
        let mut inner = lock(&self.inner);
        let wanted = bytes.div_ceil(self.segment_bytes.into());
        let surplus = inner.free.len().saturating_sub(SPARE_FILES) as u64;
        let count = wanted.min(surplus);
        if count == 0 {
            return Ok(false);
        }
        // The names may be those of files of another owner.
        self.fence.check()?;
        for _ in 0..count {
            if let Some(last) = inner.free.pop_back() {
                let removed = self.disk.remove(&last.path);
                removed.map_err(StoreError::io("remove", last.path))?;
            }
        }
        Ok(true)
    }

    /// Whether so many free files fit `room` bytes, beside the next segment and the rest of the active one.
    fn fits(&self, free: usize, room: u64) -> bool {
        (free as u64 + AHEAD_SEGMENTS) * u64::from(self.segment_bytes) <= room
    }

    /// The bytes of free files.
    pub(crate) fn free_bytes(&self) -> u64 {
        lock(&self.inner).free.len() as u64 * u64::from(self.segment_bytes)
    }

    /// Takes a segment that nobody needs, and removes its index. Its file is kept if all free files together fit `room`
    /// bytes.
    pub(crate) fn release(&self, segment: &Segment, room: u64) -> Result<(), StoreError> {
        failpoint::hit("segment-recycle");
        index::remove(&*self.disk, segment.number)?;
        failpoint::hit("index-removed");
        let mut inner = lock(&self.inner);
        let from = segment::path(segment.number);
        if inner.free.len() >= self.free_max || !self.fits(inner.free.len() + 1, room) {
            return self
                .disk
                .remove(&from)
                .map_err(StoreError::io("remove", from));
        }
        let path = inner.new_path();
        self.disk
            .rename(&from, &path)
            .map_err(StoreError::io("rename", from))?;
        inner.free.push_back(FreeFile {
            path,
            file: Arc::clone(&segment.file),
            is_used: true,
        });
        Ok(())
    }

    fn make(&self, inner: &mut Inner, number: u32) -> Result<Arc<Segment>, StoreError> {
        assert!(
            number > inner.newest,
            "a file must not take the place of a segment"
        );
        // The name may be that of a segment of another owner.
        self.fence.check()?;
        let free = match inner.free.pop_front() {
            Some(free) => free,
            None => self.create(inner.new_path(), false)?,
        };
        let to = segment::path(number);
        if let Err(error) = self.fit(&free) {
            inner.free.push_front(free);
            return Err(error);
        }
        failpoint::hit("segment-rename");
        self.disk
            .rename(&free.path, &to)
            .map_err(StoreError::io("rename", &free.path))?;
        self.disk
            .sync_dir(DIRECTORY)
            .map_err(StoreError::io("sync", DIRECTORY))?;
        failpoint::hit("segment-renamed");
        if free.is_used {
            self.recycled.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Arc::new(Segment::new(
            number,
            free.file,
            self.segment_bytes,
        )))
    }

    /// Gives a file from another time the size of today's segments.
    fn fit(&self, free: &FreeFile) -> Result<(), StoreError> {
        let wanted = u64::from(self.segment_bytes);
        let len = free
            .file
            .len()
            .map_err(StoreError::io("examine", &free.path))?;
        if len == wanted {
            return Ok(());
        }
        if len > wanted {
            free.file
                .set_len(wanted)
                .map_err(StoreError::io("shorten", &free.path))?;
        } else {
            free.file
                .allocate(wanted)
                .map_err(StoreError::io("extend", &free.path))?;
        }
        free.file
            .sync_data()
            .map_err(StoreError::io("sync", &free.path))
    }

    fn create(&self, path: String, zeroed: bool) -> Result<FreeFile, StoreError> {
        let file = self
            .disk
            .open(&path, true)
            .map_err(StoreError::io("create", &path))?;
        let made = file
            .allocate(u64::from(self.segment_bytes))
            .and_then(|()| if zeroed { self.zero(&*file) } else { Ok(()) })
            .and_then(|()| file.sync_data());
        if let Err(error) = made {
            // What was allocated so far is of no use on a full disk.
            let _ = self.disk.remove(&path);
            return Err(StoreError::io("extend", path)(error));
        }
        Ok(FreeFile {
            path,
            file,
            is_used: false,
        })
    }

    fn zero(&self, file: &dyn DiskFile) -> io::Result<()> {
        let zeros = vec![0; ZEROING_STEP_BYTES.min(self.segment_bytes as usize)];
        let mut at = 0;
        while at < self.segment_bytes as usize {
            let step = zeros.len().min(self.segment_bytes as usize - at);
            file.write_at(at as u64, &zeros[..step])?;
            at += step;
        }
        Ok(())
    }
}

impl Inner {
    fn new_path(&mut self) -> String {
        self.next_free += 1;
        segment::free_path(self.next_free - 1)
    }
}
