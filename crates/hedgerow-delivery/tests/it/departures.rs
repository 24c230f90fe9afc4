//! Subscriptions that go: at their time (ED-173), and what their endpoints are told (ED-171, ED-172).

use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::{Command, CommandError};
use hedgerow_store::catalog::Provisioning;
use serde_json::{Value, json};

use crate::world::{Asked, Greet, Meet, START_MS, World, settings};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The time so many seconds after the start, as it is declared.
fn time(count: u64) -> Value {
    json!(Timestamp::from_millis(START_MS + count * 1_000).to_string())
}

fn data(notice: &Asked) -> Value {
    let body: Value = serde_json::from_str(&notice.body).unwrap();
    body[0]["data"].clone()
}

async fn names(world: &World, topic: &str) -> Vec<String> {
    let topic = topic.to_owned();
    let asked = world
        .handle
        .ask(|answer| Command::Subscriptions { topic, answer });
    let found = asked.await.unwrap().into_iter();
    found
        .map(|info| info.subscription.name.to_string())
        .collect()
}

/// ED-171, ED-172: one notice, one attempt of 30 s, whatever becomes of it; and nothing is attempted any more of what is owed.
#[tokio::test(start_paused = true)]
async fn a_deletion_is_told_once() {
    let world = World::new(|_, _| Meet::status(503));
    let topic = world.topic("orders").await;
    for (name, parting) in [
        ("well", Meet::status(200)),
        ("ill", Meet::status(500)),
        ("silent", Meet::Silence),
    ] {
        let before = world.notices().len();
        world.subscribe("orders", name, json!({})).await.unwrap();
        world.publish(topic, &[name]).await;
        world.settle().await;
        world.part(parting);
        let attempts = world.seen().len();
        world.unsubscribe("orders", name).await;
        world
            .sleep_until(world.begun.elapsed() + seconds(3_600))
            .await;
        let notices = world.notices();
        assert_eq!(notices.len(), before + 1, "{name}");
        let notice = &notices[before];
        assert_eq!(notice.host, format!("{name}.example"));
        assert_eq!(
            (notice.method.as_str(), notice.path.as_str()),
            ("POST", "/hook?code=secret")
        );
        assert_eq!(notice.headers["aeg-subscription-name"], name.to_uppercase());
        let path = "/subscriptions/hedgerow/resourceGroups/hedgerow/providers/Microsoft.EventGrid/topics/orders";
        let id = format!("{path}/providers/Microsoft.EventGrid/eventSubscriptions/{name}");
        assert_eq!(data(notice), json!({ "eventSubscriptionId": id }));
        assert_eq!(
            world.seen().len(),
            attempts,
            "{name}: what was owed is dropped"
        );
    }
    assert_eq!(world.terminal_records().await.len(), 0, "no dead letters");
    let dropped: u64 = world
        .metrics()
        .subscriptions()
        .iter()
        .map(|one| one.dropped.sum())
        .sum();
    assert_eq!(dropped, 3, "ED-301");
}

/// ED-171: only who got events in this schema is told, and of a topic all of them.
#[tokio::test(start_paused = true)]
async fn only_endpoints_that_know_such_events_are_told() {
    let mut settings = settings();
    settings.validation.is_enabled = true;
    let world = World::with_settings(settings, |_, _| Meet::status(200));
    world.topic("orders").await;
    world.greet(|asked, _| match asked.host.as_str() {
        "refuses.example" => Greet::status(500),
        "cloud.example" => Greet::answer(200, &[("webhook-allowed-origin", "*")]),
        _ => Greet::Code,
    });
    let cloud = json!({ "eventDeliverySchema": "CloudEventSchemaV1_0" });
    for (name, more) in [
        ("one", json!({})),
        ("two", json!({})),
        ("refuses", json!({})),
        ("cloud", cloud),
    ] {
        world.subscribe("orders", name, more).await.unwrap();
    }
    world.sleep_until(seconds(60)).await;
    let state = world
        .info("orders", "refuses")
        .await
        .subscription
        .provisioning();
    assert_eq!(state, Provisioning::Failed);
    assert!(world.info("orders", "cloud").await.subscription.is_active());
    let name = "orders".to_owned();
    world
        .handle
        .ask(|answer| Command::DeleteTopic { name, answer })
        .await
        .unwrap();
    world.settle().await;
    let mut hosts: Vec<_> = world.notices().into_iter().map(|one| one.host).collect();
    hosts.sort();
    assert_eq!(hosts, ["one.example", "two.example"]);
}

