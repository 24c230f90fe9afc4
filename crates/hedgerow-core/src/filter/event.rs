//! What a filter sees of an event: the names of its attributes as the schema spells them, and its data (ED-103 to ED-105,
//! ED-110).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::text::text_of_json;
use super::value::{Scalar, Value};
use crate::event::{Data, Event};

/// An event, as filters look at it.
#[derive(Debug, Clone, Copy)]
pub struct FilterEvent<'a> {
    event: &'a Event<'a>,
    topic: &'a str,
    domain_topic: Option<&'a str>,
}

/// An attribute as it is kept.
#[derive(Clone, Copy)]
enum Attribute<'a> {
    /// A text.
    Text(&'a str),
    /// A text that is also what it can be read as (ED-101).
    Coerced(&'a str),
    /// JSON.
    Json(&'a str),
}

impl<'a> FilterEvent<'a> {
    /// An event of a topic, or of a domain. `topic` is what the key `topic` stands for: what deliveries have in this member.
    #[must_use]
    pub fn new(event: &'a Event<'a>, topic: &'a str) -> Self {
        Self {
            event,
            topic,
            domain_topic: event.domain_topic(),
        }
    }

    /// The name of its domain topic, if it is one of a domain.
    #[must_use]
    pub const fn domain_topic(&self) -> Option<&'a str> {
        self.domain_topic
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
        self.each_attribute(|name, attribute| {
            each(name, &mut || match attribute {
                Attribute::Text(text) => Value::Scalar(Scalar::of_text(Cow::Borrowed(text))),
                Attribute::Coerced(text) => {
                    Value::Scalar(Scalar::of_attribute(Cow::Borrowed(text)))
                }
                Attribute::Json(json) => Value::of_attribute_json(json),
            });
        });
    }

    /// The same, with the text that each has.
    pub(super) fn attribute_texts(
        &self,
        mut each: impl FnMut(&str, &mut dyn FnMut() -> Option<Cow<'a, str>>),
    ) {
        self.each_attribute(|name, attribute| {
            each(name, &mut || match attribute {
                Attribute::Text(text) | Attribute::Coerced(text) => Some(Cow::Borrowed(text)),
                Attribute::Json(json) => text_of_json(json),
            });
        });
    }

    fn each_attribute(&self, mut each: impl FnMut(&str, Attribute<'a>)) {
        let event = self.event;
        let Some(source) = event.source.as_deref() else {
            let mut given = |name: &str, text: Option<&'a str>| {
                if let Some(text) = text {
                    each(name, Attribute::Text(text));
                }
            };
            given("id", Some(&event.id));
            given("topic", Some(self.topic));
            given("subject", event.subject.as_deref());
            given("eventtype", Some(&event.event_type));
            given("eventtime", event.time.as_deref());
            given("dataversion", event.data_version.as_deref());
            given("metadataversion", Some("1"));
            return;
        };
        let mut given = |name: &str, text: Option<&'a str>| {
            if let Some(text) = text {
                each(name, Attribute::Coerced(text));
            }
        };
        given("id", Some(&event.id));
        given("source", Some(source));
        given("type", Some(&event.event_type));
        given("specversion", Some("1.0"));
        given("subject", event.subject.as_deref());
        given("time", event.time.as_deref());
        given("datacontenttype", event.data_content_type.as_deref());
        given("dataschema", event.data_schema.as_deref());
        for (name, json) in &event.extensions {
            each(&super::fold(name), Attribute::Json(json));
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

    /// The text of `data` itself, if it has one.
    pub(super) fn data_text(&self) -> Option<Cow<'a, str>> {
        match &self.event.data {
            Data::None => None,
            Data::Json(json) => text_of_json(json),
            Data::Text(text) => Some(Cow::Borrowed(text)),
            Data::Binary(bytes) => Some(Cow::Owned(STANDARD.encode(bytes))),
        }
    }
}
