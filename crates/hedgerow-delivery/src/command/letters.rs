//! Dead letters that wait to be written: which of them are wanted, and a page of them.

use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::PendingDeadLetter;

/// Which pending dead letters are wanted, by name.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterQuery {
    /// Only of this topic.
    pub topic: Option<String>,
    /// Only of this subscription; needs a topic.
    pub subscription: Option<String>,
    /// Only those behind this place.
    pub after: Option<DeadLetterPlace>,
    /// How many at most.
    pub limit: usize,
}

/// Where a pending dead letter stands among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeadLetterPlace {
    /// Whose it is.
    pub subscription: SubscriptionId,
    /// When it is written.
    pub due: Timestamp,
    /// The event's number in the topic.
    pub seq: u64,
}

/// A dead letter that waits to be written.
#[derive(Debug, Clone)]
pub struct DeadLetterInfo {
    /// Where it stands.
    pub place: DeadLetterPlace,
    /// The topic's id.
    pub topic: TopicId,
    /// The topic's name.
    pub topic_name: String,
    /// The subscription's name.
    pub subscription_name: String,
    /// What is known of it.
    pub letter: PendingDeadLetter,
    /// The event's id; read by [`super::EngineHandle::dead_letters`], empty if the event cannot be read.
    pub event_id: String,
}

/// Some pending dead letters, and where to go on.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterPage {
    /// In order.
    pub letters: Vec<DeadLetterInfo>,
    /// Pass as `after` for the next page; `None` when there are no more.
    pub next: Option<DeadLetterPlace>,
}
