//! Opens a log: finds its end, tells a torn tail from damage, and makes what it found durable before anybody sees it.
//!
//! Scanning, the log ends before the first bad group. That is a *torn tail*, the rest of a write that was never
//! acknowledged, unless an intact group behind it says that a sync had covered that place when it was written: then it
//! is *damage*, and the log does not open. (Blocks of one unsynced write reach the disk in any order, so an intact
//! group behind a bad one proves nothing by itself.) Groups of an older epoch than the last good one before the bad
//! place do not count: they are leftovers of a tail that was torn before.
//!
//! A sealed segment whose index ([`index`]) fits it and its neighbours is not read here: a bad group in it is found by
//! whoever reads it, and by `hedgerow store check`. So opening reads the tail and the segments without an index.
//!
//! After a kill or a failed sync, groups can be read from the page cache that are not on the disk. So everything
//! behind the last `synced_through` is written and synced once more, and so are the names in the directory, before
//! anything is read from the log and before the epoch is raised.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use hedgerow_core::position::{Mark, TopicId};
use hedgerow_core::time::Timestamp;

use super::group::{self, Header};
use super::index::{self, Index, Reading};
use super::kept::{Kept, KeptOptions};
use super::pool::FreeFile;
use super::scan::Scanner;
use super::segment::{self, DIRECTORY, Segment};
use super::superblock::{self, Super};
use super::{LogOptions, store_prefix};
use crate::disk::Disk;
use crate::error::StoreError;

/// What was found.
pub(crate) struct Found {
    pub store_id: [u8; 16],
    /// The epoch from now on.
    pub epoch: u32,
    /// The segments with groups, oldest first.
    pub segments: VecDeque<Arc<Segment>>,
    /// Files without groups.
    pub free: VecDeque<FreeFile>,
    pub next_free: u64,
    pub tail: Tail,
    /// Sealed segments whose index has to be written, oldest first.
    pub unindexed: VecDeque<Arc<Segment>>,
    pub work: OpenWork,
    pub kept: Kept,
}

/// What opening a log took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenWork {
    /// Segments there are.
    pub segments: usize,
    /// Segments that were not read, because their index says what is in them.
    pub indexes_used: usize,
    /// Indexes that were there and were not trusted.
    pub indexes_refused: usize,
    /// Bytes of segments that were read to find out what is in them.
    pub scanned_bytes: u64,
}

/// What is in the segments of a log.
pub(crate) struct Scanned {
    pub segments: Vec<Arc<Segment>>,
    pub tail: Tail,
    unindexed: VecDeque<Arc<Segment>>,
    pub work: OpenWork,
}

/// The end of the log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tail {
    /// The last group and where it begins, if there is any.
    last: Option<(Header, Mark)>,
}

impl Tail {
    /// The end of the last group.
    pub(crate) fn end(&self) -> Mark {
        self.last
            .map_or(Mark::ZERO, |(header, start)| group::end_of(start, &header))
    }

    /// The number of the next group.
    pub(crate) fn next_number(&self) -> u64 {
        self.last.map_or(1, |(header, _)| header.number + 1)
    }

    /// The highest time that the server is known to have issued.
    pub(crate) fn clock(&self) -> Timestamp {
        self.last
            .map_or(Timestamp::ZERO, |(header, _)| header.clock)
    }

    fn epoch(&self) -> u32 {
        self.last.map_or(0, |(header, _)| header.epoch)
    }

    fn synced_through(&self) -> Mark {
        self.last
            .map_or(Mark::ZERO, |(header, _)| header.synced_through)
    }

    /// Whether a group can be the next one.
    fn is_followed_by(&self, next: &Header) -> bool {
        self.last
            .is_none_or(|(last, _)| next.number == last.number + 1 && next.epoch >= last.epoch)
    }
}

