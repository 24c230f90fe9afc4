//! Custom delivery properties, as declared: headers that a subscription adds to its deliveries (ED-143 to ED-150, ED-274,
//! ED-276). What an event makes of them is decided in [`crate::filter`] and spelled by the dialect.
//!
//! The value of a secret is written and never shown: [`MASK`] stands in its place, and where a mask comes back it stands for
//! the secret that is there (ED-149).

use std::fmt;

use serde_json::{Map, Value, json};

use super::SpecError;
use super::endpoint_type::EndpointType;
use super::fields::Fields;
use crate::filter::Key;
use crate::limits;

/// What stands for a secret where it is shown, and for the present one where it is declared.
pub const MASK: &str = "********";

/// The member that has them.
pub(super) const MEMBER: &str = "deliveryAttributeMappings";

/// A header that a subscription adds to its deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryAttribute {
    /// Its name, as declared; an HTTP token.
    pub name: Box<str>,
    /// What it is.
    pub value: AttributeValue,
}

/// The value of such a header. `Debug` leaves out secrets.
#[derive(Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// The same for all events.
    Static {
        /// What is sent; no control characters are in it.
        value: Box<str>,
        /// It is shown nowhere (ED-149).
        is_secret: bool,
    },
    /// What an event has there.
    Dynamic {
        /// A key in the syntax of filters (ED-145).
        source_field: Box<str>,
    },
}

impl fmt::Debug for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static { value, is_secret } => {
                let shown = if *is_secret { MASK } else { value };
                write!(f, "Static({shown:?})")
            }
            Self::Dynamic { source_field } => write!(f, "Dynamic({source_field:?})"),
        }
    }
}

/// What decides which of them a destination may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeRules {
    /// The kind of the destination.
    pub endpoint_type: EndpointType,
    /// Whether deliveries to it carry a token of their own (ED-148).
    pub has_bearer_token: bool,
}

impl DeliveryAttribute {
    /// Checks the list that stands at `path`.
    ///
    /// # Errors
    ///
    /// The first offending member; of two entries that clash the later one.
    pub fn check_list(
        list: &[Value],
        path: &str,
        rules: AttributeRules,
    ) -> Result<Vec<Self>, SpecError> {
        if !list.is_empty() && rules.endpoint_type == EndpointType::StorageQueue {
            let message = "is not possible with a storage queue, which carries no properties";
            return Err(SpecError::new(path, message));
        }
        if list.len() > limits::DELIVERY_ATTRIBUTES_MAX {
            let message = format!(
                "must have at most {} entries",
                limits::DELIVERY_ATTRIBUTES_MAX
            );
            return Err(SpecError::new(path, message));
        }
        let mut attributes: Vec<Self> = Vec::with_capacity(list.len());
        for (index, value) in list.iter().enumerate() {
            let at = format!("{path}[{index}]");
            let attribute = Self::check(value, &at, rules)?;
            if let Some(message) = attribute.clash(&attributes, rules.endpoint_type) {
                return Err(SpecError::new(format!("{at}.name"), message));
            }
            attributes.push(attribute);
        }
        Ok(attributes)
    }

    fn check(value: &Value, path: &str, rules: AttributeRules) -> Result<Self, SpecError> {
        let mut fields = Fields::open(value, path)?;
        let Some(name) = fields.text("name")? else {
            return Err(fields.error("name", "is required"));
        };
        check_name(name, rules).map_err(|message| fields.error("name", message))?;
        let kind = fields.text("type")?;
        let Some(mut properties) = fields.object("properties")? else {
            return Err(fields.error("properties", "is required"));
        };
        let value = match kind {
            Some("Static") => {
                let is_message_id = name.eq_ignore_ascii_case(MESSAGE_ID);
                if is_message_id && rules.endpoint_type.is_service_bus() {
                    let message = "must be \"Dynamic\": messages with one id are taken for one";
                    return Err(fields.error("type", message));
                }
                check_static(&mut properties)?
            }
            Some("Dynamic") => check_dynamic(&mut properties)?,
            Some(_) => return Err(fields.error("type", "must be \"Static\" or \"Dynamic\"")),
            None => return Err(fields.error("type", "is required")),
        };
        properties.finish()?;
        fields.finish()?;
        let name = name.into();
        Ok(Self { name, value })
    }

