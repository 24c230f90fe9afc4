//! The benchmark: the real `serve` binary on loopback with a load generator and a trivial receiver, all on the same cores,
//! and in the same run what these can do without the server. What counts is ratios: both sides meet the same noise.
//!
//! ```text
//! generator (1 thread) ──▶ server (a process) ──▶ receiver (1 thread)        the cases
//! generator (1 thread) ─────────────────────────▶ receiver (1 thread)        raw HTTP
//! writer (1 thread): write, fdatasync, again                                 raw log
//! ```
//!
//! Cases are measured in turn, several rounds; the table shows medians. A new row is a new entry in [`cases::CASES`].
//! What it should come to stands in [`goals::GOALS`] and nowhere else; [`compare`] shows an earlier run beside this one.

mod backlog;
mod batches;
mod cases;
mod compare;
mod costs;
mod crowd;
mod dead;
mod edge;
mod events;
mod explain;
mod files;
mod flame;
mod goals;
mod held;
mod idle;
mod laggards;
mod leftovers;
mod load;
mod matching;
mod next_due;
mod noise;
mod options;
mod pending;
mod profile;
mod proxy;
mod raw_log;
mod receiver;
mod statistics;
mod subject;
mod table;
mod wrk;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tempfile::TempDir;

use self::cases::{CASES, Case, MANY, MANY_TOPIC, NONE_TOPIC};
use self::compare::Earlier;
use self::leftovers::Hold;
use self::load::IS_INTERRUPTED;
use self::noise::Moment;
use self::options::Options;
pub use self::profile::run as profile;
use self::proxy::Certificate;
use self::raw_log::RawLog;
use self::receiver::{Endpoint, Receiver};
use self::subject::Subject;
use self::table::Table;

/// More than one in so many rows that tell nothing are worth a warning.
const NOISY_PART: usize = 4;

/// Runs the benchmark and prints its table.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::read(arguments)?;
    end_on_interrupt()?;
    let mut bench = Bench::start(options)?;
    // Before anything is measured: a file that cannot be read or written is better known now.
    let compare = bench.options.compare.as_deref();
    let earlier = compare.map(Earlier::read).transpose()?;
    if let Some(path) = &bench.options.json {
        can_be_written(path)?;
    }
    let mut table = Table::default();
    let began = Instant::now();
    let measured = bench.measure(&mut table);
    let void = goals::why_void(&table);
    print!("\n{}", table.to_text(&CASES));
    println!("\n{}", goals::to_text(&table, &bench.options));
    if let Some(earlier) = &earlier {
        println!("{}", earlier.beside(&CASES, &table, &bench.options.about()));
    }
    println!("measured in {} s", began.elapsed().as_secs());
    let (noisy, rows) = table.noisy_rows(&CASES);
    if noisy * NOISY_PART > rows {
        println!(
            "WARNING: of {rows} rows {noisy} are too noisy to tell, or others used the machine: run it again when it is quiet"
        );
    }
    if let Some(void) = &void {
        println!("{void}");
    }
    if let Some(path) = &bench.options.json
        && IS_INTERRUPTED.load(Ordering::Relaxed)
    {
        println!(
            "{} is not written, since this is not the whole run",
            path.display()
        );
    } else if let Some(path) = &bench.options.json {
        let about = bench.options.about();
        let text = format!("{:#}\n", table.to_json(&CASES, &about, void.as_deref()));
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    measured?;
    if bench.options.is_check {
        goals::check(&table)?;
    }
    Ok(())
}

/// Fails when nobody may write to the file, and leaves all as it was: what is in it may be the earlier run, and a file that is
/// there looks like one.
fn can_be_written(path: &Path) -> Result<(), String> {
    let was_there = path.exists();
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    let left = opened.and_then(|_| {
        if was_there {
            Ok(())
        } else {
            fs::remove_file(path)
        }
    });
    left.map_err(|error| format!("{}: {error}", path.display()))
}

