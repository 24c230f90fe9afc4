//! The single inner shape of an event: the attributes of CloudEvents 1.0 plus data.
//!
//! Only the dialects know how a vendor spells these. Text is borrowed from the request or from the log wherever the
//! spelling there needs no change; the JSON of `data` is carried byte for byte (design D10, ED-039).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// One event as it is stored, without its topic and publish time, which the log keeps once for each request.
///
/// This is a stored format: members are only ever added through a new version of the store's `PackedEvents`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event<'a> {
    /// `id`, not empty.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// `source`. `None` for Event Grid schema, whose source is the topic's path.
    #[serde(borrow)]
    pub source: Option<Cow<'a, str>>,
    /// `type`, or Event Grid's `eventType`. Not empty.
    #[serde(borrow)]
    pub event_type: Cow<'a, str>,
    /// `subject`. Always present for Event Grid schema.
    #[serde(borrow)]
    pub subject: Option<Cow<'a, str>>,
    /// `time`, or Event Grid's `eventTime`, in the publisher's own spelling.
    #[serde(borrow)]
    pub time: Option<Cow<'a, str>>,
    /// Event Grid's `dataVersion`; `None` for CloudEvents.
    #[serde(borrow)]
    pub data_version: Option<Cow<'a, str>>,
    /// `datacontenttype`, CloudEvents only.
    #[serde(borrow)]
    pub data_content_type: Option<Cow<'a, str>>,
    /// `dataschema`, CloudEvents only.
    #[serde(borrow)]
    pub data_schema: Option<Cow<'a, str>>,
    /// Extension attributes in the order they came, CloudEvents only: name, and value as JSON text.
    #[serde(borrow)]
    pub extensions: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// The payload.
    #[serde(borrow)]
    pub data: Data<'a>,
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
