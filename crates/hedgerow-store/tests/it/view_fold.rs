//! What each record makes of the view, record by record.

use hedgerow_core::hold::Period;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::Change;
use hedgerow_store::record::{
    Dead, DeadThen, DropReason, Failed, FailedDelivery, Hold, Holds, IN_FLIGHT, Lease, Owed,
    PendingDeadLetter, PendingWrite, Progress, Record, Seek, SeqChunks, Settled, SettledHow,
    Snapshot, SnapshotPlace, Started, StartedDelivery, decode_record, encode_record,
};
use hedgerow_store::view::Disposition::{self, DeadLettered, Dropped};
use hedgerow_store::view::{
    BEHIND_IN_FLIGHT, Counters, DueDelivery, FIRST_IN_FLIGHT, TerminalFilter, View, chunks_of,
};
use hedgerow_store::{Liveness, StoreError};

use crate::grid::{Grid, SUBSCRIPTIONS, TOPICS};

const SUBSCRIPTION: SubscriptionId = SUBSCRIPTIONS[0].0;
const TOPIC: TopicId = TOPICS[0];
const WRITE: PendingWrite = PendingWrite {
    failed: 0,
    first_failed: None,
};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A grid with so many events of the first topic.
fn with_events(count: u64) -> Grid {
    let mut grid = Grid::new(1);
    for _ in 0..count {
        grid.publish(TOPIC, 10);
    }
    grid.commit();
    grid
}

fn fold(grid: &mut Grid, record: Record) {
    grid.journal(record);
    grid.commit();
}

fn started(seqs: impl Iterator<Item = u64>, progress: Progress) -> Record {
    let deliveries = seqs.map(|seq| StartedDelivery {
        seq,
        replaces_due: None,
        progress,
    });
    Record::Started(Started {
        subscription: SUBSCRIPTION,
        deliveries: deliveries.collect(),
    })
}

fn dead(seq: u64, due: Option<Timestamp>, progress: Option<Progress>, then: DeadThen) -> Record {
    Record::Dead(Dead {
        subscription: SUBSCRIPTION,
        seq,
        due,
        reason: DeadLetterReason::TimeToLiveExceeded,
        decided: at(77),
        published: at(7),
        progress,
        event_id: "id".to_owned(),
        event_type: "type".to_owned(),
        subject: "subject".to_owned(),
        then,
    })
}

fn rows(view: &View) -> Vec<DueDelivery> {
    view.due(SUBSCRIPTION, FIRST_IN_FLIGHT, Timestamp::MAX, 100)
        .unwrap()
}

fn dispositions(view: &View) -> Vec<(u64, Disposition)> {
    let page = view.terminal_records(&TerminalFilter::default(), 100);
    let records = page.unwrap().records.into_iter();
    records
        .map(|(_, record)| (record.seq, record.disposition))
        .collect()
}

/// ED-244, ED-247, ED-304: what follows a delivery that ended undelivered, after an attempt and without one.
#[test]
fn an_undelivered_delivery_is_dropped_or_written_or_waits_for_that() {
    let reasons = [
        DropReason::NoDeadLetterDestination,
        DropReason::DeadLetterStoreUnavailable,
        DropReason::DeadLetterContainerNotFound,
    ];
    let mut ends = reasons
        .map(|reason| (DeadThen::Dropped(reason), Dropped(reason)))
        .to_vec();
    ends.push((DeadThen::Written, DeadLettered));
    for is_attempted in [true, false] {
        for (then, disposition) in &ends {
            let mut grid = with_events(1);
            let progress = is_attempted.then(|| grid.progress(3));
            if let Some(progress) = progress {
                fold(&mut grid, started(1..=1, progress));
            }
            let row = is_attempted.then_some(IN_FLIGHT);
            fold(&mut grid, dead(1, row, progress, *then));
            let is_written = *disposition == DeadLettered;
            let counters = Counters {
                matched: 1,
                dropped: u64::from(!is_written),
                dead_lettered: u64::from(is_written),
                ..Counters::default()
            };
            assert_eq!(grid.view.counters(SUBSCRIPTION), (counters, 0), "{then:?}");
            assert_eq!(dispositions(&grid.view), [(1, *disposition)]);
            assert_eq!(rows(&grid.view), []);
            assert_eq!(grid.view.cursor(SUBSCRIPTION), 2);
            assert!(!grid.view.needed(TOPIC, 1..=1).open.contains(1));
        }
    }
}

