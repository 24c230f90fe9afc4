//! The ledger: what was published and how that was answered, every request that a receiver got, and what operators asked for.
//! Judges nothing; that is [`super::verdict`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::plan::{EventId, SUBSCRIPTIONS, TOPICS};

/// What a publisher knows of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Not answered, or answered with 503: it may be stored or not.
    Maybe,
    /// Answered with 200.
    Acknowledged,
    /// Refused before it could be stored.
    Refused,
}

/// A published event.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// The publish request that it came in.
    pub request: u32,
    /// What is known of it.
    pub fate: Fate,
}

/// The events of one publish request: neighbours in one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which of all, from 0.
    nth: u32,
    topic: usize,
    numbers: Range<u32>,
}

impl Request {
    /// The ids, ascending.
    pub fn ids(&self) -> impl Iterator<Item = EventId> {
        let topic = self.topic;
        self.numbers
            .clone()
            .map(move |number| EventId { topic, number })
    }
}

/// How a receiver answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Not at all, or not yet.
    None,
    /// With this status.
    Status(u16),
    /// By closing the connection.
    Closed,
}

/// A request that a receiver got whole.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    /// The life of the server it came from, from 0.
    pub life: usize,
    /// Its `aeg-delivery-count`.
    pub count: u16,
    /// Its `aeg-output-event-id`, which comes from the event's place in the log; a batch has none.
    pub system_id: Option<u128>,
    /// How it was answered.
    pub answer: Answer,
    /// Whether the receiver meant to answer after the timeout.
    pub hangs: bool,
    /// When it came: a number that rises with everything that is noted.
    pub tick: u64,
}

/// What a receiver learns from the headers of a request.
#[derive(Debug, Clone, Copy)]
pub struct Headers {
    /// See [`Exchange::count`].
    pub count: u16,
    /// See [`Exchange::system_id`].
    pub system_id: Option<u128>,
}

impl Exchange {
    /// Whether the receiver took the event.
    pub fn is_success(&self) -> bool {
        matches!(self.answer, Answer::Status(200..=204))
    }
}

/// One subscription and one event.
pub type Pair = (usize, EventId);

/// A purge of a subscription that an operator asked for.
#[derive(Debug, Clone)]
pub struct Purge {
    /// The subscription's index.
    pub subscription: usize,
    /// The life of the server in which it was asked for.
    pub life: usize,
    /// Whether it was answered; if not, it may have happened or not.
    pub is_answered: bool,
    /// When it was answered, or the life ended; see [`Exchange::tick`].
    pub ended: Option<u64>,
    /// Events of the topic that were acknowledged before it was asked for: their numbers, ascending.
    pub accepted: Vec<u32>,
    /// Events with lower numbers were published before `ended`.
    pub to_number: Option<u32>,
}

/// An event that an operator asked for again.
#[derive(Debug, Clone, Copy)]
pub struct Resend {
    /// Which, and for whom.
    pub pair: Pair,
    /// When; see [`Exchange::tick`].
    pub asked: u64,
    /// When it was answered, or the life ended.
    pub ended: Option<u64>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of asking for an event again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not answered: a delivery may have begun or not.
    Maybe,
    /// A new delivery.
    Begun,
    /// No new delivery.
    Nothing,
}

/// Names an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Ticket {
    pair: Pair,
    /// Which request of the pair, from 0.
    pub nth: usize,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Mutex<Entries>,
}

/// See [`Ledger`].
#[derive(Debug, Default)]
pub struct Entries {
    /// For each topic, by number.
    pub published: [Vec<Published>; TOPICS.len()],
    /// Publish requests so far: when each was sent, and when it was answered with 200. See [`Exchange::tick`].
    pub requests: Vec<(u64, Option<u64>)>,
    /// Requests that came with several events, and those events.
    pub batches: (u64, u64),
    /// For each pair, in the order in which they came.
    pub exchanges: HashMap<Pair, Vec<Exchange>>,
    /// What must not have happened, as it was seen.
    pub offences: Vec<String>,
    /// Publish requests that were refused because the store was full.
    pub refused_full: u64,
    /// Purges, in the order in which they were asked for.
    pub purges: Vec<Purge>,
    /// Events that were asked for again, in that order.
    pub resends: Vec<Resend>,
    /// See [`Exchange::tick`].
    ticks: u64,
}

impl Ledger {
    /// Takes new ids for a publish request. Until it is answered its events may be stored or not.
    pub fn publish(&self, topic: usize, count: u32) -> Request {
        let mut entries = self.entries();
        let request = entries.requests.len() as u32;
        let sent = entries.tick();
        entries.requests.push((sent, None));
        let published = &mut entries.published[topic];
        let first = published.len() as u32;
        let entry = Published {
            request,
            fate: Fate::Maybe,
        };
        published.resize((first + count) as usize, entry);
        Request {
            nth: request,
            topic,
            numbers: first..first + count,
        }
    }

