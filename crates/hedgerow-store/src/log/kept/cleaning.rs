//! Adds to kept files: events, and what became of those that were kept before. Nothing of it counts before
//! [`Cleaning::commit`]; one that is dropped leaves what was.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use bytes::Bytes;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;

use super::block::{self, Entry, Meta, Update};
use super::file::KeptFile;
use super::manifest::{self, Entry as FileEntry};
use super::{Class, DIRECTORY, Kept, OwedDelivery, State};
use crate::StoreError;
use crate::failpoint;
use crate::record::Owed;

/// A block of events is written when it has so many bytes.
const BLOCK_BYTES: usize = 16 * 1024;
/// All blocks are written when so many bytes wait in them.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Updates in a block.
const UPDATES_MAX: usize = 4096;
/// Events that were published in the same hour go to the same file.
const BUCKET_MILLIS: u64 = 3_600_000;

/// An addition that is being written.
pub(crate) struct Cleaning<'a> {
    kept: &'a Kept,
    /// What will count.
    state: State,
    /// Files with blocks that are not synced.
    written: BTreeSet<u32>,
    /// Files that were made.
    made: BTreeSet<u32>,
    waiting: BTreeMap<(u32, TopicId), Waiting>,
    waiting_bytes: usize,
    updates: BTreeMap<u32, Vec<Update>>,
    /// The first thing that went wrong; nothing more is written then.
    failed: Option<StoreError>,
    is_committed: bool,
    /// What was written so far.
    written_bytes: u64,
    /// The file that takes no events.
    emptied: Option<u32>,
    _writing: MutexGuard<'a, ()>,
}

/// A block of events that is not full.
#[derive(Default)]
struct Waiting {
    entries: Vec<Entry>,
    parts: Vec<Bytes>,
    bytes: usize,
}

impl<'a> Cleaning<'a> {
    pub(super) fn new(kept: &'a Kept, writing: MutexGuard<'a, ()>) -> Self {
        Self {
            kept,
            state: kept.read(State::clone),
            written: BTreeSet::new(),
            made: BTreeSet::new(),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            updates: BTreeMap::new(),
            failed: None,
            is_committed: false,
            written_bytes: 0,
            emptied: None,
            _writing: writing,
        }
    }

    /// Adds nothing to this file, which a compaction empties.
    pub(super) fn not_to(mut self, file: u32) -> Self {
        self.emptied = Some(file);
        self
    }

    /// A file as it is now.
    pub(super) fn file(&self, number: u32) -> Option<Arc<KeptFile>> {
        self.state.files.get(&number).cloned()
    }

    /// Keeps an event with what is owed for it.
    pub(crate) fn event(
        &mut self,
        class: Class,
        position: Position,
        published: Timestamp,
        bytes: Bytes,
        owed: Vec<OwedDelivery>,
    ) {
        let bucket = match class {
            Class::Owed => published.as_millis() / BUCKET_MILLIS,
            Class::Behind => 0,
        };
        self.event_in(class, bucket, position, published, bytes, owed);
    }

    /// The same, where the bucket is known.
    pub(super) fn event_in(
        &mut self,
        class: Class,
        bucket: u64,
        position: Position,
        published: Timestamp,
        bytes: Bytes,
        owed: Vec<OwedDelivery>,
    ) {
        let Some(file) = self.file_for(class, bucket) else {
            return;
        };
        let key = (file, position.topic);
        let last = self
            .waiting
            .get(&key)
            .and_then(|waiting| waiting.entries.last());
        // A block is in order; a compaction of files may not be.
        if last.is_some_and(|last| last.seq > position.seq) {
            self.write_waiting(key);
        }
        let waiting = self.waiting.entry(key).or_default();
        waiting.entries.push(Entry {
            seq: position.seq,
            published,
            len_bytes: u32::try_from(bytes.len()).expect("an event is far below 4 GiB"),
            owed,
        });
        waiting.bytes += bytes.len();
        self.waiting_bytes += bytes.len();
        waiting.parts.push(bytes);
        if waiting.bytes >= BLOCK_BYTES {
            self.write_waiting(key);
        } else if self.waiting_bytes >= WAITING_BYTES_MAX {
            self.write_all_waiting();
        }
    }

    /// Notes what became of a delivery of an event that was kept before.
    pub(crate) fn update(
        &mut self,
        position: Position,
        subscription: SubscriptionId,
        state: Option<(Timestamp, Owed)>,
    ) {
        let Position { topic, seq } = position;
        let files = self.state.files.values();
        let Some(number) = files
            .rev()
            .find(|file| file.has(position))
            .map(|file| file.number)
        else {
            return;
        };
        let updates = self.updates.entry(number).or_default();
        updates.push(Update {
            topic,
            subscription,
            seq,
            state,
        });
        if updates.len() == UPDATES_MAX {
            let updates = mem::take(updates);
            self.write(number, &Meta::Updates(updates), &[]);
        }
    }

    /// Notes that nothing is owed any more of what was owed to a subscription (a seek).
    pub(crate) fn end_all(&mut self, subscription: SubscriptionId) {
        let open: Vec<Position> = {
            let files = self.state.files.values();
            files.flat_map(|file| file.open_of(subscription)).collect()
        };
        for position in open {
            self.update(position, subscription, None);
        }
    }

