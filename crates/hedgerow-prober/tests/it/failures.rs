//! Behaviour 2: each failure code, by a server or a network that really misbehaves. None of them is tried again.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_io::http::{
    Connect, ConnectError, Connecting, ConnectorOptions, GuardedConnector, Lookup, Target,
};
use hedgerow_origin::outcome::{Demands, Met, Reason};
use hedgerow_origin::settings::{Group, GroupSettings, Method, OriginSettings, Protocol};
use hedgerow_origin::statuses::Statuses;
use hedgerow_origin::target::ProbeTarget;
use hedgerow_prober::probe::{Aborted, Exchange, probe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::server::{OK, PATIENCE, Server, allowing, connector};
use crate::tls::{Authority, GOOD, tls_server};

/// Long enough for what ends by itself.
const T: Duration = PATIENCE;
/// For what does not.
const SHORT: Duration = Duration::from_millis(300);

fn target_of(host: &str, port: u16, protocol: Protocol, method: Method) -> ProbeTarget {
    let origin = OriginSettings {
        http_port: port.into(),
        https_port: port.into(),
        ..OriginSettings::new("a", host)
    };
    let mut settings = GroupSettings {
        origins: vec![origin.clone()],
        ..GroupSettings::default()
    };
    settings.probe.protocol = protocol;
    settings.probe.method = method;
    ProbeTarget::of(&Group::new(settings).unwrap(), &origin)
}

async fn send(
    connector: &dyn Connect,
    target: &ProbeTarget,
    timeout: Duration,
) -> Result<Exchange, Aborted> {
    let demands = Demands {
        timeout,
        ..Demands::default()
    };
    probe(connector, target, &demands, || Duration::from_secs(7)).await
}

/// How a probe ends, judged by the demands that it was sent with.
async fn judged(target: &ProbeTarget, timeout: Duration) -> Result<u64, Reason> {
    let exchange = send(&*connector(), target, timeout).await.unwrap();
    assert_eq!(exchange.observation.at, Duration::from_secs(7));
    exchange.observation.judge(&Demands {
        timeout,
        ..Demands::default()
    })
}

async fn judged_plain(server: &Server, method: Method, timeout: Duration) -> Result<u64, Reason> {
    let target = target_of("127.0.0.1", server.address.port(), Protocol::Http, method);
    judged(&target, timeout).await
}

/// HP-040 to HP-048, HP-011: what is answered, and what that is.
#[tokio::test]
async fn answers_that_are_failures() {
    let big = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(4_096));
    let eight = "HTTP/1.1 100 Continue\r\n\r\n".repeat(8);
    let good = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
    let bodies = "z".repeat((1 << 20) + 1);
    let rows: Vec<(String, Method, Result<(), Reason>)> = vec![
        (good.to_owned(), Method::Head, Ok(())),
        (format!("{good}ok"), Method::Get, Ok(())),
        (
            format!("{good}o"),
            Method::Get,
            Err(Reason::IncompleteResponse),
        ),
        (
            "HTTP/1.1 200 OK\r\n\r\nuntil the end".to_owned(),
            Method::Get,
            Ok(()),
        ),
        ("HTTP/1.0 200\r\n\r\n".to_owned(), Method::Head, Ok(())),
        (format!("{eight}{good}"), Method::Head, Ok(())),
        (
            format!("{eight}HTTP/1.1 103 Early\r\n\r\n{good}"),
            Method::Head,
            Err(Reason::MalformedResponse),
        ),
        (
            "HTTP/1.1 101 Switching\r\n\r\n".to_owned(),
            Method::Head,
            Err(Reason::Status),
        ),
        (
            "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            Method::Head,
            Err(Reason::Status),
        ),
        (
            "HTTP/1.1 503 Busy\r\n\r\n".to_owned(),
            Method::Head,
            Err(Reason::Status),
        ),
        (
            "<html>hello</html>\n".to_owned(),
            Method::Head,
            Err(Reason::MalformedResponse),
        ),
        (
            "HTTP/2 200\r\n\r\n".to_owned(),
            Method::Head,
            Err(Reason::MalformedResponse),
        ),
        (
            "HTTP/1.1 200 OK\r\na b: c\r\n\r\n".to_owned(),
            Method::Head,
            Err(Reason::MalformedResponse),
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_owned(),
            Method::Head,
            Err(Reason::MalformedResponse),
        ),
        (
            "HTTP/1.1 200 OK\r\nhalf".to_owned(),
            Method::Head,
            Err(Reason::ConnectionReset),
        ),
        (String::new(), Method::Head, Err(Reason::ConnectionReset)),
        (big, Method::Head, Err(Reason::HeaderTooLarge)),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nx\r\n".to_owned(),
            Method::Get,
            Err(Reason::IncompleteResponse),
        ),
        (
            format!("HTTP/1.1 200 OK\r\n\r\n{bodies}"),
            Method::Get,
            Err(Reason::BodyTooLarge),
        ),
    ];
    for (answer, method, expect) in rows {
        let told: String = answer.chars().take(80).collect();
        let sent = answer.clone();
        let server = Server::answering(move |mut stream, _| {
            let answer = sent.clone();
            async move {
                // The prober may have seen enough before this is all.
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
                let _ = stream.read_u8().await;
            }
        })
        .await;
        let judged = judged_plain(&server, method, T).await;
        assert_eq!(judged.map(|_| ()), expect, "{told:?}");
        assert_eq!(server.accepted(), 1, "{told:?}");
    }
}

