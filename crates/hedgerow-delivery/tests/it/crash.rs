//! What a crash and an orderly stop leave behind (ED-189, ED-190, ED-207, ED-208).

use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use serde_json::json;

use crate::world::{Meet, World};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// ED-207: an attempt without a recorded end counts, and its delivery is due 30 s after its start.
#[tokio::test(start_paused = true)]
async fn an_attempt_lost_in_a_crash_counts_and_is_repeated() {
    let meet = |_: &str, attempt| {
        if attempt == 0 {
            Meet::Silence
        } else {
            Meet::status(200)
        }
    };
    let mut world = World::new(meet);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["e1"]).await;
    world.sleep_until(published + seconds(5)).await;
    world.crash().await;
    world.settle().await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.in_flight), (1, 0));
    world.sleep_until(published + seconds(60)).await;
    let seen = world.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].at - published, seconds(30));
    assert_eq!(seen[1].delivery_count, 1);
    assert_eq!(world.info("orders", "the-sub").await.counters.delivered, 1);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-207: if it was the last allowed attempt, the delivery is final at the start.
#[tokio::test(start_paused = true)]
async fn a_lost_last_attempt_is_final_at_the_start() {
    let mut world = World::new(|_, _| Meet::Silence);
    let topic = world.topic("orders").await;
    let policy = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    world.subscribe("orders", "the-sub", policy).await.unwrap();
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    world.crash().await;
    world.settle().await;
    let records = world.terminal_records().await;
    assert_eq!(records.len(), 1);
    assert_eq!(
        records[0].reason,
        DeadLetterReason::MaxDeliveryAttemptsExceeded
    );
    let progress = records[0].progress.unwrap();
    assert_eq!(
        (progress.attempts, progress.last_outcome),
        (1, Outcome::Delivering)
    );
    assert_eq!(world.seen().len(), 1);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-190: in flight during three crashes in a row, a delivery is given up.
#[tokio::test(start_paused = true)]
async fn three_crashes_in_a_row_end_a_delivery() {
    let mut world = World::new(|_, _| Meet::Silence);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({"responseTimeoutSeconds": 300}))
        .await
        .unwrap();
    world.publish(topic, &["poison"]).await;
    for crash in 1..=3 {
        let begun = world.begun.elapsed();
        world.sleep_until(begun + seconds(31)).await;
        assert_eq!(world.seen().len(), crash, "sent again before crash {crash}");
        assert_eq!(world.info("orders", "the-sub").await.in_flight, 1);
        world.crash().await;
        world.settle().await;
    }
    let records = world.terminal_records().await;
    assert_eq!(records.len(), 1);
    assert_eq!(
        records[0].reason,
        DeadLetterReason::UndeliverableDueToRepeatedCrash
    );
    let progress = records[0].progress.unwrap();
    assert_eq!(
        (progress.attempts, progress.last_outcome),
        (3, Outcome::Aborted)
    );
}

/// ED-208: what became due while the server was away is due at once; the missed slots are skipped.
#[tokio::test(start_paused = true)]
async fn an_overdue_delivery_is_attempted_at_the_start() {
    let mut world = World::new(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["e1"]).await;
    world.sleep_until(published + seconds(2)).await;
    world.stop().await;
    world.sleep_until(published + seconds(400)).await;
    world.start();
    world.sleep_until(published + seconds(700)).await;
    let at: Vec<_> = world
        .seen()
        .iter()
        .map(|seen| (seen.at - published).as_secs())
        .collect();
    assert_eq!(at, [0, 400, 600]);
}

/// ED-189: an orderly stop waits for running attempts, then ends them as aborted; they count and are due at once.
#[tokio::test(start_paused = true)]
async fn a_stop_drains_then_aborts() {
    let meet = |id: &str, attempt| match (id, attempt) {
        ("quick", 0) => Meet::late(200, 10),
        (_, 0) => Meet::Silence,
        _ => Meet::status(200),
    };
    let mut world = World::new(meet);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({"responseTimeoutSeconds": 300}))
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["quick", "hangs"]).await;
    world.sleep_until(published + seconds(1)).await;
    world.stop().await;
    assert_eq!(
        world.begun.elapsed() - published,
        seconds(26),
        "25 s for running attempts"
    );
    world.start();
    world.settle().await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!(info.counters.delivered, 2);
    let seen = world.seen();
    assert_eq!(
        seen.len(),
        3,
        "the one that was delivered while draining is not sent again"
    );
    assert_eq!(
        (seen[2].event_id.as_str(), seen[2].delivery_count),
        ("hangs", 1)
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-190: an orderly stop resets the count of crashes.
#[tokio::test(start_paused = true)]
async fn an_orderly_stop_resets_the_crash_count() {
    let mut world = World::new(|_, _| Meet::Silence);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({"responseTimeoutSeconds": 300}))
        .await
        .unwrap();
    world.publish(topic, &["e1"]).await;
    for _ in 0..2 {
        let now = world.begun.elapsed();
        world.sleep_until(now + seconds(31)).await;
        world.crash().await;
    }
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(31)).await;
    world.stop().await;
    world.start();
    for _ in 0..2 {
        let now = world.begun.elapsed();
        world.sleep_until(now + seconds(31)).await;
        world.crash().await;
        world.settle().await;
        assert!(
            world.terminal_records().await.is_empty(),
            "two crashes since the orderly stop"
        );
    }
}

