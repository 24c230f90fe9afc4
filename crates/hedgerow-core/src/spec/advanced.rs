//! One advanced filter, as declared (ED-096 to ED-099, ED-117).
//!
//! Numbers keep the text they were declared with. Declarations have them as JSON numbers; what is stored has them as texts,
//! because stored JSON is read by ways that hold numbers in binary.

use serde_json::{Map, Number, Value, json};

use super::SpecError;
use super::operator::{OperandKind, Operator};
use crate::decimal::Decimal;
use crate::filter::Key;
use crate::limits;
use crate::text::beginning;

/// A condition on the value at one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvancedFilter {
    operator: Operator,
    key: String,
    operands: Operands,
}

/// What a value is compared with; of the kind that the operator takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operands {
    /// One or more.
    Numbers(Vec<Number>),
    /// One.
    Number(Number),
    /// One or more ranges, both ends inside; low is not above high.
    Ranges(Vec<(Number, Number)>),
    /// One truth value.
    Bool(bool),
    /// One or more.
    Texts(Vec<String>),
    /// None.
    None,
}

impl Operands {
    /// How many there are; a range is one (ED-116).
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Ranges(ranges) => ranges.len(),
            Self::Texts(texts) => texts.len(),
            Self::Number(_) | Self::Bool(_) => 1,
            Self::None => 0,
        }
    }
}

/// Whose declaration it is, and so how numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A user's: as JSON numbers.
    Declared,
    /// The catalog's, of this version or of an earlier one that refused less: as texts.
    Stored,
}

impl AdvancedFilter {
    /// The operator.
    #[must_use]
    pub const fn operator(&self) -> Operator {
        self.operator
    }

    /// The key, as declared.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operands.
    #[must_use]
    pub const fn operands(&self) -> &Operands {
        &self.operands
    }

    pub(super) fn check(value: &Value, path: &str, form: Form) -> Result<Self, SpecError> {
        let members = Members::open(value, path)?;
        let operator = match members.get("operatorType")? {
            Some(Value::String(name)) => Operator::named(name),
            Some(_) => return Err(members.error("operatorType", "must be a text")),
            None => {
                let message = "is required; it names the operator, such as \"StringIn\"";
                return Err(members.error("operatorType", message));
            }
        };
        let Some(operator) = operator else {
            let known: Vec<_> = Operator::ALL.iter().map(|known| known.as_str()).collect();
            let message = format!("is no operator; known are {}", known.join(", "));
            return Err(members.error("operatorType", message));
        };
        let key = members.key()?;
        let operands = members.operands(operator, form)?;
        members.finish()?;
        Ok(Self {
            operator,
            key,
            operands,
        })
    }

    pub(super) fn to_json(&self, form: Form) -> Value {
        let number = |number: &Number| match form {
            Form::Declared => Value::Number(number.clone()),
            Form::Stored => Value::String(number.as_str().to_owned()),
        };
        let mut json = json!({ "operatorType": self.operator.as_str(), "key": self.key });
        match &self.operands {
            Operands::Numbers(numbers) => json["values"] = numbers.iter().map(number).collect(),
            Operands::Ranges(ranges) => {
                let pair = |(low, high)| Value::Array(vec![number(low), number(high)]);
                json["values"] = ranges.iter().map(|(low, high)| pair((low, high))).collect();
            }
            Operands::Texts(texts) => json["values"] = json!(texts),
            Operands::Number(value) => json["value"] = number(value),
            Operands::Bool(value) => json["value"] = json!(value),
            Operands::None => {}
        }
        json
    }
}

/// The members of an advanced filter, whose names may be in any case (ED-099). One that is null counts as absent.
struct Members<'a> {
    path: &'a str,
    members: &'a Map<String, Value>,
}

const KNOWN: [&str; 4] = ["operatorType", "key", "value", "values"];

impl<'a> Members<'a> {
    fn open(value: &'a Value, path: &'a str) -> Result<Self, SpecError> {
        match value {
            Value::Object(members) => Ok(Self { path, members }),
            _ => Err(SpecError::new(path, "must be an object")),
        }
    }

    fn error(&self, name: &str, message: impl Into<String>) -> SpecError {
        SpecError::new(format!("{}.{name}", self.path), message)
    }

