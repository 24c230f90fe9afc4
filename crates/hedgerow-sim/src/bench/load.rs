//! The load generator: bare hyper connections on one thread of its own, without pipelining. The same generator with the
//! same requests goes to the server and to the bare receiver.
//!
//! | load | sends | measures |
//! | --- | --- | --- |
//! | [`Closed`] | on each connection as soon as the last request was answered | how much is taken, and how long an answer takes |
//! | [`Open`] | so many events a second, whether or not answers come | nothing: the receiver reads the events' ages |
//! | [`Replay`] | bodies that are there, over and over, as [`Closed`] does | nothing: the receiver counts bytes |
//!
//! All end by themselves.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HeaderValue;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use super::events;
use super::receiver::Endpoint;
use super::statistics::Histogram;

/// This part of the time, at the beginning, is not measured.
const WARM_UP_PART: u32 = 8;
/// How often the backlog and the clock of an open load are looked at.
const TICK: Duration = Duration::from_millis(1);
/// After a request that was refused.
const PAUSE: Duration = Duration::from_millis(2);
/// Connections of an open load at most; events that find none are missed.
const OPEN_CONNECTIONS_MAX: usize = 512;

/// Set when the benchmark is interrupted: every load ends at once.
pub static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Where events are published.
#[derive(Debug, Clone)]
pub struct Target {
    /// The server, or a bare receiver.
    pub address: SocketAddr,
    /// Path and query.
    pub path: String,
    /// The topic's key.
    pub key: String,
}

/// Publishers wait while this much was published and not delivered.
#[derive(Debug, Clone)]
pub struct Backlog {
    /// What gets the deliveries; each event goes to all of them.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Events.
    pub max: u64,
}

/// Publishers that wait for their answers.
#[derive(Debug, Clone)]
pub struct Closed {
    /// Where to.
    pub target: Target,
    /// How many publish at a time.
    pub connections: usize,
    /// Events of a request.
    pub batch: usize,
    /// For how long.
    pub time: Duration,
    /// Ends earlier with this many events.
    pub events_max: u64,
    /// What they wait for.
    pub backlog: Option<Backlog>,
}

/// What a closed load came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Events acknowledged in all.
    pub published: u64,
    /// Requests refused in all.
    pub refused: u64,
    /// Events acknowledged in the measured time.
    pub events: u64,
    /// Deliveries of the backlog's endpoints in the measured time.
    pub deliveries: u64,
    /// The measured time in seconds.
    pub seconds: f64,
    /// From request to answer, in the measured time.
    pub latencies: Histogram,
}

/// Publishers that do not wait.
#[derive(Debug, Clone)]
pub struct Open {
    /// Where to.
    pub target: Target,
    /// Events a second, each in a request of its own.
    pub rate: f64,
    /// For how long.
    pub time: Duration,
}

/// What an open load came to.
#[derive(Debug, Default)]
pub struct OpenReport {
    /// Events acknowledged.
    pub published: u64,
    /// Events that were refused, or for which there was no connection.
    pub missed: u64,
}

impl Closed {
    /// Runs it to its end on a thread of its own.
    pub fn run(self) -> Result<Report, String> {
        on_own_thread(move || self.load())
    }

    async fn load(self) -> Result<Report, String> {
        let publishers = Rc::new(Publishers::new(self));
        let mut tasks = JoinSet::new();
        for _ in 0..publishers.load.connections {
            tasks.spawn_local(Rc::clone(&publishers).publish());
        }
        let clock = tokio::task::spawn_local(Rc::clone(&publishers).watch());
        let mut result = Ok(());
        while let Some(ended) = tasks.join_next().await {
            let ended = ended.map_err(|error| format!("a publisher broke: {error}"))?;
            result = result.and(ended);
        }
        clock.abort();
        result?;
        check_interrupted()?;
        Ok(publishers.report())
    }
}

/// What the publishers of a closed load share.
struct Publishers {
    load: Closed,
    began: Instant,
    delivered_before: u64,
    /// When measuring began and how much was delivered then.
    measured_from: Cell<Option<(Instant, u64)>>,
    measured_to: Cell<Option<(Instant, u64)>>,
    next: Cell<u64>,
    report: RefCell<Report>,
    /// Wakes those that wait for the backlog.
    tick: Notify,
}

