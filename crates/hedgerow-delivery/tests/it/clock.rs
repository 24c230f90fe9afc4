//! Design D4: steps of the wall clock move no attempt, expiry or publish time. Measured in the server's time; how it
//! approaches the wall clock meanwhile, by 0.5 %, is a matter of the clock's own tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_io::clock::{Clock, SteppedClock};
use serde_json::json;

use crate::world::{Meet, START_MS, World, settings};

const PENDING: usize = 1_000;
const HOUR_MS: i64 = 3_600_000;
/// Timers count in milliseconds, and server time in other ones.
const ROUNDING_MS: u64 = 3;

/// What a run has seen, in milliseconds of the server's time since the start.
#[derive(Debug)]
struct Run {
    /// For each event its attempts, and when it expired.
    events: BTreeMap<String, Vec<u64>>,
    published: Vec<u64>,
    /// How long it took by the receivers' watches.
    took: Duration,
}

fn since_start(time: Timestamp) -> u64 {
    time.as_millis() - START_MS
}

/// Waits until the server's time is so many seconds after the start.
async fn reach(clock: &SteppedClock, seconds: u64) {
    let target = Timestamp::from_millis(START_MS + seconds * 1_000);
    loop {
        let left = target.since(clock.now().timestamp);
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(
            left.saturating_sub(left / 200)
                .max(Duration::from_millis(1)),
        )
        .await;
    }
}

/// 1,000 events that are never accepted, from their first attempts until they expired after 3 hours. At some times the
/// wall clock is stepped by so many hours, or the server crashes and its wall clock was stepped when it is back.
async fn run(steps: &[(u64, i64)], crash: Option<(u64, i64)>) -> Run {
    let clock = SteppedClock::new(Timestamp::from_millis(START_MS));
    let mut settings = settings();
    settings.credits.start = settings.credits.max;
    let script = |_: &str, _| Meet::status(500);
    let mut world = World::with_clock(Arc::new(clock.clone()), settings, script);
    let topic = world.topic("orders").await;
    let declared = json!({
        "retryPolicy": {"eventTimeToLiveInMinutes": 180},
        "delayedDelivery": {"enabled": false},
    });
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    let ids: Vec<_> = (0..PENDING).map(|number| format!("e{number}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    reach(&clock, 1).await;
    world.publish(topic, &ids).await;

    let mut published = Vec::new();
    for seconds in [20, 100, 400, 2_000, 5_000, 9_000] {
        reach(&clock, seconds).await;
        for (_, hours) in steps.iter().filter(|(at, _)| *at == seconds) {
            let before = world.info("orders", "the-sub").await.pending;
            assert!(before >= PENDING as u64, "{before} are pending at the step");
            clock.step(hours * HOUR_MS);
        }
        if let Some((_, hours)) = crash.filter(|(at, _)| *at == seconds) {
            let clock = clock.clone();
            let crashed = clock.now().timestamp;
            world
                .crash_and(|world| {
                    clock.step(hours * HOUR_MS);
                    let high_water = world.clock_high_water();
                    clock.restart(high_water);
                    let now = clock.now().timestamp;
                    assert_eq!(now, high_water, "not the wall clock, which is earlier");
                    assert!(now <= crashed && crashed.since(now) < Duration::from_secs(1000));
                })
                .await;
        }
        reach(&clock, seconds + 5).await;
        let name = format!("late{seconds}");
        published.push(since_start(world.publish(topic, &[&name]).await));
    }
    reach(&clock, 21_000).await;

    let mut events: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seen in world.seen() {
        events
            .entry(seen.event_id)
            .or_default()
            .push(since_start(seen.time));
    }
    let took = world.begun.elapsed();
    let records = world.terminal_records().await;
    assert_eq!(records.len(), PENDING + published.len());
    for record in records {
        let attempts = events.get_mut(&record.event_id).expect("it was attempted");
        attempts.push(since_start(record.decided));
    }
    Run {
        events,
        published,
        took,
    }
}

fn assert_same(run: &Run, expected: &Run) {
    let is_near = |(one, other): (&u64, &u64)| one.abs_diff(*other) <= ROUNDING_MS;
    assert_eq!(run.published.len(), expected.published.len());
    let mut published = run.published.iter().zip(&expected.published);
    assert!(published.all(is_near), "{run:?}");
    assert_eq!(run.events.len(), expected.events.len());
    for (id, times) in &run.events {
        let others = &expected.events[id];
        let same = times.len() == others.len() && times.iter().zip(others).all(is_near);
        assert!(same, "{id}: {times:?}, without steps {others:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn steps_of_the_wall_clock_move_nothing() {
    let plain = run(&[], None).await;
    let attempts = &plain.events["e0"];
    assert_eq!(attempts.len(), 9, "8 attempts and the expiry: {attempts:?}");
    let forward = run(&[(20, 25)], None).await;
    let back = run(&[(100, -2)], None).await;
    let both = run(&[(20, 25), (400, -27), (5_000, 25)], None).await;
    for stepped in [&forward, &back, &both] {
        assert_same(stepped, &plain);
        let slew = stepped.took.abs_diff(plain.took);
        let slew_max = plain.took / 199 + Duration::from_secs(1);
        assert!(!slew.is_zero() && slew <= slew_max, "slewed by {slew:?}");
    }
}

/// After a start with a wall clock that was set back, time goes on from the highest that is durable, and so does every
/// delivery.
#[tokio::test(start_paused = true)]
async fn a_start_with_an_earlier_wall_clock_goes_on_from_the_high_water() {
    let plain = run(&[], None).await;
    assert_same(&run(&[], Some((2_000, -2))).await, &plain);
}
