//! What observers are told of each attempt: the terminal of `hedgerow dev` today, live pages later. Lossy: an observer
//! that is slow misses notes, deliveries wait for nobody.

use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::time::Timestamp;

/// One attempt that ended, or a delivery that ended without one.
#[derive(Debug, Clone)]
pub struct AttemptNote {
    /// The topic's name.
    pub topic: String,
    /// The subscription's name.
    pub subscription: String,
    /// The event's id.
    pub event_id: String,
    /// Which attempt, from 1; 0 if the delivery ended without one.
    pub attempt: u16,
    /// What it met; `None` for a success.
    pub outcome: Option<Outcome>,
    /// The HTTP status, 0 for none.
    pub status: u16,
    /// From the start of the attempt to its outcome.
    pub duration: Duration,
    /// What happens next.
    pub next: NoteNext,
}

/// What happens next to the delivery of an [`AttemptNote`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteNext {
    /// Nothing, it was delivered.
    Delivered,
    /// Another attempt is due.
    Due(Timestamp),
    /// Nothing, it was given up.
    Dead(DeadLetterReason),
}
