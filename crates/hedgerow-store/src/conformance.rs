//! One suite that every store must pass: the contract of [`Store`] as tests. A store joins with a [`Fixture`] and
//! [`store_conformance!`](crate::store_conformance), which makes one test of each case.
//!
//! | module | asks |
//! | --- | --- |
//! | `order` | one order, groups without a gap, numbers of events, publish times |
//! | `durability` | nothing shown or answered too early, nothing of it lost; what was in doubt is whole or absent |
//! | `reading` | events come back as they were appended, one by one and in rows |
//! | `limits` | too large, too much at once, full: refused without harm |
//! | `keeping` | what may be forgotten, and what may not |
//! | `ownership` | epochs, and that a former owner is fenced |
//! | `random` | random operations on the store and on the plain model: they answer the same |
//!
//! Nothing here knows a store's form. A case that needs what a fixture cannot do is passed over.

// A case that fails panics; that is what it is for.
#![allow(clippy::missing_panics_doc)]

mod durability;
mod keeping;
mod limits;
mod order;
mod ownership;
mod random;
mod reading;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_core::event::{Data, Event};
use hedgerow_core::position::{Mark, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;

pub use self::durability::*;
pub use self::keeping::*;
pub use self::limits::*;
pub use self::order::*;
pub use self::ownership::*;
pub use self::random::*;
pub use self::reading::*;
use crate::record::{PackedEvents, Record, Settled, SettledHow};
use crate::{Group, Liveness, Needed, Store};

/// A store under test, and what happens to it.
pub trait Fixture {
    /// Opens it, an empty one the first time; never while it is open. `next_seqs` is what the owner's view knows of
    /// what was forgotten.
    fn open(&mut self, next_seqs: &NextSeqs) -> Arc<dyn Store>;

    /// Closes it in order.
    fn close(&mut self);

    /// Ends its owner as a crash does. Successive crashes are of all the kinds that there are.
    fn crash(&mut self);

    /// Fails whatever it writes now or next, so that it closes.
    fn fail(&mut self);

    /// From now on nothing becomes durable, until [`Fixture::release`], a failure or a crash. Says whether it can.
    fn hold(&mut self) -> bool;

    /// Lets everything become durable again.
    fn release(&mut self);

    /// Opens it for another owner while the present one believes to own it.
    fn take_over(&mut self, next_seqs: &NextSeqs) -> Arc<dyn Store>;

    /// The epoch of the newest opening.
    fn epoch(&self) -> u32;

    /// The clock that it issues publish times from.
    fn time(&self) -> &Time;

    /// The bounds it has.
    fn limits(&self) -> StoreLimits;
}

/// For each topic the number of its next event.
pub type NextSeqs = HashMap<TopicId, u64>;

/// What a store refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreLimits {
    /// An append of so many bytes of one event is too large.
    pub too_large_bytes: Option<usize>,
    /// Publishing is refused after less than so many bytes that nobody forgot.
    pub full_after_bytes: Option<usize>,
    /// Publishing is refused while so many bytes wait.
    pub busy_after_bytes: Option<usize>,
}

/// A clock that stands where it was put. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Time(Arc<AtomicU64>);

impl Default for Time {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(1_000_000)))
    }
}

impl Time {
    /// What it shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    /// Puts it, forward or back.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_millis(), Ordering::Relaxed);
    }
}

/// Below these numbers nothing is needed; of topics without one, everything is.
#[derive(Debug, Clone, Default)]
pub struct Floors(pub NextSeqs);

impl Liveness for Floors {
    fn is_needed(&self, topic: TopicId, seqs: RangeInclusive<u64>) -> bool {
        self.0.get(&topic).is_none_or(|floor| *seqs.end() >= *floor)
    }

    fn needed(&self, topic: TopicId, _: RangeInclusive<u64>) -> Needed {
        Needed {
            from: self.0.get(&topic).copied().unwrap_or(0),
            ..Needed::default()
        }
    }
}

/// Everything was delivered.
struct NothingNeeded;

impl Liveness for NothingNeeded {
    fn is_needed(&self, _: TopicId, _: RangeInclusive<u64>) -> bool {
        false
    }

    fn needed(&self, _: TopicId, _: RangeInclusive<u64>) -> Needed {
        Needed::default()
    }
}

/// An event with an id and so many bytes of data.
fn event(id: &str, data_bytes: usize) -> Event<'_> {
    Event {
        id: id.into(),
        source: None,
        event_type: "conformance".into(),
        subject: None,
        time: None,
        data_version: None,
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Binary(Cow::Owned(id.bytes().cycle().take(data_bytes).collect())),
    }
}

