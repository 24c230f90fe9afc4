//! Events that travel together (ED-211 to ED-223): what is in a request, and what its answer means for each event.

use std::time::Duration;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::TopicId;
use hedgerow_delivery::command::Command;
use serde_json::json;

use crate::shelf::Reading;
use crate::world::{Meet, Seen, World, event, settings, settings_without_probation};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A destination of this name with these members of its properties, and others of the declaration.
fn batched(name: &str, limits: serde_json::Value, more: serde_json::Value) -> serde_json::Value {
    let mut properties = limits;
    properties["endpointUrl"] = json!(format!("https://{name}.example/hook"));
    let mut declared = more;
    declared["destination"] = json!({"endpointType": "WebHook", "properties": properties});
    declared
}

/// A world with one subscription whose events travel together.
async fn world_of(
    world: World,
    limits: serde_json::Value,
    more: serde_json::Value,
) -> (World, TopicId) {
    let topic = world.topic("orders").await;
    let declared = batched("the-sub", limits, more);
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    (world, topic)
}

/// Ids and delivery counts, in the order of the requests.
fn requests(world: &World) -> Vec<(String, u32)> {
    let seen = world.seen().into_iter();
    seen.map(|seen| (seen.event_id, seen.delivery_count))
        .collect()
}

/// The seconds since `from` of each request.
fn times(world: &World, from: Duration) -> Vec<(String, u64)> {
    let seen = world.seen().into_iter();
    seen.map(|seen| (seen.event_id, (seen.at - from).as_secs()))
        .collect()
}

/// Pauses, publishes and resumes, so that all of them are due together.
async fn publish_together(world: &World, topic: TopicId, ids: &[&str]) {
    world.pause("the-sub", true).await;
    world.publish(topic, ids).await;
    world.settle().await;
    world.pause("the-sub", false).await;
    world.settle().await;
}

/// ED-132, ED-139, ED-212, ED-216: what is due travels together, up to the count, in the form of a batch.
#[tokio::test(start_paused = true)]
async fn events_that_are_due_together_travel_together() {
    let world = World::new(|_, _| Meet::status(200));
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 3}), json!({})).await;
    publish_together(&world, topic, &["a", "b", "c", "d"]).await;
    assert_eq!(
        requests(&world),
        [("a,b,c".to_owned(), 0), ("d".to_owned(), 0)]
    );
    let seen = world.seen();
    let header = |seen: &Seen, name: &str| seen.headers.get(name).cloned();
    for (seen, size) in seen.iter().zip(["3", "1"]) {
        assert_eq!(header(seen, "hedgerow-batch-size").as_deref(), Some(size));
        assert_eq!(header(seen, "aeg-output-event-id"), None);
        assert_eq!(header(seen, "aeg-data-version").as_deref(), Some("1.0"));
    }
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (4, 0));
    // Nobody waits for a batch to fill.
    world.publish(topic, &["e"]).await;
    world.settle().await;
    assert_eq!(requests(&world)[2], ("e".to_owned(), 0));
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-131, ED-132: the content types of both forms; ED-217: a count of one is a batch too.
#[tokio::test(start_paused = true)]
async fn a_batch_of_cloud_events_has_its_content_type() {
    let world = World::new(|_, _| Meet::status(200));
    let more = json!({"eventDeliverySchema": "CloudEventSchemaV1_0"});
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 1}), more).await;
    publish_together(&world, topic, &["a", "b"]).await;
    assert_eq!(requests(&world).len(), 2);
    for seen in world.seen() {
        let content = &seen.headers["content-type"];
        assert_eq!(content, "application/cloudevents-batch+json; charset=utf-8");
        assert!(seen.body.starts_with("[{\"specversion\""), "{}", seen.body);
    }
}

