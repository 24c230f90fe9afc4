//! The Event Grid schema: a JSON array of events with `id`, `subject`, `eventType`, `eventTime` and more, in and out.
//!
//! Follows sections 1.5, 1.6, 1.9, 1.10, 3.2 and 3.3 of the delivery specification. The JSON of `data` is carried byte
//! for byte (ED-039).

pub(crate) mod decode;
pub(crate) mod encode;
mod error;

pub use error::{CONTENT_TYPE, Detail, ErrorCode, PublishError, Report};

/// The resource path of a topic: what events carry as `topic`, and what a published `topic` must equal.
#[must_use]
pub fn topic_path(name: &str) -> String {
    let group = "/subscriptions/hedgerow/resourceGroups/hedgerow";
    format!("{group}/providers/Microsoft.EventGrid/topics/{name}")
}
