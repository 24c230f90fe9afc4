//! Readers and runners: one reader for each topic, one runner for each subscription. They follow what is declared.

use std::sync::Arc;

use hedgerow_core::credit::Signal;
use hedgerow_core::filter::Filter;
use hedgerow_core::hold::{Period, Probation};
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::{Change, split_source};
use hedgerow_store::record::CatalogChange;

use super::reader::TopicReader;
use super::{Engine, Phase};
use crate::command::{PublishTopic, TopicTable};
use crate::plan::{Plan, To};
use crate::runner::{Held, Runner};
use crate::source::path_of_topic;

impl Engine {
    /// Begins where the view stands: makes readers and runners, and takes care of what was in flight when the server
    /// ended.
    pub(super) fn take_up(&mut self) -> Result<(), StoreError> {
        let topics: Vec<_> = self.view.catalog().topics().map(|topic| topic.id).collect();
        for topic in topics {
            self.add_reader(topic);
        }
        let ids: Vec<_> = self
            .view
            .catalog()
            .subscriptions()
            .map(|found| found.id)
            .collect();
        for id in ids {
            // First: what it drops is not put in line.
            self.take_up_purge(id)?;
            self.add_runner(id)?;
            self.take_up_in_flight(id)?;
            self.take_up_validation(id)?;
            self.follow_origins(id)?;
            self.follow_expiration(id);
            if let Some(runner) = self.runners.get_mut(&id) {
                runner.follow_unknown_starts(self.began);
                self.plan_wake(id)?;
            }
        }
        if self.phase == Phase::Running {
            self.release_validations();
            self.take_up_replays();
        }
        self.look_at_destinations();
        Ok(())
    }

