//! The table of settings: the only place that knows their keys, their bounds and where they go.

use std::ops::RangeInclusive;
use std::time::Duration;

use hedgerow_core::likeness::distance;
use hedgerow_core::limits;
use hedgerow_store::log::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

use super::Config;
use super::edge::{HeaderProfiles, MaybeAddress, UnmatchedStatus};
use super::error::Problem;
use super::kinds::{
    Address, Count, Directory, Flag, Format, FreeText, HostName, Hosts, Kind, NameCase, Networks,
    OtherPath, Profiles, Public, Seconds, Size, Slots, Span, Spans, Version,
};
use super::profile;
use super::written::{Value, Written};

/// One setting.
pub struct Setting {
    /// With its sections: `store.bytes_max`.
    pub key: &'static str,
    /// Reads it into a configuration, or says what it must be.
    pub set: fn(&mut Config, &Value) -> Result<(), String>,
    /// Shows it as TOML.
    pub show: fn(&Config) -> String,
}

/// Shared by the rows of the table: the key, its kind, and the member of [`Config`] that it sets.
macro_rules! setting {
    ($key:literal, $kind:expr, $($member:ident).+) => {
        Setting {
            key: $key,
            set: |config, value| {
                config.$($member).+ = $kind.read(value)?;
                Ok(())
            },
            show: |config| $kind.show(&config.$($member).+),
        }
    };
}

const DAY: Duration = Duration::from_secs(86_400);
const MIB: u64 = 1 << 20;

/// A wait that may be none.
const WAIT: Span = Span {
    range: Duration::ZERO..=DAY,
};
/// A time that something has.
const TIME: Span = Span {
    range: Duration::from_millis(100)..=DAY,
};
/// ED-021.
const SAS_CLOCK_SKEW: Span = seconds(&limits::SAS_CLOCK_SKEW_SECONDS);
/// HP-171.
const EDGE_CONNECT: Span = Span {
    range: Duration::from_secs(1)..=Duration::from_secs(60),
};
/// HP-170.
const EDGE_RESPONSE: Span = Span {
    range: Duration::from_secs(1)..=Duration::from_secs(240),
};
/// How long something is kept.
const AGE: Span = Span {
    range: Duration::from_secs(3_600)..=Duration::from_secs(365 * 86_400),
};
/// What a subscription may declare (ED-176).
const RESPONSE_TIMEOUT: Seconds = Seconds(seconds(&limits::RESPONSE_TIMEOUT_SECONDS));
/// What a subscription may declare (ED-245, ED-247).
const DEAD_LETTER_DELAY: Seconds = Seconds(seconds(&limits::DEAD_LETTER_DELAY_SECONDS));
const DEAD_LETTER_UNAVAILABLE: Seconds = Seconds(seconds(&limits::DEAD_LETTER_UNAVAILABLE_SECONDS));
/// What a subscription may declare (ED-241).
const DELAYED_DELIVERY_WINDOW: Seconds = Seconds(seconds(&limits::DELAYED_DELIVERY_WINDOW_SECONDS));

/// A limit that is said in seconds.
const fn seconds(range: &RangeInclusive<u32>) -> Span {
    Span {
        range: Duration::from_secs(*range.start() as u64)
            ..=Duration::from_secs(*range.end() as u64),
    }
}

const MANY: Count<usize> = Count(1..=1_000_000);
const NONE_OR_MANY: Count<usize> = Count(0..=1_000_000);
const ATTEMPTS: Count<u32> = Count(1..=100_000);
const MEMORY: Size<usize> = Size::new(MIB..=64 << 30);

const SEGMENT_BYTES: RangeInclusive<u64> = SEGMENT_BYTES_MIN as u64..=SEGMENT_BYTES_MAX as u64;

