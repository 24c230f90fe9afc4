//! One store from its making to its end: random steps, crashes, and what is checked after each.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hedgerow_core::event::{Data, Event};
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::spec::{EndpointUrl, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::{Change, TopicKeys};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::faulty::{FaultyDisk, Random};
use hedgerow_store::disk::mutant::{MutantDisk, Mutation};
use hedgerow_store::log::{Clock, Log, LogOptions};
use hedgerow_store::record::{
    CatalogChange, Dead, Failed, FailedDelivery, IN_FLIGHT, PackedEvents, Progress, Read, Record,
    Settled, SettledHow, Started, StartedDelivery, unpack_event,
};
use hedgerow_store::view::{FIRST_IN_FLIGHT, TerminalFilter, View, ViewOptions};
use hedgerow_store::{Appending, Group, Store, StoreError};

use super::model::Model;
use super::table::{PowerGoes, PowerTable};

/// Steps of a round before it is ended at the latest.
const STEPS: u64 = 600;
/// Successes of one subscription whose record is not durable; no attempt starts while it is reached (D5).
const UNSETTLED_SUCCESSES_MAX: usize = 4;
/// Attempts of one subscription at a time.
const IN_FLIGHT_MAX: usize = 6;
const SUBSCRIPTIONS_MAX: usize = 4;
const CRASHES_MAX: u8 = 3;
/// A store must open after at most so many interrupted tries.
const OPEN_TRIES: u32 = 50;

macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*));
        }
    };
}

/// What lives went through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub rounds: u64,
    accepted: u64,
    delivered: u64,
    dead: u64,
    duplicates: u64,
    duplicates_bound: u64,
    epochs: u64,
    recycled: u64,
    checkpoints: u64,
    cuts: u64,
    kills: u64,
    failed_syncs: u64,
    opens_interrupted: u64,
    checkpoints_interrupted: u64,
    batches_taken_back: u64,
    adopted: u64,
    torn: u64,
}

pub struct Life {
    seed: u64,
    random: Random,
    mutation: Option<Mutation>,
    disk: FaultyDisk,
    table: Arc<PowerTable>,
    clock: Clock,
    log: Option<Log>,
    view: Option<View>,
    /// What is durable.
    model: Model,
    /// What is durable or queued: what the engine acts on.
    live: Model,
    appends: Vec<(TopicId, Appending)>,
    /// Whether something is queued that nobody was told about yet.
    has_queued: bool,
    epoch: u32,
    /// What receivers accepted, by delivery.
    accepted: BTreeMap<(SubscriptionId, u64), u64>,
    unsettled: HashMap<SubscriptionId, usize>,
    names: u64,
    tally: Tally,
}

/// Why a step went no further.
enum Stop {
    /// The store failed, as it should when the power is gone or a sync failed.
    Crashed,
    /// Something is wrong.
    Wrong(String),
}

impl From<String> for Stop {
    fn from(error: String) -> Self {
        Self::Wrong(error)
    }
}

impl Life {
    /// Runs a life of so many rounds. The error says what was lost or wrong.
    pub fn run(seed: u64, mutation: Option<Mutation>, rounds: u64) -> Result<Tally, String> {
        let ticks = AtomicU64::new(1_000_000);
        let mut life = Self {
            seed,
            random: Random::new(seed),
            mutation,
            disk: FaultyDisk::new(seed ^ 0xD15C),
            table: Arc::default(),
            clock: Arc::new(move || Timestamp::from_millis(ticks.fetch_add(7, Ordering::Relaxed))),
            log: None,
            view: None,
            model: Model::default(),
            live: Model::default(),
            appends: Vec::new(),
            has_queued: false,
            epoch: 0,
            accepted: BTreeMap::new(),
            unsettled: HashMap::new(),
            names: 0,
            tally: Tally::default(),
        };
        life.open().map_err(|error| life.named(0, &error))?;
        for round in 1..=rounds {
            life.round().map_err(|error| life.named(round, &error))?;
        }
        life.end().map_err(|error| life.named(rounds, &error))?;
        life.tally.rounds = rounds;
        life.tally.epochs = u64::from(life.epoch);
        Ok(life.tally)
    }

