//! Whether the keys of a filter can be found in the events of a topic at all (ED-103 to ED-109, FC-03): what is certainly a
//! mistake is refused, what no event of the schema can have is warned of; of dynamic headers (ED-145) as well.

use super::filter::{ADVANCED, FilterSpec, member};
use super::operator::Operator;
use super::topic::InputSchema;
use super::{AttributeValue, SpecError, SubscriptionSpec, Warning};
use crate::filter::Key;
use crate::likeness::distance;
use crate::limits;
use crate::text::beginning;

/// A name is like another one if no more has to be changed in it, or a third of it.
const CHANGES_MAX: usize = 2;

impl FilterSpec {
    /// Judges the keys of a filter that stands at `path`, for events of a schema: a name that only the other schema has is a
    /// mistake, and would never be found (FC-03); and so is a level without a name.
    ///
    /// # Errors
    ///
    /// The first such key.
    pub fn check_keys(&self, schema: InputSchema, path: &str) -> Result<(), SpecError> {
        let foreign: &[_] = match schema {
            InputSchema::CloudEventSchemaV1_0 => &[("eventtype", "\"type\"")],
            InputSchema::EventGridSchema | InputSchema::CustomEventSchema => &[
                ("type", "\"eventType\""),
                ("time", "\"eventTime\""),
                ("source", "\"topic\""),
                ("specversion", "another key"),
                ("datacontenttype", "another key"),
                ("dataschema", "another key"),
            ],
        };
        for (number, filter) in self.advanced_filters.iter().enumerate() {
            let refused = |message| Err(SpecError::new(key_at(path, number), message));
            if Key::levels_of(filter.key()).iter().any(String::is_empty) {
                return refused(
                    "has a level without a name; a dot separates two names, and one in a name is written \\."
                        .to_owned(),
                );
            }
            let Key::Attribute(name) = Key::parse(filter.key()) else {
                continue;
            };
            if let Some((_, right)) = foreign.iter().find(|(foreign, _)| *foreign == name) {
                return refused(format!(
                    "is no attribute of {}; write {right}",
                    schema.as_str()
                ));
            }
        }
        Ok(())
    }

    /// The keys of a filter that stands at `path` that no event of a schema can have.
    #[must_use]
    pub fn key_warnings(&self, schema: InputSchema, path: &str) -> Vec<Warning> {
        let filters = self.advanced_filters.iter().enumerate();
        let warnings = filters.filter_map(|(number, filter)| {
            let why = never_there(filter.key(), schema)?;
            Some(Warning {
                field: key_at(path, number),
                message: format!("{why}; {}", effect(filter.operator())),
            })
        });
        warnings.collect()
    }
}

impl SubscriptionSpec {
    /// The keys of its filter and of its dynamic headers (ED-145) that no event of a schema can have.
    #[must_use]
    pub fn key_warnings(&self, schema: InputSchema) -> Vec<Warning> {
        let mut warnings = self.filter.key_warnings(schema, "filter");
        for (number, attribute) in self.delivery_attributes.iter().enumerate() {
            let AttributeValue::Dynamic { source_field } = &attribute.value else {
                continue;
            };
            if let Some(why) = never_there(source_field, schema) {
                warnings.push(Warning {
                    field: format!(
                        "destination.properties.deliveryAttributeMappings[{number}].properties.sourceField"
                    ),
                    message: format!("{why}; no event is sent with this header"),
                });
            }
        }
        warnings
    }
}

fn key_at(path: &str, number: usize) -> String {
    member(path, &format!("{ADVANCED}[{number}].key"))
}

/// The attributes that a schema fixes (ED-103, ED-104).
const fn attributes(schema: InputSchema) -> &'static [&'static str] {
    match schema {
        InputSchema::CloudEventSchemaV1_0 => &[
            "id",
            "source",
            "type",
            "specversion",
            "subject",
            "time",
            "datacontenttype",
            "dataschema",
        ],
        InputSchema::EventGridSchema | InputSchema::CustomEventSchema => &[
            "id",
            "topic",
            "subject",
            "eventType",
            "eventTime",
            "dataVersion",
            "metadataVersion",
        ],
    }
}

/// Why no event has a value at a key, if none can.
fn never_there(key: &str, schema: InputSchema) -> Option<String> {
    let levels = Key::levels_of(key);
    let (first, rest) = levels.split_first()?;
    let name = beginning(first, limits::NAME_IN_MESSAGE_BYTES_MAX);
    let known = attributes(schema);
    match Key::parse(key) {
        Key::Data(_) => None,
        Key::Attribute(folded) => {
            let is_known = known
                .iter()
                .any(|known| known.eq_ignore_ascii_case(&folded));
            // Extension attributes have such names, whatever else they mean to say.
            let may_extend = schema == InputSchema::CloudEventSchemaV1_0
                && folded
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            if is_known || may_extend {
                return None;
            }
            let right = match nearest(first, known) {
                Some(nearest) => format!("did you mean \"{nearest}\"?"),
                None => format!("a member of the data is written \"data.{name}\""),
            };
            let schema = schema.as_str();
            Some(format!("\"{name}\" is in no event of {schema} ({right})"))
        }
        Key::Nothing { .. } => {
            let right = match nearest(first, &["data"]) {
                Some(data) => {
                    let path = rest.join(".");
                    let path = beginning(&path, limits::NAME_IN_MESSAGE_BYTES_MAX);
                    format!("did you mean \"{data}.{path}\"?")
                }
                None => "a path into the data begins with \"data.\"".to_owned(),
            };
            Some(format!(
                "only the data has members, \"{name}\" has none ({right})"
            ))
        }
    }
}

