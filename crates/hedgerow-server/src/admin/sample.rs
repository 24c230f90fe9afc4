//! A sample event, as a publish request would have it. What every event of a schema has and few people look at may be left out.

use hedgerow_core::event::Event;
use hedgerow_core::spec::{InputSchema, InputSchemaMapping, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::PublishTopic;
use hedgerow_dialect::event_grid::PublishError;
use hedgerow_dialect::publish;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value, json};

use crate::error::ApiError;

/// The type of an event that nobody gave.
const EVENT_TYPE: &str = "Hedgerow.EndpointTest";

/// What is written where a sample does not say it.
pub(super) struct Defaults<'a> {
    pub id: &'a str,
    pub now: Timestamp,
    /// The domain topic that it is of, if its topic is a domain.
    pub domain_topic: &'a str,
}

/// A sample event.
pub(super) struct Sample {
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Sample {
    /// The sample with what it does not say.
    pub fn new(
        topic: &TopicSpec,
        mut sample: Value,
        defaults: &Defaults<'_>,
    ) -> Result<Self, ApiError> {
        let Some(members) = sample.as_object_mut() else {
            return Err(ApiError::member("event", "must be an object"));
        };
        let time = defaults.now.to_string();
        let is_domain = topic.domain.is_some();
        let source = if is_domain {
            defaults.domain_topic
        } else {
            "sample"
        };
        let mut missing = match topic.input_schema {
            InputSchema::EventGridSchema => vec![
                ("id", defaults.id),
                ("subject", "sample"),
                ("eventTime", &time),
                ("dataVersion", ""),
            ],
            InputSchema::CloudEventSchemaV1_0 => vec![
                ("id", defaults.id),
                ("source", source),
                ("specversion", "1.0"),
            ],
            InputSchema::CustomEventSchema => Vec::new(),
        };
        if is_domain && topic.input_schema == InputSchema::EventGridSchema {
            missing.push(("topic", defaults.domain_topic));
        }
        for (name, default) in missing {
            let member = members.entry(name).or_insert(Value::Null);
            if member.is_null() {
                *member = json!(default);
            }
        }
        let is_cloud = topic.input_schema == InputSchema::CloudEventSchemaV1_0;
        let (media_type, body) = if is_cloud {
            ("application/cloudevents+json", sample)
        } else {
            ("application/json", json!([sample]))
        };
        let headers = [(CONTENT_TYPE, HeaderValue::from_static(media_type))];
        Ok(Self {
            headers: headers.into_iter().collect(),
            body: body.to_string().into_bytes(),
        })
    }

    /// One that says what it is, for whoever gives none.
    pub fn made_up(topic: &TopicSpec, defaults: &Defaults<'_>) -> Result<Self, ApiError> {
        let data = json!({ "message": "A test of the endpoint. Nothing happened." });
        let sample = match topic.input_schema {
            InputSchema::EventGridSchema => json!({ "eventType": EVENT_TYPE, "data": data }),
            InputSchema::CloudEventSchemaV1_0 => json!({
                "type": EVENT_TYPE,
                "time": defaults.now.to_string(),
                "datacontenttype": "application/json",
                "data": data,
            }),
            InputSchema::CustomEventSchema => {
                let mapping = topic.input_schema_mapping.as_ref();
                let mapped = mapping.map(|mapping| mapped(mapping, defaults));
                Value::Object(mapped.unwrap_or_default())
            }
        };
        Self::new(topic, sample, defaults)
    }

    /// The event, as a topic with this spec and path takes it.
    pub fn event<'s>(
        &'s self,
        topic: &'s PublishTopic,
        new_id: &mut dyn FnMut() -> String,
    ) -> Result<Event<'s>, ApiError> {
        let request = publish::Request {
            headers: &self.headers,
            topic: &topic.spec,
            topic_path: &topic.path,
            domain: topic.spec.domain.map(|_| topic.path.as_str()),
        };
        let read = publish::decode(&self.body, &request, new_id);
        let published = read.map_err(|error| ApiError::member("event", &told(&error)))?;
        let event = published.events.into_iter().next();
        event.ok_or_else(|| ApiError::member("event", "is none"))
    }
}

/// An event with what a mapping reads.
fn mapped(mapping: &InputSchemaMapping, defaults: &Defaults<'_>) -> Map<String, Value> {
    let time = defaults.now.to_string();
    let fields = [
        (&mapping.id, defaults.id),
        (&mapping.topic, defaults.domain_topic),
        (&mapping.event_time, &time),
        (&mapping.event_type.source, EVENT_TYPE),
        (&mapping.subject.source, "sample"),
        (&mapping.data_version.source, "1"),
    ];
    let mut event = Map::new();
    for (source, value) in fields {
        let Some(source) = source else { continue };
        let mut parts = source.as_str().split('.').peekable();
        let mut members = &mut event;
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                members.insert(part.to_owned(), json!(value));
                break;
            }
            let inner = members.entry(part).or_insert_with(|| json!({}));
            // One path through another's value: whichever comes first is there.
            let Some(inner) = inner.as_object_mut() else {
                break;
            };
            members = inner;
        }
    }
    event
}

/// What is wrong, and where if it is one member.
fn told(error: &PublishError) -> String {
    let details = error.details.iter().map(|detail| detail.message.as_str());
    let mut told = vec![error.message.as_str()];
    told.extend(details);
    told.join(" ")
}
