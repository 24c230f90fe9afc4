//! What the tests of the log share.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_core::event::{Data, Event};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::TopicSpec;
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::{Change, TopicKeys};
use hedgerow_store::disk::Disk;
use hedgerow_store::log::{Clock, Log, LogOptions};
use hedgerow_store::record::{CatalogChange, PackedEvents, Record, Settled, SettledHow};
use hedgerow_store::secrets::Secrets;
use hedgerow_store::{Liveness, Needed, StoreError};

/// Small segments, so that tests go through many.
pub fn small() -> LogOptions {
    LogOptions {
        keep_after: std::time::Duration::from_secs(600),
        segment_bytes: 64 * 1024,
        bytes_max: 64 * 64 * 1024,
        disk_reserve_bytes: 0,
        ring_bytes: 48 * 1024,
        group_bytes_max: 32 * 1024,
        queue_bytes_max: 1024 * 1024,
        zeroed_segments: 1,
        free_segments_max: 4,
    }
}

/// The key of the tests' stores.
pub fn secrets() -> Arc<Secrets> {
    Arc::new(Secrets::with_key([7; 32], "KEY"))
}

/// A clock that goes on by a millisecond with each look.
pub fn ticking(from: u64) -> Clock {
    let next = AtomicU64::new(from);
    Arc::new(move || Timestamp::from_millis(next.fetch_add(1, Ordering::Relaxed)))
}

/// Opens a log that is driven step by step and knows nothing of a view.
pub fn open(disk: Arc<dyn Disk>) -> Result<Log, StoreError> {
    let recovered = Log::open(disk, small(), ticking(1000))?;
    Ok(recovered.start_synchronous(&HashMap::new()))
}

/// An event with this id and so many bytes of data.
pub fn event(id: &str, data_bytes: usize) -> Event<'_> {
    Event {
        id: id.into(),
        source: None,
        event_type: "test".into(),
        subject: Some("s".into()),
        time: None,
        data_version: None,
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Binary(Cow::Owned(id.bytes().cycle().take(data_bytes).collect())),
    }
}

/// One packed event.
pub fn packed(id: &str, data_bytes: usize) -> PackedEvents {
    PackedEvents::pack(&[event(id, data_bytes)])
}

/// A record that is no event.
pub fn settled(seq: u64) -> Record {
    Record::Settled(Settled {
        subscription: SubscriptionId(7),
        deliveries: vec![(seq, Timestamp::ZERO)],
        how: SettledHow::Delivered,
    })
}

/// Below these numbers nothing is needed.
#[derive(Default, Clone)]
pub struct Floors(pub HashMap<TopicId, u64>);

impl Liveness for Floors {
    fn is_needed(&self, topic: TopicId, seqs: RangeInclusive<u64>) -> bool {
        *seqs.end() >= self.0.get(&topic).copied().unwrap_or(0)
    }

    fn needed(&self, topic: TopicId, _: RangeInclusive<u64>) -> Needed {
        Needed {
            from: self.0.get(&topic).copied().unwrap_or(0),
            ..Needed::default()
        }
    }
}

/// Everything is settled.
pub struct NothingNeeded;

impl Liveness for NothingNeeded {
    fn is_needed(&self, _: TopicId, _: RangeInclusive<u64>) -> bool {
        false
    }

    fn needed(&self, _: TopicId, _: RangeInclusive<u64>) -> Needed {
        Needed::default()
    }
}

/// The change of the catalog with this revision, which declares a topic.
pub fn topic_created(id: TopicId, revision: u64) -> Record {
    let change = Change::TopicCreated {
        id,
        name: format!("orders-{}", id.0).parse().unwrap(),
        spec: TopicSpec::default(),
        keys: TopicKeys {
            key1: "one".to_owned(),
            key2: "two".to_owned(),
        },
        created: Timestamp::ZERO,
    };
    let json = change.to_sealed_json(&secrets()).unwrap().into();
    Record::Catalog(CatalogChange { revision, json })
}
