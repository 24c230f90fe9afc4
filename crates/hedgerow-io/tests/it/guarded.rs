//! The guarded connector on real sockets: what it refuses gets no TCP connection, and what TLS cannot verify no request.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use hedgerow_core::spec::TlsVersion;
use hedgerow_io::http::{
    Client, ClientOptions, ConnectorOptions, ExtraRoots, GuardedConnector, Rule, SendError, Target,
    TlsDemands,
};
use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio_rustls::TlsAcceptor;

use crate::server::{Server, client, client_allowing, read_request, request, target};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

async fn answering() -> Server {
    Server::start(|mut stream, _| async move {
        while read_request(&mut stream).await.is_some() {
            stream.write_all(OK).await.unwrap();
        }
    })
    .await
}

/// FC-15: in the default mode none of these gets a TCP connection.
#[tokio::test]
async fn no_spelling_of_loopback_is_connected_to_by_default() {
    let server = answering().await;
    let port = server.address.port();
    let hosts = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "localhost",
        "localhost.",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::]",
        "[::1]",
        "0.0.0.0",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ];
    let client = client_allowing(&[]);
    for host in hosts {
        for scheme in ["http", "https"] {
            let target = target(&format!("{scheme}://{host}:{port}/"));
            let error = client.send(&target, request("[]")).await.unwrap_err();
            assert!(matches!(error, SendError::Denied(_)), "{target}: {error:?}");
        }
    }
    assert_eq!(server.accepted(), 0);
    assert_eq!(client.connections().open, 0);
}

/// FC-15: allow-listing 127.0.0.0/8 opens just that.
#[tokio::test]
async fn an_allow_listed_network_is_connected_to() {
    let server = answering().await;
    let port = server.address.port();
    let client = client();
    let open = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "localhost.",
    ];
    for host in open {
        let target = target(&format!("http://{host}:{port}/"));
        let answer = client.send(&target, request("[]")).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{host}");
    }
    assert_eq!(server.accepted(), open.len());
    for host in [
        "[::ffff:127.0.0.1]",
        "[::1]",
        "0.0.0.0",
        "10.0.0.1",
        "169.254.169.254",
    ] {
        let target = target(&format!("http://{host}:{port}/"));
        let error = client.send(&target, request("[]")).await.unwrap_err();
        assert!(matches!(error, SendError::Denied(_)), "{host}: {error:?}");
    }
    assert_eq!(server.accepted(), open.len());
}

/// ED-120. Nothing is sent to the public address of this test: it is refused before.
#[tokio::test]
async fn plain_http_to_a_public_address_is_denied() {
    let error = client()
        .send(&target("http://8.8.8.8/"), request("[]"))
        .await
        .unwrap_err();
    let SendError::Denied(denied) = error else {
        panic!("{error:?}")
    };
    assert_eq!(denied.rule, Rule::PlainHttp);
}

/// A label of 64 letters is longer than a name may have (RFC 1035), so that no resolver is asked.
#[tokio::test]
async fn a_name_without_addresses_is_a_resolution_error() {
    let target = target(&format!("https://{}.invalid/", "a".repeat(64)));
    let error = client().send(&target, request("[]")).await.unwrap_err();
    assert!(matches!(error, SendError::Resolution(_)), "{error:?}");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_a_connect_error() {
    let bound = TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let target = target(&format!("http://{}/", bound.local_addr().unwrap()));
    let error = client().send(&target, request("[]")).await.unwrap_err();
    assert!(matches!(error, SendError::Connect(_)), "{error:?}");
}

/// An authority of this test's own, and a TLS server with a certificate from it for `name`.
pub async fn tls_server(name: &str) -> (Server, CertificateDer<'static>) {
    let (server, root) = tls_server_speaking(name, rustls::ALL_VERSIONS).await;
    (server, root.der().clone())
}

type Authority = CertifiedIssuer<'static, KeyPair>;

/// The same with these versions of TLS only, and the whole authority.
async fn tls_server_speaking(
    name: &str,
    versions: &'static [&'static SupportedProtocolVersion],
) -> (Server, Authority) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::start(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            while read_request(&mut stream).await.is_some() {
                stream.write_all(OK).await.unwrap();
            }
        }
    })
    .await;
    (server, authority)
}

