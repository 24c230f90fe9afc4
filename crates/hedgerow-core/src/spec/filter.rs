//! The filter of a subscription, as declared (ED-083, ED-086 to ED-089, ED-116, ED-118).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::advanced::{AdvancedFilter, Form};
use super::fields::Fields;
use super::{SpecError, Warning};
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
    /// Whether advanced filters look into arrays (ED-111, ED-112).
    pub enable_advanced_filtering_on_arrays: bool,
    /// Conditions on the values at keys; all of them must hold.
    pub advanced_filters: Vec<AdvancedFilter>,
}

/// How much one filter may ask for (ED-116, ED-118).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterLimits {
    /// Advanced filters: `filter.maxAdvancedFilters`.
    pub max_advanced_filters: usize,
    /// Operands over all of them; a range is one: `filter.maxValues`.
    pub max_values: usize,
}

impl Default for FilterLimits {
    fn default() -> Self {
        Self {
            max_advanced_filters: limits::ADVANCED_FILTERS_DEFAULT,
            max_values: limits::FILTER_VALUES_DEFAULT,
        }
    }
}

impl FilterLimits {
    /// The widest that the settings can be.
    pub const WIDEST: Self = Self {
        max_advanced_filters: limits::ADVANCED_FILTERS_MAX,
        max_values: limits::FILTER_VALUES_MAX,
    };

    /// Judges a filter that stands at `path` of a declaration.
    ///
    /// # Errors
    ///
    /// If it asks for too much.
    pub fn judge(&self, filter: &FilterSpec, path: &str) -> Result<(), SpecError> {
        let (count, max) = (filter.advanced_filters.len(), self.max_advanced_filters);
        if count > max {
            let message = format!(
                "has {count} filters, at most {max} are possible; the server's setting \
                 filter.max_advanced_filters says how many"
            );
            return Err(SpecError::new(member(path, ADVANCED), message));
        }
        let operands = filter
            .advanced_filters
            .iter()
            .map(|one| one.operands().count());
        let (count, max) = (operands.sum::<usize>(), self.max_values);
        if count > max {
            let message = format!(
                "has {count} values over all filters, at most {max} are possible; the server's setting \
                 filter.max_values says how many"
            );
            return Err(SpecError::new(member(path, ADVANCED), message));
        }
        Ok(())
    }
}

/// The member with the advanced filters.
pub(super) const ADVANCED: &str = "advancedFilters";

pub(super) fn member(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

impl FilterSpec {
    /// Checks a filter that stands at `path` of a declaration. How much it asks for is judged by [`FilterLimits::judge`]
    /// besides; here the widest limits hold.
    ///
    /// # Errors
    ///
    /// The first offending member.
    pub fn check(value: &Value, path: &str) -> Result<Self, SpecError> {
        Self::read(value, path, Form::Declared)
    }

    /// What of the event types will surprise: an `All` that is not alone means a type of this name (ED-086), and a comma
    /// separates nothing.
    #[must_use]
    pub fn type_warnings(&self, path: &str) -> Vec<Warning> {
        let types = self.included_event_types.as_deref().unwrap_or_default();
        let message = |text: &str| {
            if text.eq_ignore_ascii_case("all") && types != ["All"] {
                Some("means a type of this name; a single \"All\", written so, means all types")
            } else if text.contains(',') {
                Some("is one type, its comma included; list several types one by one")
            } else {
                None
            }
        };
        let types = types.iter().enumerate();
        let warnings = types.filter_map(|(index, text)| {
            Some(Warning {
                field: member(path, &format!("includedEventTypes[{index}]")),
                message: message(text)?.to_owned(),
            })
        });
        warnings.collect()
    }

    pub(super) fn read(value: &Value, path: &str, form: Form) -> Result<Self, SpecError> {
        let mut fields = Fields::open(value, path)?;
        let spec = Self {
            included_event_types: included_event_types(&mut fields)?,
            subject_begins_with: text(&mut fields, "subjectBeginsWith")?,
            subject_ends_with: text(&mut fields, "subjectEndsWith")?,
            is_subject_case_sensitive: fields.boolean("isSubjectCaseSensitive")?.unwrap_or(false),
            enable_advanced_filtering_on_arrays: fields
                .boolean("enableAdvancedFilteringOnArrays")?
                .unwrap_or(false),
            advanced_filters: advanced_filters(&mut fields, form)?,
        };
        FilterLimits::WIDEST.judge(&spec, path)?;
        fields.finish()?;
        Ok(spec)
    }

    /// The filter with every default written out, as a declaration has it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.write(Form::Declared)
    }

    pub(super) fn write(&self, form: Form) -> Value {
        let advanced = self.advanced_filters.iter();
        let mut json = json!({
            "subjectBeginsWith": self.subject_begins_with,
            "subjectEndsWith": self.subject_ends_with,
            "isSubjectCaseSensitive": self.is_subject_case_sensitive,
            "enableAdvancedFilteringOnArrays": self.enable_advanced_filtering_on_arrays,
            ADVANCED: advanced.map(|one| one.to_json(form)).collect::<Vec<_>>(),
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
        Self::read(&value, "filter", Form::Stored)
    }
}

impl From<FilterSpec> for Value {
    fn from(spec: FilterSpec) -> Self {
        spec.write(Form::Stored)
    }
}

fn advanced_filters(fields: &mut Fields<'_>, form: Form) -> Result<Vec<AdvancedFilter>, SpecError> {
    let list = fields.list(ADVANCED)?.unwrap_or_default();
    if list.len() > limits::ADVANCED_FILTERS_MAX {
        let max = limits::ADVANCED_FILTERS_MAX;
        return Err(fields.error(ADVANCED, format!("must have at most {max} entries")));
    }
    let path = |index: usize| fields.path(&format!("{ADVANCED}[{index}]"));
    list.iter()
        .enumerate()
        .map(|(index, value)| AdvancedFilter::check(value, &path(index), form))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-086 knows the single entry `All`.
    #[test]
    fn types_that_will_surprise_are_told() {
        let told = |types: &[&str]| {
            let filter = json!({ "includedEventTypes": types });
            let filter = FilterSpec::check(&filter, "filter").unwrap();
            let warnings = filter.type_warnings("filter");
            let fields = warnings.into_iter().map(|warning| warning.field);
            fields.collect::<Vec<_>>()
        };
        assert_eq!(told(&["All"]), [""; 0]);
        assert_eq!(told(&["Foo", "Bar.All"]), [""; 0]);
        assert_eq!(told(&["Foo", "All"]), ["filter.includedEventTypes[1]"]);
        assert_eq!(told(&["all"]), ["filter.includedEventTypes[0]"]);
        assert_eq!(told(&["A,B"]), ["filter.includedEventTypes[0]"]);
    }
}
