//! Cleans the oldest segments: copies what is still needed of them into kept files and gives the files back (design D1).
//!
//! Segments are forgotten oldest first. One in which nothing is needed is simply forgotten. One in which something is
//! needed is cleaned when it is older than `keep_after`, or when the log takes more than half of its bytes, and only if
//! that frees a segment at least: in a healthy system nothing is copied.
//!
//! What is kept describes deliveries as of the end of the last cleaned segment, and is worked out from the records of the
//! cleaned segments alone. So a view can be built again from a baseline, from what is kept, and from the log that is left:
//! nothing is counted twice and nothing left out. That is why segments are cleaned in *runs*, each of which ends before a
//! segment with a baseline; and several runs that leave little are one *part*, with one commit.
//!
//! [`plan_cleaning`](Shared::plan_cleaning) asks the view, quickly, on the thread of its owner;
//! [`carry_out`](Shared::carry_out) reads and writes, on a thread for that.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_core::position::{Mark, Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use roaring::RoaringTreemap;

use super::kept::{Class, Cleaning};
use super::segment::Segment;
use super::shared::Shared;
use crate::error::StoreError;
use crate::failpoint;
use crate::record::{DeliveryChange, DeliveryState, Owed, Record};
use crate::view::baseline;
use crate::{Liveness, Needed};

/// Segments that are cleaned at once: their records' changes are in memory.
const PART_LEN: usize = 32;
/// While publishing is refused this part of a segment is worth a cleaning: records of attempts that the log could take.
const WORTH_DIVISOR_PRESSED: u64 = 4;

/// What is to be cleaned, as the view saw it.
#[derive(Default)]
pub(crate) struct Plan {
    /// Oldest first; each run ends before a segment with a baseline.
    runs: Vec<Vec<Step>>,
    /// The topic of each subscription.
    topics: HashMap<SubscriptionId, TopicId>,
    /// What is needed of each topic that has kept events.
    kept: HashMap<TopicId, Needed>,
}

/// A segment to be forgotten.
struct Step {
    segment: Arc<Segment>,
    /// What is still needed of it; topics of which nothing is are left out.
    needed: HashMap<TopicId, Needed>,
    /// How many bytes are copied at most: about what these take, and what its records say of deliveries.
    copy_bytes: u64,
}

impl Plan {
    /// The steps that are taken at once, so that many share the syncs of one commit: runs that leave about a segment to
    /// be kept, which there is room for.
    fn parts(&self, copy_bytes_max: u64) -> Vec<Vec<&Step>> {
        let mut parts: Vec<Vec<&Step>> = Vec::new();
        let mut part_bytes = copy_bytes_max;
        for run in &self.runs {
            let run_bytes = copy_bytes_of(run);
            match parts.last_mut() {
                Some(part) if part_bytes + run_bytes <= copy_bytes_max && part.len() < PART_LEN => {
                    part_bytes += run_bytes;
                    part.extend(run);
                }
                _ => {
                    part_bytes = run_bytes;
                    parts.push(run.iter().collect());
                }
            }
        }
        parts
    }
}

fn copy_bytes_of(run: &[Step]) -> u64 {
    run.iter().map(|step| step.copy_bytes).sum()
}

/// What is owed for one event, as of the record read last.
type States = Vec<(SubscriptionId, Option<(Timestamp, Owed)>)>;

impl Shared {
    /// Says which segments that end before `through` can be forgotten now, and what has to be kept of them.
    pub(crate) fn plan_cleaning(&self, through: Mark, liveness: &dyn Liveness) -> Plan {
        let mut runs = Vec::new();
        let mut run = Vec::new();
        let mut freed_bytes = 0;
        let mut good = 0;
        let mut copy_bytes = 0;
        let segments = self.segments();
        let used_bytes = self.used_bytes();
        let now = segments
            .back()
            .map_or(Timestamp::ZERO, |newest| clock_of(newest));
        let mut worth_bytes = u64::from(self.options.segment_bytes);
        if used_bytes >= self.options.watermark_bytes() {
            worth_bytes /= WORTH_DIVISOR_PRESSED;
        }
        // The view has folded a group of the next segment: so there is one.
        for segment in segments.iter().filter(|one| one.number < through.segment()) {
            let (needed, needed_bytes) = needed_of(segment, liveness);
            let is_dead = needed.is_empty();
            let is_old = now.since(clock_of(segment)) >= self.options.keep_after;
            let is_pressed =
                used_bytes.saturating_sub(freed_bytes) > self.options.watermark_bytes() / 2;
            if !(is_dead || is_old || is_pressed) {
                break;
            }
            freed_bytes += u64::from(segment.capacity).saturating_sub(needed_bytes);
            run.push(Step {
                segment: Arc::clone(segment),
                needed,
                copy_bytes: needed_bytes + record_bytes_of(segment),
            });
            copy_bytes = copy_bytes.max(copy_bytes_of(&run));
            if !liveness.has_baseline(segment.number + 1) {
                continue;
            }
            runs.push(std::mem::take(&mut run));
            let is_worth_it = freed_bytes >= worth_bytes;
            if is_worth_it || runs.iter().flatten().all(|step| step.needed.is_empty()) {
                good = runs.len();
            }
        }
        runs.truncate(good);
        self.reserve_copy(copy_bytes);
        Plan {
            runs,
            topics: liveness.subscriptions().into_iter().collect(),
            kept: self
                .kept
                .topics()
                .into_iter()
                .map(|topic| (topic, liveness.needed(topic, 0..=u64::MAX)))
                .collect(),
        }
    }

