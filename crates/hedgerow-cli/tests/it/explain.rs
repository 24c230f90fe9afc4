//! What is told of an event: its log lines (ED-305 to ED-310, ED-067), and `hedgerow explain`.

use serde_json::{Value, json};

use crate::kit::{
    Place, Server, complained, endpoint_that_says, event, printed, request, run, until,
};

const SECRET: &str = "canary-in-the-query";

/// A server with JSON lines, a topic `orders` and a subscription `billing` of an endpoint that repeats what it was asked;
/// and the topic's key.
fn serving(place: &Place, status: u16, more: &str) -> (Server, String) {
    let server = Server::serve(place, &format!("[log]\nformat = \"json\"\n{more}"));
    let endpoint = endpoint_that_says(status, |line| format!("you asked: {line}"));
    assert_eq!(server.admin("PUT", "/topics/orders", "{}").0, 201);
    let url = format!("{endpoint}?code={SECRET}");
    let body = json!({
        "destination": { "endpointType": "WebHook", "properties": { "endpointUrl": url } },
        "retryPolicy": { "maxDeliveryAttempts": 2 },
    });
    let path = "/topics/orders/eventSubscriptions/billing";
    assert_eq!(server.admin("PUT", path, &body.to_string()).0, 201);
    let (_, keys) = server.admin("POST", "/topics/orders/listKeys", "");
    (server, keys["key1"].as_str().unwrap().to_owned())
}

fn publish(server: &Server, key: &str, id: &str) -> (u16, Value) {
    let url = format!("{}/orders/api/events", server.endpoint());
    request("POST", &url, &[("aeg-sas-key", key)], &event(id)).unwrap()
}

/// A line of the log with these words in it, as JSON.
fn line(server: &Server, words: &[&str]) -> Value {
    let line = server.error_line(&words.join(", "), |line| {
        words.iter().all(|word| line.contains(word))
    });
    serde_json::from_str(&line).unwrap()
}

/// ED-306 to ED-308: each failed attempt is one line with every field by itself, and the vendor's text; no secret is in it.
#[test]
fn a_failed_attempt_is_one_line() {
    let place = Place::new();
    let (server, key) = serving(&place, 503, "");
    assert_eq!(publish(&server, &key, "a-1").0, 200);
    let line = line(&server, &["DeliveryFailures", "a-1"]);
    let text = line.to_string();
    assert!(!text.contains(SECRET) && !text.contains(&key), "{text}");
    for (member, value) in [
        ("level", json!("INFO")),
        ("category", json!("DeliveryFailures")),
        ("operationName", json!("Deliver")),
        ("eventSubscriptionName", json!("billing")),
        ("eventId", json!("a-1")),
        ("eventType", json!("Order.Placed")),
        ("eventTime", json!("2030-01-02T03:04:05Z")),
        ("outcome", json!("Busy")),
        ("httpStatus", json!(503)),
        ("deliveryCount", json!(1)),
        ("probationCount", json!(0)),
        ("deliverySchema", json!("EventGridSchema")),
        ("inputSchema", json!("EventGridSchema")),
        ("final", json!(false)),
        (
            "responseExcerpt",
            json!("you asked: POST /hook?*** HTTP/1.1\r\n"),
        ),
    ] {
        assert_eq!(line[member], value, "{member} in {line:#}");
    }
    for member in [
        "time",
        "resourceId",
        "systemId",
        "latencyInMs",
        "publishTime",
        "sizeBytes",
        "nextAttemptTime",
    ] {
        assert!(!line[member].is_null(), "{member} in {line:#}");
    }
    let url = line["url"].as_str().unwrap();
    assert!(
        url.starts_with("http://127.0.0.1:") && !url.contains("hook"),
        "{url}"
    );
    let message = line["message"].as_str().unwrap();
    assert!(
        message.starts_with("outcome=Busy, latencyInMs="),
        "{message}"
    );
    assert!(message.contains(", id=a-1, systemId="), "{message}");
    // ED-307: what is a pair of the vendor's message.
    for name in [
        "state",
        "deliveryTime",
        "deliveryCount",
        "probationCount",
        "deliverySchema",
        "publishTime",
        "eventTime",
        "eventType",
        "inputSchema",
        "size",
        "url",
        "deliveryResponse",
    ] {
        assert!(
            message.contains(&format!(", {name}=")),
            "{name} in {message}"
        );
    }
}

/// ED-310: off unless asked for.
#[test]
fn successes_are_logged_when_asked_for() {
    let place = Place::new();
    let (server, key) = serving(&place, 200, "delivery_success_percent = 100");
    assert_eq!(publish(&server, &key, "a-1").0, 200);
    let found = line(&server, &["DeliverySuccess", "a-1"]);
    assert_eq!(
        (&found["outcome"], &found["final"], &found["httpStatus"]),
        (&json!("Success"), &json!(true), &json!(200))
    );
    drop(server);

    let place = Place::new();
    let (mut server, key) = serving(&place, 200, "");
    assert_eq!(publish(&server, &key, "a-1").0, 200);
    until("the delivery", || {
        let path = "/topics/orders/eventSubscriptions/billing";
        (server.admin("GET", path, "").1["status"]["delivered"] == 1).then_some(())
    });
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    assert!(
        server
            .rest_of_errors()
            .iter()
            .all(|line| !line.contains("a-1"))
    );
}

