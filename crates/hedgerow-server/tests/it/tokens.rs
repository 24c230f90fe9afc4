//! Tokens with a scope, over HTTP: what their bearers see and touch, and what they do not. The table of rights and routes is
//! a test beside the routes.

use hedgerow_server::ServerOptions;
use http::Request;
use serde_json::{Value, json};

use crate::support::{Answer, Receiver, TestServer, config, event, subscription, webhook};

async fn make(server: &TestServer, name: &str, rights: &[&str], prefix: &str) -> String {
    let mut body = json!({ "name": name, "rights": rights });
    if !prefix.is_empty() {
        body["topicPrefix"] = json!(prefix);
    }
    let made = server.admin("POST", "/api/v1/tokens", body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["secret"].as_str().unwrap().to_owned()
}

async fn ask(server: &TestServer, token: &str, method: &str, path: &str, body: Value) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {token}"));
    server.send(request, body.to_string()).await
}

async fn publish(server: &TestServer, token: &str, topic: &str, id: &str) -> Answer {
    let path = format!("/{topic}/api/events");
    let request = Request::post(path).header("authorization", format!("Bearer {token}"));
    server.send(request, event(id)).await
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["value"].as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_secret_is_shown_once_and_a_deleted_token_is_refused_at_once() {
    let data = tempfile::tempdir().unwrap();
    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    let secret = make(&server, "ci", &["publish", "read"], "team-a-").await;
    let list = server.admin("GET", "/api/v1/tokens", Value::Null).await;
    assert!(!list.text().contains(&secret));
    let list = list.json();
    assert_eq!(names(&list), ["admin", "ci"]);
    assert_eq!(list["value"][1]["rights"], json!(["read", "publish"]));
    assert_eq!(list["value"][1]["topicPrefix"], "team-a-");
    let topics = "/api/v1/topics";
    assert_eq!(
        ask(&server, &secret, "GET", topics, json!({})).await.status,
        200
    );
    server.stop_and_wait().await;

    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    assert_eq!(
        ask(&server, &secret, "GET", topics, json!({})).await.status,
        200,
        "over a restart"
    );
    let deleted = server.admin("DELETE", "/api/v1/tokens/ci", Value::Null);
    assert_eq!(deleted.await.status, 204);
    let refused = ask(&server, &secret, "GET", topics, json!({})).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (401, "Unauthorized")
    );
    server.stop_and_wait().await;
}

/// FC-26: scope comes from the token only; what is others' is not there.
#[tokio::test]
async fn a_token_sees_and_touches_its_own_topics_only() {
    let server = TestServer::start().await;
    let mut receiver = Receiver::start().await;
    receiver.answer(400);
    let mut keys = Vec::new();
    for topic in ["team-a-orders", "team-b-orders"] {
        keys.push(server.topic(topic).await);
        // Both have a subscription of the same name and events of the same id.
        server.subscribe(topic, "billing", &receiver.url()).await;
    }
    for (topic, key) in ["team-a-orders", "team-b-orders"].into_iter().zip(&keys) {
        assert_eq!(server.publish(topic, key, event("1")).await.status, 200);
        receiver.next().await;
        server
            .wait_for(topic, "billing", |status| status["dropped"] == 1)
            .await;
    }
    let all = ["read", "publish", "operate", "admin"];
    let token = make(&server, "team-a", &all, "team-a-").await;
    let ask = |method, path: String, body| {
        let (server, token) = (&server, &token);
        async move { ask(server, token, method, &path, body).await }
    };

    let topics = ask("GET", "/api/v1/topics".to_owned(), json!({}))
        .await
        .json();
    assert_eq!(names(&topics), ["team-a-orders"]);
    for list in [
        "/api/v1/terminalRecords",
        "/api/v1/events/1/attempts",
        "/api/v1/events/1/explanation",
    ] {
        let listed = server
            .list_until(list, |all| all["value"][1].is_object())
            .await;
        assert_eq!(listed["value"].as_array().unwrap().len(), 2, "{listed}");
        let own = ask("GET", list.to_owned(), json!({})).await.json();
        assert_eq!(own["value"].as_array().unwrap().len(), 1, "{own}");
        assert_eq!(own["value"][0]["topic"], "team-a-orders");
    }
    // What is another's is answered as what does not exist.
    let there = subscription("team-b-orders", "billing");
    let nowhere = subscription("team-a-nothing", "billing");
    for (method, body) in [
        ("GET", json!({})),
        ("PUT", webhook(&receiver.url())),
        ("DELETE", json!({})),
    ] {
        let others = ask(method, there.clone(), body.clone()).await;
        let none = ask(method, nowhere.clone(), body).await;
        assert_eq!(others.status, 404, "{method}");
        assert_eq!(
            others.text().replace("team-b-orders", ""),
            none.text().replace("team-a-nothing", ""),
            "{method}"
        );
    }
    for query in ["deadLetters", "terminalRecords"] {
        let path = format!("/api/v1/{query}?topic=team-b-orders");
        assert_eq!(ask("GET", path, json!({})).await.status, 404, "{query}");
    }
    for made in ["team-b-new", "team-b-orders", "team-a"] {
        let refused = ask("PUT", format!("/api/v1/topics/{made}"), json!({})).await;
        assert_eq!(refused.status, 403, "{made}");
    }
    let made = ask("PUT", "/api/v1/topics/Team-A-new".to_owned(), json!({})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    for of_the_grid in ["/api/v1/store", "/api/v1/tokens"] {
        let refused = ask("GET", of_the_grid.to_owned(), json!({})).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (403, "Forbidden")
        );
    }
    let own = publish(&server, &token, "team-a-new", "2").await;
    assert_eq!(own.status, 200, "{}", own.text());
    let bare = |answer: Answer, name: &str| {
        let message = answer.message();
        let message = message.split(" Report").next().unwrap_or_default();
        (answer.status, answer.code(), message.replace(name, ""))
    };
    let others = publish(&server, &token, "team-b-orders", "2").await;
    let none = publish(&server, &token, "team-b-nothing", "2").await;
    assert_eq!(others.status, 404);
    assert_eq!(bare(others, "team-b-orders"), bare(none, "team-b-nothing"));
    let status = server.status("team-b-orders", "billing").await;
    assert_eq!(
        (&status["matched"], &status["dropped"]),
        (&json!(1), &json!(1))
    );
    server.stop_and_wait().await;
}

