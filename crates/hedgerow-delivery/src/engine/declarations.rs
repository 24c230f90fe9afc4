//! What users declare: changes become catalog records, one at a time, and are answered when they are durable; questions
//! are answered at once ([`super::lookups`]).

use std::collections::VecDeque;

use hedgerow_core::limits;
use hedgerow_core::position::SubscriptionId;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::{Change, Subscription};
use hedgerow_store::record::{CatalogChange, Record};

use super::Engine;
use super::checks::Beside;
use super::topics::with_new_key;
use super::validations::Conclusion;
use crate::command::{Answer, Command, CommandError, EndedHold, SubscriptionInfo};
use crate::declare::{Declared, SubscriptionDeclaration};

/// Changes on their way.
#[derive(Default)]
pub(super) struct Declarations {
    /// Waits for its record to be durable: what to do then.
    under_way: Option<(u64, Answered)>,
    waiting: VecDeque<Wanted>,
}

/// What a change of the catalog is wanted for.
enum Wanted {
    /// Somebody asked for it.
    Command(Command),
    /// A handshake went on, or ended.
    Conclusion(Conclusion),
    /// A purge of a subscription has dropped everything.
    PurgeEnded(SubscriptionId),
    /// The endpoint of a subscription said that it is gone for good.
    Gone(SubscriptionId),
    /// The time of a subscription has come.
    Expired(SubscriptionId),
    /// The group of a subscription may have other origins than were asked.
    Origins(SubscriptionId),
}

