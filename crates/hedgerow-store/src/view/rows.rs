//! Keys and values of the view's rows. Keys are big-endian, so that their order is that of the numbers.

use hedgerow_core::position::{Mark, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::layers::Value;
use crate::error::StoreError;
use crate::record::Holds;

/// The version of the rows' format. Rows of format 2 are read as they are: they know of no hold.
pub(super) const FORMAT: u16 = 3;
/// The one row that says how far the view has come.
pub(super) const STAMP_KEY: &[u8] = b"stamp";

/// Written in each checkpoint's batch: how far the view has come.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct StampRow {
    pub format: u16,
    /// The store the view belongs to.
    pub store_id: [u8; 16],
    /// The end of the last group that the view contains.
    pub mark: Mark,
    /// The number of that group.
    pub group: u64,
    /// The revision of the catalog, and so the name of its file.
    pub catalog_revision: u64,
    /// The newest epoch that ended in an orderly stop.
    pub clean_epoch: u32,
    /// The number that the next terminal record gets, and the smallest there still is.
    pub next_terminal: u64,
    pub first_terminal: u64,
    /// The newest publish time.
    pub log_time: Timestamp,
}

/// One topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TopicRow {
    /// The number that its next event gets.
    pub next_seq: u64,
    /// The first number that the reader has not said it has seen.
    pub read_to: u64,
}

/// One subscription. Its open positions are in rows of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SubscriptionRow {
    /// The first number it may still have to attempt; `None` while it stands at the reader.
    pub cursor: Option<u64>,
    /// No due delivery stands before this time; scans begin here and walk over no removed rows.
    pub due_floor: Timestamp,
    pub counters: Counters,
    /// What holds it back; `None` for nothing, as before format 3.
    pub holds: Option<Holds>,
    /// Part of its acknowledgement ids.
    pub ack_epoch: u32,
}

/// What became of the deliveries of one subscription, counted in events (ED-304):
/// `matched = delivered + dead_lettered + dropped + given_up + pending`, where pending is what its open set holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Deliveries that were begun, or ended without an attempt.
    pub matched: u64,
    /// Accepted by the endpoint.
    pub delivered: u64,
    /// Ended undelivered, and dropped.
    pub dropped: u64,
    /// Ended undelivered, and written to the dead-letter store.
    pub dead_lettered: u64,
    /// Given up by a seek.
    pub given_up: u64,
}

pub(super) fn topic_key(id: TopicId) -> Vec<u8> {
    key(b't', &[&id.0.to_be_bytes()])
}

pub(super) fn subscription_key(id: SubscriptionId) -> Vec<u8> {
    key(b's', &[&id.0.to_be_bytes()])
}

/// A subscription that is gone and whose rows are still being removed.
pub(super) fn forgotten_key(id: SubscriptionId) -> Vec<u8> {
    key(b'f', &[&id.0.to_be_bytes()])
}

/// A snapshot.
pub(super) fn snapshot_key(id: u32) -> Vec<u8> {
    key(b'n', &[&id.to_be_bytes()])
}

fn key(prefix: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![prefix];
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

/// The id at the end of a key made by the functions above.
pub(super) fn id_of(key: &[u8]) -> Result<u32, StoreError> {
    fixed(key, 1).map(u32::from_be_bytes)
}

pub(super) fn open_key(subscription: SubscriptionId, part: u64) -> Vec<u8> {
    let mut key = subscription.0.to_be_bytes().to_vec();
    key.extend_from_slice(&part.to_be_bytes());
    key
}

pub(super) fn parse_open_key(key: &[u8]) -> Result<(SubscriptionId, u64), StoreError> {
    let subscription = SubscriptionId(u32::from_be_bytes(fixed(key, 0)?));
    Ok((subscription, u64::from_be_bytes(fixed(key, 4)?)))
}

pub(super) fn due_key(subscription: SubscriptionId, due: Timestamp, seq: u64) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&subscription.0.to_be_bytes());
    key[4..12].copy_from_slice(&due.as_millis().to_be_bytes());
    key[12..].copy_from_slice(&seq.to_be_bytes());
    key
}

pub(super) fn parse_due_key(key: &[u8]) -> Result<(Timestamp, u64), StoreError> {
    let due = Timestamp::from_millis(u64::from_be_bytes(fixed(key, 4)?));
    Ok((due, u64::from_be_bytes(fixed(key, 12)?)))
}

/// The keys of a space that begin with this subscription: first, and first behind them.
pub(super) fn subscription_range(subscription: SubscriptionId) -> (Vec<u8>, Vec<u8>) {
    let from = subscription.0.to_be_bytes().to_vec();
    let to = match subscription.0.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        None => vec![0xFF; 5],
    };
    (from, to)
}

fn fixed<const N: usize>(key: &[u8], at: usize) -> Result<[u8; N], StoreError> {
    key.get(at..at + N)
        .and_then(|part| part.try_into().ok())
        .ok_or_else(|| damaged_view("a key is too short"))
}

pub(super) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("rows are plain values, which postcard always takes")
}

/// The same of a row that is one of many: most need no memory of their own.
pub(super) fn encode_short<T: Serialize>(value: &T) -> Value {
    let mut buffer = [0; 64];
    match postcard::to_slice(value, &mut buffer) {
        Ok(bytes) => Value::from_slice(bytes),
        Err(_) => encode(value).into(),
    }
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(|_| damaged_view("a row cannot be read"))
}

/// Rows that cannot be what a server wrote.
pub(super) fn damaged_view(what: &str) -> StoreError {
    let what = format!("the view ({what})");
    StoreError::ViewDamaged { what }
}
