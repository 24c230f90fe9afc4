//! Verifies a whole store that nobody uses: every group, every index, what is kept, the catalog and the view, and that
//! what the view needs is there. Changes nothing but the lock file.
//!
//! Unlike opening, it goes on behind a bad place: at the next intact group that proves that something was there. A torn
//! tail is no problem, as it is none for opening; the rule that tells the two apart is that of `recover`.

mod needed;
mod report;
mod walk;

use std::sync::Arc;

use hedgerow_core::position::Mark;

pub(crate) use self::report::as_text;
pub use self::report::{CheckReport, IndexCheck, Place, SegmentCheck, ViewCheck};
use self::walk::Walk;
use super::segment::{self, DIRECTORY, Segment};
use super::{kept, recover, superblock};
use crate::disk::{Disk, DiskLock};
use crate::error::StoreError;
use crate::secrets::Secrets;
use crate::view::table::OpenTable;
use crate::view::{View, ViewOptions, baseline, catalog_files, check as view_check};

/// Verifies everything, with the table under the view and the key of the secrets. What is wrong is in the report.
///
/// # Errors
/// If there is no store or a server uses it, if it was written by a newer version, and if the disk cannot be read.
pub fn check(
    disk: &dyn Disk,
    secrets: &Arc<Secrets>,
    open_table: OpenTable<'_>,
) -> Result<CheckReport, StoreError> {
    let _lock = lock_store(disk)?;
    let mut report = CheckReport::default();
    let Some((found, _)) = superblock::read(disk)? else {
        report.problem("SUPER.a, SUPER.b", None, "neither is whole");
        return Ok(report);
    };
    for path in superblock::broken(disk)? {
        report.note(path, "not whole, as after a crash; the other one is used");
    }
    report.epoch = found.epoch;
    let opened = open_view(disk, secrets, open_table, found.store_id);
    let cannot_open = opened.as_ref().err().map(StoreError::to_string);
    let view = opened.unwrap_or_default();
    let kept = kept::check::check(disk, found.store_id)?;
    let mut walk = Walk::new(disk, found.store_id, view.as_ref().map(View::mark), report);
    for segment in segments(disk, kept.cleaned_through, &mut walk.report)? {
        walk.segment(&segment)?;
    }
    let (mut report, seen) = walk.finish();
    check_newest(&mut report);
    add_kept(kept, &mut report);
    check_baselines(disk, found.store_id, &mut report)?;
    for (path, wrong) in catalog_files::check(disk, secrets)? {
        report.catalog_files += 1;
        if let Some(what) = wrong {
            report.problem(path, None, what);
        }
    }
    if let Some(view) = view {
        check_view(&view, &seen, &mut report);
        // What is wrong already would be told once more.
        if report.is_healthy() {
            match needed::check(disk, view, &mut report) {
                Err(error @ StoreError::Io { .. }) => return Err(error),
                Err(error) => report.problem("view", None, error.to_string()),
                Ok(()) => {}
            }
        }
    } else {
        let has_forgotten = report.oldest > Mark::ZERO;
        let missing =
            "missing, and the log has forgotten its beginning; `hedgerow recover` builds it again"
                .to_owned();
        if let Some(what) = cannot_open.or(has_forgotten.then_some(missing)) {
            report.problem("view", None, what);
        }
    }
    Ok(report)
}

/// Whether there is a store.
///
/// # Errors
/// [`StoreError::Missing`] if there is none.
pub fn is_store(disk: &dyn Disk) -> Result<(), StoreError> {
    let names = disk
        .list(DIRECTORY)
        .map_err(StoreError::io("list", DIRECTORY))?;
    // A server that ended while it made the store left nothing to look at either.
    let is_there = superblock::read(disk)?.is_some()
        || names.iter().any(|name| segment::number_of(name).is_some());
    if is_there {
        Ok(())
    } else {
        Err(StoreError::Missing {
            directory: disk.name(),
        })
    }
}

