//! Declaring subscriptions at the same time as others, and asking many endpoints.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::limits;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::CommandError;
use hedgerow_delivery::declare::{Declared, SubscriptionDeclaration};
use hedgerow_io::clock::FastClock;
use hedgerow_store::catalog::{Change, Provisioning, Subscription, Validation};
use hedgerow_store::record::{CatalogChange, Record};
use serde_json::{Value, json};

use crate::world::{Greet, Meet, START_MS, World, secrets, settings};

fn world() -> World {
    let mut settings = settings();
    settings.validation.is_enabled = true;
    World::with_settings(settings, |_, _| Meet::status(200))
}

async fn found(world: &World, name: &str) -> Subscription {
    world.info("orders", name).await.subscription
}

/// A declaration with these members over another.
fn with(base: &SubscriptionSpec, more: &Value) -> Box<SubscriptionSpec> {
    let mut declaration = base.to_json();
    for (member, value) in more.as_object().unwrap() {
        declaration[member] = value.clone();
    }
    Box::new(SubscriptionSpec::check(&declaration).unwrap().spec)
}

/// Changes what `base` was.
async fn change(
    world: &World,
    base: &SubscriptionSpec,
    more: Value,
) -> Result<Declared, CommandError> {
    let declaration = SubscriptionDeclaration {
        topic: "orders".to_owned(),
        name: "the-sub".parse().unwrap(),
        spec: with(base, &more),
        expected: Some(Box::new(base.clone())),
    };
    let declared = world.handle.declare_subscription(declaration).await;
    declared.map(|(_, declared)| declared)
}

fn at(host: &str) -> Value {
    let url = format!("https://{host}/hook");
    json!({ "endpointType": "WebHook", "properties": { "endpointUrl": url } })
}

/// Two changes of the same declaration: the second to arrive is refused, and nothing of the first is lost.
#[tokio::test(start_paused = true)]
async fn of_two_changes_at_a_time_none_is_lost() {
    let world = world();
    world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.settle().await;
    let base = found(&world, "the-sub").await.declared().clone();
    let (one, two) = tokio::join!(
        change(&world, &base, json!({ "labels": ["one"] })),
        change(
            &world,
            &base,
            json!({ "retryPolicy": { "maxDeliveryAttempts": 7 } })
        ),
    );
    assert_eq!(one.unwrap(), Declared::Changed);
    let Err(CommandError::Changed { name, .. }) = two else {
        panic!("{two:?}")
    };
    assert_eq!(name, "the-sub");
    let base = found(&world, "the-sub").await.declared().clone();
    let more = json!({ "retryPolicy": { "maxDeliveryAttempts": 7 } });
    assert_eq!(
        change(&world, &base, more).await.unwrap(),
        Declared::Changed
    );
    let spec = found(&world, "the-sub").await.spec;
    assert_eq!(spec.labels, ["one"]);
    assert_eq!(spec.retry_policy.max_delivery_attempts, 7);
    // One that was deleted meanwhile is not made again.
    world.unsubscribe("orders", "the-sub").await;
    let late = change(&world, &spec, json!({ "labels": [] })).await;
    assert!(
        matches!(late, Err(CommandError::Changed { .. })),
        "{late:?}"
    );
}

/// ED-163: what waits for its endpoint is what a change changes; once the endpoint refused, what is in force is.
#[tokio::test(start_paused = true)]
async fn a_change_meets_the_update_that_waits() {
    let world = world();
    world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.settle().await;
    let in_force = found(&world, "the-sub").await.declared().clone();
    world.greet(|_, _| Greet::Silence);
    let more = json!({ "destination": at("new.example") });
    assert_eq!(
        change(&world, &in_force, more.clone()).await.unwrap(),
        Declared::Changed
    );
    let late = change(&world, &in_force, json!({ "labels": ["x"] })).await;
    assert!(
        matches!(late, Err(CommandError::Changed { .. })),
        "{late:?}"
    );
    let waiting = found(&world, "the-sub").await.declared().clone();
    assert_ne!(waiting, in_force);
    // The same again waits for the same handshake.
    assert_eq!(
        change(&world, &waiting, json!({})).await.unwrap(),
        Declared::Unchanged
    );
    world.sleep_until(Duration::from_secs(110)).await;
    let failed = found(&world, "the-sub").await;
    assert_eq!(failed.newest_provisioning(), Provisioning::Failed);
    assert_eq!(*failed.declared(), in_force);
    let again = change(&world, &in_force, more).await.unwrap();
    assert_eq!(again, Declared::AskedAgain { is_new: false });
}

