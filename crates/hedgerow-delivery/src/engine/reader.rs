//! Following the log: each durable record is folded into the view and then acted on. Each event is unpacked and matched
//! once, for all subscriptions that stand at the reader; the others are behind and are read for from their own places,
//! together (design D2).
//!
//! An index finds the filters that may want an event. A subscription that stands at the reader has no place of its own, so
//! one that does not want an event costs nothing.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::filter::{Answer, FilterEvent, FilterIndex, FilterRules};
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::event_grid::path_of;
use hedgerow_store::record::{Events, Read, Record, unpack_event};
use hedgerow_store::{StoreError, StoredEvent};

use super::{Engine, Internal, Phase};
use crate::runner::Runner;

/// Bytes of log that one turn follows at most.
const FOLLOW_BYTES: usize = 1024 * 1024;
/// Bytes that are read at a time for subscriptions that are behind.
const BEHIND_BYTES: usize = 256 * 1024;
/// So many times as long as a read for those behind took, the next one waits.
const BEHIND_REST: u32 = 3;

/// The reader of one topic.
pub(super) struct TopicReader {
    /// The first event it has not seen.
    pub(super) head: u64,
    /// Subscriptions of the topic.
    pub(super) subscriptions: BTreeSet<SubscriptionId>,
    /// Those of them that stand before `head`.
    pub(super) behind: BTreeSet<SubscriptionId>,
    /// Subscriptions whose endpoint cannot be used: they stand where they are.
    pub(super) stranded: BTreeSet<SubscriptionId>,
    /// The filters of all of them that have a runner.
    pub(super) filters: FilterIndex<SubscriptionId>,
    /// The path of the topic, or of the domain.
    path: String,
    /// The places that were written down last.
    pub(super) written: Option<Read>,
}

impl TopicReader {
    pub(super) fn new(head: u64, path: String, rules: FilterRules) -> Self {
        Self {
            head,
            subscriptions: BTreeSet::new(),
            behind: BTreeSet::new(),
            stranded: BTreeSet::new(),
            filters: FilterIndex::new(rules),
            path,
            written: None,
        }
    }

    /// What is offered of an event that is for one subscription only (ED-265). Its filter is not asked: it wanted the event
    /// when that was published first.
    fn answer_of_only(
        &self,
        only: SubscriptionId,
        wanted: impl Fn(SubscriptionId) -> bool,
    ) -> Option<Answer<SubscriptionId>> {
        let is_here = self.subscriptions.contains(&only) && wanted(only);
        is_here.then_some(Answer {
            id: only,
            result: Ok(()),
            evaluated: 0,
        })
    }
}

/// What became of an event at a subscription.
enum Offered {
    /// Its filter says no.
    Unwanted,
    Taken,
    /// It stands before the event from now on.
    NoRoom,
}

/// Offers an event to a subscription whose filter has answered.
fn offer_to(
    runner: &mut Runner,
    answer: &Answer<SubscriptionId>,
    seq: u64,
    event: &FilterEvent<'_>,
    published: Timestamp,
) -> Offered {
    runner.metrics.note_evaluated(answer.evaluated);
    if answer.result.is_err() {
        return Offered::Unwanted;
    }
    if !runner.has_room() {
        runner.behind_at = Some(seq);
        return Offered::NoRoom;
    }
    runner.join_line(seq, event);
    runner.offer(seq, published);
    Offered::Taken
}

impl Engine {
    /// Folds what became durable, and acts on it. Returns whether there may be more.
    pub(super) fn follow(&mut self) -> Result<bool, StoreError> {
        if self.must_wait_for_checkpoint() {
            return Ok(false);
        }
        let groups = self.store.groups(self.view.mark(), FOLLOW_BYTES)?;
        for group in &groups {
            self.view.begin_group(group)?;
            for record in &group.records {
                if let Record::Catalog(change) = record {
                    self.count_leaving(change)?;
                }
                self.view.fold_record(record)?;
                self.observe(record)?;
            }
            self.view.end_group(group);
            self.upkeep.followed(group);
        }
        Ok(!groups.is_empty())
    }

