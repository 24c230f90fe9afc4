//! Design D4: a server whose time runs at a multiple of the pace keeps the documented schedule, in its own time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_io::clock::{Clock, FastClock};
use serde_json::json;

use crate::world::{Meet, START_MS, World, settings};

const SPEED: u64 = 60;
/// Timers count in milliseconds, and each of those is this much of the server's time; two may be late.
const LATE_MS: u64 = 3 * SPEED;

fn clock(start: Timestamp) -> FastClock {
    FastClock::on_tokio(NonZeroU32::new(SPEED as u32).unwrap(), start)
}

async fn world(
    script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static,
) -> (World, FastClock, hedgerow_core::position::TopicId) {
    let clock = clock(Timestamp::from_millis(START_MS));
    let world = World::with_clock(Arc::new(clock.clone()), settings(), script);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    (world, clock, topic)
}

/// Sleeps until so many seconds of the server's time have passed since the publication.
async fn reach(clock: &FastClock, published: Timestamp, seconds: u64) {
    let until = published.plus(Duration::from_secs(seconds));
    while clock.now().timestamp < until {
        let left = until.since(clock.now().timestamp);
        tokio::time::sleep(clock.wait(left).max(Duration::from_millis(1))).await;
    }
}

/// Attempts in milliseconds of the server's time since the first of them, leaving out some.
fn attempts(world: &World, leave_out: usize) -> Vec<u64> {
    let seen = world.seen().split_off(leave_out);
    let since = |time: Timestamp| time.since(seen[0].time).as_millis() as u64;
    seen.iter().map(|seen| since(seen.time)).collect()
}

fn assert_slots(met: &[u64], slots_s: &[u64]) {
    assert_eq!(met.len(), slots_s.len(), "{met:?}");
    for (at, slot) in met.iter().zip(slots_s) {
        let due = slot * 1_000;
        assert!(
            (due..=due + LATE_MS).contains(at),
            "{at} for {due}: {met:?}"
        );
    }
}

/// The acceptance 1, in its second half, and W1 of section 5.5: slots at 10 s, 30 s, 1 min, 5 min ... (ED-195); after
/// 503 the one at 10 s is left out.
#[tokio::test(start_paused = true)]
async fn retries_come_at_the_documented_slots_in_fast_time() {
    let (world, clock, topic) = world(|id, attempt| match (id, attempt) {
        ("busy", 0..4) => Meet::status(503),
        ("broken", 0..11) => Meet::status(500),
        _ => Meet::status(200),
    })
    .await;
    let published = world.publish(topic, &["busy"]).await;
    reach(&clock, published, 3_600).await;
    assert_slots(&attempts(&world, 0), &[0, 30, 60, 300, 600]);
    let took = world.seen()[4].at - world.seen()[0].at;
    assert!(
        took.abs_diff(Duration::from_secs(10)) <= Duration::from_millis(20),
        "10 min in 10 s: {took:?}"
    );
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (1, 0));

    let before = world.seen().len();
    let published = world.publish(topic, &["broken"]).await;
    reach(&clock, published, 100_000).await;
    let since = attempts(&world, before);
    let slots = [
        0, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400,
    ];
    // The event's time to live is a day, and ends before the last slot (ED-203).
    assert_slots(&since, &slots[..since.len()]);
    assert!(since.len() >= 11, "{since:?}");
    world.assert_balanced("orders", "the-sub").await;
}

/// A receiver is as slow as it is: 200 ms are not 12 s, and no timeout comes before 250 ms have really passed.
#[tokio::test(start_paused = true)]
async fn answers_are_not_late_because_time_is_fast() {
    let (world, clock, topic) = world(|id, attempt| match (id, attempt) {
        ("slow", 0) => Meet::Answer {
            status: 500,
            after: Duration::from_millis(200),
            retry_after: None,
        },
        ("silent", 0) => Meet::Silence,
        _ => Meet::status(200),
    })
    .await;
    let published = world.publish(topic, &["slow"]).await;
    reach(&clock, published, 20).await;
    let slow = world.seen();
    let since = slow[1].time.since(slow[0].time).as_millis() as u64;
    // Attempt, 200 ms, and the slot at 10 s after its beginning (ED-195).
    assert!((10_000..=10_000 + LATE_MS).contains(&since), "{since}");

    // 30 s of the default timeout: 250 ms with the clocks, the rest at 60 times their pace (ED-176).
    world.publish(topic, &["silent"]).await;
    let begun = tokio::time::Instant::now();
    let waiting = async {
        while world.info("orders", "the-sub").await.next_due.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    waiting.await;
    let took = begun.elapsed();
    let timeout = Duration::from_millis(250) + Duration::from_millis(29_750) / SPEED as u32;
    assert!(
        took >= timeout && took < timeout + Duration::from_millis(10),
        "{took:?}"
    );
}
