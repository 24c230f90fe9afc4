//! When a stream probes (HP-080, HP-081, HP-084, HP-117): a start burst, then ticks of a fixed phase with jitter, so that
//! lateness never accumulates; and probes besides, asked for at once.
//!
//! ```text
//!            window decided, or n samples, or a failure of a group that waits
//!   burst ------------------------------------------------------------------> steady
//!     ^  a tick every max(1 s, T/5)                    a tick at phase + j·I + jitter |
//!     '------------------------------------------------------------------------------'
//!                            a second origin is enabled (HP-105)
//! ```
//!
//! Chance comes from a seed: the same seed gives the same ticks.

use std::time::Duration;

/// The first probe of a new stream comes within this (HP-081).
const FIRST_WITHIN: Duration = Duration::from_secs(1);
/// In a burst probes are not closer than this (HP-081).
const BURST_SPACING_MIN: Duration = Duration::from_secs(1);
/// Jitter is so many parts of the interval to either side (HP-080).
const JITTER: f64 = 0.1;

/// The ticks of one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    chance: Chance,
    interval: Duration,
    timeout: Duration,
    /// Tick j is due at `phase` + j·I + jitter(j).
    phase: Duration,
    /// j of the next tick.
    tick: u64,
    /// When the next tick is due.
    due: Duration,
    /// Samples that a burst may still have; `None` when it is over.
    burst_left: Option<u32>,
    /// A probe besides the ticks.
    extra: Option<Duration>,
    /// Ticks that no probe was sent for (HP-027).
    skipped: u64,
}

/// What a sample means for a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Some group's window is undecided.
    Undecided,
    /// The sample failed, and each group whose window is undecided waits: it has `unhealthy_threshold`, or grace (HP-117).
    Waiting,
    /// All windows are decided.
    Decided,
}

impl Schedule {
    /// The schedule of a stream that begins now with a burst of at most `samples`. Streams of one node have different seeds.
    #[must_use]
    pub fn new(
        seed: u64,
        interval: Duration,
        timeout: Duration,
        samples: u32,
        now: Duration,
    ) -> Self {
        let mut schedule = Self {
            chance: Chance(seed),
            interval,
            timeout,
            phase: now,
            tick: 0,
            due: now,
            burst_left: None,
            extra: None,
            skipped: 0,
        };
        schedule.burst(samples, now);
        schedule
    }

    /// Begins a burst: the next probe comes within min(1 s, I) (HP-081, HP-105).
    pub fn burst(&mut self, samples: u32, now: Duration) {
        self.burst_left = Some(samples.max(1));
        let within = FIRST_WITHIN.min(self.interval);
        let first = now.saturating_add(within.mul_f64(self.chance.draw()));
        self.due = if self.due > now {
            self.due.min(first)
        } else {
            first
        };
    }

    /// When the next probe is due.
    #[must_use]
    pub fn due(&self) -> Duration {
        self.extra.map_or(self.due, |extra| extra.min(self.due))
    }

    /// The effective interval.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Ticks that no probe was sent for, and that are not made up: those that came while a probe was in flight (HP-027), and
    /// those that had passed already when whoever sends the probes was so late, by whole intervals, that it asked for the next
    /// one only then.
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The probe that was due is sent now, or, if one is in flight still, is skipped.
    pub fn take(&mut self, is_in_flight: bool, now: Duration) {
        if self.extra.is_some_and(|extra| extra <= now) {
            self.extra = None;
        }
        if self.due > now {
            return;
        }
        self.skipped += u64::from(is_in_flight);
        if self.burst_left.is_some() {
            let spacing = self.burst_spacing();
            self.due = self.due.saturating_add(spacing);
            if self.due <= now {
                self.due = now.saturating_add(spacing);
            }
        } else {
            self.advance(now);
        }
    }