    /// Does what was planned. What was forgotten since is left alone.
    pub(super) fn carry_out(&self, plan: &Plan) -> Result<(), StoreError> {
        self.fence.check()?;
        for part in plan.parts(u64::from(self.options.segment_bytes)) {
            let Some(first) = part.first().map(|step| step.segment.number) else {
                continue;
            };
            if self.segments().front().map(|oldest| oldest.number) != Some(first) {
                continue;
            }
            self.trim_free_files()?;
            if part.iter().any(|step| !step.needed.is_empty()) || !self.kept.is_empty() {
                self.keep_needed(&part, plan)?;
                self.cleaned_segments
                    .fetch_add(part.len() as u64, Ordering::Relaxed);
            }
            for step in &part {
                self.forget_oldest(&step.segment)?;
            }
            // Not this part's own: what was just given back may be there again after a power cut.
            baseline::remove_before(&*self.disk, first)?;
        }
        self.tidy_kept(plan)
    }

    /// Deletes kept files in which nothing is needed, and writes those anew in which little is.
    fn tidy_kept(&self, plan: &Plan) -> Result<(), StoreError> {
        if self.kept.is_empty() {
            return Ok(());
        }
        self.kept
            .tidy(&plan.kept, self.pressure(), || self.room_for_copy())
    }

    /// Copies what is needed of a part.
    fn keep_needed(&self, part: &[&Step], plan: &Plan) -> Result<(), StoreError> {
        let mut leftover = Leftover {
            shared: self,
            plan,
            cleaning: self.kept.begin(),
            states: HashMap::new(),
            ended: HashSet::new(),
        };
        for step in part {
            leftover.follow(&step.segment)?;
        }
        for step in part {
            leftover.keep_events(step)?;
        }
        leftover.keep_updates();
        let last = part.last().map_or(0, |step| step.segment.number);
        leftover.cleaning.commit(last)
    }

    /// Gives the file of the oldest segment back.
    fn forget_oldest(&self, oldest: &Segment) -> Result<(), StoreError> {
        // Its file counts until it is gone.
        let _leaving = self.leave(u64::from(oldest.capacity) + oldest.index_bytes());
        self.remove_oldest(oldest.number);
        failpoint::hit("segment-forget");
        self.pool.release(oldest, self.room_for_files())
    }

    fn for_each_record(
        &self,
        segment: &Segment,
        mut take: impl FnMut(&Record) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let end = segment.content().end;
        let mut scanner = self.scanner(segment, end);
        let mut offset = 0;
        while offset < end {
            let group = self.read_group(&mut scanner, segment, offset)?;
            offset = group.end.offset();
            group.records.iter().try_for_each(&mut take)?;
        }
        Ok(())
    }
}

/// What a part leaves behind, while it is worked out.
struct Leftover<'a> {
    shared: &'a Shared,
    plan: &'a Plan,
    cleaning: Cleaning<'a>,
    /// Deliveries that the part's records left unsettled, and those of kept events that they settled.
    states: HashMap<(TopicId, u64), States>,
    /// Subscriptions to which nothing is owed any more of what was before the part.
    ended: HashSet<SubscriptionId>,
}

