//! Which route a request takes (HP-150 to HP-155): protocol first, then host, then path, always to the most specific. The order
//! of the routes does not matter.

mod path;
mod settings;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;

use serde::Serialize;

use crate::limits;
use crate::settings::{Protocol, is_host};
use crate::target::key_of_host;

pub use self::path::{PathError, normalize};
pub use self::settings::{ForwardingProtocol, RouteSettings};

/// The status where no route matches, unless the listener's `unmatched_status` says another one (HP-153).
pub const UNMATCHED_STATUS: u16 = 400;
/// What `unmatched_status` may be.
pub const UNMATCHED_STATUSES: [u16; 3] = [400, 404, 421];

/// Where requests of some protocols, hosts and paths go. Every combination counts (HP-150).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Unique among the routes.
    pub name: String,
    /// The protocols of clients.
    pub protocols: Vec<Protocol>,
    /// Hosts, or `*.domain` for exactly one label before it (HP-151).
    pub hosts: Vec<String>,
    /// Paths, or beginnings of paths followed by `/*` (HP-152).
    pub paths: Vec<String>,
}

/// Why routes are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteError {
    /// Two routes have this name.
    NameGivenTwice(String),
    /// Two routes have the same combination (HP-150).
    Ambiguous {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// What both have.
        combination: String,
    },
    /// Neither a host nor `*.domain`.
    Host {
        /// The route.
        route: String,
        /// What it has instead.
        host: String,
    },
    /// No path that begins with `/`, or `*` elsewhere than in a final `/*`.
    Path {
        /// The route.
        route: String,
        /// What it has instead.
        path: String,
    },
    /// A route without protocols, hosts or paths, or with more than [`limits::ROUTE_PATTERNS_MAX`] of them.
    Patterns {
        /// The route.
        route: String,
    },
    /// More than [`limits::ROUTES_MAX`].
    TooMany,
    /// More than [`limits::ROUTE_COMBINATIONS_MAX`].
    TooManyCombinations,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameGivenTwice(name) => write!(f, "there are two routes \"{name}\""),
            Self::Ambiguous {
                first,
                second,
                combination,
            } => write!(
                f,
                "the routes \"{first}\" and \"{second}\" both have {combination}"
            ),
            Self::Host { route, host } => write!(
                f,
                "the route \"{route}\" has \"{host}\" as a host; say a host name, or \"*.\" and a domain"
            ),
            Self::Path { route, path } => write!(
                f,
                "the route \"{route}\" has \"{path}\" as a path; say one that begins with \"/\", with \"*\" only as \"/*\" at its end"
            ),
            Self::Patterns { route } => {
                let max = limits::ROUTE_PATTERNS_MAX;
                write!(
                    f,
                    "the route \"{route}\" must have protocols, and 1 to {max} hosts and paths"
                )
            }
            Self::TooMany => write!(f, "there are more than {} routes", limits::ROUTES_MAX),
            Self::TooManyCombinations => {
                let max = limits::ROUTE_COMBINATIONS_MAX;
                write!(
                    f,
                    "all routes together have more than {max} combinations of a protocol, a host and a path"
                )
            }
        }
    }
}

impl std::error::Error for RouteError {}

/// The routes of a listener, made for look-ups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteTable {
    names: Vec<String>,
    hosts: HashMap<(Protocol, String), Paths>,
    /// By the domain behind `*.`.
    wildcards: HashMap<(Protocol, String), Paths>,
}

/// The paths of one protocol and host, with the indexes of their routes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Paths {
    exact: HashMap<String, usize>,
    /// By what stands before `*`, which ends in `/`.
    beginnings: HashMap<String, usize>,
    /// The lengths of beginnings that there are, the longest first: so many look-ups a path takes at most.
    lengths: Vec<usize>,
}

/// What was found, and the path that is forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match<'t, 'p> {
    /// The route's name.
    pub route: &'t str,
    /// Its place among the routes that the table was made of.
    pub index: usize,
    /// The path that was matched: it is forwarded, never the raw one (HP-154).
    pub path: Cow<'p, str>,
}

impl RouteTable {
    /// Makes the table.
    ///
    /// # Errors
    ///
    /// What is wrong with the routes.
    pub fn new(routes: &[Route]) -> Result<Self, RouteError> {
        if routes.len() > limits::ROUTES_MAX {
            return Err(RouteError::TooMany);
        }
        let combinations = |route: &Route| {
            let patterns = [&route.hosts, &route.paths].map(Vec::len);
            let [hosts, paths] = patterns.map(|count| count.min(limits::ROUTE_PATTERNS_MAX));
            route.protocols.len().saturating_mul(hosts * paths)
        };
        let combinations = routes.iter().map(combinations);
        if combinations.fold(0, usize::saturating_add) > limits::ROUTE_COMBINATIONS_MAX {
            return Err(RouteError::TooManyCombinations);
        }
        let mut table = Self::default();
        for (index, route) in routes.iter().enumerate() {
            if table.names.contains(&route.name) {
                return Err(RouteError::NameGivenTwice(route.name.clone()));
            }
            let counted = 1..=limits::ROUTE_PATTERNS_MAX;
            let has_patterns = !route.protocols.is_empty()
                && counted.contains(&route.hosts.len())
                && counted.contains(&route.paths.len());
            if !has_patterns {
                return Err(RouteError::Patterns {
                    route: route.name.clone(),
                });
            }
            table.names.push(route.name.clone());
            for protocol in &route.protocols {
                for host in &route.hosts {
                    table.add(index, route, *protocol, host)?;
                }
            }
        }
        let all = table.hosts.values_mut().chain(table.wildcards.values_mut());
        for paths in all {
            paths.lengths = paths.beginnings.keys().map(String::len).collect();
            paths
                .lengths
                .sort_unstable_by_key(|length| std::cmp::Reverse(*length));
            paths.lengths.dedup();
        }
        Ok(table)
    }

