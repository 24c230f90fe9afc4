//! The edge listener beside HAProxy and nginx, all set up for the same job: 64 clients that keep their connections, origins that
//! keep theirs and answer with 1 KiB, HTTP/1.1; then the same with TLS to clients. What counts is how many requests a second of
//! processor time is worth, since the clients and the origins share the machine.
//!
//! The load is `wrk`'s. Where it, or one of the two proxies, is not installed, there is no row of it.

use std::sync::Arc;

use super::proxy::{Front, Proxy};
use super::receiver::{Endpoint, Receiver};
use super::subject::Subject;
use super::wrk::Load;
use super::{Bench, Figures};

/// Origins behind each proxy.
const ORIGINS: usize = 3;
/// Bytes of an answer.
const ANSWER_BYTES: usize = 1024;
/// Clients at a time.
const CONNECTIONS: usize = 64;
/// As many as the machines have cores on which the figures are compared.
pub const THREADS: usize = 2;
/// Requests that costs are told for.
const COSTS_OF: f64 = 100_000.0;

/// Names of the rows, without TLS and with it.
pub const HAPROXY: [&str; 2] = ["edge-haproxy", "edge-tls-haproxy"];
/// See [`HAPROXY`].
pub const NGINX: [&str; 2] = ["edge-nginx", "edge-tls-nginx"];
/// See [`HAPROXY`].
pub const EDGE: [&str; 2] = ["edge-http", "edge-tls-http"];
/// What a second of processor time is worth.
const WORTH: &str = "requests_per_cpu_s";

/// One of the origins, without anything before it.
pub fn origins_alone(bench: &mut Bench) -> Result<Figures, String> {
    let origins = Origins::start()?;
    let address = origins.endpoints()[0].address;
    let load = Load {
        url: format!("http://{address}/"),
        connections: CONNECTIONS,
    };
    Ok(load
        .run(bench)?
        .map(|told| told.figures())
        .unwrap_or_default())
}

/// HAProxy.
pub fn haproxy(bench: &mut Bench, has_tls: bool) -> Result<Figures, String> {
    beside(bench, Front::haproxy, has_tls)
}

/// nginx.
pub fn nginx(bench: &mut Bench, has_tls: bool) -> Result<Figures, String> {
    beside(bench, Front::nginx, has_tls)
}

/// Writes down how a proxy stands before these origins.
type MakeFront = fn(&Bench, &[Arc<Endpoint>], bool) -> Result<Front, String>;

fn beside(bench: &mut Bench, front: MakeFront, has_tls: bool) -> Result<Figures, String> {
    let origins = Origins::start()?;
    let front = front(bench, origins.endpoints(), has_tls)?;
    let Some(proxy) = Proxy::start(&front)? else {
        return Ok(Figures::default());
    };
    measure(bench, &front.url, || proxy.cpu_seconds())
}

/// Hedgerow's edge, with a group of the origins and one route.
pub fn edge(bench: &mut Bench, has_tls: bool) -> Result<Figures, String> {
    let origins = Origins::start()?;
    let subject = start_edge(bench, has_tls, origins.endpoints())?;
    let url = subject.edge_url(has_tls)?;
    let mut figures = measure(bench, &url, || Ok(subject.cpu()?.all.as_secs_f64()))?;
    let row = usize::from(has_tls);
    for (peer, worth, rate, late) in [
        (
            HAPROXY[row],
            "of_haproxy",
            "rate_of_haproxy",
            "p99_of_haproxy",
        ),
        (NGINX[row], "of_nginx", "rate_of_nginx", "p99_of_nginx"),
    ] {
        for (figure, of) in [(WORTH, worth), ("rate", rate), ("p99_ms", late)] {
            if let Some((own, theirs)) = figures.get(figure).zip(bench.this_round(peer, figure)) {
                figures.set(of, own / theirs);
            }
        }
    }
    subject.remove()?;
    Ok(figures)
}

/// A server with an edge before these origins.
fn start_edge(
    bench: &mut Bench,
    has_tls: bool,
    origins: &[Arc<Endpoint>],
) -> Result<Subject, String> {
    let settings = if has_tls {
        let certificate = bench.certificate()?;
        format!(
            "\n[edge]\ntls_listen = \"127.0.0.1:0\"\ntls_certificate_file = {:?}\ntls_key_file = {:?}\n",
            certificate.chain.display().to_string(),
            certificate.key.display().to_string(),
        )
    } else {
        "\n[edge]\nlisten = \"127.0.0.1:0\"\n".to_owned()
    };
    let subject = bench.own_subject("edge", &settings)?;
    subject.declare_group("origins", origins)?;
    Ok(subject)
}

/// The load, and what it cost whom it went through.
fn measure(
    bench: &Bench,
    url: &str,
    cpu_seconds: impl Fn() -> Result<f64, String>,
) -> Result<Figures, String> {
    let load = Load {
        url: url.to_owned(),
        connections: CONNECTIONS,
    };
    // Connections are opened, and caches are warm, before anything is measured.
    load.warm_up()?;
    let before = cpu_seconds()?;
    let Some(told) = load.run(bench)? else {
        return Ok(Figures::default());
    };
    let spent = cpu_seconds()? - before;
    let mut figures = told.figures();
    if spent > 0.0 {
        figures.set(WORTH, told.requests / spent);
        figures.set("cpu_s_per_100000", spent * COSTS_OF / told.requests);
    }
    Ok(figures)
}

/// Origins that answer with a KiB.
struct Origins(Receiver);

impl Origins {
    fn start() -> Result<Self, String> {
        let receiver = Receiver::start(ORIGINS)?;
        for endpoint in &receiver.endpoints {
            endpoint.answer_with(ANSWER_BYTES);
        }
        Ok(Self(receiver))
    }

    fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.0.endpoints
    }
}
