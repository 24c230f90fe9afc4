//! What exactly is probed (HP-013 to HP-015, HP-019): probes are shared where all of it is equal (HP-070).

use std::fmt;
use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::settings::{Group, Method, OriginSettings, Protocol};

/// The target of probes: two groups share a stream of probes exactly when their targets are equal (HP-070).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProbeTarget {
    /// The scheme.
    pub protocol: Protocol,
    /// The host name in lower case without trailing dot, or an address, IPv6 ones in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What the `Host` header says, in lower case (HP-015).
    pub host_header: String,
    /// The path with its query.
    pub path: String,
    /// The method.
    pub method: Method,
    /// Whether the certificate must be for the host's name; true where there is none (HP-023).
    pub verify_certificate_name: bool,
    /// Further fixed headers, names in lower case, in order (HP-019). Other headers make another request.
    pub headers: Vec<(String, String)>,
}

impl ProbeTarget {
    /// What probes of this origin go to for this group.
    #[must_use]
    pub fn of(group: &Group, origin: &OriginSettings) -> Self {
        let probe = &group.settings().probe;
        let port = match probe.protocol {
            Protocol::Http => origin.http_port,
            Protocol::Https => origin.https_port,
        };
        let port = u16::try_from(port).unwrap_or(u16::MAX);
        let host = key_of_host(&origin.host);
        let host_header = match origin.host_header.as_str() {
            "" if port == probe.protocol.default_port() => host.clone(),
            "" => format!("{host}:{port}"),
            given => given.to_ascii_lowercase(),
        };
        let mut headers: Vec<_> = probe
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
            .collect();
        headers.sort();
        Self {
            protocol: probe.protocol,
            host,
            port,
            host_header,
            path: probe.path.clone(),
            method: probe.method,
            verify_certificate_name: probe.protocol == Protocol::Http
                || origin.verify_certificate_name,
            headers,
        }
    }

    /// The full URL, with the port always (HP-209).
    #[must_use]
    pub fn url(&self) -> String {
        let Self {
            protocol,
            host,
            port,
            path,
            ..
        } = self;
        format!("{}://{host}:{port}{path}", protocol.as_str())
    }
}

impl fmt::Display for ProbeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.as_str(), self.url())
    }
}

/// A host as it is compared: lower case, no trailing dot, IPv6 addresses in brackets and in one spelling.
#[must_use]
pub fn key_of_host(host: &str) -> String {
    let inner = host
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(host);
    if let Ok(address) = inner.parse::<Ipv6Addr>() {
        return format!("[{address}]");
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::GroupSettings;

    fn target(settings: GroupSettings, origin: &OriginSettings) -> ProbeTarget {
        let settings = GroupSettings {
            origins: vec![origin.clone()],
            ..settings
        };
        ProbeTarget::of(&Group::new(settings).unwrap(), origin)
    }

    /// HP-070: spellings of one host are one target; for addresses too.
    #[test]
    fn spellings_of_a_host_are_one_target() {
        for (host, expect) in [
            ("A.Example.", "a.example"),
            ("::1", "[::1]"),
            ("[0:0::1]", "[::1]"),
            ("10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(key_of_host(host), expect);
        }
        let origin = OriginSettings::new("a", "::1");
        let target = target(GroupSettings::default(), &origin);
        assert_eq!(target.to_string(), "HEAD http://[::1]:80/");
        assert_eq!(target.host_header, "[::1]");
    }

    /// HP-015, HP-070: what a probe says and how it trusts makes another target; the name check only where there is one.
    #[test]
    fn what_makes_another_target() {
        let mut origin = OriginSettings::new("a", "a.example");
        let of = |protocol, origin: &OriginSettings| {
            let mut settings = GroupSettings::default();
            settings.probe.protocol = protocol;
            target(settings, origin)
        };
        let (http, https) = (of(Protocol::Http, &origin), of(Protocol::Https, &origin));
        origin.verify_certificate_name = false;
        assert_eq!(of(Protocol::Http, &origin), http);
        assert_ne!(of(Protocol::Https, &origin), https);
        origin.host_header = "WWW.Example:8080".to_owned();
        assert_eq!(of(Protocol::Http, &origin).host_header, "www.example:8080");
        let mut settings = GroupSettings::default();
        let header = ("X-Team".to_owned(), "blue".to_owned());
        settings.probe.headers.extend([header]);
        assert_ne!(
            target(settings, &OriginSettings::new("a", "a.example")),
            http
        );
    }
}
