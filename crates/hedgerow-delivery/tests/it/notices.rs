//! Dead letters are told of: one event for each blob, on the built-in topic and on system topics, and none goes round in a circle
//! (ED-263, ED-264, ED-318).

use std::time::Duration;

use hedgerow_core::spec::{STORAGE_ACCOUNT, TopicSpec};
use hedgerow_delivery::command::{Command, CommandError};
use hedgerow_store::record::DropReason;
use hedgerow_store::view::Disposition;
use serde_json::{Value, json};

use crate::letter_box::Mood;
use crate::world::{Meet, Seen, World, settings_without_probation};

const NOTICES: &str = "$deadletter";

/// A subscription that gives up at once, into this container.
fn lettered(container: &str) -> Value {
    json!({
        "deadLetterDestination":
            {"endpointType": "LocalDirectory", "properties": {"path": container}},
        "deadLetter": {"delay": 0},
        "retryPolicy": {"maxDeliveryAttempts": 1},
        "delayedDelivery": {"enabled": false},
    })
}

/// What notices are met with beside the events of a test, whose ids are short.
fn world(of_notices: u16) -> World {
    World::with_settings(settings_without_probation(), move |id, _| {
        Meet::status(if id.len() < 10 { 400 } else { of_notices })
    })
}

fn to(world: &World, host: &str) -> Vec<Seen> {
    let seen = world.seen().into_iter();
    seen.filter(|seen| seen.host.starts_with(host)).collect()
}

fn event_in(seen: &Seen) -> Value {
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    body[0].clone()
}

/// ED-263: each blob is told of once, with the vendor's event, to whoever subscribes to the built-in topic; the topic is there
/// from its first subscription on, and nobody else's.
#[tokio::test(start_paused = true)]
async fn each_blob_is_told_of() {
    let world = world(200);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", lettered("late"))
        .await
        .unwrap();
    world.publish(topic, &["before"]).await;
    world.settle().await;
    let info = world
        .subscribe(NOTICES, "watcher", json!({}))
        .await
        .unwrap();
    assert_eq!(info.topic_name, NOTICES);
    world.settle().await;
    assert!(to(&world, "watcher").is_empty(), "nobody was there for it");

    world.publish(topic, &["a", "b"]).await;
    world.settle().await;
    world.publish(topic, &["c"]).await;
    world.settle().await;
    let blobs = world.letters.blobs();
    let told = to(&world, "watcher");
    assert_eq!((blobs.len(), told.len()), (3, 2));
    for ((_, blob), (seen, count)) in blobs[1..].iter().zip(told.iter().zip([2, 1])) {
        let event = event_in(seen);
        let name = &blob.name;
        let expected = json!({
            "id": event["id"], "eventTime": event["eventTime"],
            "eventType": "Microsoft.Storage.BlobCreated", "dataVersion": "", "metadataVersion": "1",
            "topic": STORAGE_ACCOUNT,
            "subject": format!("/blobServices/default/containers/late/blobs/{name}"),
            "data": {
                "api": "PutBlob", "contentType": "application/json",
                "contentLength": blob.bytes.len(), "blobType": "BlockBlob",
                "url": format!("box://letters/late/{name}"),
                "subscription": "the-sub", "count": count,
            },
        });
        assert_eq!(event, expected);
        assert_eq!(event["id"].as_str().unwrap().len(), 36);
        assert_eq!(seen.headers["aeg-event-type"], "Notification");
        assert_eq!(blob.count, count);
    }
    world.assert_balanced(NOTICES, "watcher").await;

    let name = NOTICES.to_owned();
    let deleted = world
        .handle
        .ask(|answer| Command::DeleteTopic { name, answer })
        .await;
    assert!(matches!(deleted, Err(CommandError::Conflict(_))));
    let (name, spec) = (NOTICES.parse().unwrap(), TopicSpec::default());
    let declared = world
        .handle
        .ask(|answer| Command::PutTopic { name, spec, answer })
        .await;
    assert!(matches!(declared, Err(CommandError::Conflict(_))));
}

