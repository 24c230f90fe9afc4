//! What a filter sees of an event: the names of its attributes as the schema spells them, and its data (ED-103 to ED-105,
//! ED-110).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::value::{Scalar, Value};
use crate::event::{Data, Event};

/// An event, as filters look at it.
#[derive(Debug, Clone, Copy)]
pub struct FilterEvent<'a> {
    event: &'a Event<'a>,
    topic: &'a str,
}

impl<'a> FilterEvent<'a> {
    /// An event of a topic. `topic` is what the key `topic` stands for: what deliveries have in this member.
    #[must_use]
    pub const fn new(event: &'a Event<'a>, topic: &'a str) -> Self {
        Self { event, topic }
    }

    /// `eventType`, or `type` of CloudEvents.
    #[must_use]
    pub fn event_type(&self) -> &'a str {
        &self.event.event_type
    }

    /// The subject; the empty one if there is none (ED-089).
    #[must_use]
    pub fn subject(&self) -> &'a str {
        self.event.subject.as_deref().unwrap_or_default()
    }

    /// Hands out each attribute of the envelope: its name, which is folded, and its value.
    pub(super) fn attributes(&self, mut each: impl FnMut(&str, &mut dyn FnMut() -> Value<'a>)) {
        let event = self.event;
        let mut given = |name: &str, text: Option<&'a str>, coerced: bool| {
            if let Some(text) = text {
                each(name, &mut || {
                    Value::Scalar(if coerced {
                        Scalar::of_attribute(Cow::Borrowed(text))
                    } else {
                        Scalar::of_text(Cow::Borrowed(text))
                    })
                });
            }
        };
        let Some(source) = event.source.as_deref() else {
            given("id", Some(&event.id), false);
            given("topic", Some(self.topic), false);
            given("subject", event.subject.as_deref(), false);
            given("eventtype", Some(&event.event_type), false);
            given("eventtime", event.time.as_deref(), false);
            given("dataversion", event.data_version.as_deref(), false);
            given("metadataversion", Some("1"), false);
            return;
        };
        given("id", Some(&event.id), true);
        given("source", Some(source), true);
        given("type", Some(&event.event_type), true);
        given("specversion", Some("1.0"), true);
        given("subject", event.subject.as_deref(), true);
        given("time", event.time.as_deref(), true);
        given("datacontenttype", event.data_content_type.as_deref(), true);
        given("dataschema", event.data_schema.as_deref(), true);
        for (name, json) in &event.extensions {
            each(&super::fold(name), &mut || Value::of_attribute_json(json));
        }
    }

    /// The JSON of `data`, if it is JSON: only this has members (ED-110).
    pub(super) fn data_json(&self) -> Option<&'a str> {
        match &self.event.data {
            Data::Json(json) => Some(json),
            Data::None | Data::Text(_) | Data::Binary(_) => None,
        }
    }

    /// The value of `data` itself.
    pub(super) fn data(&self) -> Value<'a> {
        match &self.event.data {
            Data::None => Value::Absent,
            Data::Json(json) => Value::of_json(json),
            Data::Text(text) => Value::Scalar(Scalar::of_text(Cow::Borrowed(text))),
            Data::Binary(bytes) => {
                Value::Scalar(Scalar::of_text(Cow::Owned(STANDARD.encode(bytes))))
            }
        }
    }
}
