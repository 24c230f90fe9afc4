//! The body of a delivery (section 3.2).

use std::borrow::Cow;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::spec::DeliverySchema;
use hedgerow_core::time::Timestamp;

use crate::object::{Length, Members, Value, Writer};
use crate::{cloud_events, event_grid};

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A list of events.
    Array,
    /// One event.
    Object,
}

/// The form of bodies, whatever the count of events in them: receivers see one form only (ED-131, ED-132).
#[must_use]
pub const fn form(schema: DeliverySchema, is_batched: bool) -> Form {
    match (schema, is_batched) {
        (DeliverySchema::CloudEventSchemaV1_0, false) => Form::Object,
        _ => Form::Array,
    }
}

/// Writes the body of a delivery that is not batched: an object for `CloudEvents`, otherwise an array with the one event.
///
/// `data` is left out when the event has none, and byte for byte as it was published when it has. The custom schema is the
/// published event itself, byte for byte (ED-136). `published` is the time of an event that has none of its own (ED-052).
#[must_use]
pub fn body(
    schema: DeliverySchema,
    event: &Event<'_>,
    topic_path: &str,
    published: Timestamp,
) -> Vec<u8> {
    let is_array = form(schema, false) == Form::Array;
    let brackets = if is_array { "[]".len() } else { 0 };
    let length = brackets + event_len(schema, event, topic_path, published);
    let mut body = Vec::with_capacity(length);
    if is_array {
        body.push(b'[');
    }
    push_event(schema, event, topic_path, published, &mut body);
    if is_array {
        body.push(b']');
    }
    debug_assert_eq!(body.len(), length, "the length was computed beforehand");
    body
}

fn event_len(
    schema: DeliverySchema,
    event: &Event<'_>,
    topic_path: &str,
    published: Timestamp,
) -> usize {
    if schema == DeliverySchema::CustomInputSchema {
        return original(event).len();
    }
    let mut length = Length::default();
    members(schema, event, topic_path, published, &mut length);
    length.bytes()
}

/// Writes the JSON of one event.
pub(super) fn push_event(
    schema: DeliverySchema,
    event: &Event<'_>,
    topic_path: &str,
    published: Timestamp,
    body: &mut Vec<u8>,
) {
    if schema == DeliverySchema::CustomInputSchema {
        return original(event).push(body);
    }
    let mut writer = Writer::begin(body);
    members(schema, event, topic_path, published, &mut writer);
    writer.finish();
}

fn members(
    schema: DeliverySchema,
    event: &Event<'_>,
    topic_path: &str,
    published: Timestamp,
    members: &mut impl Members,
) {
    let published = Value::Time(published);
    match schema {
        DeliverySchema::CloudEventSchemaV1_0 => {
            cloud_events::encode::attributes(event, topic_path, published, Cow::Borrowed, members);
            cloud_events::encode::data(event, members);
        }
        DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => {
            event_grid::encode::envelope(event, topic_path, published, members);
            event_grid::encode::data(event, members);
        }
    }
}

/// An event of a custom schema as it was published: it is kept whole as the data of its envelope.
fn original<'e>(event: &'e Event<'_>) -> Value<'e> {
    match &event.data {
        Data::Json(text) => Value::Json(text),
        // Not of custom topics, and no others deliver this schema (ED-131).
        Data::None => Value::Json("null"),
        Data::Text(text) => Value::Text(text),
        Data::Binary(bytes) => Value::Base64(bytes),
    }
}
