//! Servers that speak TLS: whose certificate is for what, from when to when, and by whom; and what clients ask of them.

use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use crate::server::{OK, Server, read_head};

/// Who signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// What a server with a certificate for this name is set up with, which is valid in these years.
    pub fn config(&self, name: &str, years: (i32, i32)) -> ServerConfig {
        let (certificate, key) = self.certificate(name, years);
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap()
    }

    /// The same, but clients must have a certificate too.
    pub fn config_for_known_clients(&self, name: &str) -> ServerConfig {
        let (certificate, key) = self.certificate(name, GOOD);
        let mut roots = RootCertStore::empty();
        roots.add(self.root()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate], key)
            .unwrap()
    }

    fn certificate(
        &self,
        name: &str,
        (from, to): (i32, i32),
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        (certificate.der().clone(), key)
    }
}

/// Years in which every test runs.
pub const GOOD: (i32, i32) = (2000, 4000);

/// What a client said in its handshake.
#[derive(Debug, Clone)]
pub struct Greeting {
    pub name: Option<String>,
    pub alpn: Option<Vec<u8>>,
    pub kind: HandshakeKind,
}

/// A server that answers 200 to each request over TLS, and what its clients said.
pub async fn tls_server(config: ServerConfig) -> (Server, Arc<Mutex<Vec<Greeting>>>) {
    let mut config = config;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let greetings = Arc::<Mutex<Vec<Greeting>>>::default();
    let noted = Arc::clone(&greetings);
    let server = Server::raw(move |stream, _| {
        let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let (_, session) = stream.get_ref();
            noted.lock().unwrap().push(Greeting {
                name: session.server_name().map(str::to_owned),
                alpn: session.alpn_protocol().map(<[u8]>::to_vec),
                kind: session.handshake_kind().unwrap(),
            });
            if read_head(&mut stream).await.is_some() {
                let _ = stream.write_all(OK).await;
                let _ = stream.shutdown().await;
            }
        }
    })
    .await;
    (server, greetings)
}