    /// Writes what is left, and makes all of it count, durably: the log was cleaned up to this segment then.
    ///
    /// # Errors
    /// Nothing counts then.
    pub(crate) fn commit(mut self, cleaned_through: u32) -> Result<(), StoreError> {
        self.write_all_waiting();
        for (number, updates) in mem::take(&mut self.updates) {
            if !updates.is_empty() {
                self.write(number, &Meta::Updates(updates), &[]);
            }
        }
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        if self.written.is_empty() {
            return Ok(());
        }
        self.state.cleaned_through = self.state.cleaned_through.max(cleaned_through);
        self.finish(&[])
    }

    /// Makes all of it count in the place of these files.
    pub(super) fn commit_in_place_of(mut self, files: &[u32]) -> Result<(), StoreError> {
        self.write_all_waiting();
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.finish(files)
    }

    fn finish(mut self, gone: &[u32]) -> Result<(), StoreError> {
        failpoint::hit("kept-sync");
        for number in &self.written {
            let file = &self.state.files[number];
            file.file
                .sync_data()
                .map_err(StoreError::io("sync", &file.path))?;
        }
        let classes: BTreeSet<Class> = self
            .made
            .iter()
            .map(|number| self.state.files[number].class)
            .collect();
        for class in classes {
            let directory = class.directory();
            self.kept
                .disk
                .sync_dir(directory)
                .map_err(StoreError::io("sync", directory))?;
        }
        failpoint::hit("kept-synced");
        for number in gone {
            self.state.files.remove(number);
        }
        manifest::prepare(&*self.kept.disk, self.kept.store_id, &self.state.manifest())?;
        // From here on nothing may be taken back: the manifest may name it.
        self.is_committed = true;
        self.kept.commit(mem::take(&mut self.state))
    }

    /// A file that takes events of this kind.
    fn file_for(&mut self, class: Class, bucket: u64) -> Option<u32> {
        if self.failed.is_some() {
            return None;
        }
        let bytes_max = self.kept.options.file_bytes_max;
        let last = self.state.files.values().rev().find(|file| {
            let fits = file.len_bytes < bytes_max && Some(file.number) != self.emptied;
            file.class == class && file.bucket == bucket && fits
        });
        if let Some(last) = last {
            return Some(last.number);
        }
        match self.make_file(class, bucket) {
            Ok(number) => Some(number),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    fn make_file(&mut self, class: Class, bucket: u64) -> Result<u32, StoreError> {
        let disk = &*self.kept.disk;
        for directory in [DIRECTORY, class.directory()] {
            disk.create_dir(directory)
                .map_err(StoreError::io("create", directory))?;
        }
        disk.sync_dir(DIRECTORY)
            .map_err(StoreError::io("sync", DIRECTORY))?;
        self.kept.ensure_manifest()?;
        let number = self.state.next_file;
        self.state.next_file += 1;
        let entry = FileEntry {
            class,
            number,
            bucket,
            len_bytes: 0,
        };
        let path = entry.path();
        let file = disk
            .open(&path, true)
            .map_err(StoreError::io("create", &path))?;
        // It may be the rest of a cleaning that failed.
        file.set_len(0).map_err(StoreError::io("cut", &path))?;
        let file = KeptFile::new(&entry, file, self.kept.store_id);
        self.state.files.insert(number, file.into());
        self.made.insert(number);
        Ok(number)
    }

    fn write_all_waiting(&mut self) {
        let keys: Vec<_> = self.waiting.keys().copied().collect();
        for key in keys {
            self.write_waiting(key);
        }
    }

    fn write_waiting(&mut self, key: (u32, TopicId)) {
        let Some(waiting) = self.waiting.remove(&key) else {
            return;
        };
        self.waiting_bytes -= waiting.bytes;
        self.write(key.0, &Meta::Events(key.1, waiting.entries), &waiting.parts);
    }

    /// Writes a block behind what counts of a file.
    fn write(&mut self, number: u32, meta: &Meta, parts: &[Bytes]) {
        if self.failed.is_some() {
            return;
        }
        let Some(file) = self.state.files.get_mut(&number) else {
            return;
        };
        let mut buffer = Vec::new();
        let header = block::encode(meta, parts, file.store(), &mut buffer);
        failpoint::hit("kept-write");
        self.written.insert(number);
        self.written_bytes += header.block_bytes();
        self.kept
            .writing_bytes
            .store(self.written_bytes, Ordering::Relaxed);
        match file.file.write_at(file.len_bytes, &buffer) {
            // Readers go on with the file as it was.
            Ok(()) => Arc::make_mut(file).note(&header, meta),
            Err(error) => self.failed = Some(StoreError::io("write", &file.path)(error)),
        }
    }
}

impl Drop for Cleaning<'_> {
    fn drop(&mut self) {
        self.give_back();
        self.kept.writing_bytes.store(0, Ordering::Relaxed);
    }
}

impl Cleaning<'_> {
    /// Gives the space back that was taken in vain; what cannot be given back now is cut later.
    fn give_back(&mut self) {
        if self.is_committed {
            return;
        }
        for number in &self.written {
            let Some(file) = self.state.files.get(number) else {
                continue;
            };
            let len_bytes = self
                .kept
                .read(|state| state.files.get(number).map_or(0, |file| file.len_bytes));
            if let Err(error) = file.cut(len_bytes) {
                tracing::warn!(path = file.path, "{error}");
            }
        }
        for number in &self.made {
            if let Some(file) = self.state.files.get(number) {
                let _ = self.kept.disk.remove(&file.path);
            }
        }
    }
}