/// Takes the lock of a store that is there.
///
/// # Errors
/// If there is no store, or a server uses it.
pub(crate) fn lock_store(disk: &dyn Disk) -> Result<DiskLock, StoreError> {
    is_store(disk)?;
    super::take_lock(disk)
}

/// An index is written when the next segment has a durable group, so the newest segment has none. (Opening does not ask: a
/// log whose end was lost goes on where it ends now, as after a restore.)
fn check_newest(report: &mut CheckReport) {
    if let Some(newest) = report.segments.last()
        && newest.index == IndexCheck::Right
    {
        let missing = segment::path(newest.number + 1);
        report.problem(
            missing,
            None,
            "missing, the index of the one before says that it was there; `hedgerow recover` says what is lost",
        );
    }
}

fn add_kept(kept: kept::check::Checked, report: &mut CheckReport) {
    report.kept_files = kept.files;
    report.kept_events = kept.events;
    report.read_bytes += kept.bytes;
    for (path, what) in kept.problems {
        report.problem(path, None, what);
    }
}

/// Whether a view can be built again, should it be lost.
fn check_baselines(
    disk: &dyn Disk,
    store_id: [u8; 16],
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    for name in baseline::list(disk)? {
        if let Err(error) = baseline::read(disk, store_id, name.segment) {
            report.problem(baseline::path_of(name), None, error.to_string());
        }
    }
    let oldest = report.segments.first().map_or(0, |segment| segment.number);
    if report.oldest > Mark::ZERO
        && !baseline::list(disk)?
            .iter()
            .any(|name| name.segment == oldest)
    {
        let what = format!("none for segment {oldest}: a lost view could not be built again");
        report.note(baseline::DIRECTORY, what);
    }
    Ok(())
}

fn segments(
    disk: &dyn Disk,
    cleaned_through: u32,
    report: &mut CheckReport,
) -> Result<Vec<Segment>, StoreError> {
    let names = disk
        .list(DIRECTORY)
        .map_err(StoreError::io("list", DIRECTORY))?;
    let mut numbers: Vec<u32> = names
        .iter()
        .filter(|name| !recover::is_cleaned(name, cleaned_through))
        .filter_map(|name| segment::number_of(name))
        .collect();
    numbers.sort_unstable();
    for pair in numbers.windows(2).filter(|pair| pair[0] + 1 != pair[1]) {
        report.problem(
            segment::path(pair[0] + 1),
            None,
            "missing, later ones are there",
        );
    }
    numbers
        .iter()
        .map(|number| recover::open_segment(disk, *number))
        .collect()
}

fn open_view(
    disk: &dyn Disk,
    secrets: &Arc<Secrets>,
    open_table: OpenTable<'_>,
    store_id: [u8; 16],
) -> Result<Option<View>, StoreError> {
    let Some(table) = open_table()? else {
        return Ok(None);
    };
    let options = ViewOptions {
        store_id,
        terminal_records_max: u64::MAX,
    };
    View::open(table, disk, Arc::clone(secrets), options).map(Some)
}

/// Whether the view can be read and stands at the end of a group of this log.
fn check_view(view: &View, seen: &walk::Seen, report: &mut CheckReport) {
    match view_check::rows(view) {
        Ok(rows) => {
            report.view = Some(ViewCheck {
                stamp: view.mark(),
                rows,
            });
        }
        Err(error) => report.problem("view", None, error.to_string()),
    }
    if let Err(error) = view.check_between(report.oldest, report.end) {
        report.problem("view", None, error.to_string());
        return;
    }
    // At the oldest place the last group is not there any more, but the next one is.
    let expected = if view.mark() == report.oldest {
        seen.first_number.map(|first| first - 1)
    } else {
        seen.number_at_stamp
    };
    let is_of_this_log = match expected {
        Some(number) => number == view_check::group(view),
        None => view.mark() == Mark::ZERO,
    };
    if !is_of_this_log {
        let what = format!(
            "it stands at {}, where this log has no such group",
            view.mark()
        );
        report.problem("view", None, what);
    }
}
