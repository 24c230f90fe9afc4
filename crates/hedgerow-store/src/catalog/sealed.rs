//! The stored JSON of a change and of a whole catalog: the same as the plain one, with the secrets sealed
//! ([`crate::secrets`]). This is the list of what is secret.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Catalog, Change};
use crate::error::StoreError;
use crate::secrets::Secrets;

/// What is done to a secret, given its place.
type Visit<'a> = dyn FnMut(&str, &mut Value) -> Result<(), StoreError> + 'a;

/// The name of a secret and the JSON pointer to it.
type Secret = (&'static str, &'static str);

/// The secrets of a topic.
const OF_TOPIC: [Secret; 2] = [("key1", "/keys/key1"), ("key2", "/keys/key2")];
/// Those of a subscription. All of the URL is sealed: its query is the secret (ED-121), and what is not worth hiding is
/// not worth a second form.
const OF_SUBSCRIPTION: [Secret; 9] = [
    ("endpointUrl", "/spec/destination/properties/endpointUrl"),
    ("path", "/spec/destination/properties/path"),
    ("update path", "/update/destination/properties/path"),
    ("signing secret", "/spec/signing/secret"),
    ("previous signing secret", "/spec/signing/previousSecret"),
    ("update signing secret", "/update/signing/secret"),
    (
        "update previous signing secret",
        "/update/signing/previousSecret",
    ),
    (
        "update endpointUrl",
        "/update/destination/properties/endpointUrl",
    ),
    ("validation token", "/validation/token"),
];

/// Where the custom delivery properties of a subscription stand, whose secrets are marked in their list (ED-149).
const ATTRIBUTES: [Secret; 2] = [
    (
        "header",
        "/spec/destination/properties/deliveryAttributeMappings",
    ),
    (
        "update header",
        "/update/destination/properties/deliveryAttributeMappings",
    ),
];

impl Change {
    /// The form for the log.
    pub fn to_sealed_json(&self, secrets: &Secrets) -> Result<Vec<u8>, StoreError> {
        let mut value = plain(self);
        visit_change(&mut value, &mut |place, secret| secrets.seal(place, secret))?;
        Ok(value.to_string().into_bytes())
    }

    /// Reads the form of the log.
    ///
    /// # Errors
    /// [`StoreError::Key`] if the secrets were sealed with another key.
    pub fn from_sealed_json(json: &[u8], secrets: &Secrets) -> Result<Self, StoreError> {
        let unreadable = |error| StoreError::Newer {
            what: format!("a catalog change cannot be read ({error}); it"),
        };
        let mut value = serde_json::from_slice(json).map_err(unreadable)?;
        visit_change(&mut value, &mut |place, sealed| {
            secrets.unseal(place, sealed)
        })?;
        from(value).map_err(unreadable)
    }
}

impl Catalog {
    /// The form for a file.
    pub fn to_sealed_json(&self, secrets: &Secrets) -> Result<Vec<u8>, StoreError> {
        let mut value = plain(self);
        visit_catalog(&mut value, &mut |place, secret| secrets.seal(place, secret))?;
        Ok(format!("{value:#}").into_bytes())
    }

    /// Reads the form of a file that is called `path` in messages. No server has written a member that is unknown.
    ///
    /// # Errors
    /// [`StoreError::CatalogDamaged`]; [`StoreError::Key`] if the secrets were sealed with another key.
    pub fn from_sealed_json(
        json: &[u8],
        secrets: &Secrets,
        path: &str,
    ) -> Result<Self, StoreError> {
        let unreadable = |error: serde_json::Error| StoreError::CatalogDamaged {
            path: path.to_owned(),
            problem: error.to_string(),
        };
        let mut value = serde_json::from_slice(json).map_err(unreadable)?;
        visit_catalog(&mut value, &mut |place, sealed| {
            secrets.unseal(place, sealed)
        })?;
        from(value).map_err(unreadable)
    }
}

fn plain(of: &impl Serialize) -> Value {
    serde_json::to_value(of)
        .expect("what is declared is plain values with text keys, which JSON always takes")
}

fn from<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value)
}

/// A change has the members of a topic or of a subscription, as far as it names them.
fn visit_change(change: &mut Value, visit: &mut Visit<'_>) -> Result<(), StoreError> {
    visit_members(change, "topic", &OF_TOPIC, visit)?;
    visit_subscription(change, visit)
}

fn visit_catalog(catalog: &mut Value, visit: &mut Visit<'_>) -> Result<(), StoreError> {
    for topic in declared(catalog, "topics") {
        visit_members(topic, "topic", &OF_TOPIC, visit)?;
    }
    for subscription in declared(catalog, "subscriptions") {
        visit_subscription(subscription, visit)?;
    }
    Ok(())
}

fn declared<'c>(catalog: &'c mut Value, list: &str) -> impl Iterator<Item = &'c mut Value> {
    let declared = catalog.get_mut(list).and_then(Value::as_object_mut);
    declared.into_iter().flat_map(|list| list.values_mut())
}

fn visit_members(
    declared: &mut Value,
    kind: &str,
    secrets: &[Secret],
    visit: &mut Visit<'_>,
) -> Result<(), StoreError> {
    let id = declared.get("id").and_then(Value::as_u64).unwrap_or(0);
    for (name, pointer) in secrets {
        if let Some(secret) = declared.pointer_mut(pointer) {
            visit(&format!("{kind} {id} {name}"), secret)?;
        }
    }
    Ok(())
}

