//! What users declared: topics, domains, subscriptions, origin groups and routes. A change is a record of the log, and its place there is the position
//! from which it holds (design D2).
//!
//! Changes are JSON, so that what users declare can gain members; their secrets are sealed in it (`sealed`). Ids are given by the catalog and never reused.

mod change;
mod domains;
mod gone;
mod names;
mod origins;
mod purge;
mod replay;
mod sealed;
mod validation;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Bound;

use hedgerow_core::name::{
    DomainTopicName, OriginGroupName, RouteName, SubscriptionName, TopicName,
};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::{FilterSpec, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::change::Change;
use self::domains::DomainTopics;
pub use self::domains::{DomainTopic, source_name, split_source};
pub use self::gone::{GONE_BYTES_MAX, GONE_MAX, GONE_RANGES_MAX, GoneSubscription};
pub(crate) use self::gone::{LastPlace, ranges};
use self::names::Names;
pub use self::origins::{DeclaredRoute, OriginGroup};
pub use self::purge::{PURGES_MAX, Purge};
pub use self::replay::{Replay, ReplayCounts, ReplayPlace, ReplayState};
pub use self::validation::{Exchange, OriginValidation, Provisioning, Validation, ValidationState};

/// A topic as declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topic {
    /// Never reused.
    pub id: TopicId,
    /// Unique among the topics that exist.
    pub name: TopicName,
    /// What the user asked for.
    pub spec: TopicSpec,
    /// The two keys that publishers may use (ED-014).
    pub keys: TopicKeys,
    /// When it was created.
    pub created: Timestamp,
}

/// The two keys of a topic, base64 of 32 random bytes each (ED-014). Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicKeys {
    /// `key1`.
    pub key1: String,
    /// `key2`.
    pub key2: String,
}

impl std::fmt::Debug for TopicKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TopicKeys(..)")
    }
}

/// A subscription as declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subscription {
    /// Never reused: one that is created again under its old name shares nothing with it.
    pub id: SubscriptionId,
    /// The topic it belongs to.
    pub topic: TopicId,
    /// The domain topic that it is for, if its topic is a domain and it is not for all of it (ED-077).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_topic: Option<DomainTopicName>,
    /// Unique among the subscriptions of its topic, or of its domain topic, that exist.
    pub name: SubscriptionName,
    /// What the user asked for, with the newest filter.
    pub spec: SubscriptionSpec,
    /// When it was created.
    pub created: Timestamp,
    /// The filters in force, each from an event on: ascending, empty only before the endpoint has consented for the first
    /// time. More than one only while the subscription stands before an event at which its filter changed (ED-085).
    pub filters: Vec<FilterVersion>,
    /// The newest of those that decide about no event any more: for explaining what became of an event. Ascending, at most
    /// [`FORMER_FILTERS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_filters: Vec<FilterVersion>,
    /// The newest handshake with its endpoint, or with that of `update`; `None` if none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
    /// The origins of its group that have consented to what is in force, by their addresses (HP-202).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub consented: BTreeSet<String>,
    /// What was declared since and is not in force, because its endpoint has not consented (ED-163).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Box<SubscriptionSpec>>,
    /// How many requests a minute the endpoint takes, if it said so (ED-167).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_rate: Option<NonZeroU32>,
    /// Nothing is attempted while it is (ED-312).
    #[serde(default)]
    pub is_paused: bool,
    /// Since when, if it is and a server noted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Timestamp>,
    /// Whether its endpoint paused it, by an answer 410 (ED-186), and not an operator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_gone: bool,
    /// When it was resumed last: what became due before was held until then.
    #[serde(default)]
    pub resumed: Option<Timestamp>,
    /// The newest purges, the oldest first, at most [`PURGES_MAX`]: for carrying the last one to its end, and for explaining
    /// what became of an event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purges: Vec<Purge>,
}

/// Filters that are kept of a subscription although they decide about no event any more.
pub const FORMER_FILTERS_MAX: usize = 8;

/// A filter and the first event it decides about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilterVersion {
    /// The first `seq` of the topic that it decides about.
    pub from_seq: u64,
    /// The filter.
    pub filter: FilterSpec,
    /// The key that these events are ordered by, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
}

