//! What a log has lost at its end. The log alone cannot tell: it ends where its last group does. What was derived from it
//! tells how far it had got: the indexes, the baselines and the catalog on disk, and the view.
//!
//! All of these are written after the sync that covers what they tell of, so each proves that it was acknowledged.

use std::collections::BTreeMap;
use std::fmt;

use hedgerow_core::position::{Mark, TopicId};

use super::index;
use super::inspect::Inspected;
use super::segment::{self, DIRECTORY};
use super::superblock;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::view::baseline;
use crate::view::check::{Reached, reached};
use crate::view::table::{OpenTable, Table};

/// What is known of what was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Where the log ends now.
    pub end: Mark,
    /// How far it had got, at least.
    pub reached: Mark,
    /// Groups that are lost, at least.
    pub groups: u64,
    /// Events in them, at least.
    pub events: u64,
    /// Changes of what was declared that are lost, at least.
    pub declarations: u64,
    /// What says so.
    pub because: Vec<String>,
}

impl Loss {
    /// Changes of the catalog are lost of which nothing else is left.
    pub(crate) fn of_declarations(end: Mark, known: u64, saved: u64) -> Self {
        Self {
            end,
            reached: end,
            groups: 0,
            events: 0,
            declarations: saved - known,
            because: vec![format!(
                "catalog/ has revision {saved} of what was declared, the log {known}"
            )],
        }
    }

    /// The files that are missing or cut short.
    fn files(&self) -> String {
        let (newest, reached) = (self.end.segment(), self.reached.segment());
        if self.reached == self.end {
            return format!("the end of {DIRECTORY}/ is missing");
        }
        if newest == reached {
            return format!("the end of {} is missing", segment::path(newest));
        }
        let (first, last) = (segment::path(newest + 1), segment::path(reached));
        if first == last {
            format!("{first} is missing")
        } else {
            format!("{first} to {last} are missing")
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let because = self.because.join("; ");
        let Self { end, reached, .. } = self;
        write!(f, "{}: the log ends at {end}", self.files())?;
        if reached > end {
            write!(f, " and had got to {reached} at least")?;
        }
        write!(f, " ({because}); lost are at least ")?;
        let counts = [
            (self.groups, "group", "groups"),
            (self.events, "event", "events"),
            (
                self.declarations,
                "change of what was declared",
                "changes of what was declared",
            ),
        ];
        let told = counts.iter().filter(|(count, ..)| *count > 0);
        let told = told
            .map(|(count, one, many)| format!("{count} {}", [many, one][usize::from(*count == 1)]));
        f.write_str(&told.collect::<Vec<_>>().join(", "))
    }
}

/// What the witnesses say together.
struct Hearing {
    end: Mark,
    reached: Mark,
    last_group: u64,
    /// The newest event of each topic that somebody tells of.
    newest: BTreeMap<TopicId, u64>,
    /// The event before the first one that an index of a lost segment tells of.
    before: BTreeMap<TopicId, u64>,
    because: Vec<String>,
}

impl Hearing {
    fn hear(&mut self, reached: Mark, last_group: u64, because: String) {
        self.reached = self.reached.max(reached);
        self.last_group = self.last_group.max(last_group);
        self.because.push(because);
    }

