//! The groups of origins that subscriptions deliver to (HP-200 to HP-203): the seam behind which they are probed, and which of
//! the origins an attempt goes to. How one is chosen is decided in `hedgerow-origin`; here it is asked with what only the engine
//! knows: which origins have consented, which failed last for the event, and which have room for another attempt.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hedgerow_core::name::OriginGroupName;
use hedgerow_core::spec::OriginProtocol;
use hedgerow_io::http::{Answer, SendError, Target, TlsDemands};
use hedgerow_origin::selector::Selector;
use hedgerow_origin::settings::{Group, OriginSettings, Protocol};
use hedgerow_origin::snapshot::{Mode, Places, Refused, Snapshot};
use hedgerow_origin::target::key_of_host;
use hedgerow_store::history::{OriginMode, ToOrigin};
use http::HeaderValue;

/// Who knows the groups, and how their origins are.
pub trait Origins: Send + Sync + 'static {
    /// The group as it is now; `None` if there is none of this name. Never waits.
    fn group(&self, name: &str) -> Option<GroupNow>;

    /// An attempt goes to an origin of it, which was chosen in this way (HP-082, HP-084, HP-208).
    fn chosen(&self, name: &str, origin: u32, mode: Mode);

    /// What an attempt at an origin met, by the number of its [`OriginView`](hedgerow_origin::snapshot::OriginView): whether
    /// that is a signal is not judged here (HP-192, HP-201).
    fn met(&self, name: &str, origin: u32, met: AttemptMet<'_>);
}

/// A group at one moment.
#[derive(Debug, Clone)]
pub struct GroupNow {
    /// Its settings.
    pub group: Arc<Group>,
    /// What selections see; its places are those of the settings' origins.
    pub snapshot: Arc<Snapshot>,
}

/// What an attempt met, as far as its origin is concerned.
#[derive(Debug, Clone, Copy)]
pub enum AttemptMet<'a> {
    /// A complete response head.
    Answered {
        /// The status.
        status: u16,
        /// Whether it asks not to be used for a while (HP-198).
        drains: bool,
    },
    /// No response.
    Failed(&'a SendError),
    /// No response in time.
    TimedOut,
}

/// A server without groups.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOrigins;

impl Origins for NoOrigins {
    fn group(&self, _: &str) -> Option<GroupNow> {
        None
    }

    fn chosen(&self, _: &str, _: u32, _: Mode) {}

    fn met(&self, _: &str, _: u32, _: AttemptMet<'_>) {}
}

/// The header with which an origin asks not to be used (HP-198).
const DRAIN: &str = "x-hedgerow-drain";

/// What the end of an attempt says of its origin.
pub(crate) fn met_of(result: &Result<Answer, SendError>) -> AttemptMet<'_> {
    match result {
        Ok(answer) => AttemptMet::Answered {
            status: answer.status.as_u16(),
            drains: answer.headers.get(DRAIN).is_some_and(|value| value == "1"),
        },
        Err(error) => AttemptMet::Failed(error),
    }
}

/// A group as a destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ToGroup {
    pub(crate) name: OriginGroupName,
    /// `None` for that of its probes.
    pub(crate) protocol: Option<OriginProtocol>,
}

/// An origin as requests reach it.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) name: Arc<str>,
    pub(crate) target: Target,
    /// The endpoint key of the target: attempts share its credit with whoever else delivers there.
    pub(crate) endpoint: Target,
    /// The `Host` that it is asked for, if that is not its own (HP-165).
    pub(crate) host_header: Option<HeaderValue>,
    /// Scheme, host, port, and that `Host`: who consents is known by it.
    pub(crate) address: Arc<str>,
}

impl Origin {
    /// `None` if nothing can be sent there.
    fn new(settings: &OriginSettings, protocol: Protocol) -> Option<Self> {
        let port = match protocol {
            Protocol::Http => settings.http_port,
            Protocol::Https => settings.https_port,
        };
        let host = key_of_host(&settings.host);
        let scheme = protocol.as_str();
        let url = format!("{scheme}://{host}:{port}");
        let target = Target::from_url(&url.parse().ok()?).ok()?;
        let tls = TlsDemands {
            any_name: !settings.verify_certificate_name,
            ..TlsDemands::default()
        };
        let (host_header, address) = match settings.host_header.as_str() {
            "" => (None, url),
            header => {
                let value = HeaderValue::from_str(header).ok()?;
                (Some(value), format!("{url} as {header}"))
            }
        };
        Some(Self {
            name: settings.name.as_str().into(),
            endpoint: target.endpoint(),
            target: target.with_tls(tls),
            host_header,
            address: address.into(),
        })
    }
}

/// Where an attempt goes, and why there.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) origin: Arc<Origin>,
    /// The group's name as the seam knows it, and the origin's number there.
    pub(crate) group: Arc<str>,
    pub(crate) id: u32,
    pub(crate) mode: Mode,
    /// What is remembered of it.
    pub(crate) told: Arc<ToOrigin>,
}

