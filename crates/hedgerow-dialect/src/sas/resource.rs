//! Which endpoint a token is for (ED-022).

/// An endpoint as it is compared: scheme, host, port and path, without regard to case. A query does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    scheme: String,
    host: String,
    port: u16,
    path: String,
}

impl Endpoint {
    /// Reads an `http` or `https` URL; `None` if it is none.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (path, _) = rest.split_once(['?', '#']).unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an IPv6 address stand within its brackets.
            Some((host, port)) if !port.contains(']') => {
                let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
                (host, is_number.then(|| port.parse().ok()).flatten()?)
            }
            _ => (authority, default_port),
        };
        if host.is_empty() || host.contains('@') {
            return None;
        }
        Some(Self {
            scheme,
            host: host.to_ascii_lowercase(),
            port,
            path: if path.is_empty() {
                "/".to_owned()
            } else {
                path.to_ascii_lowercase()
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn endpoints_are_compared_without_case_and_query() {
        let endpoint = Endpoint::parse("https://a.example/x/api/events").unwrap();
        for (url, is_same) in [
            (
                "HTTPS://A.Example:443/X/api/EVENTS?api-version=2018-01-01#f",
                true,
            ),
            ("https://a.example/x/api/events/", false),
            ("https://a.example/x/api", false),
            ("https://a.example:8443/x/api/events", false),
            ("http://a.example/x/api/events", false),
            ("http://a.example:443/x/api/events", false),
            ("https://b.example/x/api/events", false),
        ] {
            assert_eq!(Endpoint::parse(url).unwrap() == endpoint, is_same, "{url}");
        }
        let root = Endpoint::parse("http://[::1]:80").unwrap();
        assert_eq!(Endpoint::parse("http://[::1]/?q"), Some(root));
    }

    #[test]
    fn what_is_no_endpoint_is_told() {
        for url in [
            "",
            "a.example/x",
            "ftp://a.example/",
            "https://",
            "https:///x",
            "https://user@a.example/",
            "https://a.example:x/",
            "https://a.example:/",
            "https://a.example:99999/",
        ] {
            assert_eq!(Endpoint::parse(url), None, "{url}");
        }
    }
}
