//! Many declarations at once: all of them or none, and once or ten times is the same.

use std::time::Duration;

use hedgerow_core::limits::FILTERS_IN_FORCE_MAX;
use http::Request;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Answer, Receiver, TestServer, event, subscription, webhook};

fn grid(endpoint: &str) -> Value {
    let mut billing = webhook(endpoint);
    billing["topic"] = json!("orders");
    billing["name"] = json!("billing");
    billing["retryPolicy"] = json!({ "maxDeliveryAttempts": 3 });
    json!({
        "topics": [
            { "name": "orders", "keys": { "key1": "MDEyMzQ1Njc4OWFiY2RlZg==" } },
            { "name": "other", "inputSchema": "CloudEventSchemaV1_0" },
        ],
        "eventSubscriptions": [billing],
    })
}

async fn apply(server: &TestServer, grid: &Value) -> Answer {
    server.admin("POST", "/api/v1/apply", grid.clone()).await
}

fn changes(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let json = answer.json();
    let applied = json["value"].as_array().unwrap().iter();
    let line = |of: &Value| {
        let text = |name: &str| of[name].as_str().unwrap().to_owned();
        format!("{} {}", text("what"), text("change"))
    };
    applied.map(line).collect()
}

#[tokio::test]
async fn applying_again_changes_nothing_and_says_so() {
    let server = TestServer::start().await;
    let mut receiver = Receiver::start().await;
    let mut wanted = grid(&receiver.url());
    assert_eq!(
        changes(&apply(&server, &wanted).await),
        [
            "topic orders created",
            "topic other created",
            "event subscription orders/billing created",
        ]
    );
    let published = server.publish("orders", "MDEyMzQ1Njc4OWFiY2RlZg==", event("1"));
    assert_eq!(
        published.await.status,
        200,
        "the key is the one that was given"
    );
    receiver.next().await;
    assert_eq!(
        changes(&apply(&server, &wanted).await),
        [
            "topic orders unchanged",
            "topic other unchanged",
            "event subscription orders/billing unchanged",
        ]
    );
    wanted["topics"][0]["keys"]["key1"] = json!("ZmVkY2JhOTg3NjU0MzIxMA==");
    wanted["eventSubscriptions"][0]["labels"] = json!(["finance"]);
    assert_eq!(
        changes(&apply(&server, &wanted).await),
        [
            "topic orders changed",
            "topic other unchanged",
            "event subscription orders/billing changed",
        ]
    );
    server.stop_and_wait().await;
}

/// Whatever is wrong is told at once, each with its path, and nothing is declared.
#[tokio::test]
async fn one_fault_keeps_everything_from_being_declared() {
    let server = TestServer::start().await;
    let receiver = Receiver::start().await;
    server.topic("present").await;
    let mut wanted = grid(&receiver.url());
    let subscriptions = wanted["eventSubscriptions"].as_array_mut().unwrap();
    let mut second = subscriptions[0].clone();
    second["name"] = json!("second");
    second["retryPolicy"]["maxDeliveryAttempts"] = json!(31);
    let mut third = subscriptions[0].clone();
    third["name"] = json!("third");
    third["topic"] = json!("nothing");
    let mut fourth = subscriptions[0].clone();
    fourth["name"] = json!("BILLING");
    let mut fifth = subscriptions[0].clone();
    fifth["name"] = json!("fifth");
    // FC-15: judged as a declaration by itself would be.
    fifth["destination"] = webhook("http://169.254.169.254/")["destination"].clone();
    subscriptions.extend([second, third, fourth, fifth]);
    let topics = wanted["topics"].as_array_mut().unwrap();
    topics.push(json!({ "name": "present", "inputSchema": "CloudEventSchemaV1_0" }));
    topics.push(json!({ "name": "short", "keys": { "key2": "c2hvcnQ=", "key3": "" } }));
    topics.push(json!({ "inputSchema": 1 }));
    wanted["subscriptions"] = json!([]);
    let refused = apply(&server, &wanted).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (400, "InvalidInput")
    );
    let details = refused.json()["error"]["details"].clone();
    let details = details.as_array().unwrap();
    let mut targets: Vec<&str> = details
        .iter()
        .map(|detail| detail["target"].as_str().unwrap())
        .collect();
    targets.sort_unstable();
    assert_eq!(
        targets,
        [
            "eventSubscriptions[1].retryPolicy.maxDeliveryAttempts",
            "eventSubscriptions[2].topic",
            "eventSubscriptions[3].name",
            "eventSubscriptions[4].destination.properties.endpointUrl",
            "subscriptions",
            "topics[2].inputSchema",
            "topics[3].keys.key2",
            "topics[3].keys.key3",
            "topics[4].inputSchema",
            "topics[4].name",
        ]
    );
    let topics = server
        .admin("GET", "/api/v1/topics", Value::Null)
        .await
        .json();
    assert_eq!(topics["value"].as_array().unwrap().len(), 1, "{topics}");
    for body in ["", "[]", "{"] {
        let request = Request::post("/api/v1/apply")
            .header("authorization", format!("Bearer {}", server.token));
        assert_eq!(server.send(request, body).await.status, 400, "{body:?}");
    }
    server.stop_and_wait().await;
}

