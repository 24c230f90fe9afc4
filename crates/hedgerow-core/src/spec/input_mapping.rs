//! Where the Event Grid members are found in an event of a custom schema, as declared (ED-048 to ED-054).

use serde_json::{Map, Value, json};

use super::SpecError;
use super::fields::Fields;
use crate::limits;

/// The mapping of a topic with a custom schema. At least one entry is there (ED-050).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputSchemaMapping {
    /// `id`; generated if it is not mapped.
    pub id: Option<SourceField>,
    /// `topic`, which only domains use.
    pub topic: Option<SourceField>,
    /// `eventTime`; the publish time if it is not mapped.
    pub event_time: Option<SourceField>,
    /// `eventType`.
    pub event_type: MappedField,
    /// `subject`.
    pub subject: MappedField,
    /// `dataVersion`.
    pub data_version: MappedField,
}

/// A member that may have a default (ED-049).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MappedField {
    /// Where it is found.
    pub source: Option<SourceField>,
    /// What it is if it is not found.
    pub default: Option<Box<str>>,
}

impl MappedField {
    /// Whether nothing is said about it.
    #[must_use]
    pub const fn is_unmapped(&self) -> bool {
        self.source.is_none() && self.default.is_none()
    }
}

/// A dot path of object members from the event's root, case-sensitive, without arrays (ED-054). No part is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceField(Box<str>);

impl SourceField {
    /// The path as declared.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names from the root on, at least one.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }
}

const TYPE: &str = "inputSchemaMappingType";

impl InputSchemaMapping {
    /// Checks the object of a declaration.
    pub(super) fn check(mut fields: Fields<'_>) -> Result<Self, SpecError> {
        if fields.text(TYPE)?.is_some_and(|text| text != "Json") {
            return Err(fields.error(TYPE, "must be \"Json\""));
        }
        let Some(mut properties) = fields.object("properties")? else {
            return Err(fields.error("properties", "is required"));
        };
        let mapping = Self {
            id: source_only(&mut properties, "id")?,
            topic: source_only(&mut properties, "topic")?,
            event_time: source_only(&mut properties, "eventTime")?,
            event_type: mapped(&mut properties, "eventType", false)?,
            subject: mapped(&mut properties, "subject", false)?,
            data_version: mapped(&mut properties, "dataVersion", true)?,
        };
        properties.finish()?;
        if mapping == Self::default() {
            return Err(fields.error("properties", "must map or default at least one member"));
        }
        fields.finish()?;
        Ok(mapping)
    }

    /// The mapping as it is declared.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut properties = Map::new();
        let sources = [
            ("id", &self.id),
            ("topic", &self.topic),
            ("eventTime", &self.event_time),
        ];
        for (name, source) in sources {
            if let Some(source) = source {
                properties.insert(name.to_owned(), json!({ "sourceField": source.as_str() }));
            }
        }
        let fields = [
            ("eventType", &self.event_type),
            ("subject", &self.subject),
            ("dataVersion", &self.data_version),
        ];
        for (name, field) in fields {
            let mut entry = Map::new();
            if let Some(source) = &field.source {
                entry.insert("sourceField".to_owned(), json!(source.as_str()));
            }
            if let Some(default) = &field.default {
                entry.insert("defaultValue".to_owned(), json!(default));
            }
            if !entry.is_empty() {
                properties.insert(name.to_owned(), entry.into());
            }
        }
        json!({ TYPE: "Json", "properties": properties })
    }
}

/// A member that takes no default.
fn source_only(
    properties: &mut Fields<'_>,
    name: &'static str,
) -> Result<Option<SourceField>, SpecError> {
    let Some(mut entry) = properties.object(name)? else {
        return Ok(None);
    };
    if entry.value("defaultValue").is_some() {
        let message = "is only possible for eventType, subject and dataVersion";
        return Err(entry.error("defaultValue", message));
    }
    let source = source(&mut entry)?;
    entry.finish()?;
    Ok(source)
}

fn mapped(
    properties: &mut Fields<'_>,
    name: &'static str,
    may_be_empty: bool,
) -> Result<MappedField, SpecError> {
    let Some(mut entry) = properties.object(name)? else {
        return Ok(MappedField::default());
    };
    let field = MappedField {
        source: source(&mut entry)?,
        default: default(&mut entry, may_be_empty)?,
    };
    entry.finish()?;
    Ok(field)
}

fn source(entry: &mut Fields<'_>) -> Result<Option<SourceField>, SpecError> {
    const NAME: &str = "sourceField";
    let Some(text) = entry.text(NAME)? else {
        return Ok(None);
    };
    let parts = text.split('.').count();
    let is_path = text.split('.').all(|part| !part.is_empty());
    if !is_path
        || text.len() > limits::SOURCE_FIELD_BYTES_MAX
        || parts > limits::SOURCE_FIELD_PARTS_MAX
    {
        let message = format!(
            "must be a dot path of member names, such as \"order.id\", of at most {} bytes and {} names",
            limits::SOURCE_FIELD_BYTES_MAX,
            limits::SOURCE_FIELD_PARTS_MAX
        );
        return Err(entry.error(NAME, message));
    }
    Ok(Some(SourceField(text.into())))
}

fn default(entry: &mut Fields<'_>, may_be_empty: bool) -> Result<Option<Box<str>>, SpecError> {
    const NAME: &str = "defaultValue";
    let Some(text) = entry.text(NAME)? else {
        return Ok(None);
    };
    if text.len() > limits::MAPPING_DEFAULT_BYTES_MAX {
        let max = limits::MAPPING_DEFAULT_BYTES_MAX;
        return Err(entry.error(NAME, format!("must have at most {max} bytes")));
    }
    if text.is_empty() && !may_be_empty {
        return Err(entry.error(NAME, "must not be empty"));
    }
    Ok(Some(text.into()))
}
