//! Domains and their topics (section 1.11): what a subscription is made for, found by its name, and domain topics that somebody
//! makes or deletes by hand. A domain is a topic in everything else (design D3).

use hedgerow_core::limits;
use hedgerow_core::name::DomainTopicName;
use hedgerow_core::position::TopicId;
use hedgerow_core::spec::{TopicSpec, topic_meant};
use hedgerow_store::catalog::{Change, DomainTopic, Topic, source_name, split_source};

use super::Engine;
use super::declarations::{Answered, done, found_or_answered, reply};
use super::lookups::not_found;
use crate::command::{Answer, CommandError};
use crate::domain_topics::{DomainTopicInfo, DomainTopicPage, DomainTopicQuery};
use crate::source;

impl Engine {
    /// What a name of a source means: a topic or a domain, and perhaps a topic of the domain, which may be none.
    pub(super) fn source_named(
        &self,
        name: &str,
    ) -> Result<(&Topic, Option<DomainTopicName>), CommandError> {
        let meant = topic_meant(name).ok_or_else(|| not_found("topic", name))?;
        let (topic, domain_topic) = split_source(meant);
        let topic = self.topic_named(topic)?;
        let Some(domain_topic) = domain_topic else {
            return Ok((topic, None));
        };
        if !topic.is_domain() {
            return Err(not_found("domain", topic.name.as_str()));
        }
        let domain_topic = domain_topic.parse();
        let domain_topic = domain_topic.map_err(|_| not_found("domain topic", name))?;
        Ok((topic, Some(domain_topic)))
    }

    /// The resource path of such a source.
    pub(super) fn source_path(&self, name: &str) -> String {
        let found = self.source_named(name);
        found.map_or_else(
            |_| String::new(),
            |(topic, domain_topic)| source::source_path(topic, domain_topic.as_ref()),
        )
    }

    fn domain_named(&self, name: &str) -> Result<&Topic, CommandError> {
        let found = self.topic_named(name).ok();
        let domain = found.filter(|topic| topic.is_domain());
        domain.ok_or_else(|| not_found("domain", name))
    }

    /// Refuses a subscription to a domain topic that is not there, if the domain does not make it (ED-075), or has as many as it
    /// may (ED-062).
    pub(super) fn judge_domain_topic(
        &self,
        domain: &Topic,
        name: Option<&DomainTopicName>,
    ) -> Result<(), CommandError> {
        let Some(name) = name else {
            return Ok(());
        };
        if self.view.catalog().domain_topic(domain.id, name).is_some() {
            return Ok(());
        }
        let creates = domain.spec.domain.is_some_and(|rules| rules.creates_topics);
        if !creates {
            let source = source_name(domain.name.as_str(), Some(name));
            return Err(not_found("domain topic", &source));
        }
        self.judge_room_for_domain_topic(domain)
    }

    /// Judges the name of a source whose topic is not there yet, and is declared before as `new`.
    pub(super) fn check_new_source(source: &str, new: &TopicSpec) -> Result<(), CommandError> {
        let (topic, domain_topic) = split_source(source);
        let Some(name) = domain_topic else {
            return Ok(());
        };
        let Some(rules) = new.domain else {
            return Err(not_found("domain", topic));
        };
        if name.parse::<DomainTopicName>().is_err() || !rules.creates_topics {
            return Err(not_found("domain topic", source));
        }
        Ok(())
    }

    fn judge_room_for_domain_topic(&self, domain: &Topic) -> Result<(), CommandError> {
        let count = self.view.catalog().count_domain_topics(domain.id);
        if count < self.settings.quotas.topics_per_domain {
            return Ok(());
        }
        Err(CommandError::Limit(format!(
            "domain \"{}\" has {count} topics, no more are possible; delete one, or raise quotas.topics_per_domain",
            domain.name
        )))
    }

