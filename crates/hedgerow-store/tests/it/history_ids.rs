//! Accepted events are found by their ids, whether anybody was sent them or not; within bounds, and beside the attempts.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::position::{Position, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::history::{AcceptedEvent, History, HistoryOptions};
use hedgerow_store::record::{Events, PackedEvents};

const START_MS: u64 = 1_893_553_445_000;

fn options() -> HistoryOptions {
    HistoryOptions {
        disk_reserve_bytes: 0,
        ..HistoryOptions::default()
    }
}

fn start(disk: &FaultyDisk, options: HistoryOptions) -> History {
    let clock = || Timestamp::from_millis(START_MS);
    History::start(disk.mount(), options, Arc::new(clock))
}

fn event(id: &str) -> Event<'_> {
    Event {
        id: id.into(),
        source: None,
        event_type: "Order.Placed".into(),
        subject: Some("orders/1".into()),
        time: None,
        data_version: Some("1".into()),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Json("{}".into()),
    }
}

fn events(topic: u32, first_seq: u64, ids: &[&str]) -> Events {
    let events: Vec<_> = ids.iter().map(|id| event(id)).collect();
    Events {
        topic: TopicId(topic),
        first_seq,
        published: Timestamp::from_millis(START_MS + first_seq),
        packed: PackedEvents::pack(&events),
    }
}

fn at(topic: u32, seq: u64, published: u64) -> AcceptedEvent {
    AcceptedEvent {
        published: Timestamp::from_millis(START_MS + published),
        position: Position {
            topic: TopicId(topic),
            seq,
        },
    }
}

#[test]
fn an_id_is_found_in_every_event_that_has_it_before_and_after_a_restart() {
    let disk = FaultyDisk::new(1);
    let waits = HistoryOptions {
        // Nothing is written before it is asked for: the first look finds what waits.
        flush_interval: Duration::from_secs(3_600),
        ..options()
    };
    let history = start(&disk, waits);
    let handle = history.handle();
    handle.accept(&events(1, 1, &["a", "b", "a"]));
    handle.accept(&events(2, 9, &["c", "a"]));
    // A crash may let the same be handed in again.
    handle.accept(&events(2, 9, &["c", "a"]));
    let expect = [at(2, 10, 9), at(1, 3, 1), at(1, 1, 1)];
    assert_eq!(handle.accepted("a", 100), expect);
    handle.flush();
    assert_eq!(handle.accepted("a", 100), expect);
    let of_one = |event: &AcceptedEvent| event.position.topic == TopicId(1);
    let found = handle.accepted_where("a", 1, of_one);
    assert_eq!(found, expect[1..2], "others take no room");
    assert_eq!(handle.accepted("b", 100), [at(1, 2, 1)]);
    assert_eq!(handle.accepted("d", 100), []);
    assert_eq!(
        handle.ids_known_since(),
        Some(Timestamp::from_millis(START_MS))
    );
    assert_eq!(handle.counters().ids_written, 7);
    drop(history);

    let history = start(&disk, options());
    let handle = history.handle();
    let mut found = handle.accepted("a", 100);
    found.sort_unstable();
    assert_eq!(found, [at(1, 1, 1), at(1, 3, 1), at(2, 10, 9)]);
    assert_eq!(handle.attempts_of("a", 100), [], "nobody was sent it");
}

#[test]
fn the_oldest_ids_go_when_their_bytes_are_reached() {
    let disk = FaultyDisk::new(2);
    let bytes_max = 1 << 20;
    let history = start(
        &disk,
        HistoryOptions {
            ids_bytes_max: bytes_max,
            ..options()
        },
    );
    let handle = history.handle();
    let ids: Vec<String> = (0..100_000).map(|number| format!("id-{number}")).collect();
    for (first_seq, part) in (1_u64..).step_by(1_000).zip(ids.chunks(1_000)) {
        let part: Vec<&str> = part.iter().map(String::as_str).collect();
        handle.accept(&events(1, first_seq, &part));
        handle.flush();
        assert!(handle.counters().disk_bytes <= bytes_max);
    }
    assert_eq!(handle.counters().ids_written, 100_000);
    assert_eq!(handle.accepted("id-0", 10), []);
    let newest: Vec<_> = handle
        .accepted("id-99999", 10)
        .iter()
        .map(|event| event.position.seq)
        .collect();
    assert_eq!(newest, [100_000]);
    // About as many as the setting's description says: 22 bytes for an event of a large request.
    let is_known = |number: usize| !handle.accepted(&ids[number], 1).is_empty();
    let known = (0..100_000)
        .step_by(1_000)
        .filter(|at| is_known(*at))
        .count();
    assert!((30..=50).contains(&known), "{known} of 100 parts are known");
}

#[test]
fn without_bytes_for_them_no_ids_are_kept() {
    let disk = FaultyDisk::new(3);
    let history = start(
        &disk,
        HistoryOptions {
            ids_bytes_max: 0,
            ..options()
        },
    );
    let handle = history.handle();
    handle.accept(&events(1, 1, &["a"]));
    handle.flush();
    assert_eq!(handle.accepted("a", 10), []);
    assert_eq!(handle.ids_known_since(), None);
    assert!(handle.known_since().is_some(), "attempts are");
}
