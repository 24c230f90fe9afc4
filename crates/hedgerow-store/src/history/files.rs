//! The files of one kind of what is remembered: the one that grows, the sealed ones with their indexes, and what is
//! forgotten. Each kind has a directory of its own ([`Kept::DIRECTORY`]).
//!
//! | name | is |
//! | --- | --- |
//! | `<number as 8 hex digits>.log` | head and frames |
//! | `<number as 8 hex digits>.idx` | the index of a sealed file |
//!
//! A file without a valid index is read once when the history is opened: it gets one, or goes on as the one that grows.
//! What is behind the first frame that is not valid is cut: nothing was synced.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow_core::time::Timestamp;

use super::HistoryOptions;
use super::frame::{self, BadHead, FRAME_BYTES_MAX, HEAD_BYTES, Head};
use super::index::{self, Entry, Found, Summary};
use super::kept::{Kept, Wanted};
use crate::disk::{Disk, DiskFile};

/// A file that grows slowly is sealed when it is this part of the age to which records are kept, so that it can go.
const AGE_PARTS: u32 = 8;

/// The files of one kind in one data directory.
pub(super) struct Files<K> {
    disk: Arc<dyn Disk>,
    options: HistoryOptions,
    /// The oldest first.
    sealed: Vec<Arc<Sealed>>,
    active: Option<Active>,
    next_number: u32,
    /// What ended before is forgotten, or was never recorded.
    known_since: Timestamp,
    kind: PhantomData<K>,
}

/// A file that does not change any more.
pub(super) struct Sealed {
    summary: Summary,
    /// Its index was found damaged, and a warning was given.
    is_damaged: AtomicBool,
}

/// The file that grows.
struct Active {
    head: Head,
    file: Arc<dyn DiskFile>,
    /// Where the next frame goes.
    end: u32,
    /// In the order of their offsets.
    entries: Vec<Entry>,
    /// When the newest record ended.
    newest: Timestamp,
}

/// Where to look for an event, taken at one moment.
pub(super) struct Search<K> {
    disk: Arc<dyn Disk>,
    wanted: Wanted,
    /// Places in the file that grows, the newest last.
    active: Option<(Arc<dyn DiskFile>, Vec<u32>)>,
    sealed: Vec<Arc<Sealed>>,
    kind: PhantomData<K>,
}

fn log_path<K: Kept>(number: u32) -> String {
    format!("{}/{number:08x}.log", K::DIRECTORY)
}

fn index_path<K: Kept>(number: u32) -> String {
    format!("{}/{number:08x}.idx", K::DIRECTORY)
}

fn number_of(name: &str, suffix: &str) -> Option<u32> {
    let digits = name.strip_suffix(suffix).filter(|d| d.len() == 8)?;
    u32::from_str_radix(digits, 16).ok()
}

