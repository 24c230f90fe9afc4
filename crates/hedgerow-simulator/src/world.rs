//! Everything outside the process: the time, the plan, what happened, and who knows it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::EngineHandle;
use hedgerow_io::clock::{Clock, SteppedClock};
use hedgerow_io::dead_letter::Blob;
use hedgerow_io::http::Client;
use hedgerow_store::disk::faulty::FaultyDisk;

use crate::oracle::Oracle;
use crate::plan::{LetterMood, Mood, Plan};
use crate::store::WatchedStore;
use crate::trace::Trace;

/// The world.
pub struct World {
    pub plan: Plan,
    pub clock: SteppedClock,
    pub disk: FaultyDisk,
    begun: tokio::time::Instant,
    trace: Mutex<Trace>,
    oracle: Mutex<Oracle>,
    /// What the dead-letter store keeps.
    shelf: Mutex<Vec<Blob>>,
    /// Who takes publications and questions now, if anybody does.
    front: Mutex<Option<Front>>,
    /// Connections so far, by host.
    connections: Mutex<BTreeMap<String, u64>>,
    is_calm: AtomicBool,
    is_declared: AtomicBool,
    is_disk_full: AtomicBool,
}

/// An engine that serves.
#[derive(Clone)]
pub struct Front {
    pub store: Arc<WatchedStore>,
    pub handle: EngineHandle,
    pub client: Arc<Client>,
}

impl World {
    /// At the first moment.
    pub fn new(plan: Plan, is_printed: bool) -> Self {
        let has_jitter = plan.settings.retry.jitter.percent > 0;
        let asks_endpoints = plan.settings.validation.is_enabled;
        Self {
            disk: FaultyDisk::new(plan.seed ^ 0xD15C),
            plan,
            clock: SteppedClock::new(Timestamp::from_millis(crate::START_MS)),
            begun: tokio::time::Instant::now(),
            trace: Mutex::new(Trace::new(is_printed)),
            oracle: Mutex::new(Oracle::new(has_jitter, asks_endpoints)),
            shelf: Mutex::default(),
            front: Mutex::default(),
            connections: Mutex::default(),
            is_calm: AtomicBool::new(false),
            is_declared: AtomicBool::new(false),
            is_disk_full: AtomicBool::new(false),
        }
    }

    /// Since the first moment.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Server time.
    pub fn now(&self) -> Timestamp {
        self.clock.now().timestamp
    }

    /// Waits until so long after the first moment.
    pub async fn sleep_until(&self, since_start: Duration) {
        tokio::time::sleep_until(self.begun + since_start).await;
    }

    /// Notes what happened.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        lock(&self.trace).note(self.elapsed(), what);
    }

    pub fn trace(&self) -> MutexGuard<'_, Trace> {
        lock(&self.trace)
    }

    pub fn oracle(&self) -> MutexGuard<'_, Oracle> {
        lock(&self.oracle)
    }

    pub fn shelf(&self) -> MutexGuard<'_, Vec<Blob>> {
        lock(&self.shelf)
    }

    /// Who serves now.
    pub fn front(&self) -> Option<Front> {
        lock(&self.front).clone()
    }

    pub fn set_front(&self, front: Option<Front>) {
        *lock(&self.front) = front;
    }

    /// From now on nothing breaks.
    pub fn calm_down(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    pub fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    /// The disk holds no more than so many bytes from now on, or as much as is wanted.
    pub fn limit_disk(&self, bytes: Option<u64>) {
        self.is_disk_full.store(bytes.is_some(), Ordering::Relaxed);
        self.disk.set_capacity(bytes.unwrap_or(u64::MAX));
    }

    /// Whether the disk may be full.
    pub fn is_disk_full(&self) -> bool {
        self.is_disk_full.load(Ordering::Relaxed)
    }

    /// Everything is declared.
    pub fn note_declared(&self) {
        self.is_declared.store(true, Ordering::Relaxed);
    }

    pub fn is_declared(&self) -> bool {
        self.is_declared.load(Ordering::Relaxed)
    }

    /// Until everything is declared.
    pub async fn declared(&self) {
        while !self.is_declared() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How a host feels now.
    pub fn mood(&self, host: &str) -> Mood {
        let endpoint = self.plan.endpoints.iter().find(|one| one.host == host);
        let moods = endpoint.map_or(&[][..], |endpoint| &endpoint.moods);
        self.of_now(moods).unwrap_or(Mood::Well)
    }

    /// How the dead-letter store feels now.
    pub fn letter_mood(&self) -> LetterMood {
        self.of_now(&self.plan.letters).unwrap_or(LetterMood::Works)
    }

    fn of_now<T: Copy>(&self, moods: &[(Duration, T)]) -> Option<T> {
        let now = self.elapsed();
        let present = moods.iter().find(|(until, _)| now < *until);
        present.map(|(_, mood)| *mood).filter(|_| !self.is_calm())
    }

    /// The number of a new connection to a host.
    pub fn next_connection(&self, host: &str) -> u64 {
        let mut connections = lock(&self.connections);
        let number = connections.entry(host.to_owned()).or_default();
        *number += 1;
        *number
    }
}

/// Locks; nobody panics while holding one of these and is caught.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Front {
    /// How many connections are open, if that is more than may be.
    pub fn connections_over(&self, connections_max: usize) -> Option<usize> {
        let open = self.client.connections().open;
        (open > connections_max).then_some(open)
    }
}
