//! Kept files by themselves: what counts, what is refused as damage, and reading beside writing.

mod model;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow_core::event::{Data, Event};
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;

use super::{Class, Kept, KeptOptions, Pressure, check, manifest};
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::record::{Owed, PackedEvents, Progress};
use crate::{Needed, StoreError};

const STORE: [u8; 16] = [5; 16];
const FILE_BYTES_MAX: u64 = 60_000;
const TOPIC: TopicId = TopicId(1);
const SUBSCRIPTION: SubscriptionId = SubscriptionId(4);
const FILE: &str = "kept/owed/00000000.kept";

/// Something that is owed, different for each number.
fn owed(number: u64) -> (Timestamp, Owed) {
    let due = Timestamp::from_millis(number % 1_000_000);
    (due, Owed::Attempt(progress(number)))
}

fn progress(number: u64) -> Progress {
    Progress {
        published: Timestamp::from_millis(number % 1000),
        attempts: number as u16,
        first_attempt: Timestamp::from_millis(number % 77),
        last_attempt: Timestamp::from_millis(number % 7777),
        last_outcome: Outcome::Busy,
        last_status: 503,
        crashes: 0,
        crash_epoch: 0,
    }
}

fn position(seq: u64) -> Position {
    Position { topic: TOPIC, seq }
}

fn open(disk: &FaultyDisk) -> Result<Kept, StoreError> {
    let options = KeptOptions {
        file_bytes_max: FILE_BYTES_MAX,
    };
    Kept::open(disk.mount(), STORE, options)
}

fn packed(seq: u64, data_bytes: usize) -> bytes::Bytes {
    let event = Event {
        id: seq.to_string().into(),
        source: None,
        event_type: "test".into(),
        subject: None,
        time: None,
        data_version: None,
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Binary(vec![seq as u8; data_bytes].into()),
    };
    let packed = PackedEvents::pack(&[event]);
    let record = crate::record::Events {
        topic: TOPIC,
        first_seq: seq,
        published: Timestamp::ZERO,
        packed,
    };
    record.event_at(position(seq)).unwrap().bytes
}

/// Keeps these events, all of them published in one hour and owed to one.
fn keep(kept: &Kept, seqs: std::ops::Range<u64>, through: u32) -> Result<(), StoreError> {
    let mut cleaning = kept.begin();
    for seq in seqs {
        let (due, owed) = owed(seq);
        let bytes = packed(seq, 900);
        cleaning.event(
            Class::Owed,
            position(seq),
            due,
            bytes,
            vec![(SUBSCRIPTION, due, owed)],
        );
    }
    cleaning.commit(through)
}

fn settle(kept: &Kept, seqs: std::ops::Range<u64>, through: u32) {
    let mut cleaning = kept.begin();
    for seq in seqs {
        cleaning.update(position(seq), SUBSCRIPTION, None);
    }
    cleaning.commit(through).unwrap();
}

fn is_there(kept: &Kept, seq: u64) -> bool {
    let row = kept.read_from(position(seq), 0).unwrap();
    row.first()
        .is_some_and(|(found, event)| *found == seq && event.bytes == packed(seq, 900))
}

fn needed_from(from: u64) -> HashMap<TopicId, Needed> {
    let needed = Needed {
        from,
        ..Needed::default()
    };
    HashMap::from([(TOPIC, needed)])
}

/// A disk with two cleanings and an update, and what it reads back.
fn kept_disk() -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    let kept = open(&disk).unwrap();
    keep(&kept, 1..31, 1).unwrap();
    keep(&kept, 31..41, 2).unwrap();
    settle(&kept, 5..9, 3);
    drop(kept);
    disk.kill();
    disk
}

#[test]
fn nothing_is_kept_at_first() {
    let disk = FaultyDisk::new(1);
    let kept = open(&disk).unwrap();
    assert!(kept.is_empty() && kept.bytes() == 0 && kept.cleaned_through() == 0);
    assert_eq!(kept.read_from(position(1), 1).unwrap().len(), 0);
    assert_eq!(disk.counters().mutations, 0, "it only looks");
}

#[test]
fn what_was_committed_is_there_again() {
    let disk = kept_disk();
    let kept = open(&disk).unwrap();
    assert_eq!(kept.cleaned_through(), 3);
    for seq in 1..41 {
        assert!(is_there(&kept, seq), "{seq}");
        let is_open = kept.is_open(TOPIC, SUBSCRIPTION, seq);
        assert_eq!(is_open, !(5..9).contains(&seq), "{seq}");
    }
    let mut seqs = Vec::new();
    let walked = kept.for_each_owed(&mut |at, delivery| {
        let (due, owed) = owed(at.seq);
        assert_eq!(delivery, (SUBSCRIPTION, due, owed));
        seqs.push(at.seq);
        Ok(())
    });
    walked.unwrap();
    assert_eq!(seqs.len(), 36);
    let row = kept.read_from(position(3), usize::MAX).unwrap();
    let row: Vec<u64> = row.iter().map(|(seq, _)| *seq).collect();
    assert!(row.into_iter().eq(3..41));
    let checked = check::check(&*disk.mount(), STORE).unwrap();
    assert_eq!((checked.files, checked.events), (1, 40));
    assert!(checked.problems.is_empty(), "{:?}", checked.problems);
}

