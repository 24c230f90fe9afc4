//! What is remembered of a hold that is over, of what it held and ends without another attempt (ED-228), through a crash.

use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_delivery::command::Command;
use hedgerow_store::view::TerminalRecord;
use serde_json::{Value, json};

use crate::world::{Meet, World, settings};

/// Events that are held, of which so many end in a second once nothing holds them.
const HELD: usize = 40;
const ENDED_PER_SECOND: u32 = 10;
/// How long the window of the endpoint is. The time to live is half of it.
const WINDOW: Duration = Duration::from_secs(120);

/// How the window ends for the subscription `one`.
#[derive(Debug, Clone, Copy)]
enum End {
    /// By its time; no attempt has succeeded since.
    Time,
    /// An operator asked for it, of the other subscription at the endpoint.
    Reset,
    /// Another endpoint is declared.
    OtherEndpoint,
    /// The other subscription's trial succeeds.
    Success,
}

/// Events whose id begins so come to a subscription at the endpoint that all share.
fn declared(host: &str, events: &str) -> Value {
    json!({
        "destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": format!("https://{host}.example/hook?of={events}")}},
        "filter": {"advancedFilters": [
            {"operatorType": "StringBeginsWith", "key": "id", "values": [events]},
        ]},
        "retryPolicy": {"eventTimeToLiveInMinutes": 1},
        "delayedDelivery": {"events": 2, "firstWindow": WINDOW.as_secs()},
    })
}

async fn reset(world: &World, name: &str) {
    let asked = world.handle.ask(|answer| Command::ResetSubscription {
        topic: "orders".to_owned(),
        name: name.to_owned(),
        answer,
    });
    asked.await.unwrap();
}

/// Each says that it was held, and so does a retry; what came after the hold does not.
async fn what_was_held_says_so(end: End) {
    let mut settings = settings();
    settings.ended_per_second = ENDED_PER_SECOND;
    let mut world = World::with_settings(settings, |id, _| {
        Meet::status(if id == "two-trial" { 200 } else { 500 })
    });
    let topic = world.topic("orders").await;
    for name in ["one", "two"] {
        let declared = declared("shared", name);
        world.subscribe("orders", name, declared).await.unwrap();
    }
    // The second failure begins the window. The first event's next attempt would be due in it, at 10 s; the second's is due
    // at the first slot behind it from the beginning.
    world.publish(topic, &["one-a"]).await;
    world.sleep_until(Duration::from_secs(1)).await;
    world.publish(topic, &["one-b"]).await;
    let window_end = Duration::from_secs(1) + WINDOW;
    world.sleep_until(Duration::from_secs(2)).await;
    let ids: Vec<_> = (0..HELD)
        .map(|number| format!("one-held-{number}"))
        .collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    world.publish(topic, &ids).await;
    world
        .sleep_until(window_end - Duration::from_secs(20))
        .await;
    let info = world.info("orders", "one").await;
    assert_eq!(info.hold.held, 2 + HELD as u64);
    assert_eq!(info.next_due, info.hold.until, "not when it was first due");
    match end {
        End::Time => world.sleep_until(window_end).await,
        End::Reset => reset(&world, "two").await,
        End::OtherEndpoint => {
            let elsewhere = declared("elsewhere", "one");
            world.subscribe("orders", "one", elsewhere).await.unwrap();
        }
        End::Success => {
            world.publish(topic, &["two-trial"]).await;
            world.sleep_until(window_end).await;
            world.settle().await;
            assert_eq!(world.info("orders", "two").await.counters.delivered, 1);
        }
    }
    world.settle().await;
    let ended = world.terminal_records().await.len();
    assert!(ended < HELD, "{ended} ended before the crash");
    world.crash().await;
    world.sleep_until(Duration::from_secs(1_000)).await;
    world.pause("one", true).await;
    world.publish(topic, &["one-later"]).await;
    world.sleep_until(Duration::from_secs(1_100)).await;

    let records = world.terminal_records().await;
    let expired = DeadLetterReason::TimeToLiveExceeded;
    assert!(records.iter().all(|record| record.reason == expired));
    let of = |prefix: &str| -> Vec<&TerminalRecord> {
        let of = |record: &&TerminalRecord| record.event_id.starts_with(prefix);
        records.iter().filter(of).collect()
    };
    let said = |prefix: &str| -> Vec<_> {
        let progress = of(prefix).into_iter().map(|record| record.progress);
        progress
            .map(|known| known.map(|known| (known.attempts, known.last_outcome)))
            .collect()
    };
    let held = Outcome::Probation;
    assert_eq!(said("one-held"), [Some((0, held)); HELD], "{end:?}");
    assert_eq!(said("one-a"), [Some((1, held))], "{end:?}");
    assert_eq!(said("one-b"), [Some((1, Outcome::GenericError))], "{end:?}");
    assert_eq!(said("one-later"), [None], "{end:?}");
    world.assert_balanced("orders", "one").await;
}

