//! What is declared, found by its name, and how it is doing: what questions are answered with.

use hedgerow_core::name::DomainTopicName;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::topic_meant;
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::{Subscription, Topic};
use hedgerow_store::view::{BEHIND_IN_FLIGHT, TerminalFilter, TerminalPage};

use super::Engine;
use crate::command::{CommandError, SubscriptionInfo, TerminalQuery};
use crate::runner::Runner;

impl Engine {
    pub(super) fn topic_of(&self, id: TopicId) -> Result<Topic, CommandError> {
        let topic = self.view.catalog().topic(id).cloned();
        topic.ok_or(CommandError::Unavailable)
    }

    pub(super) fn info_of(&self, id: SubscriptionId) -> Result<SubscriptionInfo, CommandError> {
        let found = self.view.catalog().subscription(id);
        found
            .map(|found| self.info(found))
            .ok_or(CommandError::Unavailable)
    }

    /// The topic of that name, or that a resource id means (ED-318).
    pub(super) fn topic_named(&self, name: &str) -> Result<&Topic, CommandError> {
        let meant = topic_meant(name);
        meant
            .and_then(|name| self.view.catalog().topic_named(name))
            .ok_or_else(|| not_found("topic", name))
    }

    pub(super) fn subscription_named(
        &self,
        topic: &str,
        name: &str,
    ) -> Result<Subscription, CommandError> {
        let (topic, domain_topic) = self.source_named(topic)?;
        let catalog = self.view.catalog();
        let found = catalog.subscription_named(topic.id, domain_topic.as_ref(), name);
        let found = found.cloned();
        found.ok_or_else(|| not_found("event subscription", name))
    }

    pub(super) fn subscriptions_of(
        &self,
        topic: &str,
    ) -> Result<Vec<SubscriptionInfo>, CommandError> {
        let (topic, domain_topic) = self.source_named(topic)?;
        let catalog = self.view.catalog();
        let ids = catalog.subscriptions_in(topic.id, domain_topic.as_ref());
        let found = ids.into_iter().filter_map(|id| catalog.subscription(id));
        Ok(found.map(|found| self.info(found)).collect())
    }

    pub(super) fn info(&self, subscription: &Subscription) -> SubscriptionInfo {
        let load = self.load(subscription);
        let runner = self.runners.get(&subscription.id);
        let now = self.now();
        SubscriptionInfo {
            open_attempts: runner.map_or(0, |runner| self.open_attempts(runner)),
            not_before: runner
                .map(|runner| runner.not_before)
                .filter(|not_before| *not_before > now),
            endpoint: self.credits_of(subscription),
            hold: self.hold_info(subscription, load.owed()),
            subscription: subscription.clone(),
            topic_name: self.view.catalog().source_of(subscription),
            counters: load.counters,
            pending: load.pending,
            waiting: load.waiting,
            in_flight: load.in_flight,
            next_due: self.next_due(subscription.id),
            behind: load.behind,
            batch_responses: self
                .runners
                .get(&subscription.id)
                .and_then(|runner| runner.response_times.percentile_95()),
            dead_letter_problem: self.letter_writes.problem(subscription.id).cloned(),
        }
    }

    /// When the next retry, not before the end of a hold, or else the next write of a dead letter is due: the memory of the
    /// runner ends a minute ahead, the due index does not.
    fn next_due(&self, id: SubscriptionId) -> Option<Timestamp> {
        let runner = self.runners.get(&id);
        let held_until = runner.map_or(Timestamp::ZERO, |runner| runner.held.until);
        let retry = runner.and_then(Runner::next_due);
        let retry = retry.map(|due| due.max(held_until));
        retry.or_else(|| {
            let rows = self
                .view
                .due(id, BEHIND_IN_FLIGHT, Timestamp::MAX, 1)
                .ok()?;
            let row = rows.first()?;
            let is_retry = row.attempt().is_some();
            Some(row.due.max(if is_retry { held_until } else { row.due }))
        })
    }

    /// What a question is limited to, if it is: what events are of, and a subscription to that.
    fn named(
        &self,
        topic: Option<&str>,
        subscription: Option<&str>,
    ) -> Result<Named, CommandError> {
        let Some(source) = topic else {
            return Ok(Named::default());
        };
        let (topic, domain_topic) = self.source_named(source)?;
        let subscription = subscription
            .map(|name| self.subscription_named(source, name))
            .transpose()?;
        Ok(Named {
            topic: Some(topic.id),
            domain_topic,
            subscription: subscription.map(|found| found.id),
        })
    }

    /// The subscriptions that a question is limited to, by id.
    pub(super) fn subscriptions_named(
        &self,
        topic: Option<&str>,
        subscription: Option<&str>,
    ) -> Result<Vec<SubscriptionId>, CommandError> {
        let Named {
            topic,
            domain_topic,
            subscription,
        } = self.named(topic, subscription)?;
        let all = self.view.catalog().subscriptions();
        let wanted = all.filter(|found| {
            topic.is_none_or(|topic| topic == found.topic)
                && (domain_topic.is_none() || domain_topic == found.domain_topic)
                && subscription.is_none_or(|id| id == found.id)
        });
        let mut ids: Vec<_> = wanted.map(|found| found.id).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    pub(super) fn terminal_records(
        &self,
        query: &TerminalQuery,
    ) -> Result<Result<TerminalPage, CommandError>, StoreError> {
        let named = self.named(query.topic.as_deref(), query.subscription.as_deref());
        let named = match named {
            Ok(named) => named,
            Err(error) => return Ok(Err(error)),
        };
        let filter = TerminalFilter {
            topic: named.topic,
            source: query.topic.clone().filter(|_| named.domain_topic.is_some()),
            subscription: named.subscription,
            after: query.after,
        };
        self.view.terminal_records(&filter, query.limit).map(Ok)
    }
}

/// What a question is limited to.
#[derive(Default)]
struct Named {
    topic: Option<TopicId>,
    /// If the topic is a domain and one of its topics is meant.
    domain_topic: Option<DomainTopicName>,
    subscription: Option<SubscriptionId>,
}

pub(super) fn not_found(what: &'static str, name: &str) -> CommandError {
    CommandError::NotFound {
        what,
        name: name.to_owned(),
    }
}
