//! Delivers events again that somebody asked for ([`crate::resend`]).
//!
//! An event that nobody needs may be forgotten at any moment. So it is pinned first; then a task waits for the cleaning that
//! may have been planned before, and reads it. What can be read then stays, until a delivery that needs it is durable.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::filter::{Filter, FilterEvent};
use hedgerow_core::limits;
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::retry;
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::event_grid::path_of;
use hedgerow_store::catalog::Subscription;
use hedgerow_store::history::{HistoryKind, HistoryNext, HistoryRecord};
use hedgerow_store::record::{
    Moved, MovedDelivery, Progress, Record, Resent as ResentRecord, unpack_event,
};
use hedgerow_store::{StoreError, StoredEvent};

use super::declarations::reply;
use super::explaining::SCANNED_ROWS_MAX;
use super::{Engine, Internal};
use crate::command::{Answer, CommandError};
use crate::explain::Place;
use crate::resend::{ResendOrder, Resent, ResentHow, forgot};
use crate::source::path_of_topic;

/// Who asks again for the same delivery within this time clicked twice (FC-10).
const TWICE_WITHIN: Duration = Duration::from_secs(2);
/// Deliveries that are remembered for that; beyond, those whose records are durable are forgotten early.
const REMEMBERED_MAX: usize = 10_000;

/// What was asked for.
#[derive(Default)]
pub(super) struct Resends {
    /// Deliveries that were asked for lately.
    recent: HashMap<(SubscriptionId, u64), Recent>,
    /// Who waits for records to be durable.
    waiting: Vec<Waiting>,
    /// Events that are being read.
    reading: usize,
}

#[derive(Debug, Clone, Copy)]
struct Recent {
    asked: Timestamp,
    /// Whether its record is.
    is_durable: bool,
}

struct Waiting {
    event: Position,
    /// The subscriptions whose records are not durable yet.
    left: Vec<SubscriptionId>,
    report: Vec<Resent>,
    answer: Answer<Vec<Resent>>,
}

impl Resends {
    /// Whether the record that a delivery is due now is not durable yet. The view shows it under its former row until then.
    pub(super) fn is_on_its_way(&self, id: SubscriptionId, seq: u64) -> bool {
        let recent = self.recent.get(&(id, seq));
        recent.is_some_and(|recent| !recent.is_durable)
    }
}

/// An event that was read to be delivered again.
pub(super) struct ResendRead {
    order: ResendOrder,
    /// `None` if it is forgotten.
    event: Option<StoredEvent>,
    answer: Answer<Vec<Resent>>,
}

/// A delivery, and what is done about it.
struct Decision {
    id: SubscriptionId,
    name: String,
    how: ResentHow,
    /// The attempt that waits, and under which row.
    waits: Option<MovedDelivery>,
}

impl Engine {
    /// Pins the event and has it read.
    pub(super) fn resend(&mut self, order: ResendOrder, answer: Answer<Vec<Resent>>) {
        if self.resends.reading + self.resends.waiting.len() >= limits::RESENDS_MAX {
            let message = format!(
                "{} events are being delivered again already, and no more may at a time",
                limits::RESENDS_MAX
            );
            return reply(answer, Err(CommandError::Busy(message)));
        }
        self.resends.reading += 1;
        self.view.pin(order.position);
        let store = Arc::clone(&self.store);
        let reading = self.spawner.spawn_blocking(move || {
            let event = match store.read_to_keep(order.position) {
                Ok(event) => Some(event),
                Err(StoreError::Forgotten { .. }) => None,
                Err(error) => return Err(error),
            };
            Ok(ResendRead {
                order,
                event,
                answer,
            })
        });
        self.tell_end(reading, Internal::ResendRead);
    }

    /// The event was read, or is gone: decides, and queues what is to be durable.
    pub(super) fn resend_read(&mut self, read: ResendRead) -> Result<(), StoreError> {
        let ResendRead {
            order,
            event,
            answer,
        } = read;
        self.resends.reading -= 1;
        if answer.is_closed() {
            // Whoever asked has gone, and was told nothing.
            self.view.unpin(order.position);
            return Ok(());
        }
        let decided = match &event {
            Some(event) => self.decide_resend(&order, event)?,
            None => Err(forgot(&order.event_id, order.published)),
        };
        let (Ok(decisions), Some(event)) = (&decided, event) else {
            self.view.unpin(order.position);
            reply(answer, decided.map(|_| Vec::new()));
            return Ok(());
        };
        let mut left = Vec::new();
        for decision in decisions {
            if self.queue_resend(decision, &order, &event)? {
                left.push(decision.id);
            }
        }
        let report = decisions.iter().map(|decision| Resent {
            subscription: decision.name.clone(),
            how: decision.how,
        });
        let report = report.collect();
        if left.is_empty() {
            self.view.unpin(order.position);
            reply(answer, Ok(report));
        } else {
            self.resends.waiting.push(Waiting {
                event: order.position,
                left,
                report,
                answer,
            });
        }
        Ok(())
    }

