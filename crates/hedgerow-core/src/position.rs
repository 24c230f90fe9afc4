//! How things are numbered: topics, subscriptions, events in a topic, places in the log.
//!
//! Ids are never reused: a subscription that is created again under its old name shares nothing with the one before
//! (design D2).

use serde::{Deserialize, Serialize};

/// The number of a topic, unique for the life of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicId(pub u32);

/// The number of a subscription, unique for the life of a store, over all topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SubscriptionId(pub u32);

/// Names one event: the `seq`-th of its topic, counted from 1. Increasing and opaque; never an offset in a file, so
/// that bytes can move (design, on-disk format).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The topic that the event was published to.
    pub topic: TopicId,
    /// The event's number in its topic, from 1.
    pub seq: u64,
}

/// A place in the log's one order of events, journal and catalog records: the segment's number in the upper 32 bits,
/// the byte offset in the segment in the lower 32. Marks order; they are never subtracted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Mark(pub u64);

impl Mark {
    /// The place before everything.
    pub const ZERO: Self = Self(0);

    /// The mark of byte `offset` of segment `segment`.
    #[must_use]
    pub const fn new(segment: u32, offset: u32) -> Self {
        Self(((segment as u64) << 32) | offset as u64)
    }

    /// The segment's number.
    #[must_use]
    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The byte offset in the segment.
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.segment(), self.offset())
    }
}
