//! What records say about deliveries, one delivery at a time: the one place that knows. The view folds these changes, and
//! the cleaner of the log keeps what they leave of the events it copies.

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;

use super::{IN_FLIGHT, Owed, Record};

/// One change of one subscription's deliveries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeliveryChange {
    /// Whose delivery.
    pub subscription: SubscriptionId,
    /// The event's number in the subscription's topic.
    pub seq: u64,
    /// What happened to it.
    pub to: DeliveryState,
}

/// What a delivery is from now on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DeliveryState {
    /// Unsettled, for the first time; of no effect if it is unsettled already.
    Begun(Timestamp, Owed),
    /// Due at another time, or for something else; of no effect if it is not unsettled.
    Moved(Timestamp, Owed),
    /// Settled.
    Ended,
}

impl Record {
    /// What the record says about deliveries, in order.
    #[must_use]
    pub fn delivery_changes(&self) -> Vec<DeliveryChange> {
        match self {
            Self::Started(started) => {
                let changes = started.deliveries.iter().map(|delivery| {
                    let owed = Owed::Attempt(delivery.progress);
                    DeliveryChange {
                        subscription: started.subscription,
                        seq: delivery.seq,
                        to: match delivery.replaces_due {
                            None => DeliveryState::Begun(IN_FLIGHT, owed),
                            Some(_) => DeliveryState::Moved(IN_FLIGHT, owed),
                        },
                    }
                });
                changes.collect()
            }
            Self::Failed(failed) => {
                let changes = failed.deliveries.iter().map(|delivery| DeliveryChange {
                    subscription: failed.subscription,
                    seq: delivery.seq,
                    to: DeliveryState::Moved(delivery.due, Owed::Attempt(delivery.progress)),
                });
                changes.collect()
            }
            Self::Settled(settled) => {
                let changes = settled.deliveries.iter().map(|(seq, _)| DeliveryChange {
                    subscription: settled.subscription,
                    seq: *seq,
                    to: DeliveryState::Ended,
                });
                changes.collect()
            }
            // One that was never begun leaves nothing behind.
            Self::Dead(dead) if dead.due.is_none() => Vec::new(),
            Self::Dead(dead) => vec![DeliveryChange {
                subscription: dead.subscription,
                seq: dead.seq,
                to: DeliveryState::Ended,
            }],
            Self::Events(_) | Self::Read(_) | Self::Catalog(_) | Self::CleanStop(_) => Vec::new(),
        }
    }
}