#[test]
fn opening_does_not_read_the_events() {
    let disk = FaultyDisk::new(1);
    let kept = open(&disk).unwrap();
    let mut cleaning = kept.begin();
    for seq in 1..50 {
        let bytes = packed(seq, 10_000);
        cleaning.event(Class::Behind, position(seq), Timestamp::ZERO, bytes, vec![]);
    }
    cleaning.commit(1).unwrap();
    let before = disk.counters().read_bytes;
    open(&disk).unwrap();
    assert!(disk.counters().read_bytes - before < 20_000);
}

#[test]
fn a_cleaning_that_is_dropped_leaves_nothing() {
    let disk = kept_disk();
    let kept = open(&disk).unwrap();
    let (bytes, files) = (kept.bytes(), kept.files().len());
    let mut cleaning = kept.begin();
    for seq in 41..300 {
        let bytes = packed(seq, 900);
        cleaning.event(Class::Owed, position(seq), Timestamp::ZERO, bytes, vec![]);
    }
    cleaning.update(position(1), SUBSCRIPTION, None);
    drop(cleaning);
    assert_eq!((kept.bytes(), kept.files().len()), (bytes, files));
    assert!(kept.is_open(TOPIC, SUBSCRIPTION, 1) && !kept.has(position(41)));
    let names = disk.mount().list("kept/owed").unwrap();
    assert_eq!(names.len(), files);
    let len = disk.mount().open(FILE, false).unwrap().len().unwrap();
    assert_eq!(len, bytes);
    // The next one begins where it began.
    keep(&kept, 41..50, 4).unwrap();
    let again = open(&disk).unwrap();
    assert!((1..50).all(|seq| is_there(&again, seq)));
}

#[test]
fn a_full_file_is_followed_by_another_and_emptied_ones_go() {
    let disk = FaultyDisk::new(1);
    let kept = open(&disk).unwrap();
    for through in 1..11 {
        let first = u64::from(through) * 20;
        keep(&kept, first..first + 20, through).unwrap();
    }
    let files = kept.files().len();
    assert!(files >= 3, "{files}");
    // Nothing is written anew where most of it is needed.
    let mutations = disk.counters().mutations;
    kept.tidy(&needed_from(21), Pressure::None, || Ok(u64::MAX))
        .unwrap();
    assert_eq!(disk.counters().mutations, mutations);
    let half = 20 + 20 * 7;
    kept.tidy(&needed_from(half), Pressure::None, || Ok(u64::MAX))
        .unwrap();
    assert!(kept.files().len() < files);
    assert!(!kept.has(position(20)));
    assert!((half..220).all(|seq| is_there(&kept, seq)));
    let bytes = kept.bytes();
    assert!(bytes < 2 * (220 - half) * 1_100, "{bytes}");
    // While space is short, also for little.
    kept.tidy(&needed_from(half + 10), Pressure::Full, || Ok(u64::MAX))
        .unwrap();
    assert!(kept.compacted_files() > 0 && kept.bytes() < bytes);
    kept.tidy(&needed_from(u64::MAX), Pressure::None, || Ok(u64::MAX))
        .unwrap();
    assert!(kept.is_empty() && kept.bytes() == 0);
    assert_eq!(
        disk.mount().list("kept/owed").unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(open(&disk).unwrap().cleaned_through(), 10);
}

#[test]
fn updates_alone_do_not_make_a_file_larger_for_ever() {
    let disk = kept_disk();
    let kept = open(&disk).unwrap();
    for round in 0..400 {
        let mut cleaning = kept.begin();
        for seq in 20..41 {
            let state = owed(round * 100 + seq);
            cleaning.update(position(seq), SUBSCRIPTION, Some(state));
        }
        cleaning.commit(4 + round as u32).unwrap();
        kept.tidy(&needed_from(1), Pressure::None, || Ok(u64::MAX))
            .unwrap();
        assert!(kept.bytes() < 3 * 40 * 1_100, "round {round}");
    }
    assert!(kept.compacted_files() > 0);
    let again = open(&disk).unwrap();
    let mut dues = HashMap::new();
    let walked = again.for_each_owed(&mut |at, (_, due, _)| {
        dues.insert(at.seq, due);
        Ok(())
    });
    walked.unwrap();
    assert_eq!(dues[&30], owed(39_930).0);
    assert_eq!(dues.len(), 36);
}

#[test]
fn readers_go_on_while_files_are_written_anew() {
    let disk = FaultyDisk::new(1);
    let kept = open(&disk).unwrap();
    keep(&kept, 1..200, 1).unwrap();
    let old = kept.files();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                for seq in [150, 170, 199] {
                    assert!(is_there(&kept, seq), "{seq}");
                    assert!(kept.is_open(TOPIC, SUBSCRIPTION, seq));
                }
            }
        });
        for round in 0..30 {
            keep(&kept, 200 + round..201 + round, 2 + round as u32).unwrap();
            kept.tidy(&needed_from(2 + round * 4), Pressure::Full, || Ok(u64::MAX))
                .unwrap();
        }
        is_done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
    assert!(kept.compacted_files() > 0);
    // A file that was found before it went can still be read.
    let events: usize = old
        .iter()
        .map(|file| {
            let mut count = 0;
            let walked = file.for_each_block(|block| {
                count += file.positioned_events(&block)?.len();
                Ok(())
            });
            walked.unwrap();
            count
        })
        .sum();
    assert_eq!(events, 199);
}