/// ED-116, ED-118: the server's limits of filters hold here too, and one filter over them keeps everything from being
/// declared, the topics before it too.
#[tokio::test]
async fn a_filter_over_the_servers_limit_keeps_everything_from_being_declared() {
    let server = TestServer::start_with(|config| {
        config.engine.filter_limits.max_advanced_filters = 1;
    })
    .await;
    let receiver = Receiver::start().await;
    let mut wanted = grid(&receiver.url());
    let subscriptions = wanted["eventSubscriptions"].as_array_mut().unwrap();
    let mut second = subscriptions[0].clone();
    second["name"] = json!("second");
    let is_there = |key: &str| json!({ "operatorType": "IsNotNull", "key": key });
    second["filter"] = json!({ "advancedFilters": [is_there("data.a"), is_there("data.b")] });
    subscriptions.push(second);
    let refused = apply(&server, &wanted).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let details = refused.json()["error"]["details"].clone();
    assert_eq!(details.as_array().unwrap().len(), 1, "{details}");
    let target = "eventSubscriptions[1].filter.advancedFilters";
    assert_eq!(details[0]["target"], target);
    let topics = server.admin("GET", "/api/v1/topics", Value::Null).await;
    assert_eq!(topics.json()["value"], json!([]));
    server.stop_and_wait().await;
}

/// FC-26: the scope of the token holds for each of them.
#[tokio::test]
async fn a_token_applies_to_its_own_topics_only() {
    let server = TestServer::start().await;
    let body = json!({ "name": "ci", "rights": ["admin"], "topicPrefix": "team-a-" });
    let made = server.admin("POST", "/api/v1/tokens", body).await.json();
    let token = made["secret"].as_str().unwrap();
    let apply = |grid: Value| {
        let request =
            Request::post("/api/v1/apply").header("authorization", format!("Bearer {token}"));
        server.send(request, grid.to_string())
    };
    let own = apply(json!({ "topics": [{ "name": "team-a-orders" }] })).await;
    assert_eq!(changes(&own), ["topic team-a-orders created"]);
    let others = json!({ "topics": [{ "name": "team-a-new" }, { "name": "team-b" }] });
    let others = apply(others).await;
    assert_eq!(others.status, 400, "{}", others.text());
    assert_eq!(
        others.json()["error"]["details"][0]["target"],
        "topics[1].name"
    );
    let topics = server
        .admin("GET", "/api/v1/topics", Value::Null)
        .await
        .json();
    assert_eq!(topics["value"].as_array().unwrap().len(), 1, "{topics}");
    server.stop_and_wait().await;
}

fn named(name: &str, endpoint: &str) -> Value {
    let mut declared = webhook(endpoint);
    declared["topic"] = json!("orders");
    declared["name"] = json!(name);
    declared
}

/// The message of the detail that begins so.
fn told(answer: &Answer, what: &str) -> String {
    let details = answer.json()["error"]["details"].clone();
    let mut messages = details.as_array().unwrap().iter();
    let found = messages.find_map(|of| {
        let message = of["message"].as_str().unwrap();
        message.starts_with(what).then(|| message.to_owned())
    });
    found.unwrap_or_else(|| panic!("no {what} in {details}"))
}

const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";

fn with_subscriptions(subscriptions: &[Value]) -> Value {
    let topic = json!({ "name": "orders", "keys": { "key1": KEY } });
    json!({ "topics": [topic], "eventSubscriptions": subscriptions })
}

