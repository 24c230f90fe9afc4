//! What is counted (ED-299 to ED-301), and that every event is accounted for (FC-06).

#![allow(clippy::float_cmp)] // They are whole numbers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::outcome::DeadLetterReason;
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::Command;
use hedgerow_delivery::metrics::{AttemptError, SubscriptionMetrics};
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::history::{History, HistoryNext, HistoryOptions};
use serde_json::json;

use crate::world::{Meet, START_MS, World, settings};

fn of(world: &World, name: &str) -> Arc<SubscriptionMetrics> {
    let all = world.metrics().subscriptions();
    all.into_iter()
        .find(|one| one.names.subscription == name)
        .unwrap()
}

/// A status of the table is in the attempts of both subscriptions, with what follows it.
async fn assert_remembered(
    world: &World,
    (status, reason, wait): (u16, Option<DeadLetterReason>, u64),
) {
    let attempts = world
        .handle
        .attempts_where(status.to_string(), 10, |_| true)
        .await;
    let records = attempts.unwrap().records;
    assert_eq!(records.len(), 2, "{status} is in the attempts of both");
    for record in records {
        assert_eq!(record.status, status);
        match (record.next, reason) {
            (HistoryNext::Dead(found), Some(reason)) => {
                assert_eq!((found, &*record.subscription_name), (reason, "without"));
            }
            (HistoryNext::DeadLetter(found, _), Some(reason)) => {
                assert_eq!((found, &*record.subscription_name), (reason, "with"));
            }
            (HistoryNext::Due(due), None) => {
                let waits = due.since(record.ended);
                assert!(
                    waits >= Duration::from_secs(wait),
                    "{status} waits {waits:?}"
                );
            }
            other => panic!("{status}: {other:?}"),
        }
    }
}

/// FC-06: final statuses end at once and are in the dead-letter store if there is one, and in every case in the attempts and
/// in a counter; the others wait at least their minimum. published = delivered + dead-lettered + dropped + pending.
#[tokio::test(start_paused = true)]
async fn fc_06_every_status_is_accounted_for() {
    // Status, reason if it is final, else the least wait in seconds (ED section 4.3).
    let table = [
        (
            400,
            Some(DeadLetterReason::UndeliverableDueToHttpBadRequest),
            0,
        ),
        (
            401,
            Some(DeadLetterReason::UndeliverableDueToHttpUnauthorized),
            0,
        ),
        (
            403,
            Some(DeadLetterReason::UndeliverableDueToHttpForbidden),
            0,
        ),
        (404, None, 300),
        (408, None, 120),
        (
            413,
            Some(DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge),
            0,
        ),
        (429, None, 10),
        (500, None, 10),
        (503, None, 30),
    ];
    let meet = |id: &str, _: usize| Meet::status(id.parse().unwrap_or(200));
    let clock = || Timestamp::from_millis(START_MS);
    let options = HistoryOptions {
        disk_reserve_bytes: 0,
        ..HistoryOptions::default()
    };
    let history = History::start(FaultyDisk::new(6).mount(), options, Arc::new(clock));
    let world = World::with_history(settings(), Some(history.handle()), meet);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "without", json!({}))
        .await
        .unwrap();
    let destination = json!({
        "deadLetterDestination": {
            "endpointType": "LocalDirectory", "properties": { "path": "letters" },
        },
    });
    world
        .subscribe("orders", "with", destination)
        .await
        .unwrap();
    let ids = table.map(|(status, ..)| status.to_string());
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    world.publish(topic, &ids).await;
    world.settle().await;

    for row in table {
        assert_remembered(&world, row).await;
    }
    let check =
        async |delivered: u64, dead_lettered: u64, dropped: u64, pending: u64, name: &str| {
            let info = world.info("orders", name).await;
            let counters = info.counters;
            let found = (
                counters.delivered,
                counters.dead_lettered,
                counters.dropped,
                info.pending,
            );
            assert_eq!(
                found,
                (delivered, dead_lettered, dropped, pending),
                "{name}"
            );
            assert_eq!(counters.matched, 9, "{name}");
            world.assert_balanced("orders", name).await;
        };
    check(0, 0, 4, 5, "without").await;
    // ED-301: counted when it is written.
    check(0, 0, 0, 9, "with").await;
    assert_eq!(of(&world, "with").dead_lettered.sum(), 0);
    world.sleep_until(Duration::from_secs(301)).await;
    check(0, 4, 0, 5, "with").await;

    let (with, without) = (of(&world, "with"), of(&world, "without"));
    assert_eq!((with.matched(), without.matched()), (9, 9));
    let reasons: BTreeMap<_, _> = with.dead_lettered.counts().into_iter().collect();
    for (_, reason, _) in table {
        if let Some(reason) = reason {
            assert_eq!(reasons.get(reason.as_str()), Some(&1));
        }
    }
    assert_eq!(without.dropped.counts(), [("NoDeadLetterDestination", 4)]);
    let failed: BTreeMap<_, _> = without.failed.counts().into_iter().collect();
    assert_eq!(failed[&AttemptError::Status(400)], 1);
    assert!(failed[&AttemptError::Status(500)] > 1);
}

