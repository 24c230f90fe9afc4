//! What selections see of a group: its origins as they are now, and which of them are kept (HP-063, HP-090 to HP-094, HP-104,
//! HP-120 to HP-126). A snapshot is made by whoever owns the group's health, whenever that changes, and never changes itself:
//! selections read it without a lock (HP-130).

use std::time::Duration;

use crate::settings::{FailOpen, Group, Strategy};
use crate::window::State;

/// Origins of a snapshot: a set of them fits into one word. A group has 50 at most (HP-001).
pub const ORIGINS_MAX: usize = 64;

/// How an origin was chosen (HP-208).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Among the healthy ones.
    Normal,
    /// It is the only enabled one: whatever its health (HP-104).
    Single,
    /// The session is pinned to it (HP-142).
    Affinity,
    /// None is healthy, some are unknown (HP-063).
    UnknownTier,
    /// All are unhealthy (HP-090).
    FailOpen,
    /// None could be chosen (HP-092, HP-094).
    None,
}

impl Mode {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Single => "single",
            Self::Affinity => "affinity",
            Self::UnknownTier => "unknown_tier",
            Self::FailOpen => "fail_open",
            Self::None => "none",
        }
    }
}

/// Why nothing can be chosen: the request is answered 503, an event keeps its place in the schedule of its retries, a
/// publish fails and may be tried again (HP-094).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No origin is enabled, or none is left that was not tried yet.
    NoOrigin,
    /// All are unhealthy, and the group does not fail open (HP-092).
    GroupUnhealthy {
        /// I: when to ask again.
        retry_after: Duration,
    },
}

impl Refused {
    /// The reason code of HP-175.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoOrigin => "no_origin",
            Self::GroupUnhealthy { .. } => "group_unhealthy",
        }
    }
}

/// A set of origins, by their places in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Places(u64);

impl Places {
    /// No origin.
    pub const NONE: Self = Self(0);

    /// Every origin that a snapshot can have.
    pub const ALL: Self = Self(u64::MAX);

    /// Those that are in both.
    #[must_use]
    pub const fn and(self, those: Self) -> Self {
        Self(self.0 & those.0)
    }

    /// Whether the origin at this place is in it.
    #[must_use]
    pub const fn contains(self, place: usize) -> bool {
        place < ORIGINS_MAX && self.0 & (1 << place) != 0
    }

    /// The same with this one; places beyond the largest group stay out.
    #[must_use]
    pub const fn with(self, place: usize) -> Self {
        if place < ORIGINS_MAX {
            Self(self.0 | (1 << place))
        } else {
            self
        }
    }

    /// The same without those.
    #[must_use]
    pub const fn without(self, those: Self) -> Self {
        Self(self.0 & !those.0)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many they are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The places, in the order of the configuration.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros() as usize;
            // Takes the lowest bit out; of zero it leaves zero.
            left &= left.wrapping_sub(1);
            (place < ORIGINS_MAX).then_some(place)
        })
    }
}

/// An origin as selections see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginView {
    /// The same for as long as the origin is a member of the group, and no other's: counters are kept by it.
    pub id: u32,
    /// Whether it may be used at all (HP-030).
    pub is_enabled: bool,
    /// It asked not to be used (HP-198); ignored where no other is enabled.
    pub is_draining: bool,
    /// Its state by its samples.
    pub state: State,
    /// It changes too often (HP-195); ignored where no other is healthy.
    pub is_held_out: bool,
    /// Lower is preferred.
    pub priority: u32,
    /// Its latency in microseconds, if it has one.
    pub latency_us: Option<u64>,
    /// Its weight as configured.
    pub weight: u32,
    /// Its weight on a ramp (HP-194); ignored where no other is healthy.
    pub ramp_weight: u32,
}

impl OriginView {
    /// An enabled origin of usual priority and weight.
    #[must_use]
    pub const fn new(id: u32, state: State, latency_us: Option<u64>) -> Self {
        Self {
            id,
            is_enabled: true,
            is_draining: false,
            state,
            is_held_out: false,
            priority: 1,
            latency_us,
            weight: 50,
            ramp_weight: 50,
        }
    }
}

