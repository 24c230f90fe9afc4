//! Random operations on the log and on the memory store, which is obvious: they answer the same.

use std::collections::HashMap;

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_store::disk::faulty::{FaultyDisk, Random};
use hedgerow_store::log::Log;
use hedgerow_store::memory::MemoryStore;
use hedgerow_store::record::{PackedEvents, Record};
use hedgerow_store::{Store, StoreError};

use crate::support::{Floors, event, settled, small, ticking};

const TOPICS: u64 = 3;

/// The two stores, and where each of them has been followed to.
struct Both {
    log: Log,
    memory: MemoryStore,
    followed: (Mark, Mark),
    next_seqs: HashMap<TopicId, u64>,
    floors: Floors,
    /// How often the log still had what the model had forgotten; it forgets whole segments only.
    kept_longer: u32,
    forgotten_alike: u32,
}

#[test]
fn the_log_answers_as_the_memory_store_does() {
    let mut recycled = 0;
    let (mut kept_longer, mut forgotten_alike) = (0, 0);
    for seed in 0..10 {
        let clock = ticking(1);
        let recovered = Log::open(FaultyDisk::new(seed).mount(), small(), ticking(1)).unwrap();
        let mut both = Both {
            log: recovered.start_synchronous(&HashMap::new()),
            memory: MemoryStore::new(move || clock()),
            followed: (Mark::ZERO, Mark::ZERO),
            next_seqs: HashMap::new(),
            floors: Floors::default(),
            kept_longer: 0,
            forgotten_alike: 0,
        };
        let mut random = Random::new(seed);
        for _ in 0..1000 {
            both.step(&mut random);
        }
        recycled += both.log.usage().recycled_segments;
        kept_longer += both.kept_longer;
        forgotten_alike += both.forgotten_alike;
    }
    assert!(recycled > 10 && kept_longer > 10 && forgotten_alike > 10);
}

impl Both {
    fn step(&mut self, random: &mut Random) {
        let topic = TopicId(random.below(TOPICS) as u32);
        let next = *self.next_seqs.entry(topic).or_insert(1);
        match random.below(10) {
            0..5 => self.append(topic, random),
            5 => {
                self.log.journal(settled(next)).unwrap();
                self.log.commit_queued().unwrap();
                self.memory.journal(settled(next)).unwrap();
                // Only the log looks at the clock for a record without events.
            }
            6 => self.follow(random.below(30_000) as usize),
            7 => {
                let floor = next.saturating_sub(random.below(40));
                let floor = floor.max(self.floors.0.get(&topic).copied().unwrap_or(0));
                self.floors.0.insert(topic, floor);
                self.log.checkpoint(self.followed.0, &self.floors).unwrap();
                self.memory
                    .checkpoint(self.followed.1, &self.floors)
                    .unwrap();
            }
            _ => {
                let position = Position {
                    topic,
                    seq: random.below(next + 2),
                };
                self.read(position, random.below(8000) as usize);
            }
        }
    }

    fn append(&mut self, topic: TopicId, random: &mut Random) {
        let ids: Vec<_> = (0..=random.below(4)).map(|id| id.to_string()).collect();
        let events: Vec<_> = ids
            .iter()
            .map(|id| event(id, random.below(1500) as usize))
            .collect();
        let packed = PackedEvents::pack(&events);
        let mut one = self.log.append(topic, packed.clone()).unwrap();
        self.log.commit_queued().unwrap();
        let mut other = self.memory.append(topic, packed).unwrap();
        let first = one.try_recv().unwrap().first;
        assert_eq!(first, other.try_recv().unwrap().first);
        self.next_seqs.insert(topic, first.seq + ids.len() as u64);
    }

    /// Follows both to their ends; they show the same records.
    fn follow(&mut self, bytes_max: usize) {
        let (from_log, log) = follow(&self.log, self.followed.0, bytes_max);
        let (from_memory, memory) = follow(&self.memory, self.followed.1, bytes_max);
        assert_eq!(log, memory);
        self.followed = (from_log, from_memory);
    }

    fn read(&mut self, position: Position, bytes_max: usize) {
        match (self.log.read(position), self.memory.read(position)) {
            (Ok(log), Ok(memory)) => assert_eq!(log.bytes, memory.bytes),
            (Ok(_), Err(StoreError::Forgotten { .. })) => self.kept_longer += 1,
            (Err(StoreError::Forgotten { .. }), Err(StoreError::Forgotten { .. })) => {
                self.forgotten_alike += 1;
            }
            (log, memory) => panic!("{position:?}: {log:?}, {memory:?}"),
        }
        // How much comes at once is each store's own choice; what comes is not.
        let (Ok(log), Ok(memory)) = (
            self.log.read_from(position, bytes_max),
            self.memory.read_from(position, bytes_max),
        ) else {
            return;
        };
        for ((log_seq, log), (memory_seq, memory)) in log.iter().zip(&memory) {
            assert_eq!((log_seq, &log.bytes), (memory_seq, &memory.bytes));
        }
    }
}

/// Everything from `from` on without its publish times, and where that ends.
fn follow(store: &dyn Store, mut from: Mark, bytes_max: usize) -> (Mark, Vec<Record>) {
    let mut records = Vec::new();
    loop {
        let groups = store.groups(from, bytes_max).unwrap();
        let Some(last) = groups.last() else {
            return (from, records);
        };
        from = last.end;
        records.extend(groups.iter().flat_map(|group| &group.records).cloned().map(
            |mut record| {
                if let Record::Events(events) = &mut record {
                    events.published = ticking(0)();
                }
                record
            },
        ));
    }
}
