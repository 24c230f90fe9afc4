//! How fast may be published to one topic (ED-060, ED-061): so many units of 64 KB and so many bytes a second, whichever is
//! reached first.
//!
//! A bucket holds what may be published in one second. It is known by when it will be full again, so that nothing is done
//! while nobody publishes. A request that takes more than a bucket holds goes out of a full one, and those behind it wait for
//! longer: what one request may be is bounded elsewhere (ED-057).

use std::time::{Duration, Instant};

/// How much a bucket holds, as the time in which it fills.
const BURST: Duration = Duration::from_secs(1);
/// Bytes of an event that count as one unit, at most. Source: ED-060.
pub const UNIT_BYTES: usize = 64 << 10;

/// What each topic takes in a second; 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    /// Events, where each started 64 KB of an event counts as one.
    pub events_per_second: u32,
    /// Bytes of request bodies.
    pub bytes_per_second: u64,
}

impl RateLimits {
    /// Everything is taken.
    pub const OFF: Self = Self {
        events_per_second: 0,
        bytes_per_second: 0,
    };

    /// Whether nothing is limited.
    #[must_use]
    pub const fn are_off(&self) -> bool {
        self.events_per_second == 0 && self.bytes_per_second == 0
    }
}

impl Default for RateLimits {
    /// Source: ED-061.
    fn default() -> Self {
        Self {
            events_per_second: 5_000,
            bytes_per_second: 5 << 20,
        }
    }
}

/// The units of an event whose JSON text has so many bytes (ED-060).
#[must_use]
pub const fn units(event_bytes: usize) -> u64 {
    let started = event_bytes.div_ceil(UNIT_BYTES);
    if started == 0 { 1 } else { started as u64 }
}

/// What a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The units of its events.
    pub units: u64,
    /// The bytes of its body.
    pub bytes: u64,
}

/// Which limit a request is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimit {
    /// [`RateLimits::events_per_second`].
    Events,
    /// [`RateLimits::bytes_per_second`].
    Bytes,
}

/// A request that comes too early. Nothing was taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFast {
    /// The limit that is met last, of those it is over.
    pub limit: RateLimit,
    /// When it would be taken, if nobody else publishes until then.
    pub wait: Duration,
}

/// What of one topic's limits is used up.
#[derive(Debug, Clone, Copy, Default)]
pub struct PublishRate {
    events: Bucket,
    bytes: Bucket,
}

impl PublishRate {
    /// Takes what a request costs at `now`, all of it or nothing.
    ///
    /// # Errors
    /// If a limit is reached.
    pub fn take(&mut self, limits: &RateLimits, cost: Cost, now: Instant) -> Result<(), TooFast> {
        let events = fill_time(cost.units, u64::from(limits.events_per_second));
        let bytes = fill_time(cost.bytes, limits.bytes_per_second);
        let of_events = (self.events.wait(events, now), RateLimit::Events);
        let of_bytes = (self.bytes.wait(bytes, now), RateLimit::Bytes);
        let (wait, limit) = if of_bytes.0 > of_events.0 {
            of_bytes
        } else {
            of_events
        };
        if !wait.is_zero() {
            return Err(TooFast { limit, wait });
        }
        self.events.take(events, now);
        self.bytes.take(bytes, now);
        Ok(())
    }

    /// Whether it is as if nothing had ever been published, so that nothing need be remembered.
    #[must_use]
    pub fn is_unused(&self, now: Instant) -> bool {
        let is_full = |bucket: &Bucket| bucket.full_at.is_none_or(|full_at| full_at <= now);
        is_full(&self.events) && is_full(&self.bytes)
    }
}

/// One bucket.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// When it will be full again; `None` before anything was taken.
    full_at: Option<Instant>,
}

impl Bucket {
    /// How long what fills in this time cannot be taken.
    fn wait(&self, cost: Duration, now: Instant) -> Duration {
        let lacking = self.lacking(now);
        (lacking + cost.min(BURST)).saturating_sub(BURST)
    }

    fn take(&mut self, cost: Duration, now: Instant) {
        if !cost.is_zero() {
            self.full_at = now.checked_add(self.lacking(now) + cost);
        }
    }

