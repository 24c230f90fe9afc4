//! What the log holds: one [`Record`] a frame. Kind numbers are never reused.
//!
//! The body of a frame is `postcard` (serde, little-endian variable-length integers), except for the two kinds whose
//! bodies another format fits better: the events of EVENTS are packed by [`PackedEvents`], and CATALOG carries JSON,
//! so that what users declare can gain members.
//!
//! The view ([`crate::view`]) is a fold over these records, in log order, and over nothing else.

mod change;
pub mod codec;
mod moved;

use bytes::Bytes;
use hedgerow_core::hold::Period;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::change::{DeliveryChange, DeliveryState, seqs_in};
pub use self::codec::{
    PackedEventsBuilder, decode_record, encode_record, unpack_event, unpack_head, unpack_id,
};
pub use self::moved::{Moved, MovedDelivery};

/// The number that stands for a record's kind on disk.
///
/// Source: the design's on-disk page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // The names are those of the records below.
pub enum Kind {
    Events = 1,
    Started = 2,
    Failed = 3,
    Settled = 4,
    Hold = 5,
    Dead = 6,
    Lease = 7,
    Seek = 8,
    Snapshot = 9,
    Catalog = 10,
    Read = 11,
    CleanStop = 12,
    Moved = 13,
    Purged = 14,
    Resent = 15,
    Begun = 16,
    Divided = 17,
}

/// One thing that happened, as the log keeps it.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// Events that were published together.
    Events(Events),
    /// Attempts that are about to be made.
    Started(Started),
    /// Attempts that failed and whose deliveries are due again.
    Failed(Failed),
    /// Deliveries that ended well, or were cancelled.
    Settled(Settled),
    /// A delivery that ended undelivered.
    Dead(Dead),
    /// How far the reader has come.
    Read(Read),
    /// A change of what users declared.
    Catalog(CatalogChange),
    /// The server stopped in order.
    CleanStop(CleanStop),
    /// A subscription is held back, or is no longer.
    Hold(Hold),
    /// Deliveries that are due at another time, without an attempt.
    Moved(Moved),
    /// Deliveries that a client took over for a time.
    Lease(Lease),
    /// A subscription was put to another place.
    Seek(Seek),
    /// A place of a subscription was kept, or is no longer.
    Snapshot(Snapshot),
    /// Deliveries that an operator dropped.
    Purged(Purged),
    /// A delivery that an operator wants once more.
    Resent(Resent),
    /// Deliveries that are begun without an attempt.
    Begun(Begun),
    /// A batch that comes apart.
    Divided(Divided),
}

/// HOLD: what holds a subscription back from now on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Which subscription.
    pub subscription: SubscriptionId,
    /// All holds that it has; the ones before are over.
    pub holds: Holds,
}

/// What holds a subscription back. A period whose time is over stands here until an attempt succeeds: until then only trials
/// start. Where nothing holds it any more, [`Period::over`] says as its probation until when something did, and as its
/// window until when that did, if what it held starts at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Holds {
    /// Its probation.
    pub probation: Option<Period>,
    /// Delayed delivery at its endpoint. Of the subscriptions that share the endpoint one has it.
    pub window: Option<Period>,
}

/// PURGED: deliveries that an operator dropped. From which event on a subscription was purged is said by the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Purged {
    /// Whose deliveries.
    pub subscription: SubscriptionId,
    /// So many more that waited for their first attempt. They are known by their number only: the cursor has passed them.
    pub unbegun: u64,
    /// Those that were begun: each delivery's `seq` and the due time its row stands under.
    pub deliveries: Vec<(u64, Timestamp)>,
}

/// RESENT: a new delivery of an event that was one for the subscription before, and is settled; of no effect if it is not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resent {
    /// Whose delivery.
    pub subscription: SubscriptionId,
    /// The event's number in the subscription's topic.
    pub seq: u64,
    /// When its first attempt is due.
    pub due: Timestamp,
    /// Counted anew; its time to live too, so that `published` is when it was asked for.
    pub progress: Progress,
}

