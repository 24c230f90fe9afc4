//! From a publish request to an endpoint and back into the counters.

use serde_json::json;

use crate::support::{Receiver, TestServer, event, subscription, webhook};

#[tokio::test]
async fn an_event_is_delivered_with_its_headers_and_its_data_as_it_came() {
    let mut receiver = Receiver::start().await;
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    assert_eq!(server.publish("orders", &key, event("1")).await.status, 200);
    let delivery = receiver.next().await;
    for (name, value) in [
        ("content-type", "application/json; charset=utf-8"),
        ("aeg-event-type", "Notification"),
        ("aeg-subscription-name", "BILLING"),
        ("aeg-delivery-count", "0"),
        ("aeg-data-version", "1"),
        ("aeg-metadata-version", "1"),
    ] {
        assert_eq!(delivery.header(name), value, "{name}");
    }
    let text = std::str::from_utf8(&delivery.body).unwrap();
    assert!(text.contains(r#""data":{"n": 1.50}"#), "ED-039: {text}");
    let status = server
        .wait_for("orders", "billing", |status| status["delivered"] == 1)
        .await;
    assert_eq!(
        (&status["matched"], &status["pending"]),
        (&json!(1), &json!(0))
    );
    server.stop_and_wait().await;
}

#[tokio::test]
async fn a_failed_attempt_is_made_again_and_counted() {
    let mut receiver = Receiver::start().await;
    receiver.answer(500);
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let mut attempts = server.handle.attempts();
    server.accept("orders", &key, event("1")).await;
    assert_eq!(receiver.next().await.header("aeg-delivery-count"), "0");
    receiver.answer(200);
    assert_eq!(receiver.next().await.header("aeg-delivery-count"), "1");
    server
        .wait_for("orders", "billing", |status| status["delivered"] == 1)
        .await;

    let first = attempts.next().await.unwrap();
    assert_eq!(
        (first.event_id.as_str(), first.attempt, first.status),
        ("1", 1, 500)
    );
    assert_eq!((&*first.topic, &*first.subscription), ("orders", "billing"));
    let second = attempts.next().await.unwrap();
    assert_eq!((second.attempt, second.outcome), (2, None));
    server.stop_and_wait().await;
    assert!(
        attempts.next().await.is_none(),
        "the feed ends with the server"
    );
}

#[tokio::test]
async fn what_the_filter_does_not_want_is_not_delivered() {
    let mut receiver = Receiver::start().await;
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let mut body = webhook(&receiver.url());
    body["filter"] = json!({ "subjectEndsWith": "/2" });
    server
        .admin("PUT", &subscription("orders", "billing"), body)
        .await;
    server.accept("orders", &key, event("1")).await;
    server
        .accept("orders", &key, event("2").replace("orders/1", "orders/2"))
        .await;
    assert_eq!(receiver.next().await.id(), "2");
    let status = server
        .wait_for("orders", "billing", |status| status["delivered"] == 1)
        .await;
    assert_eq!(status["matched"], 1);
    server.stop_and_wait().await;
}
