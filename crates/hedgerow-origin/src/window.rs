//! The newest samples of an origin in a group, and what they say: its health (HP-060 to HP-062, HP-066), and its latency
//! (HP-055).
//!
//! A window keeps what the probes met, not how it was judged: when a group's timeout changes, its samples are judged anew.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::outcome::{Demands, Observation, Reason};
use crate::threshold::Thresholds;

/// What an origin is in a group.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing is known of it yet. It is not assumed to be healthy (HP-062).
    #[default]
    Unknown,
    /// Enough of its samples are good.
    Healthy,
    /// They are not.
    Unhealthy,
}

impl State {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// The newest n samples. Serializable: windows outlive a restart (HP-197).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// n.
    size: u8,
    /// Oldest first, at most `size`.
    samples: VecDeque<Observation>,
    /// They are of an earlier run of the process, and there is no newer one yet.
    #[serde(skip, default = "is_read_back")]
    is_restored: bool,
}

const fn is_read_back() -> bool {
    true
}

/// How the samples are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// n and x.
    pub thresholds: Thresholds,
    /// What makes a sample good.
    pub demands: Demands,
    /// An origin that has had no success stays unknown until the window is decided: `unhealthy_threshold` is given (HP-117).
    pub waits_for_threshold: bool,
}

/// What the samples say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// The state.
    pub state: State,
    /// Further samples cannot turn it before the window is full: HP-061 (1) or (2) holds, or it is full.
    pub is_decided: bool,
    /// The window is not decided yet, or none of its samples is of this run of the process.
    pub is_provisional: bool,
    /// s, the samples held.
    pub samples: u8,
    /// k, the successes among them.
    pub successes: u8,
    /// The lower median of the successes' latencies, in microseconds (HP-055).
    pub latency_us: Option<u64>,
    /// The newest sample, if there is any.
    pub newest: Option<Result<u64, Reason>>,
}

impl Default for Judgement {
    /// Nothing is known.
    fn default() -> Self {
        Self {
            state: State::Unknown,
            is_decided: false,
            is_provisional: true,
            samples: 0,
            successes: 0,
            latency_us: None,
            newest: None,
        }
    }
}

impl Window {
    /// No samples, of which `thresholds` will count the newest n.
    #[must_use]
    pub const fn new(thresholds: Thresholds) -> Self {
        Self {
            size: thresholds.sample_size(),
            samples: VecDeque::new(),
            is_restored: false,
        }
    }

    /// Takes a sample, and forgets the oldest if there are more than n.
    pub fn push(&mut self, observation: Observation) {
        self.is_restored = false;
        self.keep(usize::from(self.size).saturating_sub(1));
        self.samples.push_back(observation);
    }

    /// Changes n, and keeps the newest min(n, s) samples (HP-007).
    pub fn resize(&mut self, thresholds: Thresholds) {
        self.size = thresholds.sample_size();
        self.keep(usize::from(self.size));
    }

    /// The same samples as a group sees them that joins their stream (HP-075): the newest of them, up to its n.
    #[must_use]
    pub fn joined(&self, thresholds: Thresholds) -> Self {
        let mut joined = self.clone();
        joined.resize(thresholds);
        joined
    }

    /// The same samples in another run of the process, also where they were not stored in between.
    pub(crate) const fn of_earlier_run(mut self) -> Self {
        self.is_restored = true;
        self
    }

    /// The samples, oldest first.
    #[must_use]
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &Observation> + ExactSizeIterator {
        self.samples.iter()
    }

    /// n.
    #[must_use]
    pub const fn size(&self) -> u8 {
        self.size
    }

    /// The newest sample.
    #[must_use]
    pub fn newest(&self) -> Option<&Observation> {
        self.samples.back()
    }

    /// Whether the samples are of an earlier run of the process (HP-197).
    #[must_use]
    pub const fn is_restored(&self) -> bool {
        self.is_restored
    }

    /// What the samples say.
    #[must_use]
    pub fn judge(&self, rules: &Rules) -> Judgement {
        let size = usize::from(rules.thresholds.sample_size());
        let mut latencies = Latencies::default();
        let (mut samples, mut newest) = (0_u8, None);
        for observation in self.samples.iter().rev().take(size) {
            let judged = observation.judge(&rules.demands);
            newest.get_or_insert(judged);
            samples = samples.saturating_add(1);
            if let Ok(latency_us) = judged {
                latencies.push(latency_us);
            }
        }
        let successes = latencies.count;
        let (state, is_decided) = state(samples, successes, newest, rules);
        Judgement {
            state,
            is_decided,
            is_provisional: !is_decided || self.is_restored,
            samples,
            successes,
            latency_us: latencies.lower_median(),
            newest,
        }
    }

    fn keep(&mut self, count: usize) {
        let surplus = self.samples.len().saturating_sub(count);
        self.samples.drain(..surplus);
    }
}

/// HP-060 to HP-062: the state, and whether the window is decided.
fn state(
    samples: u8,
    successes: u8,
    newest: Option<Result<u64, Reason>>,
    rules: &Rules,
) -> (State, bool) {
    let thresholds = rules.thresholds;
    let failures = samples.saturating_sub(successes);
    if successes >= thresholds.required() {
        return (State::Healthy, true);
    }
    if failures > thresholds.failures_allowed() {
        return (State::Unhealthy, true);
    }
    // With n samples one of both holds: k ≥ x, or f = n − k > n − x.
    match newest {
        None => (State::Unknown, false),
        Some(_) if successes == 0 && rules.waits_for_threshold => (State::Unknown, false),
        Some(Ok(_)) => (State::Healthy, false),
        Some(Err(_)) => (State::Unhealthy, false),
    }
}

