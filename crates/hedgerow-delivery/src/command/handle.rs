//! The way to ask an engine, and what it shows without being asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::position::{Position, TopicId};
use hedgerow_core::spec::{DeadLetterDestination, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_io::dead_letter::{DeadLetterError, DeadLetterStore};
use hedgerow_store::Store;
use hedgerow_store::catalog::TopicKeys;
use hedgerow_store::history::{HistoryHandle, HistoryRecord};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::{Answer, Command, CommandError, DeadLetterPage, DeadLetterQuery};
use crate::metrics::{Metrics, TopicMetrics};
use crate::note::{AttemptNote, event_id};
use crate::origin_groups::OriginTable;

/// How long a look at a dead-letter destination may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// What publishers need of the topics there are, by name in lower case.
pub type TopicTable = HashMap<String, Arc<PublishTopic>>;

/// What publishers need of a topic.
#[derive(Debug, Clone)]
pub struct PublishTopic {
    /// Where its events are appended.
    pub id: TopicId,
    /// Its name as declared.
    pub name: String,
    /// Its resource path, which events carry.
    pub path: String,
    /// What it takes.
    pub spec: TopicSpec,
    /// Who may publish.
    pub keys: TopicKeys,
    /// What is counted of it.
    pub metrics: Arc<TopicMetrics>,
}

/// An engine that runs. Cheap to clone.
#[derive(Clone)]
pub struct EngineHandle {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) topics: watch::Receiver<Arc<TopicTable>>,
    pub(crate) origins: watch::Receiver<Arc<OriginTable>>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) notes: broadcast::Sender<AttemptNote>,
    pub(crate) history: Option<HistoryHandle>,
    pub(crate) dead_letters: Arc<dyn DeadLetterStore>,
    pub(crate) metrics: Arc<Metrics>,
}

/// What is remembered of an event (ED-311).
#[derive(Debug, Clone, Default)]
pub struct EventAttempts {
    /// Attempts, and ends without one, the oldest first.
    pub records: Vec<HistoryRecord>,
    /// There were more: the oldest are left out.
    pub is_truncated: bool,
    /// What ended before is not remembered. `None` if nothing is: the history is disabled, or its directory cannot be
    /// used.
    pub known_since: Option<Timestamp>,
}

impl EngineHandle {
    /// The store that events are appended to.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The topics there are now.
    #[must_use]
    pub fn topics(&self) -> Arc<TopicTable> {
        Arc::clone(&self.topics.borrow())
    }

    /// Listens to attempts from now on.
    #[must_use]
    pub fn notes(&self) -> broadcast::Receiver<AttemptNote> {
        self.notes.subscribe()
    }

    /// What is remembered of the event with this id, the newest `limit` records of those that are wanted. Does not ask the
    /// engine; reads the disk, on a thread for that.
    pub async fn attempts_where(
        &self,
        event_id: String,
        limit: usize,
        wants: impl Fn(&HistoryRecord) -> bool + Send + 'static,
    ) -> Result<EventAttempts, CommandError> {
        let Some(history) = self.history.clone() else {
            return Ok(EventAttempts::default());
        };
        let read = move || {
            let mut records = history.attempts_where(&event_id, limit + 1, wants);
            let is_truncated = records.len() > limit;
            records.truncate(limit);
            records.reverse();
            // Written in nearly this order: one with an excerpt is a little later.
            records.sort_by_key(|record| record.ended);
            EventAttempts {
                records,
                is_truncated,
                known_since: history.known_since(),
            }
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|_| CommandError::Unavailable)
    }

    /// Pending dead letters with the ids of their events, which are read on a thread for that.
    pub async fn dead_letters(
        &self,
        query: DeadLetterQuery,
    ) -> Result<DeadLetterPage, CommandError> {
        let mut page = self
            .ask(|answer| Command::DeadLetters { query, answer })
            .await?;
        let store = Arc::clone(&self.store);
        let read = move || {
            for letter in &mut page.letters {
                let position = Position {
                    topic: letter.topic,
                    seq: letter.place.seq,
                };
                let event = store
                    .read_recent(position)
                    .or_else(|| store.read(position).ok());
                // One that was written meanwhile may be gone.
                letter.event_id = event.as_ref().map(event_id).unwrap_or_default();
            }
            page
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|_| CommandError::Unavailable)
    }

    /// Tries to write to a dead-letter destination and to delete what was written (ED-319).
    ///
    /// # Errors
    /// What a person has to act on.
    pub async fn probe_dead_letters(
        &self,
        destination: &DeadLetterDestination,
    ) -> Result<(), DeadLetterError> {
        let probe = self.dead_letters.probe(destination.container().clone());
        let answered = tokio::time::timeout(PROBE_TIMEOUT, probe).await;
        answered.unwrap_or_else(|_| {
            Err(DeadLetterError {
                is_full: false,
                message: format!("the dead-letter store did not answer in {PROBE_TIMEOUT:?}"),
                is_not_found: false,
            })
        })
    }

    /// Asks the engine. `make` gets the way back for the answer.
    pub async fn ask<T>(&self, make: impl FnOnce(Answer<T>) -> Command) -> Result<T, CommandError> {
        let (answer, answered) = oneshot::channel();
        self.commands
            .send(make(answer))
            .await
            .map_err(|_| CommandError::Unavailable)?;
        answered.await.map_err(|_| CommandError::Unavailable)?
    }
}