    fn named(&self, round: u64, error: &str) -> String {
        format!("seed {}, round {round}: {error}", self.seed)
    }

    /// Random steps, then the end of the process in some way, then everything is checked.
    fn round(&mut self) -> Result<(), String> {
        if self.random.one_in(2) {
            self.disk.fail_after(1 + self.random.below(1500));
        }
        for _ in 0..STEPS {
            match self.step() {
                Ok(()) => {}
                Err(Stop::Crashed) => break,
                Err(Stop::Wrong(error)) => return Err(error),
            }
        }
        self.crash()?;
        if self.random.one_in(4) {
            // Killed, opened, and then the power goes: what was read must have been made durable first.
            self.power_cut();
            self.open()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Stop> {
        match self.random.below(100) {
            0..16 => self.publish(),
            16..42 => self.start(),
            42..68 => self.end_attempt(),
            68..84 => self.commit(),
            84..90 => self.read_on(),
            90..97 => self.checkpoint(),
            97 => self.declare(),
            98 if self.random.one_in(2) => {
                self.disk.fail_sync_once();
                self.tally.failed_syncs += 1;
                self.publish()?;
                self.commit()
            }
            _ => self.delete(),
        }
    }

    fn log(&self) -> &Log {
        self.log.as_ref().expect("the log is open between crashes")
    }

    fn view(&mut self) -> &mut View {
        self.view
            .as_mut()
            .expect("the view is open between crashes")
    }

    /// Draws one of the subscriptions there are.
    fn any_subscription(&mut self) -> Option<SubscriptionId> {
        let ids: Vec<_> = self.live.subscriptions.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.random.below(ids.len() as u64) as usize])
    }

    fn publish(&mut self) -> Result<(), Stop> {
        let topics: Vec<_> = self
            .live
            .topics
            .iter()
            .filter(|(_, topic)| topic.exists)
            .map(|(id, _)| *id)
            .collect();
        if topics.is_empty() {
            return self.declare();
        }
        let topic = topics[self.random.below(topics.len() as u64) as usize];
        let events: Vec<_> = (0..=self.random.below(3))
            .map(|_| {
                self.names += 1;
                event(self.names, self.random.below(6000) as usize)
            })
            .collect();
        match self.log().append(topic, PackedEvents::pack(&events)) {
            Ok(appending) => self.appends.push((topic, appending)),
            // Everything is still owed; deliveries go on.
            Err(StoreError::Full(_) | StoreError::Busy { .. }) => {}
            Err(error) => return self.store_failed(&error),
        }
        Ok(())
    }

    /// An error is right only where the power is gone or a sync failed.
    fn store_failed(&self, error: &StoreError) -> Result<(), Stop> {
        if std::env::var_os("DBG").is_some() {
            eprintln!(
                "{error} {:?} off={}",
                std::error::Error::source(error),
                self.disk.is_off()
            );
        }
        match error {
            StoreError::Closed | StoreError::Io { .. } | StoreError::View { .. } => {
                Err(Stop::Crashed)
            }
            other => Err(Stop::Wrong(format!("unexpected: {other}"))),
        }
    }

    fn journal(&mut self, record: Record) -> Result<(), Stop> {
        self.live.fold(&record);
        self.has_queued = true;
        self.log()
            .journal(record)
            .or_else(|error| self.store_failed(&error))
    }

    fn commit(&mut self) -> Result<(), Stop> {
        loop {
            match self.log().commit_queued() {
                Ok(Some(group)) => self.take(&group)?,
                Ok(None) => break,
                Err(error) => return self.store_failed(&error),
            }
        }
        self.has_queued = false;
        self.live = self.model.clone();
        self.unsettled.clear();
        for (topic, mut appending) in std::mem::take(&mut self.appends) {
            let Ok(appended) = appending.try_recv() else {
                return Err(
                    format!("a committed append to topic {} was not answered", topic.0).into(),
                );
            };
            let known = self
                .model
                .topics
                .get(&topic)
                .map_or(0, |topic| topic.next_seq);
            if appended.first.topic != topic || appended.first.seq >= known {
                return Err(format!(
                    "an append was told {:?}, which is not there",
                    appended.first
                )
                .into());
            }
            self.tally.accepted += 1;
        }
        Ok(())
    }