    /// What is done for each subscription that the event is one for.
    fn decide_resend(
        &mut self,
        order: &ResendOrder,
        event: &StoredEvent,
    ) -> Result<Result<Vec<Decision>, CommandError>, StoreError> {
        self.forget_recent();
        let Position { topic, seq } = order.position;
        // What it decides about stands where it stands.
        for id in self.gathering_in(topic) {
            self.put_gathering_back(id);
            self.queue_if_ready(id)?;
        }
        let catalog = self.view.catalog();
        let path = catalog.topic(topic).map(path_of_topic).unwrap_or_default();
        let wanted = |found: &&Subscription| match (&order.subscription, &order.domain_topic) {
            // One of the domain may be called as one of a domain topic.
            (Some(name), of) => {
                found.name.as_str().eq_ignore_ascii_case(name) && found.domain_topic == *of
            }
            (None, Some(of)) => found.domain_topic.as_ref() == Some(of),
            (None, None) => true,
        };
        let found: Vec<&Subscription> = catalog.subscriptions_of(topic).filter(wanted).collect();
        let (id, only) = (&order.event_id, order.subscription.as_ref());
        if let (Some(name), true) = (only, found.is_empty()) {
            return Ok(Err(CommandError::NotFound {
                what: "event subscription",
                name: name.clone(),
            }));
        }
        let mut decisions = Vec::new();
        let mut refused = String::new();
        let mut rows_left = SCANNED_ROWS_MAX;
        let unpacked = match unpack_event(&event.bytes) {
            Ok(unpacked) => unpacked,
            Err(error) => {
                let message = format!("the event \"{id}\" cannot be read: {error}");
                return Ok(Err(CommandError::Conflict(message)));
            }
        };
        let path = path_of(&path, &unpacked);
        let asked = FilterEvent::new(&unpacked, &path);
        let wanting = self.wanting(order.position, &asked);
        let replayed_to = unpacked.replayed_to();
        for subscription in found {
            let of = subscription.id;
            if let Some(only) = replayed_to {
                if only == of {
                    decisions.push(self.decide_delivery(subscription, order, &mut rows_left)?);
                } else {
                    "it is a dead letter of another one, replayed to that one only"
                        .clone_into(&mut refused);
                }
                continue;
            }
            // The index has the filters in force of those that have a runner, and says nothing of what they refuse.
            let in_force = subscription.filters.first();
            let is_filed = in_force.is_some_and(|version| version.from_seq <= seq)
                && self.runners.contains_key(&of);
            if is_filed && only.is_none() && !wanting.contains(&of) {
                continue;
            }
            let filter = subscription.filter_at(seq);
            let rules = self.settings.filter_rules;
            let filter = filter.map(|filter| {
                let filter = Filter::new(filter, rules);
                match &subscription.domain_topic {
                    None => filter,
                    Some(topic) => filter.of_domain_topic(topic),
                }
            });
            match filter.map(|filter| filter.matches(&asked)) {
                Some(Ok(())) => {
                    decisions.push(self.decide_delivery(subscription, order, &mut rows_left)?);
                }
                Some(Err(clause)) => refused = format!("{clause} of its filter says no"),
                None => {
                    "it was published before the subscription was in force"
                        .clone_into(&mut refused);
                }
            }
        }
        if !decisions.is_empty() {
            return Ok(Ok(decisions));
        }
        Ok(Err(CommandError::Conflict(match only {
            Some(name) => {
                format!("the event \"{id}\" is none for event subscription \"{name}\": {refused}")
            }
            None => {
                format!("the event \"{id}\" matched none of the event subscriptions that there are")
            }
        })))
    }

    /// Those whose filters want an event, of those that have a runner.
    fn wanting(&self, position: Position, event: &FilterEvent<'_>) -> HashSet<SubscriptionId> {
        let mut wanting = HashSet::new();
        if let Some(reader) = self.readers.get(&position.topic) {
            reader.filters.ask(
                position.seq,
                event,
                |_| true,
                |answer| {
                    if answer.result.is_ok() {
                        wanting.insert(answer.id);
                    }
                },
            );
        }
        wanting
    }

    fn decide_delivery(
        &self,
        subscription: &Subscription,
        order: &ResendOrder,
        rows_left: &mut usize,
    ) -> Result<Decision, StoreError> {
        let (id, seq) = (subscription.id, order.position.seq);
        let mut waits = None;
        let how = if self.resends.recent.contains_key(&(id, seq)) {
            ResentHow::AlreadyResent
        } else if self.is_purged(id, seq) {
            ResentHow::Purged
        } else {
            let hint = order.hints.iter().find(|(of, _)| *of == id);
            let hint = hint.map(|(_, at)| *at);
            match self.place(subscription, order.position, hint, rows_left)? {
                Place::Ended => ResentHow::Resent,
                Place::InFlight { .. } => ResentHow::InFlight,
                Place::DeadLetterDue { .. } => ResentHow::DeadLetterPending,
                Place::Due { at, .. } if at > self.now() => {
                    let owed = self.view.owed(id, at, seq)?;
                    waits = owed.and_then(|owed| {
                        Some(MovedDelivery {
                            seq,
                            from: at,
                            due: self.now(),
                            progress: owed.attempt()?,
                            part: owed.part(),
                        })
                    });
                    match waits {
                        Some(_) => ResentHow::BroughtForward,
                        // The record of another time is on its way.
                        None => ResentHow::Pending,
                    }
                }
                Place::NotBegun | Place::Due { .. } => ResentHow::Pending,
                Place::Owed => ResentHow::NotFound,
            }
        };
        Ok(Decision {
            id,
            name: subscription.name.as_str().to_owned(),
            how,
            waits,
        })
    }

