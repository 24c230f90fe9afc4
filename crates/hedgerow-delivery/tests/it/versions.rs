//! What is versioned by position: existence and filter (design D2, ED-085). Each change of a subscription is made while it
//! stands at the head, while it lags behind, and with crashes before and after it; what is delivered is the same. A pause is
//! not versioned: it delays, and what is delivered in the end is the same too.

use std::collections::BTreeSet;
use std::time::Duration;

use hedgerow_core::credit::CreditSettings;
use hedgerow_core::event::Event;
use hedgerow_core::limits::FILTERS_IN_FORCE_MAX;
use hedgerow_core::position::TopicId;
use hedgerow_core::validation::AllowedRate;
use hedgerow_delivery::command::CommandError;
use hedgerow_delivery::validation::{Callback, Called};
use serde_json::{Value, json};

use crate::world::{Greet, Meet, World, event, settings};

/// More than wait in memory, so that who gets them slowly stands before the reader.
const LAG: usize = 5_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Create,
    Filter,
    Delete,
    Recreate,
    /// Paused, and resumed long after the last event.
    Pause,
    /// Created before the first event; its endpoint consents here.
    ValidateLate,
    /// Another filter at another endpoint, declared before the first event; that endpoint consents here.
    ValidateUpdateLate,
}

impl Change {
    /// Whether the subscription gets events before the change.
    fn has_it_before(self) -> bool {
        !matches!(self, Self::Create | Self::ValidateLate)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    AtTheHead,
    Lagging,
    AfterACrash,
}

/// Of the events A1 and B1, the change, then A2 and B2.
const EXPECTED: [(Change, &[&str]); 7] = [
    (Change::Create, &["A2"]),
    (Change::Filter, &["A1", "B2"]),
    (Change::Delete, &["A1"]),
    (Change::Recreate, &["A1", "B2"]),
    (Change::Pause, &["A1", "A2"]),
    (Change::ValidateLate, &["A2"]),
    (Change::ValidateUpdateLate, &["A1", "B2"]),
];

fn wanting(kind: &str) -> Value {
    json!({ "filter": {
        "advancedFilters": [{ "operatorType": "StringIn", "key": "eventType", "values": [kind] }],
    }})
}

/// The first letter of an id is the event's type.
async fn publish(world: &World, topic: TopicId, ids: &[&str]) {
    for id in ids {
        let event = Event {
            event_type: id[..1].into(),
            ..event(id)
        };
        world.publish_event(topic, &event).await;
    }
}

async fn subscribe(world: &World, declared: Value) {
    let made = world.subscribe("orders", "the-sub", declared).await;
    made.unwrap();
}

/// What there is before the first event.
async fn prepare(world: &World, change: Change) {
    let says_nothing = |_: &_, _| Greet::status(200);
    match change {
        Change::Create => {}
        Change::Filter | Change::Delete | Change::Recreate | Change::Pause => {
            subscribe(world, wanting("A")).await;
        }
        Change::ValidateLate => {
            world.greet(says_nothing);
            subscribe(world, wanting("A")).await;
        }
        Change::ValidateUpdateLate => {
            subscribe(world, wanting("A")).await;
            world.settle().await;
            world.greet(says_nothing);
            let mut elsewhere = wanting("B");
            elsewhere["destination"] = json!({
                "endpointType": "WebHook",
                "properties": { "endpointUrl": "https://the-sub.example/elsewhere" },
            });
            subscribe(world, elsewhere).await;
        }
    }
    world.settle().await;
}

async fn make(world: &World, change: Change) {
    match change {
        Change::Create => subscribe(world, wanting("A")).await,
        Change::Filter => subscribe(world, wanting("B")).await,
        Change::Delete => world.unsubscribe("orders", "the-sub").await,
        Change::Recreate => {
            world.unsubscribe("orders", "the-sub").await;
            subscribe(world, wanting("B")).await;
        }
        Change::Pause => drop(world.pause("the-sub", true).await),
        Change::ValidateLate | Change::ValidateUpdateLate => consent(world).await,
    }
}

/// Somebody opens the URL that the endpoint was sent last.
async fn consent(world: &World) {
    let callback = Callback {
        token: world.asked().last().expect("it was asked").token(),
        is_post: false,
        rate: AllowedRate::Unlimited,
    };
    let called = world.handle.call_back(callback).await.unwrap();
    assert!(matches!(called, Called::Completed { .. }), "{called:?}");
}

async fn delivered(change: Change, place: Place) -> BTreeSet<String> {
    let mut settings = settings();
    let (start, min, max) = (256, 256, 256);
    settings.credits = CreditSettings { start, min, max };
    // Otherwise a subscription is in force when its declaration is answered.
    settings.validation.is_enabled =
        matches!(change, Change::ValidateLate | Change::ValidateUpdateLate);
    let slow = place == Place::Lagging;
    let meet = move |_: &str, _| {
        if slow {
            Meet::late(200, 2)
        } else {
            Meet::status(200)
        }
    };
    let mut world = World::with_settings(settings, meet);
    let topic = world.topic("orders").await;
    prepare(&world, change).await;
    publish(&world, topic, &["A1", "B1"]).await;
    match place {
        Place::AtTheHead => world.settle().await,
        Place::Lagging => {
            let lag: Vec<String> = (0..LAG).map(|number| format!("A-lag-{number}")).collect();
            let lag: Vec<&str> = lag.iter().map(String::as_str).collect();
            publish(&world, topic, &lag).await;
            world.settle().await;
            if change.has_it_before() {
                assert!(world.info("orders", "the-sub").await.behind > 0, "it lags");
            }
        }
        Place::AfterACrash => {
            world.crash().await;
            world.settle().await;
        }
    }
    make(&world, change).await;
    publish(&world, topic, &["A2", "B2"]).await;
    if place == Place::AfterACrash {
        world.crash().await;
    }
    let now = world.begun.elapsed();
    world.sleep_until(now + Duration::from_secs(300)).await;
    if change == Change::Pause {
        let seen = world.seen_ids();
        assert!(!seen.iter().any(|id| id == "A2"), "{place:?}: it is paused");
        world.pause("the-sub", false).await;
        world.sleep_until(now + Duration::from_secs(600)).await;
    }
    if change != Change::Delete {
        let info = world.info("orders", "the-sub").await;
        assert_eq!((info.pending, info.behind), (0, 0), "{change:?} {place:?}");
        world.assert_balanced("orders", "the-sub").await;
    }
    let seen = world.seen_ids().into_iter();
    seen.filter(|id| !id.starts_with("A-lag-")).collect()
}

/// ED-085.
#[tokio::test(start_paused = true)]
async fn what_is_delivered_does_not_depend_on_when_it_is_read() {
    for (change, expected) in EXPECTED {
        let expected: BTreeSet<String> = expected.iter().map(|id| (*id).to_owned()).collect();
        for place in [Place::AtTheHead, Place::Lagging, Place::AfterACrash] {
            assert_eq!(
                delivered(change, place).await,
                expected,
                "{change:?} {place:?}"
            );
        }
    }
}

/// Each filter decides about the events from its own place on (ED-085). So a subscription that stands still keeps them all; the
/// count has a bound, and when it has caught up its filter can be changed again.
#[tokio::test(start_paused = true)]
async fn a_filter_is_not_changed_without_bound_while_the_subscription_stands_still() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let wanting_one = |number: usize| wanting(&format!("kind-{number}"));
    let subscribe = |number| world.subscribe("orders", "the-sub", wanting_one(number));
    subscribe(1).await.unwrap();
    world.pause("the-sub", true).await;
    for number in 2..FILTERS_IN_FORCE_MAX {
        publish(&world, topic, &["A"]).await;
        // No event lies between these two: the second takes the place of the first.
        subscribe(0).await.unwrap();
        subscribe(number).await.unwrap();
    }
    publish(&world, topic, &["A"]).await;
    subscribe(FILTERS_IN_FORCE_MAX).await.unwrap();
    match subscribe(0).await.map(|_| ()) {
        Err(CommandError::FilterLimit(message)) => {
            assert!(message.contains("\"the-sub\""), "{message}");
        }
        other => panic!("{other:?}"),
    }
    // What leaves the filter alone is taken.
    let mut more = wanting_one(FILTERS_IN_FORCE_MAX);
    more["labels"] = json!(["kept"]);
    world.subscribe("orders", "the-sub", more).await.unwrap();
    world.pause("the-sub", false).await;
    world.sleep_until(Duration::from_secs(60)).await;
    let caught_up = subscribe(0)
        .await
        .map(|info| info.subscription.filters.len());
    assert_eq!(caught_up.unwrap(), 1, "what nobody needs is forgotten");
}
