//! The history: what it remembers, what it forgets, what it loses, and that nothing of it is anybody else's problem.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::disk::faulty::{FaultyDisk, Random};
use hedgerow_store::disk::{Disk, DiskFile, DiskLock};
use hedgerow_store::history::{
    EVENT_ID_BYTES_MAX, History, HistoryKind, HistoryNext, HistoryOptions, HistoryRecord,
    ResponseExcerpt,
};

const HOUR: Duration = Duration::from_secs(3_600);
/// When every test begins.
const START_MS: u64 = 1_893_553_445_000;

/// A clock that stands until it is told to go on.
#[derive(Clone)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START_MS)))
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn advance(&self, span: Duration) {
        self.0.fetch_add(span.as_millis() as u64, Ordering::SeqCst);
    }

    fn start(&self, disk: Arc<dyn Disk>, options: HistoryOptions) -> History {
        let clock = self.clone();
        History::start(disk, options, Arc::new(move || clock.now()))
    }
}

fn options() -> HistoryOptions {
    HistoryOptions {
        bytes_max: 1 << 30,
        file_bytes: 64 << 10,
        disk_reserve_bytes: 0,
        ..HistoryOptions::default()
    }
}

fn record(event_id: &str, attempt: u16, ended: Timestamp) -> HistoryRecord {
    HistoryRecord {
        kind: HistoryKind::Attempt,
        to: None,
        event_id: event_id.to_owned(),
        topic: TopicId(1),
        topic_name: "orders".into(),
        subscription: SubscriptionId(2),
        subscription_name: "billing".into(),
        seq: 3,
        attempt,
        published: Timestamp::from_millis(START_MS - 5),
        started: Timestamp::from_millis(START_MS),
        ended,
        latency: Duration::from_micros(1_234),
        outcome: Some(Outcome::Busy),
        status: 503,
        detail: None,
        excerpt: Some(ResponseExcerpt {
            text: "come back later".to_owned(),
            body_bytes: 15,
            is_complete: true,
        }),
        next: HistoryNext::Due(ended.plus(Duration::from_secs(30))),
    }
}

#[test]
fn what_is_recorded_is_found_the_newest_first_before_and_after_a_restart() {
    let (disk, clock) = (FaultyDisk::new(1), TestClock::new());
    let options = HistoryOptions {
        // Nothing is written before it is asked for: the first look finds what waits.
        flush_interval: HOUR,
        ..options()
    };
    let history = clock.start(disk.mount(), options.clone());
    let handle = history.handle();
    let mut expect = vec![record("a", 1, clock.now()), record("a", 2, clock.now())];
    expect[1].kind = HistoryKind::LateSuccess;
    expect[1].next = HistoryNext::Delivered;
    let mut end = record("a", 0, clock.now());
    end.kind = HistoryKind::EndWithoutAttempt;
    end.next = HistoryNext::Dead(DeadLetterReason::TimeToLiveExceeded);
    end.detail = Some("too late".to_owned());
    expect.push(end);
    for record in &expect {
        handle.record(record.clone());
        handle.record(HistoryRecord {
            event_id: "b".to_owned(),
            ..record.clone()
        });
    }
    expect.reverse();
    assert_eq!(handle.attempts_of("a", 100), expect);
    handle.flush();
    assert_eq!(handle.attempts_of("a", 100), expect);
    assert_eq!(handle.attempts_of("a", 2), expect[..2]);
    let first = handle.attempts_where("a", 1, |record| record.attempt == 1);
    assert_eq!(first, expect[2..], "others take no room");
    assert_eq!(handle.attempts_of("c", 100), []);
    assert_eq!(handle.counters().written, 6);
    assert_eq!(handle.known_since(), Some(clock.now()));

    handle.record(record("a", 4, clock.now()));
    expect.insert(0, record("a", 4, clock.now()));
    drop(history);
    assert_eq!(
        handle.attempts_of("a", 100),
        expect,
        "after its end it can be asked"
    );
    handle.record(record("a", 5, clock.now()));
    assert_eq!(handle.counters().dropped, 1, "and takes nothing in");

    let begun = clock.now();
    clock.advance(HOUR);
    let history = clock.start(disk.mount(), options);
    let handle = history.handle();
    assert_eq!(handle.attempts_of("a", 100), expect);
    assert_eq!(handle.known_since(), Some(begun));
    handle.record(record("a", 6, clock.now()));
    expect.insert(0, record("a", 6, clock.now()));
    handle.flush();
    assert_eq!(handle.attempts_of("a", 100), expect);
    assert_eq!(
        disk.mount().list("history").unwrap().len(),
        1,
        "the file goes on"
    );
    assert_eq!(disk.counters().syncs, 0, "nothing is ever synced");
}

