//! What is looked up: cursors, exceptions, due deliveries, terminal records, counters and the catalog. Built by folding
//! the log's records in their order and from nothing else, so that the same log always gives the same view, whatever
//! crashed in between (design D8).
//!
//! Shape of the data:
//! - A *cursor* is the first event a subscription may still have to attempt. It has none of its own while it stands at
//!   the reader: a READ record moves all of them at once.
//! - The *exceptions* of a subscription are the events before its cursor that are not settled ([`open_set`]). Each has
//!   one row in the *due index*, `(subscription, due, seq) -> Progress`, under due time 0 while its attempt runs. So a
//!   crash finds what was in flight by looking there, and nothing is written twice for it (ED-207).
//! - Settling removes the row. What ended undelivered becomes a *terminal record*.
//!
//! What is small lives in memory (one entry a topic and a subscription, and the bitmaps); rows that are many lie in
//! layers over a table ([`layers`]). A checkpoint writes both in one batch with the *stamp*, the mark up to which the
//! log has been folded. Opening loads the stamp and folds what came after it.

mod acks;
pub(crate) mod baseline;
pub(crate) mod catalog_files;
pub(crate) mod check;
mod checkpoint;
mod layers;
mod liveness;
mod look;
mod open_set;
mod pending;
mod publish_ids;
mod rebuild;
mod replay;
mod rows;
mod stat;
pub mod table;
mod terminal;

