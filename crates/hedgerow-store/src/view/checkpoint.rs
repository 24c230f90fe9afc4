//! Opening the view and writing it down.
//!
//! A checkpoint is one batch: the frozen overlay, the changed rows of memory, and the stamp. The catalog goes before
//! it into a file of its own ([`catalog_files`]); the stamp names the revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hedgerow_core::position::{Mark, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;

use super::baseline::{self, Baseline, Baselines};
use super::catalog_files;
use super::layers::{Layers, Overlay};
use super::open_set::OpenSet;
use super::rows::{self, STAMP_KEY, StampRow, SubscriptionRow, TopicRow, damaged_view};
use super::table::{Row, Space, Table};
use super::{BEHIND_IN_FLIGHT, ChangedRows, View, ViewOptions};
use crate::catalog::Catalog;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::failpoint;
use crate::record::SnapshotPlace;
use crate::secrets::Secrets;

/// Rows that are read at once while opening.
const SCAN_ROWS: usize = 4096;
/// Rows of gone subscriptions that one checkpoint removes.
const FORGOTTEN_ROWS_MAX: usize = 10_000;
/// Subscriptions whose floor one checkpoint looks for.
const RAISED_FLOORS_MAX: usize = 256;
/// Baselines that are known of; there are no more segments.
const BASELINES_KNOWN_MAX: usize = 1 << 16;

/// A view that is being written down: everything folded up to its mark.
pub struct Checkpoint {
    mark: Mark,
    overlay: Arc<Overlay>,
    rows: Vec<(Space, Vec<u8>, Option<Vec<u8>>)>,
    catalogs: Vec<Catalog>,
    baselines: Vec<Baseline>,
    secrets: Arc<Secrets>,
    table: Arc<dyn Table>,
}

impl Checkpoint {
    /// The end of the last group it contains.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// Writes it and syncs it. Takes as long as the disk does: for a thread of its own.
    pub fn write(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        for catalog in &self.catalogs {
            let json = catalog.to_sealed_json(&self.secrets)?;
            catalog_files::write(disk, catalog.revision, json)?;
        }
        baseline::write(disk, &self.baselines)?;
        failpoint::hit("checkpoint-apply");
        let rows = self
            .rows
            .iter()
            .map(|(space, key, value)| (*space, key.as_slice(), value.as_deref()));
        self.table.apply(&mut self.overlay.changes().chain(rows))?;
        failpoint::hit("checkpoint-persist");
        self.table.persist()?;
        // Not before: until then the stamp that is on the disk may name an older one.
        match self.catalogs.last() {
            Some(newest) => catalog_files::remove_old(disk, newest.revision),
            None => Ok(()),
        }
    }
}

impl View {
    /// Opens the view as the last checkpoint left it; an empty one if there was none. The caller folds the log from
    /// [`View::mark`] on before anything else is done.
    ///
    /// # Errors
    /// If the table belongs to another store or its format is newer, or the catalog's file is missing or sealed with
    /// another key.
    pub fn open(
        table: Arc<dyn Table>,
        disk: &dyn Disk,
        secrets: Arc<Secrets>,
        options: ViewOptions,
    ) -> Result<Self, StoreError> {
        let mut view = Self::empty(table, secrets, options);
        view.list_baselines(disk)?;
        let Some(stamp) = view.layers.table().get(Space::State, STAMP_KEY)? else {
            return Ok(view);
        };
        let stamp: StampRow = rows::decode(&stamp)?;
        if stamp.format > rows::FORMAT {
            return Err(StoreError::Newer {
                what: format!(
                    "the view has format {}, this server knows {}",
                    stamp.format,
                    rows::FORMAT
                ),
            });
        }
        if stamp.store_id != options.store_id {
            return Err(damaged_view("it belongs to another store"));
        }
        view.mark = stamp.mark;
        view.group = stamp.group;
        view.clean_epoch = stamp.clean_epoch;
        view.next_terminal = stamp.next_terminal;
        view.first_terminal = stamp.first_terminal;
        view.log_time = stamp.log_time;
        view.catalog = catalog_files::read(disk, stamp.catalog_revision, &view.secrets)?;
        view.saved_revision = stamp.catalog_revision;
        view.load_state()?;
        view.load_open()?;
        Ok(view)
    }

