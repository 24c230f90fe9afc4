//! The log on a good day, on a full disk, and what it refuses.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{Mark, Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::error::Fullness;
use hedgerow_store::log::{Log, LogOptions};
use hedgerow_store::record::{
    CatalogChange, CleanStop, Dead, DeadThen, DropReason, Events, Failed, FailedDelivery,
    PackedEvents, Progress, Read, Record, Settled, SettledHow, Started, StartedDelivery,
    decode_record, encode_record, unpack_event, unpack_head,
};
use hedgerow_store::{Store, StoreError};

use crate::support::{Floors, NothingNeeded, event, open, packed, settled, small, ticking};

const TOPIC: TopicId = TopicId(1);

fn at(seq: u64) -> Position {
    Position { topic: TOPIC, seq }
}

fn progress() -> Progress {
    Progress {
        attempts: 3,
        published: Timestamp::from_millis(2),
        first_attempt: Timestamp::from_millis(5),
        last_attempt: Timestamp::from_millis(u64::MAX),
        last_outcome: Outcome::Busy,
        last_status: 503,
        crashes: 1,
        crash_epoch: 9,
    }
}

fn one_of_each() -> Vec<Record> {
    let subscription = SubscriptionId(4);
    let packed = PackedEvents::pack(&[event("a", 0), event("b", 300)]);
    vec![
        Record::Events(Events {
            topic: TOPIC,
            first_seq: 17,
            published: Timestamp::from_millis(99),
            packed,
        }),
        Record::Started(Started {
            subscription,
            deliveries: vec![StartedDelivery {
                seq: 3,
                replaces_due: Some(Timestamp::from_millis(8)),
                progress: progress(),
            }],
        }),
        Record::Failed(Failed {
            subscription,
            deliveries: vec![FailedDelivery {
                seq: 3,
                due: Timestamp::from_millis(10),
                progress: progress(),
            }],
        }),
        Record::Settled(Settled {
            subscription,
            deliveries: vec![(1, Timestamp::ZERO), (2, Timestamp::from_millis(4))],
            how: SettledHow::DeliveredLate,
        }),
        Record::Dead(Dead {
            subscription,
            seq: 5,
            due: None,
            reason: DeadLetterReason::TimeToLiveExceeded,
            decided: Timestamp::from_millis(1),
            published: Timestamp::ZERO,
            progress: Some(progress()),
            event_id: "id".into(),
            event_type: "type".into(),
            subject: String::new(),
            then: DeadThen::Dropped(DropReason::NoDeadLetterDestination),
        }),
        Record::Read(Read {
            topic: TOPIC,
            read_to: 9,
            laggards: vec![(subscription, 2)],
        }),
        Record::Catalog(CatalogChange {
            revision: 3,
            json: Bytes::from_static(b"{\"a\":1}"),
        }),
        Record::CleanStop(CleanStop { epoch: 1 }),
    ]
}

#[test]
fn every_record_is_read_as_it_was_written() {
    for record in one_of_each() {
        let mut frame = Vec::new();
        encode_record(&record, &mut frame);
        assert_eq!(decode_record(&frame.clone().into()).unwrap(), record);
        for len in 0..frame.len() {
            let cut = decode_record(&frame[..len].to_vec().into());
            assert!(
                matches!(cut, Err(StoreError::Damaged { .. })),
                "{record:?} cut to {len}"
            );
        }
    }
}

