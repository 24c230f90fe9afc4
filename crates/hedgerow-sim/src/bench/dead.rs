//! One subscription to everything whose endpoint is down, with many events that wait for it, beside one that is well: how
//! much is taken and how late the other gets it, as ratios to a server beside it that has no dead one. Settings are the
//! defaults: what waits is held back, as it is where people run it.

use std::sync::Arc;
use std::time::Duration;

use super::cases::{BACKLOG_EVENTS, ONE_TOPIC};
use super::load::{Backlog, Closed, Open};
use super::pending::{mib, store_settings};
use super::receiver::{Behaviour, Endpoint};
use super::subject::Subject;
use super::{Bench, Figures};

/// Events a second while it is measured how late they arrive.
const RATE: f64 = 1_000.0;
/// Events a second at least while those that wait are published.
const FILL_RATE_MIN: u64 = 2_000;

/// Each server is measured so often, in turn: what slows the disk for a while then slows both.
const PARTS: usize = 5;
/// Latency is measured so many times as long as other cases, so that checkpoints fall into each part.
const LATENCY_TIMES: u32 = 2;

/// What is measured.
struct Part {
    rate: f64,
    p99_ms: Option<f64>,
}

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let count = bench.options.size.dead;
    let settings = format!("\n{}", store_settings(count));
    let time = bench.options.size.time;
    let [well, down, other] = [0, 1, 2].map(|number| Arc::clone(&bench.receiver.endpoints[number]));
    let mut plain = bench.own_subject("dead-without", &settings)?;
    plain.declare(ONE_TOPIC, std::slice::from_ref(&other))?;
    let mut subject = bench.own_subject("dead", &settings)?;
    down.behave(Behaviour::IsBusy);
    subject.declare(ONE_TOPIC, &[Arc::clone(&well), Arc::clone(&down)])?;
    for subject in [&plain, &subject] {
        subject.settle()?;
    }
    let load = Closed {
        connections: 4,
        batch: 100,
        time: Duration::from_secs(60 + count / FILL_RATE_MIN),
        events_max: count,
        ..publishers(&subject, &well, time)
    };
    load.run()?;
    subject.drain(ONE_TOPIC, 1)?;
    std::thread::sleep(bench.options.rest());
    let waiting = subject.status(ONE_TOPIC, 1)?.waiting();

    // Connections are opened and the window of the endpoint grows before anything is measured.
    for (subject, endpoint) in [(&plain, &other), (&subject, &well)] {
        publishers(subject, endpoint, time / 3).run()?;
        subject.drain(ONE_TOPIC, 1)?;
    }
    let mut figures = Figures::default();
    for _ in 0..PARTS {
        let without = measure(&plain, &other, time)?;
        let with = measure(&subject, &well, time)?;
        figures.set("rate", with.rate);
        figures.set("rate_of_without", with.rate / without.rate);
        if let Some((with, without)) = with.p99_ms.zip(without.p99_ms) {
            figures.set("p99_ms", with);
            figures.set("p99_ms_without", without);
            figures.set("p99_of_without", with / without);
        }
    }
    figures.set("waiting", waiting as f64);
    figures.set("memory_mib", mib(subject.memory_bytes(false)?));
    down.behave(Behaviour::Accepts);
    subject.remove()?;
    plain.remove()?;
    Ok(figures)
}

fn publishers(subject: &Subject, well: &Arc<Endpoint>, time: Duration) -> Closed {
    Closed {
        target: subject.target(ONE_TOPIC),
        connections: 64,
        batch: 1,
        time,
        events_max: u64::MAX,
        backlog: Some(Backlog {
            endpoints: vec![Arc::clone(well)],
            max: BACKLOG_EVENTS,
        }),
    }
}

fn measure(subject: &Subject, well: &Arc<Endpoint>, time: Duration) -> Result<Part, String> {
    let report = publishers(subject, well, time).run()?;
    subject.drain(ONE_TOPIC, 1)?;
    let load = |time| Open {
        target: subject.target(ONE_TOPIC),
        rate: RATE,
        time,
    };
    load(time / 4).run()?;
    well.measure(true);
    load(LATENCY_TIMES * time).run()?;
    subject.drain(ONE_TOPIC, 1)?;
    Ok(Part {
        rate: report.events as f64 / report.seconds,
        p99_ms: well.measure(false).quantile_ms(0.99),
    })
}
