//! What an ordered subscription knows beside: the keys of its deliveries, and those that wait for an earlier one of their key.
//! Its deliveries are begun without an attempt, so that one that waits keeps nobody of another key.

use std::collections::{BTreeSet, HashMap};

use hedgerow_core::filter::FilterEvent;
use hedgerow_core::limits;
use hedgerow_core::order::{Lines, OrderKey};
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::Progress;

use super::{DueKey, Next, Runner};

/// The order of one subscription.
#[derive(Default)]
pub(crate) struct Order {
    keys: OrderKeys,
    /// Everything that is not settled, as far as it was read.
    pub(super) lines: Lines,
    /// Rows of the due index that wait for an earlier delivery of their key.
    pub(super) parked: HashMap<u64, (Timestamp, Progress)>,
    /// Rows that are due at another time than they stand under.
    pub(super) ready: BTreeSet<u64>,
    /// Deliveries that are settled and still stand in their lines.
    ended: BTreeSet<u64>,
    /// Deliveries that were begun and are not settled.
    begun: usize,
    /// Whether it is still read which keys those have that were begun before the server started.
    pub(crate) is_unread: bool,
}

/// What orders the events of one subscription: a key for those from a number on; `None` for events without order.
#[derive(Debug, Clone, Default)]
pub(crate) struct OrderKeys(Vec<(u64, Option<OrderKey>)>);

impl Order {
    /// What orders its events.
    pub(crate) const fn keys(&self) -> &OrderKeys {
        &self.keys
    }
}

impl OrderKeys {
    fn at(&self, seq: u64) -> Option<&OrderKey> {
        let version = self.0.iter().rev().find(|(from, _)| *from <= seq);
        version.and_then(|(_, key)| key.as_ref())
    }

    /// The key of an event.
    pub(crate) fn key_of(&self, seq: u64, event: &FilterEvent<'_>) -> Option<u64> {
        self.at(seq)?.of(event)
    }

    /// Whether events with this number have keys.
    pub(crate) fn orders(&self, seq: u64) -> bool {
        self.at(seq).is_some()
    }
}

impl Runner {
    /// Takes over from which events on which key orders them.
    pub(crate) fn follow_ordering<'k>(
        &mut self,
        versions: impl Iterator<Item = (u64, Option<&'k str>)>,
    ) {
        let versions = versions.map(|(from, key)| (from, key.map(|key| OrderKey::new(key, from))));
        let versions: Vec<_> = versions.collect();
        if self.order.is_some() || versions.iter().any(|(_, key)| key.is_some()) {
            self.order.get_or_insert_default().keys = OrderKeys(versions);
        }
    }

    /// An event that is wanted stands in its line from now on.
    pub(crate) fn join_line(&mut self, seq: u64, event: &FilterEvent<'_>) {
        if let Some(order) = &mut self.order
            && let Some(key) = order.keys.key_of(seq, event)
        {
            order.lines.join(seq, key);
        }
    }

    /// Whether a delivery stands in a line.
    pub(crate) fn is_ordered(&self, seq: u64) -> bool {
        let order = self.order.as_ref();
        order.is_some_and(|order| order.lines.key(seq).is_some())
    }

    /// Whether a delivery waits for an earlier one of its key.
    pub(crate) fn must_wait_in_line(&self, seq: u64) -> bool {
        let order = self.order.as_ref();
        order.is_some_and(|order| order.lines.must_wait(seq))
    }

    /// Takes ordered deliveries that wait for their first attempt, so that they are begun without one; at most `count`.
    pub(crate) fn take_ordered(&mut self, count: usize) -> Vec<(u64, Timestamp)> {
        let may_begin = self.unbegun.is_empty() && self.gathering.is_none();
        let Some(order) = self.order.as_mut().filter(|_| may_begin) else {
            return Vec::new();
        };
        let room = limits::ORDERED_OPEN_MAX.saturating_sub(order.begun);
        let mut taken = Vec::new();
        while taken.len() < count.min(room)
            && let Some(first) = self.waiting.front()
            && order.lines.key(first.seq).is_some()
        {
            taken.push((first.seq, first.published));
            self.waiting.pop_front();
        }
        order.begun += taken.len();
        taken
    }

