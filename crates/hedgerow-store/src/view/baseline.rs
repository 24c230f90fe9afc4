//! What a view's small rows were where a segment of the log begins. With a baseline, with what is kept of older segments,
//! and with the log from there on a view can be built again (`rebuild`).
//!
//! The file is `baseline/<segment, 8 hex digits>-<catalog revision, 16 digits>`, a [small file](crate::small_file) `HGbl`.
//! The catalog's file of that revision is kept as long as the baseline is.

use hedgerow_core::position::{Mark, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::View;
use super::rows::{SubscriptionRow, TopicRow};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::failpoint;
use crate::record::SnapshotPlace;
use crate::small_file::{self, Form};

pub(crate) const DIRECTORY: &str = "baseline";
const NEW_PATH: &str = "baseline/new";
const FORM: Form = Form {
    magic: b"HGbl",
    version: 1,
};
/// So many times its own size of log must have been written before the next baseline is taken.
const LOG_BYTES_PER_BYTE: u64 = 4;

/// The small rows of a view where a segment begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Of the store it belongs to.
    pub(super) store_id: [u8; 16],
    /// The segment that begins here.
    pub segment: u32,
    /// The end of the last group before it, and that group's number.
    pub(super) mark: Mark,
    pub(super) group: u64,
    pub(super) catalog_revision: u64,
    pub(super) clean_epoch: u32,
    pub(super) next_terminal: u64,
    pub(super) topics: Vec<(TopicId, TopicRow)>,
    pub(super) subscriptions: Vec<SubscriptionPart>,
    pub(super) snapshots: Vec<(u32, SnapshotPlace)>,
    pub(super) log_time: Timestamp,
}

/// One subscription's row and its unsettled deliveries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SubscriptionPart {
    pub id: SubscriptionId,
    pub row: SubscriptionRow,
    pub open: Vec<(u64, Vec<u8>)>,
}

/// Where a baseline is, as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub segment: u32,
    pub catalog_revision: u64,
}

/// What a view knows of baselines.
#[derive(Debug, Default)]
pub(super) struct Baselines {
    /// Taken, and not written yet.
    pub taken: Vec<Baseline>,
    /// Being written.
    pub writing: Vec<u32>,
    /// On disk.
    pub written: std::collections::BTreeSet<u32>,
    /// Bytes of log since the newest one, and how many there must be before the next.
    log_bytes: u64,
    log_bytes_wanted: u64,
}

impl View {
    /// Takes a baseline if a segment begins with the next group, unless the last one was just before.
    pub(super) fn take_baseline(&mut self, segment: u32, group_bytes: usize) {
        self.baselines.log_bytes += group_bytes as u64;
        let is_boundary = segment != self.mark.segment() && self.mark != Mark::ZERO;
        if !is_boundary || self.baselines.log_bytes < self.baselines.log_bytes_wanted {
            return;
        }
        let subscriptions = self
            .subscriptions
            .iter()
            .map(|(id, state)| SubscriptionPart {
                id: *id,
                row: state.row,
                open: state.open.chunks(),
            });
        let baseline = Baseline {
            store_id: self.store_id,
            segment,
            mark: self.mark,
            group: self.group,
            catalog_revision: self.catalog.revision,
            clean_epoch: self.clean_epoch,
            next_terminal: self.next_terminal,
            topics: self.topics.iter().map(|(id, row)| (*id, *row)).collect(),
            subscriptions: subscriptions.collect(),
            snapshots: self
                .snapshots
                .iter()
                .map(|(id, place)| (*id, place.clone()))
                .collect(),
            log_time: self.log_time,
        };
        self.baselines.log_bytes = 0;
        self.baselines.log_bytes_wanted = LOG_BYTES_PER_BYTE * baseline.bytes();
        if self.catalog.revision != self.saved_revision {
            self.saved_revision = self.catalog.revision;
            self.unsaved_catalogs.push(self.catalog.clone());
        }
        self.baselines.taken.push(baseline);
    }
}

impl Baseline {
    /// How far the log had got before it: the number of the last group, and of each topic its last event.
    pub(crate) fn reached(&self) -> (u64, impl Iterator<Item = (TopicId, u64)>) {
        let topics = self.topics.iter();
        (self.group, topics.map(|(id, row)| (*id, row.next_seq - 1)))
    }

