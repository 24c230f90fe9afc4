//! Kept files beside a model of them, through power cuts, kills, failed syncs and full disks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;

use super::{FILE_BYTES_MAX, STORE, owed};
use crate::disk::Disk;
use crate::disk::faulty::{FaultyDisk, Random};
use crate::disk::mutant::{MutantDisk, Mutation};
use crate::log::kept::{Class, Kept, KeptOptions, Pressure, check};
use crate::record::Owed;
use crate::{Needed, StoreError};

const TOPICS: u64 = 3;
const SUBSCRIPTIONS: u64 = 3;
const HOUR_MILLIS: u64 = 3_600_000;

/// What a run went through.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    pub cleanings: u64,
    pub updates: u64,
    pub dropped: u64,
    pub cuts: u64,
    pub kills: u64,
    pub failed_syncs: u64,
    pub full: u64,
    pub lost_steps: u64,
    pub deleted_files: u64,
    pub compacted_files: u64,
    pub rows: u64,
}

/// One event as the model knows it.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    published: Timestamp,
    bytes: Bytes,
    owed: BTreeMap<SubscriptionId, (Timestamp, Owed)>,
    /// It was said once that it is not needed: it may be gone.
    is_doomed: bool,
}

type Events = BTreeMap<(TopicId, u64), Model>;

struct Run {
    random: Random,
    disk: FaultyDisk,
    mutation: Option<Mutation>,
    kept: Kept,
    events: Events,
    cleaned_through: u32,
    next_seqs: BTreeMap<TopicId, u64>,
    time: u64,
    coverage: Coverage,
}

/// Goes through so many steps; an error says what was not as the model has it.
pub(super) fn run(seed: u64, mutation: Option<Mutation>, steps: u64) -> Result<Coverage, String> {
    let disk = FaultyDisk::new(seed);
    let kept = open(&disk, mutation).map_err(|error| error.to_string())?;
    let mut run = Run {
        random: Random::new(seed),
        disk,
        mutation,
        kept,
        events: BTreeMap::new(),
        cleaned_through: 0,
        next_seqs: BTreeMap::new(),
        time: 0,
        coverage: Coverage::default(),
    };
    for step in 0..steps {
        run.step()
            .and_then(|()| run.check())
            .map_err(|error| format!("seed {seed}, step {step}: {error}"))?;
    }
    run.coverage.compacted_files += run.kept.compacted_files();
    Ok(run.coverage)
}

fn open(disk: &FaultyDisk, mutation: Option<Mutation>) -> Result<Kept, StoreError> {
    let mount = match mutation {
        Some(mutation) => Arc::new(MutantDisk::new(disk.mount(), mutation)) as Arc<dyn Disk>,
        None => disk.mount(),
    };
    let options = KeptOptions {
        file_bytes_max: FILE_BYTES_MAX,
    };
    Kept::open(mount, STORE, options)
}

fn expect(is_so: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what()) }
}

impl Run {
    fn step(&mut self) -> Result<(), String> {
        match self.random.below(16) {
            0..7 => self.clean_or_fail(),
            7..11 => self.tidy(),
            11..13 => self.full_disk(),
            13 => {
                self.coverage.dropped += 1;
                let (mut events, mut next) = (self.events.clone(), self.next_seqs.clone());
                let plan = self.plan(&mut events, &mut next);
                drop(plan.begin(&self.kept));
                Ok(())
            }
            14 => {
                self.coverage.kills += 1;
                self.disk.kill();
                self.reopen()
            }
            _ => {
                self.coverage.cuts += 1;
                self.disk.cut();
                self.reopen()
            }
        }
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.coverage.compacted_files += self.kept.compacted_files();
        self.kept = open(&self.disk, self.mutation).map_err(|error| error.to_string())?;
        let names = ["kept/owed", "kept/behind"]
            .into_iter()
            .flat_map(|directory| self.disk.mount().list(directory).unwrap());
        expect(names.count() == self.kept.files().len(), || {
            "files that do not count are still there".to_owned()
        })
    }

