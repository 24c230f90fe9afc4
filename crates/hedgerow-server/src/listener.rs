//! Accepts connections, so many at a time, and ends them in order when the server closes. Knows nothing of requests.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::limits;
use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ProtocolVersion;
use tokio_rustls::server::TlsStream;

use crate::connections::{Answered, Connection, Connections, LET_GO_TIME};
use crate::publish::data_plane::Peer;
use crate::service::{AnswerBody, Requests};
use crate::state::SharedApp;
use crate::tls::Tls;
use crate::unreadable::{self, Answering};

/// How long is waited when no connection can be accepted: descriptors have run out, and some will come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes that are read and thrown away of a client that still sends when its connection is closed. To one that is closed
/// while there is something to read, the answer is lost: it may write everything before it reads.
const LINGER_BYTES_MAX: usize = 64 << 20;
/// How long they are read.
const LINGER_TIME: Duration = Duration::from_secs(10);
/// How long is waited for the next of them.
const LINGER_QUIET_TIME: Duration = Duration::from_secs(1);
/// How many are read at a time.
const LINGER_BUFFER_BYTES: usize = 16 << 10;

/// How connections are taken.
#[derive(Debug, Clone, Copy)]
pub struct ListenerOptions {
    /// Connections at a time.
    pub connections_max: usize,
    /// Handshakes of TLS at a time.
    pub handshakes_max: usize,
    /// How long one may take.
    pub handshake_timeout: Duration,
    /// How long the head of a request may take, and how long a connection may idle.
    pub header_timeout: Duration,
    /// How long connections get to end when the server closes.
    pub close_timeout: Duration,
}

/// An address that is listened on.
pub struct Listener {
    socket: TcpListener,
    tls: Option<Arc<Tls>>,
    options: ListenerOptions,
}

impl Listener {
    pub const fn new(socket: TcpListener, tls: Option<Arc<Tls>>, options: ListenerOptions) -> Self {
        Self {
            socket,
            tls,
            options,
        }
    }

    /// Serves until `closing` says so, then lets requests that were begun end. When it returns there is no connection.
    pub async fn serve(self, app: SharedApp, mut closing: watch::Receiver<bool>) {
        let Self {
            socket,
            tls,
            options,
        } = self;
        let connections = Connections::new(options.connections_max, options.handshakes_max);
        let requests = Arc::new(Requests::new(app));
        loop {
            // Room is looked for when somebody has come: who is quiet is not let go for nobody.
            let next = async {
                let (stream, _) = socket.accept().await?;
                Ok((stream, connections.admit().await))
            };
            let accepted = tokio::select! {
                next = next => next,
                () = until(&mut closing) => break,
            };
            match accepted {
                Ok((stream, connection)) => {
                    let served = Served {
                        connection: Arc::new(connection),
                        requests: Arc::clone(&requests),
                        options,
                        closing: closing.clone(),
                        peer: None,
                    };
                    let acceptor = tls.as_ref().map(|tls| tls.acceptor());
                    tokio::spawn(served.serve(stream, acceptor));
                }
                Err(error) => pause(&error).await,
            }
        }
        drop(socket);
        // Each connection ends within the close time by itself.
        connections.ended(options.connections_max).await;
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

/// A connection that is served.
struct Served {
    connection: Arc<Connection>,
    requests: Arc<Requests>,
    options: ListenerOptions,
    closing: watch::Receiver<bool>,
    /// The other side, if anybody asks for it.
    peer: Option<Peer>,
}

impl Served {
    async fn serve(mut self, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
        // An answer is written in one piece; waiting for more of it only delays it.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection ended at once");
            return;
        }
        let is_wanted = self.requests.app().data_plane.is_some();
        let address = is_wanted.then(|| stream.peer_addr().ok()).flatten();
        self.peer = address.map(|address| Peer {
            address: address.ip().to_canonical(),
            tls_version: None,
        });
        let Some(acceptor) = acceptor else {
            return self.requests_of(stream).await;
        };
        let app = self.requests.app();
        let accepted = tokio::select! {
            accepted = handshake(&self.connection, stream, &acceptor, self.options, app) => accepted,
            () = self.connection.let_go() => None,
            () = until(&mut self.closing) => None,
        };
        match accepted {
            Some(Shaken::Encrypted(stream)) => {
                if let Some(peer) = &mut self.peer {
                    peer.tls_version = tls_version(&stream);
                }
                self.requests_of(*stream).await;
            }
            Some(Shaken::Refused(stream)) => self.linger(stream).await,
            None => {}
        }
    }

    async fn requests_of(mut self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        if self.answer_requests(&mut stream).await {
            self.linger(stream).await;
        }
    }

    async fn linger(mut self, stream: impl AsyncRead + Unpin) {
        tokio::select! {
            () = linger(stream) => {},
            () = until(&mut self.closing) => {},
            () = self.connection.let_go() => {},
        }
    }

    /// Returns whether the connection ended by itself: the client may still be sending then.
    async fn answer_requests(&mut self, stream: impl AsyncRead + AsyncWrite + Unpin) -> bool {
        let (connection, requests) = (Arc::clone(&self.connection), Arc::clone(&self.requests));
        let peer = self.peer;
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            if let Some(peer) = peer {
                request.extensions_mut().insert(peer);
            }
            let (connection, requests) = (Arc::clone(&connection), Arc::clone(&requests));
            async move { Ok::<_, Infallible>(answer(&connection, &requests, request).await) }
        });
        let stream = Answering::new(stream, self.requests.app().clone());
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.header_timeout)
            .max_header_size(limits::REQUEST_HEAD_BYTES_MAX)
            .max_headers(limits::REQUEST_HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut served = pin!(served);
        let (ended, time) = tokio::select! {
            ended = served.as_mut() => (Some(ended), Duration::ZERO),
            () = until(&mut self.closing) => (None, self.options.close_timeout),
            () = self.connection.let_go() => (None, self.time_to_end()),
        };
        let ended = match ended {
            None if time.is_zero() => return false,
            None => {
                served.as_mut().graceful_shutdown();
                tokio::time::timeout(time, served).await.ok()
            }
            ended => ended,
        };
        match ended {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection broke");
                error.is_parse()
            }
            None => false,
        }
    }

    /// How long a connection that is let go gets: one that never had a request has nothing to end.
    fn time_to_end(&self) -> Duration {
        if self.connection.is_busy() {
            self.options.close_timeout
        } else if self.connection.is_fresh() {
            Duration::ZERO
        } else {
            LET_GO_TIME
        }
    }
}

