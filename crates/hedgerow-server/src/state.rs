//! What all requests share.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hedgerow_core::dead_letter::DeadLetterSettings;
use hedgerow_core::filter::FilterRules;
use hedgerow_core::hold::DelayedDeliverySettings;
use hedgerow_core::limits;
use hedgerow_core::position::TopicId;
use hedgerow_core::spec::{FilterLimits, ProbationSpec, Profile};
use hedgerow_core::text;
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::{EngineHandle, PublishTopic};
use hedgerow_delivery::grid::GridState;
use hedgerow_delivery::metrics::Metrics;
use hedgerow_io::clock::{Clock, SystemClock};
use hedgerow_store::disk::counting::DiskCounts;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::config::{Config, MetricsOptions};
use crate::edge::Told;
use crate::guard::DevGuard;
use crate::origins::Origins;
use crate::public_url::PublicUrl;
use crate::publish::data_plane::DataPlane;
use crate::publish::rates::PublishRates;
use crate::publish::store_room::StoreRoom;
use crate::tokens::Tokens;

/// Bytes of a body that one permit of [`App::room_for_body`] stands for.
const BODY_PERMIT_BYTES: usize = 1024;

/// What all requests share. Read-only but for the stop.
pub struct App {
    /// Where publishers reach the server.
    pub public_url: PublicUrl,
    /// Who bears which token.
    pub tokens: Tokens,
    /// Refuses foreign hosts and origins, if there is one.
    pub guard: Option<DevGuard>,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// `responseTimeoutSeconds` of subscriptions that do not say it.
    pub response_timeout: Duration,
    /// How long the answer to a declaration waits for the handshake with its endpoint.
    pub validation_answer_wait: Duration,
    /// Which defaults subscriptions have.
    pub profile: Profile,
    /// `deadLetter` of subscriptions that do not say it.
    pub dead_letter: DeadLetterSettings,
    /// Whether subscriptions that do not name a destination of dead letters get the local one.
    pub dead_letter_local_default: bool,
    /// `probation` of subscriptions that do not say it.
    pub probation: ProbationSpec,
    /// `delayedDelivery` of subscriptions that do not say it.
    pub delayed_delivery: DelayedDeliverySettings,
    /// How filters are understood.
    pub filter_rules: FilterRules,
    /// How large they may be.
    pub filter_limits: FilterLimits,
    /// What the store read and wrote since the server began.
    pub disk_counts: Arc<DiskCounts>,
    /// What was counted since the server began.
    pub metrics: Arc<Metrics>,
    /// How it is shown.
    pub metrics_options: MetricsOptions,
    /// Origin groups: what probes them, and what is known of them.
    pub origins: Arc<Origins>,
    /// What was counted of the edge's requests.
    pub edge: Arc<Told>,
    grid: watch::Receiver<GridState>,
    /// How much longer than they say signatures are taken (ED-021).
    pub sas_clock_skew: Duration,
    /// How fast topics are published to, if that is limited.
    pub publish_rates: Option<PublishRates>,
    /// Where publishers wait for room in the log.
    pub store_room: StoreRoom,
    /// Who publishes from where, if that is logged.
    pub data_plane: Option<DataPlane>,
    bodies: Semaphore,
    /// Topics of which a long name of an extension attribute was logged.
    long_extensions: Mutex<HashSet<TopicId>>,
    is_stopping: AtomicBool,
    clock: SystemClock,
}

/// What is counted while the server runs.
#[derive(Default)]
pub struct Counted {
    /// What the store read and wrote.
    pub disk: Arc<DiskCounts>,
    /// Everything else.
    pub metrics: Arc<Metrics>,
    /// The edge's requests.
    pub edge: Arc<Told>,
}

/// What the server does now, as `/healthz` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Everything is served.
    Serving,
    /// The store is being opened.
    Recovering,
    /// The server stops.
    Stopping,
}

/// There is no engine now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unavailable(pub Phase);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Phase::Serving | Phase::Recovering => "the store is being opened",
            Phase::Stopping => "the server is stopping",
        })
    }
}

impl App {
    pub fn new(
        config: &Config,
        guard: Option<DevGuard>,
        public_url: PublicUrl,
        tokens: Tokens,
        grid: watch::Receiver<GridState>,
        counted: Counted,
        origins: Arc<Origins>,
    ) -> Self {
        Self {
            public_url,
            tokens,
            guard,
            body_timeout: config.http.body_timeout,
            response_timeout: config.response_timeout,
            validation_answer_wait: config.validation_answer_wait,
            profile: config.engine.profile,
            dead_letter: config.dead_letter.settings,
            dead_letter_local_default: config.dead_letter.local_default,
            probation: config.probation,
            delayed_delivery: config.delayed_delivery,
            filter_rules: config.engine.filter_rules,
            filter_limits: config.engine.filter_limits,
            disk_counts: counted.disk,
            metrics: counted.metrics,
            metrics_options: config.metrics,
            origins,
            edge: counted.edge,
            grid,
            sas_clock_skew: config.sas_clock_skew,
            long_extensions: Mutex::default(),
            publish_rates: PublishRates::new(config.rate_limits),
            store_room: StoreRoom::new(config.http.room_wait),
            data_plane: config.log_data_plane_requests.then(DataPlane::default),
            bodies: Semaphore::new(config.http.bodies_bytes_max / BODY_PERMIT_BYTES),
            is_stopping: AtomicBool::new(false),
            // Not the server's own time, which may be fast (design D4): events get that from the store.
            clock: SystemClock::new(Timestamp::ZERO),
        }
    }

    /// The engine, if there is one now.
    pub fn engine(&self) -> Result<EngineHandle, Unavailable> {
        match &*self.grid.borrow() {
            GridState::Serving(engine) => Ok(engine.clone()),
            GridState::Opening => Err(Unavailable(Phase::Recovering)),
            GridState::Stopped => Err(Unavailable(Phase::Stopping)),
        }
    }

    pub fn phase(&self) -> Phase {
        if self.is_stopping.load(Ordering::Relaxed) {
            return Phase::Stopping;
        }
        match &*self.grid.borrow() {
            GridState::Serving(_) => Phase::Serving,
            GridState::Opening => Phase::Recovering,
            GridState::Stopped => Phase::Stopping,
        }
    }

    /// From here on `/healthz` says so.
    pub fn begin_to_stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// The system clock's time: for credentials, and for what stands in messages.
    pub fn time(&self) -> Timestamp {
        self.clock.now().timestamp
    }

    /// Logs the name of an extension attribute that is longer than names should be, once for each topic (ED-046).
    pub fn note_long_extension(&self, topic: &PublishTopic, name: &str) {
        let mut logged = self
            .long_extensions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if logged.insert(topic.id) {
            let attribute = text::beginning(name, limits::NAME_IN_MESSAGE_BYTES_MAX);
            tracing::warn!(
                topic = topic.name,
                attribute,
                advised_max = limits::EXTENSION_NAME_LEN_ADVISED,
                "events have an extension attribute with a long name; some receivers will not take it"
            );
        }
    }

    /// Waits until a published body of at most `bytes` may be read into memory, as long as bodies may take.
    pub async fn room_for_body(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let permits = u32::try_from(bytes.div_ceil(BODY_PERMIT_BYTES)).unwrap_or(u32::MAX);
        let room = self.bodies.acquire_many(permits);
        tokio::time::timeout(self.body_timeout, room)
            .await
            .ok()?
            .ok()
    }
}

/// Shared by all connections.
pub type SharedApp = Arc<App>;