/// The latencies of the successes of a window, without allocating.
struct Latencies {
    values: [u64; u8::MAX as usize],
    count: u8,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            values: [0; u8::MAX as usize],
            count: 0,
        }
    }
}

impl Latencies {
    fn push(&mut self, latency_us: u64) {
        if let Some(place) = self.values.get_mut(usize::from(self.count)) {
            *place = latency_us;
            self.count += 1;
        }
    }

    /// Sorted, index ⌊(count − 1)/2⌋.
    fn lower_median(mut self) -> Option<u64> {
        let middle = usize::from(self.count.checked_sub(1)?) / 2;
        let values = self.values.get_mut(..usize::from(self.count))?;
        let (_, median, _) = values.select_nth_unstable(middle);
        Some(*median)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outcome::Response;

    fn sample(second: u64, elapsed_ms: u64) -> Observation {
        Observation::response(
            Duration::from_secs(second),
            Duration::from_millis(elapsed_ms),
            Response::complete(200),
        )
    }

    fn window(n: u32, x: u32, elapsed_ms: &[u64]) -> (Window, Rules) {
        let rules = Rules {
            thresholds: Thresholds::new(n, x).unwrap(),
            ..Rules::default()
        };
        let mut window = Window::new(rules.thresholds);
        for (second, elapsed_ms) in (0..).zip(elapsed_ms) {
            window.push(sample(second, *elapsed_ms));
        }
        (window, rules)
    }

    /// HP-066: a change of T judges the samples that are held anew.
    #[test]
    fn a_changed_timeout_judges_again() {
        let (window, mut rules) = window(4, 3, &[1_000, 7_000, 7_000, 1_000]);
        assert_eq!(window.judge(&rules).state, State::Unhealthy);
        rules.demands.timeout = Duration::from_secs(10);
        let judged = window.judge(&rules);
        assert_eq!((judged.state, judged.successes), (State::Healthy, 4));
        assert_eq!(judged.latency_us, Some(1_000_000));
    }

    /// HP-007: a smaller n keeps the newest samples; a larger one all there are.
    #[test]
    fn a_changed_size_keeps_the_newest() {
        let (mut window, mut rules) = window(4, 1, &[1_000, 2_000, 9_000, 9_000]);
        assert_eq!(window.judge(&rules).state, State::Healthy);
        rules.thresholds = Thresholds::new(2, 1).unwrap();
        window.resize(rules.thresholds);
        assert_eq!(window.samples().len(), 2);
        let judged = window.judge(&rules);
        assert_eq!((judged.state, judged.samples), (State::Unhealthy, 2));
        rules.thresholds = Thresholds::new(10, 1).unwrap();
        window.resize(rules.thresholds);
        let judged = window.judge(&rules);
        assert_eq!((judged.state, judged.samples), (State::Unhealthy, 2));
        assert!(judged.is_provisional);
    }

    /// HP-075: who joins sees the newest samples, judged by its own timeout, and is not unknown.
    #[test]
    fn who_joins_a_stream_sees_its_samples() {
        let (window, _) = window(4, 3, &[9_000, 9_000, 9_000, 7_000]);
        let own = Rules {
            thresholds: Thresholds::new(1, 1).unwrap(),
            demands: Demands {
                timeout: Duration::from_secs(8),
                ..Demands::default()
            },
            ..Rules::default()
        };
        let judged = window.joined(own.thresholds).judge(&own);
        assert_eq!((judged.state, judged.samples), (State::Healthy, 1));
    }

    /// HP-197: read back, a window is provisional until its first new sample.
    #[test]
    fn a_window_that_was_read_back_is_provisional() {
        let (window, rules) = window(4, 3, &[1, 2, 3, 4]);
        assert!(!window.judge(&rules).is_provisional);
        let text = serde_json::to_string(&window).unwrap();
        let mut back: Window = serde_json::from_str(&text).unwrap();
        let judged = back.judge(&rules);
        assert_eq!((judged.state, judged.samples), (State::Healthy, 4));
        assert!(judged.is_provisional && back.is_restored());
        back.push(sample(5, 1));
        assert!(!back.judge(&rules).is_provisional);
    }

    /// HP-117: with `unhealthy_threshold` given, an origin without a success is unknown until so many failures.
    #[test]
    fn an_unhealthy_threshold_is_waited_for() {
        let late = 9_000;
        let rows: [(&[u64], State); 6] = [
            (&[late], State::Unknown),
            (&[late, late, late], State::Unknown),
            (&[late, late, late, late], State::Unhealthy),
            (&[late, late, late, 1], State::Healthy),
            (&[1, late], State::Unhealthy),
            (&[late, 1, late], State::Unhealthy),
        ];
        for (elapsed_ms, expect) in rows {
            // n = 5, u = 4, so x = 2.
            let (window, mut rules) = window(5, 2, elapsed_ms);
            rules.waits_for_threshold = true;
            assert_eq!(window.judge(&rules).state, expect, "{elapsed_ms:?}");
        }
    }

    /// HP-055: the largest window has a latency too.
    #[test]
    fn the_median_of_the_largest_window() {
        let elapsed_ms: Vec<u64> = (1..=255).rev().collect();
        let (window, rules) = window(255, 255, &elapsed_ms);
        assert_eq!(window.judge(&rules).latency_us, Some(128_000));
    }
}
