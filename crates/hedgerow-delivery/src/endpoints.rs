//! The endpoints (scheme, host, port) that subscriptions deliver to, each with its turns and credits, and whose turn it is
//! over all of them: one attempt each, in a circle (design D7). Who may start at one endpoint is decided in
//! [`hedgerow_core::turns`].
//!
//! Over all endpoints too, slow attempts (those open for a second, and those of subscriptions that had such ones) start only
//! while they are fewer than half of what may be in flight, and what is slow beyond that half takes no place of others.

mod group_line;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use foldhash::HashMap;
use hedgerow_core::credit::{CreditSettings, Credits, Lane, Signal};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Now;
use hedgerow_core::turns::{Leave, Room, SLOW_AFTER, Turn, Turns};
use hedgerow_io::http::Target;

use self::group_line::GroupLine;
use crate::explain::WaitingFor;
use crate::gauges::EndpointCredits;
use crate::origins::Route;

/// All endpoints that subscriptions deliver to.
pub(crate) struct Endpoints {
    settings: CreditSettings,
    /// Attempts at a time, over all endpoints.
    attempts_max: usize,
    /// The same as far as the store has room for what they add to it.
    attempts_now: usize,
    by_target: HashMap<Arc<Target>, Endpoint>,
    /// Endpoints that may have both a credit and somebody who wants it.
    listed: VecDeque<Arc<Target>>,
    /// Endpoints that wait for their next trial, while the store is full.
    resting: Vec<Arc<Target>>,
    /// Endpoints that wait until fewer slow attempts are in flight, the first to come first.
    crowded: VecDeque<Arc<Target>>,
    /// When attempts will have been open for a second, in this order; ended ones are among them.
    ages: VecDeque<(Instant, Arc<Target>)>,
    /// Seats that are out.
    taken: usize,
    /// Those of slow attempts.
    slow: usize,
    /// Subscriptions that go to whichever origin of a group.
    groups: GroupLine,
}

/// What room the store has for attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreRoom {
    /// Whether what is published is refused.
    pub is_full: bool,
    /// Of how many attempts at a time it has room for the records.
    pub attempts_max: usize,
}

/// Leave for one attempt at an endpoint. Comes back through [`Endpoints::release`] exactly once, wherever the subscription
/// delivers to by then.
#[derive(Debug)]
#[must_use = "a seat that does not come back is lost to its endpoint"]
pub(crate) struct Seat {
    target: Arc<Target>,
    leave: Leave,
    /// The origin at that endpoint that was chosen, if it is one of a group's.
    pub(crate) route: Option<Arc<Route>>,
}

impl Seat {
    /// The endpoint that it is at.
    pub(crate) fn endpoint(&self) -> &Target {
        &self.target
    }
}

struct Endpoint {
    turns: Turns,
    is_listed: bool,
    is_crowded: bool,
}

impl Endpoints {
    pub(crate) fn new(settings: CreditSettings, attempts_max: usize) -> Self {
        Self {
            settings,
            attempts_max,
            attempts_now: usize::MAX,
            by_target: HashMap::default(),
            listed: VecDeque::new(),
            resting: Vec::new(),
            crowded: VecDeque::new(),
            ages: VecDeque::new(),
            taken: 0,
            slow: 0,
            groups: GroupLine::default(),
        }
    }

    /// Puts a subscription at the end of its endpoint's line, if it does not stand there.
    pub(crate) fn queue(&mut self, target: &Target, subscription: SubscriptionId) {
        self.know(target);
        if let Some((target, _)) = self.by_target.get_key_value(target) {
            let target = Arc::clone(target);
            self.change(&target, |turns| turns.ask(subscription));
            self.list(&target);
        }
    }

    fn know(&mut self, target: &Target) {
        if !self.by_target.contains_key(target) {
            let endpoint = Endpoint {
                turns: Turns::new(self.settings),
                is_listed: false,
                is_crowded: false,
            };
            self.by_target.insert(Arc::new(target.clone()), endpoint);
        }
    }

