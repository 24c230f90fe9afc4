//! How long it takes to explain one event among many that nobody was sent: from the first to the newest, by their ids.
//!
//! ```text
//! publish N events to a topic whose one subscription wants none ─▶ settle ─▶ explain some of them, one after the other
//! ```

use std::time::{Duration, Instant};

use super::cases::ONE_TOPIC;
use super::files;
use super::load::{Closed, check_interrupted};
use super::statistics::Histogram;
use super::{Bench, Figures};
use crate::random::Random;

/// Explanations that are measured.
const ASKED: u64 = 1_000;
/// Events a second at least: fewer are not worth to wait for.
const RATE_MIN: u64 = 5_000;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let count = bench.options.size.explain;
    let mut subject = bench.own_subject("explain", "")?;
    subject.declare_filtered(ONE_TOPIC, bench.endpoints(ONE_TOPIC), "/elsewhere")?;
    let load = Closed {
        target: subject.target(ONE_TOPIC),
        connections: 16,
        batch: 100,
        time: Duration::from_secs(60 + count / RATE_MIN),
        events_max: count,
        backlog: None,
    };
    let published = load.run()?.published;
    std::thread::sleep(bench.options.rest());
    subject.settle()?;

    let mut random = Random::new(2);
    let mut latencies = Histogram::default();
    let (mut found, mut slowest) = (0, Duration::ZERO);
    let began = Instant::now();
    for _ in 0..ASKED {
        check_interrupted()?;
        let id = format!("{:020}", random.between(0..=published - 1));
        let asked = Instant::now();
        found += u64::from(subject.explains(&id)?);
        let took = asked.elapsed();
        latencies.record(took);
        slowest = slowest.max(took);
    }
    let mut figures = Figures::default();
    figures.set("rate", ASKED as f64 / began.elapsed().as_secs_f64());
    figures.set_latencies(&latencies);
    figures.set("slowest_ms", slowest.as_secs_f64() * 1_000.0);
    figures.set("events", published as f64);
    figures.set("found_of_1000", found as f64);
    let bytes = files::size(&subject.data("history-ids"));
    figures.set("id_bytes_per_event", bytes as f64 / published as f64);
    subject.remove()?;
    Ok(figures)
}