    /// The request was answered.
    pub fn answered(&self, request: &Request, fate: Fate) {
        let mut entries = self.entries();
        for number in request.numbers.clone() {
            entries.published[request.topic][number as usize].fate = fate;
        }
        if fate == Fate::Acknowledged {
            let now = entries.tick();
            entries.requests[request.nth as usize].1 = Some(now);
        }
    }

    /// A receiver got a request with several events.
    pub fn batched(&self, events: usize) {
        let mut entries = self.entries();
        entries.batches.0 += 1;
        entries.batches.1 += events as u64;
    }

    /// A receiver got an event of a request.
    pub fn received(&self, pair: Pair, life: usize, headers: Headers) -> Ticket {
        let mut entries = self.entries();
        let is_known = (pair.1.number as usize) < entries.published[pair.1.topic].len();
        if !is_known {
            entries.offences.push(format!(
                "event {} was delivered, and never published",
                pair.1
            ));
        }
        let tick = entries.tick();
        let exchanges = entries.exchanges.entry(pair).or_default();
        let Headers { count, system_id } = headers;
        exchanges.push(Exchange {
            life,
            count,
            system_id,
            answer: Answer::None,
            hangs: false,
            tick,
        });
        Ticket {
            pair,
            nth: exchanges.len() - 1,
        }
    }

    /// The receiver will answer after the timeout.
    pub fn hangs(&self, ticket: Ticket) {
        self.change(ticket, |exchange| exchange.hangs = true);
    }

    /// The receiver answers.
    pub fn answers(&self, ticket: Ticket, answer: Answer) {
        self.change(ticket, |exchange| exchange.answer = answer);
    }

    /// A purge is asked for. Returns which it is.
    pub fn purge(&self, subscription: usize, life: usize) -> usize {
        let mut entries = self.entries();
        let published = entries.published[SUBSCRIPTIONS[subscription].topic].iter();
        let accepted = (0..)
            .zip(published)
            .filter(|(_, event)| event.fate == Fate::Acknowledged)
            .map(|(number, _)| number)
            .collect();
        entries.purges.push(Purge {
            subscription,
            life,
            is_answered: false,
            ended: None,
            accepted,
            to_number: None,
        });
        entries.purges.len() - 1
    }

    /// The purge was answered.
    pub fn purged(&self, purge: usize) {
        let mut entries = self.entries();
        entries.purges[purge].is_answered = true;
        entries.end_purge(purge);
    }

    /// An event is asked for again. Returns which resend it is.
    pub fn resend(&self, pair: Pair) -> usize {
        let mut entries = self.entries();
        let asked = entries.tick();
        entries.resends.push(Resend {
            pair,
            asked,
            ended: None,
            outcome: Outcome::Maybe,
        });
        entries.resends.len() - 1
    }

    /// The resend was answered.
    pub fn resent(&self, resend: usize, outcome: Outcome) {
        let mut entries = self.entries();
        let ended = entries.tick();
        let resend = &mut entries.resends[resend];
        (resend.outcome, resend.ended) = (outcome, Some(ended));
    }

    /// A life of the server ended: what was not answered will not be.
    pub fn life_ended(&self) {
        let mut entries = self.entries();
        for purge in 0..entries.purges.len() {
            if entries.purges[purge].ended.is_none() {
                entries.end_purge(purge);
            }
        }
        let now = entries.tick();
        for resend in &mut entries.resends {
            resend.ended.get_or_insert(now);
        }
    }

    /// Something happened that must not.
    pub fn offence(&self, what: String) {
        self.entries().offences.push(what);
    }

    /// A publish was refused because the store was full.
    pub fn refused_full(&self) {
        self.entries().refused_full += 1;
    }

    /// Everything that was seen so far.
    pub fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, ticket: Ticket, change: impl FnOnce(&mut Exchange)) {
        let mut entries = self.entries();
        let exchanges = entries.exchanges.get_mut(&ticket.pair);
        change(&mut exchanges.expect("a ticket is given for an exchange that is kept")[ticket.nth]);
    }
}

impl Entries {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn end_purge(&mut self, purge: usize) {
        let now = self.tick();
        let purge = &mut self.purges[purge];
        let published = &self.published[SUBSCRIPTIONS[purge.subscription].topic];
        purge.ended = Some(now);
        purge.to_number = Some(published.len() as u32);
    }

    /// Purges that were answered.
    pub fn purges_answered(&self) -> u64 {
        let answered = self.purges.iter().filter(|purge| purge.is_answered);
        answered.count() as u64
    }

    /// The newest events that the receiver of a subscription took.
    pub fn newest_taken(&self, subscription: usize, count: usize) -> Vec<EventId> {
        let topic = SUBSCRIPTIONS[subscription].topic;
        let numbers = (0..self.published[topic].len() as u32).rev();
        let ids = numbers.map(|number| EventId { topic, number });
        let is_taken = |id: &EventId| {
            let exchanges = self.exchanges.get(&(subscription, *id));
            exchanges.is_some_and(|exchanges| exchanges.iter().any(Exchange::is_success))
        };
        ids.filter(is_taken).take(count).collect()
    }

    /// Events with a fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.published
            .iter()
            .flatten()
            .filter(|event| event.fate == fate)
            .count()
    }
}
