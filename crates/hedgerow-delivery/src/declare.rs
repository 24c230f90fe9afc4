//! Declaring subscriptions: what is asked of the engine, what it did, and how long somebody waits for an endpoint.

use std::time::Duration;

use hedgerow_core::name::SubscriptionName;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_store::catalog::{Provisioning, Subscription};

use crate::command::{Command, CommandError, EngineHandle, SubscriptionInfo};

/// A subscription as somebody wants it.
#[derive(Debug, Clone)]
pub struct SubscriptionDeclaration {
    /// The topic's name.
    pub topic: String,
    /// Its name.
    pub name: SubscriptionName,
    /// What the user asks for.
    pub spec: Box<SubscriptionSpec>,
    /// What `spec` was made of, if it is a change of that: then it is refused as [`CommandError::Changed`] where somebody
    /// declared it otherwise meanwhile. Compared with [`declared`](hedgerow_store::catalog::Subscription::declared).
    pub expected: Option<Box<SubscriptionSpec>>,
}

/// What a declaration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// It is new, or takes the place of one that was never in force (ED-158).
    Created,
    /// It was in force, and is declared otherwise now.
    Changed,
    /// It was declared so already, and its endpoint did not consent: it is asked anew.
    AskedAgain {
        /// Whether it was never in force.
        is_new: bool,
    },
    /// It was declared so already.
    Unchanged,
}

impl Declared {
    /// What a declaration of what exists does. There is nothing to do where it was declared so last, unless its endpoint was
    /// asked in vain.
    pub(crate) fn of(existing: Option<&Subscription>, spec: &SubscriptionSpec) -> Self {
        let Some(existing) = existing else {
            return Self::Created;
        };
        let is_new = !existing.is_active();
        let has_failed = existing.newest_provisioning() == Provisioning::Failed;
        match existing.newest() == spec {
            true if has_failed => Self::AskedAgain { is_new },
            true => Self::Unchanged,
            false if is_new => Self::Created,
            false => Self::Changed,
        }
    }

    /// Whether it was not in force before.
    #[must_use]
    pub const fn is_new(self) -> bool {
        matches!(self, Self::Created | Self::AskedAgain { is_new: true })
    }
}

impl EngineHandle {
    /// Declares a subscription. It is durable then; its endpoint may still be asked.
    ///
    /// # Errors
    /// If it cannot be declared.
    pub async fn declare_subscription(
        &self,
        declaration: SubscriptionDeclaration,
    ) -> Result<(SubscriptionInfo, Declared), CommandError> {
        let put = |answer| Command::PutSubscription {
            declaration,
            answer,
        };
        self.ask(put).await
    }

    /// Declares a subscription and waits for the end of its handshake, `wait` at most. Says whether it is new.
    ///
    /// The answer says how far it has come: an endpoint that did not consent is no error here.
    ///
    /// # Errors
    /// If it cannot be declared.
    pub async fn put_subscription(
        &self,
        declaration: SubscriptionDeclaration,
        wait: Duration,
    ) -> Result<(SubscriptionInfo, bool), CommandError> {
        let (info, declared) = self.declare_subscription(declaration).await?;
        let info = self.await_answer(info, wait).await?;
        Ok((info, declared.is_new()))
    }

    /// Waits for the endpoint of a subscription, `wait` at most, if it is being asked.
    ///
    /// # Errors
    /// [`CommandError::NotFound`] if it was deleted meanwhile.
    pub async fn await_answer(
        &self,
        info: SubscriptionInfo,
        wait: Duration,
    ) -> Result<SubscriptionInfo, CommandError> {
        let Subscription { id, name, .. } = &info.subscription;
        if info.subscription.newest_provisioning() != Provisioning::Creating {
            return Ok(info);
        }
        let ended = self.await_validation(*id, name.to_string());
        match tokio::time::timeout(wait, ended).await {
            // The engine ends: it is declared, and the next one asks on.
            Ok(Err(CommandError::Unavailable)) | Err(_) => Ok(info),
            Ok(ended) => ended,
        }
    }

    /// Waits until the handshake of a subscription has ended, or waits for somebody to open its URL: not at all if there is
    /// none. Nothing is kept of the wait when the future is dropped.
    ///
    /// # Errors
    /// [`CommandError::NotFound`] if it was deleted.
    pub async fn await_validation(
        &self,
        id: SubscriptionId,
        name: String,
    ) -> Result<SubscriptionInfo, CommandError> {
        self.ask(|answer| Command::AwaitValidation { id, name, answer })
            .await
    }
}
