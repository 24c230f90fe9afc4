//! A disk under a log with threads: syncs that wait, fail, or never return to a process that is no more.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use hedgerow_store::disk::{Disk, DiskFile, DiskLock};

/// What is done to the disk of one process.
#[derive(Default)]
pub struct Power {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    how: How,
    /// Locks keep nobody out.
    loses_locks: bool,
}

impl Power {
    /// Syncs of files wait from now on.
    pub fn hold(&self) {
        self.lock().how = How::Held;
    }

    /// They no longer do.
    pub fn restore(&self) {
        self.change(|state| state.how = How::Whole);
    }

    /// The sync that waits fails, and so does every one from now on.
    pub fn fail_sync(&self) {
        self.change(|state| state.how = How::Broken);
    }

    /// Nothing more that the process does reaches the disk.
    pub fn cut(&self) {
        self.change(|state| state.how = How::Off);
    }

    /// Locks that are taken from now on are taken whoever has them.
    pub fn lose_locks(&self) {
        self.change(|state| state.loses_locks = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn check(&self) -> io::Result<()> {
        if self.lock().how == How::Off {
            return Err(io::Error::other("the process is gone"));
        }
        Ok(())
    }

    /// Waits as long as syncs wait.
    fn pass_sync(&self) -> io::Result<()> {
        let mut state = self.lock();
        while state.how == How::Held {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        match state.how {
            How::Broken | How::Off => Err(io::Error::other("the sync failed")),
            How::Whole | How::Held => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the disk is.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum How {
    #[default]
    Whole,
    /// Syncs wait.
    Held,
    /// Syncs fail.
    Broken,
    /// The process is gone.
    Off,
}

/// A disk with a [`Power`].
pub struct BreakableDisk {
    disk: Arc<dyn Disk>,
    power: Arc<Power>,
}

struct BreakableFile {
    file: Arc<dyn DiskFile>,
    power: Arc<Power>,
}

impl BreakableDisk {
    pub fn new(disk: Arc<dyn Disk>, power: Arc<Power>) -> Self {
        Self { disk, power }
    }
}

impl Disk for BreakableDisk {
    fn name(&self) -> String {
        self.disk.name()
    }

    fn lock(&self, path: &str) -> io::Result<DiskLock> {
        if self.power.lock().loses_locks {
            return Ok(Box::new(()));
        }
        self.disk.lock(path)
    }

    fn open(&self, path: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        self.power.check()?;
        Ok(Arc::new(BreakableFile {
            file: self.disk.open(path, create)?,
            power: Arc::clone(&self.power),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.power.check()?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.power.check()?;
        self.disk.remove(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.power.check()?;
        self.disk.sync_dir(path)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.power.check()?;
        self.disk.create_dir(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }
}

impl DiskFile for BreakableFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.power.check()?;
        self.file.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.power.pass_sync()?;
        self.file.sync_data()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.power.check()?;
        self.file.set_len(len_bytes)
    }

    fn allocate(&self, len_bytes: u64) -> io::Result<()> {
        self.power.check()?;
        self.file.allocate(len_bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
