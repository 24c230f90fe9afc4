//! What users declare: changes become catalog records, one at a time, and are answered when they are durable; questions
//! are answered at once.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::limits;
use hedgerow_core::name::{SubscriptionName, TopicName};
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{Destination, SpecError, SubscriptionSpec, TopicSpec};
use hedgerow_io::chance;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::{Change, Subscription, Topic, TopicKeys};
use hedgerow_store::record::{CatalogChange, Record};
use hedgerow_store::view::{TerminalFilter, TerminalPage};

use super::Engine;
use super::reader::TopicReader;
use crate::command::{
    Answer, Command, CommandError, KeyName, PublishTopic, SubscriptionInfo, TerminalQuery,
    TopicTable,
};
use crate::plan::Plan;
use crate::runner::Runner;

/// Changes on their way.
#[derive(Default)]
pub(super) struct Declarations {
    /// Waits for its record to be durable: what to do then.
    under_way: Option<(u64, Answered)>,
    waiting: VecDeque<Command>,
}

/// Answers who asked for a change, once it holds.
type Answered = Box<dyn FnOnce(&Engine) + Send>;

impl Engine {
    /// Does what was asked, or lets it wait for the change that is under way.
    pub(super) fn command(&mut self, command: Command) -> Result<(), StoreError> {
        match command {
            Command::Topics { answer } => {
                reply(answer, Ok(self.view.catalog().topics().cloned().collect()));
            }
            Command::Topic { name, answer } => reply(answer, self.topic_named(&name).cloned()),
            Command::Subscriptions { topic, answer } => {
                reply(answer, self.subscriptions_of(&topic));
            }
            Command::Subscription {
                topic,
                name,
                answer,
            } => {
                let found = self.subscription_named(&topic, &name);
                reply(answer, found.map(|subscription| self.info(&subscription)));
            }
            Command::TerminalRecords { query, answer } => {
                reply(answer, self.terminal_records(&query)?);
            }
            Command::StartDeliveries { answer } => {
                self.release();
                reply(answer, Ok(()));
            }
            change => {
                self.declarations.waiting.push_back(change);
                return self.next_change();
            }
        }
        Ok(())
    }

    /// Begins the next change if none is under way. One that changes nothing is answered at once.
    fn next_change(&mut self) -> Result<(), StoreError> {
        while self.declarations.under_way.is_none() {
            let Some(command) = self.declarations.waiting.pop_front() else {
                break;
            };
            let Some((change, answered)) = self.change_for(command) else {
                continue;
            };
            let revision = self.view.catalog().revision + 1;
            let json = serde_json::to_vec(&change)
                .expect("a change is plain values with text keys, which JSON always takes");
            let record = CatalogChange {
                revision,
                json: Bytes::from(json),
            };
            self.store.journal(Record::Catalog(record))?;
            self.declarations.under_way = Some((revision, answered));
        }
        Ok(())
    }

    /// The change a command asks for; `None` if it was answered, because it changes nothing or cannot be done.
    fn change_for(&mut self, command: Command) -> Option<(Change, Answered)> {
        match command {
            Command::PutTopic { name, spec, answer } => self.put_topic(name, spec, answer),
            Command::DeleteTopic { name, answer } => {
                let found = self.topic_named(&name).map(|topic| topic.id);
                let (id, answer) = found_or_answered(found, answer)?;
                Some((Change::TopicDeleted { id }, done(answer)))
            }
            Command::RegenerateKey { name, key, answer } => {
                let found = self.topic_named(&name).cloned();
                let (topic, answer) = found_or_answered(found, answer)?;
                let keys = with_new_key(topic.keys, key);
                let change = Change::TopicKeysChanged {
                    id: topic.id,
                    keys: keys.clone(),
                };
                Some((change, Box::new(move |_| reply(answer, Ok(keys)))))
            }
            Command::PutSubscription {
                topic,
                name,
                spec,
                answer,
            } => self.put_subscription(&topic, name, spec, answer),
            Command::DeleteSubscription {
                topic,
                name,
                answer,
            } => {
                let found = self.subscription_named(&topic, &name);
                let (subscription, answer) = found_or_answered(found, answer)?;
                Some((
                    Change::SubscriptionDeleted {
                        id: subscription.id,
                    },
                    done(answer),
                ))
            }
            Command::Topics { .. }
            | Command::Topic { .. }
            | Command::Subscriptions { .. }
            | Command::Subscription { .. }
            | Command::StartDeliveries { .. }
            | Command::TerminalRecords { .. } => None,
        }
    }

