//! Who is called how: topics and subscriptions by name, which compares without regard to ASCII case. Follows the catalog and
//! is not stored.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use hedgerow_core::name::DomainTopicName;
use hedgerow_core::position::{SubscriptionId, TopicId};

/// A name in lower case.
type Folded = Box<str>;

/// The names of one catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Names {
    topics: HashMap<Folded, TopicId>,
    of_topic: HashMap<TopicId, OfTopic>,
}

/// The subscriptions of a topic, or of all of a domain and its topics.
#[derive(Debug, Clone, Default, PartialEq)]
struct OfTopic {
    /// Those of the topic itself.
    named: Named,
    /// Those of domain topics, as far as they have some.
    of_domain_topics: HashMap<Folded, Named>,
    ids: BTreeSet<SubscriptionId>,
}

type Named = HashMap<Folded, SubscriptionId>;

impl OfTopic {
    fn named(&self, domain_topic: Option<&DomainTopicName>) -> Option<&Named> {
        match domain_topic {
            None => Some(&self.named),
            Some(name) => self.of_domain_topics.get(&name.folded()),
        }
    }
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

    pub fn add_subscription(
        &mut self,
        topic: TopicId,
        domain_topic: Option<&DomainTopicName>,
        name: &str,
        id: SubscriptionId,
    ) {
        let of_topic = self.of_topic.entry(topic).or_default();
        let named = match domain_topic {
            None => &mut of_topic.named,
            Some(topic) => of_topic.of_domain_topics.entry(topic.folded()).or_default(),
        };
        named.insert(fold(name).into(), id);
        of_topic.ids.insert(id);
    }

    pub fn remove_subscription(
        &mut self,
        topic: TopicId,
        domain_topic: Option<&DomainTopicName>,
        name: &str,
        id: SubscriptionId,
    ) {
        let Some(of_topic) = self.of_topic.get_mut(&topic) else {
            return;
        };
        of_topic.ids.remove(&id);
        let Some(domain_topic) = domain_topic.map(DomainTopicName::folded) else {
            of_topic.named.remove(&*fold(name));
            return;
        };
        if let Some(named) = of_topic.of_domain_topics.get_mut(&domain_topic) {
            named.remove(&*fold(name));
            if named.is_empty() {
                of_topic.of_domain_topics.remove(&domain_topic);
            }
        }
    }

    pub fn topic(&self, name: &str) -> Option<TopicId> {
        self.topics.get(&*fold(name)).copied()
    }

    pub fn subscription(
        &self,
        topic: TopicId,
        domain_topic: Option<&DomainTopicName>,
        name: &str,
    ) -> Option<SubscriptionId> {
        let named = self.of_topic.get(&topic)?.named(domain_topic)?;
        named.get(&*fold(name)).copied()
    }

    /// The subscriptions of a topic itself, or of a domain topic, by id.
    pub fn subscriptions_in(
        &self,
        topic: TopicId,
        domain_topic: Option<&DomainTopicName>,
    ) -> Vec<SubscriptionId> {
        let of_topic = self.of_topic.get(&topic);
        let named = of_topic.and_then(|of_topic| of_topic.named(domain_topic));
        let mut ids: Vec<_> = named
            .into_iter()
            .flat_map(HashMap::values)
            .copied()
            .collect();
        ids.sort_unstable();
        ids
    }

    /// How many subscriptions a topic has, or a domain with all its topics.
    pub fn count_subscriptions_of(&self, topic: TopicId) -> usize {
        self.of_topic
            .get(&topic)
            .map_or(0, |of_topic| of_topic.ids.len())
    }

    /// Whether a domain topic has any.
    pub fn has_subscriptions(&self, topic: TopicId, domain_topic: &DomainTopicName) -> bool {
        let of_topic = self.of_topic.get(&topic);
        of_topic.is_some_and(|of_topic| of_topic.named(Some(domain_topic)).is_some())
    }

    /// The subscriptions of a topic, and of all domain topics below it, by id.
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
        names.add_subscription(orders, None, "Billing", SubscriptionId(2));
        names.add_subscription(orders, None, "audit", SubscriptionId(1));
        names.add_subscription(other, None, "billing", SubscriptionId(3));
        assert_eq!(names.topic("oRDERS"), Some(orders));
        assert_eq!(names.topic("order"), None);
        assert_eq!(
            names.subscription(orders, None, "BILLING"),
            Some(SubscriptionId(2))
        );
        assert_eq!(names.subscription(other, None, "audit"), None);
        let ids: Vec<_> = names.subscriptions_of(orders).collect();
        assert_eq!(ids, [SubscriptionId(1), SubscriptionId(2)]);

        names.remove_subscription(orders, None, "billing", SubscriptionId(2));
        assert_eq!(names.subscription(orders, None, "Billing"), None);
        names.remove_topic("ORDERS", orders);
        assert_eq!(names.topic("Orders"), None);
        assert_eq!(names.subscriptions_of(orders).count(), 0);
        assert_eq!(
            names.subscription(other, None, "Billing"),
            Some(SubscriptionId(3))
        );
    }

    /// Each domain topic has names of its own, and the domain has others (ED-077, ED-078).
    #[test]
    fn domain_topics_have_names_of_their_own() {
        let shop = TopicId(1);
        let topic = |name: &str| name.parse::<DomainTopicName>().expect("a name");
        let foo = topic("Foo");
        let mut names = Names::default();
        names.add_subscription(shop, None, "audit", SubscriptionId(1));
        names.add_subscription(shop, Some(&foo), "audit", SubscriptionId(3));
        names.add_subscription(shop, Some(&topic("FOO")), "other", SubscriptionId(2));
        let audit = |names: &Names, topic: Option<&str>| {
            let topic = topic.map(|name| name.parse::<DomainTopicName>().expect("a name"));
            names.subscription(shop, topic.as_ref(), "AUDIT")
        };
        assert_eq!(audit(&names, None), Some(SubscriptionId(1)));
        assert_eq!(audit(&names, Some("foo")), Some(SubscriptionId(3)));
        assert_eq!(audit(&names, Some("bar")), None);
        let ids = |names: &Names, topic| names.subscriptions_in(shop, topic);
        assert_eq!(ids(&names, None), [SubscriptionId(1)]);
        assert_eq!(
            ids(&names, Some(&foo)),
            [SubscriptionId(2), SubscriptionId(3)]
        );
        assert_eq!(names.subscriptions_of(shop).count(), 3);
        names.remove_subscription(shop, Some(&foo), "Audit", SubscriptionId(3));
        assert!(names.has_subscriptions(shop, &foo));
        names.remove_subscription(shop, Some(&foo), "other", SubscriptionId(2));
        assert!(!names.has_subscriptions(shop, &foo));
        assert_eq!(audit(&names, None), Some(SubscriptionId(1)));
    }
}
