//! `profile`: where the server's time goes under a load, as a flame graph. `perf` looks at the server a thousand times a second
//! while the benchmark's generator publishes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::cases::{BACKLOG_EVENTS, NONE_TOPIC, ONE_TOPIC};
use super::flame::Frame;
use super::load::{Backlog, Closed};
use super::options::Options;
use super::{Bench, end_on_interrupt};

/// Samples a second of each thread that runs; no multiple of what timers do.
const SAMPLES_PER_SECOND: u32 = 997;
/// Seconds, when none are asked for.
const SECONDS: u64 = 10;
/// The load runs longer than it is looked at, at both ends together.
const MORE: Duration = Duration::from_secs(1);
/// The topic whose events are delivered as many in a request as they were published in.
const BATCHES_TOPIC: &str = "batches";
/// Functions that are listed.
const LISTED: usize = 25;

/// A load that is looked at.
struct Load {
    name: &'static str,
    topic: &'static str,
    connections: usize,
    batch: usize,
}

const LOADS: [Load; 5] = [
    Load {
        name: "ingest",
        topic: NONE_TOPIC,
        connections: 64,
        batch: 1,
    },
    Load {
        name: "ingest-arrays",
        topic: NONE_TOPIC,
        connections: 16,
        batch: 100,
    },
    Load {
        name: "deliver",
        topic: ONE_TOPIC,
        connections: 64,
        batch: 1,
    },
    Load {
        name: "deliver-arrays",
        topic: ONE_TOPIC,
        connections: 2,
        batch: 100,
    },
    Load {
        name: "batches",
        topic: BATCHES_TOPIC,
        connections: 4,
        batch: 100,
    },
];

/// Profiles a load, writes the graph and prints where most of the time went.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (mut load, mut svg, mut seconds) = ("deliver".to_owned(), None, SECONDS);
    let mut others = Vec::new();
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--load" => load.clone_from(value),
            "--svg" => svg = Some(PathBuf::from(value)),
            "--seconds" => {
                seconds = value
                    .parse()
                    .map_err(|_| "--seconds needs a number".to_owned())?;
            }
            _ => others.extend([name.clone(), value.clone()]),
        }
    }
    let names = LOADS.map(|one| one.name).join(", ");
    let load = LOADS
        .iter()
        .find(|one| one.name == load)
        .ok_or_else(|| format!("--load is one of {names}"))?;
    let svg = svg.ok_or("profile needs --svg FILE, which the graph is written to")?;
    let options = Options::read(&others)?;
    end_on_interrupt()?;
    let mut bench = Bench::start(options)?;
    let data = bench.path("perf.data");
    let rate = record(&mut bench, load, Duration::from_secs(seconds), &data)?;
    let root = Frame::read(&script(&data)?);
    if root.samples() == 0 {
        return Err("perf saw nothing of the server".to_owned());
    }
    let title = format!(
        "hedgerow serve under the load {}: {} samples in {seconds} s, {rate:.0} events a second",
        load.name,
        root.samples()
    );
    fs::write(&svg, root.to_svg(&title)).map_err(|error| format!("{}: {error}", svg.display()))?;
    println!("{title}\nwithout what they call:");
    for (part, name) in root.hottest(LISTED) {
        println!("{:>6.1} %  {name}", part * 100.0);
    }
    println!("wrote {}", svg.display());
    Ok(())
}

/// Publishes while `perf` looks, and gives the events of a second.
fn record(bench: &mut Bench, load: &Load, time: Duration, data: &Path) -> Result<f64, String> {
    let endpoints = bench.endpoints(load.topic).to_vec();
    let subject = bench.subject()?;
    if load.topic == BATCHES_TOPIC {
        subject.declare_batched(BATCHES_TOPIC, &endpoints, load.batch)?;
    }
    let perf = Command::new("perf")
        .args(["record", "--quiet", "--event", "cpu-clock", "-g"])
        .args(["--freq", &SAMPLES_PER_SECOND.to_string()])
        .args(["--pid", &subject.id().to_string(), "--output"])
        .arg(data)
        .args(["--", "sleep", &time.as_secs().to_string()])
        .stdin(Stdio::null())
        .spawn();
    let mut perf = perf.map_err(|error| {
        format!("cannot run perf ({error}); it is in the package linux-perf or linux-tools")
    })?;
    let has_subscription = !endpoints.is_empty();
    let closed = Closed {
        target: subject.target(load.topic),
        connections: load.connections,
        batch: load.batch,
        time: time + MORE,
        events_max: u64::MAX,
        backlog: has_subscription.then_some(Backlog {
            endpoints,
            max: BACKLOG_EVENTS,
        }),
    };
    let report = closed.run();
    let ended = perf.wait().map_err(|error| format!("perf: {error}"))?;
    if !ended.success() {
        return Err(format!("perf ended with {ended}"));
    }
    let report = report?;
    if has_subscription {
        subject.drain(load.topic, 1)?;
    }
    Ok(report.events as f64 / report.seconds)
}

/// The samples as text.
fn script(data: &Path) -> Result<String, String> {
    let told = Command::new("perf")
        .args([
            "script",
            "--fields",
            "comm,ip,sym",
            "--no-inline",
            "--input",
        ])
        .arg(data)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run perf script: {error}"))?;
    if told.status.success() {
        Ok(String::from_utf8_lossy(&told.stdout).into_owned())
    } else {
        Err(format!("perf script ended with {}", told.status))
    }
}
