//! The admin API: what it makes, shows and refuses.

use http::Request;
use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, event, subscription, webhook};

const SECRET: &str = "secret";

#[tokio::test]
async fn topics_are_made_shown_listed_and_deleted() {
    let server = TestServer::start().await;
    let made = server
        .admin("PUT", "/api/v1/topics/orders", json!({}))
        .await;
    assert_eq!(made.status, 201);
    let topic = made.json();
    let endpoint = format!("http://{}/orders/api/events", server.address);
    assert_eq!(topic["name"], "orders");
    assert_eq!(topic["inputSchema"], "EventGridSchema");
    assert_eq!(topic["endpoint"], endpoint);
    assert!(topic["createdTime"].as_str().unwrap().ends_with('Z'));
    assert!(made.headers.contains_key("x-ms-request-id"));

    let again = json!({ "inputSchema": "EventGridSchema" });
    let again = server.admin("PUT", "/api/v1/topics/Orders", again).await;
    assert_eq!(
        (again.status.as_u16(), again.json()),
        (200, topic.clone()),
        "made again"
    );
    let without_body = server
        .admin("PUT", "/api/v1/topics/orders", Value::Null)
        .await;
    assert_eq!(
        (without_body.status.as_u16(), without_body.json()),
        (200, topic.clone())
    );
    let shown = server
        .admin("GET", "/api/v1/topics/orders", Value::Null)
        .await;
    assert_eq!((shown.status.as_u16(), shown.json()), (200, topic.clone()));
    server.admin("PUT", "/api/v1/topics/other", json!({})).await;
    let list = server
        .admin("GET", "/api/v1/topics", Value::Null)
        .await
        .json();
    assert_eq!(list["value"].as_array().unwrap().len(), 2);
    assert_eq!(list["value"][0], topic);

    let keys = server
        .admin("POST", "/api/v1/topics/orders/listKeys", Value::Null)
        .await
        .json();
    assert_eq!(keys["key1"].as_str().unwrap().len(), 44);
    assert_ne!(keys["key1"], keys["key2"]);

    let deleted = server
        .admin("DELETE", "/api/v1/topics/orders", Value::Null)
        .await;
    assert_eq!((deleted.status.as_u16(), deleted.body.len()), (204, 0));
    assert_eq!(
        server
            .admin("GET", "/api/v1/topics/orders", Value::Null)
            .await
            .status,
        404
    );
    let publish = server
        .publish("orders", keys["key1"].as_str().unwrap(), event("1"))
        .await;
    assert_eq!(publish.status, 404, "its publish route is gone too");
    server.stop_and_wait().await;
}

/// ED-015, ED-030, ED-048 to ED-050.
#[tokio::test]
async fn topics_have_a_schema_that_never_changes() {
    let server = TestServer::start().await;
    let path = "/api/v1/topics/orders";
    let custom = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "inputSchemaMappingType": "Json", "properties": {
            "eventType": { "sourceField": "kind", "defaultValue": "none" },
            "id": { "sourceField": "order.id" },
        }},
    });
    let made = server.admin("PUT", path, custom.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let topic = made.json();
    assert_eq!(topic["inputSchema"], "CustomEventSchema");
    assert_eq!(topic["inputSchemaMapping"], custom["inputSchemaMapping"]);
    assert_eq!(
        topic["warnings"][0]["field"],
        "inputSchemaMapping.properties.subject"
    );
    let mut other = custom.clone();
    other["inputSchemaMapping"]["properties"]["id"]["sourceField"] = json!("id");
    for (changed, member) in [
        (json!({}), "inputSchema: "),
        (
            json!({ "inputSchema": "CloudEventSchemaV1_0" }),
            "inputSchema: ",
        ),
        (other, "inputSchemaMapping: "),
    ] {
        let refused = server.admin("PUT", path, changed).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.message().starts_with(member), "{}", refused.text());
    }

    let mut closed = custom.clone();
    closed["disableLocalAuth"] = json!(true);
    let changed = server.admin("PUT", path, closed).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    let shown = server.admin("GET", path, Value::Null).await.json();
    assert_eq!(shown["disableLocalAuth"], true);
    assert_eq!(shown["id"], topic["id"]);
    let keys = server
        .admin("POST", "/api/v1/topics/orders/listKeys", Value::Null)
        .await
        .json();
    let key = keys["key1"].as_str().unwrap();
    let refused = server.publish("orders", key, "[]").await;
    assert_eq!(refused.status, 401, "ED-015: {}", refused.text());
    let opened = server.admin("PUT", path, custom).await.json();
    assert_eq!(opened["disableLocalAuth"], false);
    server.stop_and_wait().await;
}