/// ED-228, ED-238: the hold's time is over, and nothing was tried since.
#[tokio::test(start_paused = true)]
async fn after_its_time() {
    what_was_held_says_so(End::Time).await;
}

/// ED-228, ED-232, ED-236: somebody reset another subscription at the endpoint.
#[tokio::test(start_paused = true)]
async fn after_a_reset() {
    what_was_held_says_so(End::Reset).await;
}

/// ED-228, ED-232.
#[tokio::test(start_paused = true)]
async fn after_a_change_of_the_endpoint() {
    what_was_held_says_so(End::OtherEndpoint).await;
}

/// ED-228, ED-236: another subscription's trial at the endpoint succeeded.
#[tokio::test(start_paused = true)]
async fn after_a_success() {
    what_was_held_says_so(End::Success).await;
}

/// ED-203, ED-208, ED-238: what a window held goes on at its rate after a crash, and none of it has expired that was due in
/// time: a restart without a pause between changes nothing.
#[tokio::test(start_paused = true)]
async fn what_is_released_at_a_rate_goes_on_after_a_crash() {
    const EVENTS: usize = 1_000;
    let mut settings = settings();
    settings.released_per_second = 10;
    let mut world = World::with_settings(settings, |id, attempt| {
        let is_failure = matches!(id, "one-a" | "one-b") && attempt == 0;
        Meet::status(if is_failure { 500 } else { 200 })
    });
    let topic = world.topic("orders").await;
    let mut declared = declared("shared", "one");
    declared["retryPolicy"] = json!({"eventTimeToLiveInMinutes": 3});
    world.subscribe("orders", "one", declared).await.unwrap();
    world.publish(topic, &["one-a", "one-b"]).await;
    world.sleep_until(Duration::from_secs(1)).await;
    let ids: Vec<_> = (0..EVENTS).map(|number| format!("one-{number}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    world.publish(topic, &ids).await;
    // Due at the end of the window, when they are two minutes old. All of them have started a hundred seconds after that.
    let crashes = [WINDOW.as_secs() + 30, WINDOW.as_secs() + 75];
    for at in crashes {
        world.sleep_until(Duration::from_secs(at)).await;
        world.crash().await;
    }
    world.sleep_until(Duration::from_secs(400)).await;
    let counters = world.info("orders", "one").await.counters;
    // The two that failed are due at 300 s again, and too old then.
    let ended = (counters.delivered, counters.dropped);
    assert_eq!(ended, (EVENTS as u64, 2));
    let mut in_a_second = std::collections::BTreeMap::new();
    for seen in world.seen() {
        *in_a_second.entry(seen.at.as_secs()).or_insert(0) += 1;
    }
    // A crash forgets how many have started in its second, and what was on its way then starts again.
    let most = |at: u64| if crashes.contains(&at) { 31 } else { 11 };
    for (at, count) in in_a_second.split_off(&WINDOW.as_secs()) {
        assert!(count <= most(at), "{count} at {at} s");
    }
    world.assert_balanced("orders", "one").await;
}
