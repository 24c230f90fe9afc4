//! Which of many filters an event has to be shown to. Each filter is filed under one of its clauses, its anchor: an event that
//! does not meet this clause is not wanted, whatever the others say. An event is looked up in each file; the filters found
//! are asked in full. So the work grows with the filters that are nearly met, not with how many there are.
//!
//! The anchor is the clause whose drawers are emptiest when the filter is filed, so filters that share a clause with many
//! others are told apart by another one.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::ops::Range;

use super::condition::{Condition, Test};
use super::event::FilterEvent;
use super::prefixes::Prefixes;
use super::table::{KeyTable, Slot, Values};
use super::{Clause, Envelope, Filter, FilterRules};
use crate::decimal::OwnedDecimal;

type EntryId = u32;

/// Filters of subscriptions, which are known by `I`. One subscription may have several, each for a range of events.
#[derive(Debug, Clone)]
pub struct FilterIndex<I> {
    table: KeyTable,
    entries: Vec<Option<Entry<I>>>,
    free: Vec<EntryId>,
    by_id: HashMap<I, Vec<EntryId>>,
    domain_topics: HashMap<Box<str>, Vec<EntryId>>,
    types: HashMap<Box<str>, Vec<EntryId>>,
    /// By folded subjects, and by subjects as they are.
    begins: [Prefixes<EntryId>; 2],
    /// The same for ends, which are filed backwards.
    ends: [Prefixes<EntryId>; 2],
    values: HashMap<Slot, Drawers>,
    /// Filters without a clause that can be an anchor.
    always: BTreeSet<EntryId>,
}

#[derive(Debug, Clone)]
struct Entry<I> {
    id: I,
    seqs: Range<u64>,
    filter: Filter,
    /// Where the values of its conditions are in the index's table.
    slots: Box<[Slot]>,
    anchor: Anchor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    /// The condition of this number.
    Condition(usize),
    DomainTopic,
    Begin,
    Types,
    End,
    None,
}

/// Filters whose anchor is a condition on one key.
#[derive(Debug, Clone, Default)]
struct Drawers {
    texts: HashMap<Box<str>, Vec<EntryId>>,
    numbers: HashMap<OwnedDecimal, Vec<EntryId>>,
    booleans: [Vec<EntryId>; 2],
}

/// What a filter says to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<I> {
    /// Whose filter.
    pub id: I,
    /// Whether the event is wanted, or the first clause that fails.
    pub result: Result<(), Clause>,
    /// How many advanced filters were evaluated for it (ED-119).
    pub evaluated: usize,
}

impl<I: Copy + Eq + Hash> FilterIndex<I> {
    /// An index without filters.
    #[must_use]
    pub fn new(rules: FilterRules) -> Self {
        Self {
            table: KeyTable::new(rules),
            entries: Vec::new(),
            free: Vec::new(),
            by_id: HashMap::new(),
            domain_topics: HashMap::new(),
            types: HashMap::new(),
            begins: Default::default(),
            ends: Default::default(),
            values: HashMap::new(),
            always: BTreeSet::new(),
        }
    }