    /// The subscription whose turn it is, with a seat at its endpoint; `None` when nobody can start now.
    ///
    /// A failed attempt adds to the log and frees nothing of it. So while the store is full, those that fail get one attempt
    /// at each endpoint in [`TRIAL_INTERVAL`](hedgerow_core::turns::TRIAL_INTERVAL), and the room that is left is for those
    /// that accept; the first success puts one back to full speed.
    pub(crate) fn next_turn(
        &mut self,
        now: Now,
        store: StoreRoom,
    ) -> Option<(SubscriptionId, Seat)> {
        // Without room for its records an attempt is a trial: one at a time.
        self.attempts_now = store.attempts_max.max(1);
        while self.has_seat() {
            let has_slow_room = self.has_slow_room();
            let Some(target) = self.listed.pop_front() else {
                if !has_slow_room || !self.list_crowded() {
                    return None;
                }
                continue;
            };
            if let Some(endpoint) = self.by_target.get_mut(&target) {
                endpoint.is_listed = false;
            }
            let room = Room {
                is_store_full: store.is_full,
                has_record_room: self.taken < store.attempts_max,
                has_slow_room,
            };
            match self.change(&target, |turns| turns.next(now, room)) {
                Some(Turn::Of(subscription, leave)) => {
                    // The next turn is another endpoint's.
                    self.list(&target);
                    return Some((subscription, self.seat(target, leave, now)));
                }
                Some(Turn::Nobody { rests, is_crowded }) => {
                    if is_crowded {
                        self.note_crowded(&target);
                    }
                    if rests {
                        self.resting.push(target);
                    }
                }
                None => {}
            }
        }
        None
    }

    /// A seat for another attempt of a subscription whose turn it was, if nobody waits for one at its endpoint.
    pub(crate) fn seat_beside(
        &mut self,
        target: &Target,
        subscription: SubscriptionId,
        now: Now,
        store: StoreRoom,
    ) -> Option<Seat> {
        self.attempts_now = store.attempts_max.max(1);
        if self.spare(target, subscription) == 0 || store.is_full {
            return None;
        }
        let (target, _) = self.by_target.get_key_value(target)?;
        let target = Arc::clone(target);
        let room = Room {
            is_store_full: false,
            has_record_room: self.taken < store.attempts_max,
            has_slow_room: self.has_slow_room(),
        };
        let turn = self.change(&target, |turns| {
            turns.ask(subscription);
            let turn = turns.next(now, room);
            if !matches!(turn, Turn::Of(..)) {
                turns.withdraw(subscription);
            }
            turn
        });
        let Some(Turn::Of(_, leave)) = turn else {
            return None;
        };
        Some(self.seat(target, leave, now))
    }

    fn seat(&mut self, target: Arc<Target>, leave: Leave, now: Now) -> Seat {
        let at = now.instant + SLOW_AFTER;
        self.ages.push_back((at, Arc::clone(&target)));
        self.taken += 1;
        Seat {
            target,
            leave,
            route: None,
        }
    }

    /// How many attempts more of a subscription may start at its endpoint, if nobody waits for a turn there, and of those at a time
    /// none that others wait for.
    pub(crate) fn spare(&self, target: &Target, subscription: SubscriptionId) -> usize {
        let turns = self.by_target.get(target).map(|endpoint| &endpoint.turns);
        let turns = turns.filter(|turns| self.has_seat() && !turns.is_anybody_waiting());
        let Some(turns) = turns else { return 0 };
        let credits = turns.credits();
        let of_lane = match turns.lane(subscription) {
            Lane::Quick => credits.limit().saturating_sub(credits.quick()),
            Lane::Slow if self.has_slow_room() => {
                credits.slow_limit().saturating_sub(credits.slow())
            }
            Lane::Slow => 0,
        };
        let wanted = self.taken + self.listed.len();
        let of_all = self.attempts_max.min(self.attempts_now);
        of_all.saturating_sub(wanted).min(of_lane as usize)
    }

    /// Takes note of attempts that have been open for a second by now: others may start beside them.
    pub(crate) fn grow_older(&mut self, now: Instant) {
        while let Some((at, target)) = self.ages.front().cloned() {
            let next = self
                .by_target
                .get(&target)
                .and_then(|endpoint| endpoint.turns.next_to_grow_old());
            let has_ended = next.is_none_or(|next| next > at);
            if at > now && !has_ended {
                break;
            }
            self.ages.pop_front();
            if at <= now && !has_ended {
                self.change(&target, |turns| turns.grow_older(now));
                self.list(&target);
            }
        }
    }

