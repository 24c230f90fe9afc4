//! The seam to the file system: what the log stands on (design D9).
//!
//! | implementation | is |
//! | --- | --- |
//! | [`real::RealDisk`] | a directory |
//! | [`counting::CountingDisk`] | another disk, counted |
//! | [`faulty::FaultyDisk`] | memory that loses power, for tests and proofs |
//! | [`mutant::MutantDisk`] | a disk that forgets one duty, to show that the proofs can fail |
//!
//! Paths are relative to the data directory, with `/`; the empty path is the data directory itself. Nothing here
//! decides what is synced when: the log does.

pub mod counting;
pub mod faulty;
pub mod mutant;
pub mod real;

use std::any::Any;
use std::io;
use std::sync::Arc;

/// Held as long as the directory is this process's own.
pub type DiskLock = Box<dyn Any + Send + Sync>;

/// A directory and the files in it.
///
/// Creating, renaming and removing are durable only after [`Disk::sync_dir`] of the directory they happened in.
pub trait Disk: Send + Sync {
    /// How messages call the data directory.
    fn name(&self) -> String;

    /// Takes the lock file `path` for this process, creating it if needed.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another one holds it.
    fn lock(&self, path: &str) -> io::Result<DiskLock>;

    /// Opens a file for reading and writing; with `create`, makes an empty one if there is none.
    fn open(&self, path: &str, create: bool) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name in the same directory. Replaces what had that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &str) -> io::Result<()>;

    /// Makes a directory. That it exists already is no error.
    fn create_dir(&self, path: &str) -> io::Result<()>;

    /// The names in a directory, in no order. Empty if there is no such directory.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Bytes that can still be written.
    fn free_space(&self) -> io::Result<u64>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Reads until the buffer is full or the file ends; returns how many bytes it read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes`. Durable only after [`DiskFile::sync_data`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything written so far durable, the length included. After an error nothing is known about what was
    /// written since the last success: it may read back now and be gone after a power cut.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file or extends it with zeros that take no space yet.
    fn set_len(&self, len_bytes: u64) -> io::Result<()>;

    /// Extends the file to at least `len_bytes` and takes the space for it, so that a later write finds room.
    fn allocate(&self, len_bytes: u64) -> io::Result<()>;

    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}
