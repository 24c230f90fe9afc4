//! From a publish request to events, whatever the topic's input schema (section 1.5).
//!
//! The body is read in one pass with everything borrowed (design D10), and the JSON of `data` is carried byte for byte
//! (ED-039). Values that are only carried are skipped without recursion, so depth of nesting costs no stack.

pub(crate) mod array;
pub(crate) mod domain;
pub(crate) mod media_type;

use std::borrow::Cow;

use hedgerow_core::event::{DOMAIN_TOPIC, Event, TRACEPARENT_HEADER};
use hedgerow_core::limits;
use hedgerow_core::rate::{self, UNIT_BYTES};
use hedgerow_core::spec::{InputSchema, TopicSpec};
use hedgerow_core::text;
use http::header::{CONTENT_TYPE, HeaderMap};
use serde_json::value::RawValue;

use crate::event_grid::PublishError;
use crate::{cloud_events, custom, event_grid};

/// What reading a request depends on, besides its body.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// All its headers.
    pub headers: &'r HeaderMap,
    /// What the topic takes.
    pub topic: &'r TopicSpec,
    /// The full path of the topic, which a published `topic` must equal.
    pub topic_path: &'r str,
    /// The full path of the domain, if the endpoint is one: each event then names its domain topic (section 1.11).
    pub domain: Option<&'r str>,
}

/// The events of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Published<'b> {
    /// In the order of the request. If the endpoint is a domain, each knows its domain topic ([`Event::domain_topic`]).
    pub events: Vec<Event<'b>>,
    /// The first name of an extension attribute that is longer than names should be (ED-046).
    pub long_extension: Option<String>,
}

/// An event, and what is known about it beside.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Element<'b> {
    pub event: Event<'b>,
    /// The name of its domain topic.
    pub domain_topic: Option<Box<str>>,
}

/// Reads all events of a request, or says why none of them is taken (ED-041). `new_id` gives the `id` of a custom event
/// that has none (ED-052), another one at each call.
///
/// # Errors
///
/// `BadRequest` for what is no valid request, with the faulty events in the details, and `RequestEntityTooLarge`.
pub fn decode<'b>(
    body: &'b [u8],
    request: &Request<'b>,
    new_id: &mut dyn FnMut() -> String,
) -> Result<Published<'b>, PublishError> {
    if body.len() > limits::PUBLISH_BODY_BYTES_MAX {
        return Err(PublishError::body_too_large(Some(body.len() as u64)));
    }
    let elements = match (
        request.topic.input_schema,
        &request.topic.input_schema_mapping,
    ) {
        (InputSchema::EventGridSchema, _) => event_grid::decode::decode(body, request)?,
        (InputSchema::CloudEventSchemaV1_0, _) => cloud_events::decode::decode(body, request)?,
        (InputSchema::CustomEventSchema, mapping) => {
            let mapping = mapping.as_ref().unwrap_or(const { &custom::NO_MAPPING });
            custom::decode(body, request, mapping, new_id)?
        }
    };
    let long_extension = elements.iter().find_map(|element| {
        let names = element.event.extensions.iter().map(|(name, _)| name);
        let is_long = |name: &&_| str::len(name) > limits::EXTENSION_NAME_LEN_ADVISED;
        names.map(AsRef::as_ref).find(is_long).map(str::to_owned)
    });
    let mut published = Published {
        events: Vec::with_capacity(elements.len()),
        long_extension,
    };
    for Element {
        mut event,
        domain_topic,
    } in elements
    {
        if let Some(name) = domain_topic {
            let json = Cow::Owned(format!("\"{name}\""));
            event.extensions.push((Cow::Borrowed(DOMAIN_TOPIC), json));
        }
        published.events.push(event);
    }
    if let Some(json) = traceparent(request.headers) {
        for event in &mut published.events {
            let name = Cow::Borrowed(TRACEPARENT_HEADER);
            event.extensions.push((name, Cow::Owned(json.clone())));
        }
    }
    Ok(published)
}

/// The units that the `count` events of a body which was decoded count as (ED-060): each by the size of its own JSON text. One
/// that is no JSON has the size of the body.
#[must_use]
pub fn units(body: &[u8], count: usize) -> u64 {
    if body.len() <= UNIT_BYTES || count == 0 {
        return count as u64;
    }
    match serde_json::from_slice::<Vec<&RawValue>>(body) {
        Ok(events) if events.len() == count => {
            let sizes = events.iter().map(|event| event.get().len());
            sizes.map(rate::units).sum()
        }
        _ => rate::units(body.trim_ascii().len()),
    }
}

/// The trace that the request belongs to, as JSON: its events carry it on (ED-141).
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("traceparent")?.to_str().ok()?;
    let is_short = value.len() <= limits::TRACEPARENT_BYTES_MAX;
    is_short
        .then(|| serde_json::to_string(value).ok())
        .flatten()
}

/// The body as text.
pub(crate) fn body_text(body: &[u8]) -> Result<&str, PublishError> {
    std::str::from_utf8(body)
        .map_err(|error| PublishError::body(format!("The body is not valid UTF-8: {error}.")))
}

/// The `Content-Type`, if it is text.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE)?.to_str().ok()
}

/// A name from outside, short enough to repeat in a message.
pub(crate) fn shorten(name: &str) -> &str {
    text::beginning(name, limits::NAME_IN_MESSAGE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-060: the size of each event alone decides.
    #[test]
    fn events_count_as_many_units_as_each_begins() {
        let event = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        for (body, count, expected) in [
            ("[]".to_owned(), 0, 0),
            ("[1,2,3]".to_owned(), 3, 3),
            (format!("[{}]", event(65_534)), 1, 1),
            (format!("[{}]", event(65_536)), 1, 1),
            (format!(" [ {} ]\n", event(65_537)), 1, 2),
            (
                format!("[{},{}, {}]", event(70_000), event(3), event(133_120)),
                3,
                2 + 1 + 3,
            ),
            (format!("\n{}  ", event(65_536)), 1, 1),
            (event(65_537), 1, 2),
            ("x".repeat(65_537), 1, 2),
        ] {
            assert_eq!(
                units(body.as_bytes(), count),
                expected,
                "{} bytes",
                body.len()
            );
        }
    }
}
