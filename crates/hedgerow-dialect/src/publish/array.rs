//! Reads a JSON array of events, whatever they look like.
//!
//! A fault of one event does not end the pass: all of them are found, and none is stored (ED-041). Only when the whole
//! body is larger than one event may be is it scanned a second time, for the sizes of its events.

use std::fmt;

use hedgerow_core::limits;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Element;
use crate::event_grid::{Detail, PublishError};

/// Reads one element of an array.
pub(crate) trait ReadElement<'b> {
    /// An event, or what is wrong with it. A value is read to its end, whatever it is.
    fn read<D: Deserializer<'b>>(
        &mut self,
        json: D,
    ) -> Result<Result<Element<'b>, String>, D::Error>;
}

/// Reads all elements of the array that `text` is.
///
/// # Errors
///
/// What is no array; faults of its elements; too many or too large ones.
pub(crate) fn read<'b>(
    text: &'b str,
    schema: &'static str,
    element: &mut impl ReadElement<'b>,
) -> Result<Vec<Element<'b>>, PublishError> {
    check_start(text, '[', schema)?;
    let mut elements = Elements {
        read: element,
        valid: Vec::new(),
        faults: Vec::new(),
        count: 0,
        are_too_many: false,
        invalid: 0,
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let read = json
        .deserialize_seq(&mut elements)
        .and_then(|()| json.end());
    let Elements {
        valid,
        faults,
        count,
        are_too_many,
        invalid,
        ..
    } = elements;
    if are_too_many {
        return Err(PublishError::too_many().of(count));
    }
    read.map_err(|error| not_json(&error))?;
    if text.len() > limits::EVENT_BYTES_MAX {
        check_sizes(text).map_err(|error| error.of(count))?;
    }
    if invalid > 0 {
        return Err(PublishError::events(schema, faults, invalid, count).of(count));
    }
    Ok(valid)
}

pub(crate) fn not_json(error: &serde_json::Error) -> PublishError {
    PublishError::body(format!("The body is not valid JSON: {error}."))
}

/// Says what the vendor says when a body does not begin as it must (ED-031, ED-035).
pub(crate) fn check_start(text: &str, wanted: char, schema: &str) -> Result<(), PublishError> {
    let first = text
        .trim_start_matches([' ', '\t', '\r', '\n'])
        .chars()
        .next();
    if first == Some(wanted) {
        return Ok(());
    }
    let token = |first| match first {
        None => "None",
        Some('[') => "StartArray",
        Some('{') => "StartObject",
        Some('"') => "String",
        Some('t' | 'f') => "Boolean",
        Some('n') => "Null",
        Some(_) => "Other",
    };
    Err(PublishError::body(format!(
        "This topic is configured to receive events in the '{schema}' schema. \
         Token expected: {}, token received: {}.",
        token(Some(wanted)),
        token(first)
    )))
}

/// Each event's own JSON text is within its limit (ED-058).
fn check_sizes(text: &str) -> Result<(), PublishError> {
    let events: Vec<&RawValue> = serde_json::from_str(text).expect("the body was read before");
    for (index, event) in events.iter().enumerate() {
        check_size(index, event.get().len())?;
    }
    Ok(())
}

/// An event of this size is within its limit.
pub(crate) fn check_size(index: usize, bytes: usize) -> Result<(), PublishError> {
    if bytes > limits::EVENT_BYTES_MAX {
        return Err(PublishError::event_too_large(index, bytes));
    }
    Ok(())
}

/// Collects the elements of the array.
struct Elements<'r, 'b, R> {
    read: &'r mut R,
    valid: Vec<Element<'b>>,
    /// The first faults.
    faults: Vec<Detail>,
    /// Elements so far.
    count: usize,
    /// They are more than a request may have.
    are_too_many: bool,
    /// Those of them with a fault.
    invalid: usize,
}

impl<'b, R> Elements<'_, 'b, R> {
    fn add(&mut self, element: Result<Element<'b>, String>) {
        let index = self.count;
        self.count += 1;
        match element {
            // Once one is invalid nobody will ask for the others.
            Ok(element) if self.invalid == 0 => self.valid.push(element),
            Ok(_) => {}
            Err(message) => {
                self.invalid += 1;
                self.valid = Vec::new();
                if self.faults.len() < limits::INVALID_EVENTS_LISTED_MAX {
                    self.faults.push(Detail::of_event(index, &message));
                }
            }
        }
    }
}

impl<'b, R: ReadElement<'b>> Visitor<'b> for &mut Elements<'_, 'b, R> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element_seed(Seed(&mut *self.read))? {
            self.add(element);
            if self.count > limits::EVENTS_PER_REQUEST_MAX {
                self.are_too_many = true;
                // They are counted, and not read.
                while elements.next_element::<IgnoredAny>()?.is_some() {
                    self.count += 1;
                }
                return Ok(());
            }
        }
        Ok(())
    }
}

struct Seed<'r, R>(&'r mut R);

impl<'b, R: ReadElement<'b>> DeserializeSeed<'b> for Seed<'_, R> {
    type Value = Result<Element<'b>, String>;

    fn deserialize<D: Deserializer<'b>>(self, json: D) -> Result<Self::Value, D::Error> {
        self.0.read(json)
    }
}

/// Visits of everything but what a visitor wants, each of which gives the same value. Values are read to their end, so
/// that what follows is found.
macro_rules! otherwise {
    ($value:expr, $($visit:ident)*) => { $($crate::publish::array::otherwise!(@$visit $value);)* };
    (@scalars $value:expr) => {
        fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Self::Value, E> { Ok($value) }
        fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Self::Value, E> { Ok($value) }
        fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Self::Value, E> { Ok($value) }
        fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Self::Value, E> { Ok($value) }
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> { Ok($value) }
    };
    (@text $value:expr) => {
        fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Self::Value, E> { Ok($value) }
    };
    (@list $value:expr) => {
        fn visit_seq<A: serde::de::SeqAccess<'b>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<serde::de::IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
    (@object $value:expr) => {
        fn visit_map<A: serde::de::MapAccess<'b>>(self, mut object: A) -> Result<Self::Value, A::Error> {
            use serde::de::IgnoredAny;
            while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
}
pub(crate) use otherwise;