/// ED-157: everything is declared whatever endpoints answer, and no endpoint waits for another.
#[tokio::test]
async fn endpoints_that_do_not_answer_keep_nobody_waiting() {
    let server = TestServer::start_with(|config| {
        config.validation_answer_wait = Duration::from_millis(50);
    })
    .await;
    let mut receiver = Receiver::start().await;
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("http://{}/", silent.local_addr().unwrap());
    let mut subscriptions: Vec<Value> = (0..10)
        .map(|number| named(&format!("silent-{number}"), &silent_url))
        .collect();
    subscriptions.push(named("billing", &receiver.url()));
    let wanted = with_subscriptions(&subscriptions);
    let answer = apply(&server, &wanted).await;
    assert_eq!(changes(&answer).len(), 12);
    for number in 1..=10 {
        let state = &answer.json()["value"][number]["provisioningState"];
        assert_eq!(state, "Creating");
    }
    let path = subscription("orders", "billing");
    let consents = |shown: &Value| shown["provisioningState"] == "Succeeded";
    server.list_until(&path, consents).await;
    let published = server.publish("orders", KEY, event("1")).await;
    assert_eq!(published.status, 200);
    assert_eq!(receiver.next().await.id(), "1");
    // The same again waits for the same handshakes.
    let again = apply(&server, &wanted).await;
    let unchanged = changes(&again);
    let unchanged = unchanged.iter().filter(|line| line.ends_with(" unchanged"));
    assert_eq!(unchanged.count(), 12, "{}", again.text());
    assert_eq!(receiver.handshakes().len(), 1, "it was not asked again");
    drop(silent);
    server.stop_and_wait().await;
}

/// ED-161, ED-163: an endpoint that does not consent is told, the others are in force; applied again, it alone is asked again.
#[tokio::test]
async fn applied_again_only_who_did_not_consent_is_asked() {
    let server = TestServer::start_with(|config| {
        config.validation_answer_wait = Duration::from_secs(60);
        config.engine.validation.retry_delay = Duration::ZERO;
    })
    .await;
    let receiver = Receiver::start().await;
    let dead = |name: &str| named(name, "http://127.0.0.1:1/hook");
    let billing = named("billing", &receiver.url());
    let wanted = with_subscriptions(&[dead("one"), billing.clone(), dead("two")]);
    let answer = apply(&server, &wanted).await;
    assert_eq!(
        (answer.status.as_u16(), answer.code().as_str()),
        (409, "Incomplete")
    );
    let details = answer.json()["error"]["details"].clone();
    assert_eq!(details[0]["target"], "eventSubscriptions[0]");
    assert_eq!(details[1]["target"], "eventSubscriptions[2]");
    let message = details[0]["message"].as_str().unwrap();
    assert!(message.contains("cannot connect"), "{message}");
    let created = "event subscription orders/billing created";
    assert_eq!(told(&answer, "event subscription orders/billing"), created);

    let again = apply(&server, &wanted).await;
    assert_eq!(again.status, 409, "{}", again.text());
    let unchanged = "event subscription orders/billing unchanged";
    assert_eq!(told(&again, "event subscription orders/billing"), unchanged);
    assert_eq!(receiver.handshakes().len(), 1, "it was not asked again");
    // One that answers now has never been in force.
    let wanted = with_subscriptions(&[named("one", &receiver.url()), billing]);
    let mended = changes(&apply(&server, &wanted).await);
    assert_eq!(
        mended[1..],
        ["event subscription orders/one created", unchanged]
    );
    assert_eq!(receiver.handshakes().len(), 2);
    server.stop_and_wait().await;
}

/// What waits for its endpoint was declared last: the same again changes nothing, and asks nobody.
#[tokio::test]
async fn an_update_that_waits_is_what_is_declared() {
    let server = TestServer::start_with(|config| {
        config.validation_answer_wait = Duration::from_millis(50);
    })
    .await;
    let receiver = Receiver::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("http://{}/", silent.local_addr().unwrap());
    let wanted = |endpoint: &str| json!({ "topics": [{ "name": "orders" }], "eventSubscriptions": [named("billing", endpoint)] });
    let last = |answer: &Answer| changes(answer).pop().unwrap();
    let made = apply(&server, &wanted(&receiver.url())).await;
    assert_eq!(last(&made), "event subscription orders/billing created");
    let consents = |shown: &Value| shown["provisioningState"] == "Succeeded";
    let path = subscription("orders", "billing");
    server.list_until(&path, consents).await;
    let update = apply(&server, &wanted(&silent_url)).await;
    assert_eq!(last(&update), "event subscription orders/billing changed");
    let state = &update.json()["value"][1]["provisioningState"];
    assert_eq!(state, "Creating");
    let again = apply(&server, &wanted(&silent_url)).await;
    assert_eq!(last(&again), "event subscription orders/billing unchanged");
    // What is in force again ends the update.
    let back = apply(&server, &wanted(&receiver.url())).await;
    assert_eq!(last(&back), "event subscription orders/billing changed");
    let again = apply(&server, &wanted(&receiver.url())).await;
    assert_eq!(last(&again), "event subscription orders/billing unchanged");
    assert_eq!(receiver.handshakes().len(), 1);
    drop(silent);
    server.stop_and_wait().await;
}

