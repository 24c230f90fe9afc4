//! Seals what must not stand readable on disk: topic keys and the URLs of endpoints (design D11, decision 0007).
//!
//! A secret is sealed with XChaCha20-Poly1305 before its catalog change is journaled, and unsealed when the change is
//! folded: the log and the catalog's files hold sealed forms only, memory holds plain ones. In their JSON the sealed form
//! stands in the place of the text: `{"sealed": "v1.<key id>.<base64 of nonce, ciphertext and tag>"}`.
//!
//! Sealing is bound to the place of the secret, so that one cannot be put in the place of another. The nonce is drawn: 24
//! bytes are enough to never meet twice.
//!
//! The key is 32 bytes in a file: `KEY` in the data directory, made at the first start, or a file that the settings
//! name. Its id tells which key something was sealed with, and nothing about the key.

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde_json::Value;

use crate::disk::Disk;
use crate::error::StoreError;

/// The key's file in the data directory.
const FILE: &str = "KEY";
/// What it is called until it is whole.
const NEW_FILE: &str = "KEY.new";
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// More than a key takes in either spelling.
const FILE_BYTES_MAX: usize = 256;
/// The member under which a sealed form stands.
const MEMBER: &str = "sealed";
const VERSION: &str = "v1";

/// Seals and unseals secrets. Not shown by `Debug`.
pub struct Secrets {
    /// What messages call the key's file.
    file: String,
    /// Empty while the file is not there.
    key: OnceLock<Key>,
}

struct Key {
    cipher: XChaCha20Poly1305,
    id: String,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(..)")
    }
}

impl Secrets {
    /// With the key in the data directory. There may be none yet: what was sealed cannot be unsealed then, and
    /// [`Secrets::make_missing`] makes one.
    ///
    /// # Errors
    /// [`StoreError::Key`] if the file holds no key.
    pub fn open(disk: &dyn Disk) -> Result<Self, StoreError> {
        let secrets = Self {
            file: format!("{}/{FILE}", disk.name()),
            key: OnceLock::new(),
        };
        let file = match disk.open(FILE, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(secrets),
            Err(error) => return Err(StoreError::io("open", FILE)(error)),
        };
        let mut content = [0; FILE_BYTES_MAX];
        let read = file
            .read_at(0, &mut content)
            .map_err(StoreError::io("read", FILE))?;
        secrets.take(&content[..read])?;
        Ok(secrets)
    }

    /// With the key in a file that the settings name.
    ///
    /// # Errors
    /// [`StoreError::Key`] if there is no such file, or no key in it.
    pub fn from_file(path: &Path) -> Result<Self, StoreError> {
        let secrets = Self {
            file: path.display().to_string(),
            key: OnceLock::new(),
        };
        let content = std::fs::read(path)
            .map_err(|error| secrets.error(&format!("cannot be read ({error})")))?;
        secrets.take(&content)?;
        let others_may_read = std::fs::metadata(path)
            .is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0);
        if others_may_read {
            let file = &secrets.file;
            tracing::warn!(file, "everybody on this machine can read the key file");
        }
        Ok(secrets)
    }

    /// With a key that is known. `file` is what messages call it.
    #[must_use]
    pub fn with_key(key: [u8; KEY_BYTES], file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            key: OnceLock::from(Key::new(&key)),
        }
    }

    /// Makes a key in the data directory if there is none, durably. To be called when the log was folded and nothing of
    /// it was sealed with another.
    pub fn make_missing(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        if self.key.get().is_some() {
            return Ok(());
        }
        let key: [u8; KEY_BYTES] = draw()?;
        let text = format!("{}\n", STANDARD.encode(key));
        let file = disk
            .open(NEW_FILE, true)
            .map_err(StoreError::io("create", NEW_FILE))?;
        file.set_len(0)
            .and_then(|()| file.write_at(0, text.as_bytes()))
            .map_err(StoreError::io("write", NEW_FILE))?;
        file.sync_data().map_err(StoreError::io("sync", NEW_FILE))?;
        disk.rename(NEW_FILE, FILE)
            .map_err(StoreError::io("rename", NEW_FILE))?;
        disk.sync_dir("")
            .map_err(StoreError::io("sync", disk.name()))?;
        // Whoever was faster made the same one visible.
        let _ = self.key.set(Key::new(&key));
        Ok(())
    }

    /// Puts the sealed form in the place of a secret text.
    ///
    /// # Panics
    /// If there is no key yet.
    pub(crate) fn seal(&self, place: &str, secret: &mut Value) -> Result<(), StoreError> {
        let key = self
            .key
            .get()
            .expect("a key is made before anything is sealed");
        let text = secret.as_str().unwrap_or_default();
        let nonce: [u8; NONCE_BYTES] = draw()?;
        let payload = Payload {
            msg: text.as_bytes(),
            aad: place.as_bytes(),
        };
        let sealed = key
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a secret is shorter than what one key stream covers");
        let sealed = STANDARD_NO_PAD.encode([&nonce[..], &sealed].concat());
        *secret = serde_json::json!({ MEMBER: format!("{VERSION}.{}.{sealed}", key.id) });
        Ok(())
    }

    /// Puts the secret text in the place of its sealed form.
    ///
    /// # Errors
    /// [`StoreError::Key`] if it was sealed with another key or the key is missing.
    pub(crate) fn unseal(&self, place: &str, sealed: &mut Value) -> Result<(), StoreError> {
        let damaged = || StoreError::damaged(format!("the sealed secret of {place}"));
        let text = sealed
            .get(MEMBER)
            .and_then(Value::as_str)
            .ok_or_else(damaged)?;
        let mut parts = text.splitn(3, '.');
        let (Some(version), Some(id), Some(bytes)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(damaged());
        };
        if version != VERSION {
            let what = format!("the sealed secret of {place} (form {version})");
            return Err(StoreError::Newer { what });
        }
        let key = self.key_with_id(id)?;
        let bytes = STANDARD_NO_PAD.decode(bytes).map_err(|_| damaged())?;
        let (nonce, bytes) = bytes
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or_else(damaged)?;
        let payload = Payload {
            msg: bytes,
            aad: place.as_bytes(),
        };
        let secret = key
            .cipher
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| damaged())?;
        *sealed = String::from_utf8(secret).map_err(|_| damaged())?.into();
        Ok(())
    }

    fn key_with_id(&self, id: &str) -> Result<&Key, StoreError> {
        let back = "put the file with that key back";
        let problem = match self.key.get() {
            Some(key) if key.id == id => return Ok(key),
            Some(key) => format!(
                "holds key {}, the data directory's secrets are sealed with key {id}; {back}",
                key.id
            ),
            None => {
                format!("is missing, the data directory's secrets are sealed with key {id}; {back}")
            }
        };
        Err(self.error(&problem))
    }

    /// Takes the key from a file's content: its bytes, or their base64.
    fn take(&self, content: &[u8]) -> Result<(), StoreError> {
        let text = content.trim_ascii();
        let key = <[u8; KEY_BYTES]>::try_from(content).ok();
        let key = key.or_else(|| STANDARD.decode(text).ok()?.try_into().ok());
        let key = key.ok_or_else(|| {
            self.error("holds no key, which is 32 bytes or their base64; put the right file back")
        })?;
        // Opened once, taken once.
        let _ = self.key.set(Key::new(&key));
        Ok(())
    }

    fn error(&self, problem: &str) -> StoreError {
        StoreError::Key {
            file: self.file.clone(),
            problem: problem.to_owned(),
        }
    }
}

