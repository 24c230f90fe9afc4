//! What the history is told of each attempt (ED-311), and that deliveries do not care how it fares.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::time::Timestamp;
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::history::{History, HistoryKind, HistoryNext, HistoryOptions, HistoryRecord};
use serde_json::json;

use crate::world::{Meet, START_MS, World, settings};

fn history(disk: &FaultyDisk) -> History {
    let options = HistoryOptions {
        disk_reserve_bytes: 0,
        ..HistoryOptions::default()
    };
    let clock = || Timestamp::from_millis(START_MS);
    History::start(disk.mount(), options, Arc::new(clock))
}

/// What is remembered of an event, the oldest first.
async fn attempts_of(world: &World, id: &str) -> Vec<HistoryRecord> {
    let attempts = world
        .handle
        .attempts_where(id.to_owned(), 100, |_| true)
        .await
        .unwrap();
    assert!(!attempts.is_truncated);
    assert_eq!(attempts.known_since, Some(Timestamp::from_millis(START_MS)));
    attempts.records
}

#[tokio::test(start_paused = true)]
async fn every_attempt_and_a_late_success_are_remembered() {
    let meet = |id: &str, attempt: usize| match (id, attempt) {
        ("busy", 0) => Meet::status(503),
        ("late", 0) => Meet::late(200, 40),
        _ => Meet::status(200),
    };
    let history = history(&FaultyDisk::new(1));
    let world = World::with_history(settings(), Some(history.handle()), meet);
    let topic = world.topic("orders").await;
    let info = world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["good", "busy", "late"]).await;
    world.sleep_until(Duration::from_secs(300)).await;

    let rows = [
        ("good", HistoryKind::Attempt, 1, None, 200, true),
        (
            "busy",
            HistoryKind::Attempt,
            1,
            Some(Outcome::Busy),
            503,
            false,
        ),
        ("busy", HistoryKind::Attempt, 2, None, 200, true),
        (
            "late",
            HistoryKind::Attempt,
            1,
            Some(Outcome::TimedOut),
            0,
            false,
        ),
        ("late", HistoryKind::LateSuccess, 1, None, 200, true),
    ];
    let mut found = Vec::new();
    for id in ["good", "busy", "late"] {
        found.extend(attempts_of(&world, id).await);
    }
    assert_eq!(found.len(), rows.len());
    for (record, row) in found.iter().zip(rows) {
        let is_delivered = match record.next {
            HistoryNext::Delivered => true,
            HistoryNext::Due(due) => {
                assert!(due > record.ended);
                false
            }
            _ => panic!("nothing was given up"),
        };
        let (id, kind) = (record.event_id.as_str(), record.kind);
        let (attempt, outcome, status) = (record.attempt, record.outcome, record.status);
        assert_eq!((id, kind, attempt, outcome, status, is_delivered), row);
        let (topic_id, subscription) = (record.topic, record.subscription);
        assert_eq!((topic_id, subscription), (topic, info.subscription.id));
        let names = [&*record.topic_name, &*record.subscription_name];
        assert_eq!(names, ["orders", "the-sub"]);
        assert!(record.published <= record.started && record.started <= record.ended);
        assert_eq!(record.excerpt, None, "there was no body");
    }
    assert_eq!(found[3].detail.as_deref(), Some("no answer in 30s"));
    assert_eq!(found[4].latency, Duration::from_secs(40));
}

#[tokio::test(start_paused = true)]
async fn an_end_without_attempt_is_remembered() {
    let history = history(&FaultyDisk::new(3));
    let script = |_: &str, _: usize| Meet::status(500);
    let world = World::with_history(settings(), Some(history.handle()), script);
    let topic = world.topic("orders").await;
    let policy = json!({ "retryPolicy": { "eventTimeToLiveInMinutes": 1 } });
    world.subscribe("orders", "the-sub", policy).await.unwrap();
    world.publish(topic, &["never"]).await;
    world.sleep_until(Duration::from_secs(300)).await;
    let found = attempts_of(&world, "never").await;
    let (end, attempts) = found.split_last().unwrap();
    assert_eq!((end.kind, end.attempt), (HistoryKind::EndWithoutAttempt, 0));
    let reason = DeadLetterReason::TimeToLiveExceeded;
    assert_eq!(end.next, HistoryNext::Dead(reason));
    let numbers: Vec<u16> = attempts.iter().map(|record| record.attempt).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(attempts.iter().all(|record| record.status == 500));

    let newest = world
        .handle
        .attempts_where("never".to_owned(), 2, |_| true)
        .await;
    let newest = newest.unwrap();
    assert!(newest.is_truncated);
    assert_eq!(newest.records, found[2..]);
}

