//! Cleaning, and building a view again: whatever was copied, changed and forgotten meanwhile, the view that is built from
//! baseline, kept files and log is the one that was lost, and every event that is needed can be read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{Mark, Position, SubscriptionId, TopicId};
use hedgerow_core::spec::{EndpointUrl, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::{Change, TopicKeys};
use hedgerow_store::disk::faulty::{FaultyDisk, Random};
use hedgerow_store::log::{Log, LogOptions, RecoveredLog};
use hedgerow_store::record::{
    Dead, Failed, FailedDelivery, IN_FLIGHT, Progress, Read, Record, Settled, SettledHow, Started,
    StartedDelivery, unpack_event,
};
use hedgerow_store::recover::{Recovery, recover};
use hedgerow_store::view::table::MemoryTable;
use hedgerow_store::view::{Counters, DueDelivery, FIRST_IN_FLIGHT, View, ViewOptions};
use hedgerow_store::{Store, StoreError};

use crate::support::{packed, secrets, small, ticking};

const TOPICS: [TopicId; 2] = [TopicId(1), TopicId(2)];
/// Two of the first topic, one of the second.
const SUBSCRIPTIONS: [(SubscriptionId, TopicId); 3] = [
    (SubscriptionId(1), TOPICS[0]),
    (SubscriptionId(2), TOPICS[0]),
    (SubscriptionId(3), TOPICS[1]),
];
const TERMINAL_RECORDS_MAX: u64 = 1000;

fn options() -> LogOptions {
    LogOptions {
        keep_after: Duration::ZERO,
        ..small()
    }
}

fn open(disk: &FaultyDisk) -> RecoveredLog {
    Log::open(disk.mount(), options(), ticking(1_000)).unwrap()
}

/// A store, and who delivers from it.
struct Grid {
    disk: FaultyDisk,
    table: Arc<MemoryTable>,
    log: Log,
    view: View,
    random: Random,
    /// The number of the newest event of each topic.
    newest: BTreeMap<TopicId, u64>,
    time: u64,
}

impl Grid {
    fn new(seed: u64) -> Self {
        let disk = FaultyDisk::new(seed);
        let recovered = open(&disk);
        let table: Arc<MemoryTable> = Arc::default();
        let view = open_view(&disk, &table, recovered.store_id());
        let mut grid = Self {
            disk,
            table,
            log: recovered.start_synchronous(&HashMap::new()),
            view,
            random: Random::new(seed),
            newest: BTreeMap::new(),
            time: 1_000,
        };
        for (number, topic) in (1..).zip(TOPICS) {
            grid.declare(&Change::TopicCreated {
                id: topic,
                name: format!("topic-{number}").parse().unwrap(),
                spec: TopicSpec::default(),
                keys: TopicKeys {
                    key1: "one".to_owned(),
                    key2: "two".to_owned(),
                },
                created: Timestamp::ZERO,
            });
        }
        for (id, topic) in SUBSCRIPTIONS {
            let url = EndpointUrl::parse("https://receiver.example/").unwrap();
            grid.declare(&Change::SubscriptionCreated {
                id,
                topic,
                name: format!("subscription-{}", id.0).parse().unwrap(),
                spec: Box::new(SubscriptionSpec::webhook(url)),
                created: Timestamp::ZERO,
            });
        }
        grid
    }

    fn declare(&mut self, change: &Change) {
        let record = self.view.catalog_record(change).unwrap();
        self.journal(Record::Catalog(record));
        self.commit();
    }

    fn journal(&self, record: Record) {
        self.log.journal(record).unwrap();
    }

    fn commit(&mut self) {
        while let Some(group) = self.log.commit_queued().unwrap() {
            self.view.fold(&group).unwrap();
        }
    }

    fn publish(&mut self, topic: TopicId, bytes: usize) {
        let seq = self.newest.entry(topic).or_insert(0);
        *seq += 1;
        let id = format!("{}-{seq}", topic.0);
        self.log.append(topic, packed(&id, bytes)).unwrap();
    }

    fn progress(&mut self, attempts: u16) -> Progress {
        self.time += 1;
        let now = Timestamp::from_millis(self.time);
        Progress {
            published: Timestamp::from_millis(500),
            attempts,
            first_attempt: now,
            last_attempt: now,
            last_outcome: Outcome::Busy,
            last_status: 503,
            crashes: 0,
            crash_epoch: 0,
        }
    }

    /// Starts the next event of a subscription for the first time, if there is one.
    fn begin(&mut self, (id, topic): (SubscriptionId, TopicId)) -> Option<u64> {
        let seq = self.view.cursor(id);
        if seq > self.newest.get(&topic).copied().unwrap_or(0) {
            return None;
        }
        let progress = self.progress(1);
        self.start(id, seq, None, progress);
        Some(seq)
    }

    fn start(
        &mut self,
        subscription: SubscriptionId,
        seq: u64,
        replaces_due: Option<Timestamp>,
        progress: Progress,
    ) {
        let delivery = StartedDelivery {
            seq,
            replaces_due,
            progress,
        };
        self.journal(Record::Started(Started {
            subscription,
            deliveries: vec![delivery],
        }));
        self.commit();
    }

    fn end(&mut self, subscription: SubscriptionId, seq: u64, progress: Progress) {
        match self.random.below(8) {
            0..4 => self.settle(subscription, seq, IN_FLIGHT),
            4 => self.journal(Record::Dead(Dead {
                subscription,
                seq,
                due: Some(IN_FLIGHT),
                reason: DeadLetterReason::MaxDeliveryAttemptsExceeded,
                decided: Timestamp::from_millis(self.time),
                published: progress.published,
                progress: Some(progress),
                event_id: String::new(),
                event_type: String::new(),
                subject: String::new(),
            })),
            // It stays in flight.
            5 => {}
            _ => self.fail(subscription, seq, progress),
        }
        self.commit();
    }

    fn fail(&mut self, subscription: SubscriptionId, seq: u64, progress: Progress) {
        let delivery = FailedDelivery {
            seq,
            due: Timestamp::from_millis(self.time + 10_000),
            progress,
        };
        self.journal(Record::Failed(Failed {
            subscription,
            deliveries: vec![delivery],
        }));
        self.commit();
    }

    fn settle(&mut self, subscription: SubscriptionId, seq: u64, due: Timestamp) {
        self.journal(Record::Settled(Settled {
            subscription,
            deliveries: vec![(seq, due)],
            how: SettledHow::Delivered,
        }));
        self.commit();
    }

    fn waiting(&self, id: SubscriptionId) -> Vec<DueDelivery> {
        let from = FIRST_IN_FLIGHT;
        self.view.due(id, from, Timestamp::MAX, 100_000).unwrap()
    }

    /// One of the deliveries that wait, tried again.
    fn retry(&mut self, id: SubscriptionId) {
        let waiting = self.waiting(id);
        if waiting.is_empty() {
            return;
        }
        let at = self.random.below(waiting.len() as u64) as usize;
        let (due, seq) = (waiting[at].due, waiting[at].seq);
        let progress = self.progress(waiting[at].progress.attempts + 1);
        if due == IN_FLIGHT {
            self.end(id, seq, progress);
        } else if self.random.below(6) == 0 {
            // A success that came late.
            self.settle(id, seq, due);
        } else {
            self.start(id, seq, Some(due), progress);
            self.end(id, seq, progress);
        }
    }

    fn read_to_the_end(&mut self, topic: TopicId) {
        let head = self.newest.get(&topic).copied().unwrap_or(0) + 1;
        let laggards = SUBSCRIPTIONS
            .iter()
            .filter(|(_, of)| *of == topic)
            .map(|(id, _)| (*id, self.view.cursor(*id)))
            .filter(|(_, cursor)| *cursor < head);
        self.journal(Record::Read(Read {
            topic,
            read_to: head,
            laggards: laggards.collect(),
        }));
        self.commit();
    }

    fn checkpoint(&mut self) {
        let checkpoint = self.view.begin_checkpoint().unwrap();
        checkpoint.write(&*self.disk.mount()).unwrap();
        self.view.finish_checkpoint();
        self.log.checkpoint(checkpoint.mark(), &self.view).unwrap();
    }

    /// One thing that may happen.
    fn step(&mut self) {
        let at = self.random.below(SUBSCRIPTIONS.len() as u64) as usize;
        let (id, topic) = SUBSCRIPTIONS[at];
        match self.random.below(20) {
            0..7 => {
                let bytes = self.random.below(6_000) as usize;
                self.publish(topic, bytes);
                self.commit();
            }
            7..12 => {
                if let Some(seq) = self.begin((id, topic)) {
                    let progress = self.progress(1);
                    self.end(id, seq, progress);
                }
            }
            12..18 => self.retry(id),
            18 => self.read_to_the_end(topic),
            _ => self.checkpoint(),
        }
    }

    /// Every event that somebody needs, as it was published.
    fn check_events(&self) {
        for (id, topic) in SUBSCRIPTIONS {
            let newest = self.newest.get(&topic).copied().unwrap_or(0);
            let waiting = self.view.cursor(id)..=newest;
            for seq in self.view.open_seqs(id).into_iter().chain(waiting) {
                let event = self.log.read(Position { topic, seq }).unwrap();
                let unpacked = unpack_event(&event.bytes).unwrap();
                assert_eq!(unpacked.id, format!("{}-{seq}", topic.0));
            }
            let cursor = self.view.cursor(id);
            if cursor <= newest {
                let row = self
                    .log
                    .read_from(Position { topic, seq: cursor }, 50_000)
                    .unwrap();
                let seqs: Vec<u64> = row.iter().map(|(seq, _)| *seq).collect();
                let expected: Vec<u64> = (cursor..).take(seqs.len()).collect();
                assert_eq!(seqs, expected, "without a gap");
            }
        }
    }

    fn reopen(&mut self) {
        let next = self.view.next_seqs();
        self.log.close();
        let recovered = open(&self.disk);
        self.view = open_view(&self.disk, &self.table, recovered.store_id());
        self.view.catch_up(&recovered, 30_000).unwrap();
        self.log = recovered.start_synchronous(&next);
    }

    /// The view, built again in another table.
    fn rebuild(&mut self) -> View {
        let next = self.view.next_seqs();
        self.log.close();
        let table: Arc<MemoryTable> = Arc::default();
        let recovery = Recovery {
            disk: self.disk.mount(),
            log: options(),
            secrets: secrets(),
            terminal_records_max: TERMINAL_RECORDS_MAX,
            replay_bytes: 30_000,
        };
        let made = Arc::clone(&table);
        recover(recovery, || Ok(made as _), || Ok(())).unwrap();
        let recovered = open(&self.disk);
        let view = open_view(&self.disk, &table, recovered.store_id());
        assert_eq!(view.mark(), recovered.end());
        self.log = recovered.start_synchronous(&next);
        view
    }
}

fn open_view(disk: &FaultyDisk, table: &Arc<MemoryTable>, store_id: [u8; 16]) -> View {
    let options = ViewOptions {
        store_id,
        terminal_records_max: TERMINAL_RECORDS_MAX,
    };
    View::open(Arc::clone(table) as _, &*disk.mount(), secrets(), options).unwrap()
}

/// What a view says that must not be lost.
#[derive(Debug, PartialEq)]
struct Said {
    next_seqs: BTreeMap<TopicId, u64>,
    subscriptions: Vec<SubscriptionSaid>,
    revision: u64,
}

#[derive(Debug, PartialEq)]
struct SubscriptionSaid {
    cursor: u64,
    counters: (Counters, u64),
    open: Vec<u64>,
    due: Vec<(Timestamp, u64, Progress)>,
}

fn said(view: &View) -> Said {
    let subscriptions = SUBSCRIPTIONS.iter().map(|(id, _)| SubscriptionSaid {
        cursor: view.cursor(*id),
        counters: view.counters(*id),
        open: view.open_seqs(*id),
        due: view
            .due(*id, FIRST_IN_FLIGHT, Timestamp::MAX, 100_000)
            .unwrap()
            .iter()
            .map(|row| (row.due, row.seq, row.progress))
            .collect(),
    });
    Said {
        next_seqs: view.next_seqs().into_iter().collect(),
        subscriptions: subscriptions.collect(),
        revision: view.catalog().revision,
    }
}

#[test]
fn a_view_is_built_again_as_it_was_whatever_was_cleaned() {
    let (mut cleaned, mut copied, mut compacted) = (0, 0, 0);
    for seed in 1..=12 {
        let mut grid = Grid::new(seed);
        for step in 0..1_500 {
            grid.step();
            if step % 500 == 499 {
                grid.check_events();
                let usage = grid.log.usage();
                cleaned += usage.cleaned_segments;
                copied += usage.copied_events;
                compacted += usage.compacted_files;
                let view = grid.rebuild();
                assert_eq!(said(&view), said(&grid.view), "seed {seed}, step {step}");
                grid.check_events();
                grid.reopen();
                assert_eq!(said(&view), said(&grid.view), "seed {seed}, step {step}");
            }
        }
    }
    println!("{cleaned} segments cleaned, {copied} events copied, {compacted} files compacted");
    assert!(cleaned > 20 && copied > 100 && compacted > 0);
}

#[test]
fn one_that_stands_still_on_a_small_topic_keeps_that_topic_and_not_the_log() {
    let mut grid = Grid::new(1);
    // One event in a hundred is the small topic's, and nobody takes those.
    for number in 0..6_000 {
        let is_small = number % 100 == 0;
        let topic = if is_small { TOPICS[1] } else { TOPICS[0] };
        grid.publish(topic, 2_000);
        grid.commit();
        for one in SUBSCRIPTIONS
            .into_iter()
            .filter(|(_, of)| *of == topic && !is_small)
        {
            let seq = grid.begin(one).unwrap();
            grid.settle(one.0, seq, IN_FLIGHT);
        }
        if number % 100 == 99 {
            grid.read_to_the_end(TOPICS[0]);
            grid.read_to_the_end(TOPICS[1]);
            grid.checkpoint();
        }
    }
    let usage = grid.log.usage();
    assert!(!usage.is_full, "{usage:?}");
    // Sixty events of 2,000 bytes, and the segments at the end.
    assert!((120_000..200_000).contains(&usage.kept_bytes), "{usage:?}");
    assert!(
        usage.used_bytes < usage.kept_bytes + 12 * 64 * 1024,
        "{usage:?}"
    );
    grid.check_events();
    assert_eq!(said(&grid.rebuild()), said(&grid.view));
}

#[test]
fn retries_do_not_make_the_store_larger_than_it_may_be() {
    let mut grid = Grid::new(1);
    let subscription = SUBSCRIPTIONS[2];
    // As much as it takes, none of which is accepted.
    let refused = loop {
        let seq = grid.newest.get(&TOPICS[1]).copied().unwrap_or(0) + 1;
        match grid
            .log
            .append(TOPICS[1], packed(&format!("2-{seq}"), 5_000))
        {
            Ok(_) => grid.newest.insert(TOPICS[1], seq),
            Err(refused) => break refused,
        };
        grid.commit();
        let seq = grid.begin(subscription).unwrap();
        let progress = grid.progress(1);
        grid.fail(subscription.0, seq, progress);
        if seq.is_multiple_of(20) {
            grid.checkpoint();
        }
    };
    assert!(matches!(refused, StoreError::Full(_)), "{refused}");
    let bytes_max = options().bytes_max;
    for round in 0..60 {
        for row in grid.waiting(subscription.0) {
            let progress = grid.progress(row.progress.attempts + 1);
            grid.start(subscription.0, row.seq, Some(row.due), progress);
            grid.fail(subscription.0, row.seq, progress);
        }
        grid.checkpoint();
        let usage = grid.log.usage();
        assert!(usage.used_bytes <= bytes_max, "round {round}: {usage:?}");
    }
    grid.check_events();
    assert_eq!(said(&grid.rebuild()), said(&grid.view));
    for row in grid.waiting(subscription.0) {
        grid.settle(subscription.0, row.seq, row.due);
    }
    grid.read_to_the_end(TOPICS[1]);
    grid.checkpoint();
    let usage = grid.log.usage();
    assert!(
        !usage.is_full && usage.kept_bytes == 0,
        "publishing goes on: {usage:?}"
    );
    grid.publish(TOPICS[0], 10);
}

#[test]
fn without_a_baseline_a_view_is_not_built() {
    let mut grid = Grid::new(3);
    for _ in 0..1_500 {
        grid.step();
    }
    assert!(grid.log.oldest() > Mark::ZERO);
    grid.log.close();
    let disk = grid.disk.mount();
    for name in disk.list("baseline").unwrap() {
        disk.remove(&format!("baseline/{name}")).unwrap();
    }
    let recovery = Recovery {
        disk,
        log: options(),
        secrets: secrets(),
        terminal_records_max: 10,
        replay_bytes: 30_000,
    };
    let error = recover(
        recovery,
        || Ok(Arc::<MemoryTable>::default() as _),
        || Ok(()),
    )
    .unwrap_err();
    assert!(matches!(error, StoreError::Unrecoverable { .. }), "{error}");
}
