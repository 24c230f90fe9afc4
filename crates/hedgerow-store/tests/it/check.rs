//! `log::check`: a healthy store has no problems, and whatever is changed in it is named with its place.

use std::collections::HashMap;
use std::sync::Arc;

use hedgerow_core::position::{Mark, TopicId};
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::log::check::{CheckReport, IndexCheck, check};
use hedgerow_store::log::{Log, RecoveredLog};
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::table::{MemoryTable, Space, Table};
use hedgerow_store::view::{View, ViewOptions};
use hedgerow_store::{Store, StoreError};

use crate::support::{NothingNeeded, packed, secrets, small, ticking, topic_created};

const TOPIC: TopicId = TopicId(1);

struct Place {
    disk: FaultyDisk,
    table: Arc<MemoryTable>,
    /// Where groups begin.
    starts: Vec<Mark>,
}

impl Place {
    /// A store with four sealed segments, a catalog, and a view that stands in the middle.
    fn new() -> Self {
        let mut place = Self {
            disk: FaultyDisk::new(1),
            table: Arc::default(),
            starts: Vec::new(),
        };
        place.publish(20);
        place.checkpoint();
        place.publish(40);
        place
    }

    fn publish(&mut self, events: usize) {
        let log = recover(&self.disk).start_synchronous(&HashMap::new());
        if self.starts.is_empty() {
            log.journal(topic_created(TOPIC, 1)).unwrap();
        }
        for _ in 0..events {
            log.append(TOPIC, packed("x", 5_000)).unwrap();
            self.starts
                .push(log.commit_queued().unwrap().unwrap().start);
        }
    }

    fn view(&self, log: &RecoveredLog) -> View {
        let options = ViewOptions {
            store_id: log.store_id(),
            terminal_records_max: 100,
        };
        View::open(
            Arc::clone(&self.table) as _,
            &*self.disk.mount(),
            secrets(),
            options,
        )
        .unwrap()
    }

    fn checkpoint(&self) -> Mark {
        let log = recover(&self.disk);
        let mut view = self.view(&log);
        view.catch_up(&log, 30_000).unwrap();
        let checkpoint = view.begin_checkpoint().unwrap();
        checkpoint.write(&*self.disk.mount()).unwrap();
        checkpoint.mark()
    }

    fn check(&self) -> CheckReport {
        self.check_with(&secrets())
    }

    fn check_with(&self, secrets: &Arc<Secrets>) -> CheckReport {
        check(&*self.disk.mount(), secrets, &|| {
            Ok(Some(Arc::clone(&self.table) as _))
        })
        .unwrap()
    }

    /// The problems as text.
    fn problems(&self) -> Vec<String> {
        let report = self.check();
        assert_eq!(report.is_healthy(), report.problems.is_empty());
        report.problems.iter().map(ToString::to_string).collect()
    }
}

fn recover(disk: &FaultyDisk) -> RecoveredLog {
    Log::open(disk.mount(), small(), ticking(0)).unwrap()
}

fn path(mark: Mark) -> String {
    format!("log/{:08x}.seg", mark.segment())
}

#[test]
fn a_healthy_store_has_no_problems() {
    let place = Place::new();
    let mutations = place.disk.counters().mutations;
    let report = place.check();
    assert!(report.is_healthy(), "{:?}", report.problems);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    assert_eq!(place.disk.counters().mutations, mutations, "it only reads");
    let groups: u64 = report.segments.iter().map(|one| one.groups).sum();
    let events: u64 = report.segments.iter().map(|one| one.events).sum();
    assert_eq!((groups, events), (60, 60));
    // The newest file may be prepared and not used yet.
    let used = report.segments.iter().filter(|one| one.groups > 0);
    let indexes: Vec<_> = used.map(|one| one.index).collect();
    assert_eq!(
        indexes,
        [
            [IndexCheck::Right].repeat(indexes.len() - 1),
            vec![IndexCheck::None]
        ]
        .concat()
    );
    assert!(indexes.len() >= 5);
    assert_eq!(report.catalog_files, 1);
    let view = report.view.unwrap();
    assert!(view.stamp > Mark::ZERO && view.stamp < report.end && view.rows >= 2);
    let log = recover(&place.disk);
    assert_eq!((report.end, report.oldest), (log.end(), Mark::ZERO));
    // Whole segments are read once.
    assert!(report.read_bytes >= 60 * 5_000 && report.read_bytes < 10 * 64 * 1024);
}

#[test]
fn the_lock_is_needed() {
    let place = Place::new();
    let log = recover(&place.disk);
    let error = check(&*place.disk.mount(), &secrets(), &|| Ok(None)).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    drop(log);
    check(&*place.disk.mount(), &secrets(), &|| Ok(None)).unwrap();
    let error = check(&*FaultyDisk::new(1).mount(), &secrets(), &|| Ok(None)).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
}

