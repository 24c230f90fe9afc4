//! The same while the power goes in the middle of a checkpoint or a cleaning, a sync fails there, or the disk is full; and
//! what `check` and `stat` say about such a store.

use std::sync::Arc;

use hedgerow_core::position::{Mark, Position};
use hedgerow_store::log::check::{CheckReport, check};
use hedgerow_store::stat::{StatReport, stat};
use hedgerow_store::{Store, StoreError};

use crate::grid::{Grid, SUBSCRIPTIONS, TOPICS, open, open_view, said};
use crate::support::secrets;

/// What the runs went through.
#[derive(Debug, Default)]
struct Coverage {
    cuts: u64,
    kills: u64,
    failed_syncs: u64,
    full: u64,
    /// Crashes behind which a part of the cleaning counted.
    half_done: u64,
    cleaned: u64,
    copied: u64,
    compacted: u64,
    rebuilt: u64,
    purges: u64,
    resends: u64,
}

impl Coverage {
    fn add(&mut self, grid: &Grid) {
        let usage = grid.log.usage();
        self.cleaned += usage.cleaned_segments;
        self.copied += usage.copied_events;
        self.compacted += usage.compacted_files;
    }
}

impl Grid {
    /// A checkpoint in the middle of which the process ends in one way or another.
    fn crash(&mut self, coverage: &mut Coverage) {
        let fails_sync = self.random.one_in(6);
        let checkpoint = self.view.begin_checkpoint().unwrap();
        if fails_sync {
            if self.random.one_in(2) {
                checkpoint.write(&*self.disk.mount()).unwrap();
            }
            self.disk.fail_sync_once();
        } else {
            self.disk.fail_after(1 + self.random.below(60));
        }
        let oldest = self.log.oldest();
        let written = checkpoint.write(&*self.disk.mount());
        let result = written.and_then(|()| self.log.checkpoint(checkpoint.mark(), &self.view));
        coverage.half_done += u64::from(result.is_err() && self.log.oldest() > oldest);
        coverage.failed_syncs += u64::from(fails_sync && result.is_err());
        coverage.add(self);
        let before = said(&self.view);
        let next = self.view.next_seqs();
        if fails_sync || self.random.one_in(3) {
            coverage.kills += 1;
            self.disk.kill();
        } else {
            coverage.cuts += 1;
            self.disk.cut();
        }
        self.expect_healthy();
        let mut recovered = open(&self.disk);
        if self.random.one_in(2) {
            // What was opened once stays.
            drop(recovered);
            coverage.cuts += 1;
            self.disk.cut();
            recovered = open(&self.disk);
        }
        self.view = open_view(&self.disk, &self.table, recovered.store_id());
        self.view.catch_up(&recovered, 30_000).unwrap();
        self.log = recovered.start_synchronous(&next).into();
        assert_eq!(said(&self.view), before);
    }

    /// A checkpoint for whose cleaning there is little room, and then one for which there is enough.
    fn fill_disk(&mut self, coverage: &mut Coverage) {
        let checkpoint = self.view.begin_checkpoint().unwrap();
        checkpoint.write(&*self.disk.mount()).unwrap();
        self.view.finish_checkpoint();
        self.disk.set_capacity(u64::MAX - 1);
        let used = u64::MAX - 1 - self.disk.mount().free_space().unwrap();
        let room = self.random.below(12) * 4096;
        self.disk.set_capacity(used + room);
        let oldest = self.log.oldest();
        self.log.checkpoint(checkpoint.mark(), &self.view).unwrap();
        self.disk.set_capacity(u64::MAX);
        let again = self.log.oldest();
        self.log.checkpoint(checkpoint.mark(), &self.view).unwrap();
        coverage.full += u64::from(again == oldest && self.log.oldest() > again);
    }

    /// Whether there may be something to clean.
    fn has_old_segments(&self) -> bool {
        self.view.mark().segment() > self.log.oldest().segment() + 2
    }

    /// Looks at the store of a process that ended.
    fn expect_healthy(&self) {
        let report = self.checked();
        assert!(report.is_healthy(), "{:?}", report.problems);
    }

    fn checked(&self) -> CheckReport {
        check(&*self.disk.mount(), &secrets(), &|| {
            Ok(Some(Arc::clone(&self.table) as _))
        })
        .unwrap()
    }

    fn stat(&self) -> StatReport {
        stat(&*self.disk.mount(), &secrets(), &|| {
            Ok(Some(Arc::clone(&self.table) as _))
        })
        .unwrap()
    }

    /// Events that a subscription needs.
    fn needed(&self, at: usize) -> u64 {
        let (id, topic) = SUBSCRIPTIONS[at];
        let newest = self.newest.get(&topic).copied().unwrap_or(0);
        let waiting = (newest + 1).saturating_sub(self.view.cursor(id));
        waiting + self.view.open_seqs(id).len() as u64
    }
}