    /// Draws what the next cleaning does, and does it to these.
    fn plan(&mut self, events: &mut Events, next_seqs: &mut BTreeMap<TopicId, u64>) -> Plan {
        let mut plan = Plan::default();
        for _ in 0..self.random.below(12) {
            let at = self.random.below(events.len().max(1) as u64) as usize;
            let Some((key, event)) = events.iter_mut().nth(at) else {
                break;
            };
            let subscription = SubscriptionId(1 + self.random.below(SUBSCRIPTIONS) as u32);
            let state = (self.random.below(3) == 0).then(|| owed(self.random.draw()));
            match state {
                Some(state) => drop(event.owed.insert(subscription, state)),
                None => drop(event.owed.remove(&subscription)),
            }
            plan.updates.push((*key, subscription, state));
        }
        for _ in 0..self.random.below(30) {
            let topic = TopicId(1 + self.random.below(TOPICS) as u32);
            let seq = next_seqs.entry(topic).or_insert(1);
            // A gap: it was not needed.
            *seq += u64::from(self.random.one_in(5));
            let position = Position { topic, seq: *seq };
            *seq += 1;
            self.time += self.random.below(HOUR_MILLIS / 50);
            let bytes_max = if self.random.one_in(20) {
                30_000
            } else {
                1_500
            };
            let bytes = vec![self.random.draw() as u8; self.random.below(bytes_max) as usize];
            let mut event = Model {
                published: Timestamp::from_millis(self.time),
                bytes: bytes.into(),
                owed: BTreeMap::new(),
                is_doomed: false,
            };
            for id in 1..=SUBSCRIPTIONS as u32 {
                if self.random.one_in(2) {
                    let state = owed(self.random.draw());
                    event.owed.insert(SubscriptionId(id), state);
                }
            }
            let class = if event.owed.is_empty() {
                Class::Behind
            } else {
                Class::Owed
            };
            plan.events.push((class, position, event.clone()));
            events.insert((topic, position.seq), event);
        }
        plan
    }

    /// A cleaning that may meet the end of the process, or of the power, or a sync that fails.
    fn clean_or_fail(&mut self) -> Result<(), String> {
        let (mut events, mut next) = (self.events.clone(), self.next_seqs.clone());
        let plan = self.plan(&mut events, &mut next);
        let fails_sync = self.random.one_in(10);
        let loses_power = !fails_sync && self.random.one_in(2);
        if fails_sync {
            self.disk.fail_sync_once();
        } else if loses_power {
            self.disk.fail_after(1 + self.random.below(20));
        }
        let through = self.cleaned_through + 1;
        let result = plan.begin(&self.kept).commit(through);
        self.coverage.cleanings += 1;
        self.coverage.updates += plan.updates.len() as u64;
        if result.is_err() {
            self.coverage.failed_syncs += u64::from(fails_sync);
        }
        if result.is_err() || fails_sync || loses_power {
            self.end_process()?;
        }
        // One that had nothing to write says nothing.
        let is_done = result.is_ok() || self.kept.cleaned_through() == through;
        if is_done {
            self.events = events;
            self.next_seqs = next;
            self.cleaned_through = self.kept.cleaned_through().max(self.cleaned_through);
        } else {
            self.coverage.lost_steps += 1;
        }
        Ok(())
    }

    fn end_process(&mut self) -> Result<(), String> {
        if self.random.one_in(3) {
            self.coverage.kills += 1;
            self.disk.kill();
            // What is opened now is trusted from now on.
            if self.random.one_in(2) {
                self.reopen()?;
                self.disk.cut();
            }
        } else {
            self.coverage.cuts += 1;
            self.disk.cut();
        }
        self.reopen()
    }

    /// The disk is full in the middle of it, and the process goes on.
    fn full_disk(&mut self) -> Result<(), String> {
        let (mut events, mut next) = (self.events.clone(), self.next_seqs.clone());
        let plan = self.plan(&mut events, &mut next);
        let mount = self.disk.mount();
        self.disk.set_capacity(u64::MAX - 1);
        let used_bytes = u64::MAX - 1 - mount.free_space().unwrap();
        self.disk
            .set_capacity(used_bytes + self.random.below(40) * 1_000);
        let through = self.cleaned_through + 1;
        let result = plan.begin(&self.kept).commit(through);
        let (used_after, capacity) = {
            self.disk.set_capacity(u64::MAX - 1);
            (u64::MAX - 1 - mount.free_space().unwrap(), u64::MAX)
        };
        self.disk.set_capacity(capacity);
        match result {
            Ok(()) => {
                self.events = events;
                self.next_seqs = next;
                self.cleaned_through = self.kept.cleaned_through();
                Ok(())
            }
            Err(error) => {
                self.coverage.full += 1;
                expect(error.is_disk_full(), || format!("a full disk: {error}"))?;
                // A manifest that was prepared may stay.
                expect(used_after <= used_bytes + 8_192, || {
                    format!("space was not given back: {used_bytes}, {used_after}")
                })
            }
        }
    }

