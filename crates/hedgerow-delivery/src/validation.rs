//! What the admin API and the callback route ask about handshakes, and what they are told.

use std::time::Duration;

use hedgerow_core::name::SubscriptionName;
use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_core::validation::AllowedRate;
use hedgerow_store::catalog::Provisioning;

use crate::command::{Command, CommandError, EngineHandle, SubscriptionInfo};

/// A call of the URL that a handshake carries.
#[derive(Clone)]
pub struct Callback {
    /// The secret at the end of the URL. There is no `Debug`.
    pub token: String,
    /// Whether it is a POST; otherwise a GET.
    pub is_post: bool,
    /// What the call says about the rate (ED-168).
    pub rate: AllowedRate,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// The endpoint has consented now.
    Completed {
        /// The topic's name.
        topic: String,
        /// The subscription's name.
        subscription: String,
    },
    /// Its handshake is over, by an earlier call or otherwise.
    Used,
    /// It came too late (ED-159).
    Expired,
    /// Handshakes of this form are completed with GET only.
    GetOnly,
    /// No handshake has this token.
    Unknown,
}

impl EngineHandle {
    /// Declares a subscription and waits for the end of its handshake, `wait` at most. Says whether it is new.
    ///
    /// The answer says how far it has come: an endpoint that did not consent is no error here.
    pub async fn put_subscription(
        &self,
        topic: String,
        name: SubscriptionName,
        spec: Box<SubscriptionSpec>,
        wait: Duration,
    ) -> Result<(SubscriptionInfo, bool), CommandError> {
        let put = |answer| Command::PutSubscription {
            topic,
            name,
            spec,
            answer,
        };
        let (info, is_new) = self.ask(put).await?;
        if info.subscription.newest_provisioning() != Provisioning::Creating {
            return Ok((info, is_new));
        }
        let id = info.subscription.id;
        let ended = self.ask(|answer| Command::AwaitValidation { id, answer });
        match tokio::time::timeout(wait, ended).await {
            Ok(ended) => Ok((ended?, is_new)),
            Err(_) => Ok((info, is_new)),
        }
    }

    /// Completes a handshake by its URL.
    pub async fn call_back(&self, callback: Callback) -> Result<Called, CommandError> {
        self.ask(|answer| Command::CallBack { callback, answer })
            .await
    }
}
