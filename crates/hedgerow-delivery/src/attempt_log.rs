//! The one log line of each attempt, with everything about it (ED-305 to ED-308, ED-310): failures in the category
//! `DeliveryFailures`, at info; successes in `DeliverySuccess`, at debug, and at info for a part of them that is a setting.
//!
//! A line is made only where it is wanted. If the answer has a body, the attempt's task writes the line once it has read the
//! excerpt; otherwise the engine does. Path and query of the endpoint's URL are secrets and are never among the
//! fields.

use std::sync::Arc;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::retry::DeliveryKey;
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoredEvent;
use hedgerow_store::record::unpack_head;
use tracing::Level;

use crate::note::{AttemptNote, NoteNext};
use crate::plan::Plan;

/// What `operationName` says of deliveries (ED-306).
const OPERATION: &str = "Deliver";

/// A line before it is written.
pub(crate) struct AttemptLine {
    note: AttemptNote,
    plan: Arc<Plan>,
    circumstances: LineCircumstances,
    published: Timestamp,
    event_type: String,
    event_time: Option<String>,
    bytes: usize,
    /// The beginning of the answer's body, without secrets.
    excerpt: Option<String>,
    is_wanted_at_info: bool,
}

/// What neither the note nor the event says.
pub(crate) struct LineCircumstances {
    /// Which delivery.
    pub(crate) key: DeliveryKey,
    /// The event's id in the headers of the delivery.
    pub(crate) system_id: String,
    /// The topic's.
    pub(crate) input_schema: &'static str,
    /// Failures in a row that count towards probation.
    pub(crate) probation_count: u32,
}

/// Whether the line of an attempt would be written.
pub(crate) fn is_wanted(note: &AttemptNote, key: DeliveryKey, success_percent: u32) -> bool {
    if is_failure(note) || is_sampled(key, success_percent) {
        tracing::enabled!(target: "hedgerow::attempt", Level::INFO)
    } else {
        tracing::enabled!(target: "hedgerow::attempt", Level::DEBUG)
    }
}

