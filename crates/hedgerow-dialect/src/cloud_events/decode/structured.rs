//! One event in structured mode, as a JSON object (ED-034 to ED-036, ED-044 to ED-047).

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_core::event::Data;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::attributes::{Attributes, Known, check_name, twice};
use super::{Domain, SCHEMA};
use crate::event_grid::{Detail, PublishError};
use crate::publish::Element;
use crate::publish::array::{self, ReadElement, otherwise};

/// Reads a body that is one event. Without `specversion` it may be told that it is none at all (ED-036).
pub(super) fn read_one<'b>(
    text: &'b str,
    read: &mut ReadEvent<'_>,
    needs_version: bool,
) -> Result<Element<'b>, PublishError> {
    array::check_start(text, '{', SCHEMA)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let event = json
        .deserialize_any(EventVisitor {
            domain: read.domain,
        })
        .and_then(|event| json.end().map(|()| event));
    let Read {
        element,
        has_version,
    } = event.map_err(|error| array::not_json(&error))?;
    array::check_size(0, text.trim_matches([' ', '\t', '\r', '\n']).len())?;
    if needs_version && !has_version {
        let message = "The body is no CloudEvent: an object without \"specversion\".";
        return Err(PublishError::body(message));
    }
    element.map_err(|fault| PublishError::events(SCHEMA, vec![Detail::of_event(0, &fault)], 1, 1))
}

/// Reads one event.
pub(super) struct ReadEvent<'r> {
    pub domain: Option<Domain<'r>>,
}

impl<'b> ReadElement<'b> for ReadEvent<'_> {
    fn read<D: Deserializer<'b>>(
        &mut self,
        json: D,
    ) -> Result<Result<Element<'b>, String>, D::Error> {
        let domain = self.domain;
        let read = json.deserialize_any(EventVisitor { domain })?;
        Ok(read.element)
    }
}

struct Read<'b> {
    element: Result<Element<'b>, String>,
    /// Whether it has the member that makes it a CloudEvent.
    has_version: bool,
}

struct EventVisitor<'r> {
    domain: Option<Domain<'r>>,
}

impl<'b> Visitor<'b> for EventVisitor<'_> {
    type Value = Read<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut event = EventBuilder::default();
        while let Some(Name(name)) = members.next_key()? {
            if event.fault.is_some() {
                members.next_value::<IgnoredAny>()?;
                event.has_version |= name == "specversion";
            } else {
                let value: &RawValue = members.next_value()?;
                event.fault = event.set(name, value.get()).err();
            }
        }
        Ok(Read {
            has_version: event.has_version,
            element: event.finish(self.domain),
        })
    }

    otherwise!(
        Read { element: Err("it is not an object".to_owned()), has_version: false },
        scalars text list
    );
}

/// The name of a member, borrowed if it has no escapes.
struct Name<'b>(Cow<'b, str>);

impl<'b> Deserialize<'b> for Name<'b> {
    fn deserialize<D: Deserializer<'b>>(json: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'b> Visitor<'b> for Text {
            type Value = Name<'b>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a member")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'b str) -> Result<Name<'b>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name<'b>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        json.deserialize_str(Text)
    }
}

/// What is known of an event while its members are read.
#[derive(Default)]
struct EventBuilder<'b> {
    attributes: Attributes<'b>,
    data: Option<&'b str>,
    data_base64: Option<Vec<u8>>,
    has_version: bool,
    /// The first thing that is wrong.
    fault: Option<String>,
}

impl<'b> EventBuilder<'b> {
    /// Takes a member. Its value is valid JSON.
    fn set(&mut self, name: Cow<'b, str>, value: &'b str) -> Result<(), String> {
        if let Some(attribute) = Known::of(&name) {
            self.has_version |= attribute == Known::SpecVersion;
            if value == "null" {
                return Ok(());
            }
            let text = text(value).ok_or_else(|| format!("\"{name}\" must be a string"))?;
            return self.attributes.set(attribute, text);
        }
        match &*name {
            "data" => match self.data.replace(value) {
                None => Ok(()),
                Some(_) => Err(twice("data")),
            },
            "data_base64" if value == "null" => Ok(()),
            "data_base64" => {
                let bytes = text(value).and_then(|text| STANDARD.decode(text.as_bytes()).ok());
                let bytes =
                    bytes.ok_or_else(|| "\"data_base64\" must be a string of base64".to_owned())?;
                match self.data_base64.replace(bytes) {
                    None => Ok(()),
                    Some(_) => Err(twice("data_base64")),
                }
            }
            _ => self.extend(name, value),
        }
    }

    /// ED-046: a string, an integer or a boolean; `null` counts as absent (ED-045).
    fn extend(&mut self, name: Cow<'b, str>, value: &'b str) -> Result<(), String> {
        check_name(&name)?;
        let text = text(value);
        let is_taken = match value.as_bytes()[0] {
            b'"' => text.is_some(),
            b'n' => return Ok(()),
            b't' | b'f' => true,
            b'-' | b'0'..=b'9' => !value.contains(['.', 'e', 'E']),
            _ => false,
        };
        if !is_taken {
            return Err(format!(
                "the extension attribute \"{name}\" must be a string, an integer or a boolean"
            ));
        }
        self.attributes.extend(name, Cow::Borrowed(value), text)
    }

    fn finish(self, domain: Option<Domain<'_>>) -> Result<Element<'b>, String> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let data = match (self.data, self.data_base64) {
            (None, None) => Data::None,
            (Some(json), None) => Data::Json(Cow::Borrowed(json)),
            (None, Some(bytes)) => Data::Binary(Cow::Owned(bytes)),
            (Some(_), Some(_)) => {
                return Err("there are both \"data\" and \"data_base64\"".to_owned());
            }
        };
        self.attributes.finish(data, domain)
    }
}

/// The text of a JSON string, borrowed if it has no escapes; `None` for another value.
fn text(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(json).ok().map(Cow::Owned)
}
