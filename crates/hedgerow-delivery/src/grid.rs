//! One node's grid: opens the store, folds it into the view, runs the engine, and opens everything again when the store
//! failed. Starting after a crash, after a failed sync and for the first time are one path (design D5).
//!
//! | state | what publishers and admins meet | what ends it |
//! | --- | --- | --- |
//! | opening | 503 with `Retry-After` | the store is open and folded, or cannot be |
//! | serving | the engine | a stop, or a failure of the store |
//! | stopped | 503 | nothing |

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hedgerow_core::time::{Now, Timestamp};
use hedgerow_io::clock::{Clock, FastClock, OpenExchange, SystemClock};
use hedgerow_io::dead_letter::{LocalDirectory, Reserve};
use hedgerow_io::http::{AddressGuard, Client};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::counting::{CountingDisk, DiskCounts};
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::history::{History, HistoryHandle, HistoryOptions};
use hedgerow_store::log::{Log, LogOptions};
use hedgerow_store::record::Record;
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::table::lsm::LsmTable;
use hedgerow_store::view::{View, ViewOptions};
use hedgerow_store::{Group, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::command::EngineHandle;
use crate::engine::{Engine, Parts};
use crate::in_full;
use crate::metrics::Metrics;
use crate::origins::{NoOrigins, Origins};
use crate::settings::EngineSettings;
use crate::spawner::Spawner;

/// How a grid is kept and run. Plain values.
#[derive(Debug, Clone)]
pub struct GridOptions {
    /// The data directory; made if it is not there.
    pub data: PathBuf,
    /// The file with the key of the secrets; `None` for the one in the data directory.
    pub key_file: Option<PathBuf>,
    /// How the log is kept.
    pub log: LogOptions,
    /// How attempts are remembered.
    pub history: HistoryOptions,
    /// The directory that the dead-letter directories of subscriptions lie in.
    pub dead_letters: PathBuf,
    /// How many terminal records are kept.
    pub terminal_records_max: u64,
    /// How deliveries are made.
    pub engine: EngineSettings,
    /// How many times as fast as the clocks server time passes (design D4); 1 unless somebody wants to watch a day in
    /// minutes.
    pub speed: NonZeroU32,
}

/// What a grid does now.
#[derive(Clone)]
pub enum GridState {
    /// The store is being opened.
    Opening,
    /// Events are taken and delivered.
    Serving(EngineHandle),
    /// It ended.
    Stopped,
}

/// How long after a failure the store is opened again; doubles up to [`REOPEN_DELAY_MAX`].
const REOPEN_DELAY: Duration = Duration::from_millis(100);
const REOPEN_DELAY_MAX: Duration = Duration::from_secs(5);
/// How often the way back from a failure looks whether it is still wanted.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// After so long a time the next failure is a new one.
const SERVED_WELL: Duration = Duration::from_secs(60);
/// Bytes of log that are folded at a time while opening.
const REPLAY_BYTES: usize = 8 * 1024 * 1024;

/// A grid that runs on a thread of its own.
pub struct Grid {
    options: GridOptions,
    client: Arc<Client>,
    guard: Arc<AddressGuard>,
    /// How the origins of groups are.
    origins: Arc<dyn Origins>,
    /// Where attempts run.
    spawner: Handle,
    /// One clock for the life of the process; begins at the first opened store's highest time.
    clock: SharedClock,
    /// When the store was opened first.
    began: OnceLock<Timestamp>,
    /// What was read and written since the process began.
    disk_counts: Arc<DiskCounts>,
    /// What was counted since the process began.
    metrics: Arc<Metrics>,
}

impl Grid {
    /// A grid that is not opened yet.
    #[must_use]
    pub fn new(
        options: GridOptions,
        client: Arc<Client>,
        guard: Arc<AddressGuard>,
        spawner: Handle,
    ) -> Self {
        Self {
            options,
            client,
            guard,
            origins: Arc::new(NoOrigins),
            spawner,
            clock: SharedClock::default(),
            began: OnceLock::new(),
            disk_counts: Arc::default(),
            metrics: Arc::default(),
        }
    }

    /// The same grid, which delivers to the origins of groups too.
    #[must_use]
    pub fn with_origins(self, origins: Arc<dyn Origins>) -> Self {
        Self { origins, ..self }
    }

    /// Says what the server's time is; 1970 before the store was opened first.
    #[must_use]
    pub fn time(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clock.clone();
        Arc::new(move || clock.timestamp())
    }

    /// The server's clock. Only once the store was opened: it begins there.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    /// What goes through the store's disk, counted over all openings of the store.
    #[must_use]
    pub fn disk_counts(&self) -> Arc<DiskCounts> {
        Arc::clone(&self.disk_counts)
    }

    /// What was counted, over all openings of the store.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Runs until `stop` says so. Blocks: for a thread of its own.
    ///
    /// # Errors
    /// What a person has to act on: a store that cannot be opened at the start, that was found damaged later, or that
    /// another server took over.
    pub fn run(
        self,
        state: &watch::Sender<GridState>,
        stop: &watch::Receiver<bool>,
    ) -> Result<(), StoreError> {
        let result = self.run_until_stopped(state, stop);
        state.send_replace(GridState::Stopped);
        result
    }

    fn run_until_stopped(
        &self,
        state: &watch::Sender<GridState>,
        stop: &watch::Receiver<bool>,
    ) -> Result<(), StoreError> {
        let mut delay = REOPEN_DELAY;
        let mut has_served = false;
        loop {
            let opened = self.now();
            let error = match self.serve_once(state, stop.clone(), &mut has_served) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if self.now().since(opened) > SERVED_WELL {
                delay = REOPEN_DELAY;
            }
            state.send_replace(GridState::Opening);
            if !has_served || !may_pass(&error) {
                return Err(error);
            }
            // Nothing acknowledged is lost by it, and the next start does what is left: a stop is a stop.
            if *stop.borrow() {
                tracing::warn!(error = %in_full(&error), "the store failed while the server stopped");
                return Ok(());
            }
            tracing::error!(error = %in_full(&error), "the store failed and is opened again");
            if sleep_unless_stopped(delay, stop) {
                return Ok(());
            }
            delay = (delay * 2).min(REOPEN_DELAY_MAX);
        }
    }

    fn serve_once(
        &self,
        state: &watch::Sender<GridState>,
        stop: watch::Receiver<bool>,
        has_served: &mut bool,
    ) -> Result<(), StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|source| StoreError::Io {
                doing: "start",
                path: "the engine".into(),
                source,
            })?;
        let (log, history, parts) = self.open()?;
        let result = runtime.block_on(async {
            let mut settings = self.options.engine.clone();
            settings.starts_held &= !*has_served;
            let engine = Engine::new(settings, parts);
            *has_served = true;
            state.send_replace(GridState::Serving(engine.handle()));
            engine.run(stop).await
        });
        drop(history);
        // Others may still hold the store; the directory must be free before it is opened again.
        log.close();
        result
    }

    /// The time; only once the store was opened.
    fn now(&self) -> Timestamp {
        self.clock.timestamp()
    }

    /// Opens log and view, and folds what the view has not seen.
    fn open(&self) -> Result<(Arc<Log>, Option<History>, Parts), StoreError> {
        let disk = RealDisk::new(&self.options.data).map_err(|source| StoreError::Io {
            doing: "open",
            path: self.options.data.display().to_string(),
            source,
        })?;
        let counts = self.disk_counts();
        let disk: Arc<dyn Disk> = Arc::new(CountingDisk::new(Arc::new(disk), counts));
        let clock = self.clock.clone();
        let issue: Arc<dyn Fn() -> Timestamp + Send + Sync> =
            Arc::new(move || clock.now().timestamp);
        let recovered = Log::open(
            Arc::clone(&disk),
            self.options.log.clone(),
            Arc::clone(&issue),
        )?;
        let stopped = recovered.clock_high_water();
        self.clock.begin(self.options.speed, stopped);
        let (store_id, epoch) = (recovered.store_id(), recovered.epoch());
        let table = Arc::new(LsmTable::open(&self.options.data.join("view"))?);
        let view_options = ViewOptions {
            store_id,
            terminal_records_max: self.options.terminal_records_max,
        };
        let secrets = Arc::new(match &self.options.key_file {
            Some(path) => Secrets::from_file(path)?,
            None => Secrets::open(disk.as_ref())?,
        });
        let mut view = View::open(table, disk.as_ref(), Arc::clone(&secrets), view_options)?;
        let history = self.start_history(&disk, Arc::clone(&issue));
        // What became durable just before a crash may not have been remembered.
        view.catch_up_telling(&recovered, REPLAY_BYTES, |group| {
            if let Some(history) = &history {
                remember_ids(&history.handle(), group);
            }
        })?;
        // Nothing that was folded needed a key if there is none.
        secrets.make_missing(disk.as_ref())?;
        let work = recovered.work();
        tracing::info!(
            segments = work.segments,
            indexes_used = work.indexes_used,
            scanned_bytes = work.scanned_bytes,
            "the store is open"
        );
        let log = Arc::new(recovered.start(&view.next_seqs()));
        let store: Arc<dyn Store> = Arc::clone(&log) as Arc<dyn Store>;
        let (counted, options) = (Arc::clone(&disk), &self.options);
        let dead_letters = LocalDirectory::new(options.dead_letters.clone()).leaving(Reserve {
            directory: options.data.clone(),
            bytes: options.log.disk_reserve_bytes,
            free_bytes: Arc::new(move || counted.free_space()),
        });
        let parts = Parts {
            history: history.as_ref().map(History::handle),
            store,
            view,
            disk,
            dead_letters: Arc::new(dead_letters),
            clock: Arc::new(self.clock.clone()),
            client: Arc::clone(&self.client),
            guard: Arc::clone(&self.guard),
            origins: Arc::clone(&self.origins),
            store_id,
            epoch,
            spawner: Spawner::new(self.spawner.clone()),
            metrics: self.metrics(),
            process_began: *self.began.get_or_init(|| self.now()),
            stopped,
        };
        Ok((log, history, parts))
    }

    /// Begins to remember attempts in the directory, which is ours once the log is open.
    fn start_history(
        &self,
        disk: &Arc<dyn Disk>,
        clock: hedgerow_store::log::Clock,
    ) -> Option<History> {
        let reserve = self.options.log.disk_reserve_bytes;
        let options = HistoryOptions {
            // It stops to grow well before publishing has to.
            disk_reserve_bytes: reserve.saturating_mul(3),
            ..self.options.history.clone()
        };
        options
            .is_enabled
            .then(|| History::start(Arc::clone(disk), options, clock))
    }
}

