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
//! What is measured is written down here; what it should be is not decided here.

mod cases;
mod crowd;
mod dead;
mod events;
mod explain;
mod files;
mod held;
mod laggards;
mod load;
mod matching;
mod noise;
mod options;
mod pending;
mod raw_log;
mod receiver;
mod statistics;
mod subject;
mod table;
mod wrk;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde_json::json;
use tempfile::TempDir;

use self::cases::{CASES, MANY, MANY_TOPIC, NONE_TOPIC};
use self::load::IS_INTERRUPTED;
use self::noise::Moment;
use self::options::Options;
use self::raw_log::RawLog;
use self::receiver::{Endpoint, Receiver};
use self::subject::Subject;
use self::table::Table;

/// Runs the benchmark and prints its table.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::read(arguments)?;
    end_on_interrupt()?;
    fs::create_dir_all(&options.directory)
        .map_err(|error| format!("{}: {error}", options.directory.display()))?;
    let directory = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&options.directory)
        .map_err(|error| format!("no temporary directory: {error}"))?;
    let mut bench = Bench {
        receiver: Receiver::start(1 + MANY)?,
        options,
        directory,
        subject: None,
        raw_log: None,
        subjects: 0,
        round: BTreeMap::new(),
    };
    let mut table = Table::default();
    let began = Instant::now();
    let measured = bench.measure(&mut table);
    print!("\n{}", table.to_text(&CASES));
    println!("measured in {} s", began.elapsed().as_secs());
    measured?;
    if let Some(path) = &bench.options.json {
        let about = json!({
            "secondsPerCase": bench.options.time.as_secs_f64(),
            "rounds": bench.options.rounds,
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
        });
        let text = format!("{:#}\n", table.to_json(&CASES, &about));
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// The figures of one case in one round.
#[derive(Debug, Default)]
pub struct Figures(Vec<(&'static str, f64)>);

impl Figures {
    /// Adds one.
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
    /// How many servers there were.
    subjects: usize,
    /// What was measured in this round so far.
    round: BTreeMap<(&'static str, &'static str), f64>,
}

impl Bench {
    fn measure(&mut self, table: &mut Table) -> Result<(), String> {
        for round in 0..self.options.rounds {
            self.round.clear();
            for case in &CASES {
                if !self.options.wants(case.name) || (case.once && round > 0) {
                    continue;
                }
                if case.once {
                    // The server of the other cases is idle, and yet not nothing.
                    self.end_subject()?;
                }
                let (began, before) = (Instant::now(), Moment::now(self.subject.as_ref()));
                let mut figures =
                    (case.run)(self).map_err(|error| format!("{}: {error}", case.name))?;
                if IS_INTERRUPTED.load(Ordering::Relaxed) {
                    return Err("interrupted".to_owned());
                }
                let now = Moment::now(self.subject.as_ref());
                if let Some((now, before)) = now.zip(before) {
                    figures.set("others_cores", now.others_since(before));
                }
                let rate = figures.get("rate").unwrap_or_default();
                let seconds = began.elapsed().as_secs_f64();
                let (round_number, name) = (round + 1, case.name);
                println!(
                    "round {round_number}: {name:<20} {rate:>10.0} per s, {seconds:.0} s in all"
                );
                for (figure, value) in figures.0 {
                    table.add(case.name, figure, value);
                    self.round.insert((case.name, figure), value);
                }
            }
        }
        self.end_subject()
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

/// Lets loads end at SIGINT and SIGTERM, so that the server is ended and the files are removed.
fn end_on_interrupt() -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};

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
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminate.recv() => {}
                }
                IS_INTERRUPTED.store(true, Ordering::Relaxed);
            });
        })
        .map_err(|error| format!("no thread for signals: {error}"))?;
    Ok(())
}
