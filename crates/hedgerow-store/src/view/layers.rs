//! The rows of the view that are too many for memory: the newest changes in an overlay, older ones in the table.
//!
//! Changes collect in the *active* overlay. A checkpoint freezes it: the *frozen* overlay is written to the table in
//! one batch by another thread, while reads still look into it first. So the engine's thread never waits for the
//! table's writes, and a row that comes and goes between two checkpoints never reaches the table.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::table::{Row, RowChange, SPACES, Space, Table};
use crate::error::StoreError;

/// The table with its overlays.
pub(super) struct Layers {
    table: Arc<dyn Table>,
    active: Overlay,
    frozen: Option<Arc<Overlay>>,
}

/// Changes that are not in the table yet.
#[derive(Default)]
pub(super) struct Overlay {
    spaces: [BTreeMap<Vec<u8>, Change>; SPACES],
    bytes: usize,
}

struct Change {
    /// The row's new value, or `None` if it was removed.
    value: Option<Vec<u8>>,
    /// No layer below has a row under this key: removing it leaves nothing to remember.
    fresh: bool,
}

/// What a change costs in memory beside its key and value: the tree's share and the two vectors.
const CHANGE_OVERHEAD_BYTES: usize = 80;

impl Overlay {
    /// A measure of its memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All changes, for one batch.
    pub(super) fn changes(&self) -> impl Iterator<Item = RowChange<'_>> {
        Space::ALL.into_iter().flat_map(|space| {
            self.spaces[space as usize]
                .iter()
                .map(move |(key, change)| (space, key.as_slice(), change.value.as_deref()))
        })
    }

    fn insert(&mut self, space: Space, key: Vec<u8>, value: Option<Vec<u8>>, fresh: bool) {
        let size = CHANGE_OVERHEAD_BYTES + key.len() + value.as_ref().map_or(0, Vec::len);
        self.bytes += size;
        if let Some(old) = self.spaces[space as usize].insert(key, Change { value, fresh }) {
            let old_size = old.value.map_or(0, |value| value.len());
            self.bytes = self.bytes.saturating_sub(CHANGE_OVERHEAD_BYTES + old_size);
        }
    }

    fn take(&mut self, space: Space, key: &[u8]) {
        if let Some(old) = self.spaces[space as usize].remove(key) {
            let size = CHANGE_OVERHEAD_BYTES + key.len() + old.value.map_or(0, |v| v.len());
            self.bytes = self.bytes.saturating_sub(size);
        }
    }

    fn get(&self, space: Space, key: &[u8]) -> Option<&Change> {
        self.spaces[space as usize].get(key)
    }

    fn range<'a>(
        &'a self,
        space: Space,
        from: &'a [u8],
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a Change)> {
        self.spaces[space as usize].range::<[u8], _>((Bound::Included(from), to))
    }
}

impl Layers {
    pub(super) fn new(table: Arc<dyn Table>) -> Self {
        Self {
            table,
            active: Overlay::default(),
            frozen: None,
        }
    }

    /// Adds a row under a key that no layer holds.
    pub(super) fn put_new(&mut self, space: Space, key: Vec<u8>, value: Vec<u8>) {
        // A key that was removed since the last checkpoint may still stand below: its removal must be remembered.
        let fresh = self.active.get(space, &key).is_none();
        self.active.insert(space, key, Some(value), fresh);
    }

    /// Removes a row if it is there.
    pub(super) fn remove(&mut self, space: Space, key: Vec<u8>) {
        if self
            .active
            .get(space, &key)
            .is_some_and(|change| change.fresh)
        {
            self.active.take(space, &key);
        } else {
            self.active.insert(space, key, None, false);
        }
    }

    /// The first `limit` rows with `from <= key < to`, ascending, over all layers.
    pub(super) fn scan(
        &self,
        space: Space,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        let mut from = from.to_vec();
        while rows.len() < limit && from.as_slice() < to {
            let below = self.table.scan(space, &from, to, limit)?;
            // The table says nothing about keys behind the last row of a full answer; the next round looks there.
            let next = if below.len() < limit {
                None
            } else {
                below.last().map(|row| after(&row.0))
            };
            let end = next.as_deref().unwrap_or(to);
            let merged = self.merge(space, below, &from, end);
            rows.extend(merged.into_iter().take(limit - rows.len()));
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(rows)
    }

    fn merge(
        &self,
        space: Space,
        below: Vec<Row>,
        from: &[u8],
        end: &[u8],
    ) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut rows: BTreeMap<_, _> = below.into_iter().collect();
        let overlays = [self.frozen.as_deref(), Some(&self.active)];
        for overlay in overlays.into_iter().flatten() {
            for (key, change) in overlay.range(space, from, Bound::Excluded(end)) {
                match &change.value {
                    Some(value) => rows.insert(key.clone(), value.clone()),
                    None => rows.remove(key),
                };
            }
        }
        rows
    }

    /// A measure of the memory of changes that are not being written yet.
    pub(super) fn active_bytes(&self) -> usize {
        self.active.bytes()
    }

    /// Begins a checkpoint: everything changed so far is in the result, and read from there until [`Layers::thaw`].
    ///
    /// # Panics
    /// If a checkpoint is under way.
    pub(super) fn freeze(&mut self) -> Arc<Overlay> {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        let frozen = Arc::new(std::mem::take(&mut self.active));
        self.frozen = Some(Arc::clone(&frozen));
        frozen
    }

    /// Ends a checkpoint: the table has everything that was frozen.
    pub(super) fn thaw(&mut self) {
        self.frozen = None;
    }

    pub(super) fn table(&self) -> &Arc<dyn Table> {
        &self.table
    }
}

/// The smallest key greater than `key`.
fn after(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}