/// Every setting, in the order in which they are shown: sections together.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "profile",
        set: |config, value| {
            profile::apply(config, Profiles.read(value)?);
            Ok(())
        },
        show: |config| Profiles.show(&config.engine.profile),
    },
    setting!("listen", Address, listen),
    setting!("data", Directory, data),
    setting!("public_url", Public, public_url),
    setting!("insecure_http", Flag, insecure_http),
    setting!("tls.certificate_file", OtherPath, tls.certificate_file),
    setting!("tls.key_file", OtherPath, tls.key_file),
    setting!("tls.minimum_version", Version, tls.minimum_version),
    setting!("tls.handshake_timeout", TIME, tls.handshake_timeout),
    setting!("tls.handshakes_max", MANY, tls.handshakes_max),
    setting!("tls.reload_interval", TIME, tls.reload_interval),
    setting!("http.connections_max", MANY, http.connections_max),
    setting!("http.header_timeout", TIME, http.header_timeout),
    setting!("http.body_timeout", TIME, http.body_timeout),
    setting!(
        "http.bodies_bytes_max",
        Size::<usize>::new(4 * MIB..=64 << 30),
        http.bodies_bytes_max
    ),
    setting!("http.room_wait", WAIT, http.room_wait),
    setting!("http.close_timeout", TIME, http.close_timeout),
    setting!("sas.clock_skew", SAS_CLOCK_SKEW, sas_clock_skew),
    setting!(
        "rate_limits.events_per_second",
        Count(0_u32..=1_000_000_000),
        rate_limits.events_per_second
    ),
    setting!(
        "rate_limits.bytes_per_second",
        Size::<u64>::new(0..=1 << 50),
        rate_limits.bytes_per_second
    ),
    setting!(
        "quotas.topics",
        Count(0..=limits::TOPICS_MAX),
        engine.quotas.topics
    ),
    setting!(
        "quotas.domains",
        Count(0..=limits::DOMAINS_MAX),
        engine.quotas.domains
    ),
    setting!(
        "quotas.topics_per_domain",
        Count(1..=limits::TOPICS_PER_DOMAIN_MAX),
        engine.quotas.topics_per_domain
    ),
    setting!(
        "quotas.subscriptions_per_topic",
        Count(1..=limits::SUBSCRIPTIONS_PER_TOPIC_MAX),
        engine.quotas.subscriptions_per_topic
    ),
    setting!(
        "quotas.domain_subscriptions",
        Count(1..=limits::DOMAIN_SUBSCRIPTIONS_MAX),
        engine.quotas.domain_subscriptions
    ),
    setting!("delivery.allow_networks", Networks, allow_networks),
    setting!(
        "delivery.response_timeout",
        RESPONSE_TIMEOUT,
        response_timeout
    ),
    setting!("delivery.attempts_max", MANY, engine.attempts_max),
    setting!(
        "delivery.endpoint_attempts_start",
        ATTEMPTS,
        engine.credits.start
    ),
    setting!(
        "delivery.endpoint_attempts_min",
        ATTEMPTS,
        engine.credits.min
    ),
    setting!(
        "delivery.endpoint_attempts_max",
        ATTEMPTS,
        engine.credits.max
    ),
    setting!(
        "delivery.unsettled_successes_max",
        Count(1_u64..=1_000_000),
        engine.unsettled_successes_max
    ),
    setting!(
        "delivery.late_exchanges_per_subscription_max",
        NONE_OR_MANY,
        engine.late_exchanges_per_subscription_max
    ),
    setting!(
        "delivery.late_exchanges_max",
        NONE_OR_MANY,
        engine.late_exchanges_max
    ),
    setting!(
        "delivery.subscription_name_case",
        NameCase,
        engine.subscription_name_upper_case
    ),
    setting!("delivery.webhook_origin", HostName, engine.webhook_origin),
    setting!(
        "delivery.ended_per_second",
        Count(10_u32..=1_000_000),
        engine.ended_per_second
    ),
    setting!(
        "delivery.deletion_notice_timeout",
        TIME,
        engine.deletion_notice_timeout
    ),
    setting!("delivery.drain", WAIT, engine.drain),
    setting!("delivery.connections_max", MANY, client.connections_max),
    setting!(
        "delivery.idle_connections_max",
        NONE_OR_MANY,
        client.idle_max
    ),
    setting!(
        "delivery.idle_connections_per_endpoint_max",
        NONE_OR_MANY,
        client.idle_per_target_max
    ),
    setting!("delivery.idle_connection_time", TIME, client.idle_time_max),
    setting!(
        "delivery.response_head_bytes_max",
        Size::<usize>::new(8192..=MIB),
        client.head_bytes_max
    ),
    setting!(
        "delivery.response_body_bytes_max",
        Size::<usize>::new(0..=16 * MIB),
        client.body_bytes_max
    ),
    setting!(
        "delivery.response_excerpt_bytes_max",
        Size::<usize>::new(0..=MIB),
        client.excerpt_bytes_max
    ),
    setting!("delivery.response_body_time", TIME, client.body_time_max),
    setting!("validation.enabled", Flag, engine.validation.is_enabled),
    setting!(
        "validation.trusted_hosts",
        Hosts,
        engine.validation.trusted_hosts
    ),
    setting!(
        "validation.lenient_member_name",
        Flag,
        engine.validation.is_name_lenient
    ),
    setting!("validation.timeout", TIME, engine.validation.timeout),
    setting!(
        "validation.tries_max",
        Count(1_u8..=10),
        engine.validation.tries_max
    ),
    setting!(
        "validation.retry_delay",
        WAIT,
        engine.validation.retry_delay
    ),
    setting!(
        "validation.manual_window",
        TIME,
        engine.validation.manual_window
    ),
    setting!("validation.answer_wait", WAIT, validation_answer_wait),
    setting!("retry.slots", Spans, engine.retry.slots),
    setting!("retry.repeat", TIME, engine.retry.repeat),
    setting!("retry.slot_mode", Slots, engine.retry.slot_mode),
    setting!(
        "retry.jitter_percent",
        Count(0_u32..=100),
        engine.retry.jitter.percent
    ),
    setting!("retry.jitter_max", WAIT, engine.retry.jitter.max),
    setting!(
        "retry.latency_allowance",
        WAIT,
        engine.retry.latency_allowance
    ),
    setting!("retry.crash_delay", WAIT, engine.retry.crash_delay),
    setting!(
        "retry.crashes_max",
        Count(1_u8..=255),
        engine.retry.crashes_max
    ),
    setting!(
        "retry.late_success_window",
        WAIT,
        engine.retry.late_success_window
    ),
    setting!("retry.floors.other", WAIT, engine.retry.floors.other),
    setting!(
        "retry.floors.unauthorized",
        WAIT,
        engine.retry.floors.unauthorized
    ),
    setting!(
        "retry.floors.not_found",
        WAIT,
        engine.retry.floors.not_found
    ),
    setting!(
        "retry.floors.request_timeout",
        WAIT,
        engine.retry.floors.request_timeout
    ),
    setting!(
        "retry.floors.too_many_requests",
        WAIT,
        engine.retry.floors.too_many_requests
    ),
    setting!(
        "retry.floors.unavailable",
        WAIT,
        engine.retry.floors.unavailable
    ),
    setting!(
        "retry.floors.function_without_trigger",
        WAIT,
        engine.retry.floors.function_without_trigger
    ),
    setting!(
        "retry.floors.token_unavailable",
        WAIT,
        engine.retry.floors.token_unavailable
    ),
    setting!(
        "retry.floors.retry_after_max",
        WAIT,
        engine.retry.floors.retry_after_max
    ),
    setting!(
        "filter.max_advanced_filters",
        Count(1..=limits::ADVANCED_FILTERS_MAX),
        engine.filter_limits.max_advanced_filters
    ),
    setting!(
        "filter.max_values",
        Count(1..=limits::FILTER_VALUES_MAX),
        engine.filter_limits.max_values
    ),
    setting!(
        "filter.number_not_in_range_matches_missing",
        Flag,
        engine.filter_rules.number_not_in_range_matches_missing
    ),
    setting!(
        "filter.paths_through_arrays",
        Flag,
        engine.filter_rules.paths_through_arrays
    ),
    setting!(
        "probation.threshold",
        Count(limits::PROBATION_THRESHOLD),
        probation.threshold
    ),
    setting!(
        "probation.dead_letter_on_client_error",
        Flag,
        probation.dead_letter_on_client_error
    ),
    setting!("probation.busy", WAIT, engine.probation.busy),
    setting!("probation.timed_out", WAIT, engine.probation.timed_out),
    setting!(
        "probation.socket_error",
        WAIT,
        engine.probation.socket_error
    ),
    setting!("probation.not_found", WAIT, engine.probation.not_found),
    setting!(
        "probation.resolution_error",
        WAIT,
        engine.probation.resolution_error
    ),
    setting!("probation.disabled", WAIT, engine.probation.disabled),
    setting!("probation.full", WAIT, engine.probation.full),
    setting!(
        "probation.unauthorized",
        WAIT,
        engine.probation.unauthorized
    ),
    setting!("probation.forbidden", WAIT, engine.probation.forbidden),
    setting!(
        "probation.invalid_azure_function_destination",
        WAIT,
        engine.probation.invalid_azure_function_destination
    ),
    setting!("delayed_delivery.enabled", Flag, delayed_delivery.enabled),
    setting!(
        "delayed_delivery.events",
        Count(limits::DELAYED_DELIVERY_EVENTS),
        delayed_delivery.events
    ),
    setting!(
        "delayed_delivery.first_window",
        DELAYED_DELIVERY_WINDOW,
        delayed_delivery.first_window
    ),
    setting!(
        "delayed_delivery.max_window",
        DELAYED_DELIVERY_WINDOW,
        delayed_delivery.max_window
    ),
    setting!(
        "delayed_delivery.released_per_second",
        ATTEMPTS,
        engine.released_per_second
    ),
    setting!("dead_letter.directory", OtherPath, dead_letter.directory),
    setting!("dead_letter.local_default", Flag, dead_letter.local_default),
    setting!(
        "dead_letter.delay",
        DEAD_LETTER_DELAY,
        dead_letter.settings.delay
    ),
    setting!(
        "dead_letter.max_unavailable",
        DEAD_LETTER_UNAVAILABLE,
        dead_letter.settings.max_unavailable
    ),
    setting!(
        "dead_letter.drop_if_not_found",
        Flag,
        dead_letter.settings.drop_if_not_found
    ),
    setting!(
        "dead_letter.require_reachable",
        Flag,
        dead_letter.settings.require_reachable
    ),
    setting!(
        "dead_letter.last_http_status",
        Flag,
        engine.dead_letter_members.last_http_status
    ),
    setting!(
        "dead_letter.last_attempt_time",
        Flag,
        engine.dead_letter_members.last_attempt_time
    ),
    setting!(
        "dead_letter.domain_topic",
        Flag,
        engine.dead_letter_members.domain_topic
    ),
    setting!(
        "store.bytes_max",
        Size::<u64>::new(256 << 10..=1 << 50),
        store.bytes_max
    ),
    setting!("store.keep_after", WAIT, store.keep_after),
    setting!(
        "store.segment_bytes",
        Size::<u32>::in_steps(SEGMENT_BYTES, 4096),
        store.segment_bytes
    ),
    setting!(
        "store.disk_reserve_bytes",
        Size::<u64>::new(0..=1 << 50),
        store.disk_reserve_bytes
    ),
    setting!("store.ring_bytes", MEMORY, store.ring_bytes),
    setting!(
        "store.group_bytes_max",
        Size::<usize>::new(64 << 10..=1 << 30),
        store.group_bytes_max
    ),
    setting!(
        "store.queue_bytes_max",
        Size::<u64>::new(2 * MIB..=64 << 30),
        store.queue_bytes_max
    ),
    setting!(
        "store.zeroed_segments",
        Count(0_usize..=1000),
        store.zeroed_segments
    ),
    setting!(
        "store.free_segments_max",
        Count(1_usize..=1000),
        store.free_segments_max
    ),
    setting!(
        "store.terminal_records_max",
        Count(1_u64..=100_000_000),
        terminal_records_max
    ),
    setting!(
        "store.checkpoint_interval",
        TIME,
        engine.checkpoint_interval
    ),
    setting!("store.checkpoint_bytes", MEMORY, engine.checkpoint_bytes),
    setting!("store.read_interval", TIME, engine.read_interval),
    setting!("secrets.key_file", OtherPath, key_file),
    setting!("history.enabled", Flag, history.is_enabled),
    setting!(
        "history.bytes_max",
        Size::<u64>::new(MIB..=1 << 50),
        history.bytes_max
    ),
    setting!("history.age_max", AGE, history.age_max),
    setting!(
        "history.ids_bytes_max",
        Size::<u64>::new(0..=1 << 50),
        history.ids_bytes_max
    ),
    setting!(
        "probes.budget_per_s",
        Count(1_u32..=100_000),
        probes.budget_per_s
    ),
    setting!("probes.region", FreeText, probes.region),
    setting!("edge.listen", MaybeAddress, edge.listen),
    setting!("edge.tls_listen", MaybeAddress, edge.tls_listen),
    setting!(
        "edge.tls_certificate_file",
        OtherPath,
        edge.tls_certificate_file
    ),
    setting!("edge.tls_key_file", OtherPath, edge.tls_key_file),
    setting!("edge.https_port", Count(0_u16..=65_535), edge.https_port),
    setting!("edge.header_profile", HeaderProfiles, edge.header_profile),
    setting!("edge.edge_id", FreeText, edge.edge_id),
    setting!("edge.trusted_proxies", Networks, edge.trusted_proxies),
    setting!("edge.debug_clients", Networks, edge.debug_clients),
    setting!(
        "edge.unmatched_status",
        UnmatchedStatus,
        edge.unmatched_status
    ),
    setting!("edge.connect_timeout", EDGE_CONNECT, edge.connect_timeout),
    setting!(
        "edge.response_timeout",
        EDGE_RESPONSE,
        edge.response_timeout
    ),
    setting!("edge.request_timeout", TIME, edge.request_timeout),
    setting!("edge.client_idle_timeout", TIME, edge.client_idle_timeout),
    setting!("edge.origin_idle_timeout", TIME, edge.origin_idle_timeout),
    setting!(
        "edge.max_request_body_bytes",
        Size::<u64>::new(0..=1 << 40),
        edge.max_request_body_bytes
    ),
    setting!(
        "edge.websocket_idle_timeout",
        TIME,
        edge.websocket_idle_timeout
    ),
    setting!("edge.websocket_time_max", TIME, edge.websocket_time_max),
    setting!("edge.drain_time", WAIT, edge.drain_time),
    setting!("edge.connections_max", MANY, edge.connections_max),
    setting!("edge.requests_max", MANY, edge.requests_max),
    setting!("metrics.needs_token", Flag, metrics.needs_token),
    setting!(
        "metrics.subscriptions_max",
        NONE_OR_MANY,
        metrics.subscriptions_max
    ),
    setting!("metrics.origins_max", NONE_OR_MANY, metrics.origins_max),
    setting!("log.format", Format, log_format),
    setting!("log.data_plane_requests", Flag, log_data_plane_requests),
    setting!(
        "log.delivery_success_percent",
        Count(0_u32..=100),
        engine.success_log_percent
    ),
];