    /// When [`Endpoints::grow_older`] has something to note, after it was called.
    pub(crate) fn next_to_grow_old(&self) -> Option<Instant> {
        self.ages.front().map(|(at, _)| *at)
    }

    /// How many attempts of a subscription run at an endpoint.
    pub(crate) fn open(&self, target: &Target, subscription: SubscriptionId) -> u32 {
        let endpoint = self.by_target.get(target);
        endpoint.map_or(0, |endpoint| endpoint.turns.open(subscription))
    }

    /// What has been learnt of an endpoint.
    pub(crate) fn credits(&self, target: &Target) -> EndpointCredits {
        let unknown = Credits::new(self.settings);
        let credits = self.by_target.get(target);
        let credits = credits.map_or(&unknown, |endpoint| endpoint.turns.credits());
        EndpointCredits {
            open: credits.quick(),
            limit: credits.limit(),
            slow_open: credits.slow(),
            slow_limit: credits.slow_limit(),
        }
    }

    /// What a subscription waits for that may start, and has not.
    pub(crate) fn waiting_for(&self, target: &Target, subscription: SubscriptionId) -> WaitingFor {
        let turns = self.by_target.get(target).map(|endpoint| &endpoint.turns);
        let lane = turns.map_or(Lane::Quick, |turns| turns.lane(subscription));
        let is_free = turns.is_none_or(|turns| !turns.credits().is_full(lane));
        if is_free && !self.has_seat() {
            return WaitingFor::TurnOfAll {
                open: self.taken,
                limit: self.attempts_max.min(self.attempts_now),
            };
        }
        if is_free && lane == Lane::Slow && !self.has_slow_room() {
            return WaitingFor::TurnOfAll {
                open: self.slow,
                limit: self.slow_max(),
            };
        }
        let is_slow = lane == Lane::Slow;
        let (open, limit) = match turns.map(Turns::credits) {
            Some(credits) if is_slow => (credits.slow(), credits.slow_limit()),
            Some(credits) => (credits.quick(), credits.limit()),
            None => (0, self.settings.start),
        };
        WaitingFor::Turn {
            open,
            limit,
            is_slow,
        }
    }

    /// Whether another attempt may start. Slow ones beyond half of what may be in flight do not count, or endpoints that begin to
    /// hang together would keep all others waiting for a timeout; they are at most as many again.
    fn has_seat(&self) -> bool {
        let counted = self.taken - self.slow.saturating_sub(self.slow_max());
        counted < self.attempts_max
            && self.taken < 2 * self.attempts_max
            && self.taken < self.attempts_now
    }

    fn slow_max(&self) -> usize {
        (self.attempts_max / 2).max(1)
    }

    fn has_slow_room(&self) -> bool {
        self.slow < self.slow_max()
    }

    /// Lets endpoints that rested ask for a turn again.
    pub(crate) fn end_rest(&mut self) {
        for target in std::mem::take(&mut self.resting) {
            self.list(&target);
        }
    }

    /// Whether some wait for their next trial.
    pub(crate) fn is_anybody_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// How many attempts have a seat.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Gives a seat to another subscription that delivers to the same endpoint.
    pub(crate) fn pass(&mut self, seat: &mut Seat, to: SubscriptionId) {
        if seat.route.is_some() {
            self.groups.closed(seat.leave.subscription());
            self.groups.opened(to);
        }
        let Seat { target, leave, .. } = seat;
        if let Some(endpoint) = self.by_target.get_mut(&**target) {
            endpoint.turns.pass(leave, to);
        }
    }

    /// Gives a seat back, with what the attempt met.
    pub(crate) fn release(&mut self, seat: Seat, signal: Signal, now: Now) {
        if seat.route.is_some() {
            self.groups.closed(seat.leave.subscription());
        }
        let Seat { target, leave, .. } = seat;
        self.taken -= 1;
        self.change(&target, |turns| turns.release(leave, signal, now));
        self.list(&target);
        let is_idle = self.by_target.get(&target).is_some_and(|endpoint| {
            endpoint.turns.is_idle() && !endpoint.is_listed && !endpoint.is_crowded
        });
        if is_idle && self.by_target.len() > KEPT_MAX {
            self.by_target.remove(&target);
        }
    }