/// A look walks over no row that was removed before another look, and misses none that came since.
#[test]
fn what_is_due_first_is_found_again_and_again() {
    let mut grid = with_events(5);
    let progress = grid.progress(1);
    fold(&mut grid, started(1..=5, progress));
    let mut expected: Vec<(Timestamp, u64)> = Vec::new();
    let steps: [(bool, u64, u64); 8] = [
        (true, 1, 30),
        (true, 2, 10),
        (false, 2, 10),
        (true, 3, 20),
        (false, 1, 30),
        (false, 3, 20),
        (true, 4, 5),
        (true, 5, 4),
    ];
    for (is_failure, seq, due) in steps {
        if is_failure {
            grid.fail_until(SUBSCRIPTION, seq, at(due), progress);
            expected.push((at(due), seq));
        } else {
            grid.settle(SUBSCRIPTION, seq, at(due));
            expected.retain(|row| row.1 != seq);
        }
        expected.sort_unstable();
        for limit in [1, 10] {
            let found = grid
                .view
                .due(SUBSCRIPTION, BEHIND_IN_FLIGHT, Timestamp::MAX, limit);
            let found: Vec<_> = found
                .unwrap()
                .iter()
                .map(|row| (row.due, row.seq))
                .collect();
            assert_eq!(found[..], expected[..expected.len().min(limit)]);
        }
        let early = grid.view.due(SUBSCRIPTION, BEHIND_IN_FLIGHT, at(3), 10);
        assert_eq!(early.unwrap(), []);
        if due == 20 {
            grid.checkpoint();
        }
    }
}

/// ED-247: while it waits its event is needed, each failed write moves it, and in the end it is ended once.
#[test]
fn a_pending_dead_letter_waits_under_its_due_time() {
    for is_attempted in [true, false] {
        let mut grid = with_events(1);
        let progress = is_attempted.then(|| grid.progress(3));
        if let Some(progress) = progress {
            fold(&mut grid, started(1..=1, progress));
        }
        let mut row = is_attempted.then_some(IN_FLIGHT);
        for failed in 0..3 {
            let due = at(300_000 + u64::from(failed) * 10_000);
            let write = PendingWrite {
                failed,
                first_failed: (failed > 0).then(|| at(300_000)),
            };
            fold(
                &mut grid,
                dead(1, row, progress, DeadThen::WriteDue(due, write)),
            );
            row = Some(due);
            let pending = PendingDeadLetter {
                reason: DeadLetterReason::TimeToLiveExceeded,
                decided: at(77),
                published: at(7),
                progress,
                write,
            };
            let owed = Owed::DeadLetter(pending);
            assert_eq!(rows(&grid.view), [DueDelivery { due, seq: 1, owed }]);
            let page =
                grid.view
                    .pending_dead_letters(SUBSCRIPTION, FIRST_IN_FLIGHT, 10, &mut 10_000);
            let page = page.unwrap();
            assert_eq!((page.rows, page.next), (vec![(due, 1, pending)], None));
            let (counters, open) = grid.view.counters(SUBSCRIPTION);
            assert_eq!((counters.matched, open), (1, 1));
            assert!(grid.view.needed(TOPIC, 1..=1).open.contains(1));
            assert_eq!(dispositions(&grid.view), []);
        }
        for _ in 0..2 {
            // The second time it is ended already.
            fold(&mut grid, dead(1, row, progress, DeadThen::Written));
            let (counters, open) = grid.view.counters(SUBSCRIPTION);
            assert_eq!((counters.matched, counters.dead_lettered, open), (1, 1, 0));
            assert_eq!(dispositions(&grid.view), [(1, DeadLettered)]);
            assert_eq!(rows(&grid.view), []);
        }
    }
}

/// ED-248: pages go on behind attempts, however many stand before.
#[test]
fn pending_dead_letters_are_listed_from_among_attempts() {
    const ATTEMPTS: u64 = 12_000;
    let mut grid = with_events(0);
    let progress = grid.progress(1);
    let pending = [3, ATTEMPTS + 1, ATTEMPTS + 2, ATTEMPTS + 3];
    // Folded without a log, which would refuse so large records.
    let view = &mut grid.view;
    view.fold_record(&started(1..=ATTEMPTS + 3, progress))
        .unwrap();
    let failed = (1..=ATTEMPTS)
        .filter(|seq| *seq != 3)
        .map(|seq| FailedDelivery {
            seq,
            due: at(10_000),
            progress,
        });
    view.fold_record(&Record::Failed(Failed {
        subscription: SUBSCRIPTION,
        deliveries: failed.collect(),
    }))
    .unwrap();
    for seq in pending {
        let then = DeadThen::WriteDue(at(10_000), WRITE);
        view.fold_record(&dead(seq, Some(IN_FLIGHT), Some(progress), then))
            .unwrap();
    }
    for limit in [1, 2, 4, 10] {
        let mut found = Vec::new();
        let mut after = Some(FIRST_IN_FLIGHT);
        while let Some(from) = after {
            let page = view
                .pending_dead_letters(SUBSCRIPTION, from, limit, &mut 10_000)
                .unwrap();
            assert!(page.rows.len() <= limit);
            found.extend(page.rows.iter().map(|(_, seq, _)| *seq));
            after = page.next;
        }
        assert_eq!(found, pending, "{limit} at once");
    }
}

