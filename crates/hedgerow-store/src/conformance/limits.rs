//! Too large, too much at once, full: refused without harm.

use hedgerow_core::position::{Mark, TopicId};

use super::{Fixture, NextSeqs, NothingNeeded, events, groups_from, records, settled, until};
use crate::StoreError;

const TOPIC: TopicId = TopicId(1);

/// It never fits, and what comes behind it is not harmed.
pub async fn too_large_is_refused_without_harm(fixture: &mut dyn Fixture) {
    let Some(bytes) = fixture.limits().too_large_bytes else {
        return;
    };
    let store = fixture.open(&NextSeqs::new());
    let refused = store.append(TOPIC, events("large", 1, bytes));
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })));
    let append = store
        .append(TOPIC, events("small", 1, 10))
        .expect("appended");
    assert_eq!(append.await.expect("it becomes durable").first.seq, 1);
    assert_eq!(records(&*store, 1).await.len(), 1);
    fixture.close();
}

/// Publishing is refused, journaling is not; once the queue is written, publishing goes on.
pub async fn too_much_at_once_is_refused_for_a_moment(fixture: &mut dyn Fixture) {
    let Some(bytes) = fixture.limits().busy_after_bytes else {
        return;
    };
    let store = fixture.open(&NextSeqs::new());
    if !fixture.hold() {
        return;
    }
    let mut appending = Vec::new();
    let refused = loop {
        match store.append(TOPIC, events("e", 1, 5000)) {
            Ok(append) => appending.push(append),
            Err(refused) => break refused,
        }
        assert!(
            appending.len() * 5000 < 2 * bytes,
            "much waits and nothing is refused"
        );
    };
    assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    store
        .journal(settled(1))
        .expect("journaling is not refused");
    fixture.release();
    let accepted = appending.len();
    for append in appending {
        append.await.expect("it becomes durable");
    }
    records(&*store, accepted + 1).await;
    let append = store.append(TOPIC, events("e", 1, 10)).expect("appended");
    append.await.expect("it becomes durable");
    fixture.close();
}

/// Publishing is refused at the watermark, also after opening again; journaling is not; publishing resumes by itself
/// when a checkpoint made room. Several times over.
pub async fn a_full_store_resumes_when_it_may_forget(fixture: &mut dyn Fixture) {
    let Some(bytes) = fixture.limits().full_after_bytes else {
        return;
    };
    let mut store = fixture.open(&NextSeqs::new());
    let mut next = 1;
    for _ in 0..3 {
        let mut published = 0;
        let refused = loop {
            match store.append(TOPIC, events("e", 1, 5000)) {
                Ok(append) => {
                    let appended = append.await.expect("it becomes durable");
                    assert_eq!(appended.first.seq, next, "what is refused takes no number");
                    next += 1;
                }
                Err(refused) => break refused,
            }
            published += 5000;
            assert!(published <= bytes, "{published} bytes and never full");
        };
        assert!(matches!(refused, StoreError::Full(_)), "{refused}");
        assert!(published > 0, "room was made");
        let usage = store.usage();
        assert!(usage.used_bytes <= usage.watermark_bytes, "{usage:?}");
        for number in 0..20 {
            store.journal(settled(number)).expect("room is kept for it");
        }
        fixture.close();
        store = fixture.open(&NextSeqs::new());
        let refused = store.append(TOPIC, events("e", 1, 5000));
        assert!(matches!(refused, Err(StoreError::Full(_))));
        let groups = groups_from(&*store, Mark::ZERO, usize::MAX);
        let end = groups.last().expect("it is full").end;
        store.checkpoint(end, &NothingNeeded).expect("checkpointed");
        until(|| {
            let usage = store.usage();
            usage.used_bytes <= usage.watermark_bytes / 2
        })
        .await;
    }
    fixture.close();
}
