//! TLS on the server's own port (ED-008): who gets through, with which certificate, and that slow ones hold nobody up.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_core::spec::TopicSpec;
use hedgerow_server::{Config, Server, ServerError, ServerOptions, TlsVersion};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::protocol;
use crate::support::{TestServer, config};
use crate::waits;

/// An authority of a test's own, and the files of a server whose certificate is from it.
struct Place {
    directory: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

fn pem(label: &str, der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
}

/// The certificate of an authority that nobody knows.
pub fn authority_in_pem() -> String {
    pem("CERTIFICATE", Place::new().authority.der())
}

impl Place {
    fn new() -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            directory: tempfile::tempdir().unwrap(),
            authority: CertifiedIssuer::self_signed(authority, key).unwrap(),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a new certificate, and gives what clients will see of it.
    fn certify(&self) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).unwrap();
        let certificate = certificate.signed_by(&key, &self.authority).unwrap();
        let text = pem("CERTIFICATE", certificate.der());
        // The key first: in between the two do not belong together, and the old ones stay in force.
        std::fs::write(
            self.path("key.pem"),
            pem("PRIVATE KEY", &key.serialize_der()),
        )
        .unwrap();
        std::fs::write(self.path("certificate.pem"), text).unwrap();
        certificate.der().clone()
    }

    fn config(&self, data: &Path) -> Config {
        let mut config = config(data);
        config.tls.certificate_file = Some(self.path("certificate.pem"));
        config.tls.key_file = Some(self.path("key.pem"));
        config.tls.reload_interval = Duration::from_millis(100);
        config
    }

    fn client(&self, alpn: &[u8], versions: &[&'static SupportedProtocolVersion]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![alpn.to_vec()];
        TlsConnector::from(Arc::new(client))
    }

    async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let client = self.client(b"http/1.1", rustls::ALL_VERSIONS);
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        client.connect(name, stream).await
    }

    /// The certificate that the server shows now.
    async fn shown(&self, address: SocketAddr) -> CertificateDer<'static> {
        let stream = self.connect(address).await.unwrap();
        let (_, session) = stream.get_ref();
        session.peer_certificates().unwrap()[0].clone().into_owned()
    }

    async fn get(&self, server: &TestServer, path: &str) -> (u16, Value) {
        let stream = self.connect(server.address).await.unwrap();
        let io = TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", server.token));
        let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), serde_json::from_slice(&body).unwrap())
    }
}

/// A request in the clear to a port of TLS gets an answer that its client can read, as every refusal is (ED-065, ED-067; issue 4).
#[tokio::test]
async fn a_request_in_the_clear_is_told_of_tls_issue_4() {
    let place = Place::new();
    place.certify();
    let data = tempfile::tempdir().unwrap();
    let server = TestServer::run(place.config(data.path()), ServerOptions::default()).await;
    // More than is read before the answer: it must not be lost by that.
    let body = "x".repeat(1 << 20);
    let request = format!(
        "POST /orders/api/events HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (head, body) = protocol::ask(&server, request.as_bytes()).await;
    let message = protocol::check("400", &head, &body);
    assert!(
        message.contains("this port speaks TLS: use https://"),
        "{message}"
    );
    // Who speaks TLS is served.
    place.get(&server, "/api/v1/topics").await;
    server.stop_and_wait().await;
}

#[tokio::test]
async fn requests_come_over_tls_and_endpoints_say_so() {
    let place = Place::new();
    place.certify();
    let data = tempfile::tempdir().unwrap();
    let server = TestServer::run(place.config(data.path()), ServerOptions::default()).await;
    server
        .handle
        .ensure_topic(&"orders".parse().unwrap(), &TopicSpec::default())
        .await
        .unwrap();
    let (status, topic) = place.get(&server, "/api/v1/topics/orders").await;
    let endpoint = format!("https://{}/orders/api/events", server.address);
    assert_eq!((status, &topic["endpoint"]), (200, &json!(endpoint)));
    let stream = place.connect(server.address).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));

    // Who speaks something else is let go, and nobody else notices.
    let h2 = place.client(b"h2", rustls::ALL_VERSIONS);
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    assert!(h2.connect(name, stream).await.is_err());
    let plain = crate::support::send_raw(server.address, b"GET /healthz HTTP/1.1\r\n\r\n").await;
    assert!(plain.starts_with("HTTP/1.1 400 "), "{plain:?}");
    assert_eq!(plain.matches("HTTP/1.1").count(), 1, "{plain:?}");
    assert_eq!(place.get(&server, "/healthz").await.0, 200);
    server.stop_and_wait().await;
}

