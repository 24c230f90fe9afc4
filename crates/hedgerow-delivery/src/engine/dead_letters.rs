//! What was not delivered, on its way to the dead-letter store: each event waits in the due index until its write is due
//! (ED-245), those of one subscription that are due are written together, one write at a time (ED-246), and a store that is
//! away is tried again, or given up (ED-247).

use std::sync::Arc;

use hedgerow_core::dead_letter::{AfterFailedWrite, BLOB_EVENTS_MAX};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::DeadLetterDestination;
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::record::{Dead, DeadThen, DropReason, PendingDeadLetter, PendingWrite, Record};

use super::{Engine, Internal, Phase};
use crate::dead_letters::{self, Batch, Texts, WriteError, Written};
use crate::in_full;
use crate::runner::DueKey;

impl Engine {
    /// What follows the end of a delivery that was not delivered.
    pub(super) fn after_end(&self, id: SubscriptionId, decided: Timestamp) -> DeadThen {
        let runner = self.runners.get(&id);
        if runner.is_some_and(|runner| runner.plan.dead_letter.is_some()) {
            let due = self.settings.dead_letter.first_write(decided);
            DeadThen::WriteDue(due, PendingWrite::default())
        } else {
            DeadThen::Dropped(DropReason::NoDeadLetterDestination)
        }
    }

    /// Begins to write what is due of a subscription, unless a write of it is under way.
    pub(super) fn write_dead_letters(&mut self, id: SubscriptionId) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        if self.phase != Phase::Running {
            return;
        }
        let rows = runner.take_dead_letters(now, BLOB_EVENTS_MAX);
        if rows.is_empty() {
            return;
        }
        // One that is declared without a destination since gets the reason when its write would have been due. The texts of
        // its terminal record are read all the same.
        let destination = runner.plan.dead_letter.as_ref();
        let container = destination
            .map(|DeadLetterDestination::LocalDirectory { directory }| directory.clone());
        let has_destination = container.is_some();
        let batch = Batch {
            topic: runner.topic,
            topic_name: runner.plan.topic_name.clone(),
            subscription_name: runner.plan.subscription_name.clone(),
            container: container.unwrap_or_default(),
            rows,
        };
        let (store, events_to) = (Arc::clone(&self.store), self.events_to.clone());
        let open = has_destination.then(|| Arc::clone(&self.dead_letters));
        self.spawner.spawn_blocking(move || {
            let result = match open {
                Some(open) => dead_letters::write(&*store, &open, batch, now),
                None => dead_letters::read_texts(&*store, batch),
            };
            // The engine may be gone; the rows are found again by the next one.
            let _ = events_to.blocking_send(Internal::DeadLetters { id, result });
        });
    }

    pub(super) fn dead_letters_written(
        &mut self,
        id: SubscriptionId,
        result: Result<Written, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get_mut(&id) else {
            // Of one that is gone nothing is owed.
            return Ok(());
        };
        let subscription = runner.plan.subscription_name.clone();
        let Written {
            rows,
            texts,
            result,
        } = result?;
        // What did not fit into the blob is due still.
        let left = rows.iter().skip(texts.len()).copied().collect();
        runner.dead_letters_ended(left);
        match &result {
            Ok(Some(path)) => {
                tracing::info!(
                    subscription,
                    path,
                    events = texts.len(),
                    "dead letters written"
                );
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(
                subscription,
                events = texts.len(),
                error = %in_full(error),
                "dead letters cannot be written"
            ),
        }
        for ((row, pending), texts) in rows.into_iter().zip(texts) {
            let then = match &result {
                Ok(Some(_)) => DeadThen::Written,
                Ok(None) => DeadThen::Dropped(DropReason::NoDeadLetterDestination),
                Err(error) => self.after_failed_write(error, &pending.write),
            };
            self.journal_dead_letter(id, row, &pending, texts, then)?;
        }
        self.write_dead_letters(id);
        self.plan_wake(id)
    }

    fn after_failed_write(&self, error: &WriteError, write: &PendingWrite) -> DeadThen {
        let settings = &self.settings.dead_letter;
        if settings.drop_if_not_found && matches!(error, WriteError::NotFound(_)) {
            return DeadThen::Dropped(DropReason::DeadLetterContainerNotFound);
        }
        let now = self.now();
        let (failed, first) = (
            write.failed.saturating_add(1),
            write.first_failed.unwrap_or(now),
        );
        match settings.after_failed_write(failed, first, now) {
            AfterFailedWrite::Drop => DeadThen::Dropped(DropReason::DeadLetterStoreUnavailable),
            AfterFailedWrite::Again(due) => {
                let write = PendingWrite {
                    failed,
                    first_failed: Some(first),
                };
                DeadThen::WriteDue(due, write)
            }
        }
    }

    fn journal_dead_letter(
        &self,
        subscription: SubscriptionId,
        (due, seq): DueKey,
        pending: &PendingDeadLetter,
        texts: Texts,
        then: DeadThen,
    ) -> Result<(), StoreError> {
        self.store.journal(Record::Dead(Dead {
            subscription,
            seq,
            due: Some(due),
            reason: pending.reason,
            decided: pending.decided,
            published: pending.published,
            progress: pending.progress,
            event_id: texts.event_id,
            event_type: texts.event_type,
            subject: texts.subject,
            then,
        }))
    }

    pub(super) fn observe_dead(&mut self, dead: &Dead) {
        let id = dead.subscription;
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        if let Some(due) = dead.due {
            runner.drop_due(due, dead.seq);
        }
        if let DeadThen::WriteDue(due, write) = dead.then
            && self.view.is_open(id, dead.seq)
        {
            runner.note_dead_letter(due, dead.seq, dead.pending(write));
            if let Some(due) = runner.next_due() {
                self.wakes.insert((due, id));
            }
        }
    }
}
