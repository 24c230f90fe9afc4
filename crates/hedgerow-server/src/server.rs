//! A server: binds its address, opens the grid on a thread of its own, serves, stops in order.
//!
//! | phase | `/healthz` | publishing and admin | what ends it |
//! | --- | --- | --- | --- |
//! | recovering | 503 `recovering` | 503 with `Retry-After` | the store is open |
//! | serving | 200 | answered | the shutdown, or a failure of the store (recovering again) |
//! | draining | 503 `stopping` | answered | running attempts ended, or the drain time is over |
//! | closing | 503 `stopping` | requests that were begun end | every connection is closed, or the time is over |
//!
//! Signals are not handled here: whoever runs a server says when it stops.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_delivery::grid::{Grid, GridOptions, GridState};
use hedgerow_delivery::settings::EngineSettings;
use hedgerow_io::http::{AddressGuard, Client, ClientOptions, ConnectorOptions, GuardedConnector};
use hedgerow_store::StoreError;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::apply::Applier;
use crate::config::Config;
use crate::descriptors::Descriptors;
use crate::edge::{self, EdgeAddresses, EdgeListener};
use crate::guard::DevGuard;
use crate::handle::{ServerHandle, ServerTime};
use crate::listener::{Listener, ListenerOptions};
use crate::local_dead_letters;
use crate::origins::{self, Destinations, Following, Origins};
use crate::public_url::PublicUrl;
use crate::publish::data_plane::PERIOD;
use crate::state::{App, Counted};
use crate::tls::{Tls, TlsError};
use crate::tokens::Tokens;

/// How often idle outbound connections that are too old are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// What a server needs besides its settings.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// Refuses requests with a foreign `Host` or `Origin`: for `hedgerow dev`.
    pub dev_guard: Option<DevGuard>,
    /// Nothing is attempted before [`ServerHandle::start_deliveries`], so that things can be declared anew first.
    pub starts_held: bool,
    /// How many times as fast as the clocks the server's time passes (design D4): for `hedgerow dev --speed`. `None`: it
    /// passes as it does.
    pub speed: Option<NonZeroU32>,
}

