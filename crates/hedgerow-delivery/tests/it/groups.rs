//! Groups of origins as destinations (HP-094, HP-200 to HP-203, ED-315, ED-316), with origins whose health the test says.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_delivery::command::{CommandError, HoldState};
use hedgerow_delivery::explain::{DeliveryState, ExplainQuery, WaitingFor};
use hedgerow_delivery::origin_groups::Wish;
use hedgerow_delivery::origins::{AttemptMet, GroupNow, NoOrigin, Origins};
use hedgerow_origin::settings::Group;
use hedgerow_origin::snapshot::{Choosing, Mode, OriginView, Snapshot};
use hedgerow_origin::window::State;
use hedgerow_store::catalog::Provisioning;
use hedgerow_store::history::OriginMode;
use serde_json::{Value, json};

use crate::explain;
use crate::world::{Greet, Meet, World, settings};

/// Groups whose origins are as the test says: healthy unless it says otherwise.
#[derive(Default)]
pub struct FixedOrigins {
    groups: Mutex<HashMap<String, GroupNow>>,
    met: Mutex<Vec<(u32, String)>>,
    chosen: Mutex<BTreeMap<(u32, Mode), usize>>,
}

impl FixedOrigins {
    fn set(&self, name: &str, group: &Arc<Group>, states: &[State]) {
        let origins = group.settings().origins.iter().zip(0..);
        let views = origins.map(|(origin, place)| OriginView {
            is_enabled: origin.enabled,
            priority: origin.priority,
            weight: origin.weight,
            ramp_weight: origin.weight,
            ..OriginView::new(
                place,
                states[place as usize % states.len()],
                Some(1_000).filter(|_| states[0] == State::Healthy),
            )
        });
        let now = GroupNow {
            group: Arc::clone(group),
            snapshot: Arc::new(Snapshot::new(Choosing::of(group), views.collect())),
        };
        self.groups.lock().unwrap().insert(name.to_owned(), now);
    }

    /// What attempts met, by the number of the origin.
    fn met(&self) -> Vec<(u32, String)> {
        self.met.lock().unwrap().clone()
    }

    fn chosen(&self) -> BTreeMap<(u32, Mode), usize> {
        self.chosen.lock().unwrap().clone()
    }
}

impl Origins for FixedOrigins {
    fn group(&self, name: &str) -> Option<GroupNow> {
        self.groups.lock().unwrap().get(name).cloned()
    }

    fn chosen(&self, _: &str, origin: u32, mode: Mode) {
        *self
            .chosen
            .lock()
            .unwrap()
            .entry((origin, mode))
            .or_default() += 1;
    }

