//! What a paused subscription owes expires at its time (ED-203, ED-312).

use std::time::Duration;

use hedgerow_store::view::TerminalRecord;
use serde_json::json;

use crate::world::{Meet, World, settings_without_probation};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// ED-203: a retry of a paused subscription expires at its time too, before its next slot and in the order of their
/// publishing, also when a crash comes between; what is resumed before goes on at its next slot.
#[tokio::test(start_paused = true)]
async fn paused_retries_expire_at_their_time() {
    let mut world = World::with_settings(settings_without_probation(), |_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    let declared = json!({
        "retryPolicy": {"eventTimeToLiveInMinutes": 8},
        "delayedDelivery": {"enabled": false},
    });
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    // Slots: 0 s, 10 s, 30 s, 1 min, 5 min, 10 min. At 400 s the next ones are at 600 s and 610 s.
    for at in [0, 10] {
        world.sleep_until(seconds(at)).await;
        world.publish(topic, &[at.to_string().as_str()]).await;
    }
    world.sleep_until(seconds(400)).await;
    world.pause("the-sub", true).await;
    world.sleep_until(seconds(450)).await;
    world.crash().await;
    world.sleep_until(seconds(479)).await;
    assert_eq!(world.terminal_records().await.len(), 0);
    world.sleep_until(seconds(489)).await;
    let ended = |records: &[TerminalRecord]| -> Vec<_> {
        records
            .iter()
            .map(|record| {
                (
                    record.event_id.clone(),
                    record.decided.since(record.published),
                )
            })
            .collect()
    };
    let records = world.terminal_records().await;
    assert_eq!(ended(&records), [("0".to_owned(), seconds(480))]);
    world.pause("the-sub", false).await;
    world.sleep_until(seconds(700)).await;
    let records = world.terminal_records().await;
    // The other one was resumed in time: it is judged at its slot again, and is too old then.
    assert_eq!(ended(&records)[1], ("10".to_owned(), seconds(600)));
    let attempts: Vec<_> = records
        .iter()
        .map(|one| one.progress.unwrap().attempts)
        .collect();
    assert_eq!(attempts, [5, 5]);
    world.assert_balanced("orders", "the-sub").await;
}

/// The same of more retries than are held in memory, whose slots come in another order than their ends.
#[tokio::test(start_paused = true)]
async fn more_paused_retries_than_are_in_memory_expire_at_their_time() {
    const EACH: u64 = 3_000;
    let world = World::with_settings(settings_without_probation(), |id, _| {
        if id.starts_with("late") {
            Meet::status(503)
        } else {
            Meet::status(404)
        }
    });
    let topic = world.topic("orders").await;
    let declared = json!({
        "retryPolicy": {"eventTimeToLiveInMinutes": 4},
        "delayedDelivery": {"enabled": false},
    });
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    // Those of 404 were first, and are due last.
    for (at, kind) in [(0, "early"), (5, "middle"), (10, "late")] {
        world.sleep_until(seconds(at)).await;
        for first in (0..EACH).step_by(500) {
            let ids: Vec<_> = (first..first + 500)
                .map(|n| format!("{kind}-{n}"))
                .collect();
            let ids: Vec<_> = ids.iter().map(String::as_str).collect();
            world.publish(topic, &ids).await;
        }
    }
    world.sleep_until(seconds(20)).await;
    world.pause("the-sub", true).await;
    for (at, dropped) in [(239, 0), (243, EACH), (248, 2 * EACH), (253, 3 * EACH)] {
        world.sleep_until(seconds(at)).await;
        let info = world.info("orders", "the-sub").await;
        assert_eq!(info.counters.dropped, dropped, "at {at} s: {info:?}");
    }
    world.assert_balanced("orders", "the-sub").await;
}
