//! Retries that wait: what they cost while they do, and how soon a server that was killed is back with them.
//!
//! ```text
//! publish N events, each answered 503 once ─▶ memory, disk ─▶ declare many subscriptions, and look at it while nothing is due
//!        ─▶ publish a few that are answered 500 (next try in 10 s)
//!        ─▶ kill -9 ─▶ wait until those are due ─▶ start: time until /healthz says ok, and until the first attempt
//! ```

use std::time::{Duration, Instant};

use super::cases::{MANY_TOPIC, ONE_TOPIC};
use super::files;
use super::load::{Backlog, Closed, check_interrupted};
use super::receiver::Behaviour;
use super::{Bench, Figures, idle};

/// The topic of the events that are due when the server comes back.
const DUE_TOPIC: &str = MANY_TOPIC;
/// How many of those.
const DUE_EVENTS: u64 = 10;
/// Events without an attempt at most, so that what is measured is retries and not a reader that is behind.
const BACKLOG_EVENTS: u64 = 50_000;
/// Attempts a second at least: fewer are not worth to wait for.
const RATE_MIN: u64 = 500;
/// How long the first attempt after the start may take.
pub const ATTEMPT_WAIT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);
/// What the log may hold for each event and besides.
const LOG_BYTES_PER_EVENT: u64 = 2_560;
const LOG_BYTES: u64 = 4 << 30;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let count = bench.options.size.pending;
    // Overload halves the attempts at a time; no event may be tried twice before all were tried once, and each is to be
    // tried although the others fail.
    let settings = format!(
        "endpoint_attempts_start = 64\nendpoint_attempts_min = 64\n\n{}unavailable = \"3h\"\n\n\
         [probation]\nbusy = \"0s\"\n\n[delayed_delivery]\nenabled = false\n\n{}",
        bench.options.due_settings(),
        store_settings(count),
    );
    let mut subject = bench.own_subject("pending", &settings)?;
    let busy = bench.endpoints(ONE_TOPIC)[0].clone();
    let due = bench.endpoints(DUE_TOPIC)[0].clone();
    subject.declare(ONE_TOPIC, std::slice::from_ref(&busy))?;
    subject.declare(DUE_TOPIC, std::slice::from_ref(&due))?;
    let mut published = 0;

    busy.behave(Behaviour::IsBusy);
    due.behave(Behaviour::Fails);
    let time_max = Duration::from_secs(60 + count / RATE_MIN);
    let (began, before) = (Instant::now(), busy.requests());
    let mut figures = Figures::default();
    let mut fill = |events_max| {
        let load = Closed {
            target: subject.target(ONE_TOPIC),
            connections: 4,
            batch: 100,
            time: time_max,
            events_max,
            backlog: Some(Backlog {
                endpoints: vec![busy.clone()],
                max: BACKLOG_EVENTS,
            }),
        };
        published += load.run()?.published;
        wait(time_max, "the first attempts", || {
            busy.requests() - before >= published
        })?;
        let took = began.elapsed();
        std::thread::sleep(bench.options.rest());
        Ok::<_, String>((published, subject.memory_bytes(false)?, took))
    };
    // What is as large however many wait, such as the memory of the newest events, is there after the first half.
    let (half, memory_of_half, _) = fill(count / 2)?;
    let (published, memory, took) = fill(count - count / 2)?;
    figures.set("rate", published as f64 / took.as_secs_f64());
    figures.set("pending", published as f64);
    figures.set("memory_mib", mib(memory));
    figures.set("memory_max_mib", mib(subject.memory_bytes(true)?));
    let per_retry = memory.saturating_sub(memory_of_half) as f64 / (published - half) as f64;
    figures.set("memory_bytes_per_retry", per_retry);
    figures.set("log_mib", mib(subject.storage()?.used_bytes));
    figures.set("view_mib", mib(files::size(&subject.data("view"))));

    idle::measure(bench, &mut subject, &busy, &mut figures)?;

    let before = due.requests();
    let load = Closed {
        target: subject.target(DUE_TOPIC),
        connections: 1,
        batch: 1,
        time: Duration::from_secs(5),
        events_max: DUE_EVENTS,
        backlog: None,
    };
    let expected = load.run()?.published;
    wait(ATTEMPT_WAIT_MAX, "attempts before the kill", || {
        due.requests() - before >= expected
    })?;
    // Their outcomes are recorded meanwhile.
    std::thread::sleep(Duration::from_secs(1));
    subject.kill()?;
    let before = due.requests();
    std::thread::sleep(bench.options.due_after());
    let began = Instant::now();
    let healthy = subject.start_again()?;
    wait(ATTEMPT_WAIT_MAX, "an attempt after the start", || {
        due.requests() > before
    })?;
    figures.set("healthy_after_s", healthy.as_secs_f64());
    figures.set("attempt_after_s", began.elapsed().as_secs_f64());
    figures.set("memory_after_mib", mib(subject.memory_bytes(false)?));
    let left = subject.status(ONE_TOPIC, 0)?.pending;
    if left != published {
        return Err(format!(
            "{left} retries are pending after the start, not {published}"
        ));
    }
    for endpoint in [busy, due] {
        endpoint.behave(Behaviour::Accepts);
    }
    subject.remove()?;
    Ok(figures)
}

/// A store that takes so many events though nobody accepts them.
pub fn store_settings(count: u64) -> String {
    let mib = (count * LOG_BYTES_PER_EVENT + LOG_BYTES) >> 20;
    format!("[store]\nbytes_max = \"{mib}MiB\"\n")
}

/// In MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Waits until something is so, for so long.
pub fn wait(
    time_max: Duration,
    what: &str,
    mut is_done: impl FnMut() -> bool,
) -> Result<(), String> {
    let until = Instant::now() + time_max;
    while !is_done() {
        check_interrupted()?;
        if Instant::now() > until {
            return Err(format!("{what} take longer than {time_max:?}"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