    fn met(&self, _: &str, origin: u32, met: AttemptMet<'_>) {
        let met = match met {
            AttemptMet::Answered { status, .. } => status.to_string(),
            AttemptMet::Failed(_) => "failed".to_owned(),
            AttemptMet::TimedOut => "timeout".to_owned(),
        };
        self.met.lock().unwrap().push((origin, met));
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const HEALTHY: &[State] = &[State::Healthy];

/// A group whose origins are called `a`, `b`, … at the hosts of these names.
fn group(hosts: &[&str], more: &Value) -> Value {
    let origins = hosts.iter().zip('a'..);
    let origins: Vec<_> = origins
        .map(|(host, name)| json!({ "name": name.to_string(), "host": host }))
        .collect();
    let mut group = json!({ "origins": origins, "probe": { "protocol": "https" } });
    for (member, value) in more.as_object().expect("an object") {
        group[member] = value.clone();
    }
    group
}

async fn declare(world: &World, declared: &Value, states: &[State]) {
    let group = Group::read(declared).expect("a valid group");
    let name = "shop".parse().unwrap();
    let wish = Wish {
        name,
        wanted: Box::new(group.clone()),
        expected: None,
        is_dry_run: false,
    };
    world.handle.put_origin_group(wish).await.unwrap();
    world.origins().set("shop", &Arc::new(group), states);
}

/// Three healthy origins, unless the test says otherwise.
async fn three(world: &World) {
    declare(
        world,
        &group(&["a.example", "b.example", "c.example"], &json!({})),
        HEALTHY,
    )
    .await;
}

fn to_group(properties: &Value) -> Value {
    let mut all = json!({ "originGroup": "Shop", "path": "/hook?code=secret" });
    for (member, value) in properties.as_object().expect("an object") {
        all[member] = value.clone();
    }
    json!({ "destination": { "endpointType": "OriginGroup", "properties": all } })
}

fn hosts(world: &World) -> Vec<String> {
    world.seen().into_iter().map(|seen| seen.host).collect()
}

fn share(world: &World) -> BTreeMap<String, usize> {
    let mut share = BTreeMap::new();
    for host in hosts(world) {
        *share.entry(host).or_default() += 1;
    }
    share
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("e{number:04}")).collect()
}

async fn publish(world: &World, topic: hedgerow_core::position::TopicId, count: usize) {
    let ids = ids(count);
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    world.publish(topic, &ids).await;
}

/// HP-200: each attempt selects anew; the path and its query are the same at each origin.
#[tokio::test(start_paused = true)]
async fn attempts_go_round_the_origins() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    three(&world).await;
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 30).await;
    world.sleep_until(seconds(1)).await;
    let expect = ["a.example", "b.example", "c.example"].map(|host| (host.to_owned(), 10));
    assert_eq!(share(&world), BTreeMap::from(expect));
    assert!(
        world
            .seen()
            .iter()
            .all(|seen| seen.headers["host"] == seen.host)
    );
    let info = world.info("orders", "billing").await;
    assert_eq!((info.counters.delivered, info.in_flight), (30, 0));
    assert_eq!(world.origins().met().len(), 30, "each is told of");
    let chosen = world.origins().chosen();
    assert_eq!(chosen.get(&(1, Mode::Normal)), Some(&10), "{chosen:?}");
}

/// HP-200: a retry goes to another origin than the one that failed last, and explain says so. HP-201: what was met is told.
#[tokio::test(start_paused = true)]
async fn a_retry_goes_elsewhere() {
    let (world, _history) = explain::world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    three(&world).await;
    world.host("a.example", Some(Meet::status(503)));
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 1).await;
    world.sleep_until(seconds(60)).await;
    let seen = hosts(&world);
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen[0], "a.example");
    assert_ne!(seen[1], "a.example");
    assert_eq!(world.origins().met()[0], (0, "503".to_owned()));
    let query = ExplainQuery {
        event_id: "e0000".to_owned(),
        ..ExplainQuery::default()
    };
    let explained = world.handle.explain(query).await.unwrap();
    let attempts = &explained.events[0].deliveries[0].attempts;
    let told: Vec<_> = attempts.iter().map(|one| one.to.clone().unwrap()).collect();
    assert_eq!((&*told[0].group, &*told[0].origin), ("shop", "a"));
    assert_eq!(&*told[0].address, "https://a.example:443");
    assert_eq!(
        (told[0].mode, &told[0].instead_of),
        (OriginMode::Normal, &None)
    );
    assert_eq!(told[1].instead_of.as_deref(), Some("a"));
    assert_ne!(&*told[1].origin, "a");
}

/// HP-200: it is a preference: where there is no other origin, the same one is tried again. HP-104: mode `single`.
#[tokio::test(start_paused = true)]
async fn a_retry_goes_to_the_same_origin_where_there_is_no_other() {
    let world = World::new(|_, attempt| Meet::status(if attempt == 0 { 503 } else { 200 }));
    let topic = world.topic("orders").await;
    let one = group(&["a.example", "b.example"], &json!({}));
    let mut disabled = one.clone();
    disabled["origins"][1]["enabled"] = json!(false);
    declare(&world, &disabled, &[State::Unhealthy]).await;
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 1).await;
    world.sleep_until(seconds(60)).await;
    assert_eq!(hosts(&world), ["a.example", "a.example"]);
    assert_eq!(world.origins().chosen()[&(0, Mode::Single)], 2);
}

