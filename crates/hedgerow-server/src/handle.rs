//! What the process that runs a server asks of it without HTTP: `hedgerow dev` declares its topic and subscription and
//! shows each attempt.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::name::{SubscriptionName, TopicName};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::{Answer, Command, CommandError, EngineHandle, HoldInfo};
use hedgerow_delivery::declare::SubscriptionDeclaration;
use hedgerow_delivery::grid::GridState;
use hedgerow_delivery::note::AttemptNote;
use hedgerow_store::catalog::{Provisioning, Subscription, TopicKeys};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;

use crate::public_url::PublicUrl;

/// Asks a server that runs in this process. Cheap to clone.
#[derive(Clone)]
pub struct ServerHandle {
    grid: watch::Receiver<GridState>,
    public_url: PublicUrl,
    time: ServerTime,
    validation_answer_wait: Duration,
}

/// Says what a server's time is.
pub type ServerTime = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Why a server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The server ended.
    #[error("the server has stopped")]
    Stopped,
    /// It refused.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// The endpoint did not consent.
    #[error("{0}")]
    NotValidated(String),
}

/// A topic, for whoever publishes to it.
#[derive(Debug, Clone)]
pub struct TopicEntry {
    /// Its name.
    pub name: String,
    /// The URL that events are posted to.
    pub endpoint: String,
    /// Who may publish.
    pub keys: TopicKeys,
    /// Whether it was made now.
    pub is_new: bool,
}

/// A subscription.
#[derive(Debug, Clone)]
pub struct SubscriptionEntry {
    /// Stays the same when the subscription is declared anew.
    pub id: SubscriptionId,
    /// Deliveries that are still owed.
    pub pending: u64,
    /// Whether it was made now.
    pub is_new: bool,
}

impl ServerHandle {
    pub(crate) const fn new(
        grid: watch::Receiver<GridState>,
        public_url: PublicUrl,
        time: ServerTime,
        validation_answer_wait: Duration,
    ) -> Self {
        Self {
            grid,
            public_url,
            time,
            validation_answer_wait,
        }
    }

    /// Says what the server's time is, which schedules follow; 1970 before the store was opened.
    #[must_use]
    pub fn time(&self) -> ServerTime {
        Arc::clone(&self.time)
    }

    /// Waits until the store is open and events are taken.
    ///
    /// # Errors
    /// [`HandleError::Stopped`] if the server ended instead; [`crate::Server::run`] says why.
    pub async fn ready(&self) -> Result<(), HandleError> {
        self.engine().await.map(drop)
    }

    /// Declares a topic, or declares it anew: its keys and its schema stay.
    ///
    /// # Errors
    /// If it cannot be declared.
    pub async fn ensure_topic(
        &self,
        name: &TopicName,
        spec: &TopicSpec,
    ) -> Result<TopicEntry, HandleError> {
        let put = |answer| Command::PutTopic {
            name: name.clone(),
            spec: spec.clone(),
            answer,
        };
        let (topic, is_new) = self.ask(put).await?;
        Ok(TopicEntry {
            endpoint: self.public_url.topic_endpoint(topic.name.as_str()),
            name: topic.name.into(),
            keys: topic.keys,
            is_new,
        })
    }

    /// Declares a subscription, or declares it anew: it then keeps its id and what is owed to it. Waits for the handshake
    /// with its endpoint.
    ///
    /// # Errors
    /// If the topic is not there, or the endpoint is refused or does not consent.
    pub async fn ensure_subscription(
        &self,
        topic: &str,
        name: &SubscriptionName,
        spec: &SubscriptionSpec,
    ) -> Result<SubscriptionEntry, HandleError> {
        let wait = self.validation_answer_wait;
        let put = async |engine: EngineHandle| {
            let declaration = SubscriptionDeclaration {
                topic: topic.to_owned(),
                name: name.clone(),
                spec: Box::new(spec.clone()),
                expected: None,
            };
            engine.put_subscription(declaration, wait).await
        };
        let (info, is_new) = self.ask_with(put).await?;
        if info.subscription.newest_provisioning() == Provisioning::Failed {
            let reason = refusal(&info.subscription).unwrap_or_default();
            return Err(HandleError::NotValidated(reason));
        }
        Ok(SubscriptionEntry {
            id: info.subscription.id,
            pending: info.pending,
            is_new,
        })
    }

