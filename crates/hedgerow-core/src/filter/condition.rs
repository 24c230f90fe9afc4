//! One advanced filter, ready to be asked: what each operator says to a value, to an array, and to none (ED-091 to ED-094,
//! ED-097, ED-100, ED-111 to ED-113).

use std::cmp::Ordering;

use super::table::Slot;
use super::value::{Scalar, Value};
use super::{FilterRules, fold};
use crate::decimal::{Decimal, OwnedDecimal};
use crate::spec::{AdvancedFilter, Operands, Operator};

/// An advanced filter.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    /// Where its value is, in the filter's own table.
    pub(super) slot: Slot,
    pub(super) test: Test,
    /// Whether it holds where the test does not (ED-094).
    pub(super) is_negated: bool,
    /// Whether it holds where there is no value that fits.
    matches_missing: bool,
    looks_into_arrays: bool,
}

/// What is asked of a value.
#[derive(Debug, Clone)]
pub(super) enum Test {
    /// Equal to one of these, which are ascending.
    NumberIn(Vec<OwnedDecimal>),
    /// Compares with this one in one of two ways.
    Number(OwnedDecimal, [Ordering; 2]),
    /// Inside one of these, ends included.
    InRange(Vec<(OwnedDecimal, OwnedDecimal)>),
    Bool(bool),
    /// Equal to one of these, which are folded and ascending.
    TextIn(Vec<Box<str>>),
    /// One of these, which are folded, stands there so.
    Text(Vec<Box<str>>, Where),
    /// There is a value, of any kind.
    IsThere,
}

/// Where in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Anywhere,
    Begin,
    End,
}

impl Condition {
    pub(super) fn new(
        filter: &AdvancedFilter,
        slot: Slot,
        looks_into_arrays: bool,
        rules: FilterRules,
    ) -> Self {
        let operator = filter.operator();
        let matches_missing = match operator {
            Operator::NumberNotIn | Operator::StringNotIn => true,
            Operator::NumberNotInRange => rules.number_not_in_range_matches_missing,
            _ => false,
        };
        Self {
            slot,
            test: test(operator, filter.operands()),
            is_negated: matches!(
                operator,
                Operator::NumberNotIn
                    | Operator::NumberNotInRange
                    | Operator::StringNotContains
                    | Operator::StringNotBeginsWith
                    | Operator::StringNotEndsWith
                    | Operator::StringNotIn
                    | Operator::IsNullOrUndefined
            ),
            matches_missing,
            looks_into_arrays,
        }
    }

    /// Whether it looks at the elements of an array.
    pub(super) const fn looks_into_arrays(&self) -> bool {
        self.looks_into_arrays
    }

    /// Whether it holds for the value at its key.
    pub(super) fn holds(&self, value: &Value<'_>) -> bool {
        if let Test::IsThere = self.test {
            let is_there = !matches!(value, Value::Absent | Value::Null);
            return is_there != self.is_negated;
        }
        match value {
            Value::Array(_) if !self.looks_into_arrays => false,
            Value::Array(array) => {
                let mut fitting = array
                    .scalars()
                    .iter()
                    .filter_map(|one| self.test.passes(one));
                fitting.any(|passes| passes) != self.is_negated
            }
            Value::Scalar(scalar) => self
                .test
                .passes(scalar)
                .map_or(self.matches_missing, |passes| passes != self.is_negated),
            Value::Absent | Value::Null | Value::Object => self.matches_missing,
        }
    }
}

fn test(operator: Operator, operands: &Operands) -> Test {
    match operands {
        Operands::Numbers(numbers) => {
            let mut numbers: Vec<_> = numbers.iter().map(decimal).collect();
            numbers.sort_unstable_by(|a, b| a.get().cmp(&b.get()));
            numbers.dedup();
            Test::NumberIn(numbers)
        }
        Operands::Number(number) => {
            use Ordering::{Equal, Greater, Less};
            let ways = match operator {
                Operator::NumberLessThan => [Less, Less],
                Operator::NumberLessThanOrEquals => [Less, Equal],
                Operator::NumberGreaterThan => [Greater, Greater],
                _ => [Greater, Equal],
            };
            Test::Number(decimal(number), ways)
        }
        Operands::Ranges(ranges) => {
            let ranges = ranges.iter();
            Test::InRange(
                ranges
                    .map(|(low, high)| (decimal(low), decimal(high)))
                    .collect(),
            )
        }
        Operands::Bool(value) => Test::Bool(*value),
        Operands::Texts(texts) => {
            let mut texts: Vec<Box<str>> = texts.iter().map(|text| fold(text).into()).collect();
            texts.sort_unstable();
            texts.dedup();
            let place = match operator {
                Operator::StringContains | Operator::StringNotContains => Where::Anywhere,
                Operator::StringBeginsWith | Operator::StringNotBeginsWith => Where::Begin,
                Operator::StringEndsWith | Operator::StringNotEndsWith => Where::End,
                _ => return Test::TextIn(texts),
            };
            Test::Text(texts, place)
        }
        Operands::None => Test::IsThere,
    }
}

fn decimal(number: &serde_json::Number) -> OwnedDecimal {
    let decimal = Decimal::parse(number.as_str());
    decimal.expect("a JSON number is one").into()
}

impl Test {
    /// What it says to a value; `None` if the value's type does not fit.
    fn passes(&self, value: &Scalar<'_>) -> Option<bool> {
        match self {
            Self::NumberIn(numbers) => {
                let number = value.number()?;
                Some(
                    numbers
                        .binary_search_by(|one| one.get().cmp(&number))
                        .is_ok(),
                )
            }
            Self::Number(operand, ways) => {
                Some(ways.contains(&value.number()?.cmp(&operand.get())))
            }
            Self::InRange(ranges) => {
                let number = value.number()?;
                let is_inside = |(low, high): &(OwnedDecimal, OwnedDecimal)| {
                    low.get() <= number && number <= high.get()
                };
                Some(ranges.iter().any(is_inside))
            }
            Self::Bool(wanted) => Some(value.boolean? == *wanted),
            Self::TextIn(texts) => {
                let text = value.text.as_deref()?;
                Some(texts.binary_search_by(|one| (**one).cmp(text)).is_ok())
            }
            Self::Text(texts, place) => {
                let text = value.text.as_deref()?;
                Some(texts.iter().any(|one| match place {
                    Where::Anywhere => text.contains(&**one),
                    Where::Begin => text.starts_with(&**one),
                    Where::End => text.ends_with(&**one),
                }))
            }
            Self::IsThere => None,
        }
    }
}
