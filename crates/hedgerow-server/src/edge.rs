//! The edge listener: its addresses, its connections, and what is counted of its requests. The data path is
//! `hedgerow-edge`'s.

mod identity;
mod told;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_edge::{Edge, EdgeOptions};
use hedgerow_origin::settings::Protocol;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

pub use self::told::Told;
use crate::config::{Config, EdgeConfig};
use crate::origins::Origins;
use crate::server::ServerError;
use crate::tls::{Tls, TlsConfig};

/// How long is waited when no connection can be accepted: descriptors have run out, and some will come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The edge, bound and not served yet.
pub struct EdgeListener {
    edge: Edge,
    plain: Option<TcpListener>,
    encrypted: Option<(TcpListener, Arc<Tls>)>,
    handshake_timeout: Duration,
    close_timeout: Duration,
    connections: Arc<Semaphore>,
    addresses: EdgeAddresses,
    origins: Arc<Origins>,
}

/// Where the edge listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EdgeAddresses {
    /// Without TLS.
    pub plain: Option<SocketAddr>,
    /// Over TLS.
    pub encrypted: Option<SocketAddr>,
}

impl EdgeListener {
    /// Binds what is to be listened on; `None` if nothing is.
    pub async fn bind(
        config: &Config,
        origins: &Arc<Origins>,
        told: &Arc<Told>,
    ) -> Result<Option<Self>, ServerError> {
        let settings = &config.edge;
        if !settings.is_on() {
            return Ok(None);
        }
        let plain = listen(settings.listen).await?;
        let encrypted = match listen(settings.tls_listen).await? {
            None => None,
            Some(listener) => certificate(config)?.map(|tls| (listener, tls)),
        };
        let address = |listener: &TcpListener| listener.local_addr().ok();
        let addresses = EdgeAddresses {
            plain: plain.as_ref().and_then(address),
            encrypted: encrypted
                .as_ref()
                .and_then(|(listener, _)| address(listener)),
        };
        let options = options(settings, &config.data, addresses)?;
        let connector = Arc::clone(&origins.connector);
        let edge = Edge::new(
            origins.prober.clone(),
            connector,
            Arc::clone(told) as _,
            options,
        );
        told.serve(edge.clone());
        tracing::info!(?addresses, "the edge listens");
        Ok(Some(Self {
            edge,
            plain,
            encrypted,
            handshake_timeout: config.tls.handshake_timeout,
            close_timeout: config.http.close_timeout,
            connections: Arc::new(Semaphore::new(settings.connections_max)),
            addresses,
            origins: Arc::clone(origins),
        }))
    }

    /// Where it listens.
    pub const fn addresses(&self) -> EdgeAddresses {
        self.addresses
    }

    /// Serves until `closing` says so, then lets requests that were begun end.
    pub async fn serve(self, closing: watch::Receiver<bool>) {
        let Self {
            edge,
            plain,
            encrypted,
            handshake_timeout,
            close_timeout,
            connections,
            origins,
            ..
        } = self;
        let connections_max = connections.available_permits();
        let accepting = Accepting {
            edge: edge.clone(),
            connections: Arc::clone(&connections),
            handshake_timeout,
            closing: closing.clone(),
        };
        let plain = async {
            if let Some(listener) = plain {
                accepting.accept(listener, None).await;
            }
        };
        let tls = encrypted.as_ref().map(|(_, tls)| Arc::clone(tls));
        let encrypted = async {
            if let Some((listener, tls)) = encrypted {
                accepting.accept(listener, Some(tls)).await;
            }
        };
        let beside = async {
            tokio::join!(
                edge.look_after_connections(),
                follow_routes(&edge, &origins),
                follow_certificate(tls),
            )
        };
        let served = async { tokio::join!(plain, encrypted) };
        tokio::select! {
            _ = served => {}
            _ = beside => {}
        }
        // Each connection ends by itself once its request has, or is dropped with the runtime.
        let all = u32::try_from(connections_max).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(close_timeout, connections.acquire_many(all)).await;
    }
}

/// Serves the edge if there is one.
pub async fn serve(listener: Option<EdgeListener>, closing: watch::Receiver<bool>) {
    if let Some(listener) = listener {
        listener.serve(closing).await;
    }
}

