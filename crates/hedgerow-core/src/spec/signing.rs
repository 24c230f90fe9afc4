//! The secrets that what is delivered is signed with, as declared (ED-142): one, and during a rotation the one before it, so
//! that receivers can change theirs at any time while both hold.
//!
//! Secrets are spelled as Standard Webhooks has them, `whsec_` and base64. They are written and never shown: [`MASK`] stands in
//! their place, and where it comes back it stands for the secret that is there.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::delivery_attributes::MASK;
use super::fields::Fields;
use super::{SpecError, SubscriptionSpec};
use crate::limits;
use crate::time::Timestamp;

/// What deliveries are signed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningSpec {
    /// The newest secret.
    pub secret: SigningSecret,
    /// The one before it, while it holds.
    pub previous: Option<PreviousSecret>,
}

/// The secret before the newest one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousSecret {
    /// It.
    pub secret: SigningSecret,
    /// From then on nothing is signed with it, by the system's clock; `None`: until it is declared otherwise.
    pub until: Option<Timestamp>,
}

/// A secret, spelled. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Box<str>);

/// What a secret begins with. Source: Standard Webhooks 1.0, "Signature scheme".
const PREFIX: &str = "whsec_";

const SECRET: &str = "secret";
const PREVIOUS: &str = "previousSecret";
const UNTIL: &str = "previousSecretValidUntil";

impl SigningSecret {
    /// Of so many bytes, which are random.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(format!("{PREFIX}{}", STANDARD.encode(bytes)).into())
    }

    /// Reads a secret.
    ///
    /// # Errors
    ///
    /// What it must be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = text.strip_prefix(PREFIX).and_then(decode);
        let range = limits::SIGNING_SECRET_BYTES;
        if bytes.is_some_and(|bytes| range.contains(&bytes.len())) {
            return Ok(Self(text.into()));
        }
        Err(format!(
            "must be \"{PREFIX}\" and the base64 of {} to {} random bytes",
            range.start(),
            range.end()
        ))
    }

    /// As it is declared. Never to be shown or logged, but to whoever made it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes that it stands for.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let text = self.0.strip_prefix(PREFIX);
        text.and_then(decode).unwrap_or_default()
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl SigningSpec {
    /// One with a secret alone.
    #[must_use]
    pub const fn new(secret: SigningSecret) -> Self {
        let previous = None;
        Self { secret, previous }
    }

    /// The same with a newer secret, where the present one holds until a time: not at all if it is past.
    #[must_use]
    pub fn rotated(self, secret: SigningSecret, until: Option<Timestamp>) -> Self {
        let previous = until.map(|until| PreviousSecret {
            secret: self.secret,
            until: Some(until),
        });
        Self { secret, previous }
    }

    /// Its secrets, the newest first.
    pub fn secrets(&self) -> impl Iterator<Item = &SigningSecret> {
        let previous = self.previous.iter().map(|previous| &previous.secret);
        std::iter::once(&self.secret).chain(previous)
    }

    /// Checks the object of a declaration.
    pub(super) fn check(mut fields: Fields<'_>) -> Result<Self, SpecError> {
        let Some(secret) = secret(&mut fields, SECRET)? else {
            return Err(fields.error(SECRET, "is required"));
        };
        let previous = self::secret(&mut fields, PREVIOUS)?;
        if previous.as_ref() == Some(&secret) {
            return Err(fields.error(PREVIOUS, "must be another one than the newest"));
        }
        let until = match fields.text(UNTIL)? {
            None => None,
            Some(_) if previous.is_none() => {
                return Err(fields.error(UNTIL, "is of no use without previousSecret"));
            }
            Some(text) => {
                let time = text.parse::<Timestamp>();
                Some(time.map_err(|error| fields.error(UNTIL, error.to_string()))?)
            }
        };
        fields.finish()?;
        let previous = previous.map(|secret| PreviousSecret { secret, until });
        Ok(Self { secret, previous })
    }

    /// As it is declared; secrets are masked unless they are to be `shown`.
    #[must_use]
    pub(super) fn to_json(&self, shown: bool) -> Value {
        let spelled = |secret: &SigningSecret| json!(if shown { secret.as_str() } else { MASK });
        let mut members = Map::new();
        members.insert(SECRET.to_owned(), spelled(&self.secret));
        if let Some(previous) = &self.previous {
            members.insert(PREVIOUS.to_owned(), spelled(&previous.secret));
            if let Some(until) = previous.until {
                members.insert(UNTIL.to_owned(), json!(until.to_string()));
            }
        }
        members.into()
    }
}