    /// Takes a subscription that is gone, or delivers elsewhere now, out of the line.
    pub(crate) fn leave(&mut self, target: &Target, subscription: SubscriptionId) {
        if let Some((target, _)) = self.by_target.get_key_value(target) {
            let target = Arc::clone(target);
            self.change(&target, |turns| turns.leave(subscription));
            // Slow ones may have every credit if it was the last quick one.
            self.list(&target);
        }
    }

    /// Does something at an endpoint, and counts slow attempts anew.
    fn change<T>(&mut self, target: &Target, change: impl FnOnce(&mut Turns) -> T) -> Option<T> {
        let endpoint = self.by_target.get_mut(target)?;
        let before = endpoint.turns.credits().slow();
        let result = change(&mut endpoint.turns);
        let after = endpoint.turns.credits().slow();
        self.slow = self.slow + after as usize - before as usize;
        Some(result)
    }

    /// Lists an endpoint at which somebody waits, if it is not.
    fn list(&mut self, target: &Arc<Target>) {
        if let Some(endpoint) = self.by_target.get_mut(target)
            && !endpoint.is_listed
            && endpoint.turns.is_anybody_waiting()
        {
            endpoint.is_listed = true;
            self.listed.push_back(Arc::clone(target));
        }
    }

    fn note_crowded(&mut self, target: &Arc<Target>) {
        if let Some(endpoint) = self.by_target.get_mut(target)
            && !endpoint.is_crowded
        {
            endpoint.is_crowded = true;
            self.crowded.push_back(Arc::clone(target));
        }
    }

    /// Lists an endpoint that waited for other endpoints' slow attempts to end. Returns whether there was one.
    fn list_crowded(&mut self) -> bool {
        let Some(target) = self.crowded.pop_front() else {
            return false;
        };
        if let Some(endpoint) = self.by_target.get_mut(&target) {
            endpoint.is_crowded = false;
        }
        self.list(&target);
        true
    }
}

