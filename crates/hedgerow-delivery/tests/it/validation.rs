//! Handshakes on the paused clock: who is asked what and when, what every answer leads to, what a crash leaves of it.

use std::time::Duration;

use hedgerow_core::validation::AllowedRate;
use hedgerow_delivery::command::{CommandError, SubscriptionInfo};
use hedgerow_delivery::declare::SubscriptionDeclaration;
use hedgerow_delivery::settings::EngineSettings;
use hedgerow_delivery::validation::{Callback, Called};
use hedgerow_store::catalog::{Exchange, Provisioning, ValidationState};
use serde_json::{Value, json};

use crate::world::{Asked, Greet, Meet, World, in_profile, settings};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// With handshakes, as a server has them.
fn with_handshakes() -> EngineSettings {
    let mut settings = settings();
    settings.validation.is_enabled = true;
    settings
}

/// A world whose receiver takes every event.
fn world() -> World {
    World::with_settings(with_handshakes(), |_, _| Meet::status(200))
}

fn cloud_events() -> Value {
    json!({ "eventDeliverySchema": "CloudEventSchemaV1_0" })
}

fn at(path: &str) -> Value {
    let url = format!("https://the-sub.example/{path}?code=secret");
    json!({ "destination": { "endpointType": "WebHook", "properties": { "endpointUrl": url } } })
}

async fn subscribe(world: &World, more: Value) -> SubscriptionInfo {
    world.subscribe("orders", "the-sub", more).await.unwrap()
}

async fn state(world: &World) -> Provisioning {
    world
        .info("orders", "the-sub")
        .await
        .subscription
        .newest_provisioning()
}

async fn exchange(world: &World) -> Exchange {
    let subscription = world.info("orders", "the-sub").await.subscription;
    let state = subscription.validation.unwrap().state;
    state.exchange().unwrap().clone()
}

async fn call(world: &World, token: &str, is_post: bool) -> Called {
    call_with(world, token, is_post, AllowedRate::Unlimited).await
}

async fn call_with(world: &World, token: &str, is_post: bool, rate: AllowedRate) -> Called {
    let callback = Callback {
        token: token.to_owned(),
        is_post,
        rate,
    };
    world.handle.call_back(callback).await.unwrap()
}

fn completed() -> Called {
    Called::Completed {
        topic: "orders".to_owned(),
        subscription: "the-sub".to_owned(),
    }
}

fn times(asked: &[Asked]) -> Vec<Duration> {
    asked.iter().map(|asked| asked.at).collect()
}

/// 200 without a word.
fn says_nothing(_: &Asked, _: usize) -> Greet {
    Greet::status(200)
}