/// Everything declared, at one revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(from = "Stored")]
pub struct Catalog {
    /// Counts the changes.
    pub revision: u64,
    last_topic_id: u32,
    last_subscription_id: u32,
    topics: BTreeMap<TopicId, Topic>,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    domain_topics: BTreeMap<TopicId, DomainTopics>,
    /// Subscriptions that were deleted, the newest last, within bounds: for explaining what became of an event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<GoneSubscription>,
    #[serde(default, skip_serializing_if = "is_zero")]
    last_replay_id: u32,
    /// Replays, those that ended among them, within bounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    replays: BTreeMap<u32, Replay>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    origin_groups: BTreeMap<OriginGroupName, OriginGroup>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    routes: BTreeMap<RouteName, DeclaredRoute>,
    #[serde(skip)]
    names: Names,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde asks for it.
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A catalog as it is stored: who is called how follows from it. A member that is unknown is a damaged one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    revision: u64,
    last_topic_id: u32,
    last_subscription_id: u32,
    topics: BTreeMap<TopicId, Topic>,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    #[serde(default)]
    domain_topics: BTreeMap<TopicId, DomainTopics>,
    #[serde(default)]
    gone: Vec<GoneSubscription>,
    #[serde(default)]
    last_replay_id: u32,
    #[serde(default)]
    replays: BTreeMap<u32, Replay>,
    #[serde(default)]
    origin_groups: BTreeMap<OriginGroupName, OriginGroup>,
    #[serde(default)]
    routes: BTreeMap<RouteName, DeclaredRoute>,
}

impl From<Stored> for Catalog {
    fn from(stored: Stored) -> Self {
        let mut names = Names::default();
        for topic in stored.topics.values() {
            names.add_topic(topic.name.as_str(), topic.id);
        }
        for found in stored.subscriptions.values() {
            names.add_subscription(
                found.topic,
                found.domain_topic.as_ref(),
                found.name.as_str(),
                found.id,
            );
        }
        Self {
            revision: stored.revision,
            last_topic_id: stored.last_topic_id,
            last_subscription_id: stored.last_subscription_id,
            topics: stored.topics,
            subscriptions: stored.subscriptions,
            domain_topics: stored.domain_topics,
            gone: stored.gone,
            last_replay_id: stored.last_replay_id,
            replays: stored.replays,
            origin_groups: stored.origin_groups,
            routes: stored.routes,
            names,
        }
    }
}

impl Catalog {
    /// The id that the next topic is created with.
    #[must_use]
    pub fn next_topic_id(&self) -> TopicId {
        TopicId(self.last_topic_id + 1)
    }

    /// The id that the next subscription is created with.
    #[must_use]
    pub fn next_subscription_id(&self) -> SubscriptionId {
        SubscriptionId(self.last_subscription_id + 1)
    }

