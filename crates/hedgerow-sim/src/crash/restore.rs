//! What operators do to a data directory between two lives: the view is deleted, or an older copy of it is put back.
//! `hedgerow recover` has to build it again, also after it was killed while it did; nothing may be lost or owed twice.
//!
//! A view that is built again lists no terminal records from before the log's oldest segment. So they are read before.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::log::{Log, LogOptions};
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::table::lsm::LsmTable;
use hedgerow_store::view::{TerminalFilter, View, ViewOptions};

use super::api::TerminalRecord;
use super::process::{Installation, is_killed};
use crate::random::Random;

/// What is done after a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restore {
    /// Nothing.
    Nothing,
    /// The view is copied.
    Copy,
    /// The view is deleted, and built again.
    Delete,
    /// The last copy of the view is put back.
    PutBack,
}

/// Of ten lives so many are followed by this.
const KINDS: [(Restore, usize); 4] = [
    (Restore::Nothing, 4),
    (Restore::Copy, 2),
    (Restore::Delete, 2),
    (Restore::PutBack, 2),
];
/// Where a recovery is killed, at times.
const FAILPOINTS: [&str; 3] = ["checkpoint-apply", "checkpoint-persist", "baseline-write"];
const KILLED_PERCENT: u64 = 30;
/// Terminal records that are kept, as the server is configured.
const TERMINAL_RECORDS_MAX: &str = "1000000";
/// Bytes of log that are folded at a time.
const REPLAY_BYTES: usize = 1 << 20;

/// What was done so far.
#[derive(Debug, Default, Clone, Copy)]
pub struct Restored {
    /// Views deleted.
    pub deleted: u32,
    /// Older copies put back with which the server started.
    pub started: u32,
    /// Older copies put back that the server refused.
    pub refused: u32,
    /// Views built again.
    pub recovered: u32,
    /// Recoveries that were killed before.
    pub killed: u32,
}

/// Does it.
#[derive(Debug)]
pub struct Restorer {
    random: Random,
    kinds: Vec<Restore>,
    has_copy: bool,
    done: Restored,
    /// By subscription and event.
    terminal: BTreeMap<(String, String), TerminalRecord>,
}

impl Restorer {
    /// The restorer of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::of(&[seed, 0x7265_7374]),
            kinds: Vec::new(),
            has_copy: false,
            done: Restored::default(),
            terminal: BTreeMap::new(),
        }
    }

    /// What was done so far.
    pub const fn done(&self) -> Restored {
        self.done
    }

    /// What is to be done next.
    pub fn next(&mut self) -> Restore {
        if self.kinds.is_empty() {
            let kinds = KINDS.iter();
            self.kinds = kinds
                .flat_map(|(kind, count)| vec![*kind; *count])
                .collect();
            self.random.shuffle(&mut self.kinds);
        }
        match self.kinds.pop().expect("it was filled above") {
            Restore::PutBack if !self.has_copy => Restore::Copy,
            kind => kind,
        }
    }

    /// Copies the view.
    pub fn copy(&mut self, installation: &Installation) -> Result<(), String> {
        let copy = installation.directory.join("view.copy");
        copy_directory(&view(installation), &copy).map_err(|error| format!("copy: {error}"))?;
        self.has_copy = true;
        Ok(())
    }

    /// Deletes the view.
    pub fn delete(&mut self, installation: &Installation) -> Result<(), String> {
        self.note_terminal_records(&installation.data())?;
        fs::remove_dir_all(view(installation)).map_err(|error| format!("delete: {error}"))?;
        self.done.deleted += 1;
        Ok(())
    }

    /// Puts the last copy of the view back.
    pub fn put_back(&mut self, installation: &Installation) -> Result<(), String> {
        self.note_terminal_records(&installation.data())?;
        let copy = installation.directory.join("view.copy");
        copy_directory(&copy, &view(installation)).map_err(|error| format!("put back: {error}"))
    }

    /// Takes note of whether the server started with an older copy.
    pub const fn put_back_answered(&mut self, has_started: bool) {
        if has_started {
            self.done.started += 1;
        } else {
            self.done.refused += 1;
        }
    }

    /// Builds the view again with `hedgerow recover`, which is killed before at times.
    pub fn recover(&mut self, installation: &Installation) -> Result<(), String> {
        if self.random.percent(KILLED_PERCENT) {
            let at = self.random.between(0..=FAILPOINTS.len() as u64 - 1) as usize;
            let (status, output) = recover(installation, Some(FAILPOINTS[at]))?;
            // It may have nothing to do there.
            if is_killed(status) {
                self.done.killed += 1;
            } else if !status.success() {
                return Err(format!("recover ended with {status}: {output}"));
            }
        }
        let (status, output) = recover(installation, None)?;
        if !status.success() {
            return Err(format!("recover ended with {status}: {output}"));
        }
        self.done.recovered += 1;
        Ok(())
    }

    /// Adds terminal records that were listed once and are no more.
    pub fn add_terminal_records(&self, listed: &mut Vec<TerminalRecord>) {
        let mut all = self.terminal.clone();
        for record in listed.drain(..) {
            all.insert(key(&record), record);
        }
        listed.extend(all.into_values());
    }

    fn note_terminal_records(&mut self, data: &Path) -> Result<(), String> {
        let records = terminal_records(data).map_err(|error| {
            format!(
                "a store that was served before cannot be read while the server is down: {error}"
            )
        })?;
        for record in records {
            self.terminal.insert(key(&record), record);
        }
        Ok(())
    }
}

