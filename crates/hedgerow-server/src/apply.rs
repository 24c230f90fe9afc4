//! Declares many things at once: topics, then event subscriptions. Everything is judged before anything is declared, so that a
//! mistake leaves all as it was; what is declared already as it should be is left alone, and nothing is deleted.
//!
//! Declarations are JSON: `topics` and `eventSubscriptions`, lists of what the API's PUT takes, each with its `name`,
//! subscriptions with their `topic`, and topics with `keys` if they are to have these and no random ones. [`files`] reads them
//! out of TOML.

pub mod files;
mod judge;

use std::fmt;
use std::sync::Arc;

use hedgerow_core::name::{SubscriptionName, TopicName};
use hedgerow_core::spec::{SubscriptionSpec, TopicSpec};
use hedgerow_delivery::command::{Command, CommandError};
use serde_json::Value;

use crate::access::Grant;
use crate::admin::declare_subscription;
use crate::error::ApiError;
use crate::handle::HandleError;
use crate::state::{App, SharedApp};

/// A member that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its path, such as `eventSubscriptions[0].retryPolicy.maxDeliveryAttempts`; empty for the whole.
    pub path: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Why nothing was declared, or not everything.
#[derive(Debug)]
pub enum ApplyError {
    /// Something is wrong; nothing was declared.
    Invalid(Vec<Fault>),
    /// Everything was right, and something could not be declared all the same: an endpoint that did not answer its handshake,
    /// a limit, a store that failed. Apply it again when the cause is gone.
    Incomplete {
        /// What was declared.
        done: Vec<Applied>,
        /// What was not.
        failed: Vec<Fault>,
    },
    /// The server ended, or is not there yet.
    Unavailable(String),
}

/// What became of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// `topic orders` or `event subscription orders/billing`.
    pub what: String,
    /// What was done.
    pub change: AppliedChange,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppliedChange {
    /// It is new.
    Created,
    /// It was there, and is otherwise now.
    Changed,
    /// It was there as it should be.
    Unchanged,
}

impl AppliedChange {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.change.as_str())
    }
}

/// What is to be declared, judged.
struct Plan {
    topics: Vec<PlannedTopic>,
    subscriptions: Vec<PlannedSubscription>,
}

struct PlannedTopic {
    path: String,
    name: TopicName,
    spec: TopicSpec,
    key1: Option<String>,
    key2: Option<String>,
}

struct PlannedSubscription {
    path: String,
    topic: String,
    name: SubscriptionName,
    /// As it is declared, without `topic` and `name`.
    body: Value,
    spec: SubscriptionSpec,
}

/// Declares what `declarations` say, with what a grant allows.
pub async fn apply(
    app: &App,
    grant: &Grant,
    declarations: &Value,
) -> Result<Vec<Applied>, ApplyError> {
    let plan = judge::judge(app, grant, declarations).await?;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let mut note = |path: String, applied: Result<Applied, ApiError>| match applied {
        Ok(applied) => done.push(applied),
        Err(error) => failed.push(Fault {
            path,
            message: error.message().to_owned(),
        }),
    };
    // One that fails keeps none of the others from being declared.
    for topic in plan.topics {
        note(topic.path.clone(), topic.declare(app).await);
    }
    for subscription in plan.subscriptions {
        note(subscription.path.clone(), subscription.declare(app).await);
    }
    if failed.is_empty() {
        Ok(done)
    } else {
        Err(ApplyError::Incomplete { done, failed })
    }
}

impl PlannedTopic {
    async fn declare(self, app: &App) -> Result<Applied, ApiError> {
        let engine = app.engine()?;
        let name = self.name.to_string();
        let before = engine
            .ask(|answer| Command::Topic {
                name: name.clone(),
                answer,
            })
            .await;
        let before = found(before)?.map(|topic| topic.spec);
        let (topic, is_new) = engine
            .ask(|answer| Command::PutTopic {
                name: self.name,
                spec: self.spec,
                answer,
            })
            .await?;
        let has_keys = self.key1.is_some() || self.key2.is_some();
        let has_other_keys = has_keys
            && engine
                .ask(|answer| Command::SetKeys {
                    name: name.clone(),
                    key1: self.key1,
                    key2: self.key2,
                    answer,
                })
                .await?;
        let change = match before {
            _ if is_new => AppliedChange::Created,
            Some(before) if before == topic.spec && !has_other_keys => AppliedChange::Unchanged,
            _ => AppliedChange::Changed,
        };
        tracing::info!(topic = name, change = change.as_str(), "applied");
        let what = format!("topic {name}");
        Ok(Applied { what, change })
    }
}

impl PlannedSubscription {
    async fn declare(self, app: &App) -> Result<Applied, ApiError> {
        let (topic, name) = (self.topic, self.name);
        let before = app
            .engine()?
            .ask(|answer| Command::Subscription {
                topic: topic.clone(),
                name: name.to_string(),
                answer,
            })
            .await;
        let before = found(before)?.map(|info| info.subscription.spec);
        let change = match before {
            None => AppliedChange::Created,
            Some(before) if before == self.spec => AppliedChange::Unchanged,
            Some(_) => AppliedChange::Changed,
        };
        let declared = declare_subscription(app, topic.clone(), name.as_str(), self.body).await;
        // What is shown of it nobody asked for.
        drop(declared?);
        let what = format!("event subscription {topic}/{name}");
        Ok(Applied { what, change })
    }
}

fn found<T>(answer: Result<T, CommandError>) -> Result<Option<T>, CommandError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(CommandError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Applies declarations in the process that runs the server, with every right. Cheap to clone.
#[derive(Clone)]
pub struct Applier {
    app: SharedApp,
    handle: crate::handle::ServerHandle,
}

impl Applier {
    pub(crate) const fn new(app: SharedApp, handle: crate::handle::ServerHandle) -> Self {
        Self { app, handle }
    }

    /// Waits until the store is open, then declares what `declarations` say.
    ///
    /// # Errors
    /// What is wrong with them, or what went wrong.
    pub async fn apply(&self, declarations: &Value) -> Result<Vec<Applied>, ApplyError> {
        let ready = self.handle.ready().await;
        ready.map_err(|error: HandleError| ApplyError::Unavailable(error.to_string()))?;
        let grant: Arc<Grant> = self.app.tokens.first_grant();
        apply(&self.app, &grant, declarations).await
    }
}
