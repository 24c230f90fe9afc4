//! Looks at the log of a store that nobody uses, without changing anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_core::position::{Mark, TopicId};
use roaring::RoaringTreemap;

use super::kept::{Kept, KeptFile};
use super::recover::{self, Scanned};
use super::scan::Scanner;
use super::segment::{self, DIRECTORY, Segment};
use super::{check, store_prefix, superblock};
use crate::Group;
use crate::disk::{Disk, DiskLock};
use crate::error::StoreError;

/// Event numbers by topic.
pub(crate) type Events = BTreeMap<TopicId, RoaringTreemap>;

/// The events in these segments and kept files.
pub(super) fn events_in<'a>(
    segments: impl IntoIterator<Item = &'a Arc<Segment>>,
    kept: impl IntoIterator<Item = &'a KeptFile>,
) -> Events {
    let mut events = Events::new();
    for segment in segments {
        for (topic, range) in &segment.content().topics {
            let seqs = events.entry(*topic).or_default();
            seqs.insert_range(range.first_seq..=range.last_seq);
        }
    }
    for file in kept {
        for (topic, kept) in &file.topics {
            *events.entry(*topic).or_default() |= &kept.seqs;
        }
    }
    events
}

/// A log that is looked at. Nobody else opens it meanwhile.
pub(crate) struct Inspected {
    pub store_id: [u8; 16],
    /// Those with groups, oldest first.
    pub segments: Vec<Arc<Segment>>,
    /// What is kept of older ones.
    pub kept: Vec<KeptFile>,
    /// The end of the log.
    pub end: Mark,
    /// The number of the group that would come next.
    pub next_number: u64,
    lock: Option<DiskLock>,
}

impl Inspected {
    /// Finds out what is in the segments, from their indexes where they have one.
    ///
    /// # Errors
    /// As opening it would, and if there is no store.
    pub(crate) fn open(disk: &dyn Disk) -> Result<Self, StoreError> {
        let lock = check::lock_store(disk)?;
        let mut log = Self::look(disk)?;
        log.lock = Some(lock);
        Ok(log)
    }

    /// The same for one who has the lock.
    pub(super) fn look(disk: &dyn Disk) -> Result<Self, StoreError> {
        let names = disk
            .list(DIRECTORY)
            .map_err(StoreError::io("list", DIRECTORY))?;
        let Some((found, _)) = superblock::read(disk)? else {
            let what = "SUPER.a, SUPER.b: neither is whole; the store";
            return Err(StoreError::damaged(what));
        };
        let kept = Kept::inspect(disk, found.store_id)?;
        let names: Vec<_> = names
            .into_iter()
            .filter(|name| !recover::is_cleaned(name, kept.cleaned_through))
            .collect();
        let numbers = recover::segment_numbers(&names)?;
        let Scanned {
            mut segments, tail, ..
        } = recover::scan(disk, found.store_id, &numbers)?;
        segments.retain(|segment| segment.content().end > 0);
        Ok(Self {
            store_id: found.store_id,
            segments,
            kept: kept.files,
            end: tail.end(),
            next_number: tail.next_number(),
            lock: None,
        })
    }

    /// The events there are.
    pub(crate) fn events(&self) -> Events {
        events_in(&self.segments, &self.kept)
    }

    /// The end of what was forgotten.
    pub(crate) fn oldest(&self) -> Mark {
        self.segments
            .first()
            .map_or(Mark::ZERO, |oldest| oldest.content().previous_end)
    }

    /// Hands on the groups from `from` on, in order.
    pub(crate) fn for_each_group(
        &self,
        from: Mark,
        mut take: impl FnMut(&Group) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let store = store_prefix(&self.store_id);
        let segments = self.segments.iter();
        for segment in segments.filter(|one| one.number >= from.segment()) {
            let mut offset = if segment.number == from.segment() {
                from.offset()
            } else {
                0
            };
            let end = segment.content().end;
            let mut scanner = Scanner::new(&*segment.file, store, segment.number, end);
            while offset < end {
                let place = Mark::new(segment.number, offset);
                let group = scanner.read_group(offset)?.ok_or_else(|| {
                    let path = segment::path(segment.number);
                    StoreError::damaged(format!("{path}: the group at {place}"))
                })?;
                offset = group.end.offset();
                take(&group)?;
            }
        }
        Ok(())
    }
}
