//! Thresholds and lengths of holds; the defaults are the specification's (ED-004).

use std::time::Duration;

use crate::outcome::Outcome;

/// The settings of probation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbationSettings {
    /// Attempts in a row with the same outcome that begin it; at least 1 (ED-226).
    pub threshold: u32,
    /// How long it lasts.
    pub durations: ProbationDurations,
    /// Whether what becomes due on a probation that a client error caused is given up at once (ED-229).
    pub dead_letter_on_client_error: bool,
}

impl Default for ProbationSettings {
    fn default() -> Self {
        Self {
            threshold: 3,
            durations: ProbationDurations::default(),
            dead_letter_on_client_error: false,
        }
    }
}

/// How long probation lasts after each outcome that has one (ED-224). Zero is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of the outcomes.
pub struct ProbationDurations {
    pub busy: Duration,
    pub timed_out: Duration,
    pub socket_error: Duration,
    pub not_found: Duration,
    pub resolution_error: Duration,
    pub disabled: Duration,
    pub full: Duration,
    pub unauthorized: Duration,
    pub forbidden: Duration,
    pub invalid_azure_function_destination: Duration,
}

impl Default for ProbationDurations {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            busy: seconds(10),
            timed_out: seconds(10),
            socket_error: seconds(30),
            not_found: seconds(300),
            resolution_error: seconds(300),
            disabled: seconds(300),
            full: seconds(300),
            unauthorized: seconds(300),
            forbidden: seconds(300),
            invalid_azure_function_destination: seconds(600),
        }
    }
}

impl ProbationDurations {
    /// How long probation lasts after this outcome; `None` if it has none.
    #[must_use]
    pub fn of(&self, outcome: Outcome) -> Option<Duration> {
        let duration = match outcome {
            Outcome::Busy => self.busy,
            Outcome::TimedOut => self.timed_out,
            Outcome::SocketError => self.socket_error,
            Outcome::NotFound => self.not_found,
            Outcome::ResolutionError => self.resolution_error,
            Outcome::Disabled => self.disabled,
            Outcome::Full => self.full,
            Outcome::Unauthorized => self.unauthorized,
            Outcome::Forbidden => self.forbidden,
            Outcome::InvalidAzureFunctionDestination => self.invalid_azure_function_destination,
            Outcome::BadRequest
            | Outcome::PayloadTooLarge
            | Outcome::Probation
            | Outcome::Canceled
            | Outcome::Aborted
            | Outcome::Delivering
            | Outcome::SessionQueueNotSupported
            | Outcome::GenericError => Duration::ZERO,
        };
        (!duration.is_zero()).then_some(duration)
    }
}

/// The settings of delayed delivery, of each subscription for itself (ED-241).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayedDeliverySettings {
    /// Whether the subscription's failures count, and whether windows hold it.
    pub enabled: bool,
    /// Failed deliveries since the last success that begin the first window; at least 1.
    pub events: u32,
    /// How long the first window lasts.
    pub first_window: Duration,
    /// No window lasts longer.
    pub max_window: Duration,
}

impl Default for DelayedDeliverySettings {
    fn default() -> Self {
        Self {
            enabled: true,
            events: 10,
            first_window: Duration::from_secs(60),
            max_window: Duration::from_secs(4 * 3600),
        }
    }
}
