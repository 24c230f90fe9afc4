//! Custom delivery properties through the API (ED-143 to ED-151): declared, shown, changed, applied.

use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, event, subscription, webhook};

const LIST: &str = "/destination/properties/deliveryAttributeMappings";

fn fixed(name: &str, value: &Value, is_secret: bool) -> Value {
    json!({ "name": name, "type": "Static", "properties": { "value": value, "isSecret": is_secret } })
}

fn dynamic(name: &str, key: &str) -> Value {
    json!({ "name": name, "type": "Dynamic", "properties": { "sourceField": key } })
}

fn with(endpoint: &str, mappings: Value) -> Value {
    let mut body = webhook(endpoint);
    body["destination"]["properties"]["deliveryAttributeMappings"] = mappings;
    body
}

/// The mask of what is shown in the place of a secret.
fn masked() -> Value {
    json!("********")
}

/// ED-149: a secret is written and never read, and whoever sends back what was read keeps it, with PUT, PATCH and apply.
#[tokio::test]
async fn secrets_are_kept_where_their_masks_come_back() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let mut receiver = Receiver::start().await;
    let path = subscription("orders", "billing");
    let mappings = json!([
        fixed("X-Key", &json!("s3cret"), true),
        fixed("X-Plain", &json!("plain"), false),
        dynamic("X-Amount", "data.n"),
    ]);
    let made = server.admin("PUT", &path, with(&receiver.url(), mappings.clone()));
    let made = made.await;
    assert_eq!(made.status, 201, "{}", made.text());
    let mut shown = mappings;
    shown[0]["properties"]["value"] = masked();
    assert_eq!(made.json().pointer(LIST), Some(&shown));

    let mut number = 0;
    let mut sent_with = async |server: &TestServer, secret: &str, other: Option<&str>| {
        number += 1;
        let answer = server
            .publish("orders", &key, event(&number.to_string()))
            .await;
        assert_eq!(answer.status, 200);
        let delivery = receiver.next().await;
        assert_eq!(delivery.header("x-key"), secret);
        assert_eq!(
            delivery.header("x-amount"),
            "1.50",
            "ED-146: the number's own text"
        );
        let plain = delivery.headers.get("x-plain");
        assert_eq!(plain.map(|value| value.to_str().unwrap()), other);
        receiver.url()
    };
    let url = sent_with(&server, "s3cret", Some("plain")).await;

    // The whole, as it was read.
    let put = with(&url, shown.clone());
    assert_eq!(server.admin("PUT", &path, put).await.status, 200);
    sent_with(&server, "s3cret", Some("plain")).await;
    // In part, with `null`, which the vendor shows, and without the one header.
    let part = json!({ "destination": { "properties": { "deliveryAttributeMappings":
        [fixed("x-key", &Value::Null, true), shown[2]] } } });
    let patched = server.admin("PATCH", &path, part).await;
    assert_eq!(patched.status, 200, "{}", patched.text());
    sent_with(&server, "s3cret", None).await;
    // A change of something else.
    let part = json!({ "retryPolicy": { "maxDeliveryAttempts": 3 } });
    assert_eq!(server.admin("PATCH", &path, part).await.status, 200);
    sent_with(&server, "s3cret", None).await;
    // With an apply file.
    let mut applied = with(
        &url,
        json!([
            fixed("X-Key", &masked(), true),
            dynamic("X-Amount", "data.n")
        ]),
    );
    applied["name"] = json!("billing");
    applied["topic"] = json!("orders");
    let applied = json!({ "eventSubscriptions": [applied] });
    let answer = server.admin("POST", "/api/v1/apply", applied).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    sent_with(&server, "s3cret", None).await;
    // Another secret.
    let other = json!([
        fixed("X-Key", &json!("n3w"), true),
        dynamic("X-Amount", "data.n")
    ]);
    assert_eq!(
        server.admin("PUT", &path, with(&url, other)).await.status,
        200
    );
    sent_with(&server, "n3w", None).await;
    server.stop_and_wait().await;
}