    /// All topics, by id.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values()
    }

    /// All subscriptions, by id.
    pub fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.subscriptions.values()
    }

    /// The same behind one of them, or all.
    pub fn subscriptions_behind(
        &self,
        after: Option<SubscriptionId>,
    ) -> impl Iterator<Item = &Subscription> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.subscriptions.range((from, Bound::Unbounded));
        behind.map(|(_, subscription)| subscription)
    }

    /// The subscriptions of one topic, by id.
    pub fn subscriptions_of(&self, topic: TopicId) -> impl Iterator<Item = &Subscription> {
        let ids = self.names.subscriptions_of(topic);
        ids.filter_map(|id| self.subscriptions.get(&id))
    }

    /// The topic with this id.
    #[must_use]
    pub fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(&id)
    }

    /// The topic with this name.
    #[must_use]
    pub fn topic_named(&self, name: &str) -> Option<&Topic> {
        self.topics.get(&self.names.topic(name)?)
    }

    /// The subscription with this id.
    #[must_use]
    pub fn subscription(&self, id: SubscriptionId) -> Option<&Subscription> {
        self.subscriptions.get(&id)
    }

    /// The subscription with this name of a topic, or of one of its domain topics.
    #[must_use]
    pub fn subscription_named(
        &self,
        topic: TopicId,
        domain_topic: Option<&DomainTopicName>,
        name: &str,
    ) -> Option<&Subscription> {
        let id = self.names.subscription(topic, domain_topic, name)?;
        self.subscriptions.get(&id)
    }

    /// The subscriptions whose events go to the origins of a group of this name, or would with an update that waits: while there is
    /// one, the group is needed. By id.
    pub fn subscriptions_to_group<'c>(
        &'c self,
        group: &'c OriginGroupName,
    ) -> impl Iterator<Item = &'c Subscription> {
        let is_to = move |spec: &SubscriptionSpec| spec.destination.origin_group() == Some(group);
        self.subscriptions
            .values()
            .filter(move |found| is_to(&found.spec) || found.update.as_deref().is_some_and(is_to))
    }

    /// The subscriptions that a change takes away, by id.
    #[must_use]
    pub fn leaving_with(&self, change: &Change) -> Vec<SubscriptionId> {
        match change {
            Change::SubscriptionDeleted { id } => vec![*id],
            Change::TopicDeleted { id } => self.names.subscriptions_of(*id).collect(),
            Change::DomainTopicDeleted { domain, name } => {
                self.subscriptions_in(*domain, Some(name))
            }
            _ => Vec::new(),
        }
    }

    /// What became of the consent of a group's origins, and of the origins themselves (HP-202).
    fn follow_consents(&mut self, change: Change, next_seq: impl Fn(TopicId) -> u64) {
        match change {
            Change::OriginValidated {
                id,
                origin,
                state,
                allowed_rate,
            } => {
                if let Some(found) = self.subscriptions.get_mut(&id) {
                    let next_seq = next_seq(found.topic);
                    found.origin_validated(&origin, state, allowed_rate, next_seq);
                }
            }
            Change::OriginsFollowed { id, added, removed } => {
                if let Some(found) = self.subscriptions.get_mut(&id) {
                    found.follow_group(added, &removed);
                }
            }
            _ => {}
        }
    }

    /// Applies a change that stands in the log where the next event of each topic would have the number `next_seq`.
    /// Returns the subscriptions that are gone with it.
    pub fn apply(
        &mut self,
        change: Change,
        next_seq: impl Fn(TopicId) -> u64,
    ) -> Vec<SubscriptionId> {
        self.revision += 1;
        match change {
            Change::TopicCreated {
                id,
                name,
                spec,
                keys,
                created,
            } => self.add_topic(Topic {
                id,
                name,
                spec,
                keys,
                created,
            }),
            Change::TopicUpdated { id, spec } => {
                if let Some(topic) = self.topics.get_mut(&id) {
                    topic.spec = spec;
                }
            }
            Change::TopicKeysChanged { id, keys } => self.change_keys(id, keys),
            Change::DomainTopicCreated {
                domain,
                name,
                created,
            } => self.add_domain_topic(domain, name, created),
            Change::DomainTopicDeleted { domain, name } => {
                return self.remove_domain_topic(domain, &name, next_seq);
            }
            Change::TopicDeleted { id } => return self.remove_topic(id),
            Change::SubscriptionCreated {
                id,
                topic,
                domain_topic,
                name,
                spec,
                created,
                validation,
            } => {
                let subscription = Subscription {
                    domain_topic,
                    validation,
                    ..Subscription::new(id, topic, name, *spec, created)
                };
                self.add_subscription(subscription, next_seq(topic));
            }
            Change::SubscriptionUpdated {
                id,
                spec,
                validation,
            } => {
                if let Some(subscription) = self.subscriptions.get_mut(&id) {
                    subscription.declare(*spec, validation, next_seq(subscription.topic));
                }
            }
            Change::SubscriptionValidated {
                id,
                state,
                allowed_rate,
            } => {
                if let Some(subscription) = self.subscriptions.get_mut(&id) {
                    subscription.validated(state, allowed_rate, next_seq(subscription.topic));
                }
            }
            change @ (Change::OriginValidated { .. } | Change::OriginsFollowed { .. }) => {
                self.follow_consents(change, next_seq);
            }
            Change::SubscriptionReset { .. } => {}
            Change::SubscriptionPaused {
                id,
                is_paused,
                is_gone,
                at,
            } => self.pause(id, is_paused, is_gone, at),
            Change::SubscriptionPurged { id, from_seq, at } => {
                self.begin_purge(id, from_seq, at, next_seq);
            }
            Change::SubscriptionPurgeEnded { id } => self.end_purge(id),
            Change::SubscriptionDeleted { id } => return self.remove_subscription(id, next_seq),
            change @ (Change::ReplayCreated { .. }
            | Change::ReplayMoved { .. }
            | Change::ReplaySet { .. }) => self.follow_replay(change),
            change @ (Change::OriginGroupDeclared { .. }
            | Change::OriginGroupDeleted { .. }
            | Change::RouteDeclared { .. }
            | Change::RouteDeleted { .. }) => self.follow_origins(change),
        }
        Vec::new()
    }

    fn change_keys(&mut self, id: TopicId, keys: TopicKeys) {
        if let Some(topic) = self.topics.get_mut(&id) {
            topic.keys = keys;
        }
    }

    fn add_subscription(&mut self, mut subscription: Subscription, next_seq: u64) {
        let (id, topic) = (subscription.id, subscription.topic);
        let domain_topic = subscription.domain_topic.as_ref();
        self.last_subscription_id = id.0;
        self.names
            .add_subscription(topic, domain_topic, subscription.name.as_str(), id);
        if let Some(name) = domain_topic {
            self.add_domain_topic(topic, name.clone(), subscription.created);
        }
        let validation = subscription.validation.as_ref();
        if validation.is_none_or(|validation| !validation.must_wait()) {
            subscription.begin(next_seq);
        }
        self.subscriptions.insert(id, subscription);
    }

    fn pause(&mut self, id: SubscriptionId, is_paused: bool, is_gone: bool, at: Timestamp) {
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            if subscription.is_paused && !is_paused {
                subscription.resumed = Some(at);
            }
            if subscription.is_paused != is_paused {
                subscription.paused = is_paused.then_some(at);
            }
            subscription.is_paused = is_paused;
            subscription.is_gone = is_paused && is_gone;
        }
    }

    fn add_topic(&mut self, topic: Topic) {
        self.last_topic_id = topic.id.0;
        self.names.add_topic(topic.name.as_str(), topic.id);
        self.topics.insert(topic.id, topic);
    }

    fn remove_topic(&mut self, id: TopicId) -> Vec<SubscriptionId> {
        let gone: Vec<_> = self.names.subscriptions_of(id).collect();
        for id in &gone {
            self.forget_replays_of(*id);
            if let Some(removed) = self.subscriptions.remove(id) {
                // Nothing comes to a topic that is gone.
                self.remember_gone(removed, u64::MAX);
            }
        }
        self.domain_topics.remove(&id);
        if let Some(topic) = self.topics.remove(&id) {
            self.names.remove_topic(topic.name.as_str(), id);
        }
        gone
    }

    fn remove_subscription(
        &mut self,
        id: SubscriptionId,
        next_seq: impl Fn(TopicId) -> u64,
    ) -> Vec<SubscriptionId> {
        self.forget_replays_of(id);
        if let Some(gone) = self.subscriptions.remove(&id) {
            let name = gone.name.as_str();
            let domain_topic = gone.domain_topic.as_ref();
            self.names
                .remove_subscription(gone.topic, domain_topic, name, id);
            if let Some(name) = domain_topic {
                self.leave_domain_topic(gone.topic, name);
            }
            let to_seq = next_seq(gone.topic);
            self.remember_gone(gone, to_seq);
        }
        vec![id]
    }

    /// Forgets the filters that decide about no event from `cursor` on.
    pub fn forget_filters_before(&mut self, id: SubscriptionId, cursor: u64) {
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            // There is none before its endpoint has consented.
            let decided = subscription.filters.get(1..).unwrap_or_default();
            let count = decided.partition_point(|version| version.from_seq <= cursor);
            let former = subscription.filters.drain(..count);
            subscription.former_filters.extend(former);
            let too_many = subscription.former_filters.len();
            let too_many = too_many.saturating_sub(FORMER_FILTERS_MAX);
            subscription.former_filters.drain(..too_many);
        }
    }
}