/// ED-027, ED-028: a valid token without the right is 403, an unknown one 401; what stands before it decides.
#[tokio::test]
async fn publishing_with_a_token_needs_its_right() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let publisher = make(&server, "publisher", &["publish"], "").await;
    let reader = make(&server, "reader", &["read"], "").await;
    assert_eq!(
        publish(&server, &publisher, "orders", "1").await.status,
        200
    );
    let refused = publish(&server, &reader, "orders", "1").await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (403, "Forbidden")
    );
    assert_eq!(publish(&server, "unknown", "orders", "1").await.status, 401);
    let read = ask(&server, &publisher, "GET", "/api/v1/topics", json!({})).await;
    assert_eq!(read.status, 403, "publishing is not reading");
    let with_key = Request::post("/orders/api/events")
        .header("authorization", format!("Bearer {publisher}"))
        .header("aeg-sas-key", "wrong");
    assert_eq!(server.send(with_key, event("1")).await.status, 401);
    server.stop_and_wait().await;
}

#[tokio::test]
async fn odd_tokens_are_refused_by_member() {
    let server = TestServer::start().await;
    for (body, status, said) in [
        (json!([]), 400, "must be an object"),
        (json!({ "rights": ["read"] }), 400, "name: "),
        (json!({ "name": "a b", "rights": ["read"] }), 400, "name: "),
        (json!({ "name": 1, "rights": ["read"] }), 400, "name: "),
        (json!({ "name": "ci" }), 400, "rights: "),
        (json!({ "name": "ci", "rights": [] }), 400, "rights: "),
        (json!({ "name": "ci", "rights": ["fly"] }), 400, "rights: "),
        (
            json!({ "name": "ci", "rights": ["read"], "topicPrefix": "a/b" }),
            400,
            "topicPrefix: ",
        ),
        (
            // FC-26: who writes a prefix wants less than everything.
            json!({ "name": "ci", "rights": ["read"], "topicPrefix": "" }),
            400,
            "topicPrefix: must not be empty",
        ),
        (
            json!({ "name": "ci", "rights": ["read"], "expirationTimeUtc": "tomorrow" }),
            400,
            "expirationTimeUtc: ",
        ),
        (
            json!({ "name": "ci", "rights": ["read"], "expirationTimeUtc": "2001-01-01T00:00:00Z" }),
            400,
            "must not be past",
        ),
        (
            json!({ "name": "ci", "rights": ["read"], "scope": "" }),
            400,
            "scope: ",
        ),
        (
            json!({ "name": "Admin", "rights": ["read"] }),
            409,
            "file admin-token",
        ),
    ] {
        let answer = server.admin("POST", "/api/v1/tokens", body.clone()).await;
        assert_eq!(answer.status, status, "{body}");
        assert!(answer.message().contains(said), "{}", answer.text());
    }
    let first = server.admin("DELETE", "/api/v1/tokens/admin", Value::Null);
    assert_eq!(first.await.status, 409);
    let none = server.admin("DELETE", "/api/v1/tokens/nobody", Value::Null);
    assert_eq!(none.await.status, 404);
    server.stop_and_wait().await;
}
