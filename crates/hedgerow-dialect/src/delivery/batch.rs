//! The body of a batch, event by event, and what its events have in common (ED-132, ED-139).

use hedgerow_core::event::Event;
use hedgerow_core::spec::DeliverySchema;
use hedgerow_core::time::Timestamp;

use super::body::push_event;

/// An array of events that is being written. Whatever the count of events in it, it has the form of a batch (ED-132).
#[derive(Debug)]
pub struct BatchBody<'a> {
    schema: DeliverySchema,
    topic_path: &'a str,
    body: Vec<u8>,
    /// Where the newest event begins, its comma included.
    newest: usize,
}

impl<'a> BatchBody<'a> {
    /// Begins one, with room for so many bytes.
    #[must_use]
    pub fn begin(schema: DeliverySchema, topic_path: &'a str, capacity: usize) -> Self {
        let mut body = Vec::with_capacity(capacity.max("[]".len()));
        body.push(b'[');
        Self {
            schema,
            topic_path,
            body,
            newest: "[".len(),
        }
    }

    /// Writes an event behind the others. Returns how many bytes its own JSON has.
    pub fn push(&mut self, event: &Event<'_>, published: Timestamp) -> usize {
        self.newest = self.body.len();
        if self.newest > "[".len() {
            self.body.push(b',');
        }
        let begin = self.body.len();
        push_event(
            self.schema,
            event,
            self.topic_path,
            published,
            &mut self.body,
        );
        self.body.len() - begin
    }

    /// Takes the newest event back.
    pub fn undo(&mut self) {
        self.body.truncate(self.newest);
    }

    /// The whole body.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.body.push(b']');
        self.body
    }
}

/// The least bytes that the JSON of an event has in a schema: no more of them than this allows fit into a body.
#[must_use]
pub const fn event_bytes_min(schema: DeliverySchema) -> usize {
    match schema {
        DeliverySchema::EventGridSchema => 100,
        DeliverySchema::CloudEventSchemaV1_0 => 50,
        DeliverySchema::CustomInputSchema => 1,
    }
}

/// A text that all events of a batch have, if they have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonText(Common);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Common {
    #[default]
    Unknown,
    Same(String),
    Different,
}

impl CommonText {
    /// Takes note of what the next event has.
    pub fn note(&mut self, text: &str) {
        match &self.0 {
            Common::Unknown => self.0 = Common::Same(text.to_owned()),
            // Comparing nothing with nothing takes some processors longer than comparing texts.
            Common::Same(same) if same.is_empty() && text.is_empty() => {}
            Common::Same(same) if same != text => self.0 = Common::Different,
            Common::Same(_) | Common::Different => {}
        }
    }

    /// What all have.
    #[must_use]
    pub fn get(&self) -> Option<&str> {
        match &self.0 {
            Common::Same(text) => Some(text),
            Common::Unknown | Common::Different => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_core::event::Data;

    use super::*;

    fn event(id: &str) -> Event<'_> {
        Event {
            id: id.into(),
            source: Some("/s".into()),
            event_type: "t".into(),
            subject: None,
            time: None,
            data_version: None,
            data_content_type: None,
            data_schema: None,
            extensions: Vec::new(),
            data: Data::Json("{}".into()),
        }
    }

    /// ED-132, ED-214: a batch of one is an array too, and what an event adds is its own JSON and a comma.
    #[test]
    fn events_stand_in_an_array() {
        let one = r#"{"specversion":"1.0","id":"a","source":"/s","type":"t","data":{}}"#;
        let schema = DeliverySchema::CloudEventSchemaV1_0;
        for (ids, undone, expected) in [
            (&["a"][..], false, format!("[{one}]")),
            (&["a", "a"], false, format!("[{one},{one}]")),
            (&["a", "b"], true, format!("[{one}]")),
            (&["a"], true, "[]".to_owned()),
        ] {
            let mut body = BatchBody::begin(schema, "/t", 0);
            for id in ids {
                assert_eq!(body.push(&event(id), Timestamp::ZERO), one.len());
            }
            if undone {
                body.undo();
            }
            assert_eq!(String::from_utf8(body.finish()).unwrap(), expected);
        }
    }

    #[test]
    fn no_event_is_smaller_than_the_least() {
        let mut least = event("");
        least.source = Some("".into());
        least.event_type = "".into();
        least.data = Data::None;
        for schema in DeliverySchema::ALL {
            let mut body = BatchBody::begin(schema, "", 0);
            least.data = match schema {
                DeliverySchema::CustomInputSchema => Data::Json("0".into()),
                _ => Data::None,
            };
            let bytes = body.push(&least, Timestamp::ZERO);
            assert!(bytes >= event_bytes_min(schema), "{schema:?}: {bytes}");
        }
    }

    #[test]
    fn what_all_have_is_common() {
        let common = |texts: &[&str]| {
            let mut common = CommonText::default();
            for text in texts {
                common.note(text);
            }
            common.get().map(str::to_owned)
        };
        assert_eq!(common(&[]), None);
        assert_eq!(common(&["", ""]), Some(String::new()));
        assert_eq!(common(&["1", "1", "1"]), Some("1".to_owned()));
        assert_eq!(common(&["1", "2", "1"]), None);
    }
}