    fn observe(&mut self, record: &Record) -> Result<(), StoreError> {
        match record {
            Record::Events(events) => {
                if let Some(history) = &self.context.history {
                    history.accept(events);
                }
                self.offer(events)?;
                self.count_offered(events.topic, events.first_seq);
            }
            Record::Failed(failed) => self.observe_failed(failed),
            Record::Settled(settled) => return self.observe_settled(settled),
            Record::Moved(moved) => {
                self.observe_moved(moved)?;
                self.observe_brought_forward(moved);
            }
            Record::Resent(resent) => return self.observe_resent(resent),
            Record::Begun(begun) => return self.observe_begun(begun),
            Record::Divided(divided) => return self.observe_divided(divided),
            Record::Dead(dead) => self.observe_dead(dead),
            Record::Purged(purged) => self.observe_purged(purged),
            Record::Catalog(change) => return self.observe_declared(change),
            Record::CleanStop(_) if self.phase == Phase::Stopping => self.phase = Phase::Stopped,
            // The view has folded them. The last three are written by nobody yet.
            Record::CleanStop(_)
            | Record::Started(_)
            | Record::Read(_)
            | Record::Hold(_)
            | Record::Lease(_)
            | Record::Seek(_)
            | Record::Snapshot(_) => {}
        }
        Ok(())
    }

    /// Counts the events that nobody wanted, of those from `first` to the reader's place and of those before that were not
    /// counted yet.
    fn count_offered(&self, topic: TopicId, first: u64) {
        let Some(reader) = self.readers.get(&topic) else {
            return;
        };
        let is_anybody_behind = !reader.behind.is_empty();
        self.metrics
            .offered(topic, first, reader.head, is_anybody_behind);
    }

    /// Offers new events to the subscriptions that stand at the reader.
    fn offer(&mut self, events: &Events) -> Result<(), StoreError> {
        // The topic may be gone: its publishers and its deletion raced.
        let Some(reader) = self.readers.get_mut(&events.topic) else {
            return Ok(());
        };
        reader.head = events.first_seq + u64::from(events.packed.count());
        self.moved.insert(events.topic);
        if reader.behind.len() == reader.subscriptions.len() {
            return Ok(());
        }
        let mut answers = Vec::new();
        let mut matched = Vec::new();
        for (unpacked, seq) in events.packed.iter().zip(events.first_seq..) {
            let (_, event) = unpacked?;
            let behind = &reader.behind;
            let is_at_head = |id| !behind.contains(&id);
            let only = event.replayed_to();
            let path = path_of(&reader.path, &event);
            let event = FilterEvent::new(&event, &path);
            if let Some(only) = only {
                answers.extend(reader.answer_of_only(only, is_at_head));
            } else {
                reader
                    .filters
                    .ask(seq, &event, is_at_head, |answer| answers.push(answer));
            }
            for answer in answers.drain(..) {
                let Some(runner) = self.runners.get_mut(&answer.id) else {
                    continue;
                };
                match offer_to(runner, &answer, seq, &event, events.published) {
                    Offered::Unwanted => {}
                    Offered::Taken => matched.push(answer.id),
                    Offered::NoRoom => {
                        reader.behind.insert(answer.id);
                        self.behind.insert(events.topic);
                    }
                }
            }
        }
        self.queue_all_ready(matched)
    }