impl Subscription {
    /// One that is declared, and nothing else yet.
    #[must_use]
    pub const fn new(
        id: SubscriptionId,
        topic: TopicId,
        name: SubscriptionName,
        spec: SubscriptionSpec,
        created: Timestamp,
    ) -> Self {
        Self {
            id,
            topic,
            domain_topic: None,
            name,
            spec,
            created,
            filters: Vec::new(),
            former_filters: Vec::new(),
            validation: None,
            consented: BTreeSet::new(),
            update: None,
            allowed_rate: None,
            is_paused: false,
            paused: None,
            is_gone: false,
            resumed: None,
            purges: Vec::new(),
        }
    }

    /// The filter that decides about an event, or decided; `None` if there was none yet, or if it is forgotten.
    #[must_use]
    pub fn filter_at(&self, seq: u64) -> Option<&FilterSpec> {
        let versions = self.filters.iter().rev();
        let mut versions = versions.chain(self.former_filters.iter().rev());
        let version = versions.find(|version| version.from_seq <= seq);
        version.map(|version| &version.filter)
    }

    /// From which events on which key orders them, ascending, as far as that is known.
    pub fn ordering_keys(&self) -> impl Iterator<Item = (u64, Option<&str>)> {
        let versions = self.former_filters.iter().chain(&self.filters);
        versions.map(|version| (version.from_seq, version.ordering_key.as_deref()))
    }

