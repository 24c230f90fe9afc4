//! Custom delivery properties as headers (section 3.4): what a subscription declared, made ready once, and what an event
//! makes of it.

use hedgerow_core::event::Event;
use hedgerow_core::filter::{FilterEvent, TextKeys};
use hedgerow_core::limits;
use hedgerow_core::spec::{AttributeValue, DeliveryAttribute, is_header_value};
use http::header::{HeaderName, HeaderValue};

/// The custom headers of a subscription. Secrets are marked as such, and `Debug` does not show them.
#[derive(Debug, Clone)]
pub struct CustomHeaders {
    headers: Box<[(HeaderName, Source)]>,
    keys: TextKeys,
}

#[derive(Debug, Clone)]
enum Source {
    Static(HeaderValue),
    /// The text at the next key.
    Dynamic,
}

/// The custom headers that one event is sent with. Two events may be sent in one request only if theirs are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ResolvedHeaders {
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// What an event is sent with that is replayed of a dead letter (ED-265).
const REPLAY_OF: HeaderName = HeaderName::from_static("hedgerow-replay-of");

impl ResolvedHeaders {
    /// The same for an event that is replayed of a dead letter: events of other letters share no request with it.
    #[must_use]
    pub fn of_replay(mut self, letter: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(letter) {
            self.headers.push((REPLAY_OF, value));
        }
        self
    }
}

/// Why an event has a value for a header and is sent without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// More bytes than a value may have (ED-144).
    TooLong {
        /// How many.
        bytes: usize,
    },
    /// A line break or another character that no header can have (ED-146).
    Characters,
}

impl CustomHeaders {
    /// Makes what was declared ready.
    #[must_use]
    pub fn new(attributes: &[DeliveryAttribute]) -> Self {
        let keys = attributes.iter().filter_map(|one| match &one.value {
            AttributeValue::Dynamic { source_field } => Some(&**source_field),
            AttributeValue::Static { .. } => None,
        });
        let keys = TextKeys::new(keys);
        // Both were judged when they were declared.
        let headers = attributes.iter().filter_map(|one| {
            let name = HeaderName::from_bytes(one.name.as_bytes()).ok()?;
            let source = match &one.value {
                AttributeValue::Static { value, is_secret } => {
                    let mut value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
                    value.set_sensitive(*is_secret);
                    Source::Static(value)
                }
                AttributeValue::Dynamic { .. } => Source::Dynamic,
            };
            Some((name, source))
        });
        let headers = headers.collect();
        Self { headers, keys }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Whether two events may have different ones.
    #[must_use]
    pub const fn depend_on_event(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Those that do not depend on an event: handshakes have them too (ED-151).
    pub fn fixed(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.headers
            .iter()
            .filter_map(|(name, source)| match source {
                Source::Static(value) => Some((name, value)),
                Source::Dynamic => None,
            })
    }

    /// The custom headers of an event, in the order of the declaration. `topic_path` is what the key `topic` stands for.
    ///
    /// What the event has no text for is left out (ED-146). So is what no header can carry, and `unusable` is told its name
    /// and why.
    pub fn resolve(
        &self,
        event: &Event<'_>,
        topic_path: &str,
        mut unusable: impl FnMut(&HeaderName, Unusable),
    ) -> ResolvedHeaders {
        let mut texts = self
            .keys
            .find(&FilterEvent::new(event, topic_path))
            .into_iter();
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, source) in &self.headers {
            let value = match source {
                Source::Static(value) => Some(value.clone()),
                Source::Dynamic => texts
                    .next()
                    .flatten()
                    .and_then(|text| usable(&text).map_err(|reason| unusable(name, reason)).ok()),
            };
            headers.extend(value.map(|value| (name.clone(), value)));
        }
        ResolvedHeaders { headers }
    }
}

impl ResolvedHeaders {
    /// Those of a subscription that adds none.
    #[must_use]
    pub const fn none() -> Self {
        let headers = Vec::new();
        Self { headers }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.headers.len()
    }

    /// Name and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.headers.iter().map(|(name, value)| (name, value))
    }
}

/// A value out of an event as a header has it: UTF-8 as it is (ED-146).
fn usable(text: &str) -> Result<HeaderValue, Unusable> {
    let bytes = text.len();
    if bytes > limits::HEADER_VALUE_BYTES_MAX {
        return Err(Unusable::TooLong { bytes });
    }
    if !is_header_value(text) {
        return Err(Unusable::Characters);
    }
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| Unusable::Characters)
}

#[cfg(test)]
mod tests {
    use hedgerow_core::event::Data;
    use hedgerow_core::spec::{AttributeRules, EndpointType};
    use serde_json::json;

    use super::*;

    fn custom() -> CustomHeaders {
        let list = [
            json!({ "name": "X-Key", "type": "Static", "properties": { "value": "canary", "isSecret": true } }),
            json!({ "name": "X-One", "type": "Dynamic", "properties": { "sourceField": "data.one" } }),
            json!({ "name": "X-Two", "type": "Dynamic", "properties": { "sourceField": "data.two" } }),
        ];
        let rules = AttributeRules {
            endpoint_type: EndpointType::WebHook,
            has_bearer_token: false,
        };
        CustomHeaders::new(&DeliveryAttribute::check_list(&list, "list", rules).unwrap())
    }

    fn resolve(data: &str) -> (ResolvedHeaders, Vec<(String, Unusable)>) {
        let event = Event {
            id: "1".into(),
            source: None,
            event_type: "Made".into(),
            subject: Some("a".into()),
            time: None,
            data_version: None,
            data_content_type: None,
            data_schema: None,
            extensions: Vec::new(),
            data: Data::Json(data.into()),
        };
        let mut told = Vec::new();
        let resolved = custom().resolve(&event, "/topics/orders", |name, why| {
            told.push((name.to_string(), why));
        });
        (resolved, told)
    }

    /// ED-221: what events may share a request goes by all of their headers, and by nothing else of them.
    #[test]
    fn events_with_the_same_values_have_equal_headers() {
        let headers = |data: &str| resolve(data).0;
        assert_eq!(
            headers(r#"{"one":1,"x":2}"#),
            headers(r#"{"one":"1","two":null}"#)
        );
        assert_ne!(headers(r#"{"one":1}"#), headers(r#"{"one":1.0}"#));
        assert_ne!(headers(r#"{"one":1}"#), headers(r#"{"two":1}"#));
        assert_ne!(headers(r#"{"one":1}"#), headers(r#"{"one":1,"two":""}"#));
    }

    /// ED-144, ED-146: only what is there and cannot be sent is told of.
    #[test]
    fn what_cannot_be_sent_is_told_of() {
        let long = "x".repeat(4_097);
        let (resolved, told) = resolve(&format!(r#"{{"one":"{long}","two":"a\r\nb"}}"#));
        assert_eq!(resolved.iter().count(), 1);
        let expected = [
            ("x-one".to_owned(), Unusable::TooLong { bytes: 4_097 }),
            ("x-two".to_owned(), Unusable::Characters),
        ];
        assert_eq!(told, expected);
        assert_eq!(resolve(r#"{"one":[],"two":null}"#).1, []);
    }

    /// ED-149: nobody prints a secret by accident.
    #[test]
    fn secrets_are_not_shown() {
        let (resolved, _) = resolve("{}");
        let shown = format!("{resolved:?} {:?}", custom());
        assert!(!shown.contains("canary"), "{shown}");
        assert_eq!(resolved.iter().next().unwrap().1, "canary");
    }
}
