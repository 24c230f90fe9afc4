//! The table on disk after a power cut. The library writes its files itself, so what a cut leaves is put together here,
//! from copies: the version that was synced last, and parts of what was being written.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hedgerow_store::disk::faulty::Random;
use hedgerow_store::view::table::lsm::LsmTable;
use hedgerow_store::view::table::{Row, Space, Table};

const BLOCK: u64 = 4096;
/// The file that names the newest version; replaced by a rename, after everything it names was synced.
const CURRENT: &str = "current";

/// Batch `n` writes its number into every space, under one key that it changes and some that are new.
fn apply(table: &LsmTable, n: u32) {
    let value = n.to_be_bytes();
    let keys: Vec<_> = (0..50).map(|key| format!("new {n:04} {key:04}")).collect();
    let rows = Space::ALL.into_iter().flat_map(|space| {
        let new = keys
            .iter()
            .map(move |key| (space, key.as_bytes(), Some([7; 100].as_slice())));
        new.chain([(space, b"newest".as_slice(), Some(value.as_slice()))])
    });
    table.apply(&mut rows.into_iter()).unwrap();
}

/// The number of the last batch, after checking that the table holds exactly the batches up to it.
fn batches(table: &LsmTable) -> u32 {
    let scan = |space| -> Vec<Row> { table.scan(space, b"", &[0xFF], usize::MAX).unwrap() };
    let last = |rows: &[Row]| {
        let newest = rows.iter().find(|(key, _)| key == b"newest");
        newest.map_or(0, |row| {
            u32::from_be_bytes(row.1.as_slice().try_into().unwrap())
        })
    };
    let count = last(&scan(Space::State));
    for space in Space::ALL {
        let rows = scan(space);
        assert_eq!(last(&rows), count, "a batch is in all spaces or in none");
        assert_eq!(
            rows.len(),
            count as usize * 50 + usize::from(count > 0),
            "all batches up to it"
        );
    }
    count
}

#[test]
fn a_power_cut_keeps_what_was_persisted_and_no_part_of_what_was_not() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    let table = LsmTable::open(&live).unwrap();
    let mut random = Random::new(5);
    // Enough of them for compactions, which replace files.
    for n in 1..=12 {
        let before = folder.path().join("before");
        copy_folder(&live, &before);
        apply(&table, n);
        table.persist().unwrap();
        assert_eq!(batches(&table), n);
        for round in 0..12 {
            let cut = folder.path().join("cut");
            copy_folder(&before, &cut);
            leave_parts(&live, &cut, &mut random);
            let count = batches(&LsmTable::open(&cut).unwrap());
            assert_eq!(count, n - 1, "batch {n}, round {round}");
            fs::remove_dir_all(cut).unwrap();
        }
        fs::remove_dir_all(before).unwrap();
    }
    drop(table);
    assert_eq!(batches(&LsmTable::open(&live).unwrap()), 12);
}

#[test]
fn what_was_applied_and_not_persisted_is_gone_whole() {
    let folder = tempfile::tempdir().unwrap();
    let table = LsmTable::open(folder.path()).unwrap();
    (1..=3).for_each(|n| apply(&table, n));
    table.persist().unwrap();
    (4..=6).for_each(|n| apply(&table, n));
    assert_eq!(batches(&table), 6, "it is seen before it is persisted");
    drop(table);
    let table = LsmTable::open(folder.path()).unwrap();
    assert_eq!(batches(&table), 3);
    apply(&table, 4);
    table.persist().unwrap();
    assert_eq!(
        batches(&table),
        4,
        "a batch after a restart is newer than all before"
    );
}

/// Gives a folder some of the files that another one has more, each whole, cut, or with blocks that read as zeroes.
fn leave_parts(from: &Path, to: &Path, random: &mut Random) {
    let known: BTreeSet<_> = files(to).into_iter().collect();
    for file in files(from).into_iter().filter(|file| !known.contains(file)) {
        if file == Path::new(CURRENT) || random.one_in(3) {
            continue;
        }
        let target = to.join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(from.join(&file), &target).unwrap();
        let part = fs::OpenOptions::new().write(true).open(&target).unwrap();
        let length = part.metadata().unwrap().len();
        if random.one_in(3) {
            part.set_len(random.below(length + 1)).unwrap();
        }
        for block in 0..length.div_ceil(BLOCK) {
            if random.one_in(3) {
                part.write_all_at(&[0; BLOCK as usize], block * BLOCK)
                    .unwrap();
            }
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in files(from) {
        fs::create_dir_all(to.join(&file).parent().unwrap()).unwrap();
        fs::copy(from.join(&file), to.join(&file)).unwrap();
    }
}
