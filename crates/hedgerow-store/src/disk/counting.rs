//! A disk that counts what goes through it, so that operators and the benchmark see how much is written for what is
//! published. What it counts is what the log, the catalog, the history and whatever else uses the seam ask for; the
//! view's table writes past it, and what the file system adds is not seen.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Disk, DiskFile, DiskLock};

/// What went through a [`CountingDisk`] so far. Each number only grows; together they are no snapshot of one moment.
#[derive(Debug, Default)]
pub struct DiskCounts {
    written_bytes: AtomicU64,
    read_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl DiskCounts {
    /// Bytes written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Bytes read, from the system's cache or from the device.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// How often files were synced.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

/// A disk that counts.
pub struct CountingDisk {
    inner: Arc<dyn Disk>,
    counts: Arc<DiskCounts>,
}

impl CountingDisk {
    /// Counts what goes through to `inner`, on top of what `counts` says already.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>, counts: Arc<DiskCounts>) -> Self {
        Self { inner, counts }
    }
}

impl Disk for CountingDisk {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn lock(&self, path: &str) -> io::Result<DiskLock> {
        self.inner.lock(path)
    }

    fn open(&self, path: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let inner = self.inner.open(path, create)?;
        let counts = Arc::clone(&self.counts);
        Ok(Arc::new(CountingFile { inner, counts }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.inner.sync_dir(path)
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

struct CountingFile {
    inner: Arc<dyn DiskFile>,
    counts: Arc<DiskCounts>,
}

impl DiskFile for CountingFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read_at(offset, buffer)?;
        self.counts
            .read_bytes
            .fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)?;
        self.counts
            .written_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()?;
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.inner.set_len(len_bytes)
    }

    fn allocate(&self, len_bytes: u64) -> io::Result<()> {
        self.inner.allocate(len_bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::faulty::FaultyDisk;

    #[test]
    fn what_goes_through_is_counted_over_all_files() {
        let counts = Arc::new(DiskCounts::default());
        let disk = CountingDisk::new(FaultyDisk::new(1).mount(), Arc::clone(&counts));
        let first = disk.open("first", true).unwrap();
        first.write_at(0, b"seven b").unwrap();
        first.sync_data().unwrap();
        let again = disk.open("first", false).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(again.read_at(3, &mut buffer).unwrap(), 4);
        disk.open("second", true)
            .unwrap()
            .write_at(0, b"abc")
            .unwrap();
        assert_eq!(
            (counts.written_bytes(), counts.read_bytes(), counts.syncs()),
            (10, 4, 1)
        );
    }
}