/// The known name that is like a name that is not, if one is.
fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let name = name.to_lowercase();
    let distances = known
        .iter()
        .map(|known| (distance(&name, &known.to_lowercase()), *known));
    let (changes, nearest) = distances.min_by_key(|(changes, _)| *changes)?;
    let is_like = changes <= CHANGES_MAX.max(nearest.len() / 3) && changes < nearest.len();
    is_like.then_some(nearest)
}

/// What comes of a value that is always absent (ED-091, ED-092).
const fn effect(operator: Operator) -> &'static str {
    match operator {
        Operator::NumberNotIn | Operator::StringNotIn | Operator::IsNullOrUndefined => {
            "this condition holds for every event"
        }
        Operator::NumberNotInRange => {
            "this condition holds for no event, or with filter.number_not_in_range_matches_missing for every one"
        }
        _ => "this condition holds for no event",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GRID: InputSchema = InputSchema::EventGridSchema;
    const CLOUD: InputSchema = InputSchema::CloudEventSchemaV1_0;
    const CUSTOM: InputSchema = InputSchema::CustomEventSchema;

    fn filter(key: &str, operator: &str) -> FilterSpec {
        let one = json!({ "operatorType": operator, "key": key });
        FilterSpec::check(&json!({ "advancedFilters": [one] }), "filter").unwrap()
    }

    /// ED-103 to ED-105, FC-03.
    #[test]
    fn keys_that_no_event_has_are_warned_of() {
        for (schema, key, told) in [
            (GRID, "subject", None),
            (GRID, "EVENTTYPE", None),
            (GRID, "eventTime", None),
            (GRID, "data", None),
            (GRID, "Data.anything.at.all", None),
            (GRID, "evntType", Some("did you mean \"eventType\"?")),
            (GRID, "sbject", Some("did you mean \"subject\"?")),
            (GRID, "foo", Some("is written \"data.foo\"")),
            (GRID, "x", Some("is written \"data.x\"")),
            (GRID, "dta.color", Some("did you mean \"data.color\"?")),
            (GRID, "subject.x", Some("\"subject\" has none")),
            (CUSTOM, "eventType", None),
            (CUSTOM, "color", Some("is written \"data.color\"")),
            (CLOUD, "type", None),
            (CLOUD, "DataSchema", None),
            // An extension may be called so.
            (CLOUD, "evnttype", None),
            (CLOUD, "Tenant2", None),
            (
                CLOUD,
                "my_extension",
                Some("is in no event of CloudEventSchemaV1_0"),
            ),
            (CLOUD, "data_base64", Some("is in no event")),
            (CLOUD, "source.host", Some("\"source\" has none")),
        ] {
            let filter = filter(key, "IsNotNull");
            filter.check_keys(schema, "filter").unwrap();
            let warnings = filter.key_warnings(schema, "filter");
            match (told, warnings.as_slice()) {
                (None, []) => {}
                (Some(told), [warning]) => {
                    assert_eq!(warning.field, "filter.advancedFilters[0].key");
                    assert!(warning.message.contains(told), "{key}: {}", warning.message);
                    assert!(warning.message.ends_with("holds for no event"), "{key}");
                }
                (_, warnings) => panic!("{key}: {warnings:?}"),
            }
        }
        let warnings = filter("foo", "IsNullOrUndefined").key_warnings(GRID, "filter");
        assert!(
            warnings[0].message.ends_with("holds for every event"),
            "ED-091"
        );
    }

    /// ED-106: a dot separates two names.
    #[test]
    fn levels_without_a_name_are_refused() {
        for key in ["data.", "data..x", "data.x.", ".x", ".", "subject."] {
            for schema in InputSchema::ALL {
                let refused = filter(key, "IsNotNull")
                    .check_keys(schema, "filter")
                    .unwrap_err();
                assert_eq!(refused.field, "filter.advancedFilters[0].key");
                assert!(
                    refused.message.contains("without a name"),
                    "{key}: {refused}"
                );
            }
        }
        for key in [r"data.a\.", r"data.\.x"] {
            filter(key, "IsNotNull").check_keys(GRID, "filter").unwrap();
        }
    }

    /// ED-145: keys of dynamic headers have the syntax of filters, and what is never there is warned of in the same words.
    #[test]
    fn dynamic_headers_that_no_event_has_are_warned_of() {
        let warned = |schema, key: &str| {
            let fixed = json!({ "name": "X-A", "type": "Static", "properties": { "value": "1" } });
            let dynamic =
                json!({ "name": "X-B", "type": "Dynamic", "properties": { "sourceField": key } });
            let declared = json!({ "destination": { "endpointType": "WebHook", "properties": {
                "endpointUrl": "https://a.example/", "deliveryAttributeMappings": [fixed, dynamic],
            } } });
            let spec = SubscriptionSpec::check(&declared).unwrap().spec;
            spec.key_warnings(schema)
        };
        for (schema, key, is_warned) in [
            (GRID, "data.a.b", false),
            (GRID, "subject", false),
            (GRID, "EventType", false),
            (GRID, "source", true),
            (GRID, "dta.a", true),
            (GRID, "subject.a", true),
            (CUSTOM, "amount", true),
            (CLOUD, "source", false),
            (CLOUD, "tenant", false),
            (CLOUD, "ten-ant", true),
        ] {
            let warnings = warned(schema, key);
            assert_eq!(
                warnings.len(),
                usize::from(is_warned),
                "{key}: {warnings:?}"
            );
        }
        let warning = warned(GRID, "dta.a").remove(0);
        assert_eq!(
            warning.field,
            "destination.properties.deliveryAttributeMappings[1].properties.sourceField"
        );
        assert_eq!(
            warning.message,
            "only the data has members, \"dta\" has none (did you mean \"data.a\"?); no event is sent with this header"
        );
    }
}
