//! Signing secrets through the API (ED-142): set, kept, rotated. That signatures are right is verified with the standard's own
//! library in `tests/clients`, and by the standard's text in the tests of the engine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value, json};

use crate::support::{Delivery, Receiver, TestServer, event, subscription, webhook};

fn is_verified(delivery: &Delivery, secret: &str) -> bool {
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let (id, time) = (
        delivery.header("webhook-id"),
        delivery.header("webhook-timestamp"),
    );
    let mut signed = format!("{id}.{time}.").into_bytes();
    signed.extend_from_slice(&delivery.body);
    let mut signatures = delivery.header("webhook-signature").split(' ');
    signatures.any(|signature| {
        let signature = STANDARD.decode(signature.strip_prefix("v1,").unwrap());
        hmac::verify(&key, &signed, &signature.unwrap()).is_ok()
    })
}

/// A secret is drawn and shown once; the present one holds besides until it is dropped.
#[tokio::test]
async fn secrets_are_rotated_and_never_read() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let mut receiver = Receiver::start().await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let path = subscription("orders", "billing");
    let rotate = format!("{path}/rotateSigningSecret");
    let first = server.admin("POST", &rotate, Value::Null).await.json();
    assert_eq!(first["previousSecretValidUntil"], Value::Null);
    let secret_of = |rotated: &Value| rotated["secret"].as_str().unwrap().to_owned();
    let second = server.admin("POST", &rotate, json!({})).await.json();
    assert!(second["previousSecretValidUntil"].is_string());
    let (first, second) = (secret_of(&first), secret_of(&second));
    assert_ne!(first, second);

    server.accept("orders", &key, event("1")).await;
    let delivery = receiver.next().await;
    assert!(is_verified(&delivery, &first) && is_verified(&delivery, &second));
    let shown = server.admin("GET", &path, Value::Null).await;
    assert!(!shown.text().contains("whsec_"), "{}", shown.text());
    assert_eq!(shown.json()["signing"]["secret"], "********");
    // What was read is sent back, with a change of something else.
    let put = json!({
        "destination": webhook(&receiver.url())["destination"],
        "signing": shown.json()["signing"], "labels": ["a"],
    });
    assert_eq!(server.admin("PUT", &path, put).await.status, 200);
    server.accept("orders", &key, event("2")).await;
    let delivery = receiver.next().await;
    assert!(is_verified(&delivery, &first) && is_verified(&delivery, &second));

    // A secret from elsewhere, and none besides.
    let own = format!("whsec_{}", STANDARD.encode([9; 24]));
    let order = json!({ "secret": own, "previousSecretValidMinutes": 0 });
    assert_eq!(
        server.admin("POST", &rotate, order.clone()).await.status,
        200
    );
    server.accept("orders", &key, event("3")).await;
    let delivery = receiver.next().await;
    assert!(is_verified(&delivery, &own) && !is_verified(&delivery, &second));
    for (order, member) in [
        (order, "secret"),
        (json!({ "secret": "whsec_short" }), "secret"),
        (
            json!({ "previousSecretValidMinutes": 10_081 }),
            "previousSecretValidMinutes",
        ),
        (
            json!({ "previousSecretValidMinutes": "1" }),
            "previousSecretValidMinutes",
        ),
        (json!({ "minutes": 1 }), "minutes"),
    ] {
        let refused = server.admin("POST", &rotate, order).await;
        assert_eq!(refused.status, 400, "{member}");
        assert!(refused.message().contains(member), "{}", refused.text());
    }
    let off = json!({ "signing": null });
    assert_eq!(server.admin("PATCH", &path, off).await.status, 200);
    server.accept("orders", &key, event("4")).await;
    assert!(
        receiver
            .next()
            .await
            .headers
            .get("webhook-signature")
            .is_none()
    );
    server.stop_and_wait().await;
}