/// ED-189, ED-190: an attempt that the server itself ended, or left behind, is one of the list.
#[tokio::test(start_paused = true)]
async fn attempts_without_an_outcome_are_remembered() {
    let history = history(&FaultyDisk::new(4));
    let script = |_: &str, attempt: usize| match attempt {
        0..=2 => Meet::Silence,
        _ => Meet::status(200),
    };
    let mut fast = settings();
    fast.drain = Duration::from_secs(1);
    fast.retry.crash_delay = Duration::ZERO;
    let mut world = World::with_history(fast, Some(history.handle()), script);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    world.crash().await;
    world.settle().await;
    world.reopen().await;
    world.settle().await;
    world.stop().await;
    world.start();
    world.settle().await;
    let found = loop {
        let found = attempts_of(&world, "e1").await;
        if found.len() == 4 {
            break found;
        }
        world.settle().await;
    };
    let seen: Vec<_> = found
        .iter()
        .map(|record| (record.attempt, record.kind, record.outcome))
        .collect();
    let without = HistoryKind::AttemptWithoutOutcome;
    let aborted = Some(Outcome::Aborted);
    assert_eq!(seen[1..3], [(2, without, aborted), (3, without, aborted)]);
    assert_eq!((seen[0].0, seen[0].1), (1, without), "{seen:?}");
    assert_eq!(seen[3], (4, HistoryKind::Attempt, None));
    assert!(found.iter().all(|record| record.event_id == "e1"));
}

#[tokio::test(start_paused = true)]
async fn deliveries_go_on_when_the_historys_disk_is_full() {
    let disk = FaultyDisk::new(2);
    disk.set_capacity(0);
    let history = history(&disk);
    let world = World::with_history(settings(), Some(history.handle()), |_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    for _ in 0..10 {
        world.publish(topic, &["a", "b", "c"]).await;
        history.handle().flush();
    }
    world.settle().await;
    history.handle().flush();
    assert_eq!(world.info("orders", "the-sub").await.counters.delivered, 30);
    world.assert_balanced("orders", "the-sub").await;
    let counters = history.handle().counters();
    assert_eq!((counters.written, counters.dropped), (0, 30));
    let attempts = world
        .handle
        .attempts_where("a".to_owned(), 10, |_| true)
        .await
        .unwrap();
    assert_eq!(attempts.records, []);
}

#[tokio::test(start_paused = true)]
async fn without_a_history_nothing_is_known() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["a"]).await;
    world.settle().await;
    let attempts = world
        .handle
        .attempts_where("a".to_owned(), 10, |_| true)
        .await
        .unwrap();
    assert_eq!((attempts.records.len(), attempts.known_since), (0, None));
}

/// ED-311: each event of a batch has its own records, which say how many travelled together, and the answer's excerpt.
#[tokio::test(start_paused = true)]
async fn each_event_of_a_batch_is_remembered() {
    let history = history(&FaultyDisk::new(5));
    let script = |ids: &str, _: usize| match ids {
        "a,b" => Meet::Json {
            status: 400,
            body: "\"no\"".to_owned(),
        },
        _ => Meet::status(200),
    };
    let world = World::with_history(settings(), Some(history.handle()), script);
    let topic = world.topic("orders").await;
    let declared = json!({
        "destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": "https://the-sub.example/hook", "maxEventsPerBatch": 2}},
        "batch": {"isolateOnFinal": true},
    });
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    world.pause("the-sub", true).await;
    world.publish(topic, &["a", "b"]).await;
    world.settle().await;
    world.pause("the-sub", false).await;
    world.settle().await;
    for id in ["a", "b"] {
        let found = attempts_of(&world, id).await;
        let kinds: Vec<_> = found.iter().map(|one| (one.kind, one.attempt)).collect();
        let expected = [
            (HistoryKind::BatchDivided(2), 1),
            (HistoryKind::BatchAttempt(1), 1),
        ];
        assert_eq!(kinds, expected);
        let said = found[0].excerpt.as_ref().map(|excerpt| &*excerpt.text);
        assert_eq!((found[0].status, said), (400, Some("\"no\"")));
        assert!(matches!(found[0].next, HistoryNext::Due(_)));
        assert_eq!(found[1].next, HistoryNext::Delivered);
    }
}
