//! Subscriptions that were deleted. What was owed to them went with them, without a record for each event; so explaining an
//! event works out from here whether it was one for them, and whether it was dropped before its first attempt.

use hedgerow_core::name::{DomainTopicName, SubscriptionName};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::FilterSpec;
use serde::{Deserialize, Serialize};

use super::{Catalog, FilterVersion, Subscription};

/// Subscriptions that are remembered.
pub const GONE_MAX: usize = 256;
/// Bytes of JSON that all of them take at most; the newest is remembered beyond if it alone takes more.
pub const GONE_BYTES_MAX: usize = 1 << 20;

/// A subscription that was deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoneSubscription {
    /// Never reused.
    pub id: SubscriptionId,
    /// Its topic, which may be gone too.
    pub topic: TopicId,
    /// The domain topic that it was for, if it was for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_topic: Option<DomainTopicName>,
    /// Its name.
    pub name: SubscriptionName,
    /// Its filters that were known, each from an event on, ascending.
    pub filters: Vec<FilterVersion>,
    /// Events from here on were not begun; 0 until that is said.
    #[serde(default)]
    pub from_seq: u64,
    /// Events from here on came after it.
    pub to_seq: u64,
    /// Its size as JSON.
    bytes: usize,
}

impl GoneSubscription {
    /// The filter that decided about an event; `None` if there was none yet, or if it is forgotten.
    #[must_use]
    pub fn filter_at(&self, seq: u64) -> Option<&FilterSpec> {
        let mut versions = self.filters.iter().rev();
        let version = versions.find(|version| version.from_seq <= seq);
        version.map(|version| &version.filter)
    }
}

impl Catalog {
    /// The subscriptions of a topic that were deleted and are remembered, of which `seq` may have been one for.
    pub fn gone_at(&self, topic: TopicId, seq: u64) -> impl Iterator<Item = &GoneSubscription> {
        let of_topic = self.gone.iter().filter(move |one| one.topic == topic);
        of_topic.filter(move |one| seq < one.to_seq)
    }

    /// Says from which event on a subscription that has just gone had begun nothing.
    pub fn note_place_of_gone(&mut self, id: SubscriptionId, from_seq: u64) {
        let found = self.gone.iter_mut().rev().find(|one| one.id == id);
        if let Some(one) = found {
            one.from_seq = from_seq;
        }
    }

    pub(super) fn remember_gone(&mut self, subscription: Subscription, to_seq: u64) {
        let mut filters = subscription.former_filters;
        filters.extend(subscription.filters);
        let bytes = serde_json::to_vec(&filters).map_or(0, |json| json.len());
        self.gone.push(GoneSubscription {
            id: subscription.id,
            topic: subscription.topic,
            domain_topic: subscription.domain_topic,
            name: subscription.name,
            filters,
            from_seq: 0,
            to_seq,
            bytes,
        });
        let mut all: usize = self.gone.iter().map(|one| one.bytes).sum();
        while self.gone.len() > GONE_MAX || (all > GONE_BYTES_MAX && self.gone.len() > 1) {
            all -= self.gone.remove(0).bytes;
        }
    }
}
