//! Origin groups on this server: follows what is declared, lets the prober probe it, and keeps what people want to see of it.
//!
//! ```text
//!   catalog --> follow --> prober: groups that come, change and go       (HP-006)
//!                     '--> routes: what the edge listener serves
//!   prober  --> story: recent changes, counts, log records               (HP-095, HP-207 to HP-209)
//!           --> windows file, every minute and at the end                (HP-197)
//! ```

mod destinations;
mod estimate;
mod story;
mod windows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::name::{OriginGroupName, RouteName};
use hedgerow_delivery::command::EngineHandle;
use hedgerow_delivery::grid::GridState;
use hedgerow_delivery::origin_groups::OriginTable;
use hedgerow_io::clock::Clock;
use hedgerow_io::http::Connect;
use hedgerow_origin::node::Saved;
use hedgerow_origin::route::RouteSettings;
use hedgerow_prober::{Options, Prober, ProberHandle};
use hedgerow_store::catalog::OriginGroup;
use tokio::sync::{oneshot, watch};
use tokio::time::MissedTickBehavior;

use crate::config::ProbesConfig;

pub use self::destinations::Destinations;
pub use self::estimate::{GroupLoad, OriginEstimate, estimate_of, warnings};
pub use self::story::{Counts, GroupCounts, OriginCounts, Story};
use self::windows::WindowsFile;

/// How often windows are saved. Source: HP-197.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// The routes that are declared, by name, those that are not enabled among them. Who serves them reads them anew when the
/// channel changes: that is within milliseconds of the answer to the change (HP-006).
pub type RouteList = Arc<[(RouteName, RouteSettings)]>;

/// What all requests share of it.
pub struct Origins {
    /// Steers the prober, and gives the groups that requests go to.
    pub prober: ProberHandle,
    /// What happened.
    pub story: Arc<Story>,
    /// Opens connections as probes do, for one that is sent by hand.
    pub connector: Arc<dyn Connect>,
    /// What probes by hand are dated by, as all others.
    pub clock: Arc<dyn Clock>,
    /// What estimates call this node.
    pub region: String,
    routes: watch::Receiver<RouteList>,
}

impl Origins {
    /// The routes, for whoever serves them.
    #[must_use]
    pub fn routes(&self) -> watch::Receiver<RouteList> {
        self.routes.clone()
    }
}

/// Follows the catalog and probes, while it is [run](Following::run).
pub struct Following {
    prober: Prober,
    handle: ProberHandle,
    story: Arc<Story>,
    grid: watch::Receiver<GridState>,
    routes: watch::Sender<RouteList>,
    file: WindowsFile,
    groups: BTreeMap<OriginGroupName, Arc<OriginGroup>>,
}

/// The prober of a server and everything around it, and what runs it.
pub fn make(
    config: &ProbesConfig,
    data: PathBuf,
    connector: Arc<dyn Connect>,
    clock: Arc<dyn Clock>,
    grid: watch::Receiver<GridState>,
) -> (Arc<Origins>, Following) {
    let of_clock = Arc::clone(&clock);
    let time = move || of_clock.now().timestamp.as_millis();
    let story = Arc::new(Story::new(config.region.clone(), time));
    let options = Options {
        // Servers that start together must not probe together (HP-080).
        seed: hedgerow_io::chance::number(),
        probes_per_second: config.budget_per_s,
    };
    let observer = Arc::clone(&story) as _;
    let (prober, handle) = Prober::new(
        Arc::clone(&connector),
        Arc::clone(&clock),
        observer,
        options,
    );
    let (routes, routes_seen) = watch::channel(RouteList::from([]));
    let origins = Arc::new(Origins {
        prober: handle.clone(),
        story: Arc::clone(&story),
        connector,
        clock,
        region: config.region.clone(),
        routes: routes_seen,
    });
    let following = Following {
        prober,
        handle,
        story,
        grid,
        routes,
        file: WindowsFile::new(data),
        groups: BTreeMap::new(),
    };
    (origins, following)
}

impl Following {
    /// Probes what is declared until `stop` says so, or until there will be no store any more. Then windows are saved.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let Self {
            prober,
            handle,
            story,
            mut grid,
            routes,
            file,
            groups,
        } = self;
        let mut follower = Follower {
            handle,
            story,
            routes,
            file: Arc::new(file),
            groups,
        };
        // The server's time begins when the store is open.
        let first = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            first = serving(&mut grid) => first,
        };
        let Some(first) = first else { return };
        let (end, ended) = oneshot::channel::<()>();
        let probing = tokio::spawn(prober.run(async {
            // Whoever lets go of the other end wants it to end too.
            let _ = ended.await;
        }));
        follower.restore().await;
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => {}
            () = follower.follow(first, &mut grid) => {}
        }
        drop(end);
        match probing.await {
            Ok(saved) => follower.save(saved).await,
            Err(error) => tracing::error!(%error, "the prober ended unexpectedly"),
        }
    }
}

