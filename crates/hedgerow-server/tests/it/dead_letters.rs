//! Dead letters over the admin API and into a real directory (ED-242 to ED-252, ED-319).

use hedgerow_core::spec::STORAGE_ACCOUNT;
use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, event, files, subscription, webhook};

fn declared(endpoint: &str, path: &str, settings: &Value) -> Value {
    let mut declared = webhook(endpoint);
    declared["deadLetterDestination"] =
        json!({"endpointType": "LocalDirectory", "properties": {"path": path}});
    declared["deadLetter"] = settings.clone();
    declared
}

#[tokio::test]
async fn what_is_given_up_stands_in_the_directory() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("late")).unwrap();
    let directory = root.path().to_owned();
    let server = TestServer::start_with(|config| {
        config.dead_letter.directory = Some(directory);
    })
    .await;
    let mut receiver = Receiver::start().await;
    receiver.answer(400);
    let key = server.topic("orders").await;
    let body = declared(&receiver.url(), "late", &json!({"delay": 0}));
    let answer = server
        .admin("PUT", &subscription("orders", "billing"), body)
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json().get("warnings"), None);
    assert!(files(root.path()).is_empty(), "a probe leaves nothing");
    assert_eq!(answer.json()["deadLetter"]["maxUnavailable"], 14_400);
    server.accept("orders", &key, event("1")).await;
    receiver.next().await;
    server
        .wait_for("orders", "billing", |status| status["deadLettered"] == 1)
        .await;
    let files = files(root.path());
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].starts_with(root.path().join("late/BILLING")));
    let written: Value = serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap();
    assert_eq!(
        (&written[0]["id"], &written[0]["deadLetterReason"]),
        (&json!("1"), &json!("UndeliverableDueToHttpBadRequest"))
    );
    let answer = server.admin("GET", "/api/v1/terminalRecords", json!(null));
    let records = answer.await.json();
    assert_eq!(records["value"][0]["disposition"], "DeadLettered");
    assert_eq!(records["value"][0]["dropReason"], json!(null));
    server.stop_and_wait().await;
}

/// ED-248, ED-319: the problem is named in the answer and the status, or refuses; what is pending is listed.
#[tokio::test]
async fn a_directory_that_is_missing_is_named() {
    let server = TestServer::start().await;
    let mut receiver = Receiver::start().await;
    receiver.answer(400);
    let key = server.topic("orders").await;
    let strict = declared(&receiver.url(), "gone", &json!({"requireReachable": true}));
    let path = subscription("orders", "billing");
    let answer = server.admin("PUT", &path, strict).await;
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .message()
            .contains("dead-letters/gone does not exist"),
        "{}",
        answer.message()
    );
    let answer = server
        .admin(
            "PUT",
            &path,
            declared(&receiver.url(), "gone", &json!(null)),
        )
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(
        answer.json()["warnings"][0]["field"],
        "deadLetterDestination"
    );
    let problem = server.status("orders", "billing").await["deadLetterProblem"].clone();
    assert!(
        problem
            .as_str()
            .unwrap()
            .contains("does not exist; make it"),
        "{problem}"
    );

    for id in ["1", "2"] {
        server.accept("orders", &key, event(id)).await;
        receiver.next().await;
    }
    let page = "/api/v1/deadLetters?topic=orders&eventSubscription=billing&limit=1";
    let first = server
        .list_until(page, |listed| listed["next"].is_string())
        .await;
    assert_eq!(first["value"][0]["eventId"], "1");
    assert_eq!(first["value"][0]["failedWrites"], 0);
    let next = format!("{page}&after={}", first["next"].as_str().unwrap());
    server
        .list_until(&next, |listed| listed["value"][0]["eventId"] == "2")
        .await;
    server.stop_and_wait().await;
}

#[tokio::test]
async fn other_destinations_are_refused_in_so_many_words() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let rows = [
        (
            json!({"endpointType": "StorageBlob", "properties": {}}),
            "not supported by this version",
        ),
        (
            json!({"endpointType": "LocalDirectory"}),
            "deadLetterDestination.properties: is required",
        ),
        (
            json!({"endpointType": "LocalDirectory", "properties": {"path": "../x"}}),
            "deadLetterDestination.properties.path",
        ),
        (
            json!({"endpointType": "LocalDirectory", "properties": {"path": "/etc"}}),
            "must be relative",
        ),
    ];
    for (destination, part) in rows {
        let mut body = webhook("http://127.0.0.1:1/");
        body["deadLetterDestination"] = destination;
        let answer = server
            .admin("PUT", &subscription("orders", "billing"), body)
            .await;
        assert_eq!(answer.status, 400);
        assert!(answer.message().contains(part), "{}", answer.message());
    }
    server.stop_and_wait().await;
}

/// ED-313: with the local default a subscription that names no destination gets the server's directory; one that says that it
/// wants none gets none. Without it nobody does, which is the default.
#[tokio::test]
async fn the_local_default_is_for_those_who_name_no_destination() {
    let path = subscription("orders", "billing");
    for is_on in [true, false] {
        let server = TestServer::start_with(|config| {
            config.dead_letter.local_default = is_on;
        })
        .await;
        let receiver = Receiver::start().await;
        server.topic("orders").await;
        let answer = server.admin("PUT", &path, webhook(&receiver.url())).await;
        assert_eq!(answer.json().get("warnings"), None, "{}", answer.text());
        let destination = &answer.json()["deadLetterDestination"];
        let expected = is_on.then_some("default");
        assert_eq!(destination["properties"]["path"].as_str(), expected);

        let mut none = webhook(&receiver.url());
        none["deadLetterDestination"] = json!(null);
        let answer = server.admin("PUT", &path, none).await;
        assert_eq!(answer.json()["deadLetterDestination"], json!(null));
        let named = declared(&receiver.url(), "mine", &json!({}));
        let answer = server.admin("PUT", &path, named).await;
        let destination = &answer.json()["deadLetterDestination"];
        assert_eq!(destination["properties"]["path"], "mine");
        server.stop_and_wait().await;
    }
}

