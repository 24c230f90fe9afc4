//! Events come back as they were appended, one by one and in rows, from memory and from further back.

use hedgerow_core::position::{Position, TopicId};

use super::{Fixture, NextSeqs, event, events, records};
use crate::record::{PublishId, Record, unpack_event};
use crate::{Store, StoreError};

const TOPICS: [TopicId; 3] = [TopicId(1), TopicId(2), TopicId(900)];
const APPENDS: u64 = 90;
const EVENTS_PER_APPEND: u64 = 2;

/// So many events in each topic, more than fit in the memory of small stores.
async fn filled(fixture: &mut dyn Fixture) -> std::sync::Arc<dyn Store> {
    let store = fixture.open(&NextSeqs::new());
    let mut appending = Vec::new();
    for number in 0..APPENDS {
        let topic = TOPICS[(number % 3) as usize];
        let name = format!("t{}-{}", topic.0, number / 3);
        let packed = events(&name, EVENTS_PER_APPEND as usize, 700);
        appending.push(store.append(topic, packed).expect("appended"));
    }
    for append in appending {
        append.await.expect("it becomes durable");
    }
    store
}

/// The id of an event of [`filled`].
fn id(position: Position) -> String {
    let index = position.seq - 1;
    let (append, place) = (index / EVENTS_PER_APPEND, index % EVENTS_PER_APPEND);
    format!("t{}-{append}-{place}", position.topic.0)
}

const PER_TOPIC: u64 = APPENDS / 3 * EVENTS_PER_APPEND;

/// Byte for byte, before and after the store was opened again.
pub async fn events_are_read_as_they_were_appended(fixture: &mut dyn Fixture) {
    let mut store = filled(fixture).await;
    let mut published = std::collections::HashMap::new();
    for life in 0..3 {
        for topic in TOPICS {
            for seq in 1..=PER_TOPIC {
                let position = Position { topic, seq };
                let stored = store.read(position).expect("it is there");
                let read = unpack_event(&stored.bytes).expect("an event");
                let id = id(position);
                assert_eq!(read, event(&id, 700));
                let time = *published.entry(position).or_insert(stored.published);
                assert_eq!(stored.published, time, "of {position:?}");
                if let Some(recent) = store.read_recent(position) {
                    assert_eq!(recent.bytes, stored.bytes);
                    assert_eq!(recent.published, stored.published);
                }
            }
        }
        if life == 0 {
            fixture.crash();
        } else {
            fixture.close();
        }
        store = fixture.open(&NextSeqs::new());
    }
    fixture.close();
}

/// At least one event, about as many bytes as were asked for, of one topic.
pub async fn rows_have_no_gap_and_keep_to_their_topic(fixture: &mut dyn Fixture) {
    let store = filled(fixture).await;
    for topic in TOPICS {
        for bytes_max in [0, 1, 2000, 20_000, usize::MAX] {
            let mut seq = 1;
            while seq <= PER_TOPIC {
                let row = store
                    .read_from(Position { topic, seq }, bytes_max)
                    .expect("it is there");
                let bytes: usize = row.iter().map(|(_, stored)| stored.bytes.len()).sum();
                assert!(row.len() == 1 || bytes <= bytes_max, "{bytes} bytes");
                assert!(!row.is_empty());
                for (found, stored) in row {
                    assert_eq!(found, seq, "no gap");
                    let read = unpack_event(&stored.bytes).expect("an event");
                    assert_eq!(read.id, id(Position { topic, seq }));
                    seq += 1;
                }
            }
            assert_eq!(seq, PER_TOPIC + 1);
        }
    }
    fixture.close();
}

/// Before the first event, behind the last one, and in topics that nothing was published to.
pub async fn what_is_not_there_is_forgotten(fixture: &mut dyn Fixture) {
    let store = filled(fixture).await;
    for (topic, seq) in [
        (TOPICS[0], 0),
        (TOPICS[0], PER_TOPIC + 1),
        (TOPICS[2], u64::MAX),
        (TopicId(3), 1),
        (TopicId(0), 1),
        (TopicId(u32::MAX), 1),
    ] {
        let position = Position { topic, seq };
        assert!(store.read_recent(position).is_none(), "{position:?}");
        let one = store.read(position);
        let row = store.read_from(position, 1000);
        assert!(matches!(one, Err(StoreError::Forgotten { .. })), "{one:?}");
        assert!(matches!(row, Err(StoreError::Forgotten { .. })), "{row:?}");
    }
    fixture.close();
}

/// A request's id and content hash, or none, whatever else is appended with it; also after the store was opened again.
pub async fn publish_ids_come_back_with_their_events(fixture: &mut dyn Fixture) {
    let topic = TOPICS[0];
    let ids = [None, Some(0), Some(u128::MAX), None, Some(7)].map(|id| {
        id.map(|id: u128| PublishId {
            id,
            content_hash: id ^ 0xF0F0,
        })
    });
    let mut store = fixture.open(&NextSeqs::new());
    let mut appending = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        let packed = events(&format!("e{number}"), 2, 300).with_publish_id(*id);
        appending.push(store.append(topic, packed).expect("appended"));
    }
    for append in appending {
        append.await.expect("it becomes durable");
    }
    for life in 0..3 {
        let shown = records(&*store, ids.len()).await;
        let found = shown.iter().map(|record| match record {
            Record::Events(events) => events.packed.publish_id(),
            other => panic!("nothing else was queued: {other:?}"),
        });
        assert_eq!(found.collect::<Vec<_>>(), ids);
        for seq in 1..=2 * ids.len() as u64 {
            let stored = store.read(Position { topic, seq }).expect("it is there");
            let id = format!("e{}-{}", (seq - 1) / 2, (seq - 1) % 2);
            let read = unpack_event(&stored.bytes).expect("an event");
            assert_eq!(read, event(&id, 300), "the id is no part of it");
        }
        if life == 0 {
            fixture.crash();
        } else {
            fixture.close();
        }
        store = fixture.open(&NextSeqs::new());
    }
    fixture.close();
}