    /// A group became durable.
    fn take(&mut self, group: &Arc<Group>) -> Result<(), String> {
        ensure!(
            group.number == self.model.group + 1,
            "group {} follows {}",
            group.number,
            self.model.group
        );
        self.view().fold(group).map_err(|error| error.to_string())?;
        for record in &group.records {
            self.model.fold(record);
        }
        self.model.group = group.number;
        Ok(())
    }

    fn start(&mut self) -> Result<(), Stop> {
        let Some(id) = self.any_subscription() else {
            return Ok(());
        };
        let subscription = &self.live.subscriptions[&id];
        let in_flight = subscription
            .rows
            .values()
            .filter(|(due, _)| *due == IN_FLIGHT)
            .count();
        let unsettled = self.unsettled.get(&id).copied().unwrap_or(0);
        if in_flight >= IN_FLIGHT_MAX || unsettled >= UNSETTLED_SUCCESSES_MAX {
            return Ok(());
        }
        let now = (self.clock)();
        // A retry may start only when its failure is durable (ED-207).
        let durable = &self.model.subscriptions[&id].rows;
        let retry = subscription
            .rows
            .iter()
            .find(|(seq, row)| row.0 != IN_FLIGHT && durable.get(seq) == Some(row))
            .map(|(seq, row)| (*seq, *row));
        let next = self.live.cursor(id);
        let has_new = next < self.model.topics[&subscription.topic].next_seq;
        let (seq, replaces_due, progress) = match retry {
            Some((seq, (due, progress))) if !has_new || self.random.one_in(2) => {
                let attempts = progress.attempts + 1;
                (
                    seq,
                    Some(due),
                    Progress {
                        attempts,
                        last_attempt: now,
                        ..progress
                    },
                )
            }
            _ if has_new => (next, None, first_attempt(now)),
            _ => return Ok(()),
        };
        let deliveries = vec![StartedDelivery {
            seq,
            replaces_due,
            progress,
        }];
        self.journal(Record::Started(Started {
            subscription: id,
            deliveries,
        }))
    }

    fn end_attempt(&mut self) -> Result<(), Stop> {
        let Some(id) = self.any_subscription() else {
            return Ok(());
        };
        let in_flight: Vec<_> = self.live.subscriptions[&id]
            .rows
            .iter()
            .filter(|(_, (due, _))| *due == IN_FLIGHT)
            .map(|(seq, (_, progress))| (*seq, *progress))
            .collect();
        if in_flight.is_empty() {
            return Ok(());
        }
        let (seq, progress) = in_flight[self.random.below(in_flight.len() as u64) as usize];
        match self.random.below(10) {
            0..6 => self.deliver(id, seq),
            6..9 => self.fail(id, seq, progress, Outcome::GenericError),
            _ => self.die(id, seq, Some(IN_FLIGHT), Some(progress)),
        }
    }

    fn deliver(&mut self, id: SubscriptionId, seq: u64) -> Result<(), Stop> {
        let times = self.accepted.entry((id, seq)).or_default();
        *times += 1;
        if *times > 1 {
            self.tally.duplicates += 1;
        } else {
            self.tally.delivered += 1;
        }
        *self.unsettled.entry(id).or_default() += 1;
        let deliveries = vec![(seq, IN_FLIGHT)];
        let how = SettledHow::Delivered;
        self.journal(Record::Settled(Settled {
            subscription: id,
            deliveries,
            how,
        }))
    }

