//! What a subscription asks of its endpoint at most: `maxConcurrency` and `maxRequestsPerSecond`, beside the credits that all
//! subscriptions behind an endpoint share (design D7).

use std::time::Duration;

use hedgerow_delivery::command::Command;
use hedgerow_delivery::explain::{DeliveryState, ExplainQuery, WaitingFor};
use serde_json::{Value, json};

use crate::explain::world;
use crate::world::{Meet, World, settings};

fn limited(host: &str, limits: &Value) -> Value {
    let mut properties = json!({ "endpointUrl": format!("https://{host}/hook") });
    for (name, value) in limits.as_object().unwrap() {
        properties[name] = value.clone();
    }
    json!({ "destination": { "endpointType": "WebHook", "properties": properties } })
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("e{number:04}")).collect()
}

async fn publish(world: &World, topic: hedgerow_core::position::TopicId, count: usize) {
    let ids = ids(count);
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    world.publish(topic, &ids).await;
}

/// The most requests that were open at a host at a time, where each was answered after a while.
fn most_open(world: &World, host: &str, after: Duration) -> usize {
    let seen = world.seen();
    let starts: Vec<_> = seen
        .iter()
        .filter(|one| one.host == host)
        .map(|one| one.at)
        .collect();
    let open_at = |at: Duration| {
        let open = |start: &&Duration| **start <= at && at < **start + after;
        starts.iter().filter(open).count()
    };
    starts.iter().map(|at| open_at(*at)).max().unwrap_or(0)
}

/// No more of it are open than it says, also beside others at the same endpoint, who wait for nothing because of it.
#[tokio::test(start_paused = true)]
async fn no_more_requests_are_open_than_declared() {
    let world = World::new(|_, _| Meet::late(200, 2));
    let topic = world.topic("orders").await;
    let spec = limited("a.example", &json!({ "maxConcurrency": 3 }));
    world.subscribe("orders", "limited", spec).await.unwrap();
    publish(&world, topic, 12).await;
    world.sleep_until(Duration::from_millis(1_500)).await;
    let info = world.info("orders", "limited").await;
    assert_eq!((info.open_attempts, info.in_flight), (3, 3));
    assert_eq!(
        info.endpoint.unwrap().slow_open,
        3,
        "they are open for over a second"
    );
    world.sleep_until(Duration::from_secs(60)).await;
    assert_eq!(world.info("orders", "limited").await.counters.delivered, 12);
    assert_eq!(most_open(&world, "a.example", Duration::from_secs(2)), 3);
    // Twelve in rounds of three, of two seconds each: no place stays empty.
    let last = world.seen().last().unwrap().at;
    assert!(last < Duration::from_millis(6_100), "{last:?}");
}

/// Who asks for little at an endpoint takes nothing of it from others.
#[tokio::test(start_paused = true)]
async fn others_at_the_endpoint_go_on() {
    let world = World::new(|_, _| Meet::late(200, 2));
    let topic = world.topic("orders").await;
    let own = limited("a.example", &json!({ "maxConcurrency": 1 }));
    world.subscribe("orders", "limited", own).await.unwrap();
    let other = limited("a.example", &json!({}));
    world.subscribe("orders", "other", other).await.unwrap();
    publish(&world, topic, 8).await;
    world.sleep_until(Duration::from_millis(1_500)).await;
    assert_eq!(world.info("orders", "limited").await.open_attempts, 1);
    assert_eq!(world.info("orders", "other").await.open_attempts, 8);
    world.sleep_until(Duration::from_secs(60)).await;
    for name in ["limited", "other"] {
        assert_eq!(world.info("orders", name).await.counters.delivered, 8);
    }
}

/// D7: what was timed out does not count, although its exchange is still open; and a retry counts as a first attempt does.
#[tokio::test(start_paused = true)]
async fn what_was_timed_out_makes_room() {
    let meet = |id: &str, attempt: usize| match (id, attempt) {
        ("e0000", 0) => Meet::Silence,
        _ => Meet::status(200),
    };
    let world = World::with_settings(settings(), meet);
    let topic = world.topic("orders").await;
    let mut spec = limited("a.example", &json!({ "maxConcurrency": 1 }));
    spec["probation"] = json!({ "threshold": 100 });
    world.subscribe("orders", "limited", spec).await.unwrap();
    publish(&world, topic, 3).await;
    world.sleep_until(Duration::from_secs(29)).await;
    assert_eq!(world.seen().len(), 1, "the first one hangs");
    world.sleep_until(Duration::from_secs(31)).await;
    assert_eq!(world.seen_ids()[1..], ["e0001", "e0002"]);
    world.sleep_until(Duration::from_secs(120)).await;
    assert_eq!(world.info("orders", "limited").await.counters.delivered, 3);
}

