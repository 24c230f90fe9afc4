//! Disks that forget one duty, to show that the power proof can fail. For tests and proofs only.
//!
//! Who opens a log says so with [`MutantDisk::set_opening`]; the duties of the time in between are forgotten only then,
//! and the duty at open only while the log is opened. So each of them is found out by itself.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Disk, DiskFile, DiskLock};
use crate::log::kept;
use crate::view::baseline;

/// Which duty is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// A sync does nothing.
    NoSync,
    /// A sync happens only before the next mutation: whoever is told meanwhile is told too early.
    LateSync,
    /// A directory sync does nothing.
    NoDirectorySync,
    /// While the log is opened, nothing is written to its segments and nothing of them is synced: the unsynced tail is
    /// trusted as it is read.
    TrustsTail,
    /// The manifest of kept files, and its directory, are not synced: a segment is forgotten before that.
    NoManifestSync,
    /// Kept files are not synced.
    NoKeptSync,
    /// The directories of kept files are not synced.
    NoKeptDirectorySync,
    /// What became of events that were kept before is not written.
    NoKeptUpdates,
    /// Baselines, and their directory, are not synced.
    NoBaselineSync,
    /// Baselines are not written: none is there when it is looked for.
    NoBaseline,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::NoSync,
        Self::LateSync,
        Self::NoDirectorySync,
        Self::TrustsTail,
        Self::NoManifestSync,
        Self::NoKeptSync,
        Self::NoKeptDirectorySync,
        Self::NoKeptUpdates,
        Self::NoBaselineSync,
        Self::NoBaseline,
    ];

    /// Those of groups and segments.
    pub const OF_LOG: [Self; 4] = [
        Self::NoSync,
        Self::LateSync,
        Self::NoDirectorySync,
        Self::TrustsTail,
    ];

    /// Whether the duty is one of the view's checkpoints and not of the log.
    #[must_use]
    pub const fn is_of_checkpoints(self) -> bool {
        matches!(self, Self::NoBaselineSync | Self::NoBaseline)
    }

    /// Whether it leaves out the sync of this file or directory.
    fn leaves_unsynced(self, path: &str) -> bool {
        match self {
            Self::NoManifestSync => path == kept::DIRECTORY || path == kept::NEW_MANIFEST,
            Self::NoKeptSync => is_kept_file(path),
            Self::NoKeptDirectorySync => path.starts_with("kept/"),
            Self::NoBaselineSync => path.starts_with(baseline::DIRECTORY),
            _ => false,
        }
    }
}

fn is_kept_file(path: &str) -> bool {
    std::path::Path::new(path)
        .extension()
        .is_some_and(|ending| ending == "kept")
}

/// A disk with a [`Mutation`].
pub struct MutantDisk {
    inner: Arc<dyn Disk>,
    shared: Arc<Shared>,
}

struct Shared {
    mutation: Mutation,
    is_opening: AtomicBool,
    /// The file whose sync is late.
    late: Mutex<Option<Arc<dyn DiskFile>>>,
}

struct MutantFile {
    inner: Arc<dyn DiskFile>,
    shared: Arc<Shared>,
    path: String,
}

impl MutantDisk {
    /// Lets `inner` forget a duty.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>, mutation: Mutation) -> Self {
        let is_opening = AtomicBool::new(false);
        Self {
            inner,
            shared: Arc::new(Shared {
                mutation,
                is_opening,
                late: Mutex::new(None),
            }),
        }
    }

    /// Says whether the log is being opened.
    pub fn set_opening(&self, is_opening: bool) {
        self.shared.is_opening.store(is_opening, Ordering::Relaxed);
    }
}

impl Shared {
    fn is_opening(&self) -> bool {
        self.is_opening.load(Ordering::Relaxed)
    }

    /// Does the sync that is late.
    fn catch_up(&self) -> io::Result<()> {
        let late = self
            .late
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        late.map_or(Ok(()), |file| file.sync_data())
    }
}

impl Disk for MutantDisk {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn lock(&self, path: &str) -> io::Result<DiskLock> {
        self.inner.lock(path)
    }

    fn open(&self, path: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let inner = self.inner.open(path, create)?;
        Ok(Arc::new(MutantFile {
            inner,
            shared: Arc::clone(&self.shared),
            path: path.to_owned(),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.shared.catch_up()?;
        if self.shared.mutation == Mutation::NoBaseline && to.starts_with(baseline::DIRECTORY) {
            return self.inner.remove(from);
        }
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.shared.catch_up()?;
        self.inner.remove(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.shared.catch_up()?;
        match self.shared.mutation {
            Mutation::NoDirectorySync if !self.shared.is_opening() => Ok(()),
            mutation if mutation.leaves_unsynced(path) => Ok(()),
            _ => self.inner.sync_dir(path),
        }
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.inner.free_space()
    }
}

impl MutantFile {
    fn is_trusted(&self) -> bool {
        let is_segment = self.path.starts_with("log/");
        self.shared.mutation == Mutation::TrustsTail && is_segment && self.shared.is_opening()
    }
}

impl DiskFile for MutantFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.shared.catch_up()?;
        if self.is_trusted() {
            return Ok(());
        }
        if self.shared.mutation == Mutation::NoKeptUpdates && is_kept_file(&self.path) {
            return self.inner.write_at(offset, &kept::without_updates(bytes));
        }
        self.inner.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        let is_opening = self.shared.is_opening();
        match self.shared.mutation {
            Mutation::NoSync if !is_opening => Ok(()),
            Mutation::LateSync if !is_opening => {
                self.shared.catch_up()?;
                let mut late = self
                    .shared
                    .late
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *late = Some(Arc::clone(&self.inner));
                Ok(())
            }
            mutation if mutation.leaves_unsynced(&self.path) => Ok(()),
            _ if self.is_trusted() => Ok(()),
            _ => self.inner.sync_data(),
        }
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.shared.catch_up()?;
        self.inner.set_len(len_bytes)
    }

    fn allocate(&self, len_bytes: u64) -> io::Result<()> {
        self.shared.catch_up()?;
        self.inner.allocate(len_bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}