    /// The route of a request, `None` when there is none (HP-153). `host` is the request's, a port in it does not count;
    /// `path` is its raw path without the query.
    ///
    /// # Errors
    ///
    /// If the path cannot be decoded: 400 (HP-154).
    pub fn find<'p>(
        &self,
        protocol: Protocol,
        host: &str,
        path: &'p str,
    ) -> Result<Option<Match<'_, 'p>>, PathError> {
        let path = normalize(path)?;
        let host = key_of_host(without_port(host));
        let key = (protocol, host);
        // Once an exact host has matched, wildcards are not tried (HP-151).
        let paths = match self.hosts.get(&key) {
            Some(paths) => Some(paths),
            None => key.1.split_once('.').and_then(|(label, domain)| {
                let key = (protocol, domain.to_owned());
                self.wildcards.get(&key).filter(|_| !label.is_empty())
            }),
        };
        let index = paths.and_then(|paths| paths.find(&path));
        Ok(index.and_then(|index| {
            let route = self.names.get(index)?;
            Some(Match { route, index, path })
        }))
    }

    fn add(
        &mut self,
        index: usize,
        route: &Route,
        protocol: Protocol,
        host: &str,
    ) -> Result<(), RouteError> {
        let Some((key, is_wildcard)) = host_pattern(host) else {
            return Err(RouteError::Host {
                route: route.name.clone(),
                host: host.to_owned(),
            });
        };
        let hosts = if is_wildcard {
            &mut self.wildcards
        } else {
            &mut self.hosts
        };
        let paths = hosts.entry((protocol, key)).or_default();
        for path in &route.paths {
            let Some((key, is_exact)) = path_pattern(path) else {
                return Err(RouteError::Path {
                    route: route.name.clone(),
                    path: path.clone(),
                });
            };
            let earlier = if is_exact {
                paths.exact.insert(key, index)
            } else {
                paths.beginnings.insert(key, index)
            };
            // The same pattern twice in one route says nothing new.
            if let Some(earlier) = earlier.filter(|earlier| *earlier != index) {
                return Err(RouteError::Ambiguous {
                    first: self.names.get(earlier).cloned().unwrap_or_default(),
                    second: route.name.clone(),
                    combination: format!("{}://{host}{path}", protocol.as_str()),
                });
            }
        }
        Ok(())
    }
}

impl Paths {
    /// Exact first, then the longest pattern (HP-152). Case does not count.
    fn find(&self, path: &str) -> Option<usize> {
        let lower = if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(path.to_ascii_lowercase())
        } else {
            Cow::Borrowed(path)
        };
        if let Some(index) = self.exact.get(lower.as_ref()) {
            return Some(*index);
        }
        let mut lengths = self.lengths.iter();
        lengths.find_map(|length| {
            let beginning = lower
                .get(..*length)
                .filter(|beginning| beginning.ends_with('/'))?;
            self.beginnings.get(beginning).copied()
        })
    }
}

/// A host in the one spelling that is compared, and whether it is the domain behind `*.` (HP-151). `None` if it is neither a
/// host nor `*.domain`.
fn host_pattern(host: &str) -> Option<(String, bool)> {
    let domain = host.strip_prefix("*.");
    let name = domain.unwrap_or(host);
    let is_address = key_of_host(name).starts_with('[') || name.parse::<Ipv4Addr>().is_ok();
    let is_good = is_host(name) && !(domain.is_some() && is_address);
    is_good.then(|| (key_of_host(name), domain.is_some()))
}

/// A path, or what stands before its last `*`, in the one spelling that is compared, and whether it is exact (HP-152). `None` if
/// it is no pattern.
fn path_pattern(path: &str) -> Option<(String, bool)> {
    let (beginning, is_exact) = match path.strip_suffix('*') {
        Some(beginning) if beginning.ends_with('/') => (beginning, false),
        _ => (path, true),
    };
    let normal = normalize(beginning)
        .ok()
        .filter(|_| !beginning.contains(['*', '?', '#']))?;
    Some((normal.to_ascii_lowercase(), is_exact))
}

/// A host without its port; an IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (name.ends_with(']') || !name.contains(':')) =>
        {
            name
        }
        _ => host,
    }
}

/// Where an HTTP request is sent on to HTTPS: the same host, path and query, with the port of the HTTPS listener if that is
/// not 443 (HP-155).
#[must_use]
pub fn https_location(host: &str, path_and_query: &str, https_port: u16) -> String {
    let host = without_port(host);
    match https_port {
        443 => format!("https://{host}{path_and_query}"),
        port => format!("https://{host}:{port}{path_and_query}"),
    }
}
