//! Accepts connections, so many at a time, and ends them in order when the server closes. Knows nothing of requests.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::service::Requests;
use crate::state::SharedApp;

/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long is waited when no connection can be accepted: descriptors have run out, and some will come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How connections are taken.
#[derive(Debug, Clone, Copy)]
pub struct ListenerOptions {
    /// Connections at a time; further ones wait in the system's queue.
    pub connections_max: usize,
    /// How long the head of a request may take, and how long a connection may idle.
    pub header_timeout: Duration,
    /// How long connections get to end when the server closes.
    pub close_timeout: Duration,
}

/// An address that is listened on.
pub struct Listener {
    socket: TcpListener,
    options: ListenerOptions,
}

impl Listener {
    pub const fn new(socket: TcpListener, options: ListenerOptions) -> Self {
        Self { socket, options }
    }

    /// Serves until `closing` says so, then lets requests that were begun end. When it returns there is no connection.
    pub async fn serve(self, app: SharedApp, mut closing: watch::Receiver<bool>) {
        let connections_max = u32::try_from(self.options.connections_max).unwrap_or(u32::MAX);
        let connections = Arc::new(Semaphore::new(connections_max as usize));
        let requests = Arc::new(Requests::new(app));
        loop {
            let next = async {
                let permit = Arc::clone(&connections).acquire_owned().await;
                (
                    permit.expect("the semaphore is never closed"),
                    self.socket.accept().await,
                )
            };
            let (permit, accepted) = tokio::select! {
                next = next => next,
                () = until(&mut closing) => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    let requests = Arc::clone(&requests);
                    let (options, closing) = (self.options, closing.clone());
                    tokio::spawn(async move {
                        connection(stream, requests, options, closing).await;
                        drop(permit);
                    });
                }
                Err(error) => pause(&error).await,
            }
        }
        drop(self.socket);
        // Each connection ends within the close time by itself.
        let _all = connections.acquire_many(connections_max).await;
    }
}

/// Waits until the flag is set, or until nobody can set it any more.
async fn until(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

/// Some errors are the connection's own and over with it; others last.
async fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    ) {
        tracing::warn!(%error, "cannot accept connections; more open files may be needed");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

async fn connection(
    stream: TcpStream,
    requests: Arc<Requests>,
    options: ListenerOptions,
    mut closing: watch::Receiver<bool>,
) {
    // An answer is written in one piece; waiting for more of it only delays it.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection ended at once");
        return;
    }
    let service = service_fn(move |request| {
        let requests = Arc::clone(&requests);
        async move { Ok::<_, std::convert::Infallible>(requests.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .max_header_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = until(&mut closing) => None,
    };
    let ended = if ended.is_some() {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        tokio::time::timeout(options.close_timeout, connection)
            .await
            .ok()
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
