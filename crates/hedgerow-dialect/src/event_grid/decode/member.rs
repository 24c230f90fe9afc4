//! One event, member by member: names, types and rules of the table in section 1.6.

use std::borrow::Cow;
use std::fmt;

use hedgerow_core::event::{Data, Event};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::publish::array::otherwise;
use crate::publish::{Element, domain, shorten};
use crate::time::is_date_time;

/// Digits of the fraction of a second in `eventTime` (section 1.6).
const FRACTION_DIGITS_MAX: usize = 7;

/// A member whose value is a text. The number is its place in [`EventBuilder::texts`].
#[derive(Clone, Copy)]
enum Text {
    Id,
    Topic,
    Subject,
    EventType,
    EventTime,
    DataVersion,
    MetadataVersion,
}

impl Text {
    const COUNT: usize = 7;

    const fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Topic => "topic",
            Self::Subject => "subject",
            Self::EventType => "eventType",
            Self::EventTime => "eventTime",
            Self::DataVersion => "dataVersion",
            Self::MetadataVersion => "metadataVersion",
        }
    }
}

/// The name of a member.
pub(super) enum Member {
    Text(TextMember),
    Data,
    Unknown(String),
}

/// Keeps the list of texts to this file.
pub(super) struct TextMember(Text);

impl Member {
    /// The camelCase name, or its `PascalCase` alias (ED-042).
    fn of(name: &str) -> Self {
        let text = match name {
            "id" | "Id" => Text::Id,
            "topic" | "Topic" => Text::Topic,
            "subject" | "Subject" => Text::Subject,
            "eventType" | "EventType" => Text::EventType,
            "eventTime" | "EventTime" => Text::EventTime,
            "dataVersion" | "DataVersion" => Text::DataVersion,
            "metadataVersion" | "MetadataVersion" => Text::MetadataVersion,
            "data" | "Data" => return Self::Data,
            _ => return Self::Unknown(shorten(name).to_owned()),
        };
        Self::Text(TextMember(text))
    }
}

impl<'b> Deserialize<'b> for Member {
    fn deserialize<D: Deserializer<'b>>(json: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Member;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a member")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Member, E> {
                Ok(Member::of(name))
            }
        }
        json.deserialize_str(Name)
    }
}

/// A text, borrowed if it has no escapes; `None` for a value of another type.
struct MaybeText<'b>(Option<Cow<'b, str>>);

impl<'b> Deserialize<'b> for MaybeText<'b> {
    fn deserialize<D: Deserializer<'b>>(json: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'b> Visitor<'b> for Any {
            type Value = MaybeText<'b>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'b str) -> Result<Self::Value, E> {
                Ok(MaybeText(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(MaybeText(Some(Cow::Owned(text.to_owned()))))
            }

            otherwise!(MaybeText(None), scalars list object);
        }
        json.deserialize_any(Any)
    }
}

/// What is known of an event while its members are read.
#[derive(Default)]
pub(super) struct EventBuilder<'b> {
    texts: [Option<Cow<'b, str>>; Text::COUNT],
    data: Option<&'b RawValue>,
    /// The first thing that is wrong.
    fault: Option<String>,
}

impl<'b> EventBuilder<'b> {
    /// Takes the value of a member.
    pub fn read<A: MapAccess<'b>>(&mut self, member: Member, map: &mut A) -> Result<(), A::Error> {
        match member {
            Member::Text(TextMember(text)) => {
                let MaybeText(value) = map.next_value()?;
                self.set(text, value);
            }
            Member::Data => {
                let value = map.next_value()?;
                if self.data.replace(value).is_some() {
                    self.blame("\"data\" stands there twice");
                }
            }
            Member::Unknown(name) => {
                map.next_value::<IgnoredAny>()?;
                self.blame(format!(
                    "\"{name}\" is no member of the 'EventGridSchema' schema"
                ));
            }
        }
        Ok(())
    }

    fn set(&mut self, text: Text, value: Option<Cow<'b, str>>) {
        let Some(value) = value else {
            return self.blame(format!("\"{}\" must be a string", text.name()));
        };
        if self.texts[text as usize].replace(value).is_some() {
            self.blame(format!("\"{}\" stands there twice", text.name()));
        }
    }

    fn blame(&mut self, message: impl Into<String>) {
        self.fault.get_or_insert_with(|| message.into());
    }

    /// Judges the event as a whole.
    pub fn finish(mut self, topic_path: &str, domain: Option<&str>) -> Result<Element<'b>, String> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let id = self.required(Text::Id)?;
        let subject = self.required(Text::Subject)?;
        let event_type = self.required(Text::EventType)?;
        let time = self.required(Text::EventTime)?;
        if !is_date_time(&time, FRACTION_DIGITS_MAX) {
            let rule = "an ISO 8601 date and time with an offset and at most 7 fractional digits";
            return Err(format!("\"eventTime\" must be {rule}"));
        }
        if self
            .take(Text::MetadataVersion)
            .is_some_and(|version| version != "1")
        {
            return Err("\"metadataVersion\" must be \"1\" if it is present".to_owned());
        }
        let topic = self.take(Text::Topic);
        let domain_topic = match (domain, topic) {
            (None, None) => None,
            (None, Some(topic)) if topic == topic_path => None,
            (None, Some(_)) => {
                return Err(format!(
                    "\"topic\" must be \"{topic_path}\" if it is present"
                ));
            }
            (Some(_), None) => {
                let message =
                    "\"topic\" is missing: it names the topic of the domain that the event is of";
                return Err(message.to_owned());
            }
            (Some(domain), Some(topic)) => {
                let name = domain::topic_named(domain, &topic);
                Some(name.map_err(|rule| format!("\"topic\" {rule}"))?)
            }
        };
        let event = Event {
            id,
            source: None,
            event_type,
            subject: Some(subject),
            time: Some(time),
            data_version: Some(self.take(Text::DataVersion).unwrap_or_default()),
            data_content_type: None,
            data_schema: None,
            extensions: Vec::new(),
            data: self
                .data
                .map_or(Data::None, |data| Data::Json(Cow::Borrowed(data.get()))),
        };
        Ok(Element {
            event,
            domain_topic,
        })
    }

    fn take(&mut self, text: Text) -> Option<Cow<'b, str>> {
        self.texts[text as usize].take()
    }

    fn required(&mut self, text: Text) -> Result<Cow<'b, str>, String> {
        match self.take(text) {
            None => Err(format!("\"{}\" is missing", text.name())),
            Some(value) if value.is_empty() => {
                Err(format!("\"{}\" must not be empty", text.name()))
            }
            Some(value) => Ok(value),
        }
    }
}
