//! The trivial receiver: bare hyper on one thread of its own, with as many ports as there are endpoints.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::events;
use super::statistics::Histogram;

/// How a port answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Behaviour {
    /// 200.
    Accepts,
    /// 503 to the first attempt of every tenth event, else 200.
    FailsSome,
    /// 503.
    IsBusy,
    /// 500.
    Fails,
    /// 200 after [`SLOW`].
    IsSlow,
    /// No answer.
    Hangs,
}

/// Bytes of the longest answer.
const ANSWER_BYTES_MAX: usize = 1024;
static ANSWER: [u8; ANSWER_BYTES_MAX] = [b'a'; ANSWER_BYTES_MAX];

/// How long a slow port takes.
pub const SLOW: Duration = Duration::from_secs(1);

/// One port.
#[derive(Debug)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    behaviour: AtomicU8,
    requests: AtomicU64,
    bytes: AtomicU64,
    events: AtomicU64,
    kept: Mutex<Vec<Bytes>>,
    keeps: AtomicBool,
    latencies: Mutex<Histogram>,
    measures: AtomicBool,
    answer_bytes: AtomicUsize,
}

/// The receiver. Dropping it ends it.
#[derive(Debug)]
pub struct Receiver {
    /// Its ports.
    pub endpoints: Vec<Arc<Endpoint>>,
    _stop: oneshot::Sender<()>,
}

impl Receiver {
    /// Starts it with so many ports, which accept.
    pub fn start(ports: usize) -> Result<Self, String> {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new()
            .name("bench-receiver".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                match runtime {
                    Ok(runtime) => runtime.block_on(run(ports, &tell, stopped)),
                    Err(error) => drop(tell.send(Err(format!("no runtime: {error}")))),
                }
            })
            .map_err(|error| format!("no thread for the receiver: {error}"))?;
        let endpoints = told.recv().map_err(|_| "the receiver ended")??;
        Ok(Self {
            endpoints,
            _stop: stop,
        })
    }
}

impl Endpoint {
    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// From now on it answers like this.
    pub fn behave(&self, behaviour: Behaviour) {
        self.behaviour.store(behaviour as u8, Ordering::Relaxed);
    }

    /// From now on its answers have bodies of so many bytes, a KiB at most.
    pub fn answer_with(&self, bytes: usize) {
        let bytes = bytes.min(ANSWER_BYTES_MAX);
        self.answer_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Requests it has got.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Bytes of their bodies.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Events of them: as many as a batch says, else one.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Begins to keep the bodies that come, or ends and gives them.
    pub fn keep(&self, keeps: bool) -> Vec<Bytes> {
        self.keeps.store(keeps, Ordering::Relaxed);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *kept)
    }

    /// Begins to take the times from publishing to here, or ends and gives them.
    pub fn measure(&self, measures: bool) -> Histogram {
        self.measures.store(measures, Ordering::Relaxed);
        let mut latencies = self
            .latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *latencies)
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let is_first = request
            .headers()
            .get("aeg-delivery-count")
            .is_some_and(|count| count == "0");
        let events = request.headers().get("hedgerow-batch-size");
        let events = events.and_then(|count| count.to_str().ok()?.parse::<u64>().ok());
        let mut bytes_of_body = 0;
        let keeps = self.keeps.load(Ordering::Relaxed);
        let mut whole = BytesMut::new();
        let mut body = request.into_body();
        while let Some(Ok(frame)) = body.frame().await {
            let Some(bytes) = frame.data_ref() else {
                continue;
            };
            bytes_of_body += bytes.len() as u64;
            if keeps {
                whole.extend_from_slice(bytes);
            }
            if self.measures.load(Ordering::Relaxed)
                && let Some(age) = events::age(bytes)
            {
                let mut latencies = self
                    .latencies
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                latencies.record(age);
            }
        }
        self.bytes.fetch_add(bytes_of_body, Ordering::Relaxed);
        if keeps {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(whole.freeze());
        }
        self.events
            .fetch_add(events.unwrap_or(1), Ordering::Relaxed);
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let behaviour = self.behaviour.load(Ordering::Relaxed);
        let status = if behaviour == Behaviour::IsBusy as u8
            || (behaviour == Behaviour::FailsSome as u8 && is_first && number.is_multiple_of(10))
        {
            StatusCode::SERVICE_UNAVAILABLE
        } else if behaviour == Behaviour::Fails as u8 {
            StatusCode::INTERNAL_SERVER_ERROR
        } else {
            StatusCode::OK
        };
        if behaviour == Behaviour::Hangs as u8 {
            std::future::pending::<()>().await;
        } else if behaviour == Behaviour::IsSlow as u8 {
            tokio::time::sleep(SLOW).await;
        }
        let bytes = self.answer_bytes.load(Ordering::Relaxed);
        let body = ANSWER.get(..bytes).unwrap_or_default();
        let mut response = Response::new(Full::new(Bytes::from_static(body)));
        *response.status_mut() = status;
        Ok(response)
    }
}

type Told = mpsc::Sender<Result<Vec<Arc<Endpoint>>, String>>;

async fn run(ports: usize, tell: &Told, stopped: oneshot::Receiver<()>) {
    let bound = bind(ports).await;
    let (listeners, endpoints) = match bound {
        Ok(bound) => bound.into_iter().unzip::<_, _, Vec<_>, Vec<_>>(),
        Err(error) => {
            drop(tell.send(Err(error)));
            return;
        }
    };
    for (listener, endpoint) in listeners.into_iter().zip(&endpoints) {
        tokio::spawn(accept(listener, Arc::clone(endpoint)));
    }
    drop(tell.send(Ok(endpoints)));
    // Ends with an error when the receiver is dropped.
    drop(stopped.await);
}

async fn bind(ports: usize) -> Result<Vec<(TcpListener, Arc<Endpoint>)>, String> {
    let mut bound = Vec::new();
    for _ in 0..ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| format!("a receiver cannot listen: {error}"))?;
        let address = listener.local_addr();
        let address = address.map_err(|error| format!("a receiver has no address: {error}"))?;
        let endpoint = Endpoint {
            address,
            behaviour: AtomicU8::new(Behaviour::Accepts as u8),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            events: AtomicU64::new(0),
            kept: Mutex::default(),
            keeps: AtomicBool::new(false),
            latencies: Mutex::default(),
            measures: AtomicBool::new(false),
            answer_bytes: AtomicUsize::new(0),
        };
        bound.push((listener, Arc::new(endpoint)));
    }
    Ok(bound)
}

async fn accept(listener: TcpListener, endpoint: Arc<Endpoint>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely; they come back.
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        tokio::spawn(serve(stream, Arc::clone(&endpoint)));
    }
}

async fn serve(stream: TcpStream, endpoint: Arc<Endpoint>) {
    // A connection that was closed already is met below.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| Arc::clone(&endpoint).answer(request));
    // The other side ends connections as it likes.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
