//! Random operations on the store and on the plain model, which is obvious: they answer the same.

use std::sync::Arc;

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_core::time::Timestamp;

use super::{Fixture, Floors, NextSeqs, event, records_from, settled};
use crate::disk::faulty::Random;
use crate::memory::MemoryStore;
use crate::record::{PackedEvents, Record};
use crate::{Store, StoreError};

const TOPICS: u64 = 3;
const STEPS: u64 = 1500;

/// The two stores, and where each of them has been followed to.
struct Both<'a> {
    fixture: &'a mut dyn Fixture,
    store: Arc<dyn Store>,
    model: MemoryStore,
    followed: (Mark, Mark),
    next_seqs: NextSeqs,
    floors: Floors,
    forgotten_alike: u32,
    openings: u32,
}

/// With crashes and openings in between. Only how long each of them keeps what may go, and how much comes at once, is
/// their own choice.
pub async fn the_store_answers_as_the_model_does(fixture: &mut dyn Fixture) {
    let store = fixture.open(&NextSeqs::new());
    let time = fixture.time().clone();
    let mut random = Random::new(7);
    let mut both = Both {
        fixture,
        store,
        model: MemoryStore::new(move || time.now()),
        followed: (Mark::ZERO, Mark::ZERO),
        next_seqs: NextSeqs::new(),
        floors: Floors((0..TOPICS as u32).map(|id| (TopicId(id), 0)).collect()),
        forgotten_alike: 0,
        openings: 0,
    };
    for _ in 0..STEPS {
        both.step(&mut random).await;
    }
    both.follow().await;
    assert!(both.forgotten_alike > 10 && both.openings > 10);
    both.fixture.close();
}

impl Both<'_> {
    async fn step(&mut self, random: &mut Random) {
        let topic = TopicId(random.below(TOPICS) as u32);
        let next = *self.next_seqs.entry(topic).or_insert(1);
        match random.below(40) {
            0..18 => self.append(topic, random).await,
            18..22 => {
                self.store.journal(settled(next)).expect("journaled");
                self.model.journal(settled(next)).expect("journaled");
            }
            22..26 => self.follow().await,
            26..30 => self.checkpoint(topic, next.saturating_sub(random.below(20))),
            30 => self.reopen(random.one_in(2)).await,
            _ => {
                let seq = random.below(next + 2);
                self.read(Position { topic, seq }, random.below(8000) as usize);
            }
        }
    }

    async fn append(&mut self, topic: TopicId, random: &mut Random) {
        let ids: Vec<_> = (0..=random.below(4)).map(|id| id.to_string()).collect();
        let events: Vec<_> = ids
            .iter()
            .map(|id| event(id, random.below(1500) as usize))
            .collect();
        let packed = PackedEvents::pack(&events);
        let one = self.store.append(topic, packed.clone()).expect("appended");
        let other = self.model.append(topic, packed).expect("appended");
        let first = one.await.expect("it becomes durable").first;
        let expected = other.await.expect("the model is durable at once").first;
        assert_eq!(first, expected);
        self.next_seqs.insert(topic, first.seq + ids.len() as u64);
    }

    /// Follows both to their ends; they show the same records.
    async fn follow(&mut self) {
        let expected = self.model.groups(self.followed.1, usize::MAX);
        let expected = expected.expect("the model is open");
        self.followed.1 = expected.last().map_or(self.followed.1, |last| last.end);
        let expected: Vec<_> = expected
            .iter()
            .flat_map(|group| group.records.clone())
            .map(without_time)
            .collect();
        let (end, found) = records_from(&*self.store, self.followed.0, expected.len()).await;
        self.followed.0 = end;
        let found: Vec<_> = found.into_iter().map(without_time).collect();
        assert_eq!(found, expected);
    }

    fn checkpoint(&mut self, topic: TopicId, floor: u64) {
        let known = self.floors.0.entry(topic).or_default();
        *known = floor.max(*known);
        self.store
            .checkpoint(self.followed.0, &self.floors)
            .expect("checkpointed");
        self.model
            .checkpoint(self.followed.1, &self.floors)
            .expect("checkpointed");
    }

    async fn reopen(&mut self, crashes: bool) {
        // What was journaled is durable then.
        self.follow().await;
        if crashes {
            self.fixture.crash();
        } else {
            self.fixture.close();
        }
        self.store = self.fixture.open(&self.next_seqs);
        self.openings += 1;
    }

    fn read(&mut self, position: Position, bytes_max: usize) {
        match (self.store.read(position), self.model.read(position)) {
            (Ok(one), Ok(other)) => assert_eq!(one.bytes, other.bytes),
            // A store may keep longer what it need not.
            (Ok(_), Err(StoreError::Forgotten { .. })) => {}
            (Err(StoreError::Forgotten { .. }), Err(StoreError::Forgotten { .. })) => {
                self.forgotten_alike += 1;
            }
            (one, other) => panic!("{position:?}: {one:?}, the model {other:?}"),
        }
        let (Ok(one), Ok(other)) = (
            self.store.read_from(position, bytes_max),
            self.model.read_from(position, bytes_max),
        ) else {
            return;
        };
        for ((seq, one), (expected, other)) in one.iter().zip(&other) {
            assert_eq!((seq, &one.bytes), (expected, &other.bytes));
        }
    }
}

/// The clock is looked at when the store likes.
fn without_time(mut record: Record) -> Record {
    if let Record::Events(events) = &mut record {
        events.published = Timestamp::ZERO;
    }
    record
}
