//! A store and who delivers from it, driven step by step: everything that a log can say, in a random order that makes
//! sense.

mod operators;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::hold::Period;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{Mark, Position, SubscriptionId, TopicId};
use hedgerow_core::spec::{EndpointUrl, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::{Change, Purge, TopicKeys};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::faulty::{FaultyDisk, Random};
use hedgerow_store::log::{Log, LogOptions, RecoveredLog};
use hedgerow_store::record::{
    Dead, DeadThen, DeliveryChange, DeliveryState, Divided, DividedDelivery, DropReason, Failed,
    FailedDelivery, Hold, Holds, IN_FLIGHT, Lease, Moved, MovedDelivery, Owed, PendingWrite,
    Progress, Record, Seek, Settled, SettledHow, Snapshot, SnapshotPlace, Started, StartedDelivery,
    seqs_in, unpack_event,
};
use hedgerow_store::recover::{Recovery, RecoveryReport, recover};
use hedgerow_store::view::table::MemoryTable;
use hedgerow_store::view::{
    BEHIND_IN_FLIGHT, Counters, DueDelivery, FIRST_IN_FLIGHT, View, ViewOptions,
};
use hedgerow_store::{Group, Store, StoreError};

use crate::support::{packed, secrets, small, ticking};
use crate::watched::Watch;

pub const TOPICS: [TopicId; 2] = [TopicId(1), TopicId(2)];
/// Two of the first topic, one of the second.
pub const SUBSCRIPTIONS: [(SubscriptionId, TopicId); 3] = [
    (SubscriptionId(1), TOPICS[0]),
    (SubscriptionId(2), TOPICS[0]),
    (SubscriptionId(3), TOPICS[1]),
];
pub const SNAPSHOTS: u32 = 2;
pub const TERMINAL_RECORDS_MAX: u64 = 1000;

pub fn options() -> LogOptions {
    LogOptions {
        keep_after: Duration::ZERO,
        ..small()
    }
}

pub fn open(disk: &FaultyDisk) -> RecoveredLog {
    open_with(disk.mount(), options())
}

fn open_with(disk: Arc<dyn Disk>, options: LogOptions) -> RecoveredLog {
    Log::open(disk, options, ticking(1_000)).unwrap()
}

/// A store, and who delivers from it.
pub struct Grid {
    pub options: LogOptions,
    pub disk: FaultyDisk,
    /// What the log's files take.
    pub watch: Arc<Watch>,
    pub table: Arc<MemoryTable>,
    pub log: Arc<Log>,
    pub view: View,
    pub random: Random,
    /// The number of the newest event of each topic.
    pub newest: BTreeMap<TopicId, u64>,
    pub time: u64,
    /// Purges that began.
    pub purges: u64,
    /// Events that were sent again.
    pub resends: u64,
    /// What each subscription is owed, by the changes that records say they make.
    owed: BTreeMap<SubscriptionId, BTreeMap<u64, (Timestamp, Owed)>>,
}

impl Grid {
    pub fn new(seed: u64) -> Self {
        Self::with_options(seed, options())
    }

    pub fn with_options(seed: u64, options: LogOptions) -> Self {
        let disk = FaultyDisk::new(seed);
        let watch: Arc<Watch> = Arc::default();
        let recovered = open_with(watch.over(disk.mount()), options.clone());
        let table: Arc<MemoryTable> = Arc::default();
        let view = open_view(&disk, &table, recovered.store_id());
        let mut grid = Self {
            options,
            disk,
            watch,
            table,
            log: Arc::new(recovered.start_synchronous(&HashMap::new())),
            view,
            random: Random::new(seed),
            newest: BTreeMap::new(),
            time: 1_000,
            purges: 0,
            resends: 0,
            owed: BTreeMap::new(),
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
                domain_topic: None,
                name: format!("subscription-{}", id.0).parse().unwrap(),
                spec: Box::new(SubscriptionSpec::webhook(url)),
                validation: None,
                created: Timestamp::ZERO,
            });
        }
        grid
    }

    pub fn declare(&mut self, change: &Change) {
        let record = self.view.catalog_record(change).unwrap();
        self.journal(Record::Catalog(record));
        self.commit();
    }

    pub fn journal(&self, record: Record) {
        self.log.journal(record).unwrap();
    }

    pub fn commit(&mut self) {
        while let Some(group) = self.log.commit_queued().unwrap() {
            self.fold(&group);
        }
    }

    pub fn fold(&mut self, group: &Group) {
        self.view.fold(group).unwrap();
        for change in group.records.iter().flat_map(Record::delivery_changes) {
            self.follow(change);
        }
    }

    fn follow(&mut self, change: DeliveryChange) {
        let owed = self.owed.entry(change.subscription).or_default();
        match change.to {
            DeliveryState::Begun(due, what) => {
                owed.entry(change.seq).or_insert((due, what));
            }
            DeliveryState::Moved(due, what) => {
                let row = owed.entry(change.seq);
                row.and_modify(|row| *row = (due, what));
            }
            DeliveryState::Ended => drop(owed.remove(&change.seq)),
            DeliveryState::AllEnded => owed.clear(),
        }
    }

    /// Opens the log again with a clock that stands there.
    pub fn set_clock(&mut self, millis: u64) {
        self.log.close();
        let options = self.options.clone();
        let disk = self.watch.over(self.disk.mount());
        let recovered = Log::open(disk, options, ticking(millis)).unwrap();
        self.log = Arc::new(recovered.start_synchronous(&self.view.next_seqs()));
    }

    pub fn publish(&mut self, topic: TopicId, bytes: usize) {
        let seq = self.newest.entry(topic).or_insert(0);
        *seq += 1;
        let id = format!("{}-{seq}", topic.0);
        self.log.append(topic, packed(&id, bytes)).unwrap();
    }

    pub fn progress(&mut self, attempts: u16) -> Progress {
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
    pub fn begin(&mut self, (id, topic): (SubscriptionId, TopicId)) -> Option<u64> {
        let seq = self.view.cursor(id);
        if seq > self.newest.get(&topic).copied().unwrap_or(0) {
            return None;
        }
        let progress = self.progress(1);
        self.start(id, seq, None, progress);
        Some(seq)
    }

    pub fn start(
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

    pub fn end(&mut self, subscription: SubscriptionId, seq: u64, progress: Progress) {
        match self.random.below(8) {
            0..4 => self.settle(subscription, seq, IN_FLIGHT),
            4 => {
                let then = match self.random.below(3) {
                    0 => DeadThen::Dropped(DropReason::NoDeadLetterDestination),
                    _ => DeadThen::WriteDue(self.later(300_000), PendingWrite::default()),
                };
                self.die(subscription, seq, Some(IN_FLIGHT), Some(progress), then);
            }
            // It stays in flight.
            5 => {}
            _ => self.fail(subscription, seq, progress),
        }
        self.commit();
    }

    pub fn later(&self, millis: u64) -> Timestamp {
        Timestamp::from_millis(self.time + millis)
    }

    pub fn die(
        &mut self,
        subscription: SubscriptionId,
        seq: u64,
        due: Option<Timestamp>,
        progress: Option<Progress>,
        then: DeadThen,
    ) {
        self.journal(Record::Dead(Dead {
            subscription,
            seq,
            due,
            reason: DeadLetterReason::MaxDeliveryAttemptsExceeded,
            decided: Timestamp::from_millis(self.time),
            published: Timestamp::from_millis(500),
            progress,
            event_id: String::new(),
            event_type: String::new(),
            subject: String::new(),
            then,
        }));
        self.commit();
    }

    pub fn fail(&mut self, subscription: SubscriptionId, seq: u64, progress: Progress) {
        let due = Timestamp::from_millis(self.time + 10_000);
        if seq.is_multiple_of(3) {
            return self.divide(subscription, seq, due, progress);
        }
        self.fail_until(subscription, seq, due, progress);
    }

    pub fn fail_until(
        &mut self,
        subscription: SubscriptionId,
        seq: u64,
        due: Timestamp,
        progress: Progress,
    ) {
        let delivery = FailedDelivery { seq, due, progress };
        self.journal(Record::Failed(Failed {
            subscription,
            deliveries: vec![delivery],
        }));
        self.commit();
    }

    /// Its batch came apart.
    fn divide(&mut self, subscription: SubscriptionId, seq: u64, due: Timestamp, before: Progress) {
        let delivery = DividedDelivery {
            seq,
            due,
            progress: before,
            part: seq,
        };
        self.journal(Record::Divided(Divided {
            subscription,
            deliveries: vec![delivery],
        }));
        self.commit();
        let owed = self.view.owed(subscription, due, seq).unwrap();
        assert_eq!(owed, Some(Owed::Apart(before, seq)));
    }

    pub fn settle(&mut self, subscription: SubscriptionId, seq: u64, due: Timestamp) {
        self.journal(Record::Settled(Settled {
            subscription,
            deliveries: vec![(seq, due)],
            how: SettledHow::Delivered,
        }));
        self.commit();
    }

    pub fn waiting(&self, id: SubscriptionId) -> Vec<DueDelivery> {
        let from = FIRST_IN_FLIGHT;
        self.view.due(id, from, Timestamp::MAX, 100_000).unwrap()
    }

    /// One of the deliveries that wait, tried again.
    pub fn retry(&mut self, id: SubscriptionId) {
        let waiting = self.waiting(id);
        if waiting.is_empty() {
            return;
        }
        let at = self.random.below(waiting.len() as u64) as usize;
        let (due, seq) = (waiting[at].due, waiting[at].seq);
        let before = match waiting[at].owed {
            Owed::Attempt(progress) | Owed::Apart(progress, _) => progress,
            Owed::DeadLetter(pending) => {
                let write = PendingWrite {
                    failed: pending.write.failed + 1,
                    first_failed: Some(self.later(0)),
                };
                let then = match self.random.below(3) {
                    0 => DeadThen::Written,
                    1 => DeadThen::Dropped(DropReason::DeadLetterStoreUnavailable),
                    _ => DeadThen::WriteDue(self.later(10_000), write),
                };
                return self.die(id, seq, Some(due), pending.progress, then);
            }
        };
        let progress = self.progress(before.attempts + 1);
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

    pub fn read_to_the_end(&mut self, topic: TopicId) {
        self.journal(Record::Read(self.read_record(topic)));
        self.commit();
    }

    pub fn checkpoint(&mut self) {
        let mark = self.write_down();
        self.log.checkpoint(mark, &self.view).unwrap();
    }

    /// The view is written down, and nothing is cleaned.
    pub fn write_down(&mut self) -> Mark {
        let checkpoint = self.view.begin_checkpoint().unwrap();
        checkpoint.write(&*self.disk.mount()).unwrap();
        self.view.finish_checkpoint();
        checkpoint.mark()
    }

    pub fn hold(&mut self, subscription: SubscriptionId) {
        let period = Period {
            cause: Outcome::Busy,
            level: 2,
            since: self.later(0),
            until: self.later(300_000),
        };
        let holds = Holds {
            probation: (self.random.below(3) > 0).then_some(period),
            window: (self.random.below(3) == 0).then_some(period),
        };
        self.journal(Record::Hold(Hold {
            subscription,
            holds,
        }));
        self.commit();
    }

    /// A delivery that waits is due at another time.
    pub fn put_off(&mut self, subscription: SubscriptionId) {
        let rows = self
            .view
            .due(subscription, BEHIND_IN_FLIGHT, Timestamp::MAX, 1)
            .unwrap();
        let Some(row) = rows.first().filter(|row| row.attempt().is_some()) else {
            return;
        };
        let delivery = MovedDelivery {
            seq: row.seq,
            from: row.due,
            due: self.later(90_000),
            progress: self.progress(1),
            part: row.owed.part(),
        };
        self.journal(Record::Moved(Moved {
            subscription,
            deliveries: vec![delivery],
        }));
        self.commit();
    }

    pub fn lease(&mut self, (subscription, topic): (SubscriptionId, TopicId)) {
        let seq = self.view.cursor(subscription);
        if seq > self.newest.get(&topic).copied().unwrap_or(0) {
            return;
        }
        let delivery = StartedDelivery {
            seq,
            replaces_due: None,
            progress: self.progress(1),
        };
        self.journal(Record::Lease(Lease {
            subscription,
            until: self.later(60_000),
            deliveries: vec![delivery],
        }));
        self.commit();
    }

    pub fn snapshot(&mut self, subscription: SubscriptionId) {
        let id = 1 + self.random.below(u64::from(SNAPSHOTS)) as u32;
        let place = match self.random.below(2) {
            0 => None,
            _ => self.view.place_of(subscription, Timestamp::MAX),
        };
        self.journal(Record::Snapshot(Snapshot { id, place }));
        self.commit();
    }

    /// To a snapshot of the topic, or to the end.
    pub fn seek(&mut self, subscription: SubscriptionId, topic: TopicId) {
        let id = 1 + self.random.below(u64::from(SNAPSHOTS)) as u32;
        let snapshot = self.view.snapshot(id).filter(|place| place.topic == topic);
        let (cursor, open) = match snapshot {
            Some(place) => (place.cursor, place.open.clone()),
            None => (self.view.next_seq(topic), Vec::new()),
        };
        self.journal(Record::Seek(Seek {
            subscription,
            cursor,
            open,
            at: self.later(0),
            ack_epoch: self.view.ack_epoch(subscription) + 1,
        }));
        self.commit();
    }

    /// One thing that may happen.
    pub fn step(&mut self) {
        let at = self.random.below(SUBSCRIPTIONS.len() as u64) as usize;
        let (id, topic) = SUBSCRIPTIONS[at];
        if let Some(to_seq) = self.purging_to(id)
            && self.random.one_in(2)
        {
            return self.go_on_purging(id, to_seq);
        }
        match self.random.below(25) {
            20 => self.hold(id),
            21 => self.lease((id, topic)),
            22 => self.snapshot(id),
            23 => match self.random.below(12) {
                0..3 => self.seek(id, topic),
                3 => self.purge((id, topic)),
                _ => self.resend((id, topic)),
            },
            24 if self.random.one_in(3) => self.begin_unattempted((id, topic)),
            24 => self.put_off(id),
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
    pub fn check_events(&self) {
        for place in (1..=SNAPSHOTS).filter_map(|id| self.view.snapshot(id)) {
            let topic = place.topic;
            let newest = self.newest.get(&topic).copied().unwrap_or(0);
            for seq in seqs_in(&place.open).chain(place.cursor..=newest) {
                self.log.read(Position { topic, seq }).unwrap();
            }
        }
        for (id, topic) in SUBSCRIPTIONS {
            let (counters, pending) = self.view.counters(id);
            let ended = counters.delivered + counters.dropped + counters.dead_lettered;
            assert_eq!(counters.matched, ended + counters.given_up + pending);
            // One place knows what records do to deliveries; the view, which folds them by itself, says the same.
            let rows = self.waiting(id).into_iter();
            let rows: BTreeMap<_, _> = rows.map(|row| (row.seq, (row.due, row.owed))).collect();
            assert_eq!(self.owed.get(&id).unwrap_or(&BTreeMap::new()), &rows);
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

    /// The log, opened again.
    pub fn open(&self) -> RecoveredLog {
        open_with(self.watch.over(self.disk.mount()), self.options.clone())
    }

    /// Opens the store again with another bound.
    pub fn reopen_with(&mut self, bytes_max: u64) {
        self.options.bytes_max = bytes_max;
        self.reopen();
    }

    pub fn reopen(&mut self) {
        let next = self.view.next_seqs();
        self.log.close();
        let recovered = open_with(self.watch.over(self.disk.mount()), self.options.clone());
        self.view = open_view(&self.disk, &self.table, recovered.store_id());
        self.view.catch_up(&recovered, 30_000).unwrap();
        self.log = Arc::new(recovered.start_synchronous(&next));
    }

    /// The view, built again in another table.
    pub fn rebuild(&mut self) -> View {
        let next = self.view.next_seqs();
        self.log.close();
        let table: Arc<MemoryTable> = Arc::default();
        self.recover_in(&table).unwrap();
        let recovered = open_with(self.watch.over(self.disk.mount()), self.options.clone());
        let view = open_view(&self.disk, &table, recovered.store_id());
        assert_eq!(view.mark(), recovered.end());
        self.log = Arc::new(recovered.start_synchronous(&next));
        view
    }

    /// Builds the view of a log that is closed in a table.
    pub fn recover_in(&self, table: &Arc<MemoryTable>) -> Result<RecoveryReport, StoreError> {
        let recovery = Recovery {
            disk: self.disk.mount(),
            log: self.options.clone(),
            secrets: secrets(),
            terminal_records_max: TERMINAL_RECORDS_MAX,
            replay_bytes: 30_000,
            accept_loss: false,
        };
        let made = Arc::clone(table);
        recover(recovery, &|| Ok(None), || Ok(made as _), || Ok(()))
    }
}

pub fn open_view(disk: &FaultyDisk, table: &Arc<MemoryTable>, store_id: [u8; 16]) -> View {
    let options = ViewOptions {
        store_id,
        terminal_records_max: TERMINAL_RECORDS_MAX,
    };
    View::open(Arc::clone(table) as _, &*disk.mount(), secrets(), options).unwrap()
}

/// What a view says that must not be lost.
#[derive(Debug, PartialEq)]
pub struct Said {
    next_seqs: BTreeMap<TopicId, u64>,
    subscriptions: Vec<SubscriptionSaid>,
    snapshots: Vec<Option<SnapshotPlace>>,
    revision: u64,
}

#[derive(Debug, PartialEq)]
pub struct SubscriptionSaid {
    cursor: u64,
    counters: (Counters, u64),
    open: Vec<u64>,
    due: Vec<(Timestamp, u64, Owed)>,
    holds: Holds,
    ack_epoch: u32,
    purges: Vec<Purge>,
}

pub fn said(view: &View) -> Said {
    let subscriptions = SUBSCRIPTIONS.iter().map(|(id, _)| SubscriptionSaid {
        cursor: view.cursor(*id),
        counters: view.counters(*id),
        open: view.open_seqs(*id),
        due: view
            .due(*id, FIRST_IN_FLIGHT, Timestamp::MAX, 100_000)
            .unwrap()
            .iter()
            .map(|row| (row.due, row.seq, row.owed))
            .collect(),
        holds: view.holds(*id),
        ack_epoch: view.ack_epoch(*id),
        purges: view
            .catalog()
            .subscription(*id)
            .map_or_else(Vec::new, |found| found.purges.clone()),
    });
    Said {
        snapshots: (1..=SNAPSHOTS)
            .map(|id| view.snapshot(id).cloned())
            .collect(),
        next_seqs: view.next_seqs().into_iter().collect(),
        subscriptions: subscriptions.collect(),
        revision: view.catalog().revision,
    }
}
