//! A view and a log that do not belong together are refused, with what to do.

use std::collections::HashMap;
use std::sync::Arc;

use hedgerow_core::position::{Mark, TopicId};
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::log::{Log, RecoveredLog};
use hedgerow_store::view::table::MemoryTable;
use hedgerow_store::view::{View, ViewOptions};
use hedgerow_store::{Store, StoreError};

use crate::support::{NothingNeeded, packed, secrets, small, ticking};

const TOPIC: TopicId = TopicId(1);

fn recover(disk: &FaultyDisk) -> RecoveredLog {
    Log::open(disk.mount(), small(), ticking(0)).unwrap()
}

fn view(disk: &FaultyDisk, table: &Arc<MemoryTable>, log: &RecoveredLog) -> View {
    let options = ViewOptions {
        store_id: log.store_id(),
        terminal_records_max: 100,
    };
    View::open(Arc::clone(table) as _, &*disk.mount(), secrets(), options).unwrap()
}

/// Publishes so many events of 10,000 bytes. Returns the end of the log.
fn publish(disk: &FaultyDisk, events: usize) -> Mark {
    let log = recover(disk).start_synchronous(&HashMap::new());
    for _ in 0..events {
        log.append(TOPIC, packed("x", 10_000)).unwrap();
        log.commit_queued().unwrap();
    }
    *log.durable().borrow()
}

/// Writes a checkpoint of everything there is.
fn checkpoint(disk: &FaultyDisk, table: &Arc<MemoryTable>) -> Mark {
    let log = recover(disk);
    let mut view = view(disk, table, &log);
    view.catch_up(&log, 30_000).unwrap();
    assert_eq!(view.mark(), log.end());
    let checkpoint = view.begin_checkpoint().unwrap();
    checkpoint.write(&*disk.mount()).unwrap();
    checkpoint.mark()
}

#[test]
fn a_view_from_the_future_is_refused() {
    let disk = FaultyDisk::new(1);
    let table = Arc::default();
    publish(&disk, 20);
    let stamp = checkpoint(&disk, &table);
    // The log of a backup that was made earlier.
    let last = format!("log/{:08x}.seg", stamp.segment());
    disk.mount().remove(&last).unwrap();
    let log = recover(&disk);
    let error = view(&disk, &table, &log)
        .catch_up(&log, 30_000)
        .unwrap_err();
    assert!(matches!(error, StoreError::ViewAhead { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&stamp.to_string())
            && text.contains(&log.end().to_string())
            && text.contains("view/ is newer than log/; bring back the log/ that belongs to it"),
        "{text}"
    );
}

#[test]
fn a_view_older_than_the_log_is_refused() {
    let disk = FaultyDisk::new(1);
    let (old, table) = (Arc::default(), Arc::default());
    publish(&disk, 3);
    let stamp = checkpoint(&disk, &old);
    publish(&disk, 20);
    let through = checkpoint(&disk, &table);
    let log = recover(&disk).start_synchronous(&HashMap::new());
    log.checkpoint(through, &NothingNeeded).unwrap();
    let oldest = log.oldest();
    assert!(oldest > stamp);
    drop(log);
    // The right one goes on; an older copy and none at all are refused.
    let log = recover(&disk);
    view(&disk, &table, &log).catch_up(&log, 30_000).unwrap();
    for (table, stamp) in [(old, stamp), (Arc::default(), Mark::ZERO)] {
        let error = view(&disk, &table, &log)
            .catch_up(&log, 30_000)
            .unwrap_err();
        assert!(matches!(error, StoreError::ViewBehind { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(&format!(
                "stands at {stamp} and the log begins behind {oldest}"
            )) && text.contains("run `hedgerow recover`"),
            "{text}"
        );
    }
}

#[test]
fn a_view_of_another_history_is_refused() {
    let disk = FaultyDisk::new(1);
    let table = Arc::default();
    publish(&disk, 2);
    checkpoint(&disk, &table);
    // The same store, id and all, whose log went another way and ends at the same place with another group.
    let end = publish(&disk, 2);
    let log = recover(&disk);
    let mut view = view(&disk, &table, &log);
    view.catch_up(&log, 30_000).unwrap();
    assert_eq!(view.mark(), end);
    let other = (39_000..42_000).step_by(60).find_map(|bytes| {
        let other = FaultyDisk::new(1);
        let log = recover(&other).start_synchronous(&HashMap::new());
        log.append(TOPIC, packed("x", bytes)).unwrap();
        (log.commit_queued().unwrap().unwrap().end == end).then_some(other)
    });
    let error = view.catch_up(&recover(&other.unwrap()), 30_000);
    let error = error.unwrap_err();
    assert!(
        matches!(&error, StoreError::ViewDamaged { what } if what.contains("another log")),
        "{error}"
    );
}
