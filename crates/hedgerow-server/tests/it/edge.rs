//! The edge listener on raw sockets: what origins and clients get, byte by byte (HP-150 to HP-188).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::origins::{declare, quick, status_path};
use crate::support::TestServer;
use crate::waits::{patiently, until};

/// How an origin meets what is no probe.
#[derive(Debug, Clone)]
enum Meets {
    /// Answers 200 with what it got as its body, and keeps the connection.
    Echo,
    /// Writes this once the head is there, and closes.
    Writes(&'static [u8]),
    /// Closes once the head is there.
    Closes,
    /// Becomes a WebSocket, and sends back what comes.
    Upgrades,
}

/// An origin of raw bytes. Probes are `HEAD` and get 200, unless it is unwell.
struct RawOrigin {
    address: SocketAddr,
    /// All that came on all connections, probes left out, a connection after the other as they were opened.
    got: Arc<Mutex<Vec<Vec<u8>>>>,
    is_well: watch::Sender<bool>,
}

impl RawOrigin {
    async fn start(meets: Meets) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (is_well, well) = watch::channel(true);
        tokio::spawn({
            let got = Arc::clone(&got);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, meets.clone(), Arc::clone(&got), well.clone()));
                }
            }
        });
        Self {
            address,
            got,
            is_well,
        }
    }

    fn declared(&self, name: &str) -> Value {
        json!({ "name": name, "host": "127.0.0.1", "http_port": self.address.port() })
    }

    /// Everything that came, as text.
    fn text(&self) -> String {
        let got = self.got.lock().unwrap().concat();
        String::from_utf8_lossy(&got).into_owned()
    }
}