/// A lease is a row that is due when it ends: renewed it moves, acknowledged it is gone.
#[test]
fn leases_are_due_when_they_end() {
    let mut grid = with_events(2);
    let first = grid.progress(1);
    let lease = |until, replaces_due, progress| {
        Record::Lease(Lease {
            subscription: SUBSCRIPTION,
            until,
            deliveries: vec![StartedDelivery {
                seq: 1,
                replaces_due,
                progress,
            }],
        })
    };
    let row = |due, progress| DueDelivery {
        due,
        seq: 1,
        owed: Owed::Attempt(progress),
    };
    fold(&mut grid, lease(at(10_000), None, first));
    assert_eq!(rows(&grid.view), [row(at(10_000), first)]);
    assert_eq!(grid.view.cursor(SUBSCRIPTION), 2);
    let second = grid.progress(2);
    fold(&mut grid, lease(at(70_000), Some(at(10_000)), second));
    assert_eq!(rows(&grid.view), [row(at(70_000), second)]);
    let due = grid.view.due(SUBSCRIPTION, FIRST_IN_FLIGHT, at(69_999), 10);
    assert_eq!(due.unwrap(), [], "not before it ends");
    let acknowledged = Record::Settled(Settled {
        subscription: SUBSCRIPTION,
        deliveries: vec![(1, at(70_000))],
        how: SettledHow::Delivered,
    });
    fold(&mut grid, acknowledged);
    assert_eq!(rows(&grid.view), []);
    fold(&mut grid, lease(at(90_000), Some(at(70_000)), second));
    assert_eq!(
        rows(&grid.view),
        [],
        "an acknowledged one is not leased again"
    );
    let (counters, open) = grid.view.counters(SUBSCRIPTION);
    assert_eq!((counters.matched, counters.delivered, open), (1, 1, 0));
}

/// A seek gives up what was owed, attempts and dead letters alike, and owes what it names at once.
#[test]
fn a_seek_sets_the_place_anew() {
    let mut grid = with_events(5);
    let progress = grid.progress(1);
    fold(&mut grid, started(1..=4, progress));
    let then = DeadThen::WriteDue(at(90_000), WRITE);
    fold(&mut grid, dead(2, Some(IN_FLIGHT), Some(progress), then));
    let other = SUBSCRIPTIONS[1];
    grid.begin(other).unwrap();
    let seek = |open: &[u64], cursor, at, ack_epoch| Seek {
        subscription: SUBSCRIPTION,
        cursor,
        open: chunks_of(open),
        at,
        ack_epoch,
    };
    let back = seek(&[1, 3], 4, at(5_000), 1);
    let owed = back.owed();
    fold(&mut grid, Record::Seek(back));
    let row = |seq| DueDelivery {
        due: at(5_000),
        seq,
        owed,
    };
    assert_eq!(rows(&grid.view), [row(1), row(3)]);
    assert_eq!(grid.view.cursor(SUBSCRIPTION), 4);
    assert_eq!(grid.view.ack_epoch(SUBSCRIPTION), 1);
    let (counters, open) = grid.view.counters(SUBSCRIPTION);
    assert_eq!((counters.matched, counters.given_up, open), (6, 4, 2));
    // What was given up is settled late in vain.
    let late = Record::Settled(Settled {
        subscription: SUBSCRIPTION,
        deliveries: vec![(4, IN_FLIGHT), (2, at(90_000))],
        how: SettledHow::DeliveredLate,
    });
    fold(&mut grid, late);
    assert_eq!(grid.view.counters(SUBSCRIPTION).0.delivered, 0);
    // To the end: nothing is owed.
    fold(&mut grid, Record::Seek(seek(&[], 6, at(6_000), 2)));
    assert_eq!(rows(&grid.view), []);
    let (counters, open) = grid.view.counters(SUBSCRIPTION);
    assert_eq!((counters.matched, counters.given_up, open), (6, 6, 0));
    assert_eq!(
        grid.view.open_seqs(other.0),
        [1],
        "of the other one nothing"
    );
    grid.check_events();
}