/// Answers who asked for a change, once it holds or cannot be made.
pub(super) type Answered = Box<dyn FnOnce(Result<&Engine, CommandError>) + Send>;

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
            Command::Gauges { from, answer } => reply(answer, Ok(self.gauges(from)?)),
            Command::Standings { events, answer } => {
                reply(answer, Ok(self.standings(&events)?));
            }
            Command::DeadLetters { query, answer } => {
                reply(answer, self.pending_dead_letters(&query)?);
            }
            Command::NoteDeadLetterProblem {
                topic,
                name,
                problem,
                answer,
            } => {
                let found = self.subscription_named(&topic, &name);
                let noted = found.map(|found| self.letter_writes.note_problem(found.id, problem));
                reply(answer, noted);
            }
            Command::CheckSubscription {
                topic,
                new_topic,
                has_new_domain_topic,
                has_new_group,
                name,
                spec,
                answer,
            } => {
                let beside = Beside {
                    topic: new_topic.as_ref(),
                    has_domain_topic: has_new_domain_topic,
                    has_group: has_new_group,
                };
                let judged = self.check_subscription(&topic, beside, &name, &spec);
                reply(answer, judged);
            }
            Command::DomainTopic {
                domain,
                name,
                answer,
            } => reply(answer, self.domain_topic_named(&domain, &name)),
            Command::DomainTopics { query, answer } => reply(answer, self.domain_topics(&query)),
            Command::StartDeliveries { answer } => {
                self.release()?;
                reply(answer, Ok(()));
            }
            Command::Resend { order, answer } => self.resend(order, answer),
            Command::Replay(command) => {
                if let Some(change) = self.ask_about_replays(command) {
                    let change = Wanted::Command(Command::Replay(change));
                    self.declarations.waiting.push_back(change);
                    return self.next_change();
                }
            }
            Command::Origins(command) if Self::is_question(&command) => {
                self.change_for_origins(command);
            }
            Command::AwaitValidation { id, name, answer } => {
                self.await_validation(id, name, answer);
            }
            Command::DryRun { query, answer } => self.dry_run(&query, answer),
            Command::TestEndpoint { query, answer } => self.test_endpoint(query, answer),
            Command::CallBack { callback, answer } => return self.call_back(&callback, answer),
            change => {
                self.declarations.waiting.push_back(Wanted::Command(change));
                return self.next_change();
            }
        }
        Ok(())
    }

    /// Begins the next change if none is under way. One that changes nothing is answered at once.
    fn next_change(&mut self) -> Result<(), StoreError> {
        while self.declarations.under_way.is_none() {
            let change = match self.declarations.waiting.pop_front() {
                Some(Wanted::Command(command)) if self.is_on_missing_built_in(&command) => {
                    // First the topic, then what was asked for.
                    let again = Wanted::Command(command);
                    self.declarations.waiting.push_front(again);
                    Some((self.built_in_topic(), nobody_waits()))
                }
                Some(Wanted::Command(command)) => self.change_for(command),
                Some(Wanted::Conclusion(conclusion)) => self.change_for_conclusion(conclusion),
                Some(Wanted::PurgeEnded(id)) => self.change_for_end_of_purge(id),
                Some(Wanted::Gone(id)) => self.change_for_gone(id),
                Some(Wanted::Expired(id)) => self.change_for_expiration(id),
                Some(Wanted::Origins(id)) => self.change_for_new_origins(id),
                None => break,
            };
            let Some((change, answered)) = change else {
                continue;
            };
            if let Change::SubscriptionReset { id } = &change {
                self.journal_end_of_window(*id)?;
            }
            let record = self.view.catalog_record(&change)?;
            let revision = record.revision;
            match self.store.journal(Record::Catalog(record)) {
                Ok(()) => self.declarations.under_way = Some((revision, answered)),
                Err(StoreError::TooLarge { bytes, bytes_max }) => {
                    let message = format!(
                        "the declaration takes {bytes} bytes, {bytes_max} are possible; declare less, or raise \
                         store.segment_bytes"
                    );
                    answered(Err(CommandError::Limit(message)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lets what a handshake came to hold, once the changes before it do.
    pub(super) fn conclude(&mut self, conclusion: Conclusion) -> Result<(), StoreError> {
        self.declarations
            .waiting
            .push_back(Wanted::Conclusion(conclusion));
        self.next_change()
    }

    /// Lets a purge be over, once the changes before it hold.
    pub(super) fn note_end_of_purge(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        self.declarations.waiting.push_back(Wanted::PurgeEnded(id));
        self.next_change()
    }

    /// Lets a subscription be paused because its endpoint is gone (ED-186), once the changes before it hold.
    pub(super) fn note_gone(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let waits = |wanted: &Wanted| matches!(wanted, Wanted::Gone(other) if *other == id);
        if !self.declarations.waiting.iter().any(waits) {
            self.declarations.waiting.push_back(Wanted::Gone(id));
        }
        self.next_change()
    }

    /// Lets a subscription be deleted whose time has come, once the changes before it hold.
    pub(super) fn note_expiration(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        self.declarations.waiting.push_back(Wanted::Expired(id));
        self.next_change()
    }

    /// Lets a subscription ask the origins of its group that were not asked, once the changes before it hold.
    pub(super) fn note_new_origins(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        self.declarations.waiting.push_back(Wanted::Origins(id));
        self.next_change()
    }

    fn change_for_gone(&self, id: SubscriptionId) -> Option<(Change, Answered)> {
        let found = self.view.catalog().subscription(id)?;
        // Declared otherwise, or paused, since.
        if found.is_paused || !found.spec.disable_on_gone {
            return None;
        }
        let change = Change::SubscriptionPaused {
            id,
            is_paused: true,
            is_gone: true,
            at: self.now(),
        };
        Some((change, nobody_waits()))
    }

    fn change_for_end_of_purge(&self, id: SubscriptionId) -> Option<(Change, Answered)> {
        // A newer one may have taken over, or the subscription may be gone.
        let is_over = self.purges.is_over(id);
        is_over.then(|| (Change::SubscriptionPurgeEnded { id }, nobody_waits()))
    }

    /// The change a command asks for; `None` if it was answered, because it changes nothing or cannot be done.
    fn change_for(&mut self, command: Command) -> Option<(Change, Answered)> {
        match command {
            Command::PutTopic { name, spec, answer } => self.put_topic(name, spec, answer),
            Command::DeleteTopic { name, answer } => {
                let (id, answer) = found_or_answered(self.topic_to_delete(&name), answer)?;
                Some((Change::TopicDeleted { id }, done(answer)))
            }
            Command::PutDomainTopic {
                domain,
                name,
                answer,
            } => self.put_domain_topic(&domain, name, answer),
            Command::DeleteDomainTopic {
                domain,
                name,
                answer,
            } => self.delete_domain_topic(&domain, &name, answer),
            Command::RegenerateKey { name, key, answer } => {
                let found = self.topic_named(&name).cloned();
                let (topic, answer) = found_or_answered(found, answer)?;
                let keys = with_new_key(topic.keys, key);
                let change = Change::TopicKeysChanged {
                    id: topic.id,
                    keys: keys.clone(),
                };
                let answered: Answered = Box::new(move |made| reply(answer, made.map(|_| keys)));
                Some((change, answered))
            }
            Command::SetKeys {
                name,
                key1,
                key2,
                answer,
            } => self.set_keys(&name, key1, key2, answer),
            Command::PutSubscription {
                declaration,
                answer,
            } => self.put_subscription(declaration, answer),
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
            Command::PauseSubscription {
                topic,
                name,
                is_paused,
                answer,
            } => self.pause_subscription(&topic, &name, is_paused, answer),
            Command::ResetSubscription {
                topic,
                name,
                answer,
            } => {
                let found = self.subscription_named(&topic, &name);
                let (subscription, answer) = found_or_answered(found, answer)?;
                Some(self.reset_subscription(subscription.id, answer))
            }
            Command::PurgeSubscription {
                topic,
                name,
                answer,
            } => {
                let found = self.subscription_named(&topic, &name);
                let (subscription, answer) = found_or_answered(found, answer)?;
                Some((self.purge_of(&subscription, answer), nobody_waits()))
            }
            Command::Replay(command) => self.change_for_replay(command),
            Command::Origins(command) => self.change_for_origins(command),
            Command::Topics { .. }
            | Command::Topic { .. }
            | Command::Subscriptions { .. }
            | Command::Subscription { .. }
            | Command::CheckSubscription { .. }
            | Command::DomainTopic { .. }
            | Command::DomainTopics { .. }
            | Command::StartDeliveries { .. }
            | Command::AwaitValidation { .. }
            | Command::DryRun { .. }
            | Command::TestEndpoint { .. }
            | Command::Resend { .. }
            | Command::CallBack { .. }
            | Command::DeadLetters { .. }
            | Command::Standings { .. }
            | Command::Gauges { .. }
            | Command::NoteDeadLetterProblem { .. }
            | Command::TerminalRecords { .. } => None,
        }
    }

    fn put_subscription(
        &self,
        declaration: SubscriptionDeclaration,
        answer: Answer<(SubscriptionInfo, Declared)>,
    ) -> Option<(Change, Answered)> {
        let SubscriptionDeclaration {
            topic: topic_name,
            name,
            spec,
            expected,
        } = declaration;
        let found = self.source_named(&topic_name);
        let ((topic, domain_topic), answer) = found_or_answered(found, answer)?;
        let catalog = self.view.catalog();
        let existing = catalog.subscription_named(topic.id, domain_topic.as_ref(), name.as_str());
        let existing = existing.cloned();
        let is_expected = expected.is_none_or(|expected| {
            let present = existing.as_ref().map(Subscription::declared);
            present == Some(&*expected)
        });
        if !is_expected {
            let changed = CommandError::Changed {
                what: "event subscription",
                name: name.to_string(),
            };
            reply(answer, Err(changed));
            return None;
        }
        let judged = match &existing {
            Some(_) => Ok(()),
            None => self
                .judge_domain_topic(topic, domain_topic.as_ref())
                .and_then(|()| self.judge_room_for_subscription(topic, domain_topic.as_ref())),
        };
        let input = topic.spec.input_schema;
        let judged = judged.and_then(|()| self.judge(input, existing.as_ref(), &spec));
        if let Err(error) = judged {
            reply(answer, Err(error));
            return None;
        }
        let next_id = self.view.catalog().next_subscription_id();
        let id = existing.as_ref().map_or(next_id, |existing| existing.id);
        let validation = self.handshake_for(id, existing.as_ref(), &spec);
        let declared = Declared::of(existing.as_ref(), &spec);
        let change = match existing {
            Some(existing) if declared == Declared::Unchanged => {
                let info = self.info(&existing);
                reply(answer, Ok((info, declared)));
                return None;
            }
            Some(_) => Change::SubscriptionUpdated {
                id,
                spec,
                validation,
            },
            None => {
                let created = self.now();
                let topic = topic.id;
                Change::SubscriptionCreated {
                    id,
                    topic,
                    domain_topic,
                    name,
                    spec,
                    created,
                    validation,
                }
            }
        };
        let answered: Answered = Box::new(move |made| {
            let info = made.and_then(|engine| engine.info_of(id));
            reply(answer, info.map(|info| (info, declared)));
        });
        Some((change, answered))
    }

    fn reset_subscription(
        &self,
        id: SubscriptionId,
        answer: Answer<(SubscriptionInfo, Vec<EndedHold>)>,
    ) -> (Change, Answered) {
        let ended = self.holds_of(id);
        let answered: Answered = Box::new(move |made| {
            let info = made.and_then(|engine| engine.info_of(id));
            reply(answer, info.map(|info| (info, ended)));
        });
        (Change::SubscriptionReset { id }, answered)
    }

    fn pause_subscription(
        &self,
        topic: &str,
        name: &str,
        is_paused: bool,
        answer: Answer<SubscriptionInfo>,
    ) -> Option<(Change, Answered)> {
        let found = self.subscription_named(topic, name);
        let (subscription, answer) = found_or_answered(found, answer)?;
        if subscription.is_paused == is_paused {
            reply(answer, Ok(self.info(&subscription)));
            return None;
        }
        let id = subscription.id;
        let at = self.now();
        let change = Change::SubscriptionPaused {
            id,
            is_paused,
            is_gone: false,
            at,
        };
        Some((change, told(id, answer)))
    }

    /// A change became durable: it holds from here on.
    pub(super) fn observe_declared(&mut self, record: &CatalogChange) -> Result<(), StoreError> {
        let change = self.view.change_in(record)?;
        self.follow_change(&change)?;
        self.send_notices();
        if let Some((revision, answered)) = self.declarations.under_way.take() {
            assert!(
                revision == record.revision,
                "one change is under way at a time"
            );
            answered(Ok(self));
        }
        self.next_change()
    }

    /// Whether another command may be taken: changes wait for each other, and not without bound.
    pub(super) fn takes_commands(&self) -> bool {
        self.declarations.waiting.len() < limits::CHANGES_WAITING_MAX
    }
}

pub(super) fn reply<T>(answer: Answer<T>, value: Result<T, CommandError>) {
    // Who asked may have gone away.
    let _ = answer.send(value);
}

pub(super) fn done(answer: Answer<()>) -> Answered {
    Box::new(move |made| reply(answer, made.map(|_| ())))
}

/// Nobody waits for this change itself.
pub(super) fn nobody_waits() -> Answered {
    Box::new(|_| ())
}

/// Answers with the subscription as it is then.
fn told(id: SubscriptionId, answer: Answer<SubscriptionInfo>) -> Answered {
    Box::new(move |made| {
        let info = made.and_then(|engine| engine.info_of(id));
        reply(answer, info);
    })
}

pub(super) fn found_or_answered<T, A>(
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