/// Why a server does not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Without TLS, only this machine may reach the server unless told otherwise (ED-008).
    #[error(
        "cannot listen on {address}: it can be reached from other machines, and there is no TLS; set tls.certificate_file \
         and tls.key_file, listen on 127.0.0.1 behind a proxy that speaks TLS, or set insecure_http = true"
    )]
    Insecure {
        /// What `listen` says.
        address: SocketAddr,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; choose another address or stop what uses it")]
    Listen {
        /// What `listen` says.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file of the server's own in the data directory.
    #[error("cannot {doing} {path}; check the permissions of the data directory")]
    File {
        /// The verb.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The admin token in the data directory is none.
    #[error(
        "{path} holds no admin token; remove the file, and a new token is made at the next start"
    )]
    Token {
        /// Which file.
        path: PathBuf,
    },
    /// The file of the tokens cannot be read.
    #[error("{path} cannot be read: {reason}; restore it, or remove it and make the tokens anew")]
    Tokens {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The engine's thread cannot be started.
    #[error("cannot start the engine's thread")]
    Thread(#[source] io::Error),
    /// The store cannot be opened, or cannot go on.
    #[error(transparent)]
    Store(StoreError),
    /// A mistake of ours: the reason stands in the log.
    #[error("the engine ended unexpectedly; this is a bug, please report it with the log")]
    Engine,
}

/// A server that listens. It answers from [`Server::run`] on.
pub struct Server {
    app: Arc<App>,
    listener: Listener,
    tls: Option<Arc<Tls>>,
    local_address: SocketAddr,
    stop_engine: watch::Sender<bool>,
    engine_ended: EngineEnd,
    client: Arc<Client>,
    /// Probes origin groups.
    following: Following,
    edge: Option<EdgeListener>,
    /// The directory of the local default, if there is one.
    local_dead_letters: Option<PathBuf>,
    handle: ServerHandle,
}

impl Server {
    /// Binds the address that `config` names (port 0: any free one), makes the data directory and the admin token if
    /// there are none, and begins to open the grid.
    ///
    /// # Errors
    /// What a person has to act on.
    ///
    /// # Panics
    /// Outside a tokio runtime with time and network. Attempts run on that runtime.
    pub async fn bind(config: Config, options: ServerOptions) -> Result<Self, ServerError> {
        let address = config.listen;
        if config.is_exposed() {
            return Err(ServerError::Insecure { address });
        }
        let tls = Tls::load(&config.tls)?;
        let segments = config.store.bytes_max / u64::from(config.store.segment_bytes);
        let segments = usize::try_from(segments).unwrap_or(usize::MAX);
        let descriptors =
            Descriptors::raise(segments.saturating_add(config.store.free_segments_max));
        let listen = |source| ServerError::Listen { address, source };
        let socket = TcpListener::bind(address).await.map_err(listen)?;
        let local_address = socket.local_addr().map_err(listen)?;
        let tokens = Tokens::load_or_create(&config.data)?;
        local_dead_letters::make(&config)?;

        let outbound = Outbound::new(&config, descriptors);
        let (state, grid) = watch::channel(GridState::Opening);
        let (stop_engine, stop) = watch::channel(false);
        let public_url = PublicUrl::new(config.public_url.as_ref(), local_address, tls.is_some());
        let webhook_origin = match config.engine.webhook_origin.as_str() {
            "" => public_url.host().to_owned(),
            declared => declared.to_owned(),
        };
        let engine = EngineSettings {
            webhook_origin,
            public_url: public_url.as_str().to_owned(),
            starts_held: options.starts_held,
            late_exchanges_max: descriptors.late_exchanges_max(config.engine.late_exchanges_max),
            ..config.engine.clone()
        };
        let started = start_engine(&config, engine, options.speed, &outbound, state, stop)?;

        let handle = ServerHandle::new(
            grid.clone(),
            public_url.clone(),
            started.time,
            config.validation_answer_wait,
        );
        let connections_max = descriptors.inbound_max(config.http.connections_max);
        let listener = ListenerOptions {
            connections_max,
            handshakes_max: config.tls.handshakes_max,
            handshake_timeout: config.tls.handshake_timeout,
            header_timeout: config.http.header_timeout,
            close_timeout: config.http.close_timeout,
        };
        let told = &started.counted.edge;
        let edge = EdgeListener::bind(&config, &started.origins, told).await?;
        let app = Arc::new(App::new(
            &config,
            options.dev_guard,
            public_url,
            tokens,
            grid,
            started.counted,
            started.origins,
        ));
        let listener = Listener::new(socket, tls.clone(), listener);
        tracing::info!(address = %local_address, tls = tls.is_some(), data = %config.data.display(), "listening");
        Ok(Self {
            app,
            listener,
            tls,
            local_address,
            stop_engine,
            engine_ended: started.ended,
            client: outbound.client,
            following: started.following,
            edge,
            local_dead_letters: local_dead_letters::directory(&config),
            handle,
        })
    }

    /// The address it listens on, with the port that it was given.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_address
    }

    /// Where the edge listens, if it does.
    #[must_use]
    pub fn edge_addresses(&self) -> EdgeAddresses {
        self.edge
            .as_ref()
            .map(EdgeListener::addresses)
            .unwrap_or_default()
    }

    /// Where publishers reach it: `public_url`, or made from the address. Without a slash at its end.
    #[must_use]
    pub fn public_url(&self) -> &str {
        self.app.public_url.as_str()
    }

    /// The first token, which may do everything. Secret.
    #[must_use]
    pub fn admin_token(&self) -> &str {
        self.app.tokens.first().as_str()
    }

    /// Whether the first token was made at this start: then it is shown, once.
    #[must_use]
    pub fn has_new_admin_token(&self) -> bool {
        self.app.tokens.first().is_new()
    }

    /// The way to declare many things at once without HTTP.
    #[must_use]
    pub fn applier(&self) -> Applier {
        Applier::new(Arc::clone(&self.app), self.handle.clone())
    }

    /// The way to ask this server without HTTP.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Serves until `shutdown` resolves, then stops in order: `/healthz` answers 503 at once, no attempt is started,
    /// running ones get the drain time while requests are still answered, then connections are closed.
    ///
    /// Dropping the future stops the listener at once and the engine in order, on its own thread.
    ///
    /// # Errors
    /// Why it ended by itself: a store that cannot be opened or went bad.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Self {
            app,
            listener,
            tls,
            stop_engine,
            mut engine_ended,
            client,
            following,
            edge,
            local_dead_letters,
            ..
        } = self;
        let (close, closing) = watch::channel(false);
        // Probes go on while requests are still answered.
        let probing = following.run(closing.clone());
        let forwarding = edge::serve(edge, closing.clone());
        let serving = listener.serve(Arc::clone(&app), closing);
        let until_stopped = async {
            let by_itself = tokio::select! {
                ended = &mut engine_ended => Some(ended),
                () = shutdown => None,
                () = local_dead_letters::keep_tidy(local_dead_letters) => None,
                () = sweep(&client) => None,
                () = follow(tls) => None,
                () = tell_of_requests(&app) => None,
            };
            app.begin_to_stop();
            stop_engine.send_replace(true);
            let ended = match by_itself {
                Some(ended) => ended,
                None => (&mut engine_ended).await,
            };
            close.send_replace(true);
            match ended {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(ServerError::Store(error)),
                Err(_) => Err(ServerError::Engine),
            }
        };
        let (result, (), (), ()) = tokio::join!(until_stopped, serving, forwarding, probing);
        if let Some(data_plane) = &app.data_plane {
            data_plane.tell(app.time());
        }
        if result.is_ok() {
            tracing::info!("stopped");
        }
        result
    }
}

