//! From the body of a publish request to events, Event Grid schema (sections 1.5, 1.6, 1.9).

mod member;

use std::fmt;

use hedgerow_core::spec::InputSchema;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::error::PublishError;
use crate::publish::array::{self, ReadElement, otherwise};
use crate::publish::media_type::MediaType;
use crate::publish::{self, Element, Request};
use member::EventBuilder;

const SCHEMA: &str = InputSchema::EventGridSchema.as_str();

pub(crate) fn decode<'b>(
    body: &'b [u8],
    request: &Request<'_>,
) -> Result<Vec<Element<'b>>, PublishError> {
    refuse_cloud_events(request, SCHEMA)?;
    let text = publish::body_text(body)?;
    array::read(text, SCHEMA, &mut ReadEvent(request))
}

/// ED-032: only a CloudEvents media type matters.
pub(crate) fn refuse_cloud_events(request: &Request<'_>, schema: &str) -> Result<(), PublishError> {
    let media_type = publish::content_type(request.headers).and_then(MediaType::parse);
    if media_type.is_some_and(|media_type| media_type.is_any_cloud_events()) {
        let message = format!("This topic takes the '{schema}' schema, not CloudEvents.");
        return Err(PublishError::body(message));
    }
    Ok(())
}

struct ReadEvent<'r>(&'r Request<'r>);

impl<'b> ReadElement<'b> for ReadEvent<'_> {
    fn read<D: Deserializer<'b>>(
        &mut self,
        json: D,
    ) -> Result<Result<Element<'b>, String>, D::Error> {
        json.deserialize_any(EventVisitor(self.0))
    }
}

struct EventVisitor<'r>(&'r Request<'r>);

impl<'b> Visitor<'b> for EventVisitor<'_> {
    type Value = Result<Element<'b>, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut event = EventBuilder::default();
        while let Some(member) = members.next_key()? {
            event.read(member, &mut members)?;
        }
        Ok(event.finish(self.0.topic_path, self.0.domain))
    }

    otherwise!(Err("it is not an object".to_owned()), scalars text list);
}