/// ED-139: what is not equal for all is not sent.
#[tokio::test(start_paused = true)]
async fn a_data_version_is_sent_if_all_have_it() {
    let world = World::new(|_, _| Meet::status(200));
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 3}), json!({})).await;
    world.pause("the-sub", true).await;
    for (id, version) in [("a", "1.0"), ("b", "2.0")] {
        let event = Event {
            data_version: Some(version.into()),
            ..event(id)
        };
        world.publish_event(topic, &event).await;
    }
    world.pause("the-sub", false).await;
    world.settle().await;
    let seen = &world.seen()[0];
    assert_eq!(seen.event_id, "a,b");
    assert!(!seen.headers.contains_key("aeg-data-version"));
    assert_eq!(seen.headers["aeg-metadata-version"], "1");
}

/// ED-213 to ED-215: the body keeps the preferred size, and an event that is larger goes alone.
#[tokio::test(start_paused = true)]
async fn an_event_above_the_preferred_size_goes_alone() {
    let world = World::new(|_, _| Meet::status(200));
    let limits = json!({"preferredBatchSizeInKilobytes": 4});
    let (world, topic) = world_of(world, limits, json!({})).await;
    world.pause("the-sub", true).await;
    for (id, bytes) in [
        ("a", 1_000),
        ("b", 1_000),
        ("big", 10_000),
        ("c", 1_000),
        ("d", 3_500),
    ] {
        let event = Event {
            data: Data::Json(format!("\"{}\"", "x".repeat(bytes)).into()),
            ..event(id)
        };
        world.publish_event(topic, &event).await;
    }
    world.pause("the-sub", false).await;
    world.settle().await;
    let mut ids: Vec<_> = requests(&world).into_iter().map(|(ids, _)| ids).collect();
    // They are begun in their order and travel beside each other, so a large one arrives later.
    ids.sort_unstable();
    assert_eq!(ids, ["a,b", "big", "c", "d"]);
    for seen in world.seen().iter().filter(|seen| seen.event_id != "big") {
        assert!(
            seen.body.len() <= 4_096,
            "{}: {}",
            seen.event_id,
            seen.body.len()
        );
    }
}

/// ED-216: where the endpoint takes several at once they are made in a row, and what does not fill another one is not forgotten.
#[tokio::test(start_paused = true)]
async fn a_row_of_batches_leaves_nothing_behind() {
    let world = World::new(|_, _| Meet::late(200, 1));
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 3}), json!({})).await;
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    publish_together(&world, topic, &ids).await;
    let from = world.seen()[0].at;
    world.sleep_until(from + seconds(5)).await;
    let expected = ["a,b,c", "d,e,f", "g,h,i", "j"];
    assert_eq!(
        requests(&world),
        expected.map(|ids| (ids.to_owned(), 0)),
        "each full but the last, in their order"
    );
    assert!(
        times(&world, from).iter().all(|(_, at)| *at == 0),
        "together"
    );
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (10, 0));
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-218 to ED-220: one status decides for all, each event follows its own schedule, and attempt counts are never mixed.
#[tokio::test(start_paused = true)]
async fn a_failed_batch_is_one_attempt_of_each_event() {
    let world = World::with_settings(settings_without_probation(), |ids, attempt| {
        match (ids, attempt) {
            ("slow", _) => Meet::late(200, 25),
            (_, 0) => Meet::status(503),
            _ => Meet::status(200),
        }
    });
    let limits = json!({"maxEventsPerBatch": 10, "maxConcurrency": 1});
    let (world, topic) = world_of(world, limits, json!({})).await;
    publish_together(&world, topic, &["a", "b"]).await;
    let from = world.seen()[0].at;
    world.sleep_until(from + seconds(10)).await;
    world.publish(topic, &["slow"]).await;
    // It becomes due while there is no place, and so do the others' second attempts, at 30 s.
    world.sleep_until(from + seconds(20)).await;
    world.publish(topic, &["c"]).await;
    world.sleep_until(from + seconds(100)).await;
    let expected = [("a,b", 0), ("slow", 0), ("c", 0), ("a,b", 1), ("c", 1)];
    assert_eq!(
        requests(&world),
        expected.map(|(ids, count)| (ids.to_owned(), count))
    );
    let at: Vec<_> = times(&world, from).into_iter().map(|(_, at)| at).collect();
    assert_eq!(at, [0, 10, 35, 35, 65]);
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (4, 0));
    let metrics = world.metrics().subscriptions();
    let failed = &metrics[0].failed;
    assert_eq!(failed.sum(), 3, "ED-299: events, not requests");
    assert_eq!(
        metrics[0].processing.snapshot().count,
        3,
        "ED-300: attempts"
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-219: the time to live and the attempt limit are each event's own.
#[tokio::test(start_paused = true)]
async fn each_event_of_a_batch_ends_by_its_own_limits() {
    let world = World::with_settings(settings_without_probation(), |_, _| Meet::status(500));
    let more = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), more).await;
    let from = world.begun.elapsed();
    world.pause("the-sub", true).await;
    world.publish(topic, &["old"]).await;
    world.sleep_until(from + seconds(40)).await;
    world.publish(topic, &["new"]).await;
    world.pause("the-sub", false).await;
    world.sleep_until(from + seconds(300)).await;
    let seen = times(&world, from);
    let expected = [("old,new", 40), ("old,new", 50), ("new", 70)];
    assert_eq!(seen, expected.map(|(ids, at)| (ids.to_owned(), at)));
    let records = world.terminal_records().await;
    let ends: Vec<_> = records
        .iter()
        .map(|record| {
            (
                record.event_id.as_str(),
                record.progress.map(|one| one.attempts),
            )
        })
        .collect();
    assert_eq!(ends, [("old", Some(2)), ("new", Some(3))]);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-221: a final answer ends every event of a batch, each with its own terminal record.