#[tokio::test]
async fn subscriptions_are_made_shown_updated_and_deleted() {
    let receiver = Receiver::start().await;
    let server = TestServer::start().await;
    server.topic("orders").await;
    let path = subscription("orders", "billing");
    let mut body = webhook(&receiver.url());
    body["filter"] =
        json!({ "includedEventTypes": ["Order.Placed"], "subjectBeginsWith": "orders/" });
    body["retryPolicy"] = json!({ "maxDeliveryAttempts": 30 });
    let made = server.admin("PUT", &path, body.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert!(!made.text().contains(SECRET), "ED-121: {}", made.text());
    let shown = made.json();
    assert_eq!(shown["name"], "billing");
    assert_eq!(shown["topic"], "orders");
    assert_eq!(shown["provisioningState"], "Succeeded");
    let base = format!("http://{}/hook", receiver.address);
    assert_eq!(
        shown["destination"]["properties"],
        json!({ "endpointBaseUrl": base, "minimumTlsVersionAllowed": "1.2" })
    );
    assert_eq!(shown["filter"]["subjectBeginsWith"], "orders/");
    assert_eq!(shown["retryPolicy"]["eventTimeToLiveInMinutes"], 1440);
    assert_eq!(shown["responseTimeoutSeconds"], 30);
    assert_eq!(
        shown["warnings"][0]["field"],
        "retryPolicy.maxDeliveryAttempts"
    );
    let status = json!({
        "matched": 0, "delivered": 0, "deadLettered": 0, "dropped": 0, "pending": 0,
        "inFlight": 0, "behind": 0, "nextDue": null, "deadLetterProblem": null, "purgedTime": null, "batches": null,
        "hold": {
            "state": "Healthy", "cause": null, "level": 0, "since": null, "until": null,
            "nextTrial": null, "held": 0,
        },
        "limits": {
            "openAttempts": 0, "maxConcurrency": null, "maxRequestsPerSecond": null, "notBefore": null,
            "endpoint": {
                "openAttempts": 0, "openAttemptsLimit": 16, "slowAttempts": 0, "slowAttemptsLimit": 16,
            },
        },
    });
    assert_eq!(shown["status"], status);

    body["responseTimeoutSeconds"] = json!(10);
    let updated = server.admin("PUT", &path, body).await;
    assert_eq!(updated.status, 200);
    assert_eq!(updated.json()["id"], shown["id"], "an update keeps the id");
    assert_eq!(updated.json()["responseTimeoutSeconds"], 10);
    let list = "/api/v1/topics/orders/eventSubscriptions";
    let list = server.admin("GET", list, Value::Null).await;
    assert_eq!(list.json()["value"].as_array().unwrap().len(), 1);
    assert!(!list.text().contains(SECRET));

    assert_eq!(server.admin("DELETE", &path, Value::Null).await.status, 204);
    assert_eq!(server.admin("GET", &path, Value::Null).await.status, 404);
    let anew = server.admin("PUT", &path, webhook(&receiver.url())).await;
    assert_eq!(anew.status, 201);
    assert_ne!(anew.json()["id"], shown["id"], "ids are never reused");
    server.stop_and_wait().await;
}

#[tokio::test]
async fn the_default_response_timeout_is_a_setting() {
    let receiver = Receiver::start().await;
    let server = TestServer::start_with(|config| {
        config.response_timeout = std::time::Duration::from_secs(7);
    })
    .await;
    server.topic("orders").await;
    let shown = server.subscribe("orders", "billing", &receiver.url()).await;
    assert_eq!(shown["responseTimeoutSeconds"], 7);
    server.stop_and_wait().await;
}

/// Method, path, body; status, code, and a part of the message.
#[allow(clippy::too_many_lines)] // A table.
#[tokio::test]
async fn refusals_say_what_is_wrong() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let timeout = json!({ "destination": webhook("http://127.0.0.1:1/")["destination"], "responseTimeoutSeconds": 0 });
    let billing = subscription("orders", "billing");
    let rows: &[(&str, &str, Value, u16, &str, &str)] = &[
        (
            "PUT",
            "/api/v1/topics/x",
            json!({}),
            400,
            "InvalidInput",
            "topic name",
        ),
        (
            "PUT",
            "/api/v1/topics/a_b_c",
            json!({}),
            400,
            "InvalidInput",
            "topic name",
        ),
        (
            "PUT",
            "/api/v1/topics/new",
            json!({ "x": 1 }),
            400,
            "InvalidInput",
            "x: ",
        ),
        (
            "PUT",
            "/api/v1/topics/new",
            json!([]),
            400,
            "InvalidInput",
            "must be an object",
        ),
        (
            "PUT",
            "/api/v1/topics/new",
            json!({ "inputSchema": "CloudEventV01Schema" }),
            400,
            "InvalidInput",
            "inputSchema: ",
        ),
        (
            "GET",
            "/api/v1/topics/nothing",
            Value::Null,
            404,
            "NotFound",
            "topic \"nothing\"",
        ),
        (
            "DELETE",
            "/api/v1/topics/nothing",
            Value::Null,
            404,
            "NotFound",
            "topic \"nothing\"",
        ),
        (
            "POST",
            "/api/v1/topics/nothing/listKeys",
            Value::Null,
            404,
            "NotFound",
            "\"nothing\"",
        ),
        (
            "POST",
            "/api/v1/topics/orders/regenerateKey",
            json!({ "keyName": "key3" }),
            400,
            "InvalidInput",
            "keyName: ",
        ),
        (
            "POST",
            "/api/v1/topics/orders/regenerateKey",
            json!({}),
            400,
            "InvalidInput",
            "keyName",
        ),
        (
            "PUT",
            &billing,
            json!({}),
            400,
            "InvalidInput",
            "destination: is required",
        ),
        (
            "PUT",
            &billing,
            timeout,
            400,
            "InvalidInput",
            "responseTimeoutSeconds: ",
        ),
        (
            "PUT",
            &billing,
            webhook("nowhere"),
            400,
            "InvalidInput",
            "endpointUrl: ",
        ),
        (
            "PUT",
            &billing,
            webhook("http://10.0.0.1/"),
            400,
            "InvalidInput",
            "endpointUrl: ",
        ),
        (
            "PUT",
            "/api/v1/topics/nothing/eventSubscriptions/billing",
            webhook("http://127.0.0.1:1/"),
            404,
            "NotFound",
            "topic \"nothing\"",
        ),
        (
            "PUT",
            &subscription("orders", "x"),
            json!({}),
            400,
            "InvalidInput",
            "subscription name",
        ),
        (
            "GET",
            &billing,
            Value::Null,
            404,
            "NotFound",
            "event subscription \"billing\"",
        ),
        (
            "DELETE",
            &billing,
            Value::Null,
            404,
            "NotFound",
            "event subscription \"billing\"",
        ),
        (
            "GET",
            "/api/v1/terminalRecords?limit=0",
            Value::Null,
            400,
            "InvalidInput",
            "limit: ",
        ),
        (
            "GET",
            "/api/v1/terminalRecords?x=0",
            Value::Null,
            400,
            "InvalidInput",
            "x: ",
        ),
        (
            "GET",
            "/api/v1/terminalRecords?topic=no",
            Value::Null,
            404,
            "NotFound",
            "\"no\"",
        ),
        (
            "GET",
            "/api/v1/terminalRecords?eventSubscription=a",
            Value::Null,
            400,
            "InvalidInput",
            "eventSubscription: ",
        ),
        (
            "GET",
            "/api/v1/nothing",
            Value::Null,
            404,
            "NotFound",
            "/api/v1/nothing",
        ),
        ("GET", "/nothing", Value::Null, 404, "NotFound", "/nothing"),
        ("GET", "/", Value::Null, 404, "NotFound", "\"/\""),
        (
            "GET",
            "/api/v1/topics/%ff",
            Value::Null,
            400,
            "InvalidInput",
            "path",
        ),
        (
            "POST",
            "/healthz",
            Value::Null,
            405,
            "MethodNotAllowed",
            "method",
        ),
        (
            "POST",
            "/api/v1/topics/orders",
            Value::Null,
            405,
            "MethodNotAllowed",
            "method",
        ),
        (
            "PUT",
            "/api/v1/topics/new",
            json!({ "x": "y".repeat(1_100_000) }),
            413,
            "BodyTooLarge",
            "1048576",
        ),
    ];
    for (method, path, body, status, code, message) in rows {
        let answer = server.admin(method, path, body.clone()).await;
        assert_eq!(answer.status, *status, "{method} {path}: {answer:?}");
        assert_eq!(answer.code(), *code, "{method} {path}");
        assert!(
            answer.message().contains(message),
            "{method} {path}: {}",
            answer.message()
        );
        assert!(
            !answer.json()["error"]["hint"].as_str().unwrap().is_empty(),
            "{method} {path}"
        );
        assert_eq!(
            answer.headers.contains_key("allow"),
            *status == 405,
            "{method} {path}"
        );
        assert!(answer.headers.contains_key("x-ms-request-id"));
    }
    let request = Request::put("/api/v1/topics/new")
        .header("authorization", format!("Bearer {}", server.token));
    let answer = server.send(request, "{no").await;
    assert_eq!(
        (answer.status.as_u16(), answer.code().as_str()),
        (400, "InvalidInput")
    );
    server.stop_and_wait().await;
}

