//! Where publishers reach the server, and which topic a host name means (ED-007).

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use http::Uri;

/// The URL that endpoints are made from: scheme, host and port, without a path. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// Without a slash at its end.
    text: Arc<str>,
    /// In lower case; `None` if it is an address, below which there are no names.
    name: Option<Arc<str>>,
}

/// Below this name every topic has a host name, on every server (RFC 6761, section 6.3).
const LOCALHOST: &str = "localhost";

impl PublicUrl {
    /// The declared URL, or one made from the address that the server listens on.
    pub(crate) fn new(declared: Option<&Self>, address: SocketAddr, has_tls: bool) -> Self {
        if let Some(declared) = declared {
            return declared.clone();
        }
        let scheme = if has_tls { "https" } else { "http" };
        let text = if address.ip().is_unspecified() {
            format!("{scheme}://{LOCALHOST}:{}", address.port())
        } else {
            format!("{scheme}://{address}")
        };
        Self {
            text: text.into(),
            name: None,
        }
    }

    /// The URL, without a slash at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host, without port.
    #[must_use]
    pub fn host(&self) -> &str {
        let (_, authority) = self.text.split_once("://").unwrap_or_default();
        without_port(authority)
    }

    /// `http` or `https`.
    pub(crate) fn scheme(&self) -> &str {
        self.text.split(':').next().unwrap_or_default()
    }

    /// Whether a `Host` is that of this URL, or a topic's below it.
    pub(crate) fn has_host(&self, host: &str) -> bool {
        let own = self.text.split_once("://").map_or("", |(_, host)| host);
        let is_below = self
            .name
            .as_deref()
            .is_some_and(|name| topic_below(host, name).is_some());
        own.eq_ignore_ascii_case(host) || is_below
    }

    /// Where the events of a topic are posted to.
    #[must_use]
    pub fn topic_endpoint(&self, topic: &str) -> String {
        format!("{}/{topic}/api/events", self.text)
    }

    /// The topic that a `Host` names: `<topic>.<host of the public URL>` or `<topic>.localhost`, the port aside. `None`
    /// for a host that topics share.
    pub(crate) fn topic_of_host<'h>(&self, host: &'h str) -> Option<&'h str> {
        topic_below(host, LOCALHOST).or_else(|| topic_below(host, self.name.as_deref()?))
    }
}

/// The first label of a host that lies directly below `name`, the port aside.
fn topic_below<'h>(host: &'h str, name: &str) -> Option<&'h str> {
    let host = without_port(host);
    let host = host.strip_suffix('.').unwrap_or(host);
    let split = host.len().checked_sub(name.len() + 1)?;
    let (topic, rest) = (host.get(..split)?, host.get(split..)?);
    let is_below = rest.starts_with('.') && rest[1..].eq_ignore_ascii_case(name);
    (is_below && !topic.is_empty() && !topic.contains('.')).then_some(topic)
}

impl FromStr for PublicUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const RULE: &str = "must be an http or https URL of a host without a path, such as \"https://events.example.com\"";
        let uri: Uri = text.parse().map_err(|_| RULE)?;
        let scheme = uri
            .scheme_str()
            .filter(|scheme| matches!(*scheme, "http" | "https"));
        let authority = uri
            .authority()
            .filter(|authority| !authority.as_str().contains('@'));
        let (Some(scheme), Some(authority)) = (scheme, authority) else {
            return Err(RULE);
        };
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        if !is_bare || text.contains('#') || authority.host().is_empty() {
            return Err(RULE);
        }
        let host = authority.host().to_ascii_lowercase();
        let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
        let port = authority
            .port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        Ok(Self {
            text: format!("{scheme}://{host}{port}").into(),
            name: (!is_address).then(|| host.into()),
        })
    }
}

/// A host without its port; `[::1]:8080` is `[::1]`.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.bytes().all(|b| b.is_ascii_digit()) => {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_names_its_topic() {
        let url: PublicUrl = "https://Events.Example.com/".parse().unwrap();
        assert_eq!(
            url.topic_endpoint("orders"),
            "https://events.example.com/orders/api/events"
        );
        for (host, topic) in [
            ("orders.events.example.com", Some("orders")),
            ("Orders.EVENTS.example.com:8443", Some("Orders")),
            ("orders.events.example.com.", Some("orders")),
            ("orders.localhost:8080", Some("orders")),
            ("orders.localhost", Some("orders")),
            ("events.example.com", None),
            ("a.b.events.example.com", None),
            ("ordersevents.example.com", None),
            (".events.example.com", None),
            ("localhost:8080", None),
            ("127.0.0.1:8080", None),
            ("[::1]:8080", None),
            ("", None),
            ("ü", None),
            ("ü.localhost", Some("ü")),
        ] {
            assert_eq!(url.topic_of_host(host), topic, "{host}");
        }
    }

    #[test]
    fn an_address_has_no_names_below_it() {
        let url = PublicUrl::new(None, "127.0.0.1:8080".parse().unwrap(), false);
        assert_eq!(url.as_str(), "http://127.0.0.1:8080");
        assert_eq!(url.topic_of_host("orders.127.0.0.1"), None);
        assert_eq!(url.topic_of_host("orders.localhost"), Some("orders"));
        let all = PublicUrl::new(None, "[::]:80".parse().unwrap(), true);
        assert_eq!(all.as_str(), "https://localhost:80");
    }

    #[test]
    fn what_is_no_public_url_is_refused() {
        for text in [
            "",
            "events.example.com",
            "ftp://events.example.com",
            "https://",
            "https://events.example.com/path",
            "https://events.example.com/?a",
            "https://user@events.example.com",
        ] {
            assert!(text.parse::<PublicUrl>().is_err(), "{text:?} is accepted");
        }
    }
}
