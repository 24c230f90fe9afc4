//! Power cuts, kills and failed syncs, many of them; and that this test can fail.

use hedgerow_store::disk::mutant::Mutation;

use crate::log_model::{Coverage, run};

#[test]
fn nothing_durable_is_lost_on_a_faulty_disk() {
    let seeds = if std::env::var_os("HEDGEROW_SLOW").is_some() {
        400
    } else {
        24
    };
    let mut all = Coverage::default();
    for seed in 0..seeds {
        let one = run(seed, None, 1500).unwrap();
        all.groups += one.groups;
        all.recycled += one.recycled;
        all.epochs += one.epochs;
        all.cuts += one.cuts;
        all.kills += one.kills;
        all.failed_syncs += one.failed_syncs;
        all.crashes_in_open += one.crashes_in_open;
        all.adopted += one.adopted;
        all.torn += one.torn;
        all.old_reads += one.old_reads;
        all.forgotten_reads += one.forgotten_reads;
        all.refused += one.refused;
        all.indexes_used += one.indexes_used;
        all.indexes_refused += one.indexes_refused;
        all.indexes_spoilt += one.indexes_spoilt;
        all.indexes_cut += one.indexes_cut;
        all.checks += one.checks;
    }
    println!("{all:?}");
    // A run that did not go through these proves little.
    assert!(all.recycled > seeds && all.epochs > 10 * seeds, "{all:?}");
    assert!(
        all.cuts > 5 * seeds && all.kills > 5 * seeds && all.failed_syncs > seeds,
        "{all:?}"
    );
    assert!(
        all.adopted > seeds && all.torn > seeds && all.crashes_in_open > seeds,
        "{all:?}"
    );
    assert!(
        all.indexes_used > 20 * seeds
            && all.indexes_refused > 4 * seeds
            && all.indexes_cut > seeds / 2
            && all.checks > 10 * seeds,
        "{all:?}"
    );
    assert!(
        all.old_reads > 10 * seeds && all.forgotten_reads > seeds,
        "{all:?}"
    );
}

#[test]
fn a_run_is_the_same_for_the_same_seed() {
    let once = format!("{:?}", run(7, None, 600).unwrap());
    assert_eq!(once, format!("{:?}", run(7, None, 600).unwrap()));
}

#[test]
fn a_disk_that_forgets_a_duty_is_found_out() {
    // The power proof of log and view together finds the others.
    for mutation in Mutation::OF_LOG {
        let found = (0..40).find_map(|seed| run(seed, Some(mutation), 1500).err());
        println!("{mutation:?}: {found:?}");
        assert!(found.is_some(), "{mutation:?} was not found out");
    }
}
