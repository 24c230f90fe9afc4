//! One order of everything, groups without a gap, numbers of events, publish times.

use std::time::Duration;

use hedgerow_core::position::{Mark, Position, TopicId};
use hedgerow_core::time::Timestamp;

use super::{Fixture, NextSeqs, NothingNeeded, events, groups_from, next_seqs, records, settled};
use crate::record::{Events, Record};

const ONE: TopicId = TopicId(1);
const OTHER: TopicId = TopicId(2);

/// The records of events among these.
fn events_of(records: &[Record]) -> impl Iterator<Item = &Events> {
    records.iter().filter_map(|record| match record {
        Record::Events(events) => Some(events),
        _ => None,
    })
}

/// `append` and `journal` together, whatever the topic.
pub async fn records_come_in_the_order_they_were_queued(fixture: &mut dyn Fixture) {
    let store = fixture.open(&NextSeqs::new());
    let mut queued = Vec::new();
    for number in 0..60 {
        if number % 3 == 2 {
            store.journal(settled(number)).expect("journaled");
            queued.push(settled(number));
        } else {
            let topic = if number % 2 == 0 { ONE } else { OTHER };
            let packed = events(&format!("e{number}"), 1 + number as usize % 3, 100);
            // Whether somebody waits for the answer makes no difference.
            drop(store.append(topic, packed.clone()).expect("appended"));
            queued.push(Record::Events(Events {
                topic,
                first_seq: 0,
                published: Timestamp::ZERO,
                packed,
            }));
        }
    }
    let mut shown = records(&*store, queued.len()).await;
    for record in &mut shown {
        if let Record::Events(events) = record {
            (events.first_seq, events.published) = (0, Timestamp::ZERO);
        }
    }
    assert_eq!(shown, queued);
    fixture.close();
}

/// Answers may come in any order. What they say follows the order of queueing.
pub async fn answers_name_what_was_appended(fixture: &mut dyn Fixture) {
    let store = fixture.open(&NextSeqs::new());
    let mut appending = Vec::new();
    for number in 0..40 {
        let topic = if number % 3 == 0 { ONE } else { OTHER };
        let count = 1 + number % 3;
        let packed = events(&format!("e{number}"), count, 50);
        appending.push((topic, count, store.append(topic, packed).expect("appended")));
    }
    let mut answers = Vec::new();
    // The last ones are waited for first.
    for (topic, count, appending) in appending.into_iter().rev() {
        let appended = appending.await.expect("it becomes durable");
        assert_eq!(appended.first.topic, topic);
        assert!(
            store.read(appended.first).is_ok(),
            "an answer is given for what can be read"
        );
        answers.push((appended, count));
    }
    answers.reverse();
    let mut next = NextSeqs::new();
    for (appended, count) in &answers {
        let expected = next.entry(appended.first.topic).or_insert(1);
        assert_eq!(appended.first.seq, *expected, "numbers have no gap");
        *expected += *count as u64;
    }
    let shown = records(&*store, answers.len()).await;
    for (events, (appended, _)) in events_of(&shown).zip(&answers) {
        assert_eq!(
            (events.topic, events.first_seq, events.published),
            (appended.first.topic, appended.first.seq, appended.published)
        );
    }
    fixture.close();
}

/// Groups are numbered from 1 without a gap, marks rise, also over closing and crashes; nothing of it changes later.
pub async fn groups_follow_each_other(fixture: &mut dyn Fixture) {
    let mut known = Vec::new();
    let mut count = 0;
    for life in 0..4 {
        let store = fixture.open(&NextSeqs::new());
        let found: Vec<_> = groups_from(&*store, Mark::ZERO, 10_000)
            .iter()
            .map(|group| (group.number, group.start, group.end, group.records.clone()))
            .collect();
        assert_eq!(found, known, "the same groups after opening again");
        for number in 0..20 {
            store.journal(settled(number)).expect("journaled");
            let append = store.append(ONE, events("e", 1, 3000)).expect("appended");
            append.await.expect("it becomes durable");
        }
        count += 40;
        records(&*store, count).await;
        let groups = groups_from(&*store, Mark::ZERO, 10_000);
        let mut end = Mark::ZERO;
        for (index, group) in groups.iter().enumerate() {
            assert_eq!(group.number, index as u64 + 1);
            assert!(end <= group.start && group.start < group.end, "marks rise");
            assert!(!group.records.is_empty());
            end = group.end;
        }
        assert!(
            *store.durable().borrow() >= end,
            "only what is durable is shown"
        );
        known = groups
            .iter()
            .map(|group| (group.number, group.start, group.end, group.records.clone()))
            .collect();
        if life % 2 == 0 {
            fixture.crash();
        } else {
            fixture.close();
        }
    }
}