/// What of a group's settings its selections depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choosing {
    /// How much slower than the fastest an origin may be, in milliseconds (HP-124).
    pub additional_latency_ms: u64,
    /// What happens while all are unhealthy (HP-092).
    pub fail_open: FailOpen,
    /// Whether there are probes; without them the enabled origin is healthy (HP-102).
    pub has_probes: bool,
    /// Whether sessions stay with their origin (HP-140).
    pub has_affinity: bool,
    /// How one of the kept ones is chosen.
    pub strategy: Strategy,
    /// When to ask again where nothing is sent: I (HP-092).
    pub retry_after: Duration,
}

impl Choosing {
    /// Those of a group.
    #[must_use]
    pub const fn of(group: &Group) -> Self {
        let settings = group.settings();
        Self {
            additional_latency_ms: settings.load_balancing.additional_latency_ms as u64,
            fail_open: settings.fail_open,
            has_probes: settings.probe.enabled,
            has_affinity: settings.session_affinity,
            strategy: settings.strategy,
            retry_after: group.interval(),
        }
    }
}

/// Which origins may be chosen, and how one of them is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// How.
    pub mode: Mode,
    /// Which.
    pub places: Places,
}

/// A group at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    choosing: Choosing,
    origins: Vec<OriginView>,
    /// Enabled, and not draining unless all are.
    usable: Places,
    /// What section 12 keeps.
    kept: Result<Kept, Refused>,
}

impl Snapshot {
    /// A group as it is now. Its origins stand in the order of the configuration; those behind the 64th are left out.
    #[must_use]
    pub fn new(choosing: Choosing, mut origins: Vec<OriginView>) -> Self {
        origins.truncate(ORIGINS_MAX);
        let mut snapshot = Self {
            choosing,
            origins,
            usable: Places::NONE,
            kept: Err(Refused::NoOrigin),
        };
        let enabled = snapshot.those(|origin| origin.is_enabled);
        let awake = snapshot.those(|origin| origin.is_enabled && !origin.is_draining);
        snapshot.usable = if awake.is_empty() { enabled } else { awake };
        if !choosing.has_probes {
            for origin in &mut snapshot.origins {
                (origin.state, origin.latency_us) = (State::Healthy, None);
                origin.is_held_out = false;
            }
        }
        let healthy = snapshot.healthy();
        if healthy.count() <= 1 {
            for origin in &mut snapshot.origins {
                origin.ramp_weight = origin.weight;
            }
        }
        snapshot.kept = snapshot.keep(Places::NONE);
        snapshot
    }

    /// The same group for somebody to whom these origins are disabled, whoever else may use them (HP-202).
    #[must_use]
    pub fn without(&self, disabled: Places) -> Self {
        let mut origins = self.origins.clone();
        for place in disabled.iter() {
            if let Some(origin) = origins.get_mut(place) {
                origin.is_enabled = false;
            }
        }
        Self::new(self.choosing, origins)
    }

    /// The origins.
    #[must_use]
    pub fn origins(&self) -> &[OriginView] {
        &self.origins
    }

    /// What of the settings it was made with.
    #[must_use]
    pub const fn choosing(&self) -> &Choosing {
        &self.choosing
    }

