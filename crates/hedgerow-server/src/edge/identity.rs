//! What the edge is known by over restarts: the key of its sessions' cookies, and its name to origins (HP-141, HP-160). Made
//! once, in the data directory, for its owner only.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use hedgerow_io::chance;
use ring::hmac;

use crate::server::ServerError;

/// The file's name.
const FILE: &str = "edge-key";
/// Bytes of the key.
const KEY_BYTES: usize = 32;
/// Characters of the name.
const ID_LENGTH: usize = 32;

/// What it is known by.
pub struct Identity {
    /// Secret.
    pub affinity_key: [u8; KEY_BYTES],
    /// Follows from the key, and does not tell it.
    pub edge_id: String,
}

/// Reads it, or makes it.
pub fn load_or_create(data: &Path) -> Result<Identity, ServerError> {
    let path = data.join(FILE);
    let failed = |doing| {
        let path = path.clone();
        move |source| ServerError::File {
            doing,
            path,
            source,
        }
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(data, &path).map_err(failed("make"))?
        }
        Err(error) => return Err(failed("read")(error)),
    };
    let key = key_of(text.trim()).ok_or_else(|| {
        failed("read")(io::Error::other(
            "it holds no key; remove it, and a new one is made",
        ))
    })?;
    Ok(Identity {
        edge_id: id_of(&key),
        affinity_key: key,
    })
}

fn create(data: &Path, path: &Path) -> io::Result<String> {
    let digits = (0..KEY_BYTES / 8).map(|_| format!("{:016x}", chance::number()));
    let text = digits.chain(["\n".to_owned()]).collect::<String>();
    // Beside its place first, so that there is never half of it.
    let beside = data.join("edge-key.new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    Ok(text)
}

fn key_of(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != KEY_BYTES * 2 {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(key)
}

fn id_of(key: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let tag = hmac::sign(&key, b"edge-id");
    let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
    let digits: String = digits.collect();
    digits.chars().take(ID_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once() {
        let data = tempfile::tempdir().unwrap();
        let made = load_or_create(data.path()).unwrap();
        let again = load_or_create(data.path()).unwrap();
        assert_eq!(made.affinity_key, again.affinity_key);
        assert_eq!(made.edge_id, again.edge_id);
        assert_eq!(made.edge_id.len(), ID_LENGTH);
        fs::write(data.path().join(FILE), "short").unwrap();
        assert!(load_or_create(data.path()).is_err());
    }
}
