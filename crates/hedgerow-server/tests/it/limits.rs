//! Sizes and counts of publish requests, exact over real HTTP (sections 1.9 and 1.10), and what becomes of the connection.

use http::Request;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{TestServer, event};

const EVENT_BYTES_MAX: usize = 1_049_600;
const BODY_BYTES_MAX: usize = 1_536_000;

/// An event of exactly `len` bytes, which begins as said.
fn padded(begin: &str, len: usize) -> String {
    let empty = format!(r#"{{{begin},"data":""}}"#);
    let data = "x".repeat(len - empty.len());
    format!(r#"{{{begin},"data":"{data}"}}"#)
}

const GRID: &str = r#""id":"1","subject":"s","eventType":"t","eventTime":"2030-01-02T03:04:05Z""#;
const CLOUD: &str = r#""specversion":"1.0","id":"1","source":"/s","type":"t""#;

/// ED-057 to ED-059: the bound of one event is exact in each schema, and the message names limit, size and place.
#[tokio::test]
async fn events_up_to_the_limit_are_taken() {
    let server = TestServer::start().await;
    let custom = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "properties": { "subject": { "defaultValue": "s" } } },
    });
    let topics = [
        ("grid", json!({}), GRID, "application/json"),
        (
            "cloud",
            json!({ "inputSchema": "CloudEventSchemaV1_0" }),
            CLOUD,
            "application/cloudevents-batch+json",
        ),
        ("custom", custom, r#""k":1"#, "application/json"),
    ];
    for (name, topic, begin, content_type) in topics {
        let key = server.topic_with(name, topic).await;
        let small = padded(begin, 200);
        for (len, status) in [(EVENT_BYTES_MAX, 200), (EVENT_BYTES_MAX + 1, 413)] {
            let request = Request::post(format!("/{name}/api/events"))
                .header("aeg-sas-key", &key)
                .header("content-type", content_type);
            let body = format!("[ {small} ,\n{} ]", padded(begin, len));
            let answer = server.send(request, body).await;
            assert_eq!(answer.status, status, "{name} {len}");
            if status == 413 {
                assert_eq!(answer.code(), "RequestEntityTooLarge");
                assert!(!answer.headers.contains_key("retry-after"), "AZ-022");
                let message = answer.message();
                for part in ["index 1", "1049601 bytes", "1049600 bytes"] {
                    assert!(message.contains(part), "{message}");
                }
            }
        }
    }
    let one =
        Request::post("/cloud/api/events").header("content-type", "application/cloudevents+json");
    let refused = server.send(one, padded(CLOUD, EVENT_BYTES_MAX + 1)).await;
    assert_eq!(
        refused.status, 401,
        "ED-029: who may not publish does not learn the size"
    );
    server.stop_and_wait().await;
}

/// ED-059: bytes of binary mode count as they are encoded.
#[tokio::test]
async fn bytes_count_as_base64() {
    let server = TestServer::start().await;
    let cloud = json!({ "inputSchema": "CloudEventSchemaV1_0" });
    let key = server.topic_with("cloud", cloud).await;
    let envelope = format!(r#"{{{CLOUD},"datacontenttype":"image/png","data_base64":""}}"#).len();
    let fits = (EVENT_BYTES_MAX - envelope) / 4 * 3;
    for (len, status) in [(fits, 200), (fits + 1, 413)] {
        let mut request = Request::post("/cloud/api/events").header("aeg-sas-key", &key);
        for (name, value) in [
            ("ce-specversion", "1.0"),
            ("ce-id", "1"),
            ("ce-source", "/s"),
            ("ce-type", "t"),
            ("content-type", "image/png"),
        ] {
            request = request.header(name, value);
        }
        let answer = server.send(request, vec![0xff; len]).await;
        assert_eq!(answer.status, status, "{len}: {answer:?}");
    }
    server.stop_and_wait().await;
}

/// ED-057: the count is exact too, and a body that is too large says how large it is.
#[tokio::test]
async fn refusals_for_size_say_limit_and_measure() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let one = &event("1")[1..event("1").len() - 1];
    let many = |count| format!("[{}]", vec![one; count].join(","));
    assert_eq!(
        server.publish("orders", &key, many(5_000)).await.status,
        200
    );
    let refused = server.publish("orders", &key, many(5_001)).await;
    assert_eq!(refused.status, 413);
    assert!(
        refused.message().contains("5000 events") && refused.message().contains("index 5000"),
        "{}",
        refused.message()
    );
    let large = " ".repeat(BODY_BYTES_MAX + 1);
    let refused = server.publish("orders", &key, large).await;
    assert_eq!(refused.status, 413);
    for part in ["1536001 bytes", "1536000 bytes"] {
        assert!(refused.message().contains(part), "{}", refused.message());
    }
    server.stop_and_wait().await;
}

/// What was refused early is let run out: the client reads its answer, and the connection serves the next request.
#[tokio::test]
async fn a_connection_survives_a_refused_body() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let small = event("1");
    let large = " ".repeat(3 << 20);
    for (key, body, status) in [
        (key.as_str(), &large, 413),
        ("wrong", &large, 401),
        (key.as_str(), &small, 200),
        (key.as_str(), &"{".repeat(400_000), 400),
        (key.as_str(), &small, 200),
    ] {
        let head = format!(
            "POST /orders/api/events HTTP/1.1\r\nhost: x\r\naeg-sas-key: {key}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        // All of it is written before anything is read, as simple clients do.
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let answer = answer(&mut stream).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(!answer.contains("retry-after"), "{answer}");
    }
    server.stop_and_wait().await;
}

/// One answer with a `content-length`.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let byte = stream.read_u8().await.unwrap();
        text.push(byte);
        if text.ends_with(b"\r\n\r\n") {
            break;
        }
    }
    let head = String::from_utf8(text).unwrap();
    let len = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |len| len.parse().unwrap());
    let mut body = vec![0; len];
    stream.read_exact(&mut body).await.unwrap();
    head + std::str::from_utf8(&body).unwrap()
}
