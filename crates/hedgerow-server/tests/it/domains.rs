//! Domains and domain topics (section 1.11), over real HTTP: how they are declared, and come and go.

mod publishing;

use serde_json::{Value, json};

use crate::support::{Answer, Receiver, TestServer, webhook};

const DOMAIN: &str =
    "/subscriptions/hedgerow/resourceGroups/hedgerow/providers/Microsoft.EventGrid/domains/shop";

async fn start() -> TestServer {
    TestServer::start_with(|config| config.engine.validation.is_enabled = false).await
}

/// Makes the domain `shop` and gives its first key.
async fn domain(server: &TestServer, spec: Value) -> String {
    let made = server.admin("PUT", "/api/v1/domains/shop", spec).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let keys = server
        .admin("POST", "/api/v1/domains/shop/listKeys", Value::Null)
        .await;
    keys.json()["key1"].as_str().unwrap().to_owned()
}

fn topic(name: &str) -> String {
    format!("/api/v1/domains/shop/topics/{name}")
}

fn of_topic(topic: &str, name: &str) -> String {
    format!("/api/v1/domains/shop/topics/{topic}/eventSubscriptions/{name}")
}

fn of_domain(name: &str) -> String {
    format!("/api/v1/domains/shop/eventSubscriptions/{name}")
}

