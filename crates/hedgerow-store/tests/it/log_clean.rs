//! Cleaning, and building a view again: whatever was copied, changed and forgotten meanwhile, the view that is built from
//! baseline, kept files and log is the one that was lost, and every event that is needed can be read.

mod pending;
mod power;
mod room;

use std::sync::Arc;

use hedgerow_core::hold::Period;
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Mark, SubscriptionId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::log::Log;
use hedgerow_store::record::{
    Hold, Holds, IN_FLIGHT, Lease, Moved, MovedDelivery, PackedEvents, PublishId, Record, Seek,
    Snapshot, SnapshotPlace, StartedDelivery, decode_record, encode_record,
};
use hedgerow_store::recover::{Recovery, recover};
use hedgerow_store::view::chunks_of;
use hedgerow_store::view::table::MemoryTable;
use hedgerow_store::{Store, StoreError};

use crate::grid::{Grid, SUBSCRIPTIONS, TOPICS, open_view, options, said};
use crate::support::{packed, secrets, ticking};

#[test]
fn a_view_is_built_again_as_it_was_whatever_was_cleaned() {
    let (mut cleaned, mut copied, mut compacted) = (0, 0, 0);
    for seed in 1..=12 {
        let mut grid = Grid::new(seed);
        for step in 0..1_500 {
            grid.step();
            if step % 500 == 499 {
                grid.check_events();
                let usage = grid.log.usage();
                cleaned += usage.cleaned_segments;
                copied += usage.copied_events;
                compacted += usage.compacted_files;
                let view = grid.rebuild();
                assert_eq!(said(&view), said(&grid.view), "seed {seed}, step {step}");
                grid.check_events();
                grid.reopen();
                assert_eq!(said(&view), said(&grid.view), "seed {seed}, step {step}");
            }
        }
    }
    println!("{cleaned} segments cleaned, {copied} events copied, {compacted} files compacted");
    assert!(cleaned > 20 && copied > 100 && compacted > 0);
}

#[test]
fn one_that_stands_still_on_a_small_topic_keeps_that_topic_and_not_the_log() {
    let mut grid = Grid::new(1);
    // One event in a hundred is the small topic's, and nobody takes those.
    for number in 0..6_000 {
        let is_small = number % 100 == 0;
        let topic = if is_small { TOPICS[1] } else { TOPICS[0] };
        grid.publish(topic, 2_000);
        grid.commit();
        for one in SUBSCRIPTIONS
            .into_iter()
            .filter(|(_, of)| *of == topic && !is_small)
        {
            let seq = grid.begin(one).unwrap();
            grid.settle(one.0, seq, IN_FLIGHT);
        }
        if number % 100 == 99 {
            grid.read_to_the_end(TOPICS[0]);
            grid.read_to_the_end(TOPICS[1]);
            grid.checkpoint();
        }
    }
    let usage = grid.log.usage();
    assert!(!usage.is_full(), "{usage:?}");
    // Sixty events of 2,000 bytes, and the segments at the end.
    assert!((120_000..200_000).contains(&usage.kept_bytes), "{usage:?}");
    assert!(
        usage.used_bytes < usage.kept_bytes + 12 * 64 * 1024,
        "{usage:?}"
    );
    grid.check_events();
    assert_eq!(said(&grid.rebuild()), said(&grid.view));
}

#[test]
fn retries_do_not_make_the_store_larger_than_it_may_be() {
    let mut grid = Grid::new(1);
    let subscription = SUBSCRIPTIONS[2];
    // As much as it takes, none of which is accepted.
    let refused = loop {
        let seq = grid.newest.get(&TOPICS[1]).copied().unwrap_or(0) + 1;
        match grid
            .log
            .append(TOPICS[1], packed(&format!("2-{seq}"), 5_000))
        {
            Ok(_) => grid.newest.insert(TOPICS[1], seq),
            Err(refused) => break refused,
        };
        grid.commit();
        let seq = grid.begin(subscription).unwrap();
        let progress = grid.progress(1);
        grid.fail(subscription.0, seq, progress);
        if seq.is_multiple_of(20) {
            grid.checkpoint();
        }
    };
    assert!(matches!(refused, StoreError::Full(_)), "{refused}");
    let bytes_max = options().bytes_max;
    for round in 0..60 {
        for row in grid.waiting(subscription.0) {
            let progress = grid.progress(row.attempt().unwrap().attempts + 1);
            grid.start(subscription.0, row.seq, Some(row.due), progress);
            grid.fail(subscription.0, row.seq, progress);
        }
        grid.checkpoint();
        let usage = grid.log.usage();
        assert!(usage.used_bytes <= bytes_max, "round {round}: {usage:?}");
    }
    grid.check_events();
    assert_eq!(said(&grid.rebuild()), said(&grid.view));
    for row in grid.waiting(subscription.0) {
        grid.settle(subscription.0, row.seq, row.due);
    }
    grid.read_to_the_end(TOPICS[1]);
    grid.checkpoint();
    let usage = grid.log.usage();
    assert!(
        !usage.is_full() && usage.kept_bytes == 0,
        "publishing goes on: {usage:?}"
    );
    grid.publish(TOPICS[0], 10);
}

