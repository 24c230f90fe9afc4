//! The Event Grid schema: a JSON array of events with `id`, `subject`, `eventType`, `eventTime` and more, in and out.
//!
//! Follows sections 1.5, 1.6, 1.9, 1.10, 3.2 and 3.3 of the delivery specification. The JSON of `data` is carried byte
//! for byte (ED-039).

pub(crate) mod decode;
pub(crate) mod encode;
mod error;

use std::borrow::Cow;

use hedgerow_core::event::Event;

pub use error::{CONTENT_TYPE, Detail, ErrorCode, PublishError, Report};

const PROVIDER: &str =
    "/subscriptions/hedgerow/resourceGroups/hedgerow/providers/Microsoft.EventGrid";

/// The resource path of a topic: what events carry as `topic`, and what a published `topic` must equal.
#[must_use]
pub fn topic_path(name: &str) -> String {
    format!("{PROVIDER}/topics/{name}")
}

/// The resource path of a domain.
#[must_use]
pub fn domain_path(name: &str) -> String {
    format!("{PROVIDER}/domains/{name}")
}

/// The resource path of a domain topic, below that of its domain.
#[must_use]
pub fn domain_topic_path(domain: &str, name: &str) -> String {
    format!("{domain}/topics/{name}")
}

/// The resource path of what an event was published to: `path`, or its domain topic below that of its domain (ED-072).
#[must_use]
pub fn path_of<'p>(path: &'p str, event: &Event<'_>) -> Cow<'p, str> {
    match event.domain_topic() {
        None => Cow::Borrowed(path),
        Some(name) => Cow::Owned(domain_topic_path(path, name)),
    }
}
