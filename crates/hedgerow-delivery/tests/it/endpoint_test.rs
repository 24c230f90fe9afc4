//! Test events for endpoints: what is sent, what its answer would mean, and that nothing is left of it (ED-312).

use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_delivery::command::CommandError;
use hedgerow_delivery::dry_run::DryRunQuery;
use hedgerow_delivery::endpoint_test::{EndpointTest, EndpointTestQuery, TestDelivery, TestNext};
use hedgerow_store::StoredEvent;
use hedgerow_store::record::PackedEvents;
use serde_json::{Value, json};

use crate::world::{Asked, Greet, Meet, World, event, settings};

fn query(world: &World, more: &Value) -> EndpointTestQuery {
    let mut spec = json!({ "destination": { "endpointType": "WebHook",
        "properties": { "endpointUrl": "https://the-sub.example/hook?code=secret" } } });
    for (member, value) in more.as_object().unwrap() {
        spec[member] = value.clone();
    }
    let events = PackedEvents::pack(&[event("test")]);
    let bytes = events.slices().next().unwrap().unwrap();
    EndpointTestQuery {
        endpoint: DryRunQuery {
            topic: "orders".to_owned(),
            name: "the-sub".parse().unwrap(),
            spec: Box::new(SubscriptionSpec::check(&spec).unwrap().spec),
            origin: None,
        },
        event: StoredEvent {
            published: world.now(),
            bytes,
        },
    }
}

async fn test(world: &World, more: Value) -> EndpointTest {
    let query = query(world, &more);
    world.handle.test_endpoint(query).await.unwrap()
}

async fn delivery(world: &World, more: Value) -> TestDelivery {
    test(world, more).await.delivery.unwrap()
}

type Greeting = fn(&Asked, usize) -> Greet;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// What each answer would mean for a first attempt, by the rule table of section 4.3 and the worked timelines: W3, W5, W15 to
/// W18, W21 and W28 begin like this.
#[tokio::test(start_paused = true)]
async fn an_answer_means_what_it_would_for_a_delivery() {
    let retry = |count| TestNext::Retry {
        after: seconds(count),
    };
    let bad_request = DeadLetterReason::UndeliverableDueToHttpBadRequest;
    let written = json!({ "deadLetterDestination": { "endpointType": "LocalDirectory",
        "properties": { "path": "letters" } } });
    let rows: [(Meet, Value, Option<Outcome>, TestNext); 11] = [
        (Meet::status(204), json!({}), None, TestNext::Delivered),
        (
            Meet::status(500),
            json!({}),
            Some(Outcome::GenericError),
            retry(10),
        ),
        (
            Meet::status(302),
            json!({}),
            Some(Outcome::GenericError),
            retry(10),
        ),
        (Meet::status(503), json!({}), Some(Outcome::Busy), retry(30)),
        (
            Meet::status(404),
            json!({}),
            Some(Outcome::NotFound),
            retry(300),
        ),
        // The timeout is over at 30 s, and the first slot ten seconds later is at 60 s.
        (Meet::Silence, json!({}), Some(Outcome::TimedOut), retry(30)),
        (
            Meet::NoName,
            json!({}),
            Some(Outcome::ResolutionError),
            retry(10),
        ),
        (
            Meet::status(400),
            json!({}),
            Some(Outcome::BadRequest),
            TestNext::Dropped {
                reason: bad_request,
            },
        ),
        (
            Meet::status(400),
            written.clone(),
            Some(Outcome::BadRequest),
            TestNext::DeadLettered {
                reason: bad_request,
                after: seconds(300),
            },
        ),
        (
            Meet::status(500),
            json!({ "retryPolicy": { "maxDeliveryAttempts": 1 } }),
            Some(Outcome::GenericError),
            TestNext::Dropped {
                reason: DeadLetterReason::MaxDeliveryAttemptsExceeded,
            },
        ),
        (
            Meet::status(404),
            json!({ "retryPolicy": { "eventTimeToLiveInMinutes": 1 } }),
            Some(Outcome::NotFound),
            TestNext::Expired {
                after: seconds(300),
            },
        ),
    ];
    for (meet, more, outcome, next) in rows {
        let found = meet.clone();
        let world = World::with_settings(settings(), move |_, _| found.clone());
        world.topic("orders").await;
        let delivery = delivery(&world, more).await;
        assert_eq!(delivery.outcome, outcome, "{meet:?}");
        assert_eq!(delivery.next, next, "{meet:?}");
        assert_eq!(
            delivery.error.is_some(),
            delivery.answer.is_none(),
            "{meet:?}"
        );
        assert!(!format!("{delivery:?}").contains("secret"), "ED-121");
    }
}

