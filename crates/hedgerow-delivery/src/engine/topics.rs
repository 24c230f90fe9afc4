//! What is declared of topics: changes of them and of their keys, and the topic that is there by itself.

use hedgerow_core::name::{DEAD_LETTER_TOPIC, TopicName};
use hedgerow_core::position::TopicId;
use hedgerow_core::spec::{TopicSpec, topic_meant};
use hedgerow_io::chance;
use hedgerow_store::catalog::{Change, Topic, TopicKeys};

use super::Engine;
use super::declarations::{Answered, found_or_answered, reply};
use crate::command::{Answer, Command, CommandError, KeyName};

impl Engine {
    pub(super) fn put_topic(
        &self,
        name: TopicName,
        spec: TopicSpec,
        answer: Answer<(Topic, bool)>,
    ) -> Option<(Change, Answered)> {
        if let Err(error) = refuse_built_in(&name) {
            reply(answer, Err(error));
            return None;
        }
        if let Some(topic) = self.view.catalog().topic_named(name.as_str()) {
            if topic.is_domain() != spec.domain.is_some() {
                let is = if topic.is_domain() { "domain" } else { "topic" };
                let message = format!(
                    "there is a {is} \"{name}\" already, and topics and domains have no names in common; choose another"
                );
                reply(answer, Err(CommandError::Conflict(message)));
                return None;
            }
            if let Err(error) = topic.spec.check_change(&spec) {
                reply(answer, Err(CommandError::Invalid(error)));
                return None;
            }
            if topic.spec == spec {
                reply(answer, Ok((topic.clone(), false)));
                return None;
            }
            let id = topic.id;
            let answered: Answered = Box::new(move |made| {
                let topic = made.and_then(|engine| engine.topic_of(id));
                reply(answer, topic.map(|topic| (topic, false)));
            });
            return Some((Change::TopicUpdated { id, spec }, answered));
        }
        let quotas = self.settings.quotas;
        let (max, kind) = match spec.domain {
            Some(_) => (quotas.domains, "domains"),
            None => (quotas.topics, "topics"),
        };
        let all = self.view.catalog().topics();
        let alike = all.filter(|topic| topic.is_domain() == spec.domain.is_some());
        let count = alike.count();
        if count >= max {
            let message = format!(
                "there are {count} {kind}, no more are possible; delete one, or raise quotas.{kind}"
            );
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
        let answered: Answered = Box::new(move |made| {
            let topic = made.and_then(|engine| engine.topic_of(id));
            reply(answer, topic.map(|topic| (topic, true)));
        });
        Some((change, answered))
    }

    pub(super) fn set_keys(
        &self,
        name: &str,
        key1: Option<String>,
        key2: Option<String>,
        answer: Answer<bool>,
    ) -> Option<(Change, Answered)> {
        let found = self.topic_named(name).cloned();
        let (topic, answer) = found_or_answered(found, answer)?;
        let present = topic.keys;
        let changed = TopicKeys {
            key1: key1.unwrap_or_else(|| present.key1.clone()),
            key2: key2.unwrap_or_else(|| present.key2.clone()),
        };
        if changed == present {
            reply(answer, Ok(false));
            return None;
        }
        let change = Change::TopicKeysChanged {
            id: topic.id,
            keys: changed,
        };
        let answered: Answered = Box::new(move |made| reply(answer, made.map(|_| true)));
        Some((change, answered))
    }

    /// Whether the topic that tells of dead letters is meant, and is not there yet: nobody has subscribed to it before.
    pub(super) fn lacks_built_in(&self, topic: &str) -> bool {
        let is_meant = |name: &str| name.eq_ignore_ascii_case(DEAD_LETTER_TOPIC);
        topic_meant(topic).is_some_and(is_meant)
            && self.view.catalog().topic_named(DEAD_LETTER_TOPIC).is_none()
    }

    pub(super) fn topic_to_delete(&self, name: &str) -> Result<TopicId, CommandError> {
        let topic = self.topic_named(name)?;
        refuse_built_in(&topic.name)?;
        Ok(topic.id)
    }

    pub(super) fn is_on_missing_built_in(&self, command: &Command) -> bool {
        let Command::PutSubscription { declaration, .. } = command else {
            return false;
        };
        self.lacks_built_in(&declaration.topic)
    }

    pub(super) fn built_in_topic(&self) -> Change {
        let name = DEAD_LETTER_TOPIC.parse();
        Change::TopicCreated {
            id: self.view.catalog().next_topic_id(),
            name: name.expect("the name of the built-in topic is one"),
            spec: TopicSpec::of_dead_letters(),
            keys: TopicKeys {
                key1: new_key(),
                key2: new_key(),
            },
            created: self.now(),
        }
    }
}

fn refuse_built_in(name: &TopicName) -> Result<(), CommandError> {
    if !name.is_built_in() {
        return Ok(());
    }
    let message = format!(
        "the topic \"{name}\" is built in: it is there as soon as something subscribes to it, and is neither declared nor \
         deleted"
    );
    Err(CommandError::Conflict(message))
}

/// A key: base64 of 32 random bytes (ED-014).
fn new_key() -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(chance::bytes::<32>())
}

pub(super) fn with_new_key(keys: TopicKeys, key: KeyName) -> TopicKeys {
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