    /// What keeps it from standing beside those before it.
    fn clash(&self, others: &[Self], kind: EndpointType) -> Option<&'static str> {
        let has = |name: &str| {
            let mut names = others.iter().map(|other| &other.name);
            names.any(|other| other.eq_ignore_ascii_case(name))
        };
        let is_one_of_two = [MESSAGE_ID, SESSION_ID]
            .iter()
            .any(|name| self.name.eq_ignore_ascii_case(name));
        if has(&self.name) {
            return Some("stands there twice; case makes no difference");
        }
        let is_other_there = has(MESSAGE_ID) || has(SESSION_ID);
        (kind.is_service_bus() && is_one_of_two && is_other_there)
            .then_some("must not be mapped beside SessionId or MessageId")
    }

    /// Whether its value is shown nowhere (ED-149).
    #[must_use]
    pub const fn is_secret(&self) -> bool {
        matches!(
            self.value,
            AttributeValue::Static {
                is_secret: true,
                ..
            }
        )
    }

    /// The value that is shown nowhere.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        match &self.value {
            AttributeValue::Static {
                value,
                is_secret: true,
            } => Some(value),
            _ => None,
        }
    }

    /// Whether it says who delivers: the endpoint is asked again where it changes (ED-152).
    #[must_use]
    pub fn is_credential(&self) -> bool {
        let is_static = matches!(self.value, AttributeValue::Static { .. });
        self.is_secret() || is_static && self.name.eq_ignore_ascii_case(AUTHORIZATION)
    }

    /// As it is declared; a secret is masked unless it is to be `shown`.
    #[must_use]
    pub fn to_json(&self, shown: bool) -> Value {
        let (kind, properties) = match &self.value {
            AttributeValue::Static { value, is_secret } => {
                let value = if *is_secret && !shown { MASK } else { value };
                ("Static", json!({ "value": value, "isSecret": is_secret }))
            }
            AttributeValue::Dynamic { source_field } => {
                ("Dynamic", json!({ "sourceField": source_field }))
            }
        };
        json!({ "name": self.name, "type": kind, "properties": properties })
    }

    /// The place of an entry of a declared list that would send a mask where `present` has a secret: somebody wants to keep it, and
    /// does not say that it is one.
    pub(super) fn mask_as_value(list: &[Value], present: &[Self]) -> Option<usize> {
        list.iter().position(|declared| {
            let name = declared["name"].as_str().unwrap_or_default();
            let mut secrets = present.iter().filter(|present| present.is_secret());
            is_like_a_mask(declared)
                && !is_masked(declared)
                && secrets.any(|present| present.name.eq_ignore_ascii_case(name))
        })
    }

    /// Puts the secrets of `present` into a declared list, where their masks stand. Gives the place of the first one.
    pub(super) fn keep_secrets(list: &mut [Value], present: &[Self]) -> Option<usize> {
        let mut first = None;
        for (number, declared) in list.iter_mut().enumerate() {
            let name = declared["name"].as_str().unwrap_or_default();
            let mut present = present.iter();
            let of_name = present.find(|present| present.name.eq_ignore_ascii_case(name));
            let Some(secret) = of_name.and_then(Self::secret) else {
                continue;
            };
            if is_masked(declared) {
                declared["properties"]["value"] = json!(secret);
                first = first.or(Some(number));
            }
        }
        first
    }
}

/// Whether the value of an entry of a declared list is spelled like a mask, whatever it is meant for.
pub(super) fn is_like_a_mask(declared: &Value) -> bool {
    declared.pointer("/properties/value") == Some(&json!(MASK))
}

/// Whether an entry of a declared list has a mask in the place of its secret: what a read shows, or nothing.
pub(super) fn is_masked(declared: &Value) -> bool {
    let properties = declared.get("properties").and_then(Value::as_object);
    let is_secret = |members: &Map<String, Value>| members.get("isSecret") == Some(&json!(true));
    properties
        .filter(|members| is_secret(members))
        .is_some_and(|members| match members.get("value") {
            None | Some(Value::Null) => declared["type"] == "Static",
            Some(value) => value == MASK,
        })
}

const AUTHORIZATION: &str = "authorization";
const MESSAGE_ID: &str = "MessageId";
const SESSION_ID: &str = "SessionId";

/// Names that are Hedgerow's or the connection's own (ED-147).
const REFUSED: [&str; 16] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "date",
    "webhook-request-origin",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];
/// What no name begins with (ED-147).
const REFUSED_BEGINNINGS: [&str; 3] = ["aeg-", "hedgerow-", "ce-"];

