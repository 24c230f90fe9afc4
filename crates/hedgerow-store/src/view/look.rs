//! What the view answers about a topic, a subscription and its deliveries, as of the last record folded.

use std::collections::HashMap;

use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;

use super::View;
use super::rows::{self, Counters};
use super::table::Space;
use crate::error::StoreError;
use crate::record::{IN_FLIGHT, Owed, Progress};

/// A delivery that is due at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DueDelivery {
    /// When; [`IN_FLIGHT`] if its attempt runs.
    pub due: Timestamp,
    /// The event's number in the subscription's topic.
    pub seq: u64,
    /// What is owed next, and what was done so far.
    pub owed: Owed,
}

impl DueDelivery {
    /// The attempts so far, where the next one is owed.
    #[must_use]
    pub fn attempt(&self) -> Option<Progress> {
        self.owed.attempt()
    }
}

/// Where [`View::due`] begins to see everything, those in flight first.
pub const FIRST_IN_FLIGHT: (Timestamp, u64) = (IN_FLIGHT, 0);
/// Where [`View::due`] begins to see what waits for a due time.
pub const BEHIND_IN_FLIGHT: (Timestamp, u64) = (IN_FLIGHT, u64::MAX);

impl View {
    /// The number that the next event of the topic gets.
    #[must_use]
    pub fn next_seq(&self, topic: TopicId) -> u64 {
        self.topics.get(&topic).map_or(1, |row| row.next_seq)
    }

    /// The same for every topic there is or was.
    #[must_use]
    pub fn next_seqs(&self) -> HashMap<TopicId, u64> {
        self.topics
            .iter()
            .map(|(topic, row)| (*topic, row.next_seq))
            .collect()
    }

    /// The first event the reader has not said it has seen.
    #[must_use]
    pub fn read_to(&self, topic: TopicId) -> u64 {
        self.topics.get(&topic).map_or(1, |row| row.read_to)
    }

    /// The first event the subscription may still have to attempt.
    #[must_use]
    pub fn cursor(&self, subscription: SubscriptionId) -> u64 {
        self.subscriptions
            .get(&subscription)
            .map_or(u64::MAX, |state| {
                state
                    .row
                    .cursor
                    .unwrap_or_else(|| state.topic.map_or(1, |topic| self.read_to(topic)))
            })
    }

    /// Counters of the subscription, and how many deliveries are unsettled.
    #[must_use]
    pub fn counters(&self, subscription: SubscriptionId) -> (Counters, u64) {
        self.subscriptions
            .get(&subscription)
            .map_or_else(Default::default, |state| {
                (state.row.counters, state.open.len())
            })
    }

    /// Whether the delivery was begun and is not settled.
    #[must_use]
    pub fn is_open(&self, subscription: SubscriptionId, seq: u64) -> bool {
        self.subscriptions
            .get(&subscription)
            .is_some_and(|state| state.open.contains(seq))
    }

    /// The first unsettled delivery of a subscription.
    #[must_use]
    pub fn first_open(&self, subscription: SubscriptionId) -> Option<u64> {
        self.subscriptions.get(&subscription)?.open.iter().next()
    }

    /// The unsettled deliveries of a subscription, ascending. For checks.
    #[must_use]
    pub fn open_seqs(&self, subscription: SubscriptionId) -> Vec<u64> {
        self.subscriptions
            .get(&subscription)
            .map_or_else(Vec::new, |state| state.open.iter().collect())
    }

    /// The first `limit` deliveries of the subscription that stand in the due index behind `after` and are due at
    /// `through` at the latest, by due time, then by `seq`. Those in flight stand at [`IN_FLIGHT`].
    pub fn due(
        &self,
        subscription: SubscriptionId,
        after: (Timestamp, u64),
        through: Timestamp,
        limit: usize,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        let state = self.subscriptions.get(&subscription);
        let floor = state.map(|state| state.first_due.get());
        let mut from = rows::due_key(subscription, after.0, after.1).to_vec();
        from.push(0);
        // Behind those in flight nothing stands before the floor; a scan from there would walk over removed rows.
        let floor = floor.filter(|_| after != FIRST_IN_FLIGHT);
        if let Some(floor) = floor.filter(|floor| *floor > after.0) {
            from = rows::due_key(subscription, floor, 0).to_vec();
        }
        let mut to = rows::due_key(subscription, through, u64::MAX).to_vec();
        to.push(0);
        let rows = self.layers.scan(Space::Due, &from, &to, limit)?;
        let rows = rows.into_iter().map(|(key, value)| {
            let (due, seq) = rows::parse_due_key(&key)?;
            Ok(DueDelivery {
                due,
                seq,
                owed: rows::decode(&value)?,
            })
        });
        let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
        let is_first = after == BEHIND_IN_FLIGHT || floor.is_some_and(|floor| floor > after.0);
        if let (Some(state), true, true) = (state, is_first, limit > 0) {
            // The next look walks over none of those that were removed before.
            let first = rows.first().map_or(through, |row| row.due);
            state.first_due.set(first.max(state.first_due.get()));
        }
        Ok(rows)
    }

    /// What stands in the due index under this time for the delivery.
    pub fn owed(
        &self,
        subscription: SubscriptionId,
        due: Timestamp,
        seq: u64,
    ) -> Result<Option<Owed>, StoreError> {
        let key = rows::due_key(subscription, due, seq).to_vec();
        let mut behind = key.clone();
        behind.push(0);
        let found = self.layers.scan(Space::Due, &key, &behind, 1)?;
        found.first().map(|(_, row)| rows::decode(row)).transpose()
    }

    /// How many crashes in a row the delivery was in flight at, counting one that is found now. An orderly stop resets
    /// the count (ED-190).
    #[must_use]
    pub fn crashes_with_this_one(&self, progress: &Progress) -> u8 {
        let counts = progress.crashes > 0 && progress.crash_epoch > self.clean_epoch;
        if counts {
            progress.crashes.saturating_add(1)
        } else {
            1
        }
    }
}
