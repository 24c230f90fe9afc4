//! Custom delivery properties on the wire: of each event, over its attempts, and in handshakes (ED-143 to ED-151).

use std::time::Duration;

use hedgerow_store::catalog::Provisioning;
use serde_json::{Value, json};

use crate::world::{Greet, Meet, World, settings};

fn declared(mappings: &Value, more: &Value) -> Value {
    let mut spec = json!({ "destination": { "endpointType": "WebHook", "properties": {
        "endpointUrl": "https://the-sub.example/hook", "deliveryAttributeMappings": mappings,
    } } });
    for (member, value) in more.as_object().unwrap() {
        spec[member] = value.clone();
    }
    spec
}

fn fixed(name: &str, value: &str, is_secret: bool) -> Value {
    json!({ "name": name, "type": "Static", "properties": { "value": value, "isSecret": is_secret } })
}

fn dynamic(name: &str, key: &str) -> Value {
    json!({ "name": name, "type": "Dynamic", "properties": { "sourceField": key } })
}

/// ED-143, ED-145: every attempt has them, of the event it is about, and a change holds from the next attempt on (ED-085).
#[tokio::test(start_paused = true)]
async fn every_attempt_has_the_headers_of_its_event() {
    let meet = |_: &str, attempt: usize| Meet::status(if attempt < 2 { 503 } else { 200 });
    let world = World::with_settings(settings(), meet);
    let topic = world.topic("orders").await;
    let mappings = json!([
        fixed("X-Key", "abc", true),
        dynamic("X-Id", "id"),
        dynamic("X-None", "data.none"),
        fixed("User-Agent", "mine", false),
    ]);
    let subscribe = |mappings: Value| {
        let spec = declared(&mappings, &json!({}));
        world.subscribe("orders", "the-sub", spec)
    };
    subscribe(mappings).await.unwrap();
    world.publish(topic, &["a", "b"]).await;
    world.sleep_until(Duration::from_secs(40)).await;
    subscribe(json!([fixed("X-Key", "new", true)]))
        .await
        .unwrap();
    world.sleep_until(Duration::from_secs(600)).await;
    let seen = world.seen();
    assert_eq!(seen.len(), 6);
    for one in seen {
        let header = |name: &str| one.headers.get(name).map(String::as_str);
        if one.delivery_count < 2 {
            assert_eq!(header("x-key"), Some("abc"), "{one:?}");
            assert_eq!(header("x-id"), Some(one.event_id.as_str()));
            assert_eq!(header("user-agent"), Some("mine"));
        } else {
            assert_eq!(header("x-key"), Some("new"), "{one:?}");
            assert_eq!(header("x-id"), None);
            assert!(header("user-agent").unwrap().starts_with("hedgerow/"));
        }
        assert_eq!(header("x-none"), None, "ED-146");
    }
}

/// ED-151: handshakes have the fixed ones only, and of their own headers none is replaced.
#[tokio::test(start_paused = true)]
async fn handshakes_have_the_fixed_headers() {
    for schema in ["EventGridSchema", "CloudEventSchemaV1_0"] {
        let mut settings = settings();
        settings.validation.is_enabled = true;
        let world = World::with_settings(settings, |_, _| Meet::status(200));
        world.topic("orders").await;
        world.greet(
            |asked, _| match asked.headers.get("webhook-request-origin") {
                None => Greet::Code,
                Some(origin) => Greet::answer(200, &[("webhook-allowed-origin", origin)]),
            },
        );
        let mappings = json!([
            fixed("X-Key", "abc", true),
            fixed("WebHook-Request-Callback", "mine", false),
            dynamic("X-Id", "id"),
        ]);
        let more = json!({ "eventDeliverySchema": schema });
        let spec = declared(&mappings, &more);
        let info = world.subscribe("orders", "the-sub", spec).await.unwrap();
        let (id, name) = (info.subscription.id, info.subscription.name.to_string());
        let info = world.handle.await_validation(id, name).await.unwrap();
        assert_eq!(
            info.subscription.newest_provisioning(),
            Provisioning::Succeeded
        );
        let asked = world.asked();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].headers["x-key"], "abc");
        assert!(!asked[0].headers.contains_key("x-id"));
        // The token is that of the handshake.
        assert!(!asked[0].token().is_empty());
    }
}

/// ED-152: an endpoint is asked again when a credential changes, and not for another header.
#[tokio::test(start_paused = true)]
async fn an_endpoint_is_asked_again_about_its_credentials() {
    let mut settings = settings();
    settings.validation.is_enabled = true;
    let world = World::with_settings(settings, |_, _| Meet::status(200));
    world.topic("orders").await;
    world.greet(|_, _| Greet::Code);
    let steps = [
        (json!([]), 1),
        (json!([fixed("X-Plain", "1", false)]), 1),
        (json!([dynamic("X-Plain", "id")]), 1),
        (json!([fixed("X-Key", "abc", true)]), 2),
        (json!([fixed("X-Key", "abc", true), dynamic("X", "id")]), 2),
        (json!([fixed("Authorization", "Basic x", false)]), 3),
    ];
    for (mappings, asked) in steps {
        let spec = declared(&mappings, &json!({}));
        let info = world.subscribe("orders", "the-sub", spec).await.unwrap();
        let (id, name) = (info.subscription.id, info.subscription.name.to_string());
        world.handle.await_validation(id, name).await.unwrap();
        assert_eq!(world.asked().len(), asked, "{mappings}");
    }
}