    fn fail(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        progress: Progress,
        outcome: Outcome,
    ) -> Result<(), Stop> {
        let due = (self.clock)().plus(std::time::Duration::from_millis(self.random.below(5000)));
        let progress = Progress {
            last_outcome: outcome,
            ..progress
        };
        let deliveries = vec![FailedDelivery { seq, due, progress }];
        self.journal(Record::Failed(Failed {
            subscription: id,
            deliveries,
        }))
    }

    fn die(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        due: Option<Timestamp>,
        progress: Option<Progress>,
    ) -> Result<(), Stop> {
        self.tally.dead += 1;
        let now = (self.clock)();
        self.journal(Record::Dead(Dead {
            subscription: id,
            seq,
            due,
            reason: DeadLetterReason::TimeToLiveExceeded,
            decided: now,
            published: now,
            progress,
            event_id: seq.to_string(),
            event_type: "t".to_owned(),
            subject: String::new(),
        }))
    }

    /// The reader's place goes on; some events expire unattempted.
    fn read_on(&mut self) -> Result<(), Stop> {
        let Some(id) = self.any_subscription() else {
            return Ok(());
        };
        let topic = self.live.subscriptions[&id].topic;
        let head = self.model.topics[&topic].next_seq;
        let next = self.live.cursor(id);
        if next < head && self.random.one_in(3) {
            self.die(id, next, None, None)?;
        }
        let subscriptions = self.live.subscriptions.iter();
        let laggards = subscriptions
            .filter(|(_, subscription)| subscription.topic == topic)
            .map(|(id, _)| (*id, self.live.cursor(*id)))
            .filter(|(_, cursor)| *cursor < head)
            .collect();
        self.journal(Record::Read(Read {
            topic,
            read_to: head,
            laggards,
        }))
    }

    fn checkpoint(&mut self) -> Result<(), Stop> {
        self.commit()?;
        if self.random.one_in(6) {
            let goes = [
                PowerGoes::BeforeApply,
                PowerGoes::BeforePersist,
                PowerGoes::AfterPersist,
            ];
            self.table.lose_power(goes[self.random.below(3) as usize]);
            self.tally.checkpoints_interrupted += 1;
        }
        let disk = self.disk.mount();
        let checkpoint = self
            .view()
            .begin_checkpoint()
            .map_err(|error| error.to_string())?;
        if let Err(error) = checkpoint.write(disk.as_ref()) {
            return self.store_failed(&error);
        }
        self.view().finish_checkpoint();
        self.tally.checkpoints += 1;
        let log = self.log.as_ref().expect("the log is open between crashes");
        let view = self
            .view
            .as_ref()
            .expect("the view is open between crashes");
        if let Err(error) = log.checkpoint(checkpoint.mark(), view) {
            return self.store_failed(&error);
        }
        Ok(())
    }

    fn change(&mut self, change: &Change) -> Result<(), Stop> {
        let json = Bytes::from(serde_json::to_vec(change).expect("a change is plain"));
        let revision = self.view().catalog().revision + 1;
        self.journal(Record::Catalog(CatalogChange { revision, json }))?;
        self.commit()
    }

    fn declare(&mut self) -> Result<(), Stop> {
        self.commit()?;
        let created = (self.clock)();
        let topics: Vec<_> = self
            .live
            .topics
            .iter()
            .filter(|(_, topic)| topic.exists)
            .map(|(id, _)| *id)
            .collect();
        self.names += 1;
        if topics.len() < 2 {
            let id = self.view().catalog().next_topic_id();
            let name = format!("topic-{}", self.names)
                .parse()
                .expect("a valid name");
            let keys = TopicKeys {
                key1: "one".to_owned(),
                key2: "two".to_owned(),
            };
            let spec = TopicSpec::default();
            self.change(&Change::TopicCreated {
                id,
                name,
                spec,
                keys,
                created,
            })?;
        }
        if self.live.subscriptions.len() < SUBSCRIPTIONS_MAX && !topics.is_empty() {
            let id = self.view().catalog().next_subscription_id();
            let topic = topics[self.random.below(topics.len() as u64) as usize];
            let name = format!("sub-{}", self.names).parse().expect("a valid name");
            let url = EndpointUrl::parse("https://receiver.example/").expect("a valid URL");
            let spec = Box::new(SubscriptionSpec::webhook(url));
            self.change(&Change::SubscriptionCreated {
                id,
                topic,
                name,
                spec,
                created,
            })?;
        }
        Ok(())
    }