#[test]
fn texts_are_cut_and_long_ids_are_found() {
    let (disk, clock) = (FaultyDisk::new(2), TestClock::new());
    let history = clock.start(disk.mount(), options());
    let handle = history.handle();
    let id = "\u{e9}".repeat(EVENT_ID_BYTES_MAX);
    let mut long = record(&id, 1, clock.now());
    long.detail = Some("d".repeat(5_000));
    if let Some(excerpt) = &mut long.excerpt {
        excerpt.text = "\u{20ac}".repeat(5_000);
    }
    handle.record(long);
    for _ in 0..2 {
        let found = handle.attempts_of(&id, 10).pop().unwrap();
        assert_eq!(found.event_id.len(), EVENT_ID_BYTES_MAX);
        assert_eq!(found.detail.unwrap().len(), 1_024);
        assert_eq!(found.excerpt.unwrap().text.len(), 1_023);
        handle.flush();
    }
}

/// A disk that counts what is read.
struct CountingDisk {
    under: Arc<dyn Disk>,
    reads: Arc<AtomicU64>,
    read_bytes: Arc<AtomicU64>,
}

struct CountingFile {
    under: Arc<dyn DiskFile>,
    reads: Arc<AtomicU64>,
    read_bytes: Arc<AtomicU64>,
}

impl Disk for CountingDisk {
    fn name(&self) -> String {
        self.under.name()
    }

    fn lock(&self, path: &str) -> io::Result<DiskLock> {
        self.under.lock(path)
    }