    /// A probe ended with a sample.
    pub fn sampled(&mut self, progress: Progress, now: Duration) {
        let Some(left) = self.burst_left else { return };
        let left = left.saturating_sub(1);
        match progress {
            Progress::Undecided if left > 0 => self.burst_left = Some(left),
            Progress::Waiting => {
                // One interval after the sample, which sets the phase anew.
                self.burst_left = None;
                self.settle_at(now);
            }
            Progress::Undecided | Progress::Decided => {
                self.burst_left = None;
                let offset = self.interval.mul_f64(self.chance.draw());
                // A phase of [0, I), in which the tick 1 is the next.
                self.settle_at(now.saturating_add(offset).saturating_sub(self.interval));
            }
        }
    }

    /// The interval or the timeout are others from now on (HP-073, HP-082). The ticks go on from the last one.
    pub fn change(&mut self, interval: Duration, timeout: Duration, now: Duration) {
        self.timeout = timeout;
        if interval == self.interval {
            return;
        }
        let last = self.tick.saturating_sub(1);
        let last_tick = self.phase.saturating_add(times(self.interval, last));
        self.interval = interval;
        if self.burst_left.is_some() {
            return;
        }
        self.settle_at(last_tick.min(now));
        if self.due <= now {
            self.settle_at(now.saturating_sub(interval));
            self.due = now.saturating_add(within(interval).mul_f64(self.chance.draw()));
        }
    }

    /// The group is used again after it has idled: if its newest sample is older than I, there is a probe within
    /// min(1 s, I/10) (HP-084).
    pub fn wake(&mut self, newest: Option<Duration>, interval: Duration, now: Duration) {
        let is_old = newest.is_none_or(|newest| now.saturating_sub(newest) > interval);
        // A tick that comes as soon is the probe.
        if is_old && self.due() > now.saturating_add(within(interval)) {
            let soon = now.saturating_add(within(interval).mul_f64(self.chance.draw()));
            self.ask(soon);
        }
    }

    /// Asks for a probe besides the ticks, at this time at the latest (HP-192).
    pub fn ask(&mut self, at: Duration) {
        self.extra = Some(self.extra.map_or(at, |extra| extra.min(at)));
    }

    /// max(1 s, T/5).
    fn burst_spacing(&self) -> Duration {
        BURST_SPACING_MIN.max(self.timeout / 5)
    }

    /// Tick 0 is at `phase`, and tick 1 the next.
    fn settle_at(&mut self, phase: Duration) {
        self.phase = phase;
        self.tick = 1;
        self.due = self.due_of(1);
    }

    /// To the first tick whose place in the grid is still to come; those in between are not made up.
    fn advance(&mut self, now: Duration) {
        self.tick = self.tick.saturating_add(1);
        let passed = now.saturating_sub(self.phase).as_nanos();
        let interval = self.interval.as_nanos().max(1);
        let current = u64::try_from(passed / interval).unwrap_or(u64::MAX);
        if current > self.tick {
            self.skipped = self.skipped.saturating_add(current - self.tick);
            self.tick = current;
        }
        self.due = self.due_of(self.tick);
        if self.due <= now {
            self.tick = self.tick.saturating_add(1);
            self.due = self.due_of(self.tick);
        }
    }

    /// When tick j is due, jitter included.
    fn due_of(&mut self, tick: u64) -> Duration {
        let place = self.phase.saturating_add(times(self.interval, tick));
        let jitter = self.interval.mul_f64(JITTER);
        let at = place.saturating_add(jitter.mul_f64(2.0 * self.chance.draw()));
        at.saturating_sub(jitter)
    }
}

/// min(1 s, I/10).
fn within(interval: Duration) -> Duration {
    FIRST_WITHIN.min(interval / 10)
}

fn times(span: Duration, count: u64) -> Duration {
    let nanos = span.as_nanos().saturating_mul(u128::from(count));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A sequence of draws that its seed decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The sequence of this number among those of a seed.
    pub(crate) const fn of(seed: u64, number: u64) -> Self {
        Self(mixed(seed ^ mixed(number)))
    }

    /// Its seed.
    pub(crate) const fn seed(self) -> u64 {
        self.0
    }

    /// The next draw, in [0, 1): `SplitMix64`.
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mixed(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
