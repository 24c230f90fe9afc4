//! What is declared, found by its name, and how it is doing: what questions are answered with.

use hedgerow_core::position::{SubscriptionId, TopicId};
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

    pub(super) fn topic_named(&self, name: &str) -> Result<&Topic, CommandError> {
        self.view
            .catalog()
            .topic_named(name)
            .ok_or_else(|| not_found("topic", name))
    }

    pub(super) fn subscription_named(
        &self,
        topic: &str,
        name: &str,
    ) -> Result<Subscription, CommandError> {
        let topic = self.topic_named(topic)?.id;
        let found = self.view.catalog().subscription_named(topic, name).cloned();
        found.ok_or_else(|| not_found("event subscription", name))
    }

    pub(super) fn subscriptions_of(
        &self,
        topic: &str,
    ) -> Result<Vec<SubscriptionInfo>, CommandError> {
        let topic = self.topic_named(topic)?.id;
        Ok(self
            .view
            .catalog()
            .subscriptions_of(topic)
            .map(|found| self.info(found))
            .collect())
    }

    pub(super) fn info(&self, subscription: &Subscription) -> SubscriptionInfo {
        let load = self.load(subscription);
        let topic = self.view.catalog().topic(subscription.topic);
        SubscriptionInfo {
            hold: self.hold_info(subscription, load.owed()),
            subscription: subscription.clone(),
            topic_name: topic
                .map(|topic| topic.name.as_str().to_owned())
                .unwrap_or_default(),
            counters: load.counters,
            pending: load.pending,
            waiting: load.waiting,
            in_flight: load.in_flight,
            next_due: self.next_due(subscription.id),
            behind: load.behind,
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

    /// A topic and a subscription of it that a question is limited to, if it is.
    fn named(
        &self,
        topic: Option<&str>,
        subscription: Option<&str>,
    ) -> Result<(Option<TopicId>, Option<SubscriptionId>), CommandError> {
        let Some(topic) = topic else {
            return Ok((None, None));
        };
        let id = self.topic_named(topic)?.id;
        let subscription = subscription
            .map(|name| self.subscription_named(topic, name))
            .transpose()?;
        Ok((Some(id), subscription.map(|found| found.id)))
    }

    /// The subscriptions that a question is limited to, by id.
    pub(super) fn subscriptions_named(
        &self,
        topic: Option<&str>,
        subscription: Option<&str>,
    ) -> Result<Vec<SubscriptionId>, CommandError> {
        let (topic, subscription) = self.named(topic, subscription)?;
        let all = self.view.catalog().subscriptions();
        let wanted = all.filter(|found| {
            topic.is_none_or(|topic| topic == found.topic)
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
        let (topic, subscription) =
            match self.named(query.topic.as_deref(), query.subscription.as_deref()) {
                Ok(named) => named,
                Err(error) => return Ok(Err(error)),
            };
        let filter = TerminalFilter {
            topic,
            subscription,
            after: query.after,
        };
        self.view.terminal_records(&filter, query.limit).map(Ok)
    }
}

fn not_found(what: &'static str, name: &str) -> CommandError {
    CommandError::NotFound {
        what,
        name: name.to_owned(),
    }
}
