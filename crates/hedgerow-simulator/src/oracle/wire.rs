//! What receivers see, held against what was begun.

use std::time::Duration;

use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::time::Timestamp;

use super::{Oracle, at};
use crate::model::State;

/// What is a little late is not looked at: a tick of a timer, and how far server time may run away from it.
const MARGIN: Duration = Duration::from_secs(20);

/// A request that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The engine that made it.
    pub opening: u64,
    /// What it said of the attempts before.
    pub count: u16,
    pub arrived: Timestamp,
    /// The status that was answered, and when.
    pub answered: Option<(u16, Timestamp)>,
    /// The `Retry-After` of it, in seconds.
    pub retry_after: Option<u64>,
    /// Whether the exchange is over for the receiver.
    pub is_over: bool,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy)]
pub struct RequestPlace {
    key: (SubscriptionId, u64),
    index: usize,
}

impl Oracle {
    /// A request arrived for a subscription, by name, with these events, and says how many attempts came before.
    pub fn arrived(
        &mut self,
        now: Timestamp,
        name: &str,
        ids: &[String],
        count: Option<u16>,
    ) -> Vec<RequestPlace> {
        self.tally.requests += 1;
        let Some(subscription) = self.subscriptions.get(name).copied() else {
            self.fail(format!("a request for {name}, which there is not"));
            return Vec::new();
        };
        let Some(count) = count else {
            self.fail(format!("a request for {name} without a count of attempts"));
            return Vec::new();
        };
        if ids.len() != 1 {
            self.fail(format!(
                "ED-211: a request for {name}, which is not batched, has {} events",
                ids.len()
            ));
        }
        let places = ids
            .iter()
            .filter_map(|id| self.arrived_one(now, subscription, id, count));
        places.collect()
    }

    fn arrived_one(
        &mut self,
        now: Timestamp,
        subscription: SubscriptionId,
        id: &str,
        count: u16,
    ) -> Option<RequestPlace> {
        let Some(Position { topic, seq }) = self.places.get(id).copied() else {
            self.fail(format!("{id} is delivered and not durable"));
            return None;
        };
        let key = (subscription, seq);
        if self.durable.subscriptions[&subscription].topic != topic {
            self.fail(format!(
                "{id} is delivered to a subscription of another topic"
            ));
        }
        let started = self.started.get(&key).copied().unwrap_or(0);
        if count >= started {
            self.fail(format!(
                "ED-207: {}: a request after {count} attempts, and {started} were begun",
                self.name(subscription, seq)
            ));
        }
        let opening = self.opening;
        let requests = self.requests.entry(key).or_default();
        let is_repeated = requests
            .iter()
            .any(|one| one.count == count && one.opening == opening);
        requests.push(Request {
            opening,
            count,
            arrived: now,
            answered: None,
            retry_after: None,
            is_over: false,
        });
        let index = requests.len() - 1;
        if is_repeated {
            self.fail(format!(
                "{}: the request after {count} attempts came twice, at {}",
                self.name(subscription, seq),
                at(now)
            ));
        }
        Some(RequestPlace { key, index })
    }

    /// The receiver answers with this status from now on.
    pub fn answered(
        &mut self,
        now: Timestamp,
        places: &[RequestPlace],
        status: u16,
        retry_after: Option<u64>,
    ) {
        for place in places {
            if let Some(request) = self.request(*place) {
                request.answered = Some((status, now));
                request.retry_after = retry_after;
                request.is_over = true;
            }
        }
    }

    /// The exchange is over without an answer.
    pub fn gave_up(&mut self, places: &[RequestPlace]) {
        for place in places {
            if let Some(request) = self.request(*place) {
                request.is_over = true;
            }
        }
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

    /// Exchanges of a subscription that are open, and arrived before this time.
    fn open_since(&self, subscription: SubscriptionId, before: Timestamp) -> usize {
        let requests = self
            .requests
            .range((subscription, 0)..=(subscription, u64::MAX));
        let requests = requests.flat_map(|(_, requests)| requests);
        requests
            .filter(|request| !request.is_over && request.arrived < before)
            .count()
    }

    fn request(&mut self, place: RequestPlace) -> Option<&mut Request> {
        self.requests.get_mut(&place.key)?.get_mut(place.index)
    }
}
