//! Torn tail or damage: the rule of the on-disk page, as tables. Groups are also made here by hand, from the documented
//! form.

use std::sync::Arc;

use hedgerow_core::position::{Mark, TopicId};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::log::Log;
use hedgerow_store::{Store, StoreError};

use crate::support::{NothingNeeded, open, packed, small, ticking};

const TOPIC: TopicId = TopicId(1);

/// Writes groups with these data sizes, in an epoch of its own, and ends in order. Returns their places.
fn write(disk: &FaultyDisk, data_bytes: &[usize]) -> Vec<(Mark, Mark)> {
    let log = open(disk.mount()).unwrap();
    let written = data_bytes
        .iter()
        .map(|bytes| {
            log.append(TOPIC, packed("x", *bytes)).unwrap();
            let group = log.commit_queued().unwrap().unwrap();
            (group.start, group.end)
        })
        .collect();
    drop(log);
    written
}

fn recover(disk: &FaultyDisk) -> Result<Mark, StoreError> {
    Log::open(disk.mount(), small(), ticking(0)).map(|recovered| recovered.end())
}

fn path(mark: Mark) -> String {
    format!("log/{:08x}.seg", mark.segment())
}

/// Spoils the group that begins at `mark`: a byte of its payload. The segment loses its index too, so that it is read
/// when the log is opened, as the tail always is.
fn spoil(disk: &FaultyDisk, mark: Mark) {
    // There is none of the newest segment.
    let _ = disk.mount().remove(&path(mark).replace(".seg", ".idx"));
    disk.flip_bit(&path(mark), u64::from(mark.offset()) + 100);
}

#[track_caller]
fn assert_damaged(result: Result<Mark, StoreError>, place: Mark) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&place.to_string()) && text.contains("from a backup"),
        "{text}"
    );
}

#[test]
fn the_newest_group_may_be_torn_an_older_one_may_not() {
    for spoilt in 0..4 {
        let disk = FaultyDisk::new(1);
        let groups = write(&disk, &[100, 5000, 100, 100]);
        spoil(&disk, groups[spoilt].0);
        let result = recover(&disk);
        if spoilt == 3 {
            assert_eq!(result.unwrap(), groups[2].1);
        } else {
            let before = spoilt
                .checked_sub(1)
                .map_or(Mark::ZERO, |before| groups[before].1);
            assert_damaged(result, before);
        }
    }
}

#[test]
fn the_only_group_may_be_torn() {
    let disk = FaultyDisk::new(1);
    let groups = write(&disk, &[100]);
    spoil(&disk, groups[0].0);
    assert_eq!(recover(&disk).unwrap(), Mark::ZERO);
    // The number and the place are used again.
    assert_eq!(write(&disk, &[100]), groups);
}

#[test]
fn the_first_group_of_an_epoch_is_no_torn_tail_when_a_later_one_proves_it() {
    let disk = FaultyDisk::new(1);
    let first = write(&disk, &[100, 100]);
    let second = write(&disk, &[100, 100]);
    spoil(&disk, second[0].0);
    assert_damaged(recover(&disk), first[1].1);

    let disk = FaultyDisk::new(1);
    let first = write(&disk, &[100, 100]);
    let second = write(&disk, &[100]);
    spoil(&disk, second[0].0);
    assert_eq!(recover(&disk).unwrap(), first[1].1);
}

#[test]
fn the_end_of_a_segment_is_judged_by_the_next_one() {
    // The last of a full segment, with one group behind it: it was synced before that one was written.
    let disk = FaultyDisk::new(1);
    let groups = write(&disk, &[30_000, 30_000, 30_000]);
    assert_eq!(groups[2].0, Mark::new(2, 0));
    spoil(&disk, groups[1].0);
    assert_damaged(recover(&disk), groups[0].1);

    // The first of a new segment, and nothing behind it.
    let disk = FaultyDisk::new(1);
    let groups = write(&disk, &[30_000, 30_000, 30_000]);
    spoil(&disk, groups[2].0);
    assert_eq!(recover(&disk).unwrap(), groups[1].1);
    assert_eq!(write(&disk, &[30_000])[0], groups[2]);

    // The first of a new segment, with one behind it.
    let disk = FaultyDisk::new(1);
    let groups = write(&disk, &[30_000, 30_000, 30_000, 100]);
    spoil(&disk, groups[2].0);
    assert_damaged(recover(&disk), groups[1].1);

    // A whole segment in the middle.
    let disk = FaultyDisk::new(1);
    let groups = write(&disk, &[40_000, 40_000, 40_000]);
    spoil(&disk, groups[1].0);
    assert_damaged(recover(&disk), groups[0].1);
}