/// HP-121, HP-030: an origin that is unhealthy, or disabled, gets nothing.
#[tokio::test(start_paused = true)]
async fn unhealthy_and_disabled_origins_get_nothing() {
    let world = World::new(|_, attempt| Meet::status(if attempt < 1 { 503 } else { 200 }));
    let topic = world.topic("orders").await;
    let mut declared = group(&["a.example", "b.example", "c.example"], &json!({}));
    declared["origins"][2]["enabled"] = json!(false);
    let states = [State::Unhealthy, State::Healthy, State::Healthy];
    declare(&world, &declared, &states).await;
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 3).await;
    world.sleep_until(seconds(600)).await;
    assert_eq!(share(&world).into_keys().collect::<Vec<_>>(), ["b.example"]);
    assert_eq!(world.info("orders", "billing").await.counters.delivered, 3);
}

/// FC-23: all probes fail, deliveries do not: every event is delivered, spread over the enabled origins; a disabled one is never
/// used. When one recovers, it alone gets them (HP-090 to HP-093).
#[tokio::test(start_paused = true)]
async fn while_all_are_unhealthy_the_group_fails_open() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let mut declared = group(
        &["a.example", "b.example", "c.example", "d.example"],
        &json!({}),
    );
    declared["origins"][2]["priority"] = json!(2);
    declared["origins"][3]["enabled"] = json!(false);
    declare(&world, &declared, &[State::Unhealthy]).await;
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 30).await;
    world.sleep_until(seconds(1)).await;
    let expect = ["a.example", "b.example", "c.example"].map(|host| (host.to_owned(), 10));
    assert_eq!(share(&world), BTreeMap::from(expect));
    let group = Arc::new(Group::read(&declared).unwrap());
    let states = [State::Unhealthy, State::Unhealthy, State::Healthy];
    world.origins().set("shop", &group, &states);
    publish(&world, topic, 5).await;
    world.sleep_until(seconds(2)).await;
    assert_eq!(hosts(&world)[30..], ["c.example"; 5]);
}

/// HP-094, ED-315: no origin is enabled: nothing is sent and nothing is counted; the event is due at its first slots, 10 s and 30 s
/// after it was first due, and goes out at the next one once an origin is enabled.
#[tokio::test(start_paused = true)]
async fn without_an_enabled_origin_nothing_is_counted() {
    let (world, _history) = explain::world(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let mut declared = group(&["a.example"], &json!({}));
    declared["origins"][0]["enabled"] = json!(false);
    declare(&world, &declared, HEALTHY).await;
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 3).await;
    world.sleep_until(seconds(5)).await;
    let info = world.info("orders", "billing").await;
    assert_eq!((info.pending, info.in_flight), (3, 0));
    assert_eq!(info.hold.state, HoldState::Healthy);
    let query = ExplainQuery {
        event_id: "e0001".to_owned(),
        ..ExplainQuery::default()
    };
    let explained = world.handle.explain(query).await.unwrap();
    let story = &explained.events[0].deliveries[0];
    let DeliveryState::AttemptDue { at, attempts } = story.state else {
        panic!("{:?}", story.state);
    };
    assert_eq!(attempts, 0);
    let published = explained.events[0].published;
    assert_eq!(at.since(published), seconds(10));
    let waits = story.waiting.unwrap().waiting_for;
    let at = Some(at);
    assert_eq!(
        waits,
        WaitingFor::Origin {
            why: NoOrigin::NoneEnabled,
            at
        }
    );
    // Twenty seconds in, the next slot is that of 30 s.
    world.sleep_until(seconds(20)).await;
    declare(&world, &group(&["a.example"], &json!({})), HEALTHY).await;
    world.sleep_until(seconds(40)).await;
    let seen = world.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|one| one.at == seconds(30)), "{seen:?}");
    assert!(seen.iter().all(|one| one.delivery_count == 0));
    assert_eq!(world.info("orders", "billing").await.counters.delivered, 3);
}

