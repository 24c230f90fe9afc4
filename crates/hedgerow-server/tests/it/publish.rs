//! Sections 1.1, 1.2, 1.4, 1.9 and 1.10 of the delivery specification.

use std::time::Duration;

use http::Request;
use serde_json::{Value, json};

use crate::support::{Answer, Receiver, TestServer, event, send_raw};

const BODY_BYTES_MAX: usize = 1_536_000;

/// Every answer of the publish route carries an id, and an error repeats it (ED-067).
fn assert_error(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.code(), code);
    assert_eq!(
        answer.header("content-type"),
        Some("application/json; charset=utf-8")
    );
    let id = answer.header("x-ms-request-id").unwrap();
    assert!(answer.message().contains(id), "{}", answer.message());
    // ED-065: whatever it is about, it has details.
    let body = answer.json();
    let details = body["error"]["details"].as_array().unwrap();
    assert!(!details.is_empty(), "{body}");
    for detail in details {
        assert!(detail["code"].is_string(), "{body}");
        assert!(detail["message"].as_str().unwrap().contains(id), "{body}");
    }
    let is_later = matches!(status, 429 | 503);
    assert_eq!(
        answer.headers.contains_key("retry-after"),
        is_later,
        "{answer:?}"
    );
}

/// A body of exactly `len` bytes that the topic takes.
fn body_of(len: usize) -> String {
    let mut body = event("1");
    body.extend(std::iter::repeat_n(' ', len - body.len()));
    body
}

fn chunked(path: &str, key: &str, body: &str) -> Vec<u8> {
    let mut text = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\naeg-sas-key: {key}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    for part in body.as_bytes().chunks(100_000) {
        text.extend([format!(
            "{:x}\r\n{}\r\n",
            part.len(),
            std::str::from_utf8(part).unwrap()
        )]);
    }
    text.push_str("0\r\n\r\n");
    text.into_bytes()
}

/// ED-064: the rows of section 1.10. 413 and 503 have tests of their own; nothing answers 429 before there are rate limits, and
/// 500 is only for faults of the server.
#[tokio::test]
async fn rows_of_the_table_of_responses() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let accepted = server.publish("orders", &key, event("1")).await;
    assert_eq!(
        (accepted.status.as_u16(), accepted.body.len()),
        (200, 0),
        "{accepted:?}"
    );
    assert_eq!(accepted.header("x-ms-request-id").unwrap().len(), 36);
    let empty = server.publish("orders", &key, "[]").await;
    assert_eq!(
        (empty.status.as_u16(), empty.body.len()),
        (200, 0),
        "ED-038"
    );

    let bad = server.publish("orders", &key, "[{}]").await;
    assert_error(&bad, 400, "BadRequest");
    assert_eq!(
        bad.json()["error"]["details"][0]["code"],
        "InputJsonInvalid",
        "ED-066"
    );
    assert_error(
        &server.publish("orders", &key, "{}").await,
        400,
        "BadRequest",
    );
    assert_error(&server.publish("orders", &key, "").await, 400, "BadRequest");
    let cloud = Request::post("/orders/api/events")
        .header("aeg-sas-key", &key)
        .header("content-type", "application/cloudevents-batch+json");
    assert_error(&server.send(cloud, event("1")).await, 400, "BadRequest");
    assert_error(
        &server.publish("orders", "wrong", event("1")).await,
        401,
        "Unauthorized",
    );
    assert_error(
        &server.publish("nothing", &key, event("1")).await,
        404,
        "NotFound",
    );
    let reader = json!({ "name": "reader", "rights": ["read"] });
    let reader = server.admin("POST", "/api/v1/tokens", reader).await.json();
    let bearer = format!("Bearer {}", reader["secret"].as_str().unwrap());
    let no_right = Request::post("/orders/api/events").header("authorization", bearer);
    assert_error(&server.send(no_right, event("1")).await, 403, "Forbidden");
    let no_topic = Request::post("/api/events").header("aeg-sas-key", &key);
    assert_error(&server.send(no_topic, event("1")).await, 404, "NotFound");
    let root = Request::post("/").header("aeg-sas-key", &key);
    assert_error(&server.send(root, event("1")).await, 404, "NotFound");
    let many = format!(
        "[{}]",
        vec![&event("1")[1..event("1").len() - 1]; 5001].join(",")
    );
    assert_error(
        &server.publish("orders", &key, many).await,
        413,
        "RequestEntityTooLarge",
    );
    server.stop_and_wait().await;
}

