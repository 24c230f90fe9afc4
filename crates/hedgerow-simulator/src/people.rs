//! Publishers and operators.

mod acts;

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::spec::{SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::Command;
use hedgerow_delivery::declare::SubscriptionDeclaration;
use hedgerow_store::Store;
use hedgerow_store::record::PackedEvents;

pub use self::acts::{delete, operate, resume_all};
use crate::dice::Dice;
use crate::plan::{EVENT_TYPES, Publication, SubscriptionPlan};
use crate::world::World;

/// How long somebody who was not served waits before the next try.
const AGAIN: Duration = Duration::from_secs(5);
/// How often at most.
const TRIES: u32 = 3;

/// Declares everything, before anything breaks.
pub async fn declare(world: &Arc<World>) -> Result<(), String> {
    let front = world.front().ok_or("nobody serves")?;
    for topic in &world.plan.topics {
        let asked = front.handle.ask(|answer| Command::PutTopic {
            name: topic.parse().expect("a valid name"),
            spec: TopicSpec::default(),
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
        topic: world.plan.topics[plan.topic].clone(),
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
    let events: Vec<Event<'_>> = ids
        .iter()
        .zip(&texts)
        .map(|(id, (subject, data))| {
            let mut dice = Dice::of(&[world.plan.seed, 40, crate::dice::number_of(id)]);
            Event {
                id: id.as_str().into(),
                source: Some("/simulated".into()),
                event_type: dice.pick(&EVENT_TYPES).into(),
                subject: Some(subject.as_str().into()),
                time: Some("2030-01-02T03:04:05.1234567Z".into()),
                data_version: Some("1.0".into()),
                data_content_type: None,
                data_schema: None,
                extensions: Vec::new(),
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
