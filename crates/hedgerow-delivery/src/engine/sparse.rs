//! Subscriptions that stand still, or lag, and want little of what is published behind them. While events wait for their first
//! attempt the log is needed from the first of them on, for whatever the filter will say of the others. If they are few their
//! deliveries are begun without an attempt, so that everything else can be forgotten (design D6).

use std::collections::BTreeSet;
use std::time::Duration;

use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::record::{Begun, Record};

use super::{Engine, Phase};

/// How long the first of them has to have waited, unless half of the store is used.
const AFTER: Duration = Duration::from_secs(30);
/// Events of one BEGUN record.
const BEGUN_PER_RECORD: usize = 512;

impl Engine {
    /// Begins what waits for subscriptions of these topics that want little of them.
    pub(super) fn begin_sparse(&mut self, topics: &BTreeSet<TopicId>) -> Result<(), StoreError> {
        if self.phase != Phase::Running {
            return Ok(());
        }
        let usage = self.store.usage();
        let is_pressed = usage.used_bytes > usage.watermark_bytes / 2;
        let mut room = self.room_for_rows();
        let now = self.now();
        let readers = topics.iter().filter_map(|topic| self.readers.get(topic));
        let members: Vec<_> = readers
            .flat_map(|reader| reader.subscriptions.iter().map(|id| (*id, reader.head)))
            .collect();
        for (id, head) in members {
            let Some(runner) = self.runners.get_mut(&id) else {
                continue;
            };
            let first = runner.oldest_waiting();
            let is_old = first.is_some_and(|(_, published)| now.since(published) >= AFTER);
            let is_time = is_old || is_pressed;
            let is_free = runner.gathering.is_none() && !self.purges.is_under_way(id);
            if is_time && is_free && runner.waiting_len() <= room {
                let events = runner.take_sparse(head);
                room -= events.len();
                self.begin(id, &events)?;
            }
        }
        Ok(())
    }

    pub(super) fn begin(
        &mut self,
        subscription: SubscriptionId,
        events: &[(u64, Timestamp)],
    ) -> Result<(), StoreError> {
        for events in events.chunks(BEGUN_PER_RECORD) {
            self.store.journal(Record::Begun(Begun {
                subscription,
                events: events.to_vec(),
            }))?;
        }
        Ok(())
    }

    /// Deliveries are begun: they are due as others that have to be attempted again.
    pub(super) fn observe_begun(&mut self, begun: &Begun) -> Result<(), StoreError> {
        let id = begun.subscription;
        let purges = &self.purges;
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        for (seq, published) in &begun.events {
            if self.view.is_open(id, *seq) && !purges.has(id, *seq) {
                runner.note_due(*published, *seq, Begun::owed(*published));
            }
        }
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }
}