/// HP-042: interim answers without an end do not hold the probe longer than its deadline, nor for that long.
#[tokio::test]
async fn endless_interim_answers_are_not_listened_to() {
    let server = Server::answering(|mut stream, _| async move {
        while stream
            .write_all(b"HTTP/1.1 102 Processing\r\n\r\n")
            .await
            .is_ok()
        {}
    })
    .await;
    let judged = judged_plain(&server, Method::Head, T).await;
    assert_eq!(judged, Err(Reason::MalformedResponse));
}

/// HP-041: a redirect is a failure, or what is expected (FC-24), and is followed in no case.
#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Server::answering(|mut stream, _| async move {
        let _ = stream.write_all(OK).await;
    })
    .await;
    let location = elsewhere.address;
    let server = Server::answering(move |mut stream, _| async move {
        let answer = format!("HTTP/1.1 301 Moved\r\nlocation: http://{location}/\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let port = server.address.port();
    let target = target_of("127.0.0.1", port, Protocol::Http, Method::Get);
    let exchange = send(&*connector(), &target, T).await.unwrap();
    assert_eq!(exchange.observation.status(), Some(301));
    let mut demands = Demands::default();
    assert_eq!(exchange.observation.judge(&demands), Err(Reason::Status));
    demands.expected = Statuses::of([200, 301]);
    let at = || Duration::ZERO;
    let exchange = probe(&*connector(), &target, &demands, at).await.unwrap();
    assert!(exchange.observation.judge(&demands).is_ok());
    assert!(exchange.excerpt.starts_with(b"HTTP/1.1 301 Moved\r\n"));
    assert_eq!((server.accepted(), elsewhere.accepted()), (2, 0));
}

/// HP-020: a server that is silent, and a body that comes too slowly, are dropped at the deadline.
#[tokio::test]
async fn what_takes_too_long_is_dropped_at_the_deadline() {
    let (told, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let silent = Server::raw(move |mut stream, _| {
        let told = told.clone();
        async move {
            // Until the prober closes.
            let mut request = Vec::new();
            let _ = stream.read_to_end(&mut request).await;
            told.send(()).unwrap();
        }
    })
    .await;
    let slow = Server::answering(|mut stream, _| async move {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
            .await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    for (server, method) in [(&silent, Method::Head), (&slow, Method::Get)] {
        let port = server.address.port();
        let target = target_of("127.0.0.1", port, Protocol::Http, method);
        let exchange = send(&*connector(), &target, SHORT).await.unwrap();
        assert_eq!(exchange.observation.met, Met::Failure(Reason::Timeout));
        let elapsed = Duration::from_micros(exchange.observation.elapsed_us);
        assert!(elapsed >= SHORT, "{elapsed:?}");
        assert_eq!(exchange.peer, Some(server.address));
    }
    ended.recv().await.unwrap();
}

/// HP-043: closed before, or instead of, an answer.
#[tokio::test]
async fn connections_that_break_are_resets() {
    let closing = Server::raw(|stream, _| async move { drop(stream) }).await;
    let resetting = Server::answering(|stream, _| async move {
        // With something unread in it, a socket is reset and not closed in order.
        stream.set_zero_linger().unwrap();
    })
    .await;
    for server in [&closing, &resetting] {
        let judged = judged_plain(server, Method::Head, T).await;
        assert_eq!(judged, Err(Reason::ConnectionReset));
    }
}

/// HP-043: what happens before there is a connection.
#[tokio::test]
async fn connections_that_cannot_be_made() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let target = target_of("127.0.0.1", closed, Protocol::Http, Method::Head);
    assert_eq!(judged(&target, T).await, Err(Reason::ConnectRefused));

    let silent = FullListener::start().await;
    let target = target_of("127.0.0.1", silent.port(), Protocol::Http, Method::Head);
    assert_eq!(judged(&target, SHORT).await, Err(Reason::ConnectTimeout));

    // HP-028: no packet is sent there.
    let target = target_of("10.0.0.1", 80, Protocol::Http, Method::Head);
    assert_eq!(judged(&target, T).await, Err(Reason::AddressForbidden));

    // No route leads to the address of everybody.
    let target = target_of("255.255.255.255", 80, Protocol::Http, Method::Head);
    let exchange = send(&*allowing(&["255.255.255.255/32"]), &target, T).await;
    let met = exchange.unwrap().observation.met;
    assert_eq!(met, Met::Failure(Reason::ConnectUnreachable));
}

/// A socket that is listened on, whose queue of connections is full: whoever connects waits.
struct FullListener {
    listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl FullListener {
    async fn start() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(connected) =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            waiting.push(connected.unwrap());
        }
        Self {
            listener,
            _waiting: waiting,
        }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }
}

fn resolving(
    lookup: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
) -> Arc<dyn Connect> {
    Arc::new(GuardedConnector::new(ConnectorOptions {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        lookup: Some(Lookup::new(move |name, _| lookup(name))),
        ..ConnectorOptions::default()
    }))
}

/// HP-043: names that do not resolve, and a resolver that says nothing.
#[tokio::test]
async fn names_that_cannot_be_resolved() {
    let target = target_of("nowhere.example", 80, Protocol::Http, Method::Head);
    let failing = resolving(|_| Err(io::Error::other("no such host")));
    let exchange = send(&*failing, &target, T).await.unwrap();
    let met = exchange.observation.met;
    assert_eq!(met, Met::Failure(Reason::DnsError));
    assert_eq!(exchange.observation.parts.total_us, None);

    let (released, release) = std::sync::mpsc::channel::<()>();
    let release = std::sync::Mutex::new(release);
    let hanging = resolving(move |_| {
        let _ = release.lock().unwrap().recv();
        Err(io::Error::other("too late"))
    });
    let exchange = send(&*hanging, &target, SHORT).await.unwrap();
    let met = exchange.observation.met;
    assert_eq!(met, Met::Failure(Reason::DnsTimeout));
    drop(released);
}

/// HP-025: when the resolver fails, the addresses of before are used on.
#[tokio::test]
async fn earlier_addresses_outlast_the_resolver() {
    let server = Server::answering(|mut stream, _| async move {
        let _ = stream.write_all(OK).await;
    })
    .await;
    let address = server.address;
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let flaky = resolving(
        move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Ok(vec![address]),
            _ => Err(io::Error::other("the resolver is away")),
        },
    );
    let target = target_of("a.example", address.port(), Protocol::Http, Method::Head);
    for _ in 0..3 {
        let exchange = send(&*flaky, &target, T).await.unwrap();
        assert!(exchange.observation.judge(&Demands::default()).is_ok());
    }
    let other = target_of("b.example", address.port(), Protocol::Http, Method::Head);
    let exchange = send(&*flaky, &other, T).await.unwrap();
    let met = exchange.observation.met;
    assert_eq!(met, Met::Failure(Reason::DnsError), "never resolved");
}

/// HP-026: the addresses of a name are tried in turn within the one deadline, whether one refuses or says nothing.
#[tokio::test]
async fn addresses_are_tried_in_turn() {
    let silent = FullListener::start().await;
    let port = silent.port();
    let listener = TcpListener::bind(("127.0.0.3", port)).await.unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(OK).await.unwrap();
        }
    });
    for others in [
        &["127.0.0.2"][..],
        &["127.0.0.1"],
        &["127.0.0.1", "127.0.0.2"],
    ] {
        let addresses = others.iter().chain(&["127.0.0.3"]);
        let addresses = addresses.map(|address| address.parse().unwrap()).collect();
        let connector = GuardedConnector::new(ConnectorOptions {
            allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
            hosts: HashMap::from([("many.example".to_owned(), addresses)]),
            ..ConnectorOptions::default()
        });
        let target = target_of("many.example", port, Protocol::Http, Method::Head);
        // Far less than an address may take where the caller's time is not known.
        let exchange = send(&connector, &target, Duration::from_secs(3)).await;
        let exchange = exchange.unwrap();
        assert!(
            exchange.observation.judge(&Demands::default()).is_ok(),
            "{others:?}"
        );
        assert_eq!(exchange.peer.unwrap().ip().to_string(), "127.0.0.3");
    }
}

