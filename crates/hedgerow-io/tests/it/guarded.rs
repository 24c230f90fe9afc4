//! The guarded connector on real sockets: what it refuses gets no TCP connection, and what TLS cannot verify no request.

use std::sync::Arc;

use hedgerow_io::http::{
    Client, ClientOptions, ConnectorOptions, GuardedConnector, Rule, SendError, Target,
};
use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
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
async fn tls_server(name: &str) -> (Server, CertificateDer<'static>) {
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
        .with_safe_default_protocol_versions()
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
    let root = authority.der().clone();
    (server, root)
}

fn client_trusting(extra_roots: Vec<CertificateDer<'static>>) -> Client {
    let options = ConnectorOptions {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        extra_roots,
    };
    Client::new(
        Arc::new(GuardedConnector::new(options)),
        ClientOptions::default(),
    )
}

fn https(server: &Server, host: &str) -> Target {
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