impl Leftover<'_> {
    /// Takes note of what the records of a segment did to deliveries.
    fn follow(&mut self, segment: &Segment) -> Result<(), StoreError> {
        let shared = self.shared;
        shared.for_each_record(segment, |record| {
            for change in record.delivery_changes() {
                // Of one that is gone nothing is owed.
                if let Some(topic) = self.plan.topics.get(&change.subscription) {
                    self.change(*topic, &change);
                }
            }
            Ok(())
        })
    }

    /// The same rule as the view's: what is not unsettled can only be begun.
    fn change(&mut self, topic: TopicId, change: &DeliveryChange) {
        let DeliveryChange {
            subscription,
            seq,
            to,
        } = *change;
        if to == DeliveryState::AllEnded {
            return self.end_all(subscription);
        }
        let was_kept = !self.ended.contains(&subscription)
            && self.shared.kept.is_open(topic, subscription, seq);
        let states = self.states.entry((topic, seq)).or_default();
        let at = states.iter().position(|(id, _)| *id == subscription);
        let is_open = at.map_or(was_kept, |at| states[at].1.is_some());
        let state = match to {
            DeliveryState::Begun(due, owed) if !is_open => Some(Some((due, owed))),
            DeliveryState::Moved(due, owed) if is_open => Some(Some((due, owed))),
            DeliveryState::Ended if is_open => Some(None),
            _ => None,
        };
        if let Some(state) = state {
            match at {
                Some(at) => states[at].1 = state,
                None => states.push((subscription, state)),
            }
            if state.is_none() && !was_kept {
                states.retain(|(id, _)| *id != subscription);
            }
        }
        if states.is_empty() {
            self.states.remove(&(topic, seq));
        }
    }

    /// A seek gave up all that was owed to a subscription.
    fn end_all(&mut self, subscription: SubscriptionId) {
        self.ended.insert(subscription);
        for states in self.states.values_mut() {
            states.retain(|(id, _)| *id != subscription);
        }
        self.states.retain(|_, states| !states.is_empty());
        self.cleaning.end_all(subscription);
    }

    /// Copies the events of a segment that are needed, each with what is owed for it.
    fn keep_events(&mut self, step: &Step) -> Result<(), StoreError> {
        if step.needed.is_empty() {
            return Ok(());
        }
        let shared = self.shared;
        shared.for_each_record(&step.segment, |record| {
            let Record::Events(events) = record else {
                return Ok(());
            };
            let Some(needed) = step.needed.get(&events.topic) else {
                return Ok(());
            };
            for (seq, event) in events.events_from(events.first_seq) {
                let class = if needed.open.contains(seq) {
                    Class::Owed
                } else if seq >= needed.from {
                    Class::Behind
                } else {
                    continue;
                };
                let states = self.states.remove(&(events.topic, seq)).unwrap_or_default();
                let owed = states
                    .into_iter()
                    .filter_map(|(id, state)| state.map(|(due, owed)| (id, due, owed)));
                let position = Position {
                    topic: events.topic,
                    seq,
                };
                self.cleaning.event(
                    class,
                    position,
                    event.published,
                    event.bytes,
                    owed.collect(),
                );
                shared.copied_events.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    /// Notes what became of events that were kept before. What is left besides was settled behind the part: the log that
    /// is left says so.
    fn keep_updates(&mut self) {
        // In order, so that the same log leaves the same files.
        let states: BTreeMap<_, _> = self.states.drain().collect();
        for ((topic, seq), states) in states {
            let position = Position { topic, seq };
            if !self.shared.kept.has(position) {
                continue;
            }
            for (subscription, state) in states {
                self.cleaning.update(position, subscription, state);
            }
        }
    }
}

/// What is needed of a segment, and about how many bytes that is.
fn needed_of(segment: &Segment, liveness: &dyn Liveness) -> (HashMap<TopicId, Needed>, u64) {
    let mut needed = HashMap::new();
    let mut bytes = 0;
    for (topic, range) in &segment.content().topics {
        let seqs = range.first_seq..=range.last_seq;
        if !liveness.is_needed(*topic, seqs.clone()) {
            continue;
        }
        let one = liveness.needed(*topic, seqs.clone());
        let mut all = RoaringTreemap::new();
        all.insert_range(seqs);
        let count = one.count_of(&all);
        bytes += range.bytes / range.count() * count;
        needed.insert(*topic, one);
    }
    (needed, bytes)
}

/// The bytes of a segment that are no events: of what its records say of deliveries no more is copied than that.
fn record_bytes_of(segment: &Segment) -> u64 {
    let content = segment.content();
    let events: u64 = content.topics.values().map(|range| range.bytes).sum();
    u64::from(content.end).saturating_sub(events)
}

/// The time of the last group of a segment.
fn clock_of(segment: &Segment) -> Timestamp {
    segment.content().clock()
}