    fn delete(&mut self) -> Result<(), Stop> {
        if !self.random.one_in(4) {
            return Ok(());
        }
        self.commit()?;
        let Some(id) = self.any_subscription() else {
            return Ok(());
        };
        if self.random.one_in(3) {
            let topic = self.live.subscriptions[&id].topic;
            return self.change(&Change::TopicDeleted { id: topic });
        }
        self.change(&Change::SubscriptionDeleted { id })
    }

    /// Ends the process, and opens the store again.
    fn crash(&mut self) -> Result<(), String> {
        for (id, subscription) in &self.live.subscriptions {
            let in_flight = subscription
                .rows
                .values()
                .filter(|(due, _)| *due == IN_FLIGHT)
                .count();
            let unsettled = self.unsettled.get(id).copied().unwrap_or(0);
            self.tally.duplicates_bound += (in_flight + unsettled) as u64;
        }
        match self.random.below(3) {
            0 => self.power_cut(),
            1 => {
                self.tally.kills += 1;
                // The disk first: a killed process closes nothing.
                self.disk.kill();
                self.end_process();
            }
            // The store failed in a process that lives on: log and view are dropped and opened again.
            _ => {
                let is_off = self.disk.is_off();
                self.end_process();
                if is_off {
                    self.disk.kill();
                    self.tally.kills += 1;
                }
            }
        }
        self.open()
    }

    fn power_cut(&mut self) {
        self.tally.cuts += 1;
        // The disk first: closing the log must not write what the power cut took.
        self.disk.cut();
        self.end_process();
        let unpersisted = self.table.unpersisted_batches();
        let kept = self.random.below(unpersisted as u64 + 1) as usize;
        self.tally.batches_taken_back += (unpersisted - kept) as u64;
        self.table.cut(kept);
    }

    fn end_process(&mut self) {
        let log = self.log.take();
        self.tally.recycled += log.map_or(0, |log| log.usage().recycled_segments);
        self.view = None;
        self.table.lose_power(PowerGoes::Nowhere);
        self.appends.clear();
        self.unsettled.clear();
    }

    /// Opens the store, through crashes while it opens, and checks it.
    fn open(&mut self) -> Result<(), String> {
        for _ in 0..OPEN_TRIES {
            if self.random.one_in(5) {
                self.disk.fail_after(1 + self.random.below(12));
            }
            match self.try_open() {
                Ok(()) => return Ok(()),
                Err(Stop::Wrong(error)) => return Err(error),
                Err(Stop::Crashed) => {
                    self.tally.opens_interrupted += 1;
                    if self.random.one_in(2) {
                        self.power_cut();
                    } else {
                        self.disk.kill();
                        self.end_process();
                    }
                }
            }
        }
        Err("the store does not open".to_owned())
    }