#[tokio::test]
async fn older_versions_are_refused_when_told_to() {
    let place = Place::new();
    place.certify();
    for (minimum, version, is_taken) in [
        (TlsVersion::V1_2, &rustls::version::TLS12, true),
        (TlsVersion::V1_2, &rustls::version::TLS13, true),
        (TlsVersion::V1_3, &rustls::version::TLS12, false),
        (TlsVersion::V1_3, &rustls::version::TLS13, true),
    ] {
        let data = tempfile::tempdir().unwrap();
        let mut settings = place.config(data.path());
        settings.tls.minimum_version = minimum;
        let server = TestServer::run(settings, ServerOptions::default()).await;
        let client = place.client(b"http/1.1", &[version]);
        let stream = TcpStream::connect(server.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connected = client.connect(name, stream).await;
        assert_eq!(connected.is_ok(), is_taken, "{minimum:?} {version:?}");
        server.stop_and_wait().await;
    }
}

#[tokio::test]
async fn a_new_certificate_is_taken_and_a_bad_one_changes_nothing() {
    let place = Place::new();
    let first = place.certify();
    let data = tempfile::tempdir().unwrap();
    let server = TestServer::run(place.config(data.path()), ServerOptions::default()).await;
    assert_eq!(place.shown(server.address).await, first);
    for bad in ["", "nothing in PEM form"] {
        std::fs::write(place.path("certificate.pem"), bad).unwrap();
        // As many looks at the files as fit: each shows the old one.
        for _ in 0..20 {
            assert_eq!(place.shown(server.address).await, first);
        }
    }
    std::fs::remove_file(place.path("key.pem")).unwrap();
    assert_eq!(place.shown(server.address).await, first);
    let second = place.certify();
    let shown = async || place.shown(server.address).await;
    waits::until("the second certificate", shown, |shown| *shown == second).await;
    server.stop_and_wait().await;
}

/// Design D6: silent connections and handshakes that never end hold nobody up.
#[tokio::test]
async fn slow_handshakes_are_let_go_for_others() {
    let place = Place::new();
    place.certify();
    let data = tempfile::tempdir().unwrap();
    let mut settings = place.config(data.path());
    settings.tls.handshakes_max = 2;
    settings.tls.handshake_timeout = Duration::from_secs(3_600);
    settings.http.connections_max = 8;
    let server = TestServer::run(settings, ServerOptions::default()).await;
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(place.get(&server, "/healthz").await.0, 200);
    // All but those for which there is room were closed.
    for stream in &mut silent[..20] {
        assert!(matches!(stream.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    }
    server.stop_and_wait().await;
}

#[tokio::test]
async fn a_handshake_has_its_time() {
    let place = Place::new();
    place.certify();
    let data = tempfile::tempdir().unwrap();
    let mut settings = place.config(data.path());
    settings.tls.handshake_timeout = Duration::from_millis(100);
    let server = TestServer::run(settings, ServerOptions::default()).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert!(matches!(silent.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    server.stop_and_wait().await;
}

/// ED-008: with TLS the server may be reached from anywhere.
#[tokio::test]
async fn with_tls_every_address_may_be_listened_on() {
    let place = Place::new();
    place.certify();
    let data = tempfile::tempdir().unwrap();
    let mut settings = place.config(data.path());
    settings.listen = "0.0.0.0:0".parse().unwrap();
    settings.tls.certificate_file = Some(place.path("nothing.pem"));
    let refused = Server::bind(settings, ServerOptions::default()).await.err();
    let error = refused.expect("there is no certificate");
    assert!(matches!(error, ServerError::Tls(_)), "{error}");
    assert!(error.to_string().contains("nothing.pem"), "{error}");
    for (file, said) in [
        ("key.pem", "no certificate"),
        ("certificate.pem", "no private key"),
    ] {
        let mut settings = place.config(data.path());
        settings.tls.certificate_file = Some(place.path(file));
        settings.tls.key_file = Some(place.path(file));
        let refused = Server::bind(settings, ServerOptions::default()).await.err();
        let error = refused.expect("it is the wrong file").to_string();
        assert!(error.contains(said), "{error}");
    }
}
