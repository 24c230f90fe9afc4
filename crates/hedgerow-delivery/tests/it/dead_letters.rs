//! Dead letters on their way to a directory (ED-242 to ED-254).

use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_store::record::DropReason;
use hedgerow_store::view::Disposition;
use serde_json::{Value, json};

use crate::world::{Meet, START_MS, World, settings};

const HOUR: u64 = 3600;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A world in which nothing is accepted, and a subscription with these members beside its dead-letter destination.
async fn refusing(members: Value, settings: hedgerow_delivery::settings::EngineSettings) -> World {
    let world = World::with_settings(settings, |_, _| Meet::status(500));
    world.topic("orders").await;
    let mut declared = json!({
        "deadLetterDestination": {"endpointType": "LocalDirectory", "properties": {"directory": "lost"}},
    });
    let members = members.as_object().unwrap().clone();
    declared.as_object_mut().unwrap().extend(members);
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    let info = world.info("orders", "the-sub").await;
    let destination = info.subscription.spec.dead_letter.unwrap();
    world.handle.probe_dead_letters(&destination).await.unwrap();
    world
}

async fn publish(world: &World, ids: &[&str]) -> Duration {
    let topic = world.handle.topics()["orders"].id;
    let published = world.begun.elapsed();
    world.publish(topic, ids).await;
    published
}

fn records(blob: &str) -> Vec<Value> {
    serde_json::from_str(blob).unwrap()
}

/// ED-244, ED-245, ED-249, ED-250, ED-254: 300 s after the last attempt, to the millisecond, in a JSON array.
#[tokio::test(start_paused = true)]
async fn an_event_appears_five_minutes_after_its_last_attempt() {
    let policy = json!({"retryPolicy": {"maxDeliveryAttempts": 2}});
    let world = refusing(policy, settings()).await;
    let published = publish(&world, &["e1"]).await;
    world.sleep_until(published + seconds(200)).await;
    // The answer to the second attempt is the decision.
    assert_eq!(world.seen().len(), 2);
    let due = world.seen()[1].at + seconds(300);
    world.sleep_until(due - Duration::from_millis(1)).await;
    assert!(world.dead_letters().blobs().is_empty());
    let pending = world.handle.pending_dead_letters(
        "orders".to_owned(),
        "the-sub".to_owned(),
        (Timestamp::ZERO, 0),
        10,
    );
    let pending = pending.await.unwrap();
    assert_eq!(
        (pending.len(), pending[0].event_id.as_str()),
        (1, "e1"),
        "ED-248"
    );
    let since_start = pending[0].due.as_millis() - START_MS;
    assert_eq!(since_start, due.as_millis() as u64);
    world.assert_balanced("orders", "the-sub").await;
    world.sleep_until(due + Duration::from_millis(1)).await;
    world.settle().await;
    let blobs = world.dead_letters().blobs();
    assert_eq!(blobs.len(), 1);
    let (path, blob) = &blobs[0];
    assert!(path.starts_with("lost/THE-SUB/2030/1/2/3/"), "{path}");
    let record = &records(blob)[0];
    assert_eq!(record["id"], "e1");
    assert_eq!(record["deadLetterReason"], "MaxDeliveryAttemptsExceeded");
    assert_eq!(record["deliveryAttempts"], 2);
    assert_eq!(record["lastDeliveryOutcome"], "GenericError");
    assert_eq!(record["lastHttpStatusCode"], 500);
    assert_eq!(record["publishTime"], "2030-01-02T03:04:05.0000000Z");
    let info = world.info("orders", "the-sub").await;
    assert_eq!(
        (
            info.counters.dead_lettered,
            info.counters.dropped,
            info.pending
        ),
        (1, 0, 0)
    );
    let terminal = world.terminal_records().await;
    assert_eq!(terminal[0].disposition, Disposition::DeadLettered);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-246: events decided 10 s apart appear 10 s apart; those that are due together share a blob.
#[tokio::test(start_paused = true)]
async fn events_that_are_due_together_are_written_together() {
    let policy = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    let world = refusing(policy, settings()).await;
    let published = publish(&world, &["a", "b", "c"]).await;
    world.sleep_until(published + seconds(10)).await;
    publish(&world, &["d"]).await;
    world.sleep_until(published + seconds(301)).await;
    world.settle().await;
    let blobs = world.dead_letters().blobs();
    assert_eq!(blobs.len(), 1);
    assert_eq!(records(&blobs[0].1).len(), 3);
    world.sleep_until(published + seconds(311)).await;
    world.settle().await;
    assert_eq!(world.dead_letters().blobs().len(), 2);
}

/// ED-244: without a destination an event is dropped at once.
#[tokio::test(start_paused = true)]
async fn without_a_destination_an_event_is_dropped() {
    let world = World::new(|_, _| Meet::status(400));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    let terminal = world.terminal_records().await;
    let reason = DropReason::NoDeadLetterDestination;
    assert_eq!(terminal[0].disposition, Disposition::Dropped(reason));
}

/// ED-247: the store is away; tried at 0, 10 s, 1 min, 5 min, then every 5 min, and given up when the first failed try is
/// four hours old.
#[tokio::test(start_paused = true)]
async fn an_event_is_dropped_when_its_store_was_away_for_four_hours() {
    let policy = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    let world = refusing(policy, settings()).await;
    world.dead_letters().set_away(true);
    let published = publish(&world, &["e1"]).await;
    let first = published + seconds(300);
    world.sleep_until(first + seconds(4 * HOUR - 1)).await;
    assert_eq!(world.info("orders", "the-sub").await.pending, 1);
    let pending = world.handle.pending_dead_letters(
        "orders".to_owned(),
        "the-sub".to_owned(),
        (Timestamp::ZERO, 0),
        10,
    );
    // At 0, 10, 60, 300 and then 46 more: the one at 14,400 s is still to come.
    assert_eq!(pending.await.unwrap()[0].pending.write.failed, 50);
    world.sleep_until(first + seconds(4 * HOUR + 1)).await;
    world.settle().await;
    let terminal = world.terminal_records().await;
    let reason = DropReason::DeadLetterStoreUnavailable;
    assert_eq!(terminal[0].disposition, Disposition::Dropped(reason));
    world.assert_balanced("orders", "the-sub").await;
}

/// The proof of `dead_letter.max_unavailable = 0`: an event fails for 24 h, then waits 5 h for its store, and arrives there
/// byte for byte; a crash in between changes nothing.
#[tokio::test(start_paused = true)]
async fn an_event_that_failed_for_a_day_and_waited_five_hours_for_its_store_arrives_there() {
    let mut held = settings();
    held.dead_letter.max_unavailable = Duration::ZERO;
    let mut world = refusing(json!({}), held).await;
    world.dead_letters().set_away(true);
    let published = publish(&world, &["e1"]).await;
    world.sleep_until(published + seconds(26 * HOUR)).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.counters.dropped), (1, 0));
    let attempts = world.seen().len();
    world.crash().await;
    world.sleep_until(published + seconds(30 * HOUR)).await;
    assert_eq!(world.info("orders", "the-sub").await.pending, 1, "held");
    world.dead_letters().set_away(false);
    world
        .sleep_until(published + seconds(30 * HOUR + 301))
        .await;
    world.settle().await;
    let blobs = world.dead_letters().blobs();
    assert_eq!(blobs.len(), 1);
    let delivered = world.seen()[0].body.clone();
    let data_at = delivered.find("\"data\":").unwrap();
    assert!(
        blobs[0].1.ends_with(&delivered[data_at..]),
        "`data` byte for byte"
    );
    let before_data = delivered[1..data_at].trim_end_matches(',');
    assert!(
        blobs[0].1[1..].starts_with(before_data),
        "the delivered event: {}",
        blobs[0].1
    );
    let record = &records(&blobs[0].1)[0];
    assert_eq!(record["deadLetterReason"], "TimeToLiveExceeded");
    assert_eq!(record["deliveryAttempts"], attempts);
    assert_eq!(world.seen().len(), attempts, "nothing was attempted since");
    world.assert_balanced("orders", "the-sub").await;
}