#[tokio::test(start_paused = true)]
async fn a_final_answer_ends_every_event() {
    let world = World::new(|_, _| Meet::status(400));
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), json!({})).await;
    publish_together(&world, topic, &["a", "b", "c"]).await;
    assert_eq!(requests(&world), [("a,b,c".to_owned(), 0)]);
    let records = world.terminal_records().await;
    let ends: Vec<_> = records
        .iter()
        .map(|record| {
            let attempts = record.progress.map(|progress| progress.attempts);
            (record.event_id.as_str(), record.reason, attempts)
        })
        .collect();
    let reason = DeadLetterReason::UndeliverableDueToHttpBadRequest;
    let expected = ["a", "b", "c"].map(|id| (id, reason, Some(1)));
    assert_eq!(ends, expected);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-221: with `batch.isolateOnFinal` one poison event takes nobody with it, and the attempt of the batch is not counted.
#[tokio::test(start_paused = true)]
async fn one_poison_event_is_isolated() {
    let world = World::new(|ids, _| Meet::status(if ids.contains("poison") { 400 } else { 200 }));
    let more = json!({"batch": {"isolateOnFinal": true}});
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), more).await;
    publish_together(&world, topic, &["a", "poison", "c"]).await;
    let mut seen = requests(&world);
    seen[1..].sort();
    let expected = [("a,poison,c", 0), ("a", 0), ("c", 0), ("poison", 0)];
    assert_eq!(seen, expected.map(|(ids, count)| (ids.to_owned(), count)));
    let records = world.terminal_records().await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].event_id, "poison");
    let attempts = records[0].progress.map(|progress| progress.attempts);
    assert_eq!(attempts, Some(1), "the batch is not counted");
    let failed = world.metrics().subscriptions()[0].failed.sum();
    assert_eq!(failed, 1);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-221: with `batch.splitOn413` a batch is halved until what is left fits; a single event that does not is final.
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_too_large_is_halved() {
    let world = World::new(|ids, _| {
        let count = ids.split(',').count();
        Meet::status(if count > 2 || ids == "huge" || ids.contains(",huge") {
            413
        } else {
            200
        })
    });
    let more = json!({"batch": {"splitOn413": true}});
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), more).await;
    publish_together(&world, topic, &["a", "b", "c", "d", "huge"]).await;
    let mut seen = requests(&world);
    assert_eq!(seen[0], ("a,b,c,d,huge".to_owned(), 0));
    seen[1..].sort();
    let expected = [
        "a,b,c,d,huge",
        "a,b",
        "c",
        "c,d,huge",
        "d",
        "d,huge",
        "huge",
    ];
    let mut expected: Vec<_> = expected.map(|ids| (ids.to_owned(), 0)).to_vec();
    expected[1..].sort();
    // The part of five is 2 and 3, that of three 1 and 2, that of two 1 and 1.
    assert_eq!(seen, expected);
    let records = world.terminal_records().await;
    let ends: Vec<_> = records
        .iter()
        .map(|record| record.event_id.as_str())
        .collect();
    assert_eq!(ends, ["huge"]);
    assert_eq!(
        records[0].reason,
        DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-221: the parts of a batch that came apart stay apart over a crash.
#[tokio::test(start_paused = true)]
async fn parts_stay_apart_over_a_crash() {
    let world = World::new(|ids, _| match ids.split(',').count() {
        1..=2 => Meet::status(200),
        // Answered while the subscription is paused: nothing starts before the crash.
        _ => Meet::late(413, 5),
    });
    let more = json!({"batch": {"splitOn413": true}});
    let (mut world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), more).await;
    publish_together(&world, topic, &["a", "b", "c", "d"]).await;
    world.pause("the-sub", true).await;
    world.sleep_until(world.begun.elapsed() + seconds(6)).await;
    assert_eq!(requests(&world).len(), 1);
    world.crash().await;
    world.pause("the-sub", false).await;
    world.settle().await;
    let mut seen = requests(&world);
    seen[1..].sort();
    let expected = [("a,b,c,d", 0), ("a,b", 0), ("c,d", 0)];
    assert_eq!(seen, expected.map(|(ids, count)| (ids.to_owned(), count)));
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-221, ED-228: and when a hold moves them, over a crash too.
#[tokio::test(start_paused = true)]
async fn parts_stay_apart_when_a_hold_moves_them() {
    let world = World::new(|ids, attempt| match (ids.split(',').count(), attempt) {
        (1..=2, _) => Meet::status(200),
        (_, 0) => Meet::status(500),
        _ => Meet::late(413, 5),
    });
    let more = json!({"batch": {"splitOn413": true}});
    let (mut world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), more).await;
    publish_together(&world, topic, &["a", "b", "c", "d"]).await;
    let begun = world.begun.elapsed();
    // The second attempt is at 10 s, and is answered at 15 s.
    world.sleep_until(begun + seconds(12)).await;
    world.pause("the-sub", true).await;
    world.sleep_until(begun + seconds(17)).await;
    world.pause("the-sub", false).await;
    world.settle().await;
    // The next slot is at 30 s.
    assert_eq!(requests(&world).len(), 2);
    world.crash().await;
    world.sleep_until(begun + seconds(31)).await;
    let mut seen = requests(&world);
    seen[2..].sort();
    let expected = [("a,b,c,d", 0), ("a,b,c,d", 1), ("a,b", 1), ("c,d", 1)];
    assert_eq!(seen, expected.map(|(ids, count)| (ids.to_owned(), count)));
    world.assert_balanced("orders", "the-sub").await;
}

