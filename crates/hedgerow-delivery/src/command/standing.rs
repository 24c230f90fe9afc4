//! How a subscription is doing: what it is owed, and what holds it back.

use std::time::Duration;

use hedgerow_core::hold::Period;
use hedgerow_core::outcome::Outcome;
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::Subscription;
use hedgerow_store::view::Counters;

use crate::gauges::EndpointCredits;

/// A subscription and how it is doing.
#[derive(Debug, Clone)]
pub struct SubscriptionInfo {
    /// As declared.
    pub subscription: Subscription,
    /// The name of its topic.
    pub topic_name: String,
    /// What became of its deliveries. `counters.matched` counts those that were begun.
    pub counters: Counters,
    /// Deliveries that are owed: begun and not settled, and those that wait for their first attempt.
    pub pending: u64,
    /// Those of them that were never attempted and wait in memory.
    pub waiting: u64,
    /// Attempts that run.
    pub in_flight: u64,
    /// When the next retry is due: not before the end of what holds the subscription back.
    pub next_due: Option<Timestamp>,
    /// Events of the topic that were not offered to it yet.
    pub behind: u64,
    /// Whether and why it is held back.
    pub hold: HoldInfo,
    /// Attempts of it that run at its endpoint; exchanges that were timed out do not count.
    pub open_attempts: u32,
    /// Before this no attempt starts, by its own limit or the endpoint's; nothing if that is past.
    pub not_before: Option<Timestamp>,
    /// How many attempts run at its endpoint, of all subscriptions behind it, and how many may; nothing if it does not deliver
    /// yet.
    pub endpoint: Option<EndpointCredits>,
    /// So many batches were answered lately, 95 % of them within this time (ED-321).
    pub batch_responses: Option<(usize, Duration)>,
    /// What is wrong with its dead-letter destination.
    pub dead_letter_problem: Option<String>,
}

/// Whether and why a subscription is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldInfo {
    /// The strongest of what holds it.
    pub state: HoldState,
    /// What the attempt met that began it.
    pub cause: Option<Outcome>,
    /// How often in a row: n of ED-237, or the periods of probation.
    pub level: u16,
    /// Since when; not known of a pause that an older server began.
    pub since: Option<Timestamp>,
    /// Until when nothing is attempted. When it awaits a trial: since when it does.
    pub until: Option<Timestamp>,
    /// When the next trial is, or may be if nothing is due by then; nothing when it awaits one and no event is there.
    pub next_trial: Option<Timestamp>,
    /// Deliveries that wait for the end of it.
    pub held: u64,
}

/// What holds a subscription back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldState {
    /// Nothing.
    Healthy,
    /// It is on probation.
    Probation,
    /// Deliveries to its endpoint are delayed.
    Delayed,
    /// What held it is over, and no attempt has succeeded since: one event is tried alone (ED-230, ED-238).
    AwaitingTrial,
    /// Somebody paused it.
    Paused,
    /// Its endpoint answered 410, which pauses it until somebody resumes it (ED-186).
    Gone,
}

impl HoldState {
    /// The name that users see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Probation => "Probation",
            Self::Delayed => "Delayed",
            Self::AwaitingTrial => "AwaitingTrial",
            Self::Paused => "Paused",
            Self::Gone => "Gone",
        }
    }
}

/// What an operator's call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedHold {
    /// Probation, which is the subscription's own, or delayed delivery, which all share that deliver to the endpoint.
    pub state: HoldState,
    /// What was ended.
    pub period: Period,
    /// Whom it held: topic and subscription, by name.
    pub held: Vec<(String, String)>,
}