    /// A subscription as it is declared, secrets included; `None` if there is none of that name.
    ///
    /// # Errors
    /// If the server has stopped.
    pub async fn declared(
        &self,
        topic: &str,
        name: &SubscriptionName,
    ) -> Result<Option<SubscriptionSpec>, HandleError> {
        let get = |answer| Command::Subscription {
            topic: topic.to_owned(),
            name: name.to_string(),
            answer,
        };
        match self.ask(get).await {
            Ok(info) => Ok(Some(info.subscription.declared().clone())),
            Err(HandleError::Refused(CommandError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until the endpoint of a subscription has answered, also over a store that is opened again.
    pub(crate) async fn await_validation(
        &self,
        id: SubscriptionId,
        name: &str,
    ) -> Result<Subscription, HandleError> {
        // As `ask_with` does, whose futures cannot be given to a task.
        let mut grid = self.grid.clone();
        loop {
            let engine = serving(&mut grid).await.ok_or(HandleError::Stopped)?;
            match engine.await_validation(id, name.to_owned()).await {
                Err(CommandError::Unavailable) => {
                    grid.changed().await.map_err(|_| HandleError::Stopped)?;
                }
                answered => return Ok(answered?.subscription),
            }
        }
    }

    /// Begins deliveries that are held since the start ([`crate::ServerOptions::starts_held`]).
    ///
    /// # Errors
    /// If the server ended instead.
    pub async fn start_deliveries(&self) -> Result<(), HandleError> {
        self.ask(|answer| Command::StartDeliveries { answer }).await
    }

    /// The keys of a topic.
    ///
    /// # Errors
    /// If the topic is not there.
    pub async fn list_keys(&self, topic: &str) -> Result<TopicKeys, HandleError> {
        let topic = self
            .ask(|answer| Command::Topic {
                name: topic.to_owned(),
                answer,
            })
            .await?;
        Ok(topic.keys)
    }

    /// What holds the subscriptions of a topic back, by their names.
    ///
    /// # Errors
    /// If the topic is not there.
    pub async fn holds(&self, topic: &str) -> Result<Vec<(String, HoldInfo)>, HandleError> {
        let all = |answer| Command::Subscriptions {
            topic: topic.to_owned(),
            answer,
        };
        let list = self.ask(all).await?;
        let named = list
            .into_iter()
            .map(|info| (info.subscription.name.to_string(), info.hold));
        Ok(named.collect())
    }

    /// Listens to attempts from now on.
    #[must_use]
    pub fn attempts(&self) -> AttemptFeed {
        let current = match &*self.grid.borrow() {
            GridState::Serving(engine) => Some(engine.notes()),
            GridState::Opening | GridState::Stopped => None,
        };
        AttemptFeed {
            grid: self.grid.clone(),
            current,
        }
    }

    async fn engine(&self) -> Result<EngineHandle, HandleError> {
        serving(&mut self.grid.clone())
            .await
            .ok_or(HandleError::Stopped)
    }

    /// Asks, and asks again when the store was opened again meanwhile.
    async fn ask<T>(&self, make: impl Fn(Answer<T>) -> Command) -> Result<T, HandleError> {
        self.ask_with(async |engine: EngineHandle| engine.ask(&make).await)
            .await
    }

    async fn ask_with<T>(
        &self,
        ask: impl AsyncFn(EngineHandle) -> Result<T, CommandError>,
    ) -> Result<T, HandleError> {
        let mut grid = self.grid.clone();
        loop {
            let engine = serving(&mut grid).await.ok_or(HandleError::Stopped)?;
            match ask(engine).await {
                Err(CommandError::Unavailable) => {
                    // This engine is ending: its state is replaced next.
                    grid.changed().await.map_err(|_| HandleError::Stopped)?;
                }
                answered => return Ok(answered?),
            }
        }
    }
}

/// Why the newest declaration is not in force, if its endpoint did not consent.
pub(crate) fn refusal(subscription: &Subscription) -> Option<String> {
    let state = &subscription.validation.as_ref()?.state;
    Some(state.exchange()?.message.clone())
}

/// Waits for an engine; `None` when there will be none any more.
async fn serving(grid: &mut watch::Receiver<GridState>) -> Option<EngineHandle> {
    let is_decided = |state: &GridState| !matches!(state, GridState::Opening);
    match &*grid.wait_for(is_decided).await.ok()? {
        GridState::Serving(engine) => Some(engine.clone()),
        GridState::Opening | GridState::Stopped => None,
    }
}

/// Attempts as they end. Lossy: who is slow misses some.
pub struct AttemptFeed {
    grid: watch::Receiver<GridState>,
    current: Option<broadcast::Receiver<AttemptNote>>,
}

impl AttemptFeed {
    /// The next attempt, `None` once the server has stopped. Goes on when the store was opened again. Nothing is lost
    /// when the future is dropped.
    pub async fn next(&mut self) -> Option<AttemptNote> {
        loop {
            let Some(notes) = &mut self.current else {
                self.current = Some(serving(&mut self.grid).await?.notes());
                continue;
            };
            match notes.recv().await {
                Ok(note) => return Some(note),
                Err(RecvError::Lagged(_)) => {}
                // The grid's state lets go of an engine before this is seen.
                Err(RecvError::Closed) => self.current = None,
            }
        }
    }
}
