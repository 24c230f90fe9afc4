//! Subscriptions that go: because an operator asked for it, or at their time (ED-173). Nothing of them is sent after that, and the
//! endpoints of those with the Event Grid schema are told once (ED-171, ED-172).

use std::collections::{BTreeMap, BTreeSet};

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::DeliverySchema;
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::Change;
use hedgerow_store::record::{CatalogChange, Record, Started};
use tokio::time::Instant;

use super::{Oracle, at};

/// What is known of subscriptions that go.
#[derive(Default)]
pub(super) struct Departures {
    /// The names of those that operators asked to delete.
    asked: BTreeSet<String>,
    /// When somebody was told that they are gone.
    told: BTreeMap<SubscriptionId, Instant>,
    /// Notices that endpoints got, by name.
    notices: BTreeMap<String, usize>,
}

impl Oracle {
    /// Whether there is a subscription of this name.
    pub fn is_declared(&self, name: &str) -> bool {
        let mut all = self.durable.subscriptions.values();
        all.any(|subscription| subscription.name == name)
    }

    /// An operator asks for the deletion of a subscription.
    pub fn asked_to_delete(&mut self, name: &str) {
        self.departures.asked.insert(name.to_owned());
    }

    /// And is told that it is gone.
    pub fn told_of_deletion(&mut self, name: &str) {
        if self.is_declared(name) {
            return self.fail(format!("{name} is said to be gone, and is there"));
        }
        let ids = self.subscriptions.get(name).into_iter().flatten();
        for id in ids {
            let told = self.departures.told.entry(*id);
            told.or_insert_with(Instant::now);
        }
    }

    /// A change of the catalog is queued: whoever goes was asked to, or its time has come.
    pub(super) fn judge_departure(&mut self, now: Timestamp, change: &CatalogChange) {
        let secrets = self.secrets.as_ref().expect("known when a store is open");
        let Ok(Change::SubscriptionDeleted { id }) =
            Change::from_sealed_json(&change.json, secrets)
        else {
            return;
        };
        let Some(subscription) = self.durable.subscriptions.get(&id) else {
            return;
        };
        self.tally.departures += 1;
        let is_asked = self.departures.asked.contains(&subscription.name);
        let is_over = subscription.spec.expiration.is_some_and(|end| end <= now);
        if !is_asked && !is_over {
            let name = &subscription.name;
            self.fail(format!("ED-173: {name} goes, and nobody asked for that"));
        }
    }

    /// Why a request may not start any more.
    pub(super) fn wrong_life(&self, started: &Started) -> Option<String> {
        let subscription = self.live.subscriptions.get(&started.subscription)?;
        let end = subscription.spec.expiration?;
        let begun = started.deliveries.first()?.progress.last_attempt;
        (begun >= end).then(|| {
            let (begun, end) = (at(begun), at(end));
            format!("ED-173: it starts at {begun}, and its subscription ends at {end}")
        })
    }

    /// Whether a record is about a subscription that is gone: what was queued before the engine saw that.
    pub(super) fn is_of_gone(&self, record: &Record) -> bool {
        let id = match record {
            Record::Started(started) => started.subscription,
            Record::Failed(failed) => failed.subscription,
            Record::Settled(settled) => settled.subscription,
            Record::Dead(dead) => dead.subscription,
            Record::Divided(divided) => divided.subscription,
            Record::Moved(moved) => moved.subscription,
            Record::Hold(hold) => hold.subscription,
            _ => return false,
        };
        self.live.gone.contains_key(&id)
    }

    pub(super) fn journaled_of_gone(&mut self, record: &Record) {
        let Record::Started(started) = record else {
            return;
        };
        let id = started.subscription;
        if self.departures.told.contains_key(&id) {
            let first = started.deliveries.first().map_or(0, |one| one.seq);
            let name = self.name(id, first);
            self.fail(format!(
                "ED-172: {name} starts, and its subscription is gone"
            ));
        }
        self.begin_exchange(id, &started.deliveries);
    }

    /// A request of a subscription arrived, which may be gone.
    pub(super) fn judge_arrival_of_gone(&mut self, id: SubscriptionId) {
        let told = self.departures.told.get(&id);
        if told.is_some_and(|told| Instant::now() > *told) {
            let name = self.durable.known(id).map_or("?", |known| &known.name);
            let message = format!("ED-172: {name} gets something, and is gone");
            self.fail(message);
        }
    }

    /// An endpoint is told that a subscription is gone.
    pub fn noticed(&mut self, name: &str, host: &str) {
        let notices = self.departures.notices.entry(name.to_owned()).or_default();
        *notices += 1;
        let notices = *notices;
        let gone = self.durable.gone.values();
        let gone = gone.filter(|gone| {
            let schema = gone.spec.event_delivery_schema;
            gone.name == name && schema == DeliverySchema::EventGridSchema
        });
        let here = gone.clone();
        let mut here = here.filter(|gone| gone.spec.destination.endpoint().contains(host));
        let is_its = here.next().is_some();
        let gone = gone.count();
        self.tally.notices += 1;
        if notices > gone || !is_its {
            self.fail(format!(
                "ED-171: {host} is told for the time {notices} that {name} is gone, which was so {gone} times"
            ));
        }
    }

    /// How often its endpoint was told that a subscription of this name is gone.
    pub fn notices_of(&self, name: &str) -> usize {
        self.departures
            .notices
            .get(name)
            .copied()
            .unwrap_or_default()
    }

    /// A subscription whose endpoint is told when it goes.
    pub fn tells_of_its_end(&self) -> Option<String> {
        let mut all = self.durable.subscriptions.values();
        let found = all.find(|one| {
            one.spec.event_delivery_schema == DeliverySchema::EventGridSchema && one.is_active
        });
        found.map(|found| found.name.clone())
    }

    /// Those whose time has come, and which are still there.
    pub(super) fn overdue(&self, now: Timestamp) -> impl Iterator<Item = String> {
        let all = self.durable.subscriptions.values();
        let over = all.filter(move |one| one.spec.expiration.is_some_and(|end| end <= now));
        over.map(|one| format!("ED-173: {} is there after its time", one.name))
    }
}
