//! What is asked of a data directory that no server uses.

use std::path::Path;
use std::sync::Arc;

use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::table::Table;
use hedgerow_store::view::table::lsm::LsmTable;

pub use hedgerow_store::StoreError;
pub use hedgerow_store::log::check::{CheckReport, IndexCheck, Place, SegmentCheck, ViewCheck};
pub use hedgerow_store::stat::{SegmentStat, StatReport, SubscriptionStat, TopicStat};

/// Verifies everything in a data directory, with the key in `key_file` or else in the directory: what is wrong is in the report. Reads all of it, and changes nothing.
///
/// # Errors
/// If there is no store or a server uses it, if a newer version wrote it, and if the disk cannot be read.
pub fn check(data: &Path, key_file: Option<&Path>) -> Result<CheckReport, StoreError> {
    let disk = open(data)?;
    hedgerow_store::log::check::check(&disk, &secrets(&disk, key_file)?, &|| table(data))
}

/// Says what fills the disk, and for whom it is kept, with the key in `key_file` or else in the directory. Changes nothing.
///
/// # Errors
/// If there is no store or a server uses it, and whatever would keep it from being opened.
pub fn stat(data: &Path, key_file: Option<&Path>) -> Result<StatReport, StoreError> {
    let disk = open(data)?;
    hedgerow_store::stat::stat(&disk, &secrets(&disk, key_file)?, &|| table(data))
}

/// A directory that is there; opening a disk would make it.
fn open(data: &Path) -> Result<RealDisk, StoreError> {
    let directory = data.display().to_string();
    if !data.is_dir() {
        return Err(StoreError::Missing { directory });
    }
    RealDisk::new(data).map_err(|source| StoreError::Io {
        doing: "open",
        path: directory,
        source,
    })
}

fn secrets(disk: &RealDisk, key_file: Option<&Path>) -> Result<Arc<Secrets>, StoreError> {
    let secrets = match key_file {
        Some(path) => Secrets::from_file(path)?,
        None => Secrets::open(disk)?,
    };
    Ok(Arc::new(secrets))
}

fn table(data: &Path) -> Result<Option<Arc<dyn Table>>, StoreError> {
    let directory = data.join("view");
    if !directory.is_dir() {
        return Ok(None);
    }
    Ok(Some(Arc::new(LsmTable::open(&directory)?)))
}
