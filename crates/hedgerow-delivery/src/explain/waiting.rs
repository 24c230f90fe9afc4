//! What a delivery waits for that is owed an attempt.

use hedgerow_core::time::Timestamp;

use crate::command::HoldInfo;
use crate::origins::NoOrigin;

/// Why no attempt of a delivery runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// What holds its subscription back.
    pub hold: HoldInfo,
    /// What it waits for first.
    pub waiting_for: WaitingFor,
}

/// What a delivery waits for. Of several reasons the first in this order that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingFor {
    /// Its endpoint cannot be used as it is declared.
    UsableEndpoint,
    /// Deliveries have not begun since the server started, or it stops.
    Start,
    /// The subscription is paused.
    Resume,
    /// An origin of its group that it can be sent to (HP-094, ED-315).
    Origin {
        /// Why there is none.
        why: NoOrigin,
        /// When it is looked for again; `None` for in a moment.
        at: Option<Timestamp>,
    },
    /// The end of probation, or of delayed delivery.
    EndOfHold,
    /// The time of its next attempt.
    DueTime {
        /// When.
        at: Timestamp,
    },
    /// After probation, or delayed delivery, one event is tried alone; it is another one.
    Trial,
    /// An earlier event of its key is not settled.
    EarlierEvent,
    /// The subscription stands before it.
    Reading {
        /// Events of the topic from where it stands up to this one.
        behind: u64,
    },
    /// The endpoint takes only so many attempts a minute, or what was held goes out at a pace.
    Pace {
        /// Until when at least.
        until: Timestamp,
    },
    /// The subscription has begun as many requests as it may by its own `maxRequestsPerSecond`.
    MaxRequestsPerSecond {
        /// How many may begin in a second.
        limit: u32,
        /// Until when at least.
        until: Timestamp,
    },
    /// It has as many requests open as it may by its own `maxConcurrency`.
    MaxConcurrency {
        /// Attempts of it that run.
        open: u32,
        /// How many may.
        limit: u32,
    },
    /// Successes of the subscription become durable first.
    Settlements,
    /// A turn at its endpoint, which all subscriptions behind the same scheme, host and port share.
    Turn {
        /// Attempts that run there: all, or the slow ones if it `is_slow` and they fill their half.
        open: u32,
        /// How many may.
        limit: u32,
        /// Attempts of its subscription take over a second.
        is_slow: bool,
    },
    /// A turn among all endpoints.
    TurnOfAll {
        /// Attempts that run.
        open: usize,
        /// How many may.
        limit: usize,
    },
}

impl WaitingFor {
    /// The name that users see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UsableEndpoint => "UsableEndpoint",
            Self::Start => "Start",
            Self::Resume => "Resume",
            Self::Origin { .. } => "Origin",
            Self::EndOfHold => "EndOfHold",
            Self::DueTime { .. } => "DueTime",
            Self::Trial => "Trial",
            Self::EarlierEvent => "EarlierEvent",
            Self::Reading { .. } => "Reading",
            Self::Pace { .. } => "Pace",
            Self::MaxRequestsPerSecond { .. } => "MaxRequestsPerSecond",
            Self::MaxConcurrency { .. } => "MaxConcurrency",
            Self::Settlements => "Settlements",
            Self::Turn { .. } => "Turn",
            Self::TurnOfAll { .. } => "TurnOfAll",
        }
    }
}
