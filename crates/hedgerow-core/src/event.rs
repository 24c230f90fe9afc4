//! The single inner shape of an event: the attributes of CloudEvents 1.0 plus data.
//!
//! Only the dialects know how a vendor spells these. Text is borrowed from the request or from the log wherever the
//! spelling there needs no change; the JSON of `data` is carried byte for byte (design D10, ED-039).

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

use crate::position::SubscriptionId;

/// One event as it is stored, without its topic and publish time, which the log keeps once for each request.
///
/// This is a stored format: members are only ever added through a new version of the store's `PackedEvents`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event<'a> {
    /// `id`, not empty.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// `source`. `None` for Event Grid schema, whose source is the topic's path.
    #[serde(borrow, deserialize_with = "borrowed")]
    pub source: Option<Cow<'a, str>>,
    /// `type`, or Event Grid's `eventType`. Not empty.
    #[serde(borrow)]
    pub event_type: Cow<'a, str>,
    /// `subject`. Always present for Event Grid schema.
    #[serde(borrow, deserialize_with = "borrowed")]
    pub subject: Option<Cow<'a, str>>,
    /// `time`, or Event Grid's `eventTime`, in the publisher's own spelling.
    #[serde(borrow, deserialize_with = "borrowed")]
    pub time: Option<Cow<'a, str>>,
    /// Event Grid's `dataVersion`; `None` for CloudEvents.
    #[serde(borrow, deserialize_with = "borrowed")]
    pub data_version: Option<Cow<'a, str>>,
    /// `datacontenttype`, CloudEvents only.
    #[serde(borrow, deserialize_with = "borrowed")]
    pub data_content_type: Option<Cow<'a, str>>,
    /// `dataschema`, CloudEvents only.
    #[serde(borrow, deserialize_with = "borrowed")]
    pub data_schema: Option<Cow<'a, str>>,
    /// Extension attributes in the order they came, CloudEvents only: name, and value as JSON text. Beside them what
    /// [`is_attribute`] says is none.
    #[serde(borrow, deserialize_with = "borrowed_pairs")]
    pub extensions: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// The payload.
    #[serde(borrow)]
    pub data: Data<'a>,
}

impl Event<'_> {
    /// The name of its domain topic, as it was published; `None` for events of topics that are no domains.
    #[must_use]
    pub fn domain_topic(&self) -> Option<&str> {
        let found = self
            .extensions
            .iter()
            .find(|(name, _)| name == DOMAIN_TOPIC);
        let (_, json) = found?;
        // Names have no character that JSON escapes.
        json.strip_prefix('"')?.strip_suffix('"')
    }
}

/// What an event begins with, for whoever tells of it: read without its data, which may be a megabyte.
///
/// The first members of [`Event`], in its order: the stored form of an event begins with that of its head.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EventHead<'a> {
    /// As in [`Event`].
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// As in [`Event`].
    #[serde(borrow, deserialize_with = "borrowed")]
    pub source: Option<Cow<'a, str>>,
    /// As in [`Event`].
    #[serde(borrow)]
    pub event_type: Cow<'a, str>,
    /// As in [`Event`].
    #[serde(borrow, deserialize_with = "borrowed")]
    pub subject: Option<Cow<'a, str>>,
    /// As in [`Event`].
    #[serde(borrow, deserialize_with = "borrowed")]
    pub time: Option<Cow<'a, str>>,
}

/// The name under which the extensions carry the header `traceparent` of the request that published the event, its value
/// as JSON text (ED-141). No attribute can have this name.
pub const TRACEPARENT_HEADER: &str = ":traceparent";

/// The name under which the extensions carry the domain topic that an event of a domain names, its bare name as JSON text
/// (section 1.11). No attribute can have this name.
pub const DOMAIN_TOPIC: &str = ":domain-topic";
/// The name under which the extensions carry the UUID of the dead letter that an event is replayed of, as JSON text (ED-265). No
/// attribute can have this name.
pub const REPLAY_OF: &str = ":replay-of";

/// The name under which the extensions carry the number of the one subscription that a replayed event is for (ED-265). No
/// attribute can have this name.
pub const REPLAY_TO: &str = ":replay-to";

impl Event<'_> {
    /// The one subscription that it is for, whatever filters say; `None` for whoever wants it.
    #[must_use]
    pub fn replayed_to(&self) -> Option<SubscriptionId> {
        let id = self.extension(REPLAY_TO)?;
        id.parse().ok().map(SubscriptionId)
    }

    /// The UUID of the dead letter that it is replayed of.
    #[must_use]
    pub fn replay_of(&self) -> Option<&str> {
        self.extension(REPLAY_OF)?
            .strip_prefix('"')?
            .strip_suffix('"')
    }

    fn extension(&self, wanted: &str) -> Option<&str> {
        let mut all = self.extensions.iter();
        let (_, json) = all.find(|(name, _)| name == wanted)?;
        Some(json)
    }
}

/// Whether an entry of [`Event::extensions`] is an attribute of the event, and not something that is known about it.
#[must_use]
pub fn is_attribute(name: &str) -> bool {
    !name.starts_with(':')
}

/// The payload of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Data<'a> {
    /// The event has no data member.
    None,
    /// The JSON text of the data member, exactly as it came.
    Json(#[serde(borrow)] Cow<'a, str>),
    /// Text that is no JSON.
    Text(#[serde(borrow)] Cow<'a, str>),
    /// Bytes.
    Binary(#[serde(borrow)] Cow<'a, [u8]>),
}

/// Reads text that is not copied. (Serde's own rule for `Cow` borrows only where the `Cow` stands by itself.)
fn borrowed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    Option::<&'de str>::deserialize(from).map(|text| text.map(Cow::Borrowed))
}

type Pairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

fn borrowed_pairs<'de, D: Deserializer<'de>>(from: D) -> Result<Pairs<'de>, D::Error> {
    let pairs = Vec::<(&'de str, &'de str)>::deserialize(from)?;
    Ok(pairs
        .into_iter()
        .map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value)))
        .collect())
}