    fn try_open(&mut self) -> Result<(), Stop> {
        let (disk, mutant) = self.mount();
        let set_opening = |is_opening| {
            if let Some(mutant) = &mutant {
                mutant.set_opening(is_opening);
            }
        };
        set_opening(true);
        let recovered = match Log::open(Arc::clone(&disk), options(), Arc::clone(&self.clock)) {
            Ok(recovered) => recovered,
            Err(error) => return self.store_failed(&error),
        };
        set_opening(false);
        let was_epoch = std::mem::replace(&mut self.epoch, recovered.epoch());
        if self.epoch <= was_epoch {
            return Err(format!("epoch {} follows {was_epoch}", self.epoch).into());
        }
        let view_options = ViewOptions {
            store_id: recovered.store_id(),
            epoch: recovered.epoch(),
            terminal_records_max: u64::MAX,
        };
        let mut view = match View::open(Arc::clone(&self.table) as _, disk.as_ref(), view_options) {
            Ok(view) => view,
            Err(error) => return self.store_failed(&error),
        };
        if view.mark() > recovered.end() {
            return Err(format!("the view stands at {}, behind the log's end", view.mark()).into());
        }
        let mut adopted = 0;
        loop {
            let groups = match recovered.groups(view.mark(), 1 << 20) {
                Ok(groups) => groups,
                Err(error) => return self.store_failed(&error),
            };
            if groups.is_empty() {
                break;
            }
            for group in groups {
                view.fold(&group).map_err(|error| error.to_string())?;
                if group.number > self.model.group {
                    adopted += 1;
                    group
                        .records
                        .iter()
                        .for_each(|record| self.model.fold(record));
                    self.model.group = group.number;
                }
            }
        }
        self.tally.adopted += adopted;
        self.tally.torn += u64::from(adopted == 0 && self.has_queued);
        self.has_queued = false;
        self.log = Some(recovered.start_synchronous(&view.next_seqs()));
        self.view = Some(view);
        self.live = self.model.clone();
        self.compare()?;
        self.check_owed()?;
        self.take_up()
    }

    fn mount(&self) -> (Arc<dyn Disk>, Option<Arc<MutantDisk>>) {
        let disk = self.disk.mount();
        match self.mutation {
            None => (disk, None),
            Some(mutation) => {
                let mutant = Arc::new(MutantDisk::new(disk, mutation));
                (Arc::clone(&mutant) as _, Some(mutant))
            }
        }
    }

    /// The view is what the model says.
    fn compare(&mut self) -> Result<(), String> {
        let model = &self.model;
        let view = self.view.as_ref().expect("the view is open");
        for (id, topic) in model.topics.iter().filter(|(_, topic)| topic.exists) {
            let found = (view.next_seq(*id), view.read_to(*id));
            ensure!(
                found == (topic.next_seq, topic.read_to),
                "topic {}: {found:?} and not {:?}",
                id.0,
                (topic.next_seq, topic.read_to)
            );
        }
        let declared: Vec<_> = view
            .catalog()
            .subscriptions()
            .map(|found| found.id)
            .collect();
        let expected: Vec<_> = model.subscriptions.keys().copied().collect();
        ensure!(
            declared == expected,
            "subscriptions {declared:?} and not {expected:?}"
        );
        for (id, subscription) in &model.subscriptions {
            let name = format!("subscription {}", id.0);
            let (counters, open) = view.counters(*id);
            ensure!(
                view.cursor(*id) == model.cursor(*id),
                "{name}: cursor {} and not {}",
                view.cursor(*id),
                model.cursor(*id)
            );
            ensure!(
                counters.matched == counters.delivered + counters.dropped + open,
                "{name}: {counters:?} and {open} open do not balance"
            );
            let found = (counters.matched, counters.delivered, counters.dropped);
            let expected = (
                subscription.matched,
                subscription.delivered.len() as u64,
                subscription.dropped.len() as u64,
            );
            ensure!(
                found == expected,
                "{name}: counters {found:?} and not {expected:?}"
            );
            let rows = view
                .due(*id, FIRST_IN_FLIGHT, Timestamp::MAX, usize::MAX)
                .map_err(|error| error.to_string())?;
            let rows: BTreeMap<_, _> = rows
                .into_iter()
                .map(|row| (row.seq, (row.due, row.progress)))
                .collect();
            ensure!(
                rows == subscription.rows,
                "{name}: due rows {rows:?} and not {:?}",
                subscription.rows
            );
            let open: Vec<_> = subscription.rows.keys().copied().collect();
            ensure!(
                view.open_seqs(*id) == open,
                "{name}: open {:?} and not {open:?}",
                view.open_seqs(*id)
            );
        }
        let page = view
            .terminal_records(&TerminalFilter::default(), usize::MAX)
            .map_err(|error| error.to_string())?;
        let found: Vec<_> = page
            .records
            .iter()
            .map(|(_, record)| (record.subscription, record.seq))
            .collect();
        ensure!(
            found == model.terminal,
            "{} terminal records and not {}",
            found.len(),
            model.terminal.len()
        );
        Ok(())
    }

