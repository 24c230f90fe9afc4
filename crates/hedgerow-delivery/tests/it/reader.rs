//! Matching on read: order of the log, subscriptions that fall behind, what each is owed (design D2, ED-085).

use std::time::Duration;

use hedgerow_core::credit::CreditSettings;
use serde_json::json;

use crate::world::{Meet, World, settings};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// ED-085: a subscription receives what is published from the position at which it exists, nothing older.
#[tokio::test(start_paused = true)]
async fn nothing_older_than_the_subscription() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    world.publish(topic, &["before"]).await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["after"]).await;
    world.settle().await;
    assert_eq!(world.seen_ids(), ["after"]);
}

/// Nothing accepted is ever lost: an event that the log stamped later than the engine's turn began is attempted when its time
/// comes, though nothing else wakes its subscription.
#[tokio::test(start_paused = true)]
async fn an_event_from_behind_the_turn_waits_for_nothing_else() {
    let world = World::with_log_ahead(Duration::from_millis(20), |_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["alone"]).await;
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(1)).await;
    assert_eq!(world.seen_ids(), ["alone"]);
}

/// A subscription created again under its old name shares nothing with the one before.
#[tokio::test(start_paused = true)]
async fn a_name_used_again_is_another_subscription() {
    let world = World::new(|_, attempt| Meet::status(if attempt == 0 { 500 } else { 200 }));
    let topic = world.topic("orders").await;
    let first = world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["owed to the first"]).await;
    world.settle().await;
    world.unsubscribe("orders", "the-sub").await;
    let second = world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    assert_ne!(first.subscription.id, second.subscription.id);
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(100)).await;
    assert_eq!(
        world.seen_ids(),
        ["owed to the first"],
        "one attempt, and no retry after it is gone"
    );
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.counters.matched), (0, 0));
}

/// ED-085: the filter in force at an event's position decides, whenever the event is read.
#[tokio::test(start_paused = true)]
async fn filters_are_versioned_by_position() {
    let mut settings = settings();
    settings.credits = CreditSettings {
        start: 1,
        min: 1,
        max: 1,
    };
    let meet = |id: &str, _| {
        if id == "slow" {
            Meet::late(200, 20)
        } else {
            Meet::status(200)
        }
    };
    let mut world = World::with_settings(settings, meet);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["slow", "old filter"]).await;
    world.settle().await;
    let nothing = json!({"filter": {"includedEventTypes": ["Nothing"]}});
    world.subscribe("orders", "the-sub", nothing).await.unwrap();
    world.publish(topic, &["new filter"]).await;
    // The crash makes it read again, from its cursor, across the change.
    world.crash().await;
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(120)).await;
    let mut ids = world.seen_ids();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids, ["old filter", "slow"]);
    assert_eq!(world.info("orders", "the-sub").await.pending, 0);
    world.assert_balanced("orders", "the-sub").await;
}

/// A subscription that falls far behind gets everything once, and one that keeps up is not held back by it.
#[tokio::test(start_paused = true)]
async fn the_one_behind_loses_nothing_and_holds_nobody_up() {
    const EVENTS: usize = 10_000;
    let mut settings = settings();
    settings.credits = CreditSettings {
        start: 4,
        min: 4,
        max: 4,
    };
    let world = World::with_settings(settings, |_, _| Meet::late(200, 1));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "behind", json!({}))
        .await
        .unwrap();
    world
        .subscribe(
            "orders",
            "quick",
            json!({"filter": {"subjectEndsWith": "/none"}}),
        )
        .await
        .unwrap();
    let ids: Vec<_> = (0..EVENTS).map(|n| n.to_string()).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    for chunk in ids.chunks(100) {
        world.publish(topic, chunk).await;
    }
    world.settle().await;
    let info = world.info("orders", "behind").await;
    assert!(
        info.behind > 0,
        "more is published than waits in memory: {info:?}"
    );
    assert_eq!(world.info("orders", "quick").await.behind, 0);
    let now = world.begun.elapsed();
    world
        .sleep_until(now + seconds(EVENTS as u64 / 4 + 10))
        .await;
    let seen: Vec<_> = world.seen_ids();
    assert_eq!(seen.len(), EVENTS);
    assert_eq!(
        seen.iter().collect::<std::collections::HashSet<_>>().len(),
        EVENTS
    );
    let info = world.info("orders", "behind").await;
    assert_eq!(
        (info.pending, info.behind, info.counters.delivered),
        (0, 0, EVENTS as u64)
    );
    world.assert_balanced("orders", "behind").await;
}

/// More deliveries are due than memory holds rows for: all of them are attempted, each once a slot.
#[tokio::test(start_paused = true)]
async fn more_retries_than_fit_in_memory() {
    const EVENTS: usize = 20_000;
    let mut settings = settings();
    settings.credits = CreditSettings {
        start: 256,
        min: 256,
        max: 256,
    };
    let world = World::with_settings(settings, |_, attempt| {
        Meet::status(if attempt < 2 { 500 } else { 200 })
    });
    let topic = world.topic("orders").await;
    world
        .subscribe(
            "orders",
            "the-sub",
            json!({"delayedDelivery": {"enabled": false}}),
        )
        .await
        .unwrap();
    let ids: Vec<_> = (0..EVENTS).map(|n| n.to_string()).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    for chunk in ids.chunks(1000) {
        world.publish(topic, chunk).await;
    }
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(100)).await;
    assert_eq!(world.seen().len(), 3 * EVENTS);
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.counters.delivered), (0, EVENTS as u64));
    world.assert_balanced("orders", "the-sub").await;
}

/// A receiver that is down for a day costs no writing while nothing happens.
#[tokio::test(start_paused = true)]
async fn waiting_deliveries_write_nothing() {
    let mut settings = settings();
    settings.credits = CreditSettings {
        start: 1,
        min: 1,
        max: 1,
    };
    let world = World::with_settings(settings, |_, _| Meet::late(200, 3600));
    let topic = world.topic("orders").await;
    let policy = json!({"responseTimeoutSeconds": 300});
    world.subscribe("orders", "the-sub", policy).await.unwrap();
    world.publish(topic, &["e1", "e2", "e3"]).await;
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(10)).await;
    let before = world.groups();
    world.sleep_until(now + seconds(290)).await;
    assert_eq!(
        world.groups(),
        before,
        "one attempt runs, two deliveries wait for their turn"
    );
}
