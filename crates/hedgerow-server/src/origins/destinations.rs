//! Origin groups as destinations of subscriptions (HP-200 to HP-203): what the engine asks of the groups that are probed.

use hedgerow_delivery::origins::{AttemptMet, GroupNow, Origins};
use hedgerow_origin::outcome::{Met, Reason, Response};
use hedgerow_origin::snapshot::Mode;
use hedgerow_prober::failure::of_send;
use hedgerow_prober::service::ProberHandle;

/// The groups of a server, for its engine.
pub struct Destinations(ProberHandle);

impl Destinations {
    pub const fn new(prober: ProberHandle) -> Self {
        Self(prober)
    }
}

impl Origins for Destinations {
    fn group(&self, name: &str) -> Option<GroupNow> {
        let current = self.0.group(name)?.current();
        Some(GroupNow {
            group: std::sync::Arc::clone(&current.group),
            snapshot: std::sync::Arc::clone(&current.snapshot),
        })
    }

    fn chosen(&self, name: &str, origin: u32, mode: Mode) {
        if let Some(live) = self.0.group(name) {
            live.used();
            live.selected(Some(origin), mode);
        }
    }

    fn met(&self, name: &str, origin: u32, met: AttemptMet<'_>) {
        let Some(live) = self.0.group(name) else {
            return;
        };
        let met = match met {
            AttemptMet::Answered { status, drains } => {
                if drains {
                    live.drained(origin);
                }
                Met::Response(Response::complete(status))
            }
            AttemptMet::TimedOut => Met::Failure(Reason::Timeout),
            AttemptMet::Failed(error) => match of_send(error) {
                Ok(reason) => Met::Failure(reason),
                // Our own fault says nothing about the origin.
                Err(_) => return,
            },
        };
        live.met(origin, met);
    }
}