    /// Does what a change of the catalog asks for.
    pub(super) fn follow_change(&mut self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::TopicCreated { id, .. } => {
                self.add_reader(*id);
                self.publish_topics();
            }
            Change::TopicUpdated { .. } | Change::TopicKeysChanged { .. } => self.publish_topics(),
            Change::DomainTopicCreated { .. } | Change::ReplayMoved { .. } => {}
            Change::DomainTopicDeleted { domain, .. } => self.remove_gone(*domain)?,
            Change::OriginGroupDeclared { name, .. } => {
                self.publish_origins();
                self.follow_origins_of(name)?;
            }
            Change::OriginGroupDeleted { .. }
            | Change::RouteDeclared { .. }
            | Change::RouteDeleted { .. } => self.publish_origins(),
            Change::TopicDeleted { id } => {
                self.remove_topic(*id)?;
                self.end_gone_replays();
                self.publish_topics();
            }
            Change::SubscriptionCreated { id, .. }
            | Change::SubscriptionUpdated { id, .. }
            | Change::SubscriptionValidated { id, .. }
            | Change::OriginValidated { id, .. } => {
                self.renew_plan(*id)?;
                self.follow_validation(*id);
                self.follow_origins(*id)?;
                self.follow_expiration(*id);
                self.wake_replays_of(*id);
            }
            Change::OriginsFollowed { id, .. } => self.follow_validation(*id),
            Change::SubscriptionPaused { id, .. } => self.renew_plan(*id)?,
            Change::SubscriptionReset { id } => self.end_holds(*id)?,
            Change::SubscriptionPurged { id, .. } => self.begin_purge(*id)?,
            Change::SubscriptionPurgeEnded { id } => self.purges.forget(*id),
            Change::SubscriptionDeleted { id } => {
                self.purges.forget(*id);
                self.remove_runner(*id)?;
                self.follow_validation(*id);
                self.end_gone_replays();
            }
            Change::ReplayCreated { replay, .. } | Change::ReplaySet { replay, .. } => {
                self.follow_replay(*replay);
            }
        }
        Ok(())
    }

    /// Makes the reader of a topic. Each topic has one, subscribed to or not: a topic whose events nobody reads must not
    /// keep its part of the log.
    fn add_reader(&mut self, topic: TopicId) {
        let Some(declared) = self.view.catalog().topic(topic) else {
            return;
        };
        let path = path_of_topic(declared);
        let head = self.view.next_seq(topic);
        let reader = TopicReader::new(head, path, self.settings.filter_rules);
        self.readers.insert(topic, reader);
        if self.view.read_to(topic) < head {
            self.moved.insert(topic);
        }
    }

    fn remove_topic(&mut self, topic: TopicId) -> Result<(), StoreError> {
        self.remove_gone(topic)?;
        self.readers.remove(&topic);
        self.metrics.forget_topic(topic);
        Ok(())
    }

    /// Takes out all subscriptions of a topic that are not declared any more.
    fn remove_gone(&mut self, topic: TopicId) -> Result<(), StoreError> {
        let catalog = self.view.catalog();
        let of_topic = self.runners.values().filter(|runner| runner.topic == topic);
        let gone = of_topic.filter(|runner| catalog.subscription(runner.id).is_none());
        let mut ids: Vec<_> = gone.map(|runner| runner.id).collect();
        ids.sort_unstable();
        for id in ids {
            self.remove_runner(id)?;
        }
        if let Some(reader) = self.readers.get_mut(&topic) {
            let catalog = self.view.catalog();
            reader
                .stranded
                .retain(|id| catalog.subscription(*id).is_some());
        }
        self.purges.forget_gone(self.view.catalog());
        self.forget_validations_of_the_gone();
        Ok(())
    }

    /// Counts what is owed to subscriptions that go with a change, and what their endpoints are told, before the view forgets it.
    pub(super) fn count_leaving(&mut self, record: &CatalogChange) -> Result<(), StoreError> {
        let change = self.view.change_in(record)?;
        for id in self.view.catalog().leaving_with(&change) {
            let subscription = self.view.catalog().subscription(id);
            let owed = subscription.map_or(0, |found| self.info(found).pending);
            self.metrics.forget_subscription(id, owed);
            self.note_departure(id);
            self.departures.forget(id);
        }
        Ok(())
    }

    /// What an attempt needs of a subscription; `None` if its endpoint cannot be used.
    fn plan(&self, id: SubscriptionId) -> Option<(TopicId, Arc<Plan>)> {
        let subscription = self.view.catalog().subscription(id)?;
        let topic = self.view.catalog().topic(subscription.topic)?;
        match Plan::new(topic, subscription) {
            Ok(plan) => Some((topic.id, Arc::new(plan))),
            Err(error) => {
                tracing::error!(%error, "nothing is delivered there; update the endpoint");
                None
            }
        }
    }

    /// Makes the runner of a subscription, at its cursor; one whose endpoint has not consented yet gets none (ED-085).
    fn add_runner(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let found = self.view.catalog().subscription(id);
        if found.is_none_or(|found| !found.is_active()) {
            return Ok(());
        }
        let Some((topic, plan)) = self.plan(id) else {
            let topic = self
                .view
                .catalog()
                .subscription(id)
                .map(|found| found.topic);
            if let Some(reader) = topic.and_then(|topic| self.readers.get_mut(&topic)) {
                reader.stranded.insert(id);
            }
            return Ok(());
        };
        let cursor = self.view.cursor(id);
        let mut behind_at = None;
        if let Some(reader) = self.readers.get_mut(&topic) {
            reader.stranded.remove(&id);
            reader.subscriptions.insert(id);
            if cursor < reader.head {
                behind_at = Some(cursor);
                reader.behind.insert(id);
                self.behind.insert(topic);
                self.moved.insert(topic);
            }
        }
        let names = self.view.catalog().subscription(id);
        let names = names.map(|found| self.names_of(found)).unwrap_or_default();
        let (name, _) = split_source(&names.topic);
        let metrics = self.metrics.topic(topic, name);
        let metrics = self.metrics.subscription(id, &metrics, names);
        let mut runner = Runner::new(id, topic, plan, metrics, behind_at);
        let stored = self.view.holds(id).probation;
        runner.probation = Probation::restored(stored.filter(|stored| !stored.is_over()));
        runner.held = self.held_before(id, stored);
        self.runners.insert(id, runner);
        self.join_endpoint(id);
        self.file_filters(id);
        self.follow_ordering(id);
        self.read_keys(id)?;
        self.follow_pause(id);
        self.plan_wake(id)
    }

    fn remove_runner(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        for reader in self.readers.values_mut() {
            reader.stranded.remove(&id);
        }
        self.put_gathering_back(id);
        let Some(mut runner) = self.runners.remove(&id) else {
            return Ok(());
        };
        self.pauses.remove(&id);
        for (_, flight) in runner.land_all() {
            flight.abort.abort();
            self.give_back(flight.seat, Signal::GivenUp);
            self.endings.ended(usize::from(flight.is_paced));
            if let Some(tickets) = flight.tickets {
                self.give_up(id, tickets)?;
            }
        }
        self.leave_endpoint(&runner.plan.delayed_at, id)?;
        runner.late.end_all();
        self.letter_writes.note_problem(id, None);
        self.leave_line(&runner.plan, id);
        if let Some(reader) = self.readers.get_mut(&runner.topic) {
            reader.subscriptions.remove(&id);
            reader.behind.remove(&id);
            reader.filters.remove(id);
            self.moved.insert(runner.topic);
        }
        Ok(())
    }

    fn leave_line(&mut self, plan: &Plan, id: SubscriptionId) {
        match &plan.to {
            To::Endpoint { endpoint, .. } => self.endpoints.leave(endpoint, id),
            To::Group(_) => self.endpoints.leave_group(id),
        }
    }

    /// Takes over what changed. Attempts to another endpoint than the present one are ended (ED-189).
    fn renew_plan(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        if !self.runners.contains_key(&id) {
            return self.add_runner(id);
        }
        self.put_gathering_back(id);
        // First: whatever follows offers or attempts by what is declared now.
        self.file_filters(id);
        self.follow_ordering(id);
        let Some((_, plan)) = self.plan(id) else {
            return Ok(());
        };
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let former = std::mem::replace(&mut runner.plan, Arc::clone(&plan));
        runner.is_unauthorized = false;
        runner.follow_pace();
        if !former.is_same_endpoint(&plan) {
            runner.is_queued = false;
            self.leave_line(&former, id);
            self.abort_flights(id, Outcome::Canceled)?;
            self.change_endpoint(id, &former)?;
        }
        self.follow_pause(id);
        let resumed = self.resumed(id);
        if let Some(runner) = self.runners.get_mut(&id).filter(|_| !plan.is_paused)
            && runner.held.until < resumed
        {
            runner.held = Held {
                until: resumed,
                ..Held::default()
            };
        }
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }

    /// Files the filters of a subscription anew: each decides about the events from its own place up to the next one's
    /// (ED-085).
    fn file_filters(&mut self, id: SubscriptionId) {
        let Some(subscription) = self.view.catalog().subscription(id) else {
            return;
        };
        let Some(reader) = self.readers.get_mut(&subscription.topic) else {
            return;
        };
        reader.filters.remove(id);
        let versions = &subscription.filters;
        let ends = versions.iter().skip(1).map(|version| version.from_seq);
        for (version, end) in versions.iter().zip(ends.chain([u64::MAX])) {
            let mut filter = Filter::new(&version.filter, self.settings.filter_rules);
            if let Some(topic) = &subscription.domain_topic {
                filter = filter.of_domain_topic(topic);
            }
            reader.filters.insert(id, version.from_seq..end, filter);
        }
    }

    /// A subscription delivers elsewhere from now on: what held it there does not here (ED-232).
    fn change_endpoint(&mut self, id: SubscriptionId, former: &Plan) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        runner.probation.end();
        if runner.plan.delayed_at != former.delayed_at {
            self.leave_endpoint(&former.delayed_at, id)?;
            self.join_endpoint(id);
        }
        self.follow_hold(id);
        self.note_end_of_hold(id)
    }

    /// The hold or pause that ended last, before the server did.
    fn held_before(&self, id: SubscriptionId, stored: Option<Period>) -> Held {
        let until = self.resumed(id);
        match stored.filter(Period::is_over) {
            Some(over) if over.until > until => Held {
                until: over.until.min(self.now()),
                outcome: Some(Outcome::Probation),
                is_noted: true,
            },
            _ => Held {
                until,
                ..Held::default()
            },
        }
    }

    /// When a subscription was resumed last.
    fn resumed(&self, id: SubscriptionId) -> Timestamp {
        let found = self.view.catalog().subscription(id);
        found
            .and_then(|found| found.resumed)
            .unwrap_or(Timestamp::ZERO)
    }

    /// Tells publishers which topics there are, and notes which of them tell of dead letters.
    pub(super) fn publish_topics(&mut self) {
        let all = self.view.catalog().topics();
        let told = all.filter(|topic| topic.spec.source.is_some());
        self.letter_writes
            .set_told(told.map(|topic| topic.id).collect());
        let table: TopicTable = self
            .view
            .catalog()
            .topics()
            .map(|topic| {
                let name = topic.name.as_str();
                let entry = PublishTopic {
                    id: topic.id,
                    name: name.to_owned(),
                    path: path_of_topic(topic),
                    spec: topic.spec.clone(),
                    keys: topic.keys.clone(),
                    metrics: self.metrics.topic(topic.id, name),
                };
                (name.to_ascii_lowercase(), Arc::new(entry))
            })
            .collect();
        self.topics.send_replace(Arc::new(table));
    }
}
