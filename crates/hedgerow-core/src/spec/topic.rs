//! A topic, as declared (ED-030).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fields::Fields;
use super::{Checked, SpecError};

/// What a topic takes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct TopicSpec {
    /// The schema of published events; it never changes.
    pub input_schema: InputSchema,
}

/// The schema of published events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputSchema {
    /// A JSON array of the vendor's own events.
    #[default]
    EventGridSchema,
}

impl InputSchema {
    /// The name in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EventGridSchema => "EventGridSchema",
        }
    }
}

impl TopicSpec {
    /// Checks a declaration.
    ///
    /// # Errors
    ///
    /// The first offending member.
    pub fn check(value: &Value) -> Result<Checked<Self>, SpecError> {
        let mut fields = Fields::open(value, "")?;
        let input_schema = match fields.text("inputSchema")? {
            None | Some("EventGridSchema") => InputSchema::EventGridSchema,
            Some(_) => {
                let message = "must be \"EventGridSchema\", the only one this version supports";
                return Err(fields.error("inputSchema", message));
            }
        };
        fields.refuse(&[
            "inputSchemaMapping",
            "inboundIpRules",
            "publicNetworkAccess",
        ])?;
        fields.finish()?;
        Ok(Checked {
            spec: Self { input_schema },
            warnings: Vec::new(),
        })
    }

    /// The topic with every default written out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "inputSchema": self.input_schema.as_str() })
    }
}

impl TryFrom<Value> for TopicSpec {
    type Error = SpecError;

    fn try_from(value: Value) -> Result<Self, SpecError> {
        Self::check(&value).map(|checked| checked.spec)
    }
}

impl From<TopicSpec> for Value {
    fn from(spec: TopicSpec) -> Self {
        spec.to_json()
    }
}
