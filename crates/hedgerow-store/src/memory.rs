//! The model of a store: one list of groups under a lock. Obvious, slow, trusted. Every record is a group of its own
//! and durable at once, unless commits are held.
//!
//! Tests run the engine on it, on a paused clock; the embedded store is compared with it.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_core::time::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::error::{Place, StoreError};
use crate::record::{Events, PackedEvents, Record};
use crate::{Appended, Appending, Group, Liveness, Store, StoredEvent, Usage};

/// Bytes that the model says a group takes; only the sum matters.
const GROUP_BYTES: usize = 64;

/// A store in memory.
pub struct MemoryStore {
    inner: Mutex<Inner>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

struct Inner {
    groups: Vec<Arc<Group>>,
    forgotten: usize,
    next_seq: HashMap<TopicId, u64>,
    /// The place in `groups` of the events whose first one stands at a position.
    places: BTreeMap<Position, usize>,
    /// What was queued while commits are held.
    waiting: Vec<Waiting>,
    is_held: bool,
    /// `None` once the store is closed.
    durable: Option<watch::Sender<Mark>>,
}

enum Waiting {
    Append(TopicId, PackedEvents, oneshot::Sender<Appended>),
    Journal(Record),
}

impl MemoryStore {
    /// An empty store whose publish times come from `clock`.
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let inner = Inner {
            groups: Vec::new(),
            forgotten: 0,
            next_seq: HashMap::new(),
            places: BTreeMap::new(),
            waiting: Vec::new(),
            is_held: false,
            durable: Some(watch::Sender::new(Mark::ZERO)),
        };
        Self {
            inner: Mutex::new(inner),
            clock: Box::new(clock),
        }
    }

    /// From now on nothing becomes durable, until [`MemoryStore::release`].
    pub fn hold(&self) {
        self.lock().is_held = true;
    }

    /// Makes durable what was queued, and everything from now on at once.
    pub fn release(&self) {
        let mut inner = self.lock();
        inner.is_held = false;
        for waiting in std::mem::take(&mut inner.waiting) {
            inner.commit(waiting, (self.clock)());
        }
    }

    /// Fails as a sync would: what was queued and not durable is gone, every later call is refused.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.waiting.clear();
        inner.durable = None;
    }

    /// Opens again what was durable.
    pub fn reopen(&self) {
        let mut inner = self.lock();
        let end = inner.groups.last().map_or(Mark::ZERO, |group| group.end);
        inner.is_held = false;
        inner.durable = Some(watch::Sender::new(end));
    }

    fn queue(&self, waiting: Waiting) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.durable.is_none() {
            return Err(StoreError::Closed);
        }
        if inner.is_held {
            inner.waiting.push(waiting);
        } else {
            inner.commit(waiting, (self.clock)());
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn commit(&mut self, waiting: Waiting, now: Timestamp) {
        match waiting {
            Waiting::Journal(record) => self.push(record),
            Waiting::Append(topic, packed, answer) => {
                let next = self.next_seq.entry(topic).or_insert(1);
                let first_seq = *next;
                *next += u64::from(packed.count());
                self.places.insert(
                    Position {
                        topic,
                        seq: first_seq,
                    },
                    self.groups.len(),
                );
                self.push(Record::Events(Events {
                    topic,
                    first_seq,
                    published: now,
                    packed,
                }));
                // The publisher may have gone away; its events stay.
                let first = Position {
                    topic,
                    seq: first_seq,
                };
                let _ = answer.send(Appended {
                    first,
                    published: now,
                });
            }
        }
    }

    fn push(&mut self, record: Record) {
        let number = self.groups.len() as u64 + 1;
        let start = Mark(number * GROUP_BYTES as u64);
        let end = Mark(start.0 + GROUP_BYTES as u64);
        self.groups.push(Arc::new(Group {
            number,
            start,
            end,
            records: vec![record],
            bytes: GROUP_BYTES,
        }));
        if let Some(durable) = &self.durable {
            durable.send_replace(end);
        }
    }

    fn forgotten(&self, position: Position) -> StoreError {
        let oldest = self
            .groups
            .get(self.forgotten)
            .map_or(Mark::ZERO, |group| group.start);
        StoreError::Forgotten {
            what: Place::Position(position),
            oldest,
        }
    }

    fn read(&self, position: Position) -> Option<StoredEvent> {
        let (_, place) = self.places.range(..=position).next_back()?;
        let group = self.groups[self.forgotten..].get(place.checked_sub(self.forgotten)?)?;
        match group.records.first() {
            Some(Record::Events(events)) => events.event_at(position),
            _ => None,
        }
    }
}

impl Store for MemoryStore {
    fn append(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError> {
        let (answer, appending) = oneshot::channel();
        self.queue(Waiting::Append(topic, events, answer))?;
        Ok(appending)
    }

    fn journal(&self, record: Record) -> Result<(), StoreError> {
        self.queue(Waiting::Journal(record))
    }

    fn durable(&self) -> watch::Receiver<Mark> {
        match &self.lock().durable {
            Some(durable) => durable.subscribe(),
            None => watch::channel(Mark::ZERO).1,
        }
    }

    fn groups(&self, from: Mark, bytes_max: usize) -> Result<Vec<Arc<Group>>, StoreError> {
        let inner = self.lock();
        let begin = inner
            .groups
            .partition_point(|group| group.start < from)
            .max(inner.forgotten);
        Ok(inner.groups[begin..]
            .iter()
            .take((bytes_max / GROUP_BYTES).max(1))
            .cloned()
            .collect())
    }

    fn read_recent(&self, position: Position) -> Option<StoredEvent> {
        self.lock().read(position)
    }

    fn read(&self, position: Position) -> Result<StoredEvent, StoreError> {
        let inner = self.lock();
        inner
            .read(position)
            .ok_or_else(|| inner.forgotten(position))
    }

    fn read_from(
        &self,
        from: Position,
        bytes_max: usize,
    ) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        let inner = self.lock();
        let mut read = Vec::new();
        let mut bytes = 0;
        for seq in from.seq.. {
            let Some(event) = inner.read(Position {
                topic: from.topic,
                seq,
            }) else {
                break;
            };
            bytes += event.bytes.len();
            if !read.is_empty() && bytes > bytes_max {
                break;
            }
            read.push((seq, event));
        }
        if read.is_empty() {
            Err(inner.forgotten(from))
        } else {
            Ok(read)
        }
    }

    fn checkpoint(&self, through: Mark, liveness: &dyn Liveness) -> Result<(), StoreError> {
        let mut inner = self.lock();
        while let Some(group) = inner.groups.get(inner.forgotten) {
            let is_needed = group.records.iter().any(|record| match record {
                Record::Events(events) => liveness.is_needed(events.topic, seqs(events)),
                _ => false,
            });
            if is_needed || group.end > through {
                break;
            }
            inner.forgotten += 1;
        }
        Ok(())
    }

    fn usage(&self) -> Usage {
        let inner = self.lock();
        let used_bytes = ((inner.groups.len() - inner.forgotten) * GROUP_BYTES) as u64;
        Usage {
            used_bytes,
            watermark_bytes: u64::MAX,
            ..Usage::default()
        }
    }
}

fn seqs(events: &Events) -> RangeInclusive<u64> {
    events.first_seq..=events.first_seq + u64::from(events.packed.count()) - 1
}