/// BEGUN: deliveries of a subscription that are unsettled from now on, and were not attempted. The cursor passes them, so that
/// nothing behind the last of them is needed for the subscription but what it wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// Whose deliveries.
    pub subscription: SubscriptionId,
    /// The events that the subscription wants from its cursor to the last of them: the number of each in the subscription's
    /// topic, and P of ED-203, when its first attempt is due.
    pub events: Vec<(u64, Timestamp)>,
}

impl Begun {
    /// What is owed for an event that was published then.
    #[must_use]
    pub const fn owed(published: Timestamp) -> Owed {
        Owed::Attempt(Progress::unattempted(published, Outcome::Delivering))
    }
}

/// DIVIDED: deliveries whose batch comes apart because of what it was answered: they are due again, in parts, and their attempt
/// is not counted (ED-221).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Divided {
    /// Whose deliveries.
    pub subscription: SubscriptionId,
    /// The deliveries.
    pub deliveries: Vec<DividedDelivery>,
}

/// One delivery of a [`Divided`] record: it leaves [`IN_FLIGHT`] for `due`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DividedDelivery {
    /// The event's number in the subscription's topic.
    pub seq: u64,
    /// When the next attempt is due.
    pub due: Timestamp,
    /// As before the attempt.
    pub progress: Progress,
    /// The part that it travels in: that of the delivery of this number.
    pub part: u64,
}

/// LEASE: deliveries that a client has until a time, unless it acknowledges or gives them back. Written for subscriptions
/// whose acknowledgements must not be lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// Whose deliveries.
    pub subscription: SubscriptionId,
    /// When they are due again.
    pub until: Timestamp,
    /// The deliveries.
    pub deliveries: Vec<StartedDelivery>,
}

/// Event numbers in the form in which they are stored whole: chunks of 65,536 of them by their upper bits, each as a
/// roaring bitmap.
pub type SeqChunks = Vec<(u64, Vec<u8>)>;

/// SEEK: all that was unsettled is given up; from now on the subscription stands here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seek {
    /// Which subscription.
    pub subscription: SubscriptionId,
    /// The first event it may still have to be given for the first time.
    pub cursor: u64,
    /// Events before the cursor that it is owed, due at once.
    pub open: SeqChunks,
    /// When.
    pub at: Timestamp,
    /// Part of every acknowledgement id from now on: those from before are of no effect.
    pub ack_epoch: u32,
}

/// SNAPSHOT: a subscription's place is kept, with the events that it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its number, never reused.
    pub id: u32,
    /// The place; `None` if the snapshot is gone.
    pub place: Option<SnapshotPlace>,
}

/// What a snapshot keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotPlace {
    /// The topic whose events it pins.
    pub topic: TopicId,
    /// From this event on they are needed.
    pub floor: u64,
    /// The cursor of the subscription, and what was unsettled before it.
    pub cursor: u64,
    /// Events before the cursor that are owed.
    pub open: SeqChunks,
    /// When the pin ends.
    pub expires: Timestamp,
}

/// Recognises a publish request that is sent again: its id, and what it consisted of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishId {
    /// Drawn by the publisher.
    pub id: u128,
    /// Of the content: another request with the same id is none that is sent again.
    pub content_hash: u128,
}

/// EVENTS: the events of one publish request, all or none.
#[derive(Debug, Clone, PartialEq)]
pub struct Events {
    /// The topic they were published to.
    pub topic: TopicId,
    /// The `seq` of the first one; the others follow without a gap. Given by the store when it appends.
    pub first_seq: u64,
    /// P of ED-203: when they were accepted. Given by the store when it appends.
    pub published: Timestamp,
    /// The events themselves.
    pub packed: PackedEvents,
}

/// Events in their stored form: each as its length (u32, little-endian) and the `postcard` of an
/// [`Event`](hedgerow_core::event::Event).
///
/// Cheap to clone: the bytes are shared with the group they were read from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PackedEvents {
    count: u32,
    bytes: Bytes,
    publish_id: Option<PublishId>,
}

