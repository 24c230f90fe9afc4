//! Deliveries of one subscription that are being made into batches: taken out of the line, and not started yet. One task makes
//! them at a time, so that events are begun in their order.

use hedgerow_core::batch::Alike;
use hedgerow_core::time::Timestamp;
use tokio::task::AbortHandle;

use super::{Next, Runner};
use crate::endpoints::Seat;

/// Rows of the due index that are looked at for one batch at most: those that may not travel in it are passed over.
const LOOK_MAX: usize = 4_096;

/// Batches that are being made.
pub(crate) struct Gathering {
    /// Which of the subscription's.
    pub(crate) token: u64,
    /// Those that did not start, in the order in which they are due.
    candidates: Vec<Next>,
    /// Their numbers, ascending.
    seqs: Vec<u64>,
    /// For the first batch.
    pub(crate) seat: Option<Seat>,
    pub(crate) abort: AbortHandle,
}

impl Gathering {
    pub(crate) fn new(token: u64, candidates: Vec<Next>, seat: Seat, abort: AbortHandle) -> Self {
        let mut seqs: Vec<u64> = candidates.iter().map(|next| next.seq).collect();
        seqs.sort_unstable();
        Self {
            token,
            seqs,
            candidates,
            seat: Some(seat),
            abort,
        }
    }

    pub(crate) fn has(&self, seq: u64) -> bool {
        self.seqs.binary_search(&seq).is_ok()
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&Next> {
        self.candidates.iter().find(|next| next.seq == seq)
    }

    /// The deliveries among them that were never begun.
    pub(crate) fn unbegun(&self) -> impl Iterator<Item = &Next> {
        self.candidates.iter().filter(|next| next.row.is_none())
    }

    /// Whether a delivery that was never begun is left over, and one behind it starts that was never begun either.
    pub(crate) fn passes_over(&self, started: &[u64]) -> bool {
        let mut wanted = started.iter().copied().peekable();
        let mut is_anybody_left = false;
        for next in &self.candidates {
            let starts = wanted.next_if_eq(&next.seq).is_some();
            match next.row {
                None if !starts => is_anybody_left = true,
                None if is_anybody_left => return true,
                Some(_) | None => {}
            }
        }
        false
    }

    /// Takes the deliveries out that start, which are given in their order.
    pub(crate) fn take(&mut self, started: &[u64]) -> Vec<Next> {
        let mut wanted = started.iter().copied().peekable();
        let candidates = std::mem::take(&mut self.candidates).into_iter();
        let (started, left): (Vec<_>, Vec<_>) =
            candidates.partition(|next| wanted.next_if_eq(&next.seq).is_some());
        let mut gone = started.iter().map(|next| next.seq).collect::<Vec<_>>();
        gone.sort_unstable();
        self.seqs.retain(|seq| gone.binary_search(seq).is_err());
        self.candidates = left;
        started
    }

    /// Takes it apart: the deliveries that did not start, and the seat of the first batch if that did not.
    pub(crate) fn into_rest(self) -> (Vec<Next>, Option<Seat>) {
        (self.candidates, self.seat)
    }
}

impl Runner {
    /// Takes the deliveries that are due and may travel with `first`, which was taken before, in the order in which they are due
    /// and `first` among them, at most `count`: those with as many attempts and, if it is of a batch that came apart, of the
    /// same part (ED-216, ED-220). Those that end without an attempt stay.
    pub(crate) fn take_alike(
        &mut self,
        first: Next,
        now: Timestamp,
        count: usize,
        ends: impl Fn(&Next) -> bool,
    ) -> Vec<Next> {
        let alike = |next: &Next| Alike {
            attempts: next.attempts(),
            group: self.parts.get(&next.seq).copied(),
            headers: self
                .order
                .as_ref()
                .and_then(|order| order.lines.key(next.seq)),
        };
        let of_first = alike(&first);
        let mut taken = vec![first];
        if count <= 1 {
            return taken;
        }
        let is_alike = |next: &Next| alike(next) == of_first && !ends(next);
        if of_first.headers.is_some() {
            let mut behind = self.behind_in_line(&first, now, is_alike);
            behind.truncate(count - 1);
            for next in &behind {
                self.take(next);
            }
            taken.append(&mut behind);
            return taken;
        }
        let ready = self.ready.iter().take(LOOK_MAX).map(Self::next_ready);
        let due = self.due.iter().take(LOOK_MAX).map(Self::next_retry);
        let rows = ready
            .take_while(|next| next.due <= now)
            .chain(due.take_while(|next| next.due <= now));
        let mut rows: Vec<Next> = rows.filter(is_alike).take(count).collect();
        let may_begin =
            of_first.attempts == 0 && of_first.group.is_none() && self.unbegun.is_empty();
        let waiting = self.waiting.iter().filter(|_| may_begin);
        let waiting = waiting.map(|waiting| self.unattempted(*waiting));
        // They are begun in their order: the first that may not travel keeps those behind it.
        let waiting = waiting
            .take_while(|next| next.due <= now && is_alike(next))
            .take(count);
        if rows.is_empty() {
            rows = waiting.take(count - 1).collect();
        } else {
            rows.extend(waiting);
            rows.sort_unstable_by_key(Next::order);
            rows.truncate(count - 1);
        }
        for next in &rows {
            self.take(next);
        }
        taken.append(&mut rows);
        taken
    }

    /// Puts deliveries back that were taken and did not start.
    pub(crate) fn put_back(&mut self, left: Vec<Next>) {
        for next in left.into_iter().rev() {
            match (next.row, next.progress) {
                (Some(row), Some(progress)) if self.must_wait_in_line(next.seq) => {
                    self.place((row, next.seq), progress);
                }
                (Some(row), Some(progress)) if row == next.due => {
                    self.due.insert((row, next.seq), progress);
                }
                (Some(row), Some(progress)) => self.put_ready(next.due, (row, next.seq), progress),
                _ => self.put_first(&next),
            }
        }
    }

    /// The deliveries that are being made into batches and were never begun.
    pub(crate) fn gathering_unbegun(&self) -> usize {
        let gathering = self.gathering.as_ref();
        gathering.map_or(0, |gathering| gathering.unbegun().count())
    }
}
