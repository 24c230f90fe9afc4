//! What a subscription asks of its endpoint at most (design D7), through API, status, explain and metrics.

use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, event, subscription, webhook};

#[tokio::test]
async fn limits_are_declared_shown_and_kept() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let mut receiver = Receiver::start().await;
    receiver.hold();
    let path = subscription("orders", "billing");
    let with = |concurrency: Value, rate: Value| {
        let mut body = webhook(&receiver.url());
        body["destination"]["properties"]["maxConcurrency"] = concurrency;
        body["destination"]["properties"]["maxRequestsPerSecond"] = rate;
        body
    };
    for (concurrency, rate, member) in [
        (json!(0), json!(null), "maxConcurrency"),
        (json!(10_001), json!(null), "maxConcurrency"),
        (json!(null), json!(0.5), "maxRequestsPerSecond"),
        (json!(null), json!(10_001), "maxRequestsPerSecond"),
    ] {
        let refused = server.admin("PUT", &path, with(concurrency, rate)).await;
        assert_eq!(refused.status, 400);
        let member = format!("destination.properties.{member}");
        assert!(refused.message().contains(&member), "{}", refused.text());
    }
    let made = server
        .admin("PUT", &path, with(json!(2), json!(1_000)))
        .await;
    assert_eq!(made.status, 201, "{}", made.text());
    let properties = made.json()["destination"]["properties"].clone();
    assert_eq!(properties["maxConcurrency"], 2);
    assert_eq!(properties["maxRequestsPerSecond"], 1_000);
    for id in ["1", "2", "3"] {
        assert_eq!(server.publish("orders", &key, event(id)).await.status, 200);
    }
    let is_reached = |status: &Value| status["limits"]["openAttempts"] == 2;
    let status = server.wait_for("orders", "billing", is_reached).await;
    assert_eq!(status["limits"]["maxConcurrency"], 2);
    assert_eq!(status["limits"]["maxRequestsPerSecond"], 1_000);
    assert_eq!(status["limits"]["endpoint"]["openAttemptsLimit"], 16);
    let explained = "/api/v1/events/3/explanation";
    let waits = |answer: &Value| {
        answer.pointer("/value/0/eventSubscriptions/0/waitingFor") == Some(&json!("MaxConcurrency"))
    };
    let explained = server.list_until(explained, waits).await;
    let delivery = &explained["value"][0]["eventSubscriptions"][0];
    assert_eq!(delivery["openAttemptsLimit"], 2);
    let metrics = server.admin("GET", "/metrics", Value::Null).await;
    let limit = |limit: &str, count: u32| {
        let labels = r#"topic="orders",event_subscription_name="billing""#;
        format!("hedgerow_subscription_limit{{{labels},limit=\"{limit}\"}} {count}\n")
    };
    for line in [
        limit("max_concurrency", 2),
        limit("max_requests_per_second", 1_000),
    ] {
        assert!(
            metrics.text().contains(&line),
            "{line} in {}",
            metrics.text()
        );
    }
    assert!(metrics.text().contains("hedgerow_endpoint_attempts_limit{"));
    receiver.go_on();
    for _ in 0..3 {
        receiver.next().await;
    }
    let part = json!({ "destination": { "properties": { "maxConcurrency": null } } });
    let patched = server.admin("PATCH", &path, part).await.json();
    assert_eq!(
        patched["destination"]["properties"].get("maxConcurrency"),
        None
    );
    assert_eq!(patched["status"]["limits"]["maxRequestsPerSecond"], 1_000);
    server.stop_and_wait().await;
}
