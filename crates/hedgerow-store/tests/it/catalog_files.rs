//! The files of the catalog: what has changed in one is noticed, and `recover` writes it again (issue 4).

use std::collections::HashMap;
use std::sync::Arc;

use hedgerow_core::position::{Mark, TopicId};
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::log::check::check;
use hedgerow_store::log::{Log, RecoveredLog};
use hedgerow_store::recover::{Recovery, RecoveryReport, recover};
use hedgerow_store::view::table::MemoryTable;
use hedgerow_store::view::{View, ViewOptions};
use hedgerow_store::{Store, StoreError};

use crate::support::{NothingNeeded, packed, secrets, small, ticking, topic_created};

const TOPIC: TopicId = TopicId(1);

struct Place {
    disk: FaultyDisk,
    table: Arc<MemoryTable>,
}

impl Place {
    /// A topic is declared, and the view is written down.
    fn new() -> Self {
        let place = Self {
            disk: FaultyDisk::new(1),
            table: Arc::default(),
        };
        place.declare(1);
        place.checkpoint();
        place
    }

    fn open(&self) -> RecoveredLog {
        Log::open(self.disk.mount(), small(), ticking(0)).unwrap()
    }

    fn declare(&self, number: u32) {
        let log = self.open().start_synchronous(&HashMap::new());
        log.journal(topic_created(TopicId(number), number.into()))
            .unwrap();
        log.commit_queued().unwrap();
    }

    /// Some segments.
    fn publish(&self) {
        let log = self.open().start_synchronous(&HashMap::new());
        for _ in 0..20 {
            log.append(TOPIC, packed("x", 10_000)).unwrap();
            log.commit_queued().unwrap();
        }
    }

    fn view(&self, log: &RecoveredLog) -> Result<View, StoreError> {
        let options = ViewOptions {
            store_id: log.store_id(),
            terminal_records_max: 100,
        };
        let table = Arc::clone(&self.table) as _;
        View::open(table, &*self.disk.mount(), secrets(), options)
    }

    fn checkpoint(&self) -> Mark {
        let log = self.open();
        let mut view = self.view(&log).unwrap();
        view.catch_up(&log, 30_000).unwrap();
        let checkpoint = view.begin_checkpoint().unwrap();
        checkpoint.write(&*self.disk.mount()).unwrap();
        checkpoint.mark()
    }

    fn problems(&self) -> Vec<String> {
        let table = Arc::clone(&self.table);
        let checked = check(&*self.disk.mount(), &secrets(), &|| {
            Ok(Some(Arc::clone(&table) as _))
        });
        let problems = checked.unwrap().problems;
        problems.iter().map(ToString::to_string).collect()
    }

    fn recover(&mut self) -> Result<RecoveryReport, StoreError> {
        let recovery = Recovery {
            disk: self.disk.mount(),
            log: small(),
            secrets: secrets(),
            terminal_records_max: 100,
            replay_bytes: 30_000,
            accept_loss: false,
        };
        let new = Arc::<MemoryTable>::default();
        self.table = Arc::clone(&new);
        recover(recovery, &|| Ok(None), || Ok(new as _), || Ok(()))
    }

    fn read(&self, path: &str) -> Vec<u8> {
        let file = self.disk.mount().open(path, false).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let file = self.disk.mount().open(path, true).unwrap();
        file.set_len(0).unwrap();
        file.write_at(0, bytes).unwrap();
    }
}

fn path(revision: u64) -> String {
    format!("catalog/{revision:016}.json")
}

#[test]
fn whatever_has_changed_in_the_file_of_the_catalog_is_noticed_issue_4() {
    let place = Place::new();
    let whole = place.read(&path(1));
    let json: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(json["topics"]["1"]["name"], "orders-1");
    assert!(whole.ends_with(b"\"\n}") && json["crc32c"].as_str().unwrap().len() == 8);
    let log = place.open();
    for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        place.write(&path(1), &bytes);
        let error = place.view(&log).err();
        assert!(
            matches!(&error, Some(StoreError::CatalogDamaged { path, .. }) if *path == self::path(1)),
            "bit {bit} of byte {at}: {error:?}"
        );
    }
    drop(log);
    for len in 0..whole.len() {
        place.write(&path(1), &whole[..len]);
        let problems = place.problems();
        assert!(
            problems[0].starts_with(&path(1)) && problems[0].contains("run `hedgerow recover`"),
            "{len} bytes of it: {problems:?}"
        );
    }
    // A value of another length, as an editor leaves it.
    let text = String::from_utf8(whole.clone()).unwrap();
    place.write(&path(1), text.replace("orders-1", "orders-12").as_bytes());
    let problems = place.problems();
    assert!(problems[0].contains("its crc is wrong"), "{problems:?}");
    place.write(&path(1), &whole);
    assert_eq!(place.problems(), Vec::<String>::new());
}

#[test]
fn a_file_without_a_checksum_is_taken_as_older_servers_wrote_it() {
    let place = Place::new();
    let json: serde_json::Value = serde_json::from_slice(&place.read(&path(1))).unwrap();
    let mut old = json;
    old.as_object_mut().unwrap().remove("crc32c");
    place.write(&path(1), format!("{old:#}").as_bytes());
    let view = place.view(&place.open()).unwrap();
    assert_eq!(view.catalog().revision, 1);
    assert_eq!(place.problems(), Vec::<String>::new());
    // The next one has one.
    place.declare(2);
    place.checkpoint();
    assert!(place.read(&path(2)).ends_with(b"\"\n}"));
}

#[test]
fn recover_writes_the_files_of_the_catalog_again() {
    let mut place = Place::new();
    place.declare(2);
    place.checkpoint();
    for revision in [1, 2] {
        place.disk.flip_bit(&path(revision), 20);
    }
    assert_eq!(place.problems().len(), 3, "{:?}", place.problems());
    let report = place.recover().unwrap();
    assert_eq!((report.topics, report.loss), (2, None));
    assert_eq!(place.problems(), Vec::<String>::new());
    let view = place.view(&place.open()).unwrap();
    assert_eq!(view.catalog().topics().count(), 2);
}

/// What the log has forgotten is in the file alone.
#[test]
fn recover_says_that_a_backup_is_needed_where_the_log_begins_behind_the_damage() {
    let mut place = Place::new();
    place.publish();
    let through = place.checkpoint();
    let log = place.open().start_synchronous(&HashMap::new());
    log.checkpoint(through, &NothingNeeded).unwrap();
    assert!(log.oldest() > Mark::ZERO);
    drop(log);
    place.disk.flip_bit(&path(1), 20);
    let error = place.recover().unwrap_err();
    assert!(
        matches!(error, StoreError::CatalogDamaged { .. })
            && error.to_string().contains("if it says this too, restore"),
        "{error}"
    );
}