/// Logs who published, minute by minute, if that is asked for (ED-309).
async fn tell_of_requests(app: &App) {
    let Some(data_plane) = &app.data_plane else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(PERIOD).await;
        data_plane.tell(app.time());
    }
}

/// Everything that connects to others, and the guard that judges addresses.
struct Outbound {
    connector: Arc<GuardedConnector>,
    client: Arc<Client>,
    guard: Arc<AddressGuard>,
}

impl Outbound {
    fn new(config: &Config, descriptors: Descriptors) -> Self {
        let connector = Arc::new(GuardedConnector::new(ConnectorOptions {
            allow_networks: config.allow_networks.clone(),
            ..ConnectorOptions::default()
        }));
        let guard = Arc::new(connector.guard().clone());
        let connections_max = descriptors.outbound_max(config.client.connections_max);
        let options = ClientOptions {
            connections_max,
            idle_max: config.client.idle_max.min(connections_max / 2),
            ..config.client.clone()
        };
        let client = Arc::new(Client::new(Arc::clone(&connector) as _, options));
        Self {
            connector,
            client,
            guard,
        }
    }
}

/// How the engine ended.
type EngineEnd = oneshot::Receiver<Result<(), StoreError>>;

/// An engine that runs.
struct StartedEngine {
    ended: EngineEnd,
    /// What it does is counted.
    counted: Counted,
    time: ServerTime,
    /// The groups that it declares, and who probes them.
    origins: Arc<Origins>,
    following: Following,
}

/// Runs the grid on a thread of its own; what it ended with comes through the channel.
fn start_engine(
    config: &Config,
    engine: EngineSettings,
    speed: Option<NonZeroU32>,
    outbound: &Outbound,
    state: watch::Sender<GridState>,
    stop: watch::Receiver<bool>,
) -> Result<StartedEngine, ServerError> {
    let options = GridOptions {
        speed: speed.unwrap_or(NonZeroU32::MIN),
        data: config.data.clone(),
        key_file: config.key_file.clone(),
        dead_letters: config.dead_letter_directory(),
        log: config.store.clone(),
        terminal_records_max: config.terminal_records_max,
        history: config.history.clone(),
        engine,
    };
    let (client, guard) = (Arc::clone(&outbound.client), Arc::clone(&outbound.guard));
    let grid = Grid::new(options, client, guard, Handle::current());
    let time = grid.time();
    let (origins, following) = origins::make(
        &config.probes,
        config.data.clone(),
        Arc::clone(&outbound.connector) as _,
        grid.clock(),
        state.subscribe(),
    );
    let grid = grid.with_origins(Arc::new(Destinations::new(origins.prober.clone())));
    let counted = Counted {
        disk: grid.disk_counts(),
        metrics: grid.metrics(),
        edge: Arc::default(),
    };
    let (end, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("hedgerow-engine".to_owned())
        .spawn(move || {
            let result = grid.run(&state, &stop);
            // Nobody waits any more if the server was dropped.
            let _ = end.send(result);
        })
        .map_err(ServerError::Thread)?;
    Ok(StartedEngine {
        ended,
        counted,
        time,
        origins,
        following,
    })
}

/// Exchanges the certificate when there is a new one. Never ends.
async fn follow(tls: Option<Arc<Tls>>) {
    match tls {
        Some(tls) => tls.follow().await,
        None => std::future::pending().await,
    }
}

/// Never ends.
async fn sweep(client: &Client) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        client.sweep();
    }
}
