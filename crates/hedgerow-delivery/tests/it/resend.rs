//! Events that are delivered again because somebody asked for it (FC-10, issue 4).

use std::time::Duration;

use hedgerow_core::limits::RESENDS_MAX;
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::CommandError;
use hedgerow_delivery::explain::{DeliveryState, ExplainQuery};
use hedgerow_delivery::resend::{ResendQuery, Resent, ResentHow};
use hedgerow_store::history::HistoryKind;
use serde_json::json;

use crate::explain::world;
use crate::shelf::Reading;
use crate::world::{Meet, START_MS, World};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn query(id: &str, subscription: Option<&str>) -> ResendQuery {
    ResendQuery {
        topic: "Orders".to_owned(),
        event_id: id.to_owned(),
        subscription: subscription.map(str::to_owned),
    }
}

async fn resend(world: &World, id: &str) -> Vec<(String, ResentHow)> {
    let resent = world.handle.resend(query(id, None)).await.unwrap();
    let shown = |one: Resent| (one.subscription, one.how);
    resent.into_iter().map(shown).collect()
}

fn the_sub(how: ResentHow) -> Vec<(String, ResentHow)> {
    vec![("the-sub".to_owned(), how)]
}

/// Times in seconds, and the delivery counts, of the attempts of one event at one subscription.
fn attempts(world: &World, name: &str, id: &str) -> Vec<(u64, u32)> {
    let host = format!("{name}.example");
    let seen = world.seen().into_iter();
    let of_event = seen.filter(|seen| seen.event_id == id && seen.host == host);
    of_event
        .map(|seen| (seen.at.as_secs(), seen.delivery_count))
        .collect()
}

async fn subscribe(world: &World, name: &str, more: serde_json::Value) {
    world.subscribe("orders", name, more).await.unwrap();
}

/// FC-10: each time a new delivery of the same event, whose attempts count anew; a double click makes one.
#[tokio::test(start_paused = true)]
async fn a_delivered_event_is_delivered_again() {
    let (world, _history) = world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    subscribe(&world, "the-sub", json!({})).await;
    subscribe(
        &world,
        "others",
        json!({"filter": {"subjectBeginsWith": "no"}}),
    )
    .await;
    world.publish(topic, &["e"]).await;
    world.settle().await;
    assert_eq!(resend(&world, "e").await, the_sub(ResentHow::Resent));
    assert_eq!(resend(&world, "e").await, the_sub(ResentHow::AlreadyResent));
    world.settle().await;
    assert_eq!(attempts(&world, "the-sub", "e"), [(0, 0), (0, 0)]);
    world.sleep_until(seconds(3)).await;
    assert_eq!(resend(&world, "e").await, the_sub(ResentHow::Resent));
    world.settle().await;
    assert_eq!(attempts(&world, "the-sub", "e"), [(0, 0), (0, 0), (3, 0)]);
    let info = world.info("orders", "the-sub").await;
    assert_eq!(
        (info.counters.matched, info.counters.delivered, info.pending),
        (3, 3, 0)
    );
    let explained = world.handle.explain(ExplainQuery {
        event_id: "e".to_owned(),
        ..ExplainQuery::default()
    });
    let event = explained.await.unwrap().events.remove(0);
    let delivery = event.deliveries.iter().find(|one| one.name == "the-sub");
    let kinds: Vec<_> = delivery
        .unwrap()
        .attempts
        .iter()
        .map(|record| (record.kind, record.attempt))
        .collect();
    let (attempt, again) = ((HistoryKind::Attempt, 1), (HistoryKind::Resent, 0));
    assert_eq!(kinds, [attempt, again, attempt, again, attempt]);
    world.assert_balanced("orders", "the-sub").await;
}

