//! Which events a subscription wants: compiled from what a user declared, asked once for each event.
//!
//! Decides ED-084 and ED-086 to ED-115: event types, subjects and advanced filters. When a filter applies to an event is
//! not decided here (ED-085).
//!
//! | file | decides |
//! | --- | --- |
//! | `event.rs` | what of an event can be looked at |
//! | `key.rs` | what a key names |
//! | `table.rs` | how the values at the keys of many filters are found at once |
//! | `value.rs` | what a value is for comparing |
//! | `text.rs` | what a value is for those who send it on |
//! | `condition.rs` | what each operator says to a value |
//! | `verdict.rs` | what each part says, and to what: for trying a filter out |
//! | `index.rs`, `prefixes.rs` | which of many filters an event has to be shown to |
//!
//! Comparison without case is ordinal after Unicode simple case folding (ED-095): character by character, no
//! normalisation, no locale. So `ß` is not `ss`, `İ` is not `i`, and the Kelvin sign is `k`.

mod condition;
mod event;
mod index;
mod key;
mod prefixes;
mod table;
mod text;
mod value;
mod verdict;

use std::borrow::Cow;
use std::fmt;

use icu_casemap::CaseMapper;

use self::condition::Condition;
use self::table::{KeyTable, Slot, Values};
use crate::name::DomainTopicName;
use crate::spec::FilterSpec;

pub use self::event::FilterEvent;
pub use self::index::{Answer, FilterIndex};
pub use self::key::Key;
pub use self::text::TextKeys;
pub use self::verdict::{ClauseVerdict, Found};

/// How filters are understood, for all subscriptions of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilterRules {
    /// Whether `NumberNotInRange` matches a key that is not there: `filter.numberNotInRangeMatchesMissing` (ED-092).
    pub number_not_in_range_matches_missing: bool,
    /// Whether a path goes into the objects of an array: `filter.pathsThroughArrays` (ED-115).
    pub paths_through_arrays: bool,
}

/// A filter that is ready to be asked.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Folded; `None` wants events of every domain topic.
    domain_topic: Option<Box<str>>,
    /// Folded, sorted, without duplicates; `None` wants every type.
    event_types: Option<Box<[Box<str>]>>,
    /// Folded unless `case_sensitive`; empty wants every subject.
    begins_with: Box<str>,
    ends_with: Box<str>,
    case_sensitive: bool,
    conditions: Box<[Condition]>,
    /// The keys of the conditions, in their order.
    keys: Box<[Key]>,
    table: KeyTable,
}

/// A part of a filter; the first one that fails explains why an event was not wanted (ED-084).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clause {
    /// The event is of another domain topic than the subscription (ED-074). No clause that anybody declares.
    DomainTopic,
    /// The event's type is none of those wanted.
    IncludedEventTypes,
    /// The subject begins otherwise.
    SubjectBeginsWith,
    /// The subject ends otherwise.
    SubjectEndsWith,
    /// The advanced filter of this number, counted from 0.
    AdvancedFilters(usize),
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DomainTopic => f.write_str("domainTopic"),
            Self::IncludedEventTypes => f.write_str("includedEventTypes"),
            Self::SubjectBeginsWith => f.write_str("subjectBeginsWith"),
            Self::SubjectEndsWith => f.write_str("subjectEndsWith"),
            Self::AdvancedFilters(number) => write!(f, "advancedFilters[{number}]"),
        }
    }
}

/// What all filters look at, made once for an event.
struct Envelope<'a> {
    folded_domain_topic: Option<Cow<'a, str>>,
    folded_type: Cow<'a, str>,
    subject: &'a str,
    folded_subject: Cow<'a, str>,
}

impl<'a> Envelope<'a> {
    fn of(event: &FilterEvent<'a>) -> Self {
        Self {
            folded_domain_topic: event.domain_topic().map(fold),
            folded_type: fold(event.event_type()),
            subject: event.subject(),
            folded_subject: fold(event.subject()),
        }
    }

    fn subject(&self, case_sensitive: bool) -> &str {
        if case_sensitive {
            self.subject
        } else {
            &self.folded_subject
        }
    }
}

impl Filter {
    /// Makes a checked specification ready.
    #[must_use]
    pub fn new(spec: &FilterSpec, rules: FilterRules) -> Self {
        let prepare = |text: &str| {
            if spec.is_subject_case_sensitive {
                text.into()
            } else {
                fold(text).into()
            }
        };
        let mut table = KeyTable::new(rules);
        let advanced = &spec.advanced_filters;
        let keys: Box<[_]> = advanced.iter().map(|one| Key::parse(one.key())).collect();
        let into_arrays = spec.enable_advanced_filtering_on_arrays;
        let conditions = advanced.iter().zip(&keys);
        let conditions = conditions
            .map(|(one, key)| Condition::new(one, table.intern(key), into_arrays, rules))
            .collect();
        Self {
            domain_topic: None,
            event_types: spec.included_event_types.as_deref().and_then(compile_types),
            begins_with: prepare(&spec.subject_begins_with),
            ends_with: prepare(&spec.subject_ends_with),
            case_sensitive: spec.is_subject_case_sensitive,
            conditions,
            keys,
            table,
        }
    }

