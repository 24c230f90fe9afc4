//! TLS to a server: whom the CLI trusts.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::failure::{Failure, in_full};

/// Shakes hands with the server called `host`. It must have a certificate for that name from one of the authorities in
/// `ca_file`, or, without one, from an authority that the system trusts.
pub async fn shake_hands(
    stream: TcpStream,
    host: &str,
    ca_file: Option<&Path>,
) -> Result<TlsStream<TcpStream>, Failure> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| Failure::because(format!("\"{host}\" is no name"), &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports TLS 1.2 and 1.3")
        .with_root_certificates(roots(ca_file)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(|error| {
        let reason = in_full(&error);
        Failure::new(format!("no TLS with {host}: {reason}")).with_hint(
            "--ca-file names the certificate of an authority that the system does not know; a server without TLS is \
             http://",
        )
    })
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        // Systems carry roots that no verifier of today can use; those are passed over, as everybody does.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let unusable = |reason: String| {
        Failure::new(format!("cannot use {}: {reason}", path.display()))
            .with_hint("--ca-file wants one or more certificates in PEM form")
    };
    let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| unusable("it is not in PEM form".to_owned()))?;
        let added = roots.add(certificate);
        added.map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}