impl Route {
    /// To an origin that somebody wants to try, whatever its health.
    pub(crate) fn tried(group: &str, origin: Arc<Origin>) -> Self {
        let told = ToOrigin {
            group: group.into(),
            origin: Arc::clone(&origin.name),
            address: Arc::clone(&origin.address),
            mode: OriginMode::Single,
            instead_of: None,
        };
        Self {
            group: Arc::clone(&told.group),
            origin,
            id: 0,
            mode: Mode::Single,
            told: Arc::new(told),
        }
    }
}

/// What came of choosing.
pub(crate) enum Choice {
    /// It goes there.
    To(Arc<Route>),
    /// Each of these could be chosen, and has no room now.
    Busy(Vec<Target>),
    /// There is nobody to send it to.
    None(NoOrigin),
}

/// Why an attempt is not started (HP-094, ED-315).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoOrigin {
    /// There is no group of this name.
    UnknownGroup,
    /// None is enabled, or none of those has consented.
    NoneEnabled,
    /// All are unhealthy, and the group does not fail open.
    AllUnhealthy,
}

impl NoOrigin {
    /// For people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownGroup => "there is no such group",
            Self::NoneEnabled => "none of its origins is enabled and has consented",
            Self::AllUnhealthy => "all of its origins are unhealthy, and it does not fail open",
        }
    }
}

/// The groups that subscriptions deliver to.
pub(crate) struct Groups {
    origins: Arc<dyn Origins>,
    known: HashMap<ToGroup, Known>,
}

/// A group as it was seen last.
pub(crate) struct Known {
    name: Arc<str>,
    now: GroupNow,
    /// By place; `None` where nothing can be sent to.
    origins: Vec<Option<Arc<Origin>>>,
    selector: Selector,
    /// What the snapshot is for those to whom some origins are disabled.
    masked: Vec<(Places, Arc<Snapshot>)>,
}

/// Views of one snapshot that are kept: most subscriptions have the same, and making one costs a microsecond.
const MASKED_MAX: usize = 16;

impl Groups {
    pub(crate) fn new(origins: Arc<dyn Origins>) -> Self {
        Self {
            origins,
            known: HashMap::new(),
        }
    }

    /// The group as it is now, by the name that the seam knows it by.
    pub(crate) fn look(&mut self, to: &ToGroup, name: &str) -> Option<&mut Known> {
        let Some(now) = self.origins.group(name) else {
            self.known.remove(to);
            return None;
        };
        let known = self.known.entry(to.clone());
        let known = known.or_insert_with(|| Known::new(to, name, now.clone()));
        known.follow(to, now);
        Some(known)
    }

    /// The same for whoever only looks: nothing of it is kept.
    pub(crate) fn read(&self, to: &ToGroup, name: &str) -> Option<Known> {
        let now = self.origins.group(name)?;
        Some(Known::new(to, name, now))
    }

    /// Tells that an attempt goes there.
    pub(crate) fn note_start(&self, route: &Route) {
        self.origins.chosen(&route.group, route.id, route.mode);
    }
}

impl Known {
    fn new(to: &ToGroup, name: &str, now: GroupNow) -> Self {
        Self {
            name: name.into(),
            origins: origins_of(&now.group, to.protocol),
            now,
            selector: Selector::new(),
            masked: Vec::new(),
        }
    }

    fn follow(&mut self, to: &ToGroup, now: GroupNow) {
        if !Arc::ptr_eq(&self.now.snapshot, &now.snapshot) {
            self.masked.clear();
        }
        if !Arc::ptr_eq(&self.now.group, &now.group) {
            self.origins = origins_of(&now.group, to.protocol);
            self.masked.clear();
        }
        self.now = now;
    }