#[tokio::test]
async fn everything_but_health_needs_the_token() {
    let server = TestServer::start().await;
    for path in [
        "/api/v1/topics",
        "/api/v1/topics/orders",
        "/api/v1/nothing",
        "/api/",
        "/api",
    ] {
        for value in ["", "Bearer wrong", "Basic x"] {
            let request = Request::get(path).header("authorization", value);
            let answer = server.send(request, "").await;
            assert_eq!(answer.status, 401, "{path} {value}");
            assert_eq!(answer.code(), "Unauthorized");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    let health = server.send(Request::get("/healthz"), "").await;
    assert_eq!(
        (health.status.as_u16(), health.json()),
        (200, json!({ "status": "ok" }))
    );
    server.stop_and_wait().await;
}

/// ED-304, and the pages of terminal records.
#[tokio::test]
async fn what_ended_undelivered_is_listed() {
    let mut receiver = Receiver::start().await;
    receiver.answer(400);
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    for id in ["1", "2", "3"] {
        assert_eq!(server.publish("orders", &key, event(id)).await.status, 200);
        assert_eq!(receiver.next().await.id(), id);
    }
    let status = server
        .wait_for("orders", "billing", |status| status["dropped"] == 3)
        .await;
    assert_eq!(
        (&status["matched"], &status["pending"]),
        (&json!(3), &json!(0))
    );

    let path = "/api/v1/terminalRecords?topic=orders&eventSubscription=billing&limit=2";
    let page = server.admin("GET", path, Value::Null).await.json();
    let record = &page["value"][0];
    assert_eq!(record["topic"], "orders");
    assert_eq!(record["eventSubscription"], "billing");
    assert_eq!(record["eventId"], "1");
    assert_eq!(record["eventType"], "Order.Placed");
    assert_eq!(record["subject"], "orders/1");
    assert_eq!(record["reason"], "UndeliverableDueToHttpBadRequest");
    assert_eq!(record["deliveryAttempts"], 1);
    assert_eq!(record["lastDeliveryOutcome"], "BadRequest");
    assert_eq!(record["lastHttpStatusCode"], 400);
    assert_eq!(record["disposition"], "Dropped");
    assert_eq!(record["dropReason"], "NoDeadLetterDestination");
    for time in ["publishTime", "lastDeliveryAttemptTime", "decidedTime"] {
        assert!(record[time].as_str().unwrap().ends_with('Z'), "{time}");
    }
    assert_eq!(page["value"].as_array().unwrap().len(), 2);
    let next = page["next"].as_str().unwrap();
    let rest = server
        .admin("GET", &format!("{path}&after={next}"), Value::Null)
        .await
        .json();
    assert_eq!(rest["value"][0]["eventId"], "3");
    assert_eq!(
        (rest["value"].as_array().unwrap().len(), &rest["next"]),
        (1, &Value::Null)
    );
    server.stop_and_wait().await;
}

#[tokio::test]
async fn the_store_says_what_it_holds_and_writes() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let before = server
        .admin("GET", "/api/v1/store", Value::Null)
        .await
        .json();
    assert_eq!(before["isFull"], false);
    assert!(before["watermarkBytes"].as_u64().unwrap() > 0, "{before}");
    let body = event("1");
    assert_eq!(
        server
            .publish("orders", &key, body.clone())
            .await
            .status
            .as_u16(),
        200
    );
    let after = server
        .admin("GET", "/api/v1/store", Value::Null)
        .await
        .json();
    let number = |value: &Value, name: &str| value[name].as_u64().unwrap();
    let written = number(&after, "writtenBytes") - number(&before, "writtenBytes");
    assert!(written > body.len() as u64 / 2, "{before} {after}");
    assert!(
        number(&after, "syncs") > number(&before, "syncs"),
        "{before} {after}"
    );
}

/// AZ-071, AZ-072: what a change does not name stays as it was, the secret of the endpoint too.
#[tokio::test]
async fn a_change_names_what_it_changes_and_keeps_the_rest() {
    let server = TestServer::start().await;
    let mut receiver = Receiver::start().await;
    let key = server.topic("orders").await;
    let path = subscription("orders", "billing");
    let mut declared = webhook(&receiver.url());
    declared["retryPolicy"] = json!({ "eventTimeToLiveInMinutes": 5 });
    declared["labels"] = json!(["finance"]);
    let made = server.admin("PUT", &path, declared).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();

    // All that is shown, sent back as it came.
    let again = server.admin("PATCH", &path, made.clone()).await;
    let mut shown = again.json();
    assert!(shown["warnings"][0].is_object(), "30 was said: {shown}");
    shown.as_object_mut().unwrap().remove("warnings");
    assert_eq!((again.status.as_u16(), shown), (200, made.clone()));
    let change = json!({
        "retryPolicy": { "eventTimeToLiveInMinutes": 7 },
        "filter": { "includedEventTypes": ["Order.Placed"] },
    });
    let mut changed = server.admin("PATCH", &path, change).await.json();
    assert_eq!(changed["warnings"].take(), json!([]), "30 was not said now");
    changed.as_object_mut().unwrap().remove("warnings");
    let mut expected = made.clone();
    expected["retryPolicy"]["eventTimeToLiveInMinutes"] = json!(7);
    expected["filter"]["includedEventTypes"] = json!(["Order.Placed"]);
    assert_eq!(changed, expected);
    let back = json!({ "retryPolicy": null, "filter": null, "labels": null });
    let back = server.admin("PATCH", &path, back).await.json();
    assert_eq!(back["retryPolicy"]["eventTimeToLiveInMinutes"], 1440);
    assert_eq!((&back["labels"], &back["id"]), (&json!([]), &made["id"]));
    server.accept("orders", &key, event("1")).await;
    receiver.next().await;

    for (change, status) in [
        (json!({ "retryPolicy": { "maxDeliveryAttempts": 31 } }), 400),
        (json!({ "destination": null }), 400),
        (
            json!({ "destination": { "endpointType": "EventHub" } }),
            400,
        ),
        (json!({ "labels": [1] }), 400),
        (json!([]), 400),
    ] {
        let answer = server.admin("PATCH", &path, change.clone()).await;
        assert_eq!(answer.status, status, "{change}: {}", answer.text());
    }
    let missing = subscription("orders", "nothing");
    let answer = server.admin("PATCH", &missing, json!({})).await;
    assert_eq!(answer.status, 404);
    server.stop_and_wait().await;
}

/// ED-312, ED-232: an operator pauses, resumes and resets; what is answered is durable.
/// A body that names something else than its path is refused, and an answer that is sent back is taken.
#[tokio::test]
async fn a_subscription_is_not_declared_under_another_name_than_its_body_has() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let path = subscription("orders", "one");
    for (member, other) in [
        ("name", json!("two")),
        ("name", json!(1)),
        ("topic", json!("others")),
    ] {
        let mut body = webhook("http://127.0.0.1:9/hook");
        body[member] = other.clone();
        let refused = server.admin("PUT", &path, body).await;
        assert_eq!(refused.status, 400, "{member} {other}");
        let start = format!("{member}: ");
        assert!(refused.message().contains(&start), "{}", refused.text());
    }
    let nothing = server.admin("GET", &path, Value::Null).await;
    assert_eq!(nothing.status, 404);
    let receiver = Receiver::start().await;
    let made = server.subscribe("orders", "one", &receiver.url()).await;
    let other = server.admin("PATCH", &path, json!({ "name": "two" })).await;
    assert_eq!(other.status, 400, "{}", other.text());
    let back = server.admin("PATCH", &path, made).await;
    assert_eq!(back.status, 200, "{}", back.text());
    server.stop_and_wait().await;
}

