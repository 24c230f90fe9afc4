//! What goes on while a subscription is paused: nothing is attempted, and what it owes expires (ED-203).

use std::collections::BTreeSet;

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;

use super::{Engine, Phase};
use crate::expiries::Expiries;

/// Rows of the due index that one turn looks at, for all paused subscriptions together.
const ROWS_PER_TURN: usize = 4_096;

/// Paused subscriptions whose due index is to be looked through.
pub(super) type Pauses = BTreeSet<SubscriptionId>;

impl Engine {
    /// Begins or ends to look for what expires, as the subscription is paused now or not.
    pub(super) fn follow_pause(&mut self, id: SubscriptionId) {
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        runner.follow_pause();
        self.pauses.remove(&id);
        self.want_a_look(id);
    }

    /// Lets the due index of a subscription be looked through, if it is paused and something in it was not looked at.
    pub(super) fn want_a_look(&mut self, id: SubscriptionId) {
        let runner = self.runners.get(&id);
        let expiries = runner.and_then(|runner| runner.expiries.as_ref());
        if expiries.is_some_and(Expiries::wants_a_look) {
            self.pauses.insert(id);
        }
    }

    /// Looks through a part of the due index for what expires first. Returns whether there is more to look at at once.
    pub(super) fn look_for_expiries(&mut self) -> Result<bool, StoreError> {
        let mut rows_left = ROWS_PER_TURN;
        while self.phase == Phase::Running
            && rows_left > 0
            && let Some(id) = self.pauses.first().copied()
        {
            let looked_at = self.look_through(id, rows_left)?;
            rows_left -= looked_at;
        }
        Ok(self.phase == Phase::Running && !self.pauses.is_empty())
    }

    /// Looks at up to `count` rows of one subscription. Returns how many there were.
    fn look_through(&mut self, id: SubscriptionId, count: usize) -> Result<usize, StoreError> {
        let runner = self.runners.get(&id);
        let expiries = runner.and_then(|runner| runner.expiries.as_ref());
        let Some(after) = expiries.and_then(Expiries::looked_to) else {
            self.pauses.remove(&id);
            return Ok(0);
        };
        let rows = self.view.due(id, after, Timestamp::MAX, count)?;
        let last = rows.last().map(|last| (last.due, last.seq));
        let last = last.filter(|_| rows.len() == count);
        let looked_at = rows.len();
        let open: Vec<_> = rows
            .into_iter()
            .filter(|row| self.view.is_open(id, row.seq) && !self.is_purged(id, row.seq))
            .filter(|row| !self.resends.is_on_its_way(id, row.seq))
            .filter_map(|row| Some(((row.due, row.seq), row.attempt()?)))
            .collect();
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.note_expiries(open, last);
        }
        if last.is_none() {
            self.pauses.remove(&id);
            self.queue_if_ready(id)?;
        }
        Ok(looked_at)
    }
}
