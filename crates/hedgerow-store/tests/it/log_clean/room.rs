//! The bound of the whole (D6): whatever is published, attempted, cleaned and opened again, `log/` and `kept/` never take
//! more than `bytes_max` together, at no moment.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_core::limits::{ATTEMPT_RECORDS_BYTES_MAX, DELIVERY_ROW_BYTES_MAX};
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::log::LogOptions;
use hedgerow_store::record::{
    DEAD_TEXT_BYTES_MAX, Dead, DeadThen, Failed, FailedDelivery, Hold, Holds, IN_FLIGHT, Moved,
    MovedDelivery, PendingWrite, Progress, Purged, Record, Started, StartedDelivery, encode_record,
};
use hedgerow_store::{Group, Store, StoreError};

use crate::grid::{Grid, SUBSCRIPTIONS, TOPICS, said};
use crate::support::{packed, small};

const SEGMENT_BYTES: u64 = 64 * 1024;

fn options(segments: u64) -> LogOptions {
    LogOptions {
        bytes_max: segments * SEGMENT_BYTES,
        keep_after: Duration::ZERO,
        zeroed_segments: 3,
        free_segments_max: 8,
        ..small()
    }
}

/// What nobody accepts fills the store; it is tried again, the server is started again, then all of it is accepted.
#[test]
fn the_whole_never_takes_more_than_it_may() {
    for (segments, event_bytes) in [(8, 300), (8, 9_000), (9, 60_000), (12, 4_000), (32, 2_000)] {
        for seed in 1..=2 {
            let mut run = Run::new(seed, segments, event_bytes);
            run.fill();
            for round in 0..12 {
                run.retry_all();
                run.grid.checkpoint();
                run.publish();
                if round % 5 == 4 {
                    run.grid.reopen();
                }
                run.check();
            }
            run.accept_all();
            run.check();
            run.fill();
            run.check();
            assert_eq!(said(&run.grid.rebuild()), said(&run.grid.view));
            run.check();
        }
    }
}

/// While a part is copied records fill the room that is left for them, and the active segment rolls: then the rooms for
/// records, for the segments ahead and for a copy are taken at once. What was kept before shifts where segments end.
#[test]
fn records_and_a_copy_take_their_rooms_at_once() {
    let mut most = 0;
    for kept in 0..16 {
        let mut run = Run::new(kept, 12, 4_000);
        run.keep(kept);
        run.fill_in_flight(8);
        run.clean_while_records_are_written();
        run.check();
        most = most.max(run.grid.watch.most());
    }
    // So a reserve that lacks a segment would be noticed.
    assert!(most > 11 * SEGMENT_BYTES, "{most}");
}

/// What was given back stays as free files only as far as there is room for them.
#[test]
fn free_files_make_room() {
    let mut run = Run::new(1, 32, 4_000);
    for _ in 0..600 {
        run.publish();
        run.accept_all();
    }
    let before = run.grid.watch.most();
    assert!(before <= 32 * SEGMENT_BYTES, "{before}");
    run.fill();
    run.check();
}

/// Free files of a store that is given fewer bytes are removed before it grows.
#[test]
fn free_files_are_removed_when_there_are_fewer_bytes() {
    let mut run = Run::new(1, 32, 4_000);
    for _ in 0..200 {
        run.publish();
    }
    run.accept_all();
    run.check();
    run.bytes_max = 8 * SEGMENT_BYTES;
    assert!(run.grid.watch.now() > run.bytes_max, "there are free files");
    run.grid.reopen_with(run.bytes_max);
    while run.grid.log.usage().recycled_segments == 0 {
        run.publish();
    }
    run.grid.checkpoint();
    assert!(run.grid.watch.now() <= run.bytes_max);
    run.fill();
    run.check();
}

/// A store that is given fewer bytes than are owed in it (ED-298: what was accepted is delivered) goes on delivering at full
/// speed, takes nothing new, and gets to its bound.
#[test]
fn a_store_with_more_than_it_may_have_drains() {
    for (segment_bytes, segments, event_bytes) in [(64, 32, 4_000), (256, 12, 300), (64, 32, 300)] {
        let options = LogOptions {
            bytes_max: segments * segment_bytes * 1024,
            segment_bytes: segment_bytes as u32 * 1024,
            ..options(segments)
        };
        let mut run = Run::with_options(1, options, event_bytes);
        while run.publish() {}
        run.grid.checkpoint();
        run.bytes_max = 8 * SEGMENT_BYTES;
        run.grid.options.segment_bytes = SEGMENT_BYTES as u32;
        run.grid.reopen_with(run.bytes_max);

        let stored = run.grid.watch.now();
        let usage = run.grid.log.usage();
        assert!(usage.used_bytes > 2 * run.bytes_max && usage.is_full());
        assert_eq!(usage.watermark_bytes, run.bytes_max - 4 * SEGMENT_BYTES);
        let (mut ended, mut waits) = (0, 0);
        while run.grid.log.usage().used_bytes > usage.watermark_bytes {
            if !run.has_room() {
                waits += 1;
                run.grid.read_to_the_end(run.topic);
                run.make_room();
                assert!(!run.publish(), "nothing new until it is in its bound");
            }
            let seq = run.grid.begin(SUBSCRIPTIONS[2]).unwrap();
            run.grid.settle(run.subscription, seq, IN_FLIGHT);
            ended += 1;
            if ended % 64 == 0 {
                run.grid.checkpoint();
            }
        }
        assert!(
            ended > 50 * waits,
            "{ended} ended, {waits} times without room"
        );
        let most = run.grid.watch.most();
        assert!(most <= stored + 4 * SEGMENT_BYTES, "{most} of {stored}");
        run.accept_all();
        run.grid.watch.now();
        run.fill();
        run.retry_all();
        run.check();
    }
}

