//! The log with its threads, on a real directory, with readers and checkpoints beside the writer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::log::{Log, LogOptions};
use hedgerow_store::record::{CleanStop, Record, unpack_event};
use hedgerow_store::{Store, StoreError};

use crate::support::{Floors, packed, settled, small, ticking};

const PUBLISHERS: u32 = 4;
const EVENTS: u64 = 400;

#[test]
fn many_publish_read_and_clean_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let options = LogOptions {
        bytes_max: 1 << 30,
        ..small()
    };
    let disk = || Arc::new(RealDisk::new(directory.path()).unwrap());
    let log = Log::open(disk(), options.clone(), ticking(0))
        .unwrap()
        .start(&HashMap::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| follow(&log, &done));
        scope.spawn(|| read_old(&log, &done));
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|topic| {
                scope.spawn({
                    let log = &log;
                    move || publish(log, TopicId(topic))
                })
            })
            .collect();
        for publisher in publishers {
            publisher.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(log.usage().recycled_segments > 0, "{:?}", log.usage());
    log.journal(Record::CleanStop(CleanStop { epoch: 1 }))
        .unwrap();
    log.close();

    let log = Log::open(disk(), options, ticking(0))
        .unwrap()
        .start(&HashMap::new());
    for topic in 0..PUBLISHERS {
        let newest = log
            .read(Position {
                topic: TopicId(topic),
                seq: EVENTS,
            })
            .unwrap();
        assert_eq!(
            unpack_event(&newest.bytes).unwrap().id,
            format!("{topic}-{EVENTS}")
        );
    }
}

fn publish(log: &Log, topic: TopicId) {
    for seq in 1..=EVENTS {
        let appending = log
            .append(topic, packed(&format!("{}-{seq}", topic.0), 2000))
            .unwrap();
        log.journal(settled(seq)).unwrap();
        let appended = appending.blocking_recv().unwrap();
        assert_eq!(appended.first, Position { topic, seq });
        assert!(*log.durable().borrow() > Mark::ZERO);
    }
}

/// Follows the log and lets go what is a hundred events old.
fn follow(log: &Log, done: &AtomicBool) {
    let mut from = Mark::ZERO;
    let mut number = 0;
    let mut seen = HashMap::new();
    while !done.load(Ordering::SeqCst)
        || seen.values().sum::<u64>() < EVENTS * u64::from(PUBLISHERS)
    {
        for group in log.groups(from, 100_000).unwrap() {
            number += 1;
            assert_eq!(group.number, number);
            from = group.end;
            for record in &group.records {
                if let Record::Events(events) = record {
                    let seen = seen.entry(events.topic).or_insert(0);
                    assert_eq!(events.first_seq, *seen + 1);
                    *seen += u64::from(events.packed.count());
                }
            }
        }
        let floors = seen
            .iter()
            .map(|(topic, seq)| (*topic, seq.saturating_sub(100)))
            .collect();
        log.checkpoint(from, &Floors(floors)).unwrap();
    }
}

/// Reads all over the log: an event is right, or forgotten.
fn read_old(log: &Log, done: &AtomicBool) {
    let mut step = 0_u64;
    while !done.load(Ordering::SeqCst) {
        step += 1;
        let position = Position {
            topic: TopicId((step % u64::from(PUBLISHERS)) as u32),
            seq: 1 + (step * 7919) % EVENTS,
        };
        match log.read_from(position, 5000) {
            Ok(row) => {
                for (seq, event) in row {
                    let id = format!("{}-{seq}", position.topic.0);
                    assert_eq!(unpack_event(&event.bytes).unwrap().id, id);
                }
            }
            Err(StoreError::Forgotten { .. }) => {}
            Err(error) => panic!("{position:?}: {error}"),
        }
    }
}

#[test]
fn a_failed_sync_is_told_to_everybody() {
    let disk = FaultyDisk::new(5);
    let log = Log::open(disk.mount(), small(), ticking(0))
        .unwrap()
        .start(&HashMap::new());
    log.append(TopicId(1), packed("a", 100))
        .unwrap()
        .blocking_recv()
        .unwrap();
    // The helper thread syncs too, to make files ahead. What is to fail is the sync of a group, in the first segment.
    let segments = disk.mount().list("log").unwrap();
    let active = segments
        .iter()
        .filter(|name| name.strip_suffix(".seg").is_some())
        .min();
    let active = format!("log/{}", active.unwrap());
    let durable = log.durable();
    let mut told = 0;
    disk.fail_sync_once_of(&active);
    for _ in 0..1000 {
        match log.append(TopicId(1), packed("b", 100)) {
            Ok(appending) => told += u32::from(appending.blocking_recv().is_err()),
            Err(StoreError::Closed) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(told, 1);
    assert!(durable.has_changed().is_err());
    log.close();
    Log::open(disk.mount(), small(), ticking(0)).unwrap();
}
