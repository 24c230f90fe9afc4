//! Sends one probe and says what it met: a new connection, one request, its response to the last byte that is wanted, and
//! the connection dropped, all before one deadline (HP-010 to HP-053).

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hedgerow_io::http::{Connect, Connection, Mark, Target, TlsDemands, Watch};
use hedgerow_origin::outcome::{Demands, Met, Observation, Parts, Reason};
use hedgerow_origin::response::ResponseReader;
use hedgerow_origin::settings::{OriginSettings, Protocol};
use hedgerow_origin::target::{ProbeTarget, key_of_host};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::failure::{self, Own};

/// Bytes of the response that are kept for people who try a probe out: the status line and the headers of most.
const EXCERPT_BYTES_MAX: usize = 1 << 10;
/// Bytes that are read at once.
const READ_BYTES: usize = 4 << 10;

/// A probe that ended with a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The sample.
    pub observation: Observation,
    /// The address that was connected to, or tried last.
    pub peer: Option<SocketAddr>,
    /// The first bytes of what came back.
    pub excerpt: Vec<u8>,
    /// How long after the deadline its end was noticed, which is how busy we were; zero if it ended before (HP-191).
    pub late: Duration,
}

/// A probe that ended without a sample (HP-049).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aborted {
    /// What we could not do.
    pub why: String,
}

/// Sends a probe now, and looks at what `demands` is interested in: those of a [`Group::rules`], for one group. `at` reads the clock that dates the sample; its times are real ones (HP-029).
///
/// # Errors
///
/// We could not do our part.
pub async fn probe(
    connector: &dyn Connect,
    target: &ProbeTarget,
    demands: &Demands,
    at: impl Fn() -> Duration,
) -> Result<Exchange, Aborted> {
    let deadline = Instant::now() + demands.timeout;
    let watch = Watch::begin(0).until(deadline);
    let mut excerpt = Vec::new();
    let ended = match destination(target) {
        None => Some(Ok(Met::Failure(Reason::DnsError))),
        Some(destination) => {
            let exchange = async {
                let reader = ResponseReader::new(target.method, demands);
                exchange(
                    connector,
                    &destination,
                    target,
                    reader,
                    &watch,
                    &mut excerpt,
                )
                .await
            };
            // The exchange is looked at first: what ends exactly at the deadline is in time (HP-020).
            timeout_at(deadline, exchange).await.ok()
        }
    };
    watch.mark(Mark::Over);
    let met = match ended {
        Some(Ok(met)) => met,
        Some(Err(Own(why))) => return Err(Aborted { why }),
        None => Met::Failure(overdue(&watch)),
    };
    let over = watch.reached(Mark::Over).unwrap_or(deadline);
    Ok(Exchange {
        observation: Observation {
            at: at(),
            elapsed_us: micros(over.duration_since(watch.began())),
            parts: parts(&watch),
            met,
        },
        peer: watch.address(),
        excerpt,
        late: over.saturating_duration_since(deadline),
    })
}

/// Where requests of a scheme to an origin go, with what they ask of TLS. Probes differ in nothing but that they never
/// resume a session (HP-022, HP-024). `None` for a host that nothing can be sent to.
#[must_use]
pub fn request_target(origin: &OriginSettings, protocol: Protocol) -> Option<Target> {
    let port = match protocol {
        Protocol::Http => origin.http_port,
        Protocol::Https => origin.https_port,
    };
    let host = key_of_host(&origin.host);
    let tls = TlsDemands {
        any_name: !origin.verify_certificate_name,
        ..TlsDemands::default()
    };
    Some(target_of(protocol, &host, port)?.with_tls(tls))
}

fn destination(target: &ProbeTarget) -> Option<Target> {
    let tls = TlsDemands {
        any_name: !target.verify_certificate_name,
        full_handshake: true,
        ..TlsDemands::default()
    };
    let of = target_of(target.protocol, &target.host, target.port.into())?;
    Some(of.with_tls(tls))
}

