//! Ids of publish requests, for recognising one that is sent again. They are kept for a while by the time of the log, and
//! forgotten at checkpoints.

use hedgerow_core::position::TopicId;
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::table::Space;
use super::{View, rows};
use crate::error::StoreError;
use crate::record::{Events, PublishId};

/// Requests that came within so long a time have the same beginning of their keys.
const BUCKET_MILLIS: u64 = 10 * 60 * 1000;
/// So many buckets are looked into, the newest included: an id is known for ten to twenty minutes.
const BUCKETS: u64 = 2;
/// Ids that one checkpoint forgets at most.
const FORGOTTEN_MAX: usize = 10_000;

/// What a publish request was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The number of its first event.
    pub first_seq: u64,
    /// How many there were.
    pub count: u32,
    /// What it consisted of.
    pub content_hash: u128,
}

impl View {
    /// What the request with this id was given, if it came not long ago.
    pub fn published(&self, topic: TopicId, id: u128) -> Result<Option<Published>, StoreError> {
        let newest = bucket_of(self.log_time);
        for bucket in newest.saturating_sub(BUCKETS - 1)..=newest {
            let from = key(bucket, topic, id);
            let mut to = from.to_vec();
            to.push(0);
            if let Some((_, row)) = self.layers.scan(Space::PublishId, &from, &to, 1)?.first() {
                return rows::decode(row).map(Some);
            }
        }
        Ok(None)
    }

    pub(super) fn note_publish_id(&mut self, events: &Events) {
        let Some(PublishId { id, content_hash }) = events.packed.publish_id() else {
            return;
        };
        let row = Published {
            first_seq: events.first_seq,
            count: events.packed.count(),
            content_hash,
        };
        let key = key(bucket_of(events.published), events.topic, id);
        self.layers
            .put_new(Space::PublishId, &key, rows::encode_short(&row));
    }

    pub(super) fn forget_publish_ids(&mut self) -> Result<(), StoreError> {
        let oldest = bucket_of(self.log_time).saturating_sub(BUCKETS - 1);
        let to = oldest.to_be_bytes();
        for (key, _) in self
            .layers
            .scan(Space::PublishId, &[], &to, FORGOTTEN_MAX)?
        {
            self.layers.remove(Space::PublishId, &key);
        }
        Ok(())
    }
}

fn bucket_of(time: Timestamp) -> u64 {
    time.as_millis() / BUCKET_MILLIS
}

fn key(bucket: u64, topic: TopicId, id: u128) -> [u8; 28] {
    let mut key = [0; 28];
    key[..8].copy_from_slice(&bucket.to_be_bytes());
    key[8..12].copy_from_slice(&topic.0.to_be_bytes());
    key[12..].copy_from_slice(&id.to_be_bytes());
    key
}