/// From the end of any group come the ones behind it: at least one, about as many bytes as were asked for.
pub async fn groups_begin_where_they_are_asked_for(fixture: &mut dyn Fixture) {
    let store = fixture.open(&NextSeqs::new());
    for number in 0..30 {
        let append = store.append(ONE, events(&format!("e{number}"), 1, 2000));
        let append = append.expect("appended");
        append.await.expect("it becomes durable");
    }
    let all = groups_from(&*store, Mark::ZERO, usize::MAX);
    for (index, from) in all.iter().enumerate() {
        for bytes_max in [0, 1, 7000, usize::MAX] {
            let found = store.groups(from.end, bytes_max).expect("an open store");
            let first = found.first().map(|group| group.number);
            let following = all.get(index + 1).map(|group| group.number);
            assert_eq!(first, following, "from {} on", from.end);
            let bytes: usize = found.iter().map(|group| group.bytes).sum();
            assert!(found.len() <= 1 || bytes <= bytes_max, "{bytes} bytes");
            for pair in found.windows(2) {
                assert_eq!(pair[0].number + 1, pair[1].number);
            }
        }
    }
    fixture.close();
}

/// ED-203 and design D4: whatever the clock does, and over openings.
pub async fn publish_times_never_go_back(fixture: &mut dyn Fixture) {
    let start = fixture.time().now();
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let (mut last, mut next) = (Timestamp::ZERO, NextSeqs::new());
    for clock in [
        start.plus(hours(5)),
        start.plus(hours(30)),
        start.plus(hours(28)),
        start,
        start.plus(hours(31)),
        start.plus(hours(1)),
    ] {
        fixture.time().set(clock);
        let store = fixture.open(&next);
        for _ in 0..3 {
            let append = store.append(ONE, events("e", 1, 10)).expect("appended");
            let appended = append.await.expect("it becomes durable");
            assert!(
                appended.published >= last && appended.published >= clock,
                "published at {} after {last}, the clock showing {clock}",
                appended.published
            );
            last = appended.published;
            next.insert(ONE, appended.first.seq + 1);
        }
        fixture.crash();
    }
}

/// The numbers of a topic go on where they were, in order and after crashes.
pub async fn numbers_go_on_after_reopening(fixture: &mut dyn Fixture) {
    let mut next = NextSeqs::from([(ONE, 1), (OTHER, 1)]);
    for life in 0..6 {
        // A view may be behind the store; the higher of the two counts.
        let store = fixture.open(&NextSeqs::new());
        for topic in [ONE, OTHER] {
            let append = store.append(topic, events("e", 2, 100)).expect("appended");
            let appended = append.await.expect("it becomes durable");
            let expected = next[&topic];
            assert_eq!(appended.first.seq, expected, "in life {life}");
            next.insert(topic, expected + 2);
        }
        if life % 2 == 0 {
            fixture.crash();
        } else {
            fixture.close();
        }
    }
}

/// Numbers are never used twice, also when nothing of the topic is left.
pub async fn numbers_go_on_after_everything_was_forgotten(fixture: &mut dyn Fixture) {
    let store = fixture.open(&NextSeqs::new());
    let append = store.append(ONE, events("e", 3, 100)).expect("appended");
    append.await.expect("it becomes durable");
    let mut last = Position {
        topic: OTHER,
        seq: 0,
    };
    for _ in 0..100 {
        let append = store.append(OTHER, events("e", 1, 3000)).expect("appended");
        last = append.await.expect("it becomes durable").first;
        let durable = *store.durable().borrow();
        store
            .checkpoint(durable, &NothingNeeded)
            .expect("checkpointed");
    }
    let shown = groups_from(&*store, Mark::ZERO, usize::MAX);
    let shown: Vec<_> = shown
        .iter()
        .flat_map(|group| group.records.clone())
        .collect();
    assert!(!next_seqs(&shown).contains_key(&ONE), "it was forgotten");
    fixture.crash();
    let store = fixture.open(&NextSeqs::from([(ONE, 4), (OTHER, last.seq + 1)]));
    for (topic, expected) in [(ONE, 4), (OTHER, last.seq + 1)] {
        let append = store.append(topic, events("e", 1, 10)).expect("appended");
        let appended = append.await.expect("it becomes durable");
        assert_eq!(appended.first.seq, expected);
    }
    fixture.close();
}
