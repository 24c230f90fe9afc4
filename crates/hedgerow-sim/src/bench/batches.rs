//! Deliveries of a hundred events in one request: how many bytes of bodies a second, beside what the generator sends of the same
//! size to the same receiver without the server.
//!
//! ```text
//! raw: arrays of 100 to the receiver
//! each part: pause ─▶ publish as much as memory remembers ─▶ resume ─▶ bytes of the requests, and how long they take
//! ```
//!
//! What waits is published before, so that publishing takes nothing from what is measured.

use std::time::{Duration, Instant};

use super::cases::ONE_TOPIC;
use super::load::{Closed, Target};
use super::pending::ATTEMPT_WAIT_MAX;
use super::{Bench, Figures};

/// Events of a request.
const BATCH: usize = 100;
/// Events that are published before they are delivered: in memory still.
const PART_EVENTS: u64 = 40_000;
const SMOKE_PART_EVENTS: u64 = 2_000;
/// Parts of a round.
const PARTS: usize = 10;
/// How often it is looked whether they have arrived.
const LOOK: Duration = Duration::from_micros(200);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let endpoint = bench.endpoints(ONE_TOPIC)[0].clone();
    let raw = Closed {
        target: Target {
            address: endpoint.address,
            path: "/".to_owned(),
            key: "0".repeat(44),
        },
        connections: 16,
        batch: BATCH,
        time: bench.options.size.time,
        events_max: u64::MAX,
        backlog: None,
    };
    let (began, before) = (Instant::now(), endpoint.bytes());
    raw.run()?;
    let raw = (endpoint.bytes() - before) as f64 / began.elapsed().as_secs_f64();
    let (parts, events) = if bench.options.is_smoke {
        (1, SMOKE_PART_EVENTS)
    } else {
        (PARTS, PART_EVENTS)
    };
    let mut subject = bench.own_subject("batches", "")?;
    subject.declare_batched(ONE_TOPIC, std::slice::from_ref(&endpoint), BATCH)?;
    let (mut bytes, mut time, mut requests) = (0, Duration::ZERO, 0);
    let mut cpu = Duration::ZERO;
    for _ in 0..parts {
        subject.act(ONE_TOPIC, 0, "pause")?;
        let load = Closed {
            target: subject.target(ONE_TOPIC),
            connections: 16,
            batch: BATCH,
            time: ATTEMPT_WAIT_MAX,
            events_max: events,
            backlog: None,
        };
        let published = load.run()?.published;
        subject.settle()?;
        let before = (endpoint.bytes(), endpoint.requests(), subject.cpu()?.all);
        let began = Instant::now();
        subject.act(ONE_TOPIC, 0, "resume")?;
        while endpoint.batched() < published {
            if began.elapsed() > ATTEMPT_WAIT_MAX {
                return Err("what was published does not arrive".to_owned());
            }
            std::thread::sleep(LOOK);
        }
        time += began.elapsed();
        bytes += endpoint.bytes() - before.0;
        requests += endpoint.requests() - before.1;
        cpu += subject.cpu()?.all.saturating_sub(before.2);
        endpoint.forget_batched();
    }
    let rate = bytes as f64 / time.as_secs_f64();
    let mut figures = Figures::default();
    let all = parts as f64 * events as f64;
    figures.set("rate", all / time.as_secs_f64());
    figures.set("mib_per_s", rate / f64::from(1 << 20));
    figures.set("raw_mib_per_s", raw / f64::from(1 << 20));
    figures.set("of_raw_http_bytes", rate / raw);
    figures.set("events_per_request", all / requests as f64);
    figures.set("server_cpu_us", cpu.as_secs_f64() * 1e6 / all);
    subject.remove()?;
    Ok(figures)
}