    /// In how much time it is full.
    fn lacking(&self, now: Instant) -> Duration {
        let full_at = self.full_at.unwrap_or(now);
        full_at.saturating_duration_since(now)
    }
}

/// The time in which so much flows in; none where the rate has no limit. Rounded up, so that no more is ever taken.
fn fill_time(count: u64, per_second: u64) -> Duration {
    if per_second == 0 {
        return Duration::ZERO;
    }
    let nanos = (u128::from(count) * 1_000_000_000).div_ceil(u128::from(per_second));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-060.
    #[test]
    fn each_started_64_kb_is_a_unit() {
        for (bytes, expected) in [
            (0, 1),
            (1, 1),
            (65_536, 1),
            (65_537, 2),
            (130 << 10, 3),
            (131_072, 2),
            (131_073, 3),
        ] {
            assert_eq!(units(bytes), expected, "{bytes}");
        }
    }

    /// ED-061, at given instants: when, units, bytes, and how long it has to wait, in milliseconds.
    #[test]
    fn a_second_of_events_or_of_bytes_is_taken_whichever_comes_first() {
        type Step = (u64, u64, u64, Option<(RateLimit, u64)>);
        let limits = RateLimits::default();
        let mib = 1_u64 << 20;
        let events = |wait| Some((RateLimit::Events, wait));
        let bytes = |wait| Some((RateLimit::Bytes, wait));
        let rows: [(&str, &[Step]); 7] = [
            (
                "a full bucket is a second's worth",
                &[(0, 5_000, 0, None), (0, 1, 0, events(1))],
            ),
            (
                "it fills while time passes",
                &[
                    (0, 5_000, 0, None),
                    (100, 501, 0, events(1)),
                    (100, 500, 0, None),
                    (1_100, 5_000, 0, None),
                ],
            ),
            (
                "and never holds more than a second's worth",
                &[
                    (0, 5_000, 0, None),
                    (60_000, 5_000, 0, None),
                    (60_000, 1, 0, events(1)),
                ],
            ),
            (
                "bytes have a bucket of their own",
                &[
                    (0, 1, 5 * mib, None),
                    (0, 1, mib, bytes(200)),
                    (200, 1, mib, None),
                ],
            ),
            (
                "what is refused takes nothing, of neither",
                &[
                    (0, 1, 5 * mib, None),
                    (0, 4_999, mib, bytes(200)),
                    (0, 4_999, 0, None),
                    (0, 1, 0, events(1)),
                ],
            ),
            (
                "what is larger than a bucket goes out of a full one, and is paid for afterwards",
                &[
                    (0, 10_000, 0, None),
                    (1_000, 1, 0, events(1)),
                    (1_000, 5_000, 0, events(1_000)),
                    (2_000, 5_000, 0, None),
                ],
            ),
            (
                "the longer wait is told",
                &[(0, 5_000, 5 * mib, None), (0, 1_000, 2 * mib, bytes(400))],
            ),
        ];
        let start = Instant::now();
        for (name, steps) in rows {
            let mut rate = PublishRate::default();
            for (at, units, bytes, expected) in steps {
                let now = start + Duration::from_millis(*at);
                let cost = Cost {
                    units: *units,
                    bytes: *bytes,
                };
                let found = rate.take(&limits, cost, now).err();
                let found =
                    found.map(|fast| (fast.limit, fast.wait.as_nanos().div_ceil(1_000_000) as u64));
                assert_eq!(
                    found, *expected,
                    "{name}, at {at}: {units} units, {bytes} bytes"
                );
            }
        }
    }

    #[test]
    fn a_limit_of_0_limits_nothing() {
        let now = Instant::now();
        let limits = RateLimits {
            events_per_second: 0,
            ..RateLimits::default()
        };
        let cost = Cost {
            units: 1_000_000,
            bytes: 1,
        };
        let mut rate = PublishRate::default();
        for _ in 0..1_000 {
            rate.take(&limits, cost, now).unwrap();
        }
        assert!(RateLimits::OFF.are_off() && !limits.are_off());
    }
}
