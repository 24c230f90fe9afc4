//! What is declared, and what a change does to deliveries that run.

use std::time::Duration;

use hedgerow_core::credit::CreditSettings;
use hedgerow_delivery::command::{Command, CommandError, KeyName};
use serde_json::json;

use crate::world::{Meet, World, settings};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn declaring_the_same_again_changes_nothing() {
    let world = World::new(|_, _| Meet::status(200));
    let first = world.topic("orders").await;
    assert_eq!(world.topic("Orders").await, first, "names ignore case");
    let a = world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let b = world
        .subscribe("orders", "THE-SUB", json!({}))
        .await
        .unwrap();
    assert_eq!(a.subscription.id, b.subscription.id);
}

/// Each topic has two keys, independently regenerable (ED-014).
#[tokio::test(start_paused = true)]
async fn one_key_changes_without_the_other() {
    let world = World::new(|_, _| Meet::status(200));
    world.topic("orders").await;
    let before = world.handle.topics()["orders"].keys.clone();
    let asked = world.handle.ask(|answer| Command::RegenerateKey {
        name: "orders".to_owned(),
        key: KeyName::Key1,
        answer,
    });
    let after = asked.await.unwrap();
    assert_ne!(before.key1, after.key1);
    assert_eq!(before.key2, after.key2);
    assert_eq!(world.handle.topics()["orders"].keys, after);
}

/// FC-15: an endpoint that no attempt could reach is refused when it is declared, in the words of the rule.
#[tokio::test(start_paused = true)]
async fn a_closed_address_is_refused_at_once() {
    let world = World::new(|_, _| Meet::status(200));
    world.topic("orders").await;
    for host in ["127.0.0.1", "[::1]", "169.254.169.254", "2130706433"] {
        let destination = json!({"destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": format!("https://{host}/hook")}}});
        let refused = world.subscribe("orders", "the-sub", destination).await;
        let Err(CommandError::Invalid(error)) = refused else {
            panic!("{host}: {refused:?}")
        };
        assert_eq!(error.field, "destination.properties.endpointUrl", "{host}");
    }
    let missing = world.subscribe("nowhere", "the-sub", json!({})).await;
    assert!(
        matches!(missing, Err(CommandError::NotFound { what: "topic", .. })),
        "{missing:?}"
    );
}

/// ED-189: a running attempt to an endpoint that was replaced is cancelled; the delivery goes to the new one, also if the
/// attempt was the last that the retry policy allows.
#[tokio::test(start_paused = true)]
async fn a_new_endpoint_gets_what_the_old_one_had() {
    for attempts_max in [1, 30] {
        let world = World::new(|_, attempt| {
            if attempt == 0 {
                Meet::Silence
            } else {
                Meet::status(200)
            }
        });
        let topic = world.topic("orders").await;
        let at = |path: &str| {
            let url = format!("https://the-sub.example/{path}");
            json!({
                "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": url}},
                "retryPolicy": {"maxDeliveryAttempts": attempts_max},
            })
        };
        let before = world.subscribe("orders", "the-sub", at("hook")).await;
        let before = before.unwrap();
        world.publish(topic, &["e1"]).await;
        world.settle().await;
        let after = world.subscribe("orders", "the-sub", at("new")).await;
        assert_eq!(before.subscription.id, after.unwrap().subscription.id);
        world.settle().await;
        let seen = world.seen();
        assert_eq!(seen.len(), 2, "of at most {attempts_max}");
        assert_eq!(seen[1].delivery_count, 1, "the cancelled attempt counts");
        world.assert_balanced("orders", "the-sub").await;
    }
}

/// ED-172: what is owed to a subscription that is deleted is dropped with it, also what was in flight.
#[tokio::test(start_paused = true)]
async fn a_deleted_subscription_is_attempted_no_more() {
    let world = World::new(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["e1", "e2"]).await;
    world.settle().await;
    world.unsubscribe("orders", "the-sub").await;
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(1000)).await;
    assert_eq!(world.seen().len(), 2);
}

