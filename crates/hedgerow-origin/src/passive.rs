//! What real requests say of an origin: enough failures in a row ask for a probe at once (HP-192), and can count as failed
//! samples (HP-193).

use std::time::Duration;

use crate::limits;
use crate::outcome::{Met, Reason};

/// Whether what a real request met counts: a failed connection, a reset before the head, a timeout, or 502, 503, 504.
#[must_use]
pub const fn is_signal(met: &Met) -> bool {
    match met {
        Met::Response(response) => matches!(response.status, 502..=504),
        Met::Failure(reason) => match reason {
            Reason::DnsError
            | Reason::DnsTimeout
            | Reason::ConnectRefused
            | Reason::ConnectUnreachable
            | Reason::ConnectTimeout
            | Reason::TlsHandshake
            | Reason::TlsUntrusted
            | Reason::TlsExpired
            | Reason::TlsNameMismatch
            | Reason::ConnectionReset
            | Reason::Timeout => true,
            // Our own refusal, and answers that came.
            Reason::AddressForbidden
            | Reason::MalformedResponse
            | Reason::HeaderTooLarge
            | Reason::BodyTooLarge
            | Reason::IncompleteResponse
            | Reason::Status => false,
        },
    }
}

/// What follows from a real request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    Nothing,
    /// One probe of the origin, at once; with `passive_ejection` so many failed samples too.
    Probe {
        /// The failures in a row that asked for it.
        failures: u32,
    },
}

/// The failures in a row of real requests to one origin of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passive {
    in_a_row: u32,
    asked: Option<Duration>,
}

impl Passive {
    /// Takes what one request met, [`is_signal`] or not.
    pub fn note(&mut self, is_signal: bool, now: Duration) -> Wanted {
        if !is_signal {
            self.in_a_row = 0;
            return Wanted::Nothing;
        }
        self.in_a_row = (self.in_a_row + 1).min(limits::PASSIVE_FAILURES);
        let is_too_soon = self
            .asked
            .is_some_and(|asked| now < asked.saturating_add(limits::PASSIVE_PROBE_SPACING));
        if self.in_a_row < limits::PASSIVE_FAILURES || is_too_soon {
            return Wanted::Nothing;
        }
        self.asked = Some(now);
        Wanted::Probe {
            failures: std::mem::take(&mut self.in_a_row),
        }
    }
}

/// Whether one more origin may be made unhealthy by passive failures: never more than half of the enabled ones (HP-193).
#[must_use]
pub const fn may_eject(enabled: usize, ejected: usize) -> bool {
    (ejected + 1).saturating_mul(2) <= enabled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Response;

    /// HP-192: the fifth failure in a row asks, a success starts over, and there is at most one probe a second.
    #[test]
    fn five_failures_in_a_row_ask_for_a_probe() {
        let mut passive = Passive::default();
        let at = Duration::from_millis;
        let asked = Wanted::Probe { failures: 5 };
        for _ in 0..4 {
            assert_eq!(passive.note(true, at(0)), Wanted::Nothing);
        }
        assert_eq!(passive.note(false, at(0)), Wanted::Nothing);
        for _ in 0..4 {
            assert_eq!(passive.note(true, at(0)), Wanted::Nothing);
        }
        assert_eq!(passive.note(true, at(0)), asked);
        for _ in 0..20 {
            assert_eq!(passive.note(true, at(999)), Wanted::Nothing);
        }
        assert_eq!(passive.note(true, at(1_000)), asked);
        assert_eq!(passive.note(true, at(2_000)), Wanted::Nothing);
    }

    /// HP-192, HP-201: which ends of a request count.
    #[test]
    fn what_counts_as_a_failure() {
        let counted: Vec<u16> = (100..600)
            .filter(|status| is_signal(&Met::Response(Response::complete(*status))))
            .collect();
        assert_eq!(counted, [502, 503, 504]);
        assert!(is_signal(&Met::Failure(Reason::ConnectionReset)));
        assert!(!is_signal(&Met::Failure(Reason::AddressForbidden)));
    }

    /// HP-193: half of the enabled origins at most.
    #[test]
    fn half_are_left() {
        let rows = [(1, 0, false), (2, 0, true), (3, 1, false), (4, 1, true)];
        for (enabled, ejected, expect) in rows {
            assert_eq!(
                may_eject(enabled, ejected),
                expect,
                "{ejected} of {enabled}"
            );
        }
    }
}
