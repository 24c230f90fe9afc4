//! Takes a JSON object apart, member by member, and remembers the path for the error.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::{SpecError, UNSUPPORTED_MEMBER};
use crate::limits;
use crate::text::beginning;

/// The members of an object that have not been taken yet.
pub(super) struct Fields<'a> {
    path: String,
    members: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Begins with the object at `path`.
    pub fn open(value: &'a Value, path: &str) -> Result<Self, SpecError> {
        let Value::Object(members) = value else {
            return Err(SpecError::new(path, "must be an object"));
        };
        Ok(Self {
            path: path.to_owned(),
            members,
            known: Vec::new(),
        })
    }

    /// The path of a member.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// An error about a member.
    pub fn error(&self, name: &str, message: impl Into<String>) -> SpecError {
        SpecError::new(self.path(name), message)
    }

    /// A member of any type.
    pub fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.push(name);
        self.members.get(name).filter(|value| !value.is_null())
    }

    pub fn object(&mut self, name: &'static str) -> Result<Option<Fields<'a>>, SpecError> {
        let path = self.path(name);
        self.value(name)
            .map(|value| Fields::open(value, &path))
            .transpose()
    }

    pub fn list(&mut self, name: &'static str) -> Result<Option<&'a [Value]>, SpecError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(self.error(name, "must be a list")),
        }
    }

    pub fn text(&mut self, name: &'static str) -> Result<Option<&'a str>, SpecError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error(name, "must be a text")),
        }
    }

    pub fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, SpecError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.error(name, "must be true or false")),
        }
    }

    pub fn integer<T>(
        &mut self,
        name: &'static str,
        range: &RangeInclusive<T>,
    ) -> Result<Option<T>, SpecError>
    where
        T: TryFrom<u64> + PartialOrd + Display,
    {
        let path = self.path(name);
        self.value(name)
            .map(|value| integer(value, path, range))
            .transpose()
    }

    /// Refuses members that have a meaning in the vendor's API and none here.
    pub fn refuse(&mut self, names: &[&'static str]) -> Result<(), SpecError> {
        for name in names {
            if self.value(name).is_some() {
                return Err(self.error(name, UNSUPPORTED_MEMBER));
            }
        }
        Ok(())
    }

    /// Refuses what is left.
    pub fn finish(self) -> Result<(), SpecError> {
        let unknown = self
            .members
            .keys()
            .find(|name| !self.known.contains(&name.as_str()));
        match unknown {
            None => Ok(()),
            Some(name) => {
                let known = self.known.join(", ");
                let name = beginning(name, limits::NAME_IN_MESSAGE_BYTES_MAX);
                Err(self.error(name, format!("is unknown here; known are {known}")))
            }
        }
    }
}

/// An integer within its bounds; a number with a fraction or an exponent is none.
pub(super) fn integer<T>(
    value: &Value,
    path: String,
    range: &RangeInclusive<T>,
) -> Result<T, SpecError>
where
    T: TryFrom<u64> + PartialOrd + Display,
{
    let number = value.as_u64().and_then(|number| T::try_from(number).ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let message = format!(
                "must be an integer from {} to {}",
                range.start(),
                range.end()
            );
            SpecError::new(path, message)
        })
}
