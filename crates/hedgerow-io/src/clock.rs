//! Reads the clocks: the only place where the server learns what time it is.
//!
//! [`SystemClock`] gives server time ([`ServerTime`]: wall time at start plus time since boot, slewed towards the wall
//! clock); [`TokioClock`] follows tokio's clock, which tests can pause and advance. Which of the two kinds of time a rule
//! uses is decided where the rule is. Design D4.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hedgerow_core::time::{Now, ServerTime, Timestamp};

/// Where *now* comes from. One of the seams where a test puts something of its own.
pub trait Clock: Send + Sync + 'static {
    /// Both kinds of time, read together. Neither ever goes back.
    fn now(&self) -> Now;
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
