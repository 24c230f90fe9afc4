//! Shared access signatures: tokens that let publish to one endpoint until they expire (section 1.3).
//!
//! `r=<resource>&e=<expiry>&s=<signature>`, each value form-encoded. What is signed are the bytes before the last `&s=` as
//! they came, never a copy that was encoded anew (ED-019): clients differ in how they write escapes and spaces.

mod expiry;
mod resource;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_core::time::Timestamp;
use ring::hmac;

use crate::escapes::decode_form;

pub use resource::Endpoint;

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SasError {
    /// It has not the form of a token. The only reason for 400; the others are 401 (ED-024).
    #[error(
        "The token must have the form 'r=<resource>&e=<expiry>&s=<signature>', with form-encoded values."
    )]
    Malformed,
    /// It is signed with none of the keys.
    #[error("The signature of the token fits to none of the topic's keys.")]
    Signature,
    /// It is for another endpoint.
    #[error("The resource of the token is not the endpoint that was called.")]
    Resource,
    /// Its expiry is no date and time.
    #[error("The expiry of the token is no date and time that can be read.")]
    Expiry,
    /// It expired.
    #[error("The token has expired.")]
    Expired,
}

/// What a token is judged by.
#[derive(Debug, Clone, Copy)]
pub struct SasRules<'a> {
    /// Base64 text of the keys that may have signed it (ED-023).
    pub keys: [&'a str; 2],
    /// The names of the endpoint that is called: one of them must be its resource (ED-022).
    pub endpoints: &'a [Endpoint],
    /// The present.
    pub now: Timestamp,
    /// How much longer than it says it is taken (ED-021).
    pub clock_skew: Duration,
}

/// Judges a token. What is wrong with its resource and expiry is only told to who could sign it.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn verify(token: &[u8], rules: &SasRules<'_>) -> Result<(), SasError> {
    let token = std::str::from_utf8(token).map_err(|_| SasError::Malformed)?;
    let parts = Parts::of(token).ok_or(SasError::Malformed)?;
    if !rules.keys.iter().any(|key| parts.is_signed_with(key)) {
        return Err(SasError::Signature);
    }
    let resource = decode_form(parts.resource.as_bytes());
    let resource = std::str::from_utf8(&resource)
        .ok()
        .and_then(Endpoint::parse);
    if !resource.is_some_and(|resource| rules.endpoints.contains(&resource)) {
        return Err(SasError::Resource);
    }
    let expiry = expiry::nanoseconds(&decode_form(parts.expiry.as_bytes()));
    let expiry = expiry.ok_or(SasError::Expiry)?;
    let now = i128::from(rules.now.as_millis()) * 1_000_000;
    if now >= expiry.saturating_add(rules.clock_skew.as_nanos().cast_signed()) {
        return Err(SasError::Expired);
    }
    Ok(())
}

/// A token taken apart; nothing is decoded.
struct Parts<'t> {
    resource: &'t str,
    expiry: &'t str,
    signature: &'t str,
    signed: &'t str,
}

impl<'t> Parts<'t> {
    fn of(token: &'t str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once("&s=")?;
        let (resource, expiry) = signed.strip_prefix("r=")?.split_once("&e=")?;
        let is_one = |value: &str| !value.contains('&');
        (is_one(resource) && is_one(expiry) && is_one(signature)).then_some(Self {
            resource,
            expiry,
            signature,
            signed,
        })
    }

    /// Compares in constant time (ED-014).
    fn is_signed_with(&self, key: &str) -> bool {
        let mut signature = decode_form(self.signature.as_bytes());
        // Base64 has no space: this one was a `+` that its client did not escape.
        for byte in &mut signature {
            if *byte == b' ' {
                *byte = b'+';
            }
        }
        let (Ok(signature), Ok(key)) = (STANDARD.decode(signature), STANDARD.decode(key)) else {
            return false;
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        hmac::verify(&key, self.signed.as_bytes(), &signature).is_ok()
    }
}