/// Reads what a client still sends, within bounds, so that it gets to read its answer.
async fn linger(mut stream: impl AsyncRead + Unpin) {
    let reading = async {
        let mut buffer = vec![0; LINGER_BUFFER_BYTES];
        let mut len = 0;
        while len <= LINGER_BYTES_MAX {
            match tokio::time::timeout(LINGER_QUIET_TIME, stream.read(&mut buffer)).await {
                Ok(Ok(read)) if read > 0 => len += read,
                _ => break,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER_TIME, reading).await;
}

async fn answer(
    connection: &Arc<Connection>,
    requests: &Requests,
    request: http::Request<Incoming>,
) -> Response<Answered<AnswerBody>> {
    let kind = Requests::kind(&request);
    let Some(begun) = connection.begin(kind) else {
        let refused = requests.refuse_beyond_share(kind);
        return refused.map(|body| Answered::new(body, None));
    };
    let answer = requests.answer(request).await;
    answer.map(|body| Answered::new(body, Some(begun)))
}

/// What a handshake came to.
enum Shaken {
    Encrypted(Box<TlsStream<TcpStream>>),
    /// The client sent a request in the clear, and was told.
    Refused(TcpStream),
}

/// `None` if there is no TLS to be had with this client, or not in time.
async fn handshake(
    connection: &Connection,
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    options: ListenerOptions,
    app: &SharedApp,
) -> Option<Shaken> {
    let accepted = tokio::time::timeout(options.handshake_timeout, async {
        let _place = connection.begin_handshake().await;
        // Before TLS has it: that answers what is none of it with an alert, which no HTTP client can read.
        if is_plain(&stream).await? {
            return refuse_plain(stream, app).await.map(Shaken::Refused);
        }
        let encrypted = acceptor.accept(stream).await?;
        Ok::<_, io::Error>(Shaken::Encrypted(Box::new(encrypted)))
    });
    match accepted.await {
        Ok(Ok(shaken)) => Some(shaken),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("a handshake took too long");
            None
        }
    }
}

/// The version that was agreed on.
fn tls_version(stream: &TlsStream<TcpStream>) -> Option<&'static str> {
    let (_, connection) = stream.get_ref();
    match connection.protocol_version()? {
        ProtocolVersion::TLSv1_2 => Some("1.2"),
        ProtocolVersion::TLSv1_3 => Some("1.3"),
        _ => None,
    }
}

/// Waits for the first byte of a client.
async fn is_plain(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let peeked = stream.peek(&mut first).await?;
    Ok(peeked > 0 && unreadable::is_plain(first[0]))
}

async fn refuse_plain(mut stream: TcpStream, app: &SharedApp) -> io::Result<TcpStream> {
    stream.write_all(&unreadable::to_plain(app)).await?;
    stream.shutdown().await?;
    Ok(stream)
}
