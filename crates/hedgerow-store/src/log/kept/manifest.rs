//! `kept/MANIFEST`: which kept files count, how much of each, and up to which segment the log was cleaned.
//!
//! ```text
//!  0 "HGkm"    4 crc32c u32 of what follows    8 version u32    12 length of the body u32    16 body, `postcard`
//! ```
//! It is written to a new name, synced and renamed: at any moment there is one whole manifest. The first one is there
//! before the first kept file is: so a kept file without a manifest is damage.

use std::io;

use serde::{Deserialize, Serialize};

use super::{Class, DIRECTORY};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::failpoint;
use crate::record::codec::u32_at;

pub(super) const PATH: &str = "kept/MANIFEST";
pub(crate) const NEW_PATH: &str = "kept/new-manifest";
const MAGIC: &[u8; 4] = b"HGkm";
const VERSION: u32 = 1;
const PREFIX_BYTES: usize = 16;

/// What counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub cleaned_through: u32,
    pub next_file: u32,
    pub files: Vec<Entry>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub class: Class,
    pub number: u32,
    /// Events that expire at about the same time have the same.
    pub bucket: u64,
    /// What is behind this does not count.
    pub len_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Body {
    store_id: [u8; 16],
    cleaned_through: u32,
    next_file: u32,
    files: Vec<Entry>,
}

impl Entry {
    /// Where the file is.
    pub(crate) fn path(&self) -> String {
        format!("{}/{:08x}.kept", self.class.directory(), self.number)
    }
}

/// Reads the manifest, if there is one.
pub(crate) fn read(disk: &dyn Disk, store_id: [u8; 16]) -> Result<Option<Manifest>, StoreError> {
    let bytes = match read_file(disk) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("read", PATH)(error)),
    };
    let is_whole = bytes.len() >= PREFIX_BYTES
        && &bytes[..4] == MAGIC
        && u32_at(&bytes, 12) as usize == bytes.len() - PREFIX_BYTES
        && u32_at(&bytes, 4) == crc32c::crc32c(&bytes[8..]);
    if !is_whole {
        return Err(StoreError::damaged(PATH));
    }
    let version = u32_at(&bytes, 8);
    if version != VERSION {
        let what = format!("{PATH}: version {version}");
        return Err(StoreError::Newer { what });
    }
    let body: Body =
        postcard::from_bytes(&bytes[PREFIX_BYTES..]).map_err(|_| StoreError::damaged(PATH))?;
    if body.store_id != store_id {
        return Err(StoreError::damaged(format!(
            "{PATH}: it belongs to another store; it"
        )));
    }
    Ok(Some(Manifest {
        cleaned_through: body.cleaned_through,
        next_file: body.next_file,
        files: body.files,
    }))
}

/// Writes the manifest under its new name, durably. It does not count before [`put`].
pub(super) fn prepare(
    disk: &dyn Disk,
    store_id: [u8; 16],
    manifest: &Manifest,
) -> Result<(), StoreError> {
    let body = Body {
        store_id,
        cleaned_through: manifest.cleaned_through,
        next_file: manifest.next_file,
        files: manifest.files.clone(),
    };
    let mut bytes = postcard::to_extend(&body, vec![0; PREFIX_BYTES])
        .expect("plain values, and memory does not fail");
    let body_bytes = u32::try_from(bytes.len() - PREFIX_BYTES).expect("few files are kept");
    bytes[..4].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&body_bytes.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    failpoint::hit("manifest-write");
    write_new(disk, &bytes).map_err(StoreError::io("write", NEW_PATH))
}

/// Puts the manifest that was prepared in the place of the one that counts, durably.
///
/// # Errors
/// Either may count then, and the next open tells which. So it is never one that passes by itself.
pub(super) fn put(disk: &dyn Disk) -> Result<(), StoreError> {
    failpoint::hit("manifest-rename");
    disk.rename(NEW_PATH, PATH)
        .map_err(io::Error::other)
        .map_err(StoreError::io("rename", NEW_PATH))?;
    failpoint::hit("manifest-renamed");
    sync_names(disk)
}

/// Makes the manifest's name durable, and that of its directory.
pub(super) fn sync_names(disk: &dyn Disk) -> Result<(), StoreError> {
    for (directory, name) in [(DIRECTORY, DIRECTORY.to_owned()), ("", disk.name())] {
        disk.sync_dir(directory)
            .map_err(io::Error::other)
            .map_err(StoreError::io("sync", name))?;
    }
    Ok(())
}

fn write_new(disk: &dyn Disk, bytes: &[u8]) -> io::Result<()> {
    let file = disk.open(NEW_PATH, true)?;
    file.set_len(0)?;
    file.write_at(0, bytes)?;
    file.sync_data()
}

fn read_file(disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let file = disk.open(PATH, false)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}