    /// Everything owed can still be read, and is what was published.
    fn check_owed(&self) -> Result<(), String> {
        for (id, subscription) in &self.model.subscriptions {
            let topic = &self.model.topics[&subscription.topic];
            let behind = self.model.cursor(*id)..topic.next_seq;
            for seq in subscription.rows.keys().copied().chain(behind) {
                let position = Position {
                    topic: subscription.topic,
                    seq,
                };
                let stored = self
                    .log()
                    .read(position)
                    .map_err(|error| format!("{position:?} is owed: {error}"))?;
                let event = unpack_event(&stored.bytes).map_err(|error| error.to_string())?;
                let expected = &topic.events[seq as usize - 1];
                ensure!(
                    event.id == *expected,
                    "{position:?} is {} and not {expected}",
                    event.id
                );
            }
        }
        Ok(())
    }

    /// What was in flight counts as an attempt and is due again, or is given up after three crashes (ED-190, ED-207).
    fn take_up(&mut self) -> Result<(), Stop> {
        let ids: Vec<_> = self.live.subscriptions.keys().copied().collect();
        for id in ids {
            let rows = self.live.subscriptions[&id].rows.clone();
            for (seq, (_, progress)) in rows.into_iter().filter(|(_, (due, _))| *due == IN_FLIGHT) {
                let crashes = self.view().crashes_with_this_one(&progress);
                let expected = if progress.crashes > 0 {
                    progress.crashes + 1
                } else {
                    1
                };
                if crashes != expected {
                    return Err(format!("{crashes} crashes counted and not {expected}").into());
                }
                let progress = Progress {
                    crashes,
                    crash_epoch: self.epoch,
                    ..progress
                };
                if crashes >= CRASHES_MAX {
                    self.die(id, seq, Some(IN_FLIGHT), Some(progress))?;
                } else {
                    self.fail(id, seq, progress, Outcome::Delivering)?;
                }
            }
        }
        Ok(())
    }

    /// Faults stop: everything owed is delivered, and every event accepted is delivered or has its terminal record.
    fn end(&mut self) -> Result<(), String> {
        let calm = |stop| match stop {
            Stop::Crashed => "the store failed without a fault".to_owned(),
            Stop::Wrong(error) => error,
        };
        self.end_process();
        self.disk.kill();
        self.disk.fail_after(u64::MAX);
        loop {
            match self.try_open() {
                Ok(()) => break,
                Err(stop) => return Err(calm(stop)),
            }
        }
        self.commit().map_err(calm)?;
        loop {
            let mut is_idle = true;
            let ids: Vec<_> = self.live.subscriptions.keys().copied().collect();
            for id in ids {
                let subscription = &self.live.subscriptions[&id];
                let new = self.live.cursor(id);
                let rows = subscription.rows.clone();
                if new < self.model.topics[&subscription.topic].next_seq {
                    is_idle = false;
                    let progress = first_attempt((self.clock)());
                    let deliveries = vec![StartedDelivery {
                        seq: new,
                        replaces_due: None,
                        progress,
                    }];
                    self.journal(Record::Started(Started {
                        subscription: id,
                        deliveries,
                    }))
                    .map_err(calm)?;
                    self.deliver(id, new).map_err(calm)?;
                }
                for (seq, (due, progress)) in rows {
                    is_idle = false;
                    let deliveries = vec![StartedDelivery {
                        seq,
                        replaces_due: Some(due),
                        progress,
                    }];
                    self.journal(Record::Started(Started {
                        subscription: id,
                        deliveries,
                    }))
                    .map_err(calm)?;
                    self.deliver(id, seq).map_err(calm)?;
                }
            }
            self.commit().map_err(calm)?;
            if is_idle {
                break;
            }
        }
        self.compare()?;
        for (id, subscription) in &self.model.subscriptions {
            for seq in subscription.from_seq..self.model.topics[&subscription.topic].next_seq {
                let is_final =
                    subscription.delivered.contains(&seq) || subscription.dropped.contains(&seq);
                ensure!(is_final, "event {seq} is lost for subscription {}", id.0);
            }
        }
        ensure!(
            self.tally.duplicates <= self.tally.duplicates_bound,
            "{} duplicates, {} allowed",
            self.tally.duplicates,
            self.tally.duplicates_bound
        );
        Ok(())
    }
}

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 64 * 1024,
        bytes_max: 24 * 64 * 1024,
        disk_reserve_bytes: 0,
        ring_bytes: 48 * 1024,
        group_bytes_max: 32 * 1024,
        queue_bytes_max: 1024 * 1024,
        zeroed_segments: 1,
        free_segments_max: 4,
    }
}