    fn put_topic(
        &self,
        name: TopicName,
        spec: TopicSpec,
        answer: Answer<(Topic, bool)>,
    ) -> Option<(Change, Answered)> {
        if let Some(topic) = self.view.catalog().topic_named(name.as_str()) {
            let same = if topic.spec == spec {
                Ok((topic.clone(), false))
            } else {
                Err(CommandError::Invalid(SpecError {
                    field: "inputSchema".to_owned(),
                    message: "cannot be changed after the topic was created".to_owned(),
                }))
            };
            reply(answer, same);
            return None;
        }
        let count = self.view.catalog().topics().count();
        if count >= limits::TOPICS_MAX {
            let message = format!("there are {count} topics, no more are possible; delete one");
            reply(answer, Err(CommandError::Limit(message)));
            return None;
        }
        let id = self.view.catalog().next_topic_id();
        let keys = TopicKeys {
            key1: new_key(),
            key2: new_key(),
        };
        let created = self.now();
        let change = Change::TopicCreated {
            id,
            name,
            spec,
            keys,
            created,
        };
        let answered = Box::new(move |engine: &Engine| {
            let topic = engine.view.catalog().topic(id).cloned();
            reply(
                answer,
                topic
                    .map(|topic| (topic, true))
                    .ok_or(CommandError::Unavailable),
            );
        });
        Some((change, answered))
    }

    fn put_subscription(
        &self,
        topic_name: &str,
        name: SubscriptionName,
        spec: Box<SubscriptionSpec>,
        answer: Answer<(SubscriptionInfo, bool)>,
    ) -> Option<(Change, Answered)> {
        let found = self.topic_named(topic_name).map(|topic| topic.id);
        let (topic, answer) = found_or_answered(found, answer)?;
        if let Err(error) = self.judge_endpoint(&spec) {
            reply(answer, Err(error));
            return None;
        }
        let existing = self
            .view
            .catalog()
            .subscription_named(topic, name.as_str())
            .cloned();
        let is_new = existing.is_none();
        let (id, change) = match existing {
            Some(existing) if existing.spec == *spec => {
                let info = self.info(&existing);
                reply(answer, Ok((info, false)));
                return None;
            }
            Some(existing) => (
                existing.id,
                Change::SubscriptionUpdated {
                    id: existing.id,
                    spec,
                },
            ),
            None => {
                let count = self.view.catalog().subscriptions_of(topic).count();
                if count >= limits::SUBSCRIPTIONS_PER_TOPIC_MAX {
                    let message = format!(
                        "topic \"{topic_name}\" has {count} subscriptions, no more are possible; \
                         delete one"
                    );
                    reply(answer, Err(CommandError::Limit(message)));
                    return None;
                }
                let id = self.view.catalog().next_subscription_id();
                let created = self.now();
                (
                    id,
                    Change::SubscriptionCreated {
                        id,
                        topic,
                        name,
                        spec,
                        created,
                    },
                )
            }
        };
        let answered = Box::new(move |engine: &Engine| {
            let info = engine
                .view
                .catalog()
                .subscription(id)
                .map(|found| engine.info(found));
            reply(
                answer,
                info.map(|info| (info, is_new))
                    .ok_or(CommandError::Unavailable),
            );
        });
        Some((change, answered))
    }

    /// Refuses an endpoint that no attempt could reach, in the words of the rule that closes it (FC-15).
    fn judge_endpoint(&self, spec: &SubscriptionSpec) -> Result<(), CommandError> {
        let Destination::WebHook { endpoint_url } = &spec.destination;
        let refused = |message: String| {
            let field = "destination.properties.endpointUrl".to_owned();
            CommandError::Invalid(SpecError { field, message })
        };
        let url = url::Url::parse(endpoint_url.as_str()).map_err(|e| refused(e.to_string()))?;
        self.guard
            .judge_url(&url)
            .map_err(|denied| refused(denied.to_string()))
    }

