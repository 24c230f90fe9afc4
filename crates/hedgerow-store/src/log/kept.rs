//! Kept files: what is still needed of segments that were forgotten (design D1).
//!
//! | module | does |
//! | --- | --- |
//! | `manifest` | says which files count, and how much of each |
//! | `block` | the form of what is in them |
//! | `file` | one file: what is in it, and reading it |
//! | `cleaning` | adds events, and what became of those that were kept before |
//! | `tidy` | deletes files in which nothing is needed, and writes those anew in which little is |
//!
//! Events are sorted into files by class and by when they expire, so that most files go whole. Each event carries the
//! deliveries that are owed for it, as of the end of the last cleaned segment; what later segments say about them is added
//! to the same file when those are cleaned. So the files and the log that is left tell together what is owed.
//!
//! The manifest is the one commit point: what it does not say is not there. It is written before a segment is forgotten.
//! What is known in memory is never changed in place: readers go on with the files they found.

mod block;
pub(crate) mod check;
mod cleaning;
mod file;
mod manifest;
mod tidy;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use self::block::without_updates;
pub(crate) use self::cleaning::Cleaning;
pub(crate) use self::file::KeptFile;
use self::manifest::Manifest;
pub(crate) use self::manifest::NEW_PATH as NEW_MANIFEST;
pub(crate) use self::tidy::Pressure;
use crate::StoredEvent;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::record::Owed;

/// The directory of kept files.
pub(crate) const DIRECTORY: &str = "kept";

/// Why an event is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Class {
    /// Deliveries of it are unsettled.
    Owed,
    /// Somebody stands before it.
    Behind,
}

impl Class {
    pub(crate) const ALL: [Self; 2] = [Self::Owed, Self::Behind];

    fn directory(self) -> &'static str {
        match self {
            Self::Owed => "kept/owed",
            Self::Behind => "kept/behind",
        }
    }
}

/// A delivery that is owed: to whom, when it is due, and what.
pub(crate) type OwedDelivery = (SubscriptionId, Timestamp, Owed);

/// How files are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptOptions {
    /// A file that has this size gets no more events.
    pub file_bytes_max: u64,
}

/// What is kept of forgotten segments.
pub(crate) struct Kept {
    disk: Arc<dyn Disk>,
    store_id: [u8; 16],
    options: KeptOptions,
    state: RwLock<State>,
    /// Held while files are written.
    writing: Mutex<()>,
    /// Whether there is a manifest on disk.
    has_manifest: AtomicBool,
    /// The size of all files: publishing asks for it each time.
    bytes: AtomicU64,
    /// The size of what is being added and does not count yet.
    writing_bytes: AtomicU64,
    compacted_files: AtomicU64,
}

/// What counts.
#[derive(Default, Clone)]
struct State {
    cleaned_through: u32,
    next_file: u32,
    files: BTreeMap<u32, Arc<KeptFile>>,
}

/// What is kept, looked at.
pub(crate) struct Inspected {
    pub cleaned_through: u32,
    pub files: Vec<KeptFile>,
}

