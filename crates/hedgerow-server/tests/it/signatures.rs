//! Shared access signatures over HTTP (section 1.3). The forms of tokens are a table of cases.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use ring::hmac;
use serde_json::{Value, json};

use crate::support::{Answer, TestServer, event};

/// Signs as the vendor's clients do.
fn token(key: &str, resource: &str, expiry: &str) -> String {
    let escape = |text: &str| -> String {
        let escaped = text.bytes().map(|byte| match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        });
        escaped.collect()
    };
    let signed = format!("r={}&e={}", escape(resource), escape(expiry));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &BASE64_STANDARD.decode(key).unwrap());
    let signature = BASE64_STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
    format!("{signed}&s={}", escape(&signature))
}

async fn publish(server: &TestServer, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request, event("1")).await
}

/// ED-016 to ED-024.
#[tokio::test]
async fn signatures_let_publish_until_they_expire() {
    let server = TestServer::start().await;
    let key1 = server.topic("orders").await;
    let both = server.admin("POST", "/api/v1/topics/orders/listKeys", Value::Null);
    let key2 = both.await.json()["key2"].as_str().unwrap().to_owned();
    let shown = server
        .admin("GET", "/api/v1/topics/orders", Value::Null)
        .await;
    let endpoint = shown.json()["endpoint"].as_str().unwrap().to_owned();
    let path = "/orders/api/events?api-version=2018-01-01";
    let later = "2090-01-02 03:04:05+00:00";
    let with_query = format!("{endpoint}?apiVersion=2018-01-01");
    let other = endpoint.replace("orders", "other");
    let other_key = BASE64_STANDARD.encode([7; 32]);
    for (token, status) in [
        (token(&key1, &endpoint, later), 200),
        (token(&key2, &with_query, "1/2/2090 3:04:05 AM"), 200),
        (token(&key1, &endpoint, "2026-01-02T03:04:05Z"), 401),
        (token(&key1, &endpoint, "soon"), 401),
        (token(&other_key, &endpoint, later), 401),
        (token(&key1, &other, later), 401),
        (token(&key1, &endpoint.replace("/events", ""), later), 401),
        ("r=x&s=y".to_owned(), 400),
        (String::new(), 400),
    ] {
        let authorization = format!("SharedAccessSignature {token}");
        for header in [("aeg-sas-token", &token), ("authorization", &authorization)] {
            let answer = publish(&server, path, &[(header.0, header.1)]).await;
            assert_eq!(answer.status, status, "{header:?}: {}", answer.text());
            match status {
                200 => {}
                400 => {
                    assert_eq!(answer.code(), "BadRequest");
                    let form = "r=<resource>&e=<expiry>&s=<signature>";
                    assert!(
                        answer.message().contains(form),
                        "ED-024: {}",
                        answer.message()
                    );
                }
                _ => assert_eq!(answer.code(), "Unauthorized"),
            }
        }
    }
    let good = token(&key1, &endpoint, later);
    let first_decides = [("aeg-sas-key", "wrong"), ("aeg-sas-token", good.as_str())];
    assert_eq!(
        publish(&server, path, &first_decides).await.status,
        401,
        "ED-028"
    );
    let first_decides = [
        ("aeg-sas-token", good.as_str()),
        ("authorization", "Bearer wrong"),
    ];
    assert_eq!(
        publish(&server, path, &first_decides).await.status,
        200,
        "ED-028"
    );
    let topic = json!({ "disableLocalAuth": true });
    server.admin("PUT", "/api/v1/topics/orders", topic).await;
    let disabled = publish(&server, path, &[("aeg-sas-token", &good)]).await;
    assert_eq!(disabled.status, 401, "ED-015");
    server.stop_and_wait().await;
}

/// ED-007, ED-022: a topic's own host has two endpoints, and a token is for one of them.
#[tokio::test]
async fn signatures_are_for_the_host_that_is_called() {
    let server = TestServer::start_with(|config| {
        config.public_url = Some("https://events.example.com".parse().unwrap());
    })
    .await;
    let key = server.topic("orders").await;
    let own = "orders.events.example.com";
    let signed = |resource: &str| token(&key, resource, "2090-01-02T03:04:05");
    for (resource, host, path, status) in [
        (
            "https://orders.events.example.com/api/events",
            own,
            "/api/events",
            200,
        ),
        ("https://orders.events.example.com/", own, "/", 200),
        (
            "https://orders.events.example.com/",
            own,
            "/api/events",
            401,
        ),
        (
            "https://events.example.com/orders/api/events",
            own,
            "/api/events",
            200,
        ),
        (
            "https://events.example.com/orders/api/events",
            "proxy",
            "/orders/api/events",
            200,
        ),
        (
            "http://orders.events.example.com/api/events",
            own,
            "/api/events",
            401,
        ),
    ] {
        let token = signed(resource);
        let headers = [("host", host), ("aeg-sas-token", token.as_str())];
        let answer = publish(&server, path, &headers).await;
        assert_eq!(
            answer.status,
            status,
            "{resource} at {host}{path}: {}",
            answer.text()
        );
    }
    server.stop_and_wait().await;
}

/// ED-026 is to come: tokens of other issuers are refused with a word about it.
#[tokio::test]
async fn bearer_tokens_of_others_are_refused() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    for (value, says) in [("Bearer eyJh", "bearer token"), ("Basic eDp5", "scheme")] {
        let headers = [("authorization", value)];
        let answer = publish(&server, "/orders/api/events", &headers).await;
        assert_eq!(answer.status, 401);
        assert!(answer.message().contains(says), "{}", answer.message());
    }
    server.stop_and_wait().await;
}