/// ED-152, ED-153, ED-154: asked before anything else, once, with the secret query; nothing older than the success arrives
/// (ED-085).
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_answers_the_code_gets_what_comes_from_then_on() {
    let world = world();
    world.greet(|asked, _| Greet::Answer {
        status: 200,
        headers: Vec::new(),
        body: format!(
            " {{\"validationResponse\":\"{}\", \"more\": 1}} ",
            asked.code()
        ),
        after: seconds(20),
    });
    let topic = world.topic("orders").await;
    world.publish(topic, &["before"]).await;
    let info = subscribe(&world, json!({})).await;
    assert_eq!(info.subscription.provisioning(), Provisioning::Creating);
    world.publish(topic, &["meanwhile"]).await;
    world.sleep_until(seconds(21)).await;
    assert_eq!(state(&world).await, Provisioning::Succeeded);
    world.publish(topic, &["after"]).await;
    world.settle().await;
    assert_eq!(world.seen_ids(), ["after"]);
    let asked = world.asked();
    assert_eq!(asked.len(), 1, "exactly one");
    assert_eq!(asked[0].method, "POST");
    assert_eq!(asked[0].path, "/hook?code=secret");
    let events: Value = serde_json::from_str(&asked[0].body).unwrap();
    assert_eq!(events.as_array().unwrap().len(), 1, "alone in an array");
    assert!(
        events[0]["topic"]
            .as_str()
            .unwrap()
            .ends_with("/topics/orders")
    );
    for (name, value) in [
        ("aeg-event-type", "SubscriptionValidation"),
        ("aeg-subscription-name", "THE-SUB"),
        ("aeg-delivery-count", "0"),
        ("aeg-data-version", "2"),
    ] {
        assert_eq!(asked[0].headers[name], value, "{name}");
    }
    assert_eq!(asked[0].code().len(), 36, "122 bits of chance");
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-157: 30 s for each of three tries, 5 s between them.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_does_not_answer_is_asked_three_times() {
    let world = world();
    world.greet(|_, _| Greet::Silence);
    world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.sleep_until(Duration::from_millis(99_990)).await;
    assert_eq!(state(&world).await, Provisioning::Creating);
    world.sleep_until(Duration::from_millis(100_100)).await;
    assert_eq!(state(&world).await, Provisioning::Failed);
    let asked = world.asked();
    let expected = [seconds(0), seconds(35), seconds(70)];
    for (at, expected) in times(&asked).into_iter().zip(expected) {
        let late = at.checked_sub(expected).expect("not early");
        assert!(late < Duration::from_millis(100), "{at:?}");
    }
    assert_eq!(asked.len(), 3);
    assert_ne!(asked[0].code(), asked[1].code());
    let exchange = exchange(&world).await;
    assert_eq!((exchange.tries, exchange.status), (3, None));
    assert_eq!(exchange.error.as_deref(), Some("no answer in 30s"));
}

/// ED-157, ED-161: a host that is not found is looked for three times, and named as the reason.
#[tokio::test(start_paused = true)]
async fn a_host_that_is_not_found_is_told() {
    let world = World::with_settings(with_handshakes(), |_, _| Meet::NoName);
    world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.sleep_until(seconds(11)).await;
    assert_eq!(world.refused().len(), 3);
    let exchange = exchange(&world).await;
    let error = exchange.error.unwrap();
    assert!(
        error.starts_with("the host's name cannot be resolved"),
        "{error}"
    );
    assert_eq!((exchange.tries, exchange.status), (3, None));
}

/// ED-156, ED-157: 5xx is tried again, nothing else is.
#[tokio::test(start_paused = true)]
async fn only_server_errors_are_asked_again() {
    for (status, tries, ends) in [
        (500, 3, Provisioning::Failed),
        (503, 3, Provisioning::Failed),
        (202, 1, Provisioning::Failed),
        (204, 1, Provisioning::Failed),
        (301, 1, Provisioning::Failed),
        (401, 1, Provisioning::Failed),
        (404, 1, Provisioning::Failed),
        (429, 1, Provisioning::Failed),
        (200, 1, Provisioning::AwaitingManualAction),
    ] {
        let world = world();
        world.greet(move |asked, _| Greet::Answer {
            status,
            headers: vec![("location", "https://other.example/".to_owned())],
            // A right body helps only beside 200.
            body: if status == 200 {
                String::new()
            } else {
                json!({ "validationResponse": asked.code() }).to_string()
            },
            after: Duration::ZERO,
        });
        world.topic("orders").await;
        subscribe(&world, json!({})).await;
        world.sleep_until(seconds(12)).await;
        assert_eq!(state(&world).await, ends, "{status}");
        assert_eq!(world.asked().len(), tries, "{status}");
        assert!(
            world
                .asked()
                .iter()
                .all(|asked| asked.host == "the-sub.example"),
            "ED-122"
        );
        let exchange = exchange(&world).await;
        assert_eq!(exchange.status, Some(status));
        assert_eq!(usize::from(exchange.tries), tries);
        assert!(
            exchange.message.contains(&status.to_string()),
            "{}",
            exchange.message
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_try_may_succeed() {
    let world = world();
    world.greet(|_, number| {
        if number < 2 {
            Greet::status(500)
        } else {
            Greet::Code
        }
    });
    world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.sleep_until(seconds(11)).await;
    assert_eq!(state(&world).await, Provisioning::Succeeded);
    assert_eq!(world.asked().len(), 3);
}

/// ED-161: what is kept for people, without the secrets that an endpoint may repeat (ED-121).
#[tokio::test(start_paused = true)]
async fn a_failure_can_be_read_and_holds_no_secret() {
    let world = world();
    world.greet(|asked, _| Greet::Answer {
        status: 403,
        headers: vec![
            ("x-why", format!("no to {}", asked.path)),
            ("server", "test".to_owned()),
        ],
        body: format!(
            "you sent {} to {} {}",
            asked.body,
            asked.path,
            "x".repeat(5_000)
        ),
        after: Duration::ZERO,
    });
    world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.sleep_until(seconds(1)).await;
    let exchange = exchange(&world).await;
    assert!(exchange.body.starts_with("you sent [{") && exchange.body.len() <= 1_024);
    let header = |name: &str| {
        exchange
            .headers
            .iter()
            .find(|(of, _)| of == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(header("server"), Some("test"));
    assert_eq!(header("x-why"), Some("no to /hook?***"));
    let asked = &world.asked()[0];
    for secret in ["secret", &asked.token(), &asked.code()] {
        assert!(
            !exchange.body.contains(secret),
            "{secret} in {}",
            exchange.body
        );
    }
}

/// ED-121: neither a header that is repeated in the message, nor another spelling, nor half an answer holds it.
#[tokio::test(start_paused = true)]
async fn no_spelling_of_a_secret_is_shown() {
    let world = world();
    world.greet(|asked, _| Greet::Answer {
        status: 200,
        headers: vec![("webhook-allowed-origin", format!("x{}", asked.path))],
        body: format!("you sent {}", asked.path.replace("sec", r"\u0073\u0065c")),
        after: Duration::ZERO,
    });
    world.topic("orders").await;
    subscribe(&world, cloud_events()).await;
    world.sleep_until(seconds(1)).await;
    let exchange = exchange(&world).await;
    assert_eq!(exchange.body, "you sent /hook?***");
    assert!(
        exchange.message.contains("x/hook?***"),
        "{}",
        exchange.message
    );
    assert!(!exchange.message.contains("secret"), "{}", exchange.message);
}

/// ED-158, ED-159: the URL completes it once, and not at 300 s.
#[tokio::test(start_paused = true)]
async fn the_url_works_once_and_not_after_five_minutes() {
    // The event is sent at once, so its time is that of the declaration.
    for (millis, called, then) in [
        (1_000, completed(), Provisioning::Succeeded),
        (299_998, completed(), Provisioning::Succeeded),
        (300_000, Called::Expired, Provisioning::Failed),
        (400_000, Called::Expired, Provisioning::Failed),
    ] {
        let world = world();
        world.greet(says_nothing);
        let topic = world.topic("orders").await;
        let declared = world.begun.elapsed();
        subscribe(&world, json!({})).await;
        world.settle().await;
        assert_eq!(state(&world).await, Provisioning::AwaitingManualAction);
        let token = world.asked()[0].token();
        let sent = world.asked()[0].at;
        assert_eq!(sent, declared);
        world
            .sleep_until(sent + Duration::from_millis(millis))
            .await;
        assert_eq!(
            call(&world, &token, true).await,
            match called {
                Called::Completed { .. } | Called::Expired => Called::GetOnly,
                ref other => other.clone(),
            }
        );
        assert_eq!(call(&world, &token, false).await, called, "{millis}");
        world.settle().await;
        assert_eq!(state(&world).await, then, "{millis}");
        let again = call(&world, &token, false).await;
        let expected = match then {
            Provisioning::Succeeded => Called::Used,
            _ => Called::Expired,
        };
        assert_eq!(again, expected, "{millis}");
        world.publish(topic, &["e1"]).await;
        world.settle().await;
        assert_eq!(
            world.seen().len(),
            usize::from(then == Provisioning::Succeeded)
        );
    }
}

/// It ends by itself, with the reason (ED-158).
#[tokio::test(start_paused = true)]
async fn nobody_came() {
    let world = world();
    world.greet(says_nothing);
    world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.sleep_until(Duration::from_millis(299_990)).await;
    assert_eq!(state(&world).await, Provisioning::AwaitingManualAction);
    world.sleep_until(seconds(302)).await;
    assert_eq!(state(&world).await, Provisioning::Failed);
    let exchange = exchange(&world).await;
    assert!(
        exchange.message.contains("300s") && exchange.message.contains("no body"),
        "{}",
        exchange.message
    );
    assert_eq!(exchange.status, Some(200));
}

/// ED-159: 404 for what is no token.
#[tokio::test(start_paused = true)]
async fn other_tokens_complete_nothing() {
    let world = world();
    world.greet(says_nothing);
    world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.settle().await;
    let token = world.asked()[0].token();
    let (id, secret) = token.split_once('.').unwrap();
    let longer = format!("{token}A");
    let other_id = format!("7.{secret}");
    for wrong in [
        "",
        ".",
        id,
        secret,
        &token[..token.len() - 1],
        &longer,
        &other_id,
        "1.",
        "x.y",
    ] {
        assert_eq!(call(&world, wrong, false).await, Called::Unknown, "{wrong}");
    }
    assert_eq!(secret.len(), 43, "256 bits");
    assert_eq!(state(&world).await, Provisioning::AwaitingManualAction);
    assert_eq!(call(&world, &token, false).await, completed());
}

/// A receiver may open the URL before it answers.
#[tokio::test(start_paused = true)]
async fn the_url_may_be_opened_while_the_endpoint_is_asked() {
    for more in [json!({}), cloud_events()] {
        let world = world();
        // What it answers then does not matter any more (ED-169).
        world.greet(|_, _| Greet::Answer {
            status: 405,
            headers: Vec::new(),
            body: String::new(),
            after: seconds(10),
        });
        world.topic("orders").await;
        subscribe(&world, more).await;
        world.sleep_until(seconds(5)).await;
        assert_eq!(state(&world).await, Provisioning::Creating);
        let token = world.asked()[0].token();
        assert_eq!(call(&world, &token, false).await, completed());
        assert_eq!(state(&world).await, Provisioning::Succeeded);
        world.sleep_until(seconds(120)).await;
        assert_eq!(state(&world).await, Provisioning::Succeeded);
        assert_eq!(world.asked().len(), 1);
    }
}

/// ED-164 to ED-167: OPTIONS, consent by header, and no more requests a minute than allowed.
#[tokio::test(start_paused = true)]
async fn a_cloud_events_endpoint_consents_by_header_and_sets_the_pace() {
    let mut world = world();
    world.greet(|_, _| {
        Greet::answer(
            204,
            &[
                ("WebHook-Allowed-Origin", "Events.Example"),
                ("WebHook-Allowed-Rate", "30"),
            ],
        )
    });
    let topic = world.topic("orders").await;
    subscribe(&world, cloud_events()).await;
    world.settle().await;
    let info = world.info("orders", "the-sub").await.subscription;
    assert_eq!(info.provisioning(), Provisioning::Succeeded);
    assert_eq!(info.allowed_rate.map(std::num::NonZeroU32::get), Some(30));
    let asked = world.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(
        (asked[0].method.as_str(), asked[0].path.as_str()),
        ("OPTIONS", "/hook?code=secret")
    );
    assert_eq!(asked[0].headers["webhook-request-origin"], "events.example");
    assert_eq!(asked[0].body, "", "no validation event is sent");
    world.publish(topic, &["e1", "e2", "e3", "e4", "e5"]).await;
    let began = world.begun.elapsed();
    world.sleep_until(began + seconds(5)).await;
    let before = world.seen().len();
    assert_eq!(before, 3, "one in 2 s");
    // The pace survives a crash.
    world.crash().await;
    let restarted = world.begun.elapsed();
    world.sleep_until(restarted + seconds(60)).await;
    let seen: Vec<_> = world.seen().into_iter().map(|seen| seen.at).collect();
    assert!(seen.len() >= 5, "{seen:?}");
    for pair in seen.windows(2) {
        assert!(
            pair[1] - pair[0] >= Duration::from_millis(1_999),
            "{seen:?}"
        );
    }
    assert!(
        world
            .seen()
            .iter()
            .all(|seen| seen.headers["webhook-request-origin"] == "events.example")
    );
}

/// ED-166, ED-168; FC-14 f to h.
#[tokio::test(start_paused = true)]
async fn consent_of_cloud_events_endpoints() {
    for (greet, ends) in [
        (
            Greet::answer(200, &[("WebHook-Allowed-Origin", "*")]),
            Provisioning::Succeeded,
        ),
        (
            Greet::answer(200, &[("webhook-allowed-origin", "other.example")]),
            Provisioning::Failed,
        ),
        (Greet::status(405), Provisioning::Failed),
        (
            Greet::answer(405, &[("WebHook-Allowed-Origin", "*")]),
            Provisioning::Failed,
        ),
        (Greet::status(200), Provisioning::AwaitingManualAction),
    ] {
        let world = world();
        let says = greet.clone();
        world.greet(move |_, _| says.clone());
        world.topic("orders").await;
        subscribe(&world, cloud_events()).await;
        world.settle().await;
        assert_eq!(state(&world).await, ends, "{greet:?}");
        if ends == Provisioning::Failed {
            let message = exchange(&world).await.message;
            assert!(
                message.contains("events.example") && message.contains("expected"),
                "{message}"
            );
        }
    }
}

/// ED-168: by GET or POST, with a rate.
#[tokio::test(start_paused = true)]
async fn a_callback_consents_and_may_set_the_pace() {
    for is_post in [false, true] {
        let world = world();
        world.greet(says_nothing);
        world.topic("orders").await;
        subscribe(&world, cloud_events()).await;
        world.sleep_until(seconds(200)).await;
        let rate = AllowedRate::PerMinute(120.try_into().unwrap());
        let called = call_with(&world, &world.asked()[0].token(), is_post, rate).await;
        assert_eq!(called, completed());
        let found = world.info("orders", "the-sub").await.subscription;
        assert_eq!(found.allowed_rate, rate.per_minute());
    }
}

/// Everything survives a crash: who was being asked is asked again, deadlines stay, ends stay.
#[tokio::test(start_paused = true)]
async fn a_crash_in_each_state() {
    let mut world = world();
    world.greet(|_, _| Greet::Silence);
    let topic = world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.sleep_until(seconds(20)).await;
    world.greet(says_nothing);
    world.crash().await;
    world.settle().await;
    let asked = world.asked();
    assert_eq!(asked.len(), 2, "asked again after the crash");
    assert_eq!(asked[0].token(), asked[1].token(), "the URL stays");
    assert_eq!(state(&world).await, Provisioning::AwaitingManualAction);
    world.publish(topic, &["e1"]).await;
    world.crash().await;
    world
        .sleep_until(asked[1].at + Duration::from_millis(299_990))
        .await;
    assert_eq!(state(&world).await, Provisioning::AwaitingManualAction);
    world.sleep_until(asked[1].at + seconds(302)).await;
    assert_eq!(
        state(&world).await,
        Provisioning::Failed,
        "the deadline stays"
    );
    world.crash().await;
    world.settle().await;
    assert_eq!(state(&world).await, Provisioning::Failed);
    assert_eq!(
        call(&world, &asked[1].token(), false).await,
        Called::Expired
    );
    assert_eq!(world.asked().len(), 2, "nobody is asked in vain again");
    // It must be declared again.
    world.greet(says_nothing);
    subscribe(&world, json!({})).await;
    world.settle().await;
    let token = world.asked()[2].token();
    world.crash().await;
    assert_eq!(
        call(&world, &token, false).await,
        completed(),
        "also after a crash"
    );
    world.crash().await;
    assert_eq!(call(&world, &token, false).await, Called::Used);
    world.publish(topic, &["e2"]).await;
    world.settle().await;
    assert_eq!(world.seen_ids(), ["e2"]);
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-163: the old endpoint stays active, whole, until the new one has consented.
#[tokio::test(start_paused = true)]
async fn an_update_is_validated_before_it_is_used() {
    let mut world = world();
    let topic = world.topic("orders").await;
    subscribe(&world, at("old")).await;
    world.settle().await;
    world.greet(says_nothing);
    let mut new = at("new");
    new["filter"] = json!({ "subjectBeginsWith": "/never/" });
    let info = subscribe(&world, new).await.subscription;
    assert_eq!(info.provisioning(), Provisioning::Succeeded);
    assert_eq!(info.newest_provisioning(), Provisioning::Creating);
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    assert_eq!(
        world.seen_ids(),
        ["e1"],
        "to the old endpoint, by the old filter"
    );
    let first = world.asked()[1].token();
    assert_eq!(world.asked()[1].path, "/new?code=secret");
    // A second update replaces the one that waits.
    subscribe(&world, at("newer")).await;
    world.settle().await;
    assert_eq!(call(&world, &first, false).await, Called::Unknown);
    world.crash().await;
    world.publish(topic, &["e2"]).await;
    world.settle().await;
    assert_eq!(state(&world).await, Provisioning::AwaitingManualAction);
    assert_eq!(
        call(&world, &world.asked()[2].token(), false).await,
        completed()
    );
    let found = world.info("orders", "the-sub").await.subscription;
    assert_eq!(found.update, None);
    assert_eq!(found.newest_provisioning(), Provisioning::Succeeded);
    world.publish(topic, &["e3"]).await;
    world.settle().await;
    assert_eq!(world.seen_ids(), ["e1", "e2", "e3"]);
    assert_eq!(
        world.asked().len(),
        3,
        "e3 went to the new endpoint without a further question"
    );
    world.assert_balanced("orders", "the-sub").await;
}

/// ED-163: a failed update leaves what was in force, and says why.
#[tokio::test(start_paused = true)]
async fn a_failed_update_leaves_the_old_endpoint() {
    let world = world();
    let topic = world.topic("orders").await;
    subscribe(&world, at("old")).await;
    world.settle().await;
    world.greet(|_, _| Greet::status(404));
    subscribe(&world, at("new")).await;
    world.settle().await;
    let found = world.info("orders", "the-sub").await.subscription;
    assert_eq!(found.provisioning(), Provisioning::Succeeded);
    assert_eq!(found.newest_provisioning(), Provisioning::Failed);
    assert!(exchange(&world).await.message.contains("404"));
    world.publish(topic, &["e1"]).await;
    world.settle().await;
    assert_eq!(world.seen_ids(), ["e1"]);
    // Other changes need no question, and end what failed.
    let mut changed = at("old");
    changed["filter"] = json!({ "subjectBeginsWith": "/never/" });
    subscribe(&world, changed).await;
    let found = world.info("orders", "the-sub").await.subscription;
    assert_eq!((found.update, found.validation), (None, None));
    world.publish(topic, &["e2"]).await;
    world.settle().await;
    assert_eq!(world.seen_ids(), ["e1"]);
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_asked_can_be_deleted() {
    let world = world();
    world.greet(|_, _| Greet::Silence);
    world.topic("orders").await;
    subscribe(&world, json!({})).await;
    world.settle().await;
    let handle = world.handle.clone();
    let waits = tokio::spawn(async move {
        let name = "the-sub".parse().unwrap();
        let mut spec = json!({ "destination": { "endpointType": "WebHook", "properties":
            { "endpointUrl": "https://the-sub.example/hook?code=secret" } } });
        in_profile(&mut spec);
        let spec = hedgerow_core::spec::SubscriptionSpec::check(&spec)
            .unwrap()
            .spec;
        let declaration = SubscriptionDeclaration {
            topic: "orders".to_owned(),
            name,
            spec: Box::new(spec),
            expected: None,
        };
        handle.put_subscription(declaration, seconds(60)).await
    });
    world.sleep_until(seconds(2)).await;
    assert_eq!(
        world.asked().len(),
        1,
        "the same declaration waits for the same handshake"
    );
    world.unsubscribe("orders", "the-sub").await;
    let answered = waits.await.unwrap();
    let Err(CommandError::NotFound { name, .. }) = answered else {
        panic!("{answered:?}")
    };
    assert_eq!(name, "the-sub", "its name, and no number of ours");
    world.sleep_until(seconds(120)).await;
    assert_eq!(world.asked().len(), 1);
    // The next one of this name is asked anew.
    world.greet(|_, _| Greet::Code);
    subscribe(&world, json!({})).await;
    world.settle().await;
    assert_eq!(state(&world).await, Provisioning::Succeeded);
}

/// A setting of the server, and one for hosts.
#[tokio::test(start_paused = true)]
async fn trusted_hosts_are_not_asked() {
    let mut settings = with_handshakes();
    settings.validation.trusted_hosts = vec!["the-sub.example".to_owned()];
    let world = World::with_settings(settings, |_, _| Meet::status(200));
    world.topic("orders").await;
    let info = subscribe(&world, json!({})).await.subscription;
    assert_eq!(info.provisioning(), Provisioning::Succeeded);
    world.greet(|_, _| Greet::status(404));
    let other = world.subscribe("orders", "other", json!({})).await.unwrap();
    assert_eq!(other.subscription.provisioning(), Provisioning::Creating);
    world.settle().await;
    assert_eq!(world.asked().len(), 1);
    let found = world.info("orders", "other").await.subscription;
    assert!(matches!(
        found.validation.unwrap().state,
        ValidationState::Failed { .. }
    ));
}
