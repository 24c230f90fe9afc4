//! A table of cases: what is given and what is expected, in JSON. Values stay text until a kind reads them: they carry
//! numbers that no float holds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::kinds::NOT_COMPARED;
use crate::read_values::expand;

/// The form of the files; the names say which specification they are from.
const FORMATS: [&str; 2] = ["hedgerow-delivery-cases/1", "hedgerow-probe-cases/1"];

/// Kinds in whose tables long texts and lists are abbreviated.
const ABBREVIATED: [&str; 2] = ["delivery_attributes", "filter_config"];

/// The members of a result, or those expected of it.
pub type Members = BTreeMap<String, Value>;

/// One row of a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Stable.
    pub id: String,
    /// Which rule it asks.
    pub kind: String,
    #[allow(dead_code)] // For people.
    refs: Vec<String>,
    /// For people.
    pub title: String,
    input: Box<RawValue>,
    /// What must be among the members of the result.
    pub expect: Members,
}

impl Case {
    /// The input.
    ///
    /// # Errors
    ///
    /// A member that `T` does not know fails the case.
    pub fn input<'a, T: Deserialize<'a>>(&'a self) -> Result<T, String> {
        serde_json::from_str(self.input.get())
            .map_err(|error| format!("the input is not understood: {error}"))
    }

    /// What is expected and differs in a result, a sentence each.
    #[must_use]
    pub fn differences(&self, result: &Members) -> Vec<String> {
        let differs = |(name, expected): (&String, &Value)| match result.get(name) {
            Some(actual) if same(actual, &self.written_out(expected)) => None,
            Some(actual) => Some(format!("{name} is {actual}, not {expected}")),
            None => Some(format!("{name} is missing, not {expected}")),
        };
        let is_compared = |(name, _): &(&String, &Value)| {
            !NOT_COMPARED.contains(&(self.kind.as_str(), name.as_str()))
        };
        let expected = self.expect.iter().filter(is_compared);
        expected.filter_map(differs).collect()
    }
}

impl Case {
    fn written_out<'e>(&self, expected: &'e Value) -> Cow<'e, Value> {
        if !ABBREVIATED.contains(&self.kind.as_str()) {
            return Cow::Borrowed(expected);
        }
        let written_out = expand(expected.clone()).map(Cow::Owned);
        written_out.unwrap_or(Cow::Borrowed(expected))
    }
}

/// What a kind makes of a case.
pub enum Run {
    /// The members of the result.
    Result(Members),
    /// The rule is not built yet.
    LeftOut(&'static str),
}

impl Run {
    /// The members of a JSON object.
    ///
    /// # Panics
    ///
    /// If it is none.
    #[must_use]
    pub fn result(value: Value) -> Self {
        let Value::Object(members) = value else {
            panic!("a result is an object")
        };
        Self::Result(members.into_iter().collect())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    format: String,
    #[serde(default)]
    #[allow(dead_code)] // For people.
    title: Option<String>,
    cases: Vec<Case>,
}

/// Reads the cases of a file.
///
/// # Errors
///
/// If it cannot be read, or is no table of this form.
pub fn read(file: &Path) -> Result<Vec<Case>, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
    let table: Table = serde_json::from_str(&text).map_err(|error| named(&error))?;
    if !FORMATS.contains(&table.format.as_str()) {
        let format = &table.format;
        let known = FORMATS.join("\" or \"");
        return Err(named(&format!(
            "the format is \"{format}\", not \"{known}\""
        )));
    }
    Ok(table.cases)
}

/// Equal, where 1 and 1.0 are one number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}
