//! Subscriptions that deliver to an origin group (HP-200 to HP-203, ED-315).

use serde_json::{Value, json};

use crate::origins::{Origin, declare, quick, status_path};
use crate::support::{TestServer, event, subscription};
use crate::waits::until;

/// A server with a group of two origins that are both healthy, and a subscription to it.
async fn start(origins: [&Origin; 2]) -> (TestServer, String) {
    let server = TestServer::start_with(|config| {
        config.engine.validation.is_enabled = false;
    })
    .await;
    let [a, b] = origins;
    let group = quick(&[a.declared("a"), b.declared("b")]);
    declare(&server, "receivers", group).await;
    states_are(&server, ["healthy", "healthy"]).await;
    let key = server.topic("orders").await;
    let declared = json!({ "destination": { "endpointType": "OriginGroup", "properties": {
        "originGroup": "receivers", "path": "/hook", "protocol": "http",
    }}});
    let made = server
        .admin("PUT", &subscription("orders", "billing"), declared)
        .await;
    assert_eq!(made.status, 201, "{}", made.text());
    (server, key)
}

async fn states_are(server: &TestServer, states: [&str; 2]) {
    let ask = async || {
        let told = server
            .admin("GET", &status_path("receivers"), Value::Null)
            .await;
        let told = told.json();
        let origins = told["status"]["origins"].as_array().cloned();
        let origins = origins.into_iter().flatten();
        origins
            .map(|origin| origin["state"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    until("states of origins", ask, |found| *found == states).await;
}

/// The attempts of an event, once it was delivered.
async fn attempts(server: &TestServer, id: &str) -> Vec<Value> {
    let ask = async || {
        let path = format!("/api/v1/events/{id}/explanation");
        let told = server.admin("GET", &path, Value::Null).await.json();
        let attempts = &told["value"][0]["eventSubscriptions"][0]["attempts"];
        attempts.as_array().cloned().unwrap_or_default()
    };
    let is_delivered = |attempts: &Vec<Value>| {
        let last = attempts.last();
        last.is_some_and(|last| last["httpStatus"] == 200)
    };
    until("an attempt that is accepted", ask, is_delivered).await
}

/// HP-200, issue 7's acceptance 3: an origin dies; whoever was sent there first goes to the other one next, and explain says so.
#[tokio::test]
async fn the_second_attempt_goes_elsewhere() {
    let (mut a, b) = (Origin::start().await, Origin::start().await);
    let (server, key) = start([&a, &b]).await;
    a.kill().await;
    let mut went_elsewhere = 0;
    for id in ["1", "2", "3", "4"] {
        assert_eq!(server.publish("orders", &key, event(id)).await.status, 200);
        let attempts = attempts(&server, id).await;
        let last = &attempts.last().unwrap()["origin"];
        assert_eq!(last["name"], "b", "{attempts:?}");
        if let [first, second] = &attempts[..] {
            assert_eq!(first["origin"]["name"], "a", "{attempts:?}");
            assert_eq!(second["origin"]["insteadOf"], "a", "{attempts:?}");
            went_elsewhere += 1;
        }
    }
    assert!(went_elsewhere > 0, "in turn, until probes find out");
    server.stop_and_wait().await;
}

/// HP-094, ED-315, FC-23: without an enabled origin nothing is attempted, counted or lost; with one it is delivered.
#[tokio::test]
async fn without_an_origin_events_wait() {
    let (a, b) = (Origin::start().await, Origin::start().await);
    let (server, key) = start([&a, &b]).await;
    let enable = async |is_enabled: bool| {
        let patch = json!({ "origins": {
            "a": { "enabled": is_enabled }, "b": { "enabled": false },
        }});
        let of_group = crate::origins::path("receivers");
        let changed = server.admin("PATCH", &of_group, patch).await;
        assert_eq!(changed.status, 200, "{}", changed.text());
    };
    enable(false).await;
    assert_eq!(server.publish("orders", &key, event("1")).await.status, 200);
    let ask = async || {
        let told = server
            .admin("GET", "/api/v1/events/1/explanation", Value::Null)
            .await;
        told.text().to_owned()
    };
    let told = until("a wait for an origin", ask, |told| {
        told.contains("no origin to send it to")
    });
    told.await;
    let status = server.status("orders", "billing").await;
    assert_eq!(
        (&status["pending"], &status["deadLettered"]),
        (&json!(1), &json!(0))
    );
    enable(true).await;
    let attempts = attempts(&server, "1").await;
    assert_eq!(attempts.len(), 1, "what could not be started is no attempt");
    assert_eq!(attempts[0]["origin"]["mode"], "single");
    server.stop_and_wait().await;
}

/// A group, and a subscription to it, from one file.
#[tokio::test]
async fn a_group_and_a_subscription_to_it_are_declared_together() {
    let (a, b) = (Origin::start().await, Origin::start().await);
    let server = TestServer::start_with(|config| {
        config.engine.validation.is_enabled = false;
    })
    .await;
    let mut group = quick(&[a.declared("a"), b.declared("b")]);
    group["name"] = json!("receivers");
    let to = |group: &str| {
        json!([{ "topic": "orders", "name": "billing", "destination": {
            "endpointType": "OriginGroup", "properties": { "originGroup": group, "path": "/hook", "protocol": "http" },
        }}])
    };
    let file = |group_named: &str| json!({ "topics": [{ "name": "orders" }], "originGroups": [group], "eventSubscriptions": to(group_named) });
    let refused = server.admin("POST", "/api/v1/apply", file("others")).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(
        refused.text().contains("there is no origin group"),
        "{}",
        refused.text()
    );
    let applied = server
        .admin("POST", "/api/v1/apply", file("Receivers"))
        .await;
    assert_eq!(applied.status, 200, "{}", applied.text());
    let keys = server
        .admin("POST", "/api/v1/topics/orders/listKeys", Value::Null)
        .await
        .json();
    let key = keys["key1"].as_str().unwrap();
    assert_eq!(server.publish("orders", key, event("1")).await.status, 200);
    assert_eq!(attempts(&server, "1").await.len(), 1);
    server.stop_and_wait().await;
}
