//! The embedded log as the engine sees it: the real one, stepped by a task in place of its thread, with the oracle looking on.

use std::sync::Arc;

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_store::log::Log;
use hedgerow_store::record::{PackedEvents, Record};
use hedgerow_store::{
    Appending, Group, Liveness, RecordRoom, Store, StoreError, StoredEvent, Usage,
};
use tokio::sync::{Notify, watch};

use crate::dice::Dice;
use crate::process::Process;
use crate::world::World;

/// The store of one opening.
pub struct WatchedStore {
    log: Log,
    process: Arc<Process>,
    world: Arc<World>,
    /// Something is queued.
    queued: Notify,
}

impl WatchedStore {
    pub fn new(log: Log, process: Arc<Process>, world: Arc<World>) -> Self {
        Self {
            log,
            process,
            world,
            queued: Notify::new(),
        }
    }

    /// Commits what is queued, again and again, until the log closes. What the commit thread does of a real log.
    pub async fn commit(&self, mut dice: Dice) {
        loop {
            self.queued.notified().await;
            let longest = if self.world.is_calm() {
                2
            } else {
                self.world.plan.commit_ms
            };
            tokio::time::sleep(dice.millis(0..=longest)).await;
            loop {
                if !self.process.step() {
                    return;
                }
                match self.log.commit_queued() {
                    Ok(Some(group)) => self.committed(&group),
                    Ok(None) => break,
                    Err(error) => {
                        self.world.note(format_args!("commit failed: {error}"));
                        return;
                    }
                }
            }
        }
    }

    fn committed(&self, group: &Group) {
        let records = group.records.iter();
        let records = records.filter(|record| !matches!(record, Record::Catalog(_)));
        for record in records {
            match record {
                Record::Events(events) => self.world.note(format_args!(
                    "durable events {} from {} of topic {} published {}",
                    events.packed.count(),
                    events.first_seq,
                    events.topic.0,
                    events.published.as_millis()
                )),
                _ => self.world.note(format_args!("durable {record:?}")),
            }
        }
        self.world.oracle().committed(group);
    }

    /// Closes the log; what is queued is written if the disk still takes it.
    pub fn close(&self) {
        self.log.close();
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.process.step() {
            Ok(())
        } else {
            Err(StoreError::Closed)
        }
    }
}

impl Store for WatchedStore {
    fn append(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError> {
        self.check()?;
        let appending = self.log.append(topic, events.clone())?;
        self.world.oracle().appending(&events);
        self.queued.notify_one();
        Ok(appending)
    }

    fn append_own(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError> {
        self.check()?;
        let appending = self.log.append_own(topic, events.clone())?;
        self.world.oracle().appending(&events);
        self.queued.notify_one();
        Ok(appending)
    }

    fn journal(&self, record: Record) -> Result<(), StoreError> {
        self.check()?;
        self.log.journal(record.clone())?;
        self.queued.notify_one();
        if !matches!(record, Record::Catalog(_)) {
            self.world.note(format_args!("queued {record:?}"));
        }
        self.world.oracle().journaled(self.world.now(), &record);
        Ok(())
    }

    fn durable(&self) -> watch::Receiver<Mark> {
        self.log.durable()
    }

    fn groups(&self, from: Mark, bytes_max: usize) -> Result<Vec<Arc<Group>>, StoreError> {
        if !self.process.is_alive() {
            return Err(StoreError::Closed);
        }
        self.log.groups(from, bytes_max)
    }

    /// What memory does not hold is read at once: a thread for that would make two runs of a seed differ.
    fn read_recent(&self, position: Position) -> Option<StoredEvent> {
        if !self.process.step() {
            return None;
        }
        let recent = self.log.read_recent(position);
        recent.or_else(|| self.log.read(position).ok())
    }

    fn read_recent_from(&self, from: Position, bytes_max: usize) -> Vec<(u64, StoredEvent)> {
        if !self.process.step() {
            return Vec::new();
        }
        let recent = self.log.read_recent_from(from, bytes_max);
        if recent.is_empty() {
            return self.log.read_from(from, bytes_max).unwrap_or_default();
        }
        recent
    }

    fn read(&self, position: Position) -> Result<StoredEvent, StoreError> {
        self.check()?;
        self.log.read(position)
    }

    fn read_from(
        &self,
        from: Position,
        bytes_max: usize,
    ) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        self.check()?;
        self.log.read_from(from, bytes_max)
    }

    fn check_owner(&self) -> Result<(), StoreError> {
        self.check()?;
        self.log.check_owner()
    }

    fn checkpoint(&self, through: Mark, liveness: &dyn Liveness) -> Result<(), StoreError> {
        self.check()?;
        self.log.checkpoint(through, liveness)
    }

    fn read_to_keep(&self, position: Position) -> Result<StoredEvent, StoreError> {
        self.check()?;
        self.log.read_to_keep(position)
    }

    fn usage(&self) -> Usage {
        self.log.usage()
    }

    fn record_room(&self) -> RecordRoom {
        self.log.record_room()
    }
}