/// FC-10: what failed for good is tried again, with the whole of its attempts.
#[tokio::test(start_paused = true)]
async fn an_event_that_was_given_up_gets_a_new_series() {
    let (world, _history) = world(|_, attempt| Meet::status(if attempt < 4 { 500 } else { 200 }));
    let topic = world.topic("orders").await;
    let policy = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    subscribe(&world, "the-sub", policy).await;
    world.publish(topic, &["e"]).await;
    world.settle().await;
    let policy = json!({"retryPolicy": {"maxDeliveryAttempts": 5}});
    subscribe(&world, "the-sub", policy).await;
    assert_eq!(resend(&world, "e").await, the_sub(ResentHow::Resent));
    world.sleep_until(seconds(1_000)).await;
    let expected = [(0, 0), (0, 0), (10, 1), (30, 2), (60, 3)];
    assert_eq!(attempts(&world, "the-sub", "e"), expected);
    let counters = world.info("orders", "the-sub").await.counters;
    assert_eq!((counters.dropped, counters.delivered), (1, 1));
    world.assert_balanced("orders", "the-sub").await;
}

/// FC-10: a resend takes the place of the attempt that waited; there is no second series.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_waits_is_brought_forward() {
    let (world, _history) = world(|_, attempt| Meet::status(if attempt < 5 { 500 } else { 200 }));
    let topic = world.topic("orders").await;
    let more = json!({"delayedDelivery": {"enabled": false}});
    subscribe(&world, "the-sub", more).await;
    world.publish(topic, &["e"]).await;
    world.sleep_until(seconds(400)).await;
    assert_eq!(
        resend(&world, "e").await,
        the_sub(ResentHow::BroughtForward)
    );
    world.sleep_until(seconds(100_000)).await;
    let expected = [(0, 0), (10, 1), (30, 2), (60, 3), (300, 4), (400, 5)];
    assert_eq!(attempts(&world, "the-sub", "e"), expected);
    let info = world.info("orders", "the-sub").await;
    assert_eq!((info.counters.matched, info.counters.delivered), (1, 1));
    world.assert_balanced("orders", "the-sub").await;
}

/// What is being delivered is not delivered twice; a pause holds a resent event too.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_left_to_go_on() {
    let (world, _history) = world(|id, _| match id {
        "slow" => Meet::late(200, 20),
        _ => Meet::status(200),
    });
    let topic = world.topic("orders").await;
    subscribe(&world, "the-sub", json!({})).await;
    world.publish(topic, &["slow", "done"]).await;
    world.settle().await;
    assert_eq!(resend(&world, "slow").await, the_sub(ResentHow::InFlight));
    world.pause("the-sub", true).await;
    world.publish(topic, &["waits"]).await;
    world.settle().await;
    assert_eq!(resend(&world, "waits").await, the_sub(ResentHow::Pending));
    assert_eq!(resend(&world, "done").await, the_sub(ResentHow::Resent));
    world.sleep_until(seconds(100)).await;
    assert_eq!(attempts(&world, "the-sub", "done"), [(0, 0)]);
    world.pause("the-sub", false).await;
    world.sleep_until(seconds(200)).await;
    assert_eq!(attempts(&world, "the-sub", "done"), [(0, 0), (100, 0)]);
    assert_eq!(attempts(&world, "the-sub", "waits"), [(100, 0)]);
    assert_eq!(attempts(&world, "the-sub", "slow"), [(0, 0)]);
    world.assert_balanced("orders", "the-sub").await;
}

/// The time to live counts from the resend on: an operator wants it now. The events of another subscription keep it.
#[tokio::test(start_paused = true)]
async fn an_old_event_has_its_time_to_live_anew() {
    let (world, _history) = world(|_, attempt| Meet::status([200, 500, 200][attempt.min(2)]));
    let topic = world.topic("orders").await;
    let minutes = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 5}});
    subscribe(&world, "the-sub", minutes).await;
    subscribe(&world, "keeper", json!({})).await;
    world.pause("keeper", true).await;
    world.publish(topic, &["e"]).await;
    world.sleep_until(seconds(3_600)).await;
    let resent = world.handle.resend(query("e", Some("the-sub"))).await;
    assert_eq!(resent.unwrap()[0].how, ResentHow::Resent);
    world.sleep_until(seconds(4_000)).await;
    let expected = [(0, 0), (3_600, 0), (3_610, 1)];
    assert_eq!(attempts(&world, "the-sub", "e"), expected);
    world.assert_balanced("orders", "the-sub").await;
}

