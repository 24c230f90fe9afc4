//! Where log lines go: to standard error, as text or JSON, filtered by `HEDGEROW_LOG`. What is logged is decided where
//! it happens.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// The variable that says what is logged, in the syntax of `tracing`: `info`, `hedgerow_delivery=debug,warn`.
const VARIABLE: &str = "HEDGEROW_LOG";

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Begins to log. `default` is the level where the variable says nothing.
pub fn start(format: LogFormat, default: &str) -> Result<(), Failure> {
    let directives = std::env::var(VARIABLE).unwrap_or_default();
    let directives = if directives.is_empty() {
        default
    } else {
        &directives
    };
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        Failure::because(
            format!("{VARIABLE}=\"{directives}\" is no log filter"),
            &error,
        )
        .with_hint("write a level, such as `info`, or levels by module")
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::because("cannot begin to log", error.as_ref()))
}

impl From<hedgerow_server::LogFormat> for LogFormat {
    fn from(format: hedgerow_server::LogFormat) -> Self {
        match format {
            hedgerow_server::LogFormat::Text => Self::Text,
            hedgerow_server::LogFormat::Json => Self::Json,
        }
    }
}