#[test]
fn records_of_a_newer_version_are_refused() {
    for kind in [0, 99, 255] {
        let frame = Bytes::from(vec![kind, 1, 0, 0, 0, 0, 0, 0]);
        let error = decode_record(&frame).unwrap_err();
        assert!(
            error.to_string().contains("written by a newer version"),
            "{kind}: {error}"
        );
    }
    let frame = Bytes::from(vec![12, 2, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(
        decode_record(&frame),
        Err(StoreError::Newer { .. })
    ));
    let mut events = Vec::new();
    encode_record(&one_of_each()[0], &mut events);
    events[8 + 24] = 2;
    assert!(matches!(
        decode_record(&events.into()),
        Err(StoreError::Newer { .. })
    ));
}

#[test]
fn packed_events_share_their_bytes() {
    let packed = PackedEvents::pack(&[event("a", 3), event("b", 0), event("c", 500)]);
    let ids: Vec<_> = packed
        .iter()
        .map(|event| event.unwrap().1.id.into_owned())
        .collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let third = packed.get(2).unwrap().unwrap();
    assert_eq!(unpack_event(&third).unwrap(), event("c", 500));
    let (head, whole) = (unpack_head(&third).unwrap(), event("c", 500));
    assert_eq!(
        (
            head.id,
            head.source,
            head.event_type,
            head.subject,
            head.time
        ),
        (
            whole.id,
            whole.source,
            whole.event_type,
            whole.subject,
            whole.time
        ),
        "an event begins with its head"
    );
    // Nothing behind the head is looked at.
    let cut = third.len() - 400;
    assert!(unpack_head(&third[..cut]).is_ok() && unpack_event(&third[..cut]).is_err());
    assert!(packed.bytes().as_ptr_range().contains(&third.as_ptr()));
    assert!(packed.get(3).is_none());
    let cut = PackedEvents::from_parts(3, packed.bytes().slice(..packed.len_bytes() - 1));
    let whole: Vec<_> = cut.iter().map(|event| event.is_ok()).collect();
    assert_eq!(whole, [true, true, false]);
}

#[test]
fn what_was_queued_comes_back_in_order_after_a_restart() {
    let disk = FaultyDisk::new(1);
    let log = open(disk.mount()).unwrap();
    let mut first = log.append(TOPIC, packed("a", 10)).unwrap();
    log.journal(settled(1)).unwrap();
    let mut second = log
        .append(TOPIC, PackedEvents::pack(&[event("b", 0), event("c", 0)]))
        .unwrap();
    assert!(first.try_recv().is_err() && log.groups(Mark::ZERO, 1000).unwrap().is_empty());
    let group = log.commit_queued().unwrap().unwrap();
    assert_eq!(*log.durable().borrow(), group.end);
    assert_eq!(first.try_recv().unwrap().first, at(1));
    assert_eq!(second.try_recv().unwrap().first, at(2));
    assert_eq!((group.number, group.start), (1, Mark::new(1, 0)));
    assert_eq!(log.commit_queued().unwrap().map(|group| group.number), None);
    drop(log);

    let recovered = Log::open(disk.mount(), small(), ticking(0)).unwrap();
    assert_eq!(
        (recovered.epoch(), recovered.end(), recovered.oldest()),
        (2, group.end, Mark::ZERO)
    );
    assert_eq!(recovered.clock_high_water(), Timestamp::from_millis(1000));
    let groups = recovered.groups(Mark::ZERO, 10_000).unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].records, group.records);
    // The view may know of events that the log has forgotten; the clock never goes back.
    let log = recovered.start_synchronous(&HashMap::from([(TopicId(2), 50), (TOPIC, 2)]));
    let mut third = log.append(TOPIC, packed("d", 0)).unwrap();
    let mut other = log.append(TopicId(2), packed("x", 0)).unwrap();
    log.commit_queued().unwrap();
    let third = third.try_recv().unwrap();
    assert_eq!(
        (third.first, third.published),
        (at(4), Timestamp::from_millis(1000))
    );
    assert_eq!(
        other.try_recv().unwrap().first,
        Position {
            topic: TopicId(2),
            seq: 50
        }
    );
}

#[test]
fn closing_writes_what_is_queued() {
    let disk = FaultyDisk::new(1);
    let log = open(disk.mount()).unwrap();
    log.journal(Record::CleanStop(CleanStop { epoch: 1 }))
        .unwrap();
    log.close();
    assert!(matches!(
        log.journal(Record::CleanStop(CleanStop { epoch: 1 })),
        Err(StoreError::Closed)
    ));
    assert!(log.durable().has_changed().is_err(), "the sender is gone");
    let recovered = Log::open(disk.mount(), small(), ticking(0)).unwrap();
    assert_eq!(
        recovered.groups(Mark::ZERO, 1).unwrap()[0].records,
        [Record::CleanStop(CleanStop { epoch: 1 })]
    );
}