fn first_attempt(now: Timestamp) -> Progress {
    Progress {
        published: now,
        attempts: 1,
        first_attempt: now,
        last_attempt: now,
        last_outcome: Outcome::Delivering,
        last_status: 0,
        crashes: 0,
        crash_epoch: 0,
    }
}

fn event(name: u64, data_bytes: usize) -> Event<'static> {
    Event {
        id: name.to_string().into(),
        source: None,
        event_type: "test".into(),
        subject: Some("s".into()),
        time: None,
        data_version: None,
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Binary(vec![name as u8; data_bytes].into()),
    }
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.dead += other.dead;
        self.duplicates += other.duplicates;
        self.duplicates_bound += other.duplicates_bound;
        self.epochs += other.epochs;
        self.recycled += other.recycled;
        self.checkpoints += other.checkpoints;
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.failed_syncs += other.failed_syncs;
        self.opens_interrupted += other.opens_interrupted;
        self.checkpoints_interrupted += other.checkpoints_interrupted;
        self.batches_taken_back += other.batches_taken_back;
        self.adopted += other.adopted;
        self.torn += other.torn;
    }

    /// A run that did not go through the places where things get lost proves little.
    pub fn check(&self, rounds: u64) -> Result<(), String> {
        if rounds < 20 {
            return Ok(());
        }
        let covered = [
            ("epochs", self.epochs > rounds),
            ("segments recycled", self.recycled > rounds / 4),
            ("checkpoints", self.checkpoints > rounds),
            ("power cuts", self.cuts > rounds / 4),
            ("kills", self.kills > rounds / 8),
            ("failed syncs", self.failed_syncs > rounds / 8),
            ("opens interrupted", self.opens_interrupted > rounds / 20),
            (
                "checkpoints interrupted",
                self.checkpoints_interrupted > rounds / 20,
            ),
            ("groups adopted", self.adopted > rounds / 20),
        ];
        let missed: Vec<_> = covered
            .iter()
            .filter(|(_, is_met)| !is_met)
            .map(|(name, _)| *name)
            .collect();
        if missed.is_empty() {
            Ok(())
        } else {
            Err(format!("FAIL: too few: {}", missed.join(", ")))
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("rounds", self.rounds),
            ("requests accepted", self.accepted),
            ("delivered", self.delivered),
            ("terminal records", self.dead),
            ("duplicates", self.duplicates),
            ("  their bound", self.duplicates_bound),
            ("lost", 0),
            ("epochs", self.epochs),
            ("segments recycled", self.recycled),
            ("checkpoints", self.checkpoints),
            ("  interrupted", self.checkpoints_interrupted),
            ("power cuts", self.cuts),
            ("  view batches taken back", self.batches_taken_back),
            ("kills", self.kills),
            ("failed syncs", self.failed_syncs),
            ("opens interrupted", self.opens_interrupted),
            ("groups adopted", self.adopted),
            ("groups torn", self.torn),
        ];
        for (index, (name, count)) in rows.iter().enumerate() {
            let line_end = if index + 1 < rows.len() { "\n" } else { "" };
            write!(f, "{name:<26} {count}{line_end}")?;
        }
        Ok(())
    }
}
