//! Signs requests (ED-142, FC-13): three headers, over exactly the bytes that are sent.
//!
//! Source: Standard Webhooks 1.0, "Webhook Headers" and "Signature scheme", with symmetric secrets: the signature is
//! HMAC-SHA256 of the id, the time in seconds and the body with dots between them, in base64 behind `v1,`. While two secrets
//! hold there is one of each, and a receiver takes the one that it can verify.
//!
//! The id is the same in all attempts, so that a receiver knows what it got already; the time is that of the attempt, so that
//! a retry after hours is as fresh as a first attempt.

use std::hash::Hasher;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_core::spec::SigningSpec;
use hedgerow_core::time::Timestamp;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::headers::hash_uuid;

/// What the requests of a subscription are signed with. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Signer {
    /// The newest first.
    keys: Vec<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    key: hmac::Key,
    /// Not used from then on.
    until: Timestamp,
}

/// How many headers a signature is.
pub(super) const SIGNATURE_HEADERS: usize = 3;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

impl Signer {
    /// With the secrets that were declared.
    #[must_use]
    pub fn new(spec: &SigningSpec) -> Self {
        let untils = [
            Timestamp::MAX,
            spec.previous
                .as_ref()
                .and_then(|previous| previous.until)
                .unwrap_or(Timestamp::MAX),
        ];
        let keys = spec.secrets().zip(untils);
        let keys = keys.map(|(secret, until)| Key {
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret.bytes()),
            until,
        });
        let keys = keys.collect();
        Self { keys }
    }

    /// Adds the signature of a request with this body, sent at this time of the system's clock. `id` is that of what is sent,
    /// the event's own or that of a batch.
    pub fn sign(&self, id: &str, sent: Timestamp, body: &[u8], headers: &mut HeaderMap) {
        let seconds = (sent.as_millis() / 1_000).to_string();
        let mut signatures = String::new();
        for key in self.keys.iter().filter(|key| sent < key.until) {
            let mut signed = hmac::Context::with_key(&key.key);
            for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
                signed.update(part);
            }
            let separator = if signatures.is_empty() { "" } else { " " };
            signatures.push_str(separator);
            signatures.push_str("v1,");
            STANDARD.encode_string(signed.sign(), &mut signatures);
        }
        // All three are ASCII without control characters.
        let mut insert = |name, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        insert(ID, id);
        insert(TIMESTAMP, &seconds);
        insert(SIGNATURE, &signatures);
    }
}

/// What a batch of events with these [system ids](super::system_id) is known by to receivers: the same whenever the same ones
/// are sent together again.
#[must_use]
pub fn batch_id(system_ids: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut hasher = SipHasher13::new();
    for id in system_ids {
        hasher.write(id.as_ref().as_bytes());
        hasher.write_u8(0);
    }
    hash_uuid(hasher.finish128().as_u128())
}

#[cfg(test)]
mod tests {
    use hedgerow_core::spec::SigningSecret;

    use super::*;

    fn signed(signer: &Signer, id: &str, seconds: u64, body: &[u8]) -> [String; 3] {
        let mut headers = HeaderMap::new();
        signer.sign(
            id,
            Timestamp::from_millis(seconds * 1_000 + 999),
            body,
            &mut headers,
        );
        assert_eq!(headers.len(), SIGNATURE_HEADERS);
        [ID, TIMESTAMP, SIGNATURE].map(|name| headers[name].to_str().unwrap().to_owned())
    }

    /// The example of the standard's own libraries.
    #[test]
    fn the_known_answer_is_given() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signer = Signer::new(&SigningSpec::new(secret));
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let [sent_id, time, signature] =
            signed(&signer, id, 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!((sent_id.as_str(), time.as_str()), (id, "1614265330"));
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// ED-142: both secrets hold during a rotation, and the earlier one until its end.
    #[test]
    fn two_secrets_hold_during_a_rotation() {
        let secret = |byte| SigningSecret::of_bytes(&[byte; 32]);
        let alone = |byte| {
            let signer = Signer::new(&SigningSpec::new(secret(byte)));
            signed(&signer, "id", 1_000, b"body")[2].clone()
        };
        let until = Timestamp::from_millis(1_001_000);
        let rotating = SigningSpec::new(secret(1)).rotated(secret(2), Some(until));
        let rotating = Signer::new(&rotating);
        let [.., both] = signed(&rotating, "id", 1_000, b"body");
        assert_eq!(both, format!("{} {}", alone(2), alone(1)));
        // Until its end, and not at it: to the millisecond.
        for (sent, secrets) in [(1_000_999, 2), (1_001_000, 1), (1_001_999, 1)] {
            let mut headers = HeaderMap::new();
            rotating.sign("id", Timestamp::from_millis(sent), b"body", &mut headers);
            let signatures = headers[SIGNATURE].to_str().unwrap();
            assert_eq!(
                signatures.split(' ').count(),
                secrets,
                "{sent}: {signatures}"
            );
        }
        let dropped = SigningSpec::new(secret(1)).rotated(secret(2), None);
        let [.., new] = signed(&Signer::new(&dropped), "id", 1_000, b"body");
        assert_eq!(new, alone(2));
        assert!(
            !format!("{rotating:?}").contains("AQEB"),
            "no secret is shown"
        );
    }

    /// What is sent together again has the same id, and nothing else has.
    #[test]
    fn batches_are_known_by_what_is_in_them() {
        assert_eq!(batch_id(["a", "b"]), batch_id(["a", "b"]));
        assert_ne!(batch_id(["a", "b"]), batch_id(["ab", ""]));
        assert_ne!(batch_id(["a", "b"]), batch_id(["a", "c"]));
    }
}