/// Opens the log on a disk that is locked already, and raises its epoch.
pub(crate) fn open(shared: &Arc<dyn Disk>, options: &LogOptions) -> Result<Found, StoreError> {
    let disk = &**shared;
    disk.create_dir(DIRECTORY)
        .map_err(StoreError::io("create", DIRECTORY))?;
    let names = disk
        .list(DIRECTORY)
        .map_err(StoreError::io("list", DIRECTORY))?;
    let has_segments = names.iter().any(|name| segment::number_of(name).is_some());
    let (found, slot) = identify(disk, options, has_segments)?;
    let kept_options = KeptOptions {
        file_bytes_max: options.segment_bytes.into(),
    };
    let kept = Kept::open(Arc::clone(shared), found.store_id, kept_options)?;
    let names = remove_cleaned(disk, names, kept.cleaned_through())?;
    let numbers = segment_numbers(&names)?;

    let Scanned {
        segments,
        tail,
        unindexed,
        work,
    } = scan(disk, found.store_id, &numbers)?;
    // A segment is cleaned only when a later one has a durable group.
    if kept.cleaned_through() > 0 && tail.end() == Mark::ZERO {
        return Err(StoreError::damaged(format!(
            "{DIRECTORY}: there is nothing behind segment {}, up to which it was cleaned; the log",
            kept.cleaned_through()
        )));
    }
    remove_orphans(disk, &names, &numbers)?;
    make_durable(disk, &segments, tail.synced_through())?;
    let epoch = raise_epoch(disk, options, found, slot, tail.epoch())?;
    // Nothing is added to those before the newest.
    let mut unindexed = unindexed;
    unindexed.retain(|segment| segment.number != tail.end().segment());

    let (free, next_free) = free_files(disk, &names, &segments)?;
    let segments: VecDeque<_> = segments
        .into_iter()
        .filter(|segment| segment.content().end > 0)
        .collect();
    for segment in segments.iter().rev().skip(1) {
        segment.seal();
    }
    Ok(Found {
        store_id: found.store_id,
        epoch,
        segments,
        free,
        next_free,
        tail,
        unindexed,
        work,
        kept,
    })
}

/// Removes segments of which everything that is needed was kept: the stop came before they were forgotten, or before that
/// was durable. Returns the other names.
fn remove_cleaned(
    disk: &dyn Disk,
    names: Vec<String>,
    cleaned_through: u32,
) -> Result<Vec<String>, StoreError> {
    let (cleaned, rest): (Vec<String>, Vec<String>) = names
        .into_iter()
        .partition(|name| is_cleaned(name, cleaned_through));
    for name in cleaned {
        let path = format!("{DIRECTORY}/{name}");
        disk.remove(&path).map_err(StoreError::io("remove", path))?;
    }
    Ok(rest)
}

/// Whether a file of the directory is a segment up to this one.
pub(crate) fn is_cleaned(name: &str, cleaned_through: u32) -> bool {
    segment::number_of(name).is_some_and(|number| number <= cleaned_through)
}

/// The `seq` behind the last event of each topic in these segments.
pub(crate) fn next_seqs(segments: &VecDeque<Arc<Segment>>) -> HashMap<TopicId, u64> {
    let mut next = HashMap::new();
    for segment in segments {
        for (topic, range) in &segment.content().topics {
            next.insert(*topic, range.last_seq + 1);
        }
    }
    next
}

/// The segments in the directory, oldest first.
pub(crate) fn segment_numbers(names: &[String]) -> Result<Vec<u32>, StoreError> {
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| segment::number_of(name))
        .collect();
    numbers.sort_unstable();
    match numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        Some(pair) => {
            let missing = segment::path(pair[0] + 1);
            Err(StoreError::damaged(format!(
                "{missing}: the file is missing, later ones are there; the log"
            )))
        }
        None => Ok(numbers),
    }
}

/// Reads who the store is, or makes a new one where there is none.
fn identify(
    disk: &dyn Disk,
    options: &LogOptions,
    has_segments: bool,
) -> Result<(Super, usize), StoreError> {
    if let Some(found) = superblock::read(disk)? {
        return Ok(found);
    }
    if has_segments {
        let what = "SUPER.a, SUPER.b: neither is whole, but there is a log; the store";
        return Err(StoreError::damaged(what));
    }
    let mut store_id = [0; 16];
    getrandom::fill(&mut store_id).map_err(|error| {
        StoreError::io("draw an id for", disk.name())(io::Error::other(error.to_string()))
    })?;
    let new = Super {
        store_id,
        epoch: 0,
        segment_bytes: options.segment_bytes,
    };
    superblock::write(disk, 0, &new)?;
    Ok((new, 0))
}

