//! What requests see of a group: its settings and its origins as they are now. They read it without waiting for the prober,
//! and tell the prober what they met without waiting either (HP-087, HP-130).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use hedgerow_origin::outcome::Met;
use hedgerow_origin::passive::is_signal;
use hedgerow_origin::settings::Group;
use hedgerow_origin::snapshot::{Mode, Snapshot};
use tokio::sync::{Notify, mpsc};

/// A group at one moment.
#[derive(Debug, Clone)]
pub struct Current {
    /// Its settings.
    pub group: Arc<Group>,
    /// What selections see. Its places are indices of the settings' origins.
    pub snapshot: Arc<Snapshot>,
}

/// What a request met, on its way to the prober.
#[derive(Debug)]
pub(crate) enum Signal {
    Met {
        group: Arc<str>,
        origin: u32,
        met: Met,
    },
    Drained {
        group: Arc<str>,
        origin: u32,
    },
}

/// A group that is probed. It is the same object over all changes of the group.
#[derive(Debug)]
pub struct LiveGroup {
    name: Arc<str>,
    /// How many times `current` was changed.
    version: AtomicU64,
    current: Mutex<Arc<Current>>,
    is_gone: AtomicBool,
    /// It was used since the prober last looked.
    is_used: AtomicBool,
    /// It is probed less, since nobody uses it: the next use wakes the prober (HP-084).
    is_idle: AtomicBool,
    /// The places of origins whose last request failed.
    failing: AtomicU64,
    selections: RwLock<Selections>,
    wake: Arc<Notify>,
    signals: mpsc::Sender<Signal>,
}

/// Modes in the order in which they are counted.
const MODES: [Mode; 6] = [
    Mode::Normal,
    Mode::Single,
    Mode::Affinity,
    Mode::UnknownTier,
    Mode::FailOpen,
    Mode::None,
];
/// Origins of a group whose choices are counted: many times as many as it has at a time, as those that went are counted too.
const SELECTED_MAX: usize = 1_000;

type Selections = HashMap<Option<u32>, [AtomicU64; MODES.len()]>;

impl LiveGroup {
    pub(crate) fn new(
        name: &str,
        current: Current,
        wake: Arc<Notify>,
        signals: mpsc::Sender<Signal>,
    ) -> Self {
        Self {
            name: name.into(),
            version: AtomicU64::new(0),
            current: Mutex::new(Arc::new(current)),
            is_gone: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            is_idle: AtomicBool::new(false),
            failing: AtomicU64::new(0),
            selections: RwLock::default(),
            wake,
            signals,
        }
    }

    /// The group's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The group now. A [`Reader`] is cheaper for whoever asks often.
    #[must_use]
    pub fn current(&self) -> Arc<Current> {
        Arc::clone(&self.lock())
    }

    /// What reads the group for one thread or connection.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> Reader {
        let (version, current) = self.versioned();
        Reader {
            live: Arc::clone(self),
            version,
            current,
        }
    }

    /// Whether the group was removed. One of its name that comes later is another.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Notes that the group was used for a client's request, a delivery attempt or a publish (HP-082, HP-084). Costs one
    /// atomic read where that was noted within the last second.
    pub fn used(&self) {
        if self.is_used.load(Ordering::Relaxed) {
            return;
        }
        self.is_used.store(true, Ordering::Release);
        if self.is_idle.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }

    /// Counts a choice, by the number of [`Choice::id`](hedgerow_origin::selector::Choice); `None` where none could be chosen
    /// (HP-208).
    pub fn selected(&self, origin: Option<u32>, mode: Mode) {
        let count = |counted: &Selections| {
            let found = counted.get(&origin)?;
            found.get(mode as usize)?.fetch_add(1, Ordering::Relaxed);
            Some(())
        };
        let counted = self.selections.read();
        if count(&counted.unwrap_or_else(PoisonError::into_inner)).is_some() {
            return;
        }
        let mut counted = self
            .selections
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if counted.len() < SELECTED_MAX {
            counted.entry(origin).or_default();
            count(&counted);
        }
    }

    /// How often which origin was chosen in which mode, by the numbers that [`LiveGroup::selected`] was told.
    #[must_use]
    pub fn selections(&self) -> Vec<(Option<u32>, Mode, u64)> {
        let counted = self.selections.read();
        let counted = counted.unwrap_or_else(PoisonError::into_inner);
        let counts = counted.iter().flat_map(|(origin, modes)| {
            let modes = MODES.into_iter().zip(modes);
            modes.map(|(mode, count)| (*origin, mode, count.load(Ordering::Relaxed)))
        });
        counts.filter(|(.., count)| *count > 0).collect()
    }

    /// Notes what a request to an origin met, by the number of [`Choice::id`](hedgerow_origin::selector::Choice)
    /// (HP-192). Costs one atomic read while requests succeed. While the prober is behind by thousands, it is told nothing.
    pub fn met(&self, origin: u32, met: Met) {
        let is_signal = is_signal(&met);
        if !is_signal && self.failing.load(Ordering::Relaxed) == 0 {
            return;
        }
        let current = self.current();
        let origins = current.snapshot.origins().iter();
        let Some(place) = origins.clone().position(|view| view.id == origin) else {
            return;
        };
        let bit = 1 << place;
        if !is_signal && self.failing.fetch_and(!bit, Ordering::Relaxed) & bit == 0 {
            return;
        }
        let group = Arc::clone(&self.name);
        let is_told = self.signals.try_send(Signal::Met { group, origin, met });
        if is_signal || is_told.is_err() {
            // A success that could not be told is told with the next one.
            self.failing.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Notes that an origin asked not to be used, in its answer to a request (HP-198).
    pub fn drained(&self, origin: u32) {
        let current = self.current();
        let mut origins = current.snapshot.origins().iter();
        if origins.any(|view| view.id == origin && !view.is_draining) {
            let group = Arc::clone(&self.name);
            let _ = self.signals.try_send(Signal::Drained { group, origin });
        }
    }

    pub(crate) fn publish(&self, current: Current) {
        let current = Arc::new(current);
        let mut place = self.lock();
        if !Arc::ptr_eq(&place.group, &current.group) {
            // Places may be those of others now: the next success of each is told.
            self.failing.store(u64::MAX, Ordering::Relaxed);
        }
        let before = std::mem::replace(&mut *place, current);
        self.version.fetch_add(1, Ordering::Release);
        drop(place);
        drop(before);
    }

    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Release);
    }

    /// Whether it was used since this was last asked.
    pub(crate) fn take_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire) && self.is_used.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn end(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    fn versioned(&self) -> (u64, Arc<Current>) {
        let current = self.lock();
        // Under the lock the two belong together.
        (self.version.load(Ordering::Acquire), Arc::clone(&current))
    }

    /// A poisoned lock is used as it is: what it holds is replaced whole.
    fn lock(&self) -> MutexGuard<'_, Arc<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a group for one thread or connection.
#[derive(Debug, Clone)]
pub struct Reader {
    live: Arc<LiveGroup>,
    version: u64,
    current: Arc<Current>,
}

impl Reader {
    /// The group now: one atomic read where nothing has changed.
    pub fn current(&mut self) -> &Current {
        if self.live.version.load(Ordering::Acquire) != self.version {
            (self.version, self.current) = self.live.versioned();
        }
        &self.current
    }

    /// The group that it reads.
    #[must_use]
    pub const fn live(&self) -> &Arc<LiveGroup> {
        &self.live
    }
}
