//! From an event to the members of a `CloudEvent` in structured mode (ED-134, ED-135, ED-137).

use std::borrow::Cow;

use hedgerow_core::event::{Data, Event, is_attribute};

use crate::event_grid::path_of;
use crate::object::{Members, Value};

/// Gives all members but the data. `rename` says what an extension is called instead of its name.
///
/// An event without a source of its own was published in another schema: it is converted. `topic_path` is the path of the
/// topic, or of the domain.
pub(crate) fn attributes<'n>(
    event: &'n Event<'_>,
    topic_path: &str,
    published: Value<'_>,
    rename: impl Fn(&'n str) -> Cow<'n, str>,
    members: &mut impl Members,
) {
    members.member("specversion", Value::Text("1.0"));
    members.member("id", Value::Text(&event.id));
    let source = event.source.as_deref();
    let source_text = source.map_or_else(|| path_of(topic_path, event), Cow::Borrowed);
    members.member("source", Value::Text(&source_text));
    members.member("type", Value::Text(&event.event_type));
    // A mapping may have given an empty one, which a CloudEvent cannot have.
    let subject = event.subject.as_deref().filter(|text| !text.is_empty());
    members.text_if_some("subject", subject);
    let time = event.time.as_deref().map(Value::Text);
    // What was published in another schema has a time always: its own, or that of its publication (ED-052).
    if let Some(time) = time.or_else(|| source.is_none().then_some(published)) {
        members.member("time", time);
    }
    if source.is_none() {
        if !matches!(event.data, Data::None) {
            members.member("datacontenttype", Value::Text("application/json"));
        }
        let version = event.data_version.as_deref().unwrap_or_default();
        if !version.is_empty() {
            members.member("dataschema", Value::Joined("#", version));
        }
        return;
    }
    members.text_if_some("datacontenttype", event.data_content_type.as_deref());
    members.text_if_some("dataschema", event.data_schema.as_deref());
    let attributes = event.extensions.iter();
    for (name, value) in attributes.filter(|(name, _)| is_attribute(name)) {
        members.member(&rename(name), Value::Json(value));
    }
}

/// Gives the data, if there is any.
pub(crate) fn data(event: &Event<'_>, members: &mut impl Members) {
    match &event.data {
        Data::None => {}
        Data::Json(text) => members.member("data", Value::Json(text)),
        Data::Text(text) => members.member("data", Value::Text(text)),
        Data::Binary(bytes) => members.member("data_base64", Value::Base64(bytes)),
    }
}