/// What attempts reserve for their records is as much as those can take.
#[test]
fn the_records_of_an_attempt_fit_what_is_reserved_for_them() {
    let subscription = SubscriptionId(u32::MAX);
    let progress = largest_progress();
    let text = "x".repeat(DEAD_TEXT_BYTES_MAX);
    let dead = |then| {
        Record::Dead(Dead {
            subscription,
            seq: u64::MAX,
            due: Some(Timestamp::MAX),
            reason: DeadLetterReason::MaxDeliveryAttemptsExceeded,
            decided: Timestamp::MAX,
            published: Timestamp::MAX,
            progress: Some(progress),
            event_id: text.clone(),
            event_type: text.clone(),
            subject: text.clone(),
            then,
        })
    };
    let write = PendingWrite {
        failed: u32::MAX,
        first_failed: Some(Timestamp::MAX),
    };
    let records = [
        Record::Started(Started {
            subscription,
            deliveries: vec![StartedDelivery {
                seq: u64::MAX,
                replaces_due: Some(Timestamp::MAX),
                progress,
            }],
        }),
        Record::Failed(Failed {
            subscription,
            deliveries: vec![FailedDelivery {
                seq: u64::MAX,
                due: Timestamp::MAX,
                progress,
            }],
        }),
        dead(DeadThen::WriteDue(Timestamp::MAX, write)),
        dead(DeadThen::Written),
    ];
    let mut bytes = Vec::new();
    for record in &records {
        encode_record(record, &mut bytes);
    }
    assert!(
        bytes.len() as u64 <= ATTEMPT_RECORDS_BYTES_MAX,
        "{} bytes",
        bytes.len()
    );
}

/// The same for deliveries that are moved or dropped many at a time, each record counted whole.
#[test]
fn the_row_of_a_delivery_fits_what_is_reserved_for_it() {
    let subscription = SubscriptionId(u32::MAX);
    let moved = MovedDelivery {
        seq: u64::MAX,
        from: Timestamp::MAX,
        due: Timestamp::MAX,
        progress: largest_progress(),
        part: Some(u64::MAX),
    };
    let records = [
        Record::Moved(Moved {
            subscription,
            deliveries: vec![moved],
        }),
        Record::Purged(Purged {
            subscription,
            unbegun: u64::MAX,
            deliveries: vec![(u64::MAX, Timestamp::MAX)],
        }),
    ];
    for record in &records {
        let mut bytes = Vec::new();
        encode_record(record, &mut bytes);
        assert!(
            bytes.len() as u64 <= DELIVERY_ROW_BYTES_MAX,
            "{} bytes: {record:?}",
            bytes.len()
        );
    }
}

fn largest_progress() -> Progress {
    Progress {
        published: Timestamp::MAX,
        attempts: u16::MAX,
        first_attempt: Timestamp::MAX,
        last_attempt: Timestamp::MAX,
        last_outcome: Outcome::Busy,
        last_status: u16::MAX,
        crashes: u8::MAX,
        crash_epoch: u32::MAX,
    }
}

struct Run {
    grid: Grid,
    bytes_max: u64,
    event_bytes: usize,
    topic: TopicId,
    subscription: SubscriptionId,
}

impl Run {
    fn new(seed: u64, segments: u64, event_bytes: usize) -> Self {
        Self::with_options(seed, options(segments), event_bytes)
    }

    fn with_options(seed: u64, options: LogOptions, event_bytes: usize) -> Self {
        Self {
            bytes_max: options.bytes_max,
            grid: Grid::with_options(seed, options),
            event_bytes,
            topic: TOPICS[1],
            subscription: SUBSCRIPTIONS[2].0,
        }
    }