    pub(super) fn empty(
        table: Arc<dyn Table>,
        secrets: Arc<Secrets>,
        options: ViewOptions,
    ) -> Self {
        Self {
            layers: Layers::new(table),
            catalog: Catalog::default(),
            saved_revision: 0,
            topics: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            members: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            changed: ChangedRows::default(),
            secrets,
            change_read_last: std::cell::RefCell::default(),
            store_id: options.store_id,
            clean_epoch: 0,
            mark: Mark::ZERO,
            group: 0,
            next_terminal: 1,
            first_terminal: 1,
            terminal_records_max: options.terminal_records_max,
            floors_after: None,
            baselines: Baselines::default(),
            unsaved_catalogs: Vec::new(),
            snapshots: BTreeMap::new(),
            pins: BTreeMap::new(),
            log_time: Timestamp::ZERO,
        }
    }

    /// Takes note of the baselines there are.
    pub(super) fn list_baselines(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        let baselines = baseline::list(disk)?.into_iter();
        self.baselines.written = baselines.map(|name| name.segment).collect();
        Ok(())
    }

    fn load_state(&mut self) -> Result<(), StoreError> {
        for (key, value) in all_rows(self.layers.table().as_ref(), Space::State)? {
            match key.first() {
                Some(b't') => {
                    let row: TopicRow = rows::decode(&value)?;
                    self.topics.insert(TopicId(rows::id_of(&key)?), row);
                }
                Some(b'f') => {
                    self.forgotten.insert(SubscriptionId(rows::id_of(&key)?));
                }
                Some(b's') if key != STAMP_KEY => {
                    let id = SubscriptionId(rows::id_of(&key)?);
                    let row: SubscriptionRow = rows::decode(&value)?;
                    self.restore_subscription(id, row, OpenSet::default());
                }
                Some(b'n') => {
                    let place: SnapshotPlace = rows::decode(&value)?;
                    self.snapshots.insert(rows::id_of(&key)?, place);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn load_open(&mut self) -> Result<(), StoreError> {
        for (key, value) in all_rows(self.layers.table().as_ref(), Space::Open)? {
            let (id, part) = rows::parse_open_key(&key)?;
            if let Some(state) = self.subscriptions.get_mut(&id) {
                state.open.load(part, &value)?;
            }
        }
        Ok(())
    }

    /// A measure of the memory that waits for a checkpoint.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.layers.active_bytes()
    }

    /// Begins a checkpoint of everything folded so far. [`View::finish_checkpoint`] ends it.
    ///
    /// # Panics
    /// If one is under way.
    pub fn begin_checkpoint(&mut self) -> Result<Checkpoint, StoreError> {
        self.remove_forgotten_rows()?;
        self.raise_due_floors()?;
        self.forget_publish_ids()?;
        let rows = self.take_changed_rows();
        let baselines = std::mem::take(&mut self.baselines.taken);
        self.baselines.writing = baselines.iter().map(|baseline| baseline.segment).collect();
        let mut catalogs = std::mem::take(&mut self.unsaved_catalogs);
        catalogs.extend(self.take_changed_catalog());
        Ok(Checkpoint {
            mark: self.mark,
            overlay: self.layers.freeze(),
            rows,
            catalogs,
            baselines,
            secrets: Arc::clone(&self.secrets),
            table: Arc::clone(self.layers.table()),
        })
    }

    /// Says that the checkpoint begun last was written and synced.
    pub fn finish_checkpoint(&mut self) {
        self.layers.thaw();
        let written = std::mem::take(&mut self.baselines.writing);
        self.baselines.written.extend(written);
        while self.baselines.written.len() > BASELINES_KNOWN_MAX {
            self.baselines.written.pop_first();
        }
    }

    fn take_changed_rows(&mut self) -> Vec<(Space, Vec<u8>, Option<Vec<u8>>)> {
        let changed = std::mem::take(&mut self.changed);
        let mut out = Vec::new();
        for id in changed.topics {
            let value = self.topics.get(&id).map(rows::encode);
            out.push((Space::State, rows::topic_key(id), value));
        }
        for id in changed.subscriptions {
            let state = self.subscriptions.get_mut(&id);
            let value = state.as_ref().map(|state| rows::encode(&state.row));
            out.push((Space::State, rows::subscription_key(id), value));
            for (part, value) in state.map_or_else(Vec::new, |state| state.open.take_changes()) {
                out.push((Space::Open, rows::open_key(id, part), value));
            }
        }
        for id in changed.snapshots {
            let value = self.snapshots.get(&id).map(rows::encode);
            out.push((Space::State, rows::snapshot_key(id), value));
        }
        for id in changed.forgotten {
            let is_gone_whole = !self.forgotten.contains(&id);
            let value = (!is_gone_whole).then(Vec::new);
            out.push((Space::State, rows::forgotten_key(id), value));
        }
        out.push((
            Space::State,
            STAMP_KEY.to_vec(),
            Some(rows::encode(&self.stamp())),
        ));
        out
    }

    fn stamp(&self) -> StampRow {
        StampRow {
            format: rows::FORMAT,
            store_id: self.store_id,
            mark: self.mark,
            group: self.group,
            catalog_revision: self.catalog.revision,
            clean_epoch: self.clean_epoch,
            next_terminal: self.next_terminal,
            first_terminal: self.first_terminal,
            log_time: self.log_time,
        }
    }

    fn take_changed_catalog(&mut self) -> Option<Catalog> {
        let revision = self.catalog.revision;
        if revision == self.saved_revision {
            return None;
        }
        self.saved_revision = revision;
        Some(self.catalog.clone())
    }

    /// Moves the floors of some subscriptions that changed up to their first row: the next scan from there walks over
    /// none of the rows that were removed before it.
    fn raise_due_floors(&mut self) -> Result<(), StoreError> {
        let behind = self.floors_after.unwrap_or(SubscriptionId(0));
        let ids: Vec<_> = self
            .changed
            .subscriptions
            .range(behind..)
            .take(RAISED_FLOORS_MAX)
            .copied()
            .collect();
        self.floors_after = (ids.len() == RAISED_FLOORS_MAX).then(|| ids[ids.len() - 1]);
        for id in ids {
            // The look raises it.
            self.due(id, BEHIND_IN_FLIGHT, Timestamp::MAX, 1)?;
            if let Some(state) = self.subscriptions.get_mut(&id) {
                state.row.due_floor = state.first_due.get();
            }
        }
        Ok(())
    }

    /// Removes some rows of subscriptions that are gone.
    fn remove_forgotten_rows(&mut self) -> Result<(), StoreError> {
        let mut left = FORGOTTEN_ROWS_MAX;
        while let Some(id) = self.forgotten.first().copied() {
            let (from, to) = rows::subscription_range(id);
            for space in [Space::Due, Space::Open] {
                let found = self.layers.scan(space, &from, &to, left)?;
                left -= found.len();
                for (key, _) in found {
                    self.layers.remove(space, &key);
                }
                if left == 0 {
                    return Ok(());
                }
            }
            self.forgotten.remove(&id);
            self.changed.forgotten.insert(id);
        }
        Ok(())
    }
}

pub(super) fn all_rows(table: &dyn Table, space: Space) -> Result<Vec<Row>, StoreError> {
    let mut all = Vec::new();
    let mut from = Vec::new();
    loop {
        let rows = table.scan(space, &from, &[0xFF; 32], SCAN_ROWS)?;
        let is_last = rows.len() < SCAN_ROWS;
        if let Some((key, _)) = rows.last() {
            from.clone_from(key);
            from.push(0);
        }
        all.extend(rows);
        if is_last {
            return Ok(all);
        }
    }
}
