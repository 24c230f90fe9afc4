//! Endpoints that are well beside some that are not. What counts is how late the healthy ones get their events, as a ratio to a
//! server beside it whose endpoints are all well.
//!
//! | case | endpoints | never answer | take a second | each gets |
//! | --- | --- | --- | --- | --- |
//! | `crowd` | 100 | 1 | 10 | every event |
//! | `hanging` | 1,000 | 100 | 0 | one event in twenty |
//!
//! Attempts at endpoints that never answer end at their timeout, after 30 s: the last part of `hanging` sees the first of them.

use std::time::Duration;

use super::cases::CROWD_TOPIC;
use super::load::Open;
use super::receiver::{Behaviour, Receiver};
use super::statistics::Histogram;
use super::subject::Subject;
use super::{Bench, Figures};

/// Each server is measured so often, in turn: what slows the disk for a while then slows both.
const PARTS: usize = 5;

/// What is compared.
struct Crowd {
    name: &'static str,
    /// That of the server that is compared with.
    well_name: &'static str,
    endpoints: usize,
    /// The same where it is only looked whether it works.
    smoke_endpoints: usize,
    /// Of a hundred: those that never answer, and behind them those that are slow.
    hanging_percent: usize,
    slow_percent: usize,
    /// Each endpoint gets one event in so many.
    groups: usize,
    /// Events a second.
    rate: f64,
    /// So many times as long as other cases take: in a few seconds there are so few events that one of them makes the p99.
    part_times: u32,
}

/// 4,000 deliveries a second, which leaves the machine room.
const CROWD: Crowd = Crowd {
    name: "crowd",
    well_name: "crowd-well",
    endpoints: 100,
    smoke_endpoints: 20,
    hanging_percent: 1,
    slow_percent: 10,
    groups: 1,
    rate: 40.0,
    part_times: 2,
};

/// As many.
const HANGING: Crowd = Crowd {
    name: "hanging",
    well_name: "hanging-well",
    endpoints: 1_000,
    smoke_endpoints: 40,
    hanging_percent: 10,
    slow_percent: 0,
    groups: 20,
    rate: 80.0,
    part_times: 1,
};

/// A server, and the receiver of all that it delivers.
struct Side {
    subject: Subject,
    receiver: Receiver,
    rate: f64,
}

/// Some of a hundred endpoints hang, and some are slow.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    CROWD.measure(bench)
}

/// A tenth of a thousand endpoints hangs.
pub fn hanging(bench: &mut Bench) -> Result<Figures, String> {
    HANGING.measure(bench)
}

impl Crowd {
    fn measure(&self, bench: &mut Bench) -> Result<Figures, String> {
        let count = if bench.options.is_smoke {
            self.smoke_endpoints
        } else {
            self.endpoints
        };
        let hanging = (count * self.hanging_percent).div_ceil(100);
        let ill = hanging + (count * self.slow_percent).div_ceil(100);
        let mut time = bench.options.size.time;
        if !bench.options.is_smoke {
            time *= self.part_times;
        }
        let some_ill = self.start(bench, self.name, count)?;
        for (number, endpoint) in some_ill.receiver.endpoints[..ill].iter().enumerate() {
            endpoint.behave(if number < hanging {
                Behaviour::Hangs
            } else {
                Behaviour::IsSlow
            });
        }
        // Connections are opened, and what is slow is found out, before anything is measured.
        some_ill.load(time).run()?;
        let all_well = self.start(bench, self.well_name, count)?;
        all_well.load(time).run()?;

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

    fn start(&self, bench: &mut Bench, name: &str, endpoints: usize) -> Result<Side, String> {
        let receiver = Receiver::start(endpoints)?;
        let mut subject = bench.own_subject(name, "")?;
        subject.declare_in_groups(CROWD_TOPIC, &receiver.endpoints, self.groups)?;
        subject.settle()?;
        Ok(Side {
            subject,
            receiver,
            rate: self.rate,
        })
    }
}

impl Side {
    fn load(&self, time: Duration) -> Open {
        Open {
            target: self.subject.target(CROWD_TOPIC),
            rate: self.rate,
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
