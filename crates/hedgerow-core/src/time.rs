//! The two kinds of time, and how server time follows the wall clock.
//!
//! [`Timestamp`] orders what must survive a restart (publish times, due times); [`Instant`] measures inside one
//! process (latency, deadlines). The two are never compared with each other.
//!
//! Server time ([`ServerTime`]) is the wall time at start plus the time since boot that has passed; a difference to
//! the wall clock is slewed at 0.5 %, never jumped, so that a step of the wall clock moves no attempt and no expiry
//! (design D4). Where it is to run faster than the clocks it is [`FastTime`] instead.

mod fast;

pub use self::fast::{FastTime, SLOW_SPAN};

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A point in time in whole milliseconds since 1970-01-01T00:00:00Z. What is stored and compared over restarts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z. The store also uses it as "none" where it says so.
    pub const ZERO: Self = Self(0);
    /// Later than every time that can happen.
    pub const MAX: Self = Self(u64::MAX);

    /// The time `millis` milliseconds after 1970.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This time plus `span`, at most [`Timestamp::MAX`]. Parts of a millisecond are dropped.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// The time that has passed since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// RFC 3339 in UTC with 7 fractional digits, the form of ED-257: `2030-01-02T03:04:05.0060000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelled = SpelledTime {
            seconds: i64::try_from(self.0 / 1000).unwrap_or(i64::MAX),
            ticks: (self.0 % 1000) as u32 * 10_000,
        };
        spelled.fmt(f)
    }
}

/// A time as everything that goes out spells it (ED-257): UTC, ISO 8601, seven digits behind the second, `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpelledTime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Units of 100 ns, fewer than a second.
    pub ticks: u32,
}

impl fmt::Display for SpelledTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_second(self.seconds).unwrap_or(jiff::Timestamp::MAX);
        let text = time.strftime("%Y-%m-%dT%H:%M:%S");
        write!(f, "{text}.{:07}Z", self.ticks)
    }
}

/// A text is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a time from 1970 on, as in \"2030-01-02T03:04:05Z\"")]
pub struct TimeError;

/// RFC 3339 with any offset; parts of a millisecond are dropped.
impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let time: jiff::Timestamp = text.parse().map_err(|_| TimeError)?;
        let millis = u64::try_from(time.as_millisecond()).map_err(|_| TimeError)?;
        Ok(Self(millis))
    }
}

/// Both kinds of time, read together. What rules receive as *now*.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For what is stored.
    pub timestamp: Timestamp,
    /// For what is measured.
    pub instant: Instant,
}

/// A number in [0, 1) given from outside where a rule needs chance.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Draw(pub f64);

/// How fast a difference to the wall clock is made up for, in microseconds for each millisecond that passes: 0.5 %.
const SLEW_MICROS_PER_MILLI: u64 = 5;
/// Microseconds in a millisecond: server time is kept in microseconds so that a slew of one millisecond is exact.
const MICROS_PER_MILLI: u64 = 1_000;

/// The server's own time. It starts at the wall clock (or at the highest time issued before, whichever is later), runs
/// with the time since boot, and approaches the wall clock by at most 0.5 %. It never jumps and never goes back: a step
/// of the wall clock by +25 h or -2 h moves no attempt, no expiry and no publish time (design D4).
///
/// Pure: whoever owns the clocks reads them and hands the numbers in.
#[derive(Debug, Clone)]
pub struct ServerTime {
    /// Server time at the last reading, in microseconds since 1970.
    micros: u64,
    /// Time since boot at the last reading, in milliseconds.
    boot_ms: u64,
}

impl ServerTime {
    /// The time of a server that starts when the wall clock shows `wall_ms` (milliseconds since 1970) and the machine
    /// has been up for `boot_ms`. `high_water` is the highest time ever issued, [`Timestamp::ZERO`] when there is none.
    #[must_use]
    pub const fn start(wall_ms: u64, boot_ms: u64, high_water: Timestamp) -> Self {
        let start_ms = if wall_ms > high_water.0 {
            wall_ms
        } else {
            high_water.0
        };
        Self {
            micros: start_ms.saturating_mul(MICROS_PER_MILLI),
            boot_ms,
        }
    }

