//! What is delivered again is the event as it was published, in whatever form its record stands (ED-265).

use std::time::Duration;

use hedgerow_core::event::{DOMAIN_TOPIC, Data, Event};
use hedgerow_core::spec::{Profile, TopicSpec};
use hedgerow_delivery::settings::EngineSettings;
use hedgerow_dialect::dead_letter::ExtraMembers;
use serde_json::{Value, json};

use crate::replays::{Scene, lettered};
use crate::world::{event, settings_without_probation};

fn spec(declared: &Value) -> TopicSpec {
    TopicSpec::check(declared).unwrap().spec
}

fn in_schema(schema: &str) -> Value {
    let mut declared = lettered();
    declared["eventDeliverySchema"] = json!(schema);
    declared
}

fn cloud_event<'e>(source: &'e str, extensions: &[(&'e str, &'e str)]) -> Event<'e> {
    let extension = |(name, json): &(&'e str, &'e str)| ((*name).into(), (*json).into());
    Event {
        source: Some(source.into()),
        data_version: None,
        extensions: extensions.iter().map(extension).collect(),
        ..event("e")
    }
}

/// ED-265 with ED-259 and ED-317: a record of a topic that has a profile of its own is read in the form in which it is written, so that
/// attributes that are called like members which only the other profile has are the event's own.
#[tokio::test(start_paused = true)]
async fn a_record_is_read_in_the_profile_of_its_topic() {
    for (of_server, of_topic) in [
        (Profile::Default, "default"),
        (Profile::Default, "strict"),
        (Profile::Strict, "default"),
        (Profile::Strict, "strict"),
    ] {
        let settings = EngineSettings {
            profile: of_server,
            dead_letter_members: ExtraMembers::of(of_server),
            ..settings_without_probation()
        };
        let declared = json!({ "inputSchema": "CloudEventSchemaV1_0", "profile": of_topic });
        let scene = Scene::with(settings, spec(&declared)).await;
        let world = &scene.world;
        let declared = in_schema("CloudEventSchemaV1_0");
        world
            .subscribe("orders", "the-sub", declared)
            .await
            .unwrap();
        let mine = [
            ("lasthttpstatuscode", "\"mine\""),
            ("lastdeliveryattempttime", "\"mine\""),
            ("origlasthttpstatuscode", "7"),
            ("deliveryattempts", "true"),
        ];
        world
            .publish_event(scene.topic, &cloud_event("/mine", &mine))
            .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let record: Value = serde_json::from_slice(&world.letters.blobs()[0].1.bytes).unwrap();
        let is_strict = of_topic == "strict";
        let case = format!("{of_server:?} {of_topic}: {record}");
        // The page's record has neither member, so there the event's own keep their names.
        for name in ["lasthttpstatuscode", "lastdeliveryattempttime"] {
            assert_eq!(record[0][name] == "mine", is_strict, "{case}");
        }
        scene.heal();
        scene.replay(json!({})).await;
        let [first, again] = world.seen().try_into().expect(&case);
        assert_eq!(again.body, first.body, "{case}");
    }
}

