//! MOVED, and its two forms on disk: the first one, which knows no parts of batches, and the second one, which is written only
//! where there is one. So every server can read what has none.

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Owed, Progress};

/// MOVED: deliveries that are due at another time, without an attempt: they were held until after it, or somebody asked
/// for them now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Whose deliveries.
    pub subscription: SubscriptionId,
    /// The deliveries.
    pub deliveries: Vec<MovedDelivery>,
}

/// One delivery of a [`Moved`] record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MovedDelivery {
    /// The event's number in the subscription's topic.
    pub seq: u64,
    /// The due time its row stands under.
    pub from: Timestamp,
    /// When it is due now.
    pub due: Timestamp,
    /// The attempts so far.
    pub progress: Progress,
    /// The part of a batch that came apart in which it travels, if it does.
    pub part: Option<u64>,
}

impl MovedDelivery {
    /// What is owed for it.
    #[must_use]
    pub const fn owed(&self) -> Owed {
        match self.part {
            None => Owed::Attempt(self.progress),
            Some(part) => Owed::Apart(self.progress, part),
        }
    }
}

impl Moved {
    /// The version of the form in which it is stored.
    pub(super) fn version(&self) -> u8 {
        let has_parts = self.deliveries.iter().any(|one| one.part.is_some());
        if has_parts { 2 } else { 1 }
    }
}

/// [`Moved`] in its first form.
#[derive(Serialize, Deserialize)]
pub(super) struct FirstMoved {
    subscription: SubscriptionId,
    deliveries: Vec<FirstMovedDelivery>,
}

#[derive(Serialize, Deserialize)]
struct FirstMovedDelivery {
    seq: u64,
    from: Timestamp,
    due: Timestamp,
    progress: Progress,
}

impl From<&Moved> for FirstMoved {
    fn from(moved: &Moved) -> Self {
        let deliveries = moved.deliveries.iter().map(|one| FirstMovedDelivery {
            seq: one.seq,
            from: one.from,
            due: one.due,
            progress: one.progress,
        });
        Self {
            subscription: moved.subscription,
            deliveries: deliveries.collect(),
        }
    }
}

impl From<FirstMoved> for Moved {
    fn from(moved: FirstMoved) -> Self {
        let deliveries = moved.deliveries.into_iter().map(|one| MovedDelivery {
            seq: one.seq,
            from: one.from,
            due: one.due,
            progress: one.progress,
            part: None,
        });
        Self {
            subscription: moved.subscription,
            deliveries: deliveries.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hedgerow_core::outcome::Outcome;

    use super::*;
    use crate::record::Record;
    use crate::record::codec::{FRAME_HEADER_BYTES, decode_record, encode_record};

    /// What an earlier server wrote is read, and it can read what is written today where no batch came apart.
    #[test]
    fn parts_have_a_form_of_their_own() {
        let at = Timestamp::from_millis;
        let progress = Progress::unattempted(at(3), Outcome::Delivering);
        let moved = |parts: [Option<u64>; 2]| {
            let deliveries = parts.into_iter().zip(7..).map(|(part, seq)| MovedDelivery {
                seq,
                from: at(10),
                due: at(20),
                progress,
                part,
            });
            Moved {
                subscription: SubscriptionId(5),
                deliveries: deliveries.collect(),
            }
        };
        for (parts, version) in [([None; 2], 1), ([None, Some(8)], 2)] {
            let moved = Record::Moved(moved(parts));
            let mut frame = Vec::new();
            encode_record(&moved, &mut frame);
            assert_eq!(frame[1], version);
            let first_form = [7_u64, 8]
                .map(|seq| (seq, at(10), at(20), progress))
                .to_vec();
            let first_form = postcard::to_allocvec(&(SubscriptionId(5), first_form)).unwrap();
            assert_eq!(frame[FRAME_HEADER_BYTES..] == first_form, version == 1);
            assert_eq!(decode_record(&Bytes::from(frame)).unwrap(), moved);
        }
    }
}
