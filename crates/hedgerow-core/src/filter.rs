//! Which events a subscription wants: compiled from what a user declared, asked once for each event.
//!
//! Decides ED-084 and ED-086 to ED-090: event types and subjects. Advanced filters are refused when a specification is
//! checked ([`crate::spec`]), so none arrives here. When a filter applies to an event is not decided here either
//! (ED-085).
//!
//! Comparison without case is ordinal after Unicode simple case folding (ED-095): character by character, no
//! normalisation, no locale. So `ß` is not `ss`, `İ` is not `i`, and the Kelvin sign is `k`.

use std::borrow::Cow;
use std::fmt;

use icu_casemap::CaseMapper;

use crate::spec::FilterSpec;

/// A filter that is ready to be asked.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Folded, sorted, without duplicates; `None` wants every type.
    event_types: Option<Box<[Box<str>]>>,
    /// Folded unless `case_sensitive`; empty wants every subject.
    begins_with: Box<str>,
    ends_with: Box<str>,
    case_sensitive: bool,
}

/// A part of a filter; the first one that fails explains why an event was not wanted (ED-084).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clause {
    /// The event's type is none of those wanted.
    IncludedEventTypes,
    /// The subject begins otherwise.
    SubjectBeginsWith,
    /// The subject ends otherwise.
    SubjectEndsWith,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IncludedEventTypes => "includedEventTypes",
            Self::SubjectBeginsWith => "subjectBeginsWith",
            Self::SubjectEndsWith => "subjectEndsWith",
        })
    }
}

impl Filter {
    /// Makes a checked specification ready.
    #[must_use]
    pub fn new(spec: &FilterSpec) -> Self {
        let prepare = |text: &str| {
            if spec.is_subject_case_sensitive {
                text.into()
            } else {
                fold(text).into()
            }
        };
        Self {
            event_types: spec.included_event_types.as_deref().and_then(compile_types),
            begins_with: prepare(&spec.subject_begins_with),
            ends_with: prepare(&spec.subject_ends_with),
            case_sensitive: spec.is_subject_case_sensitive,
        }
    }

    /// Says whether an event is wanted. An event without subject has the empty one (ED-089).
    ///
    /// # Errors
    ///
    /// The first clause that fails.
    pub fn matches(&self, event_type: &str, subject: &str) -> Result<(), Clause> {
        if !self.wants_type(event_type) {
            return Err(Clause::IncludedEventTypes);
        }
        if !self.begins(subject) {
            return Err(Clause::SubjectBeginsWith);
        }
        if !self.ends(subject) {
            return Err(Clause::SubjectEndsWith);
        }
        Ok(())
    }

    fn wants_type(&self, event_type: &str) -> bool {
        let Some(types) = &self.event_types else {
            return true;
        };
        let folded = fold(event_type);
        types
            .binary_search_by(|wanted| (**wanted).cmp(&folded))
            .is_ok()
    }

    fn begins(&self, subject: &str) -> bool {
        if self.case_sensitive {
            return subject.starts_with(&*self.begins_with);
        }
        let mut folded = subject.chars().map(fold_char);
        self.begins_with
            .chars()
            .all(|wanted| folded.next() == Some(wanted))
    }

    fn ends(&self, subject: &str) -> bool {
        if self.case_sensitive {
            return subject.ends_with(&*self.ends_with);
        }
        let mut folded = subject.chars().rev().map(fold_char);
        self.ends_with
            .chars()
            .rev()
            .all(|wanted| folded.next() == Some(wanted))
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