    fn get(&self, name: &str) -> Result<Option<&'a Value>, SpecError> {
        let mut named = self
            .members
            .iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name));
        let value = named.next().map(|(_, value)| value);
        if named.next().is_some() {
            return Err(self.error(name, "stands there twice, in two spellings"));
        }
        Ok(value.filter(|value| !value.is_null()))
    }

    fn key(&self) -> Result<String, SpecError> {
        let key = match self.get("key")? {
            Some(Value::String(key)) if !key.is_empty() => key,
            Some(Value::String(_)) => return Err(self.error("key", "must not be empty")),
            Some(_) => return Err(self.error("key", "must be a text")),
            None => return Err(self.error("key", "is required")),
        };
        if key.len() > limits::FILTER_TEXT_BYTES_MAX {
            let max = limits::FILTER_TEXT_BYTES_MAX;
            return Err(self.error("key", format!("must not be longer than {max} bytes")));
        }
        if Key::parse(key).levels() > limits::FILTER_KEY_LEVELS_MAX {
            let max = limits::FILTER_KEY_LEVELS_MAX;
            return Err(self.error("key", format!("must not have more than {max} levels")));
        }
        Ok(key.clone())
    }

    fn operands(&self, operator: Operator, form: Form) -> Result<Operands, SpecError> {
        let kind = operator.operand_kind();
        let wanted = kind.member();
        let name = operator.as_str();
        for member in ["value", "values"] {
            if wanted != Some(member) && self.get(member)?.is_some() {
                let message = match wanted {
                    Some(wanted) => format!("does not belong to {name}, which takes \"{wanted}\""),
                    None => format!("does not belong to {name}, which takes no operand"),
                };
                return Err(self.error(member, message));
            }
        }
        let Some(member) = wanted else {
            return Ok(Operands::None);
        };
        let Some(value) = self.get(member)? else {
            return Err(self.error(member, format!("is required for {name}")));
        };
        let number = |value, member: &str| self.number(value, member, form);
        Ok(match kind {
            OperandKind::None => Operands::None,
            OperandKind::Number => Operands::Number(number(value, "value")?),
            OperandKind::Bool => match value {
                Value::Bool(value) => Operands::Bool(*value),
                _ => return Err(self.error("value", "must be true or false")),
            },
            OperandKind::Numbers => Operands::Numbers(self.list(value, number)?),
            OperandKind::Ranges => {
                Operands::Ranges(self.list(value, |value, member| self.range(value, member, form))?)
            }
            OperandKind::Texts { may_be_empty } => {
                Operands::Texts(self.list(value, |value, member| {
                    self.text(value, member, may_be_empty)
                })?)
            }
        })
    }

    fn list<T>(
        &self,
        value: &'a Value,
        entry: impl Fn(&'a Value, &str) -> Result<T, SpecError>,
    ) -> Result<Vec<T>, SpecError> {
        match value {
            Value::Array(list) if !list.is_empty() => list
                .iter()
                .enumerate()
                .map(|(index, value)| entry(value, &format!("values[{index}]")))
                .collect(),
            Value::Array(_) => Err(self.error("values", "must have an entry")),
            _ => Err(self.error("values", "must be a list")),
        }
    }

    fn number(&self, value: &Value, member: &str, form: Form) -> Result<Number, SpecError> {
        let number = match (value, form) {
            (Value::Number(number), _) => Some(number.clone()),
            (Value::String(text), Form::Stored) => text.parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            return Err(self.error(member, "must be a number"));
        };
        let exponent = Decimal::parse(number.as_str()).map(|decimal| decimal.exponent());
        let is_comparable = exponent.is_some_and(|exponent| {
            exponent.unsigned_abs() <= limits::FILTER_EXPONENT_MAX.unsigned_abs()
        });
        if is_comparable {
            Ok(number)
        } else {
            Err(self.error(member, "must be a number whose power of ten is below 10^15"))
        }
    }

    fn range(
        &self,
        value: &Value,
        member: &str,
        form: Form,
    ) -> Result<(Number, Number), SpecError> {
        let Value::Array(ends) = value else {
            return Err(self.error(member, "must be a range, such as [1, 10]"));
        };
        let [low, high] = ends.as_slice() else {
            return Err(self.error(member, "must be the two ends of a range, such as [1, 10]"));
        };
        let end = |value, index| self.number(value, &format!("{member}[{index}]"), form);
        let (low, high) = (end(low, 0)?, end(high, 1)?);
        if Decimal::parse(low.as_str()) > Decimal::parse(high.as_str()) {
            return Err(self.error(member, "must have its lower end first"));
        }
        Ok((low, high))
    }

    fn text(&self, value: &Value, member: &str, may_be_empty: bool) -> Result<String, SpecError> {
        let Value::String(text) = value else {
            return Err(self.error(member, "must be a text"));
        };
        if text.is_empty() && !may_be_empty {
            return Err(self.error(member, "must not be empty"));
        }
        if text.encode_utf16().count() > limits::FILTER_OPERAND_UNITS_MAX {
            let max = limits::FILTER_OPERAND_UNITS_MAX;
            return Err(self.error(member, format!("must not be longer than {max} characters")));
        }
        Ok(text.clone())
    }

    fn finish(&self) -> Result<(), SpecError> {
        let is_known = |name: &String| KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name));
        match self.members.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                let known = KNOWN.join(", ");
                let message = format!("is unknown here; known are {known}");
                let name = beginning(name, limits::NAME_IN_MESSAGE_BYTES_MAX);
                Err(self.error(name, message))
            }
        }
    }
}
