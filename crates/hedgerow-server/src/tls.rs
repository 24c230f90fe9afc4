//! TLS on the server's own port, by certificate files (ED-008). The files are read again from time to time; new ones hold for the
//! connections that come then. What cannot be used is refused at the start; later the old ones stay, with a warning.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;

/// Bytes of one of the files: far above a chain of certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the certificate is, and how it is used. Plain values.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// PEM: the server's certificate, then those between it and the root. `None` for no TLS.
    pub certificate_file: Option<PathBuf>,
    /// PEM: its private key. There if the certificate is.
    pub key_file: Option<PathBuf>,
    /// Clients that speak older versions only are refused.
    pub minimum_version: TlsVersion,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// Handshakes at a time; the one begun first ends when there would be more.
    pub handshakes_max: usize,
    /// How often the files are read again.
    pub reload_interval: Duration,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            certificate_file: None,
            key_file: None,
            minimum_version: TlsVersion::V1_2,
            handshake_timeout: Duration::from_secs(10),
            handshakes_max: 256,
            reload_interval: Duration::from_secs(10),
        }
    }
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2
    V1_2,
    /// 1.3
    V1_3,
}

impl TlsVersion {
    fn and_newer(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::V1_2 => vec![&TLS13, &TLS12],
            Self::V1_3 => vec![&TLS13],
        }
    }
}

/// Why the files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {reason}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file is not what it should be.
    #[error("{path} holds no {what} in PEM form")]
    Pem {
        /// Which one.
        path: PathBuf,
        /// A certificate, or a private key.
        what: &'static str,
    },
    /// They do not belong together, or are of a kind that is not known.
    #[error("the certificate in {certificate} and the key in {key} cannot be used: {reason}")]
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The certificate in force.
pub struct Tls {
    certificate_file: PathBuf,
    key_file: PathBuf,
    minimum_version: TlsVersion,
    reload_interval: Duration,
    protocols: &'static [&'static [u8]],
    current: RwLock<Arc<ServerConfig>>,
    /// What was found when the files were read last.
    seen: Mutex<Result<Files, TlsError>>,
}

/// What the two files hold. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Reads the files, if any are named.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub fn load(config: &TlsConfig) -> Result<Option<Arc<Self>>, TlsError> {
        Self::load_for(config, &[b"http/1.1"])
    }

    /// The same for a listener that speaks these protocols, the preferred one first.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub fn load_for(
        config: &TlsConfig,
        protocols: &'static [&'static [u8]],
    ) -> Result<Option<Arc<Self>>, TlsError> {
        let (Some(certificate_file), Some(key_file)) = (&config.certificate_file, &config.key_file)
        else {
            return Ok(None);
        };
        let files = Files::read(certificate_file, key_file)?;
        let mut current =
            files.server_config(certificate_file, key_file, config.minimum_version)?;
        speak(&mut current, protocols);
        Ok(Some(Arc::new(Self {
            certificate_file: certificate_file.clone(),
            key_file: key_file.clone(),
            minimum_version: config.minimum_version,
            reload_interval: config.reload_interval,
            protocols,
            current: RwLock::new(Arc::new(current)),
            seen: Mutex::new(Ok(files)),
        })))
    }

    /// For a connection that comes now.
    pub fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current))
    }

    /// Reads the files again and again. Never ends.
    pub async fn follow(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.reload_interval).await;
            let tls = Arc::clone(&self);
            // What panicked there is in the log; the certificate in force stays.
            let _ = tokio::task::spawn_blocking(move || tls.reload()).await;
        }
    }

    /// Reads the files again. Each change is judged once.
    fn reload(&self) {
        let found = Files::read(&self.certificate_file, &self.key_file);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == found {
            return;
        }
        seen.clone_from(&found);
        let made = found.and_then(|files| {
            let (certificate, key) = (&self.certificate_file, &self.key_file);
            files.server_config(certificate, key, self.minimum_version)
        });
        let certificate = self.certificate_file.display();
        match made {
            Ok(mut made) => {
                speak(&mut made, self.protocols);
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = Arc::new(made);
                tracing::info!(%certificate, "the certificate was read again and is in force");
            }
            Err(error) => tracing::warn!(
                %certificate,
                %error,
                "the certificate was changed and cannot be used; the old one stays in force"
            ),
        }
    }
}

impl Files {
    fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        Ok(Self {
            certificate: read(certificate)?,
            key: read(key)?,
        })
    }

    fn server_config(
        &self,
        certificate_file: &Path,
        key_file: &Path,
        minimum_version: TlsVersion,
    ) -> Result<ServerConfig, TlsError> {
        let no_pem = |path: &Path, what| TlsError::Pem {
            path: path.to_owned(),
            what,
        };
        let chain = CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<_, _>>();
        let chain: Vec<_> = chain.map_err(|_| no_pem(certificate_file, "certificate"))?;
        if chain.is_empty() {
            return Err(no_pem(certificate_file, "certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| no_pem(key_file, "private key"))?;
        let unusable = |error: rustls::Error| TlsError::Unusable {
            certificate: certificate_file.to_owned(),
            key: key_file.to_owned(),
            reason: error.to_string(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&minimum_version.and_newer())
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)
    }
}

/// What is offered by ALPN.
fn speak(config: &mut ServerConfig, protocols: &[&[u8]]) {
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let read = || {
        if fs::metadata(path)?.len() > FILE_BYTES_MAX {
            return Err(io::Error::other("it is larger than 1 MiB"));
        }
        fs::read(path)
    };
    read().map_err(|error| TlsError::File {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}
