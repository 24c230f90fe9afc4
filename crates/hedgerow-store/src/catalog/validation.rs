//! What is remembered of the handshake with a subscription's endpoint: so that it goes on after a crash, and so that a
//! person learns why it failed (ED-161).

use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::Subscription;

/// A handshake.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// The secret at the end of the URL that completes it. Not shown by `Debug`.
    pub token: String,
    /// How far it has come.
    pub state: ValidationState,
}

impl Validation {
    /// One that begins.
    #[must_use]
    pub const fn new(token: String) -> Self {
        Self {
            token,
            state: ValidationState::Creating,
        }
    }
}

impl std::fmt::Debug for Validation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validation")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// How far a handshake has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum ValidationState {
    /// The endpoint is being asked, and is asked again after a crash.
    Creating,
    /// It answered without consent: its URL has to be opened (ED-158, ED-168).
    AwaitingManualAction {
        /// From then on that is too late.
        until: Timestamp,
        /// What it answered.
        exchange: Exchange,
    },
    /// The endpoint consented.
    Succeeded,
    /// It did not.
    Failed {
        /// Why.
        exchange: Exchange,
    },
}

/// The last exchange of a handshake, for people. Without the secrets of the endpoint's query.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exchange {
    /// When it ended.
    pub time: Timestamp,
    /// What was found and what was expected.
    pub message: String,
    /// How many tries there were.
    pub tries: u8,
    /// The status, if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The headers of the answer, the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The beginning of its body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Why there was no answer: the name that is not found, the certificate that is not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a declaration has come, in the vendor's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provisioning {
    /// The endpoint is being asked whether it wants deliveries.
    Creating,
    /// Somebody has to open the URL that it was sent.
    AwaitingManualAction,
    /// It is in force.
    Succeeded,
    /// The endpoint did not consent.
    Failed,
}

impl Provisioning {
    /// The vendor's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "Creating",
            Self::AwaitingManualAction => "AwaitingManualAction",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

impl ValidationState {
    /// The same without what is known besides.
    #[must_use]
    pub const fn provisioning(&self) -> Provisioning {
        match self {
            Self::Creating => Provisioning::Creating,
            Self::AwaitingManualAction { .. } => Provisioning::AwaitingManualAction,
            Self::Succeeded => Provisioning::Succeeded,
            Self::Failed { .. } => Provisioning::Failed,
        }
    }

    /// What is known of the last exchange, where that is not all well.
    #[must_use]
    pub const fn exchange(&self) -> Option<&Exchange> {
        match self {
            Self::AwaitingManualAction { exchange, .. } | Self::Failed { exchange } => {
                Some(exchange)
            }
            Self::Creating | Self::Succeeded => None,
        }
    }

    /// Whether the endpoint may still consent.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Creating | Self::AwaitingManualAction { .. })
    }
}

impl Subscription {
    /// What was declared last, whatever became of it: the update if there is one, else what is in force or was to be.
    #[must_use]
    pub fn newest(&self) -> &SubscriptionSpec {
        self.update.as_deref().unwrap_or(&self.spec)
    }

    /// What a further change is a change of: what waits for its endpoint's consent, and not an update whose endpoint did not
    /// consent, which changes nothing (ED-163).
    #[must_use]
    pub fn declared(&self) -> &SubscriptionSpec {
        match self.newest_provisioning() {
            Provisioning::Failed => &self.spec,
            _ => self.newest(),
        }
    }

    /// How far it has come. An update that waits does not count: what was in force before still is (ED-163).
    #[must_use]
    pub fn provisioning(&self) -> Provisioning {
        match &self.validation {
            Some(validation) if !self.is_active() => validation.state.provisioning(),
            _ => Provisioning::Succeeded,
        }
    }

    /// How far the newest declaration has come: the update if there is one, else the subscription itself.
    #[must_use]
    pub fn newest_provisioning(&self) -> Provisioning {
        match (&self.validation, &self.update) {
            (Some(validation), Some(_)) => validation.state.provisioning(),
            _ => self.provisioning(),
        }
    }
}
