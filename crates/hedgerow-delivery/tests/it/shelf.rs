//! The model store, whose reads of single events fail or wait when a test says so.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_store::error::Place;
use hedgerow_store::memory::MemoryStore;
use hedgerow_store::record::{PackedEvents, Record};

use hedgerow_store::{Appending, Group, Liveness, Store, StoreError, StoredEvent, Usage};
use tokio::sync::{Notify, watch};

/// What becomes of reading an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It waits until another one is set.
    Waits,
    /// The event is not there any more.
    Forgotten,
    /// The same, but memory remembers it.
    Remembered,
    /// Its block is damaged.
    Damaged,
}

pub struct Shelf {
    inner: Arc<MemoryStore>,
    readings: Mutex<HashMap<Position, Reading>>,
    changed: Condvar,
    waits: Notify,
}

impl Shelf {
    pub fn new(inner: Arc<MemoryStore>) -> Self {
        Self {
            inner,
            readings: Mutex::default(),
            changed: Condvar::new(),
            waits: Notify::new(),
        }
    }

    /// From now on the event is read so.
    pub fn set(&self, topic: TopicId, seq: u64, reading: Reading) {
        let position = Position { topic, seq };
        self.readings.lock().unwrap().insert(position, reading);
        self.changed.notify_all();
    }

    /// Until somebody reads an event whose reading waits. The paused clock stands still from then on.
    pub async fn somebody_waits(&self) {
        self.waits.notified().await;
    }
}

fn forgotten(position: Position) -> StoreError {
    StoreError::Forgotten {
        what: Place::Position(position),
        oldest: Mark::ZERO,
    }
}

impl Store for Shelf {
    fn append(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError> {
        self.inner.append(topic, events)
    }

    fn append_own(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError> {
        self.inner.append_own(topic, events)
    }

    fn journal(&self, record: Record) -> Result<(), StoreError> {
        self.inner.journal(record)
    }

    fn durable(&self) -> watch::Receiver<Mark> {
        self.inner.durable()
    }

    fn groups(&self, from: Mark, bytes_max: usize) -> Result<Vec<Arc<Group>>, StoreError> {
        self.inner.groups(from, bytes_max)
    }

    fn read_recent(&self, position: Position) -> Option<StoredEvent> {
        let is_plain = !self.readings.lock().unwrap().contains_key(&position);
        let recent = is_plain.then(|| self.inner.read_recent(position));
        recent.flatten()
    }

    fn read(&self, position: Position) -> Result<StoredEvent, StoreError> {
        let mut readings = self.readings.lock().unwrap();
        if readings.get(&position) == Some(&Reading::Waits) {
            self.waits.notify_one();
        }
        while readings.get(&position) == Some(&Reading::Waits) {
            readings = self.changed.wait(readings).unwrap();
        }
        match readings.get(&position) {
            Some(Reading::Forgotten) => Err(forgotten(position)),
            Some(Reading::Damaged) => Err(StoreError::Damaged {
                what: "a block".to_owned(),
            }),
            Some(Reading::Waits | Reading::Remembered) | None => self.inner.read(position),
        }
    }

    fn read_to_keep(&self, position: Position) -> Result<StoredEvent, StoreError> {
        if self.readings.lock().unwrap().get(&position) == Some(&Reading::Remembered) {
            return Err(forgotten(position));
        }
        self.read(position)
    }

    fn read_from(
        &self,
        from: Position,
        bytes_max: usize,
    ) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        self.inner.read_from(from, bytes_max)
    }

    fn check_owner(&self) -> Result<(), StoreError> {
        self.inner.check_owner()
    }

    fn checkpoint(&self, through: Mark, liveness: &dyn Liveness) -> Result<(), StoreError> {
        self.inner.checkpoint(through, liveness)
    }

    fn usage(&self) -> Usage {
        self.inner.usage()
    }
}