fn target_of(protocol: Protocol, host: &str, port: u32) -> Option<Target> {
    let url = format!("{}://{host}:{port}/", protocol.as_str());
    let target = Target::from_url(&Url::parse(&url).ok()?).ok()?;
    Some(target.with_kept_names())
}

async fn exchange(
    connector: &dyn Connect,
    destination: &Target,
    target: &ProbeTarget,
    mut reader: ResponseReader,
    watch: &Watch,
    excerpt: &mut Vec<u8>,
) -> Result<Met, Own> {
    let connected = connector.connect_watched(destination, watch).await;
    let mut connection = match connected {
        Ok(connection) => connection,
        Err(error) => return failure::of_connect(&error).map(Met::Failure),
    };
    // Some connectors know no parts.
    watch.mark(Mark::Connected);
    // Whoever does not read the request may have answered all the same.
    let _ = send(&mut connection, target).await;
    let mut buffer = [0; READ_BYTES];
    loop {
        let read = match connection.read(&mut buffer).await {
            Ok(0) => {
                watch.mark(Mark::Over);
                return Ok(reader.end(true));
            }
            Ok(read) => buffer.get(..read).unwrap_or_default(),
            Err(error) => {
                watch.mark(Mark::Over);
                let is_silent = watch.reached(Mark::FirstByte).is_none();
                return Ok(match reader.end(false) {
                    Met::Failure(_) if is_silent => Met::Failure(failure::of_broken(&error)),
                    met => met,
                });
            }
        };
        watch.mark(Mark::FirstByte);
        let kept = read.len().min(EXCERPT_BYTES_MAX - excerpt.len());
        excerpt.extend_from_slice(read.get(..kept).unwrap_or_default());
        if let Some(met) = reader.feed(read) {
            watch.mark(Mark::Over);
            return Ok(met);
        }
    }
}

async fn send(connection: &mut Connection, target: &ProbeTarget) -> io::Result<()> {
    connection.write_all(request(target).as_bytes()).await?;
    connection.flush().await
}

/// The request (HP-015 to HP-019).
fn request(target: &ProbeTarget) -> String {
    let ProbeTarget {
        method,
        path,
        host_header,
        headers,
        ..
    } = target;
    let mut request = format!(
        "{} {path} HTTP/1.1\r\nHost: {host_header}\r\nUser-Agent: Edge Health Probe\r\nX-FD-HealthProbe: 1\r\n\
         Accept: */*\r\nConnection: close\r\n",
        method.as_str()
    );
    for (name, value) in headers {
        // Writing to a String cannot fail.
        let _ = write!(request, "{name}: {value}\r\n");
    }
    request.push_str("\r\n");
    request
}

/// Where a probe stood when its time was over.
fn overdue(watch: &Watch) -> Reason {
    if watch.reached(Mark::Trying).is_none() {
        Reason::DnsTimeout
    } else if watch.reached(Mark::Connected).is_none() {
        Reason::ConnectTimeout
    } else {
        Reason::Timeout
    }
}

/// HP-052. The latency begins just before the first attempt to connect (HP-051).
fn parts(watch: &Watch) -> Parts {
    let reached = |mark| watch.reached(mark);
    let part = |from: Option<Instant>, to: Option<Instant>| {
        Some(micros(to?.saturating_duration_since(from?)))
    };
    let open = reached(Mark::Encrypted).or(reached(Mark::Connected));
    let trying = reached(Mark::Trying);
    Parts {
        dns_us: part(Some(watch.began()), reached(Mark::Named)),
        connect_us: part(trying, reached(Mark::Connected)),
        tls_us: part(reached(Mark::Connected), reached(Mark::Encrypted)),
        first_byte_us: part(open, reached(Mark::FirstByte)),
        total_us: part(trying, reached(Mark::Over)).map(|total| total.max(1)),
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
