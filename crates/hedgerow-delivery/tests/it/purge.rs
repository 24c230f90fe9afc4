//! What an operator drops: everything that is pending, whatever it waits for, and whatever crashes meanwhile (issue 4, ED-304).

use std::sync::atomic::Ordering;
use std::time::Duration;

use hedgerow_core::credit::CreditSettings;
use hedgerow_core::outcome::DeadLetterReason;
use hedgerow_delivery::command::{Command, CommandError, PurgeReport};
use hedgerow_delivery::settings::EngineSettings;
use serde_json::json;

use crate::shelf::Reading;
use crate::world::{Meet, World, settings, settings_without_probation};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

async fn try_purge(world: &World) -> Result<PurgeReport, CommandError> {
    let asked = world.handle.ask(|answer| Command::PurgeSubscription {
        topic: "orders".to_owned(),
        name: "the-sub".to_owned(),
        answer,
    });
    asked.await
}

async fn purge(world: &World) -> PurgeReport {
    try_purge(world).await.unwrap()
}

async fn subscribe(world: &World, more: serde_json::Value) {
    world.subscribe("orders", "the-sub", more).await.unwrap();
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}{number:05}"))
        .collect()
}

fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn dropped(world: &World) -> Vec<(&'static str, u64)> {
    let all = world.metrics().subscriptions();
    all.iter().flat_map(|one| one.dropped.counts()).collect()
}

/// No endpoint limits what runs at a time, and nothing is held.
fn wide() -> EngineSettings {
    let mut settings = settings_without_probation();
    let (start, min, max) = (100_000, 100_000, 100_000);
    settings.credits = CreditSettings { start, min, max };
    settings.attempts_max = 100_000;
    settings.unsettled_successes_max = 100_000;
    settings
}

const NO_DELAY: fn() -> serde_json::Value = || json!({"delayedDelivery": {"enabled": false}});

/// What waits for another attempt, soon or in hours, is dropped; what comes later is delivered.
#[tokio::test(start_paused = true)]
async fn what_waits_for_another_attempt_is_dropped() {
    let world = World::with_settings(wide(), |id, _| {
        Meet::status(if id.starts_with("bad") { 500 } else { 200 })
    });
    let topic = world.topic("orders").await;
    subscribe(&world, NO_DELAY()).await;
    let old = names("bad-old", 700);
    world.publish(topic, &strs(&old)).await;
    world.sleep_until(seconds(3_700)).await;
    world.publish(topic, &["bad-new"]).await;
    world.settle().await;
    let before = world.seen().len();
    let report = purge(&world).await;
    let expected = PurgeReport {
        dropped: 701,
        ..PurgeReport::default()
    };
    assert_eq!(report, expected);
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.dropped, info.pending), (701, 0));
    assert_eq!(dropped(&world), [("Purged", 701)]);
    world.publish(topic, &["good"]).await;
    world.sleep_until(seconds(100_000)).await;
    let seen = world.seen_ids();
    assert_eq!(seen[before..], ["good"]);
    world.assert_balanced("orders", "the-sub").await;
    // A second one finds nothing.
    assert_eq!(purge(&world).await, PurgeReport::default());
}