#[test]
fn a_directory_has_one_server() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("data");
    let disk = || Arc::new(RealDisk::new(&root).unwrap());
    let options = LogOptions {
        segment_bytes: 64 * 1024,
        zeroed_segments: 0,
        ..small()
    };
    let first = Log::open(disk(), options.clone(), ticking(0)).unwrap();
    let error = Log::open(disk(), options.clone(), ticking(0))
        .err()
        .unwrap();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Locked { .. }), "{text}");
    assert!(
        text.contains(&root.display().to_string()) && text.contains("another server"),
        "{text}"
    );
    let log = first.start(&HashMap::new());
    assert!(matches!(
        Log::open(disk(), options.clone(), ticking(0)),
        Err(StoreError::Locked { .. })
    ));
    log.close();
    assert_eq!(Log::open(disk(), options, ticking(0)).unwrap().epoch(), 2);
}

#[test]
fn a_record_larger_than_a_segment_is_refused_and_one_that_fits_is_not() {
    let disk = FaultyDisk::new(1);
    let log = open(disk.mount()).unwrap();
    let error = log.append(TOPIC, packed("a", 65_500)).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::TooLarge {
                bytes_max: 65_472,
                ..
            }
        ),
        "{error}"
    );
    log.append(TOPIC, packed("a", 65_380)).unwrap();
    log.append(TOPIC, packed("b", 65_380)).unwrap();
    assert_eq!(log.commit_queued().unwrap().unwrap().start, Mark::new(1, 0));
    assert_eq!(log.commit_queued().unwrap().unwrap().start, Mark::new(2, 0));
    assert_eq!(
        unpack_event(&log.read(at(2)).unwrap().bytes).unwrap().id,
        "b"
    );
}