#[test]
fn nothing_that_is_needed_is_lost_when_cleaning_is_cut_short() {
    let seeds = if std::env::var_os("HEDGEROW_SLOW").is_some() {
        100
    } else {
        3
    };
    let mut all = Coverage::default();
    for seed in 1..=seeds {
        let mut grid = Grid::new(seed);
        for step in 0..1_200 {
            grid.step();
            let odds = if grid.has_old_segments() { 9 } else { 60 };
            if grid.random.one_in(odds) {
                grid.crash(&mut all);
                grid.check_events();
            }
            if grid.random.one_in(odds) {
                grid.fill_disk(&mut all);
                grid.check_events();
            }
            if step % 300 == 299 {
                all.rebuilt += 1;
                all.add(&grid);
                assert_eq!(said(&grid.rebuild()), said(&grid.view), "seed {seed}");
            }
        }
        all.purges += grid.purges;
        all.resends += grid.resends;
    }
    println!("{all:?}");
    assert!(
        all.cuts > 5 * seeds && all.kills > 2 * seeds && all.failed_syncs > seeds,
        "{all:?}"
    );
    assert!(
        all.purges >= 2 * seeds && all.resends > 4 * seeds,
        "{all:?}"
    );
    assert!(all.full > seeds && all.half_done >= seeds, "{all:?}");
    assert!(
        all.cleaned > 10 * seeds && all.copied > 20 * seeds && all.compacted > 0,
        "{all:?}"
    );
}

/// A store that was cleaned and has kept events, of which some are needed: with this seed.
fn cleaned_grid() -> Grid {
    let mut grid = Grid::new(2);
    for number in 0..6_000 {
        grid.step();
        let usage = grid.log.usage();
        if number > 600 && usage.kept_bytes > 20_000 && grid.needed(0) > 0 {
            break;
        }
    }
    assert!(grid.log.usage().kept_bytes > 20_000);
    assert!(grid.log.oldest() > Mark::ZERO);
    grid
}

#[test]
fn what_fills_the_disk_is_told_of_kept_files_too() {
    let grid = cleaned_grid();
    let usage = grid.log.usage();
    grid.log.close();
    let mutations = grid.disk.counters().mutations;
    let report = grid.stat();
    assert_eq!(grid.disk.counters().mutations, mutations, "it only reads");
    assert_eq!(report.kept_bytes, usage.kept_bytes);
    assert!(report.kept_files > 0);
    for (at, (id, _)) in SUBSCRIPTIONS.iter().enumerate() {
        let found = report.subscriptions.iter().find(|one| one.id == id.0);
        let events = found.map_or(0, |one| one.events);
        assert_eq!(events, grid.needed(at), "each event is there once: {id:?}");
    }
    for (topic, newest) in &grid.newest {
        let found = report.topics.iter().find(|one| one.id == topic.0).unwrap();
        assert!(found.events <= *newest && found.needed_bytes <= found.bytes);
    }
    let checked = grid.checked();
    assert!(checked.is_healthy(), "{:?}", checked.problems);
    assert_eq!(checked.kept_files as u64, report.kept_files);
    let in_segments: u64 = report.segments.iter().map(|one| one.events).sum();
    let by_topic: u64 = report.topics.iter().map(|one| one.events).sum();
    assert_eq!(checked.kept_events, by_topic - in_segments);
    assert!(checked.read_bytes > usage.kept_bytes);
}

#[test]
fn a_check_names_what_is_wrong_with_kept_files_and_baselines() {
    type Spoil = fn(&Grid);
    let cases: [(&str, Spoil, &str); 7] = [
        (
            "a kept event",
            |grid| {
                let path = kept_file(grid);
                let disk = grid.disk.mount();
                let len = disk.open(&path, false).unwrap().len().unwrap();
                // Events of these take nearly all of a file.
                for offset in (0..len).step_by(64) {
                    grid.disk.flip_bit(&path, offset);
                }
            },
            "kept/",
        ),
        (
            "a kept file",
            |grid| grid.disk.mount().remove(&kept_file(grid)).unwrap(),
            "the file is missing",
        ),
        (
            "the manifest",
            |grid| grid.disk.flip_bit("kept/MANIFEST", 30),
            "kept/MANIFEST",
        ),
        (
            "no manifest",
            |grid| grid.disk.mount().remove("kept/MANIFEST").unwrap(),
            "kept/MANIFEST: the file is missing",
        ),
        (
            "all that was kept",
            |grid| {
                let disk = grid.disk.mount();
                for directory in ["kept/owed", "kept/behind", "kept"] {
                    for name in disk.list(directory).unwrap() {
                        let _ = disk.remove(&format!("{directory}/{name}"));
                    }
                }
            },
            "that are not there, from event",
        ),
        (
            "a baseline",
            |grid| {
                for name in grid.disk.mount().list("baseline").unwrap() {
                    grid.disk.flip_bit(&format!("baseline/{name}"), 40);
                }
            },
            "baseline/",
        ),
        ("nothing", |_| {}, ""),
    ];
    for (name, spoil, expected) in cases {
        let grid = cleaned_grid();
        grid.log.close();
        spoil(&grid);
        let problems = grid.checked().problems;
        let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        if expected.is_empty() {
            assert_eq!(texts, Vec::<String>::new(), "{name}");
        } else {
            assert!(
                texts.iter().any(|text| text.contains(expected)),
                "{name}: {texts:?}"
            );
        }
    }
}

