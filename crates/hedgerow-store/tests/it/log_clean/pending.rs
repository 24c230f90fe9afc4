//! A hundred thousand pending deliveries, and the view lost or taken back to an earlier copy, before and after cleaning.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::log::LogOptions;
use hedgerow_store::record::{
    Failed, FailedDelivery, IN_FLIGHT, PackedEventsBuilder, Record, Settled, SettledHow, Started,
    StartedDelivery, unpack_event,
};
use hedgerow_store::view::table::{MemoryTable, Space, Table};
use hedgerow_store::view::{BEHIND_IN_FLIGHT, View};
use hedgerow_store::{Store, StoreError};

use crate::grid::{Grid, SUBSCRIPTIONS, TOPICS, said};
use crate::support::{packed, small};

const PENDING: u64 = 100_000;
/// Events of an append, and deliveries of a record.
const BATCH: u64 = 1_000;
const TOPIC: TopicId = TOPICS[1];
const SUBSCRIPTION: SubscriptionId = SUBSCRIPTIONS[2].0;

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 1024 * 1024,
        bytes_max: 256 * 1024 * 1024,
        group_bytes_max: 512 * 1024,
        ring_bytes: 1024 * 1024,
        keep_after: Duration::ZERO,
        ..small()
    }
}

impl Grid {
    fn publish_many(&mut self, count: u64) {
        let newest = self.newest.get(&TOPIC).copied().unwrap_or(0);
        for first in (newest..newest + count).step_by(BATCH as usize) {
            let mut events = PackedEventsBuilder::default();
            for seq in first + 1..=first + BATCH {
                let event = packed(&format!("2-{seq}"), 20);
                let stored = event.get(0).unwrap().unwrap();
                events.push(&unpack_event(&stored).unwrap());
            }
            self.log.append(TOPIC, events.finish()).unwrap();
            self.commit();
        }
        self.newest.insert(TOPIC, newest + count);
    }

    /// Attempts at these, which fail.
    fn attempt(&mut self, seqs_and_dues: &[(u64, Option<Timestamp>)], attempts: u16) {
        for batch in seqs_and_dues.chunks(BATCH as usize) {
            let progress = self.progress(attempts);
            let started = batch.iter().map(|(seq, replaces_due)| StartedDelivery {
                seq: *seq,
                replaces_due: *replaces_due,
                progress,
            });
            let started = started.collect();
            self.log
                .journal(Record::Started(Started {
                    subscription: SUBSCRIPTION,
                    deliveries: started,
                }))
                .unwrap();
            let failed = batch.iter().map(|(seq, _)| FailedDelivery {
                seq: *seq,
                due: self.later(60_000 * u64::from(attempts)),
                progress,
            });
            let failed = failed.collect();
            self.log
                .journal(Record::Failed(Failed {
                    subscription: SUBSCRIPTION,
                    deliveries: failed,
                }))
                .unwrap();
            self.commit();
        }
    }

    fn settle_many(&mut self, seqs_and_dues: &[(u64, Option<Timestamp>)]) {
        for batch in seqs_and_dues.chunks(BATCH as usize) {
            let deliveries = batch
                .iter()
                .map(|(seq, due)| (*seq, due.unwrap_or(IN_FLIGHT)));
            let deliveries = deliveries.collect();
            self.log
                .journal(Record::Settled(Settled {
                    subscription: SUBSCRIPTION,
                    deliveries,
                    how: SettledHow::Delivered,
                }))
                .unwrap();
            self.commit();
        }
    }

    fn pending(&self) -> Vec<(u64, Option<Timestamp>)> {
        let rows = self
            .view
            .due(SUBSCRIPTION, BEHIND_IN_FLIGHT, Timestamp::MAX, usize::MAX);
        let rows = rows.unwrap();
        rows.iter().map(|row| (row.seq, Some(row.due))).collect()
    }

    /// Opens the store with a view from another time.
    fn open_with_view(&mut self, table: &Arc<MemoryTable>) -> Result<View, StoreError> {
        let next = self.view.next_seqs();
        self.log.close();
        let recovered = self.open();
        let mut view = crate::grid::open_view(&self.disk, table, recovered.store_id());
        let caught_up = view.catch_up(&recovered, 1 << 20);
        self.log = recovered.start_synchronous(&next).into();
        caught_up.map(|()| view)
    }
}

fn copy(table: &MemoryTable) -> Arc<MemoryTable> {
    let copied: Arc<MemoryTable> = Arc::default();
    for space in Space::ALL {
        let rows = table.scan(space, &[], &[0xFF; 32], usize::MAX).unwrap();
        let changes = rows
            .iter()
            .map(|(key, value)| (space, key.as_slice(), Some(value.as_slice())));
        copied.apply(&mut changes.into_iter()).unwrap();
    }
    copied.persist().unwrap();
    copied
}

#[test]
fn a_hundred_thousand_pending_deliveries_survive_a_lost_and_an_older_view() {
    let mut grid = Grid::with_options(1, options());
    grid.publish_many(PENDING);
    let seqs: Vec<_> = (1..=PENDING).map(|seq| (seq, None)).collect();
    grid.attempt(&seqs, 1);
    grid.read_to_the_end(TOPIC);
    // Cleaning copies them.
    grid.checkpoint();
    grid.checkpoint();
    assert!(
        grid.log.usage().copied_events > PENDING / 2,
        "{:?}",
        grid.log.usage()
    );
    let older = copy(&grid.table);

    // Half of them are tried again, a fifth arrives, and more comes.
    let pending = grid.pending();
    assert_eq!(pending.len() as u64, PENDING);
    grid.attempt(&pending[..50_000], 2);
    grid.settle_many(&pending[80_000..]);
    grid.publish_many(5_000);
    let more: Vec<_> = (PENDING + 1..=PENDING + 5_000)
        .map(|seq| (seq, None))
        .collect();
    grid.attempt(&more, 1);
    grid.read_to_the_end(TOPIC);
    let expected = said(&grid.view);

    // The log still has all that the older view lacks: it catches up.
    let view = grid.open_with_view(&copy(&older)).unwrap();
    assert_eq!(said(&view), expected);
    assert_eq!(said(&grid.rebuild()), expected, "the view lost");

    // Cleaning forgets it: the older view is refused, and built again.
    grid.checkpoint();
    grid.checkpoint();
    let error = grid.open_with_view(&older).err().unwrap();
    assert!(matches!(error, StoreError::ViewBehind { .. }), "{error}");
    let rebuilt = grid.rebuild();
    assert_eq!(said(&rebuilt), expected, "the view lost after cleaning");

    // Nothing is owed twice, and all that is owed can be read.
    let rows = rebuilt.due(SUBSCRIPTION, BEHIND_IN_FLIGHT, Timestamp::MAX, usize::MAX);
    let seqs: Vec<u64> = rows.unwrap().iter().map(|row| row.seq).collect();
    let distinct: BTreeSet<u64> = seqs.iter().copied().collect();
    assert_eq!((seqs.len(), distinct.len()), (85_000, 85_000));
    for seq in seqs.iter().step_by(97) {
        let position = hedgerow_core::position::Position {
            topic: TOPIC,
            seq: *seq,
        };
        let event = grid.log.read(position).unwrap();
        let id = unpack_event(&event.bytes).unwrap().id.into_owned();
        assert_eq!(id, format!("2-{seq}"));
    }
}