#[test]
fn without_a_baseline_a_view_is_not_built() {
    let mut grid = Grid::new(3);
    for _ in 0..1_500 {
        grid.step();
    }
    assert!(grid.log.oldest() > Mark::ZERO);
    grid.log.close();
    let disk = grid.disk.mount();
    for name in disk.list("baseline").unwrap() {
        disk.remove(&format!("baseline/{name}")).unwrap();
    }
    let recovery = Recovery {
        disk,
        log: options(),
        secrets: secrets(),
        terminal_records_max: 10,
        replay_bytes: 30_000,
        accept_loss: false,
    };
    let error = recover(
        recovery,
        &|| Ok(None),
        || Ok(Arc::<MemoryTable>::default() as _),
        || Ok(()),
    )
    .unwrap_err();
    assert!(matches!(error, StoreError::Unrecoverable { .. }), "{error}");
}

/// What will be written once comes back as it was, bit for bit.
#[test]
fn every_kind_of_record_comes_back_as_it_was() {
    let progress = Grid::new(1).progress(3);
    let place = SnapshotPlace {
        topic: TOPICS[0],
        floor: 3,
        cursor: 70_000,
        open: chunks_of(&[3, 65_536, 65_540]),
        expires: Timestamp::MAX,
    };
    let records = [
        Record::Hold(Hold {
            subscription: SubscriptionId(1),
            holds: Holds {
                probation: None,
                window: Some(Period {
                    cause: Outcome::GenericError,
                    level: 3,
                    since: Timestamp::from_millis(7),
                    until: Timestamp::from_millis(8),
                }),
            },
        }),
        Record::Moved(Moved {
            subscription: SubscriptionId(1),
            deliveries: vec![MovedDelivery {
                seq: 4,
                from: Timestamp::from_millis(5),
                due: Timestamp::from_millis(9),
                progress,
                part: Some(3),
            }],
        }),
        Record::Lease(Lease {
            subscription: SubscriptionId(1),
            until: Timestamp::from_millis(9),
            deliveries: vec![StartedDelivery {
                seq: 4,
                replaces_due: Some(Timestamp::from_millis(5)),
                progress,
            }],
        }),
        Record::Seek(Seek {
            subscription: SubscriptionId(1),
            cursor: 70_000,
            open: chunks_of(&[1, 2, 69_999]),
            at: Timestamp::from_millis(10),
            ack_epoch: 5,
        }),
        Record::Snapshot(Snapshot {
            id: 4,
            place: Some(place),
        }),
        Record::Snapshot(Snapshot { id: 4, place: None }),
    ];
    for record in records {
        let mut frame = Vec::new();
        encode_record(&record, &mut frame);
        assert_eq!(decode_record(&frame.clone().into()).unwrap(), record);
        // A later version of it is refused and not misread.
        frame[1] += 1;
        let error = decode_record(&frame.into()).unwrap_err();
        assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    }
}

