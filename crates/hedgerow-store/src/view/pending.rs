//! What waits to be written to the dead-letter store (ED-248). It stands in the due index, among the attempts.

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;

use super::{BEHIND_IN_FLIGHT, View};
use crate::error::StoreError;
use crate::record::{Owed, PendingDeadLetter};

/// Some pending dead letters of one subscription, and where to go on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PendingPage {
    /// When each is to be written, its number in its topic, and what is known of it; by due time, then by number.
    pub rows: Vec<(Timestamp, u64, PendingDeadLetter)>,
    /// Pass as `after` for the next page; `None` when there are no more.
    pub next: Option<(Timestamp, u64)>,
}

impl View {
    /// The first `limit` pending dead letters of the subscription behind the row `after`. Looks at `rows_left` rows at most,
    /// as attempts are among them, and says how many are left: a page may hold fewer although there are more.
    pub fn pending_dead_letters(
        &self,
        subscription: SubscriptionId,
        after: (Timestamp, u64),
        limit: usize,
        rows_left: &mut usize,
    ) -> Result<PendingPage, StoreError> {
        let mut last = after.max(BEHIND_IN_FLIGHT);
        let rows = self.due(subscription, last, Timestamp::MAX, *rows_left)?;
        let is_whole = rows.len() < *rows_left;
        *rows_left -= rows.len();
        let mut page = PendingPage::default();
        for row in rows {
            if page.rows.len() == limit {
                page.next = Some(last);
                return Ok(page);
            }
            last = (row.due, row.seq);
            if let Owed::DeadLetter(pending) = row.owed {
                page.rows.push((row.due, row.seq, pending));
            }
        }
        page.next = (!is_whole).then_some(last);
        Ok(page)
    }
}
