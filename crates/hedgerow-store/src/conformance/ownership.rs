//! A store has one owner at a time, in an epoch; a former owner is fenced (design D8).

use hedgerow_core::position::{Mark, TopicId};

use super::{
    Fixture, NextSeqs, NothingNeeded, closed, events, groups_from, next_seqs, records, settled,
};
use crate::StoreError;

const TOPIC: TopicId = TopicId(1);

/// Each opening is a new epoch.
pub async fn epochs_rise(fixture: &mut dyn Fixture) {
    let mut last = 0;
    for life in 0..6 {
        let store = fixture.open(&NextSeqs::new());
        store.check_owner().expect("it is ours");
        assert!(fixture.epoch() > last, "epoch {} again", fixture.epoch());
        last = fixture.epoch();
        if life % 2 == 0 {
            let append = store.append(TOPIC, events("e", 1, 10)).expect("appended");
            append.await.expect("it becomes durable");
            fixture.crash();
        } else {
            fixture.close();
        }
    }
}

/// Once it looks, it learns that it is not the owner any more, says so and stops for good. The new owner has everything
/// that was answered, and nothing of the former one follows it.
pub async fn a_former_owner_is_fenced(fixture: &mut dyn Fixture) {
    let former = fixture.open(&NextSeqs::new());
    for number in 0..10 {
        former.journal(settled(number)).expect("journaled");
        let append = former.append(TOPIC, events("e", 1, 100)).expect("appended");
        append.await.expect("it becomes durable");
    }
    let known = records(&*former, 20).await;
    let owner = fixture.take_over(&next_seqs(&known));
    assert_eq!(records(&*owner, 20).await, known);

    let looked = former.check_owner();
    let error = looked.expect_err("it was taken over");
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("taken over") && text.contains("epoch"),
        "{text}"
    );
    closed(&*former).await;
    let answers = [
        former.append(TOPIC, events("late", 1, 10)).map(drop),
        former.journal(settled(99)),
        former.groups(Mark::ZERO, 1000).map(drop),
        former.checkpoint(Mark::ZERO, &NothingNeeded),
        former.check_owner(),
    ];
    for answer in answers {
        assert!(
            matches!(answer, Err(StoreError::Fenced { .. })),
            "{answer:?}"
        );
    }

    owner.check_owner().expect("it is the new owner's");
    let append = owner.append(TOPIC, events("new", 1, 10)).expect("appended");
    assert_eq!(append.await.expect("it becomes durable").first.seq, 11);
    assert_eq!(
        groups_from(&*owner, Mark::ZERO, 1000).len(),
        groups_from(&*owner, Mark::ZERO, 1).len()
    );
    records(&*owner, 21).await;
    fixture.close();
}
