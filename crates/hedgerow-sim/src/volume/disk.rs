//! What the log and the kept files take of the disk, by the files that are there; watched while the server runs.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

/// How often it is looked at.
const POLL: Duration = Duration::from_millis(20);
/// What `store.bytes_max` bounds.
const BOUNDED: [&str; 2] = ["log", "kept"];

/// Watches a data directory until it is dropped.
#[derive(Debug)]
pub struct Watch {
    data: PathBuf,
    most: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Begins to watch.
    pub fn start(data: &Path) -> Self {
        let most = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(watch(data.to_owned(), Arc::clone(&most)));
        Self {
            data: data.to_owned(),
            most,
            task,
        }
    }

    /// The most bytes that were seen.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }

    /// The bytes that are there now.
    pub fn now(&self) -> u64 {
        bounded_bytes(&self.data)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(data: PathBuf, most: Arc<AtomicU64>) {
    loop {
        most.fetch_max(bounded_bytes(&data), Ordering::SeqCst);
        tokio::time::sleep(POLL).await;
    }
}

/// Bytes of all segments, in use or free, and of all kept files.
fn bounded_bytes(data: &Path) -> u64 {
    // By inode: a file that is renamed meanwhile may be met twice.
    let mut files = HashMap::new();
    for directory in BOUNDED {
        // One that is not there yet is empty.
        let _ = measure(&data.join(directory), &mut files);
    }
    files.values().sum()
}

fn measure(directory: &Path, files: &mut HashMap<u64, u64>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let Ok(entry) = entry else { continue };
        // A file may be gone by now.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() {
            let _ = measure(&entry.path(), files);
        } else {
            files.insert(metadata.ino(), metadata.len());
        }
    }
    Ok(())
}