    /// Publishes until it is refused; every event is attempted, and fails.
    fn fill(&mut self) {
        let mut published = 0;
        while self.publish() {
            published += 1;
            if self.has_room() {
                let seq = self.grid.begin(SUBSCRIPTIONS[2]).unwrap();
                let progress = self.grid.progress(1);
                self.grid.fail(self.subscription, seq, progress);
            }
            if published % 16 == 0 {
                self.grid.checkpoint();
            }
        }
        assert!(published > 0, "there is room for something");
    }

    /// So many events are in flight, and their segments forgotten.
    fn keep(&mut self, events: u64) {
        for number in 0..64 {
            self.publish();
            let seq = self.grid.begin(SUBSCRIPTIONS[2]).unwrap();
            if number >= events {
                self.grid.settle(self.subscription, seq, IN_FLIGHT);
            }
        }
        self.grid.read_to_the_end(self.topic);
        self.grid.checkpoint();
        assert!(self.grid.log.usage().cleaned_segments > 0 || events == 0);
    }

    /// Publishes until it is refused; every event is in flight, and one of so many is accepted. Nothing is cleaned.
    fn fill_in_flight(&mut self, accepted: u64) {
        let mut published = 0;
        while self.publish() {
            published += 1;
            let seq = self.grid.begin(SUBSCRIPTIONS[2]).unwrap();
            if published % accepted == 0 {
                self.grid.settle(self.subscription, seq, IN_FLIGHT);
            }
            if published % 8 == 0 {
                self.grid.write_down();
            }
        }
        self.grid.read_to_the_end(self.topic);
    }

    /// Before each write of a copy records are written until there is no room for those of another attempt.
    fn clean_while_records_are_written(&mut self) {
        let groups: Arc<Mutex<Vec<Arc<Group>>>> = Arc::default();
        let (log, written) = (Arc::clone(&self.grid.log), Arc::clone(&groups));
        let subscription = self.subscription;
        self.grid.watch.meanwhile(Some(Box::new(move || {
            while log.usage().record_room_bytes >= ATTEMPT_RECORDS_BYTES_MAX {
                let holds = Holds::default();
                log.journal(Record::Hold(Hold {
                    subscription,
                    holds,
                }))
                .unwrap();
                written.lock().unwrap().extend(log.commit_queued().unwrap());
            }
        })));
        self.grid.checkpoint();
        self.grid.watch.meanwhile(None);
        let groups = std::mem::take(&mut *groups.lock().unwrap());
        assert!(!groups.is_empty(), "something was copied");
        for group in groups {
            self.grid.fold(&group);
        }
    }

    fn publish(&mut self) -> bool {
        let seq = self.grid.newest.get(&self.topic).copied().unwrap_or(0) + 1;
        let event = packed(&format!("2-{seq}"), self.event_bytes);
        match self.grid.log.append(self.topic, event) {
            Ok(_) => {
                self.grid.newest.insert(self.topic, seq);
                self.grid.commit();
                true
            }
            Err(refused) => {
                assert!(matches!(refused, StoreError::Full(_)), "{refused}");
                assert!(self.grid.log.usage().is_full(), "it says so");
                false
            }
        }
    }

    /// As the engine asks before each attempt.
    fn has_room(&self) -> bool {
        self.grid.log.usage().record_room_bytes >= ATTEMPT_RECORDS_BYTES_MAX
    }

    /// All that waits is tried and fails, as far as there is room.
    fn retry_all(&mut self) {
        for row in self.grid.waiting(self.subscription) {
            if !self.has_room() {
                return;
            }
            let progress = self.grid.progress(row.attempt().unwrap().attempts + 1);
            self.grid
                .start(self.subscription, row.seq, Some(row.due), progress);
            self.grid.fail(self.subscription, row.seq, progress);
        }
    }

    /// All that is owed is accepted, and the store has room again.
    fn accept_all(&mut self) {
        for row in self.grid.waiting(self.subscription) {
            self.make_room();
            self.grid.settle(self.subscription, row.seq, row.due);
        }
        while let Some(seq) = {
            self.make_room();
            self.grid.begin(SUBSCRIPTIONS[2])
        } {
            self.grid.settle(self.subscription, seq, IN_FLIGHT);
        }
        for topic in TOPICS {
            self.grid.read_to_the_end(topic);
        }
        self.grid.checkpoint();
        let usage = self.grid.log.usage();
        assert_eq!(usage.kept_bytes, 0, "{usage:?}");
    }

    /// What is accepted makes room, sooner or later.
    fn make_room(&mut self) {
        if self.has_room() {
            return;
        }
        self.grid.checkpoint();
        assert!(self.has_room(), "{:?}", self.grid.log.usage());
    }

    fn check(&self) {
        let most = self.grid.watch.most();
        let usage = self.grid.log.usage();
        assert!(
            most <= self.bytes_max,
            "{most} of {}: {usage:?}",
            self.bytes_max
        );
        self.grid.check_events();
    }
}
