//! One store from its making to its end: random steps, crashes, and what is checked after each.

macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*));
        }
    };
}

mod opening;
mod steps;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::disk::faulty::{FaultyDisk, Random};
use hedgerow_store::disk::mutant::Mutation;
use hedgerow_store::log::{Clock, Log};
use hedgerow_store::record::{IN_FLIGHT, Record, Started, StartedDelivery};
use hedgerow_store::view::View;
use hedgerow_store::{Appending, Group, Store, StoreError};

use self::steps::first_attempt;
use super::model::Model;
use super::table::{PowerGoes, PowerTable};
use super::tally::Tally;

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

pub struct Life {
    seed: u64,
    random: Random,
    mutation: Option<Mutation>,
    disk: FaultyDisk,
    table: Arc<PowerTable>,
    /// The view was lost, and is to be built again before the store is opened.
    is_view_lost: bool,
    /// It was built again, and not looked at since.
    is_view_rebuilt: bool,
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
            is_view_lost: false,
            is_view_rebuilt: false,
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

    fn journal(&mut self, record: Record) -> Result<(), Stop> {
        self.live.fold(&record);
        self.has_queued = true;
        self.log()
            .journal(record)
            .or_else(|error| store_failed(&error))
    }

    fn commit(&mut self) -> Result<(), Stop> {
        loop {
            match self.log().commit_queued() {
                Ok(Some(group)) => self.take(&group)?,
                Ok(None) => break,
                Err(error) => return store_failed(&error),
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
        self.model.follow(group);
        Ok(())
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
        let usage = self.log.take().map(|log| log.usage()).unwrap_or_default();
        self.tally.recycled += usage.recycled_segments;
        self.tally.cleaned += usage.cleaned_segments;
        self.tally.copied += usage.copied_events;
        self.tally.compacted += usage.compacted_files;
        self.view = None;
        self.table.lose_power(PowerGoes::Nowhere);
        self.appends.clear();
        self.unsettled.clear();
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
        self.try_open().map_err(calm)?;
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

/// An error is right only where the power is gone or a sync failed.
fn store_failed(error: &StoreError) -> Result<(), Stop> {
    match error {
        StoreError::Closed | StoreError::Io { .. } | StoreError::View { .. } => Err(Stop::Crashed),
        other => Err(Stop::Wrong(format!("unexpected: {other}"))),
    }
}
