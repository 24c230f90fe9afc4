//! The strict profile (ED-317), of a server and of a topic. Which settings it has is tested beside the settings.

use std::path::Path;

use hedgerow_core::spec::Profile;
use hedgerow_server::{Config, config};
use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, event, files, subscription, webhook};

fn parse(text: &str) -> Config {
    config::parse(Path::new("test.toml"), text).unwrap()
}

/// What is written by itself holds, wherever it stands.
#[test]
fn what_is_written_besides_holds_in_both_profiles() {
    let strict = parse("profile = \"strict\"\n[dead_letter]\ndrop_if_not_found = false\n");
    assert_eq!(strict.engine.profile, Profile::Strict);
    let settings = strict.dead_letter.settings;
    assert_eq!(
        (settings.drop_if_not_found, settings.require_reachable),
        (false, true)
    );
    let members = strict.engine.dead_letter_members;
    assert!(!members.last_http_status && !members.last_attempt_time);
    let default = parse("profile = \"default\"\n[dead_letter]\nrequire_reachable = true\n");
    assert!(default.dead_letter.settings.require_reachable);
    assert!(default.engine.dead_letter_members.last_http_status);
    config::parse(Path::new("test.toml"), "profile = \"Strict\"").unwrap_err();
}

/// A server with the container `deadletter`, a receiver that answers 404, and what it says of it.
async fn start(root: &Path, profile: &str) -> TestServer {
    std::fs::create_dir_all(root.join("deadletter")).unwrap();
    let (directory, profile) = (root.to_owned(), parse(&format!("profile = \"{profile}\"")));
    TestServer::start_with(|config| {
        config.dead_letter.settings = profile.dead_letter.settings;
        config.engine.profile = profile.engine.profile;
        config.engine.dead_letter_members = profile.engine.dead_letter_members;
        config.dead_letter.directory = Some(directory);
        config.engine.validation.is_enabled = false;
    })
    .await
}

fn declared(receiver: &Receiver, container: &str) -> Value {
    let mut declared = webhook(&receiver.url());
    declared["retryPolicy"] = json!({ "maxDeliveryAttempts": 1 });
    declared["deadLetter"] = json!({ "delay": 0 });
    declared["deadLetterDestination"] =
        json!({ "endpointType": "LocalDirectory", "properties": { "path": container } });
    declared
}

/// ED-317, ED-319, ED-247, ED-254: each of four topics, one of each profile on a server of each, has what its own profile says.
#[tokio::test]
async fn a_topic_has_the_profile_that_it_names_or_else_the_servers() {
    for (of_server, of_topic, is_strict) in [
        ("default", None, false),
        ("default", Some("strict"), true),
        ("strict", None, true),
        ("strict", Some("default"), false),
    ] {
        let case = format!("{of_server} {of_topic:?}");
        let root = tempfile::tempdir().unwrap();
        let server = start(root.path(), of_server).await;
        let key = server
            .topic_with("orders", json!({ "profile": of_topic }))
            .await;
        let shown = server
            .admin("GET", "/api/v1/topics/orders", Value::Null)
            .await
            .json();
        assert_eq!(
            shown.get("profile").and_then(Value::as_str),
            of_topic,
            "{case}"
        );
        let mut receiver = Receiver::start().await;
        receiver.answer(404);
        // A container that is not there.
        let path = subscription("orders", "odd");
        let made = server
            .admin("PUT", &path, declared(&receiver, "none"))
            .await;
        assert_eq!(
            made.status,
            if is_strict { 400 } else { 201 },
            "{case}: {}",
            made.text()
        );
        let mut odd = declared(&receiver, "none");
        odd["deadLetter"]["requireReachable"] = json!(!is_strict);
        let made = server
            .admin("PUT", &subscription("orders", "said"), odd)
            .await;
        assert_eq!(
            made.status,
            if is_strict { 201 } else { 400 },
            "{case}: it says so itself"
        );
        for name in ["odd", "said"] {
            server
                .admin("DELETE", &subscription("orders", name), Value::Null)
                .await;
        }
        let path = subscription("orders", "the-sub");
        let made = server
            .admin("PUT", &path, declared(&receiver, "deadletter"))
            .await
            .json();
        assert_eq!(made["deadLetter"]["dropIfNotFound"], is_strict, "{case}");
        assert_eq!(server.publish("orders", &key, event("1")).await.status, 200);
        receiver.next().await;
        server
            .wait_for("orders", "the-sub", |status| status["deadLettered"] == 1)
            .await;
        server.stop_and_wait().await;
        let [file] = files(root.path()).try_into().unwrap();
        let records: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(
            records[0].get("lastHttpStatusCode").is_none(),
            is_strict,
            "{case}: {records}"
        );
        assert!(
            records[0].get("lastDeliveryAttemptTime").is_some(),
            "{case}: the page has it"
        );
    }
}

/// ED-317: with files too, also where the topic is declared beside its subscription.
#[tokio::test]
async fn declarations_with_files_follow_the_profile() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "default").await;
    let receiver = Receiver::start().await;
    let mut sub = declared(&receiver, "deadletter");
    sub["topic"] = json!("orders");
    sub["name"] = json!("the-sub");
    let wanted = json!({ "topics": [{ "name": "orders", "profile": "strict" }], "eventSubscriptions": [sub] });
    let applied = server.admin("POST", "/api/v1/apply", wanted.clone()).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
    let shown = server
        .admin("GET", &subscription("orders", "the-sub"), Value::Null)
        .await
        .json();
    assert_eq!(shown["deadLetter"]["dropIfNotFound"], true);
    let again = server.admin("POST", "/api/v1/apply", wanted).await.json();
    assert_eq!(again["value"][1]["change"], "unchanged");
    let refused = server
        .admin("PUT", "/api/v1/topics/other", json!({ "profile": "lax" }))
        .await;
    assert_eq!(refused.status, 400);
    server.stop_and_wait().await;
}