/// ED-238 with D7: the trial after a window is the endpoint's, whose ever turn it is. It counts as one of the subscription that it
/// is of, which starts no other beside it.
#[tokio::test(start_paused = true)]
async fn an_attempt_in_the_turn_of_another_counts() {
    let meet = |id: &str, attempt: usize| match (id, attempt) {
        ("e0000", 0) => Meet::status(500),
        _ => Meet::late(200, 20),
    };
    let world = World::new(meet);
    let (others, early) = (world.topic("others").await, world.topic("early").await);
    for (topic, name, limits) in [
        ("others", "first", json!({})),
        ("early", "limited", json!({ "maxConcurrency": 1 })),
    ] {
        let mut spec = limited("a.example", &limits);
        spec["delayedDelivery"] = json!({ "events": 1, "firstWindow": 60 });
        world.subscribe(topic, name, spec).await.unwrap();
    }
    publish(&world, early, 3).await;
    world.sleep_until(Duration::from_secs(20)).await;
    world.publish(others, &["f"]).await;
    let of_limited = |world: &World| {
        let ids = world.seen_ids().into_iter();
        ids.filter(|id| id.starts_with('e')).count()
    };
    world.sleep_until(Duration::from_secs(65)).await;
    assert_eq!(of_limited(&world), 2, "the first failure, and the trial");
    let reset = |answer| Command::ResetSubscription {
        topic: "early".to_owned(),
        name: "limited".to_owned(),
        answer,
    };
    world.handle.ask(reset).await.unwrap();
    world.sleep_until(Duration::from_secs(75)).await;
    assert_eq!(of_limited(&world), 2, "{:?}", world.seen_ids());
    assert_eq!(world.info("early", "limited").await.open_attempts, 1);
    world.sleep_until(Duration::from_secs(200)).await;
    assert_eq!(world.info("early", "limited").await.counters.delivered, 3);
    assert_eq!(world.info("others", "first").await.open_attempts, 0);
}

/// No second has more starts than it says; over a restart neither.
#[tokio::test(start_paused = true)]
async fn no_more_requests_begin_in_a_second_than_declared() {
    let mut world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let spec = limited("a.example", &json!({ "maxRequestsPerSecond": 10 }));
    world.subscribe("orders", "limited", spec).await.unwrap();
    publish(&world, topic, 60).await;
    world.sleep_until(Duration::from_millis(2_050)).await;
    world.crash().await;
    world.sleep_until(Duration::from_secs(30)).await;
    assert_eq!(world.info("orders", "limited").await.counters.delivered, 60);
    let starts: Vec<_> = world.seen().iter().map(|one| one.at).collect();
    for start in &starts {
        let end = *start + Duration::from_secs(1);
        let count = starts
            .iter()
            .filter(|at| *start <= **at && **at < end)
            .count();
        assert!(count <= 10, "{count} from {start:?}");
    }
    let took = *starts.last().unwrap();
    assert!(took < Duration::from_millis(7_600), "{took:?}");
}

/// Limits are of the time of the attempt (ED-085): a changed one holds from the next request on, whether it is lower or higher.
#[tokio::test(start_paused = true)]
async fn a_changed_limit_holds_at_once() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let declare = async |per_second: u32| {
        let spec = limited("a.example", &json!({ "maxRequestsPerSecond": per_second }));
        world.subscribe("orders", "limited", spec).await.unwrap();
    };
    declare(10).await;
    publish(&world, topic, 200).await;
    for (until, per_second) in [(5, 10), (15, 2), (20, 20)] {
        declare(per_second).await;
        let (from, before) = (world.begun.elapsed(), world.seen().len());
        world.sleep_until(Duration::from_secs(until)).await;
        let count = world.seen().len() - before;
        let seconds = (Duration::from_secs(until) - from).as_secs_f64();
        let most = seconds * f64::from(per_second);
        assert!(
            (most - 2.0..=most + 1.0).contains(&(count as f64)),
            "{count} at {per_second} a second in {seconds} s"
        );
    }
}

/// Explaining names the limit that an event waits for.
#[tokio::test(start_paused = true)]
async fn the_limit_that_is_waited_for_is_told() {
    let (world, _history) = world(|_, _| Meet::late(200, 2));
    let topic = world.topic("orders").await;
    let waiting_for = async |world: &World, limits: Value| {
        let spec = limited("a.example", &limits);
        world.subscribe("orders", "limited", spec).await.unwrap();
        let query = ExplainQuery {
            event_id: "e0003".to_owned(),
            ..ExplainQuery::default()
        };
        let explained = world.handle.explain(query).await.unwrap();
        let delivery = explained.events[0].deliveries[0].clone();
        assert_eq!(delivery.state, DeliveryState::FirstAttemptPending);
        delivery.waiting.unwrap().waiting_for
    };
    let spec = limited("a.example", &json!({ "maxConcurrency": 2 }));
    world.subscribe("orders", "limited", spec).await.unwrap();
    publish(&world, topic, 5).await;
    world.sleep_until(Duration::from_millis(500)).await;
    let both = json!({ "maxConcurrency": 2 });
    let expected = WaitingFor::MaxConcurrency { open: 2, limit: 2 };
    assert_eq!(waiting_for(&world, both).await, expected);
    // A raised limit holds at once, and then the other one is what is waited for.
    let rate = json!({ "maxRequestsPerSecond": 1 });
    let found = waiting_for(&world, rate).await;
    let WaitingFor::MaxRequestsPerSecond { limit: 1, until } = found else {
        panic!("{found:?}")
    };
    let info = world.info("orders", "limited").await;
    assert_eq!(info.not_before, Some(until));
    assert_eq!(info.open_attempts, 3);
}