#[test]
fn missing_files_are_damage() {
    let disk = FaultyDisk::new(1);
    write(&disk, &[40_000, 40_000, 40_000]);
    disk.mount().remove("log/00000002.seg").unwrap();
    let error = recover(&disk).unwrap_err().to_string();
    assert!(
        error.contains("00000002.seg") && error.contains("missing"),
        "{error}"
    );

    let disk = FaultyDisk::new(1);
    let groups = write(&disk, &[100]);
    disk.mount().remove("SUPER.a").unwrap();
    assert_eq!(
        recover(&disk).unwrap(),
        groups[0].1,
        "one of the two is enough"
    );
    disk.flip_bit("SUPER.b", 20);
    assert_eq!(
        recover(&disk).unwrap(),
        groups[0].1,
        "and the other is written again"
    );
    disk.flip_bit("SUPER.a", 20);
    disk.flip_bit("SUPER.b", 20);
    disk.mount().remove("SUPER.b").unwrap();
    let error = recover(&disk).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn an_oldest_segment_without_groups_is_damage() {
    let disk = FaultyDisk::new(1);
    let log = open(disk.mount()).unwrap();
    for _ in 0..3 {
        log.append(TOPIC, packed("x", 40_000)).unwrap();
        log.commit_queued().unwrap();
    }
    let end = *log.durable().borrow();
    log.checkpoint(end, &NothingNeeded).unwrap();
    drop(log);
    spoil(&disk, Mark::new(3, 0));
    let error = recover(&disk).unwrap_err();
    assert!(
        error.to_string().contains("no group that can be read"),
        "{error}"
    );
}

/// A group made by hand.
#[derive(Clone, Copy)]
struct Forged {
    epoch: u32,
    number: u64,
    version: u32,
    synced_through: Mark,
    payload: &'static [u8],
}

impl Forged {
    /// Writes it at `mark`, for the store whose first group is at the start of segment 1.
    fn write(self, disk: &FaultyDisk, mark: Mark) {
        let disk: Arc<dyn Disk> = disk.mount();
        let mut first = [0; 64];
        disk.open("log/00000001.seg", false)
            .unwrap()
            .read_at(0, &mut first)
            .unwrap();
        let mut group = b"HGgr\0\0\0\0".to_vec();
        group.extend(self.epoch.to_le_bytes());
        group.extend(mark.segment().to_le_bytes());
        group.extend(self.number.to_le_bytes());
        group.extend((self.payload.len() as u32).to_le_bytes());
        group.extend(self.version.to_le_bytes());
        group.extend(self.synced_through.0.to_le_bytes());
        group.extend(7_u64.to_le_bytes());
        group.extend(&first[48..56]);
        group.extend(0_u64.to_le_bytes());
        group.extend(self.payload);
        let crc = crc32c::crc32c(&group);
        group[4..8].copy_from_slice(&crc.to_le_bytes());
        let file = disk.open(&path(mark), false).unwrap();
        file.write_at(u64::from(mark.offset()), &group).unwrap();
        file.sync_data().unwrap();
    }
}

/// The payload of a CLEAN STOP.
const CLEAN_STOP: &[u8] = &[12, 1, 0, 0, 0, 0, 0, 0];

fn forged(epoch: u32, number: u64, synced_through: Mark) -> Forged {
    Forged {
        epoch,
        number,
        version: 1,
        synced_through,
        payload: CLEAN_STOP,
    }
}

#[test]
fn a_group_made_by_hand_from_the_documented_form_is_read() {
    let disk = FaultyDisk::new(1);
    let groups = write(&disk, &[100]);
    let end = groups[0].1;
    forged(1, 2, end).write(&disk, end);
    assert_eq!(recover(&disk).unwrap(), Mark::new(1, end.offset() + 128));
}

#[test]
fn a_group_behind_the_bad_place_proves_damage_only_by_what_it_says() {
    let start = Mark::new(1, 0);
    // Epoch, number, what it says was synced in bytes behind the bad place; whether that is damage.
    let cases = [
        (2, 4, 0, false),  // in flight together with the bad one
        (2, 4, 64, true),  // written after the bad one was synced
        (3, 4, 64, true),  // the same in a later epoch
        (1, 4, 64, false), // a leftover of an older epoch
        (2, 2, 64, false), // older than the last good one
    ];
    for (epoch, number, behind, is_damage) in cases {
        let disk = FaultyDisk::new(1);
        write(&disk, &[100]);
        let groups = write(&disk, &[100]);
        let end = groups[0].1;
        let synced_through = Mark::new(1, end.offset() + behind);
        forged(epoch, number, synced_through).write(&disk, Mark::new(1, end.offset() + 4096));
        let result = recover(&disk);
        assert_eq!(
            result.is_err(),
            is_damage,
            "{epoch} {number} {behind}: {result:?}"
        );
        if let Ok(found) = result {
            assert_eq!(found, end);
        }
        assert_eq!(groups[0].0.segment(), start.segment());
    }
}

#[test]
fn a_leftover_with_the_right_number_is_not_continued_with() {
    // Epoch 1 wrote two groups at once; the first was torn, the second is whole. Epoch 2 writes a group that ends
    // exactly where the leftover begins.
    let disk = FaultyDisk::new(1);
    let end = write(&disk, &[100])[0].1;
    let size = write(&FaultyDisk::new(1), &[100, 200])[1];
    let leftover = Mark::new(1, end.offset() + (size.1.offset() - size.0.offset()));
    forged(1, 3, end).write(&disk, leftover);
    assert_eq!(recover(&disk).unwrap(), end);
    assert_eq!(write(&disk, &[200])[0].1, leftover);
    // The page behind the new group was zeroed with it; the leftover could have been in the next one.
    forged(1, 3, end).write(&disk, leftover);
    assert_eq!(recover(&disk).unwrap(), leftover);
}

#[test]
fn stale_groups_of_a_recycled_segment_are_not_read() {
    let disk = FaultyDisk::new(1);
    let log = open(disk.mount()).unwrap();
    // All groups have one size, so that old and new ones begin at the same places.
    while log.usage().recycled_segments < 3 {
        log.append(TOPIC, packed("x", 3000)).unwrap();
        let group = log.commit_queued().unwrap().unwrap();
        log.checkpoint(group.end, &NothingNeeded).unwrap();
    }
    // The next group is the first of its segment or stands between newer and older ones.
    log.append(TOPIC, packed("x", 3000)).unwrap();
    let group = log.commit_queued().unwrap().unwrap();
    disk.kill();
    assert_eq!(recover(&disk).unwrap(), group.end);
}

#[test]
fn a_newer_format_is_refused() {
    let disk = FaultyDisk::new(1);
    let end = write(&disk, &[100])[0].1;
    Forged {
        version: 2,
        ..forged(1, 2, end)
    }
    .write(&disk, end);
    let error = recover(&disk).unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");

    let disk = FaultyDisk::new(1);
    let end = write(&disk, &[100])[0].1;
    Forged {
        payload: &[99, 1, 0, 0, 0, 0, 0, 0],
        ..forged(1, 2, end)
    }
    .write(&disk, end);
    let error = recover(&disk).unwrap_err();
    assert!(error.to_string().contains("record of kind 99"), "{error}");
    assert!(
        error.to_string().contains("written by a newer version"),
        "{error}"
    );

    for (format, what) in [
        (3, "written by a newer version"),
        (1, "before the format was final"),
    ] {
        let disk = FaultyDisk::new(1);
        write(&disk, &[100]);
        let file = disk.mount().open("SUPER.b", false).unwrap();
        let mut bytes = [0; 64];
        file.read_at(0, &mut bytes).unwrap();
        bytes[8] = format;
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        file.write_at(0, &bytes).unwrap();
        let text = recover(&disk).unwrap_err().to_string();
        let name = format!("SUPER.b: format {format}");
        assert!(text.contains(&name) && text.contains(what), "{text}");
    }
}
