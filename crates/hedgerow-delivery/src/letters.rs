//! The dead letters of one subscription that wait to be written: which are due, which are in the write under way. Holds
//! positions and times, never bytes (design D6).
//!
//! Decides what is written together (ED-246). Writes nothing; [`crate::engine`] does.

use std::collections::BTreeSet;

use hedgerow_core::limits;
use hedgerow_core::time::Timestamp;

use crate::runner::DueKey;

/// Dead letters of one subscription that are held in memory after a refill; up to twice as many before the latest ones
/// are let go again. More than deliveries: while a store is unavailable they must not hide what is due behind them.
pub(crate) const LETTERS_MAX: usize = 65_536;

/// The dead letters of one subscription.
#[derive(Default)]
pub(crate) struct Letters {
    due: BTreeSet<DueKey>,
    /// Those of a write that began, until the record of what became of it is durable.
    taken: BTreeSet<u64>,
    /// Whether a write is under way: there is one at a time.
    pub(crate) is_writing: bool,
    /// Whether the subscription stands in the queue of those that have something to write.
    pub(crate) is_queued: bool,
    /// Nothing is written before then: there was no room for it.
    rests_until: Option<Timestamp>,
}

impl Letters {
    /// Takes note of a row, unless it is being written.
    pub(crate) fn note(&mut self, row: DueKey) {
        if !self.taken.contains(&row.1) {
            self.due.insert(row);
        }
    }

    /// The row is gone, or stands elsewhere.
    pub(crate) fn drop_row(&mut self, due: Timestamp, seq: u64) {
        self.taken.remove(&seq);
        self.due.remove(&(due, seq));
    }

    /// Takes what is written together now.
    pub(crate) fn take_batch(&mut self, now: Timestamp) -> Vec<DueKey> {
        let mut batch = Vec::new();
        while batch.len() < limits::DEAD_LETTER_EVENTS_MAX && self.next_due() <= Some(now) {
            let Some(row) = self.due.pop_first() else {
                break;
            };
            self.taken.insert(row.1);
            batch.push(row);
        }
        batch
    }

    /// Puts back what was taken and found no room.
    pub(crate) fn put_back(&mut self, rows: Vec<DueKey>) {
        for row in rows {
            // A row that moved or went meanwhile is no longer among the taken ones.
            if self.taken.remove(&row.1) {
                self.due.insert(row);
            }
        }
    }

    /// Whether a write may begin now.
    pub(crate) fn is_ready(&self, now: Timestamp) -> bool {
        !self.is_writing && self.next_start().is_some_and(|at| at <= now)
    }

    /// When the next write may begin.
    pub(crate) fn next_start(&self) -> Option<Timestamp> {
        self.next_due()
            .max(self.rests_until.filter(|_| !self.due.is_empty()))
    }

    /// Begins no write before then. Returns whether it is the first rest since a write ended.
    pub(crate) fn rest(&mut self, until: Timestamp) -> bool {
        self.rests_until.replace(until).is_none()
    }

    /// There was room.
    pub(crate) fn end_rest(&mut self) {
        self.rests_until = None;
    }

    /// When the next one in memory is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|row| row.0)
    }

    /// How many are in memory.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Lets the latest ones go if they are too many; returns the last one that is left then.
    pub(crate) fn let_go_of_latest(&mut self) -> Option<DueKey> {
        if self.due.len() <= 2 * LETTERS_MAX {
            return None;
        }
        while self.due.len() > LETTERS_MAX {
            self.due.pop_last();
        }
        self.due.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// ED-246: at most 1,000 at a time, and only what is due.
    #[test]
    fn a_batch_is_what_is_due_together() {
        let mut letters = Letters::default();
        for seq in 0..1_500 {
            letters.note((at(5), seq));
        }
        letters.note((at(6), 9_999));
        assert!(!letters.is_ready(at(4)) && letters.take_batch(at(4)).is_empty());
        assert!(letters.is_ready(at(5)));
        assert_eq!(letters.take_batch(at(5)).len(), 1_000);
        let rest = letters.take_batch(at(5));
        assert_eq!((rest.len(), letters.len()), (500, 1));
    }

    #[test]
    fn what_is_taken_is_not_taken_again_before_its_record_is_durable() {
        let mut letters = Letters::default();
        letters.note((at(5), 1));
        letters.note((at(5), 2));
        let batch = letters.take_batch(at(5));
        letters.note((at(5), 1));
        assert_eq!(letters.len(), 0, "a refill finds the row still there");
        letters.put_back(batch[1..].to_vec());
        assert_eq!(letters.take_batch(at(5)).len(), 1);
        letters.drop_row(at(5), 1);
        letters.note((at(9), 1));
        assert_eq!(letters.next_due(), Some(at(9)));
    }
}