impl<K: Kept> Files<K> {
    /// Opens what is there. If there is nothing, it knows of everything from `since` on.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        options: HistoryOptions,
        since: Timestamp,
    ) -> io::Result<Self> {
        disk.create_dir(K::DIRECTORY)?;
        let names = disk.list(K::DIRECTORY)?;
        let numbers = |suffix| {
            let numbers = names.iter().filter_map(|name| number_of(name, suffix));
            let mut numbers: Vec<u32> = numbers.collect();
            numbers.sort_unstable();
            numbers
        };
        let (logs, indexes) = (numbers(".log"), numbers(".idx"));
        let newest = logs.last().max(indexes.last()).copied().unwrap_or(0);
        let mut files = Self {
            disk,
            options,
            sealed: Vec::new(),
            active: None,
            next_number: newest.saturating_add(1),
            known_since: since,
            kind: PhantomData,
        };
        for number in indexes.iter().filter(|number| !logs.contains(number)) {
            remove(files.disk.as_ref(), &index_path::<K>(*number))?;
        }
        for number in &logs {
            let has_index = indexes.binary_search(number).is_ok();
            files.take_up(*number, has_index)?;
        }
        if let Some(begun) = files.begun() {
            files.known_since = begun;
        }
        Ok(files)
    }

    /// From when on everything that was recorded is there.
    pub(super) const fn known_since(&self) -> Timestamp {
        self.known_since
    }

    /// What all files take.
    pub(super) fn disk_bytes(&self) -> u64 {
        let active = self
            .active
            .as_ref()
            .map_or(0, |active| u64::from(active.end));
        active + self.sealed_bytes()
    }

    /// Writes as many of the records as it can, in order; says how many these are.
    pub(super) fn append(&mut self, records: &[K], now: Timestamp) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < records.len() {
            match self.append_some(&records[written..], now) {
                Ok(count) => written += count,
                Err(error) => return (written, Err(error)),
            }
        }
        (written, self.tend(now))
    }

    /// Where to look for an event.
    pub(super) fn search(&self, wanted: Wanted) -> Search<K> {
        let active = self.active.as_ref().map(|active| {
            let entries = active
                .entries
                .iter()
                .filter(|entry| entry.hash == wanted.hash);
            let offsets = entries.map(|entry| entry.offset).collect();
            (Arc::clone(&active.file), offsets)
        });
        Search {
            disk: Arc::clone(&self.disk),
            wanted,
            active,
            sealed: self.sealed.clone(),
            kind: PhantomData,
        }
    }

    /// Seals the file that grows if it is full or old, and forgets what is too old or too much.
    fn tend(&mut self, now: Timestamp) -> io::Result<()> {
        let full = self.options.sealed_file_bytes();
        let part = self.options.age_max / AGE_PARTS;
        if let Some(active) = &self.active
            && !active.entries.is_empty()
            && (active.end >= full || active.head.begun.plus(part) <= now)
        {
            self.seal()?;
        }
        self.forget(now)
    }

    /// Writes records from the first on, as many as one file takes.
    fn append_some(&mut self, records: &[K], now: Timestamp) -> io::Result<usize> {
        let full = self.options.sealed_file_bytes();
        if self
            .active
            .as_ref()
            .is_some_and(|active| active.end >= full)
        {
            self.seal()?;
            self.forget(now)?;
        }
        match &self.active {
            None => self.active = Some(self.begin(now)?),
            // Others may have filled the disk since it was begun.
            Some(_) => self.check_space(0)?,
        }
        let active = self.active.as_mut().expect("it was just made");
        active.append(records, full)
    }

    /// Makes the next file.
    fn begin(&mut self, now: Timestamp) -> io::Result<Active> {
        self.check_space(self.options.sealed_file_bytes().into())?;
        let begun = if self.begun().is_some() {
            now
        } else {
            self.known_since
        };
        let head = Head {
            number: self.next_number,
            begun,
        };
        let file = self.disk.open(&log_path::<K>(head.number), true)?;
        file.set_len(0)?;
        file.write_at(0, &head.to_bytes())?;
        self.next_number = self.next_number.saturating_add(1);
        Ok(Active::new(head, file))
    }

    /// Refuses what would leave too little of the disk.
    fn check_space(&self, bytes: u64) -> io::Result<()> {
        let reserve = self.options.disk_reserve_bytes;
        if self.disk.free_space()? < reserve.saturating_add(bytes) {
            let message = format!("less than {reserve} bytes would be left, which are for events");
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        Ok(())
    }

    /// Gives the file that grows its index.
    fn seal(&mut self) -> io::Result<()> {
        let Some(active) = &self.active else {
            return Ok(());
        };
        let sealed = active.write_index::<K>(self.disk.as_ref())?;
        self.sealed.push(Arc::new(sealed));
        self.active = None;
        Ok(())
    }

    /// Removes files, the oldest first, until neither bound is passed.
    fn forget(&mut self, now: Timestamp) -> io::Result<()> {
        // The file that grows counts as full, with its index: it never waits for room.
        let growing = u64::from(self.options.sealed_file_bytes()) / 4 * 5;
        while let Some(oldest) = self.sealed.first() {
            let is_old = oldest.summary.newest.plus(self.options.age_max) < now;
            let is_too_much = self.sealed_bytes() + growing > self.options.bytes_max;
            if !is_old && !is_too_much {
                break;
            }
            let Summary { number, newest, .. } = oldest.summary;
            // A file without index is read again; an index without file is nothing. So the file goes first.
            remove(self.disk.as_ref(), &log_path::<K>(number))?;
            remove(self.disk.as_ref(), &index_path::<K>(number))?;
            self.sealed.remove(0);
            self.known_since = self.begun().unwrap_or(newest).max(self.known_since);
        }
        Ok(())
    }

    /// When the oldest file was begun.
    fn begun(&self) -> Option<Timestamp> {
        let sealed = self.sealed.first().map(|sealed| sealed.summary.begun);
        sealed.or_else(|| self.active.as_ref().map(|active| active.head.begun))
    }

    fn sealed_bytes(&self) -> u64 {
        self.sealed.iter().map(|sealed| sealed.disk_bytes()).sum()
    }

    /// Takes up a file that is there. One that cannot be read is skipped with a warning; what cannot be written ends the
    /// opening.
    fn take_up(&mut self, number: u32, has_index: bool) -> io::Result<()> {
        // A file follows the one that grew: that one was to be sealed.
        match self.active.take_if(|active| active.entries.is_empty()) {
            Some(empty) => remove(self.disk.as_ref(), &log_path::<K>(empty.head.number))?,
            None => self.seal()?,
        }
        let path = log_path::<K>(number);
        match self.look_at(number, has_index) {
            Ok(There::Sealed(sealed)) => self.sealed.push(Arc::new(sealed)),
            Ok(There::Growing(active, length)) => {
                if length > u64::from(active.end) {
                    active.file.set_len(u64::from(active.end))?;
                }
                self.active = Some(active);
            }
            Ok(There::Newer) => tracing::warn!(
                file = path,
                "a newer version wrote this file of the history; it is skipped"
            ),
            Ok(There::Nothing { length }) => {
                // A crash before the first bytes were written leaves an empty one.
                if length > 0 {
                    tracing::warn!(
                        file = path,
                        "this file of the history is damaged; it is removed"
                    );
                }
                remove(self.disk.as_ref(), &path)?;
                remove(self.disk.as_ref(), &index_path::<K>(number))?;
            }
            Err(error) => tracing::warn!(
                file = path,
                %error,
                "this file of the history cannot be read; it is skipped"
            ),
        }
        Ok(())
    }

    /// Reads of a file as much as is needed to know it.
    fn look_at(&self, number: u32, has_index: bool) -> io::Result<There> {
        let file = self.disk.open(&log_path::<K>(number), false)?;
        let head = match read_head(file.as_ref(), number)? {
            Ok(head) => head,
            Err(BadHead::Newer) => return Ok(There::Newer),
            Err(BadHead::Damaged) => {
                let length = file.len()?;
                return Ok(There::Nothing { length });
            }
        };
        if has_index {
            let index = self.disk.open(&index_path::<K>(number), false)?;
            if let Some(summary) = Summary::read(index.as_ref())?
                && (summary.number, summary.begun) == (number, head.begun)
            {
                return Ok(There::Sealed(Sealed::new(summary)));
            }
        }
        let (active, length) = Active::recover::<K>(head, file)?;
        Ok(There::Growing(active, length))
    }
}