#[test]
fn too_much_in_the_queue_is_refused_for_the_moment() {
    let disk = FaultyDisk::new(1);
    let options = LogOptions {
        queue_bytes_max: 10_000,
        ..small()
    };
    let recovered = Log::open(disk.mount(), options, ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    let refused = (0..20)
        .find_map(|_| log.append(TOPIC, packed("a", 900)).err())
        .unwrap();
    assert!(
        matches!(
            refused,
            StoreError::Busy {
                queue_bytes_max: 10_000,
                ..
            }
        ),
        "{refused}"
    );
    log.journal(settled(1)).unwrap();
    log.commit_queued().unwrap();
    log.append(TOPIC, packed("a", 900)).unwrap();
}

#[test]
fn publishing_stops_at_the_watermark_and_resumes_after_a_checkpoint() {
    let disk = FaultyDisk::new(1);
    let options = LogOptions {
        bytes_max: 8 * 64 * 1024,
        ..small()
    };
    let recovered = Log::open(disk.mount(), options, ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    let mut appended = 0;
    let refused = loop {
        match log.append(TOPIC, packed("a", 10_000)) {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
        log.commit_queued().unwrap();
    };
    let usage = log.usage();
    assert_eq!(usage.watermark_bytes, 4 * 64 * 1024);
    assert!(
        usage.used_bytes <= usage.watermark_bytes && appended >= 20,
        "{usage:?}"
    );
    assert!(
        matches!(refused, StoreError::Full(Fullness::Log { .. })),
        "{refused}"
    );
    // What the server itself publishes belongs to such records, and is not refused (ED-263).
    log.append_own(TOPIC, packed("own", 600)).unwrap();
    log.commit_queued().unwrap();
    assert!(log.read(at(appended + 1)).is_ok());
    // Room is kept to settle: two segments of it at least.
    for seq in 0..1500 {
        log.journal(settled(seq)).unwrap();
        log.commit_queued().unwrap();
    }
    // Of what is still needed nothing is forgotten.
    let end = *log.durable().borrow();
    log.checkpoint(end, &Floors(HashMap::from([(TOPIC, 2)])))
        .unwrap();
    assert!(log.append(TOPIC, packed("a", 10_000)).is_err() || log.oldest() > Mark::ZERO);
    assert_eq!(
        log.read(at(appended)).unwrap().bytes.len(),
        packed("a", 10_000).len_bytes() - 4
    );
    log.checkpoint(end, &NothingNeeded).unwrap();
    let usage = log.usage();
    assert!(usage.used_bytes <= 64 * 1024, "{usage:?}");
    log.append(TOPIC, packed("a", 10_000)).unwrap();
    log.commit_queued().unwrap();
    assert!(matches!(log.read(at(1)), Err(StoreError::Forgotten { .. })));
    assert!(matches!(
        log.read_from(at(1), 100),
        Err(StoreError::Forgotten { .. })
    ));
    assert!(log.oldest() > Mark::ZERO);
    let first = &log.groups(Mark::ZERO, 1).unwrap()[0];
    assert!(first.number > 1, "the oldest group there is");
}

#[test]
fn a_segment_is_kept_while_an_event_in_it_is_needed() {
    let disk = FaultyDisk::new(1);
    let log = open(disk.mount()).unwrap();
    for _ in 0..30 {
        log.append(TOPIC, packed("a", 10_000)).unwrap();
        log.commit_queued().unwrap();
    }
    let end = *log.durable().borrow();
    log.checkpoint(end, &Floors(HashMap::from([(TOPIC, 6)])))
        .unwrap();
    assert_eq!(
        log.oldest(),
        Mark::ZERO,
        "events 1 to 6 stand in the first segment"
    );
    log.checkpoint(Mark::new(1, 100), &NothingNeeded).unwrap();
    assert_eq!(
        log.oldest(),
        Mark::ZERO,
        "the view has not seen the end of the first segment"
    );
    log.checkpoint(end, &Floors(HashMap::from([(TOPIC, 7)])))
        .unwrap();
    assert_eq!(log.oldest().segment(), 1, "the end of the first segment");
    assert!(log.read(at(6)).is_err() && log.read(at(7)).is_ok());
    log.checkpoint(end, &NothingNeeded).unwrap();
    assert!(log.read(at(30)).is_ok(), "the active segment stays");
}

/// An event that memory alone remembers is gone after a restart: nobody may begin to owe it.
#[test]
fn what_is_read_to_be_kept_is_on_disk() {
    let disk = FaultyDisk::new(1);
    let options = LogOptions {
        ring_bytes: 1024 * 1024,
        ..small()
    };
    let recovered = Log::open(disk.mount(), options, ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    for _ in 0..30 {
        log.append(TOPIC, packed("a", 10_000)).unwrap();
        log.commit_queued().unwrap();
    }
    let end = *log.durable().borrow();
    log.checkpoint(end, &Floors(HashMap::from([(TOPIC, 7)])))
        .unwrap();
    assert!(log.read(at(6)).is_ok(), "memory remembers it");
    assert!(matches!(
        log.read_to_keep(at(6)),
        Err(StoreError::Forgotten { .. })
    ));
    for seq in [7, 30] {
        let kept = log.read_to_keep(at(seq)).unwrap();
        assert_eq!(kept.bytes, log.read(at(seq)).unwrap().bytes);
    }
}

#[test]
fn segments_are_recycled() {
    let disk = FaultyDisk::new(1);
    let log = open(disk.mount()).unwrap();
    let mut most = 0;
    for _ in 0..400 {
        log.append(TOPIC, packed("a", 10_000)).unwrap();
        let group = log.commit_queued().unwrap().unwrap();
        log.checkpoint(group.end, &NothingNeeded).unwrap();
        most = most.max(disk.mount().list("log").unwrap().len());
    }
    assert!(log.usage().recycled_segments > 50, "{:?}", log.usage());
    assert!(most <= 4, "{most} files for one active segment");
    let end = *log.durable().borrow();
    assert!(end.segment() > 50);
    drop(log);
    disk.cut();
    let recovered = Log::open(disk.mount(), small(), ticking(0)).unwrap();
    assert_eq!(recovered.end(), end);
}

#[test]
fn a_failed_sync_closes_the_log_and_nothing_is_lost_that_was_told() {
    let disk = FaultyDisk::new(3);
    let log = open(disk.mount()).unwrap();
    log.append(TOPIC, packed("a", 100)).unwrap();
    let first = log.commit_queued().unwrap().unwrap();
    let mut reply = log.append(TOPIC, packed("b", 100)).unwrap();
    let mut later = log.append(TOPIC, packed("c", 40_000)).unwrap();
    let durable = log.durable();
    disk.fail_sync_once();
    let error = log.commit_queued().unwrap_err();
    assert!(
        matches!(error, StoreError::Io { doing: "sync", .. }),
        "{error}"
    );
    assert!(reply.try_recv().is_err() && later.try_recv().is_err());
    assert!(durable.has_changed().is_err());
    for refused in [
        log.append(TOPIC, packed("d", 1)).err(),
        log.journal(Record::CleanStop(CleanStop { epoch: 1 })).err(),
        log.commit_queued().err(),
        log.read(at(1)).err(),
        log.groups(Mark::ZERO, 1).err(),
        log.checkpoint(first.end, &NothingNeeded).err(),
    ] {
        assert!(matches!(refused, Some(StoreError::Closed)), "{refused:?}");
    }
    drop(log);
    // In the page cache the group looks good, on the platter it is not. Whatever is shown now stays.
    let recovered = Log::open(disk.mount(), small(), ticking(0)).unwrap();
    let shown = recovered.groups(Mark::ZERO, 1 << 20).unwrap().len();
    drop(recovered);
    disk.cut();
    let recovered = Log::open(disk.mount(), small(), ticking(0)).unwrap();
    assert_eq!(recovered.groups(Mark::ZERO, 1 << 20).unwrap().len(), shown);
    assert_eq!(shown, 2);
}

#[test]
fn on_a_full_disk_publishing_stops_settling_goes_on_and_it_resumes() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(5 * 64 * 1024);
    let log = open(disk.mount()).unwrap();
    let refused = loop {
        if let Err(error) = log.append(TOPIC, packed("a", 5_000)) {
            break error;
        }
        log.commit_queued().unwrap();
    };
    assert!(
        matches!(refused, StoreError::Full(Fullness::Disk { .. })),
        "{refused}"
    );
    for seq in 0..400 {
        log.journal(settled(seq)).unwrap();
        log.commit_queued().unwrap();
    }
    let end = *log.durable().borrow();
    log.checkpoint(end, &NothingNeeded).unwrap();
    // The freed files are enough, but the disk itself still has no space for anything else.
    disk.set_capacity(20 * 64 * 1024);
    log.append(TOPIC, packed("a", 5_000)).unwrap();
    log.commit_queued().unwrap().unwrap();
}

#[test]
fn a_full_disk_that_stays_full_resumes_when_segments_are_freed() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(5 * 64 * 1024);
    let log = open(disk.mount()).unwrap();
    while log.append(TOPIC, packed("a", 5_000)).is_ok() {
        log.commit_queued().unwrap();
    }
    let end = *log.durable().borrow();
    log.checkpoint(end, &NothingNeeded).unwrap();
    log.journal(settled(1)).unwrap();
    log.commit_queued().unwrap();
    log.append(TOPIC, packed("a", 5_000)).unwrap();
    log.commit_queued().unwrap().unwrap();
}

/// Free files are kept for segments alone, the reserve is for everything: they are given back before a publisher is refused,
/// but for the one that records need (issue 4).
#[test]
fn free_files_are_given_back_before_a_publisher_is_refused_issue_4() {
    const SEGMENT_BYTES: u64 = 64 * 1024;
    let disk = FaultyDisk::new(1);
    let options = LogOptions {
        disk_reserve_bytes: 2 * SEGMENT_BYTES,
        ..small()
    };
    disk.set_capacity(64 * SEGMENT_BYTES);
    let recovered = Log::open(disk.mount(), options, ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    let publish = |count| {
        for _ in 0..count {
            log.append(TOPIC, packed("a", 5_000)).unwrap();
            log.commit_queued().unwrap();
        }
    };
    publish(60);
    let end = *log.durable().borrow();
    log.checkpoint(end, &NothingNeeded).unwrap();
    let free_files = || {
        let names = disk.mount().list("log").unwrap();
        names
            .iter()
            .filter(|name| name.starts_with("free-"))
            .count() as u64
    };
    let free = free_files();
    assert!(free >= 4, "{free}");
    // Somebody else fills the disk: a segment is missing in the reserve, and free files take more than that.
    let used = 64 * SEGMENT_BYTES - disk.mount().free_space().unwrap();
    disk.set_capacity(used + SEGMENT_BYTES);
    assert!(!log.usage().is_full());
    assert_eq!(free_files(), free - 1, "no more than is missing");
    log.append(TOPIC, packed("a", 5_000)).unwrap();
    // When nothing is left to be given back publishers are refused, and settling has its file.
    disk.set_capacity(used - (free - 1) * SEGMENT_BYTES);
    assert!(log.usage().is_full());
    let refused = log.append(TOPIC, packed("a", 5_000)).unwrap_err();
    assert!(
        matches!(refused, StoreError::Full(Fullness::Disk { .. })),
        "{refused}"
    );
    assert_eq!(free_files(), 1);
}

/// Whoever asks is told how it is now, although nobody publishes (issue 4).
#[test]
fn the_usage_knows_of_a_full_disk_while_nobody_publishes_issue_4() {
    let disk = FaultyDisk::new(1);
    let options = LogOptions {
        disk_reserve_bytes: 64 * 1024,
        ..small()
    };
    disk.set_capacity(20 * 64 * 1024);
    let recovered = Log::open(disk.mount(), options, ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    log.append(TOPIC, packed("a", 5_000)).unwrap();
    log.commit_queued().unwrap();
    assert!(!log.usage().is_full());
    disk.set_capacity(1);
    assert!(log.usage().is_full());
    let why = log.usage().fullness.unwrap();
    assert!(matches!(why, Fullness::Disk { .. }), "{why:?}");
    // What is logged and what publishers are told: no setting of the log would help.
    let told = why.to_string();
    assert!(
        told.contains("store.disk_reserve_bytes") && !told.contains("bytes_max"),
        "{told}"
    );
    let refused = log.append(TOPIC, packed("a", 5_000)).unwrap_err();
    assert!(refused.to_string().contains(&told), "{refused}");
    disk.set_capacity(20 * 64 * 1024);
    assert!(!log.usage().is_full());
}

#[test]
fn old_events_are_found_through_the_index() {
    let disk = FaultyDisk::new(1);
    let log = open(disk.mount()).unwrap();
    let mut seqs = [0; 3];
    for number in 0..600_u32 {
        let topic = number % 3;
        log.append(TopicId(topic), packed(&number.to_string(), 700))
            .unwrap();
        seqs[topic as usize] += 1;
        if number % 5 == 0 {
            log.commit_queued().unwrap();
        }
    }
    log.commit_queued().unwrap();
    let before = disk.counters().read_bytes;
    for number in [0_u32, 1, 2, 100, 299, 300, 301, 450, 598, 599] {
        let position = Position {
            topic: TopicId(number % 3),
            seq: u64::from(number / 3) + 1,
        };
        let stored = log.read(position).unwrap();
        assert_eq!(unpack_event(&stored.bytes).unwrap().id, number.to_string());
    }
    let read = disk.counters().read_bytes - before;
    assert!(read < 10 * 40 * 1024, "{read} bytes read for ten events");
    let row = log
        .read_from(
            Position {
                topic: TopicId(1),
                seq: 20,
            },
            20_000,
        )
        .unwrap();
    assert!(row.len() > 10 && row[0].0 == 20 && row.windows(2).all(|two| two[0].0 + 1 == two[1].0));
    for refused in [
        Position {
            topic: TopicId(1),
            seq: 0,
        },
        Position {
            topic: TopicId(1),
            seq: 201,
        },
    ] {
        assert!(matches!(
            log.read(refused),
            Err(StoreError::Forgotten { .. })
        ));
    }
}

/// What one segment holds from before is more than may be held now: once nobody needs it, publishing goes on.
#[test]
fn smaller_segments_take_the_place_of_larger_ones() {
    let disk = FaultyDisk::new(1);
    let large = LogOptions {
        segment_bytes: 1024 * 1024,
        group_bytes_max: 1024 * 1024,
        ..small()
    };
    let recovered = Log::open(disk.mount(), large, ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::new());
    log.append(TOPIC, packed("large", 900_000)).unwrap();
    log.commit_queued().unwrap();
    drop(log);
    let options = LogOptions {
        bytes_max: 8 * 64 * 1024,
        ..small()
    };
    let recovered = Log::open(disk.mount(), options, ticking(0)).unwrap();
    let log = recovered.start_synchronous(&HashMap::from([(TOPIC, 2)]));
    log.append(TOPIC, packed("small", 1_000)).unwrap();
    log.commit_queued().unwrap();
    assert!(log.usage().is_full(), "{:?}", log.usage());
    let why = log.usage().fullness.unwrap().to_string();
    assert!(why.contains("raise store.bytes_max"), "{why}");
    let end = *log.durable().borrow();
    log.checkpoint(end, &Floors(HashMap::from([(TOPIC, 2)])))
        .unwrap();
    assert!(!log.usage().is_full(), "{:?}", log.usage());
    log.append(TOPIC, packed("small", 1_000)).unwrap();
    log.commit_queued().unwrap();
    assert_eq!(
        log.read(at(2)).unwrap().bytes,
        log.read(at(3)).unwrap().bytes
    );
}