/// Section 3.3: the headers of a delivery in Event Grid schema, and FC-01: `data` passes through byte for byte.
#[tokio::test(start_paused = true)]
async fn a_delivery_carries_its_headers_and_its_data() {
    let world = World::new(|_, attempt| Meet::status(if attempt == 0 { 500 } else { 200 }));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["e1"]).await;
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(11)).await;
    let seen = world.seen();
    assert_eq!(seen.len(), 2);
    for (request, count) in seen.iter().zip(["0", "1"]) {
        let headers = &request.headers;
        assert_eq!(headers["aeg-event-type"], "Notification");
        assert_eq!(headers["aeg-subscription-name"], "THE-SUB");
        assert_eq!(headers["aeg-delivery-count"], count);
        assert_eq!(headers["aeg-metadata-version"], "1");
        assert_eq!(headers["aeg-data-version"], "1.0");
        assert_eq!(headers["content-type"], "application/json; charset=utf-8");
        assert_eq!(headers["content-length"], request.body.len().to_string());
        assert!(
            request.body.contains(r#""data":{"amount": 1.10}"#),
            "{}",
            request.body
        );
    }
    assert_eq!(
        seen[0].headers["aeg-output-event-id"],
        seen[1].headers["aeg-output-event-id"]
    );
}

/// Whoever starts the server may declare things anew before anything is attempted.
#[tokio::test(start_paused = true)]
async fn a_held_start_attempts_nothing_until_it_is_released() {
    let mut world = World::new(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    world.stop().await;
    world.settings.starts_held = true;
    world.start();
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(40)).await;
    assert_eq!(world.seen().len(), 1, "the attempt before the stop");
    world
        .handle
        .ask(|answer| Command::StartDeliveries { answer })
        .await
        .unwrap();
    world.settle().await;
    assert_eq!(world.seen().len(), 2);
}

/// A backlog that expires while its subscription is pointed elsewhere gives each endpoint back what is its own: both go on
/// delivering.
#[tokio::test(start_paused = true)]
async fn expiring_while_the_endpoint_changes_costs_no_endpoint_its_credits() {
    let mut settings = settings();
    settings.credits = CreditSettings {
        start: 2,
        min: 2,
        max: 2,
    };
    let mut world = World::with_settings(settings, |_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let ttl = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    world
        .subscribe("orders", "moves", ttl.clone())
        .await
        .unwrap();
    world.subscribe("orders", "stays", json!({})).await.unwrap();
    world.stop().await;
    let ids: Vec<_> = (0..50).map(|n| n.to_string()).collect();
    world
        .publish(topic, &ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let now = world.begun.elapsed();
    world.sleep_until(now + seconds(100)).await;
    world.start();
    for host in ["stays", "moves", "stays"] {
        let mut spec = ttl.clone();
        spec["destination"] = json!({"endpointType": "WebHook",
            "properties": {"endpointUrl": format!("https://{host}.example/other")}});
        world.subscribe("orders", "moves", spec).await.unwrap();
    }
    world.settle().await;
    world.publish(topic, &["last"]).await;
    world.settle().await;
    let moved = world.info("orders", "moves").await;
    assert_eq!(
        (
            moved.counters.dropped,
            moved.counters.delivered,
            moved.pending
        ),
        (50, 1, 0)
    );
    let stayed = world.info("orders", "stays").await;
    assert_eq!((stayed.counters.delivered, stayed.pending), (51, 0));
}

/// ED-206: a changed policy holds for deliveries that a change of endpoint takes off the wire.
#[tokio::test(start_paused = true)]
async fn a_raised_limit_holds_for_what_was_in_flight() {
    let world = World::new(|_, attempt| {
        if attempt == 0 {
            Meet::Silence
        } else {
            Meet::status(200)
        }
    });
    let topic = world.topic("orders").await;
    let one = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    world.subscribe("orders", "the-sub", one).await.unwrap();
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    let more = json!({"retryPolicy": {"maxDeliveryAttempts": 5},
        "destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": "https://the-sub.example/new"}}});
    world.subscribe("orders", "the-sub", more).await.unwrap();
    world.settle().await;
    assert_eq!(world.info("orders", "the-sub").await.counters.delivered, 1);
}
