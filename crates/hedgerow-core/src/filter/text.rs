//! The text at keys of an event, for those who send it on instead of comparing it: custom delivery properties (ED-145,
//! ED-146), and whatever else goes by a value of the event.
//!
//! A text, a number or a truth value has one: a number as its JSON has it, so that `1.10` stays `1.10`. What is absent,
//! null, an object or an array has none. No path leads through an array.

use std::borrow::Cow;

use super::FilterRules;
use super::event::FilterEvent;
use super::key::Key;
use super::table::{KeyTable, Slot};
use super::value::unquote;

/// Keys whose texts are looked for together.
#[derive(Debug, Clone)]
pub struct TextKeys {
    table: KeyTable,
    /// Where each is found, in their order.
    slots: Vec<Slot>,
}

impl TextKeys {
    /// Keys in the syntax of filters (ED-103 to ED-108).
    pub fn new<'k>(keys: impl IntoIterator<Item = &'k str>) -> Self {
        let mut table = KeyTable::new(FilterRules::default());
        let slots = keys.into_iter();
        let slots = slots.map(|key| table.intern(&Key::parse(key))).collect();
        Self { table, slots }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The text at each key, in their order.
    #[must_use]
    pub fn find<'a>(&self, event: &FilterEvent<'a>) -> Vec<Option<Cow<'a, str>>> {
        if self.slots.is_empty() {
            return Vec::new();
        }
        let found = self.table.find_texts(event);
        let slots = self.slots.iter();
        let at = |slot: &Slot| found.binary_search_by_key(slot, |(slot, _)| *slot).ok();
        slots
            .map(|slot| at(slot).and_then(|at| found[at].1.clone()))
            .collect()
    }
}

/// The text of a value whose JSON is valid.
pub(super) fn text_of_json(json: &str) -> Option<Cow<'_, str>> {
    let json = json.trim_ascii();
    match json.as_bytes().first()? {
        b'"' => unquote(json),
        b't' | b'f' | b'-' | b'0'..=b'9' => Some(Cow::Borrowed(json)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Data, Event};

    fn event(data: &str) -> Event<'_> {
        Event {
            id: "1".into(),
            source: None,
            event_type: "Made".into(),
            subject: Some("a/b".into()),
            time: None,
            data_version: Some("".into()),
            data_content_type: None,
            data_schema: None,
            extensions: Vec::new(),
            data: Data::Json(data.into()),
        }
    }

    fn texts(event: &Event<'_>, keys: &[&str]) -> Vec<Option<String>> {
        let keys = TextKeys::new(keys.iter().copied());
        let found = keys.find(&FilterEvent::new(event, "/topics/orders"));
        found
            .into_iter()
            .map(|text| text.map(Cow::into_owned))
            .collect()
    }

    /// ED-145, ED-146.
    #[test]
    fn scalars_have_a_text_and_nothing_else() {
        let data = r#"{"s":"a\u00e4\"","n":1.10,"e":-1e2,"t":true,"z":null,"o":{"x":1},"l":[{"x":1}],"S":"other"}"#;
        let event = event(data);
        let rows = [
            ("id", Some("1")),
            ("TOPIC", Some("/topics/orders")),
            ("eventType", Some("Made")),
            ("dataVersion", Some("")),
            ("eventTime", None),
            ("data", None),
            ("data.s", Some("a\u{e4}\"")),
            ("data.S", Some("other")),
            ("data.N", Some("1.10")),
            ("data.e", Some("-1e2")),
            ("data.t", Some("true")),
            ("data.z", None),
            ("data.o", None),
            ("data.o.x", Some("1")),
            ("data.l", None),
            ("data.l.x", None),
            ("data.none", None),
            ("subject.x", None),
        ];
        let keys: Vec<_> = rows.iter().map(|(key, _)| *key).collect();
        let expected: Vec<_> = rows
            .iter()
            .map(|(_, text)| text.map(str::to_owned))
            .collect();
        assert_eq!(texts(&event, &keys), expected);
        assert!(texts(&event, &[]).is_empty());
    }

    #[test]
    fn data_that_is_no_object_is_a_text_too() {
        let scalar = event("12.50");
        assert_eq!(texts(&scalar, &["data"]), [Some("12.50".to_owned())]);
        let text = Event {
            data: Data::Text("plain".into()),
            ..event("")
        };
        assert_eq!(
            texts(&text, &["data", "data.x"]),
            [Some("plain".to_owned()), None]
        );
        let bytes = Event {
            data: Data::Binary(vec![0xff].into()),
            ..event("")
        };
        assert_eq!(texts(&bytes, &["data"]), [Some("/w==".to_owned())]);
    }

    /// Extensions of CloudEvents have the text of their value; `topic` is none of their attributes.
    #[test]
    fn cloud_events_are_looked_at_by_their_names() {
        let cloud = Event {
            source: Some("/s".into()),
            extensions: vec![
                ("tenant".into(), r#""blue""#.into()),
                ("priority".into(), "5".into()),
                ("odd".into(), "{}".into()),
            ],
            ..event("{}")
        };
        let found = texts(
            &cloud,
            &[
                "type",
                "tenant",
                "Priority",
                "odd",
                "topic",
                "source",
                "specversion",
            ],
        );
        let expected = [
            Some("Made"),
            Some("blue"),
            Some("5"),
            None,
            None,
            Some("/s"),
            Some("1.0"),
        ];
        assert_eq!(found, expected.map(|text| text.map(str::to_owned)));
    }
}
