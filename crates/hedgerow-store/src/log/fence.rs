//! Notices that the directory has another owner than this log (design D8).
//!
//! The lock on `LOCK` keeps two servers of one machine apart. A lock that was lost on a network file system, or a
//! directory that was replaced under a running server, it does not see. So the log looks at the super block where that
//! is cheap and where harm would be done: before it names, takes or frees a segment, and at each checkpoint. What was
//! acknowledged between the take-over and the next look may be lost: that is what the lock is for.

use std::sync::{Arc, OnceLock};

use super::superblock;
use crate::disk::Disk;
use crate::error::StoreError;

/// Whose directory it is.
pub(crate) struct Fence {
    disk: Arc<dyn Disk>,
    store_id: [u8; 16],
    epoch: u32,
    /// What was found instead of this log's own epoch.
    found: OnceLock<String>,
}

impl Fence {
    /// The directory belongs to the log of this epoch.
    pub(crate) fn new(disk: Arc<dyn Disk>, store_id: [u8; 16], epoch: u32) -> Self {
        Self {
            disk,
            store_id,
            epoch,
            found: OnceLock::new(),
        }
    }

    /// Looks whose directory it is.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if it is another owner's; from then on always.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.found.get().is_none() {
            let found = match superblock::read(&*self.disk)? {
                Some((found, _)) if found.store_id != self.store_id => {
                    "another store is there".to_owned()
                }
                Some((found, _)) if found.epoch > self.epoch => {
                    format!("epoch {} has begun", found.epoch)
                }
                Some(_) => return Ok(()),
                None => "SUPER.a and SUPER.b are gone".to_owned(),
            };
            // Who looked first was right too.
            let _ = self.found.set(found);
        }
        Err(self.why_closed())
    }

    /// What a closed log answers.
    pub(crate) fn why_closed(&self) -> StoreError {
        match self.found.get() {
            None => StoreError::Closed,
            Some(found) => StoreError::Fenced {
                store: self.disk.name(),
                epoch: self.epoch,
                found: found.clone(),
            },
        }
    }
}