    /// Which origins section 12 keeps of all of them.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub const fn kept(&self) -> Result<Kept, Refused> {
        self.kept
    }

    /// Whether exactly one origin is enabled (HP-104).
    #[must_use]
    pub const fn is_single(&self) -> bool {
        self.usable.count() == 1
    }

    /// Whether all enabled origins are unhealthy (HP-095).
    #[must_use]
    pub fn is_all_unhealthy(&self) -> bool {
        let unhealthy = self.those(|origin| origin.state == State::Unhealthy);
        !self.usable.is_empty() && self.usable.without(unhealthy).is_empty()
    }

    /// Whether the origin at this place counts as enabled now (HP-198).
    #[must_use]
    pub const fn is_usable(&self, place: usize) -> bool {
        self.usable.contains(place)
    }

    /// Which origins section 12 keeps of those that are not in `tried`: tiers, priority, latency (HP-063, HP-121 to HP-126).
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn keep(&self, tried: Places) -> Result<Kept, Refused> {
        let left = self.usable.without(tried);
        if left.is_empty() {
            return Err(Refused::NoOrigin);
        }
        if self.is_single() {
            let places = left;
            return Ok(Kept {
                mode: Mode::Single,
                places,
            });
        }
        let healthy = self.healthy();
        let unknown = self.among(self.usable, |origin| origin.state == State::Unknown);
        if healthy.is_empty() && unknown.is_empty() {
            return self.fail_open(left);
        }
        // Unhealthy ones are no better for the others having been tried: only a group that is unhealthy as a whole fails
        // open.
        let (healthy, unknown) = (healthy.without(tried), unknown.without(tried));
        let (mode, tier) = if !healthy.is_empty() {
            (Mode::Normal, healthy)
        } else if !unknown.is_empty() {
            (Mode::UnknownTier, unknown)
        } else {
            return Err(Refused::NoOrigin);
        };
        let places = self.in_band(self.first_priority(tier));
        Ok(Kept { mode, places })
    }

    /// HP-090 to HP-092.
    fn fail_open(&self, left: Places) -> Result<Kept, Refused> {
        let mode = Mode::FailOpen;
        match self.choosing.fail_open {
            FailOpen::All => Ok(Kept { mode, places: left }),
            FailOpen::TopPriority => Ok(Kept {
                mode,
                places: self.first_priority(left),
            }),
            FailOpen::None => Err(Refused::GroupUnhealthy {
                retry_after: self.choosing.retry_after,
            }),
        }
    }

    /// The healthy ones that may be used, without those that are held out, unless all are (HP-195).
    fn healthy(&self) -> Places {
        let good = self.among(self.usable, |origin| origin.state == State::Healthy);
        let steady = self.among(good, |origin| !origin.is_held_out);
        if steady.is_empty() { good } else { steady }
    }

    /// Those with the lowest priority number present (HP-122).
    fn first_priority(&self, of: Places) -> Places {
        let lowest = self.views(of).map(|origin| origin.priority).min();
        self.among(of, |origin| Some(origin.priority) == lowest)
    }

    /// Those in the latency band; all of them if none has a latency (HP-063, HP-123 to HP-126).
    fn in_band(&self, of: Places) -> Places {
        let Some(lowest) = self.views(of).filter_map(latency_ms).min() else {
            return of;
        };
        let highest = lowest.saturating_add(self.choosing.additional_latency_ms);
        self.among(of, |origin| {
            latency_ms(origin).is_some_and(|latency| latency <= highest)
        })
    }

    fn those(&self, wanted: impl Fn(&OriginView) -> bool) -> Places {
        let origins = self.origins.iter().enumerate();
        origins
            .filter(|(_, origin)| wanted(origin))
            .fold(Places::NONE, |places, (place, _)| places.with(place))
    }

    fn among(&self, of: Places, wanted: impl Fn(&OriginView) -> bool) -> Places {
        of.without(of.without(self.those(wanted)))
    }

    fn views(&self, of: Places) -> impl Iterator<Item = &OriginView> {
        of.iter().filter_map(|place| self.origins.get(place))
    }

    /// The expected part of each kept origin in the requests, as numerator and denominator in lowest terms (HP-127).
    #[must_use]
    pub fn shares(&self) -> Vec<(usize, u64, u64)> {
        let Ok(kept) = self.kept else {
            return Vec::new();
        };
        let weight = |place: usize| {
            let origin = self.origins.get(place);
            origin.map_or(0, |origin| step_weight(origin, kept.mode))
        };
        let sum: u64 = kept.places.iter().map(weight).sum();
        let shares = kept.places.iter().map(|place| {
            let weight = weight(place);
            let divisor = greatest_common_divisor(weight, sum).max(1);
            (place, weight / divisor, sum / divisor)
        });
        shares.collect()
    }
}

/// The weight of an origin in one step of the round robin: plain while the group fails open (HP-091).
pub(crate) fn step_weight(origin: &OriginView, mode: Mode) -> u64 {
    match mode {
        Mode::FailOpen => 1,
        _ => u64::from(origin.ramp_weight.max(1)),
    }
}

/// HP-126: whole milliseconds, rounded down.
fn latency_ms(origin: &OriginView) -> Option<u64> {
    origin.latency_us.map(|latency_us| latency_us / 1_000)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
