//! Dead letters are delivered again: which, to whom, how fast, and over crashes (ED-265, FC-26).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use hedgerow_core::dead_letter::BlobName;
use hedgerow_core::limits;
use hedgerow_core::position::TopicId;
use hedgerow_core::spec::{ReplaySpec, TopicSpec};
use hedgerow_delivery::command::{Command, CommandError};
use hedgerow_delivery::replay::{ReplayCommand, ReplayInfo, ReplaySteer};
use hedgerow_delivery::settings::EngineSettings;
use hedgerow_io::dead_letter::Blob;
use hedgerow_store::catalog::ReplayState;
use serde_json::{Value, json};

use crate::letter_box::Mood;
use crate::world::{Meet, Seen, World, event, settings_without_probation};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A subscription that gives up at once.
pub fn lettered() -> Value {
    json!({
        "deadLetterDestination":
            {"endpointType": "LocalDirectory", "properties": {"path": "late"}},
        "deadLetter": {"delay": 0},
        "retryPolicy": {"maxDeliveryAttempts": 1},
        "delayedDelivery": {"enabled": false},
    })
}

/// A world with a topic, two subscriptions to it, and what they answer now.
pub struct Scene {
    pub world: World,
    pub topic: TopicId,
    answer: Arc<AtomicU16>,
}

impl Scene {
    async fn new() -> Self {
        let settings = settings_without_probation();
        let scene = Self::with(settings, TopicSpec::default()).await;
        let world = &scene.world;
        world
            .subscribe("orders", "the-sub", lettered())
            .await
            .unwrap();
        scene
    }

    /// With no subscription yet.
    pub async fn with(settings: EngineSettings, spec: TopicSpec) -> Self {
        let answer = Arc::new(AtomicU16::new(400));
        let answered = Arc::clone(&answer);
        let world = World::with_settings(settings, move |_, _| {
            Meet::status(answered.load(Ordering::Relaxed))
        });
        let topic = world.topic_with("orders", spec).await;
        Self {
            world,
            topic,
            answer,
        }
    }

    /// Lets events become dead letters, each call in a blob of its own.
    async fn kill(&self, ids: &[&str]) {
        self.world.publish(self.topic, ids).await;
        tokio::time::sleep(seconds(1)).await;
    }

    /// From now on everything is accepted.
    pub fn heal(&self) {
        self.answer.store(200, Ordering::Relaxed);
    }

    pub async fn begin(&self, spec: Value) -> Result<ReplayInfo, CommandError> {
        let spec = Box::new(ReplaySpec::check(&spec).unwrap());
        let create = |answer| {
            Command::Replay(ReplayCommand::Create {
                topic: "orders".to_owned(),
                subscription: "the-sub".to_owned(),
                spec,
                answer,
            })
        };
        self.world.handle.ask(create).await
    }

    async fn get(&self, id: u32) -> Result<ReplayInfo, CommandError> {
        let get = |answer| Command::Replay(ReplayCommand::Get { id, answer });
        self.world.handle.ask(get).await
    }

    async fn set(&self, id: u32, steer: ReplaySteer) -> Result<ReplayInfo, CommandError> {
        let set = |answer| Command::Replay(ReplayCommand::Set { id, steer, answer });
        self.world.handle.ask(set).await
    }

    /// Replays, and waits for the end.
    pub async fn replay(&self, spec: Value) -> ReplayInfo {
        let begun = self.begin(spec).await.unwrap();
        self.ended(begun.replay.id).await
    }