/// How opening, reading and checking answer.
#[derive(Debug, PartialEq)]
enum Answer {
    Fine,
    Damaged,
    Newer,
}

fn answer_of<T>(result: Result<T, StoreError>) -> Answer {
    match result {
        Ok(_) => Answer::Fine,
        Err(StoreError::Damaged { .. }) => Answer::Damaged,
        Err(StoreError::Newer { .. }) => Answer::Newer,
        Err(error) => panic!("{error}"),
    }
}

/// Opens, looks and checks; all of them say the same, and name the path.
fn expect_answer(name: &str, disk: &FaultyDisk, expected: &Answer, path: &str) {
    let mutations = disk.counters().mutations;
    let problems = check::check(&*disk.mount(), STORE).unwrap().problems;
    let inspected = answer_of(Kept::inspect(&*disk.mount(), STORE));
    assert_eq!(disk.counters().mutations, mutations, "{name}: only looks");
    assert_eq!(&inspected, expected, "{name}");
    if *expected == Answer::Fine {
        assert!(problems.is_empty(), "{name}: {problems:?}");
    } else {
        assert_eq!(problems.len(), 1, "{name}");
        assert_eq!(problems[0].0, path, "{name}: {problems:?}");
    }
    let opened = open(disk);
    if let Err(error) = &opened {
        assert!(error.to_string().contains(path), "{name}: {error}");
    }
    assert_eq!(&answer_of(opened), expected, "{name}");
}

#[test]
fn a_flipped_bit_is_damage_wherever_it_is() {
    let cases = [
        ("magic of a block", FILE, 1),
        ("version of a block", FILE, 8),
        ("kind of a block", FILE, 12),
        ("length of the meta", FILE, 16),
        ("length of the meta, by much", FILE, 19),
        ("length of the bytes", FILE, 20),
        ("length of the bytes, by much", FILE, 23),
        ("crc of the bytes", FILE, 25),
        ("store of a block", FILE, 33),
        ("topic of a block", FILE, 40),
        ("meta", FILE, 70),
        ("magic of the manifest", manifest::PATH, 0),
        ("crc of the manifest", manifest::PATH, 4),
        ("version of the manifest", manifest::PATH, 8),
        ("length of the manifest", manifest::PATH, 12),
        ("body of the manifest", manifest::PATH, 20),
    ];
    for (name, path, offset) in cases {
        let disk = kept_disk();
        disk.flip_bit(path, offset);
        expect_answer(name, &disk, &Answer::Damaged, path);
    }
}

#[test]
fn what_is_missing_is_damage_and_what_does_not_count_is_removed() {
    type Spoil = fn(&dyn Disk);
    let cases: [(&str, Spoil, Answer, &str); 6] = [
        ("nothing", |_| {}, Answer::Fine, ""),
        (
            "a shorter file",
            |disk| {
                let file = disk.open(FILE, false).unwrap();
                file.set_len(file.len().unwrap() - 1).unwrap();
            },
            Answer::Damaged,
            FILE,
        ),
        (
            "no file",
            |disk| disk.remove(FILE).unwrap(),
            Answer::Damaged,
            FILE,
        ),
        (
            "no manifest",
            |disk| disk.remove(manifest::PATH).unwrap(),
            Answer::Damaged,
            manifest::PATH,
        ),
        (
            "an empty manifest",
            |disk| {
                let file = disk.open(manifest::PATH, false).unwrap();
                file.set_len(0).unwrap();
            },
            Answer::Damaged,
            manifest::PATH,
        ),
        (
            "files that no manifest names, and what is behind the end",
            |disk| {
                disk.create_dir("kept/behind").unwrap();
                for path in ["kept/owed/00000009.kept", "kept/behind/00000003.kept", FILE] {
                    let file = disk.open(path, true).unwrap();
                    let end = file.len().unwrap();
                    file.write_at(end, b"the rest of a cleaning").unwrap();
                }
            },
            Answer::Fine,
            "",
        ),
    ];
    for (name, spoil, expected, path) in cases {
        let disk = kept_disk();
        spoil(&*disk.mount());
        expect_answer(name, &disk, &expected, path);
        if expected == Answer::Fine {
            let names = |directory| disk.mount().list(directory).unwrap();
            assert_eq!(names("kept/owed"), ["00000000.kept"], "{name}");
            assert_eq!(names("kept/behind").len(), 0, "{name}");
            let kept = open(&disk).unwrap();
            let len = disk.mount().open(FILE, false).unwrap().len().unwrap();
            assert_eq!(len, kept.bytes(), "{name}");
            assert!((1..41).all(|seq| is_there(&kept, seq)), "{name}");
        }
    }
}