    /// Queues the record of it. Returns whether there is one.
    fn queue_resend(
        &mut self,
        decision: &Decision,
        order: &ResendOrder,
        event: &StoredEvent,
    ) -> Result<bool, StoreError> {
        let now = self.now();
        let (subscription, seq) = (decision.id, order.position.seq);
        match (decision.how, decision.waits) {
            (ResentHow::Resent, _) => self.store.journal(Record::Resent(ResentRecord {
                subscription,
                seq,
                due: now,
                progress: Progress::unattempted(now, Outcome::Delivering),
            }))?,
            (ResentHow::BroughtForward, Some(waits)) => {
                self.bring_forward(subscription, waits)?;
            }
            _ => return Ok(false),
        }
        let recent = Recent {
            asked: now,
            is_durable: false,
        };
        self.resends.recent.insert((subscription, seq), recent);
        self.remember_resend(decision, order, event);
        Ok(true)
    }

    /// The attempt that waits is due now. One whose time to live is over gets it anew: somebody wants it.
    fn bring_forward(
        &mut self,
        id: SubscriptionId,
        mut delivery: MovedDelivery,
    ) -> Result<(), StoreError> {
        let published = &mut delivery.progress.published;
        if retry::is_expired(&self.policy(id), *published, delivery.due) {
            *published = delivery.due;
        }
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.drop_due(delivery.from, delivery.seq);
            runner.late.moved_to(delivery.seq, delivery.due);
        }
        self.store.journal(Record::Moved(Moved {
            subscription: id,
            deliveries: vec![delivery],
        }))
    }

    /// A new delivery is durable: it is due.
    pub(super) fn observe_resent(&mut self, resent: &ResentRecord) -> Result<(), StoreError> {
        let (id, seq, due) = (resent.subscription, resent.seq, resent.due);
        let owed = self.view.owed(id, due, seq)?;
        if let (Some(owed), Some(runner)) = (owed, self.runners.get_mut(&id)) {
            runner.metrics.note_resent();
            if !self.purges.has(id, seq) {
                runner.note_due(due, seq, owed);
            }
        }
        self.resend_is_durable(id, seq);
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }

    /// Deliveries are due at another time: some perhaps because they were brought forward.
    pub(super) fn observe_brought_forward(&mut self, moved: &Moved) {
        if self.resends.waiting.is_empty() {
            return;
        }
        for delivery in &moved.deliveries {
            let key = (moved.subscription, delivery.seq);
            let recent = self.resends.recent.get(&key);
            if recent.is_some_and(|recent| recent.asked == delivery.due) {
                self.resend_is_durable(key.0, key.1);
            }
        }
    }

    fn resend_is_durable(&mut self, id: SubscriptionId, seq: u64) {
        if let Some(recent) = self.resends.recent.get_mut(&(id, seq)) {
            recent.is_durable = true;
        }
        let waiting = &mut self.resends.waiting;
        for one in waiting.iter_mut().filter(|one| one.event.seq == seq) {
            one.left.retain(|left| *left != id);
        }
        while let Some(at) = waiting.iter().position(|one| one.left.is_empty()) {
            let done = waiting.swap_remove(at);
            self.view.unpin(done.event);
            reply(done.answer, Ok(done.report));
        }
    }

    /// Forgets who asked longer ago than a double click takes.
    fn forget_recent(&mut self) {
        let now = self.now();
        let recent = &mut self.resends.recent;
        recent.retain(|_, one| !one.is_durable || now.since(one.asked) < TWICE_WITHIN);
        if recent.len() > REMEMBERED_MAX {
            recent.retain(|_, one| !one.is_durable);
        }
    }

    /// Tells the history that somebody asked for it.
    fn remember_resend(&self, decision: &Decision, order: &ResendOrder, event: &StoredEvent) {
        let subscription = self.view.catalog().subscription(decision.id);
        let (Some(history), Some(subscription)) = (&self.context.history, subscription) else {
            return;
        };
        let now = self.now();
        history.record(HistoryRecord {
            kind: HistoryKind::Resent,
            event_id: order.event_id.clone(),
            topic: subscription.topic,
            topic_name: self.view.catalog().source_of(subscription).into(),
            subscription: decision.id,
            subscription_name: decision.name.as_str().into(),
            seq: order.position.seq,
            attempt: 0,
            published: event.published,
            started: now,
            ended: now,
            latency: Duration::ZERO,
            outcome: None,
            status: 0,
            detail: None,
            excerpt: None,
            to: None,
            next: HistoryNext::Due(now),
        });
    }
}
