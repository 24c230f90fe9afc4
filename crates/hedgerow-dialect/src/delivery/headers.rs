//! The headers of a delivery, but those that belong to the connection (section 3.3).

use std::hash::Hasher;

use hedgerow_core::limits;
use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::spec::DeliverySchema;
use hedgerow_core::uuid::uuid_text;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::ResolvedHeaders;
use super::signature::SIGNATURE_HEADERS;

/// What the headers of a delivery depend on.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryHeaders<'a> {
    /// The form of the body.
    pub schema: DeliverySchema,
    /// The subscription's name as it was created.
    pub subscription_name: &'a str,
    /// `delivery.subscription_name_case` is `upper`.
    pub upper_case_name: bool,
    /// Attempts made before this one, the same for all events.
    pub attempts_made: u16,
    /// Who asks, as the handshake of `CloudEvents` said it; sent with that schema only.
    pub origin: Option<&'a str>,
    /// What is in the body.
    pub content: Content<'a>,
    /// The header of that name (ED-141), see [`next_traceparent`](super::next_traceparent).
    pub traceparent: Option<&'a str>,
    /// Those that the subscription adds, the same for all events. One takes the place of a header by its name that is not
    /// Hedgerow's own, such as `user-agent` (ED-147).
    pub custom: &'a ResolvedHeaders,
    /// Whether [`Signer::sign`](super::Signer::sign) adds to them: there is room for what it adds then.
    pub is_signed: bool,
}

/// What is in a body.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// One event, where batching is off.
    One {
        /// See [`system_id`].
        system_id: &'a str,
        /// Its `dataVersion`, if its schema has one.
        data_version: Option<&'a str>,
    },
    /// A batch, of one event or more (ED-132).
    Batch {
        /// How many.
        events: usize,
        /// The `dataVersion` that all have (ED-139); one that an event does not have counts as empty.
        data_version: Option<&'a str>,
    },
}

impl Content<'_> {
    const fn is_batch(&self) -> bool {
        matches!(self, Self::Batch { .. })
    }

    fn data_version(&self) -> Option<&str> {
        match self {
            Self::One { data_version, .. } => Some(data_version.unwrap_or_default()),
            Self::Batch { data_version, .. } => *data_version,
        }
    }
}

/// Makes all headers of a delivery, but those that belong to the connection.
///
/// A `dataVersion` that no header can carry, or none of that size should, is left out. Events of a custom schema are sent
/// without one: they are no Event Grid events on the wire.
#[must_use]
pub fn headers(delivery: &DeliveryHeaders<'_>) -> HeaderMap {
    let is_cloud_event = delivery.schema == DeliverySchema::CloudEventSchemaV1_0;
    let name = if delivery.upper_case_name {
        delivery.subscription_name.to_ascii_uppercase()
    } else {
        delivery.subscription_name.to_owned()
    };
    let fixed = HeaderValue::from_static;
    let signature = if delivery.is_signed {
        SIGNATURE_HEADERS
    } else {
        0
    };
    let count = HEADERS_MAX + delivery.custom.len() + signature;
    let mut headers = HeaderMap::with_capacity(count);
    headers.insert(
        CONTENT_TYPE,
        fixed(content_type(delivery.schema, delivery.content.is_batch())),
    );
    headers.insert(ACCEPT, fixed("*/*"));
    headers.insert(
        USER_AGENT,
        fixed(concat!("hedgerow/", env!("CARGO_PKG_VERSION"))),
    );
    headers.insert(EVENT_TYPE, fixed("Notification"));
    let version = if is_cloud_event { "1.0" } else { "1" };
    headers.insert(METADATA_VERSION, fixed(version));
    headers.insert(DELIVERY_COUNT, delivery.attempts_made.into());
    let mut insert = |name: HeaderName, text: &str| {
        if let Some(value) = header_value(text) {
            headers.insert(name, value);
        }
    };
    insert(SUBSCRIPTION_NAME, &name);
    if delivery.schema == DeliverySchema::EventGridSchema
        && let Some(version) = delivery.content.data_version()
    {
        insert(DATA_VERSION, version);
    }
    if is_cloud_event && let Some(origin) = delivery.origin {
        insert(ORIGIN, origin);
    }
    if let Some(traceparent) = delivery.traceparent {
        insert(TRACEPARENT, traceparent);
    }
    match delivery.content {
        Content::One { system_id, .. } => insert(OUTPUT_EVENT_ID, system_id),
        Content::Batch { events, .. } => {
            headers.insert(BATCH_SIZE, events.into());
        }
    }
    for (name, value) in delivery.custom.iter() {
        headers.insert(name, value.clone());
    }
    headers
}

/// As many as there can be beside custom ones.
const HEADERS_MAX: usize = 12;

const EVENT_TYPE: HeaderName = HeaderName::from_static("aeg-event-type");
const SUBSCRIPTION_NAME: HeaderName = HeaderName::from_static("aeg-subscription-name");
const DELIVERY_COUNT: HeaderName = HeaderName::from_static("aeg-delivery-count");
const METADATA_VERSION: HeaderName = HeaderName::from_static("aeg-metadata-version");
const DATA_VERSION: HeaderName = HeaderName::from_static("aeg-data-version");
const OUTPUT_EVENT_ID: HeaderName = HeaderName::from_static("aeg-output-event-id");
const BATCH_SIZE: HeaderName = HeaderName::from_static("hedgerow-batch-size");
const ORIGIN: HeaderName = HeaderName::from_static("webhook-request-origin");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

const fn content_type(schema: DeliverySchema, is_batched: bool) -> &'static str {
    match (schema, is_batched) {
        (DeliverySchema::CloudEventSchemaV1_0, false) => {
            "application/cloudevents+json; charset=utf-8"
        }
        (DeliverySchema::CloudEventSchemaV1_0, true) => {
            "application/cloudevents-batch+json; charset=utf-8"
        }
        (DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema, _) => {
            "application/json; charset=utf-8"
        }
    }
}

/// The system id of an event for a subscription: constant over all its attempts, different for each subscription (section
/// 3.3). Derived, so that it needs no storing; written as a UUID of version 8.
#[must_use]
pub fn system_id(store: &[u8; 16], subscription: SubscriptionId, position: Position) -> String {
    let mut hasher = SipHasher13::new_with_key(store);
    hasher.write(&subscription.0.to_le_bytes());
    hasher.write(&position.topic.0.to_le_bytes());
    hasher.write(&position.seq.to_le_bytes());
    hash_uuid(hasher.finish128().as_u128())
}

/// A hash as a UUID of version 8.
pub(super) fn hash_uuid(hash: u128) -> String {
    let version_and_variant = 0xf << 76 | 0b11 << 62;
    let id = hash & !version_and_variant | 0x8 << 76 | 0b10 << 62;
    uuid_text(id)
}

/// Non-ASCII text is sent as UTF-8 bytes (ED-146).
fn header_value(text: &str) -> Option<HeaderValue> {
    if text.len() > limits::HEADER_VALUE_BYTES_MAX {
        return None;
    }
    HeaderValue::from_bytes(text.as_bytes()).ok()
}
