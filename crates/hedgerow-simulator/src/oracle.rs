//! Knows every event that was accepted and everything that receivers saw, and says at once what is wrong.
//!
//! | what happens | is held against |
//! | --- | --- |
//! | a record is queued | the rules of the specification and what receivers did (`oracle/records.rs`) |
//! | a request arrives | what was begun (`oracle/wire.rs`) |
//! | records are durable | the model of the log |
//! | a subscription goes | what operators asked for, and what its endpoint is told (`oracle/departures.rs`) |
//! | an endpoint is asked whether it wants deliveries | what it gets and what it said (`oracle/handshakes.rs`) |
//! | dead letters are delivered again | what was kept, and what an operator was told (`oracle/replays.rs`) |
//! | the store is opened again | what was durable: all of it is there, and the view says the same (`oracle/store.rs`) |
//! | it is quiet at last | every accepted event has its one end for everybody who wants it (`oracle/ending.rs`) |

mod batches;
mod departures;
mod ending;
mod exchanges;
mod handshakes;
mod limits;
mod order;
mod records;
mod replays;
mod store;
mod tally;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_core::position::{Mark, Position, SubscriptionId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::Change;
use hedgerow_store::record::{CatalogChange, Record};
use hedgerow_store::secrets::Secrets;
use hedgerow_store::{Appended, Group};

use self::departures::Departures;
pub use self::exchanges::{Exchange, Place};
use self::handshakes::Handshakes;
use self::replays::Replays;
pub use self::tally::Tally;
pub use self::wire::{Arrival, Reply};
use crate::model::{Known, Model};

/// What is known.
#[derive(Default)]
pub struct Oracle {
    /// What is durable.
    pub durable: Model,
    /// What is durable or queued: what the engine acts on.
    live: Model,
    secrets: Option<Arc<Secrets>>,
    /// What stood in each durable group.
    groups: BTreeMap<u64, u64>,
    /// The number of the newest one, and where it ends.
    last_group: u64,
    last_mark: Mark,
    /// What publishers were told.
    accepted: BTreeMap<String, Appended>,
    /// Where the events of each id stand: the one that was published, and those that are it again.
    places: BTreeMap<String, Vec<Position>>,
    /// Those that have, or had, each name.
    subscriptions: BTreeMap<String, Vec<SubscriptionId>>,
    /// Every request that was begun, in the order of their beginnings.
    exchanges: Vec<Exchange>,
    /// Those that each delivery was in.
    exchanges_of: BTreeMap<(SubscriptionId, u64), Vec<usize>>,
    /// How often the dead-letter store kept an event, by subscription and event.
    letters: BTreeMap<(String, String), u64>,
    replays: Replays,
    departures: Departures,
    handshakes: Handshakes,
    has_jitter: bool,
    /// What is wrong, if something is.
    violation: Option<String>,
    pub tally: Tally,
}

impl Oracle {
    /// Nothing happened yet.
    pub fn new(has_jitter: bool, asks_endpoints: bool) -> Self {
        Self {
            has_jitter,
            handshakes: Handshakes::new(asks_endpoints),
            ..Self::default()
        }
    }

    /// The first thing that is wrong, if something is.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Says what is wrong. Only the first counts: others may follow from it.
    pub fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// A publisher was told that its events are kept.
    pub fn accepted(&mut self, ids: &[String], appended: Appended) {
        for (id, index) in ids.iter().zip(0..) {
            let first = Position {
                seq: appended.first.seq + index,
                ..appended.first
            };
            self.accepted
                .insert(id.clone(), Appended { first, ..appended });
            self.tally.published += 1;
        }
    }

    /// A group became durable.
    pub fn committed(&mut self, group: &Group) {
        if group.number != self.last_group + 1 {
            self.fail(format!(
                "group {} follows {}",
                group.number, self.last_group
            ));
        }
        self.adopt(group);
    }

    /// A group is durable, and follows on those before.
    fn adopt(&mut self, group: &Group) {
        self.groups.insert(group.number, hash_of(group));
        self.last_group = group.number;
        self.last_mark = group.end;
        for record in &group.records {
            match record {
                Record::Catalog(change) => self.declared(change),
                Record::Events(events) => {
                    self.durable.fold(record);
                    self.live.fold(record);
                    let known = self.durable.topics.get(&events.topic);
                    let known = known.map_or(&[][..], |topic| &topic.events);
                    let ids = known[events.first_seq as usize - 1..].iter();
                    for (event, seq) in ids.zip(events.first_seq..) {
                        let topic = events.topic;
                        let places = self.places.entry(event.id.clone()).or_default();
                        places.push(Position { topic, seq });
                    }
                    self.judge_replayed(events);
                }
                _ => self.durable.fold(record),
            }
        }
    }

    fn declared(&mut self, change: &CatalogChange) {
        let secrets = self.secrets.as_ref().expect("known when a store is open");
        match Change::from_sealed_json(&change.json, secrets) {
            Ok(change) => {
                self.durable.fold_change(&change);
                self.live.fold_change(&change);
                self.handshakes.follow(&change, &self.subscriptions);
                if let Change::SubscriptionCreated { id, name, .. } = &change {
                    let ids = self.subscriptions.entry(name.as_str().to_owned());
                    ids.or_default().push(*id);
                }
            }
            Err(error) => self.fail(format!("a change of the catalog cannot be read: {error}")),
        }
    }

    fn event(&self, id: SubscriptionId, seq: u64) -> Option<&Known> {
        let topic = self.durable.known(id)?.topic;
        let events = &self.durable.topics.get(&topic)?.events;
        events.get(seq as usize - 1)
    }

    fn event_id(&self, id: SubscriptionId, seq: u64) -> &str {
        self.event(id, seq).map_or("?", |event| &event.id)
    }

    fn name(&self, id: SubscriptionId, seq: u64) -> String {
        let subscription = self.durable.known(id);
        let name = subscription.map_or("?", |subscription| &subscription.name);
        format!("{} of {name} (number {seq})", self.event_id(id, seq))
    }
}

/// Stands for what a group says.
fn hash_of(group: &Group) -> u64 {
    let text = format!("{:?}", group.records);
    crate::dice::number_of(&text)
}

/// A time, for people: milliseconds of this day.
fn at(time: Timestamp) -> u64 {
    time.as_millis().saturating_sub(crate::START_MS)
}
