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

/// Ranges of begun events that are remembered of one subscription.
pub const GONE_RANGES_MAX: usize = 1_000;

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
    /// Events before `from_seq` that were begun and not settled: the first and the last of each range, ascending. If they are too
    /// many ranges, the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<(u64, u64)>,
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

    /// Whether an event is known to have been owed to it, begun already, when it went.
    #[must_use]
    pub fn had_begun(&self, seq: u64) -> bool {
        let next = self.begun.partition_point(|(_, last)| *last < seq);
        self.begun.get(next).is_some_and(|(first, _)| *first <= seq)
    }
}

/// Where a subscription stood that goes.
pub(crate) struct LastPlace {
    /// Which one.
    pub(crate) id: SubscriptionId,
    /// See [`GoneSubscription::from_seq`].
    pub(crate) from_seq: u64,
    /// See [`GoneSubscription::begun`].
    pub(crate) begun: Vec<(u64, u64)>,
}

/// Ascending numbers as ranges, the first ones if they are too many.
pub(crate) fn ranges(numbers: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        if let Some((_, last)) = ranges.last_mut()
            && *last + 1 == number
        {
            *last = number;
        } else if ranges.len() < GONE_RANGES_MAX {
            ranges.push((number, number));
        } else {
            break;
        }
    }
    ranges
}

impl Catalog {
    /// The subscriptions of a topic that were deleted and are remembered, of which `seq` may have been one for.
    pub fn gone_at(&self, topic: TopicId, seq: u64) -> impl Iterator<Item = &GoneSubscription> {
        let of_topic = self.gone.iter().filter(move |one| one.topic == topic);
        of_topic.filter(move |one| seq < one.to_seq)
    }

    /// Says where a subscription stood that has just gone.
    pub(crate) fn note_place_of_gone(&mut self, place: LastPlace) {
        let LastPlace {
            id,
            from_seq,
            begun,
        } = place;
        let found = self.gone.iter_mut().rev().find(|one| one.id == id);
        if let Some(one) = found {
            one.bytes += serde_json::to_vec(&begun).map_or(0, |json| json.len());
            (one.from_seq, one.begun) = (from_seq, begun);
        }
        self.forget_oldest_gone();
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
            begun: Vec::new(),
            to_seq,
            bytes,
        });
        self.forget_oldest_gone();
    }

    fn forget_oldest_gone(&mut self) {
        let mut all: usize = self.gone.iter().map(|one| one.bytes).sum();
        while self.gone.len() > GONE_MAX || (all > GONE_BYTES_MAX && self.gone.len() > 1) {
            all -= self.gone.remove(0).bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range_and_many_ranges_are_cut() {
        assert_eq!(ranges([].into_iter()), []);
        assert_eq!(ranges([3, 4, 5, 9].into_iter()), [(3, 5), (9, 9)]);
        let odd = (0..).map(|number| 2 * number + 1);
        let odd = ranges(odd.take(5_000));
        assert_eq!(odd.len(), GONE_RANGES_MAX);
        assert_eq!(odd.last(), Some(&(1_999, 1_999)));
    }
}
