//! What holds a subscription back, what clients have leased, and where a subscription was put or can be put again.

use hedgerow_core::hold::Period;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::Destination;
use hedgerow_core::time::Timestamp;

use super::table::Space;
use super::{View, rows};
use crate::error::StoreError;
use crate::record::{
    Begun, Hold, Holds, Lease, Moved, MovedDelivery, Owed, Purged, Resent, Seek, SeqChunks,
    Snapshot, SnapshotPlace, seqs_in,
};

impl View {
    /// What holds the subscription back.
    #[must_use]
    pub fn holds(&self, subscription: SubscriptionId) -> Holds {
        let state = self.subscriptions.get(&subscription);
        state.and_then(|state| state.row.holds).unwrap_or_default()
    }

    /// The number that is part of the subscription's acknowledgement ids.
    #[must_use]
    pub fn ack_epoch(&self, subscription: SubscriptionId) -> u32 {
        let state = self.subscriptions.get(&subscription);
        state.map_or(0, |state| state.row.ack_epoch)
    }

    /// What a snapshot keeps, unless it is gone.
    #[must_use]
    pub fn snapshot(&self, id: u32) -> Option<&SnapshotPlace> {
        self.snapshots.get(&id)
    }

    /// The place of a subscription now, for a snapshot that expires then.
    #[must_use]
    pub fn place_of(
        &self,
        subscription: SubscriptionId,
        expires: Timestamp,
    ) -> Option<SnapshotPlace> {
        let state = self.subscriptions.get(&subscription)?;
        let cursor = self.cursor(subscription);
        Some(SnapshotPlace {
            topic: state.topic?,
            floor: state.open.iter().next().unwrap_or(cursor).min(cursor),
            cursor,
            open: state.open.chunks(),
            expires,
        })
    }

    /// From which event on a topic is pinned by snapshots; [`u64::MAX`] if it is not.
    pub(super) fn pinned_from(&self, topic: TopicId) -> u64 {
        let pins = self.snapshots.values().filter(|place| place.topic == topic);
        let pins = pins.filter(|place| place.expires > self.log_time);
        pins.map(|place| place.floor).min().unwrap_or(u64::MAX)
    }

    /// A topic that is gone takes its snapshots with it.
    pub(super) fn forget_snapshots_of(&mut self, topic: TopicId) {
        let changed = &mut self.changed.snapshots;
        self.snapshots.retain(|id, place| {
            let stays = place.topic != topic;
            if !stays {
                changed.insert(*id);
            }
            stays
        });
    }

    pub(super) fn fold_hold(&mut self, hold: &Hold) {
        if let Some(state) = self.subscriptions.get_mut(&hold.subscription) {
            state.row.holds = (hold.holds != Holds::default()).then_some(hold.holds);
            self.changed.subscriptions.insert(hold.subscription);
        }
    }

    /// Ends what holds a subscription back, if it delivers elsewhere now than it did (ED-232).
    pub(super) fn follow_destination(&mut self, id: SubscriptionId, former: Option<Destination>) {
        let now = self
            .catalog
            .subscription(id)
            .map(|found| &found.spec.destination);
        if let (Some(former), Some(now)) = (former, now)
            && former != *now
        {
            self.end_holds_of_former(id, former.endpoint() == now.endpoint());
        }
    }

    /// A subscription delivers elsewhere from now on: it has no probation there (ED-232), and no window unless only the
    /// query of its endpoint is another one. That it was held stays known; the engine says until when.
    pub(super) fn end_holds_of_former(&mut self, id: SubscriptionId, is_same_endpoint: bool) {
        if let Some(state) = self.subscriptions.get_mut(&id)
            && let Some(holds) = state.row.holds
        {
            let periods = holds.probation.into_iter().chain(holds.window);
            let probation = periods.map(|period| period.until).max().map(Period::over);
            state.row.holds = Some(Holds {
                probation,
                window: holds.window.filter(|_| is_same_endpoint),
            });
            self.changed.subscriptions.insert(id);
        }
    }

    pub(super) fn fold_moved(&mut self, moved: &Moved) {
        for delivery in &moved.deliveries {
            self.move_delivery(moved.subscription, delivery);
        }
    }