impl Kept {
    /// Opens the files that the manifest names, as far as it says, and removes what it does not.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if a file is missing, shorter, or has a block that is not intact.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        store_id: [u8; 16],
        options: KeptOptions,
    ) -> Result<Self, StoreError> {
        let found = read_manifest(&*disk, store_id)?;
        let has_manifest = found.is_some();
        if has_manifest {
            // A process that ended behind the rename may have left the name in the page cache only, and what is done
            // next trusts that it stays.
            manifest::sync_names(&*disk)?;
        }
        let manifest = found.unwrap_or_default();
        remove_strangers(&*disk, &manifest)?;
        let mut state = State {
            cleaned_through: manifest.cleaned_through,
            next_file: manifest.next_file,
            files: BTreeMap::new(),
        };
        for entry in &manifest.files {
            let file = KeptFile::open(&*disk, store_id, entry)?;
            file.cut(entry.len_bytes)?;
            state.files.insert(entry.number, Arc::new(file));
        }
        Ok(Self {
            disk,
            store_id,
            options,
            bytes: AtomicU64::new(state.bytes()),
            state: RwLock::new(state),
            writing: Mutex::default(),
            has_manifest: AtomicBool::new(has_manifest),
            writing_bytes: AtomicU64::new(0),
            compacted_files: AtomicU64::new(0),
        })
    }

    /// What counts, without changing anything.
    pub(crate) fn inspect(disk: &dyn Disk, store_id: [u8; 16]) -> Result<Inspected, StoreError> {
        let manifest = read_manifest(disk, store_id)?.unwrap_or_default();
        let files = manifest
            .files
            .iter()
            .map(|entry| KeptFile::open(disk, store_id, entry));
        Ok(Inspected {
            cleaned_through: manifest.cleaned_through,
            files: files.collect::<Result<_, _>>()?,
        })
    }

    /// The last segment that was cleaned, 0 if none was. Those up to it are not part of the log any more.
    pub(crate) fn cleaned_through(&self) -> u32 {
        self.read(|state| state.cleaned_through)
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.read(|state| state.files.is_empty())
    }

    /// The size of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The size of what is being added and does not count yet.
    pub(crate) fn writing_bytes(&self) -> u64 {
        self.writing_bytes.load(Ordering::Relaxed)
    }

    /// How many files were written anew.
    pub(crate) fn compacted_files(&self) -> u64 {
        self.compacted_files.load(Ordering::Relaxed)
    }

    /// Whether the event is kept.
    pub(crate) fn has(&self, position: Position) -> bool {
        self.file_with(position).is_some()
    }

    /// Whether a delivery of a kept event is unsettled, as of the last cleaned segment.
    pub(crate) fn is_open(&self, topic: TopicId, subscription: SubscriptionId, seq: u64) -> bool {
        self.file_with(Position { topic, seq })
            .is_some_and(|file| file.is_open(topic, subscription, seq))
    }

    /// The topics of which events are kept.
    pub(crate) fn topics(&self) -> BTreeSet<TopicId> {
        self.read(|state| {
            let files = state.files.values();
            files.flat_map(|file| file.topics.keys().copied()).collect()
        })
    }

    /// The files there are.
    pub(crate) fn files(&self) -> Vec<Arc<KeptFile>> {
        self.read(|state| state.files.values().cloned().collect())
    }

    /// The events of the topic from `from` on, without a gap, about `bytes_max` bytes, at least one if it is kept.
    pub(crate) fn read_from(
        &self,
        from: Position,
        bytes_max: usize,
    ) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        let mut events: Vec<(u64, StoredEvent)> = Vec::new();
        let mut bytes = 0;
        let mut next = from;
        while let Some(file) = self.file_with(next) {
            for (seq, event) in file.read_block(next)? {
                if seq != next.seq {
                    // It may be in another block.
                    break;
                }
                if bytes + event.bytes.len() > bytes_max && !events.is_empty() {
                    return Ok(events);
                }
                bytes += event.bytes.len();
                next.seq += 1;
                events.push((seq, event));
            }
        }
        Ok(events)
    }

    /// Hands on what is owed for kept events, as of the last cleaned segment.
    pub(crate) fn for_each_owed(
        &self,
        take: &mut dyn FnMut(Position, OwedDelivery) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.files()
            .iter()
            .try_for_each(|file| file.for_each_owed(take))
    }

    /// Begins to add what the next segments leave.
    pub(crate) fn begin(&self) -> Cleaning<'_> {
        Cleaning::new(self, lock(&self.writing))
    }

    fn file_with(&self, position: Position) -> Option<Arc<KeptFile>> {
        self.read(|state| {
            state
                .files
                .values()
                .find(|file| file.has(position))
                .cloned()
        })
    }

    fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes a manifest that says that nothing is kept, if there is none: it comes before the first file.
    fn ensure_manifest(&self) -> Result<(), StoreError> {
        if self.has_manifest.load(Ordering::Relaxed) {
            return Ok(());
        }
        manifest::prepare(&*self.disk, self.store_id, &self.read(State::manifest))?;
        manifest::put(&*self.disk)?;
        self.has_manifest.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a new state, whose manifest was prepared, the one that counts, durably, and then in memory. Files that are
    /// gone are removed.
    fn commit(&self, state: State) -> Result<(), StoreError> {
        manifest::put(&*self.disk)?;
        let bytes = state.bytes();
        let before = {
            let mut current = self.state.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, state)
        };
        for (number, file) in &before.files {
            if !self.read(|state| state.files.contains_key(number)) {
                self.disk
                    .remove(&file.path)
                    .map_err(StoreError::io("remove", &file.path))?;
            }
        }
        // Last, so that no moment counts less than there is.
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl State {
    fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.len_bytes).sum()
    }

    fn manifest(&self) -> Manifest {
        Manifest {
            cleaned_through: self.cleaned_through,
            next_file: self.next_file,
            files: self.files.values().map(|file| file.entry()).collect(),
        }
    }
}

/// Reads the manifest, if there is one. There are no kept files without one.
fn read_manifest(disk: &dyn Disk, store_id: [u8; 16]) -> Result<Option<Manifest>, StoreError> {
    let manifest = manifest::read(disk, store_id)?;
    if manifest.is_none() {
        for class in Class::ALL {
            let directory = class.directory();
            let names = disk
                .list(directory)
                .map_err(StoreError::io("list", directory))?;
            if !names.is_empty() {
                return Err(StoreError::damaged(format!(
                    "{}: the file is missing, there are others in {directory}; what was kept",
                    manifest::PATH
                )));
            }
        }
    }
    Ok(manifest)
}

/// Removes files that no manifest names: what a stop left of a cleaning that did not end.
fn remove_strangers(disk: &dyn Disk, manifest: &Manifest) -> Result<(), StoreError> {
    for class in Class::ALL {
        let directory = class.directory();
        for name in disk
            .list(directory)
            .map_err(StoreError::io("list", directory))?
        {
            let path = format!("{directory}/{name}");
            if !manifest.files.iter().any(|entry| entry.path() == path) {
                disk.remove(&path).map_err(StoreError::io("remove", path))?;
            }
        }
    }
    Ok(())
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