/// ED-305, ED-309: who published, from where, with what, and what came of it; one line for each combination.
#[test]
fn publish_requests_are_logged_together_when_asked_for() {
    let place = Place::new();
    let (mut server, key) = serving(&place, 200, "data_plane_requests = true");
    assert_eq!(publish(&server, &key, "a-1").0, 200);
    assert_eq!(publish(&server, &key, "a-2").0, 200);
    assert_eq!(publish(&server, "not-the-key", "a-3").0, 401);
    assert_eq!(publish_with(&server, "aeg-sas-token", "nonsense"), 400);
    let bearer = format!("Bearer {}", server.token());
    assert_eq!(publish_with(&server, "authorization", &bearer), 200);
    assert_eq!(publish_with(&server, "authorization", "Bearer none"), 401);
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    let lines = server.rest_of_errors();
    let lines = lines
        .iter()
        .filter(|line| line.contains("DataPlaneRequests"));
    let mut found: Vec<_> = lines
        .map(|line| {
            assert!(!line.contains(&key), "{line}");
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["operationName"], "Microsoft.EventGrid/events/send");
            assert!(
                line["resourceId"]
                    .as_str()
                    .unwrap()
                    .ends_with("/topics/orders")
            );
            let properties = line["properties"].as_str().unwrap();
            let properties: Value = serde_json::from_str(properties).unwrap();
            let request = &properties["aggregatedRequests"][0];
            assert_eq!(request["networkAccess"], "PrivateAccess");
            assert_eq!(request["clientIpAddress"], "127.0.0.1");
            assert_eq!(request["tlsVersion"], Value::Null);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let authentication = &request["authentication"];
            (
                text(&authentication["type"]),
                text(&request["operationResult"]),
                request["totalOperations"].as_u64().unwrap(),
                authentication["objectId"].is_string(),
            )
        })
        .collect();
    found.sort();
    let row = |kind: &str, result: &str, count, is_named| {
        (kind.to_owned(), result.to_owned(), count, is_named)
    };
    let expected = [
        row("AADAccessToken", "Success", 1, true),
        row("AADAccessToken", "Unauthorized", 1, false),
        row("Key", "Success", 2, false),
        row("Key", "Unauthorized", 1, false),
        row("SASToken", "BadRequest", 1, false),
    ];
    assert_eq!(found, expected);
}

/// Section 11, row 9: credentials that ran out are told at their first `Unauthorized`, and once, until something changes.
#[test]
fn the_first_unauthorized_is_an_alert() {
    let place = Place::new();
    let (server, key) = serving(&place, 401, "");
    let alerts = std::cell::RefCell::new(Vec::new());
    let publish = |id: &str| {
        assert_eq!(publish(&server, &key, id).0, 200);
        server.error_line(id, |line| {
            if line.contains("\"Alerts\"") {
                alerts.borrow_mut().push(line.to_owned());
            }
            line.contains("DeliveryFailures") && line.contains(id)
        });
    };
    publish("a-1");
    publish("a-2");
    assert_eq!(alerts.borrow().len(), 1);
    let path = "/topics/orders/eventSubscriptions/billing";
    let change = json!({ "retryPolicy": { "maxDeliveryAttempts": 3 } });
    assert_eq!(server.admin("PATCH", path, &change.to_string()).0, 200);
    publish("a-3");
    let alerts = alerts.into_inner();
    assert_eq!(alerts.len(), 2, "{alerts:#?}");
    for alert in alerts {
        assert!(!alert.contains(SECRET), "{alert}");
        let alert: Value = serde_json::from_str(&alert).unwrap();
        for (member, value) in [
            ("level", json!("WARN")),
            ("category", json!("Alerts")),
            ("topic", json!("orders")),
            ("eventSubscriptionName", json!("billing")),
            ("outcome", json!("Unauthorized")),
        ] {
            assert_eq!(alert[member], value, "{member} in {alert:#}");
        }
    }
}

fn publish_with(server: &Server, header: &str, value: &str) -> u16 {
    let url = format!("{}/orders/api/events", server.endpoint());
    let answer = request("POST", &url, &[(header, value)], &event("a-4"));
    answer.unwrap().0
}

