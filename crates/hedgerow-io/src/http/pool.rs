//! Counts the open connections and keeps the idle ones, within bounds.
//!
//! An idle connection is kept for a limited time and then dropped: when its endpoint is used again, with the next sweep
//! (at most one a second, while connections are taken and returned), or when its place is needed. Nothing watches idle
//! connections in between; one that the server has closed is noticed when it is taken.
//!
//! Connections are closed outside the lock, always: closing one gives its place back, which takes the lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use foldhash::HashMap;
use tokio::time::Instant;

use super::channel::Channel;
use super::options::ClientOptions;
use super::target::Target;

/// How often expired connections of all targets are dropped by the way.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How many connections there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connections {
    /// Open ones, the idle ones among them, and those being opened.
    pub open: usize,
    /// Open ones without an exchange.
    pub idle: usize,
}

#[derive(Debug)]
pub(super) struct Pool {
    options: ClientOptions,
    state: Mutex<State>,
}

struct State {
    endpoints: HashMap<Target, Endpoint>,
    /// The sums over all endpoints.
    total: Connections,
    swept: Instant,
}

/// The connections to one target. There is an entry exactly while one is open.
#[derive(Default)]
struct Endpoint {
    open: usize,
    /// The one that was used last is last.
    idle: Vec<Idle>,
}

struct Idle {
    channel: Channel,
    expires: Instant,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

/// A place among the counted connections; given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    /// Weak, because the pool owns channels that own slots.
    pool: Weak<Pool>,
    target: Target,
}

impl Pool {
    pub(super) fn new(options: ClientOptions) -> Self {
        let state = State {
            endpoints: HashMap::default(),
            total: Connections::default(),
            swept: Instant::now(),
        };
        Self {
            options,
            state: Mutex::new(state),
        }
    }

    /// The bounds of the client whose pool this is.
    pub(super) const fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// An idle connection to `target`, the one used last first. It may have been closed by the server.
    pub(super) fn take(&self, target: &Target) -> Option<Channel> {
        let now = Instant::now();
        let mut expired = Vec::new();
        let mut state = self.lock();
        let mut found = None;
        while let Some(idle) = state.pop_idle(target) {
            if now < idle.expires {
                found = Some(idle.channel);
                break;
            }
            expired.push(idle);
        }
        drop(state);
        drop(expired);
        found
    }

    /// A place for a new connection to `target`. When all are taken an idle connection gives up its own; `None` when
    /// there is none.
    pub(super) fn reserve(self: &Arc<Self>, target: &Target) -> Option<Slot> {
        loop {
            let mut state = self.lock();
            if state.total.open < self.options.connections_max {
                state.total.open += 1;
                state.endpoints.entry(target.clone()).or_default().open += 1;
                return Some(Slot {
                    pool: Arc::downgrade(self),
                    target: target.clone(),
                });
            }
            let evicted = state.pop_idle_that_expires_first()?;
            drop(state);
            drop(evicted);
        }
    }

    /// Keeps a connection for `keep`, or closes it when there are enough.
    pub(super) fn put(&self, channel: Channel, keep: Duration) {
        let now = Instant::now();
        let mut state = self.lock();
        let swept = if now.duration_since(state.swept) >= SWEEP_EVERY {
            state.take_expired(now)
        } else {
            Vec::new()
        };
        let surplus = state.total.idle >= self.options.idle_max
            || state.idle_count(channel.target()) >= self.options.idle_per_target_max
            || keep.is_zero();
        let closed = if surplus {
            Some(channel)
        } else {
            state.push_idle(Idle {
                channel,
                expires: now + keep,
            });
            None
        };
        drop(state);
        drop((swept, closed));
    }

    /// Drops the connections that have been idle for long enough.
    pub(super) fn sweep(&self) {
        let expired = self.lock().take_expired(Instant::now());
        drop(expired);
    }

    pub(super) fn connections(&self) -> Connections {
        self.lock().total
    }

    pub(super) fn connections_to(&self, target: &Target) -> Connections {
        self.lock()
            .endpoints
            .get(target)
            .map_or_else(Connections::default, |endpoint| Connections {
                open: endpoint.open,
                idle: endpoint.idle.len(),
            })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is used as it is: no method leaves the counts halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn idle_count(&self, target: &Target) -> usize {
        self.endpoints
            .get(target)
            .map_or(0, |endpoint| endpoint.idle.len())
    }

    fn push_idle(&mut self, idle: Idle) {
        let endpoint = self.endpoints.get_mut(idle.channel.target());
        endpoint
            .expect("there is an entry while a connection is open")
            .idle
            .push(idle);
        self.total.idle += 1;
    }

    fn pop_idle(&mut self, target: &Target) -> Option<Idle> {
        let idle = self.endpoints.get_mut(target)?.idle.pop()?;
        self.total.idle -= 1;
        Some(idle)
    }

    /// Looks at all: called only when every place is taken.
    fn pop_idle_that_expires_first(&mut self) -> Option<Idle> {
        let oldest_of = |endpoint: &Endpoint| endpoint.idle.iter().map(|idle| idle.expires).min();
        let endpoint = self
            .endpoints
            .values_mut()
            .filter(|endpoint| !endpoint.idle.is_empty())
            .min_by_key(|endpoint| oldest_of(endpoint))?;
        let oldest = (0..endpoint.idle.len()).min_by_key(|at| endpoint.idle[*at].expires)?;
        self.total.idle -= 1;
        Some(endpoint.idle.remove(oldest))
    }

    fn take_expired(&mut self, now: Instant) -> Vec<Idle> {
        self.swept = now;
        let is_expired = |idle: &mut Idle| idle.expires <= now;
        let expired: Vec<Idle> = self
            .endpoints
            .values_mut()
            .flat_map(|endpoint| endpoint.idle.extract_if(.., is_expired))
            .collect();
        self.total.idle -= expired.len();
        expired
    }
}

impl Slot {
    pub(super) const fn target(&self) -> &Target {
        &self.target
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let mut state = pool.lock();
        state.total.open -= 1;
        if let Some(endpoint) = state.endpoints.get_mut(&self.target) {
            endpoint.open -= 1;
            if endpoint.open == 0 {
                state.endpoints.remove(&self.target);
            }
        }
    }
}
