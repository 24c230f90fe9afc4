//! The timeline of one event that a subscription is sent alone: the rules of the core, asked as the engine asks them, and
//! what chance can change in it.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_core::hold::{Gate, Probation, ProbationSettings};
use hedgerow_core::outcome::{
    DeadLetterReason, DestinationKind, Floors, Overrides, Verdict, classify,
};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry::{
    self, DeliveryKey, FailedAttempt, Jitter, Next, RetryPolicy, RetrySettings,
};
use hedgerow_core::time::Timestamp;

use super::{Does, Failing};

/// What is asked.
pub(super) struct Timeline<'a> {
    pub(super) policy: RetryPolicy,
    pub(super) response_timeout: Duration,
    /// What the endpoint does with the attempt of this number, from 0.
    pub(super) does: Box<dyn Fn(usize) -> Does + 'a>,
}

/// A timeline.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) attempts: Vec<Attempt>,
    /// When it ends, and how: without a reason it is delivered.
    pub(super) end: (Duration, Option<DeadLetterReason>),
    /// What chance can do to the due time at which it is seen to have expired.
    pub(super) end_chance: Chance,
}

/// One attempt of a timeline.
#[derive(Debug)]
pub(super) struct Attempt {
    /// When it starts, after publishing.
    pub(super) at: Duration,
    pub(super) does: Does,
    pub(super) outcome: &'static str,
    /// The probation that it begins.
    pub(super) probation: Option<Duration>,
    /// What chance can do to it.
    pub(super) chance: Chance,
}

/// What chance can do to a due time (ED-198).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Chance {
    /// It comes this much later at most.
    pub(super) later: Duration,
    /// The attempt before can come so late that this slot is too soon after it.
    pub(super) can_be_skipped: bool,
    /// The slot before can come so late that it is not too soon after the attempt before.
    pub(super) can_come_earlier: bool,
}

/// How many attempts drawn events get.
#[derive(Debug)]
pub(super) struct Spread {
    /// Events by their attempts.
    pub(super) by_attempts: BTreeMap<usize, usize>,
    /// Whether every drawn event takes the slots that are shown.
    #[cfg_attr(not(test), allow(dead_code))]
    pub(super) is_as_shown: bool,
}

impl Spread {
    /// Events that are drawn.
    pub(super) const EVENTS: usize = 1_000;

    pub(super) fn of(timeline: &Timeline<'_>, plan: &Plan) -> Self {
        let mut spread = Self {
            by_attempts: BTreeMap::new(),
            is_as_shown: true,
        };
        for seq in (1..).take(Self::EVENTS) {
            let drawn = timeline.run(Some(seq));
            *spread.by_attempts.entry(drawn.attempts.len()).or_default() += 1;
            let is_near = |(drawn, shown): (&Attempt, &Attempt)| {
                drawn.at >= shown.at && drawn.at <= shown.at + shown.chance.later
            };
            spread.is_as_shown &= drawn.attempts.len() == plan.attempts.len()
                && drawn.attempts.iter().zip(&plan.attempts).all(is_near);
        }
        spread
    }
}

impl Timeline<'_> {
    /// The timeline of the event with this number, or the one without chance.
    pub(super) fn run(&self, seq: Option<u64>) -> Plan {
        let with_chance = RetrySettings::default();
        let settings = RetrySettings {
            jitter: seq.map_or(Jitter::OFF, |_| with_chance.jitter),
            ..RetrySettings::default()
        };
        let key = DeliveryKey {
            subscription: SubscriptionId(1),
            seq: seq.unwrap_or_default(),
        };
        let begun = Timestamp::from_millis(0);
        let mut probation = Probation::default();
        let mut plan = Plan::default();
        let mut due = begun;
        let mut chance = Chance::default();
        loop {
            if retry::is_expired(&self.policy, begun, due) {
                plan.end = (due.since(begun), Some(DeadLetterReason::TimeToLiveExceeded));
                plan.end_chance = chance;
                return plan;
            }
            let does = (self.does)(plan.attempts.len());
            let ended = match does {
                Does::Fail(Failing::Timeout) => due.plus(self.response_timeout),
                _ => due,
            };
            let ticket = probation.start();
            let verdict = classify(
                DestinationKind::Webhook,
                &does.met(),
                &Overrides::default(),
                &Floors::default(),
            );
            let begins = verdict.outcome().is_some_and(|outcome| {
                let base = retry::floor_base(&settings, due, ended);
                probation.failed(&ProbationSettings::default(), ticket, outcome, base)
            });
            let period = probation.period().filter(|_| begins);
            plan.attempts.push(Attempt {
                at: due.since(begun),
                does,
                outcome: verdict
                    .outcome()
                    .map_or("Success", |outcome| outcome.as_str()),
                probation: period.map(|period| period.until.since(period.since)),
                chance,
            });
            let (floor, retry_after) = match verdict {
                Verdict::Success => {
                    plan.end = (ended.since(begun), None);
                    return plan;
                }
                Verdict::Final { reason, .. } => {
                    plan.end = (ended.since(begun), Some(reason));
                    return plan;
                }
                Verdict::Retry {
                    floor, retry_after, ..
                } => (floor, retry_after),
            };
            let failed = FailedAttempt {
                key,
                attempts: u16::try_from(plan.attempts.len()).unwrap_or(u16::MAX),
                first_attempt: begun,
                started: due,
                ended,
                floor,
                retry_after,
                hold_until: match probation.gate(ended) {
                    Gate::Held(until) => Some(until),
                    _ => None,
                },
            };
            match retry::after_failure(&settings, &self.policy, &failed) {
                Next::Due(at) => {
                    chance = chance_of(&with_chance, &failed, chance.later, at.since(begun));
                    due = at;
                }
                Next::Dead(reason) => {
                    plan.end = (ended.since(begun), Some(reason));
                    return plan;
                }
            }
        }
    }
}

/// What chance can do to the slot `at`, which follows a failed attempt that itself can come `later`. All that says when a
/// slot is too soon moves with that attempt: its floor, what it was asked to wait, and the probation that it begins.
fn chance_of(
    settings: &RetrySettings,
    failed: &FailedAttempt,
    later: Duration,
    at: Duration,
) -> Chance {
    let begun = failed.first_attempt;
    let base = retry::floor_base(settings, failed.started, failed.ended);
    let asked_for = failed.ended.plus(failed.retry_after.unwrap_or_default());
    let hold = failed.hold_until.unwrap_or(Timestamp::ZERO);
    let earliest = base.plus(failed.floor).max(asked_for).max(hold);
    let earliest = earliest.since(begun);
    let ended = failed.ended.since(begun);
    let slots = || (0..).map(|index| settings.slot(index));
    let before = slots().take_while(|slot| *slot < at).last();
    let before = before.filter(|slot| *slot > failed.started.since(begun));
    Chance {
        later: most_chance(settings, at),
        can_be_skipped: at < earliest + later || at <= ended + later,
        can_come_earlier: before.is_some_and(|slot| {
            let latest = slot + most_chance(settings, slot);
            latest >= earliest && latest > ended
        }),
    }
}

/// The most that chance adds to a slot.
fn most_chance(settings: &RetrySettings, slot: Duration) -> Duration {
    (slot * settings.jitter.percent / 100).min(settings.jitter.max)
}