impl Key {
    fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        let cipher = XChaCha20Poly1305::new(bytes.into());
        // The tag of nothing, under a nonce that is not drawn: it differs for each key and gives none away.
        let nothing = Payload {
            msg: &[],
            aad: b"hedgerow key id",
        };
        let tag = cipher
            .encrypt(&XNonce::from([0xFF; NONCE_BYTES]), nothing)
            .expect("nothing is short enough");
        let mut id = String::new();
        for byte in &tag[..4] {
            write!(id, "{byte:02x}").expect("writing to a String cannot fail");
        }
        Self { cipher, id }
    }
}

fn draw<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        StoreError::io("draw", "random bytes")(io::Error::other(error.to_string()))
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLACE: &str = "topic 1 key1";

    fn sealed(secrets: &Secrets, text: &str) -> Value {
        let mut value = json!(text);
        secrets.seal(PLACE, &mut value).expect("it is sealed");
        value
    }

    #[test]
    fn what_is_sealed_is_unsealed_at_its_place_only() {
        let secrets = Secrets::with_key([7; 32], "KEY");
        for text in ["", "k", "https://host/hook?code=1"] {
            let first = sealed(&secrets, text);
            assert_ne!(first, sealed(&secrets, text), "nonces differ");
            assert!(text.len() < 2 || !first.to_string().contains(text));
            let mut value = first.clone();
            secrets.unseal(PLACE, &mut value).expect("the same place");
            assert_eq!(value, json!(text));
            let elsewhere = secrets.unseal("topic 1 key2", &mut first.clone());
            assert!(matches!(elsewhere, Err(StoreError::Damaged { .. })));
        }
    }

    #[test]
    fn what_is_not_whole_is_damaged() {
        let secrets = Secrets::with_key([7; 32], "KEY");
        let whole = sealed(&secrets, "secret")[MEMBER].clone();
        let whole = whole.as_str().expect("a text").to_owned();
        let other = if &whole[30..31] == "A" { "B" } else { "A" };
        let changed = format!("{}{other}{}", &whole[..30], &whole[31..]);
        let broken = ["", "v1", "v1.", &whole[..12], &whole[..60], &changed];
        let plain = [json!("secret"), json!(null), json!({"sealed": 1})];
        let broken = broken.into_iter().map(|text| json!({ MEMBER: text }));
        for mut value in plain.into_iter().chain(broken) {
            let result = secrets.unseal(PLACE, &mut value);
            let is_refused = matches!(
                result,
                Err(StoreError::Damaged { .. } | StoreError::Newer { .. })
            );
            assert!(is_refused, "{value}");
        }
        let mut newer = json!({MEMBER: "v2.00000000.AAAA"});
        let result = secrets.unseal(PLACE, &mut newer);
        assert!(matches!(result, Err(StoreError::Newer { .. })));
    }

    /// The message names the file, the key that it holds and the one that is needed.
    #[test]
    fn another_key_or_none_is_said_by_name() {
        let secrets = Secrets::with_key([7; 32], "/data/KEY");
        let own = secrets.key.get().expect("a key").id.clone();
        let other = Secrets::with_key([8; 32], "/etc/key");
        let others = other.key.get().expect("a key").id.clone();
        let missing = Secrets {
            file: "/data/KEY".into(),
            key: OnceLock::new(),
        };
        for (secrets, words) in [
            (&other, ["/etc/key", &own, &others]),
            (&missing, ["/data/KEY", &own, "is missing"]),
        ] {
            let mut value = sealed(&Secrets::with_key([7; 32], ""), "secret");
            let error = secrets.unseal(PLACE, &mut value).expect_err("no such key");
            let text = error.to_string();
            assert!(matches!(error, StoreError::Key { .. }), "{text}");
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}