/// A crash between the write and its record: written again under another name, and nothing lost (ED-252).
#[tokio::test(start_paused = true)]
async fn a_crash_after_the_write_writes_again() {
    let policy = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    let mut world = refusing(policy, settings()).await;
    let published = publish(&world, &["e1"]).await;
    world.sleep_until(published + seconds(299)).await;
    world.hold();
    world.sleep_until(published + seconds(301)).await;
    world.settle().await;
    assert_eq!(world.dead_letters().blobs().len(), 1);
    world.crash().await;
    world.settle().await;
    let blobs = world.dead_letters().blobs();
    assert_eq!(blobs.len(), 2);
    assert_eq!(blobs[0].1, blobs[1].1);
    assert_eq!(
        world.info("orders", "the-sub").await.counters.dead_lettered,
        1
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// A destination that is taken away meanwhile: the event is dropped when its write is due.
#[tokio::test(start_paused = true)]
async fn a_destination_that_is_gone_drops_what_waited_for_it() {
    let policy = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    let world = refusing(policy, settings()).await;
    let published = publish(&world, &["e1"]).await;
    world.settle().await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.sleep_until(published + seconds(301)).await;
    world.settle().await;
    assert!(world.dead_letters().blobs().is_empty());
    let terminal = world.terminal_records().await;
    let reason = DropReason::NoDeadLetterDestination;
    assert_eq!(terminal[0].disposition, Disposition::Dropped(reason));
}
