//! The obvious model of the view: what the durable records say, in plain maps. Every record is one small change; nothing
//! is cached, layered or coalesced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hedgerow_core::position::{Mark, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::Group;
use hedgerow_store::catalog::Change;
use hedgerow_store::record::{IN_FLIGHT, Progress, Record, unpack_event};
use hedgerow_store::secrets::Secrets;

/// Everything the log says, up to a group.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The number of the last group.
    pub group: u64,
    /// Where it ends.
    pub mark: Mark,
    pub topics: BTreeMap<TopicId, Topic>,
    pub subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// Deliveries that ended undelivered, in order.
    pub terminal: Vec<(SubscriptionId, u64)>,
    pub is_clean: bool,
    /// What the secrets of the newest opening are sealed with.
    pub secrets: Option<Arc<Secrets>>,
}

/// A topic. One that was deleted stays, so that its numbers go on.
#[derive(Debug, Clone)]
pub struct Topic {
    pub next_seq: u64,
    pub read_to: u64,
    pub exists: bool,
    /// Ids of its events, from 1.
    pub events: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Subscription {
    pub topic: TopicId,
    /// The first event it is owed.
    pub from_seq: u64,
    /// `None` while it stands at the reader.
    pub cursor: Option<u64>,
    pub rows: BTreeMap<u64, (Timestamp, Progress)>,
    pub matched: u64,
    pub delivered: BTreeSet<u64>,
    pub dropped: BTreeSet<u64>,
}

impl Model {
    /// The next group, in log order.
    pub fn follow(&mut self, group: &Group) {
        group.records.iter().for_each(|record| self.fold(record));
        self.group = group.number;
        self.mark = group.end;
    }

    /// The next record, in log order.
    pub fn fold(&mut self, record: &Record) {
        match record {
            Record::Events(events) => {
                let Some(topic) = self.topics.get_mut(&events.topic) else {
                    return;
                };
                assert!(
                    topic.next_seq == events.first_seq,
                    "numbers of a topic have no gap"
                );
                topic.next_seq += u64::from(events.packed.count());
                for stored in events.packed.slices() {
                    let stored = stored.expect("the log gives whole events");
                    let event = unpack_event(&stored).expect("the log gives whole events");
                    topic.events.push(event.id.into_owned());
                }
            }
            Record::Started(started) => {
                let Some(subscription) = self.subscriptions.get_mut(&started.subscription) else {
                    return;
                };
                for delivery in &started.deliveries {
                    if delivery.replaces_due.is_none() {
                        subscription.pass(delivery.seq);
                        subscription.matched += 1;
                    }
                    subscription
                        .rows
                        .insert(delivery.seq, (IN_FLIGHT, delivery.progress));
                }
            }
            Record::Failed(failed) => {
                if let Some(subscription) = self.subscriptions.get_mut(&failed.subscription) {
                    for delivery in &failed.deliveries {
                        subscription
                            .rows
                            .insert(delivery.seq, (delivery.due, delivery.progress));
                    }
                }
            }
            Record::Settled(settled) => {
                if let Some(subscription) = self.subscriptions.get_mut(&settled.subscription) {
                    for (seq, _) in &settled.deliveries {
                        subscription.rows.remove(seq);
                        subscription.delivered.insert(*seq);
                    }
                }
            }
            Record::Dead(dead) => {
                let Some(subscription) = self.subscriptions.get_mut(&dead.subscription) else {
                    return;
                };
                if dead.due.is_none() {
                    subscription.pass(dead.seq);
                    subscription.matched += 1;
                }
                subscription.rows.remove(&dead.seq);
                subscription.dropped.insert(dead.seq);
                self.terminal.push((dead.subscription, dead.seq));
            }
            Record::Read(read) => self.fold_read(read),
            Record::Catalog(change) => {
                let secrets = self.secrets.as_ref().expect("set when the store is opened");
                let change = Change::from_sealed_json(&change.json, secrets)
                    .expect("the log gives whole JSON that the view unsealed too");
                self.fold_change(&change);
            }
            Record::CleanStop(_) => self.is_clean = true,
            Record::Hold(_)
            | Record::Moved(_)
            | Record::Lease(_)
            | Record::Seek(_)
            | Record::Snapshot(_)
            | Record::Purged(_)
            | Record::Resent(_)
            | Record::Begun(_)
            | Record::Divided(_) => {}
        }
    }

    fn fold_read(&mut self, read: &hedgerow_store::record::Read) {
        if let Some(topic) = self.topics.get_mut(&read.topic) {
            topic.read_to = read.read_to;
        }
        for (id, subscription) in &mut self.subscriptions {
            let is_ahead = subscription
                .cursor
                .is_some_and(|cursor| cursor > read.read_to);
            if subscription.topic == read.topic && !is_ahead {
                let laggard = read.laggards.iter().find(|(laggard, _)| laggard == id);
                subscription.cursor = laggard.map(|(_, cursor)| *cursor);
            }
        }
    }

    fn fold_change(&mut self, change: &Change) {
        match change {
            Change::TopicCreated { id, .. } => {
                let topic = Topic {
                    next_seq: 1,
                    read_to: 1,
                    exists: true,
                    events: Vec::new(),
                };
                self.topics.insert(*id, topic);
            }
            Change::TopicDeleted { id } => {
                if let Some(topic) = self.topics.get_mut(id) {
                    topic.exists = false;
                }
                self.subscriptions
                    .retain(|_, subscription| subscription.topic != *id);
            }
            Change::SubscriptionCreated { id, topic, .. } => {
                let from_seq = self.topics[topic].next_seq;
                let subscription = Subscription {
                    topic: *topic,
                    from_seq,
                    cursor: Some(from_seq),
                    rows: BTreeMap::new(),
                    matched: 0,
                    delivered: BTreeSet::new(),
                    dropped: BTreeSet::new(),
                };
                self.subscriptions.insert(*id, subscription);
            }
            Change::SubscriptionDeleted { id } => drop(self.subscriptions.remove(id)),
            // Nobody here waits for an endpoint.
            Change::SubscriptionUpdated { .. }
            | Change::SubscriptionValidated { .. }
            | Change::OriginValidated { .. }
            | Change::OriginsFollowed { .. }
            | Change::TopicUpdated { .. }
            | Change::SubscriptionPaused { .. }
            | Change::DomainTopicCreated { .. }
            | Change::DomainTopicDeleted { .. }
            | Change::SubscriptionReset { .. }
            | Change::SubscriptionPurged { .. }
            | Change::SubscriptionPurgeEnded { .. }
            | Change::TopicKeysChanged { .. }
            | Change::ReplayCreated { .. }
            | Change::ReplayMoved { .. }
            | Change::ReplaySet { .. }
            | Change::OriginGroupDeclared { .. }
            | Change::OriginGroupDeleted { .. }
            | Change::RouteDeclared { .. }
            | Change::RouteDeleted { .. } => {}
        }
    }

    /// The first event the subscription may still have to attempt.
    pub fn cursor(&self, id: SubscriptionId) -> u64 {
        let subscription = &self.subscriptions[&id];
        subscription
            .cursor
            .unwrap_or(self.topics[&subscription.topic].read_to)
    }
}

impl Subscription {
    fn pass(&mut self, seq: u64) {
        self.cursor = Some(self.cursor.unwrap_or(0).max(seq + 1));
    }
}