/// What a file of the directory is.
enum There {
    Sealed(Sealed),
    /// It has no valid index. With its length, torn tail included.
    Growing(Active, u64),
    Newer,
    Nothing {
        length: u64,
    },
}

impl Active {
    fn new(head: Head, file: Arc<dyn DiskFile>) -> Self {
        Self {
            head,
            file,
            end: HEAD_BYTES as u32,
            entries: Vec::new(),
            newest: head.begun,
        }
    }

    /// Reads a file that has no index, up to what is torn; says how long it is with that.
    fn recover<K: Kept>(head: Head, file: Arc<dyn DiskFile>) -> io::Result<(Self, u64)> {
        let mut active = Self::new(head, file);
        let length = active.file.len()?;
        let content = read_whole(active.file.as_ref())?;
        for (range, record) in frames::<K>(&content) {
            active.note(&record, range.start);
            active.end = range.end;
        }
        Ok((active, length))
    }

    fn note<K: Kept>(&mut self, record: &K, offset: u32) {
        self.newest = self.newest.max(record.ended());
        let entries = record.hashes().map(|hash| Entry { hash, offset });
        self.entries.extend(entries);
    }

    /// Writes records from the first on, until the file is full; at least one. Counts only when it succeeds.
    fn append<K: Kept>(&mut self, records: &[K], full: u32) -> io::Result<usize> {
        let mut buffer = Vec::new();
        let mut offsets = Vec::new();
        for record in records {
            let offset = self.end + buffer.len() as u32;
            if offset >= full {
                break;
            }
            frame::encode(record, &mut buffer);
            offsets.push(offset);
        }
        self.file.write_at(u64::from(self.end), &buffer)?;
        self.end += buffer.len() as u32;
        for (record, offset) in records.iter().zip(&offsets) {
            self.note(record, *offset);
        }
        Ok(offsets.len())
    }

    fn write_index<K: Kept>(&self, disk: &dyn Disk) -> io::Result<Sealed> {
        let summary = Summary {
            number: self.head.number,
            begun: self.head.begun,
            newest: self.newest,
            file_bytes: self.end,
            entries: 0,
            filter_blocks: 0,
        };
        let built = index::build(summary, self.entries.clone());
        let index = disk.open(&index_path::<K>(self.head.number), true)?;
        index.set_len(0)?;
        index.write_at(index::REST_AT, &built.rest)?;
        index.write_at(0, &built.head)?;
        Ok(Sealed::new(built.summary))
    }
}