/// ED-315: after attempts the slots go on from the first one, and what was not started is no attempt of the limit.
#[tokio::test(start_paused = true)]
async fn what_was_not_started_is_no_attempt_of_the_limit() {
    let world = World::new(|_, attempt| Meet::status(if attempt == 0 { 500 } else { 200 }));
    let topic = world.topic("orders").await;
    declare(&world, &group(&["a.example"], &json!({})), HEALTHY).await;
    let mut spec = to_group(&json!({}));
    spec["retryPolicy"] = json!({ "maxDeliveryAttempts": 2 });
    world.subscribe("orders", "billing", spec).await.unwrap();
    publish(&world, topic, 1).await;
    world.sleep_until(seconds(5)).await;
    let mut disabled = group(&["a.example"], &json!({}));
    disabled["origins"][0]["enabled"] = json!(false);
    declare(&world, &disabled, HEALTHY).await;
    // The slots of 10 s, 30 s and 60 s find nobody.
    world.sleep_until(seconds(100)).await;
    declare(&world, &group(&["a.example"], &json!({})), HEALTHY).await;
    world.sleep_until(seconds(400)).await;
    let seen = world.seen();
    let times: Vec<_> = seen
        .iter()
        .map(|one| (one.at, one.delivery_count))
        .collect();
    assert_eq!(times, [(Duration::ZERO, 0), (seconds(300), 1)]);
    assert_eq!(world.info("orders", "billing").await.counters.delivered, 1);
}

/// ED-315: an event that ends so was never attempted, and its last outcome is `Disabled`. After a crash too.
#[tokio::test(start_paused = true)]
async fn what_ends_without_an_origin_was_never_attempted() {
    let mut world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    // All are unhealthy, and the group does not fail open (HP-092).
    let declared = group(&["a.example", "b.example"], &json!({ "fail_open": "none" }));
    declare(&world, &declared, &[State::Unhealthy]).await;
    let mut spec = to_group(&json!({}));
    spec["retryPolicy"] = json!({ "eventTimeToLiveInMinutes": 5 });
    world.subscribe("orders", "billing", spec).await.unwrap();
    publish(&world, topic, 2).await;
    world.sleep_until(seconds(45)).await;
    world.crash().await;
    world.sleep_until(seconds(900)).await;
    assert_eq!(world.seen(), []);
    let records = world.terminal_records().await;
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!(record.reason, DeadLetterReason::TimeToLiveExceeded);
        let progress = record.progress.unwrap();
        let met = (progress.attempts, progress.last_outcome);
        assert_eq!(met, (0, Outcome::Disabled));
    }
}

/// HP-203: a batch goes whole to one origin; that of a retry to another.
#[tokio::test(start_paused = true)]
async fn a_batch_goes_whole_to_one_origin() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    three(&world).await;
    world.host("a.example", Some(Meet::status(500)));
    let spec = to_group(&json!({ "maxEventsPerBatch": 10 }));
    world.subscribe("orders", "billing", spec).await.unwrap();
    publish(&world, topic, 30).await;
    world.sleep_until(seconds(1_800)).await;
    let seen = world.seen();
    let batches: Vec<_> = seen
        .iter()
        .map(|one| (one.host.as_str(), one.event_id.as_str()))
        .collect();
    let at = |host: &str| batches.iter().filter(|(other, _)| *other == host).count();
    assert_eq!((at("a.example"), batches.len()), (1, 4), "{batches:?}");
    let failed = batches
        .iter()
        .find(|(host, _)| *host == "a.example")
        .unwrap();
    let again = batches.iter().filter(|(_, ids)| *ids == failed.1);
    assert_eq!(again.count(), 2, "the same batch: {batches:?}");
    assert_eq!(world.info("orders", "billing").await.counters.delivered, 30);
}

/// A slow origin keeps its own credit only: the others go on, at their pace (design D7).
#[tokio::test(start_paused = true)]
async fn a_slow_origin_does_not_block_the_others() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    three(&world).await;
    world.host("a.example", Some(Meet::late(200, 25)));
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 300).await;
    world.sleep_until(seconds(10)).await;
    let share = share(&world);
    let delivered = world.info("orders", "billing").await.counters.delivered;
    let at_slow = share["a.example"] as u64;
    assert_eq!(delivered + at_slow, 300, "{share:?}");
    assert!(at_slow < 100, "{share:?}");
    world.sleep_until(seconds(40)).await;
    assert_eq!(
        world.info("orders", "billing").await.counters.delivered,
        300
    );
}

