//! A filter that is only tried, on a sample event (ED-312).

use serde_json::{Value, json};

use crate::support::{TestServer, subscription, webhook};

const PATH: &str = "/api/v1/topics/orders/testFilter";

fn clauses(answer: &Value) -> Vec<(String, bool, String)> {
    let clauses = answer["clauses"].as_array().unwrap().iter();
    let text = |clause: &Value, member: &str| clause[member].as_str().unwrap().to_owned();
    clauses
        .map(|clause| {
            let holds = clause["holds"].as_bool().unwrap();
            (text(clause, "clause"), holds, text(clause, "message"))
        })
        .collect()
}

#[tokio::test]
async fn every_clause_is_told_of() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let filter = json!({
        "includedEventTypes": ["Order.Placed"],
        "subjectEndsWith": ".jpg",
        "advancedFilters": [
            { "operatorType": "StringIn", "key": "data.color", "values": ["red"] },
            { "operatorType": "StringContains", "key": "data.tags", "values": ["a"] },
        ],
    });
    let sample = json!({ "eventType": "order.placed", "data": { "tags": ["a"] } });
    let asked = json!({ "filter": filter, "event": sample });
    let answer = server.admin("POST", PATH, asked).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["matched"], false);
    assert_eq!(answer["failedClause"], "subjectEndsWith");
    let told =
        |clause: &str, holds: bool, message: &str| (clause.to_owned(), holds, message.to_owned());
    let expected = [
        told(
            "includedEventTypes",
            true,
            r#"the event's type is "order.placed": includedEventTypes holds"#,
        ),
        told(
            "subjectEndsWith",
            false,
            r#"the subject is "sample": subjectEndsWith does not hold"#,
        ),
        told(
            "advancedFilters[0]",
            false,
            "data.color is not there: advancedFilters[0] does not hold",
        ),
        told(
            "advancedFilters[1]",
            false,
            "data.tags is an array, and enableAdvancedFilteringOnArrays is off: advancedFilters[1] does not hold",
        ),
    ];
    assert_eq!(clauses(&answer), expected);
    assert_eq!(answer["clauses"][2]["declared"]["key"], "data.color");

    // That of a subscription, and a number exactly as it is.
    let mut declared = webhook("http://127.0.0.1:9/");
    declared["filter"] = json!({ "advancedFilters": [
        { "operatorType": "NumberIn", "key": "data.n", "values": [9_007_199_254_740_993_u64] },
    ] });
    let path = subscription("orders", "billing");
    let made = server.admin("PUT", &path, declared).await;
    assert!(
        made.status.is_success() || made.status == 400,
        "{}",
        made.text()
    );
    for (number, matched) in [
        (9_007_199_254_740_993_u64, true),
        (9_007_199_254_740_992, false),
    ] {
        let sample = json!({ "eventType": "x", "data": { "n": number } });
        let asked = json!({ "eventSubscription": "billing", "event": sample });
        let answer = server.admin("POST", PATH, asked).await.json();
        assert_eq!(answer["matched"], matched, "{answer}");
        assert_eq!(answer["clauses"][0]["value"], number);
    }
    server.stop_and_wait().await;
}

#[tokio::test]
async fn samples_are_read_as_the_topic_takes_them() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    server
        .topic_with("clouds", json!({ "inputSchema": "CloudEventSchemaV1_0" }))
        .await;
    let filter = |key: &str| json!({ "advancedFilters": [{ "operatorType": "StringIn", "key": key, "values": ["blue"] }] });
    let sample = json!({ "type": "x", "tenant": "blue" });
    let asked = json!({ "filter": filter("tenant"), "event": sample });
    let answer = server
        .admin("POST", "/api/v1/topics/clouds/testFilter", asked)
        .await;
    assert_eq!(answer.json()["matched"], true, "{}", answer.text());
    for (body, member) in [
        (json!({ "filter": {} }), "event"),
        (json!({ "event": 5 }), "event"),
        (json!({ "event": { "data": {} } }), "event"),
        (
            json!({ "event": { "eventType": "x" }, "filter": { "x": 1 } }),
            "filter.x",
        ),
        (
            json!({ "event": { "eventType": "x" }, "filter": filter("source") }),
            "filter.advancedFilters[0].key",
        ),
        (json!({ "event": { "eventType": "x" }, "more": 1 }), "more"),
        (
            json!({ "event": { "eventType": "x" }, "filter": {}, "eventSubscription": "b" }),
            "eventSubscription",
        ),
    ] {
        let refused = server.admin("POST", PATH, body).await;
        assert_eq!(refused.status, 400, "{member}: {}", refused.text());
        assert!(refused.message().contains(member), "{}", refused.text());
    }
    let nowhere = json!({ "event": { "eventType": "x" }, "eventSubscription": "none" });
    assert_eq!(server.admin("POST", PATH, nowhere).await.status, 404);
    server.stop_and_wait().await;
}

/// ED-074, ED-312: of a domain, and of one of its topics, which gets the events of that one only.
#[tokio::test]
async fn filters_of_domains_and_of_their_topics_are_tried() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    for (number, schema) in ["EventGridSchema", "CloudEventSchemaV1_0"]
        .into_iter()
        .enumerate()
    {
        let domain = format!("/api/v1/domains/shop-{number}");
        let spec = json!({ "inputSchema": schema });
        let made = server.admin("PUT", &domain, spec).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let (kind, of) = match number {
            0 => ("eventType", "topic"),
            _ => ("type", "source"),
        };
        for (below, topic, matched, failed) in [
            ("", None, true, Value::Null),
            ("", Some("other"), true, Value::Null),
            ("/topics/foo", None, true, Value::Null),
            ("/topics/foo", Some("FOO"), true, Value::Null),
            ("/topics/foo", Some("other"), false, json!("domainTopic")),
        ] {
            let filter = json!({ "includedEventTypes": ["x"] });
            let sample = json!({ kind: "x", of: topic });
            let asked = json!({ "filter": filter, "event": sample });
            let path = format!("{domain}{below}/testFilter");
            let answer = server.admin("POST", &path, asked).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            let answer = answer.json();
            let told = (&answer["matched"], &answer["failedClause"]);
            assert_eq!(told, (&json!(matched), &failed), "{answer}");
        }
        let mut declared = webhook("http://127.0.0.1:9/");
        declared["filter"] = json!({ "subjectBeginsWith": "a" });
        declared["eventDeliverySchema"] = json!(schema);
        let path = format!("{domain}/topics/foo/eventSubscriptions/billing");
        let made = server.admin("PUT", &path, declared).await;
        assert!(
            made.status.is_success() || made.status == 400,
            "{}",
            made.text()
        );
        let sample = json!({ kind: "x", "subject": "b" });
        let asked = json!({ "eventSubscription": "billing", "event": sample });
        let path = format!("{domain}/topics/foo/testFilter");
        let answer = server.admin("POST", &path, asked).await;
        let failed = &answer.json()["failedClause"];
        assert_eq!(failed, "subjectBeginsWith", "{}", answer.text());
    }
    // A domain is no topic, and a topic no domain.
    let asked = json!({ "event": { "eventType": "x" } });
    for path in ["topics/shop-0", "domains/orders", "domains/none/topics/foo"] {
        let path = format!("/api/v1/{path}/testFilter");
        let answer = server.admin("POST", &path, asked.clone()).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    server.stop_and_wait().await;
}
