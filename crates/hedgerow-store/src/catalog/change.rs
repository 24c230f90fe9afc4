//! The changes of the catalog, as the log has them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use hedgerow_core::name::{
    DomainTopicName, OriginGroupName, RouteName, SubscriptionName, TopicName,
};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::{ReplaySpec, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_origin::route::RouteSettings;
use hedgerow_origin::settings::Group;
use serde::{Deserialize, Serialize};

use super::{
    OriginValidation, ReplayCounts, ReplayPlace, ReplayState, TopicKeys, Validation,
    ValidationState,
};

/// A change of the catalog, the JSON of a [`crate::record::CatalogChange`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "camelCase")]
pub enum Change {
    /// A topic is there from now on.
    TopicCreated {
        /// Its id, the catalog's next one.
        id: TopicId,
        /// Its name.
        name: TopicName,
        /// What the user asked for.
        spec: TopicSpec,
        /// Its keys.
        keys: TopicKeys,
        /// When.
        created: Timestamp,
    },
    /// A topic is declared anew; its schema and keys stay.
    TopicUpdated {
        /// Which topic.
        id: TopicId,
        /// What the user asks for now.
        spec: TopicSpec,
    },
    /// A topic has other keys from now on.
    TopicKeysChanged {
        /// Which topic.
        id: TopicId,
        /// Both keys, the unchanged one too.
        keys: TopicKeys,
    },
    /// A domain has another topic.
    DomainTopicCreated {
        /// The domain.
        domain: TopicId,
        /// Its name.
        name: DomainTopicName,
        /// When.
        created: Timestamp,
    },
    /// A domain topic is gone, with all its subscriptions and what was owed to them.
    DomainTopicDeleted {
        /// The domain.
        domain: TopicId,
        /// Its name.
        name: DomainTopicName,
    },
    /// A topic is gone, with all its subscriptions and what was owed to them.
    TopicDeleted {
        /// Which topic.
        id: TopicId,
    },
    /// A subscription receives what is published from here on; or, with a handshake, from its success on.
    SubscriptionCreated {
        /// Its id, the catalog's next one.
        id: SubscriptionId,
        /// The topic it belongs to.
        topic: TopicId,
        /// The domain topic that it is for, if it is for one. It is made if it is not there (ED-075).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        domain_topic: Option<DomainTopicName>,
        /// Its name.
        name: SubscriptionName,
        /// What the user asked for.
        spec: Box<SubscriptionSpec>,
        /// When.
        created: Timestamp,
        /// The handshake that comes first; `None` if none has to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validation: Option<Validation>,
    },
    /// A subscription is declared anew; it keeps its id and what is owed to it. Whatever waited for a handshake does no
    /// longer.
    SubscriptionUpdated {
        /// Which subscription.
        id: SubscriptionId,
        /// What the user asks for now.
        spec: Box<SubscriptionSpec>,
        /// The handshake that comes first: until it succeeds, what is in force stays so (ED-163).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validation: Option<Validation>,
    },
    /// The handshake of a subscription went on, or ended.
    SubscriptionValidated {
        /// Which subscription.
        id: SubscriptionId,
        /// How far it has come.
        state: ValidationState,
        /// Where it succeeded: how many requests a minute the endpoint takes, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allowed_rate: Option<NonZeroU32>,
    },
    /// The handshake with one origin of a subscription's group went on, or ended (HP-202).
    OriginValidated {
        /// Which subscription.
        id: SubscriptionId,
        /// The address of the origin.
        origin: String,
        /// How far it has come.
        state: ValidationState,
        /// Where it succeeded: how many requests a minute the origin takes, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allowed_rate: Option<NonZeroU32>,
    },
    /// A subscription's group has other origins than were asked.
    OriginsFollowed {
        /// Which subscription.
        id: SubscriptionId,
        /// Those that are asked from now on, by their addresses.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        added: BTreeMap<String, OriginValidation>,
        /// Those that are no part of it any more.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        removed: BTreeSet<String>,
    },
    /// Nothing of a subscription is attempted from now on, or it is attempted again.
    SubscriptionPaused {
        /// Which subscription.
        id: SubscriptionId,
        /// Whether it is paused now.
        is_paused: bool,
        /// Whether an answer 410 of its endpoint paused it (ED-186).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_gone: bool,
        /// When.
        at: Timestamp,
    },
    /// What holds a subscription back is over: an operator asked for it (ED-232).
    SubscriptionReset {
        /// Which subscription.
        id: SubscriptionId,
    },
    /// All that is pending for a subscription is dropped, up to here: an operator asked for it. What was begun is dropped by
    /// PURGED records that follow.
    SubscriptionPurged {
        /// Which subscription.
        id: SubscriptionId,
        /// The first event that was not begun.
        from_seq: u64,
        /// When.
        at: Timestamp,
    },
    /// Everything that a purge began to drop is dropped.
    SubscriptionPurgeEnded {
        /// Which subscription.
        id: SubscriptionId,
    },
    /// A subscription is gone, with what was owed to it.
    SubscriptionDeleted {
        /// Which subscription.
        id: SubscriptionId,
    },
    /// Dead letters are delivered again from now on.
    ReplayCreated {
        /// Its id, the catalog's next one.
        replay: u32,
        /// The topic.
        topic: TopicId,
        /// Whose dead letters.
        subscription: SubscriptionId,
        /// Which.
        spec: Box<ReplaySpec>,
        /// When.
        created: Timestamp,
    },
    /// A replay has come to a place.
    ReplayMoved {
        /// Which replay.
        replay: u32,
        /// Everything before it was looked at.
        place: ReplayPlace,
        /// What that came to.
        counts: ReplayCounts,
    },
    /// A replay goes on, does not go on, or came to its end.
    ReplaySet {
        /// Which replay.
        replay: u32,
        /// What it does now.
        state: ReplayState,
        /// When.
        at: Timestamp,
    },
    /// An origin group is there from now on, or is declared anew.
    OriginGroupDeclared {
        /// Its name.
        name: OriginGroupName,
        /// What the user asks for.
        group: Box<Group>,
        /// When.
        at: Timestamp,
    },
    /// An origin group is gone. Nothing named it.
    OriginGroupDeleted {
        /// Its name.
        name: OriginGroupName,
    },
    /// A route is there from now on, or is declared anew.
    RouteDeclared {
        /// Its name.
        name: RouteName,
        /// What the user asks for.
        route: Box<RouteSettings>,
        /// When.
        at: Timestamp,
    },
    /// A route is gone.
    RouteDeleted {
        /// Its name.
        name: RouteName,
    },
}

impl Change {
    /// The subscription that it is about, if it is about one.
    #[must_use]
    pub const fn subscription(&self) -> Option<SubscriptionId> {
        match self {
            Self::SubscriptionCreated { id, .. }
            | Self::SubscriptionUpdated { id, .. }
            | Self::SubscriptionValidated { id, .. }
            | Self::OriginValidated { id, .. }
            | Self::OriginsFollowed { id, .. }
            | Self::SubscriptionPaused { id, .. }
            | Self::SubscriptionReset { id }
            | Self::SubscriptionPurged { id, .. }
            | Self::SubscriptionPurgeEnded { id }
            | Self::SubscriptionDeleted { id } => Some(*id),
            Self::TopicCreated { .. }
            | Self::TopicUpdated { .. }
            | Self::TopicKeysChanged { .. }
            | Self::DomainTopicCreated { .. }
            | Self::DomainTopicDeleted { .. }
            | Self::TopicDeleted { .. }
            | Self::ReplayCreated { .. }
            | Self::ReplayMoved { .. }
            | Self::ReplaySet { .. }
            | Self::OriginGroupDeclared { .. }
            | Self::OriginGroupDeleted { .. }
            | Self::RouteDeclared { .. }
            | Self::RouteDeleted { .. } => None,
        }
    }
}
