//! Builds a view again that was lost: from a baseline and from what is kept of the segments before it. The log from there on
//! is folded as always.
//!
//! Terminal records from before the baseline are lost with the view (their number is not), and so are the ids of publish
//! requests.

use std::sync::Arc;

use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::time::Timestamp;

use super::baseline::Baseline;
use super::catalog_files;
use super::open_set::OpenSet;
use super::table::Table;
use super::{FIRST_IN_FLIGHT, View, ViewOptions};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::record::Owed;
use crate::secrets::Secrets;

/// Rows that are counted at once.
const SCAN_ROWS: usize = 4096;

impl View {
    /// A view over an empty table that stands where the baseline was taken; at the log's first group without one. What is
    /// owed of older events comes through [`View::restore_owed`], then the log is to be folded.
    ///
    /// # Errors
    /// If the catalog that the baseline names is missing or damaged.
    pub fn rebuild(
        table: Arc<dyn Table>,
        disk: &dyn Disk,
        secrets: Arc<Secrets>,
        options: ViewOptions,
        baseline: Option<&Baseline>,
    ) -> Result<Self, StoreError> {
        let mut view = Self::empty(table, secrets, options);
        view.list_baselines(disk)?;
        let Some(baseline) = baseline else {
            return Ok(view);
        };
        view.mark = baseline.mark;
        view.group = baseline.group;
        view.clean_epoch = baseline.clean_epoch;
        view.next_terminal = baseline.next_terminal;
        view.first_terminal = baseline.next_terminal;
        view.catalog = catalog_files::read(disk, baseline.catalog_revision, &view.secrets)?;
        view.saved_revision = baseline.catalog_revision;
        view.log_time = baseline.log_time;
        for (id, place) in &baseline.snapshots {
            view.snapshots.insert(*id, place.clone());
            view.changed.snapshots.insert(*id);
        }
        for (id, row) in &baseline.topics {
            view.topics.insert(*id, *row);
            view.changed.topics.insert(*id);
        }
        for part in &baseline.subscriptions {
            let mut row = part.row;
            row.due_floor = Timestamp::ZERO;
            let mut open = OpenSet::default();
            open.restore(&part.open)?;
            view.restore_subscription(part.id, row, open);
            view.changed.subscriptions.insert(part.id);
        }
        Ok(view)
    }

    /// Takes what was owed for an older event when the baseline was taken.
    pub fn restore_owed(
        &mut self,
        event: Position,
        subscription: SubscriptionId,
        due: Timestamp,
        owed: Owed,
    ) {
        // What was gone by then is not owed.
        let is_open = self.subscriptions.get(&subscription).is_some_and(|state| {
            state.topic == Some(event.topic) && state.open.contains(event.seq)
        });
        if is_open {
            self.put_owed(subscription, due, event.seq, &owed);
        }
    }

    /// Looks whether each unsettled delivery has its row, after the log was folded.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the first subscription of which that is not so.
    pub fn check_rows(&self) -> Result<(), StoreError> {
        for (id, state) in &self.subscriptions {
            let mut rows = 0;
            let mut after = FIRST_IN_FLIGHT;
            loop {
                let found = self.due(*id, after, Timestamp::MAX, SCAN_ROWS)?;
                rows += found.len() as u64;
                match found.last() {
                    Some(last) if found.len() == SCAN_ROWS => after = (last.due, last.seq),
                    _ => break,
                }
            }
            if rows != state.open.len() {
                let open = state.open.len();
                return Err(StoreError::damaged(format!(
                    "the view (subscription {} has {open} unsettled deliveries and {rows} rows)",
                    id.0
                )));
            }
        }
        Ok(())
    }
}