/// Finds out what is in the segments, up to the end of the log. Changes nothing.
pub(crate) fn scan(
    disk: &dyn Disk,
    store_id: [u8; 16],
    numbers: &[u32],
) -> Result<Scanned, StoreError> {
    let store = store_prefix(&store_id);
    let segments = numbers
        .iter()
        .map(|number| open_segment(disk, *number).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    let mut found = Scanned {
        segments,
        tail: Tail::default(),
        unindexed: VecDeque::new(),
        work: OpenWork::default(),
    };
    found.work.segments = numbers.len();
    let bad = found.scan_segments(disk, store_id)?;
    let first_unread = bad.unwrap_or(found.segments.len());
    let rest = &found.segments[first_unread.saturating_sub(1)..];
    refuse_damage(store, rest, &found.tail)?;
    if found.tail.last.is_none() && numbers.first().is_some_and(|first| *first > 1) {
        let path = segment::path(numbers[0]);
        return Err(StoreError::damaged(format!(
            "{path}: the log has no group that can be read; it"
        )));
    }
    Ok(found)
}

impl Scanned {
    /// Takes note of what is in each segment. Returns the first one that is not part of the log.
    fn scan_segments(
        &mut self,
        disk: &dyn Disk,
        store_id: [u8; 16],
    ) -> Result<Option<usize>, StoreError> {
        let store = store_prefix(&store_id);
        let segments = self.segments.clone();
        let read = |at: usize| {
            let segment = segments.get(at);
            segment.map_or(Reading::Missing, |one| index::read(disk, store_id, one))
        };
        let mut next = read(0);
        for (at, segment) in segments.iter().enumerate() {
            let reading = std::mem::replace(&mut next, read(at + 1));
            if let Reading::Whole(index) = &reading
                && self.tail.is_followed_by(&index.first)
                && self.is_sealed_by(index, segments.get(at + 1), &next, store)?
            {
                segment.restore(index.content.clone());
                self.tail.last = Some((index.last, index.last_start));
                self.work.indexes_used += 1;
                continue;
            }
            self.note_refusal(segment.number, &reading);
            let before = self.tail.next_number();
            self.work.scanned_bytes += scan_segment(store, segment, &mut self.tail)?;
            // Without a group that follows it is not part of the log; the bad place is behind the segment before.
            if self.tail.next_number() == before {
                return Ok(Some(at));
            }
            self.unindexed.push_back(Arc::clone(segment));
        }
        Ok(None)
    }

    fn note_refusal(&mut self, number: u32, reading: &Reading) {
        let reason = match reading {
            Reading::Missing => return,
            Reading::Refused(reason) => reason,
            Reading::Whole(_) => index::IS_STALE,
        };
        self.work.indexes_refused += 1;
        let path = segment::index_path(number);
        tracing::warn!(path, reason, "an index is not used; its segment is read");
    }

    /// Whether the next segment begins with the group behind the last one of an index: then nothing was added to the
    /// segment since the index was written, and nothing ever will be.
    fn is_sealed_by(
        &mut self,
        index: &Index,
        successor: Option<&Arc<Segment>>,
        successor_index: &Reading,
        store: u64,
    ) -> Result<bool, StoreError> {
        let Some(successor) = successor else {
            return Ok(false);
        };
        let first = if let Reading::Whole(next) = successor_index {
            Some(next.first)
        } else {
            let mut scanner = scanner(store, successor).reading_ahead(0);
            let first = scanner.group_at(0)?.map(|(header, _)| header);
            self.work.scanned_bytes += scanner.read_bytes;
            first
        };
        let last = Tail {
            last: Some((index.last, index.last_start)),
        };
        Ok(first
            .is_some_and(|first| last.is_followed_by(&first) && first.synced_through == last.end()))
    }
}

pub(crate) fn open_segment(disk: &dyn Disk, number: u32) -> Result<Segment, StoreError> {
    let path = segment::path(number);
    let file = disk
        .open(&path, false)
        .map_err(StoreError::io("open", &path))?;
    let len = file.len().map_err(StoreError::io("examine", &path))?;
    let capacity = u32::try_from(len)
        .map_err(|_| StoreError::damaged(format!("{path}: a length of {len} bytes; the file")))?;
    Ok(Segment::new(number, file, capacity))
}

/// Takes note of the groups of one segment that follow the tail, and moves the tail. Returns how much was read.
fn scan_segment(store: u64, segment: &Segment, tail: &mut Tail) -> Result<u64, StoreError> {
    let mut scanner = scanner(store, segment);
    let mut offset = 0;
    while let Some((header, bytes)) = scanner.group_at(offset)? {
        if !tail.is_followed_by(&header) {
            break;
        }
        let start = Mark::new(segment.number, offset);
        segment
            .note(offset, &header, bytes)
            .map_err(|error| at(segment, offset, error))?;
        tail.last = Some((header, start));
        offset = group::end_of(start, &header).offset();
    }
    Ok(scanner.read_bytes)
}

fn scanner(store: u64, segment: &Segment) -> Scanner<'_> {
    Scanner::new(&*segment.file, store, segment.number, segment.capacity)
}

