//! What users declare: a group with its origins. [`GroupSettings`] are the settings as given; a [`Group`] is a set of them
//! that was accepted.
//!
//! Nothing is clamped: what is out of range is refused, with all that is wrong at once (HP-005).
//!
//! | file | has |
//! | --- | --- |
//! | `check.rs` | the ranges, and what must fit together |
//! | `problem.rs` | the codes of refusals |
//! | `read.rs` | the JSON of the interfaces, with the vendor's other spellings (HP-116) |
//! | `fields.rs` | members of JSON objects, and all that is wrong with them |

mod check;
pub(crate) mod fields;
pub(crate) mod problem;
mod read;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::interval::IdleSettings;
use crate::outcome::Demands;
use crate::statuses::Statuses;
use crate::threshold::Thresholds;
use crate::window::Rules;

pub(crate) use self::check::{is_host, is_token};
pub use self::problem::{Code, Problem, Refusal};
pub use self::read::VENDOR_NAMES;

/// How a probe is sent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Without encryption, to `http_port`.
    #[default]
    Http,
    /// Over TLS, to `https_port`.
    Https,
}

impl Protocol {
    /// Its name, and that of the URL's scheme.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port that is not written.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The method of a probe (HP-010).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Ends with the response head.
    #[default]
    Head,
    /// Reads the body to its last byte.
    Get,
}

impl Method {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Head => "HEAD",
            Self::Get => "GET",
        }
    }
}

/// What happens while all enabled origins are unhealthy (HP-092).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailOpen {
    /// Round robin over all enabled ones.
    #[default]
    All,
    /// Round robin over the enabled ones with the lowest priority number.
    TopPriority,
    /// Nothing is sent: 503.
    None,
}

/// How one of the kept origins is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Smooth weighted round robin (HP-128).
    #[default]
    Weighted,
    /// The less loaded of two that are drawn by weight (HP-196).
    P2cEwma,
}

/// `probe`: the request of a probe, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeSettings {
    /// Whether there are probes (HP-100).
    pub enabled: bool,
    /// How they are sent (HP-012).
    pub protocol: Protocol,
    /// The path, with a query if one is wanted (HP-014).
    pub path: String,
    /// The method.
    pub method: Method,
    /// I, in whole seconds (HP-016).
    pub interval_s: u32,
    /// T, in whole seconds (HP-020).
    pub timeout_s: u32,
    /// Bytes of the longest response head (HP-045).
    pub header_bytes_max: u32,
    /// The statuses that are a success; 200 alone is the default (HP-040). A redirect among them is one too, and is not
    /// followed.
    pub expected_statuses: Vec<u32>,
    /// Further fixed headers (HP-019).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            protocol: Protocol::default(),
            path: "/".to_owned(),
            method: Method::default(),
            interval_s: 30,
            timeout_s: 5,
            header_bytes_max: Demands::default().head_bytes_max,
            expected_statuses: vec![200],
            headers: BTreeMap::new(),
        }
    }
}

/// `load_balancing`: the window, and the latency band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LoadBalancing {
    /// n.
    pub sample_size: u32,
    /// x; `None` for 3, or for what `unhealthy_threshold` makes of it.
    pub successful_samples_required: Option<u32>,
    /// How much slower than the fastest an origin may be, in milliseconds (HP-124).
    pub additional_latency_ms: u32,
}

impl Default for LoadBalancing {
    fn default() -> Self {
        Self {
            sample_size: Thresholds::default().sample_size().into(),
            successful_samples_required: None,
            additional_latency_ms: 50,
        }
    }
}

/// One member of `origins`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OriginSettings {
    /// Unique in its group (HP-002).
    pub name: String,
    /// A host name or an address.
    pub host: String,
    /// Where `http` requests go, probes among them (HP-013).
    pub http_port: u32,
    /// Where `https` requests go.
    pub https_port: u32,
    /// What the `Host` header says; empty for the client's host, and in probes for the origin's (HP-015).
    pub host_header: String,
    /// Lower is preferred (HP-122).
    pub priority: u32,
    /// Its share among the kept ones (HP-127).
    pub weight: u32,
    /// Whether the certificate must be for the host's name (HP-023).
    pub verify_certificate_name: bool,
    /// Whether it is used at all (HP-030).
    pub enabled: bool,
    /// For so many seconds after it was added or enabled it is unknown rather than unhealthy (HP-115).
    pub startup_grace_s: u32,
}