/// HP-022 to HP-024, HP-043: certificates, and what is wrong with them.
#[tokio::test]
async fn certificates_are_judged() {
    let (known, unknown) = (Authority::new(), Authority::new());
    let connector = GuardedConnector::new(ConnectorOptions {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        extra_roots: vec![known.root()],
        ..ConnectorOptions::default()
    });
    let rows = [
        (known.config("localhost", GOOD), true, Ok(())),
        (
            unknown.config("localhost", GOOD),
            true,
            Err(Reason::TlsUntrusted),
        ),
        (
            known.config("localhost", (2000, 2001)),
            true,
            Err(Reason::TlsExpired),
        ),
        (
            known.config("localhost", (3000, 3001)),
            true,
            Err(Reason::TlsExpired),
        ),
        (
            known.config("other.example", GOOD),
            true,
            Err(Reason::TlsNameMismatch),
        ),
        (
            known.config_for_known_clients("localhost"),
            true,
            Err(Reason::TlsHandshake),
        ),
        // Without the check of the name, the rest is checked all the same.
        (known.config("other.example", GOOD), false, Ok(())),
        (
            unknown.config("other.example", GOOD),
            false,
            Err(Reason::TlsUntrusted),
        ),
        (
            known.config("other.example", (2000, 2001)),
            false,
            Err(Reason::TlsExpired),
        ),
    ];
    for (number, (config, is_verified, expect)) in rows.into_iter().enumerate() {
        let (server, _) = tls_server(config).await;
        let port = server.address.port();
        let mut target = target_of("localhost", port, Protocol::Https, Method::Head);
        target.verify_certificate_name = is_verified;
        let exchange = send(&connector, &target, T).await.unwrap();
        let demands = Demands {
            timeout: T,
            ..Demands::default()
        };
        let judged = exchange.observation.judge(&demands).map(|_| ());
        assert_eq!(judged, expect, "row {number}");
    }
    let plain = Server::raw(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let closing = Server::raw(|stream, _| async move { drop(stream) }).await;
    for server in [plain, closing] {
        let port = server.address.port();
        let target = target_of("localhost", port, Protocol::Https, Method::Head);
        let exchange = send(&connector, &target, T).await.unwrap();
        let met = exchange.observation.met;
        assert_eq!(met, Met::Failure(Reason::TlsHandshake));
    }
}

/// HP-022, HP-023: each probe makes a full handshake, names the host but no address, and offers HTTP/1.1 alone.
#[tokio::test]
async fn each_probe_makes_a_full_handshake() {
    let authority = Authority::new();
    let connector = GuardedConnector::new(ConnectorOptions {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        extra_roots: vec![authority.root()],
        ..ConnectorOptions::default()
    });
    for (host, name) in [("localhost", Some("localhost")), ("127.0.0.1", None)] {
        let (server, greetings) = tls_server(authority.config(host, GOOD)).await;
        let port = server.address.port();
        let target = target_of(host, port, Protocol::Https, Method::Head);
        for _ in 0..3 {
            let exchange = send(&connector, &target, T).await.unwrap();
            let parts = exchange.observation.parts;
            assert!(exchange.observation.judge(&Demands::default()).is_ok());
            assert!(parts.tls_us.is_some() && parts.connect_us.is_some());
        }
        assert_eq!(server.accepted(), 3);
        for greeting in greetings.lock().unwrap().iter() {
            assert_eq!(greeting.name.as_deref(), name);
            assert_eq!(greeting.alpn.as_deref(), Some(&b"http/1.1"[..]));
            assert_eq!(greeting.kind, rustls::HandshakeKind::Full);
        }
    }
}

/// HP-049: what we have run out of is no sample.
#[tokio::test]
async fn our_own_failures_are_no_samples() {
    #[derive(Debug)]
    struct Exhausted;
    impl Connect for Exhausted {
        fn connect<'a>(&'a self, _: &'a Target) -> Connecting<'a> {
            // EMFILE.
            let error = io::Error::from_raw_os_error(24);
            Box::pin(async move { Err(ConnectError::Connect(error)) })
        }
    }
    let target = target_of("127.0.0.1", 80, Protocol::Http, Method::Head);
    assert!(send(&Exhausted, &target, T).await.is_err());
}
