//! The indexes of sealed segments: they are written, used, and never trusted further than they fit; and what readers
//! that are behind read from disk through them.

use std::collections::HashMap;
use std::sync::Arc;

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::faulty::{FaultyDisk, Random};
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::log::check::check;
use hedgerow_store::log::{Log, LogOptions, OpenWork};
use hedgerow_store::record::unpack_event;
use hedgerow_store::{Store, StoreError};

use crate::support::{NothingNeeded, open, packed, secrets, settled, small, ticking};

const TOPIC: TopicId = TopicId(1);
const INDEX_ENDING: &str = ".idx";

/// Fills so many segments and begins another one. Returns the ends of groups.
fn fill(disk: &FaultyDisk, segments: u32) -> Vec<Mark> {
    let log = open(disk.mount()).unwrap();
    let mut ends = Vec::new();
    let mut number = 0_u32;
    while ends.last().copied().unwrap_or(Mark::ZERO) < Mark::new(segments + 1, 0) {
        number += 1;
        let topic = TopicId(1 + number % 3);
        log.append(topic, packed(&number.to_string(), 2000))
            .unwrap();
        if number.is_multiple_of(4) {
            log.journal(settled(1)).unwrap();
        }
        ends.push(log.commit_queued().unwrap().unwrap().end);
    }
    ends
}

fn path(number: u32) -> String {
    format!("log/{number:08x}.idx")
}

fn reopen(disk: &FaultyDisk) -> OpenWork {
    Log::open(disk.mount(), small(), ticking(0)).unwrap().work()
}