/// Events `<name>-0`, `<name>-1` and so on, of so many bytes each.
fn events(name: &str, count: usize, data_bytes: usize) -> PackedEvents {
    let ids: Vec<_> = (0..count).map(|one| format!("{name}-{one}")).collect();
    let events: Vec<_> = ids.iter().map(|id| event(id, data_bytes)).collect();
    PackedEvents::pack(&events)
}

/// A record that is no event.
fn settled(seq: u64) -> Record {
    Record::Settled(Settled {
        subscription: SubscriptionId(1),
        deliveries: vec![(seq, Timestamp::ZERO)],
        how: SettledHow::Delivered,
    })
}

/// The groups from `from` on that are durable by now, read in steps of about `bytes_max` bytes.
fn groups_from(store: &dyn Store, mut from: Mark, bytes_max: usize) -> Vec<Arc<Group>> {
    let mut all: Vec<Arc<Group>> = Vec::new();
    loop {
        let groups = store.groups(from, bytes_max).expect("an open store shows");
        let Some(last) = groups.last() else {
            return all;
        };
        from = last.end;
        all.extend(groups);
    }
}

/// All records, once there are `count` of them.
async fn records(store: &dyn Store, count: usize) -> Vec<Record> {
    records_from(store, Mark::ZERO, count).await.1
}

/// The records from `from` on and where they end, once there are `count` of them.
async fn records_from(store: &dyn Store, from: Mark, count: usize) -> (Mark, Vec<Record>) {
    let mut durable = store.durable();
    loop {
        durable.borrow_and_update();
        let groups = groups_from(store, from, 1 << 20);
        let end = groups.last().map_or(from, |last| last.end);
        let records: Vec<_> = groups
            .iter()
            .flat_map(|group| &group.records)
            .cloned()
            .collect();
        if records.len() >= count {
            assert_eq!(records.len(), count, "nothing was added to what was queued");
            return (end, records);
        }
        durable.changed().await.expect("the store stays open");
    }
}

/// Looks so many times, a millisecond apart, before it is said that nothing comes: far more than a slow machine needs.
const LOOKS_MAX: usize = 60_000;

/// Waits until something is so that the store does by itself.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_so() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("the store did not do by itself what was waited for");
}

/// Waits until the store has closed.
async fn closed(store: &dyn Store) {
    let mut durable = store.durable();
    while durable.changed().await.is_ok() {}
}

/// For each topic the number of the event behind the last one in these records.
fn next_seqs(records: &[Record]) -> NextSeqs {
    let mut next = NextSeqs::new();
    for record in records {
        if let Record::Events(events) = record {
            let behind = events.first_seq + u64::from(events.packed.count());
            next.insert(events.topic, behind);
        }
    }
    next
}

/// Makes a test of each case of the suite. `fixture` makes a [`Fixture`](crate::conformance::Fixture); with
/// `start_paused = true` tokio's clock is paused.
#[macro_export]
macro_rules! store_conformance {
    ($fixture:expr, start_paused = $paused:tt) => {
        $crate::store_conformance! {
            @each $fixture, $paused,
            records_come_in_the_order_they_were_queued
            answers_name_what_was_appended
            groups_follow_each_other
            groups_begin_where_they_are_asked_for
            publish_times_never_go_back
            numbers_go_on_after_reopening
            numbers_go_on_after_everything_was_forgotten
            nothing_is_shown_before_it_is_durable
            what_was_answered_or_shown_survives_crashes
            what_was_in_doubt_is_whole_or_absent
            a_failed_store_stays_closed
            events_are_read_as_they_were_appended
            rows_have_no_gap_and_keep_to_their_topic
            publish_ids_come_back_with_their_events
            what_is_not_there_is_forgotten
            too_large_is_refused_without_harm
            too_much_at_once_is_refused_for_a_moment
            a_full_store_resumes_when_it_may_forget
            nothing_is_forgotten_that_is_needed_or_past_the_mark
            what_nobody_needs_is_forgotten
            epochs_rise
            a_former_owner_is_fenced
            the_store_answers_as_the_model_does
        }
    };
    (@each $fixture:expr, $paused:tt, $($case:ident)*) => {
        $(
            #[tokio::test(start_paused = $paused)]
            async fn $case() {
                $crate::conformance::$case(&mut $fixture).await;
            }
        )*
    };
}