/// Endpoints that are remembered although nobody delivers to them now: what was learnt about their capacity is worth
/// keeping, without end it is not.
const KEPT_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hedgerow_core::time::Timestamp;
    use hedgerow_core::turns::TRIAL_INTERVAL;

    use super::*;

    fn room(is_full: bool) -> StoreRoom {
        StoreRoom {
            is_full,
            attempts_max: usize::MAX,
        }
    }

    fn target(host: &str) -> Target {
        Target::from_url(&format!("https://{host}/").parse().unwrap()).unwrap()
    }

    struct Times(Now);

    impl Times {
        fn new() -> Self {
            Self(Now {
                timestamp: Timestamp::from_millis(1_000_000),
                instant: Instant::now(),
            })
        }

        fn after(&self, span: Duration) -> Now {
            Now {
                timestamp: self.0.timestamp.plus(span),
                instant: self.0.instant + span,
            }
        }
    }

    #[test]
    fn while_the_store_is_full_only_who_accepts_gets_on() {
        for hosts in [["good.example", "bad.example"], ["both.example"; 2]] {
            let times = Times::new();
            let mut endpoints = Endpoints::new(CreditSettings::default(), 100);
            let (good, bad) = (SubscriptionId(0), SubscriptionId(1));
            let mut attempts = |at, accepting: &[SubscriptionId]| {
                let mut bads = 0;
                for id in [good, bad] {
                    endpoints.queue(&target(hosts[id.0 as usize]), id);
                }
                for _ in 0..10 {
                    endpoints.end_rest();
                    let (id, seat) = endpoints.next_turn(at, room(true)).unwrap();
                    let is_success = accepting.contains(&id);
                    let signal = if is_success {
                        Signal::Success
                    } else {
                        Signal::Neutral
                    };
                    endpoints.release(seat, signal, at);
                    // It has more to deliver.
                    endpoints.queue(&target(hosts[id.0 as usize]), id);
                    bads += usize::from(id == bad);
                }
                bads
            };
            let at = |span| times.after(span);
            assert_eq!(attempts(at(Duration::ZERO), &[good]), 1);
            let soon = Duration::from_secs(9);
            assert_eq!(attempts(at(soon), &[good]), 0);
            assert_eq!(attempts(at(TRIAL_INTERVAL), &[good]), 1);
            let both = [good, bad];
            let bads = attempts(at(2 * TRIAL_INTERVAL), &both);
            assert!((4..=5).contains(&bads), "full speed again: {bads} of 10");
        }
    }

    /// A second attempt starts beside the line only where nobody stands in it and there is a credit (design D7).
    #[test]
    fn a_seat_beside_the_line_takes_nobody_s_turn() {
        let now = Times::new().0;
        let settings = CreditSettings {
            start: 2,
            ..CreditSettings::default()
        };
        let mut endpoints = Endpoints::new(settings, 100);
        let (one, other) = (SubscriptionId(0), SubscriptionId(1));
        let at = target("a.example");
        endpoints.queue(&at, one);
        let (_, first) = endpoints.next_turn(now, room(false)).unwrap();
        assert_eq!(endpoints.spare(&at, one), 1);
        assert!(endpoints.seat_beside(&at, one, now, room(true)).is_none());
        endpoints.queue(&at, other);
        assert!(endpoints.seat_beside(&at, one, now, room(false)).is_none());
        endpoints.leave(&at, other);
        let second = endpoints.seat_beside(&at, one, now, room(false)).unwrap();
        assert_eq!((endpoints.taken(), endpoints.open(&at, one)), (2, 2));
        assert!(endpoints.seat_beside(&at, one, now, room(false)).is_none());
        assert!(
            endpoints.next_turn(now, room(false)).is_none(),
            "nobody asks for more"
        );
        for seat in [first, second] {
            endpoints.release(seat, Signal::Success, now);
        }
        assert_eq!(endpoints.taken(), 0);
    }

    /// The same over all endpoints: the last places are for those that wait elsewhere.
    #[test]
    fn a_seat_beside_the_line_is_none_that_others_wait_for() {
        let now = Times::new().0;
        let mut endpoints = Endpoints::new(CreditSettings::default(), 2);
        let (at, elsewhere) = (target("a.example"), target("b.example"));
        let (one, other) = (SubscriptionId(0), SubscriptionId(1));
        endpoints.queue(&at, one);
        let (_, first) = endpoints.next_turn(now, room(false)).unwrap();
        assert_eq!(endpoints.spare(&at, one), 1);
        endpoints.queue(&elsewhere, other);
        assert!(endpoints.seat_beside(&at, one, now, room(false)).is_none());
        let (id, second) = endpoints.next_turn(now, room(false)).unwrap();
        assert_eq!(id, other);
        for seat in [first, second] {
            endpoints.release(seat, Signal::Success, now);
        }
    }

    /// Slow attempts of all endpoints leave half of what may be in flight to the others (design D7).
    #[test]
    fn endpoints_that_hang_leave_half_to_the_others() {
        let times = Times::new();
        let mut endpoints = Endpoints::new(CreditSettings::default(), 8);
        let hanging: Vec<_> = (0..8).map(|n| format!("hangs-{n}.example")).collect();
        let ask = |endpoints: &mut Endpoints| {
            for (id, host) in (0..).zip(&hanging) {
                endpoints.queue(&target(host), SubscriptionId(id));
            }
        };
        ask(&mut endpoints);
        let mut seats = Vec::new();
        while let Some((_, seat)) = endpoints.next_turn(times.0, room(false)) {
            seats.push(seat);
        }
        assert_eq!(seats.len(), 8);
        // They begin to hang together, and keep nobody waiting longer than a second.
        endpoints.queue(&target("early.example"), SubscriptionId(99));
        let second = times.after(SLOW_AFTER);
        endpoints.grow_older(second.instant);
        let (id, early) = endpoints.next_turn(second, room(false)).unwrap();
        assert_eq!(id, SubscriptionId(99));
        endpoints.release(early, Signal::Success, second);
        let timeout = times.after(Duration::from_secs(30));
        endpoints.grow_older(timeout.instant);
        for seat in seats {
            endpoints.release(seat, Signal::Overload, timeout);
        }
        ask(&mut endpoints);
        let mut seats = Vec::new();
        while let Some((id, seat)) = endpoints.next_turn(timeout, room(false)) {
            seats.push((id, seat));
        }
        assert_eq!(seats.len(), 4);
        endpoints.queue(&target("good.example"), SubscriptionId(100));
        let (id, good) = endpoints.next_turn(timeout, room(false)).unwrap();
        assert_eq!(id, SubscriptionId(100));
        endpoints.release(good, Signal::Success, timeout);
        // Those that wait get on when one of them ends.
        let (first, seat) = seats.pop().unwrap();
        endpoints.release(seat, Signal::Overload, timeout);
        let (next, _seat) = endpoints.next_turn(timeout, room(false)).unwrap();
        assert_ne!(first, next);
    }

    /// Whoever stands in line gets a turn once nothing runs, whatever met attempts before, and however late everything is.
    #[test]
    fn nobody_who_waits_is_forgotten() {
        const HOSTS: u32 = 2;
        const SUBSCRIPTIONS: u32 = 4;
        let times = Times::new();
        for seed in 0..500_u64 {
            let mut state = seed;
            let mut draw = |below: u64| {
                // The generator of Knuth's MMIX: enough for this.
                state = state.wrapping_mul(6_364_136_223_846_793_005);
                state = state.wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let settings = CreditSettings {
                start: 1 + draw(3) as u32,
                min: 1,
                max: 4,
            };
            let mut endpoints = Endpoints::new(settings, 1 + draw(4) as usize);
            let of = |id: u32| target(&format!("host-{}.example", id % HOSTS));
            let (mut waiting, mut running) = (Vec::new(), Vec::new());
            let mut at = Duration::ZERO;
            for _ in 0..200 {
                at += Duration::from_millis([0, 1, 400, 1_100][draw(4) as usize]);
                let now = times.after(at);
                match draw(3) {
                    0 => {
                        let id = SubscriptionId(draw(u64::from(SUBSCRIPTIONS)) as u32);
                        endpoints.queue(&of(id.0), id);
                        if !waiting.contains(&id) {
                            waiting.push(id);
                        }
                    }
                    1 if !running.is_empty() => {
                        let seat = running.swap_remove(draw(running.len() as u64) as usize);
                        let signals = [
                            Signal::Success,
                            Signal::Overload,
                            Signal::Neutral,
                            Signal::GivenUp,
                        ];
                        endpoints.release(seat, signals[draw(4) as usize], now);
                    }
                    _ => {
                        endpoints.end_rest();
                        endpoints.grow_older(now.instant);
                        while let Some((id, seat)) = endpoints.next_turn(now, room(false)) {
                            waiting.retain(|other| *other != id);
                            running.push(seat);
                        }
                        let is_idle = running.is_empty();
                        assert!(!is_idle || waiting.is_empty(), "seed {seed}: {waiting:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_attempt_starts_only_if_there_is_room_for_its_records() {
        let now = Times::new().0;
        let mut endpoints = Endpoints::new(CreditSettings::default(), 100);
        for number in 0..20 {
            let host = format!("host-{number}.example");
            endpoints.queue(&target(&host), SubscriptionId(number));
        }
        let store = StoreRoom {
            is_full: true,
            attempts_max: 3,
        };
        let mut seats = Vec::new();
        while let Some((_, seat)) = endpoints.next_turn(now, store) {
            seats.push(seat);
        }
        assert_eq!(seats.len(), 3);
        for seat in seats {
            endpoints.release(seat, Signal::Success, now);
        }
        // Without any room one trial at a time is made, at each endpoint rarely.
        let store = StoreRoom {
            attempts_max: 0,
            ..store
        };
        for expected in 3..20 {
            let (id, seat) = endpoints.next_turn(now, store).unwrap();
            assert_eq!(id, SubscriptionId(expected));
            assert!(endpoints.next_turn(now, store).is_none());
            endpoints.queue(&target(&format!("host-{expected}.example")), id);
            endpoints.release(seat, Signal::Success, now);
        }
        endpoints.end_rest();
        assert!(endpoints.next_turn(now, store).is_none());
        assert!(endpoints.is_anybody_resting());
    }
}
