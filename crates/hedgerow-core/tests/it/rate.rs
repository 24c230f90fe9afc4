//! ED-061 for any requests at any instants: never more is taken than the limits say, and what was refused is taken when it was
//! told to come back, and no sooner.

use std::time::{Duration, Instant};

use hedgerow_core::rate::{Cost, PublishRate, RateLimit, RateLimits, TooFast};
use proptest::collection::vec;
use proptest::prelude::*;

const LIMITS: RateLimits = RateLimits {
    events_per_second: 70,
    bytes_per_second: 3_000,
};

/// A wait in milliseconds, then units and bytes.
fn any_request() -> impl Strategy<Value = (u64, u64, u64)> {
    (0..3_000_u64, 1..200_u64, 1..9_000_u64)
}

/// A rate is a bound on every stretch of time: a second's worth more than what flows in, and what the last request is larger
/// than a bucket.
fn check_bound(taken: &[(Duration, u64)], per_second: u64) -> Result<(), TestCaseError> {
    for (first, (begin, _)) in taken.iter().enumerate() {
        let mut sum = 0;
        for (end, count) in &taken[first..] {
            let flowed_in = end.saturating_sub(*begin).as_secs_f64() * per_second as f64;
            let possible = flowed_in + per_second as f64 + 1.0;
            prop_assert!(
                sum as f64 <= possible,
                "{sum} before {count} from {begin:?} to {end:?}"
            );
            sum += count;
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_stretch_of_time_has_more_than_the_limits(requests in vec(any_request(), 1..60)) {
        let start = Instant::now();
        let mut rate = PublishRate::default();
        let (mut at, mut units_taken, mut bytes_taken) = (Duration::ZERO, Vec::new(), Vec::new());
        for (wait, units, bytes) in requests {
            at += Duration::from_millis(wait);
            if rate.take(&LIMITS, Cost { units, bytes }, start + at).is_ok() {
                units_taken.push((at, units));
                bytes_taken.push((at, bytes));
            }
        }
        check_bound(&units_taken, LIMITS.events_per_second.into())?;
        check_bound(&bytes_taken, LIMITS.bytes_per_second)?;
    }

    #[test]
    fn what_is_refused_is_taken_after_its_wait_and_not_before(requests in vec(any_request(), 1..60)) {
        let mut now = Instant::now();
        let mut rate = PublishRate::default();
        for (wait, units, bytes) in requests {
            now += Duration::from_millis(wait);
            let cost = Cost { units, bytes };
            let before = rate;
            let Err(TooFast { wait, limit }) = rate.take(&LIMITS, cost, now) else {
                continue;
            };
            let early = now + wait.saturating_sub(Duration::from_nanos(1));
            let mut tried = before;
            prop_assert!(tried.take(&LIMITS, cost, early).is_err());
            let other = match limit {
                RateLimit::Events => RateLimits { events_per_second: 0, ..LIMITS },
                RateLimit::Bytes => RateLimits { bytes_per_second: 0, ..LIMITS },
            };
            prop_assert!(tried.take(&other, cost, now + wait).is_ok(), "the other limit was met sooner");
            now += wait;
            prop_assert!(rate.take(&LIMITS, cost, now).is_ok());
        }
    }
}
