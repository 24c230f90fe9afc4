//! What a probe met, and whether that is a success (HP-020, HP-040 to HP-049).
//!
//! The prober says what it met ([`Met`], with times in an [`Observation`]); each group judges it by its own demands
//! ([`Demands`]): its timeout, and how long a response head may be. So one probe can be good for one group and too late for
//! another (HP-072).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::statuses::Statuses;

/// Why a probe is no success: the codes of HP-043.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The name does not resolve, and no earlier answer is usable.
    DnsError,
    /// The resolver gave no answer before the deadline.
    DnsTimeout,
    /// The outbound address policy refuses the address; nothing was sent to it (HP-028).
    AddressForbidden,
    /// The connection was refused.
    ConnectRefused,
    /// The network or the host cannot be reached.
    ConnectUnreachable,
    /// There was no TCP connection before the deadline.
    ConnectTimeout,
    /// An alert, a mismatch of protocols or ciphers, or a close during the handshake.
    TlsHandshake,
    /// The chain does not end in a trusted root.
    TlsUntrusted,
    /// The certificate is not valid yet, or no longer.
    TlsExpired,
    /// The certificate is for other names.
    TlsNameMismatch,
    /// A reset or close before a complete response head.
    ConnectionReset,
    /// Not HTTP/1.x, a bad status line or header, invalid framing, or too many interim responses.
    MalformedResponse,
    /// The response head is longer than the group takes (HP-045).
    HeaderTooLarge,
    /// The body is longer than is read (HP-046).
    BodyTooLarge,
    /// The body of an expected status ended early, or its framing broke (HP-044).
    IncompleteResponse,
    /// Head or body were not finished by the deadline (HP-020).
    Timeout,
    /// A valid response with a status that is not expected: another than 200, unless the group says otherwise (HP-040).
    Status,
}

impl Reason {
    /// All, in the order of HP-043.
    pub const ALL: [Self; 17] = [
        Self::DnsError,
        Self::DnsTimeout,
        Self::AddressForbidden,
        Self::ConnectRefused,
        Self::ConnectUnreachable,
        Self::ConnectTimeout,
        Self::TlsHandshake,
        Self::TlsUntrusted,
        Self::TlsExpired,
        Self::TlsNameMismatch,
        Self::ConnectionReset,
        Self::MalformedResponse,
        Self::HeaderTooLarge,
        Self::BodyTooLarge,
        Self::IncompleteResponse,
        Self::Timeout,
        Self::Status,
    ];

    /// The code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DnsError => "dns_error",
            Self::DnsTimeout => "dns_timeout",
            Self::AddressForbidden => "address_forbidden",
            Self::ConnectRefused => "connect_refused",
            Self::ConnectUnreachable => "connect_unreachable",
            Self::ConnectTimeout => "connect_timeout",
            Self::TlsHandshake => "tls_handshake",
            Self::TlsUntrusted => "tls_untrusted",
            Self::TlsExpired => "tls_expired",
            Self::TlsNameMismatch => "tls_name_mismatch",
            Self::ConnectionReset => "connection_reset",
            Self::MalformedResponse => "malformed_response",
            Self::HeaderTooLarge => "header_too_large",
            Self::BodyTooLarge => "body_too_large",
            Self::IncompleteResponse => "incomplete_response",
            Self::Timeout => "timeout",
            Self::Status => "status",
        }
    }

    /// The reason of this code.
    #[must_use]
    pub fn named(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the body of a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyEnd {
    /// With its last byte, or none was asked for (HP-011, HP-047).
    #[default]
    Complete,
    /// Before its declared length, or with broken framing.
    Cut,
    /// It went on past [`limits::RESPONSE_BODY_BYTES_MAX`].
    TooLarge,
}

/// A response to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The final status.
    pub status: u16,
    /// Bytes of its head, status line and final blank line included.
    pub head_bytes: u32,
    /// Interim responses before it, 101 not among them (HP-042).
    pub interim: u8,
    /// How its body ended.
    pub body: BodyEnd,
    /// It asks that the origin is not used for now: `X-Hedgerow-Drain: 1` (HP-198).
    pub drains: bool,
}