fn secret(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<SigningSecret>, SpecError> {
    match fields.text(name)? {
        None => Ok(None),
        Some(MASK) => Err(fields.error(
            name,
            "is the mask of a secret, and there is none here to keep",
        )),
        Some(text) => SigningSecret::parse(text)
            .map(Some)
            .map_err(|message| fields.error(name, message)),
    }
}

/// Where masks may stand.
const PLACES: [&str; 2] = ["/signing/secret", "/signing/previousSecret"];

/// Whether there is a mask in a declaration.
pub(super) fn has_masks(declaration: &Value) -> bool {
    let mut places = PLACES.iter();
    places.any(|place| {
        declaration
            .pointer(place)
            .is_some_and(|value| value == MASK)
    })
}

/// Puts the secrets of a declaration into another one where their masks stand.
pub(super) fn keep_secrets(present: &SubscriptionSpec, declaration: &mut Value) {
    let Some(signing) = &present.signing else {
        return;
    };
    let secrets = [
        Some(&signing.secret),
        signing.previous.as_ref().map(|previous| &previous.secret),
    ];
    for (place, secret) in PLACES.iter().zip(secrets) {
        if let (Some(value), Some(secret)) = (declaration.pointer_mut(place), secret)
            && value == MASK
        {
            *value = json!(secret.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declaration(signing: &Value) -> Value {
        json!({
            "destination": { "endpointType": "WebHook",
                "properties": { "endpointUrl": "https://host.example/" } },
            "signing": signing,
        })
    }

    #[allow(clippy::needless_pass_by_value)] // Each is written where it is asked about.
    fn check(signing: Value) -> Result<SubscriptionSpec, SpecError> {
        SubscriptionSpec::check(&declaration(&signing)).map(|checked| checked.spec)
    }

    fn spelled(byte: u8, count: usize) -> String {
        SigningSecret::of_bytes(&vec![byte; count])
            .as_str()
            .to_owned()
    }

    /// ED-142: what is no secret of Standard Webhooks is refused with its path.
    #[test]
    fn only_secrets_of_the_standard_are_taken() {
        let (one, two) = (spelled(1, 24), spelled(2, 64));
        for signing in [
            json!({ "secret": one }),
            json!({ "secret": one, "previousSecret": two }),
            json!({ "secret": one, "previousSecret": two,
                "previousSecretValidUntil": "2030-01-02T03:04:05.0000000Z" }),
        ] {
            let spec = check(signing.clone()).unwrap();
            assert_eq!(spec.to_json()["signing"], signing);
            let read: SubscriptionSpec = serde_json::from_value(spec.to_json()).unwrap();
            assert_eq!(read, spec);
        }
        assert_eq!(check(Value::Null).unwrap().signing, None, "off by default");
        for (signing, field) in [
            (json!({}), "secret"),
            (json!({ "secret": spelled(1, 23) }), "secret"),
            (json!({ "secret": spelled(1, 65) }), "secret"),
            (json!({ "secret": one.replace("whsec_", "") }), "secret"),
            (json!({ "secret": "whsec_no base64" }), "secret"),
            (json!({ "secret": MASK }), "secret"),
            (
                json!({ "secret": one, "previousSecret": one }),
                "previousSecret",
            ),
            (
                json!({ "secret": one, "previousSecretValidUntil": "2030-01-02T03:04:05Z" }),
                "previousSecretValidUntil",
            ),
            (
                json!({ "secret": one, "previousSecret": two, "previousSecretValidUntil": "soon" }),
                "previousSecretValidUntil",
            ),
            (json!({ "secret": one, "key": "x" }), "key"),
        ] {
            let error = check(signing.clone()).unwrap_err();
            assert_eq!(error.field, format!("signing.{field}"), "{signing}");
            assert!(!error.message.contains(&one), "{error}");
        }
    }

    /// Nobody is shown a secret, and the mask keeps it.
    #[test]
    fn secrets_are_masked_and_kept() {
        let (one, two) = (spelled(1, 32), spelled(2, 32));
        let present = check(json!({ "secret": one, "previousSecret": two })).unwrap();
        let shown = present.to_public_json();
        assert_eq!(
            shown["signing"],
            json!({ "secret": MASK, "previousSecret": MASK })
        );
        assert!(!format!("{present:?}").contains("whsec"));
        let mut declared = declaration(&shown["signing"]);
        assert!(SubscriptionSpec::has_masks(&declared));
        present.keep_secrets(&mut declared).unwrap();
        assert_eq!(SubscriptionSpec::check(&declared).unwrap().spec, present);
        // There is none that this one could stand for.
        let without = check(json!({ "secret": one })).unwrap();
        let mut declared = declaration(&shown["signing"]);
        without.keep_secrets(&mut declared).unwrap();
        let refused = SubscriptionSpec::check(&declared).unwrap_err();
        assert_eq!(refused.field, "signing.previousSecret");
    }
}
