//! From events to the body and headers of a delivery, Event Grid schema (ED-133, ED-138).

use std::hash::Hasher;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::limits;
use hedgerow_core::position::{Position, SubscriptionId};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use siphasher::sip128::{Hasher128, SipHasher13};

/// Writes the body of a delivery that is not batched: a JSON array with the one event.
///
/// Members come in the order `id`, `eventTime`, `eventType`, `dataVersion`, `metadataVersion`, `topic`, `subject`, `data`;
/// `data` is left out when the event has none, and byte for byte as it was published when it has.
///
/// # Panics
///
/// If the event has binary data: such events come from topics that cannot deliver this schema (ED-131).
#[must_use]
pub fn encode(event: &Event<'_>, topic_path: &str) -> Vec<u8> {
    let members = members(event, topic_path);
    let data = data(event);
    let brackets = "[{}]".len();
    let length = members
        .iter()
        .map(|(name, text)| name.len() + quoted_len(text))
        .sum::<usize>()
        + data
            .as_ref()
            .map_or(0, |(name, value)| name.len() + value.len())
        + brackets;
    let mut body = Vec::with_capacity(length);
    body.extend_from_slice(b"[{");
    for (name, text) in members {
        body.extend_from_slice(name.as_bytes());
        push_quoted(&mut body, text);
    }
    if let Some((name, value)) = data {
        body.extend_from_slice(name.as_bytes());
        value.push(&mut body);
    }
    body.extend_from_slice(b"}]");
    debug_assert_eq!(body.len(), length, "the length was computed beforehand");
    body
}

/// What the headers of a delivery depend on.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryHeaders<'a> {
    /// The subscription's name as it was created.
    pub subscription_name: &'a str,
    /// `delivery.subscriptionNameCase` is `upper`.
    pub upper_case_name: bool,
    /// Attempts made before this one.
    pub attempts_made: u16,
    /// The event's `dataVersion`.
    pub data_version: &'a str,
    /// See [`system_id`].
    pub system_id: &'a str,
}

/// Makes all headers of a delivery that is not batched, but those that belong to the connection (section 3.3).
///
/// A `dataVersion` that no header can carry, or none of that size should, is left out.
#[must_use]
pub fn delivery_headers(delivery: &DeliveryHeaders<'_>) -> HeaderMap {
    let name = if delivery.upper_case_name {
        delivery.subscription_name.to_ascii_uppercase()
    } else {
        delivery.subscription_name.to_owned()
    };
    let count = delivery.attempts_made.to_string();
    let fixed = HeaderValue::from_static;
    let mut headers = HeaderMap::with_capacity(9);
    headers.insert(CONTENT_TYPE, fixed("application/json; charset=utf-8"));
    headers.insert(ACCEPT, fixed("*/*"));
    headers.insert(
        USER_AGENT,
        fixed(concat!("hedgerow/", env!("CARGO_PKG_VERSION"))),
    );
    headers.insert(
        HeaderName::from_static("aeg-event-type"),
        fixed("Notification"),
    );
    headers.insert(HeaderName::from_static("aeg-metadata-version"), fixed("1"));
    let computed = [
        ("aeg-subscription-name", name.as_str()),
        ("aeg-delivery-count", count.as_str()),
        ("aeg-data-version", delivery.data_version),
        ("aeg-output-event-id", delivery.system_id),
    ];
    for (name, text) in computed {
        if let Some(value) = header_value(text) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}

/// The system id of an event for a subscription: constant over all its attempts, different for each subscription (section
/// 3.3). Derived, so that it needs no storing; written as a UUID of version 8.
#[must_use]
pub fn system_id(store: &[u8; 16], subscription: SubscriptionId, position: Position) -> String {
    let mut hasher = SipHasher13::new_with_key(store);
    hasher.write(&subscription.0.to_le_bytes());
    hasher.write(&position.topic.0.to_le_bytes());
    hasher.write(&position.seq.to_le_bytes());
    let hash = hasher.finish128().as_u128();
    let version_and_variant = 0xf << 76 | 0b11 << 62;
    let id = hash & !version_and_variant | 0x8 << 76 | 0b10 << 62;
    let hex = format!("{id:032x}");
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

/// Each member with all that stands before its value.
pub(super) fn members<'e>(
    event: &'e Event<'_>,
    topic_path: &'e str,
) -> [(&'static str, &'e str); 7] {
    [
        ("\"id\":", &event.id),
        (",\"eventTime\":", event.time.as_deref().unwrap_or_default()),
        (",\"eventType\":", &event.event_type),
        (
            ",\"dataVersion\":",
            event.data_version.as_deref().unwrap_or_default(),
        ),
        (",\"metadataVersion\":", "1"),
        (",\"topic\":", topic_path),
        (
            ",\"subject\":",
            event.subject.as_deref().unwrap_or_default(),
        ),
    ]
}

pub(super) enum DataText<'e> {
    Json(&'e str),
    Quoted(&'e str),
}

impl DataText<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Json(text) => text.len(),
            Self::Quoted(text) => quoted_len(text),
        }
    }

    pub(super) fn push(&self, body: &mut Vec<u8>) {
        match self {
            Self::Json(text) => body.extend_from_slice(text.as_bytes()),
            Self::Quoted(text) => push_quoted(body, text),
        }
    }
}

pub(super) fn data<'e>(event: &'e Event<'_>) -> Option<(&'static str, DataText<'e>)> {
    let text = match &event.data {
        Data::None => return None,
        Data::Json(text) => DataText::Json(text),
        Data::Text(text) => DataText::Quoted(text),
        Data::Binary(_) => {
            unreachable!("binary data comes from CloudEvents topics only, see ED-131")
        }
    };
    Some((",\"data\":", text))
}

/// The length of a text as JSON.
fn quoted_len(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}

pub(super) fn push_quoted(body: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(body, text).expect("a text is always JSON, and memory takes it");
}

/// Non-ASCII text is sent as UTF-8 bytes (ED-146).
fn header_value(text: &str) -> Option<HeaderValue> {
    if text.len() > limits::HEADER_VALUE_BYTES_MAX {
        return None;
    }
    HeaderValue::from_bytes(text.as_bytes()).ok()
}