    /// Files the filter of a subscription that decides about events of these numbers, beside those it has.
    pub fn insert(&mut self, id: I, seqs: Range<u64>, filter: Filter) {
        let table = &mut self.table;
        let slots: Box<[_]> = filter.keys.iter().map(|key| table.intern(key)).collect();
        let entry = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as EntryId - 1
        });
        let anchor = self.choose_anchor(&filter, &slots);
        self.file(anchor, &filter, &slots, entry);
        self.by_id.entry(id).or_default().push(entry);
        self.entries[entry as usize] = Some(Entry {
            id,
            seqs,
            filter,
            slots,
            anchor,
        });
    }

    /// Takes out all filters of a subscription.
    pub fn remove(&mut self, id: I) {
        for number in self.by_id.remove(&id).unwrap_or_default() {
            let Some(entry) = self.entries[number as usize].take() else {
                continue;
            };
            self.take_out(&entry, number);
            for (key, slot) in entry.filter.keys.iter().zip(&entry.slots) {
                self.table.release(key, *slot);
            }
            self.free.push(number);
        }
    }

    fn file(&mut self, anchor: Anchor, filter: &Filter, slots: &[Slot], entry: EntryId) {
        let at = usize::from(filter.case_sensitive);
        match anchor {
            Anchor::None => drop(self.always.insert(entry)),
            Anchor::Begin => self.begins[at].insert(filter.begins_with.as_bytes(), entry),
            Anchor::End => self.ends[at].insert(&backwards(filter.ends_with.as_bytes()), entry),
            Anchor::DomainTopic => {
                let topic = filter.domain_topic.iter();
                topic.for_each(|name| put(&mut self.domain_topics, name, entry));
            }
            Anchor::Types => {
                let types = filter.event_types.iter().flatten();
                types.for_each(|name| put(&mut self.types, name, entry));
            }
            Anchor::Condition(number) => {
                let drawers = self.values.entry(slots[number]).or_default();
                match &filter.conditions[number].test {
                    Test::TextIn(texts) => {
                        for text in texts {
                            put(&mut drawers.texts, text, entry);
                        }
                    }
                    Test::NumberIn(numbers) => {
                        let numbers = numbers.iter();
                        numbers.for_each(|number| put(&mut drawers.numbers, number, entry));
                    }
                    Test::Bool(wanted) => drawers.booleans[usize::from(*wanted)].push(entry),
                    _ => {}
                }
            }
        }
    }

    fn take_out(&mut self, entry: &Entry<I>, number: EntryId) {
        let filter = &entry.filter;
        let at = usize::from(filter.case_sensitive);
        match entry.anchor {
            Anchor::None => drop(self.always.remove(&number)),
            Anchor::Begin => self.begins[at].remove(filter.begins_with.as_bytes(), number),
            Anchor::End => self.ends[at].remove(&backwards(filter.ends_with.as_bytes()), number),
            Anchor::DomainTopic => {
                let topic = filter.domain_topic.iter();
                topic.for_each(|name| take(&mut self.domain_topics, name, number));
            }
            Anchor::Types => {
                let types = filter.event_types.iter().flatten();
                types.for_each(|name| take(&mut self.types, name, number));
            }
            Anchor::Condition(at) => {
                let slot = entry.slots[at];
                let Some(drawers) = self.values.get_mut(&slot) else {
                    return;
                };
                match &filter.conditions[at].test {
                    Test::TextIn(texts) => {
                        for text in texts {
                            take(&mut drawers.texts, text, number);
                        }
                    }
                    Test::NumberIn(numbers) => {
                        let numbers = numbers.iter();
                        numbers.for_each(|one| take(&mut drawers.numbers, one, number));
                    }
                    Test::Bool(wanted) => {
                        drawers.booleans[usize::from(*wanted)].retain(|other| *other != number);
                    }
                    _ => {}
                }
                if drawers.is_empty() {
                    self.values.remove(&slot);
                }
            }
        }
    }

    /// Asks the filters that may want an event of this number, as far as `is_asked` says so of their subscription. All others
    /// do not want it.
    pub fn ask(
        &self,
        seq: u64,
        event: &FilterEvent<'_>,
        mut is_asked: impl FnMut(I) -> bool,
        mut answer: impl FnMut(Answer<I>),
    ) {
        let envelope = Envelope::of(event);
        let values = self.table.find(event);
        for number in self.candidates(&envelope, &values) {
            let Some(entry) = &self.entries[number as usize] else {
                continue;
            };
            if !entry.seqs.contains(&seq) || !is_asked(entry.id) {
                continue;
            }
            let filter = &entry.filter;
            let result = filter
                .judge_envelope(&envelope)
                .and_then(|()| filter.judge_values(&values, |_, condition| entry.slots[condition]));
            answer(Answer {
                id: entry.id,
                result,
                evaluated: filter.evaluated(result),
            });
        }
    }

    /// Each once, in a fixed order.
    fn candidates(&self, envelope: &Envelope<'_>, values: &Values<'_>) -> Vec<EntryId> {
        let mut found: Vec<EntryId> = self.always.iter().copied().collect();
        let drawer = envelope.folded_domain_topic.as_deref();
        if let Some(drawer) = drawer.and_then(|name| self.domain_topics.get(name)) {
            found.extend(drawer);
        }
        if let Some(drawer) = self.types.get(&*envelope.folded_type) {
            found.extend(drawer);
        }
        for case_sensitive in [false, true] {
            let subject = envelope.subject(case_sensitive).as_bytes();
            let at = usize::from(case_sensitive);
            self.begins[at].of(subject, |entry| found.push(entry));
            if !self.ends[at].is_empty() {
                self.ends[at].of(&backwards(subject), |entry| found.push(entry));
            }
        }
        if !self.values.is_empty() {
            for (slot, value) in values.iter() {
                let Some(drawers) = self.values.get(slot) else {
                    continue;
                };
                for scalar in value.scalars() {
                    if let Some(text) = &scalar.text {
                        found.extend(drawers.texts.get(&**text).into_iter().flatten());
                    }
                    if let Some(number) = scalar.number().filter(|_| !drawers.numbers.is_empty()) {
                        let drawer = drawers.numbers.get(&OwnedDecimal::from(number));
                        found.extend(drawer.into_iter().flatten());
                    }
                    if let Some(boolean) = scalar.boolean {
                        found.extend(&drawers.booleans[usize::from(boolean)]);
                    }
                }
            }
        }
        found.sort_unstable();
        // Of an array several elements may lead to one filter.
        found.dedup();
        found
    }

    /// The clause whose drawers are emptiest; among equals the one that is usually most telling.
    fn choose_anchor(&self, filter: &Filter, slots: &[Slot]) -> Anchor {
        let mut best = (usize::MAX, u8::MAX, Anchor::None);
        let mut offer = |load: usize, rank: u8, anchor| {
            if (load, rank) < (best.0, best.1) {
                best = (load, rank, anchor);
            }
        };
        if let Some(name) = &filter.domain_topic {
            let load = self.domain_topics.get(name).map_or(0, Vec::len);
            offer(load, 0, Anchor::DomainTopic);
        }
        for (number, condition) in filter.conditions.iter().enumerate() {
            if let Some((load, rank)) = self.load(condition, slots[number]) {
                offer(load, rank, Anchor::Condition(number));
            }
        }
        let at = usize::from(filter.case_sensitive);
        if !filter.begins_with.is_empty() {
            let load = self.begins[at].get(filter.begins_with.as_bytes()).len();
            offer(load, 1, Anchor::Begin);
        }
        if let Some(types) = &filter.event_types {
            let loads = types
                .iter()
                .map(|name| self.types.get(name).map_or(0, Vec::len));
            offer(loads.sum(), 2, Anchor::Types);
        }
        if !filter.ends_with.is_empty() {
            let load = self.ends[at]
                .get(&backwards(filter.ends_with.as_bytes()))
                .len();
            offer(load, 3, Anchor::End);
        }
        best.2
    }

    /// How full the drawers of a condition are; `None` if it cannot be an anchor.
    fn load(&self, condition: &Condition, slot: Slot) -> Option<(usize, u8)> {
        if condition.is_negated {
            return None;
        }
        let drawers = self.values.get(&slot);
        let load_of = |load: &dyn Fn(&Drawers) -> usize| drawers.map_or(0, load);
        match &condition.test {
            Test::TextIn(texts) => Some((
                load_of(&|drawers| {
                    let loads = texts.iter().filter_map(|text| drawers.texts.get(text));
                    loads.map(Vec::len).sum()
                }),
                0,
            )),
            Test::NumberIn(numbers) => Some((
                load_of(&|drawers| {
                    let loads = numbers.iter().filter_map(|one| drawers.numbers.get(one));
                    loads.map(Vec::len).sum()
                }),
                0,
            )),
            Test::Bool(wanted) => Some((
                load_of(&|drawers| drawers.booleans[usize::from(*wanted)].len()),
                4,
            )),
            _ => None,
        }
    }
}

impl Drawers {
    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.numbers.is_empty() && self.booleans.iter().all(Vec::is_empty)
    }
}

fn put<K: Clone + Eq + Hash>(drawers: &mut HashMap<K, Vec<EntryId>>, key: &K, entry: EntryId) {
    drawers.entry(key.clone()).or_default().push(entry);
}

fn take<K: Eq + Hash>(drawers: &mut HashMap<K, Vec<EntryId>>, key: &K, entry: EntryId) {
    if let Some(drawer) = drawers.get_mut(key) {
        drawer.retain(|other| *other != entry);
        if drawer.is_empty() {
            drawers.remove(key);
        }
    }
}

fn backwards(text: &[u8]) -> Vec<u8> {
    text.iter().rev().copied().collect()
}
