//! The kinds of origin groups (HP-001 to HP-155), a file each, and how values in their tables are read.

pub mod config;
pub mod detection_time;
pub mod effective_interval;
pub mod health_window;
pub mod latency;
pub mod probe_outcome;
pub mod probe_sharing;
pub mod route_match;
pub mod selection;
pub mod unhealthy_threshold;
pub mod volume_estimate;

use std::time::Duration;

use hedgerow_origin::outcome::{Observation, Reason, Response};
use hedgerow_origin::threshold::Thresholds;
use serde_json::{Value, json};

/// A sample that is good, whose last byte came so many microseconds after the probe began.
fn success(latency_us: u64) -> Observation {
    let elapsed = Duration::from_micros(latency_us);
    Observation::response(Duration::ZERO, elapsed, Response::complete(200))
}

/// A sample that is not.
fn failure() -> Observation {
    Observation::failure(Duration::ZERO, Duration::ZERO, Reason::ConnectRefused)
}

/// n and x, or the defaults.
fn thresholds(sample_size: Option<u32>, required: Option<u32>) -> Result<Thresholds, String> {
    let default = Thresholds::default();
    let sample_size = sample_size.unwrap_or(default.sample_size().into());
    let required = required.unwrap_or(default.required().into());
    Thresholds::new(sample_size, required)
        .ok_or_else(|| format!("{required} of {sample_size} are no thresholds"))
}

/// Sizes and derived times (HP-065, HP-113).
fn described(thresholds: Thresholds, interval_s: u64, timeout_s: u64) -> Value {
    let (interval, timeout) = (
        Duration::from_secs(interval_s),
        Duration::from_secs(timeout_s),
    );
    json!({
        "sample_size": thresholds.sample_size(),
        "successful_samples_required": thresholds.required(),
        "failures_to_unhealthy": thresholds.failures_to_unhealthy(),
        "successes_to_healthy": thresholds.successes_to_healthy(),
        "worst_detection_s": thresholds.worst_detection(interval, timeout).as_secs(),
        "worst_recovery_s": thresholds.worst_recovery(interval, timeout).as_secs(),
    })
}

/// Six places, as the tables have numbers that are not whole.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
