//! Brings an opened view up to its log, and refuses one that is not of the log's time.

use hedgerow_core::position::Mark;

use super::View;
use super::rows::damaged_view;
use crate::Group;
use crate::error::StoreError;
use crate::log::RecoveredLog;

impl View {
    /// Folds what the log has and the view has not, about `bytes_max` bytes at a time. Afterwards the view stands at the
    /// end of the log.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if events that are needed are neither in the log nor kept; [`StoreError::ViewAhead`] and [`StoreError::ViewBehind`] for a view from before or after the log, as when only one
    /// of them was restored from a backup.
    pub fn catch_up(&mut self, log: &RecoveredLog, bytes_max: usize) -> Result<(), StoreError> {
        self.catch_up_telling(log, bytes_max, |_| ())
    }

    /// The same; each group that is folded is told of.
    ///
    /// # Errors
    /// As [`View::catch_up`].
    pub fn catch_up_telling(
        &mut self,
        log: &RecoveredLog,
        bytes_max: usize,
        mut tell: impl FnMut(&Group),
    ) -> Result<(), StoreError> {
        self.check_between(log.oldest(), log.end())?;
        loop {
            let groups = log.groups(self.mark(), bytes_max)?;
            if groups.is_empty() {
                break;
            }
            for group in &groups {
                self.fold(group)?;
                tell(group);
            }
        }
        if self.group + 1 != log.next_number() {
            return Err(damaged_view("it belongs to another log"));
        }
        match self.missing(&log.events()).first() {
            Some(missing) => Err(StoreError::damaged(format!("log/, kept/ ({missing})"))),
            None => Ok(()),
        }
    }

    /// Whether the view stands where a log goes on that was forgotten up to `oldest` and ends at `end`.
    pub(crate) fn check_between(&self, oldest: Mark, end: Mark) -> Result<(), StoreError> {
        let stamp = self.mark();
        if stamp > end {
            Err(StoreError::ViewAhead { stamp, end })
        } else if stamp < oldest {
            Err(StoreError::ViewBehind { stamp, oldest })
        } else {
            Ok(())
        }
    }
}