/// When every origin that may be chosen is busy, what is next waits for one of them, and for another whose health changed.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_busy_origin_sees_another_recover() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    let declared = group(&["a.example", "b.example"], &json!({}));
    let states = [State::Healthy, State::Unhealthy];
    declare(&world, &declared, &states).await;
    world.host("a.example", Some(Meet::late(200, 20)));
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 200).await;
    world.sleep_until(seconds(5)).await;
    let busy = hosts(&world).len();
    assert!(
        busy < 200 && share(&world).len() == 1,
        "{:?}",
        share(&world)
    );
    let group = Arc::new(Group::read(&declared).unwrap());
    world.origins().set("shop", &group, HEALTHY);
    world.sleep_until(seconds(8)).await;
    assert!(share(&world)["b.example"] > 0, "{:?}", share(&world));
    world.sleep_until(seconds(120)).await;
    let info = world.info("orders", "billing").await;
    assert_eq!(
        (info.counters.delivered, info.in_flight, info.open_attempts),
        (200, 0, 0)
    );
}

/// `maxConcurrency` is the subscription's, over all origins.
#[tokio::test(start_paused = true)]
async fn the_subscription_s_own_limit_is_over_all_origins() {
    let world = World::new(|_, _| Meet::late(200, 2));
    let topic = world.topic("orders").await;
    three(&world).await;
    let spec = to_group(&json!({ "maxConcurrency": 2 }));
    world.subscribe("orders", "billing", spec).await.unwrap();
    publish(&world, topic, 12).await;
    world.sleep_until(seconds(1)).await;
    let info = world.info("orders", "billing").await;
    assert_eq!((info.open_attempts, info.in_flight), (2, 2));
    world.sleep_until(seconds(60)).await;
    let seen = world.seen();
    assert_eq!((seen.len(), seen.last().unwrap().at), (12, seconds(10)));
}

/// HP-201: the delivery specification says what follows; a 4xx and a timeout are told too, and judged by whoever is told.
#[tokio::test(start_paused = true)]
async fn what_attempts_met_is_told() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    three(&world).await;
    world.host("a.example", Some(Meet::status(404)));
    world.host("b.example", Some(Meet::Refused));
    world.host("c.example", Some(Meet::Silence));
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 3).await;
    world.sleep_until(seconds(31)).await;
    let met = world.origins().met();
    for (origin, what) in [(0, "404"), (1, "failed"), (2, "timeout")] {
        assert!(met.contains(&(origin, what.to_owned())), "{met:?}");
    }
}

/// ED-316, HP-004: probation is the subscription's, whichever origins its attempts failed at.
#[tokio::test(start_paused = true)]
async fn probation_is_the_subscription_s() {
    let world = World::new(|_, _| Meet::status(503));
    let topic = world.topic("orders").await;
    three(&world).await;
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 20).await;
    world.sleep_until(seconds(2)).await;
    let hold = world.info("orders", "billing").await.hold;
    assert_ne!(hold.state, HoldState::Healthy);
}

/// A restart between two attempts: the delivery goes on where it was.
#[tokio::test(start_paused = true)]
async fn a_restart_takes_up_what_was_tried() {
    let mut world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    three(&world).await;
    world.host("a.example", Some(Meet::Silence));
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    publish(&world, topic, 3).await;
    world.sleep_until(seconds(5)).await;
    world.host("a.example", None);
    world.crash().await;
    world.sleep_until(seconds(120)).await;
    assert_eq!(world.info("orders", "billing").await.counters.delivered, 3);
}

/// A destination names a group that there is, and origins that may be reached (ED-120).
#[tokio::test(start_paused = true)]
async fn a_group_has_to_be_there_and_reachable() {
    let world = World::new(|_, _| Meet::status(200));
    world.topic("orders").await;
    let refused = world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await;
    let Err(CommandError::Invalid(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.field, "destination.properties.originGroup");
    let declared = group(&["a.example", "10.0.0.1"], &json!({}));
    declare(&world, &declared, HEALTHY).await;
    let refused = world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await;
    let Err(CommandError::Invalid(error)) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.message.contains("\"b\""), "{error}");
    three(&world).await;
    let plain = to_group(&json!({ "protocol": "http" }));
    let refused = world.subscribe("orders", "billing", plain).await;
    assert!(
        matches!(refused, Err(CommandError::Invalid(_))),
        "{refused:?}"
    );
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    let deleted = world.handle.delete_origin_group("shop".to_owned()).await;
    assert!(deleted.is_err(), "a subscription names it");
}

fn with_handshakes(script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static) -> World {
    let mut settings = settings();
    settings.validation.is_enabled = true;
    World::with_settings(settings, script)
}

