//! Whether every event that is still needed for a subscription is there: in the log, or kept.

use super::report::CheckReport;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::inspect::Inspected;
use crate::view::View;

/// Compares what the view needs at the end of the log with what there is. The view is folded up to there.
pub(super) fn check(
    disk: &dyn Disk,
    mut view: View,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let log = Inspected::look(disk)?;
    log.for_each_group(view.mark(), |group| view.fold(group))?;
    for missing in view.missing(&log.events()) {
        report.problem("log, kept", None, missing.to_string());
    }
    Ok(())
}