/// FC-05: the attempt count lives in the store. Three attempts allowed, a crash between them and one after the last:
/// never a new series.
#[tokio::test(start_paused = true)]
async fn fc_05_restarts_begin_no_new_series() {
    let mut world = World::new(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    let policy = json!({"retryPolicy": {"maxDeliveryAttempts": 3}});
    world.subscribe("orders", "the-sub", policy).await.unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["e1"]).await;
    world.sleep_until(published + seconds(12)).await;
    world.crash().await;
    world.sleep_until(published + seconds(31)).await;
    world.crash().await;
    world.sleep_until(published + seconds(100_000)).await;
    assert_eq!(world.seen().len(), 3);
    let records = world.terminal_records().await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].progress.unwrap().attempts, 3);
}

/// Publishers find their topics as soon as there is an engine, before its first turn.
#[tokio::test(start_paused = true)]
async fn topics_are_known_from_the_start() {
    let mut world = World::new(|_, _| Meet::status(200));
    world.topic("orders").await;
    world.stop().await;
    world.start();
    assert!(world.handle.topics().contains_key("orders"));
}

/// A store that fails and is opened again in the same process crashes nothing: what was in flight was aborted, counts, is
/// due at once (ED-189), and is not given up however often that happens.
#[tokio::test(start_paused = true)]
async fn a_failing_store_is_no_crash_of_the_server() {
    let mut world = World::new(|_, attempt| match attempt {
        0..5 => Meet::Silence,
        _ => Meet::status(200),
    });
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({"responseTimeoutSeconds": 300}))
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["e1"]).await;
    for _ in 0..5 {
        world.settle().await;
        assert_eq!(world.info("orders", "the-sub").await.in_flight, 1);
        world.reopen().await;
    }
    world.settle().await;
    assert!(world.terminal_records().await.is_empty());
    assert_eq!(world.info("orders", "the-sub").await.counters.delivered, 1);
    let seen = world.seen();
    assert_eq!(seen.len(), 6);
    assert_eq!(seen[5].delivery_count, 5);
    assert!(
        seen[5].at - published < seconds(1),
        "due at once, each time"
    );
}

/// A checkpoint that fails, or whose thread dies, ends the engine, so that the store is opened again; nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_failed_checkpoint_ends_the_engine() {
    for panics in [false, true] {
        let mut world = World::new(|_, _| Meet::status(200));
        let topic = world.topic("orders").await;
        world
            .subscribe("orders", "the-sub", json!({}))
            .await
            .unwrap();
        world.break_checkpoints(panics);
        world.publish(topic, &["e1"]).await;
        world.recover().await;
        world.publish(topic, &["e2"]).await;
        world.settle().await;
        assert_eq!(world.info("orders", "the-sub").await.counters.delivered, 2);
        world.stop().await;
    }
}

/// ED-203, ED-208: what expired while the server was away ends with its terminal record, also through a crash in between.
#[tokio::test(start_paused = true)]
async fn expired_first_attempts_are_not_lost_in_a_crash() {
    let mut world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let policy = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    world.subscribe("orders", "the-sub", policy).await.unwrap();
    world.settle().await;
    world.stop().await;
    world.publish(topic, &["old 1", "old 2"]).await;
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(100)).await;
    world.start();
    world.hold();
    world.settle().await;
    // What was decided so far is not durable.
    world.crash().await;
    world.publish(topic, &["new"]).await;
    world.settle().await;
    let ids: Vec<_> = world
        .terminal_records()
        .await
        .into_iter()
        .map(|record| record.event_id)
        .collect();
    assert_eq!(ids, ["old 1", "old 2"]);
    let info = world.info("orders", "the-sub").await;
    assert_eq!(
        (info.counters.delivered, info.counters.dropped, info.pending),
        (1, 2, 0)
    );
    world.assert_balanced("orders", "the-sub").await;
}
