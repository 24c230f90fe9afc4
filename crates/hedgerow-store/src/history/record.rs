//! What is remembered of an attempt.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::limits;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::text::{beginning, cut};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::record::DropReason;

/// Bytes of an event's id that are kept and looked up: enough to know it by.
pub const EVENT_ID_BYTES_MAX: usize = 512;
/// Bytes of a failure's detail that are kept.
pub const DETAIL_BYTES_MAX: usize = 1_024;
/// Bytes of a response's excerpt that are kept (ED-127).
pub const EXCERPT_BYTES_MAX: usize = limits::RESPONSE_EXCERPT_BYTES_MAX;
/// Bytes of a name that are kept: names are ASCII, and no longer than this.
const NAME_BYTES_MAX: usize = *limits::SUBSCRIPTION_NAME_LEN.end();
/// The same of what a subscription is made for: a topic, or a topic of a domain.
const SOURCE_BYTES_MAX: usize =
    *limits::TOPIC_NAME_LEN.end() + "/topics/".len() + *limits::DOMAIN_TOPIC_NAME_LEN.end();

/// One attempt that ended, or what ended a delivery without one.
///
/// Names stand beside the ids because subscriptions are deleted and made again, and what they did is asked for later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRecord {
    /// What it tells of.
    pub kind: HistoryKind,
    /// The event's id; cut at [`EVENT_ID_BYTES_MAX`].
    pub event_id: String,
    /// The event's topic.
    pub topic: TopicId,
    /// The topic's name.
    pub topic_name: Arc<str>,
    /// Whose delivery.
    pub subscription: SubscriptionId,
    /// The subscription's name.
    pub subscription_name: Arc<str>,
    /// The event's number in its topic.
    pub seq: u64,
    /// Which attempt, from 1; 0 for an end without attempt.
    pub attempt: u16,
    /// P of ED-203: when the event was accepted.
    pub published: Timestamp,
    /// When the attempt started.
    pub started: Timestamp,
    /// When its outcome was known, or the end was decided.
    pub ended: Timestamp,
    /// From the start to the outcome, measured (the two times above may have been slewed). Zero if there was none.
    pub latency: Duration,
    /// What it met; `None` for a success, and for an end without attempt.
    pub outcome: Option<Outcome>,
    /// The HTTP status, 0 for none.
    pub status: u16,
    /// What exactly went wrong, for people; cut at [`DETAIL_BYTES_MAX`]. `None` if there was an answer.
    pub detail: Option<String>,
    /// The beginning of the answer's body; `None` without an answer, or without a body.
    pub excerpt: Option<ResponseExcerpt>,
    /// What happened next to the delivery.
    pub next: HistoryNext,
    /// The origin that it went to; `None` if the destination is no group, or there was no attempt. It stands behind all the rest
    /// in the stored form, and only where there is one.
    #[serde(skip)]
    pub to: Option<Arc<ToOrigin>>,
}

/// To which origin of a group an attempt went, and why (HP-200).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToOrigin {
    /// The group's name.
    pub group: Arc<str>,
    /// The origin's name.
    pub origin: Arc<str>,
    /// Its address: scheme, host and port.
    pub address: Arc<str>,
    /// How it was chosen.
    pub mode: OriginMode,
    /// The origin that failed before for the same event, and that this one was preferred to.
    pub instead_of: Option<Arc<str>>,
}

/// How an origin was chosen (HP-208). New ones are added at the end: their numbers stand on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OriginMode {
    /// Among the healthy ones.
    Normal,
    /// It is the only enabled one.
    Single,
    /// None is healthy, some are unknown.
    UnknownTier,
    /// All are unhealthy.
    FailOpen,
}

impl OriginMode {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Single => "single",
            Self::UnknownTier => "unknown_tier",
            Self::FailOpen => "fail_open",
        }
    }
}

/// Bytes of each text of a [`ToOrigin`] that are kept: names, and hosts of usual length.
pub const ORIGIN_TEXT_BYTES_MAX: usize = 128;

