//! Whose turn it is. The subscriptions behind one endpoint (scheme, host, port) share its concurrency credits and take
//! fair turns: one delivery each, in a circle (design D7).

use std::collections::{HashMap, VecDeque};

use hedgerow_core::credit::{Credit, CreditSettings, Credits, Signal};
use hedgerow_core::position::SubscriptionId;
use hedgerow_io::http::Target;

/// All endpoints that subscriptions deliver to.
pub(crate) struct Endpoints {
    settings: CreditSettings,
    by_target: HashMap<Target, Endpoint>,
    /// Endpoints that may have both a credit and somebody who wants it.
    listed: VecDeque<Target>,
    /// Seats that are out, over all endpoints.
    taken: usize,
}

/// Leave for one attempt at an endpoint. Comes back through [`Endpoints::release`] exactly once, wherever the subscription
/// delivers to by then.
#[derive(Debug)]
#[must_use = "a seat that does not come back is lost to its endpoint"]
pub(crate) struct Seat {
    target: Target,
    credit: Credit,
}

struct Endpoint {
    credits: Credits,
    queue: VecDeque<SubscriptionId>,
    is_listed: bool,
}

impl Endpoints {
    pub(crate) fn new(settings: CreditSettings) -> Self {
        Self {
            settings,
            by_target: HashMap::new(),
            listed: VecDeque::new(),
            taken: 0,
        }
    }

    /// Puts a subscription at the end of its endpoint's queue. The caller sees to it that it stands there once.
    pub(crate) fn queue(&mut self, target: &Target, subscription: SubscriptionId) {
        let settings = self.settings;
        let endpoint = self
            .by_target
            .entry(target.clone())
            .or_insert_with(|| Endpoint {
                credits: Credits::new(settings),
                queue: VecDeque::new(),
                is_listed: false,
            });
        endpoint.queue.push_back(subscription);
        list(&mut self.listed, target, endpoint);
    }

    /// The subscription whose turn it is, with a seat at its endpoint; `None` when nobody can start now.
    pub(crate) fn next_turn(&mut self) -> Option<(SubscriptionId, Seat)> {
        while let Some(target) = self.listed.front() {
            if let Some(endpoint) = self.by_target.get_mut(target) {
                if !endpoint.queue.is_empty()
                    && let Some(credit) = endpoint.credits.acquire()
                    && let Some(subscription) = endpoint.queue.pop_front()
                {
                    let target = target.clone();
                    // The next turn is another endpoint's.
                    self.listed.rotate_left(1);
                    self.taken += 1;
                    return Some((subscription, Seat { target, credit }));
                }
                endpoint.is_listed = false;
            }
            self.listed.pop_front();
        }
        None
    }

    /// How many attempts have a seat.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Gives a seat back.
    pub(crate) fn release(&mut self, seat: Seat, signal: Signal) {
        let Seat { target, credit } = seat;
        self.taken -= 1;
        let kept = self.by_target.len();
        let Some(endpoint) = self.by_target.get_mut(&target) else {
            return;
        };
        endpoint.credits.release(credit, signal);
        if !endpoint.queue.is_empty() {
            list(&mut self.listed, &target, endpoint);
        } else if endpoint.credits.in_flight() == 0 && !endpoint.is_listed && kept > KEPT_MAX {
            self.by_target.remove(&target);
        }
    }

    /// Takes a subscription that is gone, or delivers elsewhere now, out of the queue.
    pub(crate) fn leave(&mut self, target: &Target, subscription: SubscriptionId) {
        if let Some(endpoint) = self.by_target.get_mut(target) {
            endpoint.queue.retain(|queued| *queued != subscription);
        }
    }
}

/// Endpoints that are remembered although nobody delivers to them now: what was learnt about their capacity is worth
/// keeping, without end it is not.
const KEPT_MAX: usize = 10_000;

fn list(listed: &mut VecDeque<Target>, target: &Target, endpoint: &mut Endpoint) {
    if !endpoint.is_listed {
        endpoint.is_listed = true;
        listed.push_back(target.clone());
    }
}
