//! A topic, as declared (ED-030, ED-048 to ED-050).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fields::Fields;
use super::{Checked, InputSchemaMapping, SpecError, Warning};

/// What a topic takes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct TopicSpec {
    /// The schema of published events; it never changes.
    pub input_schema: InputSchema,
    /// Where the Event Grid members are found in an event of a custom schema; it never changes. There exactly with
    /// [`InputSchema::CustomEventSchema`].
    pub input_schema_mapping: Option<InputSchemaMapping>,
    /// Whether keys and shared access signatures are refused (ED-015).
    pub disable_local_auth: bool,
}

/// The schema of published events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputSchema {
    /// A JSON array of the vendor's own events.
    #[default]
    EventGridSchema,
    /// CloudEvents 1.0: one structured, a batch, or one in binary mode.
    CloudEventSchemaV1_0,
    /// A JSON array of any objects, with a mapping.
    CustomEventSchema,
}

impl InputSchema {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::EventGridSchema,
        Self::CloudEventSchemaV1_0,
        Self::CustomEventSchema,
    ];

    /// The name in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EventGridSchema => "EventGridSchema",
            Self::CloudEventSchemaV1_0 => "CloudEventSchemaV1_0",
            Self::CustomEventSchema => "CustomEventSchema",
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
        let mut warnings = Vec::new();
        let mut fields = Fields::open(value, "")?;
        let input_schema = check_input_schema(&mut fields)?;
        let spec = Self {
            input_schema,
            input_schema_mapping: check_mapping(&mut fields, input_schema, &mut warnings)?,
            disable_local_auth: fields.boolean("disableLocalAuth")?.unwrap_or(false),
        };
        fields.refuse(&["inboundIpRules", "publicNetworkAccess"])?;
        fields.finish()?;
        Ok(Checked { spec, warnings })
    }

    /// The topic with every default written out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "inputSchema": self.input_schema.as_str(),
            "disableLocalAuth": self.disable_local_auth,
        });
        if let Some(mapping) = &self.input_schema_mapping {
            json["inputSchemaMapping"] = mapping.to_json();
        }
        json
    }

    /// Says what keeps a topic from being declared anew as `new`: its schema and mapping never change (ED-030).
    ///
    /// # Errors
    ///
    /// The member that differs.
    pub fn check_change(&self, new: &Self) -> Result<(), SpecError> {
        let member = if self.input_schema != new.input_schema {
            "inputSchema"
        } else if self.input_schema_mapping != new.input_schema_mapping {
            "inputSchemaMapping"
        } else {
            return Ok(());
        };
        Err(SpecError::new(
            member,
            "cannot be changed after the topic was created",
        ))
    }
}

fn check_input_schema(fields: &mut Fields<'_>) -> Result<InputSchema, SpecError> {
    const NAME: &str = "inputSchema";
    let Some(text) = fields.text(NAME)? else {
        return Ok(InputSchema::default());
    };
    let schema = InputSchema::ALL
        .into_iter()
        .find(|schema| schema.as_str() == text);
    schema.ok_or_else(|| {
        let [first, second, third] = InputSchema::ALL.map(InputSchema::as_str);
        fields.error(
            NAME,
            format!("must be \"{first}\", \"{second}\" or \"{third}\""),
        )
    })
}

/// A mapping belongs to the custom schema, and the custom schema needs one (ED-050).
fn check_mapping(
    fields: &mut Fields<'_>,
    input_schema: InputSchema,
    warnings: &mut Vec<Warning>,
) -> Result<Option<InputSchemaMapping>, SpecError> {
    const NAME: &str = "inputSchemaMapping";
    let mapping = fields.object(NAME)?;
    if input_schema != InputSchema::CustomEventSchema {
        if mapping.is_some() {
            let message = "is only for topics whose inputSchema is \"CustomEventSchema\"";
            return Err(fields.error(NAME, message));
        }
        return Ok(None);
    }
    let Some(mapping) = mapping else {
        let message = "is required with the inputSchema \"CustomEventSchema\"";
        return Err(fields.error(NAME, message));
    };
    let mapping = InputSchemaMapping::check(mapping)?;
    for (name, field) in [
        ("eventType", &mapping.event_type),
        ("subject", &mapping.subject),
    ] {
        if field.is_unmapped() {
            warnings.push(Warning {
                field: fields.path(&format!("{NAME}.properties.{name}")),
                message: format!(
                    "{name} is neither mapped nor has a default: it is empty in every event"
                ),
            });
        }
    }
    Ok(Some(mapping))
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
