//! Builds a view that was lost, or that is of another time than the log, from `catalog/`, `baseline/`, `kept/` and `log/`.

use std::sync::Arc;

use hedgerow_core::position::Mark;
use hedgerow_core::time::Timestamp;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::lost::{self, Loss};
use crate::log::{self, Log, LogOptions, kept};
use crate::secrets::Secrets;
use crate::view::table::{OpenTable, Table};
use crate::view::{View, ViewOptions, catalog_files};

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
    /// Whether it is built although the log has lost its end.
    pub accept_loss: bool,
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
    /// What the log has lost, which was accepted.
    pub loss: Option<Loss>,
}

/// Builds the view of a store that nobody uses, in an empty table. `open_table` opens the table of the view that is there.
/// It, `make_table` and `put_in_place` are called while the directory is this process's own.
///
/// # Errors
/// As opening the log; [`StoreError::Lost`] if the log has lost its end and that was not accepted; [`StoreError::Unrecoverable`] if the log was forgotten up to a place of which no baseline is left.
pub fn recover(
    recovery: Recovery,
    open_table: OpenTable<'_>,
    make_table: impl FnOnce() -> Result<Arc<dyn Table>, StoreError>,
    put_in_place: impl FnOnce() -> Result<(), StoreError>,
) -> Result<RecoveryReport, StoreError> {
    let Recovery {
        disk,
        log,
        secrets,
        terminal_records_max,
        replay_bytes,
        accept_loss,
    } = recovery;
    let lock = log::take_lock(&*disk)?;
    // Before it is opened: that removes the indexes of lost segments.
    let loss = accepted(lost::look(&*disk, open_table)?, accept_loss)?;
    // Nothing is written to the log, so nobody asks for the time.
    let clock = Arc::new(|| Timestamp::ZERO);
    let log = Log::open_locked(Arc::clone(&disk), log, clock, lock)?;
    // Whatever was declared was in the log first.
    if log.end() == Mark::ZERO && !catalog_files::revisions(&*disk)?.is_empty() {
        return Err(StoreError::damaged(
            "log/: it is empty and catalog/ is not; the log",
        ));
    }
    let options = ViewOptions {
        store_id: log.store_id(),
        terminal_records_max,
    };
    let baseline = log.baseline()?;
    let mut view = View::rebuild(
        make_table()?,
        &*disk,
        Arc::clone(&secrets),
        options,
        baseline.as_ref(),
    )?;
    let mut pending_kept = 0;
    log.for_each_owed(&mut |event, (subscription, due, owed)| {
        pending_kept += 1;
        view.restore_owed(event, subscription, due, owed);
        Ok(())
    })?;
    view.catch_up(&log, replay_bytes)?;
    view.check_rows()?;
    // Nobody has read the events in them, and whoever delivers them would find what is wrong.
    kept::check::refuse_damage(&*disk, options.store_id)?;
    let known = view.catalog().revision;
    let loss = accepted(
        with_declarations(loss, &*disk, log.end(), known)?,
        accept_loss,
    )?;
    let checkpoint = view.begin_checkpoint()?;
    checkpoint.write(&*disk)?;
    view.finish_checkpoint();
    if loss.is_some() {
        lost::forget(&*disk, log.end())?;
        catalog_files::remove_after(&*disk, known)?;
    }
    catalog_files::remove_damaged(&*disk, &secrets)?;
    let subscriptions: Vec<_> = view.catalog().subscriptions().map(|one| one.id).collect();
    let report = RecoveryReport {
        oldest: log.oldest(),
        end: log.end(),
        topics: view.catalog().topics().count(),
        pending: subscriptions.iter().map(|id| view.counters(*id).1).sum(),
        subscriptions: subscriptions.len(),
        pending_kept,
        loss,
    };
    // The table must be closed before its directory is moved.
    drop(checkpoint);
    drop(view);
    put_in_place()?;
    Ok(report)
}

fn accepted(loss: Option<Loss>, accept_loss: bool) -> Result<Option<Loss>, StoreError> {
    match loss {
        Some(loss) if !accept_loss => Err(StoreError::Lost(Box::new(loss))),
        loss => Ok(loss),
    }
}

/// Adds the changes that only the catalog's files tell of.
fn with_declarations(
    loss: Option<Loss>,
    disk: &dyn Disk,
    end: Mark,
    known: u64,
) -> Result<Option<Loss>, StoreError> {
    let saved = catalog_files::revisions(disk)?.into_iter().max();
    let Some(saved) = saved.filter(|saved| *saved > known) else {
        return Ok(loss);
    };
    let of_declarations = Loss::of_declarations(end, known, saved);
    Ok(Some(match loss {
        None => of_declarations,
        Some(mut loss) => {
            loss.declarations = of_declarations.declarations;
            loss.because.extend(of_declarations.because);
            loss
        }
    }))
}