    /// The same for events of one domain topic only: what a subscription to it wants.
    #[must_use]
    pub fn of_domain_topic(self, name: &DomainTopicName) -> Self {
        Self {
            domain_topic: Some(name.folded()),
            ..self
        }
    }

    /// Says whether an event is wanted.
    ///
    /// # Errors
    ///
    /// The first clause that fails.
    pub fn matches(&self, event: &FilterEvent<'_>) -> Result<(), Clause> {
        self.judge_envelope(&Envelope::of(event))?;
        if self.conditions.is_empty() {
            return Ok(());
        }
        self.judge_values(&self.table.find(event), |condition, _| condition.slot)
    }

    /// How many advanced filters were evaluated when this was the answer (ED-119): all of them, or those up to the first that
    /// failed.
    #[must_use]
    pub fn evaluated(&self, answer: Result<(), Clause>) -> usize {
        match answer {
            Ok(()) => self.conditions.len(),
            Err(Clause::AdvancedFilters(failed)) => failed + 1,
            Err(_) => 0,
        }
    }

    fn judge_envelope(&self, envelope: &Envelope<'_>) -> Result<(), Clause> {
        if self.domain_topic.is_some()
            && self.domain_topic.as_deref() != envelope.folded_domain_topic.as_deref()
        {
            return Err(Clause::DomainTopic);
        }
        if let Some(types) = &self.event_types {
            let folded = &*envelope.folded_type;
            if types
                .binary_search_by(|wanted| (**wanted).cmp(folded))
                .is_err()
            {
                return Err(Clause::IncludedEventTypes);
            }
        }
        // Most have neither, and a comparison with nothing is not free: where a processor checks the address of an empty text
        // before it finds that no byte of it is wanted, it takes as long as the rest of the filter.
        let subject = envelope.subject(self.case_sensitive);
        if !self.begins_with.is_empty() && !subject.starts_with(&*self.begins_with) {
            return Err(Clause::SubjectBeginsWith);
        }
        if !self.ends_with.is_empty() && !subject.ends_with(&*self.ends_with) {
            return Err(Clause::SubjectEndsWith);
        }
        Ok(())
    }

    /// `slot` says where the value of a condition is among these.
    fn judge_values(
        &self,
        values: &Values<'_>,
        slot: impl Fn(&Condition, usize) -> Slot,
    ) -> Result<(), Clause> {
        let failed = self
            .conditions
            .iter()
            .enumerate()
            .position(|(number, condition)| !condition.holds(values.get(slot(condition, number))));
        failed.map_or(Ok(()), |number| Err(Clause::AdvancedFilters(number)))
    }
}

/// `None` for the single entry `All` (ED-086).
fn compile_types(types: &[String]) -> Option<Box<[Box<str>]>> {
    if matches!(types, [only] if only == "All") {
        return None;
    }
    let mut folded: Vec<Box<str>> = types.iter().map(|wanted| fold(wanted).into()).collect();
    folded.sort_unstable();
    folded.dedup();
    Some(folded.into())
}

/// Folds a text for comparison without case (ED-095). Borrowed when there is nothing to fold.
#[must_use]
pub fn fold(text: &str) -> Cow<'_, str> {
    if text
        .bytes()
        .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
    {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(fold_char).collect())
}

fn fold_char(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    CaseMapper::new().simple_fold(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-095, with the letters for which folding and lower-casing differ.
    #[test]
    fn folding_is_simple_folding() {
        for (a, b) in [
            ("ПРИВЕТ", "привет"),
            ("ΟΔΟΣ", "οδος"),
            ("\u{212a}", "k"),
            ("Wach\u{17f}tube", "WACHSTUBE"),
            ("STRAẞE", "straße"),
            ("𐐀", "𐐨"),
            ("\u{ab70}", "\u{13a0}"),
        ] {
            assert_eq!(fold(a), fold(b), "{a} and {b} differ in case only");
        }
        for (a, b) in [
            ("straße", "STRASSE"),
            ("İzmir", "izmir"),
            ("e\u{301}", "é"),
            ("ı", "i"),
        ] {
            assert_ne!(fold(a), fold(b), "{a} and {b} are two texts");
        }
    }

    #[test]
    fn what_needs_no_folding_is_borrowed() {
        assert!(matches!(fold("/orders/1"), Cow::Borrowed(_)));
    }
}