#[test]
fn an_event_that_was_changed_is_found_by_reading_it() {
    let disk = kept_disk();
    let len = disk.mount().open(FILE, false).unwrap().len().unwrap();
    // The first block's events begin behind its meta.
    let within = 8_000;
    assert!(within < len);
    disk.flip_bit(FILE, within);
    let kept = open(&disk).unwrap();
    let error = kept.read_from(position(1), 0).unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { what } if what.contains(FILE)),
        "{error}"
    );
    assert!(is_there(&kept, 40), "others can be read");
    let problems = check::check(&*disk.mount(), STORE).unwrap().problems;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].0, FILE);
    // It is not lost by writing the file anew: that is refused too.
    let error = kept.tidy(&needed_from(30), Pressure::None, || Ok(u64::MAX));
    assert_eq!(answer_of(error), Answer::Damaged);
    assert!(kept.has(position(40)));
}

#[test]
fn what_a_newer_version_wrote_is_refused() {
    let disk = kept_disk();
    rewrite_version(&disk, FILE, 64, |bytes| {
        let meta_bytes = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
        let crc = crc32c::crc32c(&bytes[..4]);
        let crc = crc32c::crc32c_append(crc, &[0; 4]);
        crc32c::crc32c_append(crc, &bytes[8..64 + meta_bytes])
    });
    assert_eq!(answer_of(open(&disk)), Answer::Newer);
    assert_eq!(
        answer_of(check::check(&*disk.mount(), STORE)),
        Answer::Newer
    );
    let disk = kept_disk();
    rewrite_version(&disk, manifest::PATH, 16, |bytes| {
        crc32c::crc32c(&bytes[8..])
    });
    assert_eq!(answer_of(open(&disk)), Answer::Newer);
    assert_eq!(
        answer_of(check::check(&*disk.mount(), STORE)),
        Answer::Newer
    );
}

fn rewrite_version(disk: &FaultyDisk, path: &str, least: usize, crc: fn(&[u8]) -> u32) {
    let file = disk.mount().open(path, false).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert!(bytes.len() > least);
    file.read_at(0, &mut bytes).unwrap();
    bytes[8] = 2;
    let crc = crc(&bytes);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    file.write_at(0, &bytes).unwrap();
}

#[test]
fn what_belongs_to_another_store_is_refused() {
    let disk = kept_disk();
    let options = KeptOptions {
        file_bytes_max: FILE_BYTES_MAX,
    };
    let other = Kept::open(disk.mount(), [6; 16], options);
    assert_eq!(answer_of(other), Answer::Damaged);
}

#[test]
fn a_full_disk_in_the_middle_leaves_what_was() {
    // Whatever room there is, from none to enough.
    let mut refused = 0;
    for room in (0..200).map(|pages| pages * 4096) {
        let disk = kept_disk();
        let kept = open(&disk).unwrap();
        disk.set_capacity(u64::MAX - 1);
        let used = u64::MAX - 1 - disk.mount().free_space().unwrap();
        disk.set_capacity(used + room);
        let result = keep(&kept, 41..150, 4);
        disk.set_capacity(u64::MAX);
        let is_kept = result.is_ok();
        if let Err(error) = result {
            refused += 1;
            assert!(error.is_disk_full(), "{error}");
        }
        let expected = if is_kept { 150 } else { 41 };
        for kept in [&kept, &open(&disk).unwrap()] {
            assert_eq!(kept.cleaned_through(), if is_kept { 4 } else { 3 });
            assert!((1..expected).all(|seq| is_there(kept, seq)));
            assert!(!kept.has(position(expected)));
        }
        // There is room again.
        keep(&kept, expected..expected + 5, 5).unwrap();
        let again = open(&disk).unwrap();
        assert!((1..expected + 5).all(|seq| is_there(&again, seq)));
        if is_kept {
            break;
        }
    }
    assert!(refused > 10, "{refused}");
}
