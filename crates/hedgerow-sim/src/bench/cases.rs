//! What is measured. Each case gives its figures once a round; those that compare use the baselines of the same round.

use super::events::EVENT_BYTES;
use super::files::{Watch, device_bytes};
use super::goals::GENERATOR;
use super::load::{Backlog, Closed, Open, Report, Target};
use super::matching::Differ;
use super::receiver::Behaviour;
use super::statistics::Histogram;
use super::subject::{Cpu, Subject, measured};
use super::{
    Bench, Figures, backlog, batches, costs, crowd, dead, edge, explain, held, idle, laggards,
    matching, next_due, pending, wrk,
};

/// Subscriptions of the topic with many.
pub const MANY: usize = 10;
/// The topic without subscriptions, with one, and with many.
pub const NONE_TOPIC: &str = "none";
/// See [`NONE_TOPIC`].
pub const ONE_TOPIC: &str = "one";
/// See [`NONE_TOPIC`].
pub const MANY_TOPIC: &str = "many";

/// The topic of a hundred endpoints, or a thousand.
pub const CROWD_TOPIC: &str = "crowd";
/// The topics of the case `laggards`.
pub const SMALL_TOPIC: &str = "small";
/// See [`SMALL_TOPIC`].
pub const BIG_TOPIC: &str = "big";

/// The topic of the many subscriptions of a server that has nothing to do.
pub const IDLE_TOPIC: &str = "idle";

/// Publishers wait while so many events are not delivered: the rate is what can be sustained.
pub const BACKLOG_EVENTS: u64 = 2_000;
/// What 64 waiting publishers make a group of, and 4 KiB, the least that a disk is written.
const GROUP_BYTES: usize = 64 * 1024;
const SYNC_BYTES: usize = 4 * 1024;
/// What publishers of arrays make a group of.
const LARGE_GROUP_BYTES: usize = 1024 * 1024;
/// A row of the table.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What it is, and what its rate counts.
    pub about: &'static str,
    /// Measured in the first round only.
    pub once: bool,
    /// Left out of quick runs: no figure to reach comes from it.
    pub spare: bool,
    /// Measures it.
    pub run: fn(&mut Bench) -> Result<Figures, String>,
}

const fn case(
    name: &'static str,
    about: &'static str,
    run: fn(&mut Bench) -> Result<Figures, String>,
) -> Case {
    Case {
        name,
        about,
        once: false,
        spare: false,
        run,
    }
}

const fn spare(case: Case) -> Case {
    Case {
        spare: true,
        ..case
    }
}

const fn once(case: Case) -> Case {
    Case { once: true, ..case }
}

