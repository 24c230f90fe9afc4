//! The ready file: tells whoever started the server where it listens and with what keys. It appears whole, once the
//! server listens, and only its owner can read it; it is not removed when the server ends.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// What the file holds, as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// Where clients reach the server, as a URL: its `public_url` if it has one.
    pub endpoint: String,
    /// The address and port that it listens on.
    pub local_address: SocketAddr,
    /// The key of the demo topic; `dev` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_key: Option<String>,
    /// What the admin API wants.
    pub admin_token: String,
    /// The built-in receiver, as a URL; `dev` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// Where the edge listens without TLS, as a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<String>,
    /// Where it listens over TLS, as a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge_tls: Option<String>,
    /// The server's process id.
    pub pid: u32,
}

/// A place where a ready file will be.
#[derive(Debug)]
pub struct ReadyFile {
    path: PathBuf,
}

impl ReadyFile {
    /// Takes away a file that an earlier server left, so that nobody takes it for this one's.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Self::failure("replace", path, &error))
            }
            _ => Ok(Self {
                path: path.to_owned(),
            }),
        }
    }

    /// Writes the file beside its place and moves it there.
    pub fn write(&self, ready: &Ready) -> Result<(), Failure> {
        let failure = |error: std::io::Error| Self::failure("write", &self.path, &error);
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // A temporary file is made with mode 0600.
        let mut file = NamedTempFile::new_in(folder).map_err(failure)?;
        let json = serde_json::to_string_pretty(ready).expect("texts and numbers are valid JSON");
        file.write_all(json.as_bytes())
            .and_then(|()| file.write_all(b"\n"))
            .map_err(failure)?;
        file.persist(&self.path)
            .map_err(|error| failure(error.error))?;
        Ok(())
    }

    fn failure(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
        Failure::because(
            format!("cannot {doing} the ready file {}", path.display()),
            error,
        )
        .with_hint("its folder must exist and be writable")
    }
}
