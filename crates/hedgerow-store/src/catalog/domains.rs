//! Domain topics: names below a domain that subscriptions are made for (section 1.11). They come with their first subscription and
//! go with their last one, unless the domain says otherwise (ED-075). Events are published to the domain, whatever topic they
//! name (ED-076): everything else about a domain is that of a topic (design D3).

use std::collections::BTreeMap;
use std::ops::Bound;

use hedgerow_core::name::DomainTopicName;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Catalog, Subscription, Topic};

/// What stands between the name of a domain and that of one of its topics.
const TOPICS: &str = "/topics/";

/// The topics of one domain.
pub(super) type DomainTopics = BTreeMap<DomainTopicName, DomainTopic>;

/// A domain topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainTopic {
    /// When it was made.
    pub created: Timestamp,
}

/// What a subscription is made for, as people name it: `orders`, a topic or all of a domain, or `shop/topics/foo`, a domain topic.
#[must_use]
pub fn source_name(topic: &str, domain_topic: Option<&DomainTopicName>) -> String {
    match domain_topic {
        None => topic.to_owned(),
        Some(name) => format!("{topic}{TOPICS}{name}"),
    }
}

/// Takes such a name apart: the topic or domain, and the domain topic.
#[must_use]
pub fn split_source(source: &str) -> (&str, Option<&str>) {
    match source.split_once(TOPICS) {
        None => (source, None),
        Some((domain, topic)) => (domain, Some(topic)),
    }
}

impl Topic {
    /// Whether it is a domain.
    #[must_use]
    pub const fn is_domain(&self) -> bool {
        self.spec.domain.is_some()
    }
}

impl Catalog {
    /// What a subscription is made for, as people name it.
    #[must_use]
    pub fn source_of(&self, subscription: &Subscription) -> String {
        let topic = self.topic(subscription.topic);
        let topic = topic.map(|topic| topic.name.as_str()).unwrap_or_default();
        source_name(topic, subscription.domain_topic.as_ref())
    }

    /// How many topics a domain has.
    #[must_use]
    pub fn count_domain_topics(&self, domain: TopicId) -> usize {
        self.domain_topics.get(&domain).map_or(0, BTreeMap::len)
    }

    /// A topic of a domain, with the spelling that it was made with.
    #[must_use]
    pub fn domain_topic(
        &self,
        domain: TopicId,
        name: &DomainTopicName,
    ) -> Option<(&DomainTopicName, &DomainTopic)> {
        self.domain_topics.get(&domain)?.get_key_value(name)
    }

    /// The topics of a domain, by name: all, or those behind one of them.
    pub fn domain_topics_behind(
        &self,
        domain: TopicId,
        after: Option<&DomainTopicName>,
    ) -> impl Iterator<Item = (&DomainTopicName, &DomainTopic)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let topics = self.domain_topics.get(&domain);
        topics
            .into_iter()
            .flat_map(move |topics| topics.range::<DomainTopicName, _>((from, Bound::Unbounded)))
    }

    /// The subscriptions of a domain that are for all of it, or those of one of its topics, by id.
    #[must_use]
    pub fn subscriptions_in(
        &self,
        topic: TopicId,
        domain_topic: Option<&DomainTopicName>,
    ) -> Vec<SubscriptionId> {
        self.names.subscriptions_in(topic, domain_topic)
    }

    /// How many subscriptions a topic has, or a domain with all its topics.
    #[must_use]
    pub fn count_subscriptions_of(&self, topic: TopicId) -> usize {
        self.names.count_subscriptions_of(topic)
    }

    pub(super) fn add_domain_topic(
        &mut self,
        domain: TopicId,
        name: DomainTopicName,
        created: Timestamp,
    ) {
        let topics = self.domain_topics.entry(domain).or_default();
        topics.entry(name).or_insert(DomainTopic { created });
    }

    pub(super) fn remove_domain_topic(
        &mut self,
        domain: TopicId,
        name: &DomainTopicName,
        next_seq: impl Fn(TopicId) -> u64,
    ) -> Vec<SubscriptionId> {
        let gone = self.subscriptions_in(domain, Some(name));
        for id in &gone {
            self.remove_subscription(*id, &next_seq);
        }
        self.forget_domain_topic(domain, name);
        gone
    }

    /// A subscription of a domain topic has gone.
    pub(super) fn leave_domain_topic(&mut self, domain: TopicId, name: &DomainTopicName) {
        let rules = self.topics.get(&domain).and_then(|found| found.spec.domain);
        let goes_with_the_last = rules.is_some_and(|rules| rules.deletes_topics);
        if goes_with_the_last && !self.names.has_subscriptions(domain, name) {
            self.forget_domain_topic(domain, name);
        }
    }

    fn forget_domain_topic(&mut self, domain: TopicId, name: &DomainTopicName) {
        if let Some(topics) = self.domain_topics.get_mut(&domain) {
            topics.remove(name);
            if topics.is_empty() {
                self.domain_topics.remove(&domain);
            }
        }
    }
}