impl Response {
    /// A complete response with a head of usual size.
    #[must_use]
    pub const fn complete(status: u16) -> Self {
        Self {
            status,
            head_bytes: 0,
            interim: 0,
            body: BodyEnd::Complete,
            drains: false,
        }
    }
}

/// What a probe met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Met {
    /// A valid response head, whatever it said.
    Response(Response),
    /// None.
    Failure(Reason),
}

/// How long the parts of a probe took, in microseconds; `None` for what was not needed, or not reached (HP-052).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Parts {
    /// The look-up of the name.
    pub dns_us: Option<u64>,
    /// The TCP connection.
    pub connect_us: Option<u64>,
    /// The TLS handshake.
    pub tls_us: Option<u64>,
    /// From the open connection to the first byte of the response.
    pub first_byte_us: Option<u64>,
    /// From just before the first connect attempt to the last byte: the latency (HP-051).
    pub total_us: Option<u64>,
}

/// What became of one probe: the sample that groups judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// When it ended, by the clock that gives *now*.
    #[serde(with = "as_millis")]
    pub at: Duration,
    /// How long it took in all, name resolution included, in microseconds: what the deadline is compared with (HP-020).
    pub elapsed_us: u64,
    /// The parts of it.
    pub parts: Parts,
    /// What it met.
    pub met: Met,
}

/// What a group asks of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demands {
    /// T (HP-020).
    pub timeout: Duration,
    /// Bytes of the longest response head (HP-045).
    pub head_bytes_max: u32,
    /// The statuses that are a success (HP-040).
    pub expected: Statuses,
}

impl Demands {
    /// What is to be looked at for two groups, so that each can judge it by its own demands (HP-072).
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            timeout: self.timeout.max(other.timeout),
            head_bytes_max: self.head_bytes_max.max(other.head_bytes_max),
            expected: self.expected.with(other.expected),
        }
    }
}

impl Default for Demands {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            head_bytes_max: *limits::RESPONSE_HEAD_BYTES.start(),
            expected: Statuses::default(),
        }
    }
}

impl Observation {
    /// A response whose last byte came `elapsed` after the probe began, with no time for the name.
    #[must_use]
    pub fn response(at: Duration, elapsed: Duration, response: Response) -> Self {
        let elapsed_us = micros(elapsed);
        Self {
            at,
            elapsed_us,
            parts: Parts {
                total_us: Some(elapsed_us),
                ..Parts::default()
            },
            met: Met::Response(response),
        }
    }

    /// A probe that failed `elapsed` after it began.
    #[must_use]
    pub fn failure(at: Duration, elapsed: Duration, reason: Reason) -> Self {
        Self {
            at,
            elapsed_us: micros(elapsed),
            parts: Parts::default(),
            met: Met::Failure(reason),
        }
    }

    /// The latency in microseconds, at least 1 (HP-050 to HP-053), or why the probe is no success.
    ///
    /// # Errors
    ///
    /// The reason, one of HP-043's.
    pub fn judge(&self, demands: &Demands) -> Result<u64, Reason> {
        if self.is_late(demands.timeout) {
            // Where the probe stood at a shorter deadline is not known; that it had a name or a connection by the longest
            // one is.
            return Err(match self.met {
                Met::Failure(reason @ (Reason::DnsTimeout | Reason::ConnectTimeout)) => reason,
                Met::Failure(_) | Met::Response(_) => Reason::Timeout,
            });
        }
        let response = match self.met {
            Met::Failure(reason) => return Err(reason),
            Met::Response(response) => response,
        };
        if response.interim > limits::INTERIM_RESPONSES_MAX {
            return Err(Reason::MalformedResponse);
        }
        if response.head_bytes > demands.head_bytes_max {
            return Err(Reason::HeaderTooLarge);
        }
        if !demands.expected.contains(response.status) {
            return Err(Reason::Status);
        }
        match response.body {
            BodyEnd::Complete => Ok(self.parts.total_us.unwrap_or(self.elapsed_us).max(1)),
            BodyEnd::Cut => Err(Reason::IncompleteResponse),
            BodyEnd::TooLarge => Err(Reason::BodyTooLarge),
        }
    }