/// ED-263, ED-318: somebody who subscribes to the storage account is told of the file; nobody publishes there, and whoever has but
/// some topics is told of nothing there (FC-26).
#[tokio::test]
async fn a_file_that_was_written_is_told_of() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("late")).unwrap();
    let directory = root.path().to_owned();
    let server = TestServer::start_with(|config| {
        config.dead_letter.directory = Some(directory);
    })
    .await;
    let mut receiver = Receiver::start().await;
    receiver.answer(400);
    let mut watcher = Receiver::start().await;
    let key = server.topic("orders").await;
    let body = declared(&receiver.url(), "late", &json!({"delay": 0}));
    let answer = server
        .admin("PUT", &subscription("orders", "billing"), body)
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let account = STORAGE_ACCOUNT.replace('/', "%2F");
    let path = subscription(&account, "watcher");
    let answer = server.admin("PUT", &path, webhook(&watcher.url())).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["topic"], "$deadletter");
    let topic = server
        .admin("GET", "/api/v1/topics/$deadletter", json!(null))
        .await
        .json();
    assert_eq!(topic["source"], STORAGE_ACCOUNT);
    assert_eq!(topic.get("endpoint"), None);

    server.accept("orders", &key, event("1")).await;
    receiver.next().await;
    let told: Value = serde_json::from_slice(&watcher.next().await.body).unwrap();
    let files = files(root.path());
    let url = told[0]["data"]["url"].as_str().unwrap();
    assert_eq!(url, format!("file://{}", files[0].display()));
    let length = std::fs::metadata(&files[0]).unwrap().len();
    assert_eq!(told[0]["data"]["contentLength"], length);
    assert_eq!(told[0]["topic"], STORAGE_ACCOUNT);

    let keys = "/api/v1/topics/$deadletter/listKeys";
    let keys = server.admin("POST", keys, json!({})).await.json();
    let key = keys["key1"].as_str().unwrap();
    let published = server.publish("$deadletter", key, event("2")).await;
    assert_eq!(published.status, 403, "{}", published.text());
    for (method, status) in [("PUT", 409), ("DELETE", 409)] {
        let path = "/api/v1/topics/$deadletter";
        let answer = server.admin(method, path, json!({})).await;
        assert_eq!(answer.status, status, "{method}: {}", answer.text());
    }

    let body = json!({"name": "team", "rights": ["admin", "read"], "topicPrefix": "team-"});
    let made = server.admin("POST", "/api/v1/tokens", body).await.json();
    let bearer = format!("Bearer {}", made["secret"].as_str().unwrap());
    let source = json!({ "source": STORAGE_ACCOUNT });
    let wanted = webhook(&watcher.url());
    for (path, body, status) in [
        ("/api/v1/topics/team-letters".to_owned(), source, 403),
        (subscription("$deadletter", "theirs"), wanted.clone(), 404),
        (subscription(&account, "theirs"), wanted, 404),
    ] {
        let request = http::Request::put(&path).header("authorization", &bearer);
        let answer = server.send(request, body.to_string()).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    server.stop_and_wait().await;
}

/// ED-265: replays that are stopped count as open; whoever meets the bound is told what to do, and a canceled one makes room.
#[tokio::test]
async fn a_replay_that_is_canceled_makes_room_for_another() {
    const OPEN_MAX: usize = hedgerow_core::limits::REPLAYS_OPEN_MAX;
    let server = TestServer::start().await;
    let receiver = Receiver::start().await;
    server.topic("orders").await;
    let path = subscription("orders", "billing");
    // They wait for their directory.
    let body = declared(&receiver.url(), "gone", &json!(null));
    let answer = server.admin("PUT", &path, body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let all = format!("{path}/replays");
    let post = async |path: &str| server.admin("POST", path, json!({})).await;
    for id in 1..=OPEN_MAX {
        let begun = post(&all).await;
        assert_eq!(
            (begun.status.as_u16(), &begun.json()["id"]),
            (201, &json!(id))
        );
        let stopped = post(&format!("/api/v1/replays/{id}/stop")).await;
        assert_eq!(stopped.json()["state"], "Stopped", "{}", stopped.text());
    }
    let refused = post(&all).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    for word in ["stopped", "--cancel"] {
        assert!(refused.text().contains(word), "{}", refused.text());
    }
    let canceled = post("/api/v1/replays/3/cancel").await;
    assert_eq!(canceled.status, 200, "{}", canceled.text());
    assert_eq!(canceled.json()["state"], "Canceled");
    assert!(canceled.json()["endedTime"].is_string());
    let resumed = post("/api/v1/replays/3/resume").await;
    assert_eq!(resumed.status, 409, "{}", resumed.text());
    assert_eq!(post("/api/v1/replays/99/cancel").await.status, 404);
    let begun = post(&all).await;
    assert_eq!(begun.status, 201, "{}", begun.text());
    let listed = server.admin("GET", "/api/v1/replays", json!(null)).await;
    assert_eq!(
        listed.json()["value"].as_array().unwrap().len(),
        OPEN_MAX + 1
    );
    server.stop_and_wait().await;
}