    /// A change became durable: it holds from here on.
    pub(super) fn observe_declared(&mut self, record: &CatalogChange) -> Result<(), StoreError> {
        self.match_runners_to_catalog()?;
        self.publish_topics();
        if let Some((revision, answered)) = self.declarations.under_way.take() {
            assert!(
                revision == record.revision,
                "one change is under way at a time"
            );
            answered(self);
        }
        self.next_change()
    }

    /// Makes, renews and removes runners so that each declared subscription has one.
    fn match_runners_to_catalog(&mut self) -> Result<(), StoreError> {
        self.match_readers_to_catalog();
        let mut gone: Vec<_> = self
            .runners
            .keys()
            .filter(|id| self.view.catalog().subscription(**id).is_none())
            .copied()
            .collect();
        gone.sort_unstable();
        for id in gone {
            self.remove_runner(id);
        }
        let declared: Vec<_> = self.view.catalog().subscriptions().cloned().collect();
        for subscription in declared {
            if self.runners.contains_key(&subscription.id) {
                self.renew_plan(&subscription)?;
            } else {
                self.add_runner(subscription.id)?;
            }
        }
        Ok(())
    }

    /// Makes the runner of a subscription, at its cursor.
    pub(super) fn add_runner(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let Some(subscription) = self.view.catalog().subscription(id) else {
            return Ok(());
        };
        let Some(topic) = self.view.catalog().topic(subscription.topic) else {
            return Ok(());
        };
        let plan = match Plan::new(topic, subscription) {
            Ok(plan) => Arc::new(plan),
            Err(error) => {
                tracing::error!(%error, "subscription is not delivered to; update its endpoint");
                return Ok(());
            }
        };
        let topic = subscription.topic;
        let cursor = self.view.cursor(id);
        self.runners
            .insert(id, Runner::new(id, topic, plan, cursor));
        if let Some(reader) = self.readers.get_mut(&topic) {
            reader.subscriptions.insert(id);
            if cursor < reader.head {
                reader.behind.insert(id);
                reader.is_moved = true;
            }
        }
        self.plan_wake(id)
    }

    /// Makes and removes readers so that each topic has one, subscribed to or not: a topic whose events nobody reads
    /// must not keep its part of the log.
    pub(super) fn match_readers_to_catalog(&mut self) {
        let catalog = self.view.catalog();
        self.readers
            .retain(|topic, _| catalog.topic(*topic).is_some());
        for topic in catalog.topics() {
            let head = self.view.next_seq(topic.id);
            let is_moved = self.view.read_to(topic.id) < head;
            self.readers
                .entry(topic.id)
                .or_insert_with(|| TopicReader::new(head, is_moved));
        }
    }

    fn remove_runner(&mut self, id: SubscriptionId) {
        let Some(mut runner) = self.runners.remove(&id) else {
            return;
        };
        for (seq, flight) in runner.land_all() {
            flight.abort.abort();
            if let Some(credit) = self.credits.remove(&(id, seq)) {
                let neutral = hedgerow_core::credit::Signal::Neutral;
                self.endpoints.release(&runner.plan.target, credit, neutral);
            }
        }
        runner.end_all_late();
        self.endpoints.leave(&runner.plan.target, id);
        if let Some(reader) = self.readers.get_mut(&runner.topic) {
            reader.subscriptions.remove(&id);
            reader.behind.remove(&id);
        }
    }