impl Publishers {
    fn new(load: Closed) -> Self {
        let delivered_before = delivered(load.backlog.as_ref());
        Self {
            load,
            began: Instant::now(),
            delivered_before,
            measured_from: Cell::new(None),
            measured_to: Cell::new(None),
            next: Cell::new(0),
            report: RefCell::default(),
            tick: Notify::new(),
        }
    }

    fn delivered(&self) -> u64 {
        delivered(self.load.backlog.as_ref()) - self.delivered_before
    }

    /// Looks at the clock and lets publishers look at the backlog.
    async fn watch(self: Rc<Self>) {
        loop {
            sleep(TICK).await;
            let elapsed = self.began.elapsed();
            if self.measured_from.get().is_none() && elapsed > self.load.time / WARM_UP_PART {
                self.measured_from
                    .set(Some((Instant::now(), self.delivered())));
            }
            if self.measured_to.get().is_none() && self.is_over() {
                self.measured_to
                    .set(Some((Instant::now(), self.delivered())));
            }
            self.tick.notify_waiters();
        }
    }

    fn is_over(&self) -> bool {
        self.began.elapsed() >= self.load.time
            || self.next.get() >= self.load.events_max
            || IS_INTERRUPTED.load(Ordering::Relaxed)
    }

    fn is_behind(&self) -> bool {
        self.load.backlog.as_ref().is_some_and(|backlog| {
            let each = self.delivered() / backlog.endpoints.len() as u64;
            self.next.get().saturating_sub(each) > backlog.max
        })
    }

    async fn publish(self: Rc<Self>) -> Result<(), String> {
        let mut connection = Connection::open(&self.load.target).await?;
        let batch = self.load.batch as u64;
        while !self.is_over() {
            if self.is_behind() {
                self.tick.notified().await;
                continue;
            }
            let first = self.next.get();
            self.next.set(first + batch);
            let start = Instant::now();
            let status = connection.post(first, self.load.batch).await?;
            let took = start.elapsed();
            let is_measured = self.measured_from.get().is_some() && !self.is_over();
            if status == 200 {
                let mut report = self.report.borrow_mut();
                report.published += batch;
                if is_measured {
                    report.events += batch;
                    report.latencies.record(took);
                }
            } else {
                self.report.borrow_mut().refused += 1;
                // It does not count as backlog.
                self.next.set(self.next.get() - batch);
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    fn report(&self) -> Report {
        let mut report = self.report.take();
        let now = (Instant::now(), self.delivered());
        if let Some((from, delivered_from)) = self.measured_from.get() {
            let (to, delivered_to) = self.measured_to.get().unwrap_or(now);
            report.seconds = (to - from).as_secs_f64();
            report.deliveries = delivered_to - delivered_from;
        }
        report
    }
}

fn delivered(backlog: Option<&Backlog>) -> u64 {
    backlog.map_or(0, |backlog| {
        backlog.endpoints.iter().map(|one| one.events()).sum()
    })
}

impl Open {
    /// Runs it to its end on a thread of its own.
    pub fn run(self) -> Result<OpenReport, String> {
        on_own_thread(move || self.load())
    }

    async fn load(self) -> Result<OpenReport, String> {
        let idle: Rc<RefCell<Vec<Connection>>> = Rc::default();
        let report: Rc<RefCell<OpenReport>> = Rc::default();
        let (mut sent, mut opened) = (0, 0);
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        while began.elapsed() < self.time {
            check_interrupted()?;
            #[allow(clippy::cast_sign_loss)] // Counts.
            let due = (began.elapsed().as_secs_f64() * self.rate) as u64;
            while sent < due {
                sent += 1;
                let waiting = idle.borrow_mut().pop();
                let mut connection = match waiting {
                    Some(connection) => connection,
                    None if opened < OPEN_CONNECTIONS_MAX => {
                        opened += 1;
                        Connection::open(&self.target).await?
                    }
                    None => {
                        report.borrow_mut().missed += 1;
                        continue;
                    }
                };
                let (idle, report) = (Rc::clone(&idle), Rc::clone(&report));
                tasks.spawn_local(async move {
                    let status = connection.post(sent, 1).await?;
                    let mut report = report.borrow_mut();
                    if status == 200 {
                        report.published += 1;
                    } else {
                        report.missed += 1;
                    }
                    idle.borrow_mut().push(connection);
                    Ok::<_, String>(())
                });
            }
            while tasks.try_join_next().is_some() {}
            sleep(TICK).await;
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| format!("a publisher broke: {error}"))??;
        }
        Ok(report.take())
    }
}

/// Clients that send bodies which are there, each as soon as its last one was answered.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Where to.
    pub target: Target,
    /// How many send at a time.
    pub connections: usize,
    /// What they send, in turn.
    pub bodies: Vec<Bytes>,
    /// For how long.
    pub time: Duration,
}

impl Replay {
    /// Runs it to its end on a thread of its own, and gives the bytes of the bodies that were answered 200.
    pub fn run(self) -> Result<u64, String> {
        on_own_thread(move || self.load())
    }

