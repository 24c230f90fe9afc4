//! A handshake that is only tried: nothing is declared, and nothing is remembered (ED-312).

use hedgerow_core::name::SubscriptionName;
use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_core::validation::{AllowedRate, Consent};
use hedgerow_store::catalog::Exchange;

use crate::command::{Command, CommandError, EngineHandle};
use crate::handshake::HandshakeReport;
use crate::wire::WireRequest;

pub use crate::handshake::Step;

/// Which endpoint is to be tried: that of a subscription as somebody would declare it.
#[derive(Debug, Clone)]
pub struct DryRunQuery {
    /// The topic's name.
    pub topic: String,
    /// The name that the endpoint is told. If there is a subscription of that name, it is tried as an update of it.
    pub name: SubscriptionName,
    /// What would be declared.
    pub spec: Box<SubscriptionSpec>,
    /// Which origin of its group is tried, by its name; `None` for an endpoint, which has none.
    pub origin: Option<String>,
}

/// What came of one try.
#[derive(Debug, Clone)]
pub struct DryRun {
    /// What went wrong first; `None` if the endpoint consents.
    pub failed_at: Option<Step>,
    /// Whether the connection was to be encrypted.
    pub has_tls: bool,
    /// Whether there was a connection at all is not known.
    pub is_connection_unknown: bool,
    /// It answers, and its URL would have to be opened (ED-158, ED-168).
    pub is_by_hand: bool,
    /// What the endpoint says about the rate, if it consents (ED-167).
    pub rate: AllowedRate,
    /// What was exchanged, without secrets (ED-161).
    pub exchange: Exchange,
    /// What was sent, if that was asked for.
    pub wire: Option<WireRequest>,
}

impl DryRun {
    pub(crate) fn of(report: HandshakeReport) -> Self {
        let rate = match &report.consent {
            Consent::Given(rate) => *rate,
            Consent::ByHand(_) | Consent::Refused(_) => AllowedRate::Unlimited,
        };
        Self {
            failed_at: report.failed_at,
            has_tls: report.has_tls,
            is_connection_unknown: report.is_connection_unknown,
            is_by_hand: matches!(report.consent, Consent::ByHand(_)),
            rate,
            exchange: report.exchange,
            wire: report.wire,
        }
    }
}

impl EngineHandle {
    /// Asks an endpoint once, as its handshake would, whether or not it would need one.
    ///
    /// # Errors
    /// If such a subscription could not be declared. What the endpoint does is no error.
    pub async fn dry_run(&self, query: DryRunQuery) -> Result<DryRun, CommandError> {
        self.ask(|answer| Command::DryRun { query, answer }).await
    }
}
