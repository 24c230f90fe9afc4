//! Handshakes that are only tried: what each step comes to, and that nothing is left of them (ED-312).

use std::time::Duration;

use hedgerow_core::limits::{HANDSHAKE_DRY_RUNS_MAX, HANDSHAKE_DRY_RUNS_WAITING_MAX};
use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_core::validation::AllowedRate;
use hedgerow_delivery::command::{Command, CommandError};
use hedgerow_delivery::dry_run::{DryRun, DryRunQuery, Step};
use serde_json::{Value, json};

use crate::world::{Asked, Greet, Meet, World, settings};

type Greeting = fn(&Asked, usize) -> Greet;

fn query(endpoint: &str, more: &Value) -> DryRunQuery {
    let mut spec = json!({ "destination": { "endpointType": "WebHook",
        "properties": { "endpointUrl": endpoint } } });
    for (member, value) in more.as_object().unwrap() {
        spec[member] = value.clone();
    }
    DryRunQuery {
        topic: "orders".to_owned(),
        name: "the-sub".parse().unwrap(),
        spec: Box::new(SubscriptionSpec::check(&spec).unwrap().spec),
        origin: None,
    }
}

async fn dry_run(world: &World, more: Value) -> DryRun {
    let query = query("https://the-sub.example/hook?code=secret", &more);
    world.handle.dry_run(query).await.unwrap()
}

/// Each way in which an endpoint answers; it is asked once, and nothing is declared.
#[tokio::test(start_paused = true)]
async fn every_step_is_told_and_nothing_is_declared() {
    let cloud_events = || json!({ "eventDeliverySchema": "CloudEventSchemaV1_0" });
    let rate = |asked: &Asked| {
        let origin = asked.headers["webhook-request-origin"].as_str();
        let headers = [
            ("webhook-allowed-origin", origin),
            ("webhook-allowed-rate", "120"),
        ];
        Greet::answer(200, &headers)
    };
    let rows: [(Greeting, Value, Option<Step>, bool); 6] = [
        (|_, _| Greet::Code, json!({}), None, false),
        (
            |_, _| Greet::status(200),
            json!({}),
            Some(Step::Consent),
            true,
        ),
        (
            |_, _| Greet::status(404),
            json!({}),
            Some(Step::Consent),
            false,
        ),
        (
            |_, _| Greet::status(500),
            json!({}),
            Some(Step::Consent),
            false,
        ),
        (|_, _| Greet::Silence, json!({}), Some(Step::Answer), false),
        (
            |_, _| Greet::status(405),
            cloud_events(),
            Some(Step::Consent),
            false,
        ),
    ];
    for (greeting, more, failed_at, is_by_hand) in rows {
        let world = World::with_settings(settings(), |_, _| Meet::status(200));
        world.topic("orders").await;
        world.greet(greeting);
        let found = dry_run(&world, more.clone()).await;
        assert_eq!(found.failed_at, failed_at, "{found:?}");
        assert_eq!(found.is_by_hand, is_by_hand, "{found:?}");
        let is_silent = failed_at == Some(Step::Answer);
        assert_eq!(found.is_connection_unknown, is_silent, "{found:?}");
        assert_eq!(found.exchange.tries, 1, "{found:?}");
        assert!(!format!("{found:?}").contains("secret"), "ED-121");
        let asked = world.asked();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].path, "/hook?code=secret");
        let all = |answer| Command::Subscriptions {
            topic: "orders".to_owned(),
            answer,
        };
        assert!(world.handle.ask(all).await.unwrap().is_empty());
    }
    let world = World::with_settings(settings(), |_, _| Meet::status(200));
    world.topic("orders").await;
    world.greet(move |asked, _| rate(asked));
    let found = dry_run(&world, cloud_events()).await;
    assert_eq!(found.failed_at, None);
    let per_minute = found.rate.per_minute().map(std::num::NonZeroU32::get);
    assert_eq!(per_minute, Some(120), "ED-167");
}

/// A name that is not found, and a declaration that would be refused.
#[tokio::test(start_paused = true)]
async fn what_is_no_endpoint_is_told() {
    let world = World::with_settings(settings(), |_, _| Meet::NoName);
    world.topic("orders").await;
    let found = dry_run(&world, json!({})).await;
    assert_eq!(found.failed_at, Some(Step::Name));
    assert_eq!(found.rate, AllowedRate::Unlimited);
    assert_eq!(world.refused().len(), 1, "once");
    for (endpoint, member) in [
        (
            "https://169.254.169.254/",
            "destination.properties.endpointUrl",
        ),
        (
            "https://the-sub.example:0/",
            "destination.properties.endpointUrl",
        ),
    ] {
        let refused = world.handle.dry_run(query(endpoint, &json!({}))).await;
        let Err(CommandError::Invalid(error)) = refused else {
            panic!("{endpoint}: {refused:?}")
        };
        assert_eq!(error.field, member, "{endpoint}");
    }
    let nowhere = DryRunQuery {
        topic: "nowhere".to_owned(),
        ..query("https://the-sub.example/", &json!({}))
    };
    let refused = world.handle.dry_run(nowhere).await;
    assert!(
        matches!(refused, Err(CommandError::NotFound { what: "topic", .. })),
        "{refused:?}"
    );
}

/// Whoever goes away takes the try along: others have their turn.
#[tokio::test(start_paused = true)]
async fn a_try_ends_with_whoever_asked() {
    let world = World::with_settings(settings(), |_, _| Meet::status(200));
    world.topic("orders").await;
    world.greet(|_, _| Greet::Silence);
    for _ in 0..20 {
        let asking = dry_run(&world, json!({}));
        let gone = tokio::time::timeout(Duration::from_secs(1), asking).await;
        gone.unwrap_err();
    }
    assert_eq!(world.asked().len(), 20);
}

/// What waits for a turn is bounded.
#[tokio::test(start_paused = true)]
async fn too_many_tries_at_a_time_are_refused() {
    let world = World::with_settings(settings(), |_, _| Meet::status(200));
    world.topic("orders").await;
    world.greet(|_, _| Greet::Silence);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..=HANDSHAKE_DRY_RUNS_MAX + HANDSHAKE_DRY_RUNS_WAITING_MAX {
        let handle = world.handle.clone();
        let query = query("https://the-sub.example/", &json!({}));
        asking.spawn(async move { handle.dry_run(query).await });
    }
    let first = asking.join_next().await.unwrap().unwrap();
    assert!(matches!(first, Err(CommandError::Busy(_))), "{first:?}");
}
