//! Subscriptions that are behind, each at another place, on a topic with one part in a hundred of the traffic: how much is read
//! for what is delivered to them (design D2).
//!
//! ```text
//! for each of 50: publish to both topics ─▶ pause it ─▶ ... ─▶ resume all ─▶ bytes read, bytes delivered
//! ```

use std::time::Duration;

use super::cases::{BIG_TOPIC, SMALL_TOPIC};
use super::events::EVENT_BYTES;
use super::load::Closed;
use super::pending::{ATTEMPT_WAIT_MAX, wait};
use super::receiver::Receiver;
use super::{Bench, Figures};

/// Subscriptions, and as many places.
const LAGGARDS: usize = 50;
/// The same where it is only looked whether it works.
const SMOKE_LAGGARDS: usize = 4;
/// What is published between two places: to the topic that they are at, and to the other.
const SMALL_EVENTS: u64 = 20;
const BIG_EVENTS: u64 = 99 * SMALL_EVENTS;
/// How long that may take.
const STEP_WAIT_MAX: Duration = Duration::from_secs(20);
/// The newest events are in memory: few here, so that what is behind is read.
const SETTINGS: &str = "\n[store]\nring_bytes = \"1MiB\"\nsegment_bytes = \"4MiB\"\n";

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let count = if bench.options.is_smoke {
        SMOKE_LAGGARDS
    } else {
        LAGGARDS
    };
    let receiver = Receiver::start(count)?;
    let mut subject = bench.own_subject("laggards", SETTINGS)?;
    subject.declare(BIG_TOPIC, &[])?;
    subject.declare(SMALL_TOPIC, &receiver.endpoints)?;
    let load = |topic, connections, batch, events_max| Closed {
        target: subject.target(topic),
        connections,
        batch,
        time: STEP_WAIT_MAX,
        events_max,
        backlog: None,
    };
    for number in 0..count {
        subject.act(SMALL_TOPIC, number, "pause")?;
        let big = load(BIG_TOPIC, 2, 33, BIG_EVENTS);
        let small = load(SMALL_TOPIC, 1, 1, SMALL_EVENTS);
        let big = std::thread::spawn(move || big.run());
        small.run()?;
        big.join().map_err(|_| "a load panicked")??;
        let taken = (number as u64 + 1) * SMALL_EVENTS;
        wait(STEP_WAIT_MAX, "those that are not behind", || {
            let mut others = receiver.endpoints[number + 1..].iter();
            others.all(|endpoint| endpoint.requests() >= taken)
        })?;
    }
    std::thread::sleep(bench.options.rest());

    let all = count as u64 * SMALL_EVENTS;
    let delivered = |endpoints: &[_]| -> u64 {
        let requests = endpoints
            .iter()
            .map(|endpoint: &std::sync::Arc<super::receiver::Endpoint>| endpoint.requests());
        requests.sum()
    };
    let (before, read_before) = (
        delivered(&receiver.endpoints),
        subject.storage()?.read_bytes,
    );
    let began = std::time::Instant::now();
    for number in 0..count {
        subject.act(SMALL_TOPIC, number, "resume")?;
    }
    wait(ATTEMPT_WAIT_MAX, "laggards", || {
        let mut endpoints = receiver.endpoints.iter();
        endpoints.all(|endpoint| endpoint.requests() >= all)
    })?;
    let took = began.elapsed().as_secs_f64();
    let deliveries = delivered(&receiver.endpoints) - before;
    let read = subject.storage()?.read_bytes - read_before;
    let mut figures = Figures::default();
    figures.set("rate", deliveries as f64 / took);
    figures.set("deliveries", deliveries as f64);
    figures.set(
        "read_per_delivered_byte",
        read as f64 / (deliveries * EVENT_BYTES as u64) as f64,
    );
    figures.set("read_mib", read as f64 / f64::from(1 << 20));
    subject.remove()?;
    Ok(figures)
}