/// ED-067, ED-306: the id in the answer finds the line.
#[test]
fn a_refused_publish_request_is_one_line_with_its_id() {
    let place = Place::new();
    let (server, _) = serving(&place, 200, "");
    let (status, answer) = publish(&server, "not-the-key", "a-1");
    assert_eq!(status, 401);
    let message = answer["error"]["message"].as_str().unwrap();
    let id = message
        .split("Report '")
        .nth(1)
        .unwrap()
        .split(':')
        .next()
        .unwrap();
    let line = line(&server, &["PublishFailures", id]);
    for (member, value) in [
        ("category", json!("PublishFailures")),
        ("operationName", json!("Microsoft.EventGrid/events/send")),
        ("request_id", json!(id)),
        ("topic", json!("orders")),
        ("status", json!(401)),
        ("error", json!("Unauthorized")),
    ] {
        assert_eq!(line[member], value, "{member} in {line:#}");
    }
    assert!(!line.to_string().contains("not-the-key"));
}

#[test]
fn an_event_is_explained_to_people_and_programs() {
    let place = Place::new();
    let (server, key) = serving(&place, 400, "");
    let never = json!({
        "destination": { "endpointType": "WebHook", "properties": { "endpointUrl": "http://127.0.0.1:1/" } },
        "filter": { "subjectBeginsWith": "bills/" },
    });
    let path = "/topics/orders/eventSubscriptions/bills";
    assert_eq!(server.admin("PUT", path, &never.to_string()).0, 201);
    assert_eq!(publish(&server, &key, "a 1").0, 200);
    let told = until("the attempt", || {
        let told = printed(&server.run(&["explain", "a 1"]));
        // The attempt is remembered before the engine knows it to be durable, which is what the second line shows.
        let is_settled = told.contains("BadRequest") && !told.contains("attempt 1 runs");
        is_settled.then_some(told)
    });
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        lines[0].starts_with("event a 1 in topic orders, accepted 20"),
        "{told}"
    );
    assert!(
        lines[1].starts_with("  billing: matched: given up at "),
        "{told}"
    );
    assert!(
        lines[1].ends_with(
            "(UndeliverableDueToHttpBadRequest), and dropped: it has no dead-letter destination"
        ),
        "{told}"
    );
    assert!(lines[2].starts_with("    ATTEMPT  STARTED "), "{told}");
    assert!(
        lines[3].starts_with("    1        20") && lines[3].ends_with("  400     BadRequest"),
        "{told}"
    );
    assert!(lines[4].starts_with("             given up ("), "{told}");
    let end = &lines[lines.len() - 2..];
    assert_eq!(
        end,
        [
            "  bills: not matched: subjectBeginsWith of its filter says no: \"bills/\"",
            "number 1 of its topic: Order.Placed, subject orders/a 1",
        ],
        "{told}"
    );
    assert!(!told.contains(SECRET));

    let json = printed(&server.run(&["explain", "a 1", "--json", "--topic", "orders"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["value"][0]["eventSubscriptions"][1]["failedClause"],
        "subjectBeginsWith"
    );

    assert_eq!(
        json["value"][0]["eventSubscriptions"][1]["failedClauseDeclared"],
        "bills/"
    );
    let nobody = [
        "explain",
        "a 1",
        "--topic",
        "orders",
        "--event-subscription",
        "nope",
    ];
    let nobody = complained(&server.run(&nobody), 1);
    assert!(
        nobody.contains("event subscription \"nope\" does not exist"),
        "{nobody}"
    );

    let unknown = complained(&server.run(&["explain", "b"]), 1);
    assert!(unknown.contains("no event \"b\" is known"), "{unknown}");
    assert!(unknown.contains("events accepted since 20"), "{unknown}");
}

#[test]
fn a_plan_needs_no_server() {
    let told = printed(&run(&[
        "plan",
        "--max-delivery-attempts",
        "3",
        "--status",
        "503,500",
    ]));
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "ATTEMPT  AT     MEETS  OUTCOME",
            "1        0 s    503    Busy",
            "2        30 s   500    GenericError",
            "3        1 min  500    GenericError",
            "given up at 1 min after 3 attempts: MaxDeliveryAttemptsExceeded; a dead letter is written at 6 min",
        ],
        "{told}"
    );
    let told = printed(&run(&["plan", "--status", "404", "--event-ttl", "30"]));
    assert!(
        told.contains("attempt 3 at 10 min may be left out: attempt 2 can come so late by chance"),
        "{told}"
    );
    let told = printed(&run(&["plan", "--status", "dns"]));
    assert!(
        told.contains(
            "3        30 s    dns    ResolutionError, probation for 5 min\n4        10 min  dns"
        ),
        "{told}"
    );
    let told = printed(&run(&["plan", "--status", "400"]));
    assert!(told.contains("given up at 0 s after 1 attempt: "), "{told}");
    let refused = complained(&run(&["plan", "--event-ttl", "1441"]), 2);
    assert!(
        refused.contains("--event-ttl") && refused.contains("1441"),
        "{refused}"
    );
    assert!(refused.contains("from 1 to 1440"), "{refused}");
}
