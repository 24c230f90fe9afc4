//! From the content of a dead-letter blob back to the events that were to be delivered (ED-265).
//!
//! A record holds the event in the form of its delivery. Of what was published in that form, or converted without a loss (ED-130),
//! the event comes out as it went in: delivered again, its body is the same byte for byte, but for what belongs to its new
//! publication. `data` is carried as it stands.

use std::borrow::Cow;
use std::fmt;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::spec::InputSchema;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{DOMAIN_TOPIC_MEMBER, ExtraMembers, LOWER_CASE_NAMES, NAMES, PREFIX};
use crate::publish::domain;

/// Why a record or a blob is none of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

/// What stands in a record.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadLetter<'a> {
    /// The event, as it was published.
    pub event: Event<'a>,
    /// Why it was given up.
    pub reason: Cow<'a, str>,
    /// The path of its topic, if the record says it.
    pub topic: Option<Cow<'a, str>>,
    /// The name of its domain topic, if the record says it beside the event.
    pub untold_topic: Option<Cow<'a, str>>,
}

impl ReadLetter<'_> {
    /// The topic of the domain with this path that the event named when it was published (ED-069 to ED-071, ED-073). A record of
    /// the strict profile does not tell what a header of that request named: then it is what the source would name.
    #[must_use]
    pub fn domain_topic(&self, domain_path: &str) -> Option<Box<str>> {
        let attribute = domain::attribute_of(&self.event);
        let told = self.untold_topic.as_deref().or(self.topic.as_deref());
        let named = told.or(attribute.as_deref());
        let named = named.or(self.event.source.as_deref())?;
        domain::topic_named(domain_path, named).ok()
    }
}

/// The records of a blob, each as JSON.
///
/// # Errors
///
/// If it is no JSON array.
pub fn records(blob: &[u8]) -> Result<Vec<&RawValue>, ReadError> {
    serde_json::from_slice(blob)
        .map_err(|error| ReadError(format!("it is no list of records: {error}")))
}

/// Reads a record of a topic with this schema. `topic_path` is the topic's path, or the domain's: what carries it as
/// its source was converted.
///
/// # Errors
///
/// If a member is missing that every record of ours has.
pub fn record<'a>(
    json: &'a RawValue,
    input: InputSchema,
    topic_path: &str,
    extra: ExtraMembers,
) -> Result<ReadLetter<'a>, ReadError> {
    let members: Members<'a> = serde_json::from_str(json.get())
        .map_err(|error| ReadError(format!("it is no object: {error}")))?;
    if members.has(NAMES.reason) {
        return event_grid(&members);
    }
    if members.has(LOWER_CASE_NAMES.reason) {
        return cloud_event(&members, input, topic_path, extra);
    }
    let message = format!(
        "it has neither \"{}\" nor \"{}\"",
        NAMES.reason, LOWER_CASE_NAMES.reason
    );
    Err(ReadError(message))
}

/// One in the vendor's own schema. An event of a custom schema stands whole in its `data`.
fn event_grid<'a>(members: &Members<'a>) -> Result<ReadLetter<'a>, ReadError> {
    let event = Event {
        id: members.text("id")?,
        source: None,
        event_type: members.text("eventType")?,
        subject: Some(members.text("subject")?),
        time: Some(members.text("eventTime")?),
        data_version: Some(members.text("dataVersion")?),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: members.data("data"),
    };
    Ok(ReadLetter {
        event,
        reason: members.text(NAMES.reason)?,
        topic: Some(members.text("topic")?),
        untold_topic: None,
    })
}

fn cloud_event<'a>(
    members: &Members<'a>,
    input: InputSchema,
    topic_path: &str,
    extra: ExtraMembers,
) -> Result<ReadLetter<'a>, ReadError> {
    let source = members.text("source")?;
    let reason = members.text(LOWER_CASE_NAMES.reason)?;
    let mut event = Event {
        id: members.text("id")?,
        source: None,
        event_type: members.text("type")?,
        subject: members.text_if_there("subject")?,
        time: members.text_if_there("time")?,
        data_version: None,
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: members.data("data"),
    };
    let schema = members.text_if_there("dataschema")?;
    if input != InputSchema::CloudEventSchemaV1_0 {
        // It was converted; all of its members are known.
        event.subject = Some(event.subject.unwrap_or_default());
        let version = schema.unwrap_or_default();
        let version = version.strip_prefix('#').unwrap_or_default().to_owned();
        event.data_version = Some(Cow::Owned(version));
        return Ok(ReadLetter {
            event,
            reason,
            topic: Some(source).filter(|source| is_of(source, topic_path)),
            untold_topic: None,
        });
    }
    let untold_topic = members.text_if_there(DOMAIN_TOPIC_MEMBER)?;
    event.source = Some(source);
    event.data_schema = schema;
    event.data_content_type = members.text_if_there("datacontenttype")?;
    if let Some(bytes) = members.text_if_there("data_base64")? {
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD.decode(&*bytes);
        let bytes = bytes.map_err(|_| ReadError("\"data_base64\" is no base64".to_owned()))?;
        event.data = Data::Binary(Cow::Owned(bytes));
    }
    for (name, value) in &members.0 {
        if ATTRIBUTES.contains(&&**name) || LOWER_CASE_NAMES.has(name, extra) {
            continue;
        }
        let name = own_name(name, extra);
        event.extensions.push((name, Cow::Borrowed(value.get())));
    }
    Ok(ReadLetter {
        event,
        reason,
        topic: None,
        untold_topic: untold_topic.filter(|_| extra.domain_topic),
    })
}

/// Whether a path is that of the topic, or of a topic of the domain.
fn is_of(path: &str, topic_path: &str) -> bool {
    let below = path.strip_prefix(topic_path);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with("/topics/"))
}

/// What is no extension of a `CloudEvent`.
const ATTRIBUTES: [&str; 10] = [
    "specversion",
    "id",
    "source",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
    "data",
    "data_base64",
];

/// What an extension was called before it got out of the way of a member of the record (ED-259).
fn own_name<'a>(name: &Cow<'a, str>, extra: ExtraMembers) -> Cow<'a, str> {
    let mut rest: &str = name;
    while let Some(shorter) = rest.strip_prefix(PREFIX) {
        rest = shorter;
    }
    let was_renamed = rest.len() < name.len() && LOWER_CASE_NAMES.has(rest, extra);
    match name {
        Cow::Borrowed(name) if was_renamed => Cow::Borrowed(&name[PREFIX.len()..]),
        Cow::Owned(name) if was_renamed => Cow::Owned(name[PREFIX.len()..].to_owned()),
        name => name.clone(),
    }
}

/// The members of an object, in their order, each value as JSON.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        let mut all = self.0.iter();
        all.find(|(other, _)| other == name)
            .map(|(_, value)| *value)
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn text(&self, name: &str) -> Result<Cow<'a, str>, ReadError> {
        self.text_if_there(name)?
            .ok_or_else(|| ReadError(format!("it has no \"{name}\"")))
    }

    fn text_if_there(&self, name: &str) -> Result<Option<Cow<'a, str>>, ReadError> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let text: Result<Text<'a>, _> = serde_json::from_str(value.get());
        text.map(|text| Some(text.0))
            .map_err(|_| ReadError(format!("its \"{name}\" is no text")))
    }

    fn data(&self, name: &str) -> Data<'a> {
        let value = self.get(name);
        value.map_or(Data::None, |value| Data::Json(Cow::Borrowed(value.get())))
    }
}

/// A text, borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((name.0, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}