    async fn load(self) -> Result<u64, String> {
        let load = Rc::new(self);
        let next: Rc<Cell<usize>> = Rc::default();
        let until = Instant::now() + load.time;
        let mut tasks = JoinSet::new();
        for _ in 0..load.connections {
            let (load, next) = (Rc::clone(&load), Rc::clone(&next));
            tasks.spawn_local(async move {
                let mut connection = Connection::open(&load.target).await?;
                let mut sent = 0;
                while Instant::now() < until {
                    check_interrupted()?;
                    let number = next.replace(next.get() + 1);
                    let body = &load.bodies[number % load.bodies.len()];
                    if connection.send(body.clone()).await? == 200 {
                        sent += body.len() as u64;
                    }
                }
                Ok::<_, String>(sent)
            });
        }
        let mut sent = 0;
        while let Some(ended) = tasks.join_next().await {
            sent += ended.map_err(|error| format!("a client broke: {error}"))??;
        }
        Ok(sent)
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    path: hyper::Uri,
    host: HeaderValue,
    key: HeaderValue,
}

impl Connection {
    async fn open(target: &Target) -> Result<Self, String> {
        let stream = TcpStream::connect(target.address).await;
        let stream = stream.map_err(|error| format!("a publisher cannot connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| text(&error))?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| text(&error))?;
        // Ends with the connection; its error is met by the request that uses it.
        tokio::task::spawn_local(connection);
        Ok(Self {
            sender,
            path: target.path.parse().map_err(|error| text(&error))?,
            host: HeaderValue::from_str(&target.address.to_string())
                .map_err(|error| text(&error))?,
            key: HeaderValue::from_str(&target.key).map_err(|error| text(&error))?,
        })
    }

    /// Publishes and gives the answer's status.
    async fn post(&mut self, first: u64, len: usize) -> Result<u16, String> {
        self.send(events::body(first, len)).await
    }

    /// Sends a body and gives the answer's status.
    async fn send(&mut self, body: Bytes) -> Result<u16, String> {
        let request = Request::post(self.path.clone())
            .header("host", self.host.clone())
            .header("content-type", HeaderValue::from_static("application/json"))
            .header("aeg-sas-key", self.key.clone())
            .body(Full::new(body))
            .map_err(|error| text(&error))?;
        self.sender.ready().await.map_err(|error| text(&error))?;
        let response = self.sender.send_request(request).await;
        let response = response.map_err(|error| text(&error))?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame.map_err(|error| text(&error))?;
        }
        Ok(status)
    }
}

fn text(error: &dyn std::fmt::Display) -> String {
    format!("a publisher failed: {error}")
}

/// Fails when the benchmark was interrupted.
pub fn check_interrupted() -> Result<(), String> {
    if IS_INTERRUPTED.load(Ordering::Relaxed) {
        Err("interrupted".to_owned())
    } else {
        Ok(())
    }
}

fn on_own_thread<T: Send + 'static, F: Future<Output = Result<T, String>>>(
    load: impl FnOnce() -> F + Send + 'static,
) -> Result<T, String> {
    let thread = std::thread::Builder::new()
        .name("bench-load".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| format!("no runtime: {error}"))?;
            LocalSet::new().block_on(&runtime, load())
        })
        .map_err(|error| format!("no thread for the load: {error}"))?;
    thread.join().map_err(|_| "the load panicked".to_owned())?
}
