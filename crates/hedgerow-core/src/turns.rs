//! Whose turn it is at one endpoint (scheme, host and port): the subscriptions behind it take fair turns, one attempt
//! each, in the order in which they asked (design D7). Who hangs, or fails while the store is full, is passed over and
//! keeps its place; it never stands in others' way.
//!
//! | a subscription is | its attempts start in | what ends it |
//! | --- | --- | --- |
//! | new, as everybody at first | the quick lane of [`Credits`], three quarters of it while somebody is proven | an attempt of it ended, or has been open for a second |
//! | proven: its newest attempt ended within a second | the quick lane | an attempt of it has been open for a second |
//! | slow | the slow lane | an attempt ended within a second, and no other has been open for longer |
//!
//! | it is besides | while the store is full | what ends it |
//! | --- | --- | --- |
//! | accepting, as everybody at first | starts | its newest attempt failed |
//! | failing | one of those starts in [`TRIAL_INTERVAL`] | a success |
//!
//! When the store has no room for the records of another attempt, all are treated as failing ones.
//!
//! So who is known to answer waits for nobody who hangs, however many of those are new. Who is new itself waits for its turn
//! among the others: of `n` that hang, the limit is found out every second, and once all of them are, nobody waits. Until
//! then each has one attempt open; not more than [`Credits::slow_max`] of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::credit::{Credit, CreditSettings, Credits, Lane, Signal};
use crate::position::SubscriptionId;
use crate::time::{Now, Timestamp};

/// How long an attempt may be open before it is slow (design D7).
pub const SLOW_AFTER: Duration = Duration::from_secs(1);
/// How often those that fail are tried while the store is full.
pub const TRIAL_INTERVAL: Duration = Duration::from_secs(10);

/// Leave for one attempt of one subscription. Comes back through [`Turns::release`] exactly once.
#[derive(Debug)]
#[must_use = "a leave that does not come back is lost to its endpoint"]
pub struct Leave {
    /// From 1, in the order of starts.
    number: u64,
    subscription: SubscriptionId,
    credit: Credit,
}

impl Leave {
    /// Whose attempt it is for.
    #[must_use]
    pub const fn subscription(&self) -> SubscriptionId {
        self.subscription
    }
}

/// What others allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The store takes nothing new: failed attempts only add to it.
    pub is_store_full: bool,
    /// Whether the store has room for the records of another attempt. Without it everybody rests as if it failed: a trial now and
    /// then is little beside what cleaning gives back, and without any nothing would be delivered that makes room.
    pub has_record_room: bool,
    /// Slow attempts may start, as far as other endpoints are concerned.
    pub has_slow_room: bool,
}

/// Whose turn it is.
#[derive(Debug)]
pub enum Turn {
    /// This one's.
    Of(SubscriptionId, Leave),
    /// Nobody's.
    Nobody {
        /// Somebody waits for the next trial.
        rests: bool,
        /// Somebody waits only for [`Room::has_slow_room`].
        is_crowded: bool,
    },
}

/// The subscriptions behind one endpoint.
#[derive(Debug, Clone)]
pub struct Turns {
    credits: Credits,
    members: BTreeMap<SubscriptionId, Member>,
    /// Who waits, by when it asked, apart by what it has to wait for.
    queues: [BTreeMap<u64, SubscriptionId>; QUEUES],
    asked: u64,
    started: u64,
    /// Attempts that have not been open for a second, in the order of their starts.
    young: BTreeMap<u64, Young>,
    /// Those of them of subscriptions that were new.
    young_and_new: u32,
    /// Subscriptions that are proven.
    proven: usize,
    /// While the store is full those that fail start nothing before.
    next_trial: Timestamp,
}

/// What is known of a subscription.
#[derive(Debug, Clone, Default)]
struct Member {
    standing: Standing,
    /// When it asked for a turn, while it waits for one.
    waits_since: Option<u64>,
    /// Its attempts that run.
    open: u32,
    /// Those of them that have been open for a second.
    lingering: u32,
    /// It delivers here no longer: what its last attempts meet says nothing about it.
    has_left: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Standing {
    pace: Pace,
    is_failing: bool,
}

/// How fast its endpoint is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Pace {
    #[default]
    New,
    Proven,
    Slow,
}

const QUEUES: usize = 6;

impl Standing {
    const ALL: [Self; QUEUES] = [
        Self::new(Pace::New, false),
        Self::new(Pace::New, true),
        Self::new(Pace::Proven, false),
        Self::new(Pace::Proven, true),
        Self::new(Pace::Slow, false),
        Self::new(Pace::Slow, true),
    ];

    const fn new(pace: Pace, is_failing: bool) -> Self {
        Self { pace, is_failing }
    }

    /// The queue of those that stand like this.
    const fn queue(self) -> usize {
        2 * self.pace as usize + self.is_failing as usize
    }

