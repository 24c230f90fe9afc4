//! Nothing is shown or answered before it is durable, nothing of it is lost; what was in doubt is whole or absent, and
//! what is there of it is the beginning of what was queued.

use hedgerow_core::position::{Mark, Position, TopicId};
use tokio::sync::oneshot::error::TryRecvError;

use super::{
    Fixture, NextSeqs, NothingNeeded, closed, events, groups_from, next_seqs, records, settled,
};
use crate::StoreError;
use crate::record::Record;

const TOPIC: TopicId = TopicId(1);

/// A publisher that got its answer, and a reader that was shown something, may rely on it.
pub async fn nothing_is_shown_before_it_is_durable(fixture: &mut dyn Fixture) {
    let store = fixture.open(&NextSeqs::new());
    let append = store.append(TOPIC, events("e", 2, 10)).expect("appended");
    append.await.expect("it becomes durable");
    let before = *store.durable().borrow();
    if !fixture.hold() {
        return;
    }
    let mut held = store.append(TOPIC, events("held", 1, 10)).expect("queued");
    store.journal(settled(1)).expect("queued");
    // Whatever works in the background gets every chance to do too much.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let position = Position {
        topic: TOPIC,
        seq: 3,
    };
    assert_eq!(held.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(*store.durable().borrow(), before);
    assert_eq!(groups_from(&*store, before, 1000).len(), 0);
    assert!(store.read_recent(position).is_none());
    assert!(matches!(
        store.read(position),
        Err(StoreError::Forgotten { .. })
    ));
    assert_eq!(
        store
            .read_from(Position { seq: 1, ..position }, 1000)
            .map(|row| row.len())
            .ok(),
        Some(2)
    );
    fixture.release();
    assert_eq!(held.await.expect("it becomes durable").first, position);
    records(&*store, 3).await;
    assert!(store.read(position).is_ok());
    fixture.close();
}

/// Through several crashes of all kinds.
pub async fn what_was_answered_or_shown_survives_crashes(fixture: &mut dyn Fixture) {
    let mut known: Vec<Record> = Vec::new();
    for life in 0..8 {
        let store = fixture.open(&next_seqs(&known));
        let groups = groups_from(&*store, Mark::ZERO, 1 << 20);
        let found: Vec<_> = groups.iter().flat_map(|group| &group.records).collect();
        assert_eq!(found.len(), known.len(), "in life {life}");
        assert!(found.into_iter().eq(known.iter()), "in life {life}");
        for number in 0..5 {
            store.journal(settled(number)).expect("journaled");
            let append = store.append(TOPIC, events("e", 2, 1000)).expect("appended");
            append.await.expect("it becomes durable");
        }
        known = records(&*store, known.len() + 10).await;
        fixture.crash();
    }
}

/// Queued and not answered when the store failed or crashed: a beginning of the queue may be there, each append whole.
pub async fn what_was_in_doubt_is_whole_or_absent(fixture: &mut dyn Fixture) {
    let mut known: Vec<Record> = Vec::new();
    for life in 0..10 {
        let store = fixture.open(&next_seqs(&known));
        fixture.hold();
        let appending: Vec<_> = (0..12)
            .map(|number| {
                store.journal(settled(number)).expect("queued");
                let packed = events(&format!("{life}-{number}"), 3, 900);
                store.append(TOPIC, packed).expect("queued")
            })
            .collect();
        if life % 2 == 0 {
            fixture.fail();
            closed(&*store).await;
        }
        fixture.crash();
        drop(store);
        let mut answered = 0;
        for append in appending {
            answered += usize::from(append.await.is_ok());
        }

        let store = fixture.open(&next_seqs(&known));
        let groups = groups_from(&*store, Mark::ZERO, 1 << 20);
        let found: Vec<_> = groups
            .iter()
            .flat_map(|group| group.records.clone())
            .collect();
        assert_eq!(found[..known.len()], known, "what was known is there");
        let adopted = &found[known.len()..];
        assert!(adopted.len() <= 24 && adopted.len() >= 2 * answered);
        for (index, record) in adopted.iter().enumerate() {
            let number = index as u64 / 2;
            match record {
                Record::Events(found) => {
                    assert_eq!(found.packed, events(&format!("{life}-{number}"), 3, 900));
                }
                found => assert_eq!(*found, settled(number), "in the order of queueing"),
            }
        }
        // The numbers behind it follow.
        let next = next_seqs(&found).get(&TOPIC).copied().unwrap_or(1);
        let append = store.append(TOPIC, events("e", 1, 10)).expect("appended");
        let appended = append.await.expect("it becomes durable");
        assert_eq!(appended.first.seq, next);
        known = records(&*store, found.len() + 1).await;
        fixture.close();
    }
}

/// Design D5: a failed store is opened again, and never used again before.
pub async fn a_failed_store_stays_closed(fixture: &mut dyn Fixture) {
    let store = fixture.open(&NextSeqs::new());
    let append = store.append(TOPIC, events("e", 1, 10)).expect("appended");
    let first = append.await.expect("it becomes durable").first;
    fixture.hold();
    let doubtful = store.append(TOPIC, events("e", 1, 10)).expect("queued");
    fixture.fail();
    closed(&*store).await;
    assert!(doubtful.await.is_err(), "nobody hears of a failed append");
    let answers = [
        store.append(TOPIC, events("e", 1, 10)).map(drop),
        store.journal(settled(1)),
        store.groups(Mark::ZERO, 1000).map(drop),
        store.read(first).map(drop),
        store.read_from(first, 1000).map(drop),
        store.check_owner(),
        store.checkpoint(Mark::ZERO, &NothingNeeded),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::Closed)), "{answer:?}");
    }
    fixture.crash();
    drop(store);
    let store = fixture.open(&NextSeqs::new());
    assert!(store.read(first).is_ok());
    fixture.close();
}
