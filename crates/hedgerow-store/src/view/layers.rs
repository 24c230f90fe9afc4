//! The rows of the view that are too many for memory: the newest changes in an overlay, older ones in the table.
//!
//! Changes collect in the *active* overlay. A checkpoint freezes it: the *frozen* overlay is written to the table in
//! one batch by another thread, while reads still look into it first. So the engine's thread never waits for the
//! table's writes, and a row that comes and goes between two checkpoints never reaches the table.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

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
    spaces: [BTreeMap<Key, Change>; SPACES],
    bytes: usize,
}

struct Change {
    /// The row's new value, or `None` if it was removed.
    value: Option<Value>,
    /// No layer below has a row under this key: removing it leaves nothing to remember.
    fresh: bool,
}

/// A key, which stands in the tree itself if it is as short as those of deliveries: there are many, and most come and go.
pub(super) type Key = SmallVec<[u8; 24]>;
/// The same of a value: what is owed next takes some 30 bytes.
pub(super) type Value = SmallVec<[u8; 32]>;

impl Change {
    const REMOVED: Self = Self {
        value: None,
        fresh: false,
    };

    fn value_len(&self) -> usize {
        self.value.as_ref().map_or(0, SmallVec::len)
    }
}

/// Rows that the table is asked for once a first answer was not enough.
const PAGE_ROWS_MIN: usize = 64;
const PAGE_ROWS_MAX: usize = 4096;

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

    /// Adds a row under a key that no layer holds.
    fn put_new(&mut self, space: Space, key: Key, value: Value) {
        let size = value.len();
        match self.spaces[space as usize].entry(key) {
            Entry::Vacant(free) => {
                self.bytes += CHANGE_OVERHEAD_BYTES + free.key().len() + size;
                let value = Some(value);
                free.insert(Change { value, fresh: true });
            }
            // A row that was removed since the last checkpoint may still stand below: its removal must be remembered.
            Entry::Occupied(mut held) => {
                let change = held.get_mut();
                self.bytes = (self.bytes + size).saturating_sub(change.value_len());
                *change = Change {
                    value: Some(value),
                    fresh: false,
                };
            }
        }
    }

    /// Removes a row if it is there.
    fn remove(&mut self, space: Space, key: Key) {
        match self.spaces[space as usize].entry(key) {
            Entry::Occupied(held) if held.get().fresh => {
                let (key, old) = held.remove_entry();
                let size = CHANGE_OVERHEAD_BYTES + key.len() + old.value_len();
                self.bytes = self.bytes.saturating_sub(size);
            }
            Entry::Occupied(mut held) => {
                self.bytes = self.bytes.saturating_sub(held.get().value_len());
                *held.get_mut() = Change::REMOVED;
            }
            Entry::Vacant(free) => {
                self.bytes += CHANGE_OVERHEAD_BYTES + free.key().len();
                free.insert(Change::REMOVED);
            }
        }
    }

    fn range<'a>(
        &'a self,
        space: Space,
        from: &'a [u8],
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a Key, &'a Change)> {
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
    pub(super) fn put_new(&mut self, space: Space, key: &[u8], value: Value) {
        self.active.put_new(space, Key::from_slice(key), value);
    }

    /// Removes a row if it is there.
    pub(super) fn remove(&mut self, space: Space, key: &[u8]) {
        self.active.remove(space, Key::from_slice(key));
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
        let mut page_rows = limit;
        while rows.len() < limit && from.as_slice() < to {
            let below = self.table.scan(space, &from, to, page_rows)?;
            // The table says nothing about keys behind the last row of a full answer; the next round looks there.
            let next = if below.len() < page_rows {
                None
            } else {
                below.last().map(|row| after(&row.0))
            };
            let end = next.as_deref().unwrap_or(to);
            let left = limit - rows.len();
            rows.extend(self.merged(space, below, &from, end).take(left));
            match next {
                Some(next) => from = next,
                None => break,
            }
            // Where there was nothing but removed rows there may be many more.
            page_rows = (2 * page_rows).clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX);
        }
        Ok(rows)
    }

    /// The rows of a part of the table with what the overlays say of that part.
    fn merged<'a>(
        &'a self,
        space: Space,
        below: Vec<Row>,
        from: &'a [u8],
        end: &'a [u8],
    ) -> impl Iterator<Item = Row> + 'a {
        let mut below = below.into_iter().peekable();
        let of = |overlay: &'a Overlay| {
            let changes = overlay.range(space, from, Bound::Excluded(end));
            changes.peekable()
        };
        let mut active = of(&self.active);
        let mut frozen = self.frozen.as_deref().map(of);
        std::iter::from_fn(move || {
            loop {
                let keys = [
                    below.peek().map(|(key, _)| key.as_slice()),
                    frozen
                        .as_mut()
                        .and_then(Peekable::peek)
                        .map(|(key, _)| key.as_slice()),
                    active.peek().map(|(key, _)| key.as_slice()),
                ];
                let first = keys.iter().flatten().min()?;
                let [is_below, is_frozen, is_active] = keys.map(|key| key == Some(*first));
                let below = below.next_if(|_| is_below);
                let frozen = frozen
                    .as_mut()
                    .and_then(|frozen| frozen.next_if(|_| is_frozen));
                // The newest layer that knows the key says what its row is.
                match (active.next_if(|_| is_active).or(frozen), below) {
                    (Some((key, change)), _) => {
                        if let Some(value) = &change.value {
                            return Some((key.to_vec(), value.to_vec()));
                        }
                    }
                    (None, row) => return row,
                }
            }
        })
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
