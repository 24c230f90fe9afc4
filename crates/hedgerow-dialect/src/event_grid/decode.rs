//! From the body of a publish request to events, Event Grid schema (sections 1.5, 1.6, 1.9).
//!
//! The body is read in one pass with everything borrowed (design D10). A fault of one event does not end the pass: all of
//! them are found, and none is stored (ED-041). Only when the whole body is larger than one event may be is it scanned a
//! second time, for the sizes of its events.
//!
//! The values of `data` and of unknown members are skipped without recursion, so depth of nesting costs no stack.

mod member;

use std::fmt;

use hedgerow_core::event::Event;
use hedgerow_core::limits;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::{Detail, PublishError};
use member::EventBuilder;

/// What decoding depends on, besides the body.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// The `Content-Type` header. Only a CloudEvents media type matters (ED-032).
    pub content_type: Option<&'r str>,
    /// The full path of the topic, which a published `topic` must equal.
    pub topic_path: &'r str,
}

/// Reads all events of a request, or says why none of them is taken.
///
/// # Errors
///
/// `BadRequest` for what is no valid request, with the faulty events in the details, and `RequestEntityTooLarge`.
pub fn decode<'b>(body: &'b [u8], request: &Request<'_>) -> Result<Vec<Event<'b>>, PublishError> {
    if body.len() > limits::PUBLISH_BODY_BYTES_MAX {
        return Err(PublishError::body_too_large());
    }
    if request.content_type.is_some_and(is_cloud_events) {
        let message = "This topic takes the 'EventGridSchema' schema, not CloudEvents.";
        return Err(PublishError::body(message));
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| PublishError::body(format!("The body is not valid UTF-8: {error}.")))?;
    check_start(text)?;
    let mut events = Events {
        request,
        valid: Vec::new(),
        faults: Vec::new(),
        count: 0,
        invalid: 0,
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let read = json.deserialize_seq(&mut events).and_then(|()| json.end());
    if events.count > limits::EVENTS_PER_REQUEST_MAX {
        let max = limits::EVENTS_PER_REQUEST_MAX;
        return Err(PublishError::too_large(format!(
            "The request has more than {max} events."
        )));
    }
    read.map_err(|error| PublishError::body(format!("The body is not valid JSON: {error}.")))?;
    if body.len() > limits::EVENT_BYTES_MAX {
        check_sizes(text)?;
    }
    if events.invalid > 0 {
        return Err(PublishError::events(
            events.faults,
            events.invalid,
            events.count,
        ));
    }
    Ok(events.valid)
}

fn is_cloud_events(content_type: &str) -> bool {
    const START: &str = "application/cloudevents";
    let media_type = content_type.trim_start();
    media_type
        .get(..START.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(START))
}

/// Says what the vendor says when a body is no array (ED-031).
fn check_start(text: &str) -> Result<(), PublishError> {
    let found = match text
        .trim_start_matches([' ', '\t', '\r', '\n'])
        .chars()
        .next()
    {
        Some('[') => return Ok(()),
        None => "None",
        Some('{') => "StartObject",
        Some('"') => "String",
        Some('t' | 'f') => "Boolean",
        Some('n') => "Null",
        Some(_) => "Other",
    };
    Err(PublishError::body(format!(
        "This topic is configured to receive events in the 'EventGridSchema' schema. \
         Token expected: StartArray, token received: {found}."
    )))
}

/// Each event's own JSON text is within its limit (ED-058).
fn check_sizes(text: &str) -> Result<(), PublishError> {
    let events: Vec<&RawValue> = serde_json::from_str(text).expect("the body was read before");
    let max = limits::EVENT_BYTES_MAX;
    match events.iter().position(|event| event.get().len() > max) {
        None => Ok(()),
        Some(index) => Err(PublishError::too_large(format!(
            "The event at index {index} is larger than the maximum of {max} bytes."
        ))),
    }
}

/// Collects the elements of the array.
struct Events<'r, 'b> {
    request: &'r Request<'r>,
    valid: Vec<Event<'b>>,
    /// The first faults.
    faults: Vec<Detail>,
    /// Elements so far.
    count: usize,
    /// Those of them with a fault.
    invalid: usize,
}

impl<'b> Events<'_, 'b> {
    fn add(&mut self, event: Result<Event<'b>, String>) {
        let index = self.count;
        self.count += 1;
        match event {
            // Once one is invalid nobody will ask for the others.
            Ok(event) if self.invalid == 0 => self.valid.push(event),
            Ok(_) => {}
            Err(message) => {
                self.invalid += 1;
                self.valid = Vec::new();
                if self.faults.len() < limits::INVALID_EVENTS_LISTED_MAX {
                    let message = format!("Event at index {index}: {message}.");
                    self.faults.push(Detail {
                        index: Some(index),
                        message,
                    });
                }
            }
        }
    }
}

impl<'b> Visitor<'b> for &mut Events<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(event) = elements.next_element_seed(Element(self.request))? {
            self.add(event);
            if self.count > limits::EVENTS_PER_REQUEST_MAX {
                return Err(A::Error::custom("too many events"));
            }
        }
        Ok(())
    }
}

/// One element of the array: an event, or what is wrong with it.
struct Element<'r>(&'r Request<'r>);

impl<'b> DeserializeSeed<'b> for Element<'_> {
    type Value = Result<Event<'b>, String>;

    fn deserialize<D: Deserializer<'b>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

/// Visits of everything but what a visitor wants, each of which gives the same value. Values are read to their end, so
/// that what follows is found.
macro_rules! otherwise {
    ($value:expr, $($visit:ident)*) => { $(otherwise!(@$visit $value);)* };
    (@scalars $value:expr) => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> { Ok($value) }
        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> { Ok($value) }
        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> { Ok($value) }
        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> { Ok($value) }
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> { Ok($value) }
    };
    (@text $value:expr) => {
        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> { Ok($value) }
    };
    (@list $value:expr) => {
        fn visit_seq<A: SeqAccess<'b>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
    (@object $value:expr) => {
        fn visit_map<A: MapAccess<'b>>(self, mut object: A) -> Result<Self::Value, A::Error> {
            while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
}
use otherwise;

impl<'b> Visitor<'b> for Element<'_> {
    type Value = Result<Event<'b>, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut event = EventBuilder::default();
        while let Some(member) = members.next_key()? {
            event.read(member, &mut members)?;
        }
        Ok(event.finish(self.0.topic_path))
    }

    otherwise!(Err("it is not an object".to_owned()), scalars text list);
}