async fn subscribe(server: &TestServer, path: &str, receiver: &Receiver) -> Value {
    let answer = server.admin("PUT", path, webhook(&receiver.url())).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

async fn delete(server: &TestServer, path: &str) {
    assert_eq!(
        server.admin("DELETE", path, Value::Null).await.status,
        204,
        "{path}"
    );
}

async fn status(server: &TestServer, path: &str) -> u16 {
    server.admin("GET", path, Value::Null).await.status.as_u16()
}

fn event(id: &str, topic: &Value) -> Value {
    json!({
        "id": id, "subject": "s", "eventType": "t", "eventTime": "2030-01-02T03:04:05Z",
        "topic": topic, "data": { "n": 1 },
    })
}

async fn publish(server: &TestServer, key: &str, events: &[Value]) -> Answer {
    let body = serde_json::to_vec(events).unwrap();
    server.publish("shop", key, body).await
}

async fn names(server: &TestServer, path: &str) -> Vec<String> {
    let listed = server.admin("GET", path, Value::Null).await.json();
    let value = listed["value"].as_array().unwrap();
    value
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

/// ED-075, over a restart too.
#[tokio::test]
async fn domain_topics_come_with_their_first_subscription_and_go_with_their_last() {
    let data = tempfile::tempdir().unwrap();
    let start = || {
        let mut config = crate::support::config(data.path());
        config.engine.validation.is_enabled = false;
        TestServer::run(config, hedgerow_server::ServerOptions::default())
    };
    let server = start().await;
    domain(&server, json!({})).await;
    let receiver = Receiver::start().await;
    subscribe(&server, &of_topic("foo", "one"), &receiver).await;
    subscribe(&server, &of_topic("Foo", "two"), &receiver).await;
    let made = server.admin("PUT", &topic("by-hand"), Value::Null).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(
        made.json()["resourceId"],
        format!("{DOMAIN}/topics/by-hand")
    );
    assert_eq!(
        server
            .admin("PUT", &topic("BY-HAND"), json!({}))
            .await
            .status,
        200
    );
    let of = "/api/v1/domains/shop/topics";
    assert_eq!(names(&server, of).await, ["by-hand", "foo"]);
    let shown = server.admin("GET", &topic("FOO"), Value::Null).await.json();
    assert_eq!(
        (&shown["name"], &shown["eventSubscriptionCount"]),
        (&json!("foo"), &json!(2))
    );
    delete(&server, &of_topic("foo", "one")).await;
    assert_eq!(status(&server, &topic("foo")).await, 200);
    server.stop_and_wait().await;

    let server = start().await;
    assert_eq!(names(&server, of).await, ["by-hand", "foo"]);
    delete(&server, &of_topic("foo", "two")).await;
    assert_eq!(status(&server, &topic("foo")).await, 404);
    // Even if somebody made it.
    subscribe(&server, &of_topic("by-hand", "one"), &receiver).await;
    delete(&server, &of_topic("by-hand", "one")).await;
    assert_eq!(names(&server, of).await, Vec::<String>::new());
    server.stop_and_wait().await;
}

/// ED-075: the switches.
#[tokio::test]
async fn the_switches_keep_domain_topics_in_hands() {
    let server = start().await;
    let spec = json!({
        "autoCreateTopicWithFirstSubscription": false, "autoDeleteTopicWithLastSubscription": false,
    });
    domain(&server, spec.clone()).await;
    let shown = server
        .admin("GET", "/api/v1/domains/shop", Value::Null)
        .await
        .json();
    for (name, value) in spec.as_object().unwrap() {
        assert_eq!(&shown[name], value);
    }
    let receiver = Receiver::start().await;
    let refused = server
        .admin("PUT", &of_topic("foo", "one"), webhook(&receiver.url()))
        .await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (404, "NotFound")
    );
    assert!(
        refused
            .message()
            .contains("domain topic \"shop/topics/foo\""),
        "{}",
        refused.message()
    );
    assert_eq!(
        server.admin("PUT", &topic("foo"), json!({})).await.status,
        201
    );
    subscribe(&server, &of_topic("foo", "one"), &receiver).await;
    delete(&server, &of_topic("foo", "one")).await;
    assert_eq!(status(&server, &topic("foo")).await, 200);
    // Switched on again, the next last one takes its topic along.
    let put = server.admin("PUT", "/api/v1/domains/shop", json!({})).await;
    assert_eq!(
        (
            put.status.as_u16(),
            &put.json()["autoDeleteTopicWithLastSubscription"]
        ),
        (200, &json!(true))
    );
    subscribe(&server, &of_topic("foo", "one"), &receiver).await;
    delete(&server, &of_topic("foo", "one")).await;
    assert_eq!(status(&server, &topic("foo")).await, 404);
    server.stop_and_wait().await;
}

/// A domain topic takes its subscriptions along, a domain everything.
#[tokio::test]
async fn deleting_takes_along_what_lies_below() {
    let server = start().await;
    let key = domain(&server, json!({})).await;
    let mut receiver = Receiver::start().await;
    receiver.answer(503);
    for topic in ["foo", "bar"] {
        subscribe(&server, &of_topic(topic, "sub"), &receiver).await;
    }
    assert_eq!(
        publish(&server, &key, &[event("1", &json!("foo"))])
            .await
            .status,
        200
    );
    receiver.next().await;
    delete(&server, &topic("foo")).await;
    assert_eq!(status(&server, &of_topic("foo", "sub")).await, 404);
    assert_eq!(status(&server, &of_topic("bar", "sub")).await, 200);
    let refused = server.admin("DELETE", &topic("foo"), Value::Null).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (404, "NotFound")
    );
    // Made again under its name it shares nothing with the one before.
    receiver.answer(200);
    let again = Receiver::start().await;
    let shown = subscribe(&server, &of_topic("foo", "sub"), &again).await;
    assert_eq!(shown["status"]["matched"], 0);
    delete(&server, "/api/v1/domains/shop").await;
    for path in [
        of_topic("bar", "sub"),
        topic("bar"),
        "/api/v1/domains/shop".to_owned(),
    ] {
        assert_eq!(status(&server, &path).await, 404, "{path}");
    }
    assert_eq!(
        publish(&server, &key, &[event("2", &json!("foo"))])
            .await
            .status,
        404
    );
    let made = server.admin("PUT", "/api/v1/domains/shop", json!({})).await;
    assert_eq!(made.status, 201);
    assert_eq!(
        names(&server, "/api/v1/domains/shop/topics").await,
        Vec::<String>::new()
    );
    server.stop_and_wait().await;
}

