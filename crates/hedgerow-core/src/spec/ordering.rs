//! What a subscription declares about order.

use std::str::FromStr;

use serde_json::{Value, json};

use super::SpecError;
use super::fields::Fields;
use crate::filter::Key;
use crate::limits;

/// Events with one key are sent one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderingSpec {
    /// `subject`, or a path into `data`, in the syntax of filters.
    pub key: String,
    /// What becomes of a key whose event fails for good.
    pub on_failure: OnFailure,
}

/// What becomes of a key whose event fails for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The event ends as one of any other subscription does, as a dead letter where there is a place for it, and the next one is
    /// sent.
    #[default]
    Skip,
    /// The event never ends: it is tried again for as long as it takes, and those behind it wait.
    Block,
}

impl OnFailure {
    /// The name in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Block => "block",
        }
    }
}

impl FromStr for OnFailure {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "skip" => Ok(Self::Skip),
            "block" => Ok(Self::Block),
            _ => Err("must be \"skip\" or \"block\""),
        }
    }
}

impl OrderingSpec {
    pub(super) fn check(mut fields: Fields<'_>) -> Result<Self, SpecError> {
        let Some(key) = fields.text("key")? else {
            return Err(fields.error("key", "is required"));
        };
        let is_path = match Key::parse(key) {
            Key::Attribute(name) => name == "subject",
            Key::Data(path) => !path.is_empty(),
            Key::Nothing { .. } => false,
        };
        let levels = Key::levels_of(key);
        let is_long = key.len() > limits::SOURCE_FIELD_BYTES_MAX
            || levels.len() > limits::SOURCE_FIELD_PARTS_MAX;
        if !is_path || is_long || levels.iter().any(String::is_empty) {
            let message = format!(
                "must be \"subject\", or a path into the data such as \"data.customer.id\", of at most {} bytes and {} names",
                limits::SOURCE_FIELD_BYTES_MAX,
                limits::SOURCE_FIELD_PARTS_MAX
            );
            return Err(fields.error("key", message));
        }
        let on_failure = match fields.text("onFailure")? {
            None => OnFailure::default(),
            Some(text) => text
                .parse()
                .map_err(|message: &str| fields.error("onFailure", message))?,
        };
        fields.finish()?;
        Ok(Self {
            key: key.to_owned(),
            on_failure,
        })
    }

    /// As a declaration has it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "key": self.key, "onFailure": self.on_failure.as_str() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SubscriptionSpec;

    fn checked(ordering: &Value) -> Result<Option<OrderingSpec>, String> {
        let url = "https://example.com/";
        let declared = json!({
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": url}},
            "ordering": ordering,
        });
        let checked = SubscriptionSpec::check(&declared);
        let spec = checked.map_err(|error| error.field)?.spec;
        assert_eq!(SubscriptionSpec::check(&spec.to_json()).unwrap().spec, spec);
        Ok(spec.ordering)
    }

    #[test]
    fn a_key_is_the_subject_or_a_path() {
        assert_eq!(checked(&Value::Null), Ok(None));
        let of = |key: &str, on_failure| {
            let key = key.to_owned();
            Ok(Some(OrderingSpec { key, on_failure }))
        };
        assert_eq!(
            checked(&json!({"key": "subject"})),
            of("subject", OnFailure::Skip)
        );
        let blocking = json!({"key": "data.a.b", "onFailure": "block"});
        assert_eq!(checked(&blocking), of("data.a.b", OnFailure::Block));
        for key in [
            "",
            "data",
            "data.",
            "data..a",
            "id",
            "subject.a",
            &"data.a".repeat(100),
        ] {
            assert_eq!(
                checked(&json!({ "key": key })),
                Err("ordering.key".to_owned()),
                "{key}"
            );
        }
        assert_eq!(checked(&json!({})), Err("ordering.key".to_owned()));
        let odd = json!({"key": "subject", "onFailure": "stop"});
        assert_eq!(checked(&odd), Err("ordering.onFailure".to_owned()));
        let more = json!({"key": "subject", "by": 1});
        assert_eq!(checked(&more), Err("ordering.by".to_owned()));
    }
}
