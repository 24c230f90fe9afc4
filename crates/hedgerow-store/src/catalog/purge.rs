//! What an operator dropped of a subscription. A purge is a place in the log: whatever was pending of the events before it is
//! dropped, and a crash in between changes nothing about that.

use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Catalog, Subscription};

/// Purges that are remembered of a subscription.
pub const PURGES_MAX: usize = 16;

/// A purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purge {
    /// Events from here on were not attempted when it was asked for.
    pub from_seq: u64,
    /// Up to here, exclusive, everything pending is dropped.
    pub to_seq: u64,
    /// When it was asked for.
    pub at: Timestamp,
    /// Deliveries that were begun before it may be unsettled still: none of them is attempted again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_under_way: bool,
}

impl Catalog {
    /// The first event that no purge of the subscription has dropped; 0 without one.
    #[must_use]
    pub fn purged_to(&self, id: SubscriptionId) -> u64 {
        let newest = self.subscription(id).and_then(|found| found.purges.last());
        newest.map_or(0, |purge| purge.to_seq)
    }

    pub(super) fn begin_purge(
        &mut self,
        id: SubscriptionId,
        from_seq: u64,
        at: Timestamp,
        next_seq: impl Fn(TopicId) -> u64,
    ) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return;
        };
        let to_seq = next_seq(subscription.topic);
        subscription.begin_purge(from_seq, to_seq, at);
        // What is pending of those it has passed was matched before.
        self.forget_filters_before(id, to_seq);
    }

    pub(super) fn end_purge(&mut self, id: SubscriptionId) {
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            subscription.end_purge();
        }
    }
}

impl Subscription {
    /// Up to which event, exclusive, a purge is under way.
    #[must_use]
    pub fn purging_to(&self) -> Option<u64> {
        let newest = self.purges.last().filter(|purge| purge.is_under_way);
        newest.map(|purge| purge.to_seq)
    }

    /// A purge begins; it takes over from one that is under way.
    fn begin_purge(&mut self, from_seq: u64, to_seq: u64, at: Timestamp) {
        self.end_purge();
        self.purges.push(Purge {
            from_seq: from_seq.min(to_seq),
            to_seq,
            at,
            is_under_way: true,
        });
        let too_many = self.purges.len().saturating_sub(PURGES_MAX);
        self.purges.drain(..too_many);
    }

    fn end_purge(&mut self) {
        if let Some(newest) = self.purges.last_mut() {
            newest.is_under_way = false;
        }
    }
}
