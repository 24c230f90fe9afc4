//! What is remembered of the handshake with a subscription's endpoint: so that it goes on after a crash, and so that a
//! person learns why it failed (ED-161).

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::Subscription;

/// A handshake.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// The secret at the end of the URL that completes it. Not shown by `Debug`.
    pub token: String,
    /// How far it has come. Of a group of origins: how far the first has come that consents.
    pub state: ValidationState,
    /// The handshake with each origin of a group, by its address (HP-202); empty for an endpoint.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origins: BTreeMap<String, OriginValidation>,
}

/// The handshake with one origin of a group.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginValidation {
    /// The secret at the end of the URL that completes it. Not shown by `Debug`.
    pub token: String,
    /// How far it has come.
    pub state: ValidationState,
    /// How many requests a minute it takes, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_rate: Option<NonZeroU32>,
}

impl OriginValidation {
    /// One that begins.
    #[must_use]
    pub const fn new(token: String) -> Self {
        Self {
            token,
            state: ValidationState::Creating,
            allowed_rate: None,
        }
    }
}

impl std::fmt::Debug for OriginValidation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OriginValidation")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Validation {
    /// One that begins.
    #[must_use]
    pub const fn new(token: String) -> Self {
        Self {
            token,
            state: ValidationState::Creating,
            origins: BTreeMap::new(),
        }
    }

    /// One of a group that begins with these origins. If others need not consent, the declaration is in force at once.
    #[must_use]
    pub const fn of_group(origins: BTreeMap<String, OriginValidation>, is_in_force: bool) -> Self {
        Self {
            token: String::new(),
            state: if is_in_force {
                ValidationState::Succeeded
            } else {
                ValidationState::Creating
            },
            origins,
        }
    }

    /// Whether the declaration has to wait for it.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        self.state != ValidationState::Succeeded
    }

    /// How far a group has come of which none has consented: as far as the one that has come furthest.
    fn follow_origins(&mut self) {
        if !self.must_wait() {
            return;
        }
        let states = || self.origins.values().map(|origin| &origin.state);
        let is_creating = states().any(|state| *state == ValidationState::Creating);
        let awaits = |state: &&ValidationState| {
            matches!(state, ValidationState::AwaitingManualAction { .. })
        };
        let state = match states().find(awaits).or_else(|| states().next()) {
            Some(state) if !is_creating => state.clone(),
            _ => ValidationState::Creating,
        };
        self.state = state;
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
    /// Whether an origin of its group, at this address, has consented to what is in force (HP-202).
    #[must_use]
    pub fn has_consent_of(&self, address: &str) -> bool {
        self.consented.contains(address)
    }

    /// The handshake with an origin of its group went on, or ended. With the first that consents the declaration is in force.
    pub(super) fn origin_validated(
        &mut self,
        address: &str,
        state: ValidationState,
        allowed_rate: Option<NonZeroU32>,
        next_seq: u64,
    ) {
        let Some(validation) = &mut self.validation else {
            return;
        };
        let Some(origin) = validation.origins.get_mut(address) else {
            return;
        };
        let has_consented = state == ValidationState::Succeeded;
        *origin = OriginValidation {
            token: std::mem::take(&mut origin.token),
            state,
            allowed_rate,
        };
        if !has_consented {
            return validation.follow_origins();
        }
        let rates = validation.origins.values();
        let lowest = rates.filter_map(|origin| origin.allowed_rate).min();
        if validation.must_wait() {
            self.consented.clear();
            self.validated(ValidationState::Succeeded, None, next_seq);
        }
        self.consented.insert(address.to_owned());
        // Whichever origin gets them: none gets more than the one that takes least.
        self.allowed_rate = lowest;
    }

    /// Other origins belong to its group, or some that did no longer do.
    pub(super) fn follow_group(
        &mut self,
        added: BTreeMap<String, OriginValidation>,
        removed: &BTreeSet<String>,
    ) {
        let in_force = || Validation::of_group(BTreeMap::new(), true);
        let validation = self.validation.get_or_insert_with(in_force);
        validation.origins.extend(added);
        validation
            .origins
            .retain(|address, _| !removed.contains(address));
        validation.follow_origins();
        self.consented.retain(|address| !removed.contains(address));
    }

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