/// HP-202: each origin is asked once; the first that consents puts the subscription in force, and one that refuses gets nothing.
#[tokio::test(start_paused = true)]
async fn an_origin_that_does_not_consent_gets_nothing() {
    let world = with_handshakes(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    three(&world).await;
    world.greet(|asked, _| match asked.host.as_str() {
        "b.example" => Greet::status(403),
        _ => Greet::Code,
    });
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    world.sleep_until(seconds(1)).await;
    let info = world.info("orders", "billing").await.subscription;
    assert_eq!(info.provisioning(), Provisioning::Succeeded);
    let asked: Vec<_> = world
        .asked()
        .into_iter()
        .map(|asked| (asked.host, asked.path))
        .collect();
    let expect = ["a.example", "b.example", "c.example"];
    assert_eq!(
        asked,
        expect.map(|host| (host.to_owned(), "/hook?code=secret".to_owned()))
    );
    let states: Vec<_> = info
        .validation
        .as_ref()
        .unwrap()
        .origins
        .iter()
        .map(|(address, origin)| (address.as_str(), origin.state.provisioning()))
        .collect();
    assert_eq!(
        states,
        [
            ("https://a.example:443", Provisioning::Succeeded),
            ("https://b.example:443", Provisioning::Failed),
            ("https://c.example:443", Provisioning::Succeeded),
        ]
    );
    publish(&world, topic, 20).await;
    world.sleep_until(seconds(2)).await;
    let expect = ["a.example", "c.example"].map(|host| (host.to_owned(), 10));
    assert_eq!(share(&world), BTreeMap::from(expect));
}

/// HP-202: nobody consents: the subscription fails, as with an endpoint.
#[tokio::test(start_paused = true)]
async fn a_group_of_which_none_consents_is_not_provisioned() {
    let world = with_handshakes(|_, _| Meet::status(200));
    world.topic("orders").await;
    three(&world).await;
    world.greet(|_, _| Greet::status(403));
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    world.sleep_until(seconds(1)).await;
    let info = world.info("orders", "billing").await.subscription;
    assert_eq!(info.provisioning(), Provisioning::Failed);
    let exchange = info.validation.unwrap().state.exchange().unwrap().clone();
    assert_eq!(exchange.status, Some(403));
}

/// HP-202: an origin that is added later is asked then, gets nothing before, and its consent survives a restart; so does that of the
/// others, who are not asked again.
#[tokio::test(start_paused = true)]
async fn an_origin_that_is_added_later_is_asked_then() {
    let mut world = with_handshakes(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    declare(&world, &group(&["a.example"], &json!({})), HEALTHY).await;
    world
        .subscribe("orders", "billing", to_group(&json!({})))
        .await
        .unwrap();
    world.sleep_until(seconds(1)).await;
    world.greet(|_, _| Greet::Answer {
        status: 200,
        headers: Vec::new(),
        body: String::new(),
        after: seconds(10),
    });
    declare(
        &world,
        &group(&["a.example", "b.example"], &json!({})),
        HEALTHY,
    )
    .await;
    publish(&world, topic, 4).await;
    world.sleep_until(seconds(5)).await;
    assert_eq!(hosts(&world), ["a.example"; 4]);
    world.crash().await;
    world.greet(|_, _| Greet::Code);
    world.sleep_until(seconds(10)).await;
    publish(&world, topic, 4).await;
    world.sleep_until(seconds(11)).await;
    let asked: Vec<_> = world.asked().into_iter().map(|asked| asked.host).collect();
    assert_eq!(asked, ["a.example", "b.example", "b.example"]);
    assert_eq!(share(&world)["b.example"], 2);
    world.crash().await;
    publish(&world, topic, 4).await;
    world.sleep_until(seconds(20)).await;
    assert_eq!((world.asked().len(), share(&world)["b.example"]), (3, 4));
    // One that leaves the group and comes back is asked again.
    declare(&world, &group(&["a.example"], &json!({})), HEALTHY).await;
    declare(
        &world,
        &group(&["a.example", "b.example"], &json!({})),
        HEALTHY,
    )
    .await;
    world.sleep_until(seconds(21)).await;
    assert_eq!(world.asked().len(), 4);
}
