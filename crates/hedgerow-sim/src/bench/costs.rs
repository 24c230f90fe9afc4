//! What it costs that attempts are remembered and deliveries signed, as where people run it: single events in and out by two
//! servers in turn, one with it and one without.

use std::time::Duration;

use super::cases::{BACKLOG_EVENTS, ONE_TOPIC};
use super::load::{Backlog, Closed};
use super::subject::{Subject, measured};
use super::{Bench, Figures};

const NO_HISTORY: &str = "\n[history]\nenabled = false\n";

/// What one load came to.
struct Cost {
    rate: f64,
    cpu_us: f64,
}

/// That of the history of attempts.
pub fn history(bench: &mut Bench) -> Result<Figures, String> {
    let with = bench.own_subject("history-on", "")?;
    let without = bench.own_subject("history-off", NO_HISTORY)?;
    compare(bench, [with, without])
}

/// That of signatures by Standard Webhooks.
pub fn signatures(bench: &mut Bench) -> Result<Figures, String> {
    let with = bench.own_subject("signed", "")?;
    let mut without = bench.own_subject("unsigned", "")?;
    without.is_signing = false;
    compare(bench, [with, without])
}

fn compare(bench: &Bench, mut subjects: [Subject; 2]) -> Result<Figures, String> {
    for subject in &mut subjects {
        subject.declare(ONE_TOPIC, bench.endpoints(ONE_TOPIC))?;
    }
    let time = bench.options.size.time;
    for subject in &subjects {
        subject.settle()?;
        // Connections are opened and the window of the endpoint grows before anything is measured.
        load(bench, subject, time / 3)?;
    }
    let mut figures = Figures::default();
    for turn in 0..bench.options.turns() {
        // Who goes first does not always go first.
        let first = turn % 2;
        let one = load(bench, &subjects[first], time)?;
        let other = load(bench, &subjects[1 - first], time)?;
        let (with, without) = if first == 0 {
            (one, other)
        } else {
            (other, one)
        };
        figures.set("rate", with.rate);
        figures.set("server_cpu_us", with.cpu_us);
        figures.set("cpu_us_without", without.cpu_us);
        figures.set("rate_of_without", with.rate / without.rate);
        figures.set("cpu_of_without", with.cpu_us / without.cpu_us);
    }
    subjects.into_iter().try_for_each(Subject::remove)?;
    Ok(figures)
}

fn load(bench: &Bench, subject: &Subject, time: Duration) -> Result<Cost, String> {
    let load = Closed {
        target: subject.target(ONE_TOPIC),
        connections: 64,
        batch: 1,
        time,
        events_max: u64::MAX,
        backlog: Some(Backlog {
            endpoints: bench.endpoints(ONE_TOPIC).to_vec(),
            max: BACKLOG_EVENTS,
        }),
    };
    let (report, cpu) = measured(subject, load)?;
    subject.drain(ONE_TOPIC, 1)?;
    Ok(Cost {
        rate: report.deliveries as f64 / report.seconds,
        cpu_us: cpu.all.as_secs_f64() * 1e6 / report.published as f64,
    })
}
