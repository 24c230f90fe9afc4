//! Requests: begun by a record of the log, seen by a receiver, answered by it or not. One of a batch is about many deliveries.

use hedgerow_core::batch::{AnswerSettings, BatchLimits};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::StartedDelivery;
use tokio::time::Instant;

use super::{Arrival, Oracle};
use crate::rules;

/// A request.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub subscription: SubscriptionId,
    /// Its events, in their order.
    pub seqs: Vec<u64>,
    /// The attempts that were made before.
    pub count: u16,
    /// The engine that began it, and when it did, by the server's clock.
    pub opening: u64,
    pub started: Timestamp,
    /// When it is too late for an answer, whatever the wall clock does.
    pub timeout: Instant,
    /// How much may travel together; `None` if it is a single event, in that form.
    pub limits: Option<BatchLimits>,
    /// What its subscription wanted of answers to batches.
    pub answers: AnswerSettings,
    /// When its receiver had it.
    pub arrived: Option<Timestamp>,
    /// The status that was answered, and when.
    pub answered: Option<(u16, Timestamp)>,
    /// The `Retry-After` of it, in seconds.
    pub retry_after: Option<u64>,
    /// The events that the answer names as failed, by their place; all of them, if it is not clear.
    pub failed: Vec<usize>,
    /// Where it may arrive.
    pub endpoints: Vec<String>,
    /// Whether it is over for the receiver.
    pub is_over: bool,
    /// Whether it counts among the failures in a row.
    pub is_counted: bool,
    /// Whether its receiver cannot tell it from another request: that of an event which was delivered again twice.
    pub is_unclear: bool,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(usize);

impl Exchange {
    /// Whether its receiver took this event.
    pub fn takes(&self, seq: u64) -> bool {
        let is_failed = self.failed.iter().any(|place| self.seqs[*place] == seq);
        let status = self.answered.map(|(status, _)| status);
        status.is_some_and(rules::is_success) && !is_failed
    }

    /// Whether its receiver is still at it.
    pub const fn is_open(&self) -> bool {
        self.arrived.is_some() && !self.is_over
    }
}

impl Oracle {
    /// A request begins with these deliveries.
    pub(super) fn begin_exchange(&mut self, id: SubscriptionId, deliveries: &[StartedDelivery]) {
        let endpoints = self.endpoints_of(id);
        let spec = self.live.known(id);
        let batch = spec.map(|subscription| subscription.spec.batch);
        let response_timeout = spec.map(|subscription| subscription.spec.response_timeout);
        let place = self.exchanges.len();
        let attempts = deliveries.first().map_or(1, |one| one.progress.attempts);
        self.exchanges.push(Exchange {
            subscription: id,
            seqs: deliveries.iter().map(|one| one.seq).collect(),
            count: attempts.saturating_sub(1),
            opening: self.tally.openings,
            started: deliveries
                .first()
                .map_or(Timestamp::ZERO, |one| one.progress.last_attempt),
            timeout: Instant::now() + response_timeout.unwrap_or_default(),
            limits: batch.and_then(|batch| batch.limits()),
            answers: batch.map(|batch| batch.answers).unwrap_or_default(),
            arrived: None,
            answered: None,
            retry_after: None,
            failed: Vec::new(),
            endpoints,
            is_over: false,
            is_counted: false,
            is_unclear: false,
        });
        for one in deliveries {
            let places = self.exchanges_of.entry((id, one.seq)).or_default();
            places.push(place);
        }
    }

    /// The requests that a delivery was in, the newest first.
    pub(super) fn exchanges_of(
        &self,
        id: SubscriptionId,
        seq: u64,
    ) -> impl Iterator<Item = &Exchange> {
        let places = self.exchanges_of.get(&(id, seq));
        let places = places.map_or(&[][..], |places| places);
        places.iter().rev().map(|place| &self.exchanges[*place])
    }

    /// The newest request that a delivery was in.
    pub(super) fn newest_exchange(
        &mut self,
        id: SubscriptionId,
        seq: u64,
    ) -> Option<&mut Exchange> {
        let place = *self.exchanges_of.get(&(id, seq))?.last()?;
        self.exchanges.get_mut(place)
    }

    /// The request with these events that was begun and has not arrived yet: the newest of them, if there are several.
    pub(super) fn expected(&mut self, id: SubscriptionId, arrival: &Arrival<'_>) -> Option<Place> {
        let topic = self.durable.known(id)?.topic;
        let events = &self.durable.topics.get(&topic)?.events;
        let is_it = |one: &Exchange| {
            let is_new = one.arrived.is_none() && Some(one.count) == arrival.count;
            let of = |seq: &u64| events.get(*seq as usize - 1);
            let mut pairs = one.seqs.iter().map(of).zip(arrival.ids);
            is_new
                && one.subscription == id
                && one.seqs.len() == arrival.ids.len()
                && pairs.all(|(event, id)| {
                    event.is_some_and(|event| {
                        event.id == *id && event.letter.as_deref() == arrival.letter
                    })
                })
        };
        let all = self.exchanges.iter().enumerate().rev();
        let found: Vec<usize> = all
            .filter(|(_, one)| is_it(one))
            .map(|(place, _)| place)
            .collect();
        let newest = *found.first()?;
        let seqs = self.exchanges[newest].seqs.clone();
        if found
            .iter()
            .any(|place| self.exchanges[*place].seqs != seqs)
        {
            for place in found {
                self.exchanges[place].is_unclear = true;
            }
        }
        Some(Place(newest))
    }

    /// Whether what became of a delivery's requests is not known for certain.
    pub(super) fn is_unclear(&self, id: SubscriptionId, seq: u64) -> bool {
        self.exchanges_of(id, seq).any(|one| one.is_unclear)
    }

    pub(super) fn exchange_at(&self, place: Place) -> &Exchange {
        &self.exchanges[place.0]
    }

    pub(super) fn exchange(&mut self, place: Place) -> &mut Exchange {
        &mut self.exchanges[place.0]
    }
}