use std::cell::Cell;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::position::{Mark, Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;

pub use self::acks::chunks_of;
use self::baseline::Baselines;
pub use self::checkpoint::Checkpoint;
use self::layers::Layers;
pub use self::look::{BEHIND_IN_FLIGHT, DueDelivery, FIRST_IN_FLIGHT};
use self::open_set::OpenSet;
pub use self::pending::PendingPage;
pub use self::publish_ids::Published;
pub use self::rows::Counters;
use self::rows::{SubscriptionRow, TopicRow};
use self::table::{Space, Table};
pub use self::terminal::{Disposition, TerminalFilter, TerminalPage, TerminalRecord};
use crate::Group;
use crate::catalog::{self, Catalog, Change, LastPlace};
use crate::error::StoreError;
use crate::record::{
    CatalogChange, Dead, DeadThen, Divided, Events, Failed, FailedDelivery, IN_FLIGHT, Owed, Read,
    Record, Settled, SnapshotPlace, Started, StartedDelivery,
};
use crate::secrets::Secrets;

/// The view of one store. Owned by one thread.
pub struct View {
    layers: Layers,
    catalog: Catalog,
    /// The catalog's revision that the newest catalog file holds.
    saved_revision: u64,
    topics: BTreeMap<TopicId, TopicRow>,
    subscriptions: BTreeMap<SubscriptionId, SubscriptionState>,
    /// The subscriptions of each topic.
    members: BTreeMap<TopicId, Vec<SubscriptionId>>,
    /// Gone subscriptions whose rows are still in the table.
    forgotten: BTreeSet<SubscriptionId>,
    changed: ChangedRows,
    secrets: Arc<Secrets>,
    /// The JSON of the change that was read last, and the change: three ask for each one.
    change_read_last: RefCell<Option<(Bytes, Arc<Change>)>>,
    store_id: [u8; 16],
    clean_epoch: u32,
    mark: Mark,
    group: u64,
    next_terminal: u64,
    first_terminal: u64,
    terminal_records_max: u64,
    /// Where the next checkpoint goes on raising floors.
    floors_after: Option<SubscriptionId>,
    baselines: Baselines,
    /// Catalogs that a baseline names and that have no file yet.
    unsaved_catalogs: Vec<Catalog>,
    snapshots: BTreeMap<u32, SnapshotPlace>,
    /// Events that somebody looks at, and how many do: they stay. In memory only.
    pins: BTreeMap<Position, usize>,
    /// The newest publish time folded: the time by which pins and publish ids expire.
    log_time: Timestamp,
}

#[derive(Default)]
struct SubscriptionState {
    /// `None` only for a row whose subscription the catalog does not know.
    topic: Option<TopicId>,
    row: SubscriptionRow,
    open: OpenSet,
    /// As [`SubscriptionRow::due_floor`], but raised by every look that walked over removed rows.
    first_due: Cell<Timestamp>,
}

impl SubscriptionState {
    fn new(topic: Option<TopicId>, row: SubscriptionRow, open: OpenSet) -> Self {
        Self {
            topic,
            first_due: row.due_floor.into(),
            row,
            open,
        }
    }

    /// The cursor goes past an event that is attempted, or ended, for the first time.
    fn pass(&mut self, seq: u64) {
        self.row.cursor = Some(self.row.cursor.unwrap_or(0).max(seq + 1));
    }
}

/// Rows in memory that changed since the last checkpoint.
#[derive(Default)]
struct ChangedRows {
    topics: BTreeSet<TopicId>,
    subscriptions: BTreeSet<SubscriptionId>,
    /// Gone since, or all their rows removed since.
    forgotten: BTreeSet<SubscriptionId>,
    snapshots: BTreeSet<u32>,
}

/// The view's name and age, given by the store that it is built from.
#[derive(Debug, Clone, Copy)]
pub struct ViewOptions {
    /// The store's id: a view of another store is refused.
    pub store_id: [u8; 16],
    /// How many terminal records are kept; the oldest go first.
    pub terminal_records_max: u64,
}

impl View {
    /// Folds the next group.
    ///
    /// # Errors
    /// [`StoreError::ViewBehind`] if a group is missing before it.
    pub fn fold(&mut self, group: &Group) -> Result<(), StoreError> {
        self.begin_group(group)?;
        for record in &group.records {
            self.fold_record(record)?;
        }
        self.end_group(group);
        Ok(())
    }

    /// Says that the records of `group` come next, each through [`View::fold_record`].
    pub fn begin_group(&mut self, group: &Group) -> Result<(), StoreError> {
        if group.number == self.group + 1 {
            self.take_baseline(group.start.segment(), group.bytes);
            Ok(())
        } else {
            Err(StoreError::ViewBehind {
                stamp: self.mark,
                oldest: group.start,
            })
        }
    }

    /// Says that all records of `group` were folded.
    pub fn end_group(&mut self, group: &Group) {
        self.mark = group.end;
        self.group = group.number;
    }

    /// Folds one record.
    pub fn fold_record(&mut self, record: &Record) -> Result<(), StoreError> {
        match record {
            Record::Events(events) => self.fold_events(events),
            Record::Started(started) => self.fold_started(started),
            Record::Failed(failed) => self.fold_failed(failed),
            Record::Settled(settled) => self.fold_settled(settled),
            Record::Dead(dead) => self.fold_dead(dead),
            Record::Read(read) => self.fold_read(read),
            Record::Catalog(change) => return self.fold_catalog(change),
            Record::CleanStop(stop) => self.clean_epoch = stop.epoch,
            Record::Hold(hold) => self.fold_hold(hold),
            Record::Moved(moved) => self.fold_moved(moved),
            Record::Lease(lease) => self.fold_lease(lease),
            Record::Seek(seek) => return self.fold_seek(seek),
            Record::Snapshot(snapshot) => self.fold_snapshot(snapshot),
            Record::Purged(purged) => self.fold_purged(purged),
            Record::Resent(resent) => self.fold_resent(resent),
            Record::Begun(begun) => self.fold_begun(begun),
            Record::Divided(divided) => self.fold_divided(divided),
        }
        Ok(())
    }

    /// The end of the last group folded.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// What users declared, as of the last record folded.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The record that makes `change` the next one of the catalog, its secrets sealed.
    pub fn catalog_record(&self, change: &Change) -> Result<CatalogChange, StoreError> {
        let json = change.to_sealed_json(&self.secrets)?;
        Ok(CatalogChange {
            revision: self.catalog.revision + 1,
            json: json.into(),
        })
    }

    /// The change in a record of the log, its secrets unsealed. Whoever asks about the same record in turn gets what was read
    /// for the first one.
    ///
    /// # Errors
    /// [`StoreError::Newer`] if it cannot be read, as only a newer version can have written it; [`StoreError::Key`] if its
    /// secrets were sealed with another key.
    pub fn change_in(&self, record: &CatalogChange) -> Result<Arc<Change>, StoreError> {
        let mut last = self.change_read_last.borrow_mut();
        if let Some((json, change)) = &*last
            && *json == record.json
        {
            return Ok(Arc::clone(change));
        }
        let change = Arc::new(Change::from_sealed_json(&record.json, &self.secrets)?);
        *last = Some((record.json.clone(), Arc::clone(&change)));
        Ok(change)
    }

    fn fold_events(&mut self, events: &Events) {
        // Its topic may have been deleted while it was on its way.
        let Some(row) = self.topics.get_mut(&events.topic) else {
            return;
        };
        row.next_seq = events.first_seq + u64::from(events.packed.count());
        self.changed.topics.insert(events.topic);
        self.log_time = self.log_time.max(events.published);
        self.note_publish_id(events);
    }

    fn fold_started(&mut self, started: &Started) {
        for delivery in &started.deliveries {
            self.start(started.subscription, delivery, IN_FLIGHT);
        }
    }

    fn start(&mut self, id: SubscriptionId, delivery: &StartedDelivery, row: Timestamp) {
        // A subscription may be gone while records about it were still queued.
        let Some(state) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if let Some(due) = delivery.replaces_due {
            if !state.open.contains(delivery.seq) {
                return;
            }
            self.layers
                .remove(Space::Due, &rows::due_key(id, due, delivery.seq));
        } else {
            state.pass(delivery.seq);
            if !state.open.insert(delivery.seq) {
                return;
            }
            state.row.counters.matched += 1;
        }
        self.put_owed(id, row, delivery.seq, &Owed::Attempt(delivery.progress));
        self.changed.subscriptions.insert(id);
    }

    fn fold_failed(&mut self, failed: &Failed) {
        for FailedDelivery { seq, due, progress } in &failed.deliveries {
            let owed = Owed::Attempt(*progress);
            self.land(failed.subscription, *seq, *due, &owed);
        }
    }

    fn fold_divided(&mut self, divided: &Divided) {
        for delivery in &divided.deliveries {
            let owed = Owed::Apart(delivery.progress, delivery.part);
            self.land(divided.subscription, delivery.seq, delivery.due, &owed);
        }
    }

    /// A delivery in flight is due again.
    fn land(&mut self, id: SubscriptionId, seq: u64, due: Timestamp, owed: &Owed) {
        let Some(state) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if !state.open.contains(seq) {
            return;
        }
        self.layers
            .remove(Space::Due, &rows::due_key(id, IN_FLIGHT, seq));
        self.put_owed(id, due, seq, owed);
        self.changed.subscriptions.insert(id);
    }

    fn fold_settled(&mut self, settled: &Settled) {
        let id = settled.subscription;
        let Some(state) = self.subscriptions.get_mut(&id) else {
            return;
        };
        for (seq, due) in &settled.deliveries {
            if state.open.remove(*seq) {
                state.row.counters.delivered += 1;
                self.layers
                    .remove(Space::Due, &rows::due_key(id, *due, *seq));
            }
        }
        self.changed.subscriptions.insert(id);
    }

    fn fold_dead(&mut self, dead: &Dead) {
        let id = dead.subscription;
        let Some(state) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if let Some(due) = dead.due {
            if !state.open.contains(dead.seq) {
                return;
            }
            self.layers
                .remove(Space::Due, &rows::due_key(id, due, dead.seq));
        } else {
            state.pass(dead.seq);
            // As for a start: what is unsettled already cannot begin, or end as if it never had.
            if state.open.contains(dead.seq) {
                return;
            }
            state.row.counters.matched += 1;
        }
        self.changed.subscriptions.insert(id);
        let disposition = match dead.then {
            DeadThen::WriteDue(due, write) => {
                state.open.insert(dead.seq);
                let owed = Owed::DeadLetter(dead.pending(write));
                return self.put_owed(id, due, dead.seq, &owed);
            }
            DeadThen::Dropped(reason) => {
                state.row.counters.dropped += 1;
                Disposition::Dropped(reason)
            }
            DeadThen::Written => {
                state.row.counters.dead_lettered += 1;
                Disposition::DeadLettered
            }
        };
        state.open.remove(dead.seq);
        self.put_terminal(dead, disposition);
    }

    fn fold_read(&mut self, read: &Read) {
        let Some(row) = self.topics.get_mut(&read.topic) else {
            return;
        };
        row.read_to = read.read_to;
        self.changed.topics.insert(read.topic);
        let laggards: BTreeMap<_, _> = read.laggards.iter().copied().collect();
        for id in self.members.get(&read.topic).into_iter().flatten() {
            let Some(state) = self.subscriptions.get_mut(id) else {
                continue;
            };
            // A subscription that was created while this record was queued stands ahead of it, and stays there.
            let is_ahead = state.row.cursor.is_some_and(|cursor| cursor > read.read_to);
            // One that was purged while this record was queued stays where it was put.
            let purged_to = self.catalog.purged_to(*id);
            let cursor = laggards.get(id).map(|cursor| (*cursor).max(purged_to));
            if !is_ahead && state.row.cursor != cursor {
                state.row.cursor = cursor;
                self.changed.subscriptions.insert(*id);
            }
            let stands_at = state.row.cursor.unwrap_or(read.read_to);
            self.catalog.forget_filters_before(*id, stands_at);
        }
    }

    fn fold_catalog(&mut self, record: &CatalogChange) -> Result<(), StoreError> {
        let change = self.change_in(record)?;
        let places = self.places_of_leaving(&change);
        match &*change {
            Change::TopicCreated { id, .. } => {
                self.topics.insert(
                    *id,
                    TopicRow {
                        next_seq: 1,
                        read_to: 1,
                    },
                );
                self.changed.topics.insert(*id);
            }
            Change::TopicDeleted { id } => {
                self.topics.remove(id);
                self.changed.topics.insert(*id);
                self.forget_snapshots_of(*id);
            }
            Change::TopicUpdated { .. }
            | Change::TopicKeysChanged { .. }
            | Change::DomainTopicCreated { .. }
            | Change::DomainTopicDeleted { .. }
            | Change::SubscriptionCreated { .. }
            | Change::SubscriptionUpdated { .. }
            | Change::SubscriptionValidated { .. }
            | Change::OriginValidated { .. }
            | Change::OriginsFollowed { .. }
            | Change::SubscriptionPaused { .. }
            | Change::SubscriptionPurgeEnded { .. }
            | Change::SubscriptionDeleted { .. }
            | Change::ReplayCreated { .. }
            | Change::ReplayMoved { .. }
            | Change::ReplaySet { .. }
            | Change::OriginGroupDeclared { .. }
            | Change::OriginGroupDeleted { .. }
            | Change::RouteDeclared { .. }
            | Change::RouteDeleted { .. } => {}
            Change::SubscriptionReset { id } => self.end_holds_of_former(*id, false),
            Change::SubscriptionPurged { id, .. } => self.pass_all(*id),
        }
        let subscription = change.subscription();
        let former = subscription.and_then(|id| self.catalog.subscription(id));
        let former = former.map(|found| found.spec.destination.clone());
        let topics = &self.topics;
        let next_seq = |topic| topics.get(&topic).map_or(1, |row| row.next_seq);
        for id in self.catalog.apply(Change::clone(&change), next_seq) {
            self.forget(id);
        }
        for place in places {
            self.catalog.note_place_of_gone(place);
        }
        if let Some(id) = subscription {
            self.begin_if_active(id);
            self.follow_destination(id, former);
        }
        Ok(())
    }

    /// Where the subscriptions stand that go with a change.
    fn places_of_leaving(&self, change: &Change) -> Vec<LastPlace> {
        let leaving = self.catalog.leaving_with(change).into_iter();
        let places = leaving.map(|id| {
            let state = self.subscriptions.get(&id);
            let open = state.into_iter().flat_map(|state| state.open.iter());
            LastPlace {
                id,
                from_seq: self.cursor(id),
                begun: catalog::ranges(open),
            }
        });
        places.collect()
    }

    /// A subscription that is active from here on gets a row, at the place where it begins. One that waits for its endpoint
    /// has none, and keeps nothing of the log.
    fn begin_if_active(&mut self, id: SubscriptionId) {
        let found = self.catalog.subscription(id);
        let active = found.filter(|found| found.is_active());
        let Some(topic) = active.map(|found| found.topic) else {
            return;
        };
        if self.subscriptions.contains_key(&id) {
            return;
        }
        let row = SubscriptionRow {
            cursor: Some(self.next_seq(topic)),
            ..Default::default()
        };
        let state = SubscriptionState::new(Some(topic), row, OpenSet::default());
        self.subscriptions.insert(id, state);
        self.members.entry(topic).or_default().push(id);
        self.changed.subscriptions.insert(id);
    }

    /// The subscription is gone: its rows are removed bit by bit, at checkpoints.
    fn forget(&mut self, id: SubscriptionId) {
        let topic = self.subscriptions.remove(&id).and_then(|state| state.topic);
        if let Some(members) = topic.and_then(|topic| self.members.get_mut(&topic)) {
            members.retain(|member| *member != id);
        }
        self.changed.subscriptions.insert(id);
        self.forgotten.insert(id);
        self.changed.forgotten.insert(id);
    }

    fn put_owed(&mut self, id: SubscriptionId, due: Timestamp, seq: u64, owed: &Owed) {
        if due != IN_FLIGHT
            && let Some(state) = self.subscriptions.get_mut(&id)
        {
            state.row.due_floor = state.row.due_floor.min(due);
            state.first_due = state.first_due.get().min(due).into();
        }
        self.layers.put_new(
            Space::Due,
            &rows::due_key(id, due, seq),
            rows::encode_short(owed),
        );
    }

    /// Takes a subscription as it was stored.
    fn restore_subscription(&mut self, id: SubscriptionId, row: SubscriptionRow, open: OpenSet) {
        let declared = self.catalog.subscription(id);
        let topic = declared.map(|subscription| subscription.topic);
        if let Some(topic) = topic {
            self.members.entry(topic).or_default().push(id);
        }
        self.subscriptions
            .insert(id, SubscriptionState::new(topic, row, open));
    }

    /// The table under the view.
    #[must_use]
    pub fn table(&self) -> &Arc<dyn Table> {
        self.layers.table()
    }
}
