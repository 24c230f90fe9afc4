//! Properties of the window.

use std::time::Duration;

use hedgerow_origin::outcome::{Observation, Reason, Response};
use hedgerow_origin::threshold::Thresholds;
use hedgerow_origin::window::{Rules, State, Window};
use proptest::prelude::*;

fn sample(latency_ms: Option<u64>) -> Observation {
    let at = Duration::ZERO;
    match latency_ms {
        Some(ms) => Observation::response(at, Duration::from_millis(ms), Response::complete(200)),
        None => Observation::failure(at, at, Reason::ConnectionReset),
    }
}

/// What HP-060 to HP-062 say, a second time and plainly.
fn stated(n: usize, x: usize, samples: &[bool]) -> (State, bool) {
    let held = &samples[samples.len().saturating_sub(n)..];
    let good = held.iter().filter(|good| **good).count();
    let bad = held.len() - good;
    match held.last() {
        None => (State::Unknown, true),
        Some(_) if held.len() == n && good >= x => (State::Healthy, false),
        Some(_) if held.len() == n => (State::Unhealthy, false),
        Some(_) if good >= x => (State::Healthy, false),
        Some(_) if bad > n - x => (State::Unhealthy, false),
        Some(true) => (State::Healthy, true),
        Some(false) => (State::Unhealthy, true),
    }
}

fn sizes() -> impl Strategy<Value = (u32, u32)> {
    (1_u32..=20).prop_flat_map(|n| (Just(n), 1..=n))
}

proptest! {
    /// HP-060, HP-061, HP-062: the state after each sample, and that it is never healthy against its thresholds.
    #[test]
    fn never_healthy_against_its_thresholds(
        (n, x) in sizes(),
        samples in prop::collection::vec(any::<bool>(), 0..60),
    ) {
        let thresholds = Thresholds::new(n, x).unwrap();
        let rules = Rules { thresholds, ..Rules::default() };
        let mut window = Window::new(thresholds);
        for count in 0..=samples.len() {
            let judged = window.judge(&rules);
            let expect = stated(n as usize, x as usize, &samples[..count]);
            prop_assert_eq!((judged.state, judged.is_provisional), expect);
            if !judged.is_provisional {
                let is_good = judged.state == State::Healthy;
                prop_assert_eq!(is_good, u32::from(judged.successes) >= x);
            }
            if let Some(good) = samples.get(count) {
                window.push(sample(good.then_some(1)));
            }
        }
    }

    /// HP-065: from all-good it takes n − x + 1 failures, from all-bad x successes, no more and no fewer.
    #[test]
    fn as_many_samples_as_are_told((n, x) in sizes()) {
        let thresholds = Thresholds::new(n, x).unwrap();
        let rules = Rules { thresholds, ..Rules::default() };
        for (before, after, count, to) in [
            (Some(1), None, thresholds.failures_to_unhealthy(), State::Unhealthy),
            (None, Some(1), thresholds.successes_to_healthy(), State::Healthy),
        ] {
            let mut window = Window::new(thresholds);
            for _ in 0..n {
                window.push(sample(before));
            }
            for number in 1..=count {
                prop_assert_ne!(window.judge(&rules).state, to);
                window.push(sample(after));
                prop_assert_eq!(window.judge(&rules).state == to, number == count);
            }
        }
    }

    /// HP-055: the lower median by sorting.
    #[test]
    fn the_latency_is_the_lower_median(
        n in 1_u32..=255,
        samples in prop::collection::vec(prop::option::of(1_u64..5_000), 0..300),
    ) {
        let thresholds = Thresholds::new(n, 1).unwrap();
        let rules = Rules { thresholds, ..Rules::default() };
        let mut window = Window::new(thresholds);
        for latency_ms in &samples {
            window.push(sample(*latency_ms));
        }
        let held = &samples[samples.len().saturating_sub(n as usize)..];
        let mut good: Vec<u64> = held.iter().flatten().copied().collect();
        good.sort_unstable();
        let expect = good.len().checked_sub(1).map(|last| good[last / 2] * 1_000);
        prop_assert_eq!(window.judge(&rules).latency_us, expect);
    }

    /// HP-197, HP-007: a window read back says what it said, but provisionally.
    #[test]
    fn a_window_read_back_says_the_same(
        (n, x) in sizes(),
        samples in prop::collection::vec(prop::option::of(1_u64..9_000), 1..40),
    ) {
        let thresholds = Thresholds::new(n, x).unwrap();
        let rules = Rules { thresholds, ..Rules::default() };
        let mut window = Window::new(thresholds);
        for latency_ms in samples {
            window.push(sample(latency_ms));
        }
        let text = serde_json::to_string(&window).unwrap();
        let back: Window = serde_json::from_str(&text).unwrap();
        let (before, after) = (window.judge(&rules), back.judge(&rules));
        prop_assert!(after.is_provisional);
        prop_assert_eq!(before.state, after.state);
        prop_assert_eq!(before.latency_us, after.latency_us);
    }
}