    const fn lane(self) -> Lane {
        match self.pace {
            Pace::New | Pace::Proven => Lane::Quick,
            Pace::Slow => Lane::Slow,
        }
    }
}

impl Member {
    /// Nothing is known of it that anybody else would not be taken for.
    fn is_idle(&self) -> bool {
        let is_new = self.has_left || self.standing == Standing::default();
        is_new && self.open == 0 && self.waits_since.is_none()
    }
}

#[derive(Debug, Clone)]
struct Young {
    since: Instant,
    subscription: SubscriptionId,
    /// That of the subscription when it started.
    pace: Pace,
}

impl Young {
    const fn lane(&self) -> Lane {
        Standing::new(self.pace, false).lane()
    }
}

impl Turns {
    /// An endpoint nothing is known about.
    #[must_use]
    pub fn new(settings: CreditSettings) -> Self {
        Self {
            credits: Credits::new(settings),
            members: BTreeMap::new(),
            queues: Default::default(),
            asked: 0,
            started: 0,
            young: BTreeMap::new(),
            young_and_new: 0,
            proven: 0,
            next_trial: Timestamp::ZERO,
        }
    }

    /// Puts a subscription at the end of the line, if it does not stand there.
    pub fn ask(&mut self, subscription: SubscriptionId) {
        let member = self.members.entry(subscription).or_default();
        member.has_left = false;
        if member.waits_since.is_none() {
            self.asked += 1;
            member.waits_since = Some(self.asked);
            self.queues[member.standing.queue()].insert(self.asked, subscription);
        }
    }

    /// Takes a subscription out of the line that asked for a turn and did not get one.
    pub fn withdraw(&mut self, subscription: SubscriptionId) {
        let Some(member) = self.members.get_mut(&subscription) else {
            return;
        };
        if let Some(since) = member.waits_since.take() {
            self.queues[member.standing.queue()].remove(&since);
        }
        if member.is_idle() {
            self.members.remove(&subscription);
        }
    }

    /// Takes a subscription that is gone, or delivers elsewhere now, out of the line, and forgets how it did.
    pub fn leave(&mut self, subscription: SubscriptionId) {
        self.withdraw(subscription);
        let Some(member) = self.members.get_mut(&subscription) else {
            return;
        };
        self.proven -= usize::from(member.standing.pace == Pace::Proven);
        member.standing = Standing::default();
        member.has_left = true;
        if member.is_idle() {
            self.members.remove(&subscription);
        }
    }

    /// Whose turn it is.
    pub fn next(&mut self, now: Now, room: Room) -> Turn {
        self.grow_older(now.instant);
        let is_quick_wanted = Standing::ALL.iter().any(|standing| {
            standing.lane() == Lane::Quick && !self.queues[standing.queue()].is_empty()
        });
        self.credits.want_quick(is_quick_wanted);
        let (mut rests, mut is_crowded) = (false, false);
        let mut first: Option<(u64, Standing)> = None;
        for standing in Standing::ALL {
            let Some((since, _)) = self.queues[standing.queue()].first_key_value() else {
                continue;
            };
            let must_rest = (standing.is_failing && room.is_store_full) || !room.has_record_room;
            if must_rest && now.timestamp < self.next_trial {
                rests = true;
            } else if self.has_place(standing.pace) {
                if standing.pace == Pace::Slow && !room.has_slow_room {
                    is_crowded = true;
                } else if first.is_none_or(|(earliest, _)| *since < earliest) {
                    first = Some((*since, standing));
                }
            }
        }
        let turn = first.and_then(|(_, standing)| self.start(standing, now, room));
        turn.map_or(Turn::Nobody { rests, is_crowded }, |(id, leave)| {
            Turn::Of(id, leave)
        })
    }

    /// Whether an attempt of a subscription of this pace may start, as far as this endpoint is concerned.
    fn has_place(&self, pace: Pace) -> bool {
        let credits = &self.credits;
        match pace {
            Pace::New => {
                let share = credits.share_of_new();
                let is_share_taken = self.proven > 0 && self.young_and_new >= share;
                let are_too_many = credits.slow() >= credits.slow_max();
                !credits.is_full(Lane::Quick) && !is_share_taken && !are_too_many
            }
            Pace::Proven => !credits.is_full(Lane::Quick),
            Pace::Slow => !credits.is_full(Lane::Slow),
        }
    }

    fn start(
        &mut self,
        standing: Standing,
        now: Now,
        room: Room,
    ) -> Option<(SubscriptionId, Leave)> {
        let credit = self.credits.acquire(standing.lane())?;
        let (_, subscription) = self.queues[standing.queue()].pop_first()?;
        let member = self.members.entry(subscription).or_default();
        member.waits_since = None;
        member.open += 1;
        if standing.is_failing || !room.has_record_room {
            self.next_trial = now.timestamp.plus(TRIAL_INTERVAL);
        }
        self.started += 1;
        let young = Young {
            since: now.instant,
            subscription,
            pace: standing.pace,
        };
        self.young_and_new += u32::from(standing.pace == Pace::New);
        self.young.insert(self.started, young);
        let leave = Leave {
            number: self.started,
            subscription,
            credit,
        };
        Some((subscription, leave))
    }