struct Follower {
    handle: ProberHandle,
    story: Arc<Story>,
    routes: watch::Sender<RouteList>,
    file: Arc<WindowsFile>,
    groups: BTreeMap<OriginGroupName, Arc<OriginGroup>>,
}

impl Follower {
    async fn restore(&self) {
        let file = Arc::clone(&self.file);
        let loaded = tokio::task::spawn_blocking(move || file.load()).await;
        if let Ok(Some(saved)) = loaded {
            self.handle.restore(saved).await;
        }
    }

    async fn save(&self, saved: Saved) {
        let file = Arc::clone(&self.file);
        // Nobody waits for the result but the log.
        let _ = tokio::task::spawn_blocking(move || file.save(&saved)).await;
    }

    /// Follows one engine after the other, and saves windows now and then. Ends when there will be no engine any more.
    async fn follow(&mut self, first: EngineHandle, grid: &mut watch::Receiver<GridState>) {
        let mut engine = first;
        let mut saving = tokio::time::interval(SAVE_EVERY);
        saving.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once.
        saving.tick().await;
        loop {
            let mut declared = engine.watch_origins();
            declared.mark_changed();
            loop {
                tokio::select! {
                    biased;
                    changed = declared.changed() => {
                        if changed.is_err() {
                            break;
                        }
                        let table = Arc::clone(&declared.borrow_and_update());
                        self.take(&table).await;
                    }
                    _ = saving.tick() => {
                        let saved = self.handle.save().await;
                        self.save(saved).await;
                    }
                }
            }
            // Groups stay as they are while the store is opened again.
            drop(engine);
            if grid.changed().await.is_err() {
                return;
            }
            engine = match serving(grid).await {
                Some(next) => next,
                None => return,
            };
        }
    }

    /// Hands on what is other than before.
    async fn take(&mut self, table: &OriginTable) {
        let gone: Vec<_> = self
            .groups
            .keys()
            .filter(|name| !has_spelling(table, name))
            .cloned()
            .collect();
        for name in gone {
            self.groups.remove(&name);
            self.handle.remove(name.as_str()).await;
            self.story.forget(name.as_str());
        }
        for (name, declared) in &table.groups {
            let before = self.groups.get(name);
            if before.is_none_or(|before| before.group != declared.group) {
                let group = Arc::new(declared.group.clone());
                self.story.declared(name.as_str(), &group);
                self.handle.set(name.as_str(), group).await;
            }
            self.groups.insert(name.clone(), Arc::clone(declared));
        }
        let routes = table.routes.iter();
        let routes: Vec<_> = routes
            .map(|(name, declared)| (name.clone(), declared.route.clone()))
            .collect();
        self.routes.send_if_modified(|present| {
            let is_other = **present != *routes;
            if is_other {
                *present = routes.into();
            }
            is_other
        });
    }
}

/// Whether a group of this very spelling is declared: one that was deleted and declared again as another is another.
fn has_spelling(table: &OriginTable, name: &OriginGroupName) -> bool {
    let found = table.groups.get_key_value(name);
    found.is_some_and(|(declared, _)| declared.as_str() == name.as_str())
}

/// Waits for an engine; `None` when there will be none any more.
async fn serving(grid: &mut watch::Receiver<GridState>) -> Option<EngineHandle> {
    let is_decided = |state: &GridState| !matches!(state, GridState::Opening);
    match &*grid.wait_for(is_decided).await.ok()? {
        GridState::Serving(engine) => Some(engine.clone()),
        GridState::Opening | GridState::Stopped => None,
    }
}

/// For tests without a server: nothing is declared, and nothing probed.
#[cfg(test)]
pub fn of_nobody(grid: watch::Receiver<GridState>) -> Arc<Origins> {
    use hedgerow_core::time::Timestamp;
    use hedgerow_io::clock::SystemClock;
    use hedgerow_io::http::{ConnectorOptions, GuardedConnector};
    let connector = GuardedConnector::new(ConnectorOptions::default());
    let clock = SystemClock::new(Timestamp::ZERO);
    let config = ProbesConfig::default();
    make(
        &config,
        PathBuf::new(),
        Arc::new(connector),
        Arc::new(clock),
        grid,
    )
    .0
}
