//! What a kind of what is remembered has to have so that files can hold it: a stored form, and the ids it is found by.

use hedgerow_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::index;
use super::record::{HistoryRecord, kept_id};

/// One frame's content.
pub(super) trait Kept: Serialize + DeserializeOwned {
    /// Where its files are.
    const DIRECTORY: &'static str;
    /// Stands before its stored form: tells the kind and the version of the form. Never reused.
    const VERSION: u8;
    /// What a look-up gives.
    type Found;

    /// The time by which it is forgotten.
    fn ended(&self) -> Timestamp;

    /// The hashes of the ids that it tells of.
    fn hashes(&self) -> impl Iterator<Item = u64>;

    /// Adds what it tells of the event that is looked for, the newest first.
    fn find(self, wanted: &Wanted, found: &mut Vec<Self::Found>);
}

/// The event that is looked for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Its id as it is kept.
    pub event_id: String,
    /// Of this id.
    pub hash: u64,
}

impl Wanted {
    pub(super) fn new(event_id: &str) -> Self {
        let event_id = kept_id(event_id).to_owned();
        let hash = index::hash(&event_id);
        Self { event_id, hash }
    }
}

impl Kept for HistoryRecord {
    const DIRECTORY: &'static str = "history";
    const VERSION: u8 = 1;
    type Found = Self;

    fn ended(&self) -> Timestamp {
        self.ended
    }

    fn hashes(&self) -> impl Iterator<Item = u64> {
        std::iter::once(index::hash(&self.event_id))
    }

    fn find(self, wanted: &Wanted, found: &mut Vec<Self>) {
        // Another id may have the same hash.
        if self.event_id == wanted.event_id {
            found.push(self);
        }
    }
}
