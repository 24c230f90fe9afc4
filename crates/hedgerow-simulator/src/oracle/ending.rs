//! Whether everything has come to its end.

use super::Oracle;
use crate::model::{State, Subscription};

impl Subscription {
    /// Whether its filter takes events of this type.
    pub fn wants(&self, event_type: &str) -> bool {
        let types = self.spec.filter.included_event_types.as_ref();
        types.is_none_or(|types| types.iter().any(|one| one.eq_ignore_ascii_case(event_type)))
    }
}

impl Oracle {
    /// What has no end yet, at most a few of them; durable things only.
    pub fn unsettled(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (id, subscription) in &self.durable.subscriptions {
            let events = &self.durable.topics[&subscription.topic].events;
            for (event, seq) in events.iter().zip(1..) {
                let is_owed = seq >= subscription.from_seq && subscription.wants(&event.event_type);
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
    pub fn conclude(&mut self) {
        if let Some(first) = self.unsettled().first() {
            self.fail(format!("it never ended: {first}"));
        }
        let mut wrong = Vec::new();
        for (id, subscription) in &self.durable.subscriptions {
            let counts = subscription.counts;
            self.tally.delivered += counts.delivered;
            self.tally.dead_lettered += counts.dead_lettered;
            self.tally.dropped += counts.dropped;
            for (seq, delivery) in &subscription.deliveries {
                let mut exchanges = self.exchanges_of(*id, *seq);
                if delivery.state == State::Delivered && !exchanges.any(|one| one.takes(*seq)) {
                    wrong.push(format!("{} was never delivered", self.name(*id, *seq)));
                }
            }
        }
        if let Some(open) = self.exchanges.iter().find(|one| one.is_open()) {
            wrong.push(format!("still open: {open:?}"));
        }
        for wrong in wrong {
            self.fail(wrong);
        }
    }
}
