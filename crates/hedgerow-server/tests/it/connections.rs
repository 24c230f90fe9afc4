//! Design D6: idle connections keep nobody out, and publishing, admin API and probes have room of their own.

use hedgerow_server::ServerOptions;
use http::Request;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{TestServer, config, event, send};

const MAX: usize = 8;

async fn server(data: &std::path::Path) -> TestServer {
    let mut settings = config(data);
    settings.http.connections_max = MAX;
    settings.http.close_timeout = std::time::Duration::from_millis(100);
    TestServer::run(settings, ServerOptions::default()).await
}

/// A connection on which one request was answered, and which idles since.
async fn idle(server: &TestServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
    }
    stream
}

#[tokio::test]
async fn idle_connections_make_room_for_new_ones() {
    let data = tempfile::tempdir().unwrap();
    let server = server(data.path()).await;
    let mut connections = Vec::new();
    for round in 0..3 * MAX {
        // Some never say anything, some stop in the middle of a head.
        let mut stream = match round % 3 {
            0 => idle(&server).await,
            _ => TcpStream::connect(server.address).await.unwrap(),
        };
        if round % 3 == 1 {
            stream.write_all(b"POST /orders/api").await.unwrap();
        }
        connections.push(stream);
    }
    let key = server.topic("orders").await;
    assert_eq!(server.publish("orders", &key, event("1")).await.status, 200);
    // The first to come idles for longest.
    assert!(matches!(
        connections[0].read(&mut [0; 1]).await,
        Ok(0) | Err(_)
    ));
    server.stop_and_wait().await;
}

/// Publishers that are slow to send their events take their share, and the admin API answers; both are told when.
#[tokio::test]
async fn publishing_leaves_room_for_the_admin_api_and_probes() {
    let data = tempfile::tempdir().unwrap();
    let server = server(data.path()).await;
    let key = server.topic("orders").await;
    let head = format!(
        "POST /orders/api/events HTTP/1.1\r\nhost: localhost\r\naeg-sas-key: {key}\r\nexpect: 100-continue\r\n\
         content-length: 2\r\n\r\n"
    );
    let mut publishers = Vec::new();
    for publisher in 0..MAX - 1 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
        }
        let answer = String::from_utf8(answer).unwrap();
        if publisher < MAX - 2 {
            assert!(answer.starts_with("HTTP/1.1 100"), "{publisher}: {answer}");
        } else {
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            let answer = answer.to_ascii_lowercase();
            assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
        }
        publishers.push(stream);
    }
    let health = send(server.address, Request::get("/healthz"), "").await;
    assert_eq!(health.status, 200);
    let topics = server.admin("GET", "/api/v1/topics", Value::Null).await;
    assert_eq!(topics.status, 200);
    // Those that were let in are not let go: they end as they would have.
    for stream in &mut publishers[..MAX - 2] {
        stream.write_all(b"[]").await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
    server.stop_and_wait().await;
}
