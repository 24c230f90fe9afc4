//! More of section 6: in which order events are taken, how long a batch may take, and what an answer must be to say something about
//! single events.

use std::time::Duration;

use hedgerow_core::position::TopicId;
use serde_json::{Value, json};

use crate::world::{Meet, World, settings_without_probation};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A world with one subscription of batches of up to ten.
async fn batched(
    more: Value,
    script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static,
) -> (World, TopicId) {
    batched_with(json!({}), more, script).await
}

/// The same, with these properties of the destination.
async fn batched_with(
    properties: Value,
    more: Value,
    script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static,
) -> (World, TopicId) {
    let world = World::with_settings(settings_without_probation(), script);
    let topic = world.topic("orders").await;
    let (mut properties, mut declared) = (properties, more);
    properties["endpointUrl"] = json!("https://the-sub.example/hook");
    properties["maxEventsPerBatch"] = json!(10);
    declared["destination"] = json!({ "endpointType": "WebHook", "properties": properties });
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    (world, topic)
}

async fn publish_together(world: &World, topic: TopicId, ids: &[&str]) {
    world.pause("the-sub", true).await;
    world.publish(topic, ids).await;
    world.settle().await;
    world.pause("the-sub", false).await;
    world.settle().await;
}

/// ED-216: events are taken in the order of their due times, whichever was published first.
#[tokio::test(start_paused = true)]
async fn what_is_due_first_is_taken_first() {
    // 503 is tried again after 30 s, 500 after 10 s (section 4.3).
    let more = json!({ "maxConcurrency": 1 });
    let (world, topic) = batched_with(more, json!({}), |ids, attempt| match (ids, attempt) {
        ("first", 0) => Meet::status(503),
        ("second", 0) => Meet::status(500),
        ("slow", _) => Meet::late(200, 25),
        _ => Meet::status(200),
    })
    .await;
    for (at, id) in [(0, "first"), (5, "second"), (10, "slow")] {
        world.sleep_until(seconds(at)).await;
        world.publish(topic, &[id]).await;
    }
    // Both are due while the slow one takes the only place.
    world.sleep_until(seconds(40)).await;
    assert_eq!(
        world.seen_ids(),
        ["first", "second", "slow", "second,first"]
    );
    assert_eq!(world.seen()[3].at.as_secs(), 35);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-222: a batch has the 30 s of a single event, to the millisecond.
#[tokio::test(start_paused = true)]
async fn a_batch_has_thirty_seconds() {
    let (world, topic) = batched(json!({}), |_, _| Meet::Silence).await;
    publish_together(&world, topic, &["a", "b"]).await;
    let sent = world.seen()[0].at;
    for (at, failed) in [(30_000, 0), (30_002, 2)] {
        world.sleep_until(sent + Duration::from_millis(at)).await;
        world.settle().await;
        let metrics = world.metrics().subscriptions();
        assert_eq!(metrics[0].failed.sum(), failed, "after {at} ms");
    }
    let hold = world.info("orders", "the-sub").await;
    assert_eq!((hold.pending, hold.counters.delivered), (2, 0));
    assert_eq!(world.seen().len(), 1);
}

/// `batch.perEntryAcknowledgement`: only a body that is declared as JSON says something about single events; any other one is that
/// of a plain success (ED-175).
#[tokio::test(start_paused = true)]
async fn only_json_names_what_failed() {
    for (content_type, delivered) in [
        (Some("application/json; charset=utf-8"), 1),
        (Some("application/problem+json"), 1),
        (Some("Application/JSON"), 1),
        (Some("text/plain"), 2),
        (Some("application/jsonlines"), 2),
        (None, 2),
    ] {
        let more = json!({ "batch": { "perEntryAcknowledgement": true } });
        let (world, topic) = batched(more, move |_, _| Meet::Said {
            content_type,
            body: r#"{"batchItemFailures": [{"itemIdentifier": "b"}]}"#.to_owned(),
        })
        .await;
        publish_together(&world, topic, &["a", "b"]).await;
        let info = world.info("orders", "the-sub").await;
        assert_eq!(info.counters.delivered, delivered, "{content_type:?}");
        assert_eq!(info.pending, 2 - delivered, "{content_type:?}");
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// An answer that names events is a failure of these, counted and tried again as any other; one that names all of them is no success
/// of the endpoint, and ten such deliveries open a window (ED-236).
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_fails_every_event_is_no_healthy_one() {
    for (named, then) in [(10, 60), (9, 10)] {
        let more = json!({ "batch": { "perEntryAcknowledgement": true } });
        let (world, topic) = batched(more, move |_, _| {
            let failed = (0..named).map(|id| json!({ "itemIdentifier": id.to_string() }));
            Meet::Json {
                status: 200,
                body: json!({ "batchItemFailures": failed.collect::<Vec<_>>() }).to_string(),
            }
        })
        .await;
        let ids: Vec<_> = (0..10).map(|id| id.to_string()).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        publish_together(&world, topic, &ids).await;
        let info = world.info("orders", "the-sub").await;
        assert_eq!((info.counters.delivered, info.pending), (10 - named, named));
        let failed = &world.metrics().subscriptions()[0].failed;
        assert_eq!(failed.sum(), named);
        let sent = world.seen()[0].at;
        world.sleep_until(sent + seconds(then - 1)).await;
        assert_eq!(world.seen().len(), 1, "{named} named");
        world.sleep_until(sent + seconds(then + 1)).await;
        let again = &world.seen()[1];
        assert_eq!(again.delivery_count, 1, "{named} named");
        world.assert_balanced("orders", "the-sub").await;
    }
}
