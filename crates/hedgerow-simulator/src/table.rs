//! The view's table as one process sees it: in memory, and out of reach once the process ended.

use std::sync::Arc;

use hedgerow_store::StoreError;
use hedgerow_store::view::table::{MemoryTable, Row, RowChange, Space, Table};

use crate::process::Process;

/// The table of one life.
pub struct WatchedTable {
    inner: Arc<MemoryTable>,
    process: Arc<Process>,
}

impl WatchedTable {
    pub const fn new(inner: Arc<MemoryTable>, process: Arc<Process>) -> Self {
        Self { inner, process }
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.process.step() {
            return Ok(());
        }
        let source = Box::new(std::io::Error::other("the process is gone"));
        Err(StoreError::View {
            doing: "write",
            source,
        })
    }
}

impl Table for WatchedTable {
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
        self.check()?;
        self.inner.apply(batch)
    }

    fn persist(&self) -> Result<(), StoreError> {
        self.check()?;
        self.inner.persist()?;
        self.check()
    }
}