#[tokio::test]
async fn subscriptions_are_paused_resumed_and_reset() {
    let server = TestServer::start().await;
    let receiver = Receiver::start().await;
    server.topic("orders").await;
    let path = subscription("orders", "billing");
    let made = server.admin("PUT", &path, webhook(&receiver.url())).await;
    assert_eq!(made.json()["isPaused"], false);
    assert_eq!(made.json()["probation"]["threshold"], 3);
    assert_eq!(made.json()["delayedDelivery"]["firstWindow"], 60);
    let paused = server
        .admin("POST", &format!("{path}/pause"), json!({}))
        .await;
    assert_eq!(paused.status, 200, "{}", paused.text());
    assert_eq!(paused.json()["isPaused"], true);
    assert_eq!(paused.json()["status"]["hold"]["state"], "Paused");
    let again = server
        .admin("POST", &format!("{path}/pause"), json!({}))
        .await;
    assert_eq!(again.status, 200, "it is paused already");
    let reset = server
        .admin("POST", &format!("{path}/reset"), json!({}))
        .await;
    assert_eq!(reset.json()["isPaused"], true, "a reset ends no pause");
    let resumed = server
        .admin("POST", &format!("{path}/resume"), json!({}))
        .await;
    assert_eq!(resumed.json()["isPaused"], false);
    assert_eq!(resumed.json()["status"]["hold"]["state"], "Healthy");
    let nobody = subscription("orders", "nobody");
    let missing = server
        .admin("POST", &format!("{nobody}/pause"), json!({}))
        .await;
    assert_eq!(missing.status, 404);
}