/// A success that names events which failed: these are tried again, the others are delivered.
#[tokio::test(start_paused = true)]
async fn a_success_may_name_what_failed() {
    let world = World::with_settings(settings_without_probation(), |ids, attempt| {
        if attempt == 0 && ids.contains(',') {
            let body =
                r#"{"batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "d"}]}"#;
            Meet::Json {
                status: 200,
                body: body.to_owned(),
            }
        } else {
            Meet::status(200)
        }
    });
    let more = json!({"batch": {"perEntryAcknowledgement": true}});
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), more).await;
    let from = world.begun.elapsed();
    publish_together(&world, topic, &["a", "b", "c", "d"]).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (2, 2));
    world.sleep_until(from + seconds(11)).await;
    let seen = times(&world, from);
    let expected = [("a,b,c,d", 0), ("b,d", 10)];
    assert_eq!(seen, expected.map(|(ids, at)| (ids.to_owned(), at)));
    world.assert_balanced("orders", "the-sub").await;
}

/// A bad answer settles nothing: whatever is not clear is sent again. Without the setting the body of a success is ignored
/// (ED-175).
#[tokio::test(start_paused = true)]
async fn a_bad_answer_settles_nothing() {
    let bad = r#"{"batchItemFailures": [{"itemIdentifier": "nobody"}]}"#;
    for (is_on, delivered) in [(true, 0), (false, 2)] {
        let world = World::new(move |_, _| Meet::Json {
            status: 200,
            body: bad.to_owned(),
        });
        let more = json!({"batch": {"perEntryAcknowledgement": is_on}});
        let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), more).await;
        publish_together(&world, topic, &["a", "b"]).await;
        let info = world.info("orders", "the-sub").await;
        assert_eq!(info.counters.delivered, delivered);
        assert_eq!(info.pending, 2 - delivered);
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// ED-178, ED-222: the timeout of a batch is the same, and a late success settles the whole batch.
#[tokio::test(start_paused = true)]
async fn a_late_success_settles_the_whole_batch() {
    let world = World::new(|_, attempt| {
        if attempt == 0 {
            Meet::late(200, 45)
        } else {
            Meet::Silence
        }
    });
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), json!({})).await;
    let from = world.begun.elapsed();
    publish_together(&world, topic, &["a", "b", "c"]).await;
    world.sleep_until(from + seconds(31)).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (0, 3));
    world.sleep_until(from + seconds(46)).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (3, 0));
    world.sleep_until(from + seconds(1_000)).await;
    assert_eq!(requests(&world), [("a,b,c".to_owned(), 0)]);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-178: the retry that is in flight when the late success comes is left to finish, and decides nothing.
