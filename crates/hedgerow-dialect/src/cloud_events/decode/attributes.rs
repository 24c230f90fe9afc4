//! What the attributes of an event must be, however they came (ED-044 to ED-046).

use std::borrow::Cow;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::limits;

use super::Domain;
use crate::publish::{Element, domain, shorten};
use crate::time::is_date_time;

/// An attribute that the specification names. The number is its place in [`Attributes::known`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    SpecVersion,
    Id,
    Source,
    Type,
    Subject,
    Time,
    DataContentType,
    DataSchema,
}

impl Known {
    const COUNT: usize = 8;

    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "specversion" => Self::SpecVersion,
            "id" => Self::Id,
            "source" => Self::Source,
            "type" => Self::Type,
            "subject" => Self::Subject,
            "time" => Self::Time,
            "datacontenttype" => Self::DataContentType,
            "dataschema" => Self::DataSchema,
            _ => return None,
        })
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::SpecVersion => "specversion",
            Self::Id => "id",
            Self::Source => "source",
            Self::Type => "type",
            Self::Subject => "subject",
            Self::Time => "time",
            Self::DataContentType => "datacontenttype",
            Self::DataSchema => "dataschema",
        }
    }
}

/// The attributes of one event while they are read.
#[derive(Debug, Default)]
pub(super) struct Attributes<'b> {
    known: [Option<Cow<'b, str>>; Known::COUNT],
    extensions: Vec<(Cow<'b, str>, Cow<'b, str>)>,
    /// The extension `domaintopic`.
    domain_topic: Option<Cow<'b, str>>,
}

impl<'b> Attributes<'b> {
    /// Takes one that the specification names.
    pub fn set(&mut self, attribute: Known, value: Cow<'b, str>) -> Result<(), String> {
        match self.known[attribute as usize].replace(value) {
            None => Ok(()),
            Some(_) => Err(twice(attribute.name())),
        }
    }

    /// Takes an extension: its value as JSON, and as text if it is one.
    pub fn extend(
        &mut self,
        name: Cow<'b, str>,
        json: Cow<'b, str>,
        text: Option<Cow<'b, str>>,
    ) -> Result<(), String> {
        if self.extensions.iter().any(|(other, _)| *other == name) {
            return Err(twice(&name));
        }
        if self.extensions.len() >= limits::EXTENSIONS_PER_EVENT_MAX {
            let max = limits::EXTENSIONS_PER_EVENT_MAX;
            return Err(format!("it has more than {max} extension attributes"));
        }
        if name == domain::ATTRIBUTE {
            self.domain_topic = text;
        }
        self.extensions.push((name, json));
        Ok(())
    }

    /// Judges the event as a whole.
    pub fn finish(
        mut self,
        data: Data<'b>,
        domain: Option<Domain<'_>>,
    ) -> Result<Element<'b>, String> {
        if self.required(Known::SpecVersion)? != "1.0" {
            return Err("\"specversion\" must be \"1.0\"".to_owned());
        }
        let event = Event {
            id: self.required(Known::Id)?,
            source: Some(self.required(Known::Source)?),
            event_type: self.required(Known::Type)?,
            subject: self.optional(Known::Subject)?,
            time: self.optional(Known::Time)?,
            data_version: None,
            data_content_type: self.optional(Known::DataContentType)?,
            data_schema: self.optional(Known::DataSchema)?,
            extensions: self.extensions,
            data,
        };
        if event
            .time
            .as_ref()
            .is_some_and(|time| !is_date_time(time, usize::MAX))
        {
            return Err("\"time\" must be an RFC 3339 date and time with an offset".to_owned());
        }
        let is_odd = |c: char| c.is_whitespace() || c.is_control();
        if event
            .data_schema
            .as_ref()
            .is_some_and(|uri| uri.contains(is_odd))
        {
            return Err("\"dataschema\" must be a URI".to_owned());
        }
        let domain_topic = domain
            .map(|domain| domain_topic(domain, self.domain_topic.as_deref(), &event))
            .transpose()?;
        Ok(Element {
            event,
            domain_topic,
        })
    }

    fn required(&mut self, attribute: Known) -> Result<Cow<'b, str>, String> {
        let value = self.optional(attribute)?;
        value.ok_or_else(|| format!("\"{}\" is missing", attribute.name()))
    }

    fn optional(&mut self, attribute: Known) -> Result<Option<Cow<'b, str>>, String> {
        match self.known[attribute as usize].take() {
            Some(value) if value.is_empty() => {
                Err(format!("\"{}\" must not be empty", attribute.name()))
            }
            value => Ok(value),
        }
    }
}

/// The event's own word comes first, then the request's, then the source (ED-070, ED-073).
fn domain_topic(
    domain: Domain<'_>,
    attribute: Option<&str>,
    event: &Event<'_>,
) -> Result<Box<str>, String> {
    let (what, named) = match (attribute, domain.topic) {
        (Some(named), _) => ("\"domaintopic\"", named),
        (None, Some(named)) => ("the header \"hedgerow-domain-topic\"", named),
        (None, None) => ("\"source\"", event.source.as_deref().unwrap_or_default()),
    };
    domain::topic_named(domain.path, named).map_err(|rule| format!("{what} {rule}"))
}

/// ED-046: lower-case ASCII letters and digits.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if !name.is_empty() && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let name = shorten(name);
    Err(format!(
        "\"{name}\" is no name of an attribute: it must have lower-case ASCII letters and digits only"
    ))
}

pub(super) fn twice(name: &str) -> String {
    format!("\"{}\" stands there twice", shorten(name))
}
