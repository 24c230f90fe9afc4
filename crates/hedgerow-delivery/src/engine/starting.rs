//! Which delivery starts next: whether a subscription has one that may, and whose turn it is after a window (ED-203, ED-208,
//! ED-228, ED-238).

use std::sync::Arc;

use hedgerow_core::hold::{DueOrder, Gate};
use hedgerow_core::limits;
use hedgerow_core::outcome::DeadLetterReason;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry;
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;

use super::{Engine, Phase};
use crate::endpoints::Seat;
use crate::plan::To;
use crate::runner::{Next, Runner};
use crate::windows::EndpointKey;

impl Engine {
    /// Lets a subscription stand in line if it has something to start now.
    pub(super) fn queue_if_ready(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        if self.phase != Phase::Running || !self.runners.contains_key(&id) {
            return Ok(());
        }
        self.follow_lines(id)?;
        self.move_held(id)?;
        let now = self.now();
        let Some(runner) = self.runners.get(&id) else {
            return Ok(());
        };
        if runner.plan.expiration.is_some_and(|at| at <= now) {
            // It goes, with what it is owed.
            return Ok(());
        }
        let Some(next) = self.first_due(runner) else {
            // The log may have stamped an event later than this turn began.
            if let Some(due) = runner.first_attempt_due().filter(|due| *due > now) {
                self.wakes.insert((due, id));
            }
            return Ok(());
        };
        if self.why_it_ends(runner, &next).is_some() {
            self.queue_ending(id);
            return Ok(());
        }
        if runner.plan.is_paused {
            // Then its time is over (ED-203), and the next one's may be looked for.
            let over = next.published.plus(runner.plan.policy.event_time_to_live);
            self.wakes.insert((over, id));
            return Ok(());
        }
        let may_start = match self.gate(runner) {
            Gate::Open | Gate::Trial => true,
            Gate::OnTrial | Gate::Held(_) => false,
        };
        let may_start = may_start && self.may_begin(runner, None);
        if may_start && !self.is_resting(runner, next.due, now) {
            self.queue(id);
        } else if may_start {
            self.rest_for_release(id, next.due);
        }
        Ok(())
    }

    fn queue(&mut self, id: SubscriptionId) {
        if let Some(runner) = self.runners.get_mut(&id)
            && !runner.is_queued
        {
            runner.is_queued = true;
            match &runner.plan.to {
                To::Endpoint { endpoint, .. } => self.endpoints.queue(endpoint, id),
                To::Group(_) => self.endpoints.queue_for_group(id),
            }
        }
    }

    /// The delivery that is first in order and due. On a hold that is what was held first, and in a pause what expires first.
    pub(super) fn first_due(&self, runner: &Runner) -> Option<Next> {
        if runner.plan.is_paused {
            runner.first_to_expire()
        } else if let Gate::Held(_) = self.gate(runner) {
            runner.first_held(self.now())
        } else {
            runner.first_due(self.now())
        }
    }

    /// Why a delivery that is due ends without another attempt, if it does.
    pub(super) fn why_it_ends(&self, runner: &Runner, next: &Next) -> Option<DeadLetterReason> {
        if runner.plan.blocks {
            return None;
        }
        let now = self.now();
        // What became due while the server was away is due now (ED-208), and judged by that time. During a hold nothing
        // expires (ED-228), but while paused it does at its time (ED-203).
        let due = if runner.plan.is_paused {
            now
        } else if let Gate::Held(_) = self.gate(runner) {
            let settings = runner.plan.probation.with(self.settings.probation);
            return runner.probation.ends_due(&settings, now);
        } else {
            retry::after_restart(next.due, self.stopped, self.began)
        };
        retry::is_expired(&runner.plan.policy, next.published, due)
            .then_some(DeadLetterReason::TimeToLiveExceeded)
    }

    /// The delivery that starts when it is the subscription's turn, and what it carries. After a window it may be another
    /// subscription's: the trial is the endpoint's (ED-238).
    pub(super) fn take_turn(&mut self, seated: SubscriptionId) -> Option<(SubscriptionId, Next)> {
        let now = self.now();
        let id = seated;
        let runner = self.runners.get(&id)?;
        let id = match self.gate(runner) {
            Gate::Trial if self.is_window_over(runner) => {
                self.first_at(&runner.plan.delayed_at, id)?
            }
            Gate::Open | Gate::Trial => id,
            Gate::OnTrial | Gate::Held(_) => return None,
        };
        let next = self.startable(id, seated)?.1;
        let runner = self.runners.get(&id)?;
        if self.is_resting(runner, next.due, now) {
            self.rest_for_release(id, next.due);
            return None;
        }
        let endpoint = Arc::clone(&runner.plan.delayed_at);
        if let Some(endpoint) = self.windows.get_mut(&endpoint) {
            endpoint.window.note_start(next.due, now);
        }
        self.runners.get_mut(&id)?.take(&next);
        Some((id, next))
    }