    fn hear_of_events(&mut self, topic: TopicId, newest: u64) {
        let known = self.newest.entry(topic).or_default();
        *known = newest.max(*known);
    }
}

/// Looks what is lost at the end of a log that nobody uses, also by the view that is there, if it can be read. Changes
/// nothing.
///
/// # Errors
/// As opening the log.
pub(crate) fn look(disk: &dyn Disk, open_table: OpenTable<'_>) -> Result<Option<Loss>, StoreError> {
    // Opening says what is wrong, or makes a store.
    if superblock::read(disk)?.is_none() {
        return Ok(None);
    }
    let log = Inspected::look(disk)?;
    // With nothing left there is nothing to go on with: whoever builds the view refuses that.
    if log.end == Mark::ZERO {
        return Ok(None);
    }
    let mut hearing = Hearing {
        end: log.end,
        reached: log.end,
        last_group: log.next_number - 1,
        newest: BTreeMap::new(),
        before: BTreeMap::new(),
        because: Vec::new(),
    };
    hear_newest_index(disk, &log, &mut hearing);
    hear_orphans(disk, &log, &mut hearing)?;
    hear_baselines(disk, &log, &mut hearing)?;
    // One that cannot be read says nothing. That is no reason to refuse: it is why it is built again.
    let view = open_table().and_then(|table| view_reached(table.as_deref()));
    if let Ok(Some(view)) = view
        && view.store_id == log.store_id
        && view.mark > log.end
    {
        let because = format!("the view stands at {}", view.mark);
        hearing.hear(view.mark, view.group, because);
        for (topic, newest) in view.topics {
            hearing.hear_of_events(topic, newest);
        }
    }
    Ok(conclude(hearing, &log))
}

/// An index is written when the next segment has a durable group, so the newest segment has none.
fn hear_newest_index(disk: &dyn Disk, log: &Inspected, hearing: &mut Hearing) {
    let Some(newest) = log.segments.last() else {
        return;
    };
    let said = index::said(disk, log.store_id, newest.number);
    // An index that ends earlier is of a log that lost its end once, and went on.
    if let Some(said) = said.filter(|said| said.end >= log.end) {
        let next = Mark::new(newest.number + 1, 0);
        let because = format!(
            "the index of segment {} says that it was full up to {} and another one was begun",
            newest.number, said.end
        );
        hearing.hear(next, said.last_group + 1, because);
        for (topic, _, last) in said.topics {
            hearing.hear_of_events(topic, last);
        }
    }
}

/// Indexes whose segment is gone.
fn hear_orphans(disk: &dyn Disk, log: &Inspected, hearing: &mut Hearing) -> Result<(), StoreError> {
    let names = disk
        .list(DIRECTORY)
        .map_err(StoreError::io("list", DIRECTORY))?;
    let numbers = names
        .iter()
        .filter_map(|name| segment::index_number_of(name));
    for number in numbers.filter(|number| *number > newest(log)) {
        let Some(said) = index::said(disk, log.store_id, number) else {
            continue;
        };
        let because = format!(
            "the index of segment {number} says that it ended at {}",
            said.end
        );
        hearing.hear(Mark::new(number + 1, 0), said.last_group + 1, because);
        for (topic, first, last) in said.topics {
            hearing.hear_of_events(topic, last);
            let before = hearing.before.entry(topic).or_insert(u64::MAX);
            *before = (first - 1).min(*before);
        }
    }
    Ok(())
}

/// A baseline is taken when the first group of its segment is read back.
fn hear_baselines(
    disk: &dyn Disk,
    log: &Inspected,
    hearing: &mut Hearing,
) -> Result<(), StoreError> {
    for name in baseline::list(disk)? {
        if name.segment <= newest(log) {
            continue;
        }
        let Ok(Some(found)) = baseline::read(disk, log.store_id, name.segment) else {
            continue;
        };
        let (group, topics) = found.reached();
        let because = format!("there is a baseline for segment {}", name.segment);
        hearing.hear(Mark::new(name.segment, 0), group + 1, because);
        for (topic, newest) in topics {
            hearing.hear_of_events(topic, newest);
        }
    }
    Ok(())
}

fn view_reached(table: Option<&dyn Table>) -> Result<Option<Reached>, StoreError> {
    table.map_or(Ok(None), reached)
}

/// The newest segment with groups.
fn newest(log: &Inspected) -> u32 {
    log.segments.last().map_or(0, |newest| newest.number)
}

fn conclude(hearing: Hearing, log: &Inspected) -> Option<Loss> {
    if hearing.because.is_empty() {
        return None;
    }
    let events = log.events();
    let events = hearing.newest.iter().map(|(topic, newest)| {
        let there = events.get(topic).and_then(roaring::RoaringTreemap::max);
        // Of a topic of which nothing is left, it is not known where the log ends: all of it may have been delivered.
        let known = there.or_else(|| hearing.before.get(topic).copied());
        newest.saturating_sub(known.unwrap_or(*newest))
    });
    Some(Loss {
        end: hearing.end,
        reached: hearing.reached,
        groups: hearing.last_group - (log.next_number - 1),
        events: events.sum(),
        declarations: 0,
        because: hearing.because,
    })
}

/// Removes what tells of a lost end that somebody has accepted: a baseline must not be taken for that of another segment,
/// which gets the number, and nobody is told again.
pub(crate) fn forget(disk: &dyn Disk, end: Mark) -> Result<(), StoreError> {
    index::remove(disk, end.segment())?;
    baseline::remove_after(disk, end.segment())
}