/// ED-064, ED-065: who misses the path or the method is a publisher, and is answered like one.
#[tokio::test]
async fn near_misses_are_answered_like_publishers() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    for path in [
        "/topics/orders/api/event",
        "/orders/api/event",
        "/orders/api/events/",
        "/api/events/",
        "/api/event",
        "/orders",
        "//api/events",
        "/events",
    ] {
        for method in ["POST", "PUT", "GET"] {
            if method == "GET" && !path.contains("/api/event") {
                continue;
            }
            let request = Request::builder().method(method).uri(path);
            let answer = server
                .send(request.header("aeg-sas-key", &key), event("1"))
                .await;
            assert_error(&answer, 404, "NotFound");
            assert!(
                answer.message().contains("/TOPIC/api/events"),
                "{}",
                answer.message()
            );
        }
    }
    for path in ["/orders/api/events", "/api/events"] {
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            let answer = server
                .send(Request::builder().method(method).uri(path), "")
                .await;
            assert_error(&answer, 405, "BadRequest");
            assert_eq!(answer.header("allow"), Some("POST, OPTIONS"), "ED-009");
        }
    }
    // The admin API keeps its shape.
    let nothing = server.admin("GET", "/api/v1/nothing", Value::Null).await;
    assert_eq!(nothing.status, 404);
    assert!(
        nothing.json()["error"]["hint"].is_string(),
        "{}",
        nothing.text()
    );
    // ED-006: encoded, or twice the same.
    for (query, status) in [
        ("api-version=2018%2D01%2D01", 200),
        ("api-version=2018-01-01&api-version=2018-01-01", 200),
        ("api-version=2018-01-01&api-version=2020-01-01", 400),
    ] {
        let request = Request::post(format!("/orders/api/events?{query}"));
        let answer = server
            .send(request.header("aeg-sas-key", &key), event("1"))
            .await;
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
    }
    server.stop_and_wait().await;
}

/// ED-058: the bounds are exact, announced or not.
#[tokio::test]
async fn bodies_up_to_the_limit_are_taken() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    for (len, status) in [
        (BODY_BYTES_MAX, 200),
        (BODY_BYTES_MAX + 1, 413),
        (3_000_000, 413),
    ] {
        let answer = server.publish("orders", &key, body_of(len)).await;
        assert_eq!(answer.status, status, "{len}");
        if status == 413 {
            assert_error(&answer, 413, "RequestEntityTooLarge");
            assert!(answer.message().contains("1536000"), "{}", answer.message());
        }
        let text = chunked("/orders/api/events", &key, &body_of(len));
        let answer = send_raw(server.address, &text).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{len} chunked: {answer}"
        );
    }
    server.stop_and_wait().await;
}

/// A body whose chunks cannot be read is no body that was cut off.
#[tokio::test]
async fn chunks_that_cannot_be_read_are_told_from_a_body_that_ends_early() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let head = format!(
        "POST /orders/api/events HTTP/1.1\r\nhost: x\r\naeg-sas-key: {key}\r\ntransfer-encoding: chunked\r\n\
         connection: close\r\n\r\n"
    );
    let long = "a".repeat(100_000);
    for body in [format!("1;{long}\r\n[\r\n"), "x\r\n[\r\n".to_owned()] {
        let answer = send_raw(server.address, format!("{head}{body}").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(
            answer.contains("The body's chunks cannot be read, or their extensions or trailers"),
            "{answer}"
        );
    }
    server.stop_and_wait().await;
}

/// ED-029: who is not allowed to publish does not learn that the request is too large.
#[tokio::test]
async fn credentials_are_checked_before_size_and_content() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    for body in [body_of(BODY_BYTES_MAX + 1), "no JSON".to_owned()] {
        let without = server
            .send(Request::post("/orders/api/events"), body.clone())
            .await;
        assert_error(&without, 401, "Unauthorized");
        let wrong = server.publish("orders", "wrong", body).await;
        assert_error(&wrong, 401, "Unauthorized");
    }
    let unknown = server.send(Request::post("/nothing/api/events"), "").await;
    assert_error(&unknown, 404, "NotFound");
    server.stop_and_wait().await;
}

/// ED-013, ED-014, ED-028.
#[tokio::test]
async fn keys_come_in_header_or_query_and_can_be_rotated() {
    let server = TestServer::start().await;
    let key1 = server.topic("orders").await;
    let both = server
        .admin("POST", "/api/v1/topics/orders/listKeys", Value::Null)
        .await
        .json();
    let key2 = both["key2"].as_str().unwrap().to_owned();
    let status = async |query: &str, header: Option<&str>| {
        let mut request = Request::post(format!("/orders/api/events{query}"));
        if let Some(key) = header {
            request = request.header("aeg-sas-key", key);
        }
        server.send(request, event("1")).await.status.as_u16()
    };
    let escaped = key1
        .replace('+', "%2B")
        .replace('/', "%2f")
        .replace('=', "%3D");
    assert_eq!(
        status(&format!("?aeg-sas-key={key1}"), None).await,
        200,
        "raw"
    );
    assert_eq!(
        status(&format!("?aeg-sas-key={escaped}"), None).await,
        200,
        "escaped"
    );
    assert_eq!(
        status(&format!("?aeg-sas-key={key1}"), Some("wrong")).await,
        401,
        "header first"
    );
    assert_eq!(
        status("?aeg-sas-key=wrong", Some(&key1)).await,
        200,
        "header first"
    );

    let regenerate = "/api/v1/topics/orders/regenerateKey";
    let new = server
        .admin("POST", regenerate, json!({ "keyName": "key1" }))
        .await
        .json();
    assert_ne!(new["key1"], json!(key1));
    assert_eq!(new["key2"], json!(key2));
    assert_eq!(status("", Some(&key1)).await, 401, "the old one is void");
    assert_eq!(status("", Some(&key2)).await, 200, "the other one goes on");
    assert_eq!(
        status("", new["key1"].as_str()).await,
        200,
        "the new one works"
    );
    server.stop_and_wait().await;
}