fn read_file(disk: &FaultyDisk, path: &str) -> Vec<u8> {
    let file = disk.mount().open(path, false).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn write_file(disk: &FaultyDisk, path: &str, bytes: &[u8]) {
    let file = disk.mount().open(path, true).unwrap();
    file.set_len(0).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync_data().unwrap();
}

/// All groups there are, as numbers and places.
fn groups(log: &Log) -> Vec<(u64, Mark, Mark)> {
    let mut from = Mark::ZERO;
    let mut all = Vec::new();
    loop {
        let groups = log.groups(from, 100_000).unwrap();
        let Some(last) = groups.last() else {
            return all;
        };
        from = last.end;
        all.extend(groups.iter().map(|one| (one.number, one.start, one.end)));
    }
}

#[test]
fn opening_reads_the_tail_and_not_the_sealed_segments() {
    let disk = FaultyDisk::new(1);
    fill(&disk, 8);
    let before = disk.counters().read_bytes;
    let work = reopen(&disk);
    assert_eq!(
        (work.segments, work.indexes_used, work.indexes_refused),
        (9, 8, 0)
    );
    assert!(work.scanned_bytes <= 3 * 64 * 1024, "{work:?}");
    assert!(disk.counters().read_bytes - before < 5 * 64 * 1024);

    // The same content is known with and without.
    let with = groups(&open(disk.mount()).unwrap());
    for number in 1..=8 {
        disk.mount().remove(&path(number)).unwrap();
    }
    let work = reopen(&disk);
    assert_eq!((work.indexes_used, work.indexes_refused), (0, 0));
    assert!(work.scanned_bytes > 8 * 60 * 1024, "{work:?}");
    assert_eq!(groups(&open(disk.mount()).unwrap()), with);
}

#[test]
fn an_index_that_does_not_fit_costs_a_scan_and_is_written_again() {
    type Spoil = fn(&FaultyDisk);
    let cases: [(&str, Spoil, usize); 7] = [
        ("a flipped bit", |disk| disk.flip_bit(&path(2), 40), 1),
        (
            "cut short",
            |disk| {
                let bytes = read_file(disk, &path(2));
                write_file(disk, &path(2), &bytes[..bytes.len() / 2]);
            },
            1,
        ),
        ("empty", |disk| write_file(disk, &path(2), &[]), 1),
        ("missing", |disk| disk.mount().remove(&path(2)).unwrap(), 0),
        (
            "of another segment",
            |disk| write_file(disk, &path(2), &read_file(disk, &path(3))),
            1,
        ),
        (
            "of another store",
            |disk| {
                let other = FaultyDisk::new(9);
                fill(&other, 4);
                write_file(disk, &path(2), &read_file(&other, &path(2)));
            },
            1,
        ),
        (
            "of another version",
            |disk| {
                let mut bytes = read_file(disk, &path(2));
                bytes[8] = 2;
                let crc = crc32c::crc32c(&bytes[8..]);
                bytes[4..8].copy_from_slice(&crc.to_le_bytes());
                write_file(disk, &path(2), &bytes);
            },
            1,
        ),
    ];
    for (name, spoil, refused) in cases {
        let disk = FaultyDisk::new(1);
        let ends = fill(&disk, 4);
        let whole = read_file(&disk, &path(2));
        spoil(&disk);
        let work = reopen(&disk);
        assert_eq!(
            (work.indexes_used, work.indexes_refused),
            (3, refused),
            "{name}"
        );
        let log = open(disk.mount()).unwrap();
        assert_eq!(groups(&log).len(), ends.len(), "{name}");
        log.append(TOPIC, packed("x", 10)).unwrap();
        log.commit_queued().unwrap();
        drop(log);
        assert_eq!(read_file(&disk, &path(2)), whole, "{name}: written again");
        assert_eq!(reopen(&disk).indexes_used, 4, "{name}");
    }
}

#[test]
fn an_index_that_was_whole_once_is_stale_when_its_segment_went_on() {
    // Segment 2 ends with its second group in one history and with its third in the other: the same store, copied.
    let disk = FaultyDisk::new(1);
    fill(&disk, 1);
    let log = open(disk.mount()).unwrap();
    // What follows does not fit, so segment 2 is sealed early.
    log.append(TOPIC, packed("large", 64_000)).unwrap();
    log.commit_queued().unwrap();
    drop(log);
    let early = read_file(&disk, &path(2));
    let early_segment = read_file(&disk, "log/00000002.seg");
    let end = {
        let recovered = Log::open(disk.mount(), small(), ticking(0)).unwrap();
        recovered.end()
    };
    assert_eq!(end.segment(), 3);
    // A backup without the newest segment: the log ends in segment 2 and goes on there.
    disk.mount().remove("log/00000003.seg").unwrap();
    let work = reopen(&disk);
    assert_eq!((work.indexes_used, work.indexes_refused), (1, 1));
    let log = open(disk.mount()).unwrap();
    for _ in 0..20 {
        log.append(TOPIC, packed("more", 8000)).unwrap();
        log.commit_queued().unwrap();
    }
    let all = groups(&log);
    drop(log);
    assert_ne!(read_file(&disk, "log/00000002.seg"), early_segment);
    write_file(&disk, &path(2), &early);
    let work = reopen(&disk);
    assert_eq!(work.indexes_refused, 1, "{work:?}");
    assert_eq!(groups(&open(disk.mount()).unwrap()), all);
}

#[test]
fn the_index_goes_with_its_segment() {
    let disk = FaultyDisk::new(1);
    let ends = fill(&disk, 6);
    let names = || disk.mount().list("log").unwrap();
    let indexes = || {
        names()
            .iter()
            .filter(|name| name.ends_with(INDEX_ENDING))
            .count()
    };
    assert_eq!(indexes(), 6);
    let log = open(disk.mount()).unwrap();
    log.checkpoint(ends[ends.len() - 1], &NothingNeeded)
        .unwrap();
    assert_eq!(indexes(), 0, "{:?}", names());
    drop(log);
    // One that came back, as after a power cut, is removed.
    write_file(&disk, &path(3), b"whatever");
    reopen(&disk);
    assert_eq!(indexes(), 0, "{:?}", names());
}

#[test]
fn a_bad_group_in_a_sealed_segment_is_found_by_whoever_reads_it() {
    let disk = FaultyDisk::new(1);
    let ends = fill(&disk, 4);
    let bad = ends.iter().position(|end| *end > Mark::new(2, 20_000));
    let start = ends[bad.unwrap() - 1];
    disk.flip_bit("log/00000002.seg", u64::from(start.offset()) + 100);
    assert_eq!(reopen(&disk).indexes_used, 4);
    let log = open(disk.mount()).unwrap();
    let place = format!("00000002.seg: the group at {start}");
    let error = log.groups(start, 1000).unwrap_err();
    assert!(
        matches!(error, StoreError::Damaged { .. }) && error.to_string().contains(&place),
        "{error}"
    );
    assert!(log.groups(Mark::new(3, 0), 1000).is_ok());
    // Without its index it is read at the opening, as the tail is.
    drop(log);
    disk.mount().remove(&path(2)).unwrap();
    let error = Log::open(disk.mount(), small(), ticking(0)).err().unwrap();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn a_full_disk_leaves_indexes_out() {
    let disk = FaultyDisk::new(1);
    let options = LogOptions {
        bytes_max: 4 * 64 * 1024,
        ..small()
    };
    disk.set_capacity(5 * 64 * 1024);
    let recovered = Log::open(disk.mount(), options, ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    for seq in 0..1400 {
        log.journal(settled(seq)).unwrap();
        log.commit_queued().unwrap();
    }
    drop(log);
    disk.set_capacity(u64::MAX);
    let log = open(disk.mount()).unwrap();
    assert_eq!(groups(&log).len(), 1400);
}

/// Publishes to 100 topics by the size of a request; the groups hold `per_group` of them.
fn mixed(per_group: u64, data_bytes: u64) -> (FaultyDisk, Log) {
    let disk = FaultyDisk::new(3);
    let options = LogOptions {
        segment_bytes: 1024 * 1024,
        bytes_max: 64 * 1024 * 1024,
        group_bytes_max: 512 * 1024,
        ring_bytes: 1024 * 1024,
        ..small()
    };
    let recovered = Log::open(disk.mount(), options.clone(), ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    let mut random = Random::new(5);
    let mut bytes = 0;
    while bytes < 5 * 1024 * 1024_u32 {
        for _ in 0..=random.below(2 * per_group + 1) {
            let topic = TopicId(1 + random.below(100) as u32);
            let size = data_bytes / 2 + random.below(data_bytes);
            log.append(topic, packed("x", size as usize)).unwrap();
        }
        let group = log.commit_queued().unwrap().unwrap();
        bytes += group.end.offset().saturating_sub(group.start.offset());
    }
    drop(log);
    // Sealed segments are read through the indexes in files.
    let recovered = Log::open(disk.mount(), options, ticking(0)).unwrap();
    assert!(recovered.work().indexes_used >= 4);
    (disk, recovered.start_synchronous(&HashMap::new()))
}

#[test]
fn fifty_laggards_of_a_small_topic_read_little_more_than_they_are_given() {
    for (per_group, data_bytes) in [(0, 1000), (3, 1000), (40, 300), (200, 1000)] {
        let (disk, log) = mixed(per_group, data_bytes);
        let before = disk.counters().read_bytes;
        // Each at a place of its own, so that nobody finds what another one has read.
        let (mut given, mut alone) = (0, 0);
        for laggard in 0..50 {
            let topic = TopicId(1 + 2 * laggard);
            let read_before = disk.counters().read_bytes;
            let mut next = 1;
            while let Ok(row) = log.read_from(Position { topic, seq: next }, 16 * 1024) {
                given += row
                    .iter()
                    .map(|(_, event)| event.bytes.len())
                    .sum::<usize>();
                next = row[row.len() - 1].0 + 1;
            }
            alone = alone.max(disk.counters().read_bytes - read_before);
        }
        let read = disk.counters().read_bytes - before;
        println!(
            "{per_group} a group, {data_bytes} bytes: {:.2} bytes read for one given",
            read as f64 / given as f64
        );
        assert!(given > 2 * 1024 * 1024, "{given}");
        assert!(read < 3 * given as u64, "{read} bytes read for {given}");
        assert!(alone < 400 * 1024, "{alone}");

        // Fifty of one topic share what is read.
        let before = disk.counters().read_bytes;
        let mut next = vec![1; 50];
        let mut given = 0;
        let mut is_behind = true;
        while is_behind {
            is_behind = false;
            for seq in &mut next {
                let from = Position {
                    topic: TOPIC,
                    seq: *seq,
                };
                if let Ok(row) = log.read_from(from, 4 * 1024) {
                    given += row
                        .iter()
                        .map(|(_, event)| event.bytes.len())
                        .sum::<usize>();
                    *seq = row[row.len() - 1].0 + 1;
                    is_behind = true;
                }
            }
        }
        let read = disk.counters().read_bytes - before;
        assert!(10 * read < given as u64, "{read} bytes read for {given}");
    }
}

#[test]
fn one_read_is_bounded_by_what_was_asked_for_and_a_group() {
    let (disk, log) = mixed(200, 1000);
    for bytes_max in [0, 1000, 30_000, 200_000] {
        for topic in [3, 50] {
            for seq in [1, 20, 40] {
                let before = disk.counters().read_bytes;
                let from = Position {
                    topic: TopicId(topic),
                    seq,
                };
                let row = log.read_from(from, bytes_max).unwrap();
                assert_eq!(row[0].0, seq);
                let read = disk.counters().read_bytes - before;
                assert!(
                    read <= bytes_max as u64 + 32 * 1024,
                    "{read} for {bytes_max}"
                );
            }
        }
    }
}

#[test]
fn a_stretch_of_frames_is_checked_by_its_crc() {
    let (disk, log) = mixed(200, 1000);
    let seqs = || (1..).map_while(|seq| log.read(Position { topic: TOPIC, seq }).ok().map(|_| seq));
    let count = seqs().count() as u64;
    assert!(count > 40);
    for segment in 1..=5 {
        // Whatever is hit, nobody gets wrong bytes.
        for offset in (5000..1_000_000).step_by(3001) {
            disk.flip_bit(&format!("log/{segment:08x}.seg"), offset);
        }
    }
    let mut damaged = 0;
    for topic in 1..=100 {
        for seq in 1..=count {
            let position = Position {
                topic: TopicId(topic),
                seq,
            };
            match log.read(position) {
                Ok(stored) => assert_eq!(unpack_event(&stored.bytes).unwrap().id, "x"),
                Err(StoreError::Damaged { .. }) => damaged += 1,
                Err(StoreError::Forgotten { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(damaged > 500, "{damaged}");
}

/// Opening reads of a sealed segment its index and no more, and all of it where there is none.
#[test]
fn opening_reads_no_segment_that_has_its_index() {
    const SEALED: u32 = 8;
    let directory = tempfile::tempdir().unwrap();
    let disk = || Arc::new(RealDisk::new(directory.path()).unwrap());
    let options = LogOptions {
        segment_bytes: 1024 * 1024,
        bytes_max: 1 << 40,
        ..LogOptions::default()
    };
    let recovered = Log::open(disk(), options.clone(), ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    while log.durable().borrow().segment() <= SEALED {
        for number in 0..200_u32 {
            log.append(TopicId(1 + number % 10), packed("x", 1000))
                .unwrap();
        }
        log.commit_queued().unwrap();
    }
    drop(log);
    let open = || {
        let recovered = Log::open(disk(), options.clone(), ticking(0)).unwrap();
        recovered.work()
    };
    let with = open();
    assert_eq!(with.indexes_used, SEALED as usize);
    for number in 1..=SEALED {
        disk().remove(&path(number)).unwrap();
    }
    let without = open();
    assert_eq!(without.indexes_used, 0);
    let events_bytes = u64::from(SEALED) * u64::from(options.segment_bytes) / 2;
    assert!(
        without.scanned_bytes > with.scanned_bytes + events_bytes,
        "{with:?}, {without:?}"
    );
    let report = check(&*disk(), &secrets(), &|| Ok(None)).unwrap();
    assert!(report.is_healthy(), "{:?}", report.problems);
}