    fn open(&self, path: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(CountingFile {
            under: self.under.open(path, create)?,
            reads: Arc::clone(&self.reads),
            read_bytes: Arc::clone(&self.read_bytes),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.under.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.under.remove(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.under.sync_dir(path)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.under.create_dir(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.under.list(path)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.under.free_space()
    }
}

impl DiskFile for CountingFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.under.read_at(offset, buffer)?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.read_bytes.fetch_add(read as u64, Ordering::SeqCst);
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.under.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.under.sync_data()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.under.set_len(len_bytes)
    }

    fn allocate(&self, len_bytes: u64) -> io::Result<()> {
        self.under.allocate(len_bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.under.len()
    }
}

/// 200,000 events in some twenty files (ten million in some seventy in the slow run): a look-up reads a block of the filter in each, and the rest in one or two of them.
#[test]
fn one_id_among_many_is_found_with_few_reads() {
    let is_slow = std::env::var_os("HEDGEROW_SLOW").is_some();
    let events: u64 = if is_slow { 10_000_000 } else { 200_000 };
    let place = tempfile::tempdir().unwrap();
    let (reads, read_bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let disk = CountingDisk {
        under: Arc::new(hedgerow_store::disk::real::RealDisk::new(place.path()).unwrap()),
        reads: Arc::clone(&reads),
        read_bytes: Arc::clone(&read_bytes),
    };
    let clock = TestClock::new();
    let options = HistoryOptions {
        file_bytes: if is_slow { 16 << 20 } else { 1 << 20 },
        bytes_max: 1 << 40,
        ..options()
    };
    let history = clock.start(Arc::new(disk), options);
    let handle = history.handle();
    let id = |number: u64| format!("5f8c2a10-77aa-4c1e-9b1d-{number:012}");
    let (mut handing, mut writing) = (Duration::ZERO, Duration::ZERO);
    for start in (0..events).step_by(10_000) {
        let of_event = |number: u64| HistoryRecord {
            seq: number,
            excerpt: None,
            to: None,
            next: HistoryNext::Delivered,
            ..record(&id(number), 1, clock.now())
        };
        let mut records: Vec<_> = (start..start + 10_000).map(of_event).collect();
        // The first and the last file tell of the same event.
        if start + 10_000 == events {
            records.push(record(&id(7), 2, clock.now()));
        }
        let begun = Instant::now();
        for record in records {
            handle.record(record);
        }
        handing += begun.elapsed();
        handle.flush();
        writing += begun.elapsed();
    }
    println!(
        "{} ns to hand a record in, {} ns until it is written",
        handing.as_nanos() / u128::from(events),
        writing.as_nanos() / u128::from(events),
    );
    assert_eq!(handle.counters().written, events + 1);
    let names = std::fs::read_dir(place.path().join("history")).unwrap();
    let files = names.count().div_ceil(2) as u64;
    assert!(files >= 15, "{files} files");
    let take = |counter: &AtomicU64| counter.swap(0, Ordering::SeqCst);

    assert_eq!(take(&reads), 0, "writing reads nothing");
    let attempts: Vec<u16> = handle
        .attempts_of(&id(7), 10)
        .iter()
        .map(|record| record.attempt)
        .collect();
    assert_eq!(attempts, [2, 1]);
    take(&reads);
    take(&read_bytes);
    let (mut most_reads, mut most_bytes, mut all_reads) = (0, 0, 0);
    let mut random = Random::new(5);
    let begun = Instant::now();
    for _ in 0..1_000 {
        let number = random.below(events);
        let found = handle.attempts_of(&id(number), 10);
        assert!(found.iter().all(|record| record.event_id == id(number)));
        assert!(found.iter().any(|record| record.seq == number));
        let now = take(&reads);
        all_reads += now;
        most_reads = most_reads.max(now);
        most_bytes = most_bytes.max(take(&read_bytes));
    }
    println!(
        "{:?} a look-up, {files} files: {:.1} reads a look-up, {most_reads} at most, {most_bytes} bytes at most, {} bytes of disk a record",
        begun.elapsed() / 1_000,
        all_reads as f64 / 1_000.0,
        handle.counters().disk_bytes / events,
    );
    // A block of the filter a file, then fences, a page or two, a record; room for four files that the filter mistakes.
    assert!(most_reads <= files + 4 + 4 * 4, "{most_reads} reads");
    let mut mistaken = 0;
    for number in 0..1_000 {
        assert_eq!(handle.attempts_of(&format!("none {number}"), 10), []);
        mistaken += take(&reads) - (files - 1);
    }
    println!(
        "filter mistakes: {:.2} reads a look-up of nothing",
        mistaken as f64 / 1_000.0
    );
    assert!(
        mistaken < files * 1_000 / 10,
        "the filter sends too few away: {mistaken}"
    );
}

#[test]
fn an_id_with_more_records_than_a_page_of_the_index_is_found_whole() {
    let (disk, clock) = (FaultyDisk::new(3), TestClock::new());
    let options = HistoryOptions {
        file_bytes: 1 << 20,
        ..options()
    };
    let history = clock.start(disk.mount(), options);
    let handle = history.handle();
    for number in 0..1_500_u16 {
        handle.record(record("many", number, clock.now()));
        handle.record(record(&format!("other {number}"), number, clock.now()));
    }
    // Old enough to be sealed.
    clock.advance(10 * HOUR);
    handle.flush();
    let sealed = disk.mount().list("history").unwrap();
    assert_eq!(sealed.len(), 2, "{sealed:?}");
    let attempts: Vec<u16> = handle
        .attempts_of("many", 2_000)
        .iter()
        .map(|record| record.attempt)
        .collect();
    assert_eq!(attempts, (0..1_500).rev().collect::<Vec<_>>());
    for number in 0..1_500_u16 {
        let found = handle.attempts_of(&format!("other {number}"), 10);
        assert_eq!(found.len(), 1, "{number}");
    }
}

#[test]
fn the_oldest_files_go_when_the_bytes_are_reached() {
    let (disk, clock) = (FaultyDisk::new(4), TestClock::new());
    let options = HistoryOptions {
        bytes_max: 1 << 20,
        ..options()
    };
    let history = clock.start(disk.mount(), options.clone());
    let handle = history.handle();
    for number in 0..20_000_u64 {
        clock.advance(Duration::from_millis(1));
        let mut record = record(&format!("event {number}"), 1, clock.now());
        record.seq = number;
        handle.record(record);
        if number % 100 == 0 {
            handle.flush();
            assert!(handle.counters().disk_bytes <= options.bytes_max);
        }
    }
    handle.flush();
    let known_since = handle.known_since().unwrap();
    assert!(known_since > Timestamp::from_millis(START_MS));
    let known = |number: u64| !handle.attempts_of(&format!("event {number}"), 1).is_empty();
    let ended = |number: u64| Timestamp::from_millis(START_MS + number + 1);
    let oldest = (0..20_000).find(|number| known(*number)).unwrap();
    assert!(
        handle.counters().disk_bytes > options.bytes_max / 2,
        "it uses its room"
    );
    for number in (oldest..20_000).step_by(97) {
        assert!(known(number), "{number}");
    }
    assert!(
        ended(oldest) <= known_since.plus(Duration::from_millis(1)),
        "what ended since then is there"
    );
    drop(history);
    let history = clock.start(disk.mount(), options);
    assert_eq!(history.handle().known_since(), Some(known_since));
}

#[test]
fn what_is_older_than_the_age_goes() {
    let (disk, clock) = (FaultyDisk::new(5), TestClock::new());
    let options = HistoryOptions {
        age_max: 24 * HOUR,
        ..options()
    };
    let history = clock.start(disk.mount(), options);
    let handle = history.handle();
    for hour in 0..100_u64 {
        let ended = clock.now();
        handle.record(record(&format!("hour {hour}"), 1, ended));
        handle.flush();
        clock.advance(HOUR);
        // Kept for 24 hours at least, and gone an eighth of it later, and the hour that passed.
        for other in 0..=hour {
            let age = hour - other + 1;
            let is_known = !handle.attempts_of(&format!("hour {other}"), 1).is_empty();
            if age <= 24 {
                assert!(is_known, "hour {other} after {age} h");
            } else if age > 24 + 3 + 1 {
                assert!(!is_known, "hour {other} after {age} h");
            }
        }
        let known_since = handle.known_since().unwrap();
        assert!(clock.now().since(known_since) <= 29 * HOUR);
    }
    clock.advance(100 * HOUR);
    handle.flush();
    handle.flush();
    assert_eq!(handle.attempts_of("hour 99", 1), []);
    assert_eq!(disk.mount().list("history").unwrap(), Vec::<String>::new());
    assert_eq!(handle.counters().disk_bytes, 0);
}

#[test]
fn a_full_disk_turns_it_off_until_there_is_room() {
    let (disk, clock) = (FaultyDisk::new(6), TestClock::new());
    let options = options();
    let retry = options.retry_interval;
    let history = clock.start(disk.mount(), options);
    let handle = history.handle();
    handle.record(record("before", 1, clock.now()));
    handle.flush();
    disk.set_capacity(8 << 10);
    for number in 0..1_000 {
        handle.record(record(&format!("lost {number}"), 1, clock.now()));
        if number % 10 == 0 {
            handle.flush();
        }
    }
    handle.flush();
    let counters = handle.counters();
    assert!(counters.dropped > 900, "{counters:?}");
    assert_eq!(counters.written + counters.dropped, 1_001);
    assert_eq!(
        handle.attempts_of("before", 1).len(),
        1,
        "it can still be asked"
    );

    disk.set_capacity(u64::MAX);
    handle.record(record("too early", 1, clock.now()));
    handle.flush();
    assert_eq!(handle.attempts_of("too early", 1), []);
    clock.advance(retry);
    handle.record(record("after", 1, clock.now()));
    handle.flush();
    assert_eq!(handle.attempts_of("after", 1).len(), 1);
    drop(history);
    let history = clock.start(disk.mount(), self::options());
    assert_eq!(history.handle().attempts_of("after", 1).len(), 1);
    assert_eq!(history.handle().attempts_of("before", 1).len(), 1);
}

#[test]
fn no_file_is_begun_in_the_space_that_events_need() {
    let (disk, clock) = (FaultyDisk::new(7), TestClock::new());
    disk.set_capacity(1 << 20);
    let options = HistoryOptions {
        disk_reserve_bytes: 900 << 10,
        ..options()
    };
    let history = clock.start(disk.mount(), options);
    let handle = history.handle();
    for number in 0..10_000 {
        handle.record(record(&format!("event {number}"), 1, clock.now()));
        if number % 100 == 0 {
            handle.flush();
        }
    }
    handle.flush();
    assert!(handle.counters().written > 0 && handle.counters().dropped > 0);
    assert!(disk.mount().free_space().unwrap() >= 890 << 10);
}

/// D6: others may fill the disk while a file grows.
#[test]
fn a_file_that_grows_stops_at_the_reserve() {
    let (disk, clock) = (FaultyDisk::new(9), TestClock::new());
    let options = HistoryOptions {
        disk_reserve_bytes: 1 << 20,
        ..options()
    };
    let history = clock.start(disk.mount(), options);
    let handle = history.handle();
    handle.record(record("before", 1, clock.now()));
    handle.flush();
    assert_eq!(handle.counters().written, 1);
    disk.set_capacity(1 << 20);
    handle.record(record("after", 1, clock.now()));
    handle.flush();
    let counters = handle.counters();
    assert_eq!((counters.written, counters.dropped), (1, 1));
}

#[test]
fn a_full_queue_drops_and_counts() {
    let (disk, clock) = (FaultyDisk::new(8), TestClock::new());
    let options = HistoryOptions {
        queue_bytes_max: 64 << 10,
        // The writer is not called before the queue is full.
        buffer_bytes: 1 << 20,
        flush_interval: HOUR,
        ..options()
    };
    let history = clock.start(disk.mount(), options);
    let handle = history.handle();
    // Its first turn, which opens the files, is over then.
    handle.flush();
    for number in 0..1_000 {
        handle.record(record(&format!("event {number}"), 1, clock.now()));
    }
    let dropped = handle.counters().dropped;
    assert!((500..900).contains(&dropped), "{dropped}");
    handle.flush();
    assert_eq!(handle.counters().written, 1_000 - dropped);
    handle.record(record("later", 1, clock.now()));
    assert_eq!(handle.counters().dropped, dropped, "there is room again");
}

#[test]
fn a_disk_that_cannot_be_read_is_no_error() {
    let (disk, clock) = (FaultyDisk::new(9), TestClock::new());
    let mount = disk.mount();
    disk.kill();
    let history = clock.start(mount, options());
    let handle = history.handle();
    handle.record(record("a", 1, clock.now()));
    handle.flush();
    assert_eq!(
        (handle.known_since(), handle.attempts_of("a", 1)),
        (None, Vec::new())
    );
    assert_eq!(handle.counters().dropped, 1);
}

/// Random lives on a disk that loses power: what is found was recorded as it is found; what was synced by nobody may be
/// lost, and nothing is an error.
#[test]
fn power_cuts_lose_records_and_invent_none() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let (disk, clock) = (FaultyDisk::new(seed), TestClock::new());
        let mut recorded: BTreeMap<String, Vec<HistoryRecord>> = BTreeMap::new();
        for life in 0..6 {
            let options = HistoryOptions {
                file_bytes: 16 << 10,
                bytes_max: 256 << 10,
                ..options()
            };
            if random.one_in(2) {
                disk.fail_after(1 + random.below(60));
            }
            let history = clock.start(disk.mount(), options);
            let handle = history.handle();
            for _ in 0..random.below(300) {
                clock.advance(Duration::from_millis(random.below(100_000)));
                let id = format!("event {}", random.below(50));
                let record = record(&id, life, clock.now());
                recorded.entry(id).or_default().push(record.clone());
                handle.record(record);
                if random.one_in(20) {
                    handle.flush();
                }
                if random.one_in(20) {
                    check(&handle.attempts_of("event 7", 1_000), &recorded, "event 7");
                }
            }
            if random.one_in(2) {
                handle.flush();
            }
            // Its thread ends before the power does: what it writes then is drawn by the disk alone.
            let is_killed = random.one_in(3);
            if is_killed {
                drop(history);
                disk.kill();
            } else {
                disk.cut();
                drop(history);
            }
            let history = clock.start(disk.mount(), self::options());
            let handle = history.handle();
            for id in recorded.keys() {
                check(&handle.attempts_of(id, 1_000), &recorded, id);
            }
        }
    }
}

fn check(found: &[HistoryRecord], recorded: &BTreeMap<String, Vec<HistoryRecord>>, id: &str) {
    let recorded = recorded.get(id).map(Vec::as_slice).unwrap_or_default();
    let mut left = recorded.iter().rev();
    for record in found {
        assert!(
            left.any(|other| other == record),
            "{id}: {record:?} was not recorded, or is out of order"
        );
    }
}

/// Bits that rot cost records of the file they are in, never more.
#[test]
fn damage_costs_what_is_damaged() {
    let mut random = Random::new(11);
    for seed in 0..30 {
        let (disk, clock) = (FaultyDisk::new(seed), TestClock::new());
        let options = HistoryOptions {
            file_bytes: 16 << 10,
            ..options()
        };
        let history = clock.start(disk.mount(), options.clone());
        for number in 0..1_500 {
            history
                .handle()
                .record(record(&format!("event {number}"), 1, clock.now()));
        }
        drop(history);
        let mut names = disk.mount().list("history").unwrap();
        names.sort_unstable();
        assert!(names.len() > 6, "{names:?}");
        let name = &names[random.below(names.len() as u64) as usize];
        let path = format!("history/{name}");
        let length = disk.mount().open(&path, false).unwrap().len().unwrap();
        disk.flip_bit(&path, random.below(length * 8) / 8);
        let history = clock.start(disk.mount(), options);
        let handle = history.handle();
        let lost = (0..1_500)
            .filter(|number| handle.attempts_of(&format!("event {number}"), 1).is_empty());
        let lost = lost.count();
        let most = if name.contains("idx") { 0 } else { 150 };
        assert!(lost <= most, "{lost} lost by one bit in {name}");
        handle.record(record("new", 1, clock.now()));
        handle.flush();
        assert_eq!(handle.attempts_of("new", 1).len(), 1);
    }
}