    /// The endpoints of all of its origins.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Target> {
        let origins = self.origins.iter().flatten();
        origins.map(|origin| &origin.endpoint)
    }

    /// The places at which something holds of the origin; those without a usable address are among them.
    fn places(&self, holds: impl Fn(&Origin) -> bool) -> Places {
        let origins = self.origins.iter().enumerate();
        origins.fold(Places::NONE, |places, (place, origin)| match origin {
            Some(origin) if !holds(origin) => places,
            _ => places.with(place),
        })
    }

    /// The group as it is for somebody to whom these are disabled.
    fn view(&mut self, disabled: Places) -> Arc<Snapshot> {
        if disabled.is_empty() {
            return Arc::clone(&self.now.snapshot);
        }
        if let Some((_, view)) = self.masked.iter().find(|(places, _)| *places == disabled) {
            return Arc::clone(view);
        }
        let view = Arc::new(self.now.snapshot.without(disabled));
        self.masked.truncate(MASKED_MAX - 1);
        self.masked.insert(0, (disabled, Arc::clone(&view)));
        view
    }

    /// Chooses an origin: another than the one that failed last for the event, if there is one (HP-200), of those that have
    /// consented (HP-202) and have room.
    pub(crate) fn choose(
        &mut self,
        last_failed: Option<u32>,
        has_consented: impl Fn(&Origin) -> bool,
        has_room: impl Fn(&Origin) -> bool,
    ) -> Choice {
        let disabled = self.places(|origin| !has_consented(origin));
        let view = self.view(disabled);
        let free = self.places(has_room);
        let chosen = match self.selector.select_other_free(&view, last_failed, free) {
            Ok(chosen) => chosen,
            Err(Refused::NoOrigin) => return Choice::None(NoOrigin::NoneEnabled),
            Err(Refused::GroupUnhealthy { .. }) => return Choice::None(NoOrigin::AllUnhealthy),
        };
        let Some(chosen) = chosen else {
            return Choice::Busy(self.kept(&view));
        };
        let Some(origin) = self.origins.get(chosen.place).cloned().flatten() else {
            return Choice::None(NoOrigin::NoneEnabled);
        };
        let failed = last_failed.filter(|failed| *failed != chosen.id);
        let told = ToOrigin {
            group: Arc::clone(&self.name),
            origin: Arc::clone(&origin.name),
            address: Arc::clone(&origin.address),
            mode: mode(chosen.mode),
            instead_of: failed.and_then(|failed| self.name_of(&view, failed)),
        };
        Choice::To(Arc::new(Route {
            origin,
            group: Arc::clone(&self.name),
            id: chosen.id,
            mode: chosen.mode,
            told: Arc::new(told),
        }))
    }

    /// Why nothing could be chosen now, if that is so.
    pub(crate) fn refusal(&mut self, has_consented: impl Fn(&Origin) -> bool) -> Option<NoOrigin> {
        let disabled = self.places(|origin| !has_consented(origin));
        match self.view(disabled).kept() {
            Ok(_) => None,
            Err(Refused::NoOrigin) => Some(NoOrigin::NoneEnabled),
            Err(Refused::GroupUnhealthy { .. }) => Some(NoOrigin::AllUnhealthy),
        }
    }

    /// The endpoints of those that could be chosen now.
    pub(crate) fn eligible(&mut self, has_consented: impl Fn(&Origin) -> bool) -> Vec<Target> {
        let disabled = self.places(|origin| !has_consented(origin));
        let view = self.view(disabled);
        self.kept(&view)
    }

    fn kept(&self, view: &Snapshot) -> Vec<Target> {
        let kept = view.kept().map(|kept| kept.places).unwrap_or_default();
        let origins = kept.iter().filter_map(|place| self.origins.get(place));
        let endpoints = origins.flatten().map(|origin| origin.endpoint.clone());
        endpoints.collect()
    }

    fn name_of(&self, view: &Snapshot, id: u32) -> Option<Arc<str>> {
        let mut views = view.origins().iter();
        let place = views.position(|origin| origin.id == id)?;
        let origin = self.origins.get(place)?.as_ref()?;
        Some(Arc::clone(&origin.name))
    }
}

/// The origins of a group, spoken to in this way.
pub(crate) fn origins_of(
    group: &Group,
    protocol: Option<OriginProtocol>,
) -> Vec<Option<Arc<Origin>>> {
    let protocol = match protocol {
        None => group.settings().probe.protocol,
        Some(OriginProtocol::Http) => Protocol::Http,
        Some(OriginProtocol::Https) => Protocol::Https,
    };
    let origins = group.settings().origins.iter();
    let origins = origins.map(|origin| Origin::new(origin, protocol).map(Arc::new));
    origins.collect()
}

const fn mode(mode: Mode) -> OriginMode {
    match mode {
        Mode::Single => OriginMode::Single,
        Mode::UnknownTier => OriginMode::UnknownTier,
        Mode::FailOpen => OriginMode::FailOpen,
        // Sessions and refusals do not come here.
        Mode::Normal | Mode::Affinity | Mode::None => OriginMode::Normal,
    }
}

/// Which origin failed last for which event of one subscription, within a bound.
///
/// It is in memory only. What it serves is a preference among origins that are all kept, for the time in which the probes have not
/// found out yet; a record of each failed attempt that names an origin would be written and kept for every event of every
/// subscription. After a restart the first retry may go to the same origin again, as it may where a group has no other.
#[derive(Debug, Default)]
pub(crate) struct LastFailed(BTreeMap<u64, u32>);

/// Events of one subscription of which it is known: as many as are due in memory, and more are not attempted in a minute.
const LAST_FAILED_MAX: usize = 8_192;

impl LastFailed {
    pub(crate) fn of(&self, seq: u64) -> Option<u32> {
        self.0.get(&seq).copied()
    }

    pub(crate) fn note(&mut self, seq: u64, origin: u32) {
        self.0.insert(seq, origin);
        if self.0.len() > LAST_FAILED_MAX {
            // The oldest events are nearest to their end.
            self.0.pop_first();
        }
    }

    pub(crate) fn forget(&mut self, seq: u64) {
        if !self.0.is_empty() {
            self.0.remove(&seq);
        }
    }
}
