//! The model of a store: one list of groups under a lock. Obvious, slow, trusted. Every record is a group of its own
//! and durable at once, unless commits are held or the store is [`MemoryStore::slow`].
//!
//! Tests run the engine on it, on a paused clock; the embedded store is compared with it. A slow one behaves as a store
//! behind a network does: what is queued becomes durable later, and publishers hear of it later still, in another order.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_core::time::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::disk::faulty::Random;
use crate::error::{Place, StoreError};
use crate::record::{Events, PackedEvents, Record, encode_record};
use crate::{Appended, Appending, Group, Liveness, Store, StoredEvent, Usage};

/// Bytes that the model says a group takes; only the sum matters.
const GROUP_BYTES: usize = 64;

/// A store in memory, as one owner has it open.
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    /// The epoch in which this owner opened it.
    epoch: AtomicU32,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    slowness: Option<Slowness>,
}

/// How late a store is.
struct Slowness {
    /// From queueing to durability; and at most so much from there to the answer.
    delay: Duration,
    random: Mutex<Random>,
}

struct Inner {
    groups: Vec<Arc<Group>>,
    forgotten: usize,
    next_seq: HashMap<TopicId, u64>,
    /// The place in `groups` of the events whose first one stands at a position.
    places: BTreeMap<Position, usize>,
    /// The highest time that a commit has seen.
    high_water: Timestamp,
    /// That of the newest owner. What follows is that owner's.
    epoch: u32,
    /// What was queued and is not durable.
    waiting: Vec<Waiting>,
    is_held: bool,
    /// How many bytes records other than events may take from now on, if that is bounded, and how many they took since.
    record_room: Option<(u64, u64)>,
    /// The longest request that is taken.
    request_bytes_max: usize,
    /// `None` once the store is closed.
    durable: Option<watch::Sender<Mark>>,
}

enum Waiting {
    Append(TopicId, PackedEvents, oneshot::Sender<Appended>),
    Journal(Record),
}

/// Who is to be told what.
type Answer = (oneshot::Sender<Appended>, Appended);