/// How often and with what result a delivery has been attempted so far. Part of the row that each unsettled delivery
/// has in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// P of ED-203: when the event was accepted.
    pub published: Timestamp,
    /// Attempts that were started, the running one included.
    pub attempts: u16,
    /// T0: when the first attempt started.
    pub first_attempt: Timestamp,
    /// When the newest attempt started.
    pub last_attempt: Timestamp,
    /// What the newest ended attempt met; `Delivering` while the first one runs.
    pub last_outcome: Outcome,
    /// The HTTP status the newest ended attempt got, 0 for none.
    pub last_status: u16,
    /// How many times in a row the server crashed while this delivery was in flight.
    pub crashes: u8,
    /// The store epoch in which the newest of those crashes was found.
    pub crash_epoch: u32,
}

impl Progress {
    /// That of a delivery which was not attempted yet.
    #[must_use]
    pub const fn unattempted(published: Timestamp, last_outcome: Outcome) -> Self {
        Self {
            published,
            attempts: 0,
            first_attempt: published,
            last_attempt: published,
            last_outcome,
            last_status: 0,
            crashes: 0,
            crash_epoch: 0,
        }
    }
}

/// The due time of a delivery whose attempt is running. Its row stays in the view under this key, so that a crash
/// finds it there.
pub const IN_FLIGHT: Timestamp = Timestamp::ZERO;

/// What is owed next for an unsettled delivery: the value of its row in the due index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owed {
    /// An attempt. While it runs the row stands under [`IN_FLIGHT`].
    Attempt(Progress),
    /// A write to the dead-letter store.
    DeadLetter(PendingDeadLetter),
    /// An attempt in a request with nothing but others of the same part of a batch that came apart.
    Apart(Progress, u64),
}

impl Owed {
    /// The attempts so far, where the next one is owed.
    #[must_use]
    pub const fn attempt(&self) -> Option<Progress> {
        match self {
            Self::Attempt(progress) | Self::Apart(progress, _) => Some(*progress),
            Self::DeadLetter(_) => None,
        }
    }

    /// The part of a batch that came apart, if it is one of it.
    #[must_use]
    pub const fn part(&self) -> Option<u64> {
        match self {
            Self::Apart(_, part) => Some(*part),
            Self::Attempt(_) | Self::DeadLetter(_) => None,
        }
    }
}

/// A delivery that ended undelivered and whose event has to be written to the dead-letter store (ED-244, ED-248).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingDeadLetter {
    /// Why it ended.
    pub reason: DeadLetterReason,
    /// When that was decided.
    pub decided: Timestamp,
    /// P of ED-203.
    pub published: Timestamp,
    /// Attempts made; `None` if there was none.
    pub progress: Option<Progress>,
    /// The writes that failed so far.
    pub write: PendingWrite,
}

/// How the writing to the dead-letter store has gone so far (ED-247).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PendingWrite {
    /// Tries that failed.
    pub failed: u32,
    /// When the first of them failed.
    pub first_failed: Option<Timestamp>,
}

/// What follows the end of an undelivered delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadThen {
    /// Nothing: its event is dropped.
    Dropped(DropReason),
    /// Its event has to be written to the dead-letter store at this time.
    WriteDue(Timestamp, PendingWrite),
    /// Its event stands in the dead-letter store.
    Written,
}

/// Why the event of an undelivered delivery is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DropReason {
    /// The subscription has no dead-letter destination (ED-244).
    NoDeadLetterDestination,
    /// The dead-letter store was unavailable for too long (ED-247).
    DeadLetterStoreUnavailable,
    /// The dead-letter store has no such container, and `dead_letter.drop_if_not_found` is on (ED-247).
    DeadLetterContainerNotFound,
    /// The subscription was deleted, and what was owed to it with it.
    SubscriptionDeleted,
    /// An operator dropped what was pending.
    Purged,
}

impl DropReason {
    /// The name that users see, of the set of ED-301.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoDeadLetterDestination => "NoDeadLetterDestination",
            Self::DeadLetterStoreUnavailable | Self::DeadLetterContainerNotFound => {
                "DeadLetterDestinationUnavailable"
            }
            Self::SubscriptionDeleted => "SubscriptionDeleted",
            Self::Purged => "Purged",
        }
    }
}