    /// The status that came back, if any did.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self.met {
            Met::Response(response) => Some(response.status),
            Met::Failure(_) => None,
        }
    }

    /// A last byte exactly at the timeout is in time (HP-020).
    fn is_late(&self, timeout: Duration) -> bool {
        self.elapsed_us > micros(timeout)
    }
}

/// Whole microseconds.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Whole milliseconds.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A time as whole milliseconds, as it is stored.
mod as_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(super::millis(*time))
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(elapsed_ms: u64, met: Met) -> Result<u64, Reason> {
        let observation = Observation {
            met,
            ..Observation::failure(
                Duration::ZERO,
                Duration::from_millis(elapsed_ms),
                Reason::Status,
            )
        };
        observation.judge(&Demands::default())
    }

    /// HP-043: every code is the reason of the failure that has it, and no other name is a code.
    #[test]
    fn every_failure_has_its_code() {
        for reason in Reason::ALL {
            assert_eq!(judged(1, Met::Failure(reason)), Err(reason));
            assert_eq!(Reason::named(reason.as_str()), Some(reason));
            let text = serde_json::to_string(&reason).unwrap();
            assert_eq!(text, format!("\"{reason}\""));
        }
        assert_eq!(Reason::named("ok"), None);
    }

    /// HP-042, HP-044, HP-046, HP-048: what is wrong with a response, in the order in which it is found.
    #[test]
    fn a_response_is_judged_part_by_part() {
        let good = Response::complete(200);
        let rows = [
            (good, Ok(2_000)),
            (Response { interim: 8, ..good }, Ok(2_000)),
            (
                Response { interim: 9, ..good },
                Err(Reason::MalformedResponse),
            ),
            (
                Response {
                    body: BodyEnd::Cut,
                    ..good
                },
                Err(Reason::IncompleteResponse),
            ),
            (
                Response {
                    body: BodyEnd::TooLarge,
                    ..good
                },
                Err(Reason::BodyTooLarge),
            ),
            (
                Response {
                    body: BodyEnd::Cut,
                    ..Response::complete(500)
                },
                Err(Reason::Status),
            ),
            (Response::complete(101), Err(Reason::Status)),
        ];
        for (response, expect) in rows {
            assert_eq!(judged(2, Met::Response(response)), expect, "{response:?}");
        }
        let late = judged(5_001, Met::Response(Response::complete(500)));
        assert_eq!(late, Err(Reason::Timeout));
    }

    /// HP-045: a group may take longer heads, for itself.
    #[test]
    fn the_longest_head_is_the_groups_own() {
        let response = Response {
            head_bytes: 8_192,
            ..Response::complete(200)
        };
        let observation = Observation::response(Duration::ZERO, Duration::ZERO, response);
        let demands = Demands {
            head_bytes_max: 8_192,
            ..Demands::default()
        };
        assert_eq!(observation.judge(&demands), Ok(1));
        assert_eq!(
            observation.judge(&Demands::default()),
            Err(Reason::HeaderTooLarge)
        );
    }

    /// HP-020, HP-051, HP-053: the deadline counts the name, the latency does not, and is 1 µs at least.
    #[test]
    fn the_name_counts_for_the_deadline_only() {
        let mut observation = Observation::response(
            Duration::ZERO,
            Duration::from_secs(5),
            Response::complete(200),
        );
        observation.parts.total_us = Some(0);
        assert_eq!(observation.judge(&Demands::default()), Ok(1));
        observation.elapsed_us += 1;
        assert_eq!(observation.judge(&Demands::default()), Err(Reason::Timeout));
    }

    /// HP-072: what ended later than a group waits is late for it, whatever it was.
    #[test]
    fn late_failures_are_timeouts() {
        let rows = [
            (Reason::ConnectionReset, Reason::Timeout),
            (Reason::Status, Reason::Timeout),
            (Reason::DnsTimeout, Reason::DnsTimeout),
            (Reason::ConnectTimeout, Reason::ConnectTimeout),
        ];
        for (met, expect) in rows {
            assert_eq!(judged(5_001, Met::Failure(met)), Err(expect));
            assert_eq!(judged(5_000, Met::Failure(met)), Err(met));
        }
    }
}