/// All rows, the baselines first.
pub const CASES: [Case; 41] = [
    case(
        RAW_HTTP,
        "bare receiver, 64 connections, 1 event a request: requests/s",
        |bench| raw_http(bench, 64, 1),
    ),
    case("raw-http-1", "the same with 1 connection", |bench| {
        raw_http(bench, 1, 1)
    }),
    case("raw-http-256", "the same with 256 connections", |bench| {
        raw_http(bench, 256, 1)
    }),
    case(
        "raw-http-arrays",
        "the same, 16 connections, 100 events a request: events/s",
        |bench| raw_http(bench, 16, 100),
    ),
    case(
        GENERATOR.0,
        "wrk instead of the generator, as in raw-http-64: requests/s",
        wrk::run,
    ),
    case(
        RAW_LOG,
        "write and fdatasync of 64 KiB, one after the other: KiB/s",
        |bench| raw_log(bench, GROUP_BYTES),
    ),
    case(
        RAW_LOG_LARGE,
        "write and fdatasync of 1 MiB, one after the other: KiB/s",
        |bench| raw_log(bench, LARGE_GROUP_BYTES),
    ),
    case(
        "raw-sync",
        "write and fdatasync of 4 KiB, one after the other: KiB/s",
        |bench| raw_log(bench, SYNC_BYTES),
    ),
    case(
        "ingest-64",
        "64 publishers, single events, no subscription: events/s",
        |bench| ingest(bench, 64, 1),
    ),
    case("ingest-256", "the same with 256 publishers", |bench| {
        ingest(bench, 256, 1)
    }),
    case(
        "ingest-arrays",
        "16 publishers, arrays of 100: events/s",
        |bench| ingest(bench, 16, 100),
    ),
    case(
        END_TO_END,
        "64 publishers, single in and out, 1 subscription: deliveries/s",
        |bench| end_to_end(bench, ONE_TOPIC, 64, 1),
    ),
    case("end-to-end-10", "the same with 10 subscriptions", |bench| {
        end_to_end(bench, MANY_TOPIC, 64, 1)
    }),
    case(
        "end-to-end-arrays",
        "2 publishers, arrays of 100 in, single out: deliveries/s",
        |bench| end_to_end(bench, ONE_TOPIC, 2, 100),
    ),
    case(
        "end-to-end-10-arrays",
        "the same with 10 subscriptions",
        |bench| end_to_end(bench, MANY_TOPIC, 2, 100),
    ),
    once(case(
        "batches-100",
        "100 events a request out, published before, beside the same bodies without the server: events/s",
        batches::run,
    )),
    case(
        "latency-half",
        "publish to receiver at half of end-to-end-1's rate: events/s",
        half_load,
    ),
    case(
        "latency-1000",
        "publish to receiver at 1,000 events/s",
        |bench| latency(bench, 1_000.0),
    ),
    once(case(
        "matching-type",
        "finding 3 of 10,000 subscriptions that differ in the type: events/s",
        |bench| matching::run(bench, Differ::Type),
    )),
    once(case(
        "matching-string-in",
        "the same, in one StringIn: events/s",
        |bench| matching::run(bench, Differ::StringIn),
    )),
    once(case(
        "matching-prefix",
        "the same, in subject prefixes of different length: events/s",
        |bench| matching::run(bench, Differ::Prefix),
    )),
    once(case(
        "backlog",
        "256 publishers that wait for nobody, then half of what is sustained: events/s of the burst",
        backlog::run,
    )),
    once(case(
        "attempt-log",
        "end-to-end-1 with the history of attempts, as usual, and without: deliveries/s",
        costs::history,
    )),
    once(case(
        "signing",
        "end-to-end-1 with deliveries signed, as in all other rows, and unsigned: deliveries/s",
        costs::signatures,
    )),
    once(case(
        "next-due",
        "the next retry that is due behind many that were settled, in the view alone: deletes/s",
        next_due::run,
    )),
    once(case(
        "empty",
        "a server without topics: its memory, and what it costs to let it run",
        idle::empty,
    )),
    once(case(
        "written",
        "bytes written for each byte published, and with a tenth failing once",
        written,
    )),
    once(case(
        "explain",
        "one event among many that nobody was sent, by its id: explanations/s",
        explain::run,
    )),
    once(case(
        "crowd",
        "healthy endpoints beside 1 % that hang and 10 % that are slow, of 100: deliveries/s",
        crowd::run,
    )),
    once(case(
        "hanging",
        "healthy endpoints beside 10 % that hang for 30 s, of 1,000: deliveries/s",
        crowd::hanging,
    )),
    case(
        "edge-origins",
        "wrk with 64 connections, straight to an origin that answers 1 KiB: requests/s",
        edge::origins_alone,
    ),
    case(
        edge::HAPROXY[0],
        "wrk with 64 connections, HAProxy, 3 origins of 1 KiB: requests/s",
        |bench| edge::haproxy(bench, false),
    ),
    case(edge::NGINX[0], "the same through nginx", |bench| {
        edge::nginx(bench, false)
    }),
    case(edge::EDGE[0], "the same through Hedgerow's edge", |bench| {
        edge::edge(bench, false)
    }),
    case(
        edge::HAPROXY[1],
        "wrk with 64 connections, HAProxy, 3 origins of 1 KiB, TLS to clients: requests/s",
        |bench| edge::haproxy(bench, true),
    ),
    case(edge::NGINX[1], "the same through nginx", |bench| {
        edge::nginx(bench, true)
    }),
    case(edge::EDGE[1], "the same through Hedgerow's edge", |bench| {
        edge::edge(bench, true)
    }),
    once(case(
        "dead",
        "one subscription beside a dead one for which events wait: events/s",
        dead::run,
    )),
    once(case(
        "laggards",
        "50 subscriptions behind at 50 places of a topic with 1 % of the traffic: deliveries/s",
        laggards::run,
    )),
    once(spare(case(
        "held",
        "events held by a pause and by probation: memory, disk, and the time back after kill -9",
        held::run,
    ))),
    once(case(
        "pending",
        "retries that wait: memory, disk, an idle minute, and the time back after kill -9",
        pending::run,
    )),
];