/// ED-005, ED-006, ED-011.
#[tokio::test]
async fn the_api_version_may_be_absent() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    for (query, status) in [
        ("", 200),
        ("?api-version=2018-01-01", 200),
        ("?api-version=2017-01-01", 400),
        ("?api-version=", 400),
    ] {
        let request = Request::post(format!("/orders/api/events{query}"))
            .header("aeg-sas-key", &key)
            .header("aeg-channel-name", "partner");
        let answer = server.send(request, event("1")).await;
        assert_eq!(answer.status, status, "{query}");
    }
    server.stop_and_wait().await;
}

/// ED-009.
#[tokio::test]
async fn other_methods_are_refused() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    for method in ["GET", "PUT", "DELETE", "PATCH"] {
        for topic in ["orders", "nothing"] {
            let request = Request::builder()
                .method(method)
                .uri(format!("/{topic}/api/events"));
            let answer = server.send(request, "").await;
            assert_error(&answer, 405, "BadRequest");
            assert_eq!(answer.header("allow"), Some("POST, OPTIONS"), "{method}");
        }
    }
    let head = server.send(Request::head("/orders/api/events"), "").await;
    assert_eq!(
        (head.status.as_u16(), head.header("allow")),
        (405, Some("POST, OPTIONS"))
    );
    let options = Request::builder()
        .method("OPTIONS")
        .uri("/orders/api/events");
    let answer = server.send(options, "").await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("allow")),
        (200, Some("POST, OPTIONS"))
    );
    server.stop_and_wait().await;
}

/// ED-007.
#[tokio::test]
async fn a_topic_has_a_host_of_its_own() {
    let server = TestServer::start_with(|config| {
        config.public_url = Some("https://events.example.com".parse().unwrap());
    })
    .await;
    let key = server.topic("orders").await;
    for (host, path, status) in [
        ("orders.events.example.com", "/api/events", 200),
        ("orders.events.example.com:443", "/", 200),
        (
            "ORDERS.localhost",
            "/api/events?api-version=2018-01-01",
            200,
        ),
        ("other.localhost", "/", 404),
        ("events.example.com", "/", 404),
        ("events.example.com", "/api/events", 404),
        ("events.example.com", "/Orders/api/events", 200),
        ("orders.evil.example", "/api/events", 404),
    ] {
        let request = Request::post(path)
            .header("host", host)
            .header("aeg-sas-key", &key);
        let answer = server.send(request, event("1")).await;
        assert_eq!(answer.status, status, "{path} at {host}: {answer:?}");
    }
    let topic = server
        .admin("GET", "/api/v1/topics/orders", Value::Null)
        .await
        .json();
    assert_eq!(
        topic["endpoint"],
        "https://events.example.com/orders/api/events"
    );
    server.stop_and_wait().await;
}

#[tokio::test]
async fn a_client_may_wait_for_leave_to_send_its_body() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let head = |key: &str, len: usize| {
        format!(
            "POST /orders/api/events HTTP/1.1\r\nhost: x\r\naeg-sas-key: {key}\r\n\
             content-length: {len}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n"
        )
    };
    let text = head(&key, event("1").len()) + &event("1");
    let answer = send_raw(server.address, text.as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"),
        "{answer}"
    );
    for (head, status) in [
        (head(&key, BODY_BYTES_MAX + 1), 413),
        (head("wrong", 10), 401),
    ] {
        let answer = send_raw(server.address, head.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "no body was asked for: {answer}"
        );
    }
    server.stop_and_wait().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_ends_the_connection() {
    let server =
        TestServer::start_with(|config| config.http.body_timeout = Duration::from_millis(100))
            .await;
    let key = server.topic("orders").await;
    let text = format!(
        "POST /orders/api/events HTTP/1.1\r\nhost: x\r\naeg-sas-key: {key}\r\ncontent-length: 100\r\n\r\n[{{"
    );
    let answer = send_raw(server.address, text.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    server.stop_and_wait().await;
}

/// The last row of section 1.10, and design D6: refused before the disk is full.
#[tokio::test]
async fn a_full_store_says_when_to_come_back() {
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let server = TestServer::start_with(|config| {
        config.store.segment_bytes = 64 << 10;
        config.store.bytes_max = 256 << 10;
        config.engine.retry.slots = vec![Duration::from_secs(600)];
    })
    .await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let large = event("1").replace("1.50", &format!("\"{}\"", "x".repeat(30_000)));
    let refused = loop {
        let answer = server.publish("orders", &key, large.clone()).await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_error(&refused, 503, "ServiceUnavailable");
    assert_eq!(refused.header("retry-after"), Some("10"));
    let too_large = event("1").replace("1.50", &format!("\"{}\"", "x".repeat(70_000)));
    assert_error(
        &server.publish("orders", &key, too_large).await,
        413,
        "RequestEntityTooLarge",
    );
    server.stop_and_wait().await;
}
