//! Events that are held: of a subscription that is paused, and of one on probation. A delivery that has not begun is a place
//! before the subscription's cursor and no more (design D6), however many there are.
//!
//! ```text
//! pause, or answer 503 three times ─▶ publish N events ─▶ memory, disk ─▶ kill -9
//!        ─▶ start: time until /healthz says ok ─▶ resume, or reset ─▶ time until the first event arrives
//! ```

use std::time::{Duration, Instant};

use super::cases::ONE_TOPIC;
use super::files;
use super::load::Closed;
use super::pending::{ATTEMPT_WAIT_MAX, mib, store_settings, wait};
use super::receiver::Behaviour;
use super::{Bench, Figures};

/// Events a second at least: fewer are not worth to wait for.
const RATE_MIN: u64 = 5_000;
/// Held events that have to arrive, if so many are held: the engine delivers again, not only one.
const ARRIVED: u64 = 1_000;

/// What holds events, and the figures it gets.
struct Held {
    before: Option<&'static str>,
    behaviour: Behaviour,
    after: &'static str,
    memory: &'static str,
    bytes_per_event: &'static str,
    log: &'static str,
    view: &'static str,
    healthy: &'static str,
    arrived: &'static str,
}

const PAUSED: Held = Held {
    before: Some("pause"),
    behaviour: Behaviour::Accepts,
    after: "resume",
    memory: "paused_memory_mib",
    bytes_per_event: "paused_memory_bytes_per_event",
    log: "paused_log_mib",
    view: "paused_view_mib",
    healthy: "paused_healthy_after_s",
    arrived: "paused_delivering_after_s",
};
const PROBATION: Held = Held {
    before: None,
    behaviour: Behaviour::IsBusy,
    after: "reset",
    memory: "probation_memory_mib",
    bytes_per_event: "probation_memory_bytes_per_event",
    log: "probation_log_mib",
    view: "probation_view_mib",
    healthy: "probation_healthy_after_s",
    arrived: "probation_delivering_after_s",
};

/// Measures both.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let mut figures = Figures::default();
    for held in [PAUSED, PROBATION] {
        hold(bench, &held, &mut figures)?;
    }
    Ok(figures)
}

fn hold(bench: &mut Bench, held: &Held, figures: &mut Figures) -> Result<(), String> {
    let count = bench.options.size.held;
    let settings = format!("\n[probation]\nbusy = \"1h\"\n\n{}", store_settings(count));
    let mut subject = bench.own_subject("held", &settings)?;
    let endpoint = bench.endpoints(ONE_TOPIC)[0].clone();
    subject.declare(ONE_TOPIC, std::slice::from_ref(&endpoint))?;
    endpoint.behave(held.behaviour);
    if let Some(action) = held.before {
        subject.act(ONE_TOPIC, 0, action)?;
    }
    let empty = subject.memory_bytes(false)?;
    let began = Instant::now();
    let load = Closed {
        target: subject.target(ONE_TOPIC),
        connections: 16,
        batch: 100,
        time: Duration::from_secs(60 + count / RATE_MIN),
        events_max: count,
        backlog: None,
    };
    let published = load.run()?.published;
    if figures.get("rate").is_none() {
        figures.set("rate", published as f64 / began.elapsed().as_secs_f64());
        figures.set("held", published as f64);
    }
    std::thread::sleep(bench.options.rest());
    let memory = subject.memory_bytes(false)?;
    figures.set(held.memory, mib(memory));
    let per_event = memory.saturating_sub(empty) as f64 / published as f64;
    figures.set(held.bytes_per_event, per_event);
    figures.set(held.log, mib(subject.storage()?.used_bytes));
    figures.set(held.view, mib(files::size(&subject.data("view"))));

    subject.kill()?;
    endpoint.behave(Behaviour::Accepts);
    let before = endpoint.requests();
    let began = Instant::now();
    let healthy = subject.start_again()?;
    figures.set(held.healthy, healthy.as_secs_f64());
    subject.act(ONE_TOPIC, 0, held.after)?;
    wait(ATTEMPT_WAIT_MAX, "a delivery after the start", || {
        endpoint.requests() > before
    })?;
    figures.set(held.arrived, began.elapsed().as_secs_f64());
    let expected = published.min(ARRIVED);
    wait(ATTEMPT_WAIT_MAX, "what was held", || {
        endpoint.requests() >= before + expected
    })?;
    subject.remove()
}