    /// About its size on disk.
    fn bytes(&self) -> u64 {
        let open = self.subscriptions.iter().flat_map(|part| &part.open);
        let open: usize = open.map(|(_, bytes)| bytes.len() + 8).sum();
        (open + self.subscriptions.len() * 40 + self.topics.len() * 16 + 128) as u64
    }

    fn name(&self) -> Name {
        Name {
            segment: self.segment,
            catalog_revision: self.catalog_revision,
        }
    }
}

/// Writes baselines, durably. The catalogs they name are there already.
pub(super) fn write(disk: &dyn Disk, baselines: &[Baseline]) -> Result<(), StoreError> {
    if baselines.is_empty() {
        return Ok(());
    }
    disk.create_dir(DIRECTORY)
        .map_err(StoreError::io("create", DIRECTORY))?;
    disk.sync_dir("")
        .map_err(StoreError::io("sync", disk.name()))?;
    for baseline in baselines {
        failpoint::hit("baseline-write");
        let path = path_of(baseline.name());
        small_file::write(disk, NEW_PATH, &FORM.encode(baseline))
            .map_err(StoreError::io("write", NEW_PATH))?;
        disk.rename(NEW_PATH, &path)
            .map_err(StoreError::io("rename", NEW_PATH))?;
    }
    failpoint::hit("baseline-renamed");
    disk.sync_dir(DIRECTORY)
        .map_err(StoreError::io("sync", DIRECTORY))
}

/// The baselines there are.
pub(crate) fn list(disk: &dyn Disk) -> Result<Vec<Name>, StoreError> {
    let names = disk
        .list(DIRECTORY)
        .map_err(StoreError::io("list", DIRECTORY))?;
    Ok(names.iter().filter_map(|name| name_of(name)).collect())
}

/// The baseline of a segment, if there is one.
pub(crate) fn read(
    disk: &dyn Disk,
    store_id: [u8; 16],
    segment: u32,
) -> Result<Option<Baseline>, StoreError> {
    let Some(name) = list(disk)?.into_iter().find(|name| name.segment == segment) else {
        return Ok(None);
    };
    let path = path_of(name);
    let bytes = small_file::read(disk, &path, u64::MAX).map_err(StoreError::io("read", &path))?;
    let baseline: Baseline = FORM.decode(&bytes).map_err(|fault| fault.of(&path))?;
    if baseline.store_id != store_id || baseline.segment != segment {
        return Err(StoreError::damaged(format!(
            "{path}: it belongs to another store; it"
        )));
    }
    Ok(Some(baseline))
}

/// Removes the baselines of segments that were forgotten. Need not be durable.
pub(crate) fn remove_before(disk: &dyn Disk, oldest: u32) -> Result<(), StoreError> {
    remove_where(disk, |name| name.segment < oldest)
}

/// Removes the baselines of segments behind the newest one, which the log has lost: another segment gets the number.
pub(crate) fn remove_after(disk: &dyn Disk, newest: u32) -> Result<(), StoreError> {
    remove_where(disk, |name| name.segment > newest)
}

/// Removes the baselines that name this revision of the catalog.
pub(super) fn remove_of_catalog(disk: &dyn Disk, revision: u64) -> Result<(), StoreError> {
    remove_where(disk, |name| name.catalog_revision == revision)
}

fn remove_where(disk: &dyn Disk, is_surplus: impl Fn(&Name) -> bool) -> Result<(), StoreError> {
    for name in list(disk)? {
        if is_surplus(&name) {
            let path = path_of(name);
            disk.remove(&path).map_err(StoreError::io("remove", path))?;
        }
    }
    Ok(())
}

fn name_of(name: &str) -> Option<Name> {
    let (segment, revision) = name.split_once('-')?;
    Some(Name {
        segment: u32::from_str_radix(segment, 16).ok()?,
        catalog_revision: revision.parse().ok()?,
    })
}

pub(crate) fn path_of(name: Name) -> String {
    format!(
        "{DIRECTORY}/{:08x}-{:016}",
        name.segment, name.catalog_revision
    )
}
