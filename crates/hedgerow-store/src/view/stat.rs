//! What is kept for whom.

use std::fmt;
use std::ops::RangeInclusive;

use hedgerow_core::position::{SubscriptionId, TopicId};
use roaring::RoaringTreemap;

use super::View;
use crate::log::inspect::Events;

impl View {
    /// For each subscription of a topic, which events in this range are still needed for it: those from its cursor on,
    /// and the unsettled ones before.
    #[must_use]
    pub fn kept(
        &self,
        topic: TopicId,
        seqs: RangeInclusive<u64>,
    ) -> Vec<(SubscriptionId, RoaringTreemap)> {
        let subscriptions = self.catalog.subscriptions_of(topic);
        let kept = subscriptions.map(|subscription| {
            let id = subscription.id;
            let from = self.cursor(id).max(*seqs.start());
            let mut kept = RoaringTreemap::new();
            if from <= *seqs.end() {
                kept.insert_range(from..=*seqs.end());
            }
            if let Some(state) = self.subscriptions.get(&id) {
                kept |= state.open.set_in(seqs.clone());
            }
            (id, kept)
        });
        kept.filter(|(_, kept)| !kept.is_empty()).collect()
    }

    /// Of which subscriptions needed events are not among these.
    pub(crate) fn missing(&self, there: &Events) -> Vec<Missing> {
        let nothing = RoaringTreemap::new();
        let mut all = Vec::new();
        for (topic, row) in &self.topics {
            let there = there.get(topic).unwrap_or(&nothing);
            for (subscription, needed) in self.kept(*topic, 1..=row.next_seq.saturating_sub(1)) {
                let events = needed - there;
                let Some(first) = events.min() else { continue };
                let declared = self.catalog.subscription(subscription);
                all.push(Missing {
                    topic: *topic,
                    subscription,
                    name: declared.map_or_else(String::new, |one| one.name.as_str().to_owned()),
                    count: events.len(),
                    first,
                });
            }
        }
        all
    }
}

/// Events that a subscription needs and that are not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    topic: TopicId,
    subscription: SubscriptionId,
    name: String,
    count: u64,
    first: u64,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "subscription {} (number {}) needs {} events of topic number {} that are not there, from event {} on",
            self.name, self.subscription.0, self.count, self.topic.0, self.first
        )
    }
}