/// FC-03: what is accepted and will surprise is told with its place, each time.
#[tokio::test]
async fn what_will_surprise_is_told() {
    let server = TestServer::start().await;
    let receiver = Receiver::start().await;
    let mut wanted = grid(&receiver.url());
    let filter = json!({ "operatorType": "StringIn", "key": "evntType", "values": ["x"] });
    wanted["eventSubscriptions"][0]["filter"] = json!({ "advancedFilters": [filter] });
    for _ in 0..2 {
        let answer = apply(&server, &wanted).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let json = answer.json();
        let applied = json["value"].as_array().unwrap();
        assert_eq!(applied[0].get("warnings"), None);
        let warning = &applied.last().unwrap()["warnings"][0];
        let place = "eventSubscriptions[0].filter.advancedFilters[0].key";
        assert_eq!(warning["field"], place);
        let message = warning["message"].as_str().unwrap();
        assert!(message.contains("did you mean \"eventType\"?"), "{message}");
    }
    server.stop_and_wait().await;
}

/// What will surprise is told too when an endpoint does not consent, its own subscription's and the others' (issue 4).
#[tokio::test]
async fn what_will_surprise_is_told_beside_what_is_not_in_force_issue_4() {
    let server = TestServer::start_with(|config| {
        config.validation_answer_wait = Duration::from_secs(60);
        config.engine.validation.retry_delay = Duration::ZERO;
    })
    .await;
    let receiver = Receiver::start().await;
    let dead = named("dead", "http://127.0.0.1:1/hook");
    let mut wanted = with_subscriptions(&[dead, named("billing", &receiver.url())]);
    for (at, key) in [(0, "sbject"), (1, "evntType")] {
        let filter = json!({ "operatorType": "StringIn", "key": key, "values": ["x"] });
        wanted["eventSubscriptions"][at]["filter"] = json!({ "advancedFilters": [filter] });
    }
    let answer = apply(&server, &wanted).await;
    assert_eq!(answer.status, 409, "{}", answer.text());
    let details = answer.json()["error"]["details"].clone();
    let found = |code: &str| -> Vec<(String, String)> {
        let details = details.as_array().unwrap().iter();
        let details = details.filter(|detail| detail["code"] == code);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        details
            .map(|detail| (text(&detail["target"]), text(&detail["message"])))
            .collect()
    };
    let failed = found("NotApplied");
    assert_eq!(failed.len(), 1, "{details}");
    assert_eq!(failed[0].0, "eventSubscriptions[0]");
    let mut warnings = found("Warning");
    warnings.sort();
    let places: Vec<_> = warnings.iter().map(|(place, _)| place.as_str()).collect();
    let expected = [
        "eventSubscriptions[0].filter.advancedFilters[0].key",
        "eventSubscriptions[1].filter.advancedFilters[0].key",
    ];
    assert_eq!(places, expected, "{details}");
    assert!(warnings[1].1.contains("did you mean \"eventType\"?"));
    server.stop_and_wait().await;
}