fn key(record: &TerminalRecord) -> (String, String) {
    (record.event_subscription.clone(), record.event_id.clone())
}

fn view(installation: &Installation) -> std::path::PathBuf {
    installation.data().join("view")
}

/// Replaces a directory by a copy of another.
fn copy_directory(from: &Path, to: &Path) -> std::io::Result<()> {
    if to.is_dir() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Runs `hedgerow recover`; how it ended and what it said.
fn recover(
    installation: &Installation,
    failpoint: Option<&str>,
) -> Result<(ExitStatus, String), String> {
    let mut command = Command::new(&installation.binary);
    command
        .args(["recover", "--terminal-records-max", TERMINAL_RECORDS_MAX])
        .arg("--data")
        .arg(installation.data())
        .env_remove("HEDGEROW_FAILPOINT")
        .stdin(Stdio::null());
    if let Some(name) = failpoint {
        command.env("HEDGEROW_FAILPOINT", format!("{name}:1"));
    }
    let output = command.output();
    let output = output.map_err(|error| format!("{}: {error}", installation.binary.display()))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status, text))
}

/// What the view lists once the log was folded.
fn terminal_records(data: &Path) -> Result<Vec<TerminalRecord>, StoreError> {
    let io = |source| StoreError::Io {
        doing: "open",
        path: data.display().to_string(),
        source,
    };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(data).map_err(io)?);
    let secrets = Arc::new(Secrets::open(&*disk)?);
    let clock = Arc::new(|| Timestamp::ZERO);
    let log = Log::open(Arc::clone(&disk), LogOptions::default(), clock)?;
    let options = ViewOptions {
        store_id: log.store_id(),
        terminal_records_max: u64::MAX,
    };
    let table = Arc::new(LsmTable::open(&data.join("view"))?);
    let mut view = View::open(table, &*disk, secrets, options)?;
    view.catch_up(&log, REPLAY_BYTES)?;
    let page = view.terminal_records(&TerminalFilter::default(), usize::MAX)?;
    let named = page.records.into_iter().filter_map(|(_, record)| {
        let name = view.catalog().subscription(record.subscription)?;
        let progress = record.progress;
        Some(TerminalRecord {
            event_subscription: name.name.to_string(),
            event_id: record.event_id,
            event_type: record.event_type,
            subject: record.subject,
            reason: record.reason.to_string(),
            delivery_attempts: progress.map_or(0, |progress| progress.attempts),
            last_http_status_code: progress
                .map(|progress| progress.last_status)
                .filter(|status| *status > 0),
        })
    });
    Ok(named.collect())
}