    /// Gives a leave to another subscription, whose attempt is the endpoint's next: it counts as that one's from now on, in the lane
    /// in which it was given.
    pub fn pass(&mut self, leave: &mut Leave, to: SubscriptionId) {
        let from = std::mem::replace(&mut leave.subscription, to);
        let is_young = match self.young.get_mut(&leave.number) {
            Some(young) => {
                young.subscription = to;
                true
            }
            None => false,
        };
        let lingering = u32::from(!is_young);
        if let Some(member) = self.members.get_mut(&from) {
            member.open -= 1;
            member.lingering -= lingering;
            if member.is_idle() {
                self.members.remove(&from);
            }
        }
        let member = self.members.entry(to).or_default();
        member.open += 1;
        member.lingering += lingering;
    }

    /// Takes a leave back, and learns from what the attempt met.
    pub fn release(&mut self, leave: Leave, signal: Signal, now: Now) {
        self.grow_older(now.instant);
        let Leave {
            number,
            subscription,
            credit,
        } = leave;
        let young = self.young.remove(&number);
        let is_quick_end = young.is_some() && signal != Signal::GivenUp;
        let lane = young.as_ref().map_or(Lane::Slow, Young::lane);
        self.credits.release(credit, lane, signal);
        self.young_and_new -= u32::from(young.as_ref().is_some_and(|one| one.pace == Pace::New));
        let Some(member) = self.members.get_mut(&subscription) else {
            return;
        };
        member.open -= 1;
        member.lingering -= u32::from(young.is_none());
        let is_failing = match signal {
            Signal::Success => false,
            Signal::Overload | Signal::Neutral => true,
            Signal::GivenUp => member.standing.is_failing,
        };
        if signal != Signal::GivenUp && is_failing {
            self.next_trial = now.timestamp.plus(TRIAL_INTERVAL);
        }
        let pace = if is_quick_end && member.lingering == 0 {
            Pace::Proven
        } else {
            member.standing.pace
        };
        self.stand(subscription, Standing::new(pace, is_failing));
    }

    /// Takes note of attempts that have been open for a second by now.
    pub fn grow_older(&mut self, now: Instant) {
        while let Some(first) = self.young.first_entry()
            && first.get().since + SLOW_AFTER <= now
        {
            let young = first.remove();
            if young.lane() == Lane::Quick {
                self.credits.turn_slow();
            }
            self.young_and_new -= u32::from(young.pace == Pace::New);
            let id = young.subscription;
            if let Some(member) = self.members.get_mut(&id) {
                member.lingering += 1;
                let standing = Standing {
                    pace: Pace::Slow,
                    ..member.standing
                };
                self.stand(id, standing);
            }
        }
    }

    /// When the next of them will have been.
    #[must_use]
    pub fn next_to_grow_old(&self) -> Option<Instant> {
        let (_, first) = self.young.first_key_value()?;
        Some(first.since + SLOW_AFTER)
    }

    /// A subscription stands like this from now on; it keeps its place in the line.
    fn stand(&mut self, subscription: SubscriptionId, standing: Standing) {
        let Some(member) = self.members.get_mut(&subscription) else {
            return;
        };
        if !member.has_left {
            if let Some(since) = member.waits_since
                && member.standing != standing
            {
                self.queues[member.standing.queue()].remove(&since);
                self.queues[standing.queue()].insert(since, subscription);
            }
            self.proven -= usize::from(member.standing.pace == Pace::Proven);
            self.proven += usize::from(standing.pace == Pace::Proven);
            member.standing = standing;
        }
        if member.is_idle() {
            self.members.remove(&subscription);
        }
    }

    /// Whether somebody waits for a turn.
    #[must_use]
    pub fn is_anybody_waiting(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Whether no attempt runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.credits.in_flight() == 0
    }

    /// Whether this one waits for a turn.
    #[must_use]
    pub fn is_waiting(&self, subscription: SubscriptionId) -> bool {
        let member = self.members.get(&subscription);
        member.is_some_and(|member| member.waits_since.is_some())
    }

    /// How many attempts of it run.
    #[must_use]
    pub fn open(&self, subscription: SubscriptionId) -> u32 {
        let member = self.members.get(&subscription);
        member.map_or(0, |member| member.open)
    }

    /// The lane in which its next attempt would start.
    #[must_use]
    pub fn lane(&self, subscription: SubscriptionId) -> Lane {
        let member = self.members.get(&subscription);
        member.map_or(Lane::Quick, |member| member.standing.lane())
    }

    /// How many attempts run, and how many may.
    #[must_use]
    pub const fn credits(&self) -> &Credits {
        &self.credits
    }
}
