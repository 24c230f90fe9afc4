//! Settings of the edge listener (HP-150 to HP-188).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hedgerow_edge::EdgeOptions;
use hedgerow_edge::profile::HeaderProfile;
use hedgerow_io::http::Network;

use super::Problem;
use super::kinds::{Kind, text};
use super::written::Value;

/// How the edge is listened on, and how it works. It is not listened on unless an address is given.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// Where clients come without TLS.
    pub listen: Option<SocketAddr>,
    /// Where clients come over TLS.
    pub tls_listen: Option<SocketAddr>,
    /// PEM: the certificate for those; `None` for that of `[tls]`.
    pub tls_certificate_file: Option<PathBuf>,
    /// PEM: its private key.
    pub tls_key_file: Option<PathBuf>,
    /// The port over TLS that redirects name; 0 for that of `tls_listen` (HP-155).
    pub https_port: u16,
    /// Under which names it says things (HP-161).
    pub header_profile: HeaderProfile,
    /// What it calls itself to origins; empty for what it made up once (HP-160).
    pub edge_id: String,
    /// Proxies before it that are believed who the client is (HP-163).
    pub trusted_proxies: Vec<Network>,
    /// Clients that may see details of an answer (HP-167).
    pub debug_clients: Vec<Network>,
    /// The status where no route matches (HP-153).
    pub unmatched_status: u16,
    /// How long a connection to an origin may take (HP-171).
    pub connect_timeout: Duration,
    /// How long the head of a response may take, and each pause after it (HP-170).
    pub response_timeout: Duration,
    /// How long a request's head may take, and each pause in its body.
    pub request_timeout: Duration,
    /// How long a client's connection may idle (HP-186).
    pub client_idle_timeout: Duration,
    /// How long a connection to an origin may (HP-186).
    pub origin_idle_timeout: Duration,
    /// Bytes of a request's body (HP-184).
    pub max_request_body_bytes: u64,
    /// How long nothing may pass a WebSocket (HP-181).
    pub websocket_idle_timeout: Duration,
    /// How long one may last (HP-181).
    pub websocket_time_max: Duration,
    /// How long one lasts whose origin is disabled (HP-181).
    pub drain_time: Duration,
    /// Connections of clients at a time.
    pub connections_max: usize,
    /// Requests at a time.
    pub requests_max: usize,
}

impl Default for EdgeConfig {
    fn default() -> Self {
        let options = EdgeOptions::default();
        Self {
            listen: None,
            tls_listen: None,
            tls_certificate_file: None,
            tls_key_file: None,
            https_port: 0,
            header_profile: options.profile,
            edge_id: String::new(),
            trusted_proxies: options.trusted_proxies,
            debug_clients: options.debug_clients,
            unmatched_status: options.unmatched_status,
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            request_timeout: options.request_timeout,
            client_idle_timeout: options.client_idle,
            origin_idle_timeout: options.origin_idle,
            max_request_body_bytes: options.request_body_bytes_max,
            websocket_idle_timeout: options.websocket_idle,
            websocket_time_max: options.websocket_time_max,
            drain_time: options.drain,
            connections_max: 4_096,
            requests_max: options.requests_max,
        }
    }
}

impl EdgeConfig {
    /// Whether it is listened on at all.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.listen.is_some() || self.tls_listen.is_some()
    }

    /// What does not fit together. `has_tls` says whether the server has a certificate of its own.
    pub(super) fn check(&self, has_tls: bool) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.tls_certificate_file.is_some() != self.tls_key_file.is_some() {
            let message = "edge.tls_certificate_file and edge.tls_key_file go together";
            problems.push(Problem::of("edge", message.to_owned()));
        }
        if self.tls_listen.is_some() && self.tls_certificate_file.is_none() && !has_tls {
            let message = "needs a certificate: set edge.tls_certificate_file and edge.tls_key_file, or those of [tls]";
            problems.push(Problem::of("edge.tls_listen", message.to_owned()));
        }
        problems
    }
}

/// An address, or none.
pub struct MaybeAddress;

impl Kind for MaybeAddress {
    type Of = Option<SocketAddr>;

    fn read(&self, value: &Value) -> Result<Option<SocketAddr>, String> {
        let rule =
            || "must be an IP address with a port, such as \"0.0.0.0:80\", or empty".to_owned();
        match text(value).ok_or_else(rule)? {
            "" => Ok(None),
            address => address.parse().map(Some).map_err(|_| rule()),
        }
    }

    fn show(&self, of: &Option<SocketAddr>) -> String {
        of.map_or_else(|| "\"\"".to_owned(), |address| format!("\"{address}\""))
    }
}

/// Names of the edge's headers.
pub struct HeaderProfiles;

impl Kind for HeaderProfiles {
    type Of = HeaderProfile;

    fn read(&self, value: &Value) -> Result<HeaderProfile, String> {
        let named = text(value).and_then(HeaderProfile::named);
        named.ok_or_else(|| "must be \"hedgerow\" or \"front-door\"".to_owned())
    }

    fn show(&self, of: &HeaderProfile) -> String {
        format!("\"{}\"", of.as_str())
    }
}

/// The status where no route matches (HP-153).
pub struct UnmatchedStatus;

impl Kind for UnmatchedStatus {
    type Of = u16;

    fn read(&self, value: &Value) -> Result<u16, String> {
        let rule = || "must be 400, 404 or 421".to_owned();
        let status = super::kinds::Count(400_u16..=421).read(value);
        let status = status.map_err(|_| rule())?;
        let allowed = hedgerow_origin::route::UNMATCHED_STATUSES;
        allowed.contains(&status).then_some(status).ok_or_else(rule)
    }

    fn show(&self, of: &u16) -> String {
        of.to_string()
    }
}
