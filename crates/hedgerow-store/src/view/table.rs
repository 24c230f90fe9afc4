//! The seam under the view: a small ordered table.
//!
//! | implementation | is |
//! | --- | --- |
//! | [`lsm::LsmTable`] | an LSM tree on disk |
//! | [`MemoryTable`] | a tree in memory, for tests and the power proof, where a cut takes it back to a batch at or after its last persist |

pub mod lsm;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::StoreError;

/// The parts of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// The stamp, and one row a topic and a subscription.
    State,
    /// Unsettled positions, as bitmap chunks.
    Open,
    /// Unsettled deliveries by due time.
    Due,
    /// Terminal records.
    Terminal,
    /// Ids of publish requests, by when they came.
    PublishId,
}

/// How many there are.
pub(crate) const SPACES: usize = 5;

impl Space {
    /// All of them.
    pub const ALL: [Self; SPACES] = [
        Self::State,
        Self::Open,
        Self::Due,
        Self::Terminal,
        Self::PublishId,
    ];
}

/// One change of a batch: the row's new value, or `None` to remove it.
pub type RowChange<'a> = (Space, &'a [u8], Option<&'a [u8]>);

/// A row: key and value.
pub type Row = (Vec<u8>, Vec<u8>);

/// An ordered table of rows in a few spaces.
pub trait Table: Send + Sync + 'static {
    /// The value of one row.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The first `limit` rows with `from <= key < to`, ascending.
    fn scan(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError>;

    /// Applies a batch: all of it or, after a crash, none.
    fn apply(&self, batch: &mut dyn Iterator<Item = RowChange<'_>>) -> Result<(), StoreError>;

    /// Makes every batch applied so far survive a power cut.
    fn persist(&self) -> Result<(), StoreError>;
}

/// Opens the table under a view; `None` if there is none yet. For those who look at a store that nobody uses: called
/// when the directory is this process's own, as opening tidies up.
pub type OpenTable<'a> = &'a dyn Fn() -> Result<Option<Arc<dyn Table>>, StoreError>;

/// One applied batch: the rows it changed and what they became.
type Batch = Vec<(Space, Vec<u8>, Option<Vec<u8>>)>;
type Tree = BTreeMap<Vec<u8>, Vec<u8>>;

/// The table in memory. Keeps the batches since its last persist, so that a power cut can take some of them back.
#[derive(Default)]
pub struct MemoryTable {
    inner: Mutex<MemoryInner>,
}

#[derive(Default)]
struct MemoryInner {
    now: [Tree; SPACES],
    persisted: [Tree; SPACES],
    unpersisted: Vec<Batch>,
}

impl MemoryInner {
    fn apply(trees: &mut [Tree; SPACES], batch: &Batch) {
        for (space, key, value) in batch {
            match value {
                Some(value) => trees[*space as usize].insert(key.clone(), value.clone()),
                None => trees[*space as usize].remove(key),
            };
        }
    }
}

impl MemoryTable {
    /// Batches applied since the last persist.
    #[must_use]
    pub fn unpersisted_batches(&self) -> usize {
        self.lock().unpersisted.len()
    }

    /// Loses power: keeps what was persisted and the first `batches` batches after it.
    pub fn cut(&self, batches: usize) {
        let mut inner = self.lock();
        let mut trees = std::mem::take(&mut inner.persisted);
        for batch in inner.unpersisted.iter().take(batches) {
            MemoryInner::apply(&mut trees, batch);
        }
        inner.unpersisted.clear();
        inner.persisted.clone_from(&trees);
        inner.now = trees;
    }

    fn lock(&self) -> MutexGuard<'_, MemoryInner> {
        // A panic elsewhere leaves the trees whole: each change is one insert or remove.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table for MemoryTable {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().now[space as usize].get(key).cloned())
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
        let inner = self.lock();
        let rows = inner.now[space as usize].range(from.to_vec()..to.to_vec());
        Ok(rows
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn apply(&self, changes: &mut dyn Iterator<Item = RowChange<'_>>) -> Result<(), StoreError> {
        let batch: Batch = changes
            .map(|(space, key, value)| (space, key.to_vec(), value.map(<[u8]>::to_vec)))
            .collect();
        let mut inner = self.lock();
        MemoryInner::apply(&mut inner.now, &batch);
        inner.unpersisted.push(batch);
        Ok(())
    }

    fn persist(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.unpersisted.clear();
        let MemoryInner { now, persisted, .. } = &mut *inner;
        persisted.clone_from(now);
        Ok(())
    }
}
