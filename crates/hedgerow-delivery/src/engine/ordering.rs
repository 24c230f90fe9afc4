//! Ordered subscriptions: their deliveries are begun as soon as they are wanted, so that one that waits for an earlier one of its
//! key keeps nobody else (FC-12). After a start their keys are read out of their events again, before anything is attempted.
//!
//! An attempt of the next event of a key starts once the end of the one before is durable: a crash sends nothing again behind
//! what came later.

use std::sync::Arc;

use hedgerow_core::filter::FilterEvent;
use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::retry::{self, FailedAttempt};
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::record::unpack_event;
use hedgerow_store::view::FIRST_IN_FLIGHT;

use super::{Engine, Internal};
use crate::attempt;
use crate::runner::DUE_ROWS_MAX;

/// Deliveries that are begun at a time.
const BEGUN_MAX: usize = 512;

impl Engine {
    /// Takes over how the events of a subscription are ordered.
    pub(super) fn follow_ordering(&mut self, id: SubscriptionId) {
        let found = self.view.catalog().subscription(id);
        if let (Some(found), Some(runner)) = (found, self.runners.get_mut(&id)) {
            runner.follow_ordering(found.ordering_keys());
        }
    }

    /// Begins what an ordered subscription wants, and lets those go that were waited for.
    pub(super) fn follow_lines(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let ordered = self.runners.get(&id).filter(|one| one.order.is_some());
        if ordered.is_none() {
            return Ok(());
        }
        let now = self.now();
        let is_purged = self.purges.is_under_way(id);
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        if let Some(due) = runner.follow_lines(now) {
            self.wakes.insert((due, id));
        }
        let is_unread = runner.order.as_ref().is_some_and(|order| order.is_unread);
        if is_purged || is_unread || runner.waiting_len() == 0 {
            return Ok(());
        }
        let room = self.room_for_rows().min(BEGUN_MAX);
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let events = runner.take_ordered(room);
        if !events.is_empty() {
            self.moved.insert(runner.topic);
            self.begin(id, &events)?;
        }
        Ok(())
    }

    /// Reads the keys of what an ordered subscription had begun when the server ended.
    pub(super) fn read_keys(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get(&id) else {
            return Ok(());
        };
        let Some(order) = &runner.order else {
            return Ok(());
        };
        let keys = order.keys().clone();
        let (topic, path) = (runner.topic, runner.plan.topic_path.clone());
        let mut seqs = Vec::new();
        let mut after = FIRST_IN_FLIGHT;
        loop {
            let rows = self.view.due(id, after, Timestamp::MAX, DUE_ROWS_MAX)?;
            let attempts = rows.iter().filter(|row| row.attempt().is_some());
            seqs.extend(attempts.map(|row| row.seq).filter(|seq| keys.orders(*seq)));
            match rows.last() {
                Some(last) if rows.len() == DUE_ROWS_MAX => after = (last.due, last.seq),
                _ => break,
            }
        }
        if seqs.is_empty() {
            return Ok(());
        }
        if let Some(order) = self
            .runners
            .get_mut(&id)
            .and_then(|runner| runner.order.as_mut())
        {
            order.is_unread = true;
        }
        let store = Arc::clone(&self.store);
        let reading = self.spawner.spawn_blocking(move || {
            let mut found = Vec::new();
            for seq in seqs {
                match store.read(Position { topic, seq }) {
                    // Only the key of it is kept (design D6).
                    Ok(event) => {
                        let unpacked = unpack_event(&event.bytes)?;
                        let key = keys.key_of(seq, &FilterEvent::new(&unpacked, &path));
                        found.extend(key.map(|key| (seq, key)));
                    }
                    // It was dropped meanwhile.
                    Err(StoreError::Forgotten { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(found)
        });
        self.tell_end(reading, move |result| Internal::KeysRead {
            subscription: id,
            result,
        });
        Ok(())
    }

    /// The keys were read that were not known.
    pub(super) fn keys_read(
        &mut self,
        id: SubscriptionId,
        mut keys: Vec<(u64, u64)>,
    ) -> Result<(), StoreError> {
        keys.retain(|(seq, _)| self.view.is_open(id, *seq));
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.take_keys(keys);
        }
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }

    /// What follows an attempt for an event that may not end ([`attempt::never_dead`]).
    pub(super) fn never_dead(&self, next: retry::Next, failed: &FailedAttempt) -> retry::Next {
        attempt::never_dead(&self.settings.retry, next, failed)
    }
}
