//! `kept/MANIFEST`: which kept files count, how much of each, and up to which segment the log was cleaned.
//!
//! A [small file](crate::small_file) `HGkm`. It is written to a new name, synced and renamed: at any moment there is one whole manifest. The first one is there
//! before the first kept file is: so a kept file without a manifest is damage.

use std::io;

use serde::{Deserialize, Serialize};

use super::{Class, DIRECTORY};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::failpoint;
use crate::small_file::{self, Form};

pub(super) const PATH: &str = "kept/MANIFEST";
pub(crate) const NEW_PATH: &str = "kept/new-manifest";
const FORM: Form = Form {
    magic: b"HGkm",
    version: 1,
};

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
    let bytes = match small_file::read(disk, PATH, u64::MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("read", PATH)(error)),
    };
    let body: Body = FORM.decode(&bytes).map_err(|fault| fault.of(PATH))?;
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
    failpoint::hit("manifest-write");
    small_file::write(disk, NEW_PATH, &FORM.encode(&body))
        .map_err(StoreError::io("write", NEW_PATH))
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