/// ED-318: a subscription on the storage account, and one on a system topic whose source it is, are told the same; filters by the
/// begin of the subject tell containers apart; nothing else arises there.
#[tokio::test(start_paused = true)]
async fn the_storage_account_and_system_topics_are_told() {
    let world = world(200);
    let topic = world.topic("orders").await;
    let source =
        "/subscriptions/1/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/hedgerow";
    let spec = TopicSpec::check(&json!({ "source": source })).unwrap().spec;
    world.topic_with("letters", spec).await;
    for (name, container) in [("sub-one", "one"), ("sub-two", "two")] {
        world
            .subscribe("orders", name, lettered(container))
            .await
            .unwrap();
    }
    let only_two =
        json!({"filter": {"subjectBeginsWith": "/blobServices/default/containers/two/"}});
    let info = world.subscribe(source, "of-account", json!({})).await;
    assert_eq!(info.unwrap().topic_name, NOTICES);
    world
        .subscribe(STORAGE_ACCOUNT, "of-two", only_two.clone())
        .await
        .unwrap();
    let system =
        "/subscriptions/1/resourceGroups/rg/providers/Microsoft.EventGrid/systemTopics/letters";
    world
        .subscribe(system, "of-system", only_two)
        .await
        .unwrap();
    let other = source.replace("hedgerow", "elsewhere");
    let refused = world.subscribe(&other, "of-other", json!({})).await;
    assert!(matches!(refused, Err(CommandError::NotFound { .. })));

    world.publish(topic, &["e1"]).await;
    world.settle().await;
    let told = |host| {
        let seen = to(&world, host);
        let mut of: Vec<_> = seen
            .iter()
            .map(|seen| {
                let event = event_in(seen);
                let text = |name: &str| event[name].as_str().unwrap().to_owned();
                (
                    text("topic"),
                    text("subject").split('/').nth(4).unwrap().to_owned(),
                )
            })
            .collect();
        of.sort();
        of
    };
    let of = |topic: &str, container: &str| (topic.to_owned(), container.to_owned());
    let both = [of(STORAGE_ACCOUNT, "one"), of(STORAGE_ACCOUNT, "two")];
    assert_eq!(told("of-account"), both);
    assert_eq!(told("of-two"), [of(STORAGE_ACCOUNT, "two")]);
    assert_eq!(told("of-system"), [of(source, "two")]);
}

/// ED-263 with D5: whatever a crash takes, each dead letter that counts as written is told of: the notice is durable before it.
#[tokio::test(start_paused = true)]
async fn a_notice_is_not_lost_in_a_crash() {
    let mut world = world(200);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", lettered("late"))
        .await
        .unwrap();
    world
        .subscribe(NOTICES, "watcher", json!({}))
        .await
        .unwrap();
    world.letters.set(Mood::Silent);
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    // The blob is written, and nothing of that becomes durable.
    world.crash().await;
    world.letters.set(Mood::Works);
    world.hold();
    world.settle().await;
    assert_eq!(world.letters.blobs().len(), 1);
    assert!(to(&world, "watcher").is_empty());
    world.crash().await;
    world.settle().await;
    let blobs = world.letters.blobs();
    let told = to(&world, "watcher");
    assert_eq!((blobs.len(), told.len()), (2, 1), "written and told again");
    let subject = event_in(&told[0])["subject"].as_str().unwrap().to_owned();
    assert!(subject.ends_with(&blobs[1].1.name));

    // Both are durable, and the notice was not delivered.
    let paused = |is_paused| {
        let (topic, name) = (NOTICES.to_owned(), "watcher".to_owned());
        world.handle.ask(move |answer| Command::PauseSubscription {
            topic,
            name,
            is_paused,
            answer,
        })
    };
    paused(true).await.unwrap();
    world.publish(topic, &["e2"]).await;
    world.settle().await;
    let counters = world.info("orders", "the-sub").await.counters;
    assert_eq!(counters.dead_lettered, 2);
    world.crash().await;
    world.settle().await;
    assert_eq!(world.info(NOTICES, "watcher").await.pending, 1);
    let (topic, name) = (NOTICES.to_owned(), "watcher".to_owned());
    let resumed = world.handle.ask(|answer| Command::PauseSubscription {
        topic,
        name,
        is_paused: false,
        answer,
    });
    resumed.await.unwrap();
    world.settle().await;
    assert_eq!(to(&world, "watcher").len(), 2);
    world.assert_balanced(NOTICES, "watcher").await;
}