    async fn ended(&self, id: u32) -> ReplayInfo {
        for _ in 0..10_000 {
            let info = self.get(id).await.unwrap();
            if info.replay.state == ReplayState::Completed {
                self.world.settle().await;
                return info;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("it does not end: {:?}", self.get(id).await);
    }

    /// Requests that were replayed, in order.
    pub fn replayed(&self) -> Vec<Seen> {
        let all = self.world.seen().into_iter();
        all.filter(|seen| seen.headers.contains_key("hedgerow-replay-of"))
            .collect()
    }

    fn replayed_ids(&self) -> Vec<String> {
        let all = self.replayed().into_iter();
        all.map(|seen| seen.event_id).collect()
    }

    fn uuid(&self, blob: usize) -> String {
        let blobs = self.world.letters.blobs();
        let name = BlobName::parse(&blobs[blob].1.name).unwrap();
        name.uuid.to_owned()
    }
}

/// ED-265: by default all of them, to the original subscription only; they keep their id and their data byte for byte, get a new P,
/// count attempts anew, and carry what they are replayed of.
#[tokio::test(start_paused = true)]
async fn dead_letters_go_to_their_subscription_again() {
    let scene = Scene::new().await;
    let world = &scene.world;
    scene.kill(&["a", "b"]).await;
    scene.kill(&["c"]).await;
    world
        .subscribe("orders", "other", lettered())
        .await
        .unwrap();
    let before = world.seen();
    scene.heal();
    tokio::time::sleep(seconds(3_600)).await;
    // What it wants by now does not matter: it wanted them.
    let mut narrow = lettered();
    narrow["filter"] = json!({"subjectBeginsWith": "/nothing"});
    world.subscribe("orders", "the-sub", narrow).await.unwrap();

    let begun = scene.begin(json!({})).await.unwrap();
    assert_eq!(begun.replay.state, ReplayState::Running);
    let ended = scene.ended(begun.replay.id).await;
    let counts = ended.replay.counts;
    assert_eq!((counts.blobs, counts.replayed, counts.skipped), (2, 3, 0));
    assert_eq!((ended.problem, counts.unreadable), (None, 0));
    assert!(ended.replay.ended.is_some());
    let again = scene.replayed();
    let of = [scene.uuid(0), scene.uuid(0), scene.uuid(1)];
    assert_eq!(again.len(), 3);
    for ((seen, first), uuid) in again.iter().zip(&before).zip(of) {
        assert_eq!(seen.host, "the-sub.example");
        assert_eq!((&seen.event_id, &seen.body), (&first.event_id, &first.body));
        assert_eq!(seen.headers["hedgerow-replay-of"], uuid);
        assert_eq!(seen.delivery_count, 0);
        let id = "aeg-output-event-id";
        assert_ne!(
            seen.headers[id], first.headers[id],
            "another event of the log"
        );
    }
    let info = world.info("orders", "the-sub").await;
    assert_eq!(
        (info.counters.delivered, info.counters.dead_lettered),
        (3, 3)
    );
    assert_eq!(world.info("orders", "other").await.counters.matched, 0);
    world.assert_balanced("orders", "the-sub").await;

    // A new P: its time to live begins anew (ED-203).
    let published = again[0].time.since(before[0].time);
    assert!(published >= seconds(3_600));
    assert_eq!(world.letters.blobs().len(), 2);
}

/// ED-265: to the topic, whoever wants them gets them, by the filters of now.
#[tokio::test(start_paused = true)]
async fn dead_letters_go_to_the_topic_where_that_is_asked_for() {
    let scene = Scene::new().await;
    scene.kill(&["a"]).await;
    let world = &scene.world;
    world
        .subscribe("orders", "other", lettered())
        .await
        .unwrap();
    let mut narrow = lettered();
    narrow["filter"] = json!({"subjectBeginsWith": "/nothing"});
    world.subscribe("orders", "narrow", narrow).await.unwrap();
    scene.heal();
    scene.replay(json!({"target": "Topic"})).await;
    let mut hosts: Vec<_> = scene.replayed().into_iter().map(|seen| seen.host).collect();
    hosts.sort();
    assert_eq!(hosts, ["other.example", "the-sub.example"]);
}

/// ED-265: one blob, a time range, or a filter; what is not asked for is counted.
#[tokio::test(start_paused = true)]
async fn what_is_replayed_is_what_is_asked_for() {
    let scene = Scene::new().await;
    let world = &scene.world;
    scene.kill(&["a", "b"]).await;
    let middle = world.now().to_string();
    scene.kill(&["c"]).await;
    let mut other = event("d");
    other.subject = Some("/invoices/7".into());
    world.publish_event(scene.topic, &other).await;
    tokio::time::sleep(seconds(1)).await;
    scene.heal();
    let name = world.letters.blobs()[0].1.name.clone();
    let rows = [
        (json!({"blob": scene.uuid(0)}), vec!["a", "b"], 0),
        (json!({"blob": name}), vec!["a", "b"], 0),
        (json!({"to": middle}), vec!["a", "b"], 0),
        (json!({"from": middle}), vec!["c", "d"], 0),
        (json!({"eventIds": ["b", "d", "z"]}), vec!["b", "d"], 2),
        (
            json!({"filter": {"subjectBeginsWith": "/invoices"}}),
            vec!["d"],
            3,
        ),
        (
            json!({"filter": {"advancedFilters":
            [{"operatorType": "StringContains", "key": "subject", "values": ["7"]}]}}),
            vec!["d"],
            3,
        ),
        (
            json!({"deadLetterReasons": ["UndeliverableDueToHttpBadRequest"], "eventIds": ["c"]}),
            vec!["c"],
            3,
        ),
        (
            json!({"deadLetterReasons": ["TimeToLiveExceeded"]}),
            vec![],
            4,
        ),
    ];
    for (spec, expected, skipped) in rows {
        let before = scene.replayed().len();
        let mut dry = spec.clone();
        dry["dryRun"] = json!(true);
        let counted = scene.replay(dry).await.replay.counts;
        assert_eq!(scene.replayed().len(), before, "a dry run delivers nothing");
        let counts = scene.replay(spec.clone()).await.replay.counts;
        assert_eq!(counts, counted, "{spec}");
        assert_eq!(scene.replayed_ids()[before..], expected, "{spec}");
        let expected = (expected.len() as u64, skipped);
        assert_eq!((counts.replayed, counts.skipped), expected, "{spec}");
    }
    for blob in [
        "1b4e28ba-2fa1-41d2-883f-0016d3cca427",
        "nonsense",
        "OTHER/2030/1/2/3/x.json",
    ] {
        let refused = scene.begin(json!({ "blob": blob })).await;
        assert!(
            matches!(refused, Err(CommandError::NotFound { .. })),
            "{blob}"
        );
    }
}

/// ED-265: no faster than it may, and it can be stopped and resumed; nothing is left out, and nothing comes twice.
#[tokio::test(start_paused = true)]
async fn a_replay_has_a_pace_and_can_be_stopped() {
    let scene = Scene::new().await;
    let names: Vec<_> = (0..250).map(|number| format!("e{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    scene.kill(&names).await;
    scene.heal();
    let began = scene.world.begun.elapsed();
    let id = scene
        .begin(json!({"eventsPerSecond": 50}))
        .await
        .unwrap()
        .replay
        .id;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let stopped = scene.set(id, ReplaySteer::Stop).await.unwrap();
    assert_eq!(stopped.replay.state, ReplayState::Stopped);
    tokio::time::sleep(seconds(60)).await;
    let so_far = scene.replayed().len();
    assert!((50..=100).contains(&so_far), "{so_far} in 1.5 s");
    let info = scene.get(id).await.unwrap();
    let counts = (info.replay.counts.replayed, info.replay.ended);
    assert_eq!(counts, (so_far as u64, None));

    let resumed = scene.set(id, ReplaySteer::Resume).await.unwrap();
    assert_eq!(resumed.replay.state, ReplayState::Running);
    let again = scene.world.begun.elapsed();
    scene.ended(id).await;
    let seen = scene.replayed();
    let mut ids = scene.replayed_ids();
    ids.sort();
    ids.dedup();
    assert_eq!((seen.len(), ids.len()), (250, 250), "each once");
    // A step has as many as a second may have, and begins when the one before is paid for.
    let is_paced = |seen: &[Seen], from: Duration| {
        let mut late = seen.iter().enumerate();
        late.all(|(number, seen)| {
            seen.at - from >= seconds(1) * (number as u32).saturating_sub(50) / 50
        })
    };
    assert!(is_paced(&seen[..so_far], began) && is_paced(&seen[so_far..], again));
    for steer in [ReplaySteer::Resume, ReplaySteer::Stop, ReplaySteer::Cancel] {
        let refused = scene.set(id, steer).await;
        assert!(
            matches!(refused, Err(CommandError::Conflict(_))),
            "it has ended"
        );
    }
}

/// ED-265 with D5: a crash at any moment loses no event of a replay, and repeats one step at most.
#[tokio::test(start_paused = true)]
async fn a_replay_outlasts_crashes() {
    for crash_after in [0, 1, 40, 1_001, 1_040, 2_500] {
        let mut scene = Scene::new().await;
        let names: Vec<_> = (0..300).map(|number| format!("e{number}")).collect();
        for names in names.chunks(100) {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            scene.kill(&names).await;
        }
        scene.heal();
        let id = scene.begin(json!({})).await.unwrap().replay.id;
        tokio::time::sleep(Duration::from_millis(crash_after)).await;
        // What is appended from here on is lost, and what the catalog says of it.
        if crash_after == 1_040 {
            scene.world.hold();
            tokio::time::sleep(seconds(2)).await;
        }
        scene.world.crash().await;
        let info = scene.ended(id).await;
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        for id in scene.replayed_ids() {
            *counted.entry(id).or_default() += 1;
        }
        assert_eq!(counted.len(), 300, "after {crash_after} ms");
        let twice: usize = counted.values().map(|count| count - 1).sum();
        // Deliveries in flight at the crash are sent again too; here none is.
        assert!(twice <= limits::REPLAY_STEP_EVENTS_MAX, "{twice} twice");
        assert_eq!(info.replay.counts.replayed, 300);
    }
}

/// A stop in order leaves nothing to repeat, and one that was stopped stays stopped.
#[tokio::test(start_paused = true)]
async fn a_replay_goes_on_after_a_restart() {
    let mut scene = Scene::new().await;
    let names: Vec<_> = (0..200).map(|number| format!("e{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    scene.kill(&names).await;
    scene.heal();
    let id = scene
        .begin(json!({"eventsPerSecond": 20}))
        .await
        .unwrap()
        .replay
        .id;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    scene.world.stop().await;
    scene.world.start();
    tokio::time::sleep(seconds(1)).await;
    assert!(scene.replayed().len() >= 80, "it went on by itself");
    scene.set(id, ReplaySteer::Stop).await.unwrap();
    scene.world.stop().await;
    scene.world.start();
    let so_far = scene.replayed().len();
    tokio::time::sleep(seconds(60)).await;
    assert!(scene.replayed().len() <= so_far + 20);
    let state = scene.get(id).await.unwrap().replay.state;
    assert_eq!(state, ReplayState::Stopped);
    scene.set(id, ReplaySteer::Resume).await.unwrap();
    scene.ended(id).await;
    let mut ids = scene.replayed_ids();
    assert_eq!(ids.len(), 200, "nothing twice");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 200);
}

/// What fails again is a dead letter again, of a later time: the replay does not go round in a circle.
#[tokio::test(start_paused = true)]
async fn what_fails_again_is_not_replayed_without_end() {
    let scene = Scene::new().await;
    scene.kill(&["a", "b"]).await;
    let counts = scene.replay(json!({})).await.replay.counts;
    assert_eq!((counts.blobs, counts.replayed), (1, 2));
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(scene.replayed().len(), 2);
    let counts = scene.replay(json!({})).await.replay.counts;
    assert_eq!(counts.replayed, 4, "another one has them too");
}

/// FC-26: in a container that several share nobody gets what is another topic's, whatever the subscriptions are called.
#[tokio::test(start_paused = true)]
async fn what_is_of_another_topic_stays_there() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let spec = TopicSpec::check(&json!({"inputSchema": "CloudEventSchemaV1_0"}))
        .unwrap()
        .spec;
    let theirs = world.topic_with("theirs", spec).await;
    let mut declared = lettered();
    declared["eventDeliverySchema"] = json!("CloudEventSchemaV1_0");
    world
        .subscribe("theirs", "the-sub", declared)
        .await
        .unwrap();
    scene.kill(&["mine"]).await;
    let mut other = event("other");
    other.source = Some("/theirs".into());
    world.publish_event(theirs, &other).await;
    tokio::time::sleep(seconds(1)).await;
    let blobs = world.letters.blobs();
    assert_eq!(blobs.len(), 2);
    // As an older server wrote them: the names tell no topic.
    for (number, (_, blob)) in blobs.iter().enumerate() {
        let uuid = format!("{number}b4e28ba-2fa1-41d2-883f-0016d3cca427");
        let name = BlobName::parse(&blob.name).unwrap().uuid;
        let name = blob.name.replace(name, &uuid);
        world.letters.put(Blob {
            name,
            ..blob.clone()
        });
    }
    scene.heal();
    let counts = scene.replay(json!({})).await.replay.counts;
    assert_eq!((counts.replayed, counts.skipped), (2, 0), "both of its own");
    assert_eq!(scene.replayed_ids(), ["mine", "mine"]);
    let of = |topic: &str, after| {
        let (topic, name) = (topic.to_owned(), "the-sub".to_owned());
        world.handle.written_letters(topic, name, after, 100)
    };
    let page = of("orders", None).await.unwrap();
    assert_eq!(page.blobs.len(), 1, "{page:?}");
    assert_eq!((&page.blobs[0].uuid, page.next), (&scene.uuid(0), None));
    let page = of("theirs", None).await.unwrap();
    assert_eq!(page.blobs[0].uuid, scene.uuid(1));
    let read = |topic: &str, blob: usize| {
        let (topic, name) = (topic.to_owned(), "the-sub".to_owned());
        world.handle.written_records(topic, name, scene.uuid(blob))
    };
    let found = read("orders", 0).await.unwrap();
    let record: Value = serde_json::from_str(&found.records[0]).unwrap();
    assert_eq!((&record["id"], found.records.len()), (&json!("mine"), 1));
    for (topic, blob) in [("orders", 1), ("theirs", 0)] {
        let refused = read(topic, blob).await;
        assert!(matches!(refused, Err(CommandError::NotFound { .. })));
    }
    let refused = scene.begin(json!({"blob": scene.uuid(1)})).await;
    assert!(matches!(refused, Err(CommandError::NotFound { .. })));
}

/// A container that cannot be read is waited for, and says so; what is no dead letter is counted and passed over.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_waited_for_or_passed_over() {
    let scene = Scene::new().await;
    scene.kill(&["a"]).await;
    let world = &scene.world;
    let blob = world.letters.blobs()[0].1.clone();
    let uuid = scene.uuid(0);
    scene.kill(&["spoilt"]).await;
    let spoilt = scene.uuid(1);
    // A name of nobody's, whose last digit is neither drawn one.
    let digits = ["0", "1", "2"];
    let other = digits
        .into_iter()
        .find(|digit| !uuid.ends_with(digit) && !spoilt.ends_with(digit));
    let other = format!("{}{}", &uuid[..35], other.unwrap());
    for (uuid_of, bytes) in [(&other, "nonsense"), (&spoilt, "[{}, 7]")] {
        world.letters.put(Blob {
            name: blob.name.replace(&uuid, uuid_of),
            bytes: bytes.as_bytes().to_vec(),
            ..blob.clone()
        });
    }
    scene.kill(&["b"]).await;
    scene.heal();
    world.letters.set(Mood::Fails);
    let id = scene.begin(json!({})).await.unwrap().replay.id;
    tokio::time::sleep(seconds(60)).await;
    let info = scene.get(id).await.unwrap();
    assert_eq!(info.problem.as_deref(), Some("scripted"));
    assert_eq!(info.replay.state, ReplayState::Running);
    world.letters.set(Mood::Works);
    let info = scene.ended(id).await;
    assert_eq!(info.problem, None);
    assert_eq!(scene.replayed_ids(), ["a", "b"]);
    assert_eq!(info.replay.counts.unreadable, 3);
}

/// A replay goes with its subscription; without a destination there is nothing to replay; there are not more than may be.
#[tokio::test(start_paused = true)]
async fn replays_have_bounds() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let names: Vec<_> = (0..100).map(|number| format!("e{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    scene.kill(&names).await;
    scene.heal();
    for _ in 0..limits::REPLAYS_OPEN_MAX {
        scene.begin(json!({"eventsPerSecond": 1})).await.unwrap();
    }
    let refused = scene.begin(json!({})).await;
    assert!(matches!(refused, Err(CommandError::ReplayLimit(_))));
    world.unsubscribe("orders", "the-sub").await;
    world.settle().await;
    let so_far = scene.replayed().len();
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(scene.replayed().len(), so_far);
    assert!(matches!(
        scene.get(1).await,
        Err(CommandError::NotFound { .. })
    ));
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    let refused = scene.begin(json!({})).await;
    assert!(matches!(refused, Err(CommandError::Conflict(_))));
}

/// ED-265: stopped ones count as open, and a canceled one does not: it is over like one that has come to its end, also after a
/// restart. What it delivered stays delivered, and is counted.
#[tokio::test(start_paused = true)]
async fn a_canceled_replay_is_over_and_makes_room() {
    let mut scene = Scene::new().await;
    let names: Vec<_> = (0..100).map(|number| format!("e{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    scene.kill(&names).await;
    scene.heal();
    let slow = || json!({"eventsPerSecond": 10});
    for _ in 0..limits::REPLAYS_OPEN_MAX {
        let id = scene.begin(slow()).await.unwrap().replay.id;
        scene.set(id, ReplaySteer::Stop).await.unwrap();
    }
    let refused = scene.begin(slow()).await;
    assert!(matches!(refused, Err(CommandError::ReplayLimit(_))));
    tokio::time::sleep(seconds(60)).await;

    let canceled = scene.set(1, ReplaySteer::Cancel).await.unwrap().replay;
    assert_eq!(canceled.state, ReplayState::Canceled);
    assert!(canceled.ended.is_some());
    let again = scene.set(1, ReplaySteer::Cancel).await.unwrap().replay;
    assert_eq!(again.ended, canceled.ended, "asking twice is no mistake");
    for steer in [ReplaySteer::Resume, ReplaySteer::Stop] {
        let refused = scene.set(1, steer).await;
        assert!(matches!(refused, Err(CommandError::Conflict(_))));
    }

    // A running one ends after its step.
    let before = scene.replayed().len();
    let id = scene.begin(slow()).await.unwrap().replay.id;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    scene.set(id, ReplaySteer::Cancel).await.unwrap();
    tokio::time::sleep(seconds(60)).await;
    let replayed = scene.replayed().len() - before;
    assert!((10..=30).contains(&replayed), "{replayed} in 1.5 s");
    scene.world.stop().await;
    scene.world.start();
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(scene.replayed().len() - before, replayed);
    let info = scene.get(id).await.unwrap();
    assert_eq!(info.replay.state, ReplayState::Canceled);
    assert_eq!(info.replay.counts.replayed, replayed as u64);
    scene.begin(slow()).await.unwrap();
    let refused = scene.begin(slow()).await;
    assert!(matches!(refused, Err(CommandError::ReplayLimit(_))));
}
