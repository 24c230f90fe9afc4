//! Tells the history of attempts that ended without an outcome: the server stopped or crashed, or the subscription changed
//! (ED-189, ED-190). What follows from them is decided elsewhere.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::position::Position;
use hedgerow_core::retry::DeliveryKey;
use hedgerow_store::StoredEvent;
use hedgerow_store::history::{HistoryHandle, HistoryKind, HistoryNext, HistoryRecord};
use hedgerow_store::record::Progress;

use super::Engine;
use crate::attempt;
use crate::note::event_id;

impl Engine {
    /// Remembers an attempt in flight that ended without an outcome of its own, and what follows it. Its event's id is
    /// read for that: at once if it is in memory, as it is when the server stops; otherwise by a task.
    pub(super) fn remember_without_outcome(
        &self,
        key: DeliveryKey,
        next: HistoryNext,
        progress: Progress,
    ) {
        let runner = self.runners.get(&key.subscription);
        let (Some(history), Some(runner)) = (&self.context.history, runner) else {
            return;
        };
        let record = HistoryRecord {
            kind: HistoryKind::AttemptWithoutOutcome,
            event_id: String::new(),
            topic: runner.topic,
            topic_name: runner.plan.topic_name.clone(),
            subscription: key.subscription,
            subscription_name: runner.plan.subscription_name.clone(),
            seq: key.seq,
            attempt: progress.attempts,
            published: progress.published,
            started: progress.last_attempt,
            ended: self.now(),
            latency: Duration::ZERO,
            outcome: Some(progress.last_outcome),
            status: 0,
            detail: None,
            excerpt: None,
            to: None,
            next,
        };
        let position = Position {
            topic: runner.topic,
            seq: key.seq,
        };
        if let Some(event) = self.store.read_recent(position) {
            return remember(history, record, &event);
        }
        let (store, history) = (Arc::clone(&self.store), history.clone());
        self.spawner.spawn(async move {
            // An event that cannot be read is met by the next attempt, which says so.
            if let Ok(event) = attempt::read(&store, position).await {
                remember(&history, record, &event);
            }
        });
    }
}

fn remember(history: &HistoryHandle, mut record: HistoryRecord, event: &StoredEvent) {
    record.event_id = event_id(event);
    history.record(record);
}
