//! Where a request goes: scheme, host and port, parsed from a URL once.
//!
//! Two URLs have the same target exactly when they may share connections; path and query do not matter. What is asked of TLS
//! does, but not for concurrency credits: see [`Target::endpoint`]. Whether the host may be connected to is judged in [`address`](super::address).

use std::fmt;

use url::{Host, Url};

use super::trust::TlsDemands;

/// How requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Without encryption.
    Http,
    /// Over TLS.
    Https,
}

/// Scheme, host and port, what is asked of TLS, and what to do while the resolver is away.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    scheme: Scheme,
    host: Host<String>,
    port: u16,
    tls: TlsDemands,
    keeps_names: bool,
}

/// Why nothing can be sent to a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The scheme is not one we can send with.
    #[error("the URL's scheme is neither https nor http")]
    Scheme,
    /// There is no host, or no port to connect to.
    #[error("the URL names no host and port to connect to")]
    Host,
}

impl Target {
    /// The target of a URL. User name and password in it are left out.
    pub fn from_url(url: &Url) -> Result<Self, TargetError> {
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(TargetError::Scheme),
        };
        let host = url.host().ok_or(TargetError::Host)?.to_owned();
        let port = url.port_or_known_default().filter(|port| *port != 0);
        Ok(Self {
            scheme,
            host,
            port: port.ok_or(TargetError::Host)?,
            tls: TlsDemands::default(),
            keeps_names: false,
        })
    }

    /// The same, with the last addresses of the host's name for when the resolver is away (HP-025): an origin is judged by
    /// what it answers, not by its name.
    #[must_use]
    pub fn with_kept_names(mut self) -> Self {
        self.keeps_names = true;
        self
    }

    /// Whether earlier addresses are used when the host's name cannot be resolved.
    #[must_use]
    pub const fn keeps_names(&self) -> bool {
        self.keeps_names
    }

    /// The same with these demands; without TLS they mean nothing.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsDemands) -> Self {
        if self.scheme == Scheme::Https {
            self.tls = tls;
        }
        self
    }

    /// The endpoint key: the same for all that lead to one scheme, host and port.
    #[must_use]
    pub fn endpoint(&self) -> Self {
        Self {
            tls: TlsDemands::default(),
            keeps_names: false,
            ..self.clone()
        }
    }

    /// What is asked of TLS.
    #[must_use]
    pub const fn tls(&self) -> &TlsDemands {
        &self.tls
    }

    /// How requests are sent.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host: a domain in lower case (with its trailing dot, if it was written) or an address.
    #[must_use]
    pub const fn host(&self) -> &Host<String> {
        &self.host
    }

    /// The port, 1 to 65535, written or implied by the scheme.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What the `Host` header says: the host, and the port unless it is the scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        match (self.scheme, self.port) {
            (Scheme::Http, 80) | (Scheme::Https, 443) => self.host.to_string(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

/// `https://example.com:8443`, without path and query: those may hold secrets (ED-121).
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_target_for_all_spellings_of_an_endpoint() {
        let rows = [
            ("https://Example.com/a?code=secret", "https://example.com"),
            ("https://example.com:443/b", "https://example.com"),
            ("https://user:word@example.com/", "https://example.com"),
            ("http://example.com:443/", "http://example.com:443"),
            ("http://[0:0::1]:8080/x", "http://[::1]:8080"),
            ("http://2130706433/", "http://127.0.0.1"),
        ];
        for (url, expect) in rows {
            let target = Target::from_url(&url.parse().unwrap()).unwrap();
            assert_eq!(target.to_string(), expect, "{url}");
        }
    }

    #[test]
    fn refuses_what_it_cannot_send_to() {
        for url in [
            "ftp://example.com/",
            "file:///etc/passwd",
            "mailto:a@b.example",
        ] {
            assert_eq!(
                Target::from_url(&url.parse().unwrap()),
                Err(TargetError::Scheme),
                "{url}"
            );
        }
        let port_0 = "http://example.com:0/".parse().unwrap();
        assert_eq!(Target::from_url(&port_0), Err(TargetError::Host));
    }
}
