//! What observers are told of each attempt: the terminal of `hedgerow dev` today, live pages later. Lossy: an observer
//! that is slow misses notes, deliveries wait for nobody.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoredEvent;
use hedgerow_store::history::ToOrigin;
use hedgerow_store::record::unpack_id;

use crate::attempt::AttemptEnd;
use crate::plan::Plan;

/// One attempt that ended, or a delivery that ended without one.
#[derive(Debug, Clone)]
pub struct AttemptNote {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The subscription's name.
    pub subscription: Arc<str>,
    /// The event's id.
    pub event_id: String,
    /// Which attempt, from 1; 0 if the delivery ended without one.
    pub attempt: u16,
    /// What it met; `None` for a success.
    pub outcome: Option<Outcome>,
    /// The HTTP status, 0 for none.
    pub status: u16,
    /// What exactly went wrong, for people; `None` if there was an answer.
    pub detail: Option<String>,
    /// Events of the request, this one among them; `None` if it was no batch.
    pub batch_events: Option<u32>,
    /// When that was known.
    pub ended: Timestamp,
    /// From the start of the attempt to its outcome.
    pub duration: Duration,
    /// It succeeded after its timeout, and counts all the same (ED-178).
    pub is_late: bool,
    /// The origin that the attempt went to, if the destination is a group (HP-200).
    pub to: Option<Arc<ToOrigin>>,
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
    /// Nothing, it was given up, and its event is dropped.
    Dead(DeadLetterReason),
    /// It was given up, and its event goes to the dead-letter store.
    DeadLetter {
        /// Why.
        reason: DeadLetterReason,
        /// When it is written.
        due: Timestamp,
    },
    /// Nothing, its event stands in the dead-letter store.
    DeadLettered(DeadLetterReason),
    /// Nothing, an operator dropped it.
    Purged,
}

impl AttemptNote {
    pub(crate) fn of_attempt(
        plan: &Plan,
        end: &AttemptEnd,
        event: &StoredEvent,
        outcome: Option<Outcome>,
        next: NoteNext,
    ) -> Self {
        Self {
            topic: plan.topic_name.clone(),
            subscription: plan.subscription_name.clone(),
            event_id: event_id(event),
            attempt: end.attempt,
            outcome,
            status: end.found.met.status(),
            detail: end.found.detail.clone(),
            batch_events: None,
            ended: end.ended,
            duration: end.duration,
            is_late: false,
            to: end.route.as_ref().map(|route| Arc::clone(&route.told)),
            next,
        }
    }

    pub(crate) fn without_attempt(
        plan: &Plan,
        event: &StoredEvent,
        decided: Timestamp,
        next: NoteNext,
    ) -> Self {
        Self {
            topic: plan.topic_name.clone(),
            subscription: plan.subscription_name.clone(),
            event_id: event_id(event),
            attempt: 0,
            outcome: None,
            status: 0,
            detail: None,
            batch_events: None,
            ended: decided,
            duration: Duration::ZERO,
            is_late: false,
            to: None,
            next,
        }
    }

    /// A dead letter was written.
    pub(crate) fn of_dead_letter(
        plan: &Plan,
        event_id: &str,
        reason: DeadLetterReason,
        written: Timestamp,
    ) -> Self {
        Self {
            topic: plan.topic_name.clone(),
            subscription: plan.subscription_name.clone(),
            event_id: event_id.to_owned(),
            attempt: 0,
            outcome: None,
            status: 0,
            detail: None,
            batch_events: None,
            ended: written,
            duration: Duration::ZERO,
            is_late: false,
            to: None,
            next: NoteNext::DeadLettered(reason),
        }
    }
}

pub(crate) fn event_id(event: &StoredEvent) -> String {
    // An event that cannot be read stops the engine elsewhere; here it only lacks its name.
    unpack_id(&event.bytes).unwrap_or_default().to_owned()
}
