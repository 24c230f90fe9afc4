//! A subscription that stands still and wants little of what is published keeps no more of the log than that (design D6).

use std::time::Duration;

use hedgerow_core::outcome::DeadLetterReason;
use hedgerow_core::position::TopicId;
use hedgerow_delivery::command::Command;
use serde_json::{Value, json};

use crate::world::{Meet, World, settings};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Wants events whose id begins with `wanted`.
async fn subscribe(world: &World, more: Value) {
    let mut declared = json!({"filter": {"advancedFilters": [
        {"operatorType": "StringBeginsWith", "key": "id", "values": ["wanted"]},
    ]}});
    for (member, value) in more.as_object().unwrap() {
        declared[member] = value.clone();
    }
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
}

/// Publishes a thousand events in a hundred seconds, of which each `one_of`th is wanted.
async fn publish(world: &World, topic: TopicId, one_of: usize) -> Vec<String> {
    let mut wanted = Vec::new();
    for part in 0..10 {
        let number = part * 100..(part + 1) * 100;
        let ids: Vec<_> = number
            .map(|number| {
                let kind = if number % one_of == 0 {
                    "wanted"
                } else {
                    "other"
                };
                format!("{kind}-{number:04}")
            })
            .collect();
        let strs: Vec<_> = ids.iter().map(String::as_str).collect();
        world.publish(topic, &strs).await;
        wanted.extend(ids.into_iter().filter(|id| id.starts_with("wanted")));
        let now = world.begun.elapsed();
        world.sleep_until(now + seconds(10)).await;
    }
    wanted
}

/// What waits is begun, over a crash too; once it is resumed each is attempted, the oldest first, and none twice.
#[tokio::test(start_paused = true)]
async fn few_that_wait_are_begun() {
    let mut world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.pause("the-sub", true).await;
    let wanted = publish(&world, topic, 20).await;
    world.crash().await;
    world.settle().await;
    // What came last was begun or not; what is needed of the log is not more than what came last.
    let begun: usize = world
        .begun_records()
        .iter()
        .map(|one| one.events.len())
        .sum();
    assert!((30..=50).contains(&begun), "{begun}");
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.hold.held), (50, 50));
    publish(&world, topic, 1_000).await;
    let laggards = world.laggards();
    assert!(laggards.iter().all(|seq| *seq > 1_000), "{laggards:?}");

    world.pause("the-sub", false).await;
    world
        .sleep_until(world.begun.elapsed() + seconds(100))
        .await;
    let seen = world.seen_ids();
    assert_eq!(seen[..50], wanted);
    assert_eq!(seen.len(), 51);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-203: they expire at their time, and nothing is said of attempts that were not made.
#[tokio::test(start_paused = true)]
async fn they_expire_at_their_time() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    subscribe(
        &world,
        json!({"retryPolicy": {"eventTimeToLiveInMinutes": 5}}),
    )
    .await;
    world.pause("the-sub", true).await;
    let wanted = publish(&world, topic, 20).await;
    assert!(!world.begun_records().is_empty());
    world.sleep_until(seconds(500)).await;
    let records = world.terminal_records().await;
    let ended: Vec<_> = records
        .iter()
        .map(|record| record.event_id.clone())
        .collect();
    assert_eq!(ended, wanted);
    for record in &records {
        assert_eq!(record.reason, DeadLetterReason::TimeToLiveExceeded);
        assert_eq!(record.decided.since(record.published), seconds(300));
        assert_eq!(record.progress, None);
    }
    world.assert_balanced("orders", "the-sub").await;
}

/// The same while an endpoint fails and is left alone: first attempts come when that is over.
#[tokio::test(start_paused = true)]
async fn held_ones_are_attempted_after_the_hold() {
    let mut settings = settings();
    settings.credits.start = 100;
    settings.credits.max = 100;
    let world = World::with_settings(settings, |id, attempt| {
        Meet::status(if id.starts_with("wanted-first") && attempt == 0 {
            404
        } else {
            200
        })
    });
    let topic = world.topic("orders").await;
    subscribe(&world, json!({})).await;
    let first = ["wanted-first-1", "wanted-first-2", "wanted-first-3"];
    world.publish(topic, &first).await;
    world.settle().await;
    let wanted = publish(&world, topic, 20).await;
    assert!(!world.begun_records().is_empty());
    world.sleep_until(seconds(301)).await;
    let seen = world.seen();
    let after: Vec<_> = seen.iter().filter(|seen| seen.at >= seconds(300)).collect();
    let first_attempts = after.iter().filter(|seen| wanted.contains(&seen.event_id));
    assert_eq!(first_attempts.count(), wanted.len());
    world.sleep_until(seconds(2_000)).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (53, 0));
    world.assert_balanced("orders", "the-sub").await;
}

/// What wants much of it keeps the log anyway: nothing is written for it.
#[tokio::test(start_paused = true)]
async fn many_that_wait_are_not_begun() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.pause("the-sub", true).await;
    publish(&world, topic, 2).await;
    assert_eq!(world.begun_records(), []);
    assert_eq!(world.laggards(), [1]);
}

/// A purge drops them as it drops others, while their records are on their way too.
#[tokio::test(start_paused = true)]
async fn a_purge_drops_them() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.pause("the-sub", true).await;
    publish(&world, topic, 20).await;
    let asked = world.handle.ask(|answer| Command::PurgeSubscription {
        topic: "orders".to_owned(),
        name: "the-sub".to_owned(),
        answer,
    });
    let report = asked.await.unwrap();
    assert_eq!((report.dropped, report.skipped), (50, 0));
    world.pause("the-sub", false).await;
    world
        .sleep_until(world.begun.elapsed() + seconds(100))
        .await;
    assert_eq!(world.seen_ids(), Vec::<String>::new());
    world.assert_balanced("orders", "the-sub").await;
}
