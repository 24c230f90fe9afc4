//! What a stop waits for, and how.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hedgerow_core::time::{Now, Timestamp};
use hedgerow_io::clock::{Clock, TokioClock};
use serde_json::json;

use crate::world::{Meet, START_MS, World, settings};

/// A clock that is not read without end.
struct PatientClock {
    inner: TokioClock,
    left: Arc<AtomicU32>,
}

impl Clock for PatientClock {
    fn now(&self) -> Now {
        let before = self.left.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "the engine looks at the clock without end");
        self.inner.now()
    }
}

/// ED-325, ED-189: while a stop waits for an attempt, deliveries that wait for the pace at which they expire stay for the next
/// start, and nobody looks for them over and over. Found by the simulator, seed 159 of its first plan.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_look_for_what_it_leaves_over_and_over() {
    let mut settings = settings();
    settings.ended_per_second = 10;
    settings.drain = Duration::from_secs(25);
    let left = Arc::new(AtomicU32::new(u32::MAX));
    let clock = PatientClock {
        inner: TokioClock::new(Timestamp::from_millis(START_MS)),
        left: Arc::clone(&left),
    };
    let mut world = World::with_clock(Arc::new(clock), settings, |_, _| Meet::Silence);
    let topic = world.topic("orders").await;
    let silent = json!({"responseTimeoutSeconds": 300});
    world.subscribe("orders", "silent", silent).await.unwrap();
    let short = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    world.subscribe("orders", "paused", short).await.unwrap();
    world.pause("paused", true).await;
    let ids: Vec<String> = (0..30).map(|number| format!("e{number}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    world.publish(topic, &ids).await;
    // One expires in each tenth of a second, from a minute on.
    world.sleep_until(Duration::from_millis(61_050)).await;
    let begun = world.begun;
    left.store(20_000, Ordering::Relaxed);
    world.stop().await;
    let stopped = begun.elapsed();
    assert!(
        stopped >= Duration::from_secs(86) && stopped < Duration::from_secs(87),
        "{stopped:?}"
    );
}
