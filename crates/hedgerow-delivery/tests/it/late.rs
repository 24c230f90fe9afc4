//! Timeouts and what comes after them on the wire (ED-176 to ED-181).

use std::time::Duration;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::outcome::Outcome;
use serde_json::json;

use crate::world::{Meet, World, event, settings};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// ED-178: a response at exactly the timeout is in time, and a success at exactly 180 s still counts.
#[tokio::test(start_paused = true)]
async fn both_ends_of_the_window_are_in_time() {
    let rows = [
        (30, 1, "at the timeout"),
        (31, 1, "late"),
        (180, 1, "at the end of the window"),
    ];
    for (after, delivered, what) in rows {
        let meet = move |_: &str, attempt| {
            if attempt == 0 {
                Meet::late(200, after)
            } else {
                Meet::Silence
            }
        };
        let world = World::new(meet);
        let topic = world.topic("orders").await;
        world
            .subscribe("orders", "the-sub", json!({}))
            .await
            .unwrap();
        let published = world.begun.elapsed();
        world.publish(topic, &["e1"]).await;
        world.sleep_until(published + seconds(181)).await;
        let info = world.info("orders", "the-sub").await;
        assert_eq!(info.counters.delivered, delivered, "{what}");
        assert_eq!(info.pending, 0, "{what}");
        world.sleep_until(published + seconds(2000)).await;
        let at: Vec<_> = world
            .seen()
            .iter()
            .map(|seen| (seen.at - published).as_secs())
            .collect();
        let expected: &[u64] = if after == 180 { &[0, 60] } else { &[0] };
        assert_eq!(at, expected, "{what}");
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// ED-127, ED-178: a receiver that never reads is a timeout like silence, however much of the request is unsent, and its
/// attempt is not made again by itself.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_never_reads_times_out() {
    let world = World::new(|_, _| Meet::NeverReads);
    let topic = world.topic("orders").await;
    let declared = json!({"retryPolicy": {"maxDeliveryAttempts": 2}});
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    let event = Event {
        data: Data::Json(format!("\"{}\"", "x".repeat(1 << 20)).into()),
        ..event("e1")
    };
    let published = world.begun.elapsed();
    world.publish_event(topic, &event).await;
    world
        .sleep_until(published + seconds(30) - Duration::from_millis(1))
        .await;
    assert_eq!(world.info("orders", "the-sub").await.in_flight, 1);
    world.sleep_until(published + seconds(31)).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.in_flight, info.pending), (0, 1));
    world.sleep_until(published + seconds(1_000)).await;
    let at: Vec<_> = world
        .refused()
        .iter()
        .map(|at| (*at - published).as_secs())
        .collect();
    assert_eq!(at, [0, 60]);
    let records = world.terminal_records().await;
    let outcome = records[0].progress.map(|progress| progress.last_outcome);
    assert_eq!(outcome, Some(Outcome::TimedOut));
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-178: a success after the window is nothing.
#[tokio::test(start_paused = true)]
async fn a_success_after_the_window_does_not_count() {
    let meet = |_: &str, attempt| {
        if attempt == 0 {
            Meet::late(200, 181)
        } else {
            Meet::status(500)
        }
    };
    let world = World::new(meet);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["e1"]).await;
    world.sleep_until(published + seconds(301)).await;
    assert_eq!(world.info("orders", "the-sub").await.counters.delivered, 0);
    assert_eq!(world.seen().len(), 3, "attempts at 0, 60 and 300");
}

/// ED-179: a late failure is ignored; ED-176: the timeout is the subscription's own.
#[tokio::test(start_paused = true)]
async fn a_late_failure_changes_nothing() {
    let meet = |_: &str, attempt| {
        if attempt == 0 {
            Meet::late(400, 8)
        } else {
            Meet::status(200)
        }
    };
    let world = World::new(meet);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({"responseTimeoutSeconds": 5}))
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["e1"]).await;
    world.sleep_until(published + seconds(40)).await;
    let at: Vec<_> = world
        .seen()
        .iter()
        .map(|seen| (seen.at - published).as_secs())
        .collect();
    assert_eq!(
        at,
        [0, 30],
        "F = 5, floor 10: the slot at 30; the 400 at 8 s is not final"
    );
    assert_eq!(world.info("orders", "the-sub").await.counters.delivered, 1);
}

/// ED-180: above the cap the oldest late exchange is ended at once.
#[tokio::test(start_paused = true)]
async fn the_oldest_late_exchange_makes_room() {
    let mut settings = settings();
    settings.late_exchanges_per_subscription_max = 1;
    let meet = |_: &str, attempt| {
        if attempt == 0 {
            Meet::late(200, 50)
        } else {
            Meet::Silence
        }
    };
    let world = World::with_settings(settings, meet);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["e1", "e2"]).await;
    world.sleep_until(published + seconds(55)).await;
    assert_eq!(world.info("orders", "the-sub").await.counters.delivered, 1);
}

/// ED-180: the cap over all subscriptions counts the exchanges that are open, not those that were.
#[tokio::test(start_paused = true)]
async fn closed_exchanges_take_no_room() {
    let mut settings = settings();
    settings.late_exchanges_max = 2;
    let meet = |id: &str, attempt| match (id, attempt) {
        ("early", 0) => Meet::late(500, 40),
        ("early", _) => Meet::status(200),
        (_, 0) => Meet::late(200, 50),
        _ => Meet::Silence,
    };
    let world = World::with_settings(settings, meet);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["early"]).await;
    world.sleep_until(published + seconds(41)).await;
    world.publish(topic, &["e1", "e2", "e3"]).await;
    world.sleep_until(published + seconds(41 + 51)).await;
    let delivered = world.info("orders", "the-sub").await.counters.delivered;
    assert_eq!(
        delivered,
        1 + 2,
        "the oldest of three made room, the one that closed before took none"
    );
}
