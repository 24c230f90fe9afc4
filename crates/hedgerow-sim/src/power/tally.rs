//! What lives went through: the ledger, and whether a run went where things get lost.

use std::fmt;

/// What lives went through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub rounds: u64,
    pub accepted: u64,
    pub delivered: u64,
    pub dead: u64,
    pub duplicates: u64,
    pub duplicates_bound: u64,
    pub epochs: u64,
    pub recycled: u64,
    pub cleaned: u64,
    pub copied: u64,
    pub compacted: u64,
    pub refused: u64,
    pub rebuilt: u64,
    pub rebuilds_interrupted: u64,
    pub checkpoints: u64,
    pub cuts: u64,
    pub kills: u64,
    pub failed_syncs: u64,
    pub opens_interrupted: u64,
    pub checkpoints_interrupted: u64,
    pub batches_taken_back: u64,
    pub adopted: u64,
    pub torn: u64,
    pub indexes_used: u64,
    pub indexes_refused: u64,
}

/// From so many rounds on, what is asked for is far below what any seed gives.
const COVERED_ROUNDS_MIN: u64 = 200;

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.dead += other.dead;
        self.duplicates += other.duplicates;
        self.duplicates_bound += other.duplicates_bound;
        self.epochs += other.epochs;
        self.recycled += other.recycled;
        self.cleaned += other.cleaned;
        self.copied += other.copied;
        self.compacted += other.compacted;
        self.refused += other.refused;
        self.rebuilt += other.rebuilt;
        self.rebuilds_interrupted += other.rebuilds_interrupted;
        self.checkpoints += other.checkpoints;
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.failed_syncs += other.failed_syncs;
        self.opens_interrupted += other.opens_interrupted;
        self.checkpoints_interrupted += other.checkpoints_interrupted;
        self.batches_taken_back += other.batches_taken_back;
        self.adopted += other.adopted;
        self.torn += other.torn;
        self.indexes_used += other.indexes_used;
        self.indexes_refused += other.indexes_refused;
    }

    /// A run that did not go through the places where things get lost proves little. Short runs may miss some by chance.
    pub fn check(&self, rounds: u64) -> Result<(), String> {
        if rounds < COVERED_ROUNDS_MIN {
            return Ok(());
        }
        let covered = [
            ("epochs", self.epochs > rounds),
            ("segments recycled", self.recycled > rounds / 4),
            ("segments cleaned", self.cleaned > rounds / 4),
            ("events copied", self.copied > rounds),
            ("kept files written anew", self.compacted > rounds / 20),
            ("publishes refused", self.refused > 0),
            ("views built again", self.rebuilt > rounds / 20),
            ("builds interrupted", self.rebuilds_interrupted > 0),
            ("checkpoints", self.checkpoints > rounds),
            ("power cuts", self.cuts > rounds / 4),
            ("kills", self.kills > rounds / 8),
            ("failed syncs", self.failed_syncs > rounds / 8),
            ("opens interrupted", self.opens_interrupted > rounds / 20),
            (
                "checkpoints interrupted",
                self.checkpoints_interrupted > rounds / 20,
            ),
            ("groups adopted", self.adopted > rounds / 20),
            ("indexes used", self.indexes_used > rounds),
            ("indexes refused", self.indexes_refused > rounds / 20),
        ];
        let missed: Vec<_> = covered
            .iter()
            .filter(|(_, is_met)| !is_met)
            .map(|(name, _)| *name)
            .collect();
        if missed.is_empty() {
            Ok(())
        } else {
            Err(format!("FAIL: too few: {}", missed.join(", ")))
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("rounds", self.rounds),
            ("requests accepted", self.accepted),
            ("delivered", self.delivered),
            ("terminal records", self.dead),
            ("duplicates", self.duplicates),
            ("  their bound", self.duplicates_bound),
            ("lost", 0),
            ("epochs", self.epochs),
            ("segments recycled", self.recycled),
            ("  cleaned", self.cleaned),
            ("  events copied", self.copied),
            ("kept files written anew", self.compacted),
            ("publishes refused", self.refused),
            ("views built again", self.rebuilt),
            ("  interrupted", self.rebuilds_interrupted),
            ("checkpoints", self.checkpoints),
            ("  interrupted", self.checkpoints_interrupted),
            ("power cuts", self.cuts),
            ("  view batches taken back", self.batches_taken_back),
            ("kills", self.kills),
            ("failed syncs", self.failed_syncs),
            ("opens interrupted", self.opens_interrupted),
            ("groups adopted", self.adopted),
            ("groups torn", self.torn),
            ("indexes used", self.indexes_used),
            ("  spoilt and refused", self.indexes_refused),
        ];
        for (index, (name, count)) in rows.iter().enumerate() {
            let line_end = if index + 1 < rows.len() { "\n" } else { "" };
            write!(f, "{name:<26} {count}{line_end}")?;
        }
        Ok(())
    }
}