    /// Whether it receives events: its endpoint, or the one before it, has consented.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.filters.is_empty()
    }

    /// It receives what is published from here on.
    fn begin(&mut self, next_seq: u64) {
        self.filters = vec![FilterVersion {
            from_seq: next_seq,
            filter: self.spec.filter.clone(),
            ordering_key: ordering_key(&self.spec),
        }];
    }

    /// It is declared anew. With a handshake to come, what is in force stays so.
    fn declare(&mut self, spec: SubscriptionSpec, validation: Option<Validation>, next_seq: u64) {
        self.update = None;
        let must_wait = validation.as_ref().is_some_and(Validation::must_wait);
        // Who consented did so to what was declared before; without a handshake that is the same place.
        if validation.is_some() && !must_wait {
            self.consented.clear();
        }
        self.validation = validation;
        match (self.is_active(), must_wait) {
            (true, true) => self.update = Some(Box::new(spec)),
            (true, false) => self.update(spec, next_seq),
            (false, true) => self.spec = spec,
            (false, false) => {
                self.spec = spec;
                self.begin(next_seq);
            }
        }
    }

    /// The handshake went on, or ended.
    fn validated(
        &mut self,
        state: ValidationState,
        allowed_rate: Option<NonZeroU32>,
        next_seq: u64,
    ) {
        let has_succeeded = state == ValidationState::Succeeded;
        if let Some(validation) = &mut self.validation {
            validation.state = state;
        }
        if !has_succeeded {
            return;
        }
        match self.update.take() {
            Some(spec) => self.update(*spec, next_seq),
            None => self.begin(next_seq),
        }
        self.allowed_rate = allowed_rate;
    }

    fn update(&mut self, spec: SubscriptionSpec, next_seq: u64) {
        if self.spec.filter != spec.filter || ordering_key(&self.spec) != ordering_key(&spec) {
            self.filters.retain(|version| version.from_seq < next_seq);
            self.filters.push(FilterVersion {
                from_seq: next_seq,
                filter: spec.filter.clone(),
                ordering_key: ordering_key(&spec),
            });
        }
        if self.spec.destination != spec.destination {
            self.allowed_rate = None;
        }
        self.spec = spec;
    }
}

fn ordering_key(spec: &SubscriptionSpec) -> Option<String> {
    spec.ordering.as_ref().map(|ordering| ordering.key.clone())
}
