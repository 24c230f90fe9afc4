//! Probation: a subscription whose attempts fail in the same way several times in a row is left alone for a while
//! (ED-224 to ED-232).

use super::lock::Lock;
use super::{Gate, Period, ProbationSettings, Ticket};
use crate::outcome::{DeadLetterReason, Outcome};
use crate::time::Timestamp;

/// Probation of one subscription.
#[derive(Debug, Clone, Default)]
pub struct Probation {
    lock: Lock,
    /// The outcome that the newest attempts had in common, and how many they were.
    row: Option<(Outcome, u32)>,
}

impl Probation {
    /// Goes on with a period that was stored, after a restart.
    #[must_use]
    pub fn restored(period: Option<Period>) -> Self {
        Self {
            lock: Lock::restored(period),
            row: None,
        }
    }

    /// The period that is in force, or after which there was no success yet.
    #[must_use]
    pub const fn period(&self) -> Option<Period> {
        self.lock.period()
    }

    /// Whether an attempt may start.
    #[must_use]
    pub fn gate(&self, now: Timestamp) -> Gate {
        self.lock.gate(now)
    }

    /// An attempt starts. Only when [`Probation::gate`] lets one through.
    pub fn start(&mut self) -> Ticket {
        self.lock.start()
    }

    /// An attempt ended with a failure; final ones count too. `base` is G of ED-195. Says whether a period began.
    pub fn failed(
        &mut self,
        settings: &ProbationSettings,
        ticket: Ticket,
        outcome: Outcome,
        base: Timestamp,
    ) -> bool {
        if !self.lock.land(ticket) {
            return false;
        }
        let Some(duration) = settings.durations.of(outcome) else {
            self.row = None;
            return false;
        };
        let level = if let Some(period) = self.lock.period() {
            // The threshold stays met until a success (ED-227).
            period.level.saturating_add(1)
        } else {
            let row = match self.row {
                Some((same, count)) if same == outcome => count.saturating_add(1),
                _ => 1,
            };
            self.row = Some((outcome, row));
            if row < settings.threshold {
                return false;
            }
            1
        };
        self.lock.begin(Period {
            cause: outcome,
            level,
            since: base,
            until: base.plus(duration),
        });
        true
    }

    /// An attempt ended without an outcome: it was cancelled, or its event is no longer wanted.
    pub fn gave_up(&mut self, ticket: Ticket) {
        self.lock.land(ticket);
    }

    /// An attempt succeeded, in time or late. Says whether that ended a period.
    pub fn succeeded(&mut self) -> bool {
        self.end()
    }

    /// An operator asked for it, or the endpoint is another one now (ED-232). Says whether that ended a period.
    pub fn end(&mut self) -> bool {
        self.row = None;
        self.lock.end()
    }

    /// Why a delivery that becomes due now ends at once, if it does (ED-229).
    #[must_use]
    pub fn ends_due(
        &self,
        settings: &ProbationSettings,
        now: Timestamp,
    ) -> Option<DeadLetterReason> {
        let period = self.period().filter(|period| now < period.until)?;
        let is_client_error = matches!(
            period.cause,
            Outcome::NotFound
                | Outcome::Unauthorized
                | Outcome::Forbidden
                | Outcome::Disabled
                | Outcome::InvalidAzureFunctionDestination
        );
        (settings.dead_letter_on_client_error && is_client_error)
            .then_some(DeadLetterReason::UndeliverableDueToProbationCausedByClientError)
    }
}
