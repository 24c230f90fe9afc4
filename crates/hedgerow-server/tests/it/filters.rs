//! Advanced filters over HTTP: what is accepted, shown again and refused, and who gets what (ED-099, ED-116, FC-01, FC-03,
//! FC-04).

use serde_json::{Value, json};

use crate::support::{Answer, Receiver, TestServer, config, subscription, webhook};

fn filtered(endpoint: &str, filter: Value) -> Value {
    let mut body = webhook(endpoint);
    body["filter"] = filter;
    body
}

fn advanced(filters: &str) -> Value {
    serde_json::from_str(&format!(r#"{{"advancedFilters":{filters}}}"#)).unwrap()
}

fn published(id: &str, data: &str) -> String {
    format!(
        r#"[{{"id":"{id}","subject":"s","eventType":"T","eventTime":"2030-01-02T03:04:05Z","data":{data},"dataVersion":"1"}}]"#
    )
}

/// A subscription with a receiver of its own.
struct Subscriber {
    name: &'static str,
    receiver: Receiver,
}

impl Subscriber {
    async fn new(server: &TestServer, topic: &str, name: &'static str, filter: Value) -> Self {
        let receiver = Receiver::start().await;
        let body = filtered(&receiver.url(), filter);
        let answer = server.admin("PUT", &subscription(topic, name), body).await;
        assert_eq!(answer.status, 201, "{name}: {}", answer.text());
        Self { name, receiver }
    }

    /// It got these and no others.
    async fn got(&mut self, server: &TestServer, topic: &str, expected: &[&str]) {
        let count = expected.len();
        let status = server
            .wait_for(topic, self.name, |status| status["delivered"] == count)
            .await;
        assert_eq!(status["matched"], count, "{}", self.name);
        let mut ids = Vec::new();
        for _ in expected {
            ids.push(self.receiver.next().await.id());
        }
        assert!(self.receiver.is_empty(), "{}: delivered once", self.name);
        ids.sort();
        assert_eq!(ids, expected, "{}", self.name);
    }
}

/// Everything published before was offered to everybody when a subscription without a filter has got it.
async fn publish_all(server: &TestServer, topic: &str, key: &str, events: &[(&str, &str)]) {
    let mut everything = Subscriber::new(server, topic, "everything", json!({})).await;
    for (id, data) in events {
        let answer = server.publish(topic, key, published(id, data)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    for _ in events {
        everything.receiver.next().await;
    }
}

/// ED-097: what was declared is shown as it was written, also after a restart.
#[tokio::test]
async fn numbers_of_filters_keep_every_digit() {
    let data = tempfile::tempdir().unwrap();
    let server = TestServer::run(
        config(data.path()),
        hedgerow_server::ServerOptions::default(),
    )
    .await;
    server.topic("orders").await;
    let receiver = Receiver::start().await;
    let path = subscription("orders", "exact");
    let filters = r#"[{"key":"data.n","operatorType":"NumberIn","values":[9007199254740993,1e400,1.10]},{"key":"data.m","operatorType":"NumberInRange","values":[[-0.50,123456789012345678901234567890]]},{"key":"data.k","operatorType":"NumberLessThan","value":0.0000001}]"#;
    let body = filtered(&receiver.url(), advanced(filters));
    let put = server.admin("PUT", &path, body.clone()).await;
    assert_eq!(put.status, 201, "{}", put.text());
    let shows = |answer: &Answer| {
        let text = answer.text().to_owned();
        // An exponent is shown with its sign; it is the same number.
        assert!(text.contains(&filters.replace("1e400", "1e+400")), "{text}");
    };
    shows(&put);
    shows(&server.admin("GET", &path, Value::Null).await);
    server.stop_and_wait().await;
    let server = TestServer::run(
        config(data.path()),
        hedgerow_server::ServerOptions::default(),
    )
    .await;
    shows(&server.admin("GET", &path, Value::Null).await);
    let again = server.admin("PUT", &path, body).await;
    assert_eq!(again.status, 200);
    shows(&again);
    server.stop_and_wait().await;
}

/// ED-099, ED-116 to ED-118: 400 with the path of what is wrong.
#[tokio::test]
async fn what_cannot_be_meant_is_refused_with_its_path() {
    let server = TestServer::start_with(|config| {
        config.engine.filter_limits.max_advanced_filters = 2;
        config.engine.filter_limits.max_values = 3;
    })
    .await;
    server.topic("orders").await;
    let path = subscription("orders", "refused");
    let rows = [
        (
            r#"[{"operatorType":"Like","key":"data.a"}]"#,
            "filter.advancedFilters[0].operatorType: ",
        ),
        (
            r#"[{"operatorType":"IsNotNull"}]"#,
            "filter.advancedFilters[0].key: ",
        ),
        (
            r#"[{"operatorType":"IsNotNull","key":"data.a"},{"operatorType":"NumberIn","key":"data.a","values":[1,"5"]}]"#,
            "filter.advancedFilters[1].values[1]: ",
        ),
        (
            r#"[{"operatorType":"NumberInRange","key":"data.a","values":[[2,1]]}]"#,
            "filter.advancedFilters[0].values[0]: ",
        ),
        (
            r#"[{"operatorType":"IsNotNull","key":"a"},{"operatorType":"IsNotNull","key":"b"},{"operatorType":"IsNotNull","key":"c"}]"#,
            "filter.advancedFilters: ",
        ),
        (
            r#"[{"operatorType":"NumberIn","key":"data.a","values":[1,2,3,4]}]"#,
            "filter.advancedFilters: ",
        ),
        (
            r#"[{"operatorType":"NumberIn","key":"data.a","values":[1e99999999999999999999]}]"#,
            "filter.advancedFilters[0].values[0]: ",
        ),
    ];
    for (filters, message) in rows {
        let body = filtered("http://127.0.0.1:9/hook", advanced(filters));
        let answer = server.admin("PUT", &path, body).await;
        assert_eq!(answer.status, 400, "{filters}");
        assert!(
            answer.message().starts_with(message),
            "{filters}: {}",
            answer.message()
        );
    }
    let kept = server.admin("GET", &path, Value::Null).await;
    assert_eq!(kept.status, 404, "nothing was made");
    server.stop_and_wait().await;
}

/// FC-01: an id beyond 2^53 is matched to the last digit, and arrives byte for byte.
#[tokio::test]
async fn fc_01_numbers_are_not_changed_on_the_way() {
    const DATA: &str =
        r#"{"id":1524831183200260097,"amount":1.10,"big":12345678901234567890,"z":1,"a":2,"a":3}"#;
    let server = TestServer::start().await;
    let key = server.topic("tweets").await;
    let filter = |id: &str| {
        advanced(&format!(
            r#"[{{"operatorType":"NumberIn","key":"data.id","values":[{id}]}}]"#
        ))
    };
    let mut exact =
        Subscriber::new(&server, "tweets", "exact", filter("1524831183200260097")).await;
    let mut near = Subscriber::new(&server, "tweets", "near", filter("1524831183200260096")).await;
    publish_all(&server, "tweets", &key, &[("one", DATA)]).await;
    let delivery = exact.receiver.next().await;
    let body = String::from_utf8(delivery.body.to_vec()).unwrap();
    assert!(body.contains(&format!("\"data\":{DATA}")), "{body}");
    near.got(&server, "tweets", &[]).await;
    server.stop_and_wait().await;
}

/// FC-03: which member an operator takes, and how keys are spelled.
#[tokio::test]
async fn fc_03_value_values_and_the_case_of_keys() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let at_least = r#"[{"operatorType":"NumberGreaterThanOrEquals","key":"Data.Key1","value":5}]"#;
    let mut number = Subscriber::new(&server, "orders", "number", advanced(at_least)).await;
    let text = r#"[{"operatorType":"StringIn","key":"data.key1","values":["A"]}]"#;
    let mut text = Subscriber::new(&server, "orders", "text", advanced(text)).await;

    let wrong = at_least.replace(r#""value":5"#, r#""values":[5]"#);
    let body = filtered("http://127.0.0.1:9/hook", advanced(&wrong));
    let refused = server
        .admin("PUT", &subscription("orders", "wrong"), body)
        .await;
    assert_eq!(refused.status, 400);
    let message = refused.message();
    assert!(
        message.starts_with("filter.advancedFilters[0].values: ") && message.contains("\"value\""),
        "the field, and the right member: {message}"
    );

    let events = [
        ("lower", r#"{"key1":7}"#),
        ("upper", r#"{"Key1":7}"#),
        ("less", r#"{"key1":4}"#),
        ("a", r#"{"KEY1":"a"}"#),
    ];
    publish_all(&server, "orders", &key, &events).await;
    number.got(&server, "orders", &["lower", "upper"]).await;
    text.got(&server, "orders", &["a"]).await;

    // The other schema's name for the type.
    let cloud = json!({ "inputSchema": "CloudEventSchemaV1_0" });
    let made = server.admin("PUT", "/api/v1/topics/cloud", cloud).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let receiver = Receiver::start().await;
    for (topic, key, status, right) in [
        ("cloud", "eventtype", 400, "\"type\""),
        ("cloud", "type", 201, ""),
        ("orders", "Type", 400, "\"eventType\""),
        ("orders", "eventtype", 201, ""),
    ] {
        let filters = json!([{ "operatorType": "StringIn", "key": key, "values": ["x"] }]);
        let mut body = filtered(&receiver.url(), json!({ "advancedFilters": filters }));
        if topic == "cloud" {
            body["eventDeliverySchema"] = json!("CloudEventSchemaV1_0");
        }
        let answer = server
            .admin("PUT", &subscription(topic, "by-type"), body)
            .await;
        assert_eq!(answer.status, status, "{topic} {key}: {}", answer.text());
        if status == 400 {
            let message = answer.message();
            let at_key = message.starts_with("filter.advancedFilters[0].key: ");
            assert!(at_key && message.contains(right), "{message}");
        }
    }
    server.stop_and_wait().await;
}

/// FC-03, ED-103 to ED-107: a key that no event of the topic can have is taken with a warning, a level without a name is not.
#[tokio::test]
async fn fc_03_keys_that_no_event_has() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let cloud = json!({ "inputSchema": "CloudEventSchemaV1_0" });
    server.topic_with("cloud", cloud).await;
    let receiver = Receiver::start().await;
    let declared = |topic: &str, key: &str| {
        let filters = json!([{ "operatorType": "StringIn", "key": key, "values": ["x"] }]);
        let mut body = filtered(&receiver.url(), json!({ "advancedFilters": filters }));
        if topic == "cloud" {
            body["eventDeliverySchema"] = json!("CloudEventSchemaV1_0");
        }
        body
    };
    let path = subscription("orders", "typed");
    let made = server
        .admin("PUT", &path, declared("orders", "evntType"))
        .await;
    assert_eq!(made.status, 201, "{}", made.text());
    let warning = &made.json()["warnings"][0];
    assert_eq!(warning["field"], "filter.advancedFilters[0].key");
    let message = warning["message"].as_str().unwrap();
    assert!(message.contains("did you mean \"eventType\"?"), "{message}");
    assert!(message.contains("holds for no event"), "{message}");
    // Again where it is named, and not where something else is.
    let named =
        json!({ "filter": { "advancedFilters": [{ "operatorType": "IsNotNull", "key": "foo" }] } });
    let changed = server.admin("PATCH", &path, named).await.json();
    assert_eq!(
        changed["warnings"][0]["field"],
        "filter.advancedFilters[0].key"
    );
    let changed = server
        .admin("PATCH", &path, json!({ "labels": ["a"] }))
        .await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert!(
        !changed.text().contains("advancedFilters[0].key"),
        "{}",
        changed.text()
    );
    for key in ["data.", "data..x", ".x", "data.x."] {
        let refused = server.admin("PUT", &path, declared("orders", key)).await;
        assert_eq!(refused.status, 400, "{key}");
        assert!(
            refused.message().contains("without a name"),
            "{}",
            refused.message()
        );
    }
    // An extension attribute may be called so.
    for (key, is_warned) in [("evnttype", false), ("tenant", false), ("my_tenant", true)] {
        let path = subscription("cloud", "typed");
        let made = server.admin("PUT", &path, declared("cloud", key)).await;
        assert!(made.status.is_success(), "{}", made.text());
        assert_eq!(made.json().get("warnings").is_some(), is_warned, "{key}");
    }
    server.stop_and_wait().await;
}

/// FC-04: three subscriptions, four events, twelve cells.
#[tokio::test]
async fn fc_04_arrays_and_negative_operators() {
    let server = TestServer::start().await;
    let key = server.topic("tags").await;
    let filter = |operator: &str, value: &str| {
        json!({
            "enableAdvancedFilteringOnArrays": true,
            "advancedFilters": [{ "operatorType": operator, "key": "data.tags", "values": [value] }],
        })
    };
    let mut is_in = Subscriber::new(&server, "tags", "is-in", filter("StringIn", "red")).await;
    let mut not_in = Subscriber::new(&server, "tags", "not-in", filter("StringNotIn", "red")).await;
    let not_contains = filter("StringNotContains", "re");
    let mut not_contains = Subscriber::new(&server, "tags", "not-contains", not_contains).await;
    let events = [
        ("1-both", r#"{"tags":["red","blue"]}"#),
        ("2-empty", r#"{"tags":[]}"#),
        ("3-absent", "{}"),
        ("4-objects", r#"{"tags":[{"n":"red"}]}"#),
    ];
    publish_all(&server, "tags", &key, &events).await;
    is_in.got(&server, "tags", &["1-both"]).await;
    // ED-091: of these two only StringNotIn holds for an absent key. ED-114: objects are no elements.
    not_in
        .got(&server, "tags", &["2-empty", "3-absent", "4-objects"])
        .await;
    not_contains
        .got(&server, "tags", &["2-empty", "4-objects"])
        .await;

    let told = server
        .admin("GET", "/api/v1/events/4-objects/explanation", Value::Null)
        .await;
    assert_eq!(told.status, 200, "{}", told.text());
    assert!(
        told.text().contains("advancedFilters[0]"),
        "which clause said no: {}",
        told.text()
    );
    server.stop_and_wait().await;
}