    /// Deliveries are begun without an attempt.
    pub(super) fn note_begun(&mut self, events: &[(u64, Timestamp)]) {
        if let Some(order) = &mut self.order {
            let ordered = events
                .iter()
                .filter(|(seq, _)| order.lines.key(*seq).is_some());
            order.begun += ordered.count();
        }
    }

    /// Puts a row among those that are due, or among those that wait for others of their key.
    pub(super) fn place(&mut self, key: DueKey, progress: Progress) {
        let (row, seq) = key;
        match &mut self.order {
            Some(order) if order.ready.contains(&seq) => {}
            Some(order) if order.lines.must_wait(seq) => {
                order.parked.insert(seq, (row, progress));
            }
            _ => drop(self.due.insert(key, progress)),
        }
    }

    /// A delivery is settled: it leaves its line once no attempt of it runs.
    pub(crate) fn end_in_line(&mut self, seq: u64) {
        if let Some(order) = &mut self.order
            && order.lines.key(seq).is_some()
        {
            order.ended.insert(seq);
        }
    }

    /// Lets deliveries leave their lines that are settled; who is first then is due, at its time or now. Returns the first time
    /// behind now of these: nobody else knows that it is waited for.
    pub(crate) fn follow_lines(&mut self, now: Timestamp) -> Option<Timestamp> {
        let mut first: Option<Timestamp> = None;
        loop {
            let flights = &self.flights;
            let Some(order) = &mut self.order else {
                return first;
            };
            let landed = order.ended.iter().find(|seq| !flights.contains_key(seq));
            let Some(seq) = landed.copied() else {
                return first;
            };
            order.ended.remove(&seq);
            order.parked.remove(&seq);
            order.begun = order.begun.saturating_sub(1);
            let next = order.lines.end(seq);
            let parked = next.and_then(|next| Some((next, order.parked.remove(&next)?)));
            match parked {
                Some((next, (row, progress))) if row > now => {
                    self.due.insert((row, next), progress);
                    first = Some(first.map_or(row, |first| first.min(row)));
                }
                Some((next, (row, progress))) => self.put_ready(now, (row, next), progress),
                None => {}
            }
        }
    }

    /// The keys are known of deliveries that were begun before the server started.
    pub(crate) fn take_keys(&mut self, keys: Vec<(u64, u64)>) {
        let Some(order) = &mut self.order else { return };
        order.is_unread = false;
        order.begun += keys.len();
        for (seq, key) in keys {
            order.lines.join(seq, key);
        }
        let due = std::mem::take(&mut self.due);
        for (key, progress) in due {
            self.place(key, progress);
        }
        let ready = std::mem::take(&mut self.ready);
        for (order, (row, progress)) in ready {
            if let Some(lines) = &mut self.order {
                lines.ready.remove(&order.seq);
            }
            if self.must_wait_in_line(order.seq) {
                self.place((row, order.seq), progress);
            } else {
                self.put_ready(order.due, (row, order.seq), progress);
            }
        }
    }

    /// Those behind `first` in its line that may travel with it, in order, until one may not.
    pub(super) fn behind_in_line(
        &self,
        first: &Next,
        now: Timestamp,
        is_alike: impl Fn(&Next) -> bool,
    ) -> Vec<Next> {
        let Some(order) = &self.order else {
            return Vec::new();
        };
        let behind = order.lines.behind(first.seq).map_while(|seq| {
            let (row, progress) = *order.parked.get(&seq)?;
            let next = Next {
                seq,
                published: progress.published,
                due: now,
                row: Some(row),
                progress: Some(progress),
            };
            (row <= now && is_alike(&next)).then_some(next)
        });
        behind.collect()
    }

    /// Forgets deliveries of events before `to_seq` that are dropped.
    pub(super) fn purge_lines(&mut self, to_seq: u64) {
        if let Some(order) = &mut self.order {
            order.parked.retain(|seq, _| *seq >= to_seq);
            order.ready.retain(|seq| *seq >= to_seq);
            order.ended.extend(order.lines.before(to_seq));
        }
    }
}