/// What was never attempted: read and waiting in memory, or behind the reader and unread.
#[tokio::test(start_paused = true)]
async fn what_was_never_attempted_is_dropped_read_or_not() {
    for crashes in [false, true] {
        let mut world = World::new(|_, _| Meet::status(200));
        let topic = world.topic("orders").await;
        subscribe(&world, json!({"filter": {"subjectEndsWith": "/1"}})).await;
        world.pause("the-sub", true).await;
        let many = names("e", 6_000);
        world.publish(topic, &strs(&many)).await;
        world.settle().await;
        let behind = world.info("orders", "the-sub").await.behind;
        assert!(behind > 0, "more than memory holds");
        let report = purge(&world).await;
        assert_eq!(report.dropped + report.skipped, 6_000, "{report:?}");
        assert_eq!((report.skipped, report.in_flight), (behind, 0));
        if crashes {
            world.crash().await;
        }
        let info = world.info("orders", "the-sub").await;
        assert_eq!((info.pending, info.behind), (0, 0));
        assert_eq!(info.counters.dropped, report.dropped);
        world.publish(topic, &["after"]).await;
        world.pause("the-sub", false).await;
        world.sleep_until(seconds(100)).await;
        assert_eq!(world.seen_ids(), ["after"]);
        let topics = world.metrics().topics();
        let unmatched = topics[0].unmatched.load(Ordering::Relaxed);
        assert_eq!(unmatched, 0, "what was passed over was wanted");
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// An attempt in flight is settled by its end: delivered, dropped where another attempt would follow, or given up for its own
/// reason. A dead letter that waits to be written is written.
#[tokio::test(start_paused = true)]
async fn what_is_in_flight_is_settled_by_its_end() {
    let world = World::with_settings(wide(), |id, _| match id {
        "good" => Meet::late(200, 20),
        "bad" => Meet::late(500, 20),
        "silent" => Meet::Silence,
        "refused-now" => Meet::status(400),
        _ => Meet::late(400, 20),
    });
    let topic = world.topic("orders").await;
    let mut declared = NO_DELAY();
    declared["deadLetterDestination"] = json!({
        "endpointType": "LocalDirectory", "properties": { "path": "letters" },
    });
    subscribe(&world, declared).await;
    world
        .publish(topic, &["good", "bad", "silent", "refused", "refused-now"])
        .await;
    world.settle().await;
    let report = purge(&world).await;
    assert_eq!((report.dropped, report.in_flight), (0, 4));
    world.sleep_until(seconds(90_000)).await;
    assert_eq!(world.seen_ids().len(), 5, "nothing is attempted again");
    let info = world.info("orders", "the-sub").await;
    let counters = info.counters;
    assert_eq!((counters.delivered, counters.dropped), (1, 2));
    assert_eq!((counters.dead_lettered, info.pending), (2, 0));
    assert_eq!(dropped(&world), [("Purged", 2)]);
    let reasons: Vec<_> = world.terminal_records().await;
    assert!(
        reasons
            .iter()
            .all(|one| one.reason == DeadLetterReason::UndeliverableDueToHttpBadRequest)
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// Kill -9 while attempts of purged deliveries run, or while rows are being dropped: none is attempted again.
#[tokio::test(start_paused = true)]
async fn a_purge_is_carried_to_its_end_by_the_next_start() {
    for crashes_at in [0, 1, 2, 4] {
        let mut world = World::with_settings(wide(), |id, _| match id {
            "silent" => Meet::Silence,
            "after" => Meet::status(200),
            _ => Meet::status(500),
        });
        let topic = world.topic("orders").await;
        subscribe(&world, NO_DELAY()).await;
        let many = names("bad", 4_500);
        world.publish(topic, &strs(&many)).await;
        world.publish(topic, &["silent"]).await;
        world.settle().await;
        let before = world.seen().len();
        if crashes_at == 0 {
            // Nothing becomes durable any more: the purge was not answered, and does not hold.
            world.hold();
            let asked = tokio::time::timeout(seconds(1), purge(&world)).await;
            assert!(asked.is_err());
            world.crash().await;
            world.settle().await;
            assert_eq!(world.info("orders", "the-sub").await.pending, 4_501);
            purge(&world).await;
        } else {
            let handle = world.handle.clone();
            let asked = tokio::spawn(async move {
                let asked = handle.ask(|answer| Command::PurgeSubscription {
                    topic: "orders".to_owned(),
                    name: "the-sub".to_owned(),
                    answer,
                });
                asked.await
            });
            // So far that its change is durable, and a little further each time.
            let mut turns = 0;
            while world.purges().is_empty() || turns < crashes_at {
                turns += usize::from(!world.purges().is_empty());
                tokio::task::yield_now().await;
            }
            world.crash().await;
            drop(asked.await);
        }
        world.publish(topic, &["after"]).await;
        world.sleep_until(seconds(90_000)).await;
        let seen = world.seen_ids();
        assert_eq!(seen[before..], ["after"], "crash {crashes_at}");
        let info = world.info("orders", "the-sub").await;
        assert_eq!((info.counters.dropped, info.counters.delivered), (4_501, 1));
        assert_eq!(info.subscription.purging_to(), None, "it is over");
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// A late success of a purged delivery decides nothing any more; one of a delivery in flight does.
#[tokio::test(start_paused = true)]
async fn an_exchange_that_is_open_late_is_ended() {
    let world = World::with_settings(wide(), |_, _| Meet::late(200, 50));
    let topic = world.topic("orders").await;
    subscribe(&world, NO_DELAY()).await;
    world.publish(topic, &["late"]).await;
    // It timed out at 30 s, and its answer would come at 50 s.
    world.sleep_until(seconds(40)).await;
    assert_eq!(purge(&world).await.dropped, 1);
    world.sleep_until(seconds(200)).await;
    let counters = world.info("orders", "the-sub").await.counters;
    assert_eq!((counters.dropped, counters.delivered), (1, 0));
    assert_eq!(world.seen().len(), 1);
}

/// Several at once have one end; one of a subscription that goes meanwhile is told so; without a subscription there is none.
#[tokio::test(start_paused = true)]
async fn purges_at_once_and_of_what_is_gone() {
    let world = World::with_settings(wide(), |_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    assert!(matches!(
        try_purge(&world).await,
        Err(CommandError::NotFound { .. })
    ));
    subscribe(&world, NO_DELAY()).await;
    let many = names("bad", 5_000);
    world.publish(topic, &strs(&many)).await;
    world.settle().await;
    let (one, other) = tokio::join!(purge(&world), purge(&world));
    assert_eq!(one.dropped.max(other.dropped), 5_000);
    assert_eq!(dropped(&world), [("Purged", 5_000)]);
    world.publish(topic, &strs(&many)).await;
    world.settle().await;
    let (purged, ()) = tokio::join!(try_purge(&world), world.unsubscribe("orders", "the-sub"));
    assert!(
        matches!(purged, Err(CommandError::NotFound { .. })),
        "{purged:?}"
    );
}

/// A backlog that probation holds is dropped too, and the subscription stays on probation.
#[tokio::test(start_paused = true)]
async fn what_probation_holds_is_dropped() {
    let world = World::with_settings(settings(), |id, _| {
        Meet::status(if id == "after" { 200 } else { 404 })
    });
    let topic = world.topic("orders").await;
    subscribe(&world, NO_DELAY()).await;
    let many = names("bad", 50);
    world.publish(topic, &strs(&many)).await;
    world.settle().await;
    let before = world.seen().len();
    let report = purge(&world).await;
    assert_eq!((report.dropped, report.skipped), (50, 0));
    world.publish(topic, &["after"]).await;
    world.sleep_until(seconds(50_000)).await;
    assert_eq!(world.seen_ids()[before..], ["after"]);
    world.assert_balanced("orders", "the-sub").await;
}

/// What was published first after a purge is not dropped by it, while it still waits for what is in flight.
#[tokio::test(start_paused = true)]
async fn the_first_event_after_a_purge_is_tried_again() {
    let world = World::new(|id, attempt| match (id, attempt) {
        ("slow", _) => Meet::late(500, 20),
        (_, 0) => Meet::status(500),
        _ => Meet::status(200),
    });
    let topic = world.topic("orders").await;
    subscribe(&world, json!({"delayedDelivery": {"enabled": false}})).await;
    world.publish(topic, &["slow"]).await;
    world.settle().await;
    assert_eq!(purge(&world).await.in_flight, 1);
    world.publish(topic, &["new"]).await;
    world.sleep_until(seconds(100)).await;
    assert_eq!(world.seen_ids(), ["slow", "new", "new"]);
    let counters = world.info("orders", "the-sub").await.counters;
    assert_eq!((counters.dropped, counters.delivered), (1, 1));
    world.assert_balanced("orders", "the-sub").await;
}

/// A delivery that is being ended without an attempt while the purge lets the log forget its event is dropped too; the store did
/// not fail.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_forgotten_while_it_is_read_is_dropped() {
    let world = World::with_settings(settings(), |_, _| Meet::status(404));
    let topic = world.topic("orders").await;
    let minute = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    subscribe(&world, minute).await;
    for (at, name) in [(0, "e1"), (1, "e2"), (2, "e3"), (5, "never")] {
        world.sleep_until(seconds(at)).await;
        world.publish(topic, &[name]).await;
    }
    world.settle().await;
    // Held by probation, and expired at its end.
    assert!(!world.seen_ids().contains(&"never".to_owned()));
    world.shelf.set(topic, 4, Reading::Waits);
    world.shelf.somebody_waits().await;
    assert!(purge(&world).await.in_flight >= 1);
    world.shelf.set(topic, 4, Reading::Forgotten);
    world.settle().await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.matched, info.counters.dropped), (4, 4));
    assert_eq!((info.pending, info.subscription.purging_to()), (0, None));
    let mut counted = dropped(&world).into_iter();
    assert!(counted.any(|(reason, count)| reason == "Purged" && count > 0));
    world.assert_balanced("orders", "the-sub").await;
}
