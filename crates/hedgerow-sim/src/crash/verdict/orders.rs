//! What operators asked for, as far as it excuses something: which events a purge may have dropped, and which request of an
//! event may belong to another delivery because it was asked for again.

use std::collections::HashMap;

use super::super::ledger::{Entries, Exchange, Outcome, Pair, Purge, Resend};

/// What was asked for in a run.
#[derive(Debug)]
pub struct Orders<'a> {
    purges: &'a [Purge],
    /// Those that may have begun a delivery, in the order in which they were asked for.
    resends: HashMap<Pair, Vec<&'a Resend>>,
}

impl<'a> Orders<'a> {
    /// The orders of a ledger.
    pub fn new(entries: &'a Entries) -> Self {
        let mut resends: HashMap<Pair, Vec<&Resend>> = HashMap::new();
        for resend in &entries.resends {
            if resend.outcome != Outcome::Nothing {
                resends.entry(resend.pair).or_default().push(resend);
            }
        }
        Self {
            purges: &entries.purges,
            resends,
        }
    }

    /// Whether a purge, answered or not, may have dropped an event after its last request.
    pub fn may_have_purged(&self, pair: Pair, exchanges: &[Exchange]) -> bool {
        let last = exchanges.last();
        self.purges
            .iter()
            .any(|purge| purge.may_drop(pair) && last.is_none_or(|last| last.life <= purge.life))
    }

    /// A purge that was answered, and after which the event was attempted all the same. One attempt may run when it is, in that
    /// life: its request may come later than the answer.
    pub fn broken_purge(&self, pair: Pair, exchanges: &[Exchange]) -> Option<&'a Purge> {
        self.purges.iter().find(|purge| {
            let ended = purge.ended.unwrap_or(u64::MAX);
            let mut late = exchanges.iter().filter(|one| one.tick > ended);
            purge.must_drop(pair)
                && (late.clone().count() > 1 || late.any(|one| one.life != purge.life))
        })
    }

    /// How many more deliveries of an event were begun for certain, and how many perhaps.
    pub fn resent(&self, pair: Pair) -> (u64, u64) {
        let all = self.of(pair);
        let begun = all.iter().filter(|one| one.outcome == Outcome::Begun);
        let begun = begun.count();
        (begun as u64, (all.len() - begun) as u64)
    }

    /// Whether the event was taken in each delivery that was begun for certain. What was asked for had ended before, so that
    /// each has a success of its own, which came after it was asked for; the first delivery has one besides.
    pub fn are_taken(&self, pair: Pair, exchanges: &[Exchange]) -> bool {
        let taken_after = |tick: Option<u64>| {
            let after = exchanges
                .iter()
                .filter(|one| tick.is_none_or(|tick| one.tick > tick));
            after.filter(|one| one.is_success()).count()
        };
        let begun = self.of(pair).iter().rev();
        let begun = begun.filter(|one| one.outcome == Outcome::Begun);
        let asked = begun.map(|one| Some(one.asked)).chain([None]);
        (1..)
            .zip(asked)
            .all(|(count, asked)| taken_after(asked) >= count)
    }

    /// The resends of an event, each of which explains one delivery.
    pub fn excuses(&self, pair: Pair) -> Excuses<'a> {
        Excuses(self.of(pair).to_vec())
    }

    fn of(&self, pair: Pair) -> &[&'a Resend] {
        self.resends.get(&pair).map_or(&[], Vec::as_slice)
    }
}

/// Resends of one event that have explained nothing yet.
#[derive(Debug)]
pub struct Excuses<'a>(Vec<&'a Resend>);

impl Excuses<'_> {
    /// Whether a delivery may have begun between these two requests because somebody asked for it: if so, that is explained.
    pub fn take(&mut self, before: &Exchange, after: &Exchange) -> bool {
        let fits = |one: &&Resend| {
            one.asked < after.tick && one.ended.is_none_or(|ended| ended > before.tick)
        };
        let newest = self.0.iter().rposition(fits);
        newest.map(|at| self.0.remove(at)).is_some()
    }
}

impl Purge {
    /// Whether it may have dropped an event: it was published before the purge was answered, or before the life ended in which
    /// that was asked for.
    fn may_drop(&self, (subscription, id): Pair) -> bool {
        self.subscription == subscription && self.to_number.is_none_or(|to| id.number < to)
    }

    /// Whether it must have dropped what was still pending of an event: it was accepted before the purge was asked for.
    fn must_drop(&self, (subscription, id): Pair) -> bool {
        self.subscription == subscription
            && self.is_answered
            && self.accepted.binary_search(&id.number).is_ok()
    }
}
