//! Endpoints that are well beside some that are not: of a hundred, one never answers and ten take a second. What counts is
//! how late the others get their events, as a ratio to the run before in which all hundred are well.

use std::sync::Arc;
use std::time::Duration;

use super::cases::CROWD_TOPIC;
use super::load::Open;
use super::receiver::{Behaviour, Endpoint, Receiver};
use super::statistics::Histogram;
use super::subject::Subject;
use super::{Bench, Figures};

/// Endpoints, each with a subscription to everything.
const ENDPOINTS: usize = 100;
/// The same where it is only looked whether it works.
const SMOKE_ENDPOINTS: usize = 20;
/// Of a hundred: those that never answer, and behind them those that are slow.
const HANGING_PERCENT: usize = 1;
const SLOW_PERCENT: usize = 10;
/// Events a second: with a hundred endpoints 2,000 deliveries, which leaves the machine room.
const RATE: f64 = 20.0;
/// Each half is measured in so many parts, so that it can be said how far they are apart.
const PARTS: usize = 3;
/// So many times as long as other cases take: in a few seconds there are so few events that one of them makes the p99.
const PART_TIMES: u32 = 4;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let count = if bench.options.is_smoke {
        SMOKE_ENDPOINTS
    } else {
        ENDPOINTS
    };
    let receiver = Receiver::start(count)?;
    let mut subject = bench.own_subject("crowd", "")?;
    subject.declare(CROWD_TOPIC, &receiver.endpoints)?;
    subject.settle()?;
    let hanging = (count * HANGING_PERCENT).div_ceil(100);
    let ill = hanging + (count * SLOW_PERCENT).div_ceil(100);
    let mut time = bench.options.size.time;
    if !bench.options.is_smoke {
        time *= PART_TIMES;
    }
    let healthy = &receiver.endpoints[ill..];

    let without = measure(&subject, healthy, time)?;
    subject.drain(CROWD_TOPIC, count)?;
    for (number, endpoint) in receiver.endpoints[..ill].iter().enumerate() {
        endpoint.behave(if number < hanging {
            Behaviour::Hangs
        } else {
            Behaviour::IsSlow
        });
    }
    let with = measure(&subject, healthy, time)?;
    let mut figures = Figures::default();
    for (with, without) in with.iter().zip(&without) {
        figures.set("rate", with.count() as f64 / time.as_secs_f64());
        figures.set_latencies(with);
        for (figure, part) in [("p50_ms_without", 0.5), ("p99_ms_without", 0.99)] {
            if let Some(ms) = without.quantile_ms(part) {
                figures.set(figure, ms);
            }
        }
        if let Some((with, without)) = with.quantile_ms(0.99).zip(without.quantile_ms(0.99)) {
            figures.set("p99_of_without", with / without);
        }
    }
    subject.remove()?;
    Ok(figures)
}

/// How late healthy endpoints get what is published at a constant rate.
fn measure(
    subject: &Subject,
    healthy: &[Arc<Endpoint>],
    time: Duration,
) -> Result<Vec<Histogram>, String> {
    let load = |time| Open {
        target: subject.target(CROWD_TOPIC),
        rate: RATE,
        time,
    };
    // Connections are opened, and what is slow is found out, before anything is measured.
    load(time).run()?;
    let mut parts = Vec::new();
    for _ in 0..PARTS {
        for endpoint in healthy {
            endpoint.measure(true);
        }
        load(time).run()?;
        // What was published last is on its way.
        std::thread::sleep(Duration::from_millis(200));
        let mut all = Histogram::default();
        for endpoint in healthy {
            all.add(&endpoint.measure(false));
        }
        parts.push(all);
    }
    Ok(parts)
}