    fn move_delivery(&mut self, id: SubscriptionId, delivery: &MovedDelivery) {
        let Some(state) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if !state.open.contains(delivery.seq) {
            return;
        }
        self.layers
            .remove(Space::Due, &rows::due_key(id, delivery.from, delivery.seq));
        self.put_owed(id, delivery.due, delivery.seq, &delivery.owed());
        self.changed.subscriptions.insert(id);
    }

    pub(super) fn fold_lease(&mut self, lease: &Lease) {
        for delivery in &lease.deliveries {
            self.start(lease.subscription, delivery, lease.until);
        }
    }

    pub(super) fn fold_seek(&mut self, seek: &Seek) -> Result<(), StoreError> {
        let id = seek.subscription;
        if !self.subscriptions.contains_key(&id) {
            return Ok(());
        }
        let (from, to) = rows::subscription_range(id);
        for (key, _) in self.layers.scan(Space::Due, &from, &to, usize::MAX)? {
            self.layers.remove(Space::Due, &key);
        }
        let owed = seek.owed();
        let seqs: Vec<u64> = seqs_in(&seek.open).collect();
        for seq in &seqs {
            self.put_owed(id, seek.at, *seq, &owed);
        }
        if let Some(state) = self.subscriptions.get_mut(&id) {
            let counters = &mut state.row.counters;
            counters.given_up += state.open.len();
            counters.matched += seqs.len() as u64;
            state.open.replace(&seqs);
            state.row.cursor = Some(seek.cursor);
            state.row.ack_epoch = seek.ack_epoch;
        }
        self.changed.subscriptions.insert(id);
        Ok(())
    }

    /// The subscription stands behind everything that was published so far: what it was not given yet is none of its any more.
    pub(super) fn pass_all(&mut self, id: SubscriptionId) {
        let topic = self.subscriptions.get(&id).and_then(|state| state.topic);
        let Some(next_seq) = topic.map(|topic| self.next_seq(topic)) else {
            return;
        };
        if let Some(state) = self.subscriptions.get_mut(&id) {
            state.row.cursor = Some(next_seq);
            self.changed.subscriptions.insert(id);
        }
    }

    pub(super) fn fold_purged(&mut self, purged: &Purged) {
        let id = purged.subscription;
        let Some(state) = self.subscriptions.get_mut(&id) else {
            return;
        };
        let counters = &mut state.row.counters;
        counters.matched += purged.unbegun;
        counters.dropped += purged.unbegun;
        for (seq, due) in &purged.deliveries {
            if state.open.remove(*seq) {
                counters.dropped += 1;
                self.layers
                    .remove(Space::Due, &rows::due_key(id, *due, *seq));
            }
        }
        self.changed.subscriptions.insert(id);
    }

    pub(super) fn fold_resent(&mut self, resent: &Resent) {
        let id = resent.subscription;
        let Some(state) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if !state.open.insert(resent.seq) {
            return;
        }
        state.row.counters.matched += 1;
        let owed = Owed::Attempt(resent.progress);
        self.put_owed(id, resent.due, resent.seq, &owed);
        self.changed.subscriptions.insert(id);
    }

    pub(super) fn fold_begun(&mut self, begun: &Begun) {
        let id = begun.subscription;
        for (seq, published) in &begun.events {
            let Some(state) = self.subscriptions.get_mut(&id) else {
                return;
            };
            state.pass(*seq);
            if !state.open.insert(*seq) {
                continue;
            }
            state.row.counters.matched += 1;
            self.put_owed(id, *published, *seq, &Begun::owed(*published));
        }
        self.changed.subscriptions.insert(id);
    }

    pub(super) fn fold_snapshot(&mut self, snapshot: &Snapshot) {
        match &snapshot.place {
            Some(place) => self.snapshots.insert(snapshot.id, place.clone()),
            None => self.snapshots.remove(&snapshot.id),
        };
        self.changed.snapshots.insert(snapshot.id);
    }
}

/// Event numbers, ascending, in the form in which they are stored whole.
#[must_use]
pub fn chunks_of(seqs: &[u64]) -> SeqChunks {
    let mut set = super::OpenSet::default();
    for seq in seqs {
        set.insert(*seq);
    }
    set.chunks()
}