/// Says where an error was met.
fn at(segment: &Segment, offset: u32, error: StoreError) -> StoreError {
    let place = format!("{}, group at {offset}", segment::path(segment.number));
    match error {
        StoreError::Damaged { what } => StoreError::Damaged {
            what: format!("{place}: {what}"),
        },
        StoreError::Newer { what } => StoreError::Newer {
            what: format!("{place}: {what}"),
        },
        other => other,
    }
}

/// Looks in the rest of the last segment and in those behind it for a group that was written after a sync had covered
/// the place where the log seems to end.
fn refuse_damage(store: u64, rest: &[Arc<Segment>], tail: &Tail) -> Result<(), StoreError> {
    let end = tail.end();
    let is_proof = |header: &Header| {
        header.epoch >= tail.epoch()
            && header.number >= tail.next_number()
            && header.synced_through > end
    };
    for segment in rest {
        let from = if segment.number == end.segment() {
            end.offset()
        } else {
            0
        };
        let mut scanner = scanner(store, segment);
        if let Some(proof) = scanner.search(from, is_proof)? {
            let proof = Mark::new(segment.number, proof);
            return Err(StoreError::damaged(format!(
                "{DIRECTORY}: the group at {end}, which was synced before the one at {proof},"
            )));
        }
    }
    Ok(())
}

/// Removes indexes whose segment is gone. Numbers are never reused, so they are harmless; but they take space.
fn remove_orphans(disk: &dyn Disk, names: &[String], numbers: &[u32]) -> Result<(), StoreError> {
    for number in names
        .iter()
        .filter_map(|name| segment::index_number_of(name))
    {
        if numbers.binary_search(&number).is_err() {
            index::remove(disk, number)?;
        }
    }
    Ok(())
}

/// Writes and syncs once more what may be in the page cache only.
fn make_durable(
    disk: &dyn Disk,
    segments: &[Arc<Segment>],
    synced_through: Mark,
) -> Result<(), StoreError> {
    for segment in segments {
        let path = segment::path(segment.number);
        let end = segment.end();
        if end <= synced_through {
            continue;
        }
        let from = if synced_through.segment() == segment.number {
            synced_through.offset()
        } else {
            0
        };
        let mut bytes = vec![0; (end.offset() - from) as usize];
        let offset = u64::from(from);
        let read = segment
            .file
            .read_at(offset, &mut bytes)
            .map_err(StoreError::io("read", &path))?;
        assert_eq!(
            read,
            bytes.len(),
            "groups that were just read are still there"
        );
        segment
            .file
            .write_at(offset, &bytes)
            .map_err(StoreError::io("write", &path))?;
        segment
            .file
            .sync_data()
            .map_err(StoreError::io("sync", &path))?;
    }
    disk.sync_dir(DIRECTORY)
        .map_err(StoreError::io("sync", DIRECTORY))?;
    disk.sync_dir("")
        .map_err(StoreError::io("sync", disk.name()))
}

/// Makes the super block that was read durable, then writes the other one with a higher epoch.
fn raise_epoch(
    disk: &dyn Disk,
    options: &LogOptions,
    found: Super,
    slot: usize,
    epoch_in_log: u32,
) -> Result<u32, StoreError> {
    superblock::write(disk, slot, &found)?;
    let epoch = found.epoch.max(epoch_in_log) + 1;
    let raised = Super {
        epoch,
        segment_bytes: options.segment_bytes,
        ..found
    };
    superblock::write(disk, superblock::other(slot), &raised)?;
    Ok(epoch)
}

/// Frees the files behind the end of the log, and finds those that are free already.
fn free_files(
    disk: &dyn Disk,
    names: &[String],
    segments: &[Arc<Segment>],
) -> Result<(VecDeque<FreeFile>, u64), StoreError> {
    let known: BTreeMap<u64, &String> = names
        .iter()
        .filter_map(|name| Some((segment::free_number_of(name)?, name)))
        .collect();
    let mut next_free = known.last_key_value().map_or(0, |(number, _)| number + 1);
    let mut free = VecDeque::new();
    for segment in segments.iter().filter(|segment| segment.content().end == 0) {
        let (from, path) = (segment::path(segment.number), segment::free_path(next_free));
        disk.rename(&from, &path)
            .map_err(StoreError::io("rename", &from))?;
        free.push_back(FreeFile {
            path,
            file: Arc::clone(&segment.file),
            is_used: true,
        });
        next_free += 1;
    }
    for name in known.values() {
        let path = format!("{DIRECTORY}/{name}");
        let file = disk
            .open(&path, false)
            .map_err(StoreError::io("open", &path))?;
        free.push_back(FreeFile {
            path,
            file,
            is_used: true,
        });
    }
    Ok((free, next_free))
}
