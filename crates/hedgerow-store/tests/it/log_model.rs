//! The obvious model of a log on a faulty disk, and random operations that compare the two.
//!
//! What the log said is durable must be there after every crash, exactly; what was being written may be there whole or
//! not at all; nothing else may be there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::faulty::{FaultyDisk, Random};
use hedgerow_store::disk::mutant::{MutantDisk, Mutation};
use hedgerow_store::log::check::check;
use hedgerow_store::log::{Log, RecoveredLog};
use hedgerow_store::record::{PackedEvents, Record, unpack_event};
use hedgerow_store::{Appending, Group, Store, StoreError};

use crate::support::{Floors, event, secrets, settled, small, ticking};

const INDEX_ENDING: &str = ".idx";

/// What a run went through.
#[derive(Debug, Default, Clone, Copy)]
pub struct Coverage {
    pub groups: u64,
    pub recycled: u64,
    pub epochs: u64,
    pub cuts: u64,
    pub kills: u64,
    pub failed_syncs: u64,
    pub crashes_in_open: u64,
    /// Groups that were not acknowledged and came back whole.
    pub adopted: u64,
    /// Groups that were not acknowledged and were gone.
    pub torn: u64,
    pub old_reads: u64,
    pub forgotten_reads: u64,
    pub refused: u64,
    /// Segments that were not read at an opening, because their index was.
    pub indexes_used: u64,
    /// Indexes that were there and not trusted.
    pub indexes_refused: u64,
    /// Indexes that were spoilt between two processes.
    pub indexes_spoilt: u64,
    /// Processes that ended while an index was written.
    pub indexes_cut: u64,
    /// Times that the check looked at what a crash left.
    pub checks: u64,
}

macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*));
        }
    };
}

/// A group as the model knows it.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    number: u64,
    start: Mark,
    end: Mark,
    content: Vec<Content>,
}

/// A record as the model knows it.
#[derive(Debug, Clone, PartialEq)]
enum Content {
    Events {
        topic: TopicId,
        first_seq: u64,
        ids: Vec<String>,
    },
    Other(Record),
}

struct Run {
    random: Random,
    disk: FaultyDisk,
    mutation: Option<Mutation>,
    log: Option<Log>,
    /// Every durable group there ever was.
    groups: Vec<Known>,
    /// What was queued and is not known to be durable, in order, without its numbers.
    queued: Vec<Content>,
    replies: Vec<Appending>,
    next_seq: BTreeMap<TopicId, u64>,
    /// The model of the view: synced to here.
    through: Mark,
    floors: Floors,
    store_id: Option<[u8; 16]>,
    epoch: u32,
    clock: Timestamp,
    events: u64,
    coverage: Coverage,
}

/// Runs `steps` random operations. The error says what was wrong.
pub fn run(seed: u64, mutation: Option<Mutation>, steps: u64) -> Result<Coverage, String> {
    let mut run = Run {
        random: Random::new(seed),
        disk: FaultyDisk::new(seed ^ 0xD15C),
        mutation,
        log: None,
        groups: Vec::new(),
        queued: Vec::new(),
        replies: Vec::new(),
        next_seq: BTreeMap::new(),
        through: Mark::ZERO,
        floors: Floors::default(),
        store_id: None,
        epoch: 0,
        clock: Timestamp::ZERO,
        events: 0,
        coverage: Coverage::default(),
    };
    run.open()?;
    for step in 0..steps {
        run.step()
            .map_err(|error| format!("seed {seed}, step {step}: {error}"))?;
    }
    run.crash()?;
    run.coverage.epochs = u64::from(run.epoch);
    Ok(run.coverage)
}

