//! The first token, which may do everything ([`crate::tokens`] has the others). It is compared in constant time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hedgerow_io::chance;
use hedgerow_store::disk::real::RealDisk;
use subtle::ConstantTimeEq;

use crate::server::ServerError;

/// The file of the admin token in the data directory.
const TOKEN_FILE: &str = "admin-token";
/// Characters that an admin token has at least: one that a person wrote must not be guessable either.
const TOKEN_LEN_MIN: usize = 32;

/// What admins send as bearer token. There is no `Debug` and no `Display`.
pub struct AdminToken {
    text: String,
    /// Whether it was made now.
    is_new: bool,
}

impl AdminToken {
    /// Reads the token in the data directory; makes directory and token at the first start.
    pub fn load_or_create(data: &Path) -> Result<Self, ServerError> {
        RealDisk::new(data).map_err(file_error("make the data directory", data))?;
        let path = data.join(TOKEN_FILE);
        match fs::read_to_string(&path) {
            Ok(text) => Self::check(&text, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::create(data, &path),
            // It was read, and is no text.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(ServerError::Token { path })
            }
            Err(error) => Err(file_error("read", path)(error)),
        }
    }

    /// The token.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it was made now, and not at an earlier start.
    pub const fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether a request's token is this one.
    pub fn is(&self, secret: &[u8]) -> bool {
        secret.ct_eq(self.text.as_bytes()).into()
    }

    fn check(text: &str, path: PathBuf) -> Result<Self, ServerError> {
        let token = text.trim();
        if token.len() < TOKEN_LEN_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ServerError::Token { path });
        }
        let mode = fs::metadata(&path).map_or(0, |file| file.permissions().mode());
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "others can read the admin token; chmod 600");
        }
        Ok(Self {
            text: token.to_owned(),
            is_new: false,
        })
    }

    /// Writes it beside its place first, so that there is never half a token.
    fn create(data: &Path, path: &Path) -> Result<Self, ServerError> {
        let token = URL_SAFE_NO_PAD.encode(chance::bytes::<32>());
        let beside = data.join(format!("{TOKEN_FILE}.new"));
        let write = || {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&beside)?;
            writeln!(file, "{token}")?;
            file.sync_all()?;
            fs::rename(&beside, path)?;
            File::open(data)?.sync_all()
        };
        write().map_err(file_error("write", path))?;
        Ok(Self {
            text: token,
            is_new: true,
        })
    }
}

fn file_error(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> ServerError {
    let path = path.into();
    move |source| ServerError::File {
        doing,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let first = AdminToken::load_or_create(&data).unwrap();
        let second = AdminToken::load_or_create(&data).unwrap();
        assert_eq!(first.as_str(), second.as_str());
        assert!(first.is_new() && !second.is_new());
        assert_eq!(first.as_str().len(), 43);
        let mode = fs::metadata(data.join("admin-token"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let mode = fs::metadata(&data).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let texts: [&[u8]; 5] = [
            b"",
            b"\n",
            b"short",
            b"0123456789 0123456789 0123456789",
            b"0123456789012345678901234567890123456789\xff\xfe",
        ];
        for text in texts {
            fs::write(data.path().join("admin-token"), text).unwrap();
            let refused = AdminToken::load_or_create(data.path()).err();
            assert!(
                matches!(refused, Some(ServerError::Token { .. })),
                "{text:?}: {refused:?}"
            );
        }
    }
}
