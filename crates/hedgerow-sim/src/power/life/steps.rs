//! The steps of a round: what publishers, the engine and admins do.

use hedgerow_core::event::{Data, Event};
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{EndpointUrl, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::{Change, TopicKeys};
use hedgerow_store::record::{
    Dead, DeadThen, DropReason, Failed, FailedDelivery, IN_FLIGHT, PackedEvents, Progress, Read,
    Record, Settled, SettledHow, Started, StartedDelivery,
};
use hedgerow_store::{Store, StoreError};

use super::{IN_FLIGHT_MAX, Life, SUBSCRIPTIONS_MAX, Stop, UNSETTLED_SUCCESSES_MAX, store_failed};
use crate::power::table::PowerGoes;

impl Life {
    pub(super) fn publish(&mut self) -> Result<(), Stop> {
        let topics: Vec<_> = self
            .live
            .topics
            .iter()
            .filter(|(_, topic)| topic.exists)
            .map(|(id, _)| *id)
            .collect();
        if topics.is_empty() {
            return self.declare();
        }
        let topic = topics[self.random.below(topics.len() as u64) as usize];
        let events: Vec<_> = (0..=self.random.below(3))
            .map(|_| {
                self.names += 1;
                event(self.names, self.random.below(6000) as usize)
            })
            .collect();
        match self.log().append(topic, PackedEvents::pack(&events)) {
            Ok(appending) => self.appends.push((topic, appending)),
            // Everything is still owed; deliveries go on.
            Err(StoreError::Full(_) | StoreError::Busy { .. }) => self.tally.refused += 1,
            Err(error) => return store_failed(&error),
        }
        Ok(())
    }

    pub(super) fn start(&mut self) -> Result<(), Stop> {
        let Some(id) = self.any_subscription() else {
            return Ok(());
        };
        let subscription = &self.live.subscriptions[&id];
        let in_flight = subscription
            .rows
            .values()
            .filter(|(due, _)| *due == IN_FLIGHT)
            .count();
        let unsettled = self.unsettled.get(&id).copied().unwrap_or(0);
        if in_flight >= IN_FLIGHT_MAX || unsettled >= UNSETTLED_SUCCESSES_MAX {
            return Ok(());
        }
        let now = (self.clock)();
        // A retry may start only when its failure is durable (ED-207).
        let durable = &self.model.subscriptions[&id].rows;
        let retry = subscription
            .rows
            .iter()
            .find(|(seq, row)| row.0 != IN_FLIGHT && durable.get(seq) == Some(row))
            .map(|(seq, row)| (*seq, *row));
        let next = self.live.cursor(id);
        let has_new = next < self.model.topics[&subscription.topic].next_seq;
        let (seq, replaces_due, progress) = match retry {
            Some((seq, (due, progress))) if !has_new || self.random.one_in(2) => {
                let attempts = progress.attempts + 1;
                (
                    seq,
                    Some(due),
                    Progress {
                        attempts,
                        last_attempt: now,
                        ..progress
                    },
                )
            }
            _ if has_new => (next, None, first_attempt(now)),
            _ => return Ok(()),
        };
        let deliveries = vec![StartedDelivery {
            seq,
            replaces_due,
            progress,
        }];
        self.journal(Record::Started(Started {
            subscription: id,
            deliveries,
        }))
    }

    pub(super) fn end_attempt(&mut self) -> Result<(), Stop> {
        let Some(id) = self.any_subscription() else {
            return Ok(());
        };
        let in_flight: Vec<_> = self.live.subscriptions[&id]
            .rows
            .iter()
            .filter(|(_, (due, _))| *due == IN_FLIGHT)
            .map(|(seq, (_, progress))| (*seq, *progress))
            .collect();
        if in_flight.is_empty() {
            return Ok(());
        }
        let (seq, progress) = in_flight[self.random.below(in_flight.len() as u64) as usize];
        match self.random.below(10) {
            0..6 => self.deliver(id, seq),
            6..9 => self.fail(id, seq, progress, Outcome::GenericError),
            _ => self.die(id, seq, Some(IN_FLIGHT), Some(progress)),
        }
    }

    pub(super) fn deliver(&mut self, id: SubscriptionId, seq: u64) -> Result<(), Stop> {
        let times = self.accepted.entry((id, seq)).or_default();
        *times += 1;
        if *times > 1 {
            self.tally.duplicates += 1;
        } else {
            self.tally.delivered += 1;
        }
        *self.unsettled.entry(id).or_default() += 1;
        let deliveries = vec![(seq, IN_FLIGHT)];
        let how = SettledHow::Delivered;
        self.journal(Record::Settled(Settled {
            subscription: id,
            deliveries,
            how,
        }))
    }

    pub(super) fn fail(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        progress: Progress,
        outcome: Outcome,
    ) -> Result<(), Stop> {
        let due = (self.clock)().plus(std::time::Duration::from_millis(self.random.below(5000)));
        let progress = Progress {
            last_outcome: outcome,
            ..progress
        };
        let deliveries = vec![FailedDelivery { seq, due, progress }];
        self.journal(Record::Failed(Failed {
            subscription: id,
            deliveries,
        }))
    }

    pub(super) fn die(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        due: Option<Timestamp>,
        progress: Option<Progress>,
    ) -> Result<(), Stop> {
        self.tally.dead += 1;
        let now = (self.clock)();
        self.journal(Record::Dead(Dead {
            subscription: id,
            seq,
            due,
            reason: DeadLetterReason::TimeToLiveExceeded,
            decided: now,
            published: now,
            progress,
            event_id: seq.to_string(),
            event_type: "t".to_owned(),
            subject: String::new(),
            then: DeadThen::Dropped(DropReason::NoDeadLetterDestination),
        }))
    }

    /// The reader's place goes on; some events expire unattempted.
    pub(super) fn read_on(&mut self) -> Result<(), Stop> {
        let Some(id) = self.any_subscription() else {
            return Ok(());
        };
        let topic = self.live.subscriptions[&id].topic;
        let head = self.model.topics[&topic].next_seq;
        let next = self.live.cursor(id);
        if next < head && self.random.one_in(3) {
            self.die(id, next, None, None)?;
        }
        let subscriptions = self.live.subscriptions.iter();
        let laggards = subscriptions
            .filter(|(_, subscription)| subscription.topic == topic)
            .map(|(id, _)| (*id, self.live.cursor(*id)))
            .filter(|(_, cursor)| *cursor < head)
            .collect();
        self.journal(Record::Read(Read {
            topic,
            read_to: head,
            laggards,
        }))
    }

    pub(super) fn checkpoint(&mut self) -> Result<(), Stop> {
        self.commit()?;
        if self.random.one_in(6) {
            let goes = [
                PowerGoes::BeforeApply,
                PowerGoes::BeforePersist,
                PowerGoes::AfterPersist,
            ];
            self.table.lose_power(goes[self.random.below(3) as usize]);
            self.tally.checkpoints_interrupted += 1;
        }
        let disk = match self.mutation {
            Some(mutation) if mutation.is_of_checkpoints() => self.mount().0,
            // The mutants of the log are about the log.
            _ => self.disk.mount(),
        };
        let checkpoint = self
            .view()
            .begin_checkpoint()
            .map_err(|error| error.to_string())?;
        if let Err(error) = checkpoint.write(disk.as_ref()) {
            return store_failed(&error);
        }
        self.view().finish_checkpoint();
        self.tally.checkpoints += 1;
        let log = self.log.as_ref().expect("the log is open between crashes");
        let view = self
            .view
            .as_ref()
            .expect("the view is open between crashes");
        if let Err(error) = log.checkpoint(checkpoint.mark(), view) {
            return store_failed(&error);
        }
        Ok(())
    }

    pub(super) fn change(&mut self, change: &Change) -> Result<(), Stop> {
        let record = self.view().catalog_record(change);
        let record = record.map_err(|error| error.to_string())?;
        self.journal(Record::Catalog(record))?;
        self.commit()
    }

    pub(super) fn declare(&mut self) -> Result<(), Stop> {
        self.commit()?;
        let created = (self.clock)();
        let topics: Vec<_> = self
            .live
            .topics
            .iter()
            .filter(|(_, topic)| topic.exists)
            .map(|(id, _)| *id)
            .collect();
        self.names += 1;
        if topics.len() < 2 {
            let id = self.view().catalog().next_topic_id();
            let name = format!("topic-{}", self.names)
                .parse()
                .expect("a valid name");
            let keys = TopicKeys {
                key1: "one".to_owned(),
                key2: "two".to_owned(),
            };
            let spec = TopicSpec::default();
            self.change(&Change::TopicCreated {
                id,
                name,
                spec,
                keys,
                created,
            })?;
        }
        if self.live.subscriptions.len() < SUBSCRIPTIONS_MAX && !topics.is_empty() {
            let id = self.view().catalog().next_subscription_id();
            let topic = topics[self.random.below(topics.len() as u64) as usize];
            let name = format!("sub-{}", self.names).parse().expect("a valid name");
            let url = EndpointUrl::parse("https://receiver.example/").expect("a valid URL");
            let spec = Box::new(SubscriptionSpec::webhook(url));
            self.change(&Change::SubscriptionCreated {
                id,
                topic,
                domain_topic: None,
                name,
                spec,
                created,
                validation: None,
            })?;
        }
        Ok(())
    }

    pub(super) fn delete(&mut self) -> Result<(), Stop> {
        if !self.random.one_in(4) {
            return Ok(());
        }
        self.commit()?;
        let Some(id) = self.any_subscription() else {
            return Ok(());
        };
        if self.random.one_in(3) {
            let topic = self.live.subscriptions[&id].topic;
            return self.change(&Change::TopicDeleted { id: topic });
        }
        self.change(&Change::SubscriptionDeleted { id })
    }
}

pub(super) fn first_attempt(now: Timestamp) -> Progress {
    Progress {
        published: now,
        attempts: 1,
        first_attempt: now,
        last_attempt: now,
        last_outcome: Outcome::Delivering,
        last_status: 0,
        crashes: 0,
        crash_epoch: 0,
    }
}

fn event(name: u64, data_bytes: usize) -> Event<'static> {
    Event {
        id: name.to_string().into(),
        source: None,
        event_type: "test".into(),
        subject: Some("s".into()),
        time: None,
        data_version: None,
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Binary(vec![name as u8; data_bytes].into()),
    }
}
