//! What records say about deliveries, one delivery at a time. The cleaner of the log keeps what these changes leave of the
//! events it copies; the view folds the same records with more besides, and a test holds the two together.

use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use roaring::RoaringBitmap;

use super::{
    Begun, Dead, DeadThen, IN_FLIGHT, Owed, PendingDeadLetter, PendingWrite, Progress, Record,
    Seek, SeqChunks, StartedDelivery,
};

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
    /// All that was unsettled of the subscription, whatever the event, is given up.
    AllEnded,
}

impl Record {
    /// What the record says about deliveries, in order.
    #[must_use]
    pub fn delivery_changes(&self) -> Vec<DeliveryChange> {
        match self {
            Self::Started(started) => {
                let changes = started.deliveries.iter();
                let row = IN_FLIGHT;
                changes
                    .map(|one| one.change(started.subscription, row))
                    .collect()
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
            Self::Dead(dead) => dead.change().into_iter().collect(),
            Self::Moved(moved) => {
                let changes = moved.deliveries.iter().map(|delivery| DeliveryChange {
                    subscription: moved.subscription,
                    seq: delivery.seq,
                    to: DeliveryState::Moved(delivery.due, delivery.owed()),
                });
                changes.collect()
            }
            Self::Lease(lease) => {
                let changes = lease.deliveries.iter();
                changes
                    .map(|one| one.change(lease.subscription, lease.until))
                    .collect()
            }
            Self::Seek(seek) => seek.changes(),
            Self::Purged(purged) => {
                let changes = purged.deliveries.iter().map(|(seq, _)| DeliveryChange {
                    subscription: purged.subscription,
                    seq: *seq,
                    to: DeliveryState::Ended,
                });
                changes.collect()
            }
            Self::Resent(resent) => vec![DeliveryChange {
                subscription: resent.subscription,
                seq: resent.seq,
                to: DeliveryState::Begun(resent.due, Owed::Attempt(resent.progress)),
            }],
            Self::Begun(begun) => {
                let changes = begun.events.iter().map(|(seq, published)| DeliveryChange {
                    subscription: begun.subscription,
                    seq: *seq,
                    to: DeliveryState::Begun(*published, Begun::owed(*published)),
                });
                changes.collect()
            }
            Self::Divided(divided) => {
                let changes = divided.deliveries.iter().map(|delivery| DeliveryChange {
                    subscription: divided.subscription,
                    seq: delivery.seq,
                    to: DeliveryState::Moved(
                        delivery.due,
                        Owed::Apart(delivery.progress, delivery.part),
                    ),
                });
                changes.collect()
            }
            Self::Events(_)
            | Self::Read(_)
            | Self::Catalog(_)
            | Self::CleanStop(_)
            | Self::Hold(_)
            | Self::Snapshot(_) => Vec::new(),
        }
    }
}

impl StartedDelivery {
    /// It stands under this row from now on.
    fn change(&self, subscription: SubscriptionId, row: Timestamp) -> DeliveryChange {
        let owed = Owed::Attempt(self.progress);
        DeliveryChange {
            subscription,
            seq: self.seq,
            to: match self.replaces_due {
                None => DeliveryState::Begun(row, owed),
                Some(_) => DeliveryState::Moved(row, owed),
            },
        }
    }
}

impl Dead {
    /// What is remembered until the event was written to the dead-letter store.
    #[must_use]
    pub fn pending(&self, write: PendingWrite) -> PendingDeadLetter {
        PendingDeadLetter {
            reason: self.reason,
            decided: self.decided,
            published: self.published,
            progress: self.progress,
            write,
        }
    }

    fn change(&self) -> Option<DeliveryChange> {
        let to = match (self.then, self.due) {
            (DeadThen::WriteDue(due, write), row) => {
                let owed = Owed::DeadLetter(self.pending(write));
                match row {
                    None => DeliveryState::Begun(due, owed),
                    Some(_) => DeliveryState::Moved(due, owed),
                }
            }
            // One that was never begun leaves nothing behind.
            (_, None) => return None,
            (_, Some(_)) => DeliveryState::Ended,
        };
        Some(DeliveryChange {
            subscription: self.subscription,
            seq: self.seq,
            to,
        })
    }
}

impl Seek {
    /// What is owed of events before the cursor, counted anew.
    #[must_use]
    pub fn owed(&self) -> Owed {
        Owed::Attempt(Progress {
            published: self.at,
            attempts: 0,
            first_attempt: self.at,
            last_attempt: self.at,
            last_outcome: Outcome::Delivering,
            last_status: 0,
            crashes: 0,
            crash_epoch: 0,
        })
    }

    fn changes(&self) -> Vec<DeliveryChange> {
        let change = |seq, to| DeliveryChange {
            subscription: self.subscription,
            seq,
            to,
        };
        let begun =
            seqs_in(&self.open).map(|seq| change(seq, DeliveryState::Begun(self.at, self.owed())));
        std::iter::once(change(0, DeliveryState::AllEnded))
            .chain(begun)
            .collect()
    }
}

/// Whether chunks are of the form in which the log holds them: ascending, each a bitmap of 16 bits.
pub(super) fn are_seq_chunks(chunks: &SeqChunks) -> bool {
    let is_read = |(chunk, bytes): &(u64, Vec<u8>)| {
        let bitmap = RoaringBitmap::deserialize_from(bytes.as_slice());
        chunk >> 48 == 0 && bitmap.is_ok_and(|bitmap| bitmap.max().is_none_or(|low| low <= 0xFFFF))
    };
    chunks.is_sorted_by(|one, next| one.0 < next.0) && chunks.iter().all(is_read)
}

/// The numbers in stored chunks, ascending. Reading a record of the log refuses chunks that cannot be read.
pub fn seqs_in(chunks: &SeqChunks) -> impl Iterator<Item = u64> + '_ {
    chunks.iter().flat_map(|(chunk, bytes)| {
        let bitmap = RoaringBitmap::deserialize_from(bytes.as_slice()).unwrap_or_default();
        bitmap
            .into_iter()
            .map(move |low| (chunk << 16) | u64::from(low))
    })
}
