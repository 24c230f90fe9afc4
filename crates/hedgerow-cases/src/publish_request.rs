//! A publish request as the tables spell it, read by the code that the publish route uses.

use hedgerow_core::event::Event;
use hedgerow_core::spec::{InputSchema, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::event_grid::PublishError;
use hedgerow_dialect::publish::{Request, decode};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::read_values::timestamp;

/// What a request depends on, besides its body.
#[derive(Debug)]
pub struct PublishRequest {
    headers: HeaderMap,
    topic: TopicSpec,
    topic_path: String,
    domain: Option<String>,
    publish_time: Timestamp,
    generated_id: String,
}

/// What a case says of it.
#[derive(Debug, Default)]
pub struct Given<'g> {
    /// The input schema; `EventGridSchema` if it is missing.
    pub schema: Option<&'g str>,
    /// The `properties` of a mapping.
    pub mapping: Option<&'g Value>,
    /// All headers.
    pub headers: Option<&'g Map<String, Value>>,
    /// The path of the topic.
    pub topic_path: Option<&'g str>,
    /// The path of the domain.
    pub domain: Option<&'g str>,
    /// When the events are published.
    pub publish_time: Option<&'g str>,
    /// The id of custom events that have none.
    pub generated_id: Option<&'g str>,
}

impl PublishRequest {
    /// Reads what a case says.
    ///
    /// # Errors
    ///
    /// If there is no such schema, mapping, header or time.
    pub fn new(given: &Given<'_>) -> Result<Self, String> {
        let schema = given
            .schema
            .unwrap_or(InputSchema::EventGridSchema.as_str());
        let topic = topic_spec(schema, given.mapping);
        let mut headers = HeaderMap::new();
        for (name, value) in given.headers.into_iter().flatten() {
            let name: HeaderName = name.parse().map_err(|_| format!("{name} is no header"))?;
            let value = value.as_str().ok_or("a header's value is a text")?;
            let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|e| e.to_string())?;
            headers.append(name, value);
        }
        Ok(Self {
            headers,
            topic: TopicSpec::check(&topic)
                .map_err(|error| error.to_string())?
                .spec,
            topic_path: given.topic_path.unwrap_or("/topics/orders").to_owned(),
            domain: given.domain.map(str::to_owned),
            publish_time: given.publish_time.map_or(Ok(Timestamp::ZERO), timestamp)?,
            generated_id: given.generated_id.unwrap_or("generated").to_owned(),
        })
    }

    /// When the events are published.
    #[must_use]
    pub const fn publish_time(&self) -> Timestamp {
        self.publish_time
    }

    /// The events of a body, and the path of the topic or domain that they were published to.
    ///
    /// # Errors
    ///
    /// Why none is taken.
    pub fn read<'b>(&'b self, body: &'b [u8]) -> Result<Vec<(Event<'b>, String)>, PublishError> {
        let request = Request {
            headers: &self.headers,
            topic: &self.topic,
            topic_path: &self.topic_path,
            domain: self.domain.as_deref(),
        };
        let published = decode(body, &request, &mut || self.generated_id.clone())?;
        let path = self.domain.as_ref().unwrap_or(&self.topic_path);
        let with_path = |event| (event, path.clone());
        Ok(published.events.into_iter().map(with_path).collect())
    }
}

/// The declaration of a topic.
#[must_use]
pub fn topic_spec(schema: &str, mapping: Option<&Value>) -> Value {
    let mut topic = json!({ "inputSchema": schema });
    if let Some(properties) = mapping {
        topic["inputSchemaMapping"] =
            json!({ "inputSchemaMappingType": "Json", "properties": properties });
    }
    topic
}