/// A success is logged, or is not, for each delivery alike: two looks at one log agree.
fn is_sampled(key: DeliveryKey, percent: u32) -> bool {
    let mixed =
        (key.seq ^ (u64::from(key.subscription.0) << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) % 100 < u64::from(percent)
}

fn is_failure(note: &AttemptNote) -> bool {
    note.next != NoteNext::Delivered
}

impl AttemptLine {
    pub(crate) fn new(
        note: &AttemptNote,
        plan: &Arc<Plan>,
        circumstances: LineCircumstances,
        event: &StoredEvent,
        success_percent: u32,
    ) -> Self {
        let unpacked = unpack_head(&event.bytes).ok();
        let event_type = unpacked.as_ref().map(|event| event.event_type.to_string());
        let event_time = unpacked.and_then(|event| event.time.map(std::borrow::Cow::into_owned));
        Self {
            is_wanted_at_info: is_failure(note) || is_sampled(circumstances.key, success_percent),
            note: note.clone(),
            plan: Arc::clone(plan),
            circumstances,
            published: event.published,
            event_type: event_type.unwrap_or_default(),
            event_time,
            bytes: event.bytes.len(),
            excerpt: None,
        }
    }

    /// Writes it.
    pub(crate) fn write(&self) {
        // The level of a line is fixed where it stands.
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: "hedgerow::attempt",
                    $level,
                    category = self.category(),
                    operationName = OPERATION,
                    time = %self.note.ended,
                    resourceId = self.plan.source_path,
                    topic = &*self.note.topic,
                    eventSubscriptionName = &*self.note.subscription,
                    eventId = self.note.event_id,
                    systemId = self.circumstances.system_id,
                    outcome = self.outcome(),
                    latencyInMs = self.latency_ms(),
                    deliveryCount = self.note.attempt,
                    batchEvents = self.note.batch_events,
                    probationCount = self.circumstances.probation_count,
                    deliverySchema = self.plan.delivery_schema.as_str(),
                    inputSchema = self.circumstances.input_schema,
                    publishTime = %self.published,
                    eventTime = self.event_time,
                    eventType = self.event_type,
                    sizeBytes = self.bytes,
                    url = self.url(),
                    httpStatus = self.status(),
                    responseExcerpt = self.excerpt,
                    detail = self.note.detail,
                    nextAttemptTime = self.next_attempt().map(|at| at.to_string()),
                    deadLetterReason = self.reason().map(DeadLetterReason::as_str),
                    "final" = self.next_attempt().is_none(),
                    "{}",
                    self.message()
                )
            };
        }
        if self.is_wanted_at_info {
            line!(Level::INFO);
        } else {
            line!(Level::DEBUG);
        }
    }

    fn category(&self) -> &'static str {
        if is_failure(&self.note) {
            "DeliveryFailures"
        } else {
            "DeliverySuccess"
        }
    }

    /// The outcome's name; for an end without attempt the reason's.
    fn outcome(&self) -> &'static str {
        match (self.note.outcome, self.reason()) {
            (Some(outcome), _) => Outcome::as_str(outcome),
            (None, Some(reason)) => reason.as_str(),
            (None, None) => "Success",
        }
    }

    fn state(&self) -> &'static str {
        match self.note.next {
            NoteNext::Delivered => "Delivered",
            NoteNext::Due(_) => "AttemptDue",
            NoteNext::Dead(_) => "Dropped",
            NoteNext::DeadLetter { .. } => "DeadLetterDue",
            NoteNext::DeadLettered(_) => "DeadLettered",
            NoteNext::Purged => "Purged",
        }
    }

    fn reason(&self) -> Option<DeadLetterReason> {
        match self.note.next {
            NoteNext::Dead(reason)
            | NoteNext::DeadLetter { reason, .. }
            | NoteNext::DeadLettered(reason) => Some(reason),
            NoteNext::Delivered | NoteNext::Due(_) | NoteNext::Purged => None,
        }
    }

    fn next_attempt(&self) -> Option<Timestamp> {
        match self.note.next {
            NoteNext::Due(due) => Some(due),
            NoteNext::Delivered
            | NoteNext::Dead(_)
            | NoteNext::DeadLetter { .. }
            | NoteNext::DeadLettered(_)
            | NoteNext::Purged => None,
        }
    }

    fn latency_ms(&self) -> u64 {
        u64::try_from(self.note.duration.as_millis()).unwrap_or(u64::MAX)
    }

    fn status(&self) -> Option<u16> {
        Some(self.note.status).filter(|status| *status > 0)
    }

    /// Where it was sent, without path and query: both may hold secrets (ED-121).
    fn url(&self) -> String {
        match &self.note.to {
            None => self.plan.to.to_string(),
            Some(to) => to.address.to_string(),
        }
    }

    /// Takes the beginning of the answer's body, without its query; the path is struck out here.
    pub(crate) fn answered(&mut self, text: &str, is_cut: bool) {
        self.excerpt = Some(self.plan.path_secrets().strike(text, is_cut));
    }

    /// The form in which the vendor writes it (ED-307).
    fn message(&self) -> String {
        let response = match (self.status(), &self.note.detail) {
            (Some(status), _) => status.to_string(),
            (None, Some(detail)) => detail.clone(),
            (None, None) => String::new(),
        };
        format!(
            "outcome={}, latencyInMs={}, id={}, systemId={}, state={}, deliveryTime={}, deliveryCount={}, \
             probationCount={}, deliverySchema={}, publishTime={}, eventTime={}, eventType={}, inputSchema={}, size={}, \
             url={}, deliveryResponse={response}",
            self.outcome(),
            self.latency_ms(),
            self.note.event_id,
            self.circumstances.system_id,
            self.state(),
            self.note.ended,
            self.note.attempt,
            self.circumstances.probation_count,
            self.plan.delivery_schema.as_str(),
            self.published,
            self.event_time.as_deref().unwrap_or_default(),
            self.event_type,
            self.circumstances.input_schema,
            self.bytes,
            self.url(),
        )
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_core::position::SubscriptionId;

    use super::*;

    #[test]
    fn a_part_of_the_successes_is_sampled() {
        let count = |percent| {
            (1..=10_000)
                .filter(|seq| {
                    let key = DeliveryKey {
                        subscription: SubscriptionId(3),
                        seq: *seq,
                    };
                    is_sampled(key, percent)
                })
                .count()
        };
        assert_eq!((count(0), count(100)), (0, 10_000));
        assert!((900..=1_100).contains(&count(10)), "{}", count(10));
    }
}