pub fn client_trusting(extra_roots: Vec<CertificateDer<'static>>) -> Client {
    let options = ConnectorOptions {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        extra_roots,
        ..ConnectorOptions::default()
    };
    Client::new(
        Arc::new(GuardedConnector::new(options)),
        ClientOptions::default(),
    )
}

pub fn https(server: &Server, host: &str) -> Target {
    target(&format!("https://{host}:{}/", server.address.port()))
}

/// ED-124: a certificate must chain to a trusted root and be for the host.
#[tokio::test]
async fn certificates_are_verified() {
    let (server, root) = tls_server("localhost").await;
    let trusting = client_trusting(vec![root]);
    for host in ["localhost", "localhost."] {
        for _ in 0..2 {
            let answer = trusting
                .send(&https(&server, host), request("[]"))
                .await
                .unwrap();
            assert_eq!(answer.status, StatusCode::OK);
            answer.body.finish().await;
        }
    }
    assert_eq!(
        server.accepted(),
        2,
        "one connection for each spelling of the host, used twice"
    );
    let wrong_name = trusting
        .send(&https(&server, "127.0.0.1"), request("[]"))
        .await
        .unwrap_err();
    assert!(matches!(wrong_name, SendError::Tls(_)), "{wrong_name:?}");
    let (other, _) = tls_server("localhost").await;
    let unknown = trusting
        .send(&https(&other, "localhost"), request("[]"))
        .await
        .unwrap_err();
    assert!(matches!(unknown, SendError::Tls(_)), "{unknown:?}");
    assert_eq!(trusting.connections().open, 1 + 1);
}

#[tokio::test]
async fn an_address_can_have_a_certificate() {
    let (server, root) = tls_server("127.0.0.1").await;
    let client = client_trusting(vec![root]);
    let answer = client
        .send(&https(&server, "127.0.0.1"), request("[]"))
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::OK);
}