fn kept_file(grid: &Grid) -> String {
    let disk = grid.disk.mount();
    let names = ["kept/owed", "kept/behind"].into_iter().flat_map(|path| {
        let names = disk.list(path).unwrap().into_iter();
        names.map(move |name| format!("{path}/{name}"))
    });
    names.min().unwrap()
}

/// It built the view and said that the server could be started, which then refused what it read (issue 4).
#[test]
fn a_view_is_not_built_over_kept_files_that_are_damaged_issue_4() {
    let grid = cleaned_grid();
    grid.log.close();
    let path = kept_file(&grid);
    let file = grid.disk.mount().open(&path, false).unwrap();
    let mut refused = 0;
    for offset in (0..file.len().unwrap()).step_by(601) {
        grid.disk.flip_bit(&path, offset);
        let is_whole = grid.checked().is_healthy();
        match grid.recover_in(&Arc::default()) {
            Ok(_) => assert!(is_whole, "{offset}: between blocks there are zeros"),
            Err(StoreError::Damaged { what }) => {
                assert!(!is_whole && what.contains("kept/"), "{offset}: {what}");
                refused += 1;
            }
            Err(error) => panic!("{offset}: {error}"),
        }
        grid.disk.flip_bit(&path, offset);
    }
    assert!(refused > 20, "{refused}");
    grid.recover_in(&Arc::default()).unwrap();
}

#[test]
fn a_kept_event_that_has_changed_is_refused_by_who_reads_it() {
    let mut grid = cleaned_grid();
    grid.log.close();
    let path = kept_file(&grid);
    let disk = grid.disk.mount();
    let len = disk.open(&path, false).unwrap().len().unwrap();
    let next = grid.view.next_seqs();
    // Where nothing is read at open: the end of each kind of block is zeros, the middle is an event's.
    grid.disk.flip_bit(&path, len / 2);
    let opened = hedgerow_store::log::Log::open(
        grid.disk.mount(),
        super::options(),
        crate::support::ticking(1_000),
    );
    let error = match opened {
        Err(error) => error,
        Ok(recovered) => {
            grid.log = recovered.start_synchronous(&next).into();
            let mut errors = SUBSCRIPTIONS.iter().flat_map(|(id, topic)| {
                let seqs = grid.view.open_seqs(*id).into_iter();
                let waiting = grid.view.cursor(*id)..=grid.newest[topic];
                seqs.chain(waiting)
                    .map(|seq| Position { topic: *topic, seq })
            });
            errors
                .find_map(|position| grid.log.read(position).err())
                .unwrap()
        }
    };
    assert!(
        matches!(&error, StoreError::Damaged { what } if what.contains("kept/")),
        "{error}"
    );
}

#[test]
fn records_of_attempts_are_taken_at_the_watermark() {
    let mut grid = Grid::new(1);
    while grid.log.usage().used_bytes < grid.log.usage().watermark_bytes - 20_000 {
        grid.publish(TOPICS[1], 8_000);
        grid.commit();
    }
    let refused = loop {
        let next = grid.newest[&TOPICS[1]] + 1;
        let id = format!("2-{next}");
        match grid
            .log
            .append(TOPICS[1], crate::support::packed(&id, 8_000))
        {
            Ok(_) => grid.newest.insert(TOPICS[1], next),
            Err(refused) => break refused,
        };
        grid.commit();
    };
    assert!(matches!(refused, StoreError::Full(_)), "{refused}");
    // Deliveries go on, and make room.
    while let Some(seq) = grid.begin(SUBSCRIPTIONS[2]) {
        grid.settle(SUBSCRIPTIONS[2].0, seq, hedgerow_store::record::IN_FLIGHT);
    }
    let usage = grid.log.usage();
    assert!(usage.is_full() && usage.used_bytes <= super::options().bytes_max);
    grid.read_to_the_end(TOPICS[1]);
    grid.checkpoint();
    grid.publish(TOPICS[1], 8_000);
    grid.commit();
    assert!(!grid.log.usage().is_full());
    assert_eq!(said(&grid.rebuild()), said(&grid.view));
}