#[test]
fn a_flipped_bit_is_named_with_its_place_wherever_it_is() {
    let group_bytes = 5_100;
    for at in (0..59).step_by(3) {
        let place = Place::new();
        let start = place.starts[at];
        let within = [0, 10, 20, 30, 70, 200, group_bytes - 10][at % 7];
        place
            .disk
            .flip_bit(&path(start), u64::from(start.offset()) + within);
        let problems = place.problems();
        let expected = format!("{} at {}: damaged up to", path(start), start.offset());
        assert!(
            problems
                .iter()
                .any(|problem| problem.starts_with(&expected)),
            "{expected}, {within}: {problems:?}"
        );
        // The rest is read all the same.
        let groups: u64 = place.check().segments.iter().map(|one| one.groups).sum();
        assert_eq!(groups, 59);
    }
    // The newest group looks as if it had been torn, and nothing tells the two apart.
    let place = Place::new();
    let start = place.starts[59];
    place
        .disk
        .flip_bit(&path(start), u64::from(start.offset()) + 200);
    let report = place.check();
    assert!(report.is_healthy(), "{:?}", report.problems);
    assert_eq!(report.end, start);
    assert!(
        report.notes[0].to_string().contains("torn"),
        "{:?}",
        report.notes
    );
}

#[test]
fn many_damaged_places_are_all_named() {
    let place = Place::new();
    let spoilt = [3, 4, 11, 30, 31, 50];
    for at in spoilt {
        let start = place.starts[at];
        place
            .disk
            .flip_bit(&path(start), u64::from(start.offset()) + 100);
    }
    let problems = place.problems();
    assert_eq!(problems.len(), 4, "neighbours come as one: {problems:?}");
}

#[test]
fn other_files_are_checked_too() {
    type Spoil = fn(&Place);
    let cases: [(&str, Spoil, &str); 10] = [
        (
            "an index",
            |place| place.disk.flip_bit("log/00000002.idx", 50),
            "log/00000002.idx: its crc is wrong",
        ),
        (
            "a segment",
            |place| place.disk.mount().remove("log/00000002.seg").unwrap(),
            "log/00000002.seg: missing",
        ),
        (
            "the catalog",
            |place| place.disk.flip_bit("catalog/0000000000000001.json", 0),
            "catalog/0000000000000001.json",
        ),
        (
            "no newest segment",
            |place| {
                let disk = place.disk.mount();
                let mut names = disk.list("log").unwrap();
                names.retain(|name| name.contains(".seg"));
                names.sort();
                // The last one is prepared and has nothing in it.
                for name in names.iter().rev().take(2) {
                    disk.remove(&format!("log/{name}")).unwrap();
                }
            },
            "missing, the index of the one before says that it was there",
        ),
        (
            "no catalog",
            |place| {
                place
                    .disk
                    .mount()
                    .remove("catalog/0000000000000001.json")
                    .unwrap();
            },
            "view: catalog/0000000000000001.json is missing",
        ),
        (
            "both super blocks",
            |place| {
                place.disk.flip_bit("SUPER.a", 9);
                place.disk.flip_bit("SUPER.b", 9);
            },
            "SUPER.a, SUPER.b",
        ),
        (
            "a row",
            |place| {
                let row = (Space::Due, &[0_u8, 0, 0][..], Some(&[1_u8][..]));
                place.table.apply(&mut std::iter::once(row)).unwrap();
            },
            "view: the view (a key is too short) is damaged",
        ),
        (
            "the stamp",
            |place| {
                let row = (Space::State, &b"stamp"[..], Some(&[1_u8, 2][..]));
                place.table.apply(&mut std::iter::once(row)).unwrap();
            },
            "view: the view (a row cannot be read) is damaged",
        ),
        (
            "the end of the log",
            |place| {
                let disk = place.disk.mount();
                for number in 2..20 {
                    let _ = disk.remove(&format!("log/{number:08x}.seg"));
                }
            },
            "view/ is newer than log/",
        ),
        (
            "the beginning of the log",
            |place| {
                let disk = place.disk.mount();
                for number in 1..5 {
                    disk.remove(&format!("log/{number:08x}.seg")).unwrap();
                }
            },
            "view/ is older than log/",
        ),
    ];
    for (name, spoil, expected) in cases {
        let place = Place::new();
        spoil(&place);
        let problems = place.problems();
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{name}: {problems:?}"
        );
    }
}

#[test]
fn what_a_crash_leaves_is_no_problem() {
    let place = Place::new();
    for number in 1..=2 {
        let disk = place.disk.mount();
        disk.remove(&format!("log/{number:08x}.idx")).unwrap();
    }
    place.disk.flip_bit("SUPER.a", 3);
    let report = place.check();
    assert!(report.is_healthy(), "{:?}", report.problems);
    assert_eq!(report.notes.len(), 3, "{:?}", report.notes);

    // A view whose stamp is the end of what was forgotten, and one that was never written.
    let place = Place::new();
    let through = place.checkpoint();
    let log = recover(&place.disk).start_synchronous(&HashMap::new());
    log.checkpoint(through, &NothingNeeded).unwrap();
    drop(log);
    let report = place.check();
    assert!(report.is_healthy(), "{:?}", report.problems);
    assert!(report.oldest > Mark::ZERO);
    let place = Place {
        table: Arc::default(),
        ..Place::new()
    };
    assert_eq!(place.problems(), Vec::<String>::new());
}

#[test]
fn another_key_is_told() {
    let place = Place::new();
    let other = Arc::new(Secrets::with_key([8; 32], "OTHER"));
    let problems = place.check_with(&other).problems;
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let has = |place: &str| {
        let mut texts = texts.iter();
        texts.any(|text| text.starts_with(place) && text.contains("key file OTHER"))
    };
    assert!(
        has("catalog/0000000000000001.json") && has("view"),
        "{texts:?}"
    );
    assert_eq!(texts.len(), 2, "{texts:?}");
}
