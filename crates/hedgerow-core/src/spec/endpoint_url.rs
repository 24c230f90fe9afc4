//! The URL of an endpoint: where it may not differ from what was declared, and what of it may be shown.

use std::fmt;

use url::{ParseError, Url};

use crate::limits;

/// The URL that a subscription delivers to.
///
/// Absolute, `http` or `https`, with a host, without user name and fragment. Scheme, host and path are in their
/// canonical spelling; the query is sent byte for byte as declared (ED-121). The query is a secret: `Debug` leaves it
/// out, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    text: Box<str>,
    /// Where the query begins, its `?` included; the length of `text` if there is none.
    base_len: usize,
}

impl EndpointUrl {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// What it must be.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > limits::ENDPOINT_URL_BYTES_MAX {
            return Err("must not be longer than 4096 bytes");
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err("must not contain white space, control characters or backslashes");
        }
        // The URL standard would read a host out of `http:///path` and `http:path`, which no author means.
        let (_, rest) = text.split_once(':').ok_or("must be an absolute URL")?;
        let after_scheme = rest.strip_prefix("//").unwrap_or_default();
        if after_scheme.is_empty() || after_scheme.starts_with(['/', '?', '#']) {
            return Err("must be an absolute URL with a host");
        }
        let mut url = Url::parse(text).map_err(|error| unreadable(error, text))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err("must be an http or https URL with a host");
        }
        // One dot at the end stands for the root of all names.
        let host = url.host_str().unwrap_or_default();
        let labels = host.strip_suffix('.').unwrap_or(host);
        if labels.split('.').any(str::is_empty) {
            return Err("must have a host without empty labels");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not contain a user name or password");
        }
        if url.fragment().is_some() {
            return Err("must not contain a fragment");
        }
        let query = text.split_once('?').map(|(_, query)| query);
        if query.is_some_and(|query| !query.bytes().all(is_query_byte)) {
            return Err("must have a query of percent-encoded text");
        }
        url.set_query(None);
        let base = url.as_str();
        let base_len = base.len();
        let text = match query {
            None => base.into(),
            Some(query) => format!("{base}?{query}").into(),
        };
        Ok(Self { text, base_len })
    }

    /// Who it leads to: the scheme, the host and the port.
    pub(super) fn origin(&self) -> Option<url::Origin> {
        Url::parse(self.base()).ok().map(|url| url.origin())
    }

    /// The whole URL, to send requests to. Never to be shown or logged.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The URL without its query: `endpointBaseUrl`, which may be shown (ED-121).
    #[must_use]
    pub fn base(&self) -> &str {
        &self.text[..self.base_len]
    }
}

impl fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = if self.base_len < self.text.len() {
            "?..."
        } else {
            ""
        };
        write!(f, "{}{query}", self.base())
    }
}

/// What must be otherwise in a URL that begins as one of `http`.
fn unreadable(error: ParseError, text: &str) -> &'static str {
    match error {
        ParseError::InvalidPort => "must have a port from 1 to 65535, or none",
        ParseError::InvalidIpv6Address if text.contains('%') => {
            "must have an address without a zone id: which interface it means is known to one machine only"
        }
        ParseError::InvalidIpv6Address => "must have an address of IPv6 in its brackets",
        ParseError::InvalidIpv4Address => {
            "must have a host that is a name or an address; a name does not end in a number"
        }
        ParseError::EmptyHost
        | ParseError::IdnaError
        | ParseError::InvalidDomainCharacter
        | ParseError::Overflow => "must have a host that is a name or an address",
        _ => "must be an absolute URL",
    }
}

/// What HTTP takes in a query as it stands.
const fn is_query_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_stays_as_it_is_and_is_not_shown() {
        let url = EndpointUrl::parse("HTTP://Example.COM:80/a/../b?code=a'b%2f|{}==&x=").unwrap();
        assert_eq!(url.as_str(), "http://example.com/b?code=a'b%2f|{}==&x=");
        assert_eq!(url.base(), "http://example.com/b");
        assert_eq!(format!("{url:?}"), "http://example.com/b?...");
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in [
            "",
            "hook",
            "/hook",
            "//host/hook",
            "ftp://host/",
            "file:///etc/passwd",
            "http://",
            "http:///hook",
            "http:/hook",
            "http:hook",
            "http:a://b",
            "http://user@host/",
            "http://user:secret@host/",
            "http://:secret@host/",
            "http://host/#part",
            "http://host/?a#part",
            "http://host/a b",
            "http://ho\tst/",
            " http://host/",
            "http://host\\@other/",
            "http://host/?\u{e4}",
            "http://host/?\"",
            "http://host:99999/",
            "https://./",
            "https://../",
            "https://a..b/",
            "https://.a/",
            "https://a../",
            "https://a%2e.b/",
        ] {
            assert!(EndpointUrl::parse(text).is_err(), "{text:?} is accepted");
        }
    }

    /// What is wrong is named, and not the URL as a whole.
    #[test]
    fn the_part_that_is_wrong_is_named() {
        for (text, part) in [
            ("https://example.com:99999/", "a port from 1 to 65535"),
            ("https://example.com:x/", "a port from 1 to 65535"),
            ("https://[fe80::1%25eth0]/", "without a zone id"),
            ("https://[fe80::1%eth0]/", "without a zone id"),
            ("https://[fe80::g]/", "an address of IPv6"),
            ("https://[::1/", "an address of IPv6"),
            ("https://1.2.3.256/", "does not end in a number"),
            ("https://a<b/", "a host that is a name or an address"),
            ("hook", "an absolute URL"),
        ] {
            let message = EndpointUrl::parse(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn addresses_and_ports_are_kept() {
        for text in [
            "http://127.0.0.1:9000/hook",
            "https://[::1]:8443/?a=1",
            "https://a.example./hook",
        ] {
            assert_eq!(EndpointUrl::parse(text).unwrap().as_str(), text);
        }
    }
}
