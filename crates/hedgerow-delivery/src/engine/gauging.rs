//! How every subscription is doing, in numbers.

use hedgerow_store::StoreError;
use hedgerow_store::catalog::Subscription;
use hedgerow_store::view::BEHIND_IN_FLIGHT;

use super::Engine;
use crate::command::SubscriptionGauges;
use crate::runner::Runner;

/// Rows of the due index that one look goes through for dead letters, over all subscriptions.
const COUNTED_ROWS_MAX: usize = 10_000;

impl Engine {
    /// How every subscription is doing, by id.
    pub(super) fn gauges(&self) -> Result<Vec<SubscriptionGauges>, StoreError> {
        let mut rows_left = COUNTED_ROWS_MAX;
        let mut all: Vec<_> = self.view.catalog().subscriptions().collect();
        all.sort_unstable_by_key(|found| found.id);
        let gauges = all.into_iter().map(|found| {
            Ok(SubscriptionGauges {
                info: self.info(found),
                oldest: self.oldest_owed(found),
                pending_dead_letters: self.count_dead_letters(found, &mut rows_left)?,
            })
        });
        gauges.collect()
    }

    /// The first event that is owed, and its time where that is at hand.
    fn oldest_owed(
        &self,
        subscription: &Subscription,
    ) -> Option<(u64, Option<hedgerow_core::time::Timestamp>)> {
        let waiting = self
            .runners
            .get(&subscription.id)
            .and_then(Runner::oldest_waiting)
            .map(|(seq, published)| (seq, Some(published)));
        let open = self.view.first_open(subscription.id);
        let open = open.map(|seq| (seq, None));
        waiting.into_iter().chain(open).min_by_key(|(seq, _)| *seq)
    }

    fn count_dead_letters(
        &self,
        subscription: &Subscription,
        rows_left: &mut usize,
    ) -> Result<u64, StoreError> {
        if subscription.spec.dead_letter_destination.is_none() || *rows_left == 0 {
            return Ok(0);
        }
        let limit = *rows_left;
        let id = subscription.id;
        let page = self
            .view
            .pending_dead_letters(id, BEHIND_IN_FLIGHT, limit, rows_left)?;
        Ok(page.rows.len() as u64)
    }
}