    /// The server time now, given both clocks. A `boot_ms` before the last one counts as the last one.
    pub fn read(&mut self, wall_ms: u64, boot_ms: u64) -> Timestamp {
        let elapsed_ms = boot_ms.saturating_sub(self.boot_ms);
        self.boot_ms = self.boot_ms.max(boot_ms);
        let unslewed = self
            .micros
            .saturating_add(elapsed_ms.saturating_mul(MICROS_PER_MILLI));
        let wall = wall_ms.saturating_mul(MICROS_PER_MILLI);
        let slew_max = elapsed_ms.saturating_mul(SLEW_MICROS_PER_MILLI);
        self.micros = if wall > unslewed {
            unslewed.saturating_add(slew_max.min(wall - unslewed))
        } else {
            unslewed - slew_max.min(unslewed - wall)
        };
        Timestamp(self.micros / MICROS_PER_MILLI)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000;
    const HOUR: u64 = 3_600 * SECOND;
    /// A wall clock reading: 2030-01-01T00:00:00Z.
    const WALL: u64 = 1_893_456_000_000;
    const BOOT: u64 = 77 * SECOND;

    /// Design D4: each row is (name, high water, step of the wall clock, time that passes, server time that passes).
    #[test]
    fn steps_of_the_wall_clock_are_slewed() {
        let day = 24 * HOUR;
        let rows: &[(&str, u64, i64, u64, u64)] = &[
            ("no step", 0, 0, HOUR, HOUR),
            ("+25 h, after nothing", 0, 25 * 3_600_000, 0, 0),
            (
                "+25 h, after a second",
                0,
                25 * 3_600_000,
                SECOND,
                SECOND + 5,
            ),
            (
                "+25 h, after an hour",
                0,
                25 * 3_600_000,
                HOUR,
                HOUR + HOUR / 200,
            ),
            (
                "-2 h, after a second",
                0,
                -2 * 3_600_000,
                SECOND,
                SECOND - 5,
            ),
            (
                "-2 h, after an hour",
                0,
                -2 * 3_600_000,
                HOUR,
                HOUR - HOUR / 200,
            ),
            ("+10 s is made up for", 0, 10_000, HOUR, HOUR + 10 * SECOND),
            ("-10 s is made up for", 0, -10_000, HOUR, HOUR - 10 * SECOND),
            (
                "+25 h is made up for after 5,000 h",
                0,
                25 * 3_600_000,
                5_000 * HOUR,
                5_025 * HOUR,
            ),
            ("high water in the past", WALL - day, 0, HOUR, HOUR),
            (
                "high water ahead: slower, not stopped",
                WALL + day,
                0,
                HOUR,
                day + HOUR - HOUR / 200,
            ),
        ];
        for (name, high_water, step, passed, expect) in rows {
            let mut time = ServerTime::start(WALL, BOOT, Timestamp(*high_water));
            let wall = WALL
                .checked_add_signed(*step)
                .expect("rows stay after 1970")
                + passed;
            let read = time.read(wall, BOOT + passed);
            assert_eq!(read.as_millis() - WALL, *expect, "{name}");
        }
    }

    #[test]
    fn frequent_readings_slew_as_much_as_rare_ones() {
        let mut time = ServerTime::start(WALL, BOOT, Timestamp::ZERO);
        let mut last = Timestamp::ZERO;
        for passed in 0..=HOUR {
            last = time.read(WALL + 25 * HOUR + passed, BOOT + passed);
        }
        assert_eq!(last.as_millis() - WALL, HOUR + HOUR / 200);
    }

    #[test]
    fn never_goes_back_and_never_jumps() {
        let mut time = ServerTime::start(WALL, BOOT, Timestamp::ZERO);
        let walls = [
            WALL + 25 * HOUR,
            WALL - 2 * HOUR,
            0,
            u64::MAX,
            WALL,
            WALL + 1,
        ];
        let mut last = time.read(WALL, BOOT);
        for passed in 1..2_000 {
            let wall = walls[usize::try_from(passed).unwrap() % walls.len()];
            // Every third reading comes late, with a time since boot that another thread has already passed.
            let boot = BOOT + if passed % 3 == 0 { passed - 1 } else { passed };
            let read = time.read(wall, boot);
            assert!(read >= last, "went back at {passed}");
            assert!(
                read.since(last) <= Duration::from_millis(3),
                "jumped at {passed}"
            );
            last = read;
        }
    }

    #[test]
    fn starts_at_the_later_of_wall_clock_and_high_water() {
        let later = Timestamp(WALL + 5);
        assert_eq!(ServerTime::start(WALL, BOOT, later).read(WALL, BOOT), later);
        assert_eq!(
            ServerTime::start(WALL, BOOT, Timestamp(5)).read(WALL, BOOT),
            Timestamp(WALL)
        );
    }
}
