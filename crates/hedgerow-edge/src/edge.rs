//! The edge: what all of its connections share, and where one begins.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hedgerow_core::name::RouteName;
use hedgerow_io::http::{Connect, Target};
use hedgerow_origin::route::RouteSettings;
use hedgerow_origin::settings::Protocol;
use hedgerow_origin::window::State;
use hedgerow_prober::service::ProberHandle;
use ring::hmac;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::decide::Came;
use crate::http1::Http1;
use crate::http2;
use crate::limits;
use crate::observer::Observer;
use crate::options::EdgeOptions;
use crate::pool::Pool;
use crate::routing::{Groups, Routes};
use crate::stream::ClientStream;

/// What connections share.
pub(crate) struct Shared {
    pub options: EdgeOptions,
    pub prober: ProberHandle,
    pub groups: Groups,
    pub pool: Pool,
    pub observer: Arc<dyn Observer>,
    pub affinity_key: hmac::Key,
    pub routes: watch::Sender<Arc<Routes>>,
    requests: AtomicUsize,
    began: Instant,
}

impl Shared {
    /// Time since the edge began.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Begins a request; `None` if there are too many at a time.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Running> {
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        let running = Running(Arc::clone(self));
        (before < self.options.requests_max).then_some(running)
    }
}

/// A request that runs, until this is dropped.
pub(crate) struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The edge listener's data path. Cheap to clone.
#[derive(Clone)]
pub struct Edge(Arc<Shared>);

impl Edge {
    /// An edge without routes.
    #[must_use]
    pub fn new(
        prober: ProberHandle,
        connector: Arc<dyn Connect>,
        observer: Arc<dyn Observer>,
        options: EdgeOptions,
    ) -> Self {
        let pool = Pool::new(connector, options.connect_timeout, options.origin_idle);
        let (routes, _) = watch::channel(Arc::new(Routes::new(&[])));
        Self(Arc::new(Shared {
            affinity_key: hmac::Key::new(hmac::HMAC_SHA256, &options.affinity_key),
            options,
            prober,
            groups: Groups::default(),
            pool,
            observer,
            routes,
            requests: AtomicUsize::new(0),
            began: Instant::now(),
        }))
    }

    /// Replaces all routes, from the next request on.
    pub fn set_routes(&self, declared: &[(RouteName, RouteSettings)]) {
        self.0.routes.send_replace(Arc::new(Routes::new(declared)));
    }

    /// Serves a client's connection until it ends, or, once `closing` says so, until its request has ended. `has_http2` says what
    /// was agreed on.
    pub async fn serve(
        &self,
        stream: impl ClientStream,
        peer: SocketAddr,
        scheme: Protocol,
        has_http2: bool,
        closing: watch::Receiver<bool>,
    ) {
        let came = Came { peer, scheme };
        let shared = Arc::clone(&self.0);
        if has_http2 {
            http2::serve(shared, stream, came, closing).await;
        } else {
            Http1::new(shared, stream, came, closing).run().await;
        }
    }

    /// Looks after idle connections to origins, for as long as it is polled (HP-186, HP-188).
    pub async fn look_after_connections(&self) {
        loop {
            tokio::time::sleep(limits::SWEEP_INTERVAL).await;
            self.sweep();
        }
    }

    /// Idle connections to origins.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.0.pool.idle_count()
    }

    /// Requests that run.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed)
    }

    fn sweep(&self) {
        let shared = &self.0;
        let mut wanted: Vec<Arc<Target>> = Vec::new();
        for group in shared.groups.all() {
            if group.live.is_gone() {
                continue;
            }
            let current = group.live.current();
            let origins = group.origins(&current.group, &shared.affinity_key);
            let is_failing_open = current.snapshot.is_all_unhealthy();
            let views = current.snapshot.origins().iter().enumerate();
            for (place, view) in views {
                let is_good = view.state != State::Unhealthy || is_failing_open;
                if !current.snapshot.is_usable(place) || !is_good {
                    continue;
                }
                for protocol in [Protocol::Http, Protocol::Https] {
                    wanted.extend(origins.target(place, protocol).map(Arc::clone));
                }
            }
        }
        shared
            .pool
            .sweep(|target| wanted.iter().any(|one| **one == *target));
    }
}
