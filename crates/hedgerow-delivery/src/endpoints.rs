//! Whose turn it is. The subscriptions behind one endpoint (scheme, host, port) share its concurrency credits and take
//! fair turns: one delivery each, in a circle (design D7).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use hedgerow_core::credit::{Credit, CreditSettings, Credits, Signal};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_io::http::Target;

/// All endpoints that subscriptions deliver to.
pub(crate) struct Endpoints {
    settings: CreditSettings,
    by_target: HashMap<Target, Endpoint>,
    /// Endpoints that may have both a credit and somebody who wants it.
    listed: VecDeque<Target>,
    /// Endpoints that wait for their next trial, while the store is full.
    resting: Vec<Target>,
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
    /// Whether its newest attempt failed.
    is_failing: bool,
    /// While the store is full: not before this time, if it is failing.
    next_trial: Timestamp,
}

impl Endpoints {
    pub(crate) fn new(settings: CreditSettings) -> Self {
        Self {
            settings,
            by_target: HashMap::new(),
            listed: VecDeque::new(),
            resting: Vec::new(),
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
                is_failing: false,
                next_trial: Timestamp::ZERO,
            });
        endpoint.queue.push_back(subscription);
        list(&mut self.listed, target, endpoint);
    }

    /// The subscription whose turn it is, with a seat at its endpoint; `None` when nobody can start now.
    ///
    /// A failed attempt adds to the log and frees nothing of it. So while the store `is_full` an endpoint that fails gets
    /// one attempt in [`TRIAL_INTERVAL`], and the room that is left is for those that accept; the first success there puts
    /// it back to full speed.
    pub(crate) fn next_turn(
        &mut self,
        now: Timestamp,
        is_full: bool,
    ) -> Option<(SubscriptionId, Seat)> {
        while let Some(target) = self.listed.front() {
            if let Some(endpoint) = self.by_target.get_mut(target) {
                let is_resting = is_full && endpoint.is_failing && now < endpoint.next_trial;
                if is_resting && !endpoint.queue.is_empty() {
                    self.resting.push(target.clone());
                } else if !endpoint.queue.is_empty()
                    && let Some(credit) = endpoint.credits.acquire()
                    && let Some(subscription) = endpoint.queue.pop_front()
                {
                    endpoint.next_trial = now.plus(TRIAL_INTERVAL);
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

    /// Lets endpoints that rested ask for a turn again.
    pub(crate) fn end_rest(&mut self) {
        for target in std::mem::take(&mut self.resting) {
            if let Some(endpoint) = self.by_target.get_mut(&target) {
                list(&mut self.listed, &target, endpoint);
            }
        }
    }

    /// Whether some wait for their next trial.
    pub(crate) fn is_anybody_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Notes how an attempt at the seat's endpoint ended.
    pub(crate) fn note_end(&mut self, seat: &Seat, is_success: bool) {
        if let Some(endpoint) = self.by_target.get_mut(&seat.target) {
            endpoint.is_failing = !is_success;
        }
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

/// How often an endpoint that fails is tried while the store is full.
const TRIAL_INTERVAL: Duration = Duration::from_secs(10);

/// Endpoints that are remembered although nobody delivers to them now: what was learnt about their capacity is worth
/// keeping, without end it is not.
const KEPT_MAX: usize = 10_000;

fn list(listed: &mut VecDeque<Target>, target: &Target, endpoint: &mut Endpoint) {
    if !endpoint.is_listed {
        endpoint.is_listed = true;
        listed.push_back(target.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str) -> Target {
        Target::from_url(&format!("https://{host}/").parse().unwrap()).unwrap()
    }

    #[test]
    fn while_the_store_is_full_only_who_accepts_gets_on() {
        let now = Timestamp::from_millis(1_000_000);
        let mut endpoints = Endpoints::new(CreditSettings::default());
        let (good, bad) = (SubscriptionId(1), SubscriptionId(2));
        let attempt = |endpoints: &mut Endpoints, at, accepts: SubscriptionId| {
            endpoints.end_rest();
            let (id, seat) = endpoints.next_turn(at, true)?;
            endpoints.note_end(&seat, id == accepts);
            endpoints.release(seat, Signal::Neutral);
            Some(id)
        };
        for _ in 0..3 {
            endpoints.queue(&target("good.example"), good);
            endpoints.queue(&target("bad.example"), bad);
        }
        let turns: Vec<_> = std::iter::from_fn(|| attempt(&mut endpoints, now, good)).collect();
        assert_eq!(turns, [good, bad, good, good]);
        assert!(endpoints.is_anybody_resting());
        let later = now.plus(TRIAL_INTERVAL);
        assert_eq!(attempt(&mut endpoints, later, good), Some(bad));
        assert_eq!(attempt(&mut endpoints, later, good), None);
        let accepting = later.plus(TRIAL_INTERVAL);
        assert_eq!(attempt(&mut endpoints, accepting, bad), Some(bad));
        endpoints.queue(&target("bad.example"), bad);
        assert_eq!(
            attempt(&mut endpoints, accepting, bad),
            Some(bad),
            "full speed again"
        );
    }
}