    /// Some more is not needed any more.
    fn tidy(&mut self) -> Result<(), String> {
        let mut needed: HashMap<TopicId, Needed> = HashMap::new();
        let end = self.random.below(self.events.len() as u64 + 1) as usize;
        let odds = 1 + self.random.below(4);
        for (at, ((topic, seq), event)) in self.events.iter_mut().enumerate() {
            event.is_doomed |= at < end && self.random.below(4) < odds;
            let needed = needed.entry(*topic).or_default();
            if event.is_doomed {
                needed.from = u64::MAX;
            } else {
                needed.from = needed.from.min(*seq);
                needed.open.insert(*seq);
            }
        }
        let pressure =
            [Pressure::None, Pressure::Full, Pressure::RecordsToo][self.random.below(3) as usize];
        if self.random.one_in(3) {
            self.disk.fail_after(1 + self.random.below(30));
        }
        let files = self.kept.files().len() as u64;
        let compacted = self.kept.compacted_files();
        let result = self.kept.tidy(&needed, pressure, || Ok(u64::MAX));
        let new = self.kept.compacted_files() - compacted;
        self.coverage.deleted_files += (files + new).saturating_sub(self.kept.files().len() as u64);
        if result.is_err() {
            self.end_process()?;
        } else {
            self.disk.kill();
            self.reopen()?;
        }
        let kept = &self.kept;
        self.events.retain(|(topic, seq), event| {
            !event.is_doomed
                || kept.has(Position {
                    topic: *topic,
                    seq: *seq,
                })
        });
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let through = self.kept.cleaned_through();
        expect(through == self.cleaned_through, || {
            format!("cleaned through {through}, not {}", self.cleaned_through)
        })?;
        for ((topic, seq), event) in &self.events {
            let position = Position {
                topic: *topic,
                seq: *seq,
            };
            expect(self.kept.has(position), || format!("{position:?} is gone"))?;
            for id in (1..=SUBSCRIPTIONS as u32).map(SubscriptionId) {
                let is_open = self.kept.is_open(*topic, id, *seq);
                expect(is_open == event.owed.contains_key(&id), || {
                    format!("{position:?} is open for {id:?}: {is_open}")
                })?;
            }
        }
        self.check_owed()?;
        if self.random.one_in(4) {
            let checked = check::check(&*self.disk.mount(), STORE);
            let checked = checked.map_err(|error| error.to_string())?;
            // The events are no packed ones.
            expect(checked.bytes == self.kept.bytes(), || {
                format!("{checked:?}")
            })?;
        }
        self.check_reading()
    }

    fn check_owed(&self) -> Result<(), String> {
        let mut found: BTreeMap<(TopicId, u64), BTreeMap<_, _>> = BTreeMap::new();
        let walked = self.kept.for_each_owed(&mut |at, (id, due, owed)| {
            let one = found.entry((at.topic, at.seq)).or_default();
            assert!(one.insert(id, (due, owed)).is_none(), "owed twice");
            Ok(())
        });
        walked.map_err(|error| error.to_string())?;
        let mut expected: BTreeMap<_, _> = BTreeMap::new();
        for (key, event) in self.events.iter().filter(|(_, one)| !one.owed.is_empty()) {
            expected.insert(*key, event.owed.clone());
        }
        expect(found == expected, || {
            "what is owed is something else".to_owned()
        })
    }

