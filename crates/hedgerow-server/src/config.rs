//! File and environment to a checked [`Config`].
//!
//! Two stages: what was written (`written`: each key with its place), then each setting is read by its row of one table
//! (`settings`), which also says how it is shown. A key that no row has is an error with the nearest one as hint. All
//! problems are found in one go.
//!
//! The defaults stand in `default.toml`, commented, and are those of the parts that the settings belong to.

mod edge;
mod error;
mod kinds;
pub mod profile;
mod settings;
mod written;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow_core::dead_letter::DeadLetterSettings;
use hedgerow_core::hold::DelayedDeliverySettings;
use hedgerow_core::rate::RateLimits;
use hedgerow_core::spec::ProbationSpec;
use hedgerow_delivery::settings::EngineSettings;
use hedgerow_io::http::{ClientOptions, Network};
use hedgerow_origin::limits::PROBES_PER_SECOND;
use hedgerow_store::history::HistoryOptions;
use hedgerow_store::log::LogOptions;

pub use self::edge::EdgeConfig;
pub use self::error::{ConfigError, Place, Problem};
use self::settings::SETTINGS;
use self::written::Written;
use crate::public_url::PublicUrl;
use crate::tls::{TlsConfig, TlsError};

/// Every setting with its default and what it means.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// The prefix of environment variables that override settings: `HEDGEROW_STORE__BYTES_MAX` is `store.bytes_max`.
pub const ENVIRONMENT_PREFIX: &str = "HEDGEROW_";

/// Checked settings of a server, complete.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the server listens; port 0 for any free one.
    pub listen: SocketAddr,
    /// The data directory.
    pub data: PathBuf,
    /// Where publishers reach the server; `None` for what follows from `listen`.
    pub public_url: Option<PublicUrl>,
    /// Whether other machines may reach the server without TLS (ED-008).
    pub insecure_http: bool,
    /// TLS on the server's own port.
    pub tls: TlsConfig,
    /// How requests are taken.
    pub http: HttpConfig,
    /// How much longer than they say shared access signatures are taken (ED-021).
    pub sas_clock_skew: Duration,
    /// How fast each topic is published to, at most (ED-061).
    pub rate_limits: RateLimits,
    /// Networks that endpoints may lie in although not everybody can reach them (design D11).
    pub allow_networks: Vec<Network>,
    /// `responseTimeoutSeconds` of subscriptions that do not say it, in whole seconds (ED-176).
    pub response_timeout: Duration,
    /// How long the answer to a declaration waits for the handshake with its endpoint.
    pub validation_answer_wait: Duration,
    /// Where dead letters may be written, and how for subscriptions that do not say it.
    pub dead_letter: DeadLetterConfig,
    /// `probation` of subscriptions that do not say it (ED-226, ED-229).
    pub probation: ProbationSpec,
    /// `delayedDelivery` of subscriptions that do not say it, in whole seconds (ED-241).
    pub delayed_delivery: DelayedDeliverySettings,
    /// How deliveries are made.
    pub engine: EngineSettings,
    /// How endpoints are connected to.
    pub client: ClientOptions,
    /// How the log is kept.
    pub store: LogOptions,
    /// The file with the key of the secrets; `None` for `KEY` in the data directory.
    pub key_file: Option<PathBuf>,
    /// How many terminal records are kept; the oldest go first.
    pub terminal_records_max: u64,
    /// How attempts are remembered.
    pub history: HistoryOptions,
    /// How metrics are shown.
    pub metrics: MetricsOptions,
    /// How origin groups are probed.
    pub probes: ProbesConfig,
    /// How the edge is listened on.
    pub edge: EdgeConfig,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Whether requests of publishers are logged together, a line for each combination and minute (ED-309).
    pub log_data_plane_requests: bool,
}

/// How requests are taken.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Connections at a time; when they are used up, the one that idles for longest makes room. Fewer if descriptors are
    /// scarce.
    pub connections_max: usize,
    /// How long the head of a request may take, and how long a connection may idle.
    pub header_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// Bytes of published bodies in memory at a time.
    pub bodies_bytes_max: usize,
    /// How long publishers wait for room while the log refuses, before they are told.
    pub room_wait: Duration,
    /// How long connections get to end when the server stops.
    pub close_timeout: Duration,
}