#[tokio::test(start_paused = true)]
async fn a_late_success_beside_a_retry_in_flight() {
    let world = World::with_settings(settings_without_probation(), |_, attempt| {
        if attempt == 0 {
            Meet::late(200, 80)
        } else {
            Meet::late(500, 25)
        }
    });
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), json!({})).await;
    let from = world.begun.elapsed();
    publish_together(&world, topic, &["a", "b"]).await;
    world.sleep_until(from + seconds(1_000)).await;
    let seen = times(&world, from);
    let expected = [("a,b", 0), ("a,b", 60)];
    assert_eq!(seen, expected.map(|(ids, at)| (ids.to_owned(), at)));
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (2, 0));
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-207: a crash counts each event of a batch that was in flight.
#[tokio::test(start_paused = true)]
async fn a_crash_counts_each_event_of_a_batch() {
    let world = World::new(|_, attempt| {
        if attempt == 0 {
            Meet::Silence
        } else {
            Meet::status(200)
        }
    });
    let (mut world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), json!({})).await;
    let from = world.begun.elapsed();
    publish_together(&world, topic, &["a", "b"]).await;
    world.sleep_until(from + seconds(3)).await;
    world.crash().await;
    world.sleep_until(from + seconds(40)).await;
    assert_eq!(
        requests(&world),
        [("a,b".to_owned(), 0), ("a,b".to_owned(), 1)]
    );
    assert_eq!(times(&world, from)[1].1, 30);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-324: the lone trial is one event in one request, in the form of a batch; its success lets the others start together.