    /// A seat for the next batch of a row, which begins with this delivery: taken beside the line, and so only where nobody stands
    /// in it.
    pub(super) fn take_seat_for_next(&mut self, id: SubscriptionId, first: &Next) -> Option<Seat> {
        let now = self.now();
        let runner = self.runners.get(&id)?;
        let records = self.store.record_room();
        if records.queued_bytes >= limits::JOURNAL_QUEUE_BYTES_MAX
            || self.gate(runner) != Gate::Open
            || !self.allows_another(runner, None)
            || self.is_resting(runner, first.due, now)
        {
            return None;
        }
        let delayed_at = &runner.plan.delayed_at;
        // An origin is chosen for each batch, in the line for that.
        let To::Endpoint {
            endpoint: target, ..
        } = &runner.plan.to
        else {
            return None;
        };
        let room = self.room_for_attempts(records.room_bytes);
        let seat = self.endpoints.seat_beside(target, id, self.turn, room)?;
        if let Some(endpoint) = self.windows.get_mut(delayed_at) {
            endpoint.window.note_start(first.due, now);
        }
        Some(seat)
    }

    /// What the subscription would start now that another one, or itself, has a seat.
    pub(super) fn startable(
        &self,
        id: SubscriptionId,
        seated: SubscriptionId,
    ) -> Option<(DueOrder, Next)> {
        let runner = self.runners.get(&id)?;
        let is_free = matches!(self.gate(runner), Gate::Open | Gate::Trial);
        if !is_free || !self.may_begin(runner, Some(seated)) || runner.plan.is_paused {
            return None;
        }
        let next = runner.first_due(self.now())?;
        let order = DueOrder {
            due: next.due,
            published: next.published,
            seq: next.seq,
        };
        self.why_it_ends(runner, &next)
            .is_none()
            .then_some((order, next))
    }

    /// Whether another attempt may begin, and no batch is being made.
    fn may_begin(&self, runner: &Runner, seated: Option<SubscriptionId>) -> bool {
        runner.gathering.is_none() && self.allows_another(runner, seated)
    }

    /// Whether its limits allow another attempt: what may wait to be settled, how many its endpoint takes (ED-167), and how
    /// many it asks for itself. The seat that the attempt would have may be taken already, by the subscription that is `seated`.
    fn allows_another(&self, runner: &Runner, seated: Option<SubscriptionId>) -> bool {
        let is_unread = runner.order.as_ref().is_some_and(|order| order.is_unread);
        !is_unread
            && runner.unsettled_successes < self.settings.unsettled_successes_max
            && runner.not_before <= self.now()
            && runner.plan.limits.max_concurrency.is_none_or(|max| {
                let own_seat = u32::from(seated == Some(runner.id));
                self.open_attempts(runner).saturating_sub(own_seat) < max.get()
            })
    }

    /// How many attempts of a subscription run at its endpoint; what was timed out does not count (design D7).
    pub(super) fn open_attempts(&self, runner: &Runner) -> u32 {
        match &runner.plan.to {
            To::Endpoint { endpoint, .. } => self.endpoints.open(endpoint, runner.id),
            To::Group(_) => self.endpoints.open_at_origins(runner.id),
        }
    }

    /// Whether the next attempt is the trial after a window of the endpoint.
    fn is_window_over(&self, runner: &Runner) -> bool {
        let endpoint = self.windows.get(&runner.plan.delayed_at);
        runner.plan.delayed_delivery.enabled
            && endpoint.is_some_and(|endpoint| endpoint.window.gate(self.now()) == Gate::Trial)
    }

    /// Whose delivery is first among all that are due at the endpoint.
    fn first_at(&self, endpoint: &EndpointKey, seated: SubscriptionId) -> Option<SubscriptionId> {
        let members = self.windows.get(endpoint)?.members.iter().copied();
        let due = members.filter_map(|id| {
            let runner = self.runners.get(&id)?;
            let is_held_here = runner.plan.delayed_delivery.enabled;
            let (order, _) = self.startable(id, seated).filter(|_| is_held_here)?;
            Some((order, id))
        });
        due.min().map(|(_, id)| id)
    }

    /// Whether what was held by a window has to wait for its second (ED-238).
    fn is_resting(&self, runner: &Runner, due: Timestamp, now: Timestamp) -> bool {
        self.window_release(runner, due).is_some_and(|at| at > now)
    }

    /// When what is due then may start after a window, if there was one.
    pub(super) fn window_release(&self, runner: &Runner, due: Timestamp) -> Option<Timestamp> {
        let endpoint = self.windows.get(&runner.plan.delayed_at)?;
        Some(endpoint.window.may_start_at(due, self.now()))
    }

    fn rest_for_release(&mut self, id: SubscriptionId, due: Timestamp) {
        let now = self.now();
        let runner = self.runners.get(&id);
        let endpoint = runner.and_then(|runner| self.windows.get(&runner.plan.delayed_at));
        if let Some(endpoint) = endpoint {
            self.wakes
                .insert((endpoint.window.may_start_at(due, now), id));
        }
    }
}