/// ED-173, ED-172: it goes at its time to the millisecond, is told, and what it is owed goes with it: a retry that is due at that
/// very time is not made.
#[tokio::test(start_paused = true)]
async fn a_subscription_goes_at_its_time() {
    let world = World::new(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    world.subscribe("orders", "stays", json!({})).await.unwrap();
    let expires = json!({ "expirationTimeUtc": time(30) });
    world.subscribe("orders", "goes", expires).await.unwrap();
    world.publish(topic, &["a"]).await;
    world
        .sleep_until(seconds(30) - Duration::from_millis(1))
        .await;
    assert_eq!(names(&world, "orders").await, ["stays", "goes"]);
    world.sleep_until(seconds(30)).await;
    world.settle().await;
    assert_eq!(names(&world, "orders").await, ["stays"]);
    world.sleep_until(seconds(61)).await;
    let attempts = |host: &str| -> Vec<_> {
        let seen = world.seen().into_iter();
        seen.filter(|one| one.host == host)
            .map(|one| one.at.as_secs())
            .collect()
    };
    assert_eq!(attempts("goes.example"), [0, 10]);
    assert_eq!(attempts("stays.example"), [0, 10, 30, 60]);
    let notices = world.notices();
    assert_eq!(notices.len(), 1);
    assert_eq!(
        (notices[0].host.as_str(), notices[0].at),
        ("goes.example", seconds(30))
    );
    // Made again under its name it has nothing of the one before.
    let again = world.subscribe("orders", "goes", json!({})).await.unwrap();
    assert_eq!((again.counters.matched, again.pending), (0, 0));
}

/// ED-173: nothing is attempted from its time on, also while a slow disk keeps the deletion from being durable.
#[tokio::test(start_paused = true)]
async fn nothing_is_attempted_while_the_deletion_is_on_its_way() {
    let world = World::new(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    world.subscribe("orders", "stays", json!({})).await.unwrap();
    let expires = json!({ "expirationTimeUtc": time(20) });
    world.subscribe("orders", "goes", expires).await.unwrap();
    world.publish(topic, &["a"]).await;
    world.sleep_until(seconds(15)).await;
    world.hold();
    world.sleep_until(seconds(35)).await;
    let attempts = |host: &str| -> Vec<_> {
        let seen = world.seen().into_iter();
        let to_it = seen.filter(|one| one.host == host);
        to_it.map(|one| one.at.as_secs()).collect()
    };
    assert_eq!(attempts("stays.example"), [0, 10, 30]);
    assert_eq!(attempts("goes.example"), [0, 10]);
    assert_eq!(names(&world, "orders").await, ["stays", "goes"]);
    world.release();
    world.settle().await;
    assert_eq!(names(&world, "orders").await, ["stays"]);
    assert_eq!(world.notices().len(), 1);
}

/// ED-173: the time is a declaration's like any other: it can be moved and taken back, and one that is past is refused.
#[tokio::test(start_paused = true)]
async fn the_time_can_be_moved_and_taken_back() {
    let world = World::new(|_, _| Meet::status(200));
    world.topic("orders").await;
    world.sleep_until(seconds(10)).await;
    for past in [9, 10] {
        let expires = json!({ "expirationTimeUtc": time(past) });
        let refused = world
            .subscribe("orders", "goes", expires)
            .await
            .unwrap_err();
        let CommandError::Invalid(error) = refused else {
            panic!("{refused}");
        };
        assert_eq!(
            (error.field.as_str(), error.message.as_str()),
            ("expirationTimeUtc", "must not be past")
        );
    }
    for expires in [time(20), time(100), Value::Null] {
        let expires = json!({ "expirationTimeUtc": expires });
        world
            .subscribe("orders", "goes", expires.clone())
            .await
            .unwrap();
        world.subscribe("orders", "moves", expires).await.unwrap();
    }
    world
        .subscribe("orders", "goes", json!({ "expirationTimeUtc": time(40) }))
        .await
        .unwrap();
    world.sleep_until(seconds(39)).await;
    assert_eq!(names(&world, "orders").await, ["goes", "moves"]);
    world.sleep_until(seconds(200)).await;
    assert_eq!(names(&world, "orders").await, ["moves"]);
}

/// ED-173 over restarts: one whose time comes while the server is away goes at the start, and nothing of what it is owed is
/// attempted before; one whose time comes later goes then.
#[tokio::test(start_paused = true)]
async fn times_that_come_while_the_server_is_away_are_kept() {
    let mut world = World::new(|_, _| Meet::status(500));
    let topic = world.topic("orders").await;
    for (name, at) in [("away", 20), ("later", 100)] {
        let expires = json!({ "expirationTimeUtc": time(at) });
        world.subscribe("orders", name, expires).await.unwrap();
    }
    world.publish(topic, &["a"]).await;
    world.sleep_until(seconds(15)).await;
    world.stop().await;
    tokio::time::sleep(seconds(25)).await;
    world.start();
    world.settle().await;
    assert_eq!(names(&world, "orders").await, ["later"]);
    let to_away = world
        .seen()
        .into_iter()
        .filter(|one| one.host == "away.example");
    assert_eq!(
        to_away.map(|one| one.at.as_secs()).collect::<Vec<_>>(),
        [0, 10]
    );
    assert_eq!(world.notices().len(), 1);
    world.crash().await;
    world.sleep_until(seconds(99)).await;
    assert_eq!(names(&world, "orders").await, ["later"]);
    world.sleep_until(seconds(100)).await;
    world.settle().await;
    assert_eq!(names(&world, "orders").await, Vec::<String>::new());
    assert_eq!(world.notices().len(), 2, "no notice is sent again");
}

/// A domain topic goes with its last subscription, also when that goes at its time (ED-075, ED-173).
#[tokio::test(start_paused = true)]
async fn the_last_one_takes_its_domain_topic_along() {
    let world = World::new(|_, _| Meet::status(200));
    let spec = hedgerow_core::spec::TopicSpec::check_domain(&json!({}))
        .unwrap()
        .spec;
    world.topic_with("shop", spec).await;
    let expires = json!({ "expirationTimeUtc": time(20) });
    world
        .subscribe("shop/topics/foo", "goes", expires)
        .await
        .unwrap();
    let topic = || {
        let (domain, name) = ("shop".to_owned(), "foo".to_owned());
        world.handle.ask(|answer| Command::DomainTopic {
            domain,
            name,
            answer,
        })
    };
    assert_eq!(topic().await.unwrap().subscriptions, 1);
    world.sleep_until(seconds(21)).await;
    assert!(matches!(topic().await, Err(CommandError::NotFound { .. })));
    let path = &data(&world.notices()[0])["eventSubscriptionId"];
    let path = path.as_str().unwrap();
    assert!(
        path.contains("/domains/shop/topics/foo/providers/"),
        "{path}"
    );
}
