//! The table of the view in the power proof: a tree in memory whose writes fail where the power goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hedgerow_store::StoreError;
use hedgerow_store::view::table::{MemoryTable, Row, RowChange, Space, Table};

/// Where the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PowerGoes {
    Nowhere = 0,
    /// Before a batch is written.
    BeforeApply = 1,
    /// After a batch was written and before it was synced.
    BeforePersist = 2,
    /// After the sync, before anybody was told.
    AfterPersist = 3,
}

/// A table in memory with a power switch.
#[derive(Default)]
pub struct PowerTable {
    inner: Arc<MemoryTable>,
    goes: AtomicU8,
}

impl PowerTable {
    /// The power goes there at the next checkpoint.
    pub fn lose_power(&self, goes: PowerGoes) {
        self.goes.store(goes as u8, Ordering::Relaxed);
    }

    /// Batches that a cut may take back.
    pub fn unpersisted_batches(&self) -> usize {
        self.inner.unpersisted_batches()
    }

    /// Loses power: the first `batches` of the batches that were not synced stay.
    pub fn cut(&self, batches: usize) {
        self.lose_power(PowerGoes::Nowhere);
        self.inner.cut(batches);
    }

    fn fail_at(&self, goes: PowerGoes) -> Result<(), StoreError> {
        if self.goes.load(Ordering::Relaxed) == goes as u8 {
            let source = Box::new(std::io::Error::other("the power is gone"));
            return Err(StoreError::View {
                doing: "write",
                source,
            });
        }
        Ok(())
    }
}

impl Table for PowerTable {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(space, key)
    }

    fn scan(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.inner.scan(space, from, to, limit)
    }

    fn apply(&self, batch: &mut dyn Iterator<Item = RowChange<'_>>) -> Result<(), StoreError> {
        self.fail_at(PowerGoes::BeforeApply)?;
        self.inner.apply(batch)
    }

    fn persist(&self) -> Result<(), StoreError> {
        self.fail_at(PowerGoes::BeforePersist)?;
        self.inner.persist()?;
        self.fail_at(PowerGoes::AfterPersist)
    }
}
