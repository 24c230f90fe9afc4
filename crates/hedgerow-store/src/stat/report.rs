//! What fills the disk.

use hedgerow_core::position::Mark;
use serde::Serialize;

use crate::log::check::as_text;

/// What fills the disk.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatReport {
    /// The end of what was forgotten.
    #[serde(serialize_with = "as_text")]
    pub oldest: Mark,
    /// The end of the log.
    #[serde(serialize_with = "as_text")]
    pub end: Mark,
    /// Oldest first.
    pub segments: Vec<SegmentStat>,
    /// Files of what is kept of older segments.
    pub kept_files: u64,
    /// Their size.
    pub kept_bytes: u64,
    /// Those with the most bytes first.
    pub topics: Vec<TopicStat>,
    /// Those that need anything, by what only they need.
    pub subscriptions: Vec<SubscriptionStat>,
}

/// One segment of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentStat {
    /// Its number.
    pub number: u32,
    /// The size of its file.
    pub file_bytes: u64,
    /// How much of it is written.
    pub used_bytes: u64,
    /// Events in it.
    pub events: u64,
    /// The size of their frames.
    pub event_bytes: u64,
    /// How much of that is needed for a subscription.
    pub needed_bytes: u64,
}

/// One topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicStat {
    /// Its id.
    pub id: u32,
    /// Its name; `None` if it was deleted.
    pub name: Option<String>,
    /// Events in the log.
    pub events: u64,
    /// The size of their frames.
    pub bytes: u64,
    /// How much of that is needed for a subscription.
    pub needed_bytes: u64,
}

/// One subscription, and what is kept for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStat {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: Option<String>,
    /// The name of its topic.
    pub topic: Option<String>,
    /// Events that it may still have to be given.
    pub events: u64,
    /// Their size.
    pub bytes: u64,
    /// The size of those that nobody else needs.
    pub only_bytes: u64,
    /// The oldest segment that it needs, 0 if it needs kept events only.
    pub oldest_segment: u32,
}
