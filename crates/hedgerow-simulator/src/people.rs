//! Publishers and operators.

mod acts;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::event::{DOMAIN_TOPIC, Data, Event};
use hedgerow_core::spec::{SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::Command;
use hedgerow_delivery::declare::SubscriptionDeclaration;
use hedgerow_store::Store;
use hedgerow_store::record::PackedEvents;
use serde_json::json;

pub use self::acts::{delete, operate, resume_all};
use crate::dice::Dice;
use crate::plan::{EVENT_TYPES, NAMED_TOPICS, Publication, SubscriptionPlan, TopicKind};
use crate::world::World;

/// How long somebody who was not served waits before the next try.
const AGAIN: Duration = Duration::from_secs(5);
/// How often at most.
const TRIES: u32 = 3;

/// Declares everything, before anything breaks.
pub async fn declare(world: &Arc<World>) -> Result<(), String> {
    let front = world.front().ok_or("nobody serves")?;
    for (topic, kind) in world.plan.topics.iter().zip(&world.plan.kinds) {
        let checked = match kind {
            TopicKind::Topic => TopicSpec::check(&json!({})),
            TopicKind::Domain => TopicSpec::check_domain(&json!({})),
            TopicKind::CloudDomain => {
                TopicSpec::check_domain(&json!({ "inputSchema": "CloudEventSchemaV1_0" }))
            }
        };
        let spec = checked.map_err(|error| error.to_string())?.spec;
        let asked = front.handle.ask(|answer| Command::PutTopic {
            name: topic.parse().expect("a valid name"),
            spec,
            answer,
        });
        asked.await.map_err(|error| error.to_string())?;
    }
    for plan in &world.plan.subscriptions {
        put(world, plan, &plan.json)
            .await
            .map_err(|error| format!("{}: {error}", plan.name))?;
    }
    Ok(())
}

async fn put(
    world: &Arc<World>,
    plan: &SubscriptionPlan,
    json: &serde_json::Value,
) -> Result<(), String> {
    let front = world.front().ok_or("nobody serves")?;
    let mut json = json.clone();
    let end = json["expirationTimeUtc"].as_str();
    let end = end.and_then(|end| end.parse::<Timestamp>().ok());
    if end.is_some_and(|end| end <= world.now()) {
        // It would be refused (ED-173).
        json["expirationTimeUtc"].take();
    }
    let spec = SubscriptionSpec::check(&json).map_err(|error| error.to_string())?;
    let declaration = SubscriptionDeclaration {
        topic: world.plan.source(plan),
        name: plan.name.parse().expect("a valid name"),
        spec: Box::new(spec.spec),
        expected: None,
    };
    let declared = front.handle.declare_subscription(declaration).await;
    declared.map(drop).map_err(|error| error.to_string())
}

/// Publishes what is planned, each request on its own.
pub async fn publish(world: Arc<World>) {
    for (publication, number) in world.plan.publications.iter().zip(0..) {
        world.sleep_until(publication.at).await;
        tokio::spawn(publish_one(Arc::clone(&world), *publication, number));
    }
}

/// One request, tried again with other ids when it is not known to be kept.
pub async fn publish_one(world: Arc<World>, publication: Publication, number: u64) {
    for attempt in 0..TRIES {
        let ids: Vec<String> = (0..publication.events)
            .map(|index| format!("e{number}-{attempt}-{index}"))
            .collect();
        if publish_as(&world, publication, &ids).await {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn publish_as(world: &Arc<World>, publication: Publication, ids: &[String]) -> bool {
    let Some(front) = world.front() else {
        return false;
    };
    let topics = front.handle.topics();
    let Some(topic) = topics.get(&world.plan.topics[publication.topic]) else {
        return false;
    };
    let texts: Vec<_> = ids
        .iter()
        .map(|id| texts_of(world.plan.seed, id, publication.bytes))
        .collect();
    // What is published to a domain in the vendor's schema has none.
    let is_domain = world.plan.kinds[publication.topic] == TopicKind::Domain;
    let source = Some("/simulated").filter(|_| !is_domain);
    let events: Vec<Event<'_>> = ids
        .iter()
        .zip(&texts)
        .map(|(id, (subject, data))| {
            let mut dice = Dice::of(&[world.plan.seed, 40, crate::dice::number_of(id)]);
            Event {
                id: id.as_str().into(),
                source: source.map(Into::into),
                event_type: dice.pick(&EVENT_TYPES).into(),
                subject: Some(subject.as_str().into()),
                time: Some("2030-01-02T03:04:05.1234567Z".into()),
                data_version: Some("1.0".into()),
                data_content_type: None,
                data_schema: None,
                extensions: named_topic(world, publication.topic, id),
                data: Data::Json(data.as_str().into()),
            }
        })
        .collect();
    let packed = PackedEvents::pack(&events);
    let appending = match front.store.append(topic.id, packed) {
        Ok(appending) => appending,
        Err(error) => {
            world.note(format_args!("{ids:?} are refused: {error}"));
            return false;
        }
    };
    // Whoever is not answered does not know.
    let Ok(appended) = appending.await else {
        return false;
    };
    world.note(format_args!(
        "{ids:?} are accepted from {:?}",
        appended.first
    ));
    world.oracle().accepted(ids, appended);
    true
}

/// The topic that an event of a domain names.
fn named_topic(
    world: &World,
    topic: usize,
    id: &str,
) -> Vec<(Cow<'static, str>, Cow<'static, str>)> {
    if world.plan.kinds[topic] == TopicKind::Topic {
        return Vec::new();
    }
    let numbers = [world.plan.seed, 52, crate::dice::number_of(id)];
    let name = Dice::of(&numbers).pick(&NAMED_TOPICS);
    vec![(DOMAIN_TOPIC.into(), format!("\"{name}\"").into())]
}

/// The subject and the data of an event. Few differ, so that many have one key; some have none in their data.
fn texts_of(seed: u64, id: &str, bytes: usize) -> (String, String) {
    let mut dice = Dice::of(&[seed, 41, crate::dice::number_of(id)]);
    let subject = format!("/orders/{}", dice.pick(&[1, 1, 2, 3, 4, 5]));
    let key = dice.pick(&[
        "1", "1", "2", "3", r#""1""#, r#""a""#, "true", "null", "[1]",
    ]);
    let text = "x".repeat(bytes);
    (
        subject,
        format!(r#"{{"order": {{"key": {key}}}, "text": "{text}"}}"#),
    )
}
