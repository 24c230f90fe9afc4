//! The routes in force, and the groups that they name: published whole, and read by connections without waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hedgerow_core::name::RouteName;
use hedgerow_io::http::Target;
use hedgerow_origin::route::{Route, RouteSettings, RouteTable};
use hedgerow_origin::selector::{Choice, Selector};
use hedgerow_origin::settings::{Group, OriginSettings, Protocol};
use hedgerow_origin::snapshot::{Places, Refused, Snapshot};
use hedgerow_prober::live::LiveGroup;
use hedgerow_prober::probe::request_target;
use ring::hmac;

use crate::affinity::Pin;
use crate::budget::{Recent, may_retry};

/// All routes.
pub(crate) struct Routes {
    pub table: RouteTable,
    /// By [`Match::index`](hedgerow_origin::route::Match).
    pub entries: Vec<Arc<Entry>>,
}

/// A route.
pub(crate) struct Entry {
    pub name: String,
    pub settings: RouteSettings,
}

impl Routes {
    /// Those that are enabled. They were accepted one by one and together when they were declared; what does not fit all the
    /// same is left out, and said.
    pub(crate) fn new(declared: &[(RouteName, RouteSettings)]) -> Self {
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        for (name, settings) in declared.iter().filter(|(_, settings)| settings.enabled) {
            entries.push(Arc::new(Entry {
                name: name.as_str().to_owned(),
                settings: settings.clone(),
            }));
        }
        let table = loop {
            let routes: Vec<Route> = entries.iter().map(|entry| entry.route()).collect();
            match RouteTable::new(&routes) {
                Ok(table) => break table,
                Err(error) => {
                    let left_out = entries.pop();
                    tracing::error!(%error, route = left_out.map(|entry| entry.name.clone()), "a route is left out");
                }
            }
        };
        Self { table, entries }
    }
}

impl Entry {
    fn route(&self) -> Route {
        Route {
            name: self.name.clone(),
            protocols: self.settings.protocols.clone(),
            hosts: self.settings.hosts.clone(),
            paths: self.settings.paths.clone(),
        }
    }
}

/// A group as the edge uses it.
pub(crate) struct GroupState {
    pub live: Arc<LiveGroup>,
    selector: Mutex<Selector>,
    retries: Mutex<Retries>,
    places: Mutex<Option<Arc<Origins>>>,
}

#[derive(Default)]
struct Retries {
    requests: Recent,
    retries: Recent,
}

/// Where the origins of a group are, for its present settings.
pub(crate) struct Origins {
    pub group: Arc<Group>,
    targets: Vec<[Option<Arc<Target>>; 2]>,
    pins: Vec<Pin>,
}

impl GroupState {
    pub(crate) fn new(live: Arc<LiveGroup>) -> Self {
        Self {
            live,
            selector: Mutex::new(Selector::new()),
            retries: Mutex::default(),
            places: Mutex::default(),
        }
    }

    /// Chooses for a request.
    pub(crate) fn select(
        &self,
        snapshot: &Snapshot,
        pinned: Option<u32>,
    ) -> Result<Choice, Refused> {
        let mut selector = self.selector.lock().unwrap_or_else(PoisonError::into_inner);
        selector.select(snapshot, pinned)
    }

    /// Chooses among those that were not tried (HP-173).
    pub(crate) fn select_untried(
        &self,
        snapshot: &Snapshot,
        tried: Places,
    ) -> Result<Choice, Refused> {
        let mut selector = self.selector.lock().unwrap_or_else(PoisonError::into_inner);
        selector.select_untried(snapshot, tried)
    }

    pub(crate) fn count_request(&self, now: Duration) {
        self.retries().requests.count(now);
    }

    /// Whether another origin may be asked, which is counted then (HP-174).
    pub(crate) fn take_retry(&self, now: Duration) -> bool {
        let mut retries = self.retries();
        let may = may_retry(retries.requests.sum(now), retries.retries.sum(now));
        if may {
            retries.retries.count(now);
        }
        may
    }

    fn retries(&self) -> std::sync::MutexGuard<'_, Retries> {
        self.retries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the origins are, made anew when the settings are others.
    pub(crate) fn origins(&self, group: &Arc<Group>, key: &hmac::Key) -> Arc<Origins> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = places
            .as_ref()
            .filter(|known| Arc::ptr_eq(&known.group, group))
        {
            return Arc::clone(known);
        }
        let made = Arc::new(Origins::new(Arc::clone(group), key));
        *places = Some(Arc::clone(&made));
        made
    }
}

impl Origins {
    fn new(group: Arc<Group>, key: &hmac::Key) -> Self {
        let origins = &group.settings().origins;
        let target =
            |origin: &OriginSettings, protocol| request_target(origin, protocol).map(Arc::new);
        let targets = origins.iter().map(|origin| {
            [Protocol::Http, Protocol::Https].map(|protocol| target(origin, protocol))
        });
        let url = |origin: &OriginSettings| {
            let OriginSettings {
                host,
                http_port,
                https_port,
                ..
            } = origin;
            format!("{host}:{http_port}:{https_port}")
        };
        Self {
            targets: targets.collect(),
            pins: origins
                .iter()
                .map(|origin| Pin::of(key, &url(origin)))
                .collect(),
            group,
        }
    }

    pub(crate) fn settings(&self, place: usize) -> Option<&OriginSettings> {
        self.group.settings().origins.get(place)
    }

    pub(crate) fn target(&self, place: usize, protocol: Protocol) -> Option<&Arc<Target>> {
        let of_origin = self.targets.get(place)?;
        match protocol {
            Protocol::Http => of_origin[0].as_ref(),
            Protocol::Https => of_origin[1].as_ref(),
        }
    }

    pub(crate) fn pin(&self, place: usize) -> Option<&Pin> {
        self.pins.get(place)
    }

    /// The place of the origin that a cookie names.
    pub(crate) fn pinned(&self, value: &[u8]) -> Option<usize> {
        self.pins.iter().position(|pin| pin.is(value))
    }
}

/// The groups that were asked for, by name.
#[derive(Default)]
pub(crate) struct Groups(Mutex<BTreeMap<String, Arc<GroupState>>>);

impl Groups {
    /// The group of this name. One that was removed and came again is another one.
    pub(crate) fn get(
        &self,
        name: &str,
        find: impl FnOnce() -> Option<Arc<LiveGroup>>,
    ) -> Option<Arc<GroupState>> {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = groups.get(name).filter(|known| !known.live.is_gone()) {
            return Some(Arc::clone(known));
        }
        groups.remove(name);
        let state = Arc::new(GroupState::new(find()?));
        groups.insert(name.to_owned(), Arc::clone(&state));
        Some(state)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<GroupState>> {
        let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.values().cloned().collect()
    }
}