fn check_name(name: &str, rules: AttributeRules) -> Result<(), String> {
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err("must be the name of a header: letters, digits and !#$%&'*+-.^_`|~".to_owned());
    }
    let bytes_max = limits::DELIVERY_ATTRIBUTE_NAME_BYTES_MAX;
    if name.len() > bytes_max {
        return Err(format!("must not be longer than {bytes_max} bytes"));
    }
    let lower = name.to_ascii_lowercase();
    if REFUSED.contains(&lower.as_str()) {
        return Err("is a header that Hedgerow or the connection sets".to_owned());
    }
    let beginnings = REFUSED_BEGINNINGS.iter();
    if let Some(beginning) = beginnings
        .copied()
        .find(|beginning| lower.starts_with(beginning))
    {
        return Err(format!("must not begin with \"{beginning}\""));
    }
    let may_authorize = rules.endpoint_type.is_webhook() && !rules.has_bearer_token;
    if lower == AUTHORIZATION && !may_authorize {
        return Err("is set by the authentication that the destination has itself".to_owned());
    }
    Ok(())
}

/// A character of a token of HTTP. Source: RFC 9110, section 5.6.2.
const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

fn check_static(properties: &mut Fields<'_>) -> Result<AttributeValue, SpecError> {
    let is_secret = properties.boolean("isSecret")?.unwrap_or_default();
    let Some(value) = properties.text("value")? else {
        return Err(properties.error("value", "is required"));
    };
    let bytes_max = limits::HEADER_VALUE_BYTES_MAX;
    if value.len() > bytes_max {
        let message = format!("must not be longer than {bytes_max} bytes");
        return Err(properties.error("value", message));
    }
    if !is_header_value(value) {
        return Err(properties.error("value", "must not have line breaks or control characters"));
    }
    if is_secret && value == MASK {
        let message = "is the mask of a secret, and there is no secret by this name to keep";
        return Err(properties.error("value", message));
    }
    let value = value.into();
    Ok(AttributeValue::Static { value, is_secret })
}

fn check_dynamic(properties: &mut Fields<'_>) -> Result<AttributeValue, SpecError> {
    let Some(key) = properties.text("sourceField")? else {
        return Err(properties.error("sourceField", "is required"));
    };
    let levels = Key::levels_of(key);
    let message = if key.len() > limits::SOURCE_FIELD_BYTES_MAX {
        format!(
            "must not be longer than {} bytes",
            limits::SOURCE_FIELD_BYTES_MAX
        )
    } else if levels.len() > limits::SOURCE_FIELD_PARTS_MAX {
        format!(
            "must have at most {} levels",
            limits::SOURCE_FIELD_PARTS_MAX
        )
    } else if levels.iter().any(String::is_empty) {
        "has a level without a name; a dot separates two names, and one in a name is written \\."
            .to_owned()
    } else {
        let source_field = key.into();
        return Ok(AttributeValue::Dynamic { source_field });
    };
    Err(properties.error("sourceField", message))
}

