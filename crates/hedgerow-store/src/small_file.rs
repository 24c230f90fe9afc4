//! The form of the small files beside the log, which are written whole: an index, a manifest, a baseline.
//!
//! ```text
//!  0 magic    4 crc32c u32 of what follows    8 version u32    12 length of the body u32    16 body, `postcard`
//! ```
//! Such a file is written under another name, synced, and renamed then: under its own name it is whole.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::record::codec::u32_at;

/// The bytes before the body.
pub(crate) const PREFIX_BYTES: usize = 16;

/// What kind of file it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// Its first four bytes.
    pub magic: &'static [u8; 4],
    /// The version that is written, and the only one that is read.
    pub version: u32,
}

/// Why a file cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not begin as one of its kind does.
    Magic,
    /// Its length or its crc is wrong.
    Crc,
    /// It is whole, and of this version.
    Version(u32),
    /// It is whole, and its body cannot be read.
    Body,
}

impl Form {
    /// The bytes of a file.
    pub(crate) fn encode<T: Serialize>(self, body: &T) -> Vec<u8> {
        let mut bytes = postcard::to_extend(body, vec![0; PREFIX_BYTES])
            .expect("plain values, and memory does not fail");
        let body_bytes =
            u32::try_from(bytes.len() - PREFIX_BYTES).expect("small files are far below 4 GiB");
        bytes[..4].copy_from_slice(self.magic);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&body_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The body of a file.
    pub(crate) fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, Fault> {
        if bytes.len() < PREFIX_BYTES || &bytes[..4] != self.magic {
            return Err(Fault::Magic);
        }
        if u32_at(bytes, 12) as usize != bytes.len() - PREFIX_BYTES
            || u32_at(bytes, 4) != crc32c::crc32c(&bytes[8..])
        {
            return Err(Fault::Crc);
        }
        match u32_at(bytes, 8) {
            version if version == self.version => {
                postcard::from_bytes(&bytes[PREFIX_BYTES..]).map_err(|_| Fault::Body)
            }
            version => Err(Fault::Version(version)),
        }
    }
}

impl Fault {
    /// The error about a file that nothing can replace.
    pub(crate) fn of(self, path: &str) -> StoreError {
        match self {
            Self::Version(version) => StoreError::Newer {
                what: format!("{path}: version {version}"),
            },
            _ => StoreError::damaged(path),
        }
    }
}

/// Writes and syncs a file whole. Its name is the caller's to sync.
pub(crate) fn write(disk: &dyn Disk, path: &str, bytes: &[u8]) -> io::Result<()> {
    let file = disk.open(path, true)?;
    file.set_len(0)?;
    file.write_at(0, bytes)?;
    file.sync_data()
}

/// Reads a file whole, if it has `bytes_max` bytes at most.
pub(crate) fn read(disk: &dyn Disk, path: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, false)?;
    let len = file.len()?;
    if len > bytes_max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}