/// What a [`HistoryRecord`] tells of. New kinds are added at the end: their numbers stand on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryKind {
    /// An attempt that ended in time, or at its timeout.
    Attempt,
    /// The success of an attempt that had been recorded as timed out (ED-178).
    LateSuccess,
    /// A delivery that ended without another attempt.
    EndWithoutAttempt,
    /// An attempt whose outcome nobody learned: the server stopped or crashed meanwhile, or its subscription changed. It
    /// ended when that was found out.
    AttemptWithoutOutcome,
    /// What became of the event of a delivery that was given up: it was written to the dead-letter store, or dropped.
    DeadLetterEnd,
    /// Somebody asked for the event to be delivered again: attempts count anew, or the one that waited is due now.
    Resent,
    /// As `Attempt`, in one request with so many events, this one among them.
    BatchAttempt(u32),
    /// As `LateSuccess`, of such a request.
    BatchLateSuccess(u32),
    /// An answer made a request with so many events come apart: each of them is sent again, and the attempt, which would have
    /// been the one with this number, is not counted (ED-221).
    BatchDivided(u32),
}

/// The beginning of an answer's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseExcerpt {
    /// Its text; what is no UTF-8 is replaced. Cut at [`EXCERPT_BYTES_MAX`].
    pub text: String,
    /// Bytes of the body: all of them when `is_complete`, otherwise at least so many.
    pub body_bytes: u64,
    /// Whether the body was read to its end.
    pub is_complete: bool,
}

/// What happened next to the delivery. New ones are added at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryNext {
    /// Nothing, it was delivered.
    Delivered,
    /// Another attempt was due at this time.
    Due(Timestamp),
    /// Nothing, it was given up, and its event dropped: there was no dead-letter destination.
    Dead(DeadLetterReason),
    /// It was given up, and its event was to be written to the dead-letter store at this time.
    DeadLetter(DeadLetterReason, Timestamp),
    /// Nothing, its event stands in the dead-letter store.
    DeadLettered(DeadLetterReason),
    /// Nothing, its event was dropped for the second reason.
    Dropped(DeadLetterReason, DropReason),
    /// Nothing, an operator dropped it.
    Purged,
}

impl HistoryKind {
    /// Events of the request, if it was a batch.
    #[must_use]
    pub const fn batch_events(self) -> Option<u32> {
        match self {
            Self::BatchAttempt(events)
            | Self::BatchLateSuccess(events)
            | Self::BatchDivided(events) => Some(events),
            Self::Attempt
            | Self::LateSuccess
            | Self::EndWithoutAttempt
            | Self::AttemptWithoutOutcome
            | Self::DeadLetterEnd
            | Self::Resent => None,
        }
    }
}

impl HistoryRecord {
    /// Cuts every text to its bound: the stored form has one.
    pub(super) fn bound(&mut self) {
        cut(&mut self.event_id, EVENT_ID_BYTES_MAX);
        cut_name(&mut self.topic_name, SOURCE_BYTES_MAX);
        cut_name(&mut self.subscription_name, NAME_BYTES_MAX);
        if let Some(detail) = &mut self.detail {
            cut(detail, DETAIL_BYTES_MAX);
        }
        if let Some(excerpt) = &mut self.excerpt {
            cut(&mut excerpt.text, EXCERPT_BYTES_MAX);
        }
        if let Some(to) = &mut self.to {
            let to = Arc::make_mut(to);
            let texts = [&mut to.group, &mut to.origin, &mut to.address];
            for text in texts.into_iter().chain(&mut to.instead_of) {
                cut_name(text, ORIGIN_TEXT_BYTES_MAX);
            }
        }
    }

    /// About the memory it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.event_id.len()
            + self.topic_name.len()
            + self.subscription_name.len()
            + self.detail.as_ref().map_or(0, String::len)
            + self
                .excerpt
                .as_ref()
                .map_or(0, |excerpt| excerpt.text.len())
    }
}

/// Names are shared by all that tells of them.
fn cut_name(name: &mut Arc<str>, bytes_max: usize) {
    if name.len() > bytes_max {
        *name = beginning(name, bytes_max).into();
    }
}

/// The id under which an event is kept and looked up.
pub(super) fn kept_id(event_id: &str) -> &str {
    beginning(event_id, EVENT_ID_BYTES_MAX)
}
