//! Reads the clocks: the only place where the server learns what time it is.
//!
//! [`SystemClock`] gives server time ([`ServerTime`]: wall time at start plus time since boot, slewed towards the wall
//! clock); [`TokioClock`] follows tokio's clock, which tests can pause and advance, and [`SteppedClock`] is server time over
//! it, with a wall clock that tests can step; [`FastClock`] is a server's time at a multiple of the pace. Which of the two
//! kinds of time a rule uses is decided where the rule is. Design D4.

mod fast;

pub use self::fast::{FastClock, OpenExchange};

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hedgerow_core::time::{Now, ServerTime, Timestamp};

/// Where *now* comes from. One of the seams where a test puts something of its own.
pub trait Clock: Send + Sync + 'static {
    /// Both kinds of time, read together. Neither ever goes back.
    fn now(&self) -> Now;

    /// What passed between two readings, at the pace that schedules and timeouts have.
    fn passed(&self, since: Now, until: Now) -> Duration {
        until.instant.saturating_duration_since(since.instant)
    }

    /// How long timers have to wait until so much server time has passed. What is left after that is to be waited for
    /// again: the pace may change meanwhile.
    fn wait(&self, span: Duration) -> Duration {
        span
    }

    /// How many times as fast as people's clocks server time passes at most.
    fn speed(&self) -> NonZeroU32 {
        NonZeroU32::MIN
    }

    /// Notes that an exchange is open, until what is returned is dropped: server time must not run away from it.
    fn open_exchange(&self) -> OpenExchange {
        OpenExchange::default()
    }

    /// The time by which others date things: that of the wall clock, as far as there is one beside server time.
    fn wall(&self) -> Timestamp {
        self.now().timestamp
    }
}

/// The clock of a real server.
#[derive(Debug)]
pub struct SystemClock {
    server_time: Mutex<ServerTime>,
}

impl SystemClock {
    /// A clock that starts at the wall clock or at `high_water`, the highest time issued before the last stop,
    /// whichever is later. [`Timestamp::ZERO`]: there was none.
    #[must_use]
    pub fn new(high_water: Timestamp) -> Self {
        let server_time = ServerTime::start(wall_ms(), boot_ms(), high_water);
        Self {
            server_time: Mutex::new(server_time),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        // A poisoned lock is used as it is: a reading is complete whenever the lock is free.
        let mut server_time = self
            .server_time
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let timestamp = server_time.read(wall_ms(), boot_ms());
        Now {
            timestamp,
            instant: Instant::now(),
        }
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(wall_ms())
    }
}

/// A clock for tests: it starts at a given time and passes with tokio's clock, also while that one is paused. It is to
/// be read inside the runtime whose clock it follows.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: Timestamp,
    begun: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `start` now.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            begun: tokio::time::Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Now {
        let instant = tokio::time::Instant::now();
        let timestamp = self.start.plus(instant.duration_since(self.begun));
        Now {
            timestamp,
            instant: instant.into_std(),
        }
    }
}

/// A clock for tests: the server's own time ([`ServerTime`]) over tokio's clock, which can be paused, and over a wall clock
/// that can be stepped. Clones are the same clock. It is to be read inside the runtime whose clock it follows.
#[derive(Debug, Clone)]
pub struct SteppedClock {
    begun: tokio::time::Instant,
    state: Arc<Mutex<Stepped>>,
}

#[derive(Debug)]
struct Stepped {
    /// What the wall clock showed when `begun` was, as if it had had every step already.
    wall_start_ms: u64,
    server_time: ServerTime,
}

impl SteppedClock {
    /// A server that starts now, when the wall clock shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        let wall_start_ms = start.as_millis();
        let state = Stepped {
            wall_start_ms,
            server_time: ServerTime::start(wall_start_ms, 0, Timestamp::ZERO),
        };
        Self {
            begun: tokio::time::Instant::now(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Sets the wall clock forward, or back, by so many milliseconds.
    pub fn step(&self, milliseconds: i64) {
        let mut state = self.state();
        state.wall_start_ms = state.wall_start_ms.saturating_add_signed(milliseconds);
    }

    /// Starts the server's time anew, as a start of the server does: at the wall clock, or at the highest time issued
    /// before.
    pub fn restart(&self, high_water: Timestamp) {
        let boot_ms = self.boot_ms();
        let mut state = self.state();
        let wall_ms = state.wall_start_ms + boot_ms;
        state.server_time = ServerTime::start(wall_ms, boot_ms, high_water);
    }

    fn boot_ms(&self) -> u64 {
        millis(tokio::time::Instant::now().duration_since(self.begun))
    }

    fn state(&self) -> MutexGuard<'_, Stepped> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Now {
        let boot_ms = self.boot_ms();
        let mut state = self.state();
        let wall_ms = state.wall_start_ms + boot_ms;
        Now {
            timestamp: state.server_time.read(wall_ms, boot_ms),
            instant: tokio::time::Instant::now().into_std(),
        }
    }

    fn wall(&self) -> Timestamp {
        let boot_ms = self.boot_ms();
        Timestamp::from_millis(self.state().wall_start_ms + boot_ms)
    }
}

/// The wall clock in milliseconds since 1970; 0 when it stands before that.
fn wall_ms() -> u64 {
    millis(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO),
    )
}

/// Milliseconds since the machine was started. Unlike the monotonic clock it goes on while the machine is suspended.
#[cfg(target_os = "linux")]
fn boot_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    millis(Duration::new(seconds, nanoseconds))
}

/// Milliseconds of the monotonic clock since the first reading: where there is no clock that counts suspended time.
#[cfg(not(target_os = "linux"))]
fn boot_ms() -> u64 {
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    millis(FIRST.get_or_init(Instant::now).elapsed())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_clock_continues_from_the_high_water() {
        let ahead = Timestamp::from_millis(wall_ms() + 3_600_000);
        let clock = SystemClock::new(ahead);
        let (first, second) = (clock.now(), clock.now());
        assert!(first.timestamp >= ahead);
        assert!(second.timestamp >= first.timestamp && second.instant >= first.instant);
    }

    /// Design D4: a step moves nothing at once, and a restart goes on from what was issued.
    #[tokio::test(start_paused = true)]
    async fn stepped_clock_is_server_time() {
        let start = Timestamp::from_millis(1_893_456_000_000);
        let clock = SteppedClock::new(start);
        clock.step(25 * 3_600_000);
        assert_eq!(clock.now().timestamp, start);
        tokio::time::advance(Duration::from_secs(200)).await;
        let slewed = clock.now().timestamp;
        assert_eq!(slewed, start.plus(Duration::from_secs(201)));
        clock.step(-27 * 3_600_000);
        clock.restart(slewed);
        assert_eq!(clock.now().timestamp, slewed);
        tokio::time::advance(Duration::from_secs(200)).await;
        assert_eq!(
            clock.now().timestamp.since(slewed),
            Duration::from_secs(199)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn tokio_clock_follows_the_paused_clock() {
        let clock = TokioClock::new(Timestamp::from_millis(1_000));
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(90)).await;
        let after = clock.now();
        assert_eq!(before.timestamp, Timestamp::from_millis(1_000));
        assert_eq!(after.timestamp, Timestamp::from_millis(91_000));
        assert_eq!(after.instant - before.instant, Duration::from_secs(90));
    }
}