/// The bare receiver with single events.
pub const RAW_HTTP: &str = "raw-http-64";
const RAW_LOG: &str = "raw-log";
const RAW_LOG_LARGE: &str = "raw-log-large";
/// Single events in and out.
pub const END_TO_END: &str = "end-to-end-1";

/// A load with the bench's time.
fn closed(bench: &Bench, target: Target, connections: usize, batch: usize) -> Closed {
    Closed {
        target,
        connections,
        batch,
        time: bench.options.size.time,
        events_max: u64::MAX,
        backlog: None,
    }
}

fn raw_http(bench: &mut Bench, connections: usize, batch: usize) -> Result<Figures, String> {
    let target = Target {
        address: bench.receiver.endpoints[0].address,
        path: "/".to_owned(),
        key: "0".repeat(44),
    };
    let report = closed(bench, target, connections, batch).run()?;
    let mut figures = Figures::default();
    figures.set("rate", report.events as f64 / report.seconds);
    figures.set_latencies(&report.latencies);
    Ok(figures)
}

fn raw_log(bench: &mut Bench, group_bytes: usize) -> Result<Figures, String> {
    let time = bench.options.size.time;
    let report = bench.raw_log()?.run(group_bytes, time)?;
    let mut figures = Figures::default();
    figures.set(
        "rate",
        report.bytes as f64 / EVENT_BYTES as f64 / report.seconds,
    );
    figures.set_latencies(&report.latencies);
    Ok(figures)
}

fn ingest(bench: &mut Bench, connections: usize, batch: usize) -> Result<Figures, String> {
    let target = bench.subject()?.target(NONE_TOPIC);
    let load = closed(bench, target, connections, batch);
    let (report, cpu) = measured(bench.subject()?, load)?;
    let mut figures = Figures::default();
    figures.set("rate", report.events as f64 / report.seconds);
    figures.set_latencies(&report.latencies);
    compare(bench, &mut figures, batch);
    costs(&mut figures, &report, cpu);
    bench.subject()?.settle()?;
    Ok(figures)
}

fn end_to_end(
    bench: &mut Bench,
    topic: &'static str,
    connections: usize,
    batch: usize,
) -> Result<Figures, String> {
    let subscriptions = if topic == MANY_TOPIC { MANY } else { 1 };
    let target = bench.subject()?.target(topic);
    let load = Closed {
        backlog: Some(Backlog {
            endpoints: bench.endpoints(topic).to_vec(),
            max: BACKLOG_EVENTS,
        }),
        ..closed(bench, target, connections, batch)
    };
    let (report, cpu) = measured(bench.subject()?, load)?;
    let mut figures = Figures::default();
    figures.set("rate", report.deliveries as f64 / report.seconds);
    figures.set_latencies(&report.latencies);
    compare(bench, &mut figures, 1);
    costs(&mut figures, &report, cpu);
    bench.subject()?.drain(topic, subscriptions)?;
    Ok(figures)
}

/// Ratios to the baselines of the round.
fn compare(bench: &Bench, figures: &mut Figures, batch: usize) {
    let Some(rate) = figures.get("rate") else {
        return;
    };
    // Of arrays, the receiver takes far more events than the disk: only the disk is a limit.
    if batch == 1
        && let Some(raw) = bench.this_round(RAW_HTTP, "rate")
    {
        figures.set("of_raw_http", rate / raw);
    }
    if let Some(raw) = bench.this_round(RAW_LOG, "rate") {
        figures.set("of_raw_log", rate / raw);
    }
    if batch > 1
        && let Some(raw) = bench.this_round(RAW_LOG_LARGE, "rate")
    {
        figures.set("of_raw_log_large", rate / raw);
    }
}

fn costs(figures: &mut Figures, report: &Report, cpu: Cpu) {
    if report.published > 0 {
        for (name, time) in [
            ("server_cpu_us", cpu.all),
            ("engine_cpu_us", cpu.engine),
            ("commit_cpu_us", cpu.commit),
        ] {
            figures.set(name, time.as_secs_f64() * 1e6 / report.published as f64);
        }
    }
    figures.set("refused", report.refused as f64);
}