/// The figures of one case in one round.
#[derive(Debug, Default)]
pub struct Figures(Vec<(&'static str, f64)>);

impl Figures {
    /// Adds one. Of several with one name all count, as if each were of a round.
    pub fn set(&mut self, name: &'static str, value: f64) {
        self.0.push((name, value));
    }

    /// Gives one.
    pub fn get(&self, name: &str) -> Option<f64> {
        let found = self.0.iter().find(|(found, _)| *found == name);
        found.map(|(_, value)| *value)
    }
}

/// What cases work with. Dropping it ends every process and removes every file.
pub struct Bench {
    /// What was asked for.
    pub options: Options,
    /// Where things are delivered; and the bare receiver.
    pub receiver: Receiver,
    subject: Option<Subject>,
    raw_log: Option<RawLog>,
    directory: TempDir,
    /// Goes after the directory.
    _hold: Hold,
    /// How many servers there were.
    subjects: usize,
    /// What was measured in this round so far.
    round: BTreeMap<(&'static str, &'static str), f64>,
}

impl Bench {
    /// Starts the receiver, and makes the directory that goes at the end.
    fn start(options: Options) -> Result<Self, String> {
        fs::create_dir_all(&options.directory)
            .map_err(|error| format!("{}: {error}", options.directory.display()))?;
        leftovers::allow_files()?;
        let hold = Hold::take(&options.directory)?;
        options.check_room()?;
        let directory = tempfile::Builder::new()
            .prefix(leftovers::PREFIX)
            .tempdir_in(&options.directory)
            .map_err(|error| format!("no temporary directory: {error}"))?;
        Ok(Self {
            receiver: Receiver::start(1 + MANY)?,
            options,
            directory,
            _hold: hold,
            subject: None,
            raw_log: None,
            subjects: 0,
            round: BTreeMap::new(),
        })
    }

    /// All cases, round by round. One that fails keeps none of the others from being measured.
    fn measure(&mut self, table: &mut Table) -> Result<(), String> {
        let mut failures = Vec::new();
        for round in 0..self.options.size.rounds {
            self.round.clear();
            for case in &CASES {
                let is_left_out =
                    case.spare && self.options.is_quick && self.options.only.is_empty();
                if !self.options.wants(case.name) || is_left_out || (case.once && round > 0) {
                    continue;
                }
                let result = self.measure_case(case, round, table);
                if IS_INTERRUPTED.load(Ordering::Relaxed) {
                    return Err("interrupted".to_owned());
                }
                if let Err(error) = result {
                    println!("{}: {error}", case.name);
                    failures.push(format!("{}: {error}", case.name));
                }
            }
        }
        self.end_subject()?;
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures.join("\n"))
        }
    }

    fn measure_case(&mut self, case: &Case, round: usize, table: &mut Table) -> Result<(), String> {
        if case.once {
            // The server of the other cases is idle, and yet not nothing.
            self.end_subject()?;
        }
        let (began, before) = (Instant::now(), Moment::now(self.subject.as_ref()));
        let mut figures = (case.run)(self)?;
        let now = Moment::now(self.subject.as_ref());
        if figures.0.is_empty() {
            println!("round {}: {:<20} left out", round + 1, case.name);
            return Ok(());
        }
        if let Some((now, before)) = now.zip(before) {
            figures.set("others_cores", now.others_since(before));
        }
        let rate = figures.get("rate").unwrap_or_default();
        let seconds = began.elapsed().as_secs_f64();
        let (round, name) = (round + 1, case.name);
        println!("round {round}: {name:<20} {rate:>10.0} per s, {seconds:.0} s in all");
        for (figure, value) in figures.0 {
            table.add(case.name, figure, value);
            self.round.insert((case.name, figure), value);
        }
        Ok(())
    }

    /// A figure that was measured earlier in this round.
    pub fn this_round(&self, case: &'static str, figure: &'static str) -> Option<f64> {
        self.round.get(&(case, figure)).copied()
    }

    /// The server that most cases share, with its topics.
    pub fn subject(&mut self) -> Result<&mut Subject, String> {
        if self.subject.is_none() {
            let mut subject = self.own_subject("shared", "")?;
            self.declare(&mut subject)?;
            self.subject = Some(subject);
        }
        Ok(self.subject.as_mut().expect("it was started above"))
    }

    /// A new server with a new data directory and settings besides the defaults. Gone after [`Subject::remove`].
    pub fn own_subject(&mut self, name: &str, settings: &str) -> Result<Subject, String> {
        self.subjects += 1;
        let directory = self.server_directory(name);
        Subject::start(&self.options.binary, directory, settings)
    }

    /// The file of the raw log, made when it is first asked for.
    pub fn raw_log(&mut self) -> Result<&mut RawLog, String> {
        if self.raw_log.is_none() {
            self.raw_log = Some(RawLog::create(self.directory.path())?);
        }
        Ok(self.raw_log.as_mut().expect("it was made above"))
    }

    /// Where a topic's events are delivered.
    pub fn endpoints(&self, topic: &str) -> &[Arc<Endpoint>] {
        match topic {
            NONE_TOPIC => &[],
            MANY_TOPIC => &self.receiver.endpoints[1..],
            _ => &self.receiver.endpoints[..1],
        }
    }

    /// The path of a file that goes at the end.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A certificate for servers of TLS, made when it is first asked for.
    pub fn certificate(&self) -> Result<Certificate, String> {
        Certificate::make(self.directory.path())
    }

    fn end_subject(&mut self) -> Result<(), String> {
        match self.subject.take() {
            Some(subject) => subject.remove(),
            None => Ok(()),
        }
    }

    fn server_directory(&self, name: &str) -> PathBuf {
        let number = self.subjects;
        self.directory.path().join(format!("{name}-{number}"))
    }
}

/// Lets loads end at SIGINT and SIGTERM, and at SIGHUP of a terminal that is closed, so that the server is ended and the files
/// are removed. Under `nohup` the last one stays ignored.
fn end_on_interrupt() -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};

    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_hang_up_ignored = ignores_hang_up(&status);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    std::thread::Builder::new()
        .name("bench-signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let Ok(mut terminate) = signal(SignalKind::terminate()) else {
                    return;
                };
                let hung_up = async {
                    // A handler alone would end that it is ignored.
                    if !is_hang_up_ignored && let Ok(mut hang_up) = signal(SignalKind::hangup()) {
                        hang_up.recv().await;
                    } else {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminate.recv() => {}
                    () = hung_up => {}
                }
                IS_INTERRUPTED.store(true, Ordering::Relaxed);
            });
        })
        .map_err(|error| format!("no thread for signals: {error}"))?;
    Ok(())
}

/// Whether a program ignores SIGHUP, by its `status` in `/proc`: a mask in which that signal, the first, is the last bit.
fn ignores_hang_up(status: &str) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        for (status, is_ignored) in [
            (
                "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n",
                false,
            ),
            (
                "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n",
                true,
            ),
            ("", false),
        ] {
            assert_eq!(ignores_hang_up(status), is_ignored, "{status}");
        }
    }

    #[test]
    fn whether_a_file_can_be_written_is_known_before_and_changes_nothing_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.json");
        fs::write(&path, "earlier").unwrap();
        assert_eq!(can_be_written(&path), Ok(()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        let new = directory.path().join("new.json");
        assert_eq!(can_be_written(&new), Ok(()));
        assert!(!new.exists());
        assert!(can_be_written(directory.path()).is_err());
        assert!(can_be_written(&directory.path().join("missing").join("run.json")).is_err());
    }
}