/// Whether a header can have this value (ED-146). What is not ASCII is sent as UTF-8.
#[must_use]
pub fn is_header_value(text: &str) -> bool {
    let is_usable = |byte| byte == b'\t' || byte >= b' ' && byte != 0x7f;
    text.bytes().all(is_usable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SubscriptionSpec;

    fn declaration(mappings: &Value) -> Value {
        json!({ "destination": { "endpointType": "WebHook", "properties": {
            "endpointUrl": "https://host.example/?code=1", "deliveryAttributeMappings": mappings,
        } } })
    }

    fn secret(name: &str, value: &Value) -> Value {
        json!({ "name": name, "type": "Static", "properties": { "value": value, "isSecret": true } })
    }

    fn spec(mappings: &Value) -> SubscriptionSpec {
        SubscriptionSpec::check(&declaration(mappings))
            .unwrap()
            .spec
    }

    /// ED-143, ED-149: what is declared comes back as it was, and to people with a mask for the secret.
    #[test]
    fn secrets_are_masked_and_stored() {
        let mappings = json!([
            secret("X-Key", &json!("canary")),
            { "name": "X-Plain", "type": "Static", "properties": { "value": "seen", "isSecret": false } },
            { "name": "X-From", "type": "Dynamic", "properties": { "sourceField": "data.a\\.b" } },
        ]);
        let spec = spec(&mappings);
        let member = "/destination/properties/deliveryAttributeMappings";
        assert_eq!(spec.to_json().pointer(member), Some(&mappings));
        let stored = serde_json::to_value(&spec).unwrap();
        let read: SubscriptionSpec = serde_json::from_value(stored).unwrap();
        assert_eq!(read, spec);
        let mut masked = mappings.clone();
        masked[0] = secret("X-Key", &json!(MASK));
        assert_eq!(spec.to_public_json().pointer(member), Some(&masked));
        let shown = format!("{spec:?}");
        assert!(
            !shown.contains("canary") && shown.contains("seen"),
            "{shown}"
        );
        assert_eq!(
            SubscriptionSpec::webhook(
                crate::spec::EndpointUrl::parse("https://a.example/").unwrap()
            )
            .to_json()
            .pointer(member),
            None
        );
    }

    /// ED-149: a mask that comes back, or nothing in its place, is the secret that is there.
    #[test]
    fn masks_that_come_back_keep_the_secret() {
        let present = spec(&json!([
            secret("X-Key", &json!("canary")),
            secret("X-Other", &json!("b"))
        ]));
        for back in [json!(MASK), Value::Null] {
            let mut declared = declaration(&json!([
                secret("x-KEY", &back),
                secret("X-Other", &json!("new"))
            ]));
            assert!(SubscriptionSpec::has_masks(&declared));
            present.keep_secrets(&mut declared).unwrap();
            assert!(!SubscriptionSpec::has_masks(&declared));
            let kept = SubscriptionSpec::check(&declared)
                .unwrap()
                .spec
                .delivery_attributes;
            assert_eq!(kept[0].secret(), Some("canary"));
            assert_eq!(kept[1].secret(), Some("new"));
        }
        let mut new = declaration(&json!([secret("X-New", &json!(MASK))]));
        present.keep_secrets(&mut new).unwrap();
        let refused = SubscriptionSpec::check(&new).unwrap_err();
        assert_eq!(
            refused.field,
            "destination.properties.deliveryAttributeMappings[0].properties.value"
        );
        // In the place of what is no secret it is the text itself.
        let plain = |name: &str, is_secret: Value| {
            let properties = json!({ "value": MASK, "isSecret": is_secret });
            json!([{ "name": name, "type": "Static", "properties": properties }])
        };
        let plainly = plain("X-Plain", Value::Null);
        let mut declared = declaration(&plainly);
        present.keep_secrets(&mut declared).unwrap();
        assert_eq!(declared, declaration(&plainly));
        SubscriptionSpec::check(&declared).unwrap();
        // A secret is not overwritten with its mask.
        for is_secret in [json!(false), Value::Null] {
            let mut declared = declaration(&plain("x-key", is_secret));
            assert!(SubscriptionSpec::has_masks(&declared), "it is looked at");
            let refused = present.keep_secrets(&mut declared).unwrap_err();
            let field = "destination.properties.deliveryAttributeMappings[0].properties.value";
            assert_eq!(refused.field, field);
            assert!(refused.message.contains("isSecret true"), "{refused}");
        }
    }

    /// ED-152: whoever is asked again where a credential changes, and where another header does not.
    #[test]
    fn credentials_are_part_of_what_was_consented_to() {
        let plain = |name: &str, value: &str| json!({ "name": name, "type": "Static", "properties": { "value": value } });
        let none = spec(&json!([]));
        assert!(none.is_consented_with(&spec(&json!([plain("X", "1")]))));
        for mapping in [secret("X", &json!("1")), plain("AUTHORIZATION", "1")] {
            assert!(!none.is_consented_with(&spec(&json!([mapping.clone()]))));
            let moved = json!([plain("X-Before", "1"), mapping.clone()]);
            assert!(spec(&json!([mapping])).is_consented_with(&spec(&moved)));
        }
    }

    /// Beside the table of the specification.
    #[test]
    fn values_that_no_header_can_have_are_refused() {
        let with = |properties: Value, kind: &str| {
            let mapping = json!({ "name": "X", "type": kind, "properties": properties });
            SubscriptionSpec::check(&declaration(&json!([mapping])))
                .map(drop)
                .map_err(|error| error.field)
        };
        let at = |member: &str| {
            Err(format!(
                "destination.properties.deliveryAttributeMappings[0].{member}"
            ))
        };
        for (properties, kind, expected) in [
            (json!({ "value": "a\tb" }), "Static", Ok(())),
            (json!({ "value": "" }), "Static", Ok(())),
            (json!({ "value": "a\nb" }), "Static", at("properties.value")),
            (
                json!({ "value": "a\u{0}" }),
                "Static",
                at("properties.value"),
            ),
            (json!({ "value": 5 }), "Static", at("properties.value")),
            (json!({}), "Static", at("properties.value")),
            (json!({ "value": "a" }), "static", at("type")),
            (
                json!({ "value": "a", "sourceField": "id" }),
                "Static",
                at("properties.sourceField"),
            ),
            (
                json!({ "sourceField": "data..x" }),
                "Dynamic",
                at("properties.sourceField"),
            ),
            (
                json!({ "sourceField": "" }),
                "Dynamic",
                at("properties.sourceField"),
            ),
            (
                json!({ "sourceField": "id", "isSecret": true }),
                "Dynamic",
                at("properties.isSecret"),
            ),
        ] {
            assert_eq!(with(properties.clone(), kind), expected, "{properties}");
        }
    }
}