/// A snapshot pins its topic from its floor on, until it expires by the time of the log, is deleted, or its topic is.
#[test]
fn a_snapshot_pins_its_topic_for_its_time() {
    for ending in 0..3 {
        let mut grid = with_events(9);
        fold(
            &mut grid,
            Record::Snapshot(Snapshot {
                id: 8,
                place: Some(SnapshotPlace {
                    topic: TOPIC,
                    floor: 3,
                    cursor: 5,
                    open: chunks_of(&[3]),
                    expires: at(100_000),
                }),
            }),
        );
        for (id, _) in &SUBSCRIPTIONS[..2] {
            fold(
                &mut grid,
                Record::Seek(Seek {
                    subscription: *id,
                    cursor: 10,
                    open: Vec::new(),
                    at: at(1),
                    ack_epoch: 1,
                }),
            );
        }
        grid.read_to_the_end(TOPIC);
        let floor = |grid: &Grid| grid.view.needed(TOPIC, 1..=9).from;
        assert_eq!(floor(&grid), 3);
        assert!(grid.view.is_needed(TOPIC, 1..=3) && !grid.view.is_needed(TOPIC, 1..=2));
        match ending {
            0 => {
                grid.set_clock(100_000);
                assert_eq!(floor(&grid), 3, "the clock alone ends no pin");
                grid.publish(TOPICS[1], 10);
                grid.commit();
            }
            1 => fold(&mut grid, Record::Snapshot(Snapshot { id: 8, place: None })),
            _ => {
                for (id, _) in &SUBSCRIPTIONS[..2] {
                    grid.declare(&Change::SubscriptionDeleted { id: *id });
                }
                grid.declare(&Change::TopicDeleted { id: TOPIC });
            }
        }
        let expected = if ending == 2 { u64::MAX } else { 10 };
        assert_eq!(floor(&grid), expected, "ended in way {ending}");
        assert!(!grid.view.is_needed(TOPIC, 1..=9));
        assert_eq!(grid.view.snapshot(8).is_some(), ending == 0);
    }
}

/// A hold stays until another one takes its place; a subscription that is gone has none.
#[test]
fn a_hold_stays_until_the_next() {
    let mut grid = with_events(0);
    let period = |cause, level| Period {
        cause,
        level,
        since: at(1),
        until: at(300_001),
    };
    let probation = Some(period(Outcome::NotFound, 1));
    let window = Some(period(Outcome::GenericError, 2));
    let holds = [
        Holds {
            probation,
            window: None,
        },
        Holds { probation, window },
        Holds {
            probation: None,
            window,
        },
        Holds::default(),
        Holds { probation, window },
    ];
    for holds in holds {
        fold(
            &mut grid,
            Record::Hold(Hold {
                subscription: SUBSCRIPTION,
                holds,
            }),
        );
        assert_eq!(grid.view.holds(SUBSCRIPTION), holds);
        assert_eq!(grid.view.holds(SUBSCRIPTIONS[1].0), Holds::default());
    }
    grid.declare(&Change::SubscriptionDeleted { id: SUBSCRIPTION });
    fold(
        &mut grid,
        Record::Hold(Hold {
            subscription: SUBSCRIPTION,
            holds: holds[0],
        }),
    );
    assert_eq!(grid.view.holds(SUBSCRIPTION), Holds::default());
}

/// Positions that are not as they are written are damage, and not fewer positions.
#[test]
fn positions_that_cannot_be_read_are_damage() {
    let good = chunks_of(&[1, 65_536, 70_000]);
    let mut cut = good.clone();
    cut[1].1.pop();
    let swapped: SeqChunks = good.iter().rev().cloned().collect();
    let twice = vec![good[0].clone(), good[0].clone()];
    let mut too_far = good.clone();
    too_far[1].0 = 1 << 48;
    let empty_bytes = vec![(0, Vec::new())];
    let cases = [
        (good, true),
        (Vec::new(), true),
        (cut, false),
        (swapped, false),
        (twice, false),
        (too_far, false),
        (empty_bytes, false),
    ];
    for (open, is_read) in cases {
        let records = [
            Record::Seek(Seek {
                subscription: SUBSCRIPTION,
                cursor: 80_000,
                open: open.clone(),
                at: at(1),
                ack_epoch: 1,
            }),
            Record::Snapshot(Snapshot {
                id: 1,
                place: Some(SnapshotPlace {
                    topic: TOPIC,
                    floor: 1,
                    cursor: 80_000,
                    open,
                    expires: at(2),
                }),
            }),
        ];
        for record in records {
            let mut frame = Vec::new();
            encode_record(&record, &mut frame);
            match decode_record(&frame.into()) {
                Ok(decoded) => assert!(is_read && decoded == record, "{record:?}"),
                Err(StoreError::Damaged { .. }) => assert!(!is_read, "{record:?}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