/// Topics and domains are two kinds that share their names: events of both are published to a path of their name.
#[tokio::test]
async fn a_domain_is_no_topic() {
    let server = start().await;
    domain(&server, json!({})).await;
    server.topic("orders").await;
    assert_eq!(names(&server, "/api/v1/domains").await, ["shop"]);
    assert_eq!(names(&server, "/api/v1/topics").await, ["orders"]);
    for (method, path) in [
        ("GET", "/api/v1/topics/shop"),
        ("DELETE", "/api/v1/topics/SHOP"),
        ("POST", "/api/v1/topics/shop/listKeys"),
        ("GET", "/api/v1/topics/shop/eventSubscriptions"),
        (
            "GET",
            "/api/v1/topics/shop%2Ftopics%2Ffoo/eventSubscriptions",
        ),
        ("GET", "/api/v1/domains/orders"),
        ("DELETE", "/api/v1/domains/orders"),
        ("GET", "/api/v1/domains/orders/topics"),
        ("PUT", "/api/v1/domains/orders/topics/foo"),
        (
            "PUT",
            "/api/v1/domains/orders/topics/foo/eventSubscriptions/sub",
        ),
        ("GET", "/api/v1/domains/none"),
        (
            "PUT",
            "/api/v1/domains/shop/topics/a%2Fb/eventSubscriptions/sub",
        ),
    ] {
        let answer = server
            .admin(method, path, webhook("http://127.0.0.1:9/"))
            .await;
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (404, "NotFound"),
            "{method} {path}"
        );
    }
    for path in ["/api/v1/topics/shop", "/api/v1/domains/orders"] {
        let refused = server.admin("PUT", path, json!({})).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (409, "Conflict"),
            "{path}"
        );
    }
    let refused = server
        .admin(
            "PUT",
            "/api/v1/topics/new",
            json!({ "autoCreateTopicWithFirstSubscription": true }),
        )
        .await;
    assert_eq!(refused.status, 400, "no switch of topics");
    let refused = server.admin("PUT", &topic("fo"), json!({})).await;
    assert_eq!(refused.status, 404, "ED-078: too short");
    let refused = server
        .admin("PUT", &topic("foo"), json!({ "name": "foo" }))
        .await;
    assert_eq!(refused.status, 400);
    server.stop_and_wait().await;
}

/// ED-012, ED-015, ED-030: keys, schema and switches of a domain are as those of a topic.
#[tokio::test]
async fn a_domain_has_keys_and_a_schema_of_its_own() {
    let server = start().await;
    let key = domain(&server, json!({})).await;
    let events = [event("1", &json!("foo"))];
    assert_eq!(publish(&server, "wrong", &events).await.status, 401);
    let path = "/api/v1/domains/shop/regenerateKey";
    let keys = server
        .admin("POST", path, json!({ "keyName": "key1" }))
        .await
        .json();
    assert_eq!(publish(&server, &key, &events).await.status, 401);
    let key = keys["key1"].as_str().unwrap();
    assert_eq!(publish(&server, key, &events).await.status, 200);
    let other = json!({ "inputSchema": "CloudEventSchemaV1_0" });
    let refused = server.admin("PUT", "/api/v1/domains/shop", other).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (400, "InvalidInput")
    );
    let put = server
        .admin(
            "PUT",
            "/api/v1/domains/shop",
            json!({ "disableLocalAuth": true }),
        )
        .await;
    assert_eq!(put.status, 200);
    assert_eq!(publish(&server, key, &events).await.status, 401);
    server.stop_and_wait().await;
}

/// ED-062.
#[tokio::test]
async fn domains_have_quotas() {
    let quotas = hedgerow_server::Config::default().engine.quotas;
    assert_eq!(
        (
            quotas.domains,
            quotas.topics_per_domain,
            quotas.domain_subscriptions
        ),
        (100, 100_000, 50)
    );
    let server = TestServer::start_with(|config| {
        config.engine.validation.is_enabled = false;
        config.engine.quotas.domains = 1;
        config.engine.quotas.topics_per_domain = 2;
        config.engine.quotas.domain_subscriptions = 1;
        config.engine.quotas.subscriptions_per_topic = 2;
    })
    .await;
    domain(&server, json!({})).await;
    server.topic("orders").await;
    let receiver = Receiver::start().await;
    for path in [
        of_topic("one", "a-1"),
        of_topic("one", "a-2"),
        of_domain("d-1"),
    ] {
        subscribe(&server, &path, &receiver).await;
    }
    assert_eq!(
        server.admin("PUT", &topic("two"), json!({})).await.status,
        201
    );
    let endpoint = webhook(&receiver.url());
    for (path, body, quota) in [
        (
            "/api/v1/domains/other".to_owned(),
            json!({}),
            "quotas.domains",
        ),
        (topic("three"), json!({}), "quotas.topics_per_domain"),
        (
            of_topic("three", "a-1"),
            endpoint.clone(),
            "quotas.topics_per_domain",
        ),
        (
            of_topic("one", "a-3"),
            endpoint.clone(),
            "quotas.subscriptions_per_topic",
        ),
        (
            of_domain("d-2"),
            endpoint.clone(),
            "quotas.domain_subscriptions",
        ),
    ] {
        let refused = server.admin("PUT", &path, body).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (429, "LimitReached"),
            "{path}"
        );
        assert!(
            refused.message().contains(quota),
            "{path}: {}",
            refused.message()
        );
    }
    assert_eq!(
        server
            .admin("PUT", &of_topic("one", "a-1"), endpoint)
            .await
            .status,
        200
    );
    server.stop_and_wait().await;
}

