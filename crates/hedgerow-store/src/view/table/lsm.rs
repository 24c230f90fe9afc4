//! The table on disk: one LSM tree (`lsm-tree`, the engine of `fjall`), without a journal. The log is the view's journal:
//! what was not persisted is folded again.
//!
//! A batch lies in the tree's memtable until it is persisted: then the memtable becomes a file, synced, and a new version
//! of the tree, also synced, names it. So a batch is on disk whole or not at all, whatever a power cut leaves behind: files
//! that no version names are removed at the next open. (`fjall`'s own journal does not survive that: a torn batch at its
//! end can keep it from opening. docs/decisions/0006 has the evidence.)
//!
//! The spaces share one tree, so that one version holds a batch of all of them; the first byte of a key is its space.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree, Guard, SeqNo, SequenceNumberCounter};

use super::{Row, RowChange, Space, Table};
use crate::error::StoreError;

/// A table in a directory of the file system.
pub struct LsmTable {
    tree: AnyTree,
    /// Numbers the batches; later ones win.
    batches: SequenceNumberCounter,
}

/// Blocks of the tree that are cached in memory.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// The size of the files that compaction makes.
const FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Readers see every batch.
const NEWEST: SeqNo = SeqNo::MAX;

impl LsmTable {
    /// Opens the table in a directory, made if it is not there.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let batches = SequenceNumberCounter::default();
        let tree = lsm_tree::Config::new(directory, batches.clone(), batches.clone())
            .use_cache(Arc::new(lsm_tree::Cache::with_capacity_bytes(CACHE_BYTES)))
            .open()
            .map_err(|error| refused("open", error))?;
        if let Some(highest) = tree.get_highest_persisted_seqno() {
            batches.fetch_max(highest + 1);
        }
        Ok(Self { tree, batches })
    }
}

impl Table for LsmTable {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.tree.get(in_space(space, key), NEWEST);
        Ok(value
            .map_err(|error| refused("read", error))?
            .map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        self.tree
            .range(in_space(space, from)..in_space(space, to), NEWEST, None)
            .take(limit)
            .map(|guard| {
                let (key, value) = guard.into_inner().map_err(|error| refused("scan", error))?;
                Ok((key[1..].to_vec(), value.to_vec()))
            })
            .collect()
    }

    fn apply(&self, changes: &mut dyn Iterator<Item = RowChange<'_>>) -> Result<(), StoreError> {
        let batch = self.batches.next();
        for (space, key, value) in changes {
            match value {
                Some(value) => self.tree.insert(in_space(space, key), value, batch),
                None => self.tree.remove(in_space(space, key), batch),
            };
        }
        Ok(())
    }

    fn persist(&self) -> Result<(), StoreError> {
        // Nobody reads old batches: what a newer one replaced may go.
        let replaced_before = self.batches.get();
        let flushing = self.tree.get_flush_lock();
        self.tree.rotate_memtable();
        self.tree
            .flush(&flushing, replaced_before)
            .map_err(|error| refused("sync", error))?;
        drop(flushing);
        let levels = Arc::new(Leveled::default().with_table_target_size(FILE_BYTES));
        self.tree
            .compact(levels, replaced_before)
            .map_err(|error| refused("compact", error))
    }
}

fn in_space(space: Space, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(1 + key.len());
    full.push(space as u8);
    full.extend_from_slice(key);
    full
}

/// An error of the file system may pass; anything else, a file that is gone included, means that the table's bytes are not what was written.
fn refused(doing: &'static str, error: lsm_tree::Error) -> StoreError {
    match error {
        lsm_tree::Error::Io(source)
            if !matches!(
                source.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::NotFound
            ) =>
        {
            StoreError::View {
                doing,
                source: Box::new(source),
            }
        }
        error => StoreError::ViewDamaged {
            what: format!("the view's table ({error})"),
        },
    }
}
