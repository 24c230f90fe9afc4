//! What travels together, and what becomes of a batch that comes apart (ED-211 to ED-221).

use hedgerow_core::batch::{AnswerSettings, Division};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::{Divided, Moved, Started};

use super::{Oracle, at};
use crate::model::State;
use crate::rules;

impl Oracle {
    /// Why what starts together may not.
    pub(super) fn wrong_batch(&self, started: &Started) -> Option<String> {
        let subscription = self.live.subscriptions.get(&started.subscription)?;
        let events = started.deliveries.len();
        let limits = subscription.spec.batch.limits();
        let events_max = limits.map_or(1, |limits| limits.events_max);
        if events == 0 || events > events_max {
            return Some(format!(
                "ED-211, ED-212: {events} travel together, {events_max} may"
            ));
        }
        let mut kinds: Vec<_> = started
            .deliveries
            .iter()
            .map(|one| {
                let known = subscription.deliveries.get(&one.seq);
                (one.progress.attempts, known.and_then(|known| known.part))
            })
            .collect();
        kinds.dedup();
        if kinds.len() > 1 {
            return Some(format!(
                "ED-220, ED-221: attempts and parts of one batch are {kinds:?}"
            ));
        }
        let mut seqs: Vec<u64> = started.deliveries.iter().map(|one| one.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        (seqs.len() < events).then(|| "an event is twice in one batch".to_owned())
    }

    /// A batch comes apart: all of it that was not delivered, in the right parts, because of an answer for which that was
    /// asked, at once, and without counting.
    pub(super) fn judge_division(&mut self, now: Timestamp, divided: &Divided) {
        let wrong = self.wrong_division(now, divided);
        if let Some(wrong) = wrong {
            let first = divided.deliveries.first().map_or(0, |one| one.seq);
            let name = self.name(divided.subscription, first);
            self.fail(format!(
                "ED-221: the batch of {name} comes apart: {wrong}: {divided:?}"
            ));
        }
    }

    /// What came apart stays apart when it is due at another time.
    pub(super) fn judge_move(&mut self, moved: &Moved) {
        let Some(subscription) = self.live.subscriptions.get(&moved.subscription) else {
            return;
        };
        let wrong = moved.deliveries.iter().find(|one| {
            let known = subscription.deliveries.get(&one.seq);
            known.is_some_and(|known| known.part != one.part)
        });
        if let Some(wrong) = wrong {
            let name = self.name(moved.subscription, wrong.seq);
            self.fail(format!(
                "ED-221: {name} is moved to another part: {moved:?}"
            ));
        }
    }

    fn wrong_division(&self, now: Timestamp, divided: &Divided) -> Option<String> {
        let id = divided.subscription;
        let first = divided.deliveries.first()?.seq;
        let Some(exchange) = self.exchanges_of(id, first).next() else {
            return Some("it was never begun".to_owned());
        };
        if exchange.is_unclear {
            return None;
        }
        let Some((status, answered)) = exchange.answered else {
            return Some("nobody answered it".to_owned());
        };
        let Some(division) = self.division(id, exchange.answers, exchange.seqs.len(), status)
        else {
            return Some(format!("nobody asked for that on {status}"));
        };
        let flying = exchange.seqs.iter().filter(|seq| {
            let delivery = self.live.delivery(id, **seq);
            delivery.is_some_and(|delivery| delivery.state == State::Flying)
        });
        let flying: Vec<u64> = flying.copied().collect();
        let found: Vec<u64> = divided.deliveries.iter().map(|one| one.seq).collect();
        if flying != found {
            return Some(format!("{flying:?} were in flight"));
        }
        let parts = division.parts(exchange.seqs.len());
        let part_of = |seq: u64| {
            let place = exchange.seqs.iter().position(|one| *one == seq);
            parts
                .iter()
                .position(|part| part.contains(&place.unwrap_or(0)))
        };
        for one in &divided.deliveries {
            let together = divided
                .deliveries
                .iter()
                .filter(|other| other.part == one.part);
            let belong = divided.deliveries.iter();
            let belong = belong.filter(|other| part_of(other.seq) == part_of(one.seq));
            if !together.map(|one| one.seq).eq(belong.map(|one| one.seq)) {
                return Some(format!("number {} is in a wrong part", one.seq));
            }
            if one.progress.attempts != exchange.count {
                return Some(format!(
                    "{} attempts of {} count",
                    one.progress.attempts, one.seq
                ));
            }
            if one.due > now || one.due < answered {
                return Some(format!("number {} is due at {}", one.seq, at(one.due)));
            }
        }
        None
    }

    /// How a batch of so many events has to come apart that was answered this.
    pub(super) fn division(
        &self,
        id: SubscriptionId,
        answers: AnswerSettings,
        events: usize,
        status: u16,
    ) -> Option<Division> {
        let overrides = &self.live.subscriptions.get(&id)?.spec.overrides;
        let is_final = rules::is_final_for(overrides, status);
        if events < 2 {
            None
        } else if status == 413 && answers.split_on_413 {
            Some(Division::Halves)
        } else {
            (is_final && answers.isolate_on_final).then_some(Division::OneByOne)
        }
    }

    /// Why this answer does not end the attempt of this delivery, if it does not: its receiver took it, or its batch has to
    /// come apart.
    pub(super) fn wrong_failure(
        &self,
        id: SubscriptionId,
        seq: u64,
        status: u16,
    ) -> Option<String> {
        let exchange = self.exchanges_of(id, seq).next()?;
        if self.is_unclear(id, seq) {
            return None;
        }
        if rules::is_success(status) && exchange.takes(seq) {
            return Some("it failed, and its receiver took it".to_owned());
        }
        let events = exchange.seqs.len();
        let division = self.division(id, exchange.answers, events, status)?;
        Some(format!(
            "ED-221: it ends with a batch of {events} that was to come apart, as {division:?}"
        ))
    }
}
