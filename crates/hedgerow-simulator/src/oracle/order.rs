//! The order of an ordered subscription (FC-12): of each key one request at a time, and no event before the end of those before it.

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::OnFailure;
use hedgerow_store::record::Started;
use tokio::time::Instant;

use super::Oracle;
use crate::model::{Known, State, Subscription};
use crate::rules;

/// A status whose floor is that of most.
const ORDINARY: u16 = 500;

impl Subscription {
    /// Whether no event of it may end undelivered.
    pub fn blocks(&self) -> bool {
        let ordering = self.spec.ordering.as_ref();
        ordering.is_some_and(|ordering| ordering.on_failure == OnFailure::Block)
    }

    /// What an event is ordered by.
    fn key_of<'k>(&self, event: &'k Known) -> Option<&'k str> {
        let ordering = self.spec.ordering.as_ref()?;
        match ordering.key.as_str() {
            "subject" => event.subject.as_deref(),
            _ => event.data_key.as_deref(),
        }
    }
}

impl Oracle {
    /// Why what starts together has to wait, or is out of order.
    pub(super) fn wrong_order(&self, started: &Started) -> Option<String> {
        let id = started.subscription;
        let subscription = self.live.subscriptions.get(&id)?;
        subscription.spec.ordering.as_ref()?;
        let events = &self.live.topics[&subscription.topic].events;
        let seqs: Vec<u64> = started.deliveries.iter().map(|one| one.seq).collect();
        let key_at = |seq: u64| subscription.key_of(events.get(seq as usize - 1)?);
        let key = key_at(*seqs.first()?);
        if let Some(seq) = seqs.iter().find(|seq| key_at(**seq) != key) {
            let other = key_at(*seq);
            return Some(format!("FC-12: {key:?} and {other:?} are in one request"));
        }
        let key = key?;
        if !seqs.is_sorted() {
            return Some(format!("FC-12: {seqs:?} of {key} are out of order"));
        }
        let last = *seqs.last()?;
        let is_before = |seq: &u64| !seqs.contains(seq) && key_at(*seq) == Some(key);
        let before = (subscription.from_seq..last).filter(is_before);
        let mut waits = before.filter(|seq| {
            let event = &events[*seq as usize - 1];
            let is_owed = subscription.wants(event) && *seq >= subscription.purged_to;
            // What is over has to be durable: a crash must not send it behind what came later.
            match self
                .durable
                .delivery(id, *seq)
                .map(|delivery| delivery.state)
            {
                None => is_owed,
                Some(State::Waiting(_) | State::Flying) => true,
                // A retry may run that began before an earlier attempt succeeded late.
                Some(_) => self.is_attempted(id, *seq),
            }
        });
        waits.next().map(|seq| {
            let first = self.name(id, seq);
            format!("FC-12: {first} of the same key {key} comes first")
        })
    }

    /// Whether a receiver has an attempt that it may still answer in time.
    fn is_attempted(&self, id: SubscriptionId, seq: u64) -> bool {
        let now = Instant::now();
        self.exchanges_of(id, seq)
            .any(|one| one.is_open() && now < one.timeout)
    }

    /// The status whose floor holds for an attempt that was answered this: what would end a delivery, and may not, waits as
    /// most do.
    pub(super) fn floor_status(&self, id: SubscriptionId, status: u16) -> u16 {
        let subscription = self.live.subscriptions.get(&id);
        let Some(subscription) = subscription.filter(|one| one.blocks()) else {
            return status;
        };
        if rules::is_final_for(&subscription.spec.overrides, status) {
            ORDINARY
        } else {
            status
        }
    }
}
