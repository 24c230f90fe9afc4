//! Events of a custom schema: a JSON array of any objects, and where the Event Grid members are found in them (section 1.8).
//!
//! The stored event has the mapped members, and the whole original as its data, byte for byte (ED-055).

mod source;

use std::borrow::Cow;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::spec::{InputSchema, InputSchemaMapping, MappedField};
use serde::Deserialize as _;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use crate::event_grid::PublishError;
use crate::event_grid::decode::refuse_cloud_events;
use crate::publish::array::{self, ReadElement};
use crate::publish::{self, Element, Request, domain};
use crate::time::is_date_time;
use source::{Found, Member, Sources};

const SCHEMA: &str = InputSchema::CustomEventSchema.as_str();

/// What a topic without a mapping has.
pub(crate) const NO_MAPPING: InputSchemaMapping = InputSchemaMapping {
    id: None,
    topic: None,
    event_time: None,
    event_type: NOT_MAPPED,
    subject: NOT_MAPPED,
    data_version: NOT_MAPPED,
};
const NOT_MAPPED: MappedField = MappedField {
    source: None,
    default: None,
};

pub(crate) fn decode<'b>(
    body: &'b [u8],
    request: &Request<'b>,
    mapping: &'b InputSchemaMapping,
    new_id: &mut dyn FnMut() -> String,
) -> Result<Vec<Element<'b>>, PublishError> {
    refuse_cloud_events(request, SCHEMA)?;
    let text = publish::body_text(body)?;
    let mut read = ReadEvent {
        request,
        mapping,
        sources: Sources::new(mapping),
        new_id,
    };
    array::read(text, SCHEMA, &mut read)
}

struct ReadEvent<'r, 'b> {
    request: &'r Request<'b>,
    mapping: &'b InputSchemaMapping,
    sources: Sources<'b>,
    new_id: &'r mut dyn FnMut() -> String,
}

impl<'b> ReadElement<'b> for ReadEvent<'_, 'b> {
    fn read<D: Deserializer<'b>>(
        &mut self,
        json: D,
    ) -> Result<Result<Element<'b>, String>, D::Error> {
        let original = <&RawValue>::deserialize(json)?;
        Ok(self.map(original.get()))
    }
}

impl<'b> ReadEvent<'_, 'b> {
    /// Makes the event of an original.
    fn map(&mut self, original: &'b str) -> Result<Element<'b>, String> {
        if !original.starts_with('{') {
            return Err("it is not an object".to_owned());
        }
        let mut found = self.sources.find(original)?;
        let mapping = self.mapping;
        let id = take(&mut found, Member::Id).unwrap_or_else(|| Cow::Owned((self.new_id)()));
        // Without one it is the time of publishing (ED-052), which the log keeps.
        let time =
            take(&mut found, Member::EventTime).filter(|time| is_date_time(time, usize::MAX));
        let event = Event {
            id,
            source: None,
            event_type: required(&mut found, Member::EventType, &mapping.event_type)?,
            subject: Some(required(&mut found, Member::Subject, &mapping.subject)?),
            time,
            data_version: Some(
                take(&mut found, Member::DataVersion)
                    .or_else(|| default(&mapping.data_version))
                    .unwrap_or_default(),
            ),
            data_content_type: None,
            data_schema: None,
            extensions: Vec::new(),
            data: Data::Json(Cow::Borrowed(original)),
        };
        let domain_topic = match self.request.domain {
            None => None,
            Some(domain) => {
                let named = take(&mut found, Member::Topic)
                    .ok_or_else(|| missing(Member::Topic, mapping.topic.is_some()))?;
                let name = domain::topic_named(domain, &named);
                Some(name.map_err(|rule| format!("\"topic\" {rule}"))?)
            }
        };
        Ok(Element {
            event,
            domain_topic,
        })
    }
}

/// What was found for a member. An empty text is no value.
fn take<'b>(found: &mut Found<'b>, member: Member) -> Option<Cow<'b, str>> {
    found[member as usize]
        .take()
        .filter(|text| !text.is_empty())
}

fn default(field: &MappedField) -> Option<Cow<'_, str>> {
    field.default.as_deref().map(Cow::Borrowed)
}

/// A member that must be found if it is mapped, and has no default (ED-053). One about which nothing was declared is empty.
fn required<'b>(
    found: &mut Found<'b>,
    member: Member,
    field: &'b MappedField,
) -> Result<Cow<'b, str>, String> {
    let value = take(found, member).or_else(|| default(field));
    match value {
        Some(value) => Ok(value),
        None if field.source.is_none() => Ok(Cow::Borrowed("")),
        None => Err(missing(member, true)),
    }
}

fn missing(member: Member, is_mapped: bool) -> String {
    let name = member.name();
    if is_mapped {
        format!("the field that \"{name}\" is mapped to is missing, empty or no string")
    } else {
        format!("\"{name}\" is not mapped")
    }
}
