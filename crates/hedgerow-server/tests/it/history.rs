//! What became of an event, asked for by its id (ED-311).

use std::fs;
use std::path::Path;

use hedgerow_server::ServerOptions;
use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, config, event, subscription, webhook};

const PATH: &str = "/api/v1/events/a%2F1/attempts";

/// Asks until so many attempts are known: an excerpt is known a moment after the outcome.
async fn attempts(server: &TestServer, count: usize) -> Value {
    let are_told = |answer: &Value| answer["value"].as_array().unwrap().len() >= count;
    server.list_until(PATH, are_told).await
}

fn assert_nowhere(directory: &Path, secret: &str) {
    let mut found = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        found += bytes.len();
        let windows = bytes.windows(secret.len());
        assert!(windows.into_iter().all(|part| part != secret.as_bytes()));
    }
    assert!(found > 0);
}

#[tokio::test]
async fn attempts_are_told_by_id_and_over_restarts() {
    let mut receiver = Receiver::start().await;
    receiver.answer(500);
    let data = tempfile::tempdir().unwrap();
    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    server.accept("orders", &key, event("a/1")).await;
    receiver.next().await;
    receiver.answer(200);
    receiver.next().await;
    let told = attempts(&server, 2).await;
    assert_eq!(told["isTruncated"], false);
    assert!(told["knownSince"].is_string());
    let first = &told["value"][0];
    for (member, value) in [
        ("eventId", json!("a/1")),
        ("topic", json!("orders")),
        ("eventSubscription", json!("billing")),
        ("kind", json!("Attempt")),
        ("attempt", json!(1)),
        ("outcome", json!("GenericError")),
        ("httpStatus", json!(500)),
        // ED-121: the query is a secret.
        ("responseExcerpt", json!("cannot do /hook?***")),
        ("responseBytes", json!(27)),
        ("detail", Value::Null),
        ("reason", Value::Null),
        ("final", json!(false)),
    ] {
        assert_eq!(first[member], value, "{member}");
    }
    let texts = ["publishTime", "startTime", "endTime", "nextAttemptTime"];
    let times = texts.map(|member| first[member].as_str().unwrap());
    assert!(times.is_sorted(), "{times:?}");
    let second = &told["value"][1];
    let members = ["attempt", "outcome", "responseExcerpt", "final"];
    let values = members.map(|member| second[member].clone());
    assert_eq!(
        values,
        [json!(2), json!("Delivered"), Value::Null, json!(true)]
    );

    for (query, count) in [
        ("topic=orders", 2),
        ("topic=ORDERS&eventSubscription=billing", 2),
        ("topic=orders&eventSubscription=other", 0),
        ("topic=invoices", 0),
    ] {
        let path = format!("{PATH}?{query}");
        let told = server.admin("GET", &path, Value::Null).await.json();
        assert_eq!(told["value"].as_array().unwrap().len(), count, "{query}");
    }
    for (query, status) in [("topic=shop/topics/foo", 404), ("topics=orders", 400)] {
        let path = format!("{PATH}?{query}");
        let refused = server.admin("GET", &path, Value::Null).await;
        assert_eq!(refused.status, status, "{query}: {}", refused.text());
    }
    let none = server
        .admin("GET", "/api/v1/events/b/attempts", Value::Null)
        .await;
    assert_eq!(none.json()["value"], json!([]));
    let request = http::Request::get(PATH);
    assert_eq!(server.send(request, "").await.status, 401);
    server.stop_and_wait().await;
    assert_nowhere(&data.path().join("history"), "code=secret");

    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    assert_eq!(attempts(&server, 2).await, told);
    server.stop_and_wait().await;
}

#[tokio::test]
async fn an_unreachable_endpoint_and_a_final_status_say_what_went_wrong() {
    let server = TestServer::start_with(|config| config.engine.validation.is_enabled = false).await;
    let key = server.topic("orders").await;
    let mut body = webhook("http://127.0.0.1:1/hook?code=secret");
    body["retryPolicy"] = json!({ "maxDeliveryAttempts": 1 });
    server
        .admin("PUT", &subscription("orders", "billing"), body)
        .await;
    server.accept("orders", &key, event("a/1")).await;
    let told = attempts(&server, 1).await;
    let attempt = &told["value"][0];
    assert_eq!(attempt["outcome"], "SocketError");
    assert_eq!(attempt["reason"], "MaxDeliveryAttemptsExceeded");
    assert_eq!(attempt["final"], true);
    let detail = attempt["detail"].as_str().unwrap();
    assert!(
        detail.contains("refused") && !detail.contains("secret"),
        "{detail}"
    );
    server.stop_and_wait().await;
}

#[tokio::test]
async fn without_a_history_nothing_is_told_and_everything_is_delivered() {
    let mut receiver = Receiver::start().await;
    let server = TestServer::start_with(|config| config.history.is_enabled = false).await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    server.accept("orders", &key, event("a/1")).await;
    receiver.next().await;
    let told = attempts(&server, 0).await;
    assert_eq!(
        (&told["value"], &told["knownSince"]),
        (&json!([]), &Value::Null)
    );
    server.stop_and_wait().await;
}
