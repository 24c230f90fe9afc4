//! Rows of the due index of one subscription that are held in memory: what came back durable, what is fetched, what is let go.

use std::collections::VecDeque;

use hedgerow_core::hold::DueOrder;
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::{IN_FLIGHT, Owed, Progress};
use hedgerow_store::view::DueDelivery;

use super::{DUE_ROWS_MAX, DueKey, Runner, Waiting};

impl Runner {
    /// Takes rows that were held: those that became due before the end of the newest hold. Each with the row it stands under
    /// and when it became due.
    pub(crate) fn take_held(&mut self, count: usize) -> Vec<(DueKey, Timestamp, Progress)> {
        let mut taken = Vec::new();
        let until = self.held.until;
        while taken.len() < count
            && let Some(first) = self.due.first_entry()
            && first.key().0 < until
        {
            let ((due, seq), progress) = first.remove_entry();
            taken.push(((due, seq), due, progress));
        }
        while taken.len() < count
            && let Some(first) = self.ready.first_entry()
            && first.key().due < until
        {
            let (order, (row, progress)) = first.remove_entry();
            if let Some(lines) = &mut self.order {
                lines.ready.remove(&order.seq);
            }
            taken.push(((row, order.seq), order.due, progress));
        }
        taken
    }

    /// Whether something may have been held by the newest hold and did not end since.
    pub(crate) fn owes_held(&self) -> bool {
        let waiting = self.waiting.front();
        let is_waiting = waiting.is_some_and(|waiting| waiting.published < self.held.until);
        self.has_held() || is_waiting || self.behind_at.is_some()
    }

    /// Whether there are such rows left in memory.
    pub(crate) fn has_held(&self) -> bool {
        let first = self.due.first_key_value().map(|(key, _)| key.0);
        let ready = self.ready.first_key_value().map(|(order, _)| order.due);
        first
            .into_iter()
            .chain(ready)
            .any(|due| due < self.held.until)
    }

    /// A row that was held is due now, at another time than it stands under.
    pub(crate) fn put_ready(&mut self, due: Timestamp, (row, seq): DueKey, progress: Progress) {
        let order = DueOrder {
            due,
            published: progress.published,
            seq,
        };
        self.ready.insert(order, (row, progress));
        if let Some(order) = &mut self.order {
            order.ready.insert(seq);
        }
    }

    pub(super) fn drop_ready(&mut self, row: Timestamp, seq: u64) {
        if row != IN_FLIGHT && !self.ready.is_empty() {
            self.ready
                .retain(|order, (stands, _)| order.seq != seq || *stands != row);
        }
    }

    /// When the next delivery in memory is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first_key_value().map(|(key, _)| key.0)
    }

    /// Takes note of a row of the due index that became durable, if it lies within the horizon.
    pub(crate) fn note_due(&mut self, due: Timestamp, seq: u64, owed: Owed) {
        if let (Some(expiries), Some(progress)) = (&mut self.expiries, owed.attempt()) {
            expiries.note((due, seq), progress);
        }
        if (due, seq) <= self.horizon {
            self.put((due, seq), owed);
            self.let_go_of_latest();
        }
    }

    /// The part of a batch that came apart in which a delivery in memory travels.
    pub(crate) fn part(&self, seq: u64) -> Option<u64> {
        self.parts.get(&seq).copied()
    }

    fn put(&mut self, key: DueKey, owed: Owed) {
        match owed {
            Owed::Attempt(progress) => {
                if !self.parts.is_empty() {
                    self.parts.remove(&key.1);
                }
                self.place(key, progress);
            }
            Owed::Apart(progress, part) => {
                self.parts.insert(key.1, part);
                self.place(key, progress);
            }
            Owed::DeadLetter(_) => self.letters.note(key),
        }
    }

    /// The delivery that stood under this row is final.
    pub(crate) fn drop_due(&mut self, due: Timestamp, seq: u64) {
        self.due.remove(&(due, seq));
        self.parts.remove(&seq);
        if let Some(order) = &mut self.order {
            order.parked.remove(&seq);
            order.ready.remove(&seq);
        }
        self.drop_ready(due, seq);
        self.drop_expiry(seq);
        self.letters.drop_row(due, seq);
    }

    /// Where a refill goes on, `None` if everything is in memory.
    pub(crate) fn horizon(&self) -> Option<DueKey> {
        (self.horizon.0 < Timestamp::MAX).then_some(self.horizon)
    }

    /// Adds the rows that follow the horizon, and moves it.
    pub(crate) fn refill(&mut self, rows: Vec<DueDelivery>, horizon: DueKey) {
        for row in rows {
            // Its attempt began, and the record of that is on its way, or it is about to.
            let gathering = self.gathering.as_ref();
            let is_gathered = gathering.is_some_and(|gathering| gathering.has(row.seq));
            if !is_gathered && !self.flights.contains_key(&row.seq) {
                self.put((row.due, row.seq), row.owed);
            }
        }
        self.horizon = self.horizon.max(horizon);
        self.let_go_of_latest();
    }

    fn let_go_of_latest(&mut self) {
        if let Some(last) = self.letters.let_go_of_latest() {
            self.horizon = self.horizon.min(last);
        }
        if self.due.len() <= 2 * DUE_ROWS_MAX {
            return;
        }
        while self.due.len() > DUE_ROWS_MAX {
            let latest = self.due.pop_last();
            // Its row in the view knows.
            if let Some(((_, seq), _)) = latest.filter(|_| !self.parts.is_empty()) {
                self.parts.remove(&seq);
            }
        }
        if let Some((last, _)) = self.due.last_key_value() {
            self.horizon = self.horizon.min(*last);
        }
    }

    /// Forgets what waits for its first attempt, and what waits for another one of events before `to_seq`; what is in flight
    /// and dead letters stay. Returns the first ones.
    pub(crate) fn purge(&mut self, to_seq: u64) -> Vec<u64> {
        self.due.retain(|(_, seq), _| *seq >= to_seq);
        self.parts.retain(|seq, _| *seq >= to_seq);
        self.purge_lines(to_seq);
        self.ready.retain(|order, _| order.seq >= to_seq);
        if let Some(expiries) = &mut self.expiries {
            expiries.retain(|seq| seq >= to_seq);
        }
        let waiting = std::mem::take(&mut self.waiting);
        let (purged, stays) = waiting.into_iter().partition(|one| one.seq < to_seq);
        self.waiting = stays;
        let purged: VecDeque<Waiting> = purged;
        purged.into_iter().map(|waiting| waiting.seq).collect()
    }
}
