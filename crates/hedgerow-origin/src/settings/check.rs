//! The ranges of the settings, and what must fit together (HP-001, HP-002, HP-005, HP-010 to HP-021, HP-064, HP-100, HP-101,
//! HP-113).

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::problem::{Code, Problems, Refusal};
use super::{Group, GroupSettings, OriginSettings, ProbeSettings};
use crate::limits;
use crate::threshold::Thresholds;

/// Headers that a probe has by itself, or that would change how it is framed (HP-018, HP-019).
const OWN_HEADERS: [&str; 14] = [
    "host",
    "user-agent",
    "x-fd-healthprobe",
    "connection",
    "cookie",
    "authorization",
    "proxy-authorization",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "keep-alive",
];

pub(super) fn check(mut settings: GroupSettings) -> Result<Group, Refusal> {
    let mut problems = Problems::default();
    probe(&settings.probe, &mut problems);
    let thresholds = thresholds(&settings, &mut problems);
    in_range(
        &mut problems,
        Code::LatencySensitivityOutOfRange,
        "load_balancing.additional_latency_ms",
        settings.load_balancing.additional_latency_ms,
        &limits::ADDITIONAL_LATENCY_MS,
    );
    let idle = settings.idle;
    for (field, value, range) in [
        ("idle_after_s", idle.after_s, limits::IDLE_AFTER_S),
        ("idle_max_level", idle.max_level, limits::IDLE_LEVEL),
        ("idle_cap_s", idle.cap_s, limits::IDLE_CAP_S),
        ("ramp_s", settings.ramp_s, limits::RAMP_S),
    ] {
        in_range(&mut problems, Code::ValueOutOfRange, field, value, &range);
    }
    origins(&settings.origins, &mut problems);
    let enabled = settings.origins.iter().filter(|origin| origin.enabled);
    if !settings.probe.enabled && enabled.count() > 1 {
        problems.add(
            Code::ProbesRequired,
            "probe.enabled",
            "must be true while more than one origin is enabled",
        );
    }
    problems.into_result()?;
    let thresholds = thresholds.unwrap_or_default();
    let load_balancing = &mut settings.load_balancing;
    load_balancing.sample_size = thresholds.sample_size().into();
    load_balancing.successful_samples_required = Some(thresholds.required().into());
    Ok(Group {
        settings,
        thresholds,
    })
}

fn probe(probe: &ProbeSettings, problems: &mut Problems) {
    let (interval, timeout) = (probe.interval_s, probe.timeout_s);
    in_range(
        problems,
        Code::IntervalOutOfRange,
        "probe.interval_s",
        interval,
        &limits::INTERVAL_S,
    );
    in_range(
        problems,
        Code::TimeoutOutOfRange,
        "probe.timeout_s",
        timeout,
        &limits::TIMEOUT_S,
    );
    if timeout > interval {
        problems.add(
            Code::TimeoutExceedsInterval,
            "probe.timeout_s",
            format!("is {timeout}, and must not be above the interval, {interval}"),
        );
    }
    in_range(
        problems,
        Code::ValueOutOfRange,
        "probe.header_bytes_max",
        probe.header_bytes_max,
        &limits::RESPONSE_HEAD_BYTES,
    );
    if let Some(message) = path_problem(&probe.path) {
        problems.add(Code::PathNotAbsolute, "probe.path", message);
    }
    headers(&probe.headers, problems);
    expected_statuses(&probe.expected_statuses, problems);
}

fn expected_statuses(statuses: &[u32], problems: &mut Problems) {
    let (counts, range) = (&limits::EXPECTED_STATUSES, &limits::EXPECTED_STATUS);
    let distinct: HashSet<_> = statuses.iter().collect();
    let is_good = counts.contains(&statuses.len())
        && distinct.len() == statuses.len()
        && statuses.iter().all(|status| range.contains(status));
    if !is_good {
        let message = format!(
            "must be {} to {} different statuses from {} to {}",
            counts.start(),
            counts.end(),
            range.start(),
            range.end()
        );
        problems.add(
            Code::ExpectedStatusNotAllowed,
            "probe.expected_statuses",
            message,
        );
    }
}

/// HP-014.
fn path_problem(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return Some("must begin with \"/\"".to_owned());
    }
    if path.contains('#') {
        return Some("must have no fragment (\"#\")".to_owned());
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some("must have visible ASCII characters only; encode others as %XX".to_owned());
    }
    let max = limits::PROBE_PATH_BYTES_MAX;
    (path.len() > max).then(|| format!("must have at most {max} bytes"))
}

fn headers(headers: &BTreeMap<String, String>, problems: &mut Problems) {
    let max = limits::PROBE_HEADERS_MAX;
    let mut refuse = |message: String| {
        problems.add(Code::HeaderNotAllowed, "probe.headers", message);
    };
    if headers.len() > max {
        refuse(format!("must be at most {max}"));
    }
    let mut names = HashSet::new();
    let bytes_max = limits::PROBE_HEADER_BYTES_MAX;
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        let is_name = !name.is_empty() && name.len() <= bytes_max && name.bytes().all(is_token);
        let is_value = value.len() <= bytes_max
            && value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            && value.trim() == value;
        if !is_name {
            refuse("must have names that are valid for headers".to_owned());
        } else if OWN_HEADERS.contains(&lower.as_str()) {
            refuse(format!("must not replace {name}"));
        } else if !is_value {
            refuse(format!(
                "must have visible ASCII values of at most {bytes_max} bytes, {name} has not"
            ));
        } else if !names.insert(lower) {
            refuse(format!("must name {name} once"));
        }
    }
}