/// The id of a publish request comes back with its events, is known for a while by the time of the log, and is forgotten.
#[test]
fn publish_ids_are_known_for_a_while() {
    let mut grid = Grid::new(1);
    let publish_id = PublishId {
        id: 77,
        content_hash: 88,
    };
    let events: PackedEvents = packed("1-1", 100).with_publish_id(Some(publish_id));
    grid.log.append(TOPICS[0], events).unwrap();
    grid.commit();
    let known = grid.view.published(TOPICS[0], 77).unwrap().unwrap();
    assert_eq!(
        (known.first_seq, known.count, known.content_hash),
        (1, 1, 88)
    );
    assert_eq!(
        grid.view.published(TOPICS[1], 77).unwrap(),
        None,
        "of one topic"
    );
    assert_eq!(grid.view.published(TOPICS[0], 78).unwrap(), None);
    grid.newest.insert(TOPICS[0], 1);
    grid.checkpoint();
    grid.reopen();
    assert!(grid.view.published(TOPICS[0], 77).unwrap().is_some());
    let groups = grid.log.groups(Mark::ZERO, usize::MAX).unwrap();
    let records = groups.iter().flat_map(|group| &group.records);
    let ids = records.filter_map(|record| match record {
        Record::Events(events) => Some(events.packed.publish_id()),
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<_>>(), [Some(publish_id)]);
    // The clock of the log ticks a millisecond a group; what comes half an hour later has other buckets.
    grid.log.close();
    let recovered = Log::open(grid.disk.mount(), options(), ticking(3_600_000)).unwrap();
    grid.log = recovered.start_synchronous(&grid.view.next_seqs()).into();
    grid.publish(TOPICS[0], 10);
    grid.commit();
    assert_eq!(
        grid.view.published(TOPICS[0], 77).unwrap(),
        None,
        "forgotten"
    );
    grid.checkpoint();
    grid.reopen();
    assert_eq!(grid.view.published(TOPICS[0], 77).unwrap(), None);
}

/// A log that lost all its segments is no new log: what a view built from it would say is that nothing is owed.
#[test]
fn a_lost_log_is_not_taken_for_an_empty_one() {
    let mut grid = Grid::new(3);
    for _ in 0..1_500 {
        grid.step();
    }
    grid.checkpoint();
    grid.log.close();
    let disk = grid.disk.mount();
    for name in disk.list("log").unwrap() {
        disk.remove(&format!("log/{name}")).unwrap();
    }
    for has_manifest in [true, false] {
        if !has_manifest {
            disk.remove("kept/MANIFEST").unwrap();
            for directory in ["kept/owed", "kept/behind"] {
                for name in disk.list(directory).unwrap() {
                    disk.remove(&format!("{directory}/{name}")).unwrap();
                }
            }
        }
        let recovery = Recovery {
            disk: grid.disk.mount(),
            log: options(),
            secrets: secrets(),
            terminal_records_max: 10,
            replay_bytes: 30_000,
            accept_loss: false,
        };
        let table = || Ok(Arc::<MemoryTable>::default() as _);
        let error = recover(recovery, &|| Ok(None), table, || Ok(())).unwrap_err();
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "{has_manifest}: {error}"
        );
    }
}

/// Events that are owed and are nowhere: refused when the store opens, and not met when they are to be sent.
#[test]
fn a_store_that_lost_what_is_owed_is_refused() {
    type Spoil = fn(&Grid);
    let cases: [(&str, Spoil); 2] = [
        ("kept/ lost", |grid| {
            let disk = grid.disk.mount();
            disk.remove("kept/MANIFEST").unwrap();
            for directory in ["kept/owed", "kept/behind"] {
                for name in disk.list(directory).unwrap() {
                    disk.remove(&format!("{directory}/{name}")).unwrap();
                }
            }
        }),
        ("the first segment lost", |grid| {
            let disk = grid.disk.mount();
            let oldest = grid.log.oldest().segment() + 1;
            for path in [
                format!("log/{oldest:08x}.seg"),
                format!("log/{oldest:08x}.idx"),
            ] {
                let _ = disk.remove(&path);
            }
        }),
    ];
    for (name, spoil) in cases {
        // Nobody takes what is published: all is owed, and cleaning keeps what it does not leave in the log.
        let mut grid = Grid::new(3);
        for _ in 0..400 {
            grid.publish(TOPICS[0], 1_000);
            grid.publish(TOPICS[1], 1_000);
            grid.commit();
            if let Some(seq) = grid.begin(SUBSCRIPTIONS[2]) {
                let progress = grid.progress(1);
                grid.fail(SUBSCRIPTIONS[2].0, seq, progress);
            }
            if let Some(seq) = grid.begin(SUBSCRIPTIONS[0]) {
                grid.settle(SUBSCRIPTIONS[0].0, seq, IN_FLIGHT);
            }
            if let Some(seq) = grid.begin(SUBSCRIPTIONS[1]) {
                grid.settle(SUBSCRIPTIONS[1].0, seq, IN_FLIGHT);
            }
        }
        grid.read_to_the_end(TOPICS[0]);
        grid.read_to_the_end(TOPICS[1]);
        grid.checkpoint();
        grid.checkpoint();
        assert!(grid.log.usage().kept_bytes > 0, "{:?}", grid.log.usage());
        for _ in 0..100 {
            grid.publish(TOPICS[1], 2_000);
            grid.commit();
        }
        // The view is written down at the end of the log; nothing is cleaned any more.
        let checkpoint = grid.view.begin_checkpoint().unwrap();
        checkpoint.write(&*grid.disk.mount()).unwrap();
        grid.view.finish_checkpoint();
        grid.log.close();
        spoil(&grid);
        let opened = Log::open(grid.disk.mount(), options(), ticking(1_000));
        let error = opened.and_then(|recovered| {
            let mut view = open_view(&grid.disk, &grid.table, recovered.store_id());
            view.catch_up(&recovered, 30_000)
        });
        let error = error.unwrap_err();
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "{name}: {error}"
        );
    }
}