impl MemoryStore {
    /// An empty store whose publish times come from `clock`.
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let inner = Inner {
            groups: Vec::new(),
            forgotten: 0,
            next_seq: HashMap::new(),
            places: BTreeMap::new(),
            high_water: Timestamp::ZERO,
            epoch: 1,
            waiting: Vec::new(),
            is_held: false,
            record_room: None,
            request_bytes_max: usize::MAX,
            durable: Some(watch::Sender::new(Mark::ZERO)),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            epoch: AtomicU32::new(1),
            clock: Arc::new(clock),
            slowness: None,
        }
    }

    /// The same, slow: what is queued becomes durable after `delay`, in order, and whoever appended it is told after
    /// up to `delay` more, in an order that is drawn from `seed`. Follows tokio's clock, and is to be used inside its
    /// runtime.
    pub fn slow(
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        delay: Duration,
        seed: u64,
    ) -> Self {
        Self {
            slowness: Some(Slowness {
                delay,
                random: Mutex::new(Random::new(seed)),
            }),
            ..Self::new(clock)
        }
    }

    /// From now on nothing becomes durable, until [`MemoryStore::release`].
    pub fn hold(&self) {
        self.lock().is_held = true;
    }

    /// Makes durable what was queued, and everything from now on as it comes.
    pub fn release(&self) {
        let now = (self.clock)();
        let mut inner = self.lock();
        inner.is_held = false;
        for waiting in std::mem::take(&mut inner.waiting) {
            tell(inner.commit(waiting, now));
        }
    }

    /// From now on there is room for so many bytes of records other than events.
    pub fn limit_records(&self, bytes: u64) {
        self.lock().record_room = Some((bytes, 0));
    }

    /// The bytes that such records took since then.
    pub fn record_bytes(&self) -> u64 {
        self.lock().record_room.map_or(0, |(_, taken)| taken)
    }

    /// From now on no request with more bytes of events is taken, as in a log with small segments.
    pub fn limit_requests(&self, bytes: usize) {
        self.lock().request_bytes_max = bytes;
    }

    /// Fails as a sync would: what was queued and not durable is gone, every later call is refused.
    pub fn close(&self) {
        self.lock().close();
    }

    /// Opens again what was durable, in a new epoch.
    pub fn reopen(&self) {
        let epoch = self.lock().open();
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Opens the store for another owner. What this one queued and is not durable is gone, and it is fenced.
    #[must_use]
    pub fn take_over(&self) -> Self {
        let epoch = self.lock().open();
        Self {
            inner: Arc::clone(&self.inner),
            epoch: AtomicU32::new(epoch),
            clock: Arc::clone(&self.clock),
            slowness: self.slowness.as_ref().map(|slowness| Slowness {
                delay: slowness.delay,
                random: Mutex::new(Random::new(epoch.into())),
            }),
        }
    }

    /// The epoch in which this owner opened the store: raised each time.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Every group that was ever durable, those that were forgotten too, whether the store is open or not. For checks.
    #[must_use]
    pub fn every_group(&self) -> Vec<Arc<Group>> {
        self.lock().groups.clone()
    }

    /// The highest time that the server is known to have issued. A clock that starts anew goes on from there.
    #[must_use]
    pub fn clock_high_water(&self) -> Timestamp {
        self.lock().high_water
    }

    fn queue(&self, waiting: Waiting) -> Result<(), StoreError> {
        let now = (self.clock)();
        let mut inner = self.open_for(self.epoch())?;
        if let Some(slowness) = &self.slowness {
            inner.waiting.push(waiting);
            self.commit_later(slowness);
        } else if inner.is_held {
            inner.waiting.push(waiting);
        } else {
            tell(inner.commit(waiting, now));
        }
        Ok(())
    }

    /// Makes the oldest of what waits durable after a while, and tells whoever waits for it after another.
    fn commit_later(&self, slowness: &Slowness) {
        let (inner, clock) = (Arc::clone(&self.inner), Arc::clone(&self.clock));
        let (epoch, delay) = (self.epoch(), slowness.delay);
        let further = {
            let mut random = lock(&slowness.random);
            Duration::from_millis(random.below(delay.as_millis() as u64 + 1))
        };
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let now = clock();
            let answer = lock(&inner).commit_oldest(epoch, now);
            tokio::time::sleep(further).await;
            // Of an owner that is gone nobody hears.
            if lock(&inner).check(epoch).is_ok() {
                tell(answer);
            }
        });
    }

    /// The content, if the owner of this epoch may still use it.
    fn open_for(&self, epoch: u32) -> Result<MutexGuard<'_, Inner>, StoreError> {
        let inner = self.lock();
        inner.check(epoch)?;
        Ok(inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// Locks; every section under a lock here leaves the content whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The publisher may have gone away; its events stay.
fn tell(answer: Option<Answer>) {
    if let Some((reply, appended)) = answer {
        let _ = reply.send(appended);
    }
}

impl Inner {
    /// Opens for a new owner what is durable.
    fn open(&mut self) -> u32 {
        self.close();
        let end = self.groups.last().map_or(Mark::ZERO, |group| group.end);
        self.is_held = false;
        self.durable = Some(watch::Sender::new(end));
        self.epoch += 1;
        self.epoch
    }

    fn close(&mut self) {
        self.waiting.clear();
        self.durable = None;
    }

    /// Whether the owner of this epoch may still use the store.
    fn check(&self, epoch: u32) -> Result<(), StoreError> {
        if epoch < self.epoch {
            return Err(StoreError::Fenced {
                store: "the store in memory".to_owned(),
                epoch,
                found: format!("epoch {} has begun", self.epoch),
            });
        }
        if self.durable.is_none() {
            return Err(StoreError::Closed);
        }
        Ok(())
    }

    fn commit_oldest(&mut self, epoch: u32, now: Timestamp) -> Option<Answer> {
        if self.check(epoch).is_err() || self.is_held || self.waiting.is_empty() {
            return None;
        }
        let oldest = self.waiting.remove(0);
        self.commit(oldest, now)
    }

    fn commit(&mut self, waiting: Waiting, now: Timestamp) -> Option<Answer> {
        self.high_water = self.high_water.max(now);
        match waiting {
            Waiting::Journal(record) => {
                self.push(record);
                None
            }
            Waiting::Append(topic, packed, reply) => {
                let published = self.high_water;
                let next = self.next_seq.entry(topic).or_insert(1);
                let first = Position { topic, seq: *next };
                *next += u64::from(packed.count());
                self.places.insert(first, self.groups.len());
                self.push(Record::Events(Events {
                    topic,
                    first_seq: first.seq,
                    published,
                    packed,
                }));
                Some((reply, Appended { first, published }))
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
        let (bytes, bytes_max) = (events.len_bytes(), self.lock().request_bytes_max);
        if bytes > bytes_max {
            return Err(StoreError::TooLarge { bytes, bytes_max });
        }
        let (answer, appending) = oneshot::channel();
        self.queue(Waiting::Append(topic, events, answer))?;
        Ok(appending)
    }

    fn append_own(&self, topic: TopicId, events: PackedEvents) -> Result<Appending, StoreError> {
        // It has no watermark.
        if let Some((_, taken)) = &mut self.lock().record_room {
            *taken += events.len_bytes() as u64;
        }
        self.append(topic, events)
    }

    fn journal(&self, record: Record) -> Result<(), StoreError> {
        if let Some((_, taken)) = &mut self.lock().record_room {
            let mut frame = Vec::new();
            encode_record(&record, &mut frame);
            *taken += frame.len() as u64;
        }
        self.queue(Waiting::Journal(record))
    }

    fn durable(&self) -> watch::Receiver<Mark> {
        let inner = self.open_for(self.epoch()).ok();
        match inner.as_ref().and_then(|inner| inner.durable.as_ref()) {
            Some(durable) => durable.subscribe(),
            None => watch::channel(Mark::ZERO).1,
        }
    }

    fn groups(&self, from: Mark, bytes_max: usize) -> Result<Vec<Arc<Group>>, StoreError> {
        let inner = self.open_for(self.epoch())?;
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
        self.open_for(self.epoch()).ok()?.read(position)
    }

    fn read(&self, position: Position) -> Result<StoredEvent, StoreError> {
        let inner = self.open_for(self.epoch())?;
        inner
            .read(position)
            .ok_or_else(|| inner.forgotten(position))
    }

    fn read_from(
        &self,
        from: Position,
        bytes_max: usize,
    ) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        let inner = self.open_for(self.epoch())?;
        let mut read = Vec::new();
        let mut bytes = 0;
        for seq in from.seq..u64::MAX {
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

    fn check_owner(&self) -> Result<(), StoreError> {
        self.lock().check(self.epoch())
    }

    fn checkpoint(&self, through: Mark, liveness: &dyn Liveness) -> Result<(), StoreError> {
        let mut inner = self.open_for(self.epoch())?;
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
            record_room_bytes: inner
                .record_room
                .map_or(u64::MAX, |(limit, taken)| limit.saturating_sub(taken)),
            ..Usage::default()
        }
    }
}

fn seqs(events: &Events) -> RangeInclusive<u64> {
    events.first_seq..=events.first_seq + u64::from(events.packed.count()) - 1
}
