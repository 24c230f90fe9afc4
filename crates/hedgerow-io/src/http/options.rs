//! The bounds of a client: how many connections, how long they are kept, how much of an answer is read (design D6).

use std::time::Duration;

use hedgerow_core::limits;

/// The bounds of a [`Client`](super::Client).
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Open connections of the process.
    pub connections_max: usize,
    /// Idle connections that are kept, to all targets together.
    pub idle_max: usize,
    /// Idle connections that are kept to one target: as many as there may be attempts at once.
    pub idle_per_target_max: usize,
    /// How long an idle connection is kept. Shorter than the 5 s after which many servers close theirs, because a
    /// request that crosses with a close is a failed attempt.
    pub idle_time_max: Duration,
    /// The longest head of an answer, at least 8,192 bytes. Blanks around the values of its headers may not count.
    pub head_bytes_max: usize,
    /// How much of an answer's body is read for an excerpt (ED-127).
    pub body_bytes_max: usize,
    /// How long is waited for it (ED-127).
    pub body_time_max: Duration,
    /// How much of it is kept (ED-127).
    pub excerpt_bytes_max: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            idle_max: 2_048,
            idle_per_target_max: 256,
            idle_time_max: Duration::from_secs(4),
            head_bytes_max: 64 << 10,
            body_bytes_max: limits::RESPONSE_BODY_BYTES_MAX,
            body_time_max: limits::RESPONSE_BODY_WAIT_MAX,
            excerpt_bytes_max: limits::RESPONSE_EXCERPT_BYTES_MAX,
        }
    }
}
