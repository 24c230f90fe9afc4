//! The files of the catalog, `catalog/<revision>.json`: one a revision, so that a person can read what is declared, and a lost
//! table can be built again.
//!
//! The last member of a file is the checksum of the file as it would be without that member. Older servers wrote files
//! without one.

use super::baseline;
use crate::catalog::Catalog;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::secrets::Secrets;

pub(crate) const DIRECTORY: &str = "catalog";
const ENDING: &str = ".json";
/// Files that are kept beside those that a baseline names.
const FILES_KEPT: usize = 4;
/// How a catalog ends, as JSON that is set in lines.
const END: &[u8] = b"\n}";
/// What stands before and behind the checksum, in place of that end.
const BEFORE_CRC: &[u8] = b",\n  \"crc32c\": \"";
const AFTER_CRC: &[u8] = b"\"\n}";
/// Hexadecimal digits of a checksum.
const CRC_LEN: usize = 8;

fn path_of(revision: u64) -> String {
    format!("{DIRECTORY}/{revision:016}{ENDING}")
}

/// The revision that a file name in the directory stands for.
fn revision_of(name: &str) -> Option<u64> {
    name.strip_suffix(ENDING)?.parse().ok()
}

/// The revisions that have a file, ascending.
pub(crate) fn revisions(disk: &dyn Disk) -> Result<Vec<u64>, StoreError> {
    let names = disk
        .list(DIRECTORY)
        .map_err(StoreError::io("list", DIRECTORY))?;
    let mut revisions: Vec<_> = names.iter().filter_map(|name| revision_of(name)).collect();
    revisions.sort_unstable();
    Ok(revisions)
}

/// Writes the file of a revision, durably.
pub(super) fn write(disk: &dyn Disk, revision: u64, json: Vec<u8>) -> Result<(), StoreError> {
    let io = |source| StoreError::Io {
        doing: "write",
        path: path_of(revision),
        source,
    };
    disk.create_dir(DIRECTORY).map_err(io)?;
    // A directory whose own name is not durable takes its files with it.
    disk.sync_dir("").map_err(io)?;
    let new = format!("{DIRECTORY}/new");
    let file = disk.open(&new, true).map_err(io)?;
    file.set_len(0).map_err(io)?;
    file.write_at(0, &with_crc(json)).map_err(io)?;
    file.sync_data().map_err(io)?;
    disk.rename(&new, &path_of(revision)).map_err(io)?;
    disk.sync_dir(DIRECTORY).map_err(io)?;
    Ok(())
}

/// Reads the file of a revision; the empty catalog of the first one has none.
///
/// # Errors
/// [`StoreError::CatalogMissing`], [`StoreError::CatalogDamaged`]; [`StoreError::Key`] if its secrets were sealed with another
/// key.
pub(super) fn read(
    disk: &dyn Disk,
    revision: u64,
    secrets: &Secrets,
) -> Result<Catalog, StoreError> {
    if revision == 0 {
        return Ok(Catalog::default());
    }
    let path = path_of(revision);
    let io = |source| StoreError::Io {
        doing: "read",
        path: path_of(revision),
        source,
    };
    let file = disk.open(&path, false).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            StoreError::CatalogMissing {
                path: path_of(revision),
            }
        } else {
            io(error)
        }
    })?;
    let mut bytes = vec![0; file.len().map_err(io)? as usize];
    file.read_at(0, &mut bytes).map_err(io)?;
    let damaged = |problem: String| StoreError::CatalogDamaged {
        path: path_of(revision),
        problem,
    };
    let json = without_crc(bytes).map_err(|problem| damaged(problem.to_owned()))?;
    let catalog = Catalog::from_sealed_json(&json, secrets, &path)?;
    if catalog.revision == revision {
        Ok(catalog)
    } else {
        Err(damaged(format!("it holds revision {}", catalog.revision)))
    }
}

fn with_crc(mut json: Vec<u8>) -> Vec<u8> {
    debug_assert!(json.ends_with(END), "an object that is set in lines");
    let crc = crc32c::crc32c(&json);
    json.truncate(json.len() - END.len());
    json.extend(BEFORE_CRC);
    json.extend(format!("{crc:0CRC_LEN$x}").bytes());
    json.extend(AFTER_CRC);
    json
}

/// The bytes as they were before the checksum came to them; as they are if they have none.
fn without_crc(mut bytes: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    let Some((before, crc)) = bytes
        .strip_suffix(AFTER_CRC)
        .and_then(|bytes| bytes.split_last_chunk::<CRC_LEN>())
        .and_then(|(bytes, crc)| Some((bytes.strip_suffix(BEFORE_CRC)?, *crc)))
    else {
        return Ok(bytes);
    };
    let before_len = before.len();
    bytes.truncate(before_len);
    bytes.extend(END);
    if format!("{:0CRC_LEN$x}", crc32c::crc32c(&bytes)).as_bytes() == crc {
        Ok(bytes)
    } else {
        Err("its crc is wrong")
    }
}

/// Removes the files that neither the stamp nor a baseline names, but for the newest of them.
pub(super) fn remove_old(disk: &dyn Disk, revision: u64) -> Result<(), StoreError> {
    let baselines = baseline::list(disk)?.into_iter();
    let oldest = baselines.map(|baseline| baseline.catalog_revision).min();
    let needed_from = oldest.unwrap_or(revision).min(revision);
    let mut old = revisions(disk)?;
    old.retain(|one| *one < needed_from);
    let surplus = old.len().saturating_sub(FILES_KEPT);
    old.into_iter()
        .take(surplus)
        .try_for_each(|one| remove(disk, one))
}

/// Removes the files of later revisions, of changes that the log has lost.
pub(crate) fn remove_after(disk: &dyn Disk, revision: u64) -> Result<(), StoreError> {
    let mut later = revisions(disk)?;
    later.retain(|one| *one > revision);
    later.into_iter().try_for_each(|one| remove(disk, one))
}

/// Removes files that are damaged, and baselines that name them: a view that was built without them needs neither, and one
/// that is built later would not get further with them.
pub(crate) fn remove_damaged(disk: &dyn Disk, secrets: &Secrets) -> Result<(), StoreError> {
    for revision in revisions(disk)? {
        if let Err(StoreError::CatalogDamaged { .. }) = read(disk, revision, secrets) {
            baseline::remove_of_catalog(disk, revision)?;
            remove(disk, revision)?;
        }
    }
    Ok(())
}

fn remove(disk: &dyn Disk, revision: u64) -> Result<(), StoreError> {
    let path = path_of(revision);
    disk.remove(&path).map_err(StoreError::io("remove", path))
}

/// Each file, and what is wrong with it.
pub(crate) fn check(
    disk: &dyn Disk,
    secrets: &Secrets,
) -> Result<Vec<(String, Option<String>)>, StoreError> {
    let checked = revisions(disk)?.into_iter().map(|revision| {
        let wrong = read(disk, revision, secrets).err();
        (path_of(revision), wrong.map(|error| error.to_string()))
    });
    Ok(checked.collect())
}