async fn serve(
    mut stream: TcpStream,
    meets: Meets,
    got: Arc<Mutex<Vec<Vec<u8>>>>,
    well: watch::Receiver<bool>,
) {
    let mut place = None;
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        all.extend_from_slice(&buffer[..read]);
        if all.starts_with(b"HEAD ") && all.windows(4).any(|end| end == b"\r\n\r\n") {
            let status = if *well.borrow() { "200 OK" } else { "503 Busy" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
            return;
        }
        {
            let mut got = got.lock().unwrap();
            let place = *place.get_or_insert_with(|| {
                got.push(Vec::new());
                got.len() - 1
            });
            got[place].extend_from_slice(&buffer[..read]);
        }
        if !is_whole(&all) {
            continue;
        }
        match meets {
            Meets::Echo => {
                let mut answer =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", all.len())
                        .into_bytes();
                answer.append(&mut all);
                let _ = stream.write_all(&answer).await;
            }
            Meets::Writes(bytes) => {
                let _ = stream.write_all(bytes).await;
                return;
            }
            Meets::Closes => return,
            Meets::Upgrades => {
                let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
                let _ = stream.write_all(answer).await;
                while let Ok(read) = stream.read(&mut buffer).await {
                    if read == 0 || stream.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
                return;
            }
        }
    }
}

/// Whether a request is there as a whole.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    if head.contains("Transfer-Encoding: chunked") {
        return body.ends_with("0\r\n\r\n");
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

/// A server with an edge, a group of these origins that are all healthy, and a route to it.
async fn start(
    origins: &[&RawOrigin],
    change: impl FnOnce(&mut hedgerow_server::Config),
) -> TestServer {
    let server = TestServer::start_with(|config| {
        config.edge.listen = Some("127.0.0.1:0".parse().unwrap());
        change(config);
    })
    .await;
    let names = ["a", "b", "c"];
    let declared: Vec<Value> = names
        .iter()
        .zip(origins)
        .map(|(name, origin)| origin.declared(name))
        .collect();
    declare(&server, "shop", quick(&declared)).await;
    healthy(&server, origins.len()).await;
    let route = json!({
        "hosts": ["shop.example"], "origin_group": "shop", "forwarding_protocol": "http",
    });
    let made = server.admin("PUT", "/api/v1/routes/all", route).await;
    assert!(made.status.is_success(), "{}", made.text());
    let ask = async || {
        ask(
            &server,
            b"GET /known HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n",
        )
        .await
    };
    until("a route that is served", ask, |answer| {
        !answer.contains("no_route")
    })
    .await;
    for origin in origins {
        let mut got = origin.got.lock().unwrap();
        got.iter_mut().for_each(Vec::clear);
    }
    server
}

/// Waits until so many origins are healthy.
async fn healthy(server: &TestServer, count: usize) {
    let ask = async || {
        let told = server.admin("GET", &status_path("shop"), Value::Null).await;
        let told = told.json();
        let origins = told["status"]["origins"].as_array().cloned();
        let origins = origins.into_iter().flatten();
        origins
            .filter(|origin| origin["state"] == "healthy")
            .count()
    };
    until("healthy origins", ask, |found| *found == count).await;
}

fn edge(server: &TestServer) -> SocketAddr {
    server.edge.plain.unwrap()
}

/// Writes bytes as they are, and reads until the edge closes.
async fn ask(server: &TestServer, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(edge(server)).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A reset is an end too.
    let read = stream.read_to_end(&mut answer);
    let _ = patiently("the end of an answer", read).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// HP-168: what two readers could take for different requests gets 400, the connection is closed, and nothing of what stands
/// behind it reaches an origin.
#[tokio::test]
async fn nothing_is_smuggled() {
    let origin = RawOrigin::start(Meets::Echo).await;
    let server = start(&[&origin], |_| {}).await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: shop.example\r\n\r\n";
    let heads = [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 0\r\nContent-Length: 44\r\n",
        "Content-Length: 0, 44\r\n",
        "Content-Length: +0\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x0\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length : 0\r\n",
        "Content-Length\t: 0\r\n",
        "Content_Length: 44\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer_Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: chunked\r\n x: y\r\n",
        "X: a\r\n b\r\n",
        "X: a\rb\r\n",
        "X: a\nY: b\r\n",
        "X: a\0b\r\n",
        " X: a\r\n",
        ": a\r\n",
        "X\x7f: a\r\n",
        "no colon\r\n",
        "Host: other.example\r\n",
        "Host : shop.example\r\n",
    ];
    for head in heads {
        let request = format!("POST / HTTP/1.1\r\nHost: shop.example\r\n{head}\r\n{smuggled}");
        let answer = ask(&server, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
        assert!(answer.contains("Connection: close"), "{head:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{head:?}: {answer}");
        assert_eq!(origin.text(), "", "{head:?}");
    }
    let whole = [
        format!("GET / HTTP/1.1\r\n\r\n{smuggled}"),
        format!("GET  / HTTP/1.1\r\nHost: shop.example\r\n\r\n{smuggled}"),
        format!("GET / HTTP/1.1 \r\nHost: shop.example\r\n\r\n{smuggled}"),
        format!("GET / HTTP/2.0\r\nHost: shop.example\r\n\r\n{smuggled}"),
        format!("GET /\r\nHost: shop.example\r\n\r\n{smuggled}"),
        format!("GET / HTTP/1.1\nHost: shop.example\n\n{smuggled}"),
        format!("GET http://other.example/ HTTP/1.1\r\nHost: shop.example\r\n\r\n{smuggled}"),
        format!(
            "POST / HTTP/1.0\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
        ),
        format!("CONNECT shop.example:80 HTTP/1.1\r\nHost: shop.example\r\n\r\n{smuggled}"),
    ];
    for request in &whole {
        let answer = ask(&server, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request:?}: {answer}");
        assert_eq!(origin.text(), "", "{request:?}");
    }
    // In a chunked body that was begun: the request is on its way, what follows is not.
    for body in [
        "5\nabcde\r\n0\r\n\r\n",
        "5\r\nabcdeX\r\n0\r\n\r\n",
        "-1\r\n",
        "5 \r\nabcde\r\n",
        "\r\n0\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
    ] {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\n\r\n{body}{smuggled}"
        );
        let answer = ask(&server, request.as_bytes()).await;
        assert!(!answer.contains("HTTP/1.1 200"), "{body:?}: {answer}");
        assert!(!origin.text().contains("smuggled"), "{body:?}");
    }
    server.stop_and_wait().await;
}

/// HP-160 to HP-165, HP-154: the headers as the origin has them, in both profiles; what clients say under these names is gone.
#[tokio::test]
async fn an_origin_is_told_who_asks() {
    for (profile, names) in [
        (
            "hedgerow",
            [
                "X-Hedgerow-Client-IP: 198.51.100.7",
                "X-Hedgerow-Socket-IP: 127.0.0.1",
                "X-Hedgerow-Hops: 3",
            ],
        ),
        (
            "front-door",
            [
                "X-Azure-ClientIP: 198.51.100.7",
                "X-Azure-SocketIP: 127.0.0.1",
                "X-Azure-RequestChain: hops=3",
            ],
        ),
    ] {
        let origin = RawOrigin::start(Meets::Echo).await;
        let server = start(&[&origin], |config| {
            let profile = hedgerow_edge::profile::HeaderProfile::named(profile);
            config.edge.header_profile = profile.unwrap();
            config.edge.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        })
        .await;
        let request = "GET /a/../b?q=%2F HTTP/1.1\r\nHost: shop.example:8000\r\nX-Forwarded-For: 198.51.100.7\r\n\
            X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\nX-FD-HealthProbe: 1\r\nX-Azure-FDID: mine\r\n\
            X-Hedgerow-Edge-Id: mine\r\nX_Hedgerow_Client_IP: 1.2.3.4\r\nX-Hedgerow-Hops: 2\r\nVia: 1.0 before\r\n\
            Connection: close, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nAccept: */*\r\n\r\n";
        let answer = ask(&server, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let got = origin.text();
        assert!(
            got.starts_with("GET /b?q=%2F HTTP/1.1\r\nHost: shop.example:8000\r\n"),
            "{got}"
        );
        for line in names.into_iter().chain([
            "X-Forwarded-For: 198.51.100.7, 127.0.0.1",
            "X-Forwarded-Host: shop.example:8000",
            "X-Forwarded-Proto: http",
            "Via: 1.0 before, 1.1 hedgerow",
            "Accept: */*",
        ]) {
            assert_eq!(
                got.matches(&format!("\r\n{line}\r\n")).count(),
                1,
                "{profile} {line}: {got}"
            );
        }
        for gone in [
            "evil",
            "HealthProbe",
            "mine",
            "1.2.3.4",
            "X-Secret",
            "Keep-Alive",
            "TE:",
            "Connection",
        ] {
            assert!(!got.contains(gone), "{profile} {gone}: {got}");
        }
        let reference = if profile == "hedgerow" {
            "X-Hedgerow-Ref: "
        } else {
            "X-Azure-Ref: "
        };
        let of = |text: &str| text.split(reference).nth(1).unwrap()[..16].to_owned();
        assert_eq!(
            of(&answer),
            of(&got),
            "the client has the reference that the origin has"
        );
        server.stop_and_wait().await;
    }
}

/// HP-164: after ten edges it is a loop. HP-153, HP-155, HP-175, HP-177: answers of the edge's own.
#[tokio::test]
async fn the_edge_answers_itself() {
    let origin = RawOrigin::start(Meets::Echo).await;
    let server = start(&[&origin], |config| {
        config.edge.request_timeout = Duration::from_millis(300);
        config.edge.max_request_body_bytes = 10;
    })
    .await;
    let route =
        json!({ "hosts": ["secure.example"], "origin_group": "shop", "https_redirect": 308 });
    server.admin("PUT", "/api/v1/routes/secure", route).await;
    let redirect = async || {
        ask(
            &server,
            b"GET /x?y=1 HTTP/1.1\r\nHost: secure.example\r\nConnection: close\r\n\r\n",
        )
        .await
    };
    let answer = until("a redirect", redirect, |answer| answer.contains(" 308 ")).await;
    assert!(
        answer.contains("\r\nLocation: https://secure.example/x?y=1\r\n"),
        "{answer}"
    );
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: shop.example\r\n\r\n",
        "a".repeat(9_000)
    );
    let large = format!(
        "GET / HTTP/1.1\r\nHost: shop.example\r\nX: {}\r\n\r\n",
        "a".repeat(70_000)
    );
    let rows: [(&str, &str, &str); 8] = [
        (
            "GET / HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n",
            "400",
            "no_route",
        ),
        (
            "GET /%zz HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n",
            "400",
            "bad_request",
        ),
        (
            "GET / HTTP/1.1\r\nHost: shop.example\r\nX-Hedgerow-Hops: 10\r\nConnection: close\r\n\r\n",
            "508",
            "loop",
        ),
        (
            "POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 11\r\n\r\n",
            "413",
            "body_too_large",
        ),
        ("GET / HTTP/1.1\r\nHost: sh", "408", "client_timeout"),
        (
            "POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 5\r\n\r\nab",
            "408",
            "client_timeout",
        ),
        (&long, "414", "uri_too_long"),
        (&large, "431", "header_too_large"),
    ];
    for (request, status, code) in rows {
        let answer = ask(&server, request.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{code}: {answer}"
        );
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], code);
        assert!(
            !answer.contains(&origin.address.port().to_string()),
            "{answer}"
        );
    }
    assert_eq!(origin.text(), "");
    server.stop_and_wait().await;
}

