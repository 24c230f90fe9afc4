//! Why an event did or did not reach a subscription, asked for by its id.

use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, event, subscription, webhook};
use crate::waits;

async fn explain(server: &TestServer, id_and_query: (&str, &str)) -> Value {
    let (id, query) = id_and_query;
    let path = format!("/api/v1/events/{id}/explanation{query}");
    let answer = server.admin("GET", &path, Value::Null).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Asks until the subscription's delivery is in this state, and all of its attempts are told: the history, which tells them,
/// comes a moment behind the log.
async fn until(server: &TestServer, id: &str, name: &str, state: &str) -> Value {
    let ask = async || {
        let told = explain(server, (id, "")).await;
        let subscriptions = told["value"][0]["eventSubscriptions"].as_array().cloned();
        subscriptions
            .into_iter()
            .flatten()
            .find(|one| one["eventSubscription"] == name && one["state"] == state)
            .filter(|one| {
                let told = one["attempts"].as_array().map_or(0, Vec::len);
                one["deliveryAttempts"].as_u64().unwrap_or(0) <= told as u64
            })
    };
    let found = waits::until(state, ask, Option::is_some).await;
    found.unwrap()
}

/// FC-26: ids are the publishers' own. What others published under the same one takes no room in an answer.
#[tokio::test]
async fn others_events_hide_none_of_ones_own() {
    let server = TestServer::start().await;
    let (own, others) = (
        server.topic("team-a-x").await,
        server.topic("team-b-x").await,
    );
    let body = json!({ "name": "ci", "rights": ["read"], "topicPrefix": "team-a-" });
    let made = server.admin("POST", "/api/v1/tokens", body).await.json();
    let token = made["secret"].as_str().unwrap();
    server.accept("team-a-x", &own, event("1")).await;
    for _ in 0..hedgerow_delivery::explain::EVENTS_MAX {
        server.accept("team-b-x", &others, event("1")).await;
    }
    for (query, bearer) in [("", token), ("?topic=team-a-x", &server.token)] {
        let path = format!("/api/v1/events/1/explanation{query}");
        let request = http::Request::get(path).header("authorization", format!("Bearer {bearer}"));
        let told = server.send(request, "").await.json();
        assert_eq!(
            told["value"].as_array().unwrap().len(),
            1,
            "{query}: {told}"
        );
        assert_eq!(told["value"][0]["topic"], "team-a-x");
        assert_eq!(told["isTruncated"], false, "{query}");
    }
    server.stop_and_wait().await;
}

/// The whole answer for a newcomer: who got it, who did not and why, and what is next. No secret of the endpoint is told.
#[tokio::test]
async fn an_event_is_explained_by_its_id() {
    let receiver = Receiver::start().await;
    let server = TestServer::start_with(|config| {
        config.engine.retry.slots = vec![std::time::Duration::from_secs(3_600)];
    })
    .await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let mut other = webhook(&receiver.url());
    other["filter"] = json!({ "includedEventTypes": ["Another.Type"] });
    server
        .admin("PUT", &subscription("orders", "other"), other)
        .await;
    receiver.answer(503);
    server.accept("orders", &key, event("a/1")).await;

    let billing = until(&server, "a%2F1", "billing", "AttemptDue").await;
    assert_eq!(billing["matched"], true);
    assert_eq!(billing["deliveryAttempts"], 1);
    assert_eq!(billing["waitingFor"], "DueTime");
    assert_eq!(billing["hold"]["state"], "Healthy");
    assert_eq!(billing["attempts"].as_array().unwrap().len(), 1);
    let attempt = &billing["attempts"][0];
    assert_eq!(
        (&attempt["outcome"], &attempt["httpStatus"]),
        (&json!("Busy"), &json!(503))
    );
    assert_eq!(attempt["nextAttemptTime"], billing["nextAttemptTime"]);
    let sentence = billing["explanation"].as_str().unwrap();
    assert!(
        sentence.starts_with("matched: attempt 2 of at most 30 is due at "),
        "{sentence}"
    );
    let told = explain(&server, ("a%2F1", "")).await;
    assert!(!told.to_string().contains("secret"), "{told}");
    let found = &told["value"][0];
    assert_eq!(found["topic"], "orders");
    assert_eq!(found["isStored"], true);
    let other = &found["eventSubscriptions"][1];
    assert_eq!(other["matched"], false);
    assert_eq!(other["failedClause"], "includedEventTypes");
    assert_eq!(
        other["explanation"],
        "not matched: includedEventTypes of its filter says no: [\"Another.Type\"]"
    );

    let narrow = "?topic=orders&eventSubscription=other";
    let narrow = explain(&server, ("a%2F1", narrow)).await;
    let subscriptions = narrow["value"][0]["eventSubscriptions"].as_array().unwrap();
    assert_eq!(subscriptions.len(), 1);

    let unknown = explain(&server, ("b", "")).await;
    assert_eq!(unknown["value"], json!([]));
    assert!(unknown["knownSince"].is_string());
    let nowhere = "/api/v1/events/b/explanation?topic=nowhere";
    assert_eq!(server.admin("GET", nowhere, Value::Null).await.status, 404);
    let request = http::Request::get("/api/v1/events/b/explanation");
    assert_eq!(server.send(request, "").await.status, 401);
    server.stop_and_wait().await;
}

/// A delivery that waits says why, to programs and to people.
#[tokio::test]
async fn what_holds_a_delivery_is_told() {
    let receiver = Receiver::start().await;
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let pause = format!("{}/pause", subscription("orders", "billing"));
    let answer = server.admin("POST", &pause, Value::Null).await;
    assert!(answer.status.is_success(), "{}", answer.text());
    server.accept("orders", &key, event("held")).await;
    let billing = until(&server, "held", "billing", "FirstAttemptPending").await;
    assert_eq!(billing["waitingFor"], "Resume");
    let hold = &billing["hold"];
    assert_eq!(hold["state"], "Paused");
    let since = hold["since"].as_str().unwrap();
    assert_eq!(
        billing["explanation"],
        format!(
            "matched: it waits for its first attempt; the subscription is paused since {since}"
        )
    );
    server.stop_and_wait().await;
}
