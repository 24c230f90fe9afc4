//! What a target asks of TLS beside what holds for all connections: a newer version, certificates of its own (ED-123,
//! ED-124), a full handshake each time (HP-022), or a certificate for whatever name (HP-023). A chain to a trusted root and
//! the time of validity are always asked for.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow_core::limits;
use hedgerow_core::spec::TlsVersion;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedProtocolVersion,
};
use tokio_rustls::TlsConnector;

/// What a target asks of TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TlsDemands {
    /// Older versions are not spoken.
    pub version_min: TlsVersion,
    /// Trusted beside the connector's own roots.
    pub extra_roots: Option<ExtraRoots>,
    /// No session is resumed: each connection pays for its own handshake, so that its time says what a new one costs.
    pub full_handshake: bool,
    /// The certificate may be for other names than the host's. Whom it is from and when it is valid is still checked.
    pub any_name: bool,
}

/// Certificates that are trusted as roots for some targets only. Cheap to clone.
#[derive(Clone)]
pub struct ExtraRoots {
    certificates: Arc<[CertificateDer<'static>]>,
}

impl ExtraRoots {
    /// Reads certificates in PEM; what stands between them is passed over, as in files of this kind.
    ///
    /// # Errors
    ///
    /// What is wrong with them: they are to be one at least, each one that a verifier can use.
    pub fn from_pem(pem: &str) -> Result<Self, String> {
        let mut certificates = Vec::new();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let number = certificates.len() + 1;
            if number > limits::EXTRA_CA_CERTIFICATES_MAX {
                let max = limits::EXTRA_CA_CERTIFICATES_MAX;
                return Err(format!("must not be more than {max} certificates"));
            }
            let certificate = certificate.map_err(|error| format!("must be PEM: {error}"))?;
            let added = roots.add(certificate.clone());
            added.map_err(|error| format!("certificate {number} cannot be used: {error}"))?;
            certificates.push(certificate);
        }
        if certificates.is_empty() {
            return Err("must be certificates in PEM, \"-----BEGIN CERTIFICATE-----\"".to_owned());
        }
        Ok(Self {
            certificates: certificates.into(),
        })
    }

    /// Whether all blocks of PEM are certificates, also those that [`ExtraRoots::from_pem`] passes over: whoever may read
    /// a declaration sees them, and a private key among them would be told to all of these.
    ///
    /// # Errors
    ///
    /// Which block is none, and what it is.
    pub fn judge_blocks(pem: &str) -> Result<(), String> {
        for (index, block) in pem.split("-----BEGIN").skip(1).enumerate() {
            if block.starts_with(" CERTIFICATE-----") {
                continue;
            }
            // No more than the label is told: what follows it may be a secret.
            let is_of_label = |c: &char| matches!(c, 'A'..='Z' | '0'..='9' | ' ');
            let label: String = block.chars().take_while(is_of_label).take(32).collect();
            let number = index + 1;
            return Err(match label.trim() {
                "" => format!("must be certificates only: block {number} has no label"),
                label => format!("must be certificates only: block {number} is \"{label}\""),
            });
        }
        Ok(())
    }
}

impl PartialEq for ExtraRoots {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.certificates, &other.certificates)
            || self.certificates == other.certificates
    }
}

impl Eq for ExtraRoots {}

impl Hash for ExtraRoots {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Targets are looked up for each request; what follows from the certificates' sizes tells most apart.
        for certificate in &*self.certificates {
            certificate.len().hash(state);
        }
    }
}

impl fmt::Debug for ExtraRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtraRoots({})", self.certificates.len())
    }
}

/// Makes what encrypts, for each set of demands once.
pub(super) struct Encryption {
    roots: RootCertStore,
    made: Mutex<HashMap<TlsDemands, TlsConnector>>,
}

/// Sets of demands whose connectors are kept: each holds the system's roots once more, some 100 KiB.
const KEPT_MAX: usize = 64;

impl Encryption {
    /// Reads the system's roots; `extra_roots` hold for all targets.
    pub(super) fn new(extra_roots: Vec<CertificateDer<'static>>) -> Self {
        let system = rustls_native_certs::load_native_certs();
        if !system.errors.is_empty() {
            tracing::warn!(
                errors = system.errors.len(),
                first = %system.errors[0],
                "some of the system's trusted root certificates cannot be read"
            );
        }
        let mut roots = RootCertStore::empty();
        // Systems carry roots that no verifier of today can use; those are passed over, as everybody does.
        roots.add_parsable_certificates(system.certs);
        roots.add_parsable_certificates(extra_roots);
        if roots.is_empty() {
            tracing::warn!(
                "there are no trusted root certificates: deliveries over https will fail"
            );
        }
        Self {
            roots,
            made: Mutex::default(),
        }
    }

    /// What encrypts for these demands; `None` when there is no root that a certificate could chain to.
    pub(super) fn connector(&self, demands: &TlsDemands) -> Option<TlsConnector> {
        if let Some(made) = self.lock().get(demands) {
            return Some(made.clone());
        }
        let mut roots = self.roots.clone();
        if let Some(extra) = &demands.extra_roots {
            roots.add_parsable_certificates(extra.certificates.iter().cloned());
        }
        if roots.is_empty() {
            return None;
        }
        let versions: &[&SupportedProtocolVersion] = match demands.version_min {
            TlsVersion::V1_2 => &[&TLS13, &TLS12],
            TlsVersion::V1_3 => &[&TLS13],
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("the provider supports TLS 1.2 and 1.3");
        let builder = if demands.any_name {
            let verifier = AnyName { roots, provider };
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
        } else {
            builder.with_root_certificates(roots)
        };
        let mut config = builder.with_no_client_auth();
        if demands.full_handshake {
            config.resumption = Resumption::disabled();
        }
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let made = TlsConnector::from(Arc::new(config));
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(demands.clone(), made.clone());
        Some(made)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TlsDemands, TlsConnector>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Verifies all that is verified otherwise, but for whom the certificate is (HP-023).
#[derive(Debug)]
struct AnyName {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