/// HP-172, HP-173: an origin that closes before it answers is passed over where the request may be sent twice; others get 502.
#[tokio::test]
async fn another_origin_is_asked() {
    let (closes, echoes) = (
        RawOrigin::start(Meets::Closes).await,
        RawOrigin::start(Meets::Echo).await,
    );
    let server = start(&[&closes, &echoes], |_| {}).await;
    for number in 0..4 {
        let request = format!(
            "PUT /{number} HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
        );
        let answer = ask(&server, request.as_bytes()).await;
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("body"),
            "{answer}"
        );
    }
    assert!(
        closes.text().contains("PUT /"),
        "it was asked first now and then"
    );
    let mut statuses = Vec::new();
    for _ in 0..2 {
        let request = b"POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
        statuses.push(ask(&server, request).await[9..12].to_owned());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, ["200", "502"], "in turn");
    server.stop_and_wait().await;
}

/// HP-176, HP-043: an answer that does not end is cut, one that is no HTTP is 502 and says so.
#[tokio::test]
async fn a_cut_answer_never_looks_whole() {
    let rows: [(&'static [u8], &str); 5] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "200"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "200",
        ),
        (b"nonsense\r\n\r\n", "malformed_response"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "malformed_response",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "malformed_response",
        ),
    ];
    for (bytes, expect) in rows {
        let origin = RawOrigin::start(Meets::Writes(bytes)).await;
        let server = start(&[&origin], |_| {}).await;
        let answer = ask(
            &server,
            b"GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n",
        )
        .await;
        if expect == "200" {
            assert!(
                answer.starts_with("HTTP/1.1 200 ") && !answer.ends_with("0\r\n\r\n"),
                "{answer}"
            );
            assert!(answer.len() < 200, "{answer}");
        } else {
            assert!(
                answer.starts_with("HTTP/1.1 502 ") && answer.contains(expect),
                "{answer}"
            );
        }
        server.stop_and_wait().await;
    }
}

