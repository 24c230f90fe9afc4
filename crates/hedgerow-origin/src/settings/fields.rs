//! Reads members of JSON objects, and collects all that is wrong with them instead of stopping at the first.

use serde_json::{Map, Value};

use super::problem::{Code, Problems};

/// Reads members, and collects what is wrong with them. What is not given stays as it is.
#[derive(Default)]
pub(crate) struct Fields {
    pub(crate) problems: Problems,
}

impl Fields {
    /// A member that is given; `null` is as if it were not.
    #[allow(clippy::unused_self)] // It reads as its neighbours do.
    pub(crate) fn member<'v>(
        &self,
        members: &'v Map<String, Value>,
        name: &str,
    ) -> Option<&'v Value> {
        members.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn object<'v>(
        &mut self,
        value: &'v Value,
        field: &str,
    ) -> Option<&'v Map<String, Value>> {
        let members = value.as_object();
        if members.is_none() {
            self.wrong_type(field, "an object");
        }
        members
    }

    pub(crate) fn flag(
        &mut self,
        members: &Map<String, Value>,
        path: &str,
        name: &str,
        flag: &mut bool,
    ) {
        match self.member(members, name) {
            None => {}
            Some(Value::Bool(given)) => *flag = *given,
            Some(_) => self.wrong_type(joined(path, name), "true or false"),
        }
    }

    pub(crate) fn text(
        &mut self,
        members: &Map<String, Value>,
        path: &str,
        name: &str,
        text: &mut String,
    ) {
        match self.member(members, name) {
            None => {}
            Some(Value::String(given)) => text.clone_from(given),
            Some(_) => self.wrong_type(joined(path, name), "a text"),
        }
    }

    pub(crate) fn number(
        &mut self,
        members: &Map<String, Value>,
        path: &str,
        name: &str,
        code: Code,
        number: &mut u32,
    ) {
        let mut given = None;
        self.whole(members, path, name, code, &mut given);
        *number = given.unwrap_or(*number);
    }

    /// A whole number. One that is none, or is negative, is out of its range.
    pub(crate) fn whole(
        &mut self,
        members: &Map<String, Value>,
        path: &str,
        name: &str,
        code: Code,
        number: &mut Option<u32>,
    ) {
        match self.member(members, name) {
            None => {}
            Some(Value::Number(given)) => {
                *number = whole(given);
                if number.is_none() {
                    let message = format!("must be a whole number of its range, and is {given}");
                    self.problems.add(code, joined(path, name), message);
                }
            }
            Some(_) => self.wrong_type(joined(path, name), "a number"),
        }
    }

    /// A list of whole numbers; `None`, and a problem, if it is none.
    pub(crate) fn numbers(&mut self, value: &Value, field: &str, code: Code) -> Option<Vec<u32>> {
        let Value::Array(values) = value else {
            self.wrong_type(field, "a list of numbers");
            return None;
        };
        let mut numbers = Vec::new();
        for value in values {
            let Value::Number(given) = value else {
                self.wrong_type(field, "a list of numbers");
                return None;
            };
            let Some(number) = whole(given) else {
                let message = format!("must be whole numbers of their range, and has {given}");
                self.problems.add(code, field, message);
                return None;
            };
            numbers.push(number);
        }
        Some(numbers)
    }

    pub(crate) fn one_of<T: Copy>(
        &mut self,
        members: &Map<String, Value>,
        path: &str,
        name: &str,
        code: Code,
        values: &[(&str, T)],
        value: &mut T,
    ) {
        let Some(given) = self.member(members, name) else {
            return;
        };
        let Value::String(given) = given else {
            self.wrong_type(joined(path, name), "a text");
            return;
        };
        if let Some((_, found)) = values.iter().find(|(name, _)| name == given) {
            *value = *found;
            return;
        }
        let names: Vec<String> = values
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let message = format!("must be {}", names.join(" or "));
        self.problems.add(code, joined(path, name), message);
    }

    pub(crate) fn wrong_type(&mut self, field: impl Into<String>, wanted: &str) {
        let message = format!("must be {wanted}");
        self.problems.add(Code::WrongType, field, message);
    }
}

/// A number without parts, also when it is written as 30.0; more than a `u32` holds is as much as it holds, which is above
/// every range.
fn whole(number: &serde_json::Number) -> Option<u32> {
    if let Some(number) = number.as_u64() {
        return Some(u32::try_from(number).unwrap_or(u32::MAX));
    }
    let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
    #[allow(clippy::cast_sign_loss)] // Not negative, and above the largest it is the largest.
    (number >= 0.0).then_some(number as u32)
}

/// The path of a member.
pub(crate) fn joined(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
