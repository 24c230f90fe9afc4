//! Who may ask: the admin token, and the two keys of a topic. Secrets are compared in constant time (ED-014).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hedgerow_io::chance;
use hedgerow_store::catalog::TopicKeys;
use hedgerow_store::disk::real::RealDisk;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http::request::Parts;
use subtle::ConstantTimeEq;

use crate::server::ServerError;

/// The file of the admin token in the data directory.
const TOKEN_FILE: &str = "admin-token";
/// Characters that an admin token has at least: one that a person wrote must not be guessable either.
const TOKEN_LEN_MIN: usize = 32;
/// The header, and the parameter of the query, that carry a topic's key (ED-012, ED-013).
const KEY: &str = "aeg-sas-key";
/// The header of a shared access signature (ED-017).
const SIGNATURE: &str = "aeg-sas-token";

/// What admins send as bearer token. There is no `Debug` and no `Display`.
pub struct AdminToken(String);

impl AdminToken {
    /// Reads the token in the data directory; makes directory and token at the first start.
    pub fn load_or_create(data: &Path) -> Result<Self, ServerError> {
        RealDisk::new(data).map_err(file_error("make the data directory", data))?;
        let path = data.join(TOKEN_FILE);
        match fs::read_to_string(&path) {
            Ok(text) => Self::check(&text, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::create(data, &path),
            Err(error) => Err(file_error("read", path)(error)),
        }
    }

    /// The token.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a request carries it.
    pub fn is_borne_by(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes) else {
            return false;
        };
        let Some((scheme, token)) = value.split_at_checked("Bearer ".len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(token.ct_eq(self.0.as_bytes()))
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
        Ok(Self(token.to_owned()))
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
        Ok(Self(token))
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

/// Why a publisher is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRefused {
    /// There is no credential.
    Missing,
    /// The key is neither of the two.
    Wrong,
    /// A credential that this version does not know.
    Unsupported(&'static str),
}

/// Judges the credential of a publish request. The first one present decides (ED-028); later ones are not looked at.
pub fn authenticate(request: &Parts, keys: &TopicKeys) -> Result<(), KeyRefused> {
    if let Some(key) = request.headers.get(KEY) {
        return judge(key.as_bytes(), keys);
    }
    if let Some(key) = query_parameter(request, KEY) {
        return judge(&decode_key(key), keys);
    }
    if request.headers.contains_key(SIGNATURE) {
        return Err(KeyRefused::Unsupported("a shared access signature"));
    }
    if request.headers.contains_key(AUTHORIZATION) {
        return Err(KeyRefused::Unsupported("an Authorization header"));
    }
    Err(KeyRefused::Missing)
}

/// The first value of a parameter of the query, still encoded.
pub fn query_parameter<'r>(request: &'r Parts, name: &str) -> Option<&'r str> {
    let parameters = request.uri.query()?.split('&');
    parameters
        .filter_map(|parameter| parameter.split_once('='))
        .find_map(|(of, value)| of.eq_ignore_ascii_case(name).then_some(value))
}

fn judge(key: &[u8], keys: &TopicKeys) -> Result<(), KeyRefused> {
    let is_either = key.ct_eq(keys.key1.as_bytes()) | key.ct_eq(keys.key2.as_bytes());
    if is_either.into() {
        Ok(())
    } else {
        Err(KeyRefused::Wrong)
    }
}

/// Reads a key out of a query. No key has a space, so one stands for the `+` that it was before somebody decoded it
/// (ED-013): `+`, `%2B` and `%20` are all the same.
fn decode_key(text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| hex_pair(behind)).flatten();
        let (byte, after) = match escaped {
            Some(byte) => (byte, &behind[2..]),
            None => (*first, behind),
        };
        key.push(if byte == b' ' { b'+' } else { byte });
        rest = after;
    }
    key
}

fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (high, low) = (digit(*text.first()?)?, digit(*text.get(1)?)?);
    u8::try_from(high << 4 | low).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Target, headers, what is expected.
    type Row = (
        &'static str,
        &'static [(&'static str, &'static str)],
        Result<(), KeyRefused>,
    );

    fn keys() -> TopicKeys {
        TopicKeys {
            key1: "ab+/cd==".to_owned(),
            key2: "ef+/gh==".to_owned(),
        }
    }

    fn request(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::post(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// ED-012, ED-013, ED-027, ED-028.
    #[test]
    fn the_first_credential_decides() {
        let wrong = Err(KeyRefused::Wrong);
        let rows: &[Row] = &[
            ("/", &[], Err(KeyRefused::Missing)),
            ("/", &[("aeg-sas-key", "ab+/cd==")], Ok(())),
            ("/", &[("Aeg-Sas-Key", "ef+/gh==")], Ok(())),
            ("/", &[("aeg-sas-key", "ab+/cd=")], wrong),
            ("/", &[("aeg-sas-key", "")], wrong),
            ("/?aeg-sas-key=ab+/cd==", &[], Ok(())),
            ("/?aeg-sas-key=ab%2B%2Fcd%3D%3D", &[], Ok(())),
            ("/?aeg-sas-key=ab%2b/cd%3d=", &[], Ok(())),
            ("/?aeg-sas-key=ab%20/cd==", &[], Ok(())),
            ("/?api-version=2018-01-01&aeg-sas-key=ef+/gh==", &[], Ok(())),
            ("/?aeg-sas-key=ab%2", &[], wrong),
            ("/?aeg-sas-key=", &[], wrong),
            ("/?aeg-sas-key", &[], Err(KeyRefused::Missing)),
            ("/?aeg-sas-key=ab+/cd==", &[("aeg-sas-key", "x")], wrong),
            ("/?aeg-sas-key=x", &[("aeg-sas-key", "ab+/cd==")], Ok(())),
            ("/?aeg-sas-key=x&aeg-sas-key=ab+/cd==", &[], wrong),
            ("/?aeg-sas-key=x", &[("aeg-sas-token", "r=&e=&s=")], wrong),
            (
                "/",
                &[("authorization", "Bearer x"), ("aeg-sas-token", "r=&e=&s=")],
                Err(KeyRefused::Unsupported("a shared access signature")),
            ),
            (
                "/",
                &[("authorization", "Bearer x")],
                Err(KeyRefused::Unsupported("an Authorization header")),
            ),
        ];
        for (uri, headers, expect) in rows {
            assert_eq!(
                authenticate(&request(uri, headers), &keys()),
                *expect,
                "{uri} {headers:?}"
            );
        }
    }

    #[test]
    fn a_token_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let first = AdminToken::load_or_create(&data).unwrap();
        let second = AdminToken::load_or_create(&data).unwrap();
        assert_eq!(first.as_str(), second.as_str());
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
        for text in ["", "\n", "short", "0123456789 0123456789 0123456789"] {
            fs::write(data.path().join("admin-token"), text).unwrap();
            assert!(
                AdminToken::load_or_create(data.path()).is_err(),
                "{text:?} is accepted"
            );
        }
    }

    #[test]
    fn the_bearer_token_is_compared_whole() {
        let token = AdminToken("0123456789abcdef0123456789abcdef".to_owned());
        for (value, expect) in [
            ("Bearer 0123456789abcdef0123456789abcdef", true),
            ("bearer 0123456789abcdef0123456789abcdef", true),
            ("Bearer 0123456789abcdef0123456789abcde", false),
            ("Bearer 0123456789abcdef0123456789abcdeff", false),
            ("Basic 0123456789abcdef0123456789abcdef", false),
            ("Bearer", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            assert_eq!(token.is_borne_by(&headers), expect, "{value}");
        }
        assert!(!token.is_borne_by(&HeaderMap::new()));
    }
}
