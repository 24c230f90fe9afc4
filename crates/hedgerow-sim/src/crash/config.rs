//! How the server under test is configured: everything is short and small, so that each round retries, recycles segments
//! and writes checkpoints.

use std::path::Path;

/// Attempts at a time to one endpoint; each subscription has its own.
pub const ENDPOINT_ATTEMPTS_MAX: u64 = 32;
/// Successes of one subscription whose record is not durable yet.
const UNSETTLED_SUCCESSES_MAX: u64 = 50;

/// What one crash may make a subscription of so many events a request send again although it was taken: the attempts in flight
/// and the unsettled successes (design D5).
pub const fn duplicates_max(events_per_request: u64) -> u64 {
    ENDPOINT_ATTEMPTS_MAX * events_per_request + UNSETTLED_SUCCESSES_MAX
}

/// The configuration file for a data directory.
pub fn text(data: &Path) -> String {
    // Debug output of a path is a TOML string.
    let data = format!("{:?}", data.display().to_string());
    format!(
        r#"listen = "127.0.0.1:0"
data = {data}

# Publishers are as fast as the log.
[rate_limits]
events_per_second = 0
bytes_per_second = "0B"

[delivery]
allow_networks = ["127.0.0.0/8"]
endpoint_attempts_start = 16
endpoint_attempts_min = 8
endpoint_attempts_max = {ENDPOINT_ATTEMPTS_MAX}
unsettled_successes_max = {UNSETTLED_SUCCESSES_MAX}

[retry]
slots = ["100ms", "200ms", "400ms", "800ms"]
repeat = "1s"
jitter_percent = 10
jitter_max = "50ms"
crash_delay = "200ms"

[retry.floors]
other = "100ms"
unavailable = "100ms"

# Receivers that fail are left alone, for a short time, again and again: the holds are in force when the server is killed.
[probation]
busy = "150ms"
timed_out = "150ms"
socket_error = "150ms"

[delayed_delivery]
events = 20
first_window = "1s"
max_window = "1s"
released_per_second = 2000

# Cleaning is soon done here; refusals are to be met too.
[http]
room_wait = "0s"

[store]
bytes_max = "1536KiB"
keep_after = "400ms"
segment_bytes = "64KiB"
disk_reserve_bytes = "16MiB"
ring_bytes = "1MiB"
group_bytes_max = "64KiB"
queue_bytes_max = "4MiB"
zeroed_segments = 1
free_segments_max = 4
terminal_records_max = 1000000
checkpoint_interval = "150ms"
checkpoint_bytes = "1MiB"
read_interval = "100ms"
"#
    )
}
