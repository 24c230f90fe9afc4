//! Topics of domains: what is asked about them, and what is told (ED-075).

use hedgerow_core::name::DomainTopicName;
use hedgerow_core::time::Timestamp;

/// A domain topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainTopicInfo {
    /// The name of its domain.
    pub domain: String,
    /// Its own.
    pub name: DomainTopicName,
    /// When it was made, by hand or with its first subscription.
    pub created: Timestamp,
    /// How many subscriptions are made for it; those of the whole domain are not among them.
    pub subscriptions: usize,
}

/// Which topics of a domain are wanted.
#[derive(Debug, Clone)]
pub struct DomainTopicQuery {
    /// The name of the domain.
    pub domain: String,
    /// Only those whose names come after this one.
    pub after: Option<DomainTopicName>,
    /// How many at most.
    pub limit: usize,
}

/// Some topics of a domain, and where to go on.
#[derive(Debug, Clone, Default)]
pub struct DomainTopicPage {
    /// By name.
    pub topics: Vec<DomainTopicInfo>,
    /// Pass as `after` for the next page; `None` when there are no more.
    pub next: Option<DomainTopicName>,
}