impl OriginSettings {
    /// An origin with every setting at its default.
    #[must_use]
    pub fn new(name: impl Into<String>, host: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            host: host.into(),
            http_port: 80,
            https_port: 443,
            host_header: String::new(),
            priority: 1,
            weight: 50,
            verify_certificate_name: true,
            enabled: true,
            startup_grace_s: 0,
        }
    }
}

/// A group as it was given. Serializes to the names of the interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools)] // Each is a setting of its own.
pub struct GroupSettings {
    /// The probes.
    pub probe: ProbeSettings,
    /// The window and the latency band.
    pub load_balancing: LoadBalancing,
    /// u: another way to write n and x (HP-113).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_threshold: Option<u32>,
    /// Whether later requests of a session go to the same origin (HP-140).
    pub session_affinity: bool,
    /// What happens while all origins are unhealthy.
    pub fail_open: FailOpen,
    /// How one of the kept origins is chosen.
    pub strategy: Strategy,
    /// How much less is probed while nobody uses the group (HP-082).
    #[serde(flatten)]
    pub idle: IdleSettings,
    /// How long the weight of an origin rises that has come back, in seconds (HP-194).
    pub ramp_s: u32,
    /// Whether failures of real requests ask for a probe (HP-192).
    pub passive_signals: bool,
    /// Whether they count as failed samples too (HP-193).
    pub passive_ejection: bool,
    /// Whether an origin that changes too often is held out (HP-195).
    pub flap_damping: bool,
    /// Whether an origin may ask by a header not to be used (HP-198).
    pub drain_header: bool,
    /// The origins; their order breaks ties (HP-002).
    pub origins: Vec<OriginSettings>,
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self {
            probe: ProbeSettings::default(),
            load_balancing: LoadBalancing::default(),
            unhealthy_threshold: None,
            session_affinity: false,
            fail_open: FailOpen::default(),
            strategy: Strategy::default(),
            idle: IdleSettings::default(),
            ramp_s: 0,
            passive_signals: true,
            passive_ejection: false,
            flap_damping: false,
            drain_header: true,
            origins: Vec::new(),
        }
    }
}

/// A group that was accepted: every setting is in its range, and they fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    settings: GroupSettings,
    thresholds: Thresholds,
}

/// As its settings, n and x among them: so what was accepted is stored.
impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.settings.serialize(serializer)
    }
}

/// Of settings that are accepted.
impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let declared = serde_json::Value::deserialize(deserializer)?;
        Self::read(&declared).map_err(D::Error::custom)
    }
}

impl Group {
    /// Accepts a group. n and x are filled in from `unhealthy_threshold` if that is given (HP-113).
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn new(settings: GroupSettings) -> Result<Self, Refusal> {
        check::check(settings)
    }

    /// Reads a group from JSON, in the names of the interface or the vendor's (HP-116), and accepts it.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn read(declared: &serde_json::Value) -> Result<Self, Refusal> {
        read::read(declared)
    }

    /// The settings, n and x among them.
    #[must_use]
    pub const fn settings(&self) -> &GroupSettings {
        &self.settings
    }

    /// n and x.
    #[must_use]
    pub const fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// I.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        Duration::from_secs(self.settings.probe.interval_s as u64)
    }

    /// T.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        Duration::from_secs(self.settings.probe.timeout_s as u64)
    }

    /// How its samples are judged.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let statuses = self.settings.probe.expected_statuses.iter();
        let statuses = statuses.filter_map(|status| u16::try_from(*status).ok());
        Rules {
            thresholds: self.thresholds,
            demands: Demands {
                timeout: self.timeout(),
                head_bytes_max: self.settings.probe.header_bytes_max,
                expected: Statuses::of(statuses),
            },
            waits_for_threshold: self.settings.unhealthy_threshold.is_some(),
        }
    }

    /// How many origins are enabled.
    #[must_use]
    pub fn enabled_origins(&self) -> usize {
        let origins = self.settings.origins.iter();
        origins.filter(|origin| origin.enabled).count()
    }

    /// Whether exactly one origin is enabled, so that its health changes no routing (HP-104).
    #[must_use]
    pub fn is_single_origin(&self) -> bool {
        self.enabled_origins() == 1
    }

    /// The effective interval when this node last used the group so long ago (HP-083).
    #[must_use]
    pub fn effective_interval(&self, unused_for: Duration) -> Duration {
        let idle = &self.settings.idle;
        let level = idle.level(unused_for);
        idle.effective_interval(self.interval(), level, self.is_single_origin())
    }
}