/// What is sent is what a first attempt sends: in the form of the subscription, with its headers, which are shown without secrets.
#[tokio::test(start_paused = true)]
async fn a_test_event_is_sent_as_a_first_attempt_and_shown_whole() {
    let world = World::with_settings(settings(), |_, _| Meet::status(200));
    world.topic("orders").await;
    let mapping = |name: &str, is_secret: bool| {
        json!({ "name": name, "type": "Static",
            "properties": { "value": format!("value-of-{name}"), "isSecret": is_secret } })
    };
    let destination = json!({ "endpointType": "WebHook", "properties": {
        "endpointUrl": "https://the-sub.example/hook?code=secret",
        "deliveryAttributeMappings": [mapping("x-open", false), mapping("x-key", true)],
    } });
    let signing = json!({ "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" });
    for is_batch in [false, true] {
        let mut destination = destination.clone();
        if is_batch {
            destination["properties"]["maxEventsPerBatch"] = json!(10);
        }
        let more = json!({ "destination": destination, "signing": signing });
        let delivery = delivery(&world, more).await;
        let seen = world.seen().pop().unwrap();
        let sent = delivery.wire.sent.unwrap();
        assert_eq!(sent.line, "POST /hook?*** HTTP/1.1");
        assert_eq!(sent.body, seen.body);
        assert!(!sent.is_cut);
        for (name, value) in &sent.headers {
            let expected = if name == "x-key" {
                "***"
            } else {
                &seen.headers[name]
            };
            assert_eq!(value, expected, "{name}");
        }
        assert_eq!(sent.headers.len(), seen.headers.len());
        assert_eq!(seen.headers["x-key"], "value-of-x-key");
        assert_eq!(seen.headers["aeg-event-type"], "Notification");
        assert_eq!(seen.headers["aeg-delivery-count"], "0", "ED-138");
        assert!(seen.headers.contains_key("webhook-signature"), "ED-142");
        let size = seen.headers.get("hedgerow-batch-size").map(String::as_str);
        assert_eq!(size, is_batch.then_some("1"), "ED-132");
    }
    let ids: Vec<_> = world
        .seen()
        .iter()
        .map(|seen| seen.headers["webhook-id"].clone())
        .collect();
    assert_ne!(ids[0], ids[1], "no receiver takes one for the other");
}

/// Whoever does not consent gets no event, unless it is an endpoint that gets them already.
#[tokio::test(start_paused = true)]
async fn without_consent_nothing_is_sent() {
    let mut settings = settings();
    settings.validation.is_enabled = true;
    let greetings: [(Greeting, Value); 4] = [
        (|_, _| Greet::status(200), json!({})),
        (|_, _| Greet::status(202), json!({})),
        (|_, _| Greet::Silence, json!({})),
        (
            |_, _| Greet::status(405),
            json!({ "eventDeliverySchema": "CloudEventSchemaV1_0" }),
        ),
    ];
    for (greeting, more) in greetings {
        let world = World::with_settings(settings.clone(), |_, _| Meet::status(200));
        world.topic("orders").await;
        world.greet(greeting);
        let found = test(&world, more.clone()).await;
        assert!(found.delivery.is_none(), "{found:?}");
        let handshake = found.handshake.unwrap();
        assert!(handshake.failed_at.is_some());
        let wire = handshake.wire.unwrap();
        let (sent, asked) = (wire.sent.unwrap(), world.asked().pop().unwrap());
        assert!(sent.line.starts_with(&asked.method), "{sent:?}");
        assert_eq!(sent.headers.len(), asked.headers.len());
        assert!(wire.timings.total.is_some());
        if asked.method == "POST" {
            assert!(!sent.body.contains(&asked.code()), "ED-153: it is a secret");
        }
        assert!(world.seen().is_empty());
        // The same endpoint, once it has consented: it gets events anyway.
        world.greet(
            |asked, _| match asked.headers.get("webhook-request-origin") {
                Some(origin) => Greet::answer(200, &[("webhook-allowed-origin", origin)]),
                None => Greet::Code,
            },
        );
        world
            .subscribe("orders", "the-sub", more.clone())
            .await
            .unwrap();
        world.sleep_until(Duration::from_secs(120)).await;
        world.greet(greeting);
        let found = test(&world, more).await;
        assert!(found.delivery.is_some(), "{found:?}");
        assert_eq!(world.seen().len(), 1);
    }
}

/// Nothing is stored, counted, or held against the endpoint; and what could not be declared is not tested.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_test() {
    let world = World::with_settings(settings(), |_, _| Meet::NoName);
    world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    world.settle().await;
    let (groups, before) = (world.groups(), world.info("orders", "the-sub").await);
    for _ in 0..12 {
        test(&world, json!({})).await;
    }
    world.settle().await;
    let after = world.info("orders", "the-sub").await;
    assert_eq!(world.groups(), groups, "no record");
    assert_eq!(after.counters, before.counters);
    assert!(
        after.hold.until.is_none(),
        "neither probation nor delayed delivery"
    );
    let nowhere = json!({ "destination": { "endpointType": "WebHook",
        "properties": { "endpointUrl": "https://169.254.169.254/" } } });
    let refused = world.handle.test_endpoint(query(&world, &nowhere)).await;
    assert!(matches!(refused, Err(CommandError::Invalid(_))), "FC-15");
}
