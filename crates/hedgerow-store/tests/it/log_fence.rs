//! A directory that was taken over, although it was locked: noticed before a segment is named, taken or freed.

use std::collections::HashMap;
use std::sync::Arc;

use hedgerow_core::position::{Mark, TopicId};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::log::Log;
use hedgerow_store::{Store, StoreError};

use crate::breakable::{BreakableDisk, Power};
use crate::support::{NothingNeeded, open, packed, small, ticking};

const TOPIC: TopicId = TopicId(1);

fn fenced<T>(result: Result<T, StoreError>) -> String {
    match result {
        Err(error @ StoreError::Fenced { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not noticed"),
    }
}

fn disk(folder: &tempfile::TempDir, power: &Arc<Power>) -> Arc<dyn Disk> {
    let disk = Arc::new(RealDisk::new(folder.path()).unwrap());
    Arc::new(BreakableDisk::new(disk, Arc::clone(power)))
}

/// When the next segment is to be made, at half of the present one: no file of the new owner is touched.
#[test]
fn a_take_over_is_noticed_before_the_next_segment() {
    let (folder, power) = (tempfile::tempdir().unwrap(), Arc::default());
    let former = open(disk(&folder, &power)).unwrap();
    drop(former.append(TOPIC, packed("a", 1000)).unwrap());
    former.commit_queued().unwrap();
    power.lose_locks();
    let owner = open(disk(&folder, &power)).unwrap();
    assert_eq!((former.epoch(), owner.epoch()), (1, 2));
    let names = disk(&folder, &power).list("log").unwrap();

    let appends = (0..20).map(|_| {
        let appending = former.append(TOPIC, packed("b", 9000))?;
        former.commit_queued().map(|_| drop(appending))
    });
    let text = fenced(appends.collect::<Result<(), _>>());
    assert!(
        text.contains("epoch 2 has begun, this server is epoch 1"),
        "{text}"
    );
    assert!(
        text.contains(&folder.path().display().to_string()),
        "{text}"
    );
    fenced(former.append(TOPIC, packed("c", 10)));
    fenced(former.groups(Mark::ZERO, 1000));
    let mut after = disk(&folder, &power).list("log").unwrap();
    after.retain(|name| !names.contains(name));
    assert_eq!(after, [""; 0], "files that the former owner made");
}

/// A checkpoint frees nothing of the new owner's; the log that is driven by threads closes with the reason too.
#[test]
fn a_take_over_is_noticed_at_a_checkpoint() {
    let (folder, power) = (tempfile::tempdir().unwrap(), Arc::default());
    let recovered = Log::open(disk(&folder, &power), small(), ticking(0)).unwrap();
    let former = recovered.start(&HashMap::new());
    power.lose_locks();
    let owner = open(disk(&folder, &power)).unwrap();
    fenced(former.checkpoint(Mark::ZERO, &NothingNeeded));
    fenced(former.append(TOPIC, packed("c", 10)));
    assert!(former.durable().has_changed().is_err());
    owner.checkpoint(Mark::ZERO, &NothingNeeded).unwrap();
}

/// A directory that is not the one that was opened: another store's, or nobody's.
#[test]
fn a_replaced_directory_is_noticed() {
    for replaced_by_a_store in [true, false] {
        let (folder, power) = (tempfile::tempdir().unwrap(), Arc::default());
        let former = open(disk(&folder, &power)).unwrap();
        for name in ["SUPER.a", "SUPER.b"] {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
        if replaced_by_a_store {
            power.lose_locks();
            drop(open(disk(&folder, &power)).unwrap());
        }
        let text = fenced(former.check_owner());
        let found = if replaced_by_a_store {
            "another store is there"
        } else {
            "SUPER.a and SUPER.b are gone"
        };
        assert!(text.contains(found), "{text}");
    }
}
