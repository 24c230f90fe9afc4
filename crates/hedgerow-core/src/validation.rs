//! Whether an endpoint wants deliveries: which handshakes are made, when one is tried again, what its end means for the
//! subscription (sections 3.5 and 3.6 of the delivery specification).
//!
//! How a request or an answer is spelled is a dialect's; when it is sent, the engine's.
//!
//! ```text
//!             consents, or the URL is opened
//!  Creating ─────────────────────────────────▶ Succeeded
//!     │  │                                         ▲
//!     │  └─ 200 without consent ─▶ AwaitingManualAction ── the URL is opened in time
//!     │                                 │ manual_window is over
//!     └─ refused, or no answer ────────▶ Failed
//! ```

use std::num::NonZeroU32;
use std::time::Duration;

/// How handshakes are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationSettings {
    /// Whether handshakes are made at all.
    pub is_enabled: bool,
    /// Hosts, in lower case and without port, whose endpoints need none.
    pub trusted_hosts: Vec<String>,
    /// Whether the member of the answer may be spelled in other cases (ED-155).
    pub is_name_lenient: bool,
    /// How long one try may take, its whole answer included (ED-154).
    pub timeout: Duration,
    /// How many tries are made (ED-157).
    pub tries_max: u8,
    /// From the end of a try that failed to the next one (ED-157).
    pub retry_delay: Duration,
    /// From the sending of the handshake to the end of the time in which its URL can be opened (ED-159).
    pub manual_window: Duration,
}

impl Default for ValidationSettings {
    fn default() -> Self {
        Self {
            is_enabled: true,
            trusted_hosts: Vec::new(),
            is_name_lenient: false,
            timeout: Duration::from_secs(30),
            tries_max: 3,
            retry_delay: Duration::from_secs(5),
            manual_window: Duration::from_secs(300),
        }
    }
}

impl ValidationSettings {
    /// Whether an endpoint at this host has to consent first.
    #[must_use]
    pub fn is_needed_at(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_trusted = |trusted: &String| trusted.eq_ignore_ascii_case(host);
        self.is_enabled && !self.trusted_hosts.iter().any(is_trusted)
    }

    /// Whether there is another try after one that met this.
    #[must_use]
    pub const fn is_tried_again(&self, tries: u8, met: TryMet) -> bool {
        let may_pass = match met {
            TryMet::NoAnswer => true,
            TryMet::OurRefusal => false,
            TryMet::Status(status) => status >= 500 && status <= 599,
        };
        may_pass && tries < self.tries_max
    }
}

/// What one try of a handshake met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryMet {
    /// No answer, or not all of it: the time was over, or the connection failed.
    NoAnswer,
    /// Nothing was sent, by a rule of ours: it would be the same again.
    OurRefusal,
    /// This status.
    Status(u16),
}

/// What an answer to a handshake says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consent {
    /// Deliveries are welcome.
    Given(AllowedRate),
    /// Not yet: the URL that the handshake carries has to be opened. Says what was found instead of consent.
    ByHand(String),
    /// No. Says what was found and what was expected.
    Refused(String),
}

/// How many requests a minute an endpoint takes (ED-167).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedRate {
    /// As many as there are: it says so, or nothing.
    Unlimited,
    /// At most so many.
    PerMinute(NonZeroU32),
    /// It says something else, which is ignored and worth a warning.
    Unreadable,
}

impl AllowedRate {
    /// The ceiling, if there is one.
    #[must_use]
    pub const fn per_minute(self) -> Option<NonZeroU32> {
        match self {
            Self::PerMinute(rate) => Some(rate),
            Self::Unlimited | Self::Unreadable => None,
        }
    }
}

/// The least time between the starts of two requests under a ceiling of so many a minute: no minute then holds more. In
/// whole milliseconds, rounded up.
#[must_use]
pub const fn start_interval(per_minute: NonZeroU32) -> Duration {
    const MINUTE_MS: u64 = 60_000;
    Duration::from_millis(MINUTE_MS.div_ceil(per_minute.get() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-157: three tries for what may pass, one for everything else.
    #[test]
    fn only_what_may_pass_is_tried_again() {
        let settings = ValidationSettings::default();
        for (met, again) in [
            (TryMet::NoAnswer, true),
            (TryMet::OurRefusal, false),
            (TryMet::Status(500), true),
            (TryMet::Status(503), true),
            (TryMet::Status(599), true),
            (TryMet::Status(200), false),
            (TryMet::Status(202), false),
            (TryMet::Status(301), false),
            (TryMet::Status(404), false),
            (TryMet::Status(429), false),
            (TryMet::Status(499), false),
            (TryMet::Status(600), false),
        ] {
            for tries in 1..=2 {
                assert_eq!(settings.is_tried_again(tries, met), again, "{met:?}");
            }
            assert!(!settings.is_tried_again(3, met), "{met:?}");
        }
    }

    #[test]
    fn trusted_hosts_need_no_handshake() {
        let mut settings = ValidationSettings {
            trusted_hosts: vec!["hooks.example.com".to_owned(), "127.0.0.1".to_owned()],
            ..ValidationSettings::default()
        };
        for (host, needed) in [
            ("hooks.example.com", false),
            ("Hooks.Example.COM.", false),
            ("127.0.0.1", false),
            ("other.hooks.example.com", true),
            ("hooks.example.com.evil.example", true),
            ("127.0.0.10", true),
        ] {
            assert_eq!(settings.is_needed_at(host), needed, "{host}");
        }
        settings.is_enabled = false;
        assert!(!settings.is_needed_at("anybody.example"));
    }

    /// ED-167: no window of a minute holds more starts than allowed.
    #[test]
    fn a_minute_holds_no_more_starts_than_allowed() {
        for (rate, millis) in [
            (1, 60_000),
            (2, 30_000),
            (7, 8_572),
            (120, 500),
            (60_000, 1),
            (u32::MAX, 1),
        ] {
            let rate = NonZeroU32::new(rate).unwrap();
            let interval = start_interval(rate);
            assert_eq!(interval.as_millis(), millis, "{rate}");
            let in_a_minute = 60_000_u64.div_ceil(millis as u64);
            assert!(in_a_minute <= u64::from(rate.get()), "{rate}");
        }
    }
}
