//! When dead letters are written, with what, and what keeps them from being lost (ED-242 to ED-252, ED-254).

use std::time::Duration;

use hedgerow_core::outcome::DeadLetterReason;
use hedgerow_core::spec::Profile;
use hedgerow_io::dead_letter::Blob;
use hedgerow_store::record::DropReason;
use hedgerow_store::view::Disposition;
use serde_json::{Value, json};

use crate::letter_box::Mood;
use crate::world::{Meet, World, profile, settings_without_probation};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const MINUTE: Duration = seconds(60);
const HOUR: Duration = seconds(3_600);

/// A declaration with a destination, one attempt, and these settings.
fn lettered(settings: &Value) -> Value {
    json!({
        "deadLetterDestination": {
            "endpointType": "LocalDirectory", "properties": {"path": "late"},
        },
        "deadLetter": settings,
        "retryPolicy": {"maxDeliveryAttempts": 1},
        "delayedDelivery": {"enabled": false},
    })
}

/// A world in which nothing is accepted, and nobody held back for it, with a topic and a subscription.
async fn world(declared: Value) -> (World, hedgerow_core::position::TopicId) {
    let world = World::with_settings(settings_without_probation(), |_, _| Meet::status(404));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    (world, topic)
}

fn records(blob: &Blob) -> Vec<Value> {
    let Value::Array(records) = serde_json::from_slice(&blob.bytes).unwrap() else {
        panic!("a blob is an array")
    };
    assert_eq!(records.len(), blob.count);
    records
}

/// Ids of the events in each blob.
fn ids(world: &World) -> Vec<Vec<String>> {
    let blobs = world.letters.blobs();
    let ids = |record: Value| record["id"].as_str().unwrap().to_owned();
    blobs
        .iter()
        .map(|(_, blob)| records(blob).into_iter().map(ids).collect())
        .collect()
}

