//! Verifies kept files: every block, and the events in it. Goes on with the next file behind a bad place.

use super::file::KeptFile;
use super::manifest;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::record::unpack_event;

/// What is in the kept files.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub cleaned_through: u32,
    pub files: usize,
    pub bytes: u64,
    pub events: u64,
    /// Files with something wrong, and what.
    pub problems: Vec<(String, String)>,
}

/// Reads all that the manifest names.
pub(crate) fn check(disk: &dyn Disk, store_id: [u8; 16]) -> Result<Checked, StoreError> {
    let mut checked = Checked::default();
    let manifest = match super::read_manifest(disk, store_id) {
        Ok(manifest) => manifest.unwrap_or_default(),
        Err(error @ StoreError::Damaged { .. }) => {
            checked
                .problems
                .push((manifest::PATH.to_owned(), error.to_string()));
            return Ok(checked);
        }
        Err(error) => return Err(error),
    };
    checked.cleaned_through = manifest.cleaned_through;
    for entry in &manifest.files {
        checked.files += 1;
        checked.bytes += entry.len_bytes;
        match KeptFile::open(disk, store_id, entry).and_then(|file| events_in(&file)) {
            Ok(events) => checked.events += events,
            Err(error @ StoreError::Damaged { .. }) => {
                checked.problems.push((entry.path(), error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(checked)
}

/// Reads all that the manifest names.
///
/// # Errors
/// [`StoreError::Damaged`] with the first file that has something wrong.
pub(crate) fn refuse_damage(disk: &dyn Disk, store_id: [u8; 16]) -> Result<(), StoreError> {
    let manifest = super::read_manifest(disk, store_id)?.unwrap_or_default();
    manifest.files.iter().try_for_each(|entry| {
        let file = KeptFile::open(disk, store_id, entry)?;
        events_in(&file).map(drop)
    })
}

fn events_in(file: &KeptFile) -> Result<u64, StoreError> {
    let mut count = 0;
    file.for_each_block(|block| {
        for (_, event) in file.positioned_events(&block)? {
            unpack_event(&event.bytes)?;
            count += 1;
        }
        Ok(())
    })?;
    Ok(count)
}
