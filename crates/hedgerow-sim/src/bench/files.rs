//! What is written to files that the server's own counters do not see: the view's table. Its files are written once and
//! have names that are not used again, so whoever looks often enough sees how much is written. `/proc/PID/io` is no help:
//! it counts whole folios where a few bytes of a cached file are overwritten.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the directory is looked at. A file that comes and goes in between is not counted.
const INTERVAL: Duration = Duration::from_millis(20);

/// Looks at a directory until it is asked what was written there.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Watch {
    /// Begins to look. What is there already does not count.
    pub fn start(directory: PathBuf) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("bench-files".to_owned())
            .spawn(move || watch(&directory, &stopped))
            .map_err(|error| format!("no thread to look at files: {error}"))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Bytes written since the start.
    pub fn written_bytes(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread.map_or(0, |thread| thread.join().unwrap_or_default())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn watch(directory: &Path, stopped: &AtomicBool) -> u64 {
    let mut sizes = HashMap::new();
    look(directory, &mut sizes);
    let before: u64 = sizes.values().sum();
    loop {
        let is_last = stopped.load(Ordering::Relaxed);
        look(directory, &mut sizes);
        if is_last {
            return sizes.values().sum::<u64>() - before;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Notes the greatest size of each file. What goes while it is looked at is left out.
fn look(directory: &Path, sizes: &mut HashMap<(PathBuf, u64), u64>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() {
            look(&entry.path(), sizes);
        } else {
            let size = sizes.entry((entry.path(), metadata.ino())).or_default();
            *size = metadata.len().max(*size);
        }
    }
}

/// Bytes that were written to the device of a directory since the machine began, by everybody; `None` where the system does
/// not say.
pub fn device_bytes(directory: &Path) -> Option<u64> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let sectors: u64 = text.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

/// Bytes of the files in a directory.
pub fn size(directory: &Path) -> u64 {
    let mut sizes = HashMap::new();
    look(directory, &mut sizes);
    sizes.values().sum()
}
