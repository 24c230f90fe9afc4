//! The simulator: publishers, the real engine over the embedded log on a faulty disk, and receivers, on one simulated network
//! and one simulated clock, from one seed. An oracle knows every accepted event and says what is wrong.
//!
//! | module | is |
//! | --- | --- |
//! | [`plan`] | what a seed means: everything that is declared, published and broken, and when |
//! | [`world`] | what is outside the process: time, moods, the trace, the oracle |
//! | [`machine`] | the disk and the processes that live on it, one after another |
//! | [`process`] | one life: every step that it takes may be its last |
//! | [`store`], [`table`], [`letters`], [`network`], [`clock`] | the seams: what the engine stands on |
//! | [`people`] | publishers and operators |
//! | [`oracle`], [`model`], [`rules`] | what must hold, written down a second time |
//! | [`day`] | one day of one seed |
//!
//! Everything runs on one thread, on tokio's paused clock: time passes when nobody has anything to do. What is drawn is drawn
//! from the seed alone, so the same seed gives the same trace, line by line.

// A tool: what it prints is its result.
#![allow(clippy::print_stdout)]

mod clock;
mod day;
mod dice;
mod letters;
mod machine;
mod model;
mod network;
mod oracle;
mod people;
mod plan;
mod process;
mod rules;
mod store;
mod table;
mod trace;
mod world;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::oracle::Tally;

/// 2030-01-02T03:04:05Z: the first moment of every day.
const START_MS: u64 = 1_893_553_445_000;

const USAGE: &str = "usage: hedgerow-simulator [--seeds N] [--from S]
       hedgerow-simulator --seed S";

/// Seeds of a run that does not say how many.
const SEEDS: u64 = 50;
/// One seed in so many is run twice: the same seed gives the same bytes.
const TWICE: u64 = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let mut options = [("--seeds", None), ("--from", None), ("--seed", None)];
    for given in arguments.chunks(2) {
        let option = options.iter_mut().find(|(name, _)| *name == given[0]);
        let value = given.get(1).and_then(|value| value.parse::<u64>().ok());
        let (Some((_, known)), Some(value)) = (option, value) else {
            return Err(USAGE.to_owned());
        };
        *known = Some(value);
    }
    let [(_, seeds), (_, from), (_, seed)] = options;
    if let Some(seed) = seed {
        return replay(seed);
    }
    let (seeds, from) = (seeds.unwrap_or(SEEDS), from.unwrap_or(0));
    let began = Instant::now();
    let days = Days::default();
    let next = AtomicU64::new(from);
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| days.live(&next, from + seeds));
        }
    });
    let Days { total, wrong } = days;
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, wrong)) = wrong.first_key_value() {
        return Err(wrong.clone());
    }
    let (tally, simulated) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "simulator          {seeds} seeds from {from}: {:.1} days in {:.1} s",
        simulated.as_secs_f64() / 86_400.0,
        began.elapsed().as_secs_f64()
    );
    println!("{tally}");
    Ok(())
}

/// Runs one day and prints what happens.
fn replay(seed: u64) -> Result<(), String> {
    let report = day::run(seed, true);
    println!(
        "trace              {} lines, hash {:016x}",
        report.lines, report.hash
    );
    println!("{}", report.tally);
    report.violation.map_or(Ok(()), Err)
}

/// The days of several threads.
#[derive(Default)]
struct Days {
    total: Mutex<(Tally, Duration)>,
    wrong: Mutex<BTreeMap<u64, String>>,
}

impl Days {
    /// Takes one seed after another until there is none left, or something is wrong.
    fn live(&self, next: &AtomicU64, end: u64) {
        while world::lock(&self.wrong).is_empty() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            match one(seed) {
                Ok(report) => {
                    let mut total = world::lock(&self.total);
                    total.0.add(&report.tally);
                    total.1 += report.simulated;
                }
                Err(wrong) => {
                    let message =
                        format!("seed {seed}: {wrong}\nreplay with: cargo xtask sim --seed {seed}");
                    world::lock(&self.wrong).insert(seed, message);
                }
            }
        }
    }
}

/// The day of a seed. A panic of the product is as wrong as anything else.
fn one(seed: u64) -> Result<day::Report, String> {
    let run = || std::panic::catch_unwind(|| day::run(seed, false));
    let report = run().map_err(|_| "it panicked".to_owned())?;
    if let Some(violation) = report.violation {
        return Err(violation);
    }
    if seed.is_multiple_of(TWICE) {
        let again = run().map_err(|_| "it panicked the second time".to_owned())?;
        if (again.hash, again.lines) != (report.hash, report.lines) {
            return Err("a second run of it went another way".to_owned());
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Same seed, same bytes; and another seed is another day.
    #[test]
    fn a_seed_gives_the_same_day_again() {
        let (first, again, other) = (day::run(7, false), day::run(7, false), day::run(8, false));
        assert_eq!(first.violation, None);
        assert_eq!((first.hash, first.lines), (again.hash, again.lines));
        assert_ne!(first.hash, other.hash);
        assert!(first.lines > 100, "{first:?}");
    }

    /// ED-304 and all else that the oracle knows, on a few days: nothing that was accepted is lost, whatever crashes (ED-010), and
    /// each subscription is delivered to at least once (ED-001).
    #[test]
    fn some_days_go_well() {
        for seed in 100..104 {
            assert_eq!(day::run(seed, false).violation, None, "seed {seed}");
        }
    }
}