/// ED-264: a notice that fails is never written into the container that it tells of; in another one it is, and that is told of.
#[tokio::test(start_paused = true)]
async fn a_notice_that_fails_does_not_come_back() {
    for (container, written) in [("late", false), ("apart", true)] {
        let world = world(400);
        let topic = world.topic("orders").await;
        world
            .subscribe("orders", "the-sub", lettered("late"))
            .await
            .unwrap();
        world
            .subscribe(NOTICES, "watcher", lettered(container))
            .await
            .unwrap();
        world.publish(topic, &["e1"]).await;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let containers: Vec<_> = world
            .letters
            .blobs()
            .iter()
            .map(|(_, blob)| blob.container.as_str().to_owned())
            .collect();
        let info = world.info(NOTICES, "watcher").await;
        if written {
            // The one about "apart" ends there.
            assert_eq!(containers, ["late", "apart"]);
            assert_eq!(info.counters.dead_lettered, 1);
        } else {
            assert_eq!(containers, ["late"]);
            assert_eq!(info.counters.dead_lettered, 0);
        }
        assert_eq!((info.counters.dropped, info.pending), (1, 0));
        let last = world.terminal_records().await.pop().unwrap();
        let dropped = Disposition::Dropped(DropReason::NoDeadLetterDestination);
        assert_eq!(last.disposition, dropped);
        world.assert_balanced(NOTICES, "watcher").await;
    }
}

/// ED-264: two that write what they cannot deliver into each other's container end too.
#[tokio::test(start_paused = true)]
async fn notices_do_not_go_to_and_fro() {
    let world = world(400);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", lettered("late"))
        .await
        .unwrap();
    for (name, container) in [("watcher-1", "one"), ("watcher-2", "two")] {
        world
            .subscribe(NOTICES, name, lettered(container))
            .await
            .unwrap();
    }
    world.publish(topic, &["e1"]).await;
    tokio::time::sleep(Duration::from_secs(24 * 3_600)).await;
    let mut count = std::collections::BTreeMap::new();
    for (_, blob) in world.letters.blobs() {
        *count.entry(blob.container.as_str().to_owned()).or_insert(0) += 1;
    }
    // "late" is told to both; each writes it, and each of these is told to the other, which writes it, and then it ends.
    let expected = [("late", 1), ("one", 2), ("two", 2)];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(count, expected.into());
    for name in ["watcher-1", "watcher-2"] {
        let info = world.info(NOTICES, name).await;
        assert_eq!(info.pending, 0);
        world.assert_balanced(NOTICES, name).await;
    }
}

/// ED-264: a destination that was changed after the decision closes no circle either.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_destination_closes_no_circle() {
    let world = world(400);
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", lettered("late"))
        .await
        .unwrap();
    let mut apart = lettered("apart");
    apart["deadLetter"]["delay"] = json!(300);
    world
        .subscribe(NOTICES, "watcher", apart.clone())
        .await
        .unwrap();
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    assert_eq!(world.info(NOTICES, "watcher").await.pending, 1);
    apart["deadLetterDestination"]["properties"]["path"] = json!("late");
    world.subscribe(NOTICES, "watcher", apart).await.unwrap();
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(world.letters.blobs().len(), 1);
    let info = world.info(NOTICES, "watcher").await;
    assert_eq!((info.counters.dropped, info.pending), (1, 0));
    world.assert_balanced(NOTICES, "watcher").await;
}