/// Where dead letters may be written, and how.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterConfig {
    /// The directory that those of subscriptions lie in; `None` for `dead-letters` in the data directory.
    pub directory: Option<PathBuf>,
    /// Whether subscriptions that do not name a destination get a directory of the server's (ED-313).
    pub local_default: bool,
    /// `deadLetter` of subscriptions that do not say it (ED-245, ED-247, ED-319), in whole seconds.
    pub settings: DeadLetterSettings,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            bodies_bytes_max: 256 << 20,
            room_wait: Duration::from_secs(1),
            close_timeout: Duration::from_secs(5),
        }
    }
}

/// How `/metrics` is answered.
#[derive(Debug, Clone, Copy)]
pub struct MetricsOptions {
    /// Whether it needs a token with the right `read` for everything.
    pub needs_token: bool,
    /// Subscriptions that have series of their own; what is counted of the others is added up.
    pub subscriptions_max: usize,
    /// Origins with series of their own.
    pub origins_max: usize,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self {
            needs_token: false,
            subscriptions_max: 2_000,
            origins_max: 2_000,
        }
    }
}

/// How origin groups are probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbesConfig {
    /// Probes in a second, of all groups (HP-190).
    pub budget_per_s: u32,
    /// What estimates call this node: a free text (HP-088).
    pub region: String,
}

impl Default for ProbesConfig {
    fn default() -> Self {
        Self {
            budget_per_s: PROBES_PER_SECOND,
            region: String::new(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            data: PathBuf::from("./data"),
            public_url: None,
            insecure_http: false,
            tls: TlsConfig::default(),
            http: HttpConfig::default(),
            sas_clock_skew: Duration::ZERO,
            rate_limits: RateLimits::default(),
            allow_networks: Vec::new(),
            response_timeout: Duration::from_secs(30),
            validation_answer_wait: Duration::from_secs(35),
            dead_letter: DeadLetterConfig::default(),
            probation: ProbationSpec::default(),
            delayed_delivery: DelayedDeliverySettings::default(),
            engine: EngineSettings::default(),
            client: ClientOptions::default(),
            store: LogOptions::default(),
            key_file: None,
            terminal_records_max: 100_000,
            history: HistoryOptions::default(),
            metrics: MetricsOptions::default(),
            probes: ProbesConfig::default(),
            edge: EdgeConfig::default(),
            log_format: LogFormat::default(),
            log_data_plane_requests: false,
        }
    }
}

impl Config {
    /// The settings in force, as a file that gives them again. There are no secrets among them.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for setting in SETTINGS {
            let (of, name) = setting.key.rsplit_once('.').unwrap_or(("", setting.key));
            if of != section {
                section = of;
                text.extend(["\n[", section, "]\n"]);
            }
            text.extend([name, " = ", &(setting.show)(self), "\n"]);
        }
        text
    }

    /// The directory that the dead-letter directories of subscriptions lie in.
    #[must_use]
    pub fn dead_letter_directory(&self) -> PathBuf {
        let default = || self.data.join("dead-letters");
        self.dead_letter.directory.clone().unwrap_or_else(default)
    }

    /// Whether other machines could reach the server without TLS, and nobody said so (ED-008).
    pub(crate) fn is_exposed(&self) -> bool {
        !self.listen.ip().is_loopback() && !self.insecure_http && !self.has_tls()
    }

    /// Whether the server's own port speaks TLS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        self.tls.certificate_file.is_some()
    }

    /// Checks the files that settings name, as the start of a server does: the certificate and its key.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub fn check_files(&self) -> Result<(), TlsError> {
        crate::tls::Tls::load(&self.tls).map(drop)
    }

    /// Checks what no single setting says.
    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut problem = |key: &str, message: String| problems.push(Problem::of(key, message));
        if self.is_exposed() {
            let message = format!(
                "{} can be reached from other machines, and there is no TLS; set tls.certificate_file and tls.key_file, \
                 listen on 127.0.0.1 behind a proxy that speaks TLS, or set insecure_http = true",
                self.listen
            );
            problem("listen", message);
        }
        if self.tls.certificate_file.is_some() != self.tls.key_file.is_some() {
            let message = "tls.certificate_file and tls.key_file go together";
            problem("tls", message.to_owned());
        }
        problems.extend(self.edge.check(self.has_tls()));
        let mut problem = |key: &str, message: String| problems.push(Problem::of(key, message));
        if let Err(error) = self.engine.retry.check() {
            problem("retry", error.to_string());
        }
        let windows = &self.delayed_delivery;
        if windows.first_window > windows.max_window {
            let message = "must not be longer than delayed_delivery.max_window";
            problem("delayed_delivery.first_window", message.to_owned());
        }
        let credits = self.engine.credits;
        if !(credits.min..=credits.max).contains(&credits.start) {
            let message = "must lie between endpoint_attempts_min and endpoint_attempts_max";
            problem("delivery.endpoint_attempts_start", message.to_owned());
        }
        if self.store.bytes_max < u64::from(self.store.segment_bytes) * 8 {
            problem(
                "store.bytes_max",
                "must be at least eight times store.segment_bytes".to_owned(),
            );
        }
        problems
    }
}

