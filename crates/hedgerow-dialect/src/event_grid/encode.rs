//! From an event to the members of the vendor's own schema (ED-133).

use hedgerow_core::event::{Data, Event};

use super::path_of;
use crate::object::{Members, Value};

/// Gives all members but the data: `id`, `eventTime`, `eventType`, `dataVersion`, `metadataVersion`, `topic`, `subject`. An
/// event without a time has that at which it was published (ED-052). `topic_path` is the path of the topic, or of the domain.
pub(crate) fn envelope(
    event: &Event<'_>,
    topic_path: &str,
    published: Value<'_>,
    members: &mut impl Members,
) {
    members.member("id", Value::Text(&event.id));
    let time = event.time.as_deref().map_or(published, Value::Text);
    members.member("eventTime", time);
    let path = path_of(topic_path, event);
    let mut text = |name, text| members.member(name, Value::Text(text));
    text("eventType", &event.event_type);
    let data_version = event.data_version.as_deref();
    text("dataVersion", data_version.unwrap_or_default());
    text("metadataVersion", "1");
    text("topic", &path);
    text("subject", event.subject.as_deref().unwrap_or_default());
}

/// Gives the data, if there is any.
pub(crate) fn data(event: &Event<'_>, members: &mut impl Members) {
    let value = match &event.data {
        Data::None => return,
        Data::Json(text) => Value::Json(text),
        Data::Text(text) => Value::Text(text),
        // Bytes come from CloudEvents topics only, which do not deliver this schema (ED-131).
        Data::Binary(bytes) => Value::Base64(bytes),
    };
    members.member("data", value);
}
