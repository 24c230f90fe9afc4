//! Requests that are no HTTP, or too much of it, are answered like every other refusal (ED-065, ED-067), and whoever writes all
//! before he reads gets to read it.

use http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Answer, TestServer, event};

/// What a connection answers to these bytes until it ends: the head in lines, and the body.
pub async fn ask(server: &TestServer, bytes: &[u8]) -> (Vec<String>, Value) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let head = head.lines().map(str::to_ascii_lowercase).collect();
    (head, serde_json::from_str(body).expect("a body"))
}

/// The vendor's body, and a request id that stands in it.
pub fn check(status: &str, head: &[String], body: &Value) -> String {
    assert!(
        head[0].starts_with(&format!("http/1.1 {status} ")),
        "{head:?}"
    );
    let header = |name: &str| {
        let mut lines = head.iter().filter_map(|line| line.strip_prefix(name));
        lines
            .next()
            .unwrap_or_else(|| panic!("{name} in {head:?}"))
            .to_owned()
    };
    assert_eq!(header("content-type: "), "application/json; charset=utf-8");
    let id = header("x-ms-request-id: ");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("Report '{id}:0:")), "{message}");
    assert_eq!(body["error"]["code"], "BadRequest");
    message.to_owned()
}

/// A client that speaks TLS to a port without it: the log says so, where it said that a request line cannot be read (issue 4).
#[tokio::test]
async fn tls_to_a_port_without_it_is_told_as_such_issue_4() {
    let server = TestServer::start().await;
    let mut hello = vec![22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];
    hello.resize(205, 7);
    let (head, body) = ask(&server, &hello).await;
    let message = check("400", &head, &body);
    assert!(message.contains("The client speaks TLS"), "{message}");
    server.stop_and_wait().await;
}

/// ED-064, ED-065, ED-067.
#[tokio::test]
async fn what_cannot_be_read_is_answered_like_other_refusals() {
    let server = TestServer::start().await;
    let headers = |count| "x-one: 1\r\n".repeat(count);
    let long = "x".repeat(70 << 10);
    for (request, status, part) in [
        (
            "no request at all\r\n\r\n".to_owned(),
            "400",
            "request line",
        ),
        (
            "POST /orders/api/events HTTP/1.1\r\nhost: x\r\nb\u{1}d: 1\r\n\r\n".to_owned(),
            "400",
            "headers",
        ),
        (
            "GET /healthz HTTP/7.1\r\nhost: x\r\n\r\n".to_owned(),
            "400",
            "HTTP/1.1",
        ),
        (
            "GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(),
            "400",
            "no header 'Host'",
        ),
        (
            "GET /api/v1/topics HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n".to_owned(),
            "400",
            "more than one header 'Host'",
        ),
        (
            "POST /orders/api/events HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
                .to_owned(),
            "400",
            "Transfer-Encoding",
        ),
        (
            format!("GET /healthz HTTP/1.1\r\n{}\r\n", headers(257)),
            "431",
            "256 headers",
        ),
        (
            format!("GET /healthz HTTP/1.1\r\nx: {long}\r\n\r\n"),
            "431",
            "65536 bytes",
        ),
    ] {
        let (head, body) = ask(&server, request.as_bytes()).await;
        let message = check(status, &head, &body);
        assert!(message.contains(part), "{message}");
    }
    // Behind one that could be read, on the same connection.
    let two = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(two.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
    }
    stream.write_all(b"b\xffd\r\n\r\n").await.unwrap();
    answer.clear();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("Report '"),
        "{answer}"
    );
    server.stop_and_wait().await;
}

/// A body in a coding is told by its coding, and not by what stands in it.
#[tokio::test]
async fn coded_bodies_are_refused_by_their_coding() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    for (coding, status) in [("gzip", 415), ("identity, br", 415), ("Identity", 200)] {
        let request = Request::post("/orders/api/events")
            .header("aeg-sas-key", &key)
            .header("content-encoding", coding);
        let answer = server.send(request, event("1")).await;
        assert_eq!(answer.status, status, "{coding}: {}", answer.text());
        if status == 415 {
            let named = coding.rsplit(' ').next().unwrap();
            assert!(answer.message().contains(named), "{}", answer.text());
            assert_eq!(answer.header("accept-encoding"), Some("identity"));
        }
    }
    let request = Request::put("/api/v1/topics/more")
        .header("authorization", format!("Bearer {}", server.token))
        .header("content-encoding", "gzip");
    let answer = server.send(request, "{}").await;
    assert_eq!(
        (answer.status.as_u16(), answer.code().as_str()),
        (415, "UnsupportedEncoding")
    );
    server.stop_and_wait().await;
}

/// ED-037, ED-046: as many extension attributes as an event may have fit into headers.
#[tokio::test]
async fn binary_cloud_events_may_have_all_their_extensions() {
    let server = TestServer::start().await;
    let cloud = json!({ "inputSchema": "CloudEventSchemaV1_0" });
    let key = server.topic_with("cloud", cloud).await;
    for (count, status) in [(92, 200), (100, 200), (101, 400)] {
        let mut request = Request::post("/cloud/api/events").header("aeg-sas-key", &key);
        for (name, value) in [
            ("specversion", "1.0"),
            ("id", "1"),
            ("source", "/s"),
            ("type", "t"),
        ] {
            request = request.header(format!("ce-{name}"), value);
        }
        for extension in 0..count {
            request = request.header(format!("ce-ext{extension}"), "1");
        }
        let answer: Answer = server.send(request, "").await;
        assert_eq!(answer.status, status, "{count}: {}", answer.text());
        if status == 400 {
            assert!(answer.message().contains("100"), "{}", answer.message());
        }
    }
    server.stop_and_wait().await;
}

/// A refused upload is read on for a while, and the answer is there when it is looked for.
#[tokio::test]
async fn whoever_writes_all_first_reads_the_refusal() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    for (key, len, status) in [(key.as_str(), 24 << 20, "413"), ("wrong", 24 << 20, "401")] {
        let head = format!(
            "POST /orders/api/events HTTP/1.1\r\nhost: x\r\naeg-sas-key: {key}\r\ncontent-length: {len}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; len]).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).expect("all of the answer");
        assert!(body["error"]["code"].is_string(), "{body}");
    }
    assert_eq!(server.publish("orders", &key, event("1")).await.status, 200);
    server.stop_and_wait().await;
}
