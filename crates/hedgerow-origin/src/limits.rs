//! Every bound that users of groups can meet, with its unit and where it is from.

use std::ops::RangeInclusive;
use std::time::Duration;

// --- groups ---

/// Origins of a group. Source: HP-001.
pub const ORIGINS: RangeInclusive<usize> = 1..=50;

/// Bytes of an origin's name: it is shown in lists and is a label of metrics.
pub const ORIGIN_NAME_BYTES_MAX: usize = 64;

/// Bytes of a host name without its trailing dot. Source: the domain name system.
pub const HOST_BYTES_MAX: usize = 253;

/// Groups of a node: each costs probes, and a page of its own in the metrics.
pub const GROUPS_MAX: usize = 1_000;

/// `probe.interval_s`, in seconds. Source: HP-016.
pub const INTERVAL_S: RangeInclusive<u32> = 5..=255;

/// `probe.timeout_s`, in seconds. Source: section 1 of the specification.
pub const TIMEOUT_S: RangeInclusive<u32> = 1..=60;

/// Bytes of `probe.path`: the longest URL that the edge takes (HP-183).
pub const PROBE_PATH_BYTES_MAX: usize = 8_192;

/// `probe.headers`: some servers want one to tell probes of several senders apart; more would weigh more than the probe.
pub const PROBE_HEADERS_MAX: usize = 10;
/// Bytes of the name or the value of one of them.
pub const PROBE_HEADER_BYTES_MAX: usize = 1_024;

/// `probe.header_bytes_max`: bytes of the longest response head. Source: HP-045.
pub const RESPONSE_HEAD_BYTES: RangeInclusive<u32> = 4_096..=65_536;

/// Bytes of the longest body of an answer to a `GET` probe. Source: HP-046.
pub const RESPONSE_BODY_BYTES_MAX: u64 = 1 << 20;

/// `probe.expected_statuses`: no interim answer is one, and 5xx says that the server cannot serve.
pub const EXPECTED_STATUS: RangeInclusive<u32> = 200..=499;
/// How many of them there are: more would be "any".
pub const EXPECTED_STATUSES: RangeInclusive<usize> = 1..=10;

/// Interim (1xx) responses before the final one. Source: HP-042.
pub const INTERIM_RESPONSES_MAX: u8 = 8;

/// `load_balancing.sample_size`, a count. Source: HP-064.
pub const SAMPLE_SIZE: RangeInclusive<u32> = 1..=255;

/// `load_balancing.additional_latency_ms`, in milliseconds. Source: section 1 of the specification.
pub const ADDITIONAL_LATENCY_MS: RangeInclusive<u32> = 0..=1_000;

/// An origin's `priority`; lower is preferred. Source: HP-122.
pub const PRIORITY: RangeInclusive<u32> = 1..=5;

/// An origin's `weight`. Source: HP-127.
pub const WEIGHT: RangeInclusive<u32> = 1..=1_000;

/// A port.
pub const PORT: RangeInclusive<u32> = 1..=65_535;

/// An origin's `startup_grace_s`, in seconds. Source: HP-115.
pub const STARTUP_GRACE_S: RangeInclusive<u32> = 0..=600;

/// `idle_after_s`, in seconds: after a day without use nothing more is learnt by waiting.
pub const IDLE_AFTER_S: RangeInclusive<u32> = 1..=86_400;

/// `idle_max_level`: 2 to this power is the largest factor of the interval.
pub const IDLE_LEVEL: RangeInclusive<u32> = 0..=8;

/// `idle_cap_s`, in seconds: an hour, beyond which a probe tells nothing about now.
pub const IDLE_CAP_S: RangeInclusive<u32> = 1..=3_600;

/// `ramp_s`, in seconds.
pub const RAMP_S: RangeInclusive<u32> = 0..=3_600;

// --- probing ---

/// Probes that a node sends in a second, unless it is told otherwise (`probe_budget_per_s`). Source: HP-190.
pub const PROBES_PER_SECOND: u32 = 500;

/// Failures in a row of real requests that ask for a probe at once. Source: HP-192.
pub const PASSIVE_FAILURES: u32 = 5;

/// Between two probes of one origin that failures of real requests asked for. Source: HP-192.
pub const PASSIVE_PROBE_SPACING: Duration = Duration::from_secs(1);

/// Probes a minute to one origin above which the estimate warns. Source: HP-088.
pub const VOLUME_WARNED_PER_MINUTE: f64 = 60.0;

// --- flap damping (HP-195) ---

/// What a change from healthy to unhealthy adds to the penalty.
pub const FLAP_PENALTY: f64 = 1_000.0;
/// From this penalty on the origin is held out.
pub const FLAP_HELD_FROM: f64 = 3_000.0;
/// Below this penalty it is no longer.
pub const FLAP_HELD_TO: f64 = 1_500.0;
/// In this time the penalty halves.
pub const FLAP_HALF_LIFE: Duration = Duration::from_secs(300);
/// It is not held out for longer.
pub const FLAP_HELD_MAX: Duration = Duration::from_secs(900);

// --- routes ---

/// Routes of a listener: each request is compared with those of its host.
pub const ROUTES_MAX: usize = 1_000;
/// Hosts, and paths, of one route.
pub const ROUTE_PATTERNS_MAX: usize = 100;
/// Combinations of a protocol, a host and a path that all routes of a listener have together: making the table anew takes a few
/// milliseconds then.
pub const ROUTE_COMBINATIONS_MAX: usize = 50_000;
/// Statuses of a redirect to HTTPS, the recommended one first. Source: HP-155.
pub const REDIRECT_STATUSES: [u16; 4] = [308, 301, 302, 307];
