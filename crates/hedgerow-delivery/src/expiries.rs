//! Which retries of a paused subscription expire next (ED-203): while it is paused their slots say nothing, but their time to
//! live runs.
//!
//! The due index is in the order of slots, so all its rows are looked through once, a part at a time, and those that were
//! published first are kept. When these have expired it is looked through again.
//!
//! ```text
//!             all rows were looked at             the kept ones expired, and others had been left out
//!  Looking ───────────────────────────▶ Looked ──────────────────────────────────────────────────────▶ Looking
//! ```

use std::collections::BTreeMap;

use hedgerow_core::time::Timestamp;
use hedgerow_store::record::Progress;
use hedgerow_store::view::BEHIND_IN_FLIGHT;

use crate::runner::{DUE_ROWS_MAX, DueKey, Next};

/// Retries that are kept.
const KEPT_MAX: usize = DUE_ROWS_MAX;

/// The retries of one paused subscription that were published first.
pub(crate) struct Expiries {
    /// By when they were published and their number, with the row that each stands under.
    first: BTreeMap<DueKey, (Timestamp, Progress)>,
    /// Up to which row the due index was looked at; `None` if all of it was.
    looked_to: Option<DueKey>,
    /// Some were left out, which were published later than all that are kept.
    is_cut: bool,
}

impl Expiries {
    pub(crate) fn new() -> Self {
        Self {
            first: BTreeMap::new(),
            looked_to: Some(BEHIND_IN_FLIGHT),
            is_cut: false,
        }
    }

    /// Behind which row to look on, if there is something to look at.
    pub(crate) fn looked_to(&self) -> Option<DueKey> {
        if self.first.is_empty() && self.is_cut {
            return Some(BEHIND_IN_FLIGHT);
        }
        self.looked_to
    }

    /// Whether there is something to look at.
    pub(crate) fn wants_a_look(&self) -> bool {
        self.looked_to().is_some()
    }

    /// Takes note of rows that were looked at: those behind [`Expiries::looked_to`] up to `last`, or all of them.
    pub(crate) fn note_looked_at(
        &mut self,
        rows: impl Iterator<Item = (DueKey, Progress)>,
        last: Option<DueKey>,
    ) {
        if self.first.is_empty() {
            // Whoever was left out is among those that are looked at from here on.
            self.is_cut = false;
        }
        rows.for_each(|(key, progress)| self.note(key, progress));
        self.looked_to = last;
    }

    /// Takes note of a row. A delivery stands under one at a time.
    pub(crate) fn note(&mut self, (row, seq): DueKey, progress: Progress) {
        let key = (progress.published, seq);
        let last = self.first.last_key_value().map(|(key, _)| *key);
        if self.is_cut && last.is_none_or(|last| key > last) {
            return;
        }
        self.first.insert(key, (row, progress));
        if self.first.len() > KEPT_MAX {
            self.first.pop_last();
            self.is_cut = true;
        }
    }

    /// Forgets deliveries that stand under other rows now, or are final.
    pub(crate) fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        self.first.retain(|(_, seq), _| stays(*seq));
    }

    pub(crate) fn remove(&mut self, published: Timestamp, seq: u64) {
        self.first.remove(&(published, seq));
    }

    /// The one that expires first of those that are known.
    pub(crate) fn first(&self) -> Option<Next> {
        let ((published, seq), (row, progress)) = self.first.first_key_value()?;
        Some(Next {
            seq: *seq,
            published: *published,
            due: *row,
            row: Some(*row),
            progress: Some(*progress),
        })
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_core::outcome::Outcome;

    use super::*;

    fn progress(published: u64) -> Progress {
        let published = Timestamp::from_millis(published);
        Progress {
            published,
            attempts: 1,
            first_attempt: published,
            last_attempt: published,
            last_outcome: Outcome::Busy,
            last_status: 503,
            crashes: 0,
            crash_epoch: 0,
        }
    }

    /// Expires all that are kept, and says which.
    fn expire(expiries: &mut Expiries) -> Vec<u64> {
        let next = || {
            let next = expiries.first()?;
            expiries.remove(next.published, next.seq);
            Some(next.seq)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn the_first_are_kept_and_the_others_are_looked_for_again() {
        let count = 2 * KEPT_MAX as u64 + 10;
        let mut expiries = Expiries::new();
        let mut expected = 0..count;
        let mut passes = 0;
        while expiries.wants_a_look() {
            passes += 1;
            // The later a row, the earlier its event.
            let row = |seq| Timestamp::from_millis(1_000_000 - seq);
            let rows = expected.clone().map(|seq| ((row(seq), seq), progress(seq)));
            expiries.note_looked_at(rows, None);
            for seq in expire(&mut expiries) {
                assert_eq!(expected.next(), Some(seq));
            }
        }
        assert_eq!((expected.next(), passes), (None, 3));
    }

    #[test]
    fn what_comes_later_than_those_left_out_waits_for_the_next_look() {
        let mut expiries = Expiries::new();
        let row = Timestamp::from_millis(5);
        let rows = (0..=KEPT_MAX as u64).map(|seq| ((row, seq), progress(10 + 2 * seq)));
        expiries.note_looked_at(rows, None);
        let late = 10_000_000;
        expiries.note((row, late), progress(late));
        let early = 10_000_001;
        expiries.note((row, early), progress(1));
        let expired = expire(&mut expiries);
        assert_eq!(expired.first(), Some(&early));
        assert!(!expired.contains(&late));
        assert!(expiries.wants_a_look());
    }

    #[test]
    fn a_delivery_stands_under_its_newest_row() {
        let mut expiries = Expiries::new();
        for row in [7, 9] {
            expiries.note((Timestamp::from_millis(row), 1), progress(3));
        }
        let next = expiries.first().unwrap();
        assert_eq!(next.row, Some(Timestamp::from_millis(9)));
        expiries.retain(|seq| seq != 1);
        assert_eq!(expiries.first(), None);
    }
}