/// Kill -9: what was answered holds, what was not does not.
#[tokio::test(start_paused = true)]
async fn an_answered_resend_survives_a_crash() {
    let (mut world, _history) = world(|_, _| Meet::late(200, 1));
    let topic = world.topic("orders").await;
    subscribe(&world, "the-sub", json!({})).await;
    world.publish(topic, &["e"]).await;
    world.sleep_until(seconds(2)).await;
    world.pause("the-sub", true).await;
    assert_eq!(resend(&world, "e").await, the_sub(ResentHow::Resent));
    world.crash().await;
    world.pause("the-sub", false).await;
    world.sleep_until(seconds(4)).await;
    assert_eq!(attempts(&world, "the-sub", "e").len(), 2);
    world.hold();
    let unanswered = tokio::time::timeout(seconds(1), resend(&world, "e")).await;
    assert!(unanswered.is_err(), "nothing becomes durable");
    world.crash().await;
    world.sleep_until(seconds(100)).await;
    assert_eq!(attempts(&world, "the-sub", "e").len(), 2);
    world.assert_balanced("orders", "the-sub").await;
}

/// Each error says what is wrong and what to do.
#[tokio::test(start_paused = true)]
async fn refusals_say_why() {
    let (world, _history) = world(|id, _| Meet::status(if id == "bad" { 400 } else { 200 }));
    let topic = world.topic("orders").await;
    let more = json!({
        "filter": {"includedEventTypes": ["Orders.Created"]},
        "deadLetterDestination": {
            "endpointType": "LocalDirectory", "properties": { "path": "letters" },
        },
    });
    subscribe(&world, "the-sub", more).await;
    let none = json!({"filter": {"includedEventTypes": ["Other"]}});
    subscribe(&world, "others", none).await;
    world.publish(topic, &["e", "bad"]).await;
    world.settle().await;
    subscribe(&world, "later", json!({})).await;
    let error = async |query| world.handle.resend(query).await.unwrap_err().to_string();
    let nowhere = ResendQuery {
        topic: "nowhere".to_owned(),
        ..query("e", None)
    };
    for (query, part) in [
        (nowhere, "topic \"nowhere\" does not exist"),
        (query("never", None), "event \"never\" does not exist"),
        (query("e", Some("gone")), "event subscription \"gone\""),
        (query("e", Some("others")), "of its filter says no"),
        (
            query("e", Some("later")),
            "before the subscription was in force",
        ),
    ] {
        let said = error(query).await;
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(
        resend(&world, "bad").await,
        the_sub(ResentHow::DeadLetterPending)
    );
    // Nothing is owed any more, a checkpoint later: nobody needs it.
    world.sleep_until(seconds(700)).await;
    let forgotten = world.handle.resend(query("e", None)).await.unwrap_err();
    assert!(
        matches!(&forgotten, CommandError::Forgotten(why) if why.contains("no longer kept")),
        "{forgotten}"
    );
}

/// Until it is delivered again, explain says when that is, and not how it ended before.
#[tokio::test(start_paused = true)]
async fn a_resent_event_is_explained_as_it_stands() {
    let (world, _history) = world(|_, attempt| Meet::status(if attempt == 0 { 200 } else { 500 }));
    let topic = world.topic("orders").await;
    subscribe(&world, "the-sub", json!({})).await;
    world.publish(topic, &["e"]).await;
    world.settle().await;
    resend(&world, "e").await;
    world.settle().await;
    let explained = world.handle.explain(ExplainQuery {
        event_id: "e".to_owned(),
        ..ExplainQuery::default()
    });
    let state = explained.await.unwrap().events[0].deliveries[0].state;
    let DeliveryState::AttemptDue { at, attempts } = state else {
        panic!("{state:?}");
    };
    let began = Timestamp::from_millis(START_MS);
    assert_eq!((at.since(began).as_secs(), attempts), (10, 1));
}

/// FC-10: events of other topics with the same id, however many, do not hide the one that is asked for.
#[tokio::test(start_paused = true)]
async fn the_same_id_in_another_topic_is_another_event() {
    let (world, _history) = world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let other = world.topic("invoices").await;
    subscribe(&world, "the-sub", json!({})).await;
    world.publish(topic, &["e"]).await;
    world.settle().await;
    for _ in 0..30 {
        world.publish(other, &["e"]).await;
    }
    world.settle().await;
    assert_eq!(resend(&world, "e").await, the_sub(ResentHow::Resent));
}

/// FC-10: of several events with the id it is the newest, or none.
#[tokio::test(start_paused = true)]
async fn an_older_event_with_the_id_never_takes_the_place_of_the_newest() {
    for reading in [Reading::Forgotten, Reading::Damaged] {
        let (world, _history) = world(|_, _| Meet::status(200));
        let topic = world.topic("orders").await;
        subscribe(&world, "the-sub", json!({})).await;
        world.publish(topic, &["e"]).await;
        world.sleep_until(seconds(1)).await;
        world.publish(topic, &["e"]).await;
        world.settle().await;
        world.shelf.set(topic, 2, reading);
        let error = world.handle.resend(query("e", None)).await.unwrap_err();
        let is_forgotten = matches!(error, CommandError::Forgotten(_));
        assert_eq!(is_forgotten, reading == Reading::Forgotten, "{error}");
        let is_told = error.to_string().contains("cannot be read");
        assert_eq!(is_told, reading == Reading::Damaged, "{error}");
        world.sleep_until(seconds(100)).await;
        assert_eq!(attempts(&world, "the-sub", "e"), [(0, 0), (1, 0)]);
    }
}

/// An event that memory remembers and the disk does not cannot be owed: after a restart nobody could deliver it.
#[tokio::test(start_paused = true)]
async fn what_only_memory_remembers_is_not_delivered_again() {
    let (world, _history) = world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    subscribe(&world, "the-sub", json!({})).await;
    world.publish(topic, &["e"]).await;
    world.settle().await;
    world.shelf.set(topic, 1, Reading::Remembered);
    let error = world.handle.resend(query("e", None)).await.unwrap_err();
    assert!(matches!(error, CommandError::Forgotten(_)), "{error}");
    world.sleep_until(seconds(100)).await;
    assert_eq!(attempts(&world, "the-sub", "e"), [(0, 0)]);
}

/// FC-10: one series, even if the row that waited comes into memory before the record that moves it is durable.
#[tokio::test(start_paused = true)]
async fn a_row_on_its_way_is_not_fetched_from_where_it_stood() {
    let (world, _history) = world(|_, attempt| Meet::status(if attempt < 5 { 500 } else { 200 }));
    let topic = world.topic("orders").await;
    let more = json!({"delayedDelivery": {"enabled": false}});
    subscribe(&world, "the-sub", more).await;
    world.publish(topic, &["e"]).await;
    // The sixth attempt is due at 900.
    world.sleep_until(seconds(400)).await;
    world.hold();
    let (resent, ()) = tokio::join!(resend(&world, "e"), async {
        world.sleep_until(seconds(880)).await;
        world.release();
    });
    assert_eq!(resent, the_sub(ResentHow::BroughtForward));
    world.sleep_until(seconds(100_000)).await;
    let expected = [(0, 0), (10, 1), (30, 2), (60, 3), (300, 4), (880, 5)];
    assert_eq!(attempts(&world, "the-sub", "e"), expected);
    world.assert_balanced("orders", "the-sub").await;
}

/// Resends that are under way are bounded: each keeps an event, and somebody waits.
#[tokio::test(start_paused = true)]
async fn too_many_resends_at_a_time_are_refused() {
    let (world, _history) = world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    subscribe(&world, "the-sub", json!({})).await;
    // The log keeps them, however long it takes.
    subscribe(&world, "keeper", json!({})).await;
    world.pause("keeper", true).await;
    let ids: Vec<String> = (0..RESENDS_MAX + 3).map(|n| format!("e{n}")).collect();
    let strs: Vec<&str> = ids.iter().map(String::as_str).collect();
    world.publish(topic, &strs).await;
    world.sleep_until(seconds(10)).await;
    world.hold();
    let mut asking = tokio::task::JoinSet::new();
    for id in &ids {
        let (handle, query) = (world.handle.clone(), query(id, Some("the-sub")));
        asking.spawn(async move { handle.resend(query).await });
    }
    for _ in 0..3 {
        let refused = asking.join_next().await.unwrap().unwrap();
        assert!(matches!(refused, Err(CommandError::Busy(_))), "{refused:?}");
    }
    world.release();
    while let Some(resent) = asking.join_next().await {
        assert_eq!(resent.unwrap().unwrap()[0].how, ResentHow::Resent);
    }
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(world.seen().len(), ids.len() + RESENDS_MAX);
}