/// https to a server that speaks plain http, and one that closes.
#[tokio::test]
async fn a_server_without_tls_is_a_tls_error() {
    let plain = Server::start(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let closing = Server::start(|stream, _| async move { drop(stream) }).await;
    let client = client_trusting(Vec::new());
    for server in [&plain, &closing] {
        let error = client
            .send(&https(server, "127.0.0.1"), request("[]"))
            .await
            .unwrap_err();
        assert!(matches!(error, SendError::Tls(_)), "{error:?}");
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// ED-124: a target brings roots of its own, which hold for it alone, also while connections are kept.
#[tokio::test]
async fn extra_roots_hold_for_their_target_only() {
    let (server, authority) = tls_server_speaking("localhost", rustls::ALL_VERSIONS).await;
    let client = client_trusting(Vec::new());
    let demands = TlsDemands {
        extra_roots: Some(ExtraRoots::from_pem(&pem("CERTIFICATE", authority.der())).unwrap()),
        ..TlsDemands::default()
    };
    let trusting = https(&server, "localhost").with_tls(demands.clone());
    for _ in 0..2 {
        let answer = client.send(&trusting, request("[]")).await.unwrap();
        answer.body.finish().await;
        let error = client
            .send(&https(&server, "localhost"), request("[]"))
            .await
            .unwrap_err();
        assert!(matches!(error, SendError::Tls(_)), "{error:?}");
    }
    assert_eq!(
        server.accepted(),
        1 + 2,
        "the kept connection was used again"
    );
    let again = TlsDemands {
        extra_roots: Some(ExtraRoots::from_pem(&pem("CERTIFICATE", authority.der())).unwrap()),
        ..demands
    };
    assert_eq!(trusting.clone().with_tls(again), trusting);
    assert_eq!(trusting.endpoint(), https(&server, "localhost"));
    assert_ne!(trusting, trusting.endpoint());
}

/// ED-124.
#[test]
fn what_are_no_certificates_is_refused() {
    let key = KeyPair::generate().unwrap();
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let rows = [
        (String::new(), "must be certificates in PEM"),
        ("hello".to_owned(), "must be certificates in PEM"),
        (
            pem("PRIVATE KEY", &key.serialize_der()),
            "must be certificates in PEM",
        ),
        (garbage.to_owned(), "certificate 1 cannot be used"),
        (garbage.replace("AAAA", "!"), "must be PEM"),
    ];
    for (pem, expected) in rows {
        let message = ExtraRoots::from_pem(&pem).unwrap_err();
        assert!(message.starts_with(expected), "{pem:?}: {message}");
    }
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    let many = pem("CERTIFICATE", certificate.der()).repeat(17);
    let message = ExtraRoots::from_pem(&many).unwrap_err();
    assert_eq!(message, "must not be more than 16 certificates");
    ExtraRoots::from_pem(&pem("CERTIFICATE", certificate.der()).repeat(16)).unwrap();
}

/// ED-123.
#[tokio::test]
async fn older_versions_of_tls_are_not_spoken() {
    static OLD: &[&SupportedProtocolVersion] = &[&TLS12];
    static NEW: &[&SupportedProtocolVersion] = &[&TLS13];
    let rows = [
        (OLD, TlsVersion::V1_2, true),
        (NEW, TlsVersion::V1_2, true),
        (OLD, TlsVersion::V1_3, false),
        (rustls::ALL_VERSIONS, TlsVersion::V1_3, true),
    ];
    for (spoken, version_min, is_accepted) in rows {
        let (server, authority) = tls_server_speaking("localhost", spoken).await;
        let client = client_trusting(vec![authority.der().clone()]);
        let demands = TlsDemands {
            version_min,
            ..TlsDemands::default()
        };
        let target = https(&server, "localhost").with_tls(demands);
        let sent = client.send(&target, request("[]")).await;
        assert_eq!(sent.is_ok(), is_accepted, "{version_min:?}");
        if let Err(error) = sent {
            assert!(matches!(error, SendError::Tls(_)), "{error:?}");
        }
    }
}

/// FC-15: a name is judged by every address it resolves to, and none of them gets a connection.
#[tokio::test]
async fn a_name_that_resolves_into_a_private_network_is_denied() {
    let server = answering().await;
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let rows: [(&str, &[&str], Option<Rule>); 5] = [
        ("open.example", &["127.0.0.1"], None),
        ("inside.example", &["10.0.0.1"], Some(Rule::Private)),
        (
            "both.example",
            &["127.0.0.1", "10.0.0.1"],
            Some(Rule::Private),
        ),
        ("cloud.example", &["169.254.169.254"], Some(Rule::Metadata)),
        (
            "wrapped.example",
            &["::ffff:169.254.169.254"],
            Some(Rule::Metadata),
        ),
    ];
    let hosts: HashMap<_, _> = rows
        .iter()
        .map(|(name, addresses, _)| {
            let addresses: Vec<_> = addresses.iter().map(|text| address(text)).collect();
            ((*name).to_owned(), addresses)
        })
        .collect();
    let options = ConnectorOptions {
        allow_networks: vec![
            "127.0.0.0/8".parse().unwrap(),
            "169.254.0.0/16".parse().unwrap(),
        ],
        hosts,
        ..ConnectorOptions::default()
    };
    let client = Client::new(
        Arc::new(GuardedConnector::new(options)),
        ClientOptions::default(),
    );
    for (name, _, expected) in rows {
        let target = target(&format!("http://{name}:{}/", server.address.port()));
        let rule = match client.send(&target, request("[]")).await {
            Ok(_) => None,
            Err(SendError::Denied(denied)) => Some(denied.rule),
            Err(other) => panic!("{name}: {other:?}"),
        };
        assert_eq!(rule, expected, "{name}");
    }
    assert_eq!(server.accepted(), 1, "only the open one");
}
