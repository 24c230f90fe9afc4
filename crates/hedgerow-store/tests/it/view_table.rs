//! One suite for both tables: the LSM tree on disk and the tree in memory are the same to the view.

use hedgerow_store::disk::faulty::Random;
use hedgerow_store::view::table::lsm::LsmTable;
use hedgerow_store::view::table::{MemoryTable, RowChange, Space, Table};

#[test]
fn both_tables_answer_alike() {
    let folder = tempfile::tempdir().unwrap();
    let lsm = LsmTable::open(&folder.path().join("view")).unwrap();
    let memory = MemoryTable::default();
    let mut random = Random::new(11);
    for step in 0..300_u64 {
        let changes: Vec<_> = (0..random.below(20))
            .map(|_| {
                let space = Space::ALL[random.below(4) as usize];
                let key = random.below(200).to_be_bytes();
                let value = (!random.one_in(3)).then(|| step.to_be_bytes());
                (space, key, value)
            })
            .collect();
        let rows = || {
            changes.iter().map(|(space, key, value)| -> RowChange<'_> {
                (*space, key, value.as_ref().map(<[u8; 8]>::as_slice))
            })
        };
        lsm.apply(&mut rows()).unwrap();
        memory.apply(&mut rows()).unwrap();
        let space = Space::ALL[random.below(4) as usize];
        let (from, to) = (
            random.below(200).to_be_bytes(),
            random.below(220).to_be_bytes(),
        );
        let limit = random.below(30) as usize;
        let scan = |table: &dyn Table| table.scan(space, &from, &to, limit).unwrap();
        assert_eq!(scan(&lsm), scan(&memory), "step {step}");
        assert_eq!(
            lsm.get(space, &from).unwrap(),
            memory.get(space, &from).unwrap()
        );
    }
    lsm.persist().unwrap();
    drop(lsm);
    let again = LsmTable::open(&folder.path().join("view")).unwrap();
    for space in Space::ALL {
        let all = |table: &dyn Table| table.scan(space, &[], &[0xFF; 9], usize::MAX).unwrap();
        assert_eq!(all(&again), all(&memory), "after a restart");
    }
}

#[test]
fn a_cut_takes_the_tree_back_to_a_batch() {
    let table = MemoryTable::default();
    let put = |key: &str| {
        table
            .apply(&mut [(Space::Due, key.as_bytes(), Some(b"".as_slice()))].into_iter())
            .unwrap();
    };
    put("a");
    table.persist().unwrap();
    put("b");
    put("c");
    table.cut(1);
    let keys: Vec<_> = table.scan(Space::Due, b"", b"z", 9).unwrap();
    assert_eq!(
        keys.iter()
            .map(|(key, _)| key.as_slice())
            .collect::<Vec<_>>(),
        [b"a", b"b"]
    );
}