/// Lists of a domain's topics come in pages.
#[tokio::test]
async fn domain_topics_are_listed_in_pages() {
    let server = start().await;
    domain(&server, json!({})).await;
    for name in ["ccc", "AAA", "bbb"] {
        assert_eq!(
            server.admin("PUT", &topic(name), json!({})).await.status,
            201
        );
    }
    let of = "/api/v1/domains/shop/topics";
    let page = server
        .admin("GET", &format!("{of}?limit=2"), Value::Null)
        .await
        .json();
    assert_eq!(page["next"], "bbb");
    assert_eq!(
        names(&server, &format!("{of}?limit=2")).await,
        ["AAA", "bbb"]
    );
    let page = server
        .admin("GET", &format!("{of}?limit=2&after=bbb"), Value::Null)
        .await
        .json();
    assert_eq!(
        (&page["next"], &page["value"][0]["name"]),
        (&Value::Null, &json!("ccc"))
    );
    let refused = server
        .admin("GET", &format!("{of}?topic=x"), Value::Null)
        .await;
    assert_eq!(refused.status, 400);
    server.stop_and_wait().await;
}

/// What is listed of one domain topic, and delivered again, is that topic's.
#[tokio::test]
async fn operators_reach_one_domain_topic() {
    let server = start().await;
    let key = domain(&server, json!({})).await;
    let (mut foo, mut all) = (Receiver::start().await, Receiver::start().await);
    foo.answer(400);
    all.answer(400);
    subscribe(&server, &of_topic("foo", "sub"), &foo).await;
    subscribe(&server, &of_domain("sub"), &all).await;
    assert_eq!(
        publish(&server, &key, &[event("1", &json!("foo"))])
            .await
            .status,
        200
    );
    foo.next().await;
    all.next().await;
    let records = "/api/v1/terminalRecords?topic=shop";
    let both = server
        .list_until(records, |page| page["value"].as_array().unwrap().len() == 2)
        .await;
    let mut topics: Vec<_> = both["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["topic"].to_string())
        .collect();
    topics.sort();
    assert_eq!(topics, ["\"shop\"", "\"shop/topics/foo\""]);
    for query in [
        "topic=shop/topics/FOO",
        "topic=shop/topics/foo&eventSubscription=sub",
    ] {
        let listed = server
            .admin(
                "GET",
                &format!("/api/v1/terminalRecords?{query}"),
                Value::Null,
            )
            .await
            .json();
        assert_eq!(
            listed["value"].as_array().unwrap().len(),
            1,
            "{query}: {listed}"
        );
    }
    foo.answer(200);
    let path = format!("{}/events/1/resend", topic("foo"));
    let resent = server.admin("POST", &path, Value::Null).await.json();
    assert_eq!(resent["value"].as_array().unwrap().len(), 1, "{resent}");
    assert_eq!(foo.next().await.id(), "1");
    let paused = server
        .admin(
            "POST",
            &format!("{}/pause", of_topic("foo", "sub")),
            Value::Null,
        )
        .await;
    assert_eq!(paused.json()["isPaused"], true);
    let other = server
        .admin("GET", &of_domain("sub"), Value::Null)
        .await
        .json();
    assert_eq!(other["isPaused"], false);
    server.stop_and_wait().await;
}

/// ED-153: what an endpoint is asked for names what it would get events of.
#[tokio::test]
async fn endpoints_are_asked_in_the_name_of_the_domain_topic() {
    let server = TestServer::start().await;
    domain(&server, json!({})).await;
    let receiver = Receiver::start().await;
    subscribe(&server, &of_topic("foo", "sub"), &receiver).await;
    subscribe(&server, &of_domain("sub"), &receiver).await;
    let handshakes = receiver.handshakes();
    let topics: Vec<_> = handshakes
        .iter()
        .map(|asked| asked.topic.as_deref())
        .collect();
    let of_topic = format!("{DOMAIN}/topics/foo");
    assert_eq!(topics, [Some(of_topic.as_str()), Some(DOMAIN)]);
    server.stop_and_wait().await;
}

/// Declared together: domains, the topics that they are to have, and subscriptions of both; once or ten times is the same.
#[tokio::test]
async fn domains_are_declared_with_their_topics_and_subscriptions() {
    let server = start().await;
    let receiver = Receiver::start().await;
    let of = |topic: &str, name: &str| {
        let mut body = webhook(&receiver.url());
        body["topic"] = json!(topic);
        body["name"] = json!(name);
        body
    };
    let wanted = json!({
        "domains": [{
            "name": "shop", "autoCreateTopicWithFirstSubscription": false,
            "topics": ["foo", "bar"], "keys": { "key1": "MDEyMzQ1Njc4OWFiY2RlZg==" },
        }],
        "eventSubscriptions": [of("shop", "all"), of("shop/topics/FOO", "some")],
    });
    let apply = |wanted: Value| server.admin("POST", "/api/v1/apply", wanted);
    let changes = |answer: &Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let json = answer.json();
        let applied = json["value"].as_array().unwrap().iter();
        let text = |of: &Value, name: &str| of[name].as_str().unwrap().to_owned();
        applied
            .map(|of| format!("{} {}", text(of, "what"), text(of, "change")))
            .collect::<Vec<_>>()
    };
    for change in ["created", "unchanged"] {
        let expected = [
            format!("domain shop {change}"),
            format!("event subscription shop/all {change}"),
            format!("event subscription shop/topics/FOO/some {change}"),
        ];
        assert_eq!(changes(&apply(wanted.clone()).await), expected);
    }
    assert_eq!(
        names(&server, "/api/v1/domains/shop/topics").await,
        ["bar", "foo"]
    );
    let key = "MDEyMzQ1Njc4OWFiY2RlZg==";
    assert_eq!(
        publish(&server, key, &[event("1", &json!("foo"))])
            .await
            .status,
        200
    );
    // A topic more, for a subscription that is declared with it.
    let mut more = wanted.clone();
    more["domains"][0]["topics"] = json!(["new"]);
    more["eventSubscriptions"] = json!([of("shop/topics/new", "some")]);
    let expected = [
        "domain shop changed",
        "event subscription shop/topics/new/some created",
    ];
    assert_eq!(changes(&apply(more).await), expected);

    server.topic("orders").await;
    for (wanted, path) in [
        (
            json!({ "domains": [{ "name": "orders" }] }),
            "domains[0].name",
        ),
        (json!({ "topics": [{ "name": "shop" }] }), "topics[0].name"),
        (
            json!({ "domains": [{ "name": "two" }], "topics": [{ "name": "Two" }] }),
            "domains[0].name",
        ),
        (
            json!({ "domains": [{ "name": "two", "topics": ["fo"] }] }),
            "domains[0].topics[0]",
        ),
        (
            json!({ "topics": [{ "name": "two", "topics": ["foo"] }] }),
            "topics[0].topics",
        ),
        (
            json!({ "eventSubscriptions": [of("shop/topics/none", "some")] }),
            "eventSubscriptions[0].topic",
        ),
        (
            json!({ "eventSubscriptions": [of("orders/topics/foo", "some")] }),
            "eventSubscriptions[0].topic",
        ),
    ] {
        let refused = apply(wanted.clone()).await;
        assert_eq!(refused.status, 400, "{wanted}");
        let details = refused.json()["error"]["details"].to_string();
        assert!(
            details.contains(&format!("\"{path}")),
            "{wanted}: {details}"
        );
    }
    server.stop_and_wait().await;
}
