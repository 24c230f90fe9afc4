//! What each part of a filter says to one event, and what it found there: for trying a filter out (ED-312). Deliveries ask for the
//! first part that fails only.

use std::borrow::Cow;

use super::event::FilterEvent;
use super::value::Value;
use super::{Clause, Envelope, Filter};

/// What one part of a filter says to an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClauseVerdict<'a> {
    /// Which part.
    pub clause: Clause,
    /// Whether it lets the event pass.
    pub holds: bool,
    /// What it looked at.
    pub found: Found<'a>,
}

/// A value of an event, as filters look at it (ED-093, ED-100 to ED-102, ED-114).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<'a> {
    /// There is none.
    Absent,
    /// JSON null.
    Null,
    /// A text.
    Text(Cow<'a, str>),
    /// A number, as its JSON has it.
    Number(Cow<'a, str>),
    /// A truth value.
    Bool(bool),
    /// An array.
    Array {
        /// Elements that can be compared: others are ignored.
        comparable: usize,
        /// Whether they are looked at: `enableAdvancedFilteringOnArrays`.
        is_looked_into: bool,
    },
    /// An object, which fits no operator.
    Object,
}

impl Filter {
    /// What each part that is declared says to an event, in the order in which they are asked (ED-084); of a domain topic that its
    /// events are of it as well (ED-074).
    #[must_use]
    pub fn verdicts<'a>(&self, event: &FilterEvent<'a>) -> Vec<ClauseVerdict<'a>> {
        let envelope = Envelope::of(event);
        let mut verdicts = Vec::new();
        if let Some(topic) = &self.domain_topic {
            let name = event.domain_topic();
            verdicts.push(ClauseVerdict {
                clause: Clause::DomainTopic,
                holds: envelope.folded_domain_topic.as_deref() == Some(&**topic),
                found: name.map_or(Found::Absent, |name| Found::Text(Cow::Borrowed(name))),
            });
        }
        if let Some(types) = &self.event_types {
            let folded = &*envelope.folded_type;
            verdicts.push(ClauseVerdict {
                clause: Clause::IncludedEventTypes,
                holds: types.iter().any(|wanted| **wanted == *folded),
                found: Found::Text(Cow::Borrowed(event.event_type())),
            });
        }
        let subject = envelope.subject(self.case_sensitive);
        let parts = [
            (
                Clause::SubjectBeginsWith,
                &self.begins_with,
                subject.starts_with(&*self.begins_with),
            ),
            (
                Clause::SubjectEndsWith,
                &self.ends_with,
                subject.ends_with(&*self.ends_with),
            ),
        ];
        let declared = parts.into_iter().filter(|(_, part, _)| !part.is_empty());
        verdicts.extend(declared.map(|(clause, _, holds)| ClauseVerdict {
            clause,
            holds,
            found: Found::Text(Cow::Borrowed(event.subject())),
        }));
        let values = self.table.find(event);
        let texts = self.table.find_texts(event);
        for (number, condition) in self.conditions.iter().enumerate() {
            let value = values.get(condition.slot);
            let at = texts.binary_search_by_key(&condition.slot, |(slot, _)| *slot);
            let text = at.ok().and_then(|at| texts[at].1.clone());
            verdicts.push(ClauseVerdict {
                clause: Clause::AdvancedFilters(number),
                holds: condition.holds(value),
                found: found(value, text, condition.looks_into_arrays()),
            });
        }
        verdicts
    }
}

fn found<'a>(value: &Value<'_>, text: Option<Cow<'a, str>>, looks_into: bool) -> Found<'a> {
    match value {
        Value::Absent => Found::Absent,
        Value::Null => Found::Null,
        Value::Object => Found::Object,
        Value::Array(array) => Found::Array {
            comparable: array.scalars().len(),
            is_looked_into: looks_into,
        },
        Value::Scalar(scalar) => match (&scalar.text, scalar.boolean) {
            (Some(_), _) => Found::Text(text.unwrap_or_default()),
            (None, Some(boolean)) => Found::Bool(boolean),
            (None, None) => Found::Number(text.unwrap_or_default()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{Data, Event};
    use crate::filter::FilterRules;
    use crate::spec::FilterSpec;

    /// ED-312: every part answers for itself, also behind one that fails.
    #[test]
    fn every_part_says_what_it_found() {
        let spec = json!({
            "includedEventTypes": ["Order.Paid", "order.placed"],
            "subjectBeginsWith": "orders/",
            "subjectEndsWith": ".jpg",
            "advancedFilters": [
                { "operatorType": "StringIn", "key": "data.color", "values": ["red"] },
                { "operatorType": "NumberGreaterThan", "key": "data.n", "value": 1 },
                { "operatorType": "NumberNotIn", "key": "data.none", "values": [1] },
                { "operatorType": "StringContains", "key": "data.tags", "values": ["a"] },
                { "operatorType": "BoolEquals", "key": "data.b", "value": true },
                { "operatorType": "IsNullOrUndefined", "key": "data.z" },
                { "operatorType": "StringIn", "key": "data.o", "values": ["x"] },
            ],
        });
        let spec = FilterSpec::check(&spec, "").unwrap();
        let filter = Filter::new(&spec, FilterRules::default());
        let data = r#"{"color":"Blue","n":1.10,"tags":["a",{}],"b":true,"z":null,"o":{}}"#;
        let event = Event {
            id: "1".into(),
            source: None,
            event_type: "Order.Placed".into(),
            subject: Some("orders/1".into()),
            time: None,
            data_version: None,
            data_content_type: None,
            data_schema: None,
            extensions: Vec::new(),
            data: Data::Json(data.into()),
        };
        let event = FilterEvent::new(&event, "/topics/orders");
        let verdicts = filter.verdicts(&event);
        let text = |text: &'static str| Found::Text(text.into());
        let array = Found::Array {
            comparable: 1,
            is_looked_into: false,
        };
        let expected = [
            (Clause::IncludedEventTypes, true, text("Order.Placed")),
            (Clause::SubjectBeginsWith, true, text("orders/1")),
            (Clause::SubjectEndsWith, false, text("orders/1")),
            (Clause::AdvancedFilters(0), false, text("Blue")),
            (
                Clause::AdvancedFilters(1),
                true,
                Found::Number("1.10".into()),
            ),
            (Clause::AdvancedFilters(2), true, Found::Absent),
            (Clause::AdvancedFilters(3), false, array),
            (Clause::AdvancedFilters(4), true, Found::Bool(true)),
            (Clause::AdvancedFilters(5), true, Found::Null),
            (Clause::AdvancedFilters(6), false, Found::Object),
        ];
        let expected = expected.map(|(clause, holds, found)| ClauseVerdict {
            clause,
            holds,
            found,
        });
        assert_eq!(verdicts, expected);
        let first = verdicts.iter().find(|verdict| !verdict.holds).unwrap();
        assert_eq!(filter.matches(&event), Err(first.clause), "they agree");
        let all = Filter::new(&FilterSpec::default(), FilterRules::default());
        assert_eq!(all.verdicts(&event), []);
    }
}