/// Hands the routes on as they are declared (HP-006).
async fn follow_routes(edge: &Edge, origins: &Origins) {
    let mut routes = origins.routes();
    loop {
        let declared = Arc::clone(&routes.borrow_and_update());
        edge.set_routes(&declared);
        if routes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

async fn follow_certificate(tls: Option<Arc<Tls>>) {
    match tls {
        Some(tls) => tls.follow().await,
        None => std::future::pending().await,
    }
}

async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, ServerError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| ServerError::Listen { address, source })?;
    Ok(Some(listener))
}

/// The certificate of the edge, or the server's.
fn certificate(config: &Config) -> Result<Option<Arc<Tls>>, ServerError> {
    let own = &config.edge;
    let files = match (&own.tls_certificate_file, &own.tls_key_file) {
        (Some(certificate), Some(key)) => TlsConfig {
            certificate_file: Some(certificate.clone()),
            key_file: Some(key.clone()),
            ..config.tls.clone()
        },
        _ => config.tls.clone(),
    };
    Ok(Tls::load_for(&files, &[b"h2", b"http/1.1"])?)
}

fn options(
    settings: &EdgeConfig,
    data: &Path,
    addresses: EdgeAddresses,
) -> Result<EdgeOptions, ServerError> {
    let identity = identity::load_or_create(data)?;
    let tls_port = addresses.encrypted.map(|address| address.port());
    let https_port = match settings.https_port {
        0 => tls_port.unwrap_or(443),
        port => port,
    };
    let edge_id = match settings.edge_id.as_str() {
        "" => identity.edge_id,
        said => said.to_owned(),
    };
    Ok(EdgeOptions {
        profile: settings.header_profile,
        edge_id,
        trusted_proxies: settings.trusted_proxies.clone(),
        debug_clients: settings.debug_clients.clone(),
        unmatched_status: settings.unmatched_status,
        https_port,
        connect_timeout: settings.connect_timeout,
        response_timeout: settings.response_timeout,
        request_timeout: settings.request_timeout,
        client_idle: settings.client_idle_timeout,
        origin_idle: settings.origin_idle_timeout,
        request_body_bytes_max: settings.max_request_body_bytes,
        websocket_idle: settings.websocket_idle_timeout,
        websocket_time_max: settings.websocket_time_max,
        drain: settings.drain_time,
        requests_max: settings.requests_max,
        affinity_key: identity.affinity_key,
    })
}

/// Takes connections.
struct Accepting {
    edge: Edge,
    connections: Arc<Semaphore>,
    handshake_timeout: Duration,
    closing: watch::Receiver<bool>,
}

impl Accepting {
    async fn accept(&self, listener: TcpListener, tls: Option<Arc<Tls>>) {
        let mut closing = self.closing.clone();
        loop {
            let next = async {
                // Nobody is accepted whom there is no room for: the system's own queue makes them wait.
                let room = Arc::clone(&self.connections).acquire_owned().await;
                let accepted = listener.accept().await?;
                Ok::<_, io::Error>((accepted, room))
            };
            let accepted = tokio::select! {
                accepted = next => accepted,
                _ = closing.wait_for(|closing| *closing) => return,
            };
            match accepted {
                Ok(((stream, peer), room)) => {
                    // An answer is written in one piece; waiting for more of it only delays it.
                    if stream.set_nodelay(true).is_err() {
                        continue;
                    }
                    let served = serve_one(
                        self.edge.clone(),
                        stream,
                        peer,
                        tls.clone(),
                        self.handshake_timeout,
                        self.closing.clone(),
                    );
                    tokio::spawn(async move {
                        served.await;
                        drop(room);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "the edge cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve_one(
    edge: Edge,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<Tls>>,
    handshake_timeout: Duration,
    closing: watch::Receiver<bool>,
) {
    let Some(tls) = tls else {
        return edge
            .serve(stream, peer, Protocol::Http, false, closing)
            .await;
    };
    let shaking = tls.acceptor().accept(stream);
    match tokio::time::timeout(handshake_timeout, shaking).await {
        Ok(Ok(stream)) => {
            let has_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            edge.serve(stream, peer, Protocol::Https, has_http2, closing)
                .await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a handshake at the edge failed"),
        Err(_) => tracing::debug!("a handshake at the edge took too long"),
    }
}
