//! What keeps due deliveries from starting: probation of a subscription, delayed delivery at an endpoint.
//!
//! Decides section 7 of the delivery specification (ED-224 to ED-241, ED-324). Both machines go the same way and differ
//! in what begins a period and how long it lasts ([`Probation`], [`Window`]):
//!
//! ```text
//!          enough failures                the end of the period
//!  Open ──────────────────────▶ Held ──────────────────────▶ Trial ◀──┐ failed, and no period of its own,
//!   ▲                            ▲                             │ start│ or ended without an outcome
//!   │                            │ failed: the next period     ▼      │
//!   └──── any success ───────────┴───────────────────────── OnTrial ──┘
//! ```
//!
//! Attempts that started before the period neither extend it nor raise its level when they fail; a success among them
//! ends it (ED-324). Whether one did is what its [`Ticket`] knows. What is due while nothing may start is held: it is due
//! again as [`due_again`] says, and expiry is checked then (ED-228). Does not know which deliveries there are; which one is
//! the trial follows from [`DueOrder`].

mod lock;
mod probation;
mod settings;
mod window;

pub use self::lock::{Gate, Period, Ticket};
pub use self::probation::Probation;
pub use self::settings::{DelayedDeliverySettings, ProbationDurations, ProbationSettings};
pub use self::window::{Release, Window};

use crate::retry::{self, DeliveryKey, RetrySettings};
use crate::time::Timestamp;

/// Due deliveries start in this order, and the first of them is the lone trial (ED-230): the smallest due time, then the
/// smallest publish time, then the smallest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueOrder {
    /// When it became due.
    pub due: Timestamp,
    /// P.
    pub published: Timestamp,
    /// The event's number in its topic.
    pub seq: u64,
}

/// Says when a held delivery is due again: one that was never attempted exactly at the end of the hold, a retry at its
/// first slot at or after it (ED-228). `due` is when it was held.
#[must_use]
pub fn due_again(
    settings: &RetrySettings,
    key: DeliveryKey,
    first_attempt: Option<Timestamp>,
    due: Timestamp,
    hold_until: Timestamp,
) -> Timestamp {
    match first_attempt {
        None => due.max(hold_until),
        Some(first_attempt) => retry::after_hold(settings, key, first_attempt, due, hold_until),
    }
}