fn remember_ids(history: &HistoryHandle, group: &Group) {
    for record in &group.records {
        if let Record::Events(events) = record {
            history.accept(events);
        }
    }
}

/// One clock for the life of the process, which begins when the store is opened first.
#[derive(Clone, Default)]
struct SharedClock(Arc<OnceLock<Box<dyn Clock>>>);

impl SharedClock {
    fn begin(&self, speed: NonZeroU32, high_water: Timestamp) {
        self.0.get_or_init(|| {
            if speed == NonZeroU32::MIN {
                Box::new(SystemClock::new(high_water))
            } else {
                Box::new(FastClock::new(speed, high_water))
            }
        });
    }

    /// The time; 1970 before it began.
    fn timestamp(&self) -> Timestamp {
        let clock = self.0.get();
        clock.map_or(Timestamp::ZERO, |clock| clock.now().timestamp)
    }

    fn inner(&self) -> &dyn Clock {
        let clock = self.0.get();
        clock
            .expect("the clock begins before anything is read or written")
            .as_ref()
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Now {
        self.inner().now()
    }

    fn passed(&self, since: Now, until: Now) -> Duration {
        self.inner().passed(since, until)
    }

    fn wait(&self, span: Duration) -> Duration {
        self.inner().wait(span)
    }

    fn speed(&self) -> NonZeroU32 {
        self.inner().speed()
    }

    fn open_exchange(&self) -> OpenExchange {
        self.inner().open_exchange()
    }

    fn wall(&self) -> Timestamp {
        self.inner().wall()
    }
}

/// Sleeps, and looks at `stop` meanwhile. Returns whether it says so.
fn sleep_unless_stopped(span: Duration, stop: &watch::Receiver<bool>) -> bool {
    let mut left = span;
    while !left.is_zero() && !*stop.borrow() {
        let part = left.min(LOOK_INTERVAL);
        std::thread::sleep(part);
        left -= part;
    }
    *stop.borrow()
}

/// Whether a failure may be gone when the store is opened again. Damage is not; and a store that another server took
/// over must not be taken back ([`StoreError::Fenced`]).
fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Closed | StoreError::Io { .. } | StoreError::View { .. } => true,
        // Another server may have taken the directory only while this one had let go of it.
        _ => false,
    }
}
