//! Receivers in this process, on loopback: they take everything or nothing, and remember what they took.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use roaring::RoaringTreemap;
use tokio::net::{TcpListener, TcpStream};

use super::stream::Stream;

/// Bytes of a request.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A receiver. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stream: Stream,
    accepts: AtomicBool,
    requests: AtomicU64,
    taken: AtomicU64,
    duplicates: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    numbers: RoaringTreemap,
    /// The first event that was not as it was published.
    wrong: Option<String>,
}

impl Receiver {
    /// Starts one that accepts everything, or answers 503 to everything.
    pub async fn start(stream: Stream, accepts: bool) -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| format!("a receiver cannot listen: {error}"))?;
        let address = listener
            .local_addr()
            .map_err(|error| format!("a receiver has no address: {error}"))?;
        let shared = Arc::new(Shared {
            stream,
            accepts: AtomicBool::new(accepts),
            requests: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            known: Mutex::default(),
        });
        tokio::spawn(accept(Arc::clone(&shared), listener));
        Ok(Self { address, shared })
    }

    /// Its endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://{}/events", self.address)
    }

    /// From now on it takes everything.
    pub fn recover(&self) {
        self.shared.accepts.store(true, Ordering::SeqCst);
    }

    /// Requests that came, taken or not.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Different events that were taken.
    pub fn taken(&self) -> u64 {
        self.shared.taken.load(Ordering::SeqCst)
    }

    /// Events that were taken again.
    pub fn duplicates(&self) -> u64 {
        self.shared.duplicates.load(Ordering::SeqCst)
    }

    /// Whether it took exactly the events below `count`, each as it was published.
    pub fn check(&self, count: u64) -> Result<(), String> {
        let known = self.shared.known();
        if let Some(wrong) = &known.wrong {
            return Err(wrong.clone());
        }
        let (taken, last) = (known.numbers.len(), known.numbers.max());
        if taken == count && last.is_none_or(|last| last < count) {
            return Ok(());
        }
        let missing = (0..count).find(|number| !known.numbers.contains(*number));
        Err(format!(
            "of {count} events {taken} arrived; the first missing one is {missing:?}, the last that came {last:?}"
        ))
    }
}

impl Shared {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, body: &[u8]) {
        let checked = self.stream.check(body);
        let mut known = self.known();
        match checked {
            Ok(number) if known.numbers.insert(number) => {
                self.taken.fetch_add(1, Ordering::SeqCst);
            }
            Ok(_) => {
                self.duplicates.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => {
                known.wrong.get_or_insert(error);
            }
        }
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely; they come back.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            continue;
        };
        tokio::spawn(serve(Arc::clone(&shared), stream));
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    // An answer that waits for others would look like a slow receiver.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| receive(Arc::clone(&shared), request));
    // How a connection ended says nothing: the requests on it are what counts.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn receive(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> io::Result<Response<Empty<Bytes>>> {
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX)
        .collect()
        .await
        .map_err(io::Error::other)?
        .to_bytes();
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let mut response = Response::new(Empty::new());
    if shared.accepts.load(Ordering::SeqCst) {
        shared.take(&body);
    } else {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}