/// ED-265: a log with small segments takes no request as long as a step of large events. They are delivered again all the same, fewer
/// at a time.
#[tokio::test(start_paused = true)]
async fn a_step_is_no_longer_than_the_log_takes() {
    let scene = Scene::with(settings_without_probation(), TopicSpec::default()).await;
    let world = &scene.world;
    world
        .subscribe("orders", "the-sub", lettered())
        .await
        .unwrap();
    let data = format!("\"{}\"", "x".repeat(2_000));
    let ids: Vec<_> = (0..21).map(|number| format!("e{number}")).collect();
    for id in &ids {
        let large = Event {
            data: Data::Json(data.as_str().into()),
            ..event(id)
        };
        world.publish_event(scene.topic, &large).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.heal();
    world.limit_requests(8_000);
    let info = scene.replay(json!({})).await;
    assert_eq!(info.replay.counts.replayed, 21);
    let mut again: Vec<_> = scene
        .replayed()
        .into_iter()
        .map(|seen| seen.event_id)
        .collect();
    again.sort_by_key(|id| ids.iter().position(|one| one == id));
    assert_eq!(again, ids, "each once");
}

/// ED-265 with ED-069 to ED-073: what is replayed of a domain is an event of the same domain topic, for its own subscription and, to the
/// topic, for those of that domain topic and of no other.
#[tokio::test(start_paused = true)]
async fn a_replay_keeps_the_domain_topic() {
    let domain = |input: &str| {
        let declared = json!({ "inputSchema": input });
        TopicSpec::check_domain(&declared).unwrap().spec
    };
    let path = "/subscriptions/hedgerow/resourceGroups/hedgerow/providers/Microsoft.EventGrid/domains/orders/topics/Foo";
    let known = (DOMAIN_TOPIC, "\"Foo\"");
    let grid = Event {
        extensions: vec![(known.0.into(), known.1.into())],
        ..event("e")
    };
    let named = ("domaintopic", "\"Foo\"");
    for (input, schema, event) in [
        ("EventGridSchema", "EventGridSchema", grid.clone()),
        ("EventGridSchema", "CloudEventSchemaV1_0", grid),
        (
            "CloudEventSchemaV1_0",
            "CloudEventSchemaV1_0",
            cloud_event("Foo", &[known]),
        ),
        (
            "CloudEventSchemaV1_0",
            "CloudEventSchemaV1_0",
            cloud_event(path, &[known]),
        ),
        (
            "CloudEventSchemaV1_0",
            "CloudEventSchemaV1_0",
            cloud_event("https://shop.example/", &[named, known]),
        ),
        // A header named it (ED-073), and another one than the source would.
        (
            "CloudEventSchemaV1_0",
            "CloudEventSchemaV1_0",
            cloud_event("https://shop.example/", &[known]),
        ),
        (
            "CloudEventSchemaV1_0",
            "CloudEventSchemaV1_0",
            cloud_event("Bar", &[known]),
        ),
    ] {
        let case = format!("{input} {schema} {:?}", event.source);
        let mut settings = settings_without_probation();
        settings.dead_letter_members.domain_topic = true;
        let scene = Scene::with(settings, domain(input)).await;
        let world = &scene.world;
        for (source, name) in [
            ("orders", "the-sub"),
            ("orders/topics/foo", "of-foo"),
            ("orders/topics/bar", "of-bar"),
        ] {
            world
                .subscribe(source, name, in_schema(schema))
                .await
                .unwrap();
        }
        world.publish_event(scene.topic, &event).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = world.seen();
        assert_eq!(before.len(), 2, "{case}");
        scene.heal();
        scene.replay(json!({ "target": "Topic" })).await;
        let again = scene.replayed();
        let mut hosts: Vec<_> = again.iter().map(|seen| seen.host.as_str()).collect();
        hosts.sort_unstable();
        assert_eq!(hosts, ["of-foo.example", "the-sub.example"], "{case}");
        for seen in again {
            assert_eq!(seen.body, before[0].body, "{case}");
        }
    }
}

/// FC-26: a subscription of a domain and one of a topic of it may have one name. Neither is shown, or delivered again, what the other
/// could not deliver.
#[tokio::test(start_paused = true)]
async fn a_domain_and_its_topic_keep_the_dead_letters_of_one_name_apart() {
    let domain = TopicSpec::check_domain(&json!({})).unwrap().spec;
    let scene = Scene::with(settings_without_probation(), domain).await;
    let (world, handle) = (&scene.world, &scene.world.handle);
    let sources = ["orders", "orders/topics/foo", "orders/topics/bar"];
    for source in sources {
        let declared = lettered();
        world.subscribe(source, "the-sub", declared).await.unwrap();
    }
    for (id, topic) in [("f", "\"Foo\""), ("b", "\"bar\"")] {
        let event = Event {
            extensions: vec![(DOMAIN_TOPIC.into(), topic.into())],
            ..event(id)
        };
        world.publish_event(scene.topic, &event).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut all = Vec::new();
    for (source, ids) in sources
        .into_iter()
        .zip([vec!["f", "b"], vec!["f"], vec!["b"]])
    {
        let letters = handle.written_letters(source.to_owned(), "the-sub".to_owned(), None, 10);
        let blobs = letters.await.unwrap().blobs;
        let mut found = Vec::new();
        for blob in blobs {
            let (of, uuid) = (source.to_owned(), blob.uuid.clone());
            let records = handle.written_records(of, "the-sub".to_owned(), uuid).await;
            for record in records.unwrap().records {
                let record: Value = serde_json::from_str(&record).unwrap();
                found.push(record["id"].as_str().unwrap().to_owned());
            }
            all.push((source, blob.uuid));
        }
        assert_eq!(found, ids, "{source}");
    }
    for (source, uuid) in &all {
        for other in sources.into_iter().filter(|other| other != source) {
            let read = handle.written_records(other.to_owned(), "the-sub".to_owned(), uuid.clone());
            assert!(read.await.is_err(), "{other} reads what is of {source}");
        }
    }
    scene.heal();
    let before = world.seen().len();
    scene.replay(json!({})).await;
    assert_eq!(world.seen().len() - before, 2, "the domain's own two");
}
