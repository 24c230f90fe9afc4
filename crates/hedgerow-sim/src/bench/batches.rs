//! Deliveries of a hundred events in one request: how many bytes of bodies a second, beside the same bodies sent by the generator's
//! own client to the same receiver, without the server.
//!
//! ```text
//! each part: pause ─▶ publish as much as memory remembers ─▶ resume ─▶ bytes of the requests, and how long they take: unsigned
//!            the same for a subscription that has its deliveries signed
//!            the bodies that came in a part before, again and again to the same receiver: raw
//! ```
//!
//! What waits is published before, so that publishing takes nothing from what is measured. All share the machine's cores: two, the
//! client and the receiver, where bodies are sent raw, and with the server its threads and the receiver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cases::{MANY_TOPIC, ONE_TOPIC};
use super::load::{Closed, Replay, Target};
use super::pending::ATTEMPT_WAIT_MAX;
use super::receiver::Endpoint;
use super::subject::Subject;
use super::{Bench, Figures};

/// Events of a request.
const BATCH: usize = 100;
/// Events that are published before they are delivered: in memory still.
const PART_EVENTS: u64 = 40_000;
const SMOKE_PART_EVENTS: u64 = 2_000;
/// How often each is measured, in turn.
const PARTS: usize = 6;
/// Connections: as many as the server begins with at an endpoint.
const CONNECTIONS: usize = 16;
/// How long bodies are sent raw in a part.
const RAW: Duration = Duration::from_millis(300);
/// How often it is looked whether they have arrived.
const LOOK: Duration = Duration::from_micros(200);

/// What one delivery of everything came to.
struct Part {
    bytes_per_s: f64,
    events_per_s: f64,
    events_per_request: f64,
    cpu_us: f64,
}

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let endpoint = bench.endpoints(ONE_TOPIC)[0].clone();
    let (parts, events) = if bench.options.is_smoke {
        (1, SMOKE_PART_EVENTS)
    } else {
        (PARTS, PART_EVENTS)
    };
    let mut subject = bench.own_subject("batches", "")?;
    let [unsigned, signed] = [ONE_TOPIC, MANY_TOPIC];
    for topic in [unsigned, signed] {
        subject.is_signing = topic == signed;
        subject.declare_batched(topic, std::slice::from_ref(&endpoint), BATCH)?;
    }
    // Connections are opened and the window of the endpoint grows before anything is measured.
    endpoint.keep(true);
    deliver(&subject, &endpoint, unsigned, events)?;
    let bodies = endpoint.keep(false);
    let mut figures = Figures::default();
    for _ in 0..parts {
        let raw = Replay {
            target: Target {
                address: endpoint.address,
                path: "/".to_owned(),
                key: "0".repeat(44),
            },
            connections: CONNECTIONS,
            bodies: bodies.clone(),
            time: RAW.min(bench.options.size.time),
        };
        let began = Instant::now();
        let raw = raw.run()? as f64 / began.elapsed().as_secs_f64();
        let part = deliver(&subject, &endpoint, unsigned, events)?;
        let of_signed = deliver(&subject, &endpoint, signed, events)?;
        figures.set("rate", part.events_per_s);
        figures.set("mib_per_s", part.bytes_per_s / f64::from(1 << 20));
        figures.set("raw_mib_per_s", raw / f64::from(1 << 20));
        figures.set("of_raw_http_bytes", part.bytes_per_s / raw);
        figures.set("signed_of_raw_http_bytes", of_signed.bytes_per_s / raw);
        figures.set("events_per_request", part.events_per_request);
        figures.set("server_cpu_us", part.cpu_us);
        figures.set("signed_cpu_us", of_signed.cpu_us);
    }
    subject.remove()?;
    Ok(figures)
}

/// Publishes so many events while the subscription is paused, and measures how they are delivered then.
fn deliver(
    subject: &Subject,
    endpoint: &Arc<Endpoint>,
    topic: &'static str,
    events: u64,
) -> Result<Part, String> {
    subject.act(topic, 0, "pause")?;
    let load = Closed {
        target: subject.target(topic),
        connections: CONNECTIONS,
        batch: BATCH,
        time: ATTEMPT_WAIT_MAX,
        events_max: events,
        backlog: None,
    };
    let published = load.run()?.published;
    subject.settle()?;
    let counts = || (endpoint.bytes(), endpoint.requests(), endpoint.events());
    let (before, cpu) = (counts(), subject.cpu()?.all);
    let began = Instant::now();
    subject.act(topic, 0, "resume")?;
    while endpoint.events() - before.2 < published {
        if began.elapsed() > ATTEMPT_WAIT_MAX {
            return Err("what was published does not arrive".to_owned());
        }
        std::thread::sleep(LOOK);
    }
    let (time, after) = (began.elapsed().as_secs_f64(), counts());
    // The last records of it are written.
    subject.settle()?;
    let cpu = subject.cpu()?.all.saturating_sub(cpu);
    Ok(Part {
        bytes_per_s: (after.0 - before.0) as f64 / time,
        events_per_s: published as f64 / time,
        events_per_request: published as f64 / (after.1 - before.1) as f64,
        cpu_us: cpu.as_secs_f64() * 1e6 / published as f64,
    })
}
