//! `stat`: what fills the disk, and for whom.

use std::collections::HashMap;
use std::sync::Arc;

use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::{EndpointUrl, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::{Change, TopicKeys};
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::log::Log;
use hedgerow_store::record::{CatalogChange, Read, Record};
use hedgerow_store::stat::stat;
use hedgerow_store::view::table::MemoryTable;
use hedgerow_store::{Store, StoreError};

use crate::support::{packed, secrets, small, ticking};

const LARGE: TopicId = TopicId(1);
const LITTLE: TopicId = TopicId(2);

fn topic(id: TopicId, name: &str) -> Change {
    Change::TopicCreated {
        id,
        name: name.parse().unwrap(),
        spec: TopicSpec::default(),
        keys: TopicKeys {
            key1: "one".to_owned(),
            key2: "two".to_owned(),
        },
        created: Timestamp::ZERO,
    }
}

fn subscription(id: u32, topic: TopicId, name: &str) -> Change {
    let url = EndpointUrl::parse("https://receiver.example/").unwrap();
    Change::SubscriptionCreated {
        id: SubscriptionId(id),
        topic,
        domain_topic: None,
        name: name.parse().unwrap(),
        spec: Box::new(SubscriptionSpec::webhook(url)),
        validation: None,
        created: Timestamp::ZERO,
    }
}

#[test]
fn the_log_is_told_by_segment_topic_and_subscription() {
    let disk = FaultyDisk::new(1);
    let recovered = Log::open(disk.mount(), small(), ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    let changes = [
        topic(LARGE, "large"),
        topic(LITTLE, "little"),
        subscription(1, LARGE, "done"),
        subscription(2, LARGE, "slow"),
        subscription(3, LARGE, "dead"),
        subscription(4, LITTLE, "lost"),
    ];
    for (revision, change) in (1..).zip(changes) {
        let json = change.to_sealed_json(&secrets()).unwrap().into();
        log.journal(Record::Catalog(CatalogChange { revision, json }))
            .unwrap();
    }
    for number in 0..100 {
        log.append(LARGE, packed("x", 4_000)).unwrap();
        if number % 10 == 0 {
            log.append(LITTLE, packed("y", 400)).unwrap();
        }
        log.commit_queued().unwrap();
    }
    let read = |topic, laggards: &[(u32, u64)]| {
        log.journal(Record::Read(Read {
            topic,
            read_to: if topic == LARGE { 101 } else { 11 },
            laggards: laggards
                .iter()
                .map(|(id, cursor)| (SubscriptionId(*id), *cursor))
                .collect(),
        }))
        .unwrap();
    };
    read(LARGE, &[(2, 91), (3, 51)]);
    read(LITTLE, &[(4, 1)]);
    log.commit_queued().unwrap();
    let error = stat(&*disk.mount(), &secrets(), &|| Ok(None)).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    let end = *log.durable().borrow();
    drop(log);

    let mutations = disk.counters().mutations;
    let table: Arc<MemoryTable> = Arc::default();
    let report = stat(&*disk.mount(), &secrets(), &|| {
        Ok(Some(Arc::clone(&table) as _))
    })
    .unwrap();
    assert_eq!(disk.counters().mutations, mutations, "it only reads");
    assert_eq!(report.end, end);
    let topics: Vec<_> = report
        .topics
        .iter()
        .map(|one| (one.name.as_deref().unwrap(), one.events))
        .collect();
    assert_eq!(topics, [("large", 100), ("little", 10)]);
    let (large, little) = (&report.topics[0], &report.topics[1]);
    assert!(large.bytes > 400_000 && large.bytes < 420_000, "{large:?}");
    let each = large.bytes / 100;
    let is_about = |bytes: u64, events: u64| bytes.abs_diff(events * each) < each;
    assert!(is_about(large.needed_bytes, 50), "{large:?}");
    assert_eq!(little.needed_bytes, little.bytes);
    let by_segment: u64 = report.segments.iter().map(|one| one.event_bytes).sum();
    assert_eq!(by_segment, large.bytes + little.bytes);
    assert!(report.segments.len() >= 6);
    assert!(report.segments.iter().all(|one| one.file_bytes == 65_536
        && one.event_bytes <= one.used_bytes
        && one.needed_bytes <= one.event_bytes));

    let found: Vec<_> = report
        .subscriptions
        .iter()
        .map(|one| {
            (
                one.name.as_deref().unwrap(),
                one.events,
                one.oldest_segment == 1,
            )
        })
        .collect();
    assert_eq!(
        found,
        [("dead", 50, false), ("lost", 10, true), ("slow", 10, false)]
    );
    let (dead, lost, slow) = (
        &report.subscriptions[0],
        &report.subscriptions[1],
        &report.subscriptions[2],
    );
    assert!(
        is_about(dead.bytes, 50) && is_about(dead.only_bytes, 40),
        "{dead:?}"
    );
    assert_eq!((lost.bytes, lost.only_bytes), (little.bytes, little.bytes));
    assert!(is_about(slow.bytes, 10) && slow.only_bytes == 0, "{slow:?}");
}

#[test]
fn where_there_is_no_store_there_is_nothing_to_tell() {
    let error = stat(&*FaultyDisk::new(1).mount(), &secrets(), &|| Ok(None)).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
}
