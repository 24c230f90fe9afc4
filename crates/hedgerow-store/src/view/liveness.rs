//! What is still needed of the log, for those who forget the rest.

use std::ops::RangeInclusive;

use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use roaring::RoaringTreemap;

use super::{SubscriptionState, View};
use crate::{Liveness, Needed};

impl Liveness for View {
    fn needed(&self, topic: TopicId, seqs: RangeInclusive<u64>) -> Needed {
        let Some(from) = self.needed_from(topic) else {
            return Needed::default();
        };
        let mut open = RoaringTreemap::new();
        for state in self.states_of(topic) {
            open |= state.open.set_in(seqs.clone());
        }
        open.extend(self.pinned(topic, seqs));
        Needed { open, from }
    }

    fn has_baseline(&self, segment: u32) -> bool {
        self.baselines.written.contains(&segment)
    }

    fn subscriptions(&self) -> Vec<(SubscriptionId, TopicId)> {
        let topics = self.catalog.subscriptions();
        topics.map(|one| (one.id, one.topic)).collect()
    }

    fn is_needed(&self, topic: TopicId, seqs: RangeInclusive<u64>) -> bool {
        self.needed_from(topic).is_some_and(|from| {
            let mut states = self.states_of(topic);
            from <= *seqs.end()
                || states.any(|state| state.open.intersects(seqs.clone()))
                || self.pinned(topic, seqs.clone()).next().is_some()
        })
    }
}

impl View {
    /// Lets an event stay, whoever needs it, until [`View::unpin`] was called as often. Does not outlive the process, and
    /// does nothing against a cleaning that was planned before.
    pub fn pin(&mut self, event: Position) {
        *self.pins.entry(event).or_default() += 1;
    }

    /// Ends what [`View::pin`] began.
    pub fn unpin(&mut self, event: Position) {
        if let Some(count) = self.pins.get_mut(&event) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&event);
            }
        }
    }

    fn pinned(
        &self,
        topic: TopicId,
        seqs: RangeInclusive<u64>,
    ) -> impl Iterator<Item = u64> + use<'_> {
        let at = |seq| Position { topic, seq };
        let range = at(*seqs.start())..=at(*seqs.end());
        self.pins.range(range).map(|(event, _)| event.seq)
    }

    /// All events of a topic from here on are needed, as the reader, a subscription or a snapshot stands before them; `None`
    /// if the topic is gone.
    fn needed_from(&self, topic: TopicId) -> Option<u64> {
        self.catalog.topic(topic)?;
        let members = self.members.get(&topic).into_iter().flatten();
        let cursors = members.map(|id| self.cursor(*id));
        let others = [self.read_to(topic), self.pinned_from(topic)];
        cursors.chain(others).min()
    }

    fn states_of(&self, topic: TopicId) -> impl Iterator<Item = &SubscriptionState> {
        let members = self.members.get(&topic).into_iter().flatten();
        members.filter_map(|id| self.subscriptions.get(id))
    }
}
