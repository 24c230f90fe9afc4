//! Holds that end otherwise than by their time, that outlive the engine, and that hold very much (ED-228, ED-232, ED-238,
//! ED-312, ED-324, ED-325, FC-25).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_delivery::command::{Command, HoldState, SubscriptionInfo};
use hedgerow_delivery::settings::EngineSettings;
use serde_json::json;

use crate::world::{Meet, World, settings};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Times in seconds of the attempts of one event.
fn attempts(world: &World, event: &str) -> Vec<f64> {
    let seen = world.seen();
    let of_event = seen.iter().filter(|seen| seen.event_id == event);
    of_event.map(|seen| seen.at.as_secs_f64()).collect()
}

async fn reset(world: &World) -> SubscriptionInfo {
    let asked = world.handle.ask(|answer| Command::ResetSubscription {
        topic: "orders".to_owned(),
        name: "the-sub".to_owned(),
        answer,
    });
    asked.await.unwrap().0
}

async fn update(world: &World, name: &str, more: serde_json::Value) {
    world.subscribe("orders", name, more).await.unwrap();
}

/// Attempts to one endpoint are not limited by what it was learnt to take.
fn settings_of_many() -> EngineSettings {
    let mut settings = settings();
    settings.credits.start = 10_000;
    settings.credits.max = 10_000;
    settings.attempts_max = 100_000;
    settings.late_exchanges_per_subscription_max = 10_000;
    settings
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("e{number:05}")).collect()
}

fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// P1 (c): the time to live is looked at when the held event is due again, and by the limits of that moment (ED-206, ED-233).
#[tokio::test(start_paused = true)]
async fn a_held_event_expires_at_the_end_of_probation() {
    let world =
        World::new(|id, attempt| Meet::status(if id == "e4" || attempt > 0 { 200 } else { 404 }));
    let topic = world.topic("orders").await;
    let declared = |minutes: u32| json!({"retryPolicy": {"eventTimeToLiveInMinutes": minutes}});
    update(&world, "the-sub", declared(60)).await;
    for (at, name) in [(0, "e1"), (1, "e2"), (2, "e3"), (5, "e4")] {
        world.sleep_until(seconds(at)).await;
        world.publish(topic, &[name]).await;
    }
    update(&world, "the-sub", declared(4)).await;
    world.sleep_until(seconds(303)).await;
    update(&world, "the-sub", declared(60)).await;
    world.sleep_until(seconds(2_000)).await;
    // e3 is due at 302 too, with less than its time to live over only because it was raised again: it expired first.
    let records = world.terminal_records().await;
    let ended: Vec<_> = records
        .iter()
        .map(|record| {
            let progress = record.progress.unwrap();
            let id = record.event_id.as_str();
            (id, record.reason, progress.attempts, progress.last_outcome)
        })
        .collect();
    let expired = DeadLetterReason::TimeToLiveExceeded;
    assert_eq!(
        ended,
        [
            ("e3", expired, 1, Outcome::NotFound),
            ("e4", expired, 0, Outcome::Probation)
        ]
    );
    assert_eq!(attempts(&world, "e1"), [0.0, 600.0]);
    assert_eq!(attempts(&world, "e2"), [1.0, 601.0]);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-324: many attempts that hang begin one probation, not one for each; nothing starts before its end.
#[tokio::test(start_paused = true)]
async fn many_that_hang_begin_one_probation() {
    let world = World::with_settings(settings_of_many(), |id, attempt| {
        if id == "after" || attempt > 0 {
            Meet::status(200)
        } else {
            Meet::Silence
        }
    });
    let topic = world.topic("orders").await;
    update(
        &world,
        "the-sub",
        json!({"delayedDelivery": {"events": 1000}}),
    )
    .await;
    let many = names(64);
    world.publish(topic, &strs(&many)).await;
    world.sleep_until(seconds(31)).await;
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!(hold.state, HoldState::Probation);
    assert_eq!((hold.level, hold.cause), (1, Some(Outcome::TimedOut)));
    assert_eq!(hold.until.unwrap().since(hold.since.unwrap()), seconds(10));
    assert_eq!(hold.held, 64);
    world.publish(topic, &["after"]).await;
    world.sleep_until(seconds(100)).await;
    assert_eq!(attempts(&world, "after"), [40.0], "the lone trial");
    assert!(
        many.iter()
            .all(|name| attempts(&world, name) == [0.0, 60.0])
    );
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!(hold.state, HoldState::Healthy);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-324, ED-178: a late success of one of them ends it.
#[tokio::test(start_paused = true)]
async fn a_late_success_among_many_ends_probation() {
    let world = World::with_settings(settings_of_many(), |id, attempt| {
        if id == "e00063" {
            Meet::late(200, 31)
        } else if id == "after" || attempt > 0 {
            Meet::status(200)
        } else {
            Meet::Silence
        }
    });
    let topic = world.topic("orders").await;
    update(
        &world,
        "the-sub",
        json!({"delayedDelivery": {"events": 1000}}),
    )
    .await;
    let many = names(64);
    world.publish(topic, &strs(&many)).await;
    world.sleep_until(Duration::from_millis(30_500)).await;
    world.publish(topic, &["after"]).await;
    world.sleep_until(seconds(100)).await;
    assert_eq!(attempts(&world, "after"), [31.0]);
    assert_eq!(attempts(&world, "e00063"), [0.0]);
    assert_eq!(attempts(&world, "e00000"), [0.0, 60.0]);
    world.assert_balanced("orders", "the-sub").await;
}

/// A kill in the middle of a hold changes nothing of it: neither its end, nor the lone trial, nor what its failure begins.
#[tokio::test(start_paused = true)]
async fn probation_survives_a_crash() {
    let world = |script: fn(&str, usize) -> Meet| World::new(script);
    let mut world = world(|id, attempt| {
        let is_trial_that_fails = id == "e3" && attempt == 1;
        Meet::status(if id != "e4" && attempt == 0 || is_trial_that_fails {
            404
        } else {
            200
        })
    });
    let topic = world.topic("orders").await;
    update(&world, "the-sub", json!({})).await;
    for (at, name) in [(0, "e1"), (1, "e2"), (2, "e3"), (5, "e4")] {
        world.sleep_until(seconds(at)).await;
        world.publish(topic, &[name]).await;
    }
    world.sleep_until(seconds(100)).await;
    world.crash().await;
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!((hold.state, hold.level), (HoldState::Probation, 1));
    world.sleep_until(seconds(400)).await;
    world.crash().await;
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!((hold.state, hold.level), (HoldState::Probation, 2));
    world.sleep_until(seconds(3_000)).await;
    assert_eq!(attempts(&world, "e3"), [2.0, 302.0, 602.0]);
    assert_eq!(attempts(&world, "e4"), [602.0]);
    assert_eq!(attempts(&world, "e1"), [0.0, 1_800.0]);
    world.assert_balanced("orders", "the-sub").await;
}

/// D1 with a kill in each window: n goes on.
#[tokio::test(start_paused = true)]
async fn windows_survive_a_crash() {
    let mut world = World::with_settings(settings_of_many(), |id, attempt| {
        let is_failure = id != "e11" && (attempt == 0 || id == "e00000" && attempt == 1);
        Meet::status(if is_failure { 500 } else { 200 })
    });
    let topic = world.topic("orders").await;
    update(&world, "the-sub", json!({})).await;
    world.publish(topic, &strs(&names(10))).await;
    world.sleep_until(seconds(5)).await;
    world.crash().await;
    world.sleep_until(seconds(70)).await;
    world.publish(topic, &["e11"]).await;
    world.sleep_until(seconds(90)).await;
    world.crash().await;
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!((hold.state, hold.level), (HoldState::Delayed, 2));
    assert_eq!(hold.until.unwrap().since(hold.since.unwrap()), seconds(120));
    world.sleep_until(seconds(1_000)).await;
    assert_eq!(attempts(&world, "e00000"), [0.0, 60.0, 300.0]);
    assert_eq!(attempts(&world, "e00009"), [0.0, 300.0]);
    assert_eq!(attempts(&world, "e11"), [180.0]);
    assert_eq!(
        world.info("orders", "the-sub").await.hold.state,
        HoldState::Healthy
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-236: subscriptions that deliver to one endpoint share its window and its trial; probation is each one's own (ED-231).
#[tokio::test(start_paused = true)]
async fn an_endpoint_is_shared_and_probation_is_not() {
    let works = Arc::new(AtomicBool::new(false));
    let answers = Arc::clone(&works);
    let world = World::with_settings(settings_of_many(), move |_, _| {
        Meet::status(if answers.load(Ordering::Relaxed) {
            200
        } else {
            500
        })
    });
    let topic = world.topic("orders").await;
    let to = |query: &str, events: u32| {
        let url = format!("https://shared.example/hook?code={query}");
        json!({
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": url}},
            "delayedDelivery": {"events": events},
        })
    };
    update(&world, "one", to("1", 4)).await;
    update(&world, "two", to("2", 4)).await;
    world.publish(topic, &["a", "b"]).await;
    world.sleep_until(seconds(1)).await;
    for name in ["one", "two"] {
        let hold = world.info("orders", name).await.hold;
        assert_eq!((hold.state, hold.level), (HoldState::Delayed, 1), "{name}");
    }
    works.store(true, Ordering::Relaxed);
    // Whose record has the window goes; the window stays.
    world.unsubscribe("orders", "two").await;
    world.publish(topic, &["c"]).await;
    world.sleep_until(seconds(59)).await;
    assert_eq!(world.seen().len(), 4, "nobody sends during the window");
    world.sleep_until(seconds(400)).await;
    assert_eq!(attempts(&world, "c"), [60.0]);
    assert_eq!(
        attempts(&world, "a"),
        [0.0, 0.0, 60.0],
        "two at first, one of them is gone"
    );
    world.assert_balanced("orders", "one").await;
}

/// ED-238: after a window what was held starts at 100 a second; what came later is not slowed.
#[tokio::test(start_paused = true)]
async fn what_a_window_held_is_released_at_a_rate() {
    let world = World::with_settings(settings_of_many(), |id, attempt| {
        Meet::status(if id.starts_with("bad") && attempt == 0 {
            500
        } else {
            200
        })
    });
    let topic = world.topic("orders").await;
    update(&world, "the-sub", json!({"delayedDelivery": {"events": 2}})).await;
    world.publish(topic, &["bad1", "bad2"]).await;
    world.sleep_until(seconds(1)).await;
    let many = names(450);
    world.publish(topic, &strs(&many)).await;
    world.sleep_until(seconds(63)).await;
    let mut times: Vec<_> = world.seen().iter().map(|seen| seen.at).collect();
    times.retain(|at| *at > seconds(2));
    for at in &times {
        let in_a_second = times
            .iter()
            .filter(|other| **other >= *at && **other < *at + seconds(1));
        assert!(in_a_second.count() <= 101, "the trial and 100 in a second");
    }
    assert_eq!(times.len(), 301, "the trial, and 100 at 60, 61 and 62 s");
    world.sleep_until(seconds(100)).await;
    assert_eq!(world.info("orders", "the-sub").await.pending, 0);
    let later = names(900).split_off(450);
    world.publish(topic, &strs(&later)).await;
    world.settle().await;
    assert_eq!(world.info("orders", "the-sub").await.pending, 0, "at once");
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-232: an operator's call, and another endpoint, end what holds a subscription at once.
#[tokio::test(start_paused = true)]
async fn a_reset_ends_holds_at_once() {
    let world = World::with_settings(settings_of_many(), |id, attempt| {
        Meet::status(if id != "new" && attempt == 0 {
            404
        } else {
            200
        })
    });
    let topic = world.topic("orders").await;
    update(&world, "the-sub", json!({"delayedDelivery": {"events": 3}})).await;
    for name in ["a", "b", "c"] {
        world.publish(topic, &[name]).await;
    }
    world.sleep_until(seconds(5)).await;
    world.publish(topic, &["new"]).await;
    world.settle().await;
    let held = world.info("orders", "the-sub").await.hold;
    assert_eq!((held.state, held.held), (HoldState::Probation, 4));
    world.sleep_until(seconds(20)).await;
    let info = reset(&world).await;
    assert_eq!(info.hold.state, HoldState::Healthy);
    world.sleep_until(seconds(21)).await;
    assert_eq!(attempts(&world, "new"), [20.0]);
    assert_eq!(
        attempts(&world, "a"),
        [0.0],
        "its floor of 300 s is its own"
    );

    for name in ["d", "e", "f"] {
        world.publish(topic, &[name]).await;
    }
    world.sleep_until(seconds(30)).await;
    assert_eq!(
        world.info("orders", "the-sub").await.hold.state,
        HoldState::Probation
    );
    let elsewhere = json!({"endpointType": "WebHook",
        "properties": {"endpointUrl": "https://elsewhere.example/hook"}});
    update(&world, "the-sub", json!({"destination": elsewhere})).await;
    assert_eq!(
        world.info("orders", "the-sub").await.hold.state,
        HoldState::Healthy
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-312, FC-25: while paused nothing is attempted and nothing is counted; then it goes on. What failed before waits for its
/// first slot after the pause. A crash changes nothing of it.
#[tokio::test(start_paused = true)]
async fn a_pause_holds_and_loses_nothing() {
    let mut world = World::new(|id, attempt| {
        Meet::status(if id == "zero" && attempt == 0 {
            500
        } else {
            200
        })
    });
    let topic = world.topic("orders").await;
    update(&world, "the-sub", json!({})).await;
    world.publish(topic, &["zero", "one"]).await;
    world.sleep_until(seconds(5)).await;
    let info = world.pause("the-sub", true).await;
    assert_eq!(info.hold.state, HoldState::Paused);
    assert!(info.subscription.is_paused);
    world.publish(topic, &["two"]).await;
    world.sleep_until(seconds(20)).await;
    world.crash().await;
    world.sleep_until(seconds(45)).await;
    assert_eq!(world.seen().len(), 2, "zero and one, before the pause");
    assert_eq!(world.info("orders", "the-sub").await.hold.held, 2);
    world.pause("the-sub", false).await;
    world.publish(topic, &["three"]).await;
    world.sleep_until(seconds(100)).await;
    assert_eq!(attempts(&world, "two"), [45.0]);
    assert_eq!(attempts(&world, "three"), [45.0]);
    assert_eq!(attempts(&world, "zero"), [0.0, 60.0]);
    let counts: Vec<_> = world
        .seen()
        .iter()
        .map(|seen| seen.delivery_count)
        .collect();
    assert_eq!(counts, [0, 0, 0, 0, 1]);
    assert_eq!(
        world.info("orders", "the-sub").await.hold.state,
        HoldState::Healthy
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-325: very many that expire at once end at a pace, and an attempt of another subscription starts at its moment.
#[tokio::test(start_paused = true)]
async fn expiry_of_many_is_paced_and_delays_nobody() {
    let world = World::with_settings(settings_of_many(), |id, _| {
        Meet::status(if id == "failing" { 404 } else { 200 })
    });
    let topic = world.topic("orders").await;
    let other = world.topic("others").await;
    let declared = json!({
        "retryPolicy": {"eventTimeToLiveInMinutes": 1},
        "probation": {"threshold": 1},
    });
    update(&world, "the-sub", declared).await;
    world
        .subscribe("others", "healthy", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["failing"]).await;
    world.sleep_until(seconds(1)).await;
    let many = names(12_000);
    for part in strs(&many).chunks(1_000) {
        world.publish(topic, part).await;
    }
    // The end of probation, and all of them are older than a minute.
    world.sleep_until(Duration::from_millis(300_200)).await;
    world.publish(other, &["now"]).await;
    world.settle().await;
    let now = world.seen().into_iter().find(|seen| seen.event_id == "now");
    assert_eq!(now.unwrap().at, Duration::from_millis(300_200));
    world.sleep_until(seconds(301)).await;
    let dropped = world.info("orders", "the-sub").await.counters.dropped;
    assert!(
        (4_500..=5_501).contains(&dropped),
        "{dropped} in the first second"
    );
    world.sleep_until(seconds(303)).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.dropped, info.pending), (12_001, 0));
    assert_eq!(world.seen().len(), 2);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-203, ED-312: an event that was never attempted expires at its time, while the subscription is paused.
#[tokio::test(start_paused = true)]
async fn a_paused_event_expires_at_its_time() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let declared = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    update(&world, "the-sub", declared).await;
    world.pause("the-sub", true).await;
    for at in [6, 10] {
        world.sleep_until(seconds(at)).await;
        world.publish(topic, &[at.to_string().as_str()]).await;
    }
    world.sleep_until(seconds(200)).await;
    let records = world.terminal_records().await;
    let ends: Vec<_> = records
        .iter()
        .map(|record| (record.decided.since(record.published), record.progress))
        .collect();
    assert_eq!(ends, [(seconds(60), None), (seconds(60), None)]);
    world.pause("the-sub", false).await;
    world.settle().await;
    assert!(world.seen().is_empty());
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-186: an answer 410 pauses a subscription that asks for it, over a crash too; the delivery itself goes on as the row of
/// 410 says once somebody resumes it. One that does not ask for it is tried again as ever.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_gone_pauses_its_subscription() {
    let mut world = World::new(|_, attempt| Meet::status(if attempt < 2 { 410 } else { 200 }));
    let topic = world.topic("orders").await;
    update(&world, "the-sub", json!({"retry": {"disableOnGone": true}})).await;
    update(
        &world,
        "other",
        json!({"filter": {"includedEventTypes": ["none"]}}),
    )
    .await;
    world.publish(topic, &["e1"]).await;
    world.sleep_until(seconds(5)).await;
    world.publish(topic, &["e2"]).await;
    world.sleep_until(seconds(100)).await;
    world.crash().await;
    world.sleep_until(seconds(200)).await;
    assert_eq!(attempts(&world, "e1"), [0.0]);
    assert_eq!(attempts(&world, "e2"), [0.0; 0], "nothing is begun");
    let info = world.info("orders", "the-sub").await;
    assert!(info.subscription.is_paused && info.subscription.is_gone);
    assert_eq!((info.hold.state, info.hold.held), (HoldState::Gone, 2));
    let since = info.hold.since.unwrap();
    assert_eq!(info.hold.cause, None);
    assert!(since.since(info.subscription.created) < seconds(1));
    let other = world.info("orders", "other").await;
    assert_eq!(other.hold.state, HoldState::Healthy);

    // The next 410 pauses it again.
    let hold = world.pause("the-sub", false).await.hold;
    assert_eq!(hold.state, HoldState::Healthy);
    world.sleep_until(seconds(1_000)).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!(info.hold.state, HoldState::Gone);

    update(
        &world,
        "the-sub",
        json!({"retry": {"disableOnGone": false}}),
    )
    .await;
    let resumed = world.pause("the-sub", false).await;
    assert!(!resumed.subscription.is_gone);
    world.sleep_until(seconds(10_000)).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!(info.counters.delivered, 2);
    assert_eq!(info.hold.state, HoldState::Healthy);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-227, ED-230: a probation ends at its time. Then the subscription awaits a trial, and nothing else is said of it.
#[tokio::test(start_paused = true)]
async fn after_its_end_a_probation_is_shown_as_none() {
    let world = World::new(|id, _| Meet::status(if id == "late" { 200 } else { 401 }));
    let topic = world.topic("orders").await;
    let declared = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    update(&world, "the-sub", declared).await;
    world.publish(topic, &["e1", "e2", "e3"]).await;
    world.sleep_until(seconds(1)).await;
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!(hold.state, HoldState::Probation);
    let until = hold.until.unwrap();
    assert_eq!(until.since(hold.since.unwrap()), seconds(300), "ED-225");
    assert_eq!(hold.next_trial, Some(until));
    world.sleep_until(seconds(301)).await;
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!(hold.state, HoldState::AwaitingTrial);
    assert_eq!(
        (hold.until, hold.next_trial),
        (Some(until), None),
        "no event is there to try it with"
    );
    world.publish(topic, &["late"]).await;
    world.sleep_until(seconds(310)).await;
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!((hold.state, hold.until), (HoldState::Healthy, None));
}

/// ED-232, ED-236: a reset says what it ended: the probation of the subscription, and delayed delivery for all that share the
/// endpoint.
#[tokio::test(start_paused = true)]
async fn a_reset_says_what_it_ended_and_for_whom() {
    let world = World::new(|_, _| Meet::status(503));
    let topic = world.topic("orders").await;
    let declared = json!({
        "delayedDelivery": {"events": 6},
        "destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": "https://shared.example/hook"}},
    });
    update(&world, "the-sub", declared.clone()).await;
    update(&world, "other", declared).await;
    let asked = || {
        world.handle.ask(|answer| Command::ResetSubscription {
            topic: "orders".to_owned(),
            name: "the-sub".to_owned(),
            answer,
        })
    };
    assert_eq!(asked().await.unwrap().1, [], "nothing held it");
    world.publish(topic, &["e1", "e2", "e3"]).await;
    world.sleep_until(seconds(1)).await;
    let (info, ended) = asked().await.unwrap();
    assert_eq!(info.hold.state, HoldState::Healthy);
    let names = |names: &[&str]| -> Vec<(String, String)> {
        let name = |name: &&str| ("orders".to_owned(), (*name).to_owned());
        names.iter().map(name).collect()
    };
    let told: Vec<_> = ended
        .iter()
        .map(|ended| (ended.state, ended.period.cause, ended.held.clone()))
        .collect();
    assert_eq!(
        told,
        [
            (HoldState::Probation, Outcome::Busy, names(&["the-sub"])),
            (
                HoldState::Delayed,
                Outcome::Busy,
                names(&["other", "the-sub"])
            ),
        ]
    );
}
