//! Endpoints that are well beside some that are not: of a hundred, one never answers and ten take a second. What counts is
//! how late the others get their events, as a ratio to a server beside it whose hundred endpoints are all well.

use std::time::Duration;

use super::cases::CROWD_TOPIC;
use super::load::Open;
use super::receiver::{Behaviour, Receiver};
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
/// Events a second: with a hundred endpoints 4,000 deliveries, which leaves the machine room.
const RATE: f64 = 40.0;
/// Each server is measured so often, in turn: what slows the disk for a while then slows both.
const PARTS: usize = 5;
/// So many times as long as other cases take: in a few seconds there are so few events that one of them makes the p99.
const PART_TIMES: u32 = 2;

/// A server, and the receiver of all that it delivers.
struct Side {
    subject: Subject,
    receiver: Receiver,
}

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let count = if bench.options.is_smoke {
        SMOKE_ENDPOINTS
    } else {
        ENDPOINTS
    };
    let hanging = (count * HANGING_PERCENT).div_ceil(100);
    let ill = hanging + (count * SLOW_PERCENT).div_ceil(100);
    let mut time = bench.options.size.time;
    if !bench.options.is_smoke {
        time *= PART_TIMES;
    }
    let all_well = Side::start(bench, "crowd-well", count)?;
    let some_ill = Side::start(bench, "crowd", count)?;
    for (number, endpoint) in some_ill.receiver.endpoints[..ill].iter().enumerate() {
        endpoint.behave(if number < hanging {
            Behaviour::Hangs
        } else {
            Behaviour::IsSlow
        });
    }
    // Connections are opened, and what is slow is found out, before anything is measured.
    for side in [&all_well, &some_ill] {
        side.load(time).run()?;
    }

    let mut figures = Figures::default();
    for _ in 0..PARTS {
        let without = all_well.measure(ill, time)?;
        let with = some_ill.measure(ill, time)?;
        figures.set("rate", with.count() as f64 / time.as_secs_f64());
        figures.set_latencies(&with);
        for (figure, part) in [("p50_ms_without", 0.5), ("p99_ms_without", 0.99)] {
            if let Some(ms) = without.quantile_ms(part) {
                figures.set(figure, ms);
            }
        }
        if let Some((with, without)) = with.quantile_ms(0.99).zip(without.quantile_ms(0.99)) {
            figures.set("p99_of_without", with / without);
        }
    }
    for side in [all_well, some_ill] {
        side.subject.remove()?;
    }
    Ok(figures)
}

impl Side {
    fn start(bench: &mut Bench, name: &str, endpoints: usize) -> Result<Self, String> {
        let receiver = Receiver::start(endpoints)?;
        let mut subject = bench.own_subject(name, "")?;
        subject.declare(CROWD_TOPIC, &receiver.endpoints)?;
        subject.settle()?;
        Ok(Self { subject, receiver })
    }

    fn load(&self, time: Duration) -> Open {
        Open {
            target: self.subject.target(CROWD_TOPIC),
            rate: RATE,
            time,
        }
    }

    /// How late all endpoints but the first `ill` get what is published at a constant rate.
    fn measure(&self, ill: usize, time: Duration) -> Result<Histogram, String> {
        let healthy = &self.receiver.endpoints[ill..];
        for endpoint in healthy {
            endpoint.measure(true);
        }
        self.load(time).run()?;
        // What was published last is on its way.
        std::thread::sleep(Duration::from_millis(200));
        let mut all = Histogram::default();
        for endpoint in healthy {
            all.add(&endpoint.measure(false));
        }
        Ok(all)
    }
}