/// STARTED: queued before a request's first byte (design D5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Whose deliveries.
    pub subscription: SubscriptionId,
    /// The deliveries of the request.
    pub deliveries: Vec<StartedDelivery>,
}

/// One delivery of a [`Started`] record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StartedDelivery {
    /// The event's number in the subscription's topic.
    pub seq: u64,
    /// The due time that the delivery waited for; `None` for a first attempt, which moves the cursor past `seq`.
    pub replaces_due: Option<Timestamp>,
    /// Attempts including this one.
    pub progress: Progress,
}

/// FAILED: the attempt's result and when the next one is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Whose deliveries.
    pub subscription: SubscriptionId,
    /// The deliveries of the request.
    pub deliveries: Vec<FailedDelivery>,
}

/// One delivery of a [`Failed`] record: it leaves [`IN_FLIGHT`] for `due`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FailedDelivery {
    /// The event's number in the subscription's topic.
    pub seq: u64,
    /// When the next attempt is due.
    pub due: Timestamp,
    /// With the result of the attempt that failed.
    pub progress: Progress,
}

/// SETTLED: nothing more is owed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// Whose deliveries.
    pub subscription: SubscriptionId,
    /// Each delivery's `seq` and the due time its row stands under ([`IN_FLIGHT`] while its attempt runs; the next due
    /// time when a success came late, after the timeout).
    pub deliveries: Vec<(u64, Timestamp)>,
    /// What ended them.
    pub how: SettledHow,
}

/// What ended the deliveries of a [`Settled`] record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SettledHow {
    /// The endpoint accepted in time.
    Delivered,
    /// The endpoint accepted after the timeout (ED-178).
    DeliveredLate,
}

/// The longest text of an event that its terminal record keeps, in bytes: enough to know the event by, and no event can
/// make the list of terminal records large.
pub const DEAD_TEXT_BYTES_MAX: usize = 512;

/// DEAD: a delivery that ended undelivered, and what follows: its event is dropped, or has to be written to the dead-letter
/// store, or was. Carries all that its terminal record shows, so that nothing has to be
/// looked up when the log is replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dead {
    /// Whose delivery.
    pub subscription: SubscriptionId,
    /// The event's number in the subscription's topic.
    pub seq: u64,
    /// The due time its row stands under; `None` if it was never attempted, which moves the cursor past `seq`.
    pub due: Option<Timestamp>,
    /// Why.
    pub reason: DeadLetterReason,
    /// When it was decided.
    pub decided: Timestamp,
    /// P of ED-203.
    pub published: Timestamp,
    /// Attempts made; `None` if there was none.
    pub progress: Option<Progress>,
    /// The event's id; like the other two cut at [`DEAD_TEXT_BYTES_MAX`].
    pub event_id: String,
    /// The event's type.
    pub event_type: String,
    /// The event's subject, empty if it has none.
    pub subject: String,
    /// What follows.
    pub then: DeadThen,
}

/// A text of an event as a [`Dead`] record keeps it: its beginning, in whole characters.
#[must_use]
pub fn dead_text(text: &str) -> String {
    hedgerow_core::text::beginning(text, DEAD_TEXT_BYTES_MAX).to_owned()
}

/// READ: every subscription of the topic has been offered everything before `read_to`, and holds nothing of it that was
/// never attempted, except for the laggards, which stand at their own cursors. Written at most once a second, so that
/// a success costs nothing in the view (on-disk page: cursors are coalesced).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// Which topic.
    pub topic: TopicId,
    /// The first `seq` that the reader has not seen.
    pub read_to: u64,
    /// Subscriptions that stand before `read_to`, each with its own cursor: the first `seq` that it may still have to
    /// attempt.
    pub laggards: Vec<(SubscriptionId, u64)>,
}

/// CLEAN STOP: the server stopped in order, and no attempt was running. Resets crash counts (ED-190).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CleanStop {
    /// The store epoch that ended so.
    pub epoch: u32,
}

/// CATALOG: a change of what users declared, as JSON (see [`crate::catalog`]). Its place in the log is the position
/// from which it holds (design D2).
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogChange {
    /// The catalog's revision after the change; increases by one.
    pub revision: u64,
    /// The change.
    pub json: Bytes,
}
