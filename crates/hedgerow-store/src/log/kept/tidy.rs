//! Gives space back: deletes kept files in which nothing is needed, and writes those anew in which little is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_core::position::{Position, TopicId};

use super::Kept;
use super::file::KeptFile;
use crate::{Needed, StoreError};

/// Files that are written anew at most before the next plan.
const COMPACTED_MAX: usize = 32;
/// What one delivery takes at most that is owed for an event: a copy has those that updates told of, too.
const OWED_BYTES_MAX: u64 = 64;
/// What is said of a file's parts is said in so many of them.
const FILE_PARTS: u64 = 64;

/// How much room there is: by that little or much of a file must be of no use before it is written anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Enough.
    None,
    /// Publishing is refused.
    Full,
    /// What is kept back for records of attempts is half used.
    RecordsToo,
}

impl Pressure {
    /// The part of a file that must be of no use, in parts of [`FILE_PARTS`].
    const fn dead_parts(self) -> u64 {
        match self {
            Self::None => FILE_PARTS / 2,
            Self::Full => FILE_PARTS / 16,
            Self::RecordsToo => 1,
        }
    }
}

impl Kept {
    /// Deletes and writes anew, one file at a time, so that little space is taken for it. A file for whose copy `room` has
    /// too few bytes stays as it is.
    ///
    /// # Errors
    /// What was done until then counts.
    pub(crate) fn tidy(
        &self,
        needed: &HashMap<TopicId, Needed>,
        pressure: Pressure,
        room: impl Fn() -> Result<u64, StoreError>,
    ) -> Result<(), StoreError> {
        let live_parts_max = FILE_PARTS - pressure.dead_parts();
        let (mut dead, mut sparse) = (Vec::new(), Vec::new());
        for file in self.files() {
            let live = live_bytes(&file, needed);
            if live == 0 {
                dead.push(file.number);
            } else if live <= file.len_bytes / FILE_PARTS * live_parts_max {
                sparse.push((file.len_bytes - live, file.number));
            }
        }
        if !dead.is_empty() {
            self.begin().commit_in_place_of(&dead)?;
        }
        // Those that give most back first.
        sparse.sort_unstable_by_key(|(dead, _)| std::cmp::Reverse(*dead));
        for (_, number) in sparse.into_iter().take(COMPACTED_MAX) {
            let mut cleaning = self.begin().not_to(number);
            // As it is now: one that was written anew before may have added to it.
            let Some(file) = cleaning.file(number) else {
                continue;
            };
            let copy_bytes = live_bytes(&file, needed) + file.open_count() * OWED_BYTES_MAX;
            if copy_bytes > room()? {
                continue;
            }
            copy_live(&file, needed, &mut cleaning)?;
            cleaning.commit_in_place_of(&[number])?;
            self.compacted_files.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn live_bytes(file: &KeptFile, needed: &HashMap<TopicId, Needed>) -> u64 {
    let topics = file.topics.iter().map(|(topic, kept)| {
        // Of a topic that nobody was asked about all is needed.
        let needed = needed.get(topic);
        needed.map_or(kept.bytes, |needed| kept.needed_bytes(needed))
    });
    topics.sum()
}

/// Copies what is needed of a file, with what is owed now.
fn copy_live(
    file: &Arc<KeptFile>,
    needed: &HashMap<TopicId, Needed>,
    cleaning: &mut super::Cleaning<'_>,
) -> Result<(), StoreError> {
    let mut owed = file.owed()?;
    file.for_each_block(|block| {
        for (position, event) in file.positioned_events(&block)? {
            let Position { topic, seq } = position;
            if needed
                .get(&topic)
                .is_some_and(|needed| !needed.contains(seq))
            {
                continue;
            }
            let owed = owed.remove(&(topic, seq)).unwrap_or_default();
            cleaning.event_in(
                file.class,
                file.bucket,
                position,
                event.published,
                event.bytes,
                owed,
            );
        }
        Ok(())
    })
}
