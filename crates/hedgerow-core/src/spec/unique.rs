//! Finds members that stand twice in an object of a JSON text. Readers take the one or the other of them, so what somebody meant
//! is not known.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::limits;
use crate::text::beginning;

/// The path of the first member that stands twice, such as `retryPolicy.maxDeliveryAttempts`; `None` if there is none, or if
/// the text is no JSON up to it.
pub(super) fn first_double(json: &[u8]) -> Option<String> {
    let double = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let looked_at = Place {
        above: None,
        step: Step::Root,
        double: &double,
    };
    // That it ends there is the error, if one was found.
    let _ = looked_at.deserialize(&mut deserializer);
    double.into_inner()
}

/// A value in the text, and how it is reached.
#[derive(Clone, Copy)]
struct Place<'p> {
    above: Option<&'p Place<'p>>,
    step: Step<'p>,
    double: &'p RefCell<Option<String>>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Member(&'p str),
    Entry(usize),
}

impl Place<'_> {
    fn path(&self) -> String {
        let mut path = self.above.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Member(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(beginning(name, limits::NAME_IN_MESSAGE_BYTES_MAX));
            }
            Step::Entry(index) => path = format!("{path}[{index}]"),
        }
        path
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let member = Place {
                above: Some(&self),
                step: Step::Member(&name),
                double: self.double,
            };
            if names.contains(&name) {
                self.double.replace(Some(member.path()));
                return Err(A::Error::custom("stands there twice"));
            }
            members.next_value_seed(member)?;
            names.insert(name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut index = 0;
        let entry = |index| Place {
            above: Some(&self),
            step: Step::Entry(index),
            double: self.double,
        };
        while entries.next_element_seed(entry(index))?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_double_is_found_with_its_path() {
        for (json, expect) in [
            ("{}", None),
            (r#"{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}"#, None),
            (
                r#"{"a":1e400,"b":-0.10,"c":123456789012345678901234567890,"d":null}"#,
                None,
            ),
            (r#"{"a":1,"a":1}"#, Some("a")),
            (
                r#"{"a":{"b":[0,{"c":1,"d":2,"\u0063":3}]}}"#,
                Some("a.b[1].c"),
            ),
            (r#"[{"x":1},{"x":1,"x":2}]"#, Some("[1].x")),
            (r#"{"a":1,"A":1}"#, None),
            (r#"{"a":1,"a":"#, Some("a")),
            (r#"{"a":1"#, None),
        ] {
            assert_eq!(first_double(json.as_bytes()).as_deref(), expect, "{json}");
        }
    }
}
