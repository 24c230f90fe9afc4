//! Behaviour 3: what the latency of a probe is made of.

use std::time::Duration;

use hedgerow_io::http::{ConnectorOptions, GuardedConnector};
use hedgerow_origin::outcome::Demands;
use hedgerow_origin::settings::{Group, GroupSettings, Method, OriginSettings, Protocol};
use hedgerow_origin::target::ProbeTarget;
use hedgerow_prober::probe::probe;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::server::{OK, Server, connector, read_head};
use crate::tls::{Authority, GOOD};

fn target(server: &Server, protocol: Protocol, method: Method) -> ProbeTarget {
    let origin = OriginSettings {
        http_port: server.address.port().into(),
        https_port: server.address.port().into(),
        ..OriginSettings::new("a", "localhost")
    };
    let mut settings = GroupSettings {
        origins: vec![origin.clone()],
        ..GroupSettings::default()
    };
    settings.probe.protocol = protocol;
    settings.probe.method = method;
    ProbeTarget::of(&Group::new(settings).unwrap(), &origin)
}

const fn micros(millis: u64) -> u64 {
    millis * 1_000
}

/// HP-050, HP-052: the latency of a `GET` is that of its last byte, of a `HEAD` that of its head.
#[tokio::test]
async fn latency_is_up_to_the_last_byte() {
    let server = Server::answering(|mut stream, _| async move {
        sleep(Duration::from_millis(30)).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
        stream.write_all(head).await.unwrap();
        sleep(Duration::from_millis(90)).await;
        // A prober that wanted the head alone is gone.
        let _ = stream.write_all(b"ok").await;
    })
    .await;
    for (method, least) in [(Method::Get, 120), (Method::Head, 30)] {
        let target = target(&server, Protocol::Http, method);
        let exchange = probe(&*connector(), &target, &Demands::default(), || {
            Duration::ZERO
        })
        .await;
        let observation = exchange.unwrap().observation;
        let latency = observation.judge(&Demands::default()).unwrap();
        assert!(latency >= micros(least), "{method:?}: {latency} us");
        let parts = observation.parts;
        let first = parts.first_byte_us.unwrap();
        assert!(first >= micros(30) && first <= latency, "{parts:?}");
        assert_eq!(parts.total_us, Some(latency));
        assert!(observation.elapsed_us >= latency);
        if method == Method::Get {
            assert!(latency - first >= micros(80), "{parts:?}");
        }
    }
}

/// HP-051: the handshake is a part of it. A hello that comes 80 ms late and an answer after 20 ms are 100 ms at least.
#[tokio::test]
async fn latency_includes_the_handshake() {
    let authority = Authority::new();
    let config = authority.config("localhost", GOOD);
    let acceptor = TlsAcceptor::from(std::sync::Arc::new(config));
    let server = Server::raw(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            sleep(Duration::from_millis(80)).await;
            let mut stream = acceptor.accept(stream).await.unwrap();
            read_head(&mut stream).await.unwrap();
            sleep(Duration::from_millis(20)).await;
            stream.write_all(OK).await.unwrap();
        }
    })
    .await;
    let connector = GuardedConnector::new(ConnectorOptions {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        extra_roots: vec![authority.root()],
        ..ConnectorOptions::default()
    });
    let target = target(&server, Protocol::Https, Method::Head);
    let exchange = probe(&connector, &target, &Demands::default(), || Duration::ZERO).await;
    let observation = exchange.unwrap().observation;
    let latency = observation.judge(&Demands::default()).unwrap();
    let parts = observation.parts;
    assert!(latency >= micros(100), "{parts:?}");
    assert!(parts.tls_us.unwrap() >= micros(80), "{parts:?}");
    assert!(parts.first_byte_us.unwrap() >= micros(20), "{parts:?}");
    let sum = parts.connect_us.unwrap() + parts.tls_us.unwrap() + parts.first_byte_us.unwrap();
    assert!(sum <= latency + 3, "{parts:?}");
}
