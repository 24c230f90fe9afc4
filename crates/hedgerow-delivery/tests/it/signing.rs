//! Signatures by Standard Webhooks on the wire (ED-142, FC-13), verified here by the standard's text and not by the code that
//! makes them.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::CommandError;
use hedgerow_delivery::resend::{ResendQuery, ResentHow};
use hedgerow_io::clock::SteppedClock;
use ring::hmac;
use serde_json::{Value, json};

use crate::explain::world;
use crate::world::{Greet, Meet, START_MS, Seen, World, settings};

/// Receivers refuse what is older, or from so far in the future, as the standard advises.
const TOLERANCE_SECONDS: u64 = 300;

fn secret(byte: u8) -> String {
    format!("whsec_{}", STANDARD.encode([byte; 24]))
}

/// Whether a receiver with this secret takes a request that reached it at a time of its clock.
fn is_verified(seen: &Seen, secret: &str, now_seconds: u64) -> bool {
    let [id, time, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"]
        .map(|name| seen.headers.get(name).expect("a signed request").as_str());
    let sent: u64 = time.parse().expect("seconds");
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let signed = format!("{id}.{time}.{}", seen.body);
    let verifies = |signature: &str| {
        let signature = signature.strip_prefix("v1,").expect("the version");
        let signature = STANDARD.decode(signature).expect("base64");
        hmac::verify(&key, signed.as_bytes(), &signature).is_ok()
    };
    sent.abs_diff(now_seconds) <= TOLERANCE_SECONDS && signatures.split(' ').any(verifies)
}

fn arrived_seconds(seen: &Seen) -> u64 {
    START_MS / 1_000 + seen.at.as_secs()
}

async fn sign_with(world: &World, signing: Value) {
    let declared = json!({ "signing": signing, "delayedDelivery": { "enabled": false } });
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
}

/// FC-13: every attempt has a signature of its own time, also hours later and when it is sent again by hand; the id stays.
#[tokio::test(start_paused = true)]
async fn retries_and_resends_are_signed_anew() {
    let meet = |_: &str, attempt: usize| Meet::status(if attempt < 6 { 503 } else { 200 });
    let (world, _history) = world(meet);
    let topic = world.topic("orders").await;
    sign_with(&world, json!({ "secret": secret(1) })).await;
    world.publish(topic, &["a", "b"]).await;
    world.sleep_until(Duration::from_secs(86_000)).await;
    let again = ResendQuery {
        topic: "orders".to_owned(),
        event_id: "a".to_owned(),
        subscription: None,
    };
    let resent = world.handle.resend(again).await.unwrap();
    assert_eq!(resent[0].how, ResentHow::Resent);
    world.sleep_until(Duration::from_secs(90_000)).await;

    let seen = world.seen();
    let of = |id: &str| {
        seen.iter()
            .filter(|one| one.event_id == id)
            .collect::<Vec<_>>()
    };
    assert!(
        of("a").len() > of("b").len() && of("b").len() > 5,
        "{}",
        seen.len()
    );
    let id = |seen: &Seen| seen.headers["webhook-id"].clone();
    for event in ["a", "b"] {
        let attempts = of(event);
        let last = attempts.last().unwrap();
        assert!(last.at - attempts[0].at > Duration::from_secs(TOLERANCE_SECONDS));
        for attempt in &attempts {
            assert!(
                is_verified(attempt, &secret(1), arrived_seconds(attempt)),
                "{attempt:?}"
            );
            assert!(!is_verified(attempt, &secret(2), arrived_seconds(attempt)));
            assert_eq!(id(attempt), id(last), "constant over attempts");
            assert_eq!(id(attempt), attempt.headers["aeg-output-event-id"]);
        }
    }
    assert_ne!(id(of("a")[0]), id(of("b")[0]));
}

/// ED-142: during a rotation receivers with either secret take what is sent, and later those with the new one only. A
/// subscription without secrets sends no signature.
#[tokio::test(start_paused = true)]
async fn both_secrets_hold_during_a_rotation() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let until = Timestamp::from_millis(START_MS + 60_000).to_string();
    let rotating = json!({ "secret": secret(2), "previousSecret": secret(1),
        "previousSecretValidUntil": until });
    let steps = [
        (json!({ "secret": secret(1) }), [true, false]),
        (rotating.clone(), [true, true]),
        (
            json!({ "secret": secret(2), "previousSecret": secret(1) }),
            [true, true],
        ),
        (json!({ "secret": secret(2) }), [false, true]),
    ];
    let mut count = 0;
    for (signing, expected) in steps {
        sign_with(&world, signing).await;
        world.publish(topic, &["a"]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        count += 1;
        let seen = world.seen();
        assert_eq!(seen.len(), count);
        let newest = &seen[count - 1];
        let verified =
            [1, 2].map(|byte| is_verified(newest, &secret(byte), arrived_seconds(newest)));
        assert_eq!(verified, expected);
    }
    sign_with(&world, rotating).await;
    world.sleep_until(Duration::from_secs(60)).await;
    world.publish(topic, &["late"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let late = world.seen().pop().unwrap();
    assert!(!is_verified(&late, &secret(1), arrived_seconds(&late)));
    assert!(is_verified(&late, &secret(2), arrived_seconds(&late)));
    sign_with(&world, Value::Null).await;
    world.publish(topic, &["plain"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let plain = world.seen().pop().unwrap();
    assert!(
        !plain
            .headers
            .keys()
            .any(|name| name.starts_with("webhook-")),
        "off by default"
    );
}

/// ED-142 with ED-219, ED-221: a batch has one signature, over the whole array, and one id for as long as the same events travel
/// together; its parts have their own.
#[tokio::test(start_paused = true)]
async fn batches_are_signed_whole() {
    let meet = |ids: &str, attempt: usize| match (ids, attempt) {
        ("a,b,c", 0) => Meet::status(503),
        ("a,b,c", _) => Meet::status(413),
        _ => Meet::status(200),
    };
    let world = World::with_settings(settings(), meet);
    let topic = world.topic("orders").await;
    let declared = json!({
        "destination": { "endpointType": "WebHook", "properties": {
            "endpointUrl": "https://the-sub.example/hook", "maxEventsPerBatch": 10 } },
        "batch": { "splitOn413": true },
        "signing": { "secret": secret(2), "previousSecret": secret(1) },
    });
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    world.pause("the-sub", true).await;
    world.publish(topic, &["a", "b", "c"]).await;
    world.settle().await;
    world.pause("the-sub", false).await;
    world.sleep_until(Duration::from_secs(600)).await;
    let seen = world.seen();
    let ids: Vec<_> = seen.iter().map(|one| one.event_id.as_str()).collect();
    assert_eq!(ids, ["a,b,c", "a,b,c", "a", "b,c"]);
    let id = |seen: &Seen| seen.headers["webhook-id"].clone();
    for one in &seen {
        for byte in [1, 2] {
            let arrived = arrived_seconds(one);
            assert!(is_verified(one, &secret(byte), arrived), "{one:?}");
        }
        assert!(!is_verified(one, &secret(3), arrived_seconds(one)));
    }
    assert_eq!(id(&seen[0]), id(&seen[1]), "the same events");
    let all: std::collections::BTreeSet<_> = seen[1..].iter().map(id).collect();
    assert_eq!(all.len(), 3, "a part is another message");
}

/// Design D4: signatures are dated by the system's clock, which receivers share, and not by the server's time, which takes long
/// to follow a step of it.
#[tokio::test(start_paused = true)]
async fn signatures_are_dated_by_the_systems_clock() {
    let clock = SteppedClock::new(Timestamp::from_millis(START_MS));
    let world = World::with_clock(Arc::new(clock.clone()), settings(), |_, _| {
        Meet::status(200)
    });
    let topic = world.topic("orders").await;
    sign_with(&world, json!({ "secret": secret(1) })).await;
    let day_ms = 86_400_000;
    for step in [day_ms, -day_ms / 2] {
        clock.step(step);
        world.publish(topic, &["a"]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let seen = world.seen();
    assert_eq!(seen.len(), 2);
    for (one, stepped) in seen.iter().zip([day_ms, day_ms / 2]) {
        let now = arrived_seconds(one) + stepped.unsigned_abs() / 1_000;
        assert!(is_verified(one, &secret(1), now), "{one:?}");
    }
}

/// Who verifies deliveries verifies the validation event with the same secret, or would never consent.
#[tokio::test(start_paused = true)]
async fn validation_events_are_signed() {
    let mut settings = settings();
    settings.validation.is_enabled = true;
    let world = World::with_settings(settings, |_, _| Meet::status(200));
    world.topic("orders").await;
    world.greet(|_, _| Greet::Code);
    sign_with(&world, json!({ "secret": secret(1) })).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = world.asked();
    let seen = Seen {
        at: asked[0].at,
        time: Timestamp::ZERO,
        host: String::new(),
        event_id: String::new(),
        delivery_count: 0,
        headers: asked[0].headers.clone(),
        body: asked[0].body.clone(),
    };
    assert!(is_verified(&seen, &secret(1), arrived_seconds(&seen)));
    // A rotation alone asks nobody again.
    sign_with(
        &world,
        json!({ "secret": secret(2), "previousSecret": secret(1) }),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.asked().len(), 1);
}

/// ED-142: a secret that holds no more is refused when it is declared, and does not keep what was declared before it ended from
/// being changed.
#[tokio::test(start_paused = true)]
async fn a_secret_that_holds_no_more_is_refused() {
    let world = World::new(|_, _| Meet::status(200));
    world.topic("orders").await;
    let at = |seconds: u64| Timestamp::from_millis(START_MS + seconds * 1_000).to_string();
    let declared = |seconds: u64, ttl: u32| {
        json!({ "signing": { "secret": secret(2), "previousSecret": secret(1),
            "previousSecretValidUntil": at(seconds) },
            "retryPolicy": { "eventTimeToLiveInMinutes": ttl } })
    };
    let subscribe = async |seconds, ttl| {
        let declared = declared(seconds, ttl);
        world.subscribe("orders", "the-sub", declared).await
    };
    subscribe(60, 10).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    subscribe(60, 20).await.unwrap();
    let Err(CommandError::Invalid(refused)) = subscribe(59, 20).await else {
        panic!("it is taken");
    };
    assert_eq!(
        (refused.field.as_str(), refused.message.as_str()),
        ("signing.previousSecretValidUntil", "must not be past")
    );
    subscribe(1_000, 20).await.unwrap();
}
