//! What may be set about the edge. Plain values.

use std::time::Duration;

use hedgerow_io::http::Network;

use crate::profile::HeaderProfile;

/// How the edge works.
#[derive(Debug, Clone)]
pub struct EdgeOptions {
    /// Under which names it says things (HP-161).
    pub profile: HeaderProfile,
    /// What it calls itself to origins (HP-160).
    pub edge_id: String,
    /// Proxies before it that are believed who the client is (HP-163).
    pub trusted_proxies: Vec<Network>,
    /// Clients that may see details of an answer (HP-167).
    pub debug_clients: Vec<Network>,
    /// The status where no route matches: 400, 404 or 421 (HP-153).
    pub unmatched_status: u16,
    /// Where clients reach it over TLS: redirects name it (HP-155).
    pub https_port: u16,
    /// How long a connection to an origin may take, its name and its handshake included (HP-171).
    pub connect_timeout: Duration,
    /// How long the head of a response may take, and each pause after it (HP-170).
    pub response_timeout: Duration,
    /// How long the head of a request may take, and each pause in its body: 408 then.
    pub request_timeout: Duration,
    /// How long a client's connection may idle (HP-186).
    pub client_idle: Duration,
    /// How long a connection to an origin may (HP-186).
    pub origin_idle: Duration,
    /// Bytes of a request's body (HP-184).
    pub request_body_bytes_max: u64,
    /// How long nothing may pass a WebSocket (HP-181).
    pub websocket_idle: Duration,
    /// How long one may last (HP-181).
    pub websocket_time_max: Duration,
    /// How long one may last once its origin is disabled (HP-181).
    pub drain: Duration,
    /// Requests at a time.
    pub requests_max: usize,
    /// What cookies of sessions are made with (HP-141). Secret.
    pub affinity_key: [u8; 32],
}

impl Default for EdgeOptions {
    fn default() -> Self {
        Self {
            profile: HeaderProfile::default(),
            edge_id: "hedgerow".to_owned(),
            trusted_proxies: Vec::new(),
            debug_clients: Vec::new(),
            unmatched_status: hedgerow_origin::route::UNMATCHED_STATUS,
            https_port: 443,
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(30),
            client_idle: Duration::from_secs(61),
            origin_idle: Duration::from_secs(90),
            request_body_bytes_max: 2 << 30,
            websocket_idle: Duration::from_secs(300),
            websocket_time_max: Duration::from_secs(4 * 3_600),
            drain: Duration::from_secs(30),
            requests_max: 10_000,
            affinity_key: [0; 32],
        }
    }
}
