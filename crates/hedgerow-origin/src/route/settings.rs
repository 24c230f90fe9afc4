//! Routes as users declare them: in JSON, in the names of the interface. What is wrong is told all at once, as with groups
//! (HP-005). Whether the group exists, and whether another route has the same combination, is seen where all of them are known.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Route, host_pattern, path_pattern};
use crate::limits;
use crate::settings::fields::{Fields, joined};
use crate::settings::{Code, Protocol, Refusal};

const MEMBERS: [&str; 7] = [
    "protocols",
    "hosts",
    "paths",
    "origin_group",
    "forwarding_protocol",
    "https_redirect",
    "enabled",
];

/// The scheme with which requests go to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardingProtocol {
    /// That of the client's request.
    #[default]
    MatchRequest,
    /// Without encryption, whatever the client used.
    Http,
    /// Over TLS, whatever the client used.
    Https,
}

impl ForwardingProtocol {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MatchRequest => "match_request",
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// What a request of this protocol is forwarded with.
    #[must_use]
    pub const fn of_request(self, request: Protocol) -> Protocol {
        match self {
            Self::MatchRequest => request,
            Self::Http => Protocol::Http,
            Self::Https => Protocol::Https,
        }
    }
}

/// A route: which requests, and what becomes of them. Serializes to the names of the interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSettings {
    /// The protocols of clients; both, where none is given.
    #[serde(default = "all_protocols")]
    pub protocols: Vec<Protocol>,
    /// Hosts, or `*.domain` (HP-151).
    pub hosts: Vec<String>,
    /// Paths, or beginnings of paths followed by `/*` (HP-152); all, where none is given.
    #[serde(default = "all_paths")]
    pub paths: Vec<String>,
    /// The group whose origins answer.
    pub origin_group: String,
    /// The scheme with which requests go there.
    #[serde(default)]
    pub forwarding_protocol: ForwardingProtocol,
    /// With which status requests over HTTP are sent on to HTTPS; they are forwarded where it is not given (HP-155).
    #[serde(default)]
    pub https_redirect: Option<u16>,
    /// A route that is not enabled matches nothing.
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn all_protocols() -> Vec<Protocol> {
    vec![Protocol::Http, Protocol::Https]
}

fn all_paths() -> Vec<String> {
    vec!["/*".to_owned()]
}

const fn yes() -> bool {
    true
}

impl RouteSettings {
    /// A route from these hosts to this group, with every other setting at its default.
    #[must_use]
    pub fn new(hosts: Vec<String>, origin_group: impl Into<String>) -> Self {
        Self {
            protocols: all_protocols(),
            hosts,
            paths: all_paths(),
            origin_group: origin_group.into(),
            forwarding_protocol: ForwardingProtocol::default(),
            https_redirect: None,
            enabled: yes(),
        }
    }

    /// Reads a route from JSON, in the names of the interface, and accepts it.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn read(declared: &Value) -> Result<Self, Refusal> {
        let mut fields = Fields::default();
        let settings = read(&mut fields, declared);
        fields.problems.into_result()?;
        Ok(settings)
    }

    /// What is matched with requests, under the name of the route.
    #[must_use]
    pub fn route(&self, name: &str) -> Route {
        Route {
            name: name.to_owned(),
            protocols: self.protocols.clone(),
            hosts: self.hosts.clone(),
            paths: self.paths.clone(),
        }
    }
}

fn read(fields: &mut Fields, declared: &Value) -> RouteSettings {
    let mut settings = RouteSettings::new(Vec::new(), "");
    let Some(members) = fields.object(declared, "the route") else {
        return settings;
    };
    for name in members.keys() {
        if !MEMBERS.contains(&name.as_str()) {
            let message = "is no setting of a route";
            fields.problems.add(Code::UnknownSetting, name, message);
        }
    }
    if let Some(names) = texts(fields, members, "protocols") {
        settings.protocols = protocols(fields, &names);
    }
    settings.hosts = texts(fields, members, "hosts").unwrap_or_default();
    settings.paths = texts(fields, members, "paths").unwrap_or(settings.paths);
    for (name, patterns) in [
        ("protocols", settings.protocols.len()),
        ("hosts", settings.hosts.len()),
        ("paths", settings.paths.len()),
    ] {
        let max = limits::ROUTE_PATTERNS_MAX;
        if !(1..=max).contains(&patterns) {
            let message = format!("must be 1 to {max} texts");
            let code = Code::PatternCountOutOfRange;
            fields.problems.add(code, name, message);
        }
    }
    for (index, host) in settings.hosts.iter().enumerate() {
        if host_pattern(host).is_none() {
            let code = Code::RouteHostNotAllowed;
            let message = "must be a host name without port, or \"*.\" and a domain";
            fields
                .problems
                .add(code, format!("hosts[{index}]"), message);
        }
    }
    for (index, path) in settings.paths.iter().enumerate() {
        if path_pattern(path).is_none() {
            let code = Code::RoutePathNotAllowed;
            let message = "must begin with \"/\", with \"*\" only as \"/*\" at its end";
            fields
                .problems
                .add(code, format!("paths[{index}]"), message);
        }
    }
    fields.text(members, "", "origin_group", &mut settings.origin_group);
    if settings.origin_group.is_empty() {
        let message = "must be the name of an origin group";
        let code = Code::OriginGroupRequired;
        fields.problems.add(code, "origin_group", message);
    }
    let forwarding = [
        ForwardingProtocol::MatchRequest,
        ForwardingProtocol::Http,
        ForwardingProtocol::Https,
    ];
    fields.one_of(
        members,
        "",
        "forwarding_protocol",
        Code::ProtocolNotAllowed,
        &forwarding.map(|protocol| (protocol.as_str(), protocol)),
        &mut settings.forwarding_protocol,
    );
    settings.https_redirect = redirect(fields, members);
    fields.flag(members, "", "enabled", &mut settings.enabled);
    settings
}

/// A list of texts; `None` if it is not given, and what is no text is left out and told.
fn texts(fields: &mut Fields, members: &Map<String, Value>, name: &str) -> Option<Vec<String>> {
    let given = fields.member(members, name)?;
    let Value::Array(given) = given else {
        fields.wrong_type(name, "a list of texts");
        return None;
    };
    let mut texts = Vec::with_capacity(given.len());
    for (index, text) in given.iter().enumerate() {
        match text {
            Value::String(text) => texts.push(text.clone()),
            _ => fields.wrong_type(joined("", &format!("{name}[{index}]")), "a text"),
        }
    }
    Some(texts)
}

fn protocols(fields: &mut Fields, names: &[String]) -> Vec<Protocol> {
    let mut protocols = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        match name.as_str() {
            "http" => protocols.push(Protocol::Http),
            "https" => protocols.push(Protocol::Https),
            _ => {
                let message = "must be \"http\" or \"https\"";
                let field = format!("protocols[{index}]");
                fields
                    .problems
                    .add(Code::ProtocolNotAllowed, field, message);
            }
        }
    }
    protocols
}

/// HP-155.
fn redirect(fields: &mut Fields, members: &Map<String, Value>) -> Option<u16> {
    let code = Code::RedirectStatusNotAllowed;
    let mut status = None;
    fields.whole(members, "", "https_redirect", code, &mut status);
    let status = status?;
    let known = limits::REDIRECT_STATUSES;
    let found = known.into_iter().find(|known| u32::from(*known) == status);
    if found.is_none() {
        let message = format!("must be 308, 301, 302 or 307, and is {status}");
        fields.problems.add(code, "https_redirect", message);
    }
    found
}