fn half_load(bench: &mut Bench) -> Result<Figures, String> {
    let rate = bench.this_round(END_TO_END, "rate");
    let rate = rate.ok_or("latency-half needs end-to-end-1 in the same run")?;
    latency(bench, rate / 2.0)
}

fn latency(bench: &mut Bench, rate: f64) -> Result<Figures, String> {
    let endpoint = bench.endpoints(ONE_TOPIC)[0].clone();
    let load = |bench: &mut Bench, time| {
        let target = bench.subject()?.target(ONE_TOPIC);
        Open { target, rate, time }.run()
    };
    // Connections are opened and the window of the endpoint grows before anything is measured.
    load(bench, bench.options.size.time / 4)?;
    endpoint.measure(true);
    let report = load(bench, bench.options.size.time)?;
    bench.subject()?.drain(ONE_TOPIC, 1)?;
    let latencies = endpoint.measure(false);
    let mut figures = Figures::default();
    figures.set(
        "rate",
        report.published as f64 / bench.options.size.time.as_secs_f64(),
    );
    figures.set_latencies(&latencies);
    figures.set("missed", report.missed as f64);
    let limit = bench
        .this_round("raw-sync", "p50_ms")
        .zip(bench.this_round("raw-http-1", "p50_ms"))
        .map(|(sync, http)| sync + 2.0 * http);
    if let (Some(limit), Some(p50)) = (limit, figures.get("p50_ms")) {
        figures.set("p50_of_sync_and_2_http", p50 / limit);
    }
    Ok(figures)
}

/// Twice the same, with receivers that accept everything and with ones that fail a tenth. Each has a server of its own.
fn written(bench: &mut Bench) -> Result<Figures, String> {
    let mut figures = Figures::default();
    let phases = [
        (
            Behaviour::Accepts,
            "bytes_per_byte",
            "log_bytes_per_byte",
            "view_bytes_per_byte",
            "machine_bytes_per_byte",
        ),
        (
            Behaviour::FailsSome,
            "bytes_per_byte_failing",
            "log_bytes_per_byte_failing",
            "view_bytes_per_byte_failing",
            "machine_bytes_per_byte_failing",
        ),
    ];
    let count = if bench.options.is_quick {
        1
    } else {
        phases.len()
    };
    for (behaviour, all, log, view, device) in phases.into_iter().take(count) {
        let mut subject = bench.own_subject("written", "")?;
        let endpoints = bench.endpoints(ONE_TOPIC).to_vec();
        subject.declare(ONE_TOPIC, &endpoints)?;
        subject.settle()?;
        endpoints[0].behave(behaviour);
        let before = subject.storage()?.written_bytes;
        let device_before = device_bytes(&subject.data("log"));
        let watch = Watch::start(subject.data("view"))?;
        let load = Closed {
            time: bench.options.size.time * 2,
            backlog: Some(Backlog {
                endpoints: endpoints.clone(),
                max: BACKLOG_EVENTS,
            }),
            ..closed(bench, subject.target(ONE_TOPIC), 64, 1)
        };
        let report = load.run()?;
        std::thread::sleep(bench.options.after_checkpoint());
        endpoints[0].behave(Behaviour::Accepts);
        let published = (report.published * EVENT_BYTES as u64) as f64;
        let to_log = (subject.storage()?.written_bytes - before) as f64;
        let to_view = watch.written_bytes() as f64;
        figures.set(all, (to_log + to_view) / published);
        figures.set(log, to_log / published);
        figures.set(view, to_view / published);
        if let Some((after, before)) = device_bytes(&subject.data("log")).zip(device_before) {
            figures.set(device, (after - before) as f64 / published);
        }
        subject.remove()?;
    }
    Ok(figures)
}

impl Figures {
    /// The median and the 99th of a hundred.
    pub fn set_latencies(&mut self, latencies: &Histogram) {
        for (name, part) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
            if let Some(ms) = latencies.quantile_ms(part) {
                self.set(name, ms);
            }
        }
    }
}

impl Bench {
    /// Makes the topics on a server.
    pub fn declare(&self, subject: &mut Subject) -> Result<(), String> {
        for topic in [NONE_TOPIC, ONE_TOPIC, MANY_TOPIC] {
            subject.declare(topic, self.endpoints(topic))?;
        }
        subject.settle()
    }
}
