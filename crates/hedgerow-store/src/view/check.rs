//! Whether what a view left on the disk can be read, every row; and how far it stood.

use hedgerow_core::position::{Mark, TopicId};

use super::View;
use super::checkpoint::all_rows;
use super::publish_ids::Published;
use super::rows;
use super::table::{Row, Space, Table};
use super::terminal::TerminalRecord;
use crate::error::StoreError;
use crate::record::Owed;

/// Rows that are read at once.
const SCAN_ROWS: usize = 4096;

/// Reads all rows; returns how many there are.
pub(crate) fn rows(view: &View) -> Result<u64, StoreError> {
    let mut count = 0;
    for space in Space::ALL {
        let mut from = Vec::new();
        loop {
            let found = view.table().scan(space, &from, &[0xFF; 32], SCAN_ROWS)?;
            for row in &found {
                check_row(space, row)?;
            }
            count += found.len() as u64;
            match found.last() {
                Some((key, _)) if found.len() == SCAN_ROWS => {
                    from.clone_from(key);
                    from.push(0);
                }
                _ => break,
            }
        }
    }
    Ok(count)
}

/// How far a log had got when a view was written down.
#[derive(Debug)]
pub(crate) struct Reached {
    pub store_id: [u8; 16],
    /// The end of the last group, and its number.
    pub mark: Mark,
    pub group: u64,
    /// The last event of each topic.
    pub topics: Vec<(TopicId, u64)>,
}

/// Reads it from the view's table; `None` if nothing was written down yet.
pub(crate) fn reached(table: &dyn Table) -> Result<Option<Reached>, StoreError> {
    let Some(stamp) = table.get(Space::State, rows::STAMP_KEY)? else {
        return Ok(None);
    };
    let stamp: rows::StampRow = rows::decode(&stamp)?;
    let mut topics = Vec::new();
    for (key, value) in all_rows(table, Space::State)? {
        if key.first() == Some(&b't') {
            let row: rows::TopicRow = rows::decode(&value)?;
            topics.push((TopicId(rows::id_of(&key)?), row.next_seq - 1));
        }
    }
    Ok(Some(Reached {
        store_id: stamp.store_id,
        mark: stamp.mark,
        group: stamp.group,
        topics,
    }))
}

/// The number of the last group that the view has folded.
pub(crate) fn group(view: &View) -> u64 {
    view.group
}

/// Opening has read the rows that are kept in memory.
fn check_row(space: Space, (key, value): &Row) -> Result<(), StoreError> {
    match space {
        Space::State | Space::Open => Ok(()),
        Space::Due => {
            rows::parse_due_key(key)?;
            rows::decode::<Owed>(value).map(drop)
        }
        Space::PublishId => rows::decode::<Published>(value).map(drop),
        Space::Terminal => rows::decode::<TerminalRecord>(value).map(drop),
    }
}
