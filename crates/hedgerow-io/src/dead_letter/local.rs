//! A directory of this machine. Containers are directories in it that somebody else made: one that is missing may be a disk
//! that is not mounted, and must not be replaced by an empty directory beneath.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_core::limits;
use hedgerow_core::spec::ContainerPath;
use object_store::local::LocalFileSystem;
use url::Url;

use super::{
    Answered, Blob, BlobQuery, Content, DeadLetterError, DeadLetterStore, Listed, Objects, Place,
};

/// A store whose containers are directories.
#[derive(Debug, Clone)]
pub struct LocalDirectory {
    root: PathBuf,
    reserve: Option<Reserve>,
    /// What the writes under way may take on the disk of the reserve.
    promised_bytes: Arc<AtomicU64>,
    hanging: HangingWrites,
}

/// What dead letters leave free on a disk that something else needs more.
#[derive(Clone)]
pub struct Reserve {
    /// A directory on that disk.
    pub directory: PathBuf,
    /// Bytes that are left free there.
    pub bytes: u64,
    /// Says how many are free.
    pub free_bytes: FreeBytes,
}

/// Says how many bytes are free on a disk.
pub type FreeBytes = Arc<dyn Fn() -> io::Result<u64> + Send + Sync>;

/// What a blob takes on a disk beside its bytes, about: the rest of its last block, and directories for its name.
const BESIDE_BLOB_BYTES: u64 = 32 * 1024;

impl LocalDirectory {
    /// A store whose containers lie in `root`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            reserve: None,
            promised_bytes: Arc::default(),
            hanging: Arc::default(),
        }
    }

    /// The same store, which writes nothing to the disk of the reserve that would take of it.
    #[must_use]
    pub fn leaving(self, reserve: Reserve) -> Self {
        let reserve = Some(reserve);
        Self { reserve, ..self }
    }

    async fn write_now(&self, blob: Blob) -> Result<(), DeadLetterError> {
        let (path, objects) = self.container(&blob.container).await?;
        let bytes = blob.bytes.len() as u64 + BESIDE_BLOB_BYTES;
        let _promise = self.promise(&path, bytes).await?;
        objects.write(&blob).await?;
        let name = blob.name;
        on_a_thread(move || sync_above(&path, &name)).await
    }

    async fn probe_now(&self, container: &ContainerPath) -> Result<(), DeadLetterError> {
        self.container(container).await?.1.probe().await
    }

    /// Sees to it that a write of so many bytes to a container leaves the reserve, whatever else is being written there.
    async fn promise(&self, path: &Path, bytes: u64) -> Result<Option<Promise>, DeadLetterError> {
        let Some(reserve) = self.reserve.clone() else {
            return Ok(None);
        };
        let (path, all) = (path.to_owned(), Arc::clone(&self.promised_bytes));
        on_a_thread(move || reserve.promise(&path, bytes, all)).await
    }

    async fn has_room_now(&self, container: &ContainerPath) -> Result<(), DeadLetterError> {
        let path = self.root.join(container.as_str());
        self.promise(&path, BESIDE_BLOB_BYTES).await.map(drop)
    }

    /// A container, if it is there.
    async fn container(
        &self,
        container: &ContainerPath,
    ) -> Result<(PathBuf, Objects), DeadLetterError> {
        let path = self.root.join(container.as_str());
        on_a_thread(move || open(&path).map(|objects| (path, objects))).await
    }
}

impl DeadLetterStore for LocalDirectory {
    fn write(&self, blob: Blob) -> Answered<'_> {
        let store = self.clone();
        Box::pin(async move {
            let hanging = Hanging::begin(&store.hanging, &blob.container)?;
            // Whoever waits may stop to: a thread that hangs is counted for as long as it does.
            let writing = tokio::spawn(async move {
                let _hanging = hanging;
                store.write_now(blob).await
            });
            writing.await.unwrap_or_else(|_| Err(ended()))
        })
    }

    fn has_room(&self, container: ContainerPath) -> Answered<'_> {
        Box::pin(async move { self.has_room_now(&container).await })
    }

    fn url(&self, container: &ContainerPath, name: &str) -> String {
        let path = self.root.join(container.as_str()).join(name);
        let path = std::path::absolute(&path).unwrap_or(path);
        Url::from_file_path(&path).map_or_else(|()| path.display().to_string(), String::from)
    }

    fn list(&self, query: BlobQuery) -> Listed<'_> {
        Box::pin(async move { self.container(&query.container).await?.1.list(&query).await })
    }

    fn read(&self, container: ContainerPath, name: String) -> Content<'_> {
        Box::pin(async move { self.container(&container).await?.1.read(&name).await })
    }

    fn probe(&self, container: ContainerPath) -> Answered<'_> {
        Box::pin(async move { self.probe_now(&container).await })
    }
}

