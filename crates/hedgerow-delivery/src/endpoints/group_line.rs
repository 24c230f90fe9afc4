//! Subscriptions that deliver to groups: which origin an attempt goes to is chosen when it is their turn, so they stand in a line
//! of their own and at no endpoint. The credit is that of the origin's endpoint, shared with all who deliver there: so an origin
//! that is slow takes nothing from the others. Only when each origin that could be chosen is busy do they stand in the lines of
//! all of these, in their turn among the others there, and the first that has room gets the attempt.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Now;
use hedgerow_io::http::Target;

use super::{Endpoints, Seat, StoreRoom};
use crate::origins::Route;

/// How often it is looked whether those that wait at busy origins could be sent to another one, whose health changed meanwhile.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// The subscriptions to groups.
#[derive(Default)]
pub(super) struct GroupLine {
    /// Those that want to start something, the first to come first.
    line: VecDeque<SubscriptionId>,
    /// Those that wait at the endpoints of busy origins.
    waiting: BTreeMap<SubscriptionId, Vec<Arc<Target>>>,
    /// Attempts that run, over all origins.
    open: HashMap<SubscriptionId, u32>,
    /// When those that wait are looked at.
    look_at: Option<Instant>,
}

impl GroupLine {
    pub(super) fn opened(&mut self, id: SubscriptionId) {
        *self.open.entry(id).or_default() += 1;
    }

    pub(super) fn closed(&mut self, id: SubscriptionId) {
        if let Some(open) = self.open.get_mut(&id) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&id);
            }
        }
    }
}

impl Endpoints {
    /// Puts a subscription to a group at the end of their line.
    pub(crate) fn queue_for_group(&mut self, id: SubscriptionId) {
        self.groups.line.push_back(id);
    }

    /// The subscription to a group whose turn it is to choose an origin.
    pub(crate) fn next_for_group(&mut self, store: StoreRoom) -> Option<SubscriptionId> {
        if self.groups.line.is_empty() {
            return None;
        }
        self.attempts_now = store.attempts_max.max(1);
        if !self.has_seat() {
            return None;
        }
        self.groups.line.pop_front()
    }

    /// Whether an attempt may start at an endpoint at once: nobody waits there, and there is a credit. While the store is full
    /// all wait for their turn, as trials do.
    pub(crate) fn has_room_at(
        &self,
        target: &Target,
        id: SubscriptionId,
        store: StoreRoom,
    ) -> bool {
        if store.is_full || self.taken >= store.attempts_max {
            return false;
        }
        // What nobody ever delivered to is free.
        !self.by_target.contains_key(target) || self.spare(target, id) > 0
    }

    /// A seat at an origin that was chosen.
    pub(crate) fn seat_at_origin(
        &mut self,
        route: &Arc<Route>,
        id: SubscriptionId,
        now: Now,
        store: StoreRoom,
    ) -> Option<Seat> {
        let endpoint = &route.origin.endpoint;
        self.know(endpoint);
        let mut seat = self.seat_beside(endpoint, id, now, store)?;
        self.take_route(&mut seat, route);
        Some(seat)
    }

    /// A seat at an endpoint is for this origin.
    pub(crate) fn take_route(&mut self, seat: &mut Seat, route: &Arc<Route>) {
        if seat.route.is_none() {
            self.groups.opened(seat.leave.subscription());
        }
        seat.route = Some(Arc::clone(route));
    }

    /// Lets a subscription wait for a turn at each of these endpoints.
    pub(crate) fn wait_for_origins(
        &mut self,
        id: SubscriptionId,
        endpoints: Vec<Target>,
        now: Instant,
    ) {
        let mut waits = Vec::new();
        for endpoint in endpoints {
            self.queue(&endpoint, id);
            waits.push(Arc::new(endpoint));
        }
        self.groups.waiting.insert(id, waits);
        self.groups.look_at.get_or_insert(now + LOOK);
    }

    /// A subscription waits at no endpoint any more. Returns whether it did.
    pub(crate) fn end_wait_for_origins(&mut self, id: SubscriptionId) -> bool {
        let Some(waits) = self.groups.waiting.remove(&id) else {
            return false;
        };
        for target in waits {
            self.change(&target, |turns| turns.withdraw(id));
            self.list(&target);
        }
        true
    }

    /// Those that wait at busy origins, if it is time to look at them again.
    pub(crate) fn waiting_for_origins(&mut self, now: Instant) -> Vec<SubscriptionId> {
        if self.groups.look_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let is_anybody_waiting = !self.groups.waiting.is_empty();
        self.groups.look_at = is_anybody_waiting.then(|| now + LOOK);
        self.groups.waiting.keys().copied().collect()
    }

    /// When they are looked at.
    pub(crate) const fn next_look_at_groups(&self) -> Option<Instant> {
        self.groups.look_at
    }

    /// Whether one that waits does so at each of these endpoints.
    pub(crate) fn waits_at_all(&self, id: SubscriptionId, endpoints: &[Target]) -> bool {
        let waits = self.groups.waiting.get(&id);
        let waits_at = |endpoint: &Target| {
            let mut waits = waits.into_iter().flatten();
            waits.any(|target| **target == *endpoint)
        };
        endpoints.iter().all(waits_at)
    }

    /// How many attempts of a subscription to a group run, over all origins.
    pub(crate) fn open_at_origins(&self, id: SubscriptionId) -> u32 {
        self.groups.open.get(&id).copied().unwrap_or(0)
    }

    /// Takes a subscription that is gone, or delivers elsewhere now, out of every line.
    pub(crate) fn leave_group(&mut self, id: SubscriptionId) {
        self.groups.line.retain(|other| *other != id);
        self.end_wait_for_origins(id);
        let mut targets: Vec<_> = self.by_target.keys().cloned().collect();
        // In an order that does not change from run to run.
        targets.sort_by_cached_key(ToString::to_string);
        for target in targets {
            self.leave(&target, id);
        }
    }
}
