//! What is asked of a data directory that no server uses, and what is done to it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use hedgerow_store::disk::Disk;
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::log::LogOptions;
use hedgerow_store::recover::Recovery;
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::table::Table;
use hedgerow_store::view::table::lsm::LsmTable;

pub use hedgerow_store::StoreError;
pub use hedgerow_store::log::check::{CheckReport, IndexCheck, Place, SegmentCheck, ViewCheck};
pub use hedgerow_store::log::lost::Loss;
pub use hedgerow_store::recover::RecoveryReport;
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

/// Where a view is built before it takes its place, and where the one that it replaces is until then.
const NEW_VIEW: &str = "view.new";
const OLD_VIEW: &str = "view.old";
/// Bytes of log that are folded at a time.
const REPLAY_BYTES: usize = 8 * 1024 * 1024;

/// Builds the view again from the catalog, the baseline, what is kept and the log, with the key in `key_file` or else in
/// the directory. The view that is there, if any, is replaced when the new one is whole.
///
/// # Errors
/// If there is no store or a server uses it, if the log has lost its end and not `accept_loss`, and whatever keeps the view from being built; the one that was there is then
/// as it was.
pub fn recover(
    data: &Path,
    key_file: Option<&Path>,
    terminal_records_max: u64,
    accept_loss: bool,
) -> Result<RecoveryReport, StoreError> {
    let disk: Arc<dyn Disk> = Arc::new(open(data)?);
    // Refuses a directory without a store; a server that uses it is noticed when the log is opened.
    hedgerow_store::log::check::is_store(&*disk)?;
    let secrets = secrets(&*disk, key_file)?;
    let recovery = Recovery {
        disk: Arc::clone(&disk),
        log: LogOptions::default(),
        secrets,
        terminal_records_max,
        replay_bytes: REPLAY_BYTES,
        accept_loss,
    };
    let make_table = || {
        remove_directory(&data.join(NEW_VIEW))?;
        Ok(Arc::new(LsmTable::open(&data.join(NEW_VIEW))?) as Arc<dyn Table>)
    };
    let put_in_place = || {
        remove_directory(&data.join(OLD_VIEW))?;
        if data.join("view").is_dir() {
            rename(&*disk, "view", OLD_VIEW)?;
        }
        rename(&*disk, NEW_VIEW, "view")?;
        disk.sync_dir("").map_err(io_error("sync", data))?;
        remove_directory(&data.join(OLD_VIEW))
    };
    hedgerow_store::recover::recover(recovery, &|| table(data), make_table, put_in_place)
}

fn rename(disk: &dyn Disk, from: &str, to: &str) -> Result<(), StoreError> {
    disk.rename(from, to)
        .map_err(io_error("rename", Path::new(from)))
}

fn remove_directory(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.display().to_string();
    move |source| StoreError::Io {
        doing,
        path,
        source,
    }
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

fn secrets(disk: &dyn Disk, key_file: Option<&Path>) -> Result<Arc<Secrets>, StoreError> {
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