impl Reserve {
    /// Promises bytes for a container; `None` if it is on another disk, or cannot be looked at: then writing says why.
    fn promise(
        &self,
        container: &Path,
        bytes: u64,
        all: Arc<AtomicU64>,
    ) -> Result<Option<Promise>, DeadLetterError> {
        let disk_of = |path: &Path| fs::metadata(path).map(|found| found.dev());
        let (Ok(mine), Ok(its)) = (disk_of(container), disk_of(&self.directory)) else {
            return Ok(None);
        };
        if mine != its {
            return Ok(None);
        }
        let promised = all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let promise = Promise { bytes, all };
        // A disk that does not say has no room, as for the log.
        let free = (self.free_bytes)().unwrap_or(0);
        if free < self.bytes.saturating_add(promised) {
            let (path, kept) = (container.display(), self.bytes);
            return Err(DeadLetterError {
                message: format!(
                    "{path} is on the disk of the data directory, which has {free} bytes left, and {kept} are kept for \
                     settling; free space, or let dead letters go to another disk"
                ),
                is_not_found: false,
                is_full: true,
            });
        }
        Ok(Some(promise))
    }
}

impl fmt::Debug for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve")
            .field("directory", &self.directory)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// How many writes to each container are under way.
type HangingWrites = Arc<Mutex<HashMap<ContainerPath, usize>>>;

/// A write under way. Most end in a moment; on a disk that does not answer they do not.
struct Hanging {
    all: HangingWrites,
    container: ContainerPath,
}

impl Hanging {
    fn begin(all: &HangingWrites, container: &ContainerPath) -> Result<Self, DeadLetterError> {
        let mut counts = lock(all);
        let count = counts.entry(container.clone()).or_default();
        if *count >= limits::DEAD_LETTER_WRITES_HANGING_MAX {
            return Err(DeadLetterError {
                message: format!(
                    "{count} writes to {} hang; look at the disk that it is on",
                    container.as_str()
                ),
                is_not_found: false,
                is_full: false,
            });
        }
        *count += 1;
        Ok(Self {
            all: Arc::clone(all),
            container: container.clone(),
        })
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let mut counts = lock(&self.all);
        if let Some(count) = counts.get_mut(&self.container) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.container);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that a write under way may take.
struct Promise {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn open(path: &Path) -> Result<Objects, DeadLetterError> {
    let missing = |message| DeadLetterError {
        message,
        is_not_found: true,
        is_full: false,
    };
    let failed = |error: &dyn std::fmt::Display| DeadLetterError {
        message: format!("cannot look at {}: {error}", path.display()),
        is_not_found: false,
        is_full: false,
    };
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(missing(format!("{} is no directory", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = format!("the directory {} does not exist; make it", path.display());
            return Err(missing(message));
        }
        Err(error) => return Err(failed(&error)),
    }
    let files = LocalFileSystem::new_with_prefix(path).map_err(|error| failed(&error))?;
    Ok(Objects::new(
        Arc::new(files.with_fsync(true)),
        Place {
            store: path.display().to_string(),
            credential: "the user that the server runs as".to_owned(),
            has_attributes: false,
        },
    ))
}

/// Syncs the directories between a container and a blob that was written. Whoever made one of them may have failed or
/// ended before its name was durable, and the one who writes into it next sees only that it is there.
fn sync_above(container: &Path, name: &str) -> Result<(), DeadLetterError> {
    let path = container.join(name);
    let above = path.ancestors().skip(2);
    for directory in above.take_while(|directory| directory.starts_with(container)) {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| DeadLetterError {
            message: format!("cannot sync {}: {error}", directory.display()),
            is_not_found: false,
            is_full: false,
        })?;
    }
    Ok(())
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DeadLetterError> + Send + 'static,
) -> Result<T, DeadLetterError> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.unwrap_or_else(|_| Err(ended()))
}

fn ended() -> DeadLetterError {
    DeadLetterError {
        message: "the thread that writes ended".to_owned(),
        is_not_found: false,
        is_full: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FC-09: writes that hang take so many threads and no more, and those to other directories go on.
    #[test]
    fn writes_that_hang_are_counted() {
        let all = HangingWrites::default();
        let path = |text| ContainerPath::parse(text).unwrap();
        let begin = |text| Hanging::begin(&all, &path(text));
        let mut writes: Vec<_> = (0..limits::DEAD_LETTER_WRITES_HANGING_MAX)
            .map(|_| begin("a").ok().unwrap())
            .collect();
        let refused = begin("a").err().unwrap();
        assert!(!refused.is_not_found && !refused.is_full, "{refused}");
        drop(begin("b").ok().unwrap());
        writes.pop();
        drop(begin("a").ok().unwrap());
        drop(writes);
        assert!(lock(&all).is_empty());
    }
}