#[tokio::test(start_paused = true)]
async fn the_lone_trial_is_one_event() {
    let world = World::new(|ids, attempt| {
        if ids.starts_with("first") && attempt == 0 {
            Meet::status(503)
        } else {
            Meet::status(200)
        }
    });
    let more = json!({"probation": {"threshold": 1}});
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), more).await;
    let from = world.begun.elapsed();
    world.publish(topic, &["first"]).await;
    world.settle().await;
    world.publish(topic, &["a", "b", "c"]).await;
    world.sleep_until(from + seconds(9)).await;
    assert_eq!(requests(&world).len(), 1, "on probation");
    world.sleep_until(from + seconds(11)).await;
    let seen = times(&world, from);
    let expected = [("first", 0), ("a", 10), ("b,c", 10)];
    assert_eq!(seen, expected.map(|(ids, at)| (ids.to_owned(), at)));
    assert_eq!(world.seen()[1].headers["hedgerow-batch-size"], "1");
    assert!(world.seen()[1].body.starts_with('['));
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-324: many batches in flight that all hang begin one probation with n = 1.
#[tokio::test(start_paused = true)]
async fn many_batches_that_hang_begin_one_probation() {
    let mut settings = settings();
    settings.credits.start = 64;
    let world = World::with_settings(settings, |_, _| Meet::Silence);
    let more = json!({"delayedDelivery": {"enabled": false}});
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 2}), more).await;
    let from = world.begun.elapsed();
    let ids: Vec<String> = (0..128).map(|id| id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    publish_together(&world, topic, &ids).await;
    assert_eq!(world.seen().len(), 64);
    world.sleep_until(from + seconds(31)).await;
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!((hold.cause, hold.level), (Some(Outcome::TimedOut), 1));
    world.sleep_until(from + seconds(39)).await;
    let hold = world.info("orders", "the-sub").await.hold;
    assert_eq!(hold.level, 1);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-236: ten deliveries that fail open a window, in however many requests they travel.
#[tokio::test(start_paused = true)]
async fn ten_failed_deliveries_of_one_batch_open_a_window() {
    let world = World::new(|_, _| Meet::status(500));
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), json!({})).await;
    let from = world.begun.elapsed();
    let ids: Vec<String> = (0..10).map(|id| id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    publish_together(&world, topic, &ids).await;
    world.sleep_until(from + seconds(59)).await;
    assert_eq!(world.seen().len(), 1);
    world.sleep_until(from + seconds(61)).await;
    let seen = requests(&world);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1], ("0".to_owned(), 1), "the lone trial");
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-189: a stop puts back what is being gathered, and ends what is in flight.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_batches_in_flight() {
    let mut settings = settings();
    settings.drain = Duration::ZERO;
    let world = World::with_settings(settings, |_, attempt| {
        if attempt == 0 {
            Meet::Silence
        } else {
            Meet::status(200)
        }
    });
    let (mut world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), json!({})).await;
    publish_together(&world, topic, &["a", "b"]).await;
    world.stop().await;
    world.start();
    world.settle().await;
    assert_eq!(
        requests(&world),
        [("a,b".to_owned(), 0), ("a,b".to_owned(), 1)]
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-220: events with different custom headers never share a request, and who is passed over goes next.
#[tokio::test(start_paused = true)]
async fn resolved_headers_are_never_mixed() {
    let world = World::new(|_, _| Meet::status(200));
    let limits = json!({
        "maxEventsPerBatch": 10,
        "deliveryAttributeMappings": [
            {"name": "x-amount", "type": "Dynamic", "properties": {"sourceField": "data.amount"}},
            {"name": "x-key", "type": "Static", "properties": {"value": "k"}},
        ],
    });
    let (world, topic) = world_of(world, limits, json!({})).await;
    world.pause("the-sub", true).await;
    for (id, data) in [
        ("a", r#"{"amount": "1"}"#),
        ("b", r#"{"amount": "2"}"#),
        ("c", r#"{"amount": "1"}"#),
        ("d", "{}"),
        ("e", r#"{"amount": "2"}"#),
    ] {
        let event = Event {
            data: Data::Json(data.into()),
            ..event(id)
        };
        world.publish_event(topic, &event).await;
    }
    world.pause("the-sub", false).await;
    world.settle().await;
    let seen = world.seen();
    let seen: Vec<_> = seen
        .iter()
        .map(|seen| {
            let header = |name: &str| seen.headers.get(name).map(String::as_str);
            (&*seen.event_id, header("x-amount"), header("x-key"))
        })
        .collect();
    let key = Some("k");
    assert_eq!(
        seen,
        [
            ("a,c", Some("1"), key),
            ("b,e", Some("2"), key),
            ("d", None, key)
        ]
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-220, ED-207: who is passed over is not forgotten by a crash, although what came behind it has started.
#[tokio::test(start_paused = true)]
async fn who_is_passed_over_outlives_a_crash() {
    let world = World::new(|id, attempt| {
        if attempt == 0 && id != "b" {
            Meet::Silence
        } else {
            Meet::status(200)
        }
    });
    let limits = json!({
        "maxEventsPerBatch": 10,
        "maxConcurrency": 1,
        "deliveryAttributeMappings": [
            {"name": "x-amount", "type": "Dynamic", "properties": {"sourceField": "data.amount"}},
        ],
    });
    let (mut world, topic) = world_of(world, limits, json!({})).await;
    world.pause("the-sub", true).await;
    for (id, data) in [
        ("a", r#"{"amount": "1"}"#),
        ("b", r#"{"amount": "2"}"#),
        ("c", r#"{"amount": "1"}"#),
    ] {
        let event = Event {
            data: Data::Json(data.into()),
            ..event(id)
        };
        world.publish_event(topic, &event).await;
    }
    world.pause("the-sub", false).await;
    world.settle().await;
    assert_eq!(requests(&world), [("a,c".to_owned(), 0)]);
    world.crash().await;
    world
        .sleep_until(world.begun.elapsed() + seconds(120))
        .await;
    let mut seen = requests(&world);
    seen.sort();
    assert_eq!(
        seen,
        [
            ("a,c".to_owned(), 0),
            ("a,c".to_owned(), 1),
            ("b".to_owned(), 0)
        ]
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// What is being made into a batch when its subscription is paused goes back in line: it is counted as pending, nothing of it is
/// sent or counted as an attempt, and it goes out when the subscription is resumed.
#[tokio::test(start_paused = true)]
async fn a_pause_puts_back_what_is_being_gathered() {
    let world = World::new(|_, _| Meet::status(200));
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), json!({})).await;
    world.shelf.set(topic, 1, Reading::Waits);
    world.publish(topic, &["a"]).await;
    world.shelf.somebody_waits().await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.in_flight), (1, 0));
    assert!(world.pause("the-sub", true).await.subscription.is_paused);
    world.shelf.set(topic, 1, Reading::Remembered);
    world.settle().await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.waiting, world.seen().len()), (1, 1, 0));
    world.pause("the-sub", false).await;
    world.settle().await;
    assert_eq!(requests(&world), [("a".to_owned(), 0)]);
    world.assert_balanced("orders", "the-sub").await;
}

/// A purge drops what is being made into a batch, and what is published behind it is sent.
#[tokio::test(start_paused = true)]
async fn a_purge_drops_what_is_being_gathered() {
    let world = World::new(|_, _| Meet::status(200));
    let (world, topic) = world_of(world, json!({"maxEventsPerBatch": 10}), json!({})).await;
    world.shelf.set(topic, 1, Reading::Waits);
    world.publish(topic, &["a"]).await;
    world.shelf.somebody_waits().await;
    let purge = |answer| Command::PurgeSubscription {
        topic: "orders".to_owned(),
        name: "the-sub".to_owned(),
        answer,
    };
    let report = world.handle.ask(purge).await.unwrap();
    assert_eq!((report.dropped, report.in_flight), (1, 0));
    world.shelf.set(topic, 1, Reading::Forgotten);
    world.publish(topic, &["b"]).await;
    world.settle().await;
    assert_eq!(requests(&world), [("b".to_owned(), 0)]);
    world.assert_balanced("orders", "the-sub").await;
}