    /// Reads a row from anywhere, and one from a place that is not there.
    fn check_reading(&mut self) -> Result<(), String> {
        for _ in 0..3 {
            let at = self.random.below(self.events.len().max(1) as u64) as usize;
            let Some(((topic, first), _)) = self.events.iter().nth(at) else {
                break;
            };
            let bytes_max = self.random.below(60_000) as usize;
            let from = Position {
                topic: *topic,
                seq: *first,
            };
            let row = self.kept.read_from(from, bytes_max);
            let row = row.map_err(|error| error.to_string())?;
            let (mut seq, mut bytes) = (*first, 0);
            for (found, event) in &row {
                let expected = self.events.get(&(*topic, seq));
                let is_right = expected.is_some_and(|one| {
                    one.bytes == event.bytes && one.published == event.published
                });
                expect(*found == seq && is_right, || {
                    format!("the row of {from:?} has another {seq}")
                })?;
                bytes += event.bytes.len();
                seq += 1;
            }
            expect(!row.is_empty(), || format!("{from:?} has no row"))?;
            if let Some(next) = self.events.get(&(*topic, seq)) {
                expect(bytes + next.bytes.len() > bytes_max, || {
                    format!("the row of {from:?} ends at {seq} too early")
                })?;
            }
            self.coverage.rows += row.len() as u64;
        }
        let beyond = Position {
            topic: TopicId(1),
            seq: u64::MAX / 2,
        };
        let row = self.kept.read_from(beyond, 1).unwrap();
        expect(row.is_empty(), || "what never was is there".to_owned())
    }
}

/// What became of a delivery of an event.
type Updated = ((TopicId, u64), SubscriptionId, Option<(Timestamp, Owed)>);

/// What a cleaning does.
#[derive(Default)]
struct Plan {
    events: Vec<(Class, Position, Model)>,
    updates: Vec<Updated>,
}

impl Plan {
    fn begin<'a>(&self, kept: &'a Kept) -> crate::log::kept::Cleaning<'a> {
        let mut cleaning = kept.begin();
        for (class, position, event) in &self.events {
            let owed = event.owed.iter();
            cleaning.event(
                *class,
                *position,
                event.published,
                event.bytes.clone(),
                owed.map(|(id, (due, owed))| (*id, *due, *owed)).collect(),
            );
        }
        for ((topic, seq), subscription, state) in &self.updates {
            let position = Position {
                topic: *topic,
                seq: *seq,
            };
            cleaning.update(position, *subscription, *state);
        }
        cleaning
    }
}

#[test]
fn kept_files_are_as_the_model_has_them_whatever_happens() {
    let seeds = if std::env::var_os("HEDGEROW_SLOW").is_some() {
        400
    } else {
        30
    };
    let mut all = Coverage::default();
    for seed in 0..seeds {
        let one = run(seed, None, 120).unwrap();
        all.cleanings += one.cleanings;
        all.updates += one.updates;
        all.dropped += one.dropped;
        all.cuts += one.cuts;
        all.kills += one.kills;
        all.failed_syncs += one.failed_syncs;
        all.full += one.full;
        all.lost_steps += one.lost_steps;
        all.deleted_files += one.deleted_files;
        all.compacted_files += one.compacted_files;
        all.rows += one.rows;
    }
    println!("{all:?}");
    // A run that did not go through these proves little.
    assert!(
        all.cleanings > 20 * seeds && all.updates > 50 * seeds,
        "{all:?}"
    );
    assert!(
        all.cuts > 5 * seeds && all.kills > 2 * seeds && all.lost_steps > 2 * seeds,
        "{all:?}"
    );
    assert!(
        all.full > seeds && all.failed_syncs > seeds && all.dropped > seeds,
        "{all:?}"
    );
    assert!(
        all.compacted_files > seeds && all.deleted_files > seeds,
        "{all:?}"
    );
    assert!(all.rows > 100 * seeds, "{all:?}");
}

#[test]
fn a_disk_that_forgets_a_duty_is_found_out() {
    // Nothing is told before the manifest's directory is synced, which does what is late.
    for mutation in [Mutation::NoSync, Mutation::NoDirectorySync] {
        let found = (0..60).find_map(|seed| run(seed, Some(mutation), 120).err());
        println!("{mutation:?}: {found:?}");
        assert!(found.is_some(), "{mutation:?} was not found out");
    }
}

#[test]
fn a_step_is_the_same_for_the_same_seed() {
    let once = format!("{:?}", run(7, None, 60).unwrap());
    assert_eq!(once, format!("{:?}", run(7, None, 60).unwrap()));
}