/// The letters of a header's name.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// HP-064 and HP-113.
fn thresholds(settings: &GroupSettings, problems: &mut Problems) -> Option<Thresholds> {
    let given = settings.load_balancing;
    let size_field = "load_balancing.sample_size";
    if !in_range(
        problems,
        Code::SampleSizeOutOfRange,
        size_field,
        given.sample_size,
        &limits::SAMPLE_SIZE,
    ) {
        return None;
    }
    let required_field = "load_balancing.successful_samples_required";
    let Some(unhealthy) = settings.unhealthy_threshold else {
        let default = Thresholds::default().required().into();
        let required = given.successful_samples_required.unwrap_or(default);
        let size = given.sample_size;
        in_range(
            problems,
            Code::SuccessfulSamplesOutOfRange,
            required_field,
            required,
            &(1..=size),
        );
        return Thresholds::new(size, required);
    };
    let thresholds = Thresholds::from_unhealthy_threshold(given.sample_size, unhealthy);
    let Some(thresholds) = thresholds else {
        // n becomes u, or x becomes n + 1: the code says which of both is then out of its range.
        let code = if unhealthy == 0 {
            Code::SuccessfulSamplesOutOfRange
        } else {
            Code::SampleSizeOutOfRange
        };
        in_range(
            problems,
            code,
            "unhealthy_threshold",
            unhealthy,
            &limits::SAMPLE_SIZE,
        );
        return None;
    };
    let derived = u32::from(thresholds.required());
    if let Some(required) = given
        .successful_samples_required
        .filter(|required| *required != derived)
    {
        problems.add(
            Code::ThresholdConflict,
            required_field,
            format!(
                "is {required}, and must be {derived} where unhealthy_threshold is {unhealthy}; give one of both"
            ),
        );
    }
    Some(thresholds)
}

fn origins(origins: &[OriginSettings], problems: &mut Problems) {
    if !limits::ORIGINS.contains(&origins.len()) {
        let (min, max) = (limits::ORIGINS.start(), limits::ORIGINS.end());
        let count = origins.len();
        problems.add(
            Code::OriginCountOutOfRange,
            "origins",
            format!("must be {min} to {max} origins, and are {count}"),
        );
    }
    let mut names = HashSet::new();
    for (index, origin) in origins.iter().enumerate() {
        let field = |name: &str| format!("origins[{index}].{name}");
        if let Some(message) = name_problem(&origin.name) {
            problems.add(Code::NameNotAllowed, field("name"), message);
        } else if !names.insert(origin.name.as_str()) {
            let message = "must be unique in the group".to_owned();
            problems.add(Code::NameNotAllowed, field("name"), message);
        }
        if !is_host(&origin.host) {
            let message = "must be a host name or an address, without scheme, port and path";
            problems.add(Code::HostNotAllowed, field("host"), message);
        }
        if !origin.host_header.is_empty() && !is_host_header(&origin.host_header) {
            let message = "must be a host name or an address, with a port if one is wanted";
            problems.add(Code::HostNotAllowed, field("host_header"), message);
        }
        for (name, code, value, range) in [
            (
                "priority",
                Code::PriorityOutOfRange,
                origin.priority,
                limits::PRIORITY,
            ),
            (
                "weight",
                Code::WeightOutOfRange,
                origin.weight,
                limits::WEIGHT,
            ),
            (
                "http_port",
                Code::ValueOutOfRange,
                origin.http_port,
                limits::PORT,
            ),
            (
                "https_port",
                Code::ValueOutOfRange,
                origin.https_port,
                limits::PORT,
            ),
            (
                "startup_grace_s",
                Code::ValueOutOfRange,
                origin.startup_grace_s,
                limits::STARTUP_GRACE_S,
            ),
        ] {
            in_range(problems, code, &field(name), value, &range);
        }
    }
}

fn name_problem(name: &str) -> Option<String> {
    let max = limits::ORIGIN_NAME_BYTES_MAX;
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_valid = !name.is_empty() && name.len() <= max && name.bytes().all(is_letter);
    (!is_valid).then(|| format!("must be 1 to {max} letters, digits, \"-\", \"_\" and \".\""))
}

/// A host name, or an address, in brackets or without.
pub(crate) fn is_host(host: &str) -> bool {
    if host.parse::<IpAddr>().is_ok() {
        return true;
    }
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or_default();
        return inner.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_letter);
    // The last label of a name is never a number: that would be an address that some resolvers read in their own ways.
    let ends_in_number = name
        .rsplit('.')
        .next()
        .is_some_and(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    name.len() <= limits::HOST_BYTES_MAX && !ends_in_number && name.split('.').all(is_label)
}

/// A host with a port, or without.
fn is_host_header(value: &str) -> bool {
    if is_host(value) {
        return !value.contains(':') || value.starts_with('[');
    }
    let Some((host, port)) = value.rsplit_once(':') else {
        return false;
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_port && is_host(host) && (!host.contains(':') || host.starts_with('['))
}

/// Whether a number is in its range; it is a problem if not.
fn in_range(
    problems: &mut Problems,
    code: Code,
    field: &str,
    value: u32,
    range: &RangeInclusive<u32>,
) -> bool {
    let is_inside = range.contains(&value);
    if !is_inside {
        let (min, max) = (range.start(), range.end());
        problems.add(
            code,
            field,
            format!("must be {min} to {max}, and is {value}"),
        );
    }
    is_inside
}
