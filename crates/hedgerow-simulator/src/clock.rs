//! The clock as the engine sees it: one that notices when somebody runs in a circle, as time stands still then.

use std::sync::Mutex;
use std::time::Instant;

use hedgerow_core::time::Now;
use hedgerow_io::clock::{Clock, SteppedClock};

use crate::world::lock;

/// Readings at one moment: a turn takes a handful, and turns that follow each other at once are few.
const READINGS_MAX: u32 = 100_000;

/// The clock of one opening.
pub struct WatchedClock {
    inner: SteppedClock,
    /// The last moment, and how often it was read.
    last: Mutex<Option<(Instant, u32)>>,
}

impl WatchedClock {
    pub fn new(inner: SteppedClock) -> Self {
        let last = Mutex::default();
        Self { inner, last }
    }
}

impl Clock for WatchedClock {
    fn now(&self) -> Now {
        let now = self.inner.now();
        let last = &mut *lock(&self.last);
        let readings = match *last {
            Some((at, readings)) if at == now.instant => readings + 1,
            _ => 0,
        };
        assert!(
            readings < READINGS_MAX,
            "the engine runs in a circle while time stands still"
        );
        *last = Some((now.instant, readings));
        now
    }
}
