//! What a subscription asks of its endpoint at most, and what it adds to its requests: headers of its own and signatures.

use std::collections::BTreeSet;

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::Started;

use super::{Arrival, Oracle, Place};
use crate::model::State;

/// A second, in milliseconds.
const SECOND: u64 = 1_000;

impl Oracle {
    /// Why another request may not start now.
    pub(super) fn wrong_limits(&self, started: &Started) -> Option<String> {
        let id = started.subscription;
        let subscription = self.live.subscriptions.get(&id)?;
        let limits = subscription.spec.endpoint_limits;
        // Those of an earlier opening were ended with their store, also where the record of it is still to come.
        let open = self.in_flight_of(id).into_iter();
        let open = open.filter(|one| self.exchanges[*one].opening == self.tally.openings);
        let open = open.count() + 1;
        if limits
            .max_concurrency
            .is_some_and(|max| open > max.get() as usize)
        {
            let max = limits.max_concurrency;
            return Some(format!("{open} requests run, {max:?} may"));
        }
        let now = started.deliveries.first()?.progress.last_attempt;
        let begun = 1 + self.begun_within_a_second(id, now);
        if limits
            .max_requests_per_second
            .is_some_and(|max| begun > max.get() as usize)
        {
            let max = limits.max_requests_per_second;
            return Some(format!(
                "{begun} requests begin within a second, {max:?} may"
            ));
        }
        let has_subject = !subscription.spec.delivery_attributes.is_empty();
        let headers = started.deliveries.iter().map(|one| {
            let subject = self.subject(id, one.seq).filter(|_| has_subject);
            let event = self.event(id, one.seq);
            (subject, event.and_then(|event| event.letter.as_deref()))
        });
        let headers: BTreeSet<_> = headers.collect();
        (headers.len() > 1)
            .then(|| format!("ED-220: what travels together has the headers {headers:?}"))
    }

    /// The newest requests of what is in flight for a subscription.
    pub(super) fn in_flight_of(&self, id: SubscriptionId) -> BTreeSet<usize> {
        let deliveries = self.live.subscriptions.get(&id);
        let deliveries = deliveries.into_iter().flat_map(|one| &one.deliveries);
        let flying = deliveries.filter(|(_, delivery)| delivery.state == State::Flying);
        let places = flying.filter_map(|(seq, _)| self.exchanges_of.get(&(id, *seq))?.last());
        places.copied().collect()
    }

    fn begun_within_a_second(&self, id: SubscriptionId, now: Timestamp) -> usize {
        // The server's clock never goes back, so they stand in the order of time.
        let newest = self.exchanges.iter().rev();
        let newest = newest.take_while(|one| {
            let age = now.as_millis().saturating_sub(one.started.as_millis());
            one.opening == self.tally.openings && age < SECOND
        });
        newest.filter(|one| one.subscription == id).count()
    }

    fn subject(&self, id: SubscriptionId, seq: u64) -> Option<&str> {
        self.event(id, seq)?.subject.as_deref()
    }

    /// What is wrong with the headers that a subscription adds (ED-142, ED-145).
    pub(super) fn wrong_headers(&self, place: Place, arrival: &Arrival<'_>) -> Option<String> {
        let exchange = self.exchange_at(place);
        let id = exchange.subscription;
        let spec = &self.durable.known(id)?.spec;
        if arrival.is_signed != spec.signing.as_ref().map(|_| true) {
            let is_signed = arrival.is_signed;
            return Some(format!(
                "ED-142: whether it is signed rightly: {is_signed:?}"
            ));
        }
        let first = *exchange.seqs.first()?;
        let expected = self
            .subject(id, first)
            .filter(|_| !spec.delivery_attributes.is_empty());
        let found = arrival.subject;
        (found != expected)
            .then(|| format!("ED-145: its header says {found:?}, and is {expected:?}"))
    }
}