/// HP-181: bytes pass both ways after 101, also while the origin turns unhealthy; before it nothing is passed on.
#[tokio::test]
async fn a_websocket_outlives_the_health_of_its_origin() {
    let origin = RawOrigin::start(Meets::Upgrades).await;
    let server = start(&[&origin], |_| {}).await;
    let mut stream = TcpStream::connect(edge(&server)).await.unwrap();
    let request =
        b"GET /ws HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(patiently("a 101", stream.read_u8()).await.unwrap());
    }
    assert!(
        head.starts_with(b"HTTP/1.1 101 "),
        "{}",
        String::from_utf8_lossy(&head)
    );
    origin.is_well.send_replace(false);
    healthy(&server, 0).await;
    stream.write_all(b"\x81\x02hi").await.unwrap();
    let mut back = [0; 4];
    patiently("what comes back", stream.read_exact(&mut back))
        .await
        .unwrap();
    assert_eq!(&back, b"\x81\x02hi");
    drop(stream);
    server.stop_and_wait().await;
}

/// HP-184, HP-185: a body passes in chunks as it comes, byte for byte; connections are kept for the next request.
#[tokio::test]
async fn large_bodies_pass_as_they_come() {
    let origin = RawOrigin::start(Meets::Echo).await;
    let server = start(&[&origin], |_| {}).await;
    let mut stream = TcpStream::connect(edge(&server)).await.unwrap();
    for _ in 0..2 {
        let body = vec![b'x'; 300_000];
        let head = b"POST / HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        for piece in body.chunks(70_000) {
            stream
                .write_all(format!("{:x};ext=1\r\n", piece.len()).as_bytes())
                .await
                .unwrap();
            stream.write_all(piece).await.unwrap();
            stream.write_all(b"\r\n").await.unwrap();
        }
        stream
            .write_all(b"0\r\nTrailer: gone\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        let mut buffer = vec![0; 65_536];
        let length = loop {
            let read = patiently("an answer", stream.read(&mut buffer))
                .await
                .unwrap();
            answer.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&answer);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("Content-Length: "));
                let length: usize = length.unwrap().parse().unwrap();
                if body.len() >= length {
                    break length;
                }
            }
        };
        assert!(length > 300_000);
        let text = String::from_utf8_lossy(&answer);
        // Behind the head of the answer, and the head that came back with it.
        let chunks = text.splitn(3, "\r\n\r\n").nth(2).unwrap();
        assert_eq!(chunks.matches('x').count(), 300_000);
        assert!(
            !text.contains("gone") && !text.contains("ext=1"),
            "extensions and trailers are dropped"
        );
    }
    assert_eq!(
        origin.got.lock().unwrap().len(),
        1,
        "one connection served both"
    );
    drop(stream);
    server.stop_and_wait().await;
}

