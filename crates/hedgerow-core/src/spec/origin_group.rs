//! A group of origins as a destination (HP-200 to HP-203): which group, and what is asked for at whichever of its origins an
//! attempt goes to. What origins there are, and how they are reached, is the group's own declaration.

use std::fmt;

use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::{EndpointUrl, SpecError};
use crate::name::OriginGroupName;

/// How the origins of a group are spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OriginProtocol {
    /// Without encryption.
    Http,
    /// Over TLS.
    Https,
}

impl OriginProtocol {
    /// The name in declarations, and in URLs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The path of an endpoint and its query. The query is sent byte for byte as declared, and is a secret as that of a URL is
/// (ED-121): `Debug` leaves it out, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointPath {
    text: Box<str>,
    base_len: usize,
}

/// What stands before a path, so that it is read by the rules of whole URLs.
const ANY_ORIGIN: &str = "http://origin.invalid";

impl EndpointPath {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// What it must be.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if !text.starts_with('/') {
            return Err("must be an absolute path: it begins with /");
        }
        let url = EndpointUrl::parse(&format!("{ANY_ORIGIN}{text}"))?;
        let path = |text: &str| text.strip_prefix(ANY_ORIGIN).unwrap_or("/").into();
        let base: Box<str> = path(url.base());
        Ok(Self {
            text: path(url.as_str()),
            base_len: base.len(),
        })
    }

    /// The whole path, to send requests to. Never to be shown or logged.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path without its query, which may be shown.
    #[must_use]
    pub fn base(&self) -> &str {
        self.text.get(..self.base_len).unwrap_or(&self.text)
    }

    /// Whether there is nothing in it that may not be shown.
    fn is_plain(&self) -> bool {
        self.base_len == self.text.len()
    }
}

impl fmt::Debug for EndpointPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = if self.is_plain() { "" } else { "?..." };
        write!(f, "{}{query}", self.base())
    }
}

/// A group as a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginGroupEndpoint {
    group: OriginGroupName,
    path: EndpointPath,
    protocol: Option<OriginProtocol>,
    endpoint: Box<str>,
}

const GROUP: &str = "originGroup";
/// The member with the query.
const PATH: &str = "path";
/// The member that stands in its place where the query may not be shown.
const PATH_BASE: &str = "basePath";
const PROTOCOL: &str = "protocol";

impl OriginGroupEndpoint {
    /// A destination; without a protocol the one that the group's probes have.
    #[must_use]
    pub fn new(
        group: OriginGroupName,
        path: EndpointPath,
        protocol: Option<OriginProtocol>,
    ) -> Self {
        let colon = if protocol.is_some() { ":" } else { "" };
        let over = protocol.map_or("", OriginProtocol::as_str);
        let endpoint = format!("origin-group:{group}{colon}{over}{}", path.base()).into();
        Self {
            group,
            path,
            protocol,
            endpoint,
        }
    }

    /// The group's name, as the declaration spells it.
    #[must_use]
    pub const fn group(&self) -> &OriginGroupName {
        &self.group
    }

    /// What is asked for at its origins.
    #[must_use]
    pub const fn path(&self) -> &EndpointPath {
        &self.path
    }

    /// How they are spoken to; `None` for as the group's probes do.
    #[must_use]
    pub const fn protocol(&self) -> Option<OriginProtocol> {
        self.protocol
    }

    /// What delayed delivery knows it by, and people: `origin-group:shop/hook`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Whether what is sent there may be sent to the other one too: the same origins get it in the same way.
    #[must_use]
    pub fn has_origins_of(&self, other: &Self) -> bool {
        self.group == other.group && self.protocol == other.protocol
    }

    /// Checks the members of its own among the properties.
    pub(super) fn check(properties: &mut Fields<'_>) -> Result<Self, SpecError> {
        let Some(name) = properties.text(GROUP)? else {
            return Err(properties.error(GROUP, "is required"));
        };
        let group = name
            .parse()
            .map_err(|error: crate::name::NameError| properties.error(GROUP, error.to_string()))?;
        let path = properties.text(PATH)?.unwrap_or("/");
        let path = EndpointPath::parse(path).map_err(|message| properties.error(PATH, message))?;
        let protocol = match properties.text(PROTOCOL)? {
            None => None,
            Some("http") => Some(OriginProtocol::Http),
            Some("https") => Some(OriginProtocol::Https),
            Some(_) => return Err(properties.error(PROTOCOL, "must be \"http\" or \"https\"")),
        };
        Ok(Self::new(group, path, protocol))
    }

