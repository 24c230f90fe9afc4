//! Who is called how: topics and subscriptions by name, which compares without regard to ASCII case. Follows the catalog and
//! is not stored.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use hedgerow_core::position::{SubscriptionId, TopicId};

/// A name in lower case.
type Folded = Box<str>;

/// The names of one catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Names {
    topics: HashMap<Folded, TopicId>,
    of_topic: HashMap<TopicId, OfTopic>,
}

/// The subscriptions of a topic.
#[derive(Debug, Clone, Default, PartialEq)]
struct OfTopic {
    named: HashMap<Folded, SubscriptionId>,
    ids: BTreeSet<SubscriptionId>,
}

impl Names {
    pub fn add_topic(&mut self, name: &str, id: TopicId) {
        self.topics.insert(fold(name).into(), id);
    }

    /// Takes a topic out, with its subscriptions.
    pub fn remove_topic(&mut self, name: &str, id: TopicId) {
        self.topics.remove(&*fold(name));
        self.of_topic.remove(&id);
    }

    pub fn add_subscription(&mut self, topic: TopicId, name: &str, id: SubscriptionId) {
        let of_topic = self.of_topic.entry(topic).or_default();
        of_topic.named.insert(fold(name).into(), id);
        of_topic.ids.insert(id);
    }

    pub fn remove_subscription(&mut self, topic: TopicId, name: &str, id: SubscriptionId) {
        if let Some(of_topic) = self.of_topic.get_mut(&topic) {
            of_topic.named.remove(&*fold(name));
            of_topic.ids.remove(&id);
        }
    }

    pub fn topic(&self, name: &str) -> Option<TopicId> {
        self.topics.get(&*fold(name)).copied()
    }

    pub fn subscription(&self, topic: TopicId, name: &str) -> Option<SubscriptionId> {
        self.of_topic.get(&topic)?.named.get(&*fold(name)).copied()
    }

    /// The subscriptions of a topic, by id.
    pub fn subscriptions_of(&self, topic: TopicId) -> impl Iterator<Item = SubscriptionId> {
        let of_topic = self.of_topic.get(&topic);
        of_topic.into_iter().flat_map(|of| of.ids.iter().copied())
    }
}

/// Copies only what has upper case in it.
fn fold(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(name.to_ascii_lowercase());
    }
    Cow::Borrowed(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_until_they_go() {
        let (orders, other) = (TopicId(1), TopicId(2));
        let mut names = Names::default();
        names.add_topic("Orders", orders);
        names.add_topic("other", other);
        names.add_subscription(orders, "Billing", SubscriptionId(2));
        names.add_subscription(orders, "audit", SubscriptionId(1));
        names.add_subscription(other, "billing", SubscriptionId(3));
        assert_eq!(names.topic("oRDERS"), Some(orders));
        assert_eq!(names.topic("order"), None);
        assert_eq!(
            names.subscription(orders, "BILLING"),
            Some(SubscriptionId(2))
        );
        assert_eq!(names.subscription(other, "audit"), None);
        let ids: Vec<_> = names.subscriptions_of(orders).collect();
        assert_eq!(ids, [SubscriptionId(1), SubscriptionId(2)]);

        names.remove_subscription(orders, "billing", SubscriptionId(2));
        assert_eq!(names.subscription(orders, "Billing"), None);
        names.remove_topic("ORDERS", orders);
        assert_eq!(names.topic("Orders"), None);
        assert_eq!(names.subscriptions_of(orders).count(), 0);
        assert_eq!(
            names.subscription(other, "Billing"),
            Some(SubscriptionId(3))
        );
    }
}
