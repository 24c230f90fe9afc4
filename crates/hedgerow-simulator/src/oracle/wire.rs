//! What receivers see, held against what was begun.

use std::time::Duration;

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::DeliverySchema;
use hedgerow_core::time::Timestamp;

use super::{Oracle, Place, at};
use crate::model::State;

/// What is a little late is not looked at: a tick of a timer, and how far server time may run away from it.
const MARGIN: Duration = Duration::from_secs(20);

/// A request as its receiver saw it.
#[derive(Debug)]
pub struct Arrival<'r> {
    /// Whose it is, by name.
    pub subscription: &'r str,
    /// Where it arrived.
    pub host: &'r str,
    pub ids: &'r [String],
    /// What it says of the attempts before.
    pub count: Option<u16>,
    /// The dead letter that its events are delivered again of, if it says so.
    pub letter: Option<&'r str>,
    /// Whether its body is an array.
    pub is_array: bool,
    /// Bytes of its body.
    pub bytes: usize,
    /// The header that says its events' subject, if it has it.
    pub subject: Option<&'r str>,
    /// Whether it is signed rightly; `None` if it is not signed.
    pub is_signed: Option<bool>,
}

/// What a receiver answers.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'r> {
    pub status: u16,
    /// Its `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// The places of events that failed, where that may be said.
    pub failed: &'r [usize],
}

impl Oracle {
    /// A request arrived.
    pub fn arrived(&mut self, now: Timestamp, arrival: &Arrival<'_>) -> Option<Place> {
        self.tally.requests += 1;
        let name = arrival.subscription;
        let Some(subscriptions) = self.subscriptions.get(name).cloned() else {
            self.fail(format!("a request for {name}, which there is not"));
            return None;
        };
        let Some(count) = arrival.count else {
            self.fail(format!("a request for {name} without a count of attempts"));
            return None;
        };
        let mut of_name = subscriptions.iter().rev().copied();
        let topics = of_name.clone();
        let topics: Vec<_> = topics
            .filter_map(|id| Some(self.durable.known(id)?.topic))
            .collect();
        for id in arrival.ids {
            match self.places.get(id) {
                Some(places) if places.iter().any(|place| topics.contains(&place.topic)) => {}
                Some(_) => self.fail(format!(
                    "{id} is delivered to a subscription of another topic"
                )),
                None => self.fail(format!("{id} is delivered and not durable")),
            }
        }
        let found = of_name.find_map(|id| Some((id, self.expected(id, arrival)?)));
        let Some((subscription, place)) = found else {
            let ids = arrival.ids;
            self.fail(format!(
                "ED-207: a request for {name} with {ids:?} after {count} attempts was not begun, or came twice, at {}",
                at(now)
            ));
            return None;
        };
        self.exchange(place).arrived = Some(now);
        self.judge_arrival_of_gone(subscription);
        let wrong = self.wrong_form(subscription, place, arrival);
        let wrong = wrong.or_else(|| self.wrong_headers(place, arrival));
        if let Some(wrong) = wrong.or_else(|| self.wrong_host(place, name, arrival.host)) {
            let ids = arrival.ids;
            self.fail(format!("a request for {name} with {ids:?}: {wrong}"));
        }
        Some(place)
    }

    /// What is wrong with the body of a request.
    fn wrong_form(
        &mut self,
        subscription: SubscriptionId,
        place: Place,
        arrival: &Arrival<'_>,
    ) -> Option<String> {
        let schema = self.durable.known(subscription)?.spec.event_delivery_schema;
        let is_single = schema == DeliverySchema::CloudEventSchemaV1_0;
        let exchange = self.exchange(place);
        let events = exchange.seqs.len();
        let Some(limits) = exchange.limits else {
            return (is_single == arrival.is_array)
                .then(|| "ED-217: its body has the form of a batch, or has to".to_owned());
        };
        self.tally.batches += u64::from(events > 1);
        if !arrival.is_array {
            return Some("ED-217: its body is no batch".to_owned());
        }
        let (bytes, bytes_max) = (arrival.bytes, limits.preferred_bytes);
        (events > 1 && bytes > bytes_max)
            .then(|| format!("ED-213, ED-214: {bytes} bytes travel together, {bytes_max} may"))
    }

    /// The receiver answers this from now on.
    pub fn answered(&mut self, now: Timestamp, place: Option<Place>, reply: Reply<'_>) {
        let Some(place) = place else { return };
        let exchange = self.exchange(place);
        exchange.answered = Some((reply.status, now));
        exchange.retry_after = reply.retry_after;
        exchange.failed = reply.failed.to_vec();
        exchange.is_over = true;
    }

    /// The exchange is over without an answer.
    pub fn gave_up(&mut self, place: Option<Place>) {
        if let Some(place) = place {
            self.exchange(place).is_over = true;
        }
    }

    /// Whether a subscription reads what answers say about single events of its batches.
    pub fn reads_entries(&mut self, place: Option<Place>) -> bool {
        place.is_some_and(|place| {
            let exchange = self.exchange(place);
            exchange.limits.is_some() && exchange.answers.per_entry_acknowledgement
        })
    }

    /// ED-180: no more exchanges are open after their timeout than may be, of one subscription and of all.
    pub fn look_at_late(&mut self, now: Timestamp, of_one_max: usize, of_all_max: usize) {
        let mut of_all = 0;
        let subscriptions = self.live.subscriptions.iter();
        let late: Vec<_> = subscriptions
            .map(|(id, subscription)| {
                let timeout = subscription.spec.response_timeout + MARGIN;
                let before = Timestamp::ZERO.plus(now.since(Timestamp::ZERO.plus(timeout)));
                (*id, self.open_since(*id, before))
            })
            .collect();
        for (id, of_one) in late {
            of_all += of_one;
            if of_one > of_one_max {
                let name = &self.live.subscriptions[&id].name;
                let message =
                    format!("ED-180: {of_one} exchanges of {name} are open, {of_one_max} may be");
                self.fail(message);
            }
        }
        if of_all > of_all_max {
            self.fail(format!(
                "ED-180: {of_all} exchanges are open, {of_all_max} may be"
            ));
        }
    }

    /// ED-176: every attempt ends at its timeout.
    pub fn look_at_flights(&mut self, now: Timestamp) {
        let mut wrong = Vec::new();
        for (id, subscription) in &self.live.subscriptions {
            let longest = subscription.spec.response_timeout + MARGIN;
            for (seq, delivery) in &subscription.deliveries {
                if delivery.state == State::Flying && now.since(delivery.started) > longest {
                    wrong.push((*id, *seq, delivery.started));
                }
            }
        }
        for (id, seq, started) in wrong {
            let (name, started) = (self.name(id, seq), at(started));
            self.fail(format!(
                "ED-176: {name} is attempted since {started}, and it is {}",
                at(now)
            ));
        }
    }

    /// Attempts that run, as far as the log knows: those of one request are one.
    pub fn in_flight(&self) -> usize {
        let ids = self.live.subscriptions.keys();
        let counts = ids.map(|id| self.in_flight_of(*id).len());
        counts.sum()
    }

    /// Exchanges of a subscription that are open, and arrived before this time.
    fn open_since(&self, subscription: SubscriptionId, before: Timestamp) -> usize {
        let is_it = |one: &&super::Exchange| {
            one.subscription == subscription
                && one.is_open()
                && one.arrived.is_some_and(|arrived| arrived < before)
        };
        self.exchanges.iter().filter(is_it).count()
    }
}
