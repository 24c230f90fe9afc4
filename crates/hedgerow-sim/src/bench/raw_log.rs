//! What the disk can do without a server: one writer that appends groups to a file whose blocks were written before, each
//! with one write and one fdatasync, as a group-committed log does.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::events;
use super::load::IS_INTERRUPTED;
use super::statistics::Histogram;

/// The size of the file, which is used again from its beginning.
const FILE_BYTES: u64 = 64 << 20;
const FILL_STEP_BYTES: usize = 1 << 20;

/// The file. It goes when this is dropped.
#[derive(Debug)]
pub struct RawLog {
    path: PathBuf,
    file: File,
    at: u64,
}

/// What it came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Bytes written and synced.
    pub bytes: u64,
    /// In seconds.
    pub seconds: f64,
    /// Of each write and sync.
    pub latencies: Histogram,
}

impl RawLog {
    /// Makes the file and writes all of it once.
    pub fn create(directory: &Path) -> Result<Self, String> {
        let path = directory.join("raw-log");
        let failed = |error| format!("{}: {error}", path.display());
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = options.open(&path).map_err(failed)?;
        let zeros = vec![0; FILL_STEP_BYTES];
        for at in (0..FILE_BYTES).step_by(FILL_STEP_BYTES) {
            file.write_all_at(&zeros, at).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        Ok(Self { path, file, at: 0 })
    }

    /// Appends groups of so many bytes.
    pub fn run(&mut self, group_bytes: usize, time: Duration) -> Result<Report, String> {
        let mut group = events::body(0, group_bytes.div_ceil(events::EVENT_BYTES)).to_vec();
        group.truncate(group_bytes);
        let mut report = Report::default();
        let began = Instant::now();
        while began.elapsed() < time && !IS_INTERRUPTED.load(Ordering::Relaxed) {
            if self.at + group_bytes as u64 > FILE_BYTES {
                self.at = 0;
            }
            let start = Instant::now();
            self.file
                .write_all_at(&group, self.at)
                .and_then(|()| self.file.sync_data())
                .map_err(|error| format!("{}: {error}", self.path.display()))?;
            report.latencies.record(start.elapsed());
            report.bytes += group_bytes as u64;
            self.at += group_bytes as u64;
        }
        report.seconds = began.elapsed().as_secs_f64();
        Ok(report)
    }
}

impl Drop for RawLog {
    fn drop(&mut self) {
        // The directory goes too.
        let _ = fs::remove_file(&self.path);
    }
}
