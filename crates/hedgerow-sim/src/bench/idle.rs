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
    look(&subject, bench.options.size.time, &mut figures)?;
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
    look(subject, time, figures)?;
    figures.set("idle_seconds", time.as_secs_f64());
    figures.set("idle_subscriptions", count as f64);
    Ok(())
}

/// User and system time of the server while nobody asks it anything, and how often it wakes although it is not asked.
fn look(subject: &Subject, time: Duration, figures: &mut Figures) -> Result<(), String> {
    let (before, sleeps) = (subject.cpu_exactly()?, subject.sleeps()?);
    std::thread::sleep(time);
    check_interrupted()?;
    let used = subject.cpu_exactly()?.saturating_sub(before);
    let woken = subject.sleeps()?.saturating_sub(sleeps);
    let seconds = time.as_secs_f64();
    figures.set("idle_percent_of_core", used.as_secs_f64() * 100.0 / seconds);
    figures.set("idle_wakes_each_second", woken as f64 / seconds);
    Ok(())
}
