//! Start, stop and start again.

use hedgerow_core::name::{SubscriptionName, TopicName};
use hedgerow_core::spec::{EndpointUrl, SubscriptionSpec, TopicSpec};
use hedgerow_server::{Server, ServerError, ServerOptions};
use http::Request;
use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, config, event, send};

#[tokio::test]
async fn a_restart_keeps_topics_and_keys_and_delivers_what_was_pending() {
    let data = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start().await;
    receiver.answer(500);
    let first = TestServer::run(config(data.path()), ServerOptions::default()).await;
    let key = first.topic("orders").await;
    let id = first.subscribe("orders", "billing", &receiver.url()).await["id"].clone();
    let topic = first
        .admin("GET", "/api/v1/topics/orders", Value::Null)
        .await
        .json();
    let token = first.token.clone();
    first.accept("orders", &key, event("1")).await;
    assert_eq!(receiver.next().await.header("aeg-delivery-count"), "0");
    first.stop_and_wait().await;

    receiver.answer(200);
    let second = TestServer::run(config(data.path()), ServerOptions::default()).await;
    assert_eq!(second.token, token);
    let mut shown = second
        .admin("GET", "/api/v1/topics/orders", Value::Null)
        .await
        .json();
    shown["endpoint"] = topic["endpoint"].clone();
    assert_eq!(shown, topic);
    let status = second
        .wait_for("orders", "billing", |status| status["delivered"] == 1)
        .await;
    assert_eq!(
        (&status["matched"], &status["pending"]),
        (&json!(1), &json!(0))
    );
    // How many attempts the first server made before it stopped is chance.
    let mut count = 0;
    while !receiver.is_empty() {
        count += 1;
        assert_eq!(
            receiver.next().await.header("aeg-delivery-count"),
            count.to_string()
        );
    }
    assert!(count > 0);
    assert_eq!(second.publish("orders", &key, event("2")).await.status, 200);
    assert_eq!(receiver.next().await.id(), "2");
    let path = "/api/v1/topics/orders/eventSubscriptions/billing";
    assert_eq!(
        second.admin("GET", path, Value::Null).await.json()["id"],
        id
    );
    second.stop_and_wait().await;
}

/// The issue: `/healthz` 503 at once, running attempts get their time, requests are still answered.
#[tokio::test]
async fn a_stop_lets_running_attempts_end() {
    let data = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start().await;
    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    receiver.hold();
    server.accept("orders", &key, event("1")).await;
    receiver.next().await;

    let (address, token) = (server.address, server.token.clone());
    let ended = server.stop();
    let health = loop {
        let health = send(address, Request::get("/healthz"), "").await;
        if health.status != 200 {
            break health;
        }
    };
    assert_eq!(
        (health.status.as_u16(), health.json()),
        (503, json!({ "status": "stopping" }))
    );
    let publish = Request::post("/orders/api/events").header("aeg-sas-key", &key);
    assert_eq!(
        send(address, publish, event("2")).await.status,
        200,
        "publishing goes on"
    );
    let list = Request::get("/api/v1/topics").header("authorization", format!("Bearer {token}"));
    assert_eq!(
        send(address, list, "").await.status,
        200,
        "and the admin API"
    );
    receiver.go_on();
    ended.await.unwrap().unwrap();

    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    assert_eq!(
        receiver.next().await.id(),
        "2",
        "the first one was delivered once and is settled"
    );
    server
        .wait_for("orders", "billing", |status| status["delivered"] == 2)
        .await;
    assert!(receiver.is_empty());
    server.stop_and_wait().await;
}

#[tokio::test]
async fn a_stop_gives_up_attempts_that_take_too_long() {
    let data = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start().await;
    let mut settings = config(data.path());
    settings.engine.drain = std::time::Duration::from_millis(50);
    let server = TestServer::run(settings, ServerOptions::default()).await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    receiver.hold();
    server.accept("orders", &key, event("1")).await;
    receiver.next().await;
    server.stop_and_wait().await;

    receiver.go_on();
    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    assert_eq!(receiver.next().await.id(), "1", "it is owed still");
    server
        .wait_for("orders", "billing", |status| status["delivered"] == 1)
        .await;
    server.stop_and_wait().await;
}

/// What `dev` does at each start: the receiver has another port, the subscription stays.
#[tokio::test]
async fn the_handle_declares_and_declares_anew() {
    let mut receivers = [Receiver::start().await, Receiver::start().await];
    let server = TestServer::start().await;
    let topic: TopicName = "demo".parse().unwrap();
    let name: SubscriptionName = "demo-receiver".parse().unwrap();
    let made = server
        .handle
        .ensure_topic(&topic, &TopicSpec::default())
        .await
        .unwrap();
    assert!(made.is_new);
    assert_eq!(
        made.endpoint,
        format!("http://{}/demo/api/events", server.address)
    );
    assert!(
        !server
            .handle
            .ensure_topic(&topic, &TopicSpec::default())
            .await
            .unwrap()
            .is_new
    );
    assert_eq!(server.handle.list_keys("demo").await.unwrap(), made.keys);

    let mut ids = Vec::new();
    for (index, receiver) in receivers.iter_mut().enumerate() {
        let spec = SubscriptionSpec::webhook(EndpointUrl::parse(&receiver.url()).unwrap());
        let entry = server
            .handle
            .ensure_subscription("demo", &name, &spec)
            .await
            .unwrap();
        assert_eq!(entry.is_new, index == 0);
        ids.push(entry.id);
        server.accept("demo", &made.keys.key1, event("1")).await;
        receiver.next().await;
    }
    assert_eq!(ids[0], ids[1]);
    server.stop_and_wait().await;
}

#[tokio::test]
async fn a_directory_that_is_in_use_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let first = TestServer::run(config(data.path()), ServerOptions::default()).await;
    let second = Server::bind(config(data.path()), ServerOptions::default())
        .await
        .unwrap();
    let handle = second.handle();
    let error = second.run(std::future::pending()).await.unwrap_err();
    assert!(matches!(error, ServerError::Store(_)), "{error}");
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(handle.ready().await.is_err());
    first.stop_and_wait().await;
}

/// ED-008.
#[tokio::test]
async fn without_tls_only_this_machine_may_listen() {
    let data = tempfile::tempdir().unwrap();
    let mut settings = config(data.path());
    settings.listen = "0.0.0.0:0".parse().unwrap();
    let bound = Server::bind(settings.clone(), ServerOptions::default()).await;
    let error = bound.err().expect("it is refused").to_string();
    assert!(error.contains("insecure_http"), "{error}");
    settings.insecure_http = true;
    let server = Server::bind(settings, ServerOptions::default())
        .await
        .unwrap();
    assert_eq!(
        server.public_url(),
        format!("http://localhost:{}", server.local_addr().port())
    );
}

#[tokio::test]
async fn an_address_that_is_in_use_is_named() {
    let data = tempfile::tempdir().unwrap();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = config(data.path());
    settings.listen = taken.local_addr().unwrap();
    let error = Server::bind(settings, ServerOptions::default())
        .await
        .err()
        .expect("it is taken");
    assert!(
        error
            .to_string()
            .contains(&taken.local_addr().unwrap().to_string()),
        "{error}"
    );
}