    fn queue_all_ready(&mut self, mut ids: Vec<SubscriptionId>) -> Result<(), StoreError> {
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            self.queue_if_ready(id)?;
        }
        Ok(())
    }

    /// Starts reading for subscriptions that are behind and have room. One read serves all that stand in what it reads.
    /// There is one at a time, and the disk is left alone for three times as long as it took (design D2: a quarter of the
    /// bandwidth). Topics take turns.
    pub(super) fn read_behind(&mut self) {
        let is_resting = self
            .behind_rests_until
            .is_some_and(|until| until > self.instant());
        if self.phase == Phase::Stopping || self.is_reading_behind || is_resting {
            return;
        }
        self.behind_rests_until = None;
        let readers = &mut self.readers;
        self.behind.retain(|topic| {
            readers
                .get(topic)
                .is_some_and(|reader| !reader.behind.is_empty())
        });
        let after = self
            .behind
            .range((Excluded(self.read_behind_last), Unbounded));
        let before = self.behind.range(..=self.read_behind_last);
        for topic in after.chain(before) {
            let Some(reader) = readers.get_mut(topic) else {
                continue;
            };
            let runners = reader.behind.iter().filter_map(|id| self.runners.get(id));
            let first = runners
                .filter(|runner| runner.wants_more())
                .filter_map(|runner| runner.behind_at);
            let Some(seq) = first.min() else { continue };
            self.is_reading_behind = true;
            self.read_behind_last = *topic;
            let from = Position { topic: *topic, seq };
            let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
            let reading = self.spawner.spawn_blocking(move || {
                let began = clock.now().instant;
                let events = store.read_from(from, BEHIND_BYTES)?;
                Ok((events, clock.now().instant.saturating_duration_since(began)))
            });
            self.tell_end(reading, move |result| Internal::ReadBehind { from, result });
            return;
        }
    }

    pub(super) fn take_read_behind(
        &mut self,
        from: Position,
        result: Result<(Vec<(u64, StoredEvent)>, Duration), StoreError>,
    ) -> Result<(), StoreError> {
        self.is_reading_behind = false;
        if let Ok((_, took)) = &result {
            self.behind_rests_until = Some(self.instant() + *took * BEHIND_REST);
        }
        let Some(reader) = self.readers.get_mut(&from.topic) else {
            return Ok(());
        };
        let mut runners = reader.behind.iter().filter_map(|id| self.runners.get(id));
        let events = match result {
            Ok((events, _)) => events,
            // Whoever stood there is gone, and its events with it.
            Err(StoreError::Forgotten { .. })
                if runners.all(|runner| runner.behind_at != Some(from.seq)) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // Newer events than the reader's own place are offered when it comes to them.
        let head = reader.head;
        let events: Vec<_> = events.into_iter().filter(|(seq, _)| *seq < head).collect();
        self.offer_behind(from.topic, &events)?;
        // Without new events nobody else would count, and what is remembered until then would grow with the backlog.
        self.count_offered(from.topic, head);
        Ok(())
    }

    /// Offers events to the subscriptions that stand among them.
    fn offer_behind(
        &mut self,
        topic: TopicId,
        events: &[(u64, StoredEvent)],
    ) -> Result<(), StoreError> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Ok(());
        };
        let Some(reader) = self.readers.get_mut(&topic) else {
            return Ok(());
        };
        let range = first.0..=last.0;
        let places = reader.behind.iter().filter_map(|id| {
            let place = self.runners.get(id)?.behind_at?;
            range.contains(&place).then_some((*id, place))
        });
        // Those that take what they want; who has no more room leaves.
        let mut taking: HashMap<SubscriptionId, u64> = places.collect();
        let mut answers = Vec::new();
        let mut matched = Vec::new();
        for (seq, stored) in events {
            let seq = *seq;
            let event = unpack_event(&stored.bytes)?;
            let is_taking = |id| taking.get(&id).is_some_and(|place| *place <= seq);
            let only = event.replayed_to();
            let path = path_of(&reader.path, &event);
            let event = FilterEvent::new(&event, &path);
            if let Some(only) = only {
                answers.extend(reader.answer_of_only(only, is_taking));
            } else {
                reader
                    .filters
                    .ask(seq, &event, is_taking, |answer| answers.push(answer));
            }
            for answer in answers.drain(..) {
                let Some(runner) = self.runners.get_mut(&answer.id) else {
                    continue;
                };
                match offer_to(runner, &answer, seq, &event, stored.published) {
                    Offered::Unwanted => {}
                    Offered::Taken => matched.push(answer.id),
                    Offered::NoRoom => {
                        taking.remove(&answer.id);
                    }
                }
            }
        }
        for id in taking.into_keys() {
            let Some(runner) = self.runners.get_mut(&id) else {
                continue;
            };
            if last.0 + 1 < reader.head {
                runner.behind_at = Some(last.0 + 1);
            } else {
                runner.behind_at = None;
                reader.behind.remove(&id);
            }
        }
        self.moved.insert(topic);
        self.queue_all_ready(matched)
    }
}
