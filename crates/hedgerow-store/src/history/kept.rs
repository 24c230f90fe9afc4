//! What a kind of what is remembered has to have so that files can hold it: a stored form, and the ids it is found by.

use hedgerow_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::index;
use super::record::{HistoryRecord, kept_id};

/// The form of a [`HistoryRecord`] of an attempt at one of a group's origins: the first form, and the origin behind it. Other
/// records are written in the first form, which every server reads.
const WITH_ORIGIN: u8 = 2;

/// One frame's content.
pub(super) trait Kept: Serialize + DeserializeOwned {
    /// Where its files are.
    const DIRECTORY: &'static str;
    /// Stands before its stored form: tells the kind and the version of the form. Never reused.
    const VERSION: u8;
    /// What a look-up gives.
    type Found;

    /// The version of the form in which this one is stored.
    fn version(&self) -> u8 {
        Self::VERSION
    }

    /// Adds its stored form.
    fn write(&self, buffer: Vec<u8>) -> postcard::Result<Vec<u8>> {
        postcard::to_extend(self, buffer)
    }

    /// Reads the form of this version; `None` if there is no such version, or this is not its form.
    fn read(version: u8, bytes: &[u8]) -> Option<Self> {
        let is_known = version == Self::VERSION;
        is_known.then(|| postcard::from_bytes(bytes).ok()).flatten()
    }

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

    fn version(&self) -> u8 {
        match self.to {
            None => Self::VERSION,
            Some(_) => WITH_ORIGIN,
        }
    }

    fn write(&self, buffer: Vec<u8>) -> postcard::Result<Vec<u8>> {
        let buffer = postcard::to_extend(self, buffer)?;
        match &self.to {
            None => Ok(buffer),
            Some(to) => postcard::to_extend(&**to, buffer),
        }
    }

    fn read(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            Self::VERSION => postcard::from_bytes(bytes).ok(),
            WITH_ORIGIN => {
                let (record, rest) = postcard::take_from_bytes::<Self>(bytes).ok()?;
                let to = postcard::from_bytes(rest).ok()?;
                Some(Self {
                    to: Some(std::sync::Arc::new(to)),
                    ..record
                })
            }
            _ => None,
        }
    }

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
