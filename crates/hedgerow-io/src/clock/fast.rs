//! The clock of a server whose time runs faster than the clocks ([`FastTime`], `hedgerow dev --speed`).
//!
//! [`Now::timestamp`] is fast, [`Now::instant`] is not: what is measured for the machine's sake stays real.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hedgerow_core::time::{FastTime, Now, Timestamp};

use super::{Clock, wall_ms};

/// Server time at a multiple of the pace of the clocks. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct FastClock {
    speed: NonZeroU32,
    real: Real,
    time: Arc<Mutex<FastTime>>,
}

/// What runs at the real pace.
#[derive(Debug, Clone, Copy)]
enum Real {
    /// The monotonic clock, since the clock was made. It stands still while the machine is suspended, and that is well: a
    /// night would be months.
    Monotonic(Instant),
    /// Tokio's clock, since it was made, when it showed this time.
    Tokio(tokio::time::Instant, Timestamp),
}

impl Real {
    fn clock(self) -> Duration {
        match self {
            Self::Monotonic(begun) => begun.elapsed(),
            Self::Tokio(begun, _) => begun.elapsed(),
        }
    }
}

impl FastClock {
    /// The clock of a real server. It starts at the wall clock or at `high_water`, the highest time issued before the last
    /// stop, whichever is later: after fast hours that is far in the future, and what is owed is due when it would have
    /// been.
    #[must_use]
    pub fn new(speed: NonZeroU32, high_water: Timestamp) -> Self {
        let start = Timestamp::from_millis(wall_ms()).max(high_water);
        Self::on(Real::Monotonic(Instant::now()), speed, start)
    }

    /// A clock for tests, which passes `speed` times as fast as tokio's clock. It is to be read inside the runtime whose
    /// clock it follows.
    #[must_use]
    pub fn on_tokio(speed: NonZeroU32, start: Timestamp) -> Self {
        Self::on(
            Real::Tokio(tokio::time::Instant::now(), start),
            speed,
            start,
        )
    }

    fn on(real: Real, speed: NonZeroU32, start: Timestamp) -> Self {
        let time = FastTime::start(speed, start, real.clock());
        Self {
            speed,
            real,
            time: Arc::new(Mutex::new(time)),
        }
    }

    /// The time. A poisoned lock is used as it is: a reading is complete whenever the lock is free.
    fn time(&self) -> MutexGuard<'_, FastTime> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FastClock {
    fn now(&self) -> Now {
        let timestamp = self.time().read(self.real.clock());
        let instant = match self.real {
            Real::Monotonic(_) => Instant::now(),
            Real::Tokio(..) => tokio::time::Instant::now().into_std(),
        };
        Now { timestamp, instant }
    }

    fn passed(&self, since: Now, until: Now) -> Duration {
        until.timestamp.since(since.timestamp)
    }

    fn wait(&self, span: Duration) -> Duration {
        let mut time = self.time();
        time.read(self.real.clock());
        time.wait(span)
    }

    fn speed(&self) -> NonZeroU32 {
        self.speed
    }

    fn open_exchange(&self) -> OpenExchange {
        let number = self.time().begin_exchange(self.real.clock());
        OpenExchange(Some((self.clone(), number)))
    }

    fn wall(&self) -> Timestamp {
        match self.real {
            Real::Monotonic(_) => Timestamp::from_millis(wall_ms()),
            Real::Tokio(_, start) => start.plus(self.real.clock()),
        }
    }
}

/// An exchange that is open; dropping it says that it ended. The default is one that no clock is interested in.
#[derive(Debug, Default)]
#[must_use = "dropping it says that the exchange ended"]
pub struct OpenExchange(Option<(FastClock, u64)>);

impl Drop for OpenExchange {
    fn drop(&mut self) {
        if let Some((clock, number)) = self.0.take() {
            clock.time().end_exchange(number, clock.real.clock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: NonZeroU32 = NonZeroU32::new(60).unwrap();
    const START: Timestamp = Timestamp::from_millis(1_893_456_000_000);

    #[tokio::test(start_paused = true)]
    async fn time_is_fast_but_for_young_exchanges() {
        let clock = FastClock::on_tokio(SPEED, START);
        tokio::time::advance(Duration::from_secs(1)).await;
        let minute = clock.now();
        assert_eq!(minute.timestamp, START.plus(Duration::from_secs(60)));
        assert_eq!(clock.wall(), START.plus(Duration::from_secs(1)));

        let exchange = clock.open_exchange();
        tokio::time::advance(Duration::from_millis(200)).await;
        let answered = clock.now();
        assert_eq!(
            clock.passed(minute, answered),
            Duration::from_millis(200),
            "an answer after 200 ms took 200 ms"
        );
        assert_eq!(
            clock.wait(Duration::from_millis(50)),
            Duration::from_millis(50)
        );
        drop(exchange);
        tokio::time::advance(Duration::from_millis(100)).await;
        let later = clock.now();
        assert_eq!(clock.passed(answered, later), Duration::from_secs(6));
        assert_eq!(later.instant - answered.instant, Duration::from_millis(100));
    }

    #[test]
    fn a_start_goes_on_from_the_high_water() {
        let ahead = Timestamp::from_millis(wall_ms() + 86_400_000);
        let clock = FastClock::new(SPEED, ahead);
        assert!(clock.now().timestamp >= ahead);
        assert!(clock.wall() < ahead);
    }
}