/// HP-172 to HP-174, HP-192: an origin is killed under load: no client of `GET` sees an error, and once probes have found out, which
/// failed requests hasten, nothing goes to the dead one any more.
#[tokio::test]
async fn a_killed_origin_is_noticed_by_no_client() {
    let data = tempfile::tempdir().unwrap();
    let mut config = crate::support::config(data.path());
    config.edge.listen = Some("127.0.0.1:0".parse().unwrap());
    // Intervals of seconds are over in moments.
    let options = hedgerow_server::ServerOptions {
        speed: std::num::NonZeroU32::new(20),
        ..hedgerow_server::ServerOptions::default()
    };
    let server = TestServer::run(config, options).await;
    let mut origins = [
        crate::origins::Origin::start().await,
        crate::origins::Origin::start().await,
        crate::origins::Origin::start().await,
    ];
    let declared: Vec<Value> = ["a", "b", "c"]
        .iter()
        .zip(&origins)
        .map(|(name, origin)| origin.declared(name))
        .collect();
    let group = json!({
        "probe": { "interval_s": 5, "timeout_s": 2 },
        "load_balancing": { "sample_size": 3, "successful_samples_required": 2 },
        "origins": declared,
    });
    declare(&server, "shop", group).await;
    healthy(&server, 3).await;
    let route =
        json!({ "hosts": ["shop.example"], "origin_group": "shop", "forwarding_protocol": "http" });
    server.admin("PUT", "/api/v1/routes/all", route).await;
    let request = b"GET /x HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";
    let get = async || ask(&server, request).await;
    until("a route that is served", get, |answer| {
        answer.starts_with("HTTP/1.1 200 ")
    })
    .await;
    let load = async |count: usize| {
        for _ in 0..count {
            let answer = get().await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    };
    // So many that a third of those to come may be asked again (HP-174).
    load(400).await;
    origins[0].kill().await;
    let states = async || {
        load(10).await;
        let told = server.admin("GET", &status_path("shop"), Value::Null).await;
        told.json()["status"]["origins"][0]["state"].clone()
    };
    until("an origin that is out", states, |state| {
        *state == "unhealthy"
    })
    .await;
    let retries = async || {
        let told = server.admin("GET", "/metrics", Value::Null).await;
        let told = told.text().to_owned();
        let mut lines = told.lines();
        let line = lines.find(|line| line.starts_with("hedgerow_edge_retries_total"));
        line.unwrap_or_default().to_owned()
    };
    // Those that had been sent there are over.
    load(1).await;
    let before = retries().await;
    assert!(before.contains("shop"), "it was asked, and others after it");
    load(50).await;
    assert_eq!(retries().await, before, "nothing goes there any more");
    server.stop_and_wait().await;
}

/// HP-170, HP-185: how long a request takes to be sent is no matter of the response: it has its time from then on.
#[tokio::test]
async fn a_long_upload_is_no_late_answer() {
    let origin = RawOrigin::start(Meets::Echo).await;
    let server = start(&[&origin], |config| {
        config.edge.response_timeout = Duration::from_secs(1);
        config.edge.request_timeout = Duration::from_secs(5);
    })
    .await;
    let mut stream = TcpStream::connect(edge(&server)).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    stream.write_all(head).await.unwrap();
    // Longer than the time for the response, and than both together.
    for _ in 0..70 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stream.write_all(b"1\r\nx\r\n").await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    patiently("an answer", read).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    server.stop_and_wait().await;
}