    /// Writes the members, the whole path or what of it may be shown.
    pub(super) fn add_to(&self, properties: &mut Map<String, Value>, is_whole: bool) {
        properties.insert(GROUP.to_owned(), json!(self.group.as_str()));
        let (name, path) = if is_whole || self.path.is_plain() {
            (PATH, self.path.as_str())
        } else {
            (PATH_BASE, self.path.base())
        };
        properties.insert(name.to_owned(), json!(path));
        if let Some(protocol) = self.protocol {
            properties.insert(PROTOCOL.to_owned(), json!(protocol.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SubscriptionSpec;

    /// ED-121 for groups: what follows the question mark is sent as it is and shown nowhere.
    #[test]
    fn the_query_of_a_path_stays_as_it_is_and_is_not_shown() {
        let path = EndpointPath::parse("/a/../b?code=a'b%2f|{}==&x=").unwrap();
        assert_eq!(path.as_str(), "/b?code=a'b%2f|{}==&x=");
        assert_eq!(path.base(), "/b");
        assert_eq!(format!("{path:?}"), "/b?...");
        let path = EndpointPath::parse("//b").unwrap();
        assert_eq!((path.as_str(), path.base()), ("//b", "//b"));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [
            "",
            "hook",
            "?a",
            "http://a.example/",
            "/a b",
            "/a#b",
            "/a?#b",
            "/a\\b",
            "/a?\"",
        ] {
            assert!(EndpointPath::parse(text).is_err(), "{text:?} is accepted");
        }
    }

    fn declared(properties: &Value) -> Value {
        let destination = json!({ "endpointType": "OriginGroup", "properties": properties });
        json!({ "destination": destination })
    }

    /// ED-121, ED-316: declared with a whole path, and shown without its query; headers, limits and batching are a webhook's.
    #[test]
    fn a_group_is_declared_and_shown_without_its_query() {
        let declared = declared(&json!({
            "originGroup": "Shop", "path": "/hook?code=secret", "protocol": "https",
            "maxEventsPerBatch": 10, "maxConcurrency": 3,
            "deliveryAttributeMappings": [{ "name": "Authorization", "type": "Static",
                "properties": { "value": "Bearer abc", "isSecret": true } }],
        }));
        let spec = SubscriptionSpec::check(&declared).unwrap().spec;
        let group = spec.destination.origin_group().map(OriginGroupName::as_str);
        assert_eq!(group, Some("Shop"));
        assert_eq!(spec.destination.endpoint(), "origin-group:Shop:https/hook");
        let shown = spec.to_public_json();
        let properties = &shown["destination"]["properties"];
        assert_eq!(properties["basePath"], "/hook");
        assert!(!shown.to_string().contains("secret"), "{shown}");
        let again = SubscriptionSpec::check(&spec.to_json()).unwrap().spec;
        assert_eq!(again, spec);
        // A secret header stays with the group, and is not sent to another one.
        for (group, is_kept) in [("shop", true), ("other", false)] {
            let mut changed = spec.to_masked_json();
            changed["destination"]["properties"]["originGroup"] = json!(group);
            assert_eq!(spec.keep_secrets(&mut changed).is_ok(), is_kept, "{group}");
        }
        let webhook = json!({ "endpointType": "WebHook", "properties": {
            "endpointUrl": "https://a.example/",
            "deliveryAttributeMappings": spec.to_masked_json()["destination"]["properties"]["deliveryAttributeMappings"],
        }});
        let mut changed = json!({ "destination": webhook });
        spec.keep_secrets(&mut changed).unwrap_err();
    }

    #[test]
    fn what_is_no_group_is_refused() {
        for (properties, field) in [
            (json!({}), "originGroup"),
            (json!({ "originGroup": "a b" }), "originGroup"),
            (json!({ "originGroup": "a", "path": "hook" }), "path"),
            (json!({ "originGroup": "a", "protocol": "ftp" }), "protocol"),
            (
                json!({ "originGroup": "a", "endpointUrl": "https://a.example/" }),
                "endpointUrl",
            ),
            (
                json!({ "originGroup": "a", "minimumTlsVersionAllowed": "1.3" }),
                "minimumTlsVersionAllowed",
            ),
        ] {
            let refused = SubscriptionSpec::check(&declared(&properties)).unwrap_err();
            assert_eq!(refused.field, format!("destination.properties.{field}"));
        }
        let plain = SubscriptionSpec::check(&declared(&json!({ "originGroup": "a" }))).unwrap();
        let shown = plain.spec.to_public_json();
        assert_eq!(shown["destination"]["properties"]["path"], "/");
    }
}
