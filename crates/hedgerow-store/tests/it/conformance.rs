//! The stores that there are, in the suite that every store must pass.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::position::TopicId;
use hedgerow_store::Store;
use hedgerow_store::conformance::{Fixture, NextSeqs, StoreLimits, Time};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::log::{Clock, Log};
use hedgerow_store::memory::MemoryStore;

use crate::breakable::{BreakableDisk, Power};
use crate::support::{packed, small};

/// The memory model, plain or slow.
#[derive(Default)]
struct Memory {
    time: Time,
    delay: Option<Duration>,
    store: Option<Arc<MemoryStore>>,
}

impl Memory {
    fn slow() -> Self {
        Self {
            delay: Some(Duration::from_millis(50)),
            ..Self::default()
        }
    }

    fn store(&self) -> &MemoryStore {
        self.store.as_ref().expect("it was opened")
    }

    fn keep(&mut self, store: MemoryStore) -> Arc<dyn Store> {
        let store = Arc::new(store);
        self.store = Some(Arc::clone(&store));
        store
    }
}

impl Fixture for Memory {
    fn open(&mut self, next_seqs: &NextSeqs) -> Arc<dyn Store> {
        if self.store.is_some() {
            return self.take_over(next_seqs);
        }
        let time = self.time.clone();
        let clock = move || time.now();
        self.keep(match self.delay {
            None => MemoryStore::new(clock),
            Some(delay) => MemoryStore::slow(clock, delay, 3),
        })
    }

    fn close(&mut self) {
        self.store().close();
    }

    fn crash(&mut self) {
        self.store().close();
    }

    fn fail(&mut self) {
        self.store().close();
    }

    fn hold(&mut self) -> bool {
        self.store().hold();
        true
    }

    fn release(&mut self) {
        self.store().release();
    }

    fn take_over(&mut self, _: &NextSeqs) -> Arc<dyn Store> {
        let store = self.store().take_over();
        self.keep(store)
    }

    fn epoch(&self) -> u32 {
        self.store().epoch()
    }

    fn time(&self) -> &Time {
        &self.time
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits::default()
    }
}

/// What a log stands on.
enum Ground {
    Faulty(FaultyDisk),
    Directory(tempfile::TempDir),
}

/// The embedded log, with its threads.
struct Embedded {
    ground: Ground,
    time: Time,
    power: Arc<Power>,
    logs: Vec<Arc<Log>>,
    crashes: u32,
}

impl Embedded {
    fn on(ground: Ground) -> Self {
        Self {
            ground,
            time: Time::default(),
            power: Arc::default(),
            logs: Vec::new(),
            crashes: 0,
        }
    }

    fn faulty(seed: u64) -> Self {
        Self::on(Ground::Faulty(FaultyDisk::new(seed)))
    }

    fn directory() -> Self {
        Self::on(Ground::Directory(tempfile::tempdir().unwrap()))
    }

    fn mount(&self) -> Arc<dyn Disk> {
        let disk = match &self.ground {
            Ground::Faulty(disk) => disk.mount(),
            Ground::Directory(folder) => Arc::new(RealDisk::new(folder.path()).unwrap()),
        };
        Arc::new(BreakableDisk::new(disk, Arc::clone(&self.power)))
    }

    fn start(&mut self, next_seqs: &NextSeqs) -> Arc<dyn Store> {
        let time = self.time.clone();
        let clock: Clock = Arc::new(move || time.now());
        let recovered = Log::open(self.mount(), small(), clock).expect("it opens");
        let log = Arc::new(recovered.start(next_seqs));
        self.logs.push(Arc::clone(&log));
        log
    }
}

impl Fixture for Embedded {
    fn open(&mut self, next_seqs: &NextSeqs) -> Arc<dyn Store> {
        self.power = Arc::default();
        self.start(next_seqs)
    }

    fn close(&mut self) {
        self.power.restore();
        for log in self.logs.drain(..) {
            log.close();
        }
    }

    fn crash(&mut self) {
        self.power.cut();
        self.crashes += 1;
        for log in self.logs.drain(..) {
            log.close();
        }
        // On a directory each crash is a kill: its page cache is not ours to lose.
        if let Ground::Faulty(disk) = &self.ground {
            if self.crashes.is_multiple_of(2) {
                disk.kill();
            } else {
                disk.cut();
            }
        }
    }

    fn fail(&mut self) {
        self.power.fail_sync();
    }

    fn hold(&mut self) -> bool {
        self.power.hold();
        true
    }

    fn release(&mut self) {
        self.power.restore();
    }

    fn take_over(&mut self, next_seqs: &NextSeqs) -> Arc<dyn Store> {
        self.power.lose_locks();
        self.start(next_seqs)
    }

    fn epoch(&self) -> u32 {
        self.logs.last().expect("it was opened").epoch()
    }

    fn time(&self) -> &Time {
        &self.time
    }

    fn limits(&self) -> StoreLimits {
        let options = small();
        StoreLimits {
            too_large_bytes: Some(options.segment_bytes as usize),
            full_after_bytes: Some(options.bytes_max as usize),
            busy_after_bytes: Some(options.queue_bytes_max as usize),
        }
    }
}

/// 50 ms to durability, up to 50 more to the answer, and the answers not in the order of the log.
#[tokio::test(start_paused = true)]
async fn answers_of_a_slow_store_come_late_and_in_another_order() {
    let store = Memory::slow().open(&NextSeqs::new());
    let begun = tokio::time::Instant::now();
    let mut appending = tokio::task::JoinSet::new();
    for number in 0..20 {
        let append = store.append(TopicId(1), packed(&number.to_string(), 10));
        appending.spawn(async move { append.unwrap().await.unwrap().first.seq });
    }
    let mut answers = Vec::new();
    while let Some(seq) = appending.join_next().await {
        let passed = begun.elapsed().as_millis();
        assert!((50..=102).contains(&passed), "after {passed} ms");
        answers.push(seq.unwrap());
    }
    assert!(!answers.is_sorted(), "{answers:?}");
    answers.sort_unstable();
    assert!(answers.into_iter().eq(1..=20));
}

mod memory {
    use super::Memory;

    hedgerow_store::store_conformance!(Memory::default(), start_paused = true);
}

/// 50 ms to durability, answers after up to 50 more and in another order.
mod slow_memory {
    use super::Memory;

    hedgerow_store::store_conformance!(Memory::slow(), start_paused = true);
}

mod log_on_faulty_disk {
    use super::Embedded;

    hedgerow_store::store_conformance!(Embedded::faulty(5), start_paused = false);
}

mod log_in_directory {
    use super::Embedded;

    hedgerow_store::store_conformance!(Embedded::directory(), start_paused = false);
}