/// ED-149, AZ-072: a secret that is kept stays with its endpoint. Whoever moves a subscription says it again, for it could be read
/// where it is sent; signatures tell nothing of their secret.
#[tokio::test]
async fn a_secret_that_is_kept_is_not_moved_to_another_endpoint() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let (receiver, elsewhere) = (Receiver::start().await, Receiver::start().await);
    let path = subscription("orders", "billing");
    let secret = |value: &Value| {
        json!([
            fixed("X-Plain", &json!("1"), false),
            fixed("X-Key", value, true)
        ])
    };
    let mut declared = with(&receiver.url(), secret(&json!("s3cret")));
    declared["signing"] = json!({ "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" });
    let made = server.admin("PUT", &path, declared).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let masks = [masked(), Value::Null];
    let moved = |value: &Value| with(&elsewhere.url(), secret(value));
    let named = |mut body: Value| {
        body["name"] = json!("billing");
        body
    };
    let of_file = |value: &Value| {
        let mut body = named(moved(value));
        body["topic"] = json!("orders");
        json!({ "eventSubscriptions": [body] })
    };
    let url = json!({ "destination": { "properties": { "endpointUrl": elsewhere.url() } } });
    let mut refused = vec![server.admin("PATCH", &path, url).await];
    for mask in &masks {
        refused.push(server.admin("PUT", &path, moved(mask)).await);
        refused.push(server.admin("PATCH", &path, moved(mask)).await);
        refused.push(server.admin("POST", "/api/v1/apply", of_file(mask)).await);
        for test in ["validateEndpoint", "testEndpoint"] {
            let test = format!("/api/v1/topics/orders/{test}");
            refused.push(server.admin("POST", &test, named(moved(mask))).await);
        }
    }
    for answer in refused {
        assert_eq!(answer.status, 400, "{}", answer.text());
        let field = "destination.properties.deliveryAttributeMappings[1].properties.value";
        assert!(answer.text().contains(field), "{}", answer.text());
        assert!(
            answer.text().contains("must be given again"),
            "{}",
            answer.text()
        );
    }
    assert!(
        elsewhere.handshakes().is_empty() && elsewhere.is_empty(),
        "nothing is sent there"
    );
    let shown = server.admin("GET", &path, Value::Null).await.json();
    let base = shown["destination"]["properties"]["endpointBaseUrl"].as_str();
    assert!(receiver.url().starts_with(base.unwrap()), "{shown}");
    // Another path of the same host, and another host with the secret said again.
    let path_only = receiver.url().replace("/hook", "/other");
    let url = json!({ "destination": { "properties": { "endpointUrl": path_only } } });
    let kept = server.admin("PATCH", &path, url).await;
    assert_eq!(kept.status, 200, "{}", kept.text());
    let again = server.admin("PATCH", &path, moved(&json!("s3cret"))).await;
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(elsewhere.handshakes().len(), 1, "ED-152");
    server.stop_and_wait().await;
}

/// ED-149: a mask that is not said to be a secret does not overwrite the one that is there, in whatever way it is declared.
#[tokio::test]
async fn a_mask_does_not_overwrite_a_secret() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let receiver = Receiver::start().await;
    let path = subscription("orders", "billing");
    let key = |value: &str, is_secret: bool| json!([fixed("X-Key", &json!(value), is_secret)]);
    let body = |value, is_secret| with(&receiver.url(), key(value, is_secret));
    let made = server.admin("PUT", &path, body("s3cret", true)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let masked = body("********", false);
    let mut of_file = masked.clone();
    of_file["name"] = json!("billing");
    of_file["topic"] = json!("orders");
    let file = json!({ "eventSubscriptions": [of_file] });
    for refused in [
        server.admin("PUT", &path, masked.clone()).await,
        server.admin("PATCH", &path, masked.clone()).await,
        server.admin("POST", "/api/v1/apply", file).await,
    ] {
        assert_eq!(refused.status, 400, "{}", refused.text());
        for part in ["Mappings[0].properties.value", "isSecret true"] {
            assert!(refused.text().contains(part), "{}", refused.text());
        }
    }
    for (value, is_secret) in [("********", true), ("open", false), ("********", false)] {
        let taken = server.admin("PATCH", &path, body(value, is_secret)).await;
        assert_eq!(taken.status, 200, "{value}: {}", taken.text());
    }
    server.stop_and_wait().await;
}

/// ED-143, ED-144, ED-147: what is refused, with its path; nothing is made.
#[tokio::test]
async fn what_is_refused_is_named() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let one = |mapping: Value| json!([mapping]);
    let many: Vec<_> = (0..11)
        .map(|n| fixed(&format!("X-{n}"), &json!("x"), false))
        .collect();
    for (mappings, member) in [
        (json!(many), ""),
        (one(fixed("aeg-x", &json!("x"), false)), "[0].name"),
        (
            one(fixed("X", &json!("x".repeat(4_097)), false)),
            "[0].properties.value",
        ),
        // There is no secret that it could stand for.
        (one(fixed("X", &masked(), true)), "[0].properties.value"),
        (one(fixed("X", &Value::Null, true)), "[0].properties.value"),
        (one(dynamic("X", "data..x")), "[0].properties.sourceField"),
    ] {
        let path = subscription("orders", "billing");
        let body = with("http://127.0.0.1:9/", mappings);
        let refused = server.admin("PUT", &path, body).await;
        assert_eq!(refused.status, 400);
        let field = format!("destination.properties.deliveryAttributeMappings{member}");
        assert!(refused.message().contains(&field), "{}", refused.text());
    }
    let path = subscription("orders", "billing");
    let none = server.admin("GET", &path, Value::Null).await;
    assert_eq!(none.status, 404);
    server.stop_and_wait().await;
}
