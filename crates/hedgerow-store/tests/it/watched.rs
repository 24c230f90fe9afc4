//! A disk that is watched: the most bytes that lay in `log/` and `kept/` together at any moment.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_store::disk::{Disk, DiskFile, DiskLock};

/// What happens besides while something is copied.
type Meanwhile = Box<dyn FnMut() + Send>;

/// Watches the disks of one store, one after the other.
#[derive(Default)]
pub struct Watch {
    state: Mutex<State>,
    meanwhile: Mutex<Option<Meanwhile>>,
}

#[derive(Default)]
struct State {
    /// The files there are, each with its length; a file that was removed may still be written to, and takes no room.
    files: HashMap<String, Arc<Mutex<u64>>>,
    most: u64,
}

impl Watch {
    /// A disk whose files are measured from now on; what lies there already counts.
    pub fn over(self: &Arc<Self>, inner: Arc<dyn Disk>) -> Arc<dyn Disk> {
        let mut files = HashMap::new();
        for directory in ["log", "kept", "kept/owed", "kept/behind"] {
            for name in inner.list(directory).unwrap_or_default() {
                let path = format!("{directory}/{name}");
                if let Ok(file) = inner.open(&path, false) {
                    files.insert(path, Arc::new(Mutex::new(file.len().unwrap_or(0))));
                }
            }
        }
        self.lock().files = files;
        Arc::new(WatchedDisk {
            inner,
            watch: Arc::clone(self),
        })
    }

    /// The most bytes that lay there together.
    pub fn most(&self) -> u64 {
        self.lock().most
    }

    /// The bytes that lie there, which count as the most from now on.
    pub fn now(&self) -> u64 {
        let mut state = self.lock();
        state.most = 0;
        state.look();
        state.most
    }

    /// From now on this happens before each write to a kept file, if anything.
    pub fn meanwhile(&self, meanwhile: Option<Meanwhile>) {
        *self.meanwhile.lock().unwrap() = meanwhile;
    }

    fn copying(&self) {
        if let Some(meanwhile) = &mut *self.meanwhile.lock().unwrap() {
            meanwhile();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn look(&mut self) {
        let files = self.files.values();
        let now = files.map(|len| *len.lock().unwrap()).sum();
        self.most = self.most.max(now);
    }
}

fn is_bounded(path: &str) -> bool {
    path.starts_with("log/") || path.starts_with("kept/")
}

struct WatchedDisk {
    inner: Arc<dyn Disk>,
    watch: Arc<Watch>,
}

impl Disk for WatchedDisk {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn lock(&self, path: &str) -> io::Result<DiskLock> {
        self.inner.lock(path)
    }

    fn open(&self, path: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let inner = self.inner.open(path, create)?;
        if !is_bounded(path) {
            return Ok(inner);
        }
        let len = inner.len()?;
        let mut state = self.watch.lock();
        let file = state.files.entry(path.to_owned()).or_default();
        *file.lock().unwrap() = len;
        Ok(Arc::new(WatchedFile {
            inner,
            is_kept: path.starts_with("kept/") && path.matches('/').count() == 2,
            len: Arc::clone(file),
            watch: Arc::clone(&self.watch),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)?;
        let mut state = self.watch.lock();
        if let Some(file) = state.files.remove(from) {
            state.files.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)?;
        self.watch.lock().files.remove(path);
        Ok(())
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

struct WatchedFile {
    inner: Arc<dyn DiskFile>,
    is_kept: bool,
    len: Arc<Mutex<u64>>,
    watch: Arc<Watch>,
}

impl WatchedFile {
    fn look(&self, done: io::Result<()>) -> io::Result<()> {
        done?;
        *self.len.lock().unwrap() = self.inner.len()?;
        self.watch.lock().look();
        Ok(())
    }
}

impl DiskFile for WatchedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.is_kept {
            self.watch.copying();
        }
        self.look(self.inner.write_at(offset, bytes))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.look(self.inner.set_len(len_bytes))
    }

    fn allocate(&self, len_bytes: u64) -> io::Result<()> {
        self.look(self.inner.allocate(len_bytes))
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}