impl Run {
    fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..30 => self.append(),
            36..76 => self.commit(),
            76..84 => self.checkpoint(),
            84..92 => self.read(),
            92..94 if self.random.one_in(2) => self.crash(),
            94..96 if self.random.one_in(2) => {
                self.disk.fail_sync_once();
                self.coverage.failed_syncs += 1;
                self.append()?;
                self.commit()
            }
            96 => {
                self.disk.fail_after(1 + self.random.below(6));
                Ok(())
            }
            _ => self.journal(),
        }
    }

    fn append(&mut self) -> Result<(), String> {
        let topic = TopicId(1 + self.random.below(3) as u32);
        let count = 1 + self.random.below(4);
        let mut ids = Vec::new();
        for _ in 0..count {
            self.events += 1;
            ids.push(format!("e{}", self.events));
        }
        let most = if self.random.one_in(10) { 6000 } else { 1500 };
        let events: Vec<_> = ids
            .iter()
            .map(|id| event(id, self.random.below(most) as usize))
            .collect();
        match self.log().append(topic, PackedEvents::pack(&events)) {
            Ok(appending) => {
                self.replies.push(appending);
                self.queued.push(Content::Events {
                    topic,
                    first_seq: 0,
                    ids,
                });
                Ok(())
            }
            Err(StoreError::Full(_) | StoreError::Busy { .. }) => {
                self.coverage.refused += 1;
                self.commit()?;
                self.floors.0 = self.next_seq.clone().into_iter().collect();
                self.checkpoint()
            }
            Err(StoreError::Closed) => self.crash(),
            Err(error) => Err(format!("append: {error}")),
        }
    }

    fn journal(&mut self) -> Result<(), String> {
        let record = settled(self.random.below(1000));
        match self.log().journal(record.clone()) {
            Ok(()) => {
                self.queued.push(Content::Other(record));
                Ok(())
            }
            Err(StoreError::Closed) => self.crash(),
            Err(error) => Err(format!("journal: {error}")),
        }
    }

    fn commit(&mut self) -> Result<(), String> {
        match self.log().commit_queued() {
            Ok(None) => Ok(()),
            Ok(Some(group)) => {
                self.learn(&group)?;
                for mut reply in std::mem::take(&mut self.replies) {
                    match reply.try_recv() {
                        Ok(appended) => {
                            let known = self.groups.last().expect("just learnt");
                            ensure!(
                                known.content.iter().any(|content| matches!(content,
                                    Content::Events { topic, first_seq, .. }
                                    if *topic == appended.first.topic && *first_seq == appended.first.seq)),
                                "a reply {appended:?} for events that are not in the group"
                            );
                        }
                        Err(tokio::sync::oneshot::error::TryRecvError::Empty) => {
                            self.replies.push(reply);
                        }
                        Err(error) => {
                            // What was not in the group is dropped when the next segment could not be made.
                            let is_closed = self.log().durable().has_changed().is_err();
                            ensure!(is_closed, "a reply was dropped: {error}");
                        }
                    }
                }
                Ok(())
            }
            Err(_) => self.crash(),
        }
    }

    /// Takes note of a durable group; it must be made of the oldest that was queued.
    fn learn(&mut self, group: &Group) -> Result<(), String> {
        self.coverage.groups += 1;
        let known = self.known(group)?;
        let expected_number = self.groups.last().map_or(1, |last| last.number + 1);
        ensure!(
            known.number == expected_number,
            "group number {}",
            known.number
        );
        ensure!(
            self.groups
                .last()
                .is_none_or(|last| last.end <= known.start),
            "groups overlap at {}",
            known.start
        );
        for content in &known.content {
            ensure!(
                !self.queued.is_empty(),
                "a record that was not queued: {content:?}"
            );
            let mut queued = self.queued.remove(0);
            if let (
                Content::Events {
                    first_seq,
                    topic,
                    ids,
                },
                Content::Events {
                    first_seq: given, ..
                },
            ) = (&mut queued, content)
            {
                let next = self.next_seq.entry(*topic).or_insert(1);
                ensure!(*given == *next, "seq {given} where {next} is next");
                *next += ids.len() as u64;
                *first_seq = *given;
            }
            ensure!(
                queued == *content,
                "wrote {content:?}, queued was {queued:?}"
            );
        }
        self.groups.push(known);
        Ok(())
    }

    fn known(&mut self, group: &Group) -> Result<Known, String> {
        let mut content = Vec::new();
        for record in &group.records {
            content.push(match record {
                Record::Events(events) => {
                    self.clock = self.clock.max(events.published);
                    let mut ids = Vec::new();
                    for event in events.packed.iter() {
                        ids.push(event.map_err(|error| error.to_string())?.1.id.into_owned());
                    }
                    Content::Events {
                        topic: events.topic,
                        first_seq: events.first_seq,
                        ids,
                    }
                }
                other => Content::Other(other.clone()),
            });
        }
        Ok(Known {
            number: group.number,
            start: group.start,
            end: group.end,
            content,
        })
    }

    fn checkpoint(&mut self) -> Result<(), String> {
        if self.groups.is_empty() {
            return Ok(());
        }
        let newest = self.groups.len() as u64 - 1;
        let at = newest.saturating_sub(self.random.below(20));
        self.through = self.through.max(self.groups[at as usize].end);
        for (topic, next) in &self.next_seq {
            let floor = self.floors.0.entry(*topic).or_insert(1);
            *floor = (*floor).max(next.saturating_sub(self.random.below(60)));
        }
        match self.log().checkpoint(self.through, &self.floors) {
            Ok(()) => {}
            Err(StoreError::Io { .. } | StoreError::Closed) => return self.crash(),
            Err(error) => return Err(format!("checkpoint: {error}")),
        }
        let oldest = self.log().oldest();
        ensure!(
            oldest <= self.through,
            "forgot up to {oldest}, the view is at {}",
            self.through
        );
        let kept = self.groups.iter().filter(|group| group.start < oldest);
        for group in kept {
            for content in &group.content {
                if let Content::Events {
                    topic,
                    first_seq,
                    ids,
                } = content
                {
                    let last = first_seq + ids.len() as u64 - 1;
                    ensure!(
                        last < self.floors.0[topic],
                        "forgot event {last} of {topic:?}, which is needed"
                    );
                }
            }
        }
        Ok(())
    }

    /// Reads an event, a row of events and groups from anywhere.
    fn read(&mut self) -> Result<(), String> {
        let topic = TopicId(1 + self.random.below(3) as u32);
        let next = self.next_seq.get(&topic).copied().unwrap_or(1);
        let position = Position {
            topic,
            seq: self.random.below(next + 2),
        };
        let oldest = self.log().oldest();
        let expected = self.find(position);
        match (self.log().read(position), expected) {
            (Ok(stored), Some((id, _))) => {
                let event = unpack_event(&stored.bytes).map_err(|error| error.to_string())?;
                ensure!(event.id == id, "{position:?} is {}, not {id}", event.id);
                self.coverage.old_reads += u64::from(self.log().read_recent(position).is_none());
            }
            (Err(StoreError::Forgotten { .. }), None) => self.coverage.forgotten_reads += 1,
            (Err(StoreError::Forgotten { .. }), Some((_, start))) if start < oldest => {
                self.coverage.forgotten_reads += 1;
            }
            (Err(StoreError::Io { .. } | StoreError::Closed), _) => return self.crash(),
            (result, expected) => {
                return Err(format!("{position:?}: {result:?}, not {expected:?}"));
            }
        }
        self.read_row(position)?;
        let at = self.random.below(self.groups.len() as u64 + 1) as usize;
        let from = at
            .checked_sub(1)
            .map_or(Mark::ZERO, |before| self.groups[before].end);
        let bytes_max = self.random.below(40_000) as usize;
        match self.log().groups(from, bytes_max) {
            Ok(groups) => self.compare(from, &groups),
            Err(StoreError::Io { .. } | StoreError::Closed) => self.crash(),
            Err(error) => Err(format!("groups from {from}: {error}")),
        }
    }

    fn read_row(&mut self, from: Position) -> Result<(), String> {
        let Ok(row) = self
            .log()
            .read_from(from, self.random.clone().below(20_000) as usize)
        else {
            return Ok(());
        };
        ensure!(!row.is_empty(), "an empty row");
        for (index, (seq, stored)) in row.iter().enumerate() {
            let position = Position {
                topic: from.topic,
                seq: *seq,
            };
            ensure!(*seq == from.seq + index as u64, "a gap before {position:?}");
            let event = unpack_event(&stored.bytes).map_err(|error| error.to_string())?;
            let expected = self.find(position);
            ensure!(
                expected.as_ref().is_some_and(|(id, _)| *id == event.id),
                "{position:?} in a row is {}, not {expected:?}",
                event.id
            );
        }
        Ok(())
    }

    /// The id of an event, and the start of its group.
    fn find(&self, position: Position) -> Option<(String, Mark)> {
        self.groups.iter().rev().find_map(|group| {
            group.content.iter().find_map(|content| match content {
                Content::Events {
                    topic,
                    first_seq,
                    ids,
                } if *topic == position.topic => {
                    let index = position.seq.checked_sub(*first_seq)? as usize;
                    Some((ids.get(index)?.clone(), group.start))
                }
                _ => None,
            })
        })
    }

    /// Whether groups that were read are those that follow `from`.
    fn compare(&mut self, from: Mark, groups: &[Arc<Group>]) -> Result<(), String> {
        let oldest = self.log.as_ref().map_or(Mark::ZERO, Log::oldest);
        // Of what is forgotten, the newest may still be in memory.
        let begin = match groups.first() {
            Some(group) if group.start < oldest => from.max(group.start),
            _ => from.max(oldest),
        };
        let first = self.groups.partition_point(|known| known.start < begin);
        ensure!(
            !groups.is_empty() || first == self.groups.len(),
            "no groups from {from}, {} are known",
            self.groups.len() - first
        );
        for (index, group) in groups.iter().enumerate() {
            let read = self.known(group)?;
            let known = self.groups.get(first + index);
            ensure!(known == Some(&read), "read {read:?}, known is {known:?}");
        }
        Ok(())
    }

    /// Ends the process in some way, and opens the log again.
    fn crash(&mut self) -> Result<(), String> {
        self.end_process();
        self.open()
    }

    fn end_process(&mut self) {
        if let Some(log) = &self.log {
            self.coverage.recycled += log.usage().recycled_segments;
        }
        if self.random.one_in(2) {
            self.coverage.cuts += 1;
            self.disk.cut();
        } else {
            self.coverage.kills += 1;
            self.disk.kill();
        }
        self.log = None;
        self.replies.clear();
        let disk = self.disk.mount();
        let names = disk.list("log").expect("the power is on");
        if names.iter().any(|name| name == "new-index") {
            self.coverage.indexes_cut += 1;
            disk.remove("log/new-index").expect("it was listed");
        }
        if self.random.one_in(3) {
            self.spoil_index();
        }
    }

    /// Whatever happens to an index, only time is lost.
    fn spoil_index(&mut self) {
        let disk = self.disk.mount();
        let mut names = disk.list("log").expect("the power is on");
        names.retain(|name| name.ends_with(INDEX_ENDING));
        names.sort();
        if names.is_empty() {
            return;
        }
        self.coverage.indexes_spoilt += 1;
        let mut any = || {
            let at = self.random.below(names.len() as u64) as usize;
            format!("log/{}", names[at])
        };
        let (one, other) = (any(), any());
        let file = disk.open(&one, false).expect("it was listed");
        let len = file.len().expect("the power is on");
        match self.random.below(4) {
            _ if len == 0 => disk.remove(&one).expect("the power is on"),
            0 => disk.remove(&one).expect("the power is on"),
            1 => self.disk.flip_bit(&one, self.random.below(len)),
            2 => file
                .set_len(self.random.below(len))
                .expect("the power is on"),
            // The index of another segment.
            _ => {
                let from = disk.open(&other, false).expect("it was listed");
                let mut bytes = vec![0; from.len().expect("the power is on") as usize];
                from.read_at(0, &mut bytes).expect("the power is on");
                file.set_len(0)
                    .and_then(|()| file.write_at(0, &bytes))
                    .expect("the power is on");
            }
        }
    }

    /// Opens the log, with crashes in between, and compares all of it.
    fn open(&mut self) -> Result<(), String> {
        loop {
            if self.random.one_in(2) {
                self.check_whole()?;
            }
            if self.random.one_in(3) {
                self.disk.fail_after(1 + self.random.below(12));
            }
            match self.open_once() {
                Ok(recovered) if !self.disk.is_off() => {
                    self.check_recovered(&recovered)?;
                    let seen = self.view_next_seqs();
                    self.log = Some(recovered.start_synchronous(&seen));
                    return Ok(());
                }
                Err(StoreError::Io { .. }) | Ok(_) => {
                    self.coverage.crashes_in_open += 1;
                    self.end_process();
                }
                Err(error) => return Err(format!("open: {error}")),
            }
        }
    }

    /// Whatever a crash left, the check of operators finds no damage.
    fn check_whole(&mut self) -> Result<(), String> {
        let report = match check(&*self.disk.mount(), &secrets(), &|| Ok(None)) {
            Ok(report) => report,
            Err(StoreError::Missing { .. }) => return Ok(()),
            Err(error) => return Err(format!("check: {error}")),
        };
        // Indexes are spoilt here, and there is no view.
        let mut problems = report.problems.iter().filter(|problem| {
            let path = &problem.path;
            path != "view" && !path.ends_with(INDEX_ENDING)
        });
        self.coverage.checks += 1;
        match problems.next() {
            None => Ok(()),
            Some(problem) => Err(format!("check: {problem}")),
        }
    }

    fn open_once(&mut self) -> Result<RecoveredLog, StoreError> {
        let disk = self.disk.mount();
        let clock = ticking(self.random.below(5000));
        let Some(mutation) = self.mutation else {
            return Log::open(disk, small(), clock);
        };
        let mutant = Arc::new(MutantDisk::new(disk, mutation));
        mutant.set_opening(true);
        let recovered = Log::open(Arc::clone(&mutant) as Arc<dyn Disk>, small(), clock);
        mutant.set_opening(false);
        recovered
    }

    fn check_recovered(&mut self, recovered: &RecoveredLog) -> Result<(), String> {
        let error = |error: StoreError| format!("replay: {error}");
        ensure!(
            recovered.epoch() > self.epoch,
            "epoch {} again",
            recovered.epoch()
        );
        self.epoch = recovered.epoch();
        let work = recovered.work();
        self.coverage.indexes_used += work.indexes_used as u64;
        self.coverage.indexes_refused += work.indexes_refused as u64;
        let known_id = *self.store_id.get_or_insert(recovered.store_id());
        // Before the first group nothing says who the store is.
        if !self.groups.is_empty() {
            ensure!(known_id == recovered.store_id(), "another store id");
        }
        self.store_id = Some(recovered.store_id());
        let oldest = recovered.oldest();
        ensure!(
            oldest <= self.through,
            "begins at {oldest}, the view is at {}",
            self.through
        );

        let mut from = oldest;
        let mut at = self.groups.partition_point(|known| known.start < from);
        loop {
            let groups = recovered.groups(from, 30_000).map_err(error)?;
            let Some(last) = groups.last() else { break };
            from = last.end;
            for group in &groups {
                if let Some(known) = self.groups.get(at).cloned() {
                    let read = self.known(group)?;
                    ensure!(read == known, "recovered {read:?}, known is {known:?}");
                } else {
                    // What was being written when the process ended.
                    self.learn(group)?;
                    self.coverage.adopted += 1;
                }
                at += 1;
            }
        }
        ensure!(
            at >= self.groups.len(),
            "lost {} groups",
            self.groups.len() - at
        );
        let end = self.groups.last().map_or(Mark::ZERO, |known| known.end);
        ensure!(
            recovered.end() == end,
            "ends at {}, not {end}",
            recovered.end()
        );
        ensure!(recovered.clock_high_water() >= self.clock, "time went back");
        if !self.queued.is_empty() {
            self.coverage.torn += 1;
            self.queued.clear();
        }
        Ok(())
    }

    /// What a view that is synced to `through` knows.
    fn view_next_seqs(&self) -> HashMap<TopicId, u64> {
        let mut seen = HashMap::new();
        for group in self.groups.iter().filter(|group| group.end <= self.through) {
            for content in &group.content {
                if let Content::Events {
                    topic,
                    first_seq,
                    ids,
                } = content
                {
                    seen.insert(*topic, first_seq + ids.len() as u64);
                }
            }
        }
        seen
    }

    fn log(&self) -> &Log {
        self.log.as_ref().expect("the log is open between crashes")
    }
}
