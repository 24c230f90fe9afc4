//! The resource paths of what subscriptions are made for: topics, domains, and topics of domains (ED-072).

use hedgerow_core::name::DomainTopicName;
use hedgerow_dialect::event_grid::{domain_path, domain_topic_path, topic_path};
use hedgerow_store::catalog::Topic;

/// The path of a topic, or of a domain; of a system topic what it tells of (ED-318).
pub(crate) fn path_of_topic(topic: &Topic) -> String {
    if let Some(source) = &topic.spec.source {
        return source.to_string();
    }
    let name = topic.name.as_str();
    if topic.is_domain() {
        domain_path(name)
    } else {
        topic_path(name)
    }
}

/// The same, or that of a domain topic.
pub(crate) fn source_path(topic: &Topic, domain_topic: Option<&DomainTopicName>) -> String {
    let path = path_of_topic(topic);
    match domain_topic {
        None => path,
        Some(name) => domain_topic_path(&path, name.as_str()),
    }
}
