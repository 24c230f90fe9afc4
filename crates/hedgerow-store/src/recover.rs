//! Builds a view that was lost, or that is of another time than the log, from `catalog/`, `baseline/`, `kept/` and `log/`.

use std::sync::Arc;

use hedgerow_core::position::Mark;
use hedgerow_core::time::Timestamp;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::{Log, LogOptions};
use crate::secrets::Secrets;
use crate::view::CATALOG_DIRECTORY;
use crate::view::table::Table;
use crate::view::{View, ViewOptions};

/// What a view is built from, and where to.
pub struct Recovery {
    /// The data directory.
    pub disk: Arc<dyn Disk>,
    /// How its log is kept.
    pub log: LogOptions,
    /// The key of its secrets.
    pub secrets: Arc<Secrets>,
    /// How many terminal records are kept.
    pub terminal_records_max: u64,
    /// Bytes of log that are folded at a time.
    pub replay_bytes: usize,
}

/// What a view that was built again has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Where the log begins.
    pub oldest: Mark,
    /// Where the view stands now: the end of the log.
    pub end: Mark,
    /// Topics declared.
    pub topics: usize,
    /// Subscriptions declared.
    pub subscriptions: usize,
    /// Deliveries that are unsettled.
    pub pending: u64,
    /// Of them, those of events in kept files.
    pub pending_kept: u64,
}

/// Builds the view of a store that nobody uses, in an empty table. `make_table` and `put_in_place` are called while the
/// directory is this process's own.
///
/// # Errors
/// As opening the log; [`StoreError::Unrecoverable`] if the log was forgotten up to a place of which no baseline is left.
pub fn recover(
    recovery: Recovery,
    make_table: impl FnOnce() -> Result<Arc<dyn Table>, StoreError>,
    put_in_place: impl FnOnce() -> Result<(), StoreError>,
) -> Result<RecoveryReport, StoreError> {
    let Recovery {
        disk,
        log,
        secrets,
        terminal_records_max,
        replay_bytes,
    } = recovery;
    // Nothing is written to the log, so nobody asks for the time.
    let log = Log::open(Arc::clone(&disk), log, Arc::new(|| Timestamp::ZERO))?;
    let options = ViewOptions {
        store_id: log.store_id(),
        terminal_records_max,
    };
    // Whatever was declared was in the log first.
    let has_catalog = !disk
        .list(CATALOG_DIRECTORY)
        .map_err(StoreError::io("list", CATALOG_DIRECTORY))?
        .is_empty();
    if has_catalog && log.end() == Mark::ZERO {
        return Err(StoreError::damaged(
            "log/: it is empty and catalog/ is not; the log",
        ));
    }
    let baseline = log.baseline()?;
    let mut view = View::rebuild(make_table()?, &*disk, secrets, options, baseline.as_ref())?;
    let mut pending_kept = 0;
    log.for_each_owed(&mut |event, (subscription, due, owed)| {
        pending_kept += 1;
        view.restore_owed(event, subscription, due, owed);
        Ok(())
    })?;
    view.catch_up(&log, replay_bytes)?;
    view.check_rows()?;
    let checkpoint = view.begin_checkpoint()?;
    checkpoint.write(&*disk)?;
    view.finish_checkpoint();
    let subscriptions: Vec<_> = view.catalog().subscriptions().map(|one| one.id).collect();
    let report = RecoveryReport {
        oldest: log.oldest(),
        end: log.end(),
        topics: view.catalog().topics().count(),
        pending: subscriptions.iter().map(|id| view.counters(*id).1).sum(),
        subscriptions: subscriptions.len(),
        pending_kept,
    };
    // The table must be closed before its directory is moved.
    drop(checkpoint);
    drop(view);
    put_in_place()?;
    Ok(report)
}
