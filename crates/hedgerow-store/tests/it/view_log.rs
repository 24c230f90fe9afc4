//! A view and a log that do not belong together are refused, with what to do.

use std::collections::HashMap;
use std::sync::Arc;

use hedgerow_core::position::{Mark, TopicId};
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::log::check::check;
use hedgerow_store::log::{Log, RecoveredLog};
use hedgerow_store::recover::{self as recovery, Recovery, RecoveryReport};
use hedgerow_store::view::table::{MemoryTable, OpenTable};
use hedgerow_store::view::{View, ViewOptions};
use hedgerow_store::{Store, StoreError};

use crate::support::{NothingNeeded, packed, secrets, small, ticking, topic_created};

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
            && text.contains("view/ is newer than log/; bring back the log/ that belongs to it")
            && text.contains("`hedgerow recover` says what is lost"),
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

/// A store of at least four segments with a view of all of it, which has lost files of its log. The view is lost too unless
/// it is kept. What `recover` says, first and then when the loss is accepted.
fn recover_without(remove: &[&str], keep_view: bool) -> (String, RecoveryReport) {
    let disk = FaultyDisk::new(1);
    let table = Arc::default();
    let log = recover(&disk).start_synchronous(&HashMap::new());
    log.journal(topic_created(TOPIC, 1)).unwrap();
    log.commit_queued().unwrap();
    drop(log);
    publish(&disk, 20);
    let end = checkpoint(&disk, &table);
    assert_eq!(end.segment(), 4, "5 or 6 events in each");
    for name in remove {
        disk.mount().remove(name).unwrap();
    }
    let old: OpenTable<'_> = &|| Ok(keep_view.then(|| Arc::clone(&table) as _));
    let recover = |accept_loss| recover_anew(&disk, old, accept_loss);
    let error = recover(false).unwrap_err();
    assert!(matches!(error, StoreError::Lost(_)), "{error}");
    // It was only looked at.
    assert_eq!(recover(false).unwrap_err().to_string(), error.to_string());
    let report = recover(true).unwrap();
    // What was accepted is not told again, and the store is whole.
    let again = recover_anew(&disk, &|| Ok(None), false).unwrap();
    assert_eq!((again.end, again.loss), (report.end, None));
    let checked = check(&*disk.mount(), &secrets(), &|| Ok(None)).unwrap();
    assert!(checked.is_healthy(), "{checked:?}");
    (error.to_string(), report)
}

fn recover_anew(
    disk: &FaultyDisk,
    old: OpenTable<'_>,
    accept_loss: bool,
) -> Result<RecoveryReport, StoreError> {
    let recovery = Recovery {
        disk: disk.mount(),
        log: small(),
        secrets: secrets(),
        terminal_records_max: 100,
        replay_bytes: 30_000,
        accept_loss,
    };
    let new = Arc::<MemoryTable>::default();
    recovery::recover(recovery, old, || Ok(new as _), || Ok(()))
}

/// Built again without a word, the view would stand where the log ends now, and nobody would know what is gone (issue 4).
#[test]
fn a_lost_end_of_the_log_is_told_and_has_to_be_accepted_issue_4() {
    // Of the newest segment nothing but the index before it is left.
    let (text, report) = recover_without(&["log/00000004.seg"], false);
    let loss = report.loss.unwrap();
    assert_eq!((loss.groups, loss.events), (1, 0), "{loss}");
    assert_eq!((loss.end, loss.reached), (report.end, Mark::new(4, 0)));
    assert!(
        text.starts_with(&format!(
            "log/00000004.seg is missing: the log ends at {} and had got to 4:0 at least (the index of segment 3 says",
            report.end
        )) && text.contains("lost are at least 1 group; bring back the log/")
            && text.contains("`hedgerow recover --accept-loss`"),
        "{text}"
    );

    // The index of a lost segment says what was in it.
    let (text, report) = recover_without(&["log/00000003.seg", "log/00000004.seg"], false);
    let loss = report.loss.unwrap();
    assert_eq!((loss.groups, loss.events), (7, 6), "{loss}");
    assert!(
        text.starts_with("log/00000003.seg to log/00000004.seg are missing")
            && text.contains("the index of segment 3 says that it ended at 3:")
            && text.contains("lost are at least 7 groups, 6 events"),
        "{text}"
    );

    // The view knows how far the log had got, to the event.
    let (text, report) = recover_without(&["log/00000004.seg"], true);
    let loss = report.loss.unwrap();
    assert_eq!((loss.groups, loss.events), (2, 2), "{loss}");
    assert!(text.contains("; the view stands at 4:"), "{text}");

    // Only the view is newer, as if an older copy of the rest had been put back.
    let files = [
        "log/00000004.seg",
        "log/00000003.seg",
        "log/00000003.idx",
        "log/00000002.idx",
        "baseline/00000004-0000000000000001",
        "baseline/00000003-0000000000000001",
    ];
    let (text, report) = recover_without(&files, true);
    let loss = report.loss.unwrap();
    assert_eq!((loss.groups, loss.events), (8, 8), "{loss}");
    assert!(text.contains("(the view stands at 4:"), "{text}");
}

/// What was declared last is gone with the log; the catalog's file is all that is left of it.
#[test]
fn a_lost_declaration_is_told_and_has_to_be_accepted_issue_4() {
    let disk = FaultyDisk::new(1);
    let table = Arc::default();
    let log = recover(&disk).start_synchronous(&HashMap::new());
    log.journal(topic_created(TOPIC, 1)).unwrap();
    log.commit_queued().unwrap();
    let before = *log.durable().borrow();
    log.journal(topic_created(TopicId(2), 2)).unwrap();
    log.commit_queued().unwrap();
    drop(log);
    checkpoint(&disk, &table);
    // The rest of the segment, as a file system leaves it that has lost its newest blocks.
    let path = format!("log/{:08x}.seg", before.segment());
    let file = disk.mount().open(&path, false).unwrap();
    let len = file.len().unwrap();
    let cut = u64::from(before.offset());
    file.write_at(cut, &vec![0; (len - cut) as usize]).unwrap();
    file.sync_data().unwrap();
    let recover = |accept_loss| recover_anew(&disk, &|| Ok(None), accept_loss);
    let text = recover(false).unwrap_err().to_string();
    assert!(
        text.starts_with(&format!(
            "the end of log/ is missing: the log ends at {before} (catalog/ has revision 2 of what was declared, the log 1); \
             lost are at least 1 change of what was declared"
        )),
        "{text}"
    );
    assert_eq!(recover(true).unwrap().loss.unwrap().declarations, 1);
    assert_eq!(recover(false).unwrap().loss, None);
}
