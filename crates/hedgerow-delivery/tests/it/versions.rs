//! What is versioned by position: existence and filter (design D2, ED-085). Each change of a subscription is made while it
//! stands at the head, while it lags behind, and with crashes before and after it; what is delivered is the same.

use std::collections::BTreeSet;
use std::time::Duration;

use hedgerow_core::credit::CreditSettings;
use hedgerow_core::event::Event;
use hedgerow_core::position::TopicId;
use serde_json::{Value, json};

use crate::world::{Meet, World, event, settings};

/// More than wait in memory, so that who gets them slowly stands before the reader.
const LAG: usize = 5_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Create,
    Filter,
    Delete,
    Recreate,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    AtTheHead,
    Lagging,
    AfterACrash,
}

/// Of the events A1 and B1, the change, then A2 and B2.
const EXPECTED: [(Change, &[&str]); 4] = [
    (Change::Create, &["A2"]),
    (Change::Filter, &["A1", "B2"]),
    (Change::Delete, &["A1"]),
    (Change::Recreate, &["A1", "B2"]),
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

async fn make(world: &World, change: Change) {
    match change {
        Change::Create => drop(
            world
                .subscribe("orders", "the-sub", wanting("A"))
                .await
                .unwrap(),
        ),
        Change::Filter => {
            drop(
                world
                    .subscribe("orders", "the-sub", wanting("B"))
                    .await
                    .unwrap(),
            );
        }
        Change::Delete => world.unsubscribe("orders", "the-sub").await,
        Change::Recreate => {
            world.unsubscribe("orders", "the-sub").await;
            drop(
                world
                    .subscribe("orders", "the-sub", wanting("B"))
                    .await
                    .unwrap(),
            );
        }
    }
}

async fn delivered(change: Change, place: Place) -> BTreeSet<String> {
    let mut settings = settings();
    let (start, min, max) = (256, 256, 256);
    settings.credits = CreditSettings { start, min, max };
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
    if change != Change::Create {
        world
            .subscribe("orders", "the-sub", wanting("A"))
            .await
            .unwrap();
    }
    publish(&world, topic, &["A1", "B1"]).await;
    match place {
        Place::AtTheHead => world.settle().await,
        Place::Lagging => {
            let lag: Vec<String> = (0..LAG).map(|number| format!("A-lag-{number}")).collect();
            let lag: Vec<&str> = lag.iter().map(String::as_str).collect();
            publish(&world, topic, &lag).await;
            world.settle().await;
            if change != Change::Create {
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