    /// Refuses one more subscription where there are as many as there may be (ED-062).
    pub(super) fn judge_room_for_subscription(
        &self,
        topic: &Topic,
        domain_topic: Option<&DomainTopicName>,
    ) -> Result<(), CommandError> {
        let catalog = self.view.catalog();
        let quotas = self.settings.quotas;
        let (max, quota) = match (topic.is_domain(), domain_topic) {
            (true, None) => (quotas.domain_subscriptions, "domain_subscriptions"),
            _ => (quotas.subscriptions_per_topic, "subscriptions_per_topic"),
        };
        let count = catalog.subscriptions_in(topic.id, domain_topic).len();
        let source = source_name(topic.name.as_str(), domain_topic);
        if count >= max {
            return Err(CommandError::Limit(format!(
                "\"{source}\" has {count} subscriptions, no more are possible; delete one, or raise quotas.{quota}"
            )));
        }
        let all = catalog.count_subscriptions_of(topic.id);
        if all >= limits::SUBSCRIPTIONS_PER_DOMAIN_MAX {
            return Err(CommandError::Limit(format!(
                "domain \"{}\" and its topics have {all} subscriptions, no more are possible; delete one",
                topic.name
            )));
        }
        Ok(())
    }

    fn domain_topic_info(
        &self,
        domain: &Topic,
        (name, found): (&DomainTopicName, &DomainTopic),
    ) -> DomainTopicInfo {
        let subscriptions = self.view.catalog().subscriptions_in(domain.id, Some(name));
        DomainTopicInfo {
            domain: domain.name.as_str().to_owned(),
            name: name.clone(),
            created: found.created,
            subscriptions: subscriptions.len(),
        }
    }

    /// A topic of a domain.
    pub(super) fn domain_topic_named(
        &self,
        domain: &str,
        name: &str,
    ) -> Result<DomainTopicInfo, CommandError> {
        let domain = self.domain_named(domain)?;
        let parsed: Option<DomainTopicName> = name.parse().ok();
        let catalog = self.view.catalog();
        let found = parsed.and_then(|name| {
            let found = catalog.domain_topic(domain.id, &name)?;
            Some(self.domain_topic_info(domain, found))
        });
        found.ok_or_else(|| not_found("domain topic", name))
    }

    /// The topics of a domain, a page of them.
    pub(super) fn domain_topics(
        &self,
        query: &DomainTopicQuery,
    ) -> Result<DomainTopicPage, CommandError> {
        let domain = self.domain_named(&query.domain)?;
        let catalog = self.view.catalog();
        let mut found = catalog.domain_topics_behind(domain.id, query.after.as_ref());
        let topics = found.by_ref().take(query.limit);
        let topics: Vec<_> = topics
            .map(|one| self.domain_topic_info(domain, one))
            .collect();
        let is_whole = found.next().is_none();
        let next = topics.last().map(|topic| topic.name.clone());
        Ok(DomainTopicPage {
            next: next.filter(|_| !is_whole),
            topics,
        })
    }

    pub(super) fn put_domain_topic(
        &self,
        domain: &str,
        name: DomainTopicName,
        answer: Answer<(DomainTopicInfo, bool)>,
    ) -> Option<(Change, Answered)> {
        let (domain, answer) = found_or_answered(self.domain_named(domain), answer)?;
        if let Some(found) = self.view.catalog().domain_topic(domain.id, &name) {
            reply(answer, Ok((self.domain_topic_info(domain, found), false)));
            return None;
        }
        let ((), answer) = found_or_answered(self.judge_room_for_domain_topic(domain), answer)?;
        let (id, domain_name) = (domain.id, domain.name.to_string());
        let change = Change::DomainTopicCreated {
            domain: id,
            name: name.clone(),
            created: self.now(),
        };
        let answered: Answered = Box::new(move |made| {
            let found =
                made.and_then(|engine| engine.domain_topic_named(&domain_name, name.as_str()));
            reply(answer, found.map(|info| (info, true)));
        });
        Some((change, answered))
    }

    pub(super) fn delete_domain_topic(
        &self,
        domain: &str,
        name: &str,
        answer: Answer<()>,
    ) -> Option<(Change, Answered)> {
        let found = self.domain_topic_named(domain, name);
        let found = found.and_then(|info| Ok((self.domain_named(domain)?.id, info.name)));
        let ((domain, name), answer): ((TopicId, _), _) = found_or_answered(found, answer)?;
        Some((Change::DomainTopicDeleted { domain, name }, done(answer)))
    }
}