impl Sealed {
    const fn new(summary: Summary) -> Self {
        Self {
            summary,
            is_damaged: AtomicBool::new(false),
        }
    }

    fn disk_bytes(&self) -> u64 {
        u64::from(self.summary.file_bytes) + self.summary.index_bytes()
    }

    /// Warns once.
    fn warn<K: Kept>(&self, what: &str) {
        if !self.is_damaged.swap(true, Ordering::Relaxed) {
            let file = log_path::<K>(self.summary.number);
            tracing::warn!(file, "a file of the history cannot be used whole: {what}");
        }
    }
}

impl<K: Kept> Search<K> {
    /// Adds what is found and wanted, the newest first, until there are `limit` records.
    pub(super) fn run(
        &self,
        limit: usize,
        wants: &dyn Fn(&K::Found) -> bool,
        records: &mut Vec<K::Found>,
    ) {
        if let Some((file, offsets)) = &self.active
            && let Err(error) = self.read(file.as_ref(), offsets, limit, wants, records)
        {
            tracing::warn!(%error, "the history cannot be read");
        }
        for sealed in self.sealed.iter().rev() {
            if records.len() >= limit {
                break;
            }
            match self.search_sealed(sealed, limit, wants, records) {
                Ok(()) => {}
                // It was forgotten meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => sealed.warn::<K>(&error.to_string()),
            }
        }
    }

    fn search_sealed(
        &self,
        sealed: &Sealed,
        limit: usize,
        wants: &dyn Fn(&K::Found) -> bool,
        records: &mut Vec<K::Found>,
    ) -> io::Result<()> {
        let Summary { number, .. } = sealed.summary;
        let index = self.disk.open(&index_path::<K>(number), false)?;
        match sealed.summary.find(index.as_ref(), self.wanted.hash)? {
            Found::At(offsets) if offsets.is_empty() => Ok(()),
            Found::At(offsets) => {
                let file = self.disk.open(&log_path::<K>(number), false)?;
                self.read(file.as_ref(), &offsets, limit, wants, records)
            }
            Found::Damaged => {
                sealed.warn::<K>("its index is damaged, and it is searched from its beginning");
                let file = self.disk.open(&log_path::<K>(number), false)?;
                let content = read_whole(file.as_ref())?;
                let mut found = Vec::new();
                for (_, record) in frames::<K>(&content) {
                    record.find(&self.wanted, &mut found);
                }
                found.retain(|record| wants(record));
                found.reverse();
                found.truncate(limit - records.len());
                records.append(&mut found);
                Ok(())
            }
        }
    }

    /// Reads the records at these places, the last one first. One whose frame is not valid is left out, as is one of
    /// another id with the same hash.
    fn read(
        &self,
        file: &dyn DiskFile,
        offsets: &[u32],
        limit: usize,
        wants: &dyn Fn(&K::Found) -> bool,
        records: &mut Vec<K::Found>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        for offset in offsets.iter().rev() {
            if records.len() >= limit {
                break;
            }
            let length = file.read_at(u64::from(*offset), &mut buffer)?;
            if let Some((record, _)) = frame::decode::<K>(&buffer[..length]) {
                let mut found = Vec::new();
                record.find(&self.wanted, &mut found);
                records.extend(found.into_iter().filter(wants));
            }
        }
        records.truncate(limit);
        Ok(())
    }
}

/// The valid frames of a file from its beginning on, and where they are.
fn frames<K: Kept>(content: &[u8]) -> impl Iterator<Item = (Range<u32>, K)> {
    let mut at = HEAD_BYTES;
    std::iter::from_fn(move || {
        let (record, length) = frame::decode(content.get(at..)?)?;
        let start = at as u32;
        at += length;
        Some((start..at as u32, record))
    })
}

fn read_head(file: &dyn DiskFile, number: u32) -> io::Result<Result<Head, BadHead>> {
    let mut bytes = [0; HEAD_BYTES];
    if file.read_at(0, &mut bytes)? < HEAD_BYTES {
        return Ok(Err(BadHead::Damaged));
    }
    Ok(match Head::from_bytes(&bytes) {
        Ok(head) if head.number != number => Err(BadHead::Damaged),
        head => head,
    })
}

/// Reads a file that we wrote: it has at most the size at which files are sealed, and a frame.
fn read_whole(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let most = u64::from(frame::FILE_BYTES_MAX) + FRAME_BYTES_MAX as u64;
    let mut content = vec![0; file.len()?.min(most) as usize];
    let length = file.read_at(0, &mut content)?;
    content.truncate(length);
    Ok(content)
}

/// Removes a file that may be gone already.
fn remove(disk: &dyn Disk, path: &str) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