/// One fault of a declaration hides none of its others.
#[tokio::test]
async fn every_fault_of_a_declaration_is_told() {
    let server = TestServer::start().await;
    let wanted = json!({
        "topics": [{ "name": "ab", "inputschema": "EventGridSchema", "disableLocalAuth": 1 }],
        "eventSubscriptions": [{
            "topic": "nothing",
            "name": "billing",
            "destination": { "endpointType": "WebHook", "properties": { "endpointUrl": 5 } },
            "filter": { "advancedFilters": [
                { "operatorType": "StringIm", "key": "data.a", "values": ["x"] },
                { "operatorType": "StringIn", "key": "data.a", "values": ["x"] },
                { "operatorType": "NumberIn", "key": "data.b", "values": ["1"] },
            ] },
            "labels": ["a", 1],
            "retryPolicy": { "maxDeliveryAttempts": 31 },
        }],
        "eventSubscription": [],
    });
    let refused = apply(&server, &wanted).await;
    assert_eq!(refused.status, 400);
    let json = refused.json();
    let details = json["error"]["details"].as_array().unwrap().iter();
    let mut told: Vec<_> = details
        .map(|detail| detail["target"].as_str().unwrap().to_owned())
        .collect();
    told.sort_unstable();
    let billing = |member: &str| format!("eventSubscriptions[0].{member}");
    let mut expected = vec![
        "eventSubscription".to_owned(),
        "topics[0].name".to_owned(),
        "topics[0].inputschema".to_owned(),
        "topics[0].disableLocalAuth".to_owned(),
        billing("topic"),
        billing("destination.properties.endpointUrl"),
        billing("filter.advancedFilters[0].operatorType"),
        billing("filter.advancedFilters[2].values[0]"),
        billing("labels[1]"),
        billing("retryPolicy.maxDeliveryAttempts"),
    ];
    expected.sort_unstable();
    assert_eq!(told, expected, "{json:#}");
    server.stop_and_wait().await;
}

/// A filter that cannot be changed any more keeps nothing else of the declarations from coming into force.
#[tokio::test]
async fn a_subscription_with_too_many_filters_fails_by_itself() {
    let server = TestServer::start().await;
    let receiver = Receiver::start().await;
    let key = server.topic("orders").await;
    let wanting = |kind: usize| {
        let mut declared = webhook(&receiver.url());
        declared["filter"] = json!({ "includedEventTypes": [format!("kind-{kind}")] });
        declared
    };
    let path = subscription("orders", "billing");
    let put = |kind| server.admin("PUT", &path, wanting(kind));
    assert_eq!(put(0).await.status, 201);
    let pause = format!("{path}/pause");
    assert_eq!(server.admin("POST", &pause, Value::Null).await.status, 200);
    let mut kind = 0;
    let refused = loop {
        // The first of them is wanted, and waits for the end of the pause.
        let published = event("1").replace("Order.Placed", "kind-0");
        let published = server.publish("orders", &key, published).await;
        assert_eq!(published.status, 200);
        kind += 1;
        let answer = put(kind).await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str(), kind),
        (429, "LimitReached", FILTERS_IN_FORCE_MAX)
    );
    assert!(refused.text().contains("purge"), "{}", refused.text());

    let mut declared = wanting(kind);
    declared["topic"] = json!("orders");
    declared["name"] = json!("billing");
    let grid = json!({ "topics": [{ "name": "other" }], "eventSubscriptions": [declared] });
    let applied = apply(&server, &grid).await;
    assert_eq!(
        (applied.status.as_u16(), applied.code().as_str()),
        (409, "Incomplete"),
        "{}",
        applied.text()
    );
    let other = server.admin("GET", "/api/v1/topics/other", Value::Null);
    assert_eq!(other.await.status, 200, "the others are in force");

    let purge = format!("{path}/purge");
    assert_eq!(server.admin("POST", &purge, Value::Null).await.status, 200);
    let again = put(kind).await;
    assert_eq!(again.status, 200, "a purge ends them: {}", again.text());
    server.stop_and_wait().await;
}

/// ED-319: what is declared with many others is told of a directory that is missing too.
#[tokio::test]
async fn a_dead_letter_directory_that_is_missing_is_told() {
    let server = TestServer::start().await;
    let receiver = Receiver::start().await;
    let mut wanted = grid(&receiver.url());
    wanted["eventSubscriptions"][0]["deadLetterDestination"] =
        json!({"endpointType": "LocalDirectory", "properties": {"path": "gone"}});
    let answer = apply(&server, &wanted).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let applied = answer.json()["value"].clone();
    let warning = &applied.as_array().unwrap().last().unwrap()["warnings"][0];
    assert_eq!(
        warning["field"],
        "eventSubscriptions[0].deadLetterDestination"
    );
    let message = warning["message"].as_str().unwrap();
    assert!(
        message.contains("gone does not exist; make it"),
        "{message}"
    );
    server.stop_and_wait().await;
}