/// A subscription of both profiles' topics whose dead letters go to `deadletter`, of batches in CloudEvents.
fn in_batches(receiver: &Receiver) -> Value {
    let mut declared = declared(receiver, "deadletter");
    declared["destination"]["properties"]["maxEventsPerBatch"] = json!(10);
    declared["eventDeliverySchema"] = json!("CloudEventSchemaV1_0");
    declared["retryPolicy"] = json!({ "maxDeliveryAttempts": 3 });
    declared
}

/// Two events of one request in the CloudEvents schema.
fn two_cloud_events() -> String {
    let event = |id| json!({ "specversion": "1.0", "id": id, "source": "/s", "type": "T" });
    json!([event("1"), event("2")]).to_string()
}

async fn publish_two(server: &TestServer, key: &str) {
    let path = subscription("orders", "the-sub");
    let pause = format!("{path}/pause");
    assert_eq!(server.admin("POST", &pause, Value::Null).await.status, 200);
    let request = http::Request::post("/orders/api/events")
        .header("aeg-sas-key", key)
        .header("content-type", "application/cloudevents-batch+json");
    let published = server.send(request, two_cloud_events()).await;
    assert_eq!(published.status, 200, "{}", published.text());
    let resume = format!("{path}/resume");
    assert_eq!(server.admin("POST", &resume, Value::Null).await.status, 200);
}

/// ED-317, ED-221, ED-255: a batch that is refused with 413 ends in both profiles for all of its events, without being divided; the
/// records of a strict server have the page's members and no others.
#[tokio::test]
async fn a_batch_that_is_too_large_ends_in_both_profiles() {
    for (profile, is_strict) in [("default", false), ("strict", true)] {
        let root = tempfile::tempdir().unwrap();
        let server = start(root.path(), profile).await;
        let key = server
            .topic_with("orders", json!({ "inputSchema": "CloudEventSchemaV1_0" }))
            .await;
        let mut receiver = Receiver::start().await;
        receiver.answer(413);
        let path = subscription("orders", "the-sub");
        let made = server.admin("PUT", &path, in_batches(&receiver)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        publish_two(&server, &key).await;
        assert_eq!(receiver.next().await.header("hedgerow-batch-size"), "2");
        server
            .wait_for("orders", "the-sub", |status| status["deadLettered"] == 2)
            .await;
        assert!(receiver.is_empty(), "{profile}: nothing is sent again");
        server.stop_and_wait().await;
        // In one blob, or each in its own: they are due at once, one after the other.
        let mut records = Vec::new();
        for file in files(root.path()) {
            let blob: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            records.extend(blob);
        }
        assert_eq!(records.len(), 2, "{profile}: {records:?}");
        let mut names: Vec<_> = records[0].as_object().unwrap().keys().collect();
        names.sort_unstable();
        let mut expected = vec![
            "deadletterreason",
            "deliveryattempts",
            "id",
            "lastdeliveryoutcome",
            "publishtime",
            "source",
            "specversion",
            "type",
        ];
        if !is_strict {
            expected.extend(["lastdeliveryattempttime", "lasthttpstatuscode"]);
            expected.sort_unstable();
        }
        assert_eq!(names, expected, "{profile}: {records:?}");
    }
}

/// ED-247, ED-317: a container that is gone when a dead letter is written: the strict profile drops it at once and says why; by
/// default it waits, is told of, and is written when the container is there again.
#[tokio::test]
async fn a_container_that_is_gone_is_what_the_profile_says() {
    for (profile, is_strict) in [("default", false), ("strict", true)] {
        let root = tempfile::tempdir().unwrap();
        let server = start(root.path(), profile).await;
        let key = server.topic("orders").await;
        let mut receiver = Receiver::start().await;
        receiver.answer(400);
        let path = subscription("orders", "the-sub");
        let made = server
            .admin("PUT", &path, declared(&receiver, "deadletter"))
            .await;
        assert_eq!(made.status, 201, "{}", made.text());
        std::fs::remove_dir(root.path().join("deadletter")).unwrap();
        assert_eq!(server.publish("orders", &key, event("1")).await.status, 200);
        receiver.next().await;
        if is_strict {
            server
                .wait_for("orders", "the-sub", |status| status["dropped"] == 1)
                .await;
            let records = server
                .admin("GET", "/api/v1/terminalRecords", Value::Null)
                .await
                .json();
            let record = &records["value"][0];
            assert_eq!(record["disposition"], "Dropped", "{record}");
            assert_eq!(
                record["dropReason"], "DeadLetterDestinationUnavailable",
                "{record}"
            );
        } else {
            let status = server
                .wait_for("orders", "the-sub", |status| {
                    !status["deadLetterProblem"].is_null()
                })
                .await;
            assert_eq!(
                (&status["dropped"], &status["deadLettered"]),
                (&json!(0), &json!(0))
            );
            let page = "/api/v1/deadLetters?topic=orders&eventSubscription=the-sub";
            let listed = server
                .list_until(page, |listed| listed["value"][0]["failedWrites"] == 1)
                .await;
            assert_eq!(listed["value"][0]["eventId"], "1");
        }
        server.stop_and_wait().await;
    }
}