fn visit_subscription(declared: &mut Value, visit: &mut Visit<'_>) -> Result<(), StoreError> {
    visit_members(declared, "subscription", &OF_SUBSCRIPTION, visit)?;
    let id = declared.get("id").and_then(Value::as_u64).unwrap_or(0);
    // The tokens of a group's origins, in a subscription and in changes.
    for pointer in ["/validation/origins", "/added"] {
        let origins = declared.pointer_mut(pointer);
        for (address, origin) in origins.and_then(Value::as_object_mut).into_iter().flatten() {
            if let Some(token) = origin.get_mut("token") {
                visit(&format!("subscription {id} token of {address}"), token)?;
            }
        }
    }
    for (name, pointer) in ATTRIBUTES {
        let list = declared.pointer_mut(pointer).and_then(Value::as_array_mut);
        for attribute in list.into_iter().flatten() {
            visit_attribute(attribute, &format!("subscription {id} {name}"), visit)?;
        }
    }
    Ok(())
}

/// The value of a custom delivery property, if it is a secret.
fn visit_attribute(
    attribute: &mut Value,
    place: &str,
    visit: &mut Visit<'_>,
) -> Result<(), StoreError> {
    let is_secret = attribute.pointer("/properties/isSecret") == Some(&Value::Bool(true));
    let place = format!("{place} {}", attribute["name"].as_str().unwrap_or_default());
    match attribute.pointer_mut("/properties/value") {
        Some(secret) if is_secret => visit(&place, secret),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_core::position::{SubscriptionId, TopicId};
    use hedgerow_core::spec::{
        AttributeValue, DeliveryAttribute, Destination, EndpointPath, EndpointUrl,
        OriginGroupEndpoint, SigningSecret, SigningSpec, SubscriptionSpec, TopicSpec,
    };
    use hedgerow_core::time::Timestamp;

    use super::*;
    use crate::catalog::{TopicKeys, Validation};

    fn to_group(mut spec: SubscriptionSpec) -> SubscriptionSpec {
        let path = EndpointPath::parse("/hook?code=canary").expect("a path");
        let group = "shop".parse().expect("a name");
        let to = OriginGroupEndpoint::new(group, path, None);
        spec.destination = Destination::OriginGroup(to);
        spec
    }

    fn changes() -> Vec<Change> {
        let url = "https://host.example/hook?code=canary";
        let mut spec = SubscriptionSpec::webhook(EndpointUrl::parse(url).expect("a URL"));
        let header = |name: &str, value: &str, is_secret| DeliveryAttribute {
            name: name.into(),
            value: AttributeValue::Static {
                value: value.into(),
                is_secret,
            },
        };
        spec.delivery_attributes = vec![
            header("X-Plain", "plain", false),
            header("X-Key", "canary-header", true),
        ];
        let secret = |byte| SigningSecret::of_bytes(&[byte; 24]);
        spec.signing =
            Some(SigningSpec::new(secret(1)).rotated(secret(2), Some(Timestamp::from_millis(7))));
        let keys = |new: &str| TopicKeys {
            key1: format!("canary-{new}"),
            key2: "canary-2".into(),
        };
        let created = Timestamp::from_millis(5);
        vec![
            Change::TopicCreated {
                id: TopicId(1),
                name: "orders".parse().expect("a name"),
                spec: TopicSpec::default(),
                keys: keys("1"),
                created,
            },
            Change::TopicKeysChanged {
                id: TopicId(1),
                keys: keys("3"),
            },
            Change::SubscriptionCreated {
                id: SubscriptionId(1),
                topic: TopicId(1),
                domain_topic: None,
                name: "billing".parse().expect("a name"),
                spec: Box::new(spec.clone()),
                created,
                validation: None,
            },
            Change::SubscriptionUpdated {
                id: SubscriptionId(1),
                spec: Box::new(spec.clone()),
                validation: Some(Validation::new("canary-token".to_owned())),
            },
            Change::SubscriptionUpdated {
                id: SubscriptionId(1),
                spec: Box::new(to_group(spec)),
                validation: Some(Validation::new("canary-token".to_owned())),
            },
        ]
    }

    /// Everything that can hold a secret is in the list, and comes back as it was.
    #[test]
    fn stored_forms_hold_no_secret_and_are_read_as_they_were() {
        let secrets = Secrets::with_key([7; 32], "KEY");
        let mut catalog = Catalog::default();
        for change in changes() {
            let json = change.to_sealed_json(&secrets).expect("sealed");
            let text = String::from_utf8(json.clone()).expect("JSON");
            assert!(
                text.contains("sealed") && !text.contains("canary"),
                "{text}"
            );
            assert!(!text.contains("host.example"), "{text}");
            assert!(!text.contains("whsec_"), "{text}");
            assert_eq!(
                Change::from_sealed_json(&json, &secrets).expect("unsealed"),
                change
            );
            catalog.apply(change, |_| 1);
        }
        let json = catalog.to_sealed_json(&secrets).expect("sealed");
        let text = String::from_utf8(json.clone()).expect("JSON");
        assert!(!text.contains("canary"), "{text}");
        assert!(!text.contains("whsec_"), "{text}");
        let read = Catalog::from_sealed_json(&json, &secrets, "file").expect("unsealed");
        assert_eq!(read, catalog, "and who is called how");
        assert!(read.topic_named("ORDERS").is_some());
        let other = Secrets::with_key([8; 32], "KEY");
        let refused = Catalog::from_sealed_json(&json, &other, "file");
        assert!(matches!(refused, Err(StoreError::Key { .. })));
    }

    #[test]
    fn a_secret_that_stands_there_plain_is_refused() {
        let secrets = Secrets::with_key([7; 32], "KEY");
        for change in changes() {
            let json = serde_json::to_vec(&change).expect("JSON");
            let refused = Change::from_sealed_json(&json, &secrets);
            assert!(matches!(refused, Err(StoreError::Damaged { .. })));
        }
    }
}