/// ED-245, ED-254: 300 s after the decision to the millisecond, and the whole record.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_written_after_the_delay() {
    let (world, topic) = world(lettered(&json!({}))).await;
    let published = world.begun.elapsed();
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    let decided = world.seen()[0].at;
    assert_eq!(decided, published);
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.counters.dropped), (1, 0));
    assert_eq!(world.terminal_records().await, []);
    let pending = world.dead_letters().await;
    assert_eq!(pending.len(), 1, "ED-248: listed from the decision on");
    assert_eq!(pending[0].event_id, "e1");
    assert_eq!(
        pending[0].letter.decided.since(world.seen()[0].time),
        Duration::ZERO
    );
    world.assert_balanced("orders", "the-sub").await;

    world
        .sleep_until(decided + seconds(300) - Duration::from_millis(1))
        .await;
    assert!(world.letters.blobs().is_empty());
    world
        .sleep_until(decided + seconds(300) + Duration::from_millis(2))
        .await;
    let blobs = world.letters.blobs();
    let (at, blob) = &blobs[0];
    assert_eq!((*at - decided, blobs.len()), (seconds(300), 1));
    assert_eq!(blob.container.as_str(), "late");
    assert!(
        blob.name.starts_with("THE-SUB/2030/1/2/3/") && blob.name.split('.').nth(1) == Some("json")
    );
    assert_eq!(
        (blob.subscription.as_str(), blob.topic.as_str()),
        ("the-sub", "orders")
    );
    let time = world.seen()[0].time.to_string();
    // A literal of Rust would be another number than the one that was published.
    let data: Value = serde_json::from_str(r#"{"amount": 1.10}"#).unwrap();
    let mut expected = json!({
        "id": "e1", "eventTime": "2030-01-02T03:04:05.1234567Z", "eventType": "Orders.Created",
        "dataVersion": "1.0", "metadataVersion": "1",
        "topic": "/subscriptions/hedgerow/resourceGroups/hedgerow/providers/Microsoft.EventGrid/topics/orders",
        "subject": "/orders/1", "data": data,
        "deadLetterReason": "MaxDeliveryAttemptsExceeded", "deliveryAttempts": 1,
        "lastDeliveryOutcome": "NotFound",
        "publishTime": time, "lastDeliveryAttemptTime": time,
    });
    if profile() == Profile::Default {
        expected["lastHttpStatusCode"] = json!(404);
    }
    assert_eq!(records(blob)[0], expected);
    let text = String::from_utf8(blob.bytes.clone()).unwrap();
    assert!(
        text.contains(r#""data":{"amount": 1.10}"#),
        "byte for byte: {text}"
    );
    assert!(!text.contains("secret"), "ED-260");

    let info = world.info("orders", "the-sub").await;
    let counters = info.counters;
    assert_eq!(
        (info.pending, counters.dead_lettered, counters.dropped),
        (0, 1, 0)
    );
    assert_eq!(
        world.terminal_records().await[0].disposition,
        Disposition::DeadLettered
    );
    assert!(world.dead_letters().await.is_empty());
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-246: what is due at one moment goes into one blob; what was decided 10 s later comes 10 s later.
#[tokio::test(start_paused = true)]
async fn what_is_due_together_is_written_together() {
    let (world, topic) = world(lettered(&json!({}))).await;
    world.publish(topic, &["a", "b", "c"]).await;
    tokio::time::sleep(seconds(10)).await;
    world.publish(topic, &["d"]).await;
    tokio::time::sleep(seconds(400)).await;
    assert_eq!(ids(&world), [vec!["a", "b", "c"], vec!["d"]]);
    let blobs = world.letters.blobs();
    assert_eq!(blobs[1].0 - blobs[0].0, seconds(10));
    assert_ne!(blobs[0].1.name, blobs[1].1.name);
}

/// ED-246: up to 1,000 events a blob.
#[tokio::test(start_paused = true)]
async fn a_blob_has_a_thousand_events_at_most() {
    let (world, topic) = world(lettered(&json!({"delay": 0}))).await;
    world.letters.set(Mood::Fails);
    let names: Vec<_> = (0..2_300).map(|number| number.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    world.publish(topic, &names).await;
    tokio::time::sleep(seconds(9)).await;
    world.letters.set(Mood::Works);
    tokio::time::sleep(seconds(5)).await;
    let mut written: Vec<_> = ids(&world).into_iter().flatten().collect();
    let counts: Vec<_> = world
        .letters
        .blobs()
        .iter()
        .map(|(_, blob)| blob.count)
        .collect();
    assert!(counts.iter().all(|count| *count <= 1_000), "{counts:?}");
    written.sort_unstable();
    written.dedup();
    assert_eq!(written.len(), 2_300, "{counts:?}");
}

/// ED-244: the time to live, seen at the due moment, and a final failure.
#[tokio::test(start_paused = true)]
async fn every_end_is_written() {
    let world = World::new(|id, _| Meet::status(if id == "final" { 400 } else { 500 }));
    let topic = world.topic("orders").await;
    let mut declared = lettered(&json!({"delay": 60}));
    declared["retryPolicy"] = json!({"eventTimeToLiveInMinutes": 2});
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["final", "late"]).await;
    tokio::time::sleep(10 * MINUTE).await;
    let blobs = world.letters.blobs();
    assert_eq!(ids(&world), [["final"], ["late"]]);
    // Slots 0, 10, 30, 60 and 300 s: expired when it is due at 300 s.
    let at: Vec<_> = blobs.iter().map(|(at, _)| *at - published).collect();
    assert_eq!(at, [seconds(60), seconds(360)]);
    let reasons: Vec<_> = blobs
        .iter()
        .map(|(_, blob)| {
            records(blob)[0]["deadLetterReason"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(
        reasons,
        ["UndeliverableDueToHttpBadRequest", "TimeToLiveExceeded"]
    );
    assert_eq!(records(&blobs[1].1)[0]["deliveryAttempts"], 4);
}

/// ED-258: an event that expired before its first attempt has 0 attempts, and no attempt's time.
#[tokio::test(start_paused = true)]
async fn an_event_that_was_never_attempted_is_written_too() {
    let mut declared = lettered(&json!({"delay": 0}));
    declared["retryPolicy"] = json!({"eventTimeToLiveInMinutes": 1});
    let (mut world, topic) = world(declared).await;
    world.stop().await;
    world.publish(topic, &["e1"]).await;
    tokio::time::sleep(HOUR).await;
    world.start();
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(world.seen().len(), 0);
    let record = &records(&world.letters.blobs()[0].1)[0];
    assert_eq!(
        (&record["id"], &record["deliveryAttempts"]),
        (&json!("e1"), &json!(0))
    );
    assert_eq!(record["deadLetterReason"], "TimeToLiveExceeded");
    assert_eq!(record.get("lastDeliveryAttemptTime"), None);
    assert_eq!(
        world.info("orders", "the-sub").await.counters.dead_lettered,
        1
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-242, ED-244: without a destination it is dropped at once.
#[tokio::test(start_paused = true)]
async fn without_a_destination_it_is_dropped() {
    let (world, topic) = world(json!({"retryPolicy": {"maxDeliveryAttempts": 1}})).await;
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    let records = world.terminal_records().await;
    assert_eq!(
        records[0].disposition,
        Disposition::Dropped(DropReason::NoDeadLetterDestination)
    );
    tokio::time::sleep(HOUR).await;
    assert!(world.letters.tries().is_empty());
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-247: the schedule of tries, and the end at 14,400 s.
#[tokio::test(start_paused = true)]
async fn an_unavailable_store_is_tried_until_the_event_is_dropped() {
    let (world, topic) = world(lettered(&json!({}))).await;
    world.letters.set(Mood::Fails);
    world.publish(topic, &["e1"]).await;
    tokio::time::sleep(5 * HOUR).await;
    let tries = world.letters.tries();
    let times: Vec<_> = tries.iter().map(|at| (*at - tries[0]).as_secs()).collect();
    assert_eq!(times[..5], [0, 10, 60, 300, 600]);
    assert_eq!((times.last(), times.len()), (Some(&14_400), 51));
    let info = world.info("orders", "the-sub").await;
    assert_eq!(
        (
            info.counters.dropped,
            info.counters.dead_lettered,
            info.pending
        ),
        (1, 0, 0)
    );
    assert_eq!(
        info.dead_letter_problem.as_deref(),
        Some("scripted"),
        "ED-319"
    );
    let record = &world.terminal_records().await[0];
    assert_eq!(
        record.disposition,
        Disposition::Dropped(DropReason::DeadLetterStoreUnavailable)
    );
    assert_eq!(record.event_id, "e1");
    assert_eq!(record.reason, DeadLetterReason::MaxDeliveryAttemptsExceeded);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-247: a missing container is waited for, unless the setting says otherwise.
#[tokio::test(start_paused = true)]
async fn a_missing_container_is_waited_for_or_ends_it() {
    for (drops, then) in [
        (false, None),
        (
            true,
            Some(Disposition::Dropped(
                DropReason::DeadLetterContainerNotFound,
            )),
        ),
    ] {
        let settings = json!({"delay": 1, "dropIfNotFound": drops});
        let (world, topic) = world(lettered(&settings)).await;
        world.letters.set(Mood::NotFound);
        world.publish(topic, &["e1"]).await;
        tokio::time::sleep(seconds(5)).await;
        let ended = world
            .terminal_records()
            .await
            .first()
            .map(|record| record.disposition);
        assert_eq!(ended, then);
        world.letters.set(Mood::Works);
        tokio::time::sleep(seconds(10)).await;
        assert_eq!(world.letters.blobs().len(), usize::from(!drops));
    }
}

/// With `deadLetter.maxUnavailable` 0 an event is held for as long as its store is away, and arrives byte for byte.
#[tokio::test(start_paused = true)]
async fn an_event_that_fails_for_a_day_and_waits_five_hours_for_its_store_arrives_byte_for_byte() {
    let mut declared = lettered(&json!({"maxUnavailable": 0}));
    declared["retryPolicy"] = json!({});
    let world = World::new(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    world.letters.set(Mood::Fails);
    let published = world.begun.elapsed();
    world.publish(topic, &["e1"]).await;
    world
        .sleep_until(published + 24 * HOUR + seconds(299))
        .await;
    assert_eq!(world.seen().len(), 11, "attempts in a day");
    assert!(world.letters.tries().is_empty());
    world
        .sleep_until(published + 29 * HOUR + seconds(301))
        .await;
    assert!(world.letters.tries().len() > 50 && world.letters.blobs().is_empty());
    assert_eq!(world.info("orders", "the-sub").await.pending, 1);
    world.letters.set(Mood::Works);
    tokio::time::sleep(5 * MINUTE).await;
    let blobs = world.letters.blobs();
    assert_eq!(blobs.len(), 1);
    let delivered = world.seen().pop().unwrap().body;
    let members = delivered
        .strip_prefix("[{")
        .and_then(|body| body.strip_suffix("}]"))
        .unwrap();
    let (before, data) = members.split_once(r#","data":"#).unwrap();
    let written = String::from_utf8(blobs[0].1.bytes.clone()).unwrap();
    assert!(written.starts_with(&format!("[{{{before},")), "{written}");
    assert!(
        written.ends_with(&format!(r#","data":{data}}}]"#)),
        "{written}"
    );
    let record = &records(&blobs[0].1)[0];
    assert_eq!(record["deadLetterReason"], "TimeToLiveExceeded");
    assert_eq!(record["deliveryAttempts"], 11);
    assert_eq!(
        world.info("orders", "the-sub").await.counters.dead_lettered,
        1
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// A crash before the write is due, between two tries, while a write is under way, and after one whose answer did not come.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_loses_nothing() {
    for mood in [Mood::Works, Mood::Fails, Mood::Silent, Mood::Mute] {
        let (mut world, topic) = world(lettered(&json!({}))).await;
        world.letters.set(mood);
        world.publish(topic, &["e1"]).await;
        let decided = world.begun.elapsed();
        world.sleep_until(decided + seconds(100)).await;
        world.crash().await;
        world.sleep_until(decided + seconds(302)).await;
        world.crash().await;
        world.letters.set(Mood::Works);
        world.sleep_until(decided + seconds(400)).await;
        let expected = if mood == Mood::Mute { 2 } else { 1 };
        assert_eq!(ids(&world), vec![vec!["e1"]; expected], "{mood:?}");
        let mut names: Vec<_> = world
            .letters
            .blobs()
            .iter()
            .map(|(_, b)| b.name.clone())
            .collect();
        names.dedup();
        assert_eq!(names.len(), expected, "ED-252: a new name");
        assert_eq!(
            world.info("orders", "the-sub").await.counters.dead_lettered,
            1
        );
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// What became due while the server was away is written at the start.
#[tokio::test(start_paused = true)]
async fn an_overdue_dead_letter_is_written_at_the_start() {
    let (mut world, topic) = world(lettered(&json!({}))).await;
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    world.stop().await;
    tokio::time::sleep(HOUR).await;
    assert!(world.letters.blobs().is_empty());
    world.start();
    world.settle().await;
    assert_eq!(ids(&world), [["e1"]]);
}

/// What is pending goes to the destination that is declared when it is written; without one it is dropped then.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_destination_holds_for_what_is_pending() {
    let (world, topic) = world(lettered(&json!({}))).await;
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    let mut moved = lettered(&json!({}));
    moved["deadLetterDestination"]["properties"]["path"] = json!("elsewhere");
    world.subscribe("orders", "the-sub", moved).await.unwrap();
    tokio::time::sleep(seconds(301)).await;
    assert_eq!(world.letters.blobs()[0].1.container.as_str(), "elsewhere");

    world.publish(topic, &["e2"]).await;
    world.settle().await;
    let mut removed = lettered(&json!({}));
    removed["deadLetterDestination"] = Value::Null;
    world.subscribe("orders", "the-sub", removed).await.unwrap();
    tokio::time::sleep(seconds(200)).await;
    assert_eq!(world.terminal_records().await.len(), 1);
    tokio::time::sleep(seconds(101)).await;
    let records = world.terminal_records().await;
    assert_eq!(
        records[1].disposition,
        Disposition::Dropped(DropReason::NoDeadLetterDestination)
    );
    assert_eq!(world.letters.tries().len(), 1);
    let counters = world.info("orders", "the-sub").await.counters;
    assert_eq!(counters.dropped, 1);
    world.assert_balanced("orders", "the-sub").await;
}

/// A store that hangs keeps neither deliveries nor the stop from going on.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_disturbs_nobody() {
    let world = World::new(|id, _| Meet::status(if id == "bad" { 400 } else { 200 }));
    let mut world = world;
    let topic = world.topic("orders").await;
    let declared = lettered(&json!({"delay": 0}));
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    world.letters.set(Mood::Silent);
    world.publish(topic, &["bad"]).await;
    world.settle().await;
    world.publish(topic, &["good"]).await;
    world.settle().await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (1, 1));
    world.stop().await;
    world.letters.set(Mood::Works);
    world.start();
    world.settle().await;
    assert_eq!(ids(&world), [["bad"]]);
}

/// A deleted subscription takes its dead letters with it.
#[tokio::test(start_paused = true)]
async fn a_deleted_subscription_leaves_nothing_to_write() {
    let (world, topic) = world(lettered(&json!({}))).await;
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    world.unsubscribe("orders", "the-sub").await;
    tokio::time::sleep(HOUR).await;
    assert!(world.letters.tries().is_empty());
    assert!(world.dead_letters().await.is_empty());
}

/// FC-09: the store refuses, then hangs, with a crash in between; 1,000 events wait, listed and counted, deliveries go on,
/// and once it works again each is written once, in few blobs.
#[tokio::test(start_paused = true)]
async fn a_thousand_events_outlast_a_store_that_is_away() {
    let world = World::new(|id, _| Meet::status(if id == "good" { 200 } else { 400 }));
    let mut world = world;
    let topic = world.topic("orders").await;
    let declared = lettered(&json!({"delay": 0, "maxUnavailable": 0}));
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    world.letters.set(Mood::Fails);
    let names: Vec<_> = (0..1_000).map(|number| number.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    world.publish(topic, &names).await;
    tokio::time::sleep(HOUR).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.counters.dead_lettered), (1_000, 0));
    assert!(!world.dead_letters().await.is_empty());
    world.letters.set(Mood::Silent);
    tokio::time::sleep(HOUR).await;
    world.crash().await;
    world.publish(topic, &["good"]).await;
    tokio::time::sleep(MINUTE).await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.delivered, info.pending), (1, 1_000));
    world.letters.set(Mood::Fails);
    world.crash().await;
    tokio::time::sleep(MINUTE).await;
    world.letters.set(Mood::Works);
    tokio::time::sleep(HOUR).await;
    let mut written: Vec<_> = ids(&world).into_iter().flatten().collect();
    let blobs = world.letters.blobs();
    assert!(blobs.len() <= 10, "{} blobs", blobs.len());
    assert_eq!(written.len(), 1_000, "each once");
    written.sort_unstable();
    written.dedup();
    assert_eq!(written.len(), 1_000);
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.counters.dead_lettered), (0, 1_000));
    world.assert_balanced("orders", "the-sub").await;
}

/// D6: what the disk of the data directory has no room for waits, for however long, and nothing is recorded of that; a store
/// that is away would have lost it long before (ED-247).
#[tokio::test(start_paused = true)]
async fn dead_letters_without_room_wait_and_are_not_lost() {
    let (world, topic) = world(lettered(&json!({"delay": 0, "maxUnavailable": 3_600}))).await;
    world.letters.set(Mood::Full);
    world.publish(topic, &["a", "b"]).await;
    world.settle().await;
    world.sleep_until(HOUR + MINUTE).await;
    let before = world.dead_letters().await;
    world.sleep_until(3 * HOUR).await;
    let letters = world.dead_letters().await;
    assert_eq!((before.len(), letters.len()), (2, 2));
    for (letter, before) in letters.iter().zip(&before) {
        assert_eq!(letter.place, before.place, "it stands where it stood");
        assert_eq!(letter.letter.write.failed, 0);
    }
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.counters.dropped), (2, 0));
    assert_eq!(info.dead_letter_problem.as_deref(), Some("scripted"));

    world.letters.set(Mood::Works);
    world.sleep_until(3 * HOUR + seconds(11)).await;
    assert_eq!(ids(&world).concat(), ["a", "b"]);
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.pending, info.counters.dead_lettered), (0, 2));
    assert_eq!(info.dead_letter_problem, None);
    world.assert_balanced("orders", "the-sub").await;
}

/// FC-09: directories that hang, more of them than blobs are written at a time, do not keep the blobs of others away; what
/// waits for them is tried again like at any store that is away.
#[tokio::test(start_paused = true)]
async fn a_directory_that_hangs_keeps_no_other_from_being_written() {
    let world = World::with_settings(settings_without_probation(), |_, _| Meet::status(400));
    let topic = world.topic("orders").await;
    for name in ["hangs-1", "hangs-2", "hangs-3", "hangs-4", "hangs-5"] {
        let mut declared = lettered(&json!({"delay": 0, "maxUnavailable": 0}));
        declared["deadLetterDestination"]["properties"]["path"] = json!("away");
        world.subscribe("orders", name, declared).await.unwrap();
    }
    let declared = lettered(&json!({"delay": 10}));
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    world.letters.hang("away");
    world.publish(topic, &["e1"]).await;
    tokio::time::sleep(seconds(75)).await;
    assert_eq!(ids(&world), [["e1"]], "the one that is well");
    tokio::time::sleep(HOUR).await;
    let info = world.info("orders", "hangs-5").await;
    assert_eq!((info.pending, info.counters.dropped), (1, 0));
    assert_eq!(
        info.dead_letter_problem.as_deref(),
        Some("the dead-letter store did not answer in 60s")
    );
    world.assert_balanced("orders", "hangs-5").await;
}

/// ED-319: a destination that cannot be written to is told at the start, before there is anything to write.
#[tokio::test(start_paused = true)]
async fn a_destination_that_is_missing_is_told_at_the_start() {
    let (mut world, topic) = world(lettered(&json!({"delay": 0}))).await;
    assert_eq!(
        world.info("orders", "the-sub").await.dead_letter_problem,
        None
    );
    world.stop().await;
    world.letters.set(Mood::NotFound);
    world.start();
    world.settle().await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!(info.dead_letter_problem.as_deref(), Some("scripted"));
    world.letters.set(Mood::Works);
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    let info = world.info("orders", "the-sub").await;
    assert_eq!(info.dead_letter_problem, None, "it works again");
}
