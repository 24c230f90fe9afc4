//! The filter of a subscription, as declared (ED-083, ED-086 to ED-089).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SpecError;
use super::fields::Fields;
use crate::limits;

/// Which events a subscription wants. [`crate::filter::Filter`] makes it ready.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct FilterSpec {
    /// The types; `None` for all.
    pub included_event_types: Option<Vec<String>>,
    /// How the subject begins; empty for any.
    pub subject_begins_with: String,
    /// How the subject ends; empty for any.
    pub subject_ends_with: String,
    /// Whether these two look at case.
    pub is_subject_case_sensitive: bool,
    /// Kept for when there are advanced filters; means nothing without them.
    pub enable_advanced_filtering_on_arrays: bool,
}

impl FilterSpec {
    /// Checks a filter that stands at `path` of a declaration.
    ///
    /// # Errors
    ///
    /// The first offending member. Advanced filters are not supported yet.
    pub fn check(value: &Value, path: &str) -> Result<Self, SpecError> {
        let mut fields = Fields::open(value, path)?;
        let spec = Self {
            included_event_types: included_event_types(&mut fields)?,
            subject_begins_with: text(&mut fields, "subjectBeginsWith")?,
            subject_ends_with: text(&mut fields, "subjectEndsWith")?,
            is_subject_case_sensitive: fields.boolean("isSubjectCaseSensitive")?.unwrap_or(false),
            enable_advanced_filtering_on_arrays: fields
                .boolean("enableAdvancedFilteringOnArrays")?
                .unwrap_or(false),
        };
        if fields
            .list("advancedFilters")?
            .is_some_and(|list| !list.is_empty())
        {
            return Err(fields.error("advancedFilters", "is not supported by this version"));
        }
        fields.finish()?;
        Ok(spec)
    }

    /// The filter with every default written out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "subjectBeginsWith": self.subject_begins_with,
            "subjectEndsWith": self.subject_ends_with,
            "isSubjectCaseSensitive": self.is_subject_case_sensitive,
            "enableAdvancedFilteringOnArrays": self.enable_advanced_filtering_on_arrays,
        });
        if let Some(types) = &self.included_event_types {
            json["includedEventTypes"] = json!(types);
        }
        json
    }
}

impl TryFrom<Value> for FilterSpec {
    type Error = SpecError;

    fn try_from(value: Value) -> Result<Self, SpecError> {
        Self::check(&value, "filter")
    }
}

impl From<FilterSpec> for Value {
    fn from(spec: FilterSpec) -> Self {
        spec.to_json()
    }
}

fn included_event_types(fields: &mut Fields<'_>) -> Result<Option<Vec<String>>, SpecError> {
    const NAME: &str = "includedEventTypes";
    let Some(list) = fields.list(NAME)? else {
        return Ok(None);
    };
    if list.is_empty() {
        return Err(fields.error(NAME, "must not be empty; leave it out for all types"));
    }
    if list.len() > limits::INCLUDED_EVENT_TYPES_MAX {
        let message = format!(
            "must have at most {} entries",
            limits::INCLUDED_EVENT_TYPES_MAX
        );
        return Err(fields.error(NAME, message));
    }
    let entry = |(index, value): (usize, &Value)| match value {
        Value::String(text) if text.len() <= limits::FILTER_TEXT_BYTES_MAX => Ok(text.clone()),
        _ => Err(fields.error(&format!("{NAME}[{index}]"), text_rule())),
    };
    list.iter()
        .enumerate()
        .map(entry)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn text(fields: &mut Fields<'_>, name: &'static str) -> Result<String, SpecError> {
    let text = fields.text(name)?.unwrap_or_default();
    if text.len() > limits::FILTER_TEXT_BYTES_MAX {
        return Err(fields.error(name, text_rule()));
    }
    Ok(text.to_owned())
}

fn text_rule() -> String {
    format!(
        "must be a text of at most {} bytes",
        limits::FILTER_TEXT_BYTES_MAX
    )
}
