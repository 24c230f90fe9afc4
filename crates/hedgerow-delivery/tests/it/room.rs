//! What many deliveries add to a full store at once waits for room (design D6): ends without an attempt, moves of what was held,
//! purges. There is never more than the store has room for, and nothing is lost.

use std::time::Duration;

use hedgerow_core::limits::ATTEMPT_RECORDS_BYTES_MAX;
use hedgerow_delivery::command::Command;
use serde_json::json;

use crate::letter_box::Mood;
use crate::world::{Meet, World, settings_without_probation};

/// Room for the records of a few deliveries that end or move, and never for all.
const ROOM_BYTES: u64 = 40 * 1024;
/// The same for rows of purges.
const PURGE_ROOM_BYTES: u64 = 4 * 1024;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("e{number:04}")).collect()
}

async fn publish(world: &World, count: usize) {
    let topic = world.topic("orders").await;
    let more = json!({
        "retryPolicy": {"eventTimeToLiveInMinutes": 60},
        "delayedDelivery": {"enabled": false},
    });
    world.subscribe("orders", "the-sub", more).await.unwrap();
    let names = names(count);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.publish(topic, &names).await;
}

/// Gives room again and again, until so many are gone; each time no more is taken than there is.
async fn drop_in_slices(world: &World, room_bytes: u64, expected: u64) {
    let mut slices = 0;
    loop {
        world.limit_records(room_bytes);
        tokio::time::sleep(seconds(20)).await;
        let taken = world.record_bytes();
        assert!(taken <= room_bytes, "{taken}");
        let info = world.info("orders", "the-sub").await;
        if info.counters.dropped == expected {
            break;
        }
        slices += 1;
        assert!(slices < 1_000, "{info:?}");
    }
    assert!(slices > 2, "{slices}: there was not room for all at once");
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-203, ED-325: what expires while its subscription is paused ends in slices.
#[tokio::test(start_paused = true)]
async fn what_expires_waits_for_room() {
    let world = World::new(|_, _| Meet::status(500));
    publish(&world, 2_000).await;
    world.pause("the-sub", true).await;
    world.sleep_until(seconds(3_590)).await;
    drop_in_slices(&world, ROOM_BYTES, 2_000).await;
}

/// A purge of what waits for another attempt goes on in slices.
#[tokio::test(start_paused = true)]
async fn a_purge_waits_for_room() {
    let world = World::new(|_, _| Meet::status(500));
    publish(&world, 2_000).await;
    world.sleep_until(seconds(200)).await;
    world.pause("the-sub", true).await;
    let pending = world.info("orders", "the-sub").await.pending;
    assert_eq!(pending, 2_000);
    world.limit_records(PURGE_ROOM_BYTES);
    let purge = world.handle.ask(|answer| Command::PurgeSubscription {
        topic: "orders".to_owned(),
        name: "the-sub".to_owned(),
        answer,
    });
    let (report, ()) = tokio::join!(purge, drop_in_slices(&world, PURGE_ROOM_BYTES, 2_000));
    assert_eq!(report.unwrap().dropped, 2_000);
}

/// ED-324: what was held, and is due later, is moved in slices.
#[tokio::test(start_paused = true)]
async fn moves_wait_for_room() {
    let world = World::new(|_, _| Meet::status(500));
    publish(&world, 2_000).await;
    world.sleep_until(seconds(200)).await;
    world.pause("the-sub", true).await;
    world.limit_records(ROOM_BYTES);
    world.pause("the-sub", false).await;
    for _ in 0..100 {
        tokio::time::sleep(seconds(1)).await;
        let taken = world.record_bytes();
        assert!(taken <= ROOM_BYTES, "{taken}");
        world.limit_records(ROOM_BYTES);
    }
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-263: the notices of dead letters that are being written have their room too: attempts wait for what is left.
#[tokio::test(start_paused = true)]
async fn notices_have_room_kept_for_them() {
    for (is_told, expected) in [(false, 3), (true, 2)] {
        let world = World::with_settings(settings_without_probation(), |id, _| {
            if id == "dead" {
                Meet::status(400)
            } else {
                Meet::Silence
            }
        });
        let topic = world.topic("orders").await;
        if is_told {
            let told = world.subscribe("$deadletter", "watcher", json!({}));
            told.await.unwrap();
        }
        let lettered = json!({
            "deadLetterDestination":
                {"endpointType": "LocalDirectory", "properties": {"path": "late"}},
            "deadLetter": {"delay": 0},
        });
        world
            .subscribe("orders", "the-sub", lettered)
            .await
            .unwrap();
        world.letters.set(Mood::Silent);
        world.publish(topic, &["dead"]).await;
        tokio::time::sleep(seconds(1)).await;
        world.limit_records(3 * ATTEMPT_RECORDS_BYTES_MAX);
        world.publish(topic, &["a", "b", "c", "d", "e"]).await;
        tokio::time::sleep(seconds(1)).await;
        let info = world.info("orders", "the-sub").await;
        assert_eq!(info.open_attempts, expected, "{is_told}: {info:?}");
    }
}