/// Reads the file at `path` if there is one to read, then what `environment` overrides, and checks everything.
///
/// # Errors
/// All problems that were found.
pub fn load(
    path: Option<&Path>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Config, ConfigError> {
    load_over(Config::default(), path, environment)
}

/// The same, over other defaults than the usual ones.
///
/// # Errors
/// All problems that were found.
pub fn load_over(
    defaults: Config,
    path: Option<&Path>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Config, ConfigError> {
    let mut problems = Vec::new();
    let mut written = Vec::new();
    if let Some(path) = path {
        match std::fs::read_to_string(path) {
            Ok(text) => written::from_file(path, &text, &mut written, &mut problems),
            Err(error) => problems.push(Problem::unreadable(path, &error)),
        }
    }
    written::from_environment(environment, &mut written);
    check(defaults, written, problems)
}

/// Reads the text of a file that is called `name` in messages.
///
/// # Errors
/// All problems that were found.
pub fn parse(name: &Path, text: &str) -> Result<Config, ConfigError> {
    let (mut problems, mut written) = (Vec::new(), Vec::new());
    written::from_file(name, text, &mut written, &mut problems);
    check(Config::default(), written, problems)
}

fn check(
    mut config: Config,
    written: Vec<Written>,
    mut problems: Vec<Problem>,
) -> Result<Config, ConfigError> {
    // What is written besides holds whatever the profile, so the profile comes first.
    let (profile, others): (Vec<_>, Vec<_>) = written
        .into_iter()
        .partition(|written| written.key == "profile");
    for written in profile.into_iter().chain(others) {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == written.key) else {
            problems.push(settings::unknown(&written));
            continue;
        };
        if let Err(message) = (setting.set)(&mut config, &written.value) {
            problems.push(Problem::at(&written, message));
        }
    }
    if problems.is_empty() {
        problems = config.check();
    }
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(ConfigError { problems })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_file_gives_the_defaults_and_names_every_setting() {
        let parsed = parse(Path::new("default.toml"), DEFAULT_TOML).unwrap();
        assert_eq!(parsed.to_toml(), Config::default().to_toml());
        for setting in SETTINGS {
            let name = setting.key.rsplit('.').next().unwrap();
            assert!(
                DEFAULT_TOML
                    .lines()
                    .any(|line| line.starts_with(&format!("{name} = "))),
                "{} is missing",
                setting.key
            );
        }
    }

    #[test]
    fn what_is_shown_can_be_read() {
        let shown = Config::default().to_toml();
        let again = parse(Path::new("shown.toml"), &shown).unwrap();
        assert_eq!(again.to_toml(), shown);
    }
}
