//! What a server costs that has nothing to do: an empty one, and one with many subscriptions and retries that wait.

use std::sync::Arc;
use std::time::Duration;

use super::cases::IDLE_TOPIC;
use super::load::check_interrupted;
use super::receiver::Endpoint;
use super::subject::Subject;
use super::{Bench, Figures};

/// An empty server: no topic, no subscription, no event.
pub fn empty(bench: &mut Bench) -> Result<Figures, String> {
    let subject = bench.own_subject("empty", "")?;
    std::thread::sleep(bench.options.rest());
    let mut figures = Figures::default();
    let cpu = percent_of_core(&subject, bench.options.size.time)?;
    figures.set("idle_percent_of_core", cpu);
    figures.set("memory_mb", subject.memory_bytes(false)? as f64 / 1e6);
    subject.remove()?;
    Ok(figures)
}

/// Adds subscriptions to a server with pending retries, and looks at it while nothing is due.
pub fn measure(
    bench: &Bench,
    subject: &mut Subject,
    endpoint: &Arc<Endpoint>,
    figures: &mut Figures,
) -> Result<(), String> {
    let count = bench.options.size.idle_subscriptions;
    subject.declare_many(IDLE_TOPIC, endpoint, count)?;
    // What was declared is written to the view, and what ran before has come to rest.
    std::thread::sleep(bench.options.after_checkpoint() + bench.options.rest());
    let time = bench.options.size.idle;
    figures.set("idle_percent_of_core", percent_of_core(subject, time)?);
    figures.set("idle_seconds", time.as_secs_f64());
    figures.set("idle_subscriptions", count as f64);
    Ok(())
}

/// User and system time of the server while nobody asks it anything.
fn percent_of_core(subject: &Subject, time: Duration) -> Result<f64, String> {
    let before = subject.cpu_exactly()?;
    std::thread::sleep(time);
    check_interrupted()?;
    let used = subject.cpu_exactly()?.saturating_sub(before);
    Ok(used.as_secs_f64() * 100.0 / time.as_secs_f64())
}
