//! What may be forgotten, and what may not: only what nobody needs, and what the view has synced.

use hedgerow_core::position::{Mark, Position, TopicId};

use super::{Fixture, Floors, NextSeqs, NothingNeeded, events, groups_from, until};
use crate::{Store, StoreError};

const TOPICS: [TopicId; 2] = [TopicId(1), TopicId(2)];
const APPENDS: u64 = 160;

/// So many events in two topics, and all groups. Enough for several segments of small stores.
async fn filled(fixture: &mut dyn Fixture) -> (std::sync::Arc<dyn Store>, Vec<(u64, Mark)>) {
    let store = fixture.open(&NextSeqs::new());
    for number in 0..APPENDS {
        let topic = TOPICS[(number % 2) as usize];
        let append = store.append(topic, events("e", 1, 3000)).expect("appended");
        append.await.expect("it becomes durable");
    }
    let groups = groups_from(&*store, Mark::ZERO, usize::MAX);
    let ends = groups
        .iter()
        .map(|group| (group.number, group.end))
        .collect();
    (store, ends)
}

/// Whatever is asked for with a checkpoint, what is needed can be read afterwards, and the log goes on behind the mark
/// without a gap; also after opening again.
pub async fn nothing_is_forgotten_that_is_needed_or_past_the_mark(fixture: &mut dyn Fixture) {
    let (mut store, groups) = filled(fixture).await;
    let last = APPENDS / 2;
    let steps = [
        // Everything is needed; nothing is, but the view is behind; one topic is; little is.
        (groups.len() - 1, [1, 1]),
        (groups.len() / 4, [last + 1, last + 1]),
        (groups.len() / 2, [last / 2, 10]),
        (groups.len() - 1, [last - 3, last / 2]),
        (groups.len() - 1, [last - 3, last + 1]),
    ];
    let (mut through, mut floors) = (0, [1, 1]);
    for (step, (wanted_through, wanted_floors)) in steps.into_iter().enumerate() {
        // What was allowed to go once stays allowed.
        through = through.max(wanted_through);
        for (floor, wanted) in floors.iter_mut().zip(wanted_floors) {
            *floor = wanted.max(*floor);
        }
        if step == 1 {
            // The mark is the earlier one for as long as the floors are not.
            through = wanted_through;
        }
        let (number, mark) = groups[through];
        let liveness = Floors(TOPICS.into_iter().zip(floors).collect());
        store.checkpoint(mark, &liveness).expect("checkpointed");
        for life in 0..2 {
            for (topic, floor) in TOPICS.into_iter().zip(floors) {
                for seq in floor..=last {
                    let found = store.read(Position { topic, seq });
                    assert!(found.is_ok(), "event {seq} in step {step}, life {life}");
                }
            }
            let behind = store.groups(mark, usize::MAX).expect("an open store");
            if let Some(first) = behind.first() {
                assert_eq!(first.number, number + 1, "no gap behind the mark");
            }
            assert_eq!(
                groups.len() as u64,
                number + behind.len() as u64,
                "in step {step}, life {life}"
            );
            if life == 0 {
                fixture.crash();
                let next = TOPICS.into_iter().map(|topic| (topic, last + 1)).collect();
                store = fixture.open(&next);
            }
        }
    }
    fixture.close();
}

/// The store gets smaller, and what is gone is said to be.
pub async fn what_nobody_needs_is_forgotten(fixture: &mut dyn Fixture) {
    let (store, groups) = filled(fixture).await;
    let before = store.usage().used_bytes;
    let (_, end) = groups[groups.len() - 1];
    store.checkpoint(end, &NothingNeeded).expect("checkpointed");
    until(|| store.usage().used_bytes < before / 2).await;
    let (number, _) = groups[0];
    let oldest = store.groups(Mark::ZERO, 0).expect("an open store");
    let oldest = oldest.first().map_or(u64::MAX, |group| group.number);
    assert!(oldest > number, "the oldest group is gone");
    let append = store
        .append(TOPICS[0], events("e", 1, 10))
        .expect("appended");
    let first = append.await.expect("it becomes durable").first;
    assert_eq!(first.seq, APPENDS / 2 + 1);
    fixture.close();
    let next = NextSeqs::from([(TOPICS[0], first.seq + 1), (TOPICS[1], APPENDS / 2 + 1)]);
    let store = fixture.open(&next);
    let position = Position {
        topic: TOPICS[0],
        seq: 1,
    };
    assert!(matches!(
        store.read(position),
        Err(StoreError::Forgotten { .. })
    ));
    fixture.close();
}
