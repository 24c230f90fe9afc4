//! Whether everything has come to its end.

use hedgerow_core::time::Timestamp;

use super::Oracle;
use crate::model::{Known, State, Subscription};

impl Subscription {
    /// Whether an event is one for it: its filter takes events of this type, or it is delivered again to this one only.
    pub fn wants(&self, event: &Known) -> bool {
        if let Some(only) = event.only {
            return only == self.id;
        }
        // ED-077: whoever is for all of a domain has no topic.
        let is_here = self.domain_topic.is_none() || self.domain_topic == event.domain_topic;
        let types = self.spec.filter.included_event_types.as_ref();
        let is_it = |one: &String| one.eq_ignore_ascii_case(&event.event_type);
        is_here && types.is_none_or(|types| types.iter().any(is_it))
    }
}

impl Oracle {
    /// What has no end yet, at most a few of them; durable things only.
    pub fn unsettled(&self, now: Timestamp) -> Vec<String> {
        let overdue = self.overdue(now).take(5);
        let overdue = overdue.chain(self.unconsented().take(5));
        let mut left: Vec<_> = overdue.chain(self.open_replays().take(5)).collect();
        for (id, subscription) in &self.durable.subscriptions {
            let events = &self.durable.topics[&subscription.topic].events;
            for (event, seq) in events.iter().zip(1..) {
                let is_owed = seq >= subscription.from_seq && subscription.wants(event);
                match subscription.deliveries.get(&seq) {
                    Some(delivery) if !delivery.state.is_open() => {}
                    Some(delivery) => {
                        left.push(format!("{}: {:?}", self.name(*id, seq), delivery.state));
                    }
                    None if is_owed && seq >= subscription.purged_to => {
                        left.push(format!("{}: not begun", self.name(*id, seq)));
                    }
                    None => {}
                }
                if left.len() >= 5 {
                    return left;
                }
            }
        }
        left
    }

    /// Looks at everything for the last time.
    pub fn conclude(&mut self, now: Timestamp) {
        if let Some(first) = self.unsettled(now).first() {
            self.fail(format!("it never ended: {first}"));
        }
        let mut wrong = Vec::new();
        let all = self.durable.subscriptions.values();
        for subscription in all.chain(self.durable.gone.values()) {
            let counts = subscription.counts;
            self.tally.delivered += counts.delivered;
            self.tally.dead_lettered += counts.dead_lettered;
            self.tally.dropped += counts.dropped;
        }
        for (id, subscription) in &self.durable.subscriptions {
            for (seq, delivery) in &subscription.deliveries {
                let mut exchanges = self.exchanges_of(*id, *seq);
                let is_taken = exchanges.any(|one| one.takes(*seq) || one.is_unclear);
                if delivery.state == State::Delivered && !is_taken {
                    wrong.push(format!("{} was never delivered", self.name(*id, *seq)));
                }
            }
        }
        wrong.extend(self.wrong_replays());
        let mut clear = self.exchanges.iter().filter(|one| !one.is_unclear);
        if let Some(open) = clear.find(|one| one.is_open()) {
            wrong.push(format!("still open: {open:?}"));
        }
        for wrong in wrong {
            self.fail(wrong);
        }
    }
}
