//! Refuses what did not come from this machine's own user, for `hedgerow dev` (design D11): a page of the web that calls
//! loopback, or one whose name was made to point here (DNS rebinding). Decides by `Host` and `Origin` alone.

use http::header::ORIGIN;
use http::request::Parts;

use crate::public_url::without_port;

/// The hosts that requests may name: `localhost`, names below it, loopback addresses, and those given.
#[derive(Debug, Clone, Default)]
pub struct DevGuard {
    /// Further hosts, without port.
    pub hosts: Vec<String>,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// Its host is none of ours.
    Host,
    /// It came from another page.
    Origin,
}

impl Foreign {
    /// What is wrong, and what helps.
    pub(crate) const fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Host => (
                "this server answers on this machine only, and the Host of the request is another one",
                "call it as localhost or 127.0.0.1",
            ),
            Self::Origin => (
                "this server does not answer pages of other origins",
                "call it from the command line, or from its own pages",
            ),
        }
    }
}

impl DevGuard {
    /// Judges a request.
    pub(crate) fn judge(&self, request: &Parts) -> Result<(), Foreign> {
        let host = host_of(request)
            .filter(|host| self.is_ours(host))
            .ok_or(Foreign::Host)?;
        let is_same_origin = request.headers.get_all(ORIGIN).iter().all(|origin| {
            let authority = origin
                .to_str()
                .ok()
                .and_then(|origin| origin.strip_prefix("http://"));
            authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
        });
        if is_same_origin {
            Ok(())
        } else {
            Err(Foreign::Origin)
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        if let Ok(address) = address.unwrap_or(name).parse::<std::net::IpAddr>()
            && address.is_loopback()
        {
            return true;
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        name == "localhost"
            || name.ends_with(".localhost")
            || self
                .hosts
                .iter()
                .any(|host| host.eq_ignore_ascii_case(&name))
    }
}

/// The host that a request names: in its target if it stands there, else in its `Host`. `None` if it names none, or two.
pub(crate) fn host_of(request: &Parts) -> Option<&str> {
    if let Some(authority) = request.uri.authority() {
        return Some(authority.as_str());
    }
    let mut hosts = request.headers.get_all(http::header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Target, headers, what is expected.
    type Row = (
        &'static str,
        &'static [(&'static str, &'static str)],
        Result<(), Foreign>,
    );

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let guard = DevGuard {
            hosts: vec!["laptop".to_owned()],
        };
        let rows: &[Row] = &[
            ("/", &[("host", "127.0.0.1:8080")], Ok(())),
            ("/", &[("host", "127.9.9.9")], Ok(())),
            ("/", &[("host", "[::1]:8080")], Ok(())),
            ("/", &[("host", "localhost:8080")], Ok(())),
            ("/", &[("host", "demo.localhost")], Ok(())),
            ("/", &[("host", "LOCALHOST.")], Ok(())),
            ("/", &[("host", "laptop:1")], Ok(())),
            ("http://localhost/", &[("host", "evil.example")], Ok(())),
            ("/", &[], Err(Foreign::Host)),
            ("/", &[("host", "")], Err(Foreign::Host)),
            ("/", &[("host", "evil.example")], Err(Foreign::Host)),
            (
                "/",
                &[("host", "127.0.0.1.evil.example")],
                Err(Foreign::Host),
            ),
            (
                "/",
                &[("host", "localhost.evil.example:8080")],
                Err(Foreign::Host),
            ),
            ("/", &[("host", "evillocalhost")], Err(Foreign::Host)),
            ("/", &[("host", "10.0.0.1")], Err(Foreign::Host)),
            (
                "/",
                &[("host", "localhost"), ("host", "evil.example")],
                Err(Foreign::Host),
            ),
            (
                "http://evil.example/",
                &[("host", "localhost")],
                Err(Foreign::Host),
            ),
            (
                "/",
                &[("host", "localhost:80"), ("origin", "http://localhost:80")],
                Ok(()),
            ),
            (
                "/",
                &[
                    ("host", "localhost:80"),
                    ("origin", "http://localhost:3000"),
                ],
                Err(Foreign::Origin),
            ),
            (
                "/",
                &[("host", "localhost"), ("origin", "https://localhost")],
                Err(Foreign::Origin),
            ),
            (
                "/",
                &[("host", "localhost"), ("origin", "http://evil.example")],
                Err(Foreign::Origin),
            ),
            (
                "/",
                &[("host", "localhost"), ("origin", "null")],
                Err(Foreign::Origin),
            ),
            (
                "/",
                &[("host", "localhost"), ("origin", "")],
                Err(Foreign::Origin),
            ),
        ];
        for (uri, headers, expect) in rows {
            let mut request = http::Request::get(*uri);
            for (name, value) in *headers {
                request = request.header(*name, *value);
            }
            let request = request.body(()).unwrap().into_parts().0;
            assert_eq!(guard.judge(&request), *expect, "{uri} {headers:?}");
        }
    }
}