    /// Takes over what changed. Attempts to another endpoint than the present one are ended (ED-189).
    fn renew_plan(&mut self, subscription: &Subscription) -> Result<(), StoreError> {
        let id = subscription.id;
        let Some(topic) = self.view.catalog().topic(subscription.topic) else {
            return Ok(());
        };
        let plan = match Plan::new(topic, subscription) {
            Ok(plan) => Arc::new(plan),
            Err(error) => {
                tracing::error!(%error, "subscription keeps its former endpoint");
                return Ok(());
            }
        };
        let Some(runner) = self.runners.get(&id) else {
            return Ok(());
        };
        if !runner.plan.is_same_endpoint(&plan) {
            let former = runner.plan.target.clone();
            self.abort_flights(id, Outcome::Canceled)?;
            self.endpoints.leave(&former, id);
            if let Some(runner) = self.runners.get_mut(&id) {
                runner.is_queued = false;
            }
        }
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.plan = plan;
        }
        self.queue_if_ready(id);
        Ok(())
    }

    /// Tells publishers which topics there are.
    pub(super) fn publish_topics(&self) {
        let table: TopicTable = self
            .view
            .catalog()
            .topics()
            .map(|topic| {
                let name = topic.name.as_str();
                let keys = topic.keys.clone();
                let entry = PublishTopic {
                    id: topic.id,
                    name: name.to_owned(),
                    keys,
                };
                (name.to_ascii_lowercase(), entry)
            })
            .collect();
        self.topics.send_replace(Arc::new(table));
    }

    fn topic_named(&self, name: &str) -> Result<&Topic, CommandError> {
        self.view
            .catalog()
            .topic_named(name)
            .ok_or_else(|| not_found("topic", name))
    }

    fn subscription_named(&self, topic: &str, name: &str) -> Result<Subscription, CommandError> {
        let topic = self.topic_named(topic)?.id;
        let found = self.view.catalog().subscription_named(topic, name).cloned();
        found.ok_or_else(|| not_found("event subscription", name))
    }

    fn subscriptions_of(&self, topic: &str) -> Result<Vec<SubscriptionInfo>, CommandError> {
        let topic = self.topic_named(topic)?.id;
        Ok(self
            .view
            .catalog()
            .subscriptions_of(topic)
            .map(|found| self.info(found))
            .collect())
    }

    fn info(&self, subscription: &Subscription) -> SubscriptionInfo {
        let (counters, open) = self.view.counters(subscription.id);
        let runner = self.runners.get(&subscription.id);
        let topic = self.view.catalog().topic(subscription.topic);
        let head = self.view.next_seq(subscription.topic);
        // A delivery whose start is queued is in flight, and in the view not begun yet.
        let begun = |runner: &Runner| self.credits_of_unbegun(runner);
        let waiting = runner.map_or(0, |runner| runner.waiting_len() + begun(runner)) as u64;
        SubscriptionInfo {
            subscription: subscription.clone(),
            topic_name: topic
                .map(|topic| topic.name.as_str().to_owned())
                .unwrap_or_default(),
            counters,
            pending: open + waiting,
            waiting,
            in_flight: runner.map_or(0, |runner| runner.in_flight() as u64),
            next_due: runner.and_then(Runner::next_due),
            behind: runner.map_or(0, |runner| head.saturating_sub(runner.read_to)),
        }
    }

    fn credits_of_unbegun(&self, runner: &Runner) -> usize {
        runner
            .flight_seqs()
            .filter(|seq| !self.view.is_open(runner.id, *seq))
            .count()
    }

    fn terminal_records(
        &self,
        query: &TerminalQuery,
    ) -> Result<Result<TerminalPage, CommandError>, StoreError> {
        let topic = match &query.topic {
            Some(name) => match self.topic_named(name) {
                Ok(topic) => Some(topic.id),
                Err(error) => return Ok(Err(error)),
            },
            None => None,
        };
        let subscription = match (&query.topic, &query.subscription) {
            (Some(topic), Some(name)) => match self.subscription_named(topic, name) {
                Ok(subscription) => Some(subscription.id),
                Err(error) => return Ok(Err(error)),
            },
            _ => None,
        };
        let filter = TerminalFilter {
            topic,
            subscription,
            after: query.after,
        };
        self.view.terminal_records(&filter, query.limit).map(Ok)
    }
}

fn reply<T>(answer: Answer<T>, value: Result<T, CommandError>) {
    // Who asked may have gone away.
    let _ = answer.send(value);
}

fn done(answer: Answer<()>) -> Answered {
    Box::new(move |_| reply(answer, Ok(())))
}

fn found_or_answered<T, A>(
    found: Result<T, CommandError>,
    answer: Answer<A>,
) -> Option<(T, Answer<A>)> {
    match found {
        Ok(found) => Some((found, answer)),
        Err(error) => {
            reply(answer, Err(error));
            None
        }
    }
}

fn not_found(what: &'static str, name: &str) -> CommandError {
    CommandError::NotFound {
        what,
        name: name.to_owned(),
    }
}

/// A key: base64 of 32 random bytes (ED-014).
fn new_key() -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(chance::bytes::<32>())
}

fn with_new_key(keys: TopicKeys, key: KeyName) -> TopicKeys {
    match key {
        KeyName::Key1 => TopicKeys {
            key1: new_key(),
            ..keys
        },
        KeyName::Key2 => TopicKeys {
            key2: new_key(),
            ..keys
        },
    }
}
