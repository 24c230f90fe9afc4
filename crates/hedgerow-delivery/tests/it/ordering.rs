//! Order by key (FC-12): the events of one key one after the other, whatever happens in between; other keys wait for nobody.

use std::time::Duration;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::outcome::DeadLetterReason;
use hedgerow_core::position::TopicId;
use hedgerow_core::retry::Jitter;
use serde_json::json;

use crate::world::{Meet, World, event, settings_without_probation};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Ten events of each of two keys, interleaved: `A-1`, `B-1`, `A-2` …
async fn publish_two_keys(world: &World, topic: TopicId) {
    for number in 1..=10 {
        for key in ["A", "B"] {
            publish(world, topic, &format!("{key}-{number}"), key).await;
        }
    }
}

async fn publish(world: &World, topic: TopicId, id: &str, key: &str) {
    let event = Event {
        subject: Some(key.into()),
        data: Data::Json(format!(r#"{{"customer":{{"id":"{key}"}}}}"#).into()),
        ..event(id)
    };
    world.publish_event(topic, &event).await;
}

async fn ordered(world: &World, more: serde_json::Value) -> TopicId {
    let topic = world.topic("orders").await;
    let mut declared = more;
    declared["delayedDelivery"] = json!({"enabled": false});
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    topic
}

/// The numbers of the events of a key, in the order of the requests.
fn arrivals(world: &World, key: &str) -> Vec<u32> {
    let ids = world.seen_ids().into_iter();
    let ids = ids.flat_map(|ids| ids.split(',').map(str::to_owned).collect::<Vec<_>>());
    let of_key = ids.filter_map(|id| {
        let (of, number) = id.split_once('-')?;
        (of == key).then(|| number.parse().unwrap())
    });
    of_key.collect()
}

/// The third event of A fails twice, then it is accepted.
fn fails_twice(id: &str, attempt: usize) -> Meet {
    Meet::status(if id == "A-3" && attempt < 2 { 500 } else { 200 })
}

/// What FC-12 says is right.
fn assert_in_order(world: &World) {
    assert_eq!(arrivals(world, "A"), [1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(arrivals(world, "B"), (1..=10).collect::<Vec<_>>());
}

/// FC-12: nothing of a key is sent while an earlier event of it is unsettled, and another key finishes without waiting.
#[tokio::test(start_paused = true)]
async fn fc_12_a_key_waits_for_its_head_and_for_no_other() {
    for key in ["subject", "data.customer.id"] {
        let world = World::with_settings(settings_without_probation(), fails_twice);
        let topic = ordered(&world, json!({"ordering": {"key": key}})).await;
        let from = world.begun.elapsed();
        publish_two_keys(&world, topic).await;
        world.sleep_until(from + seconds(5)).await;
        assert_eq!(arrivals(&world, "A"), [1, 2, 3], "{key}");
        assert_eq!(arrivals(&world, "B").len(), 10, "B waits for nobody: {key}");
        world.sleep_until(from + seconds(100)).await;
        assert_in_order(&world);
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// FC-12, the variant with a restart: by a crash in the middle, and by a stop in order.
#[tokio::test(start_paused = true)]
async fn fc_12_the_order_holds_over_a_restart() {
    for crashes in [true, false] {
        let mut world = World::with_settings(settings_without_probation(), fails_twice);
        let topic = ordered(&world, json!({"ordering": {"key": "subject"}})).await;
        let from = world.begun.elapsed();
        publish_two_keys(&world, topic).await;
        world.sleep_until(from + seconds(5)).await;
        assert_eq!(arrivals(&world, "A"), [1, 2, 3]);
        if crashes {
            world.crash().await;
        } else {
            world.stop().await;
            world.start();
        }
        publish(&world, topic, "A-11", "A").await;
        world.sleep_until(from + seconds(8)).await;
        assert_eq!(arrivals(&world, "A"), [1, 2, 3], "crashes: {crashes}");
        world.sleep_until(from + seconds(100)).await;
        let expected = [1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        assert_eq!(arrivals(&world, "A"), expected, "crashes: {crashes}");
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// FC-12, ED-207: the head that a crash interrupts is tried again before anything behind it.
#[tokio::test(start_paused = true)]
async fn fc_12_a_head_in_flight_at_a_crash_stays_first() {
    let meet = |id: &str, attempt: usize| {
        if id == "A-1" && attempt == 0 {
            Meet::Silence
        } else {
            Meet::status(200)
        }
    };
    let mut world = World::with_settings(settings_without_probation(), meet);
    let topic = ordered(&world, json!({"ordering": {"key": "subject"}})).await;
    let from = world.begun.elapsed();
    for id in ["A-1", "A-2", "A-3"] {
        publish(&world, topic, id, "A").await;
    }
    world.sleep_until(from + seconds(3)).await;
    world.crash().await;
    world.sleep_until(from + seconds(20)).await;
    assert_eq!(arrivals(&world, "A"), [1]);
    world.sleep_until(from + seconds(100)).await;
    assert_eq!(arrivals(&world, "A"), [1, 1, 2, 3]);
    world.assert_balanced("orders", "the-sub").await;
}

/// FC-12: a head that fails for good ends, and the next one is sent.
#[tokio::test(start_paused = true)]
async fn fc_12_a_key_may_skip_what_fails_for_good() {
    for (status, reason, times) in [
        (400, DeadLetterReason::UndeliverableDueToHttpBadRequest, 1),
        (500, DeadLetterReason::MaxDeliveryAttemptsExceeded, 2),
    ] {
        let meet = move |id: &str, _: usize| Meet::status(if id == "A-3" { status } else { 200 });
        let world = World::with_settings(settings_without_probation(), meet);
        let more = json!({
            "ordering": {"key": "subject", "onFailure": "skip"},
            "retryPolicy": {"maxDeliveryAttempts": 2},
        });
        let topic = ordered(&world, more).await;
        let from = world.begun.elapsed();
        publish_two_keys(&world, topic).await;
        world.sleep_until(from + seconds(100)).await;
        let mut expected = vec![1, 2];
        expected.extend(vec![3; times]);
        expected.extend(4..=10);
        assert_eq!(arrivals(&world, "A"), expected, "{status}");
        let records = world.terminal_records().await;
        let ends: Vec<_> = records
            .iter()
            .map(|record| (record.event_id.as_str(), record.reason))
            .collect();
        assert_eq!(ends, [("A-3", reason)]);
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// FC-12: or it blocks: neither a final answer, nor the limit of attempts, nor the time to live ends the head.
#[tokio::test(start_paused = true)]
async fn fc_12_a_key_may_block_at_what_fails_for_good() {
    let meet = |id: &str, attempt: usize| {
        Meet::status(match (id, attempt) {
            ("A-3", 0..4) => 400,
            ("A-3", 4..8) => 500,
            _ => 200,
        })
    };
    let world = World::with_settings(settings_without_probation(), meet);
    let more = json!({
        "ordering": {"key": "subject", "onFailure": "block"},
        "retryPolicy": {"maxDeliveryAttempts": 2, "eventTimeToLiveInMinutes": 1},
    });
    let topic = ordered(&world, more).await;
    let from = world.begun.elapsed();
    publish_two_keys(&world, topic).await;
    world.sleep_until(from + seconds(3_000)).await;
    assert_eq!(arrivals(&world, "A")[..2], [1, 2]);
    assert!(arrivals(&world, "A")[2..].iter().all(|number| *number == 3));
    assert_eq!(arrivals(&world, "B").len(), 10);
    world.sleep_until(from + seconds(12_000)).await;
    let after = arrivals(&world, "A");
    assert_eq!(after[after.len() - 8..], [3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(after.iter().filter(|number| **number == 3).count(), 9);
    assert_eq!(world.terminal_records().await.len(), 0);
    world.assert_balanced("orders", "the-sub").await;
}

/// A batch has the events of one key, in their order, and one batch of a key is under way at a time.
#[tokio::test(start_paused = true)]
async fn a_batch_has_one_key() {
    let meet = |ids: &str, attempt: usize| {
        Meet::status(if ids.starts_with("A-1,") && attempt == 0 {
            503
        } else {
            200
        })
    };
    let world = World::with_settings(settings_without_probation(), meet);
    let properties = json!({"endpointUrl": "https://the-sub.example/hook", "maxEventsPerBatch": 4});
    let more = json!({
        "destination": {"endpointType": "WebHook", "properties": properties},
        "ordering": {"key": "subject"},
    });
    let topic = ordered(&world, more).await;
    world.pause("the-sub", true).await;
    publish_two_keys(&world, topic).await;
    world.settle().await;
    let from = world.begun.elapsed();
    world.pause("the-sub", false).await;
    world.sleep_until(from + seconds(5)).await;
    let seen = world.seen_ids();
    let of = |key: &str| {
        let of_key = seen.iter().filter(|ids| ids.starts_with(key));
        of_key.cloned().collect::<Vec<_>>()
    };
    assert_eq!(of("A"), ["A-1,A-2,A-3,A-4"]);
    assert_eq!(of("B"), ["B-1,B-2,B-3,B-4", "B-5,B-6,B-7,B-8", "B-9,B-10"]);
    world.sleep_until(from + seconds(100)).await;
    let expected = [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    assert_eq!(arrivals(&world, "A"), expected);
    world.assert_balanced("orders", "the-sub").await;
}

/// FC-12, ED-220: an event of a key that may not travel with the first one keeps those behind it, and is not passed.
#[tokio::test(start_paused = true)]
async fn a_batch_passes_no_event_of_its_key() {
    let world = World::with_settings(settings_without_probation(), |_, _| Meet::status(200));
    let mapping =
        json!({"name": "X-Subject", "type": "Dynamic", "properties": {"sourceField": "subject"}});
    let properties = json!({
        "endpointUrl": "https://the-sub.example/hook",
        "maxEventsPerBatch": 10,
        "deliveryAttributeMappings": [mapping],
    });
    let more = json!({
        "destination": {"endpointType": "WebHook", "properties": properties},
        "ordering": {"key": "data.customer.id"},
    });
    let topic = ordered(&world, more).await;
    world.pause("the-sub", true).await;
    for (id, subject) in [("A-1", "x"), ("A-2", "x"), ("A-3", "y"), ("A-4", "x")] {
        let event = Event {
            subject: Some(subject.into()),
            data: Data::Json(r#"{"customer":{"id":"A"}}"#.into()),
            ..event(id)
        };
        world.publish_event(topic, &event).await;
    }
    world.settle().await;
    world.pause("the-sub", false).await;
    world.settle().await;
    assert_eq!(world.seen_ids(), ["A-1,A-2", "A-3", "A-4"]);
    world.assert_balanced("orders", "the-sub").await;
}

/// FC-12, ED-219: events of a key that failed together are due at times of their own; each is sent at its time, or once the one
/// before is settled.
#[tokio::test(start_paused = true)]
async fn what_failed_together_is_sent_at_its_own_time() {
    let meet = |ids: &str, attempt: usize| {
        let is_first = ids.matches(',').count() == 3 && attempt == 0;
        Meet::status(if is_first { 500 } else { 200 })
    };
    let mut settings = settings_without_probation();
    settings.retry.jitter = Jitter::default();
    let world = World::with_settings(settings, meet);
    let properties =
        json!({"endpointUrl": "https://the-sub.example/hook", "maxEventsPerBatch": 10});
    let more = json!({
        "destination": {"endpointType": "WebHook", "properties": properties},
        "ordering": {"key": "subject"},
    });
    let topic = ordered(&world, more).await;
    world.pause("the-sub", true).await;
    for number in 1..=4 {
        publish(&world, topic, &format!("A-{number}"), "A").await;
    }
    world.settle().await;
    let from = world.begun.elapsed();
    world.pause("the-sub", false).await;
    world.sleep_until(from + seconds(15)).await;
    assert_eq!(arrivals(&world, "A"), [1, 2, 3, 4, 1, 2, 3, 4]);
    assert!(world.seen().len() > 2, "their times differ");
    world.assert_balanced("orders", "the-sub").await;
}

/// Design D2: what orders events is versioned by position. Events from before the declaration keep the order that they had.
#[tokio::test(start_paused = true)]
async fn the_order_is_versioned_by_position() {
    let meet = |id: &str, attempt: usize| {
        Meet::status(if id.ends_with("-1") && attempt == 0 {
            500
        } else {
            200
        })
    };
    let world = World::with_settings(settings_without_probation(), meet);
    let topic = ordered(&world, json!({})).await;
    let from = world.begun.elapsed();
    for id in ["A-1", "A-2"] {
        publish(&world, topic, id, "A").await;
    }
    world.settle().await;
    assert_eq!(arrivals(&world, "A"), [1, 2], "without order");
    ordered(&world, json!({"ordering": {"key": "subject"}})).await;
    for id in ["B-1", "B-2", "A-3"] {
        publish(&world, topic, id, &id[..1]).await;
    }
    world.settle().await;
    assert_eq!(
        arrivals(&world, "A"),
        [1, 2, 3],
        "A-1 is of the time before"
    );
    assert_eq!(arrivals(&world, "B"), [1]);
    ordered(&world, json!({})).await;
    publish(&world, topic, "B-3", "B").await;
    world.settle().await;
    assert_eq!(arrivals(&world, "B"), [1, 3], "B-3 is of the time after");
    world.sleep_until(from + seconds(100)).await;
    assert_eq!(arrivals(&world, "B"), [1, 3, 1, 2]);
    assert_eq!(arrivals(&world, "A"), [1, 2, 3, 1]);
    world.assert_balanced("orders", "the-sub").await;
}

/// An event without the key waits for nobody.
#[tokio::test(start_paused = true)]
async fn an_event_without_the_key_waits_for_nobody() {
    let meet =
        |id: &str, attempt: usize| Meet::status(if id == "a" && attempt == 0 { 500 } else { 200 });
    let world = World::with_settings(settings_without_probation(), meet);
    let topic = ordered(&world, json!({"ordering": {"key": "data.none"}})).await;
    world.publish(topic, &["a", "b"]).await;
    world.settle().await;
    assert_eq!(world.seen_ids(), ["a", "b"]);
    world.assert_balanced("orders", "the-sub").await;
}

/// A purge ends what waits in line too, and what comes after it goes on.
#[tokio::test(start_paused = true)]
async fn a_purge_ends_lines() {
    let meet = |id: &str, _: usize| Meet::status(if id == "A-1" { 500 } else { 200 });
    let world = World::with_settings(settings_without_probation(), meet);
    let topic = ordered(&world, json!({"ordering": {"key": "subject"}})).await;
    for id in ["A-1", "A-2"] {
        publish(&world, topic, id, "A").await;
    }
    world.settle().await;
    let purge = |answer| hedgerow_delivery::command::Command::PurgeSubscription {
        topic: "orders".to_owned(),
        name: "the-sub".to_owned(),
        answer,
    };
    let report = world.handle.ask(purge).await.unwrap();
    assert_eq!(report.dropped, 2);
    publish(&world, topic, "A-3", "A").await;
    world.settle().await;
    assert_eq!(arrivals(&world, "A"), [1, 3]);
    world.assert_balanced("orders", "the-sub").await;
}