/// Whether there is a setting with this key.
pub fn is_known(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key == key)
}

/// Whether a key without sections is a setting's that was mistyped: other programs have variables of the same prefix.
pub fn is_mistyped(key: &str) -> bool {
    let tolerated = if key.len() < 5 { 1 } else { 2 };
    SETTINGS
        .iter()
        .any(|setting| distance(key, setting.key) <= tolerated)
}

/// The problem with a key that no setting has.
pub fn unknown(written: &Written) -> Problem {
    let key = written.key.as_str();
    let prefix = format!("{key}.");
    if SETTINGS
        .iter()
        .any(|setting| setting.key.starts_with(&prefix))
    {
        // An empty section says nothing and would have been no problem, had it had an entry.
        return Problem::at(
            written,
            format!("is a section; write [{key}] and its settings below"),
        );
    }
    let mut problem = Problem::at(written, "is not a setting".to_owned());
    problem.hint = nearest(key).map(|nearest| format!("did you mean {nearest}?"));
    problem
}

/// The known key that is most like `key`, if one is like it: the same name in another section first, and of equals the
/// first of the table.
fn nearest(key: &str) -> Option<&'static str> {
    let name = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let distances = SETTINGS.iter().enumerate().map(|(index, setting)| {
        let whole = distance(key, setting.key);
        let of_name = distance(&name(key), &name(setting.key)) + 1;
        (whole.min(of_name), index, setting.key)
    });
    let (distance, _, nearest) = distances.min()?;
    (distance <= 2.max(name(key).len() / 3)).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found() {
        for (key, found) in [
            ("lisen", Some("listen")),
            ("store.bytesmax", Some("store.bytes_max")),
            ("bytes_max", Some("store.bytes_max")),
            ("delivery.slots", Some("retry.slots")),
            ("retry.floors.notfound", Some("retry.floors.not_found")),
            ("server.threads", None),
        ] {
            assert_eq!(nearest(key), found, "{key}");
        }
    }

    #[test]
    fn keys_stand_once_and_sections_together() {
        let mut sections: Vec<&str> = Vec::new();
        for (index, setting) in SETTINGS.iter().enumerate() {
            assert!(
                SETTINGS[..index]
                    .iter()
                    .all(|other| other.key != setting.key)
            );
            let section = setting
                .key
                .rsplit_once('.')
                .map_or("", |(section, _)| section);
            if sections.last() != Some(&section) {
                assert!(!sections.contains(&section), "{section} is in two places");
                sections.push(section);
            }
        }
    }
}
