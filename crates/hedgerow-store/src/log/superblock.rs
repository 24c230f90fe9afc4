//! SUPER.a and SUPER.b: who the store is, in which format, and in which epoch.
//!
//! ```text
//!  0 "HEDGEROW"    8 format u32   12 segment bytes u32   16 store id, 16 bytes   32 epoch u32   60 crc32c u32
//! ```
//! The two are written in turn, so that one of them is whole at any moment: the one that was read is made durable once
//! more before the other is written.

use std::io;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::record::codec::u32_at;

const PATHS: [&str; 2] = ["SUPER.a", "SUPER.b"];
const MAGIC: &[u8; 8] = b"HEDGEROW";
const BYTES: usize = 64;
const CRC_AT: usize = 60;
/// The format of the log directory that this version writes and reads.
pub(crate) const FORMAT: u32 = 2;

/// What the files hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Super {
    /// Drawn when the store was made.
    pub store_id: [u8; 16],
    /// Raised at each open, before anything is written.
    pub epoch: u32,
    /// The size of new segments, for information.
    pub segment_bytes: u32,
}

/// The newest whole one of the two, and which file it is in.
pub(crate) fn read(disk: &dyn Disk) -> Result<Option<(Super, usize)>, StoreError> {
    let mut newest: Option<(Super, usize)> = None;
    for (slot, path) in PATHS.iter().enumerate() {
        if let Some(found) = read_one(disk, path)?
            && newest.is_none_or(|(newest, _)| newest.epoch < found.epoch)
        {
            newest = Some((found, slot));
        }
    }
    Ok(newest)
}

/// The files that are not whole or not there.
pub(crate) fn broken(disk: &dyn Disk) -> Result<Vec<&'static str>, StoreError> {
    let mut broken = Vec::new();
    for path in PATHS {
        if read_one(disk, path)?.is_none() {
            broken.push(path);
        }
    }
    Ok(broken)
}

fn read_one(disk: &dyn Disk, path: &'static str) -> Result<Option<Super>, StoreError> {
    let file = match disk.open(path, false) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("open", path)(error)),
    };
    let mut bytes = [0; BYTES];
    let read = file
        .read_at(0, &mut bytes)
        .map_err(StoreError::io("read", path))?;
    if read < BYTES {
        return Ok(None);
    }
    parse(&bytes, path)
}

/// Writes and syncs one of the two files and its name.
pub(crate) fn write(disk: &dyn Disk, slot: usize, content: &Super) -> Result<(), StoreError> {
    let path = PATHS[slot];
    let file = disk
        .open(path, true)
        .map_err(StoreError::io("create", path))?;
    file.write_at(0, &encode(content))
        .map_err(StoreError::io("write", path))?;
    file.sync_data().map_err(StoreError::io("sync", path))?;
    disk.sync_dir("")
        .map_err(StoreError::io("sync", disk.name()))
}

/// The file to write after the one in `slot`.
pub(crate) const fn other(slot: usize) -> usize {
    1 - slot
}

fn parse(bytes: &[u8; BYTES], path: &str) -> Result<Option<Super>, StoreError> {
    if &bytes[..8] != MAGIC || crc32c::crc32c(&bytes[..CRC_AT]) != u32_at(bytes, CRC_AT) {
        return Ok(None);
    }
    let format = u32_at(bytes, 8);
    if format < FORMAT {
        return Err(StoreError::Older {
            what: format!("{path}: format {format} of the log"),
        });
    }
    if format != FORMAT {
        return Err(StoreError::Newer {
            what: format!("{path}: format {format} of the log"),
        });
    }
    Ok(Some(Super {
        store_id: bytes[16..32].try_into().expect("sixteen bytes"),
        epoch: u32_at(bytes, 32),
        segment_bytes: u32_at(bytes, 12),
    }))
}

fn encode(content: &Super) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..16].copy_from_slice(&content.segment_bytes.to_le_bytes());
    bytes[16..32].copy_from_slice(&content.store_id);
    bytes[32..36].copy_from_slice(&content.epoch.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}
