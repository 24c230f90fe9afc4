//! Whether delivery keeps up: 256 publishers do not wait for deliveries for a while, then events come at a rate that can be
//! sustained. The backlog of the burst may not grow any more.

use super::cases::{END_TO_END, ONE_TOPIC};
use super::load::{Closed, Open};
use super::{Bench, Figures};

const PUBLISHERS: usize = 256;
/// After the burst: a part of what `end-to-end-1` sustains, or of the burst where that was not measured.
const SLOWED_PART: f64 = 0.5;
/// A backlog that is smaller than this is what is on its way.
const BACKLOG_MIN: u64 = 1_000;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let time = bench.options.size.time;
    let target = bench.subject()?.target(ONE_TOPIC);
    let burst = Closed {
        target: target.clone(),
        connections: PUBLISHERS,
        batch: 1,
        time,
        events_max: u64::MAX,
        backlog: None,
    };
    let report = burst.run()?;
    let rate = report.events as f64 / report.seconds;
    let before = bench.subject()?.status(ONE_TOPIC, 0)?.waiting();
    let sustained = bench.this_round(END_TO_END, "rate").unwrap_or(rate);
    let slowed = Open {
        target,
        rate: sustained.min(rate) * SLOWED_PART,
        time,
    };
    slowed.run()?;
    let after = bench.subject()?.status(ONE_TOPIC, 0)?.waiting();
    bench.subject()?.drain(ONE_TOPIC, 1)?;
    let mut figures = Figures::default();
    figures.set("rate", rate);
    figures.set_latencies(&report.latencies);
    figures.set("backlog_of_burst", before as f64);
    figures.set("backlog_after", after as f64);
    figures.set(
        "left_of_backlog",
        after as f64 / before.max(BACKLOG_MIN) as f64,
    );
    Ok(figures)
}
