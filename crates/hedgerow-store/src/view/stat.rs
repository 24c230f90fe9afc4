//! What is kept for whom.

use std::ops::RangeInclusive;

use hedgerow_core::position::{SubscriptionId, TopicId};
use roaring::RoaringTreemap;

use super::View;

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
}