/// A success that comes late is one delivery, and the attempt before it was a failure; what takes long is seen in the
/// latency.
#[tokio::test(start_paused = true)]
async fn a_late_success_is_counted_once() {
    let world = World::new(|_, attempt| Meet::late(200, if attempt == 0 { 40 } else { 60 }));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["late"]).await;
    world.sleep_until(Duration::from_secs(600)).await;
    let metrics = of(&world, "the-sub");
    assert_eq!((metrics.matched(), metrics.delivered()), (1, 1));
    let timed_out = AttemptError::Outcome("TimedOut");
    assert_eq!(metrics.failed.counts(), [(timed_out, 1)]);
    assert_eq!(metrics.latency.snapshot().sum, 40.0);
    assert_eq!(metrics.processing.snapshot().sum, 40_000.0);
    assert_eq!(metrics.attempts.snapshot().sum, 1.0);
}

/// An event that no filter wants is counted, whether there are subscriptions or not.
#[tokio::test(start_paused = true)]
async fn events_that_nobody_wants_are_counted() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    world.publish(topic, &["a", "b"]).await;
    let never = json!({ "filter": { "subjectBeginsWith": "no" } });
    world.subscribe("orders", "never", never).await.unwrap();
    world.publish(topic, &["c"]).await;
    world.subscribe("orders", "all", json!({})).await.unwrap();
    world.publish(topic, &["d", "e"]).await;
    world.settle().await;
    let topics = world.metrics().topics();
    let unmatched = topics[0]
        .unmatched
        .load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((topics[0].name.as_str(), unmatched), ("orders", 3));
}

/// After the store was opened again in the same process, what is offered again is not counted again.
#[tokio::test(start_paused = true)]
async fn opening_the_store_again_counts_nothing_twice() {
    let mut world = World::new(|_, _| Meet::late(200, 5));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["a", "b"]).await;
    world.settle().await;
    world.reopen().await;
    world.sleep_until(Duration::from_secs(60)).await;
    let metrics = of(&world, "the-sub");
    assert_eq!((metrics.matched(), metrics.delivered()), (2, 2));
    // The attempts that ended with the store.
    let aborted = AttemptError::Outcome("Aborted");
    assert_eq!(metrics.failed.counts(), [(aborted, 2)]);
}

/// A look at every subscription takes part after part, and scans the view only for those with something to tell: of the
/// others it costs a page of numbers.
#[tokio::test(start_paused = true)]
async fn a_scrape_scans_nothing_for_idle_subscriptions() {
    const SUBSCRIPTIONS: usize = 600;
    let world = World::new(|id, _| Meet::status(if id == "bad" { 400 } else { 200 }));
    let topic = world.topic("orders").await;
    let filter = json!({ "subjectBeginsWith": "/bills" });
    let letters = json!({ "endpointType": "LocalDirectory", "properties": { "path": "letters" } });
    for n in 0..SUBSCRIPTIONS {
        let more = json!({ "filter": filter, "deadLetterDestination": letters });
        let name = format!("idle-{n}");
        world.subscribe("orders", &name, more).await.unwrap();
    }
    let more = json!({ "deadLetterDestination": letters });
    world.subscribe("orders", "busy", more).await.unwrap();
    world.publish(topic, &["good", "bad"]).await;
    world.settle().await;
    let before = world.scans();
    let gauges = world.handle.gauges().await.unwrap();
    let scans = world.scans() - before;
    assert!(scans <= 1, "{scans} scans");
    assert_eq!(gauges.len(), SUBSCRIPTIONS + 1);
    assert!(gauges.is_sorted_by_key(|one| one.subscription));
    let busy = gauges.last().unwrap();
    assert_eq!(busy.pending_dead_letters, 1);
    assert_eq!((busy.load.pending, busy.load.counters.delivered), (1, 1));
    let from = None;
    let page = world.handle.ask(|answer| Command::Gauges { from, answer });
    let page = page.await.unwrap();
    assert_eq!(page.gauges.len(), 256);
    assert!(page.next.is_some());
}