/// ED-157: endpoints that do not answer are asked beside each other, and no more of them than have connections.
#[tokio::test(start_paused = true)]
async fn dead_endpoints_are_asked_beside_each_other() {
    let world = world();
    world.greet(|_, _| Greet::Silence);
    world.topic("orders").await;
    let more = 6;
    for number in 0..limits::HANDSHAKES_MAX + more {
        let name = format!("sub-{number}");
        let made = world.subscribe("orders", &name, json!({})).await.unwrap();
        assert_eq!(made.subscription.provisioning(), Provisioning::Creating);
    }
    world.settle().await;
    assert_eq!(world.asked().len(), limits::HANDSHAKES_MAX);
    // Three tries of 30 s and two waits of 5 s: then the others have their turn.
    world.sleep_until(Duration::from_secs(101)).await;
    for number in 0..limits::HANDSHAKES_MAX {
        let ended = found(&world, &format!("sub-{number}")).await;
        assert_eq!(ended.provisioning(), Provisioning::Failed, "{number}");
    }
    let asked = world.asked().len();
    assert_eq!(asked, 3 * limits::HANDSHAKES_MAX + more);
    world.sleep_until(Duration::from_secs(203)).await;
    let last = format!("sub-{}", limits::HANDSHAKES_MAX + more - 1);
    let last = found(&world, &last).await;
    assert_eq!(last.provisioning(), Provisioning::Failed);
}

/// What waits for nothing has an end: an endpoint that no request can be made for is refused when it is declared, and one that
/// was declared under other rules fails.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_cannot_be_asked_fails() {
    let world = world();
    let topic = world.topic("orders").await;
    let unusable = json!({ "destination": at("the-sub.example:0") });
    let refused = world.subscribe("orders", "the-sub", unusable.clone()).await;
    let Err(CommandError::Invalid(error)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(error.field, "destination.properties.endpointUrl");
    let change = Change::SubscriptionCreated {
        id: SubscriptionId(1),
        topic,
        domain_topic: None,
        name: "the-sub".parse().unwrap(),
        spec: Box::new(SubscriptionSpec::check(&unusable).unwrap().spec),
        created: Timestamp::from_millis(START_MS),
        validation: Some(Validation::new("1.secret".to_owned())),
    };
    let json = change.to_sealed_json(&secrets()).unwrap().into();
    let record = CatalogChange { revision: 2, json };
    let store = world.handle.store();
    store.journal(Record::Catalog(record)).unwrap();
    world.settle().await;
    world.settle().await;
    let failed = found(&world, "the-sub").await;
    assert_eq!(failed.provisioning(), Provisioning::Failed);
    let state = failed.validation.unwrap().state;
    let message = &state.exchange().unwrap().message;
    assert!(message.contains("cannot be used"), "{message}");
}

/// ED-158: people have the time that is documented, however fast the server's passes, also while an attempt is young and it
/// passes as it does.
#[tokio::test(start_paused = true)]
async fn people_have_their_time_on_a_fast_server() {
    let speed = NonZeroU32::new(3_600).unwrap();
    let clock = FastClock::on_tokio(speed, Timestamp::from_millis(START_MS));
    let mut settings = settings();
    settings.validation.is_enabled = true;
    settings.validation.trusted_hosts = vec!["busy.example".to_owned()];
    let world = World::with_clock(Arc::new(clock), settings, |_, _| Meet::late(200, 20));
    let topic = world.topic("orders").await;
    let busy = json!({ "destination": at("busy.example") });
    world.subscribe("orders", "busy", busy).await.unwrap();
    world.greet(|_, _| Greet::status(200));
    // An attempt is young when the endpoint answers.
    world.publish(topic, &["1"]).await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.sleep_until(Duration::from_secs(299)).await;
    let waits = found(&world, "the-sub").await.provisioning();
    assert_eq!(waits, Provisioning::AwaitingManualAction);
    world.sleep_until(Duration::from_secs(305)).await;
    let over = found(&world, "the-sub").await.provisioning();
    assert_eq!(over, Provisioning::Failed);
}
