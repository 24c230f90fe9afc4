//! How values in the tables are read.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, DestinationKind, Outcome};
use hedgerow_core::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Milliseconds. Times in the tables are seconds with up to three decimals.
///
/// # Panics
///
/// If it is negative.
#[must_use]
pub fn millis(seconds: f64) -> u64 {
    Duration::try_from_secs_f64(seconds)
        .map(|time| (time + Duration::from_micros(500)).as_millis() as u64)
        .expect("times are not negative")
}

/// A span in seconds.
#[must_use]
pub fn span(seconds: f64) -> Duration {
    Duration::from_millis(millis(seconds))
}

/// A date-time, to the millisecond.
///
/// # Errors
///
/// If it is none.
pub fn timestamp(text: &str) -> Result<Timestamp, String> {
    let time: jiff::Timestamp = text.parse().map_err(|error| format!("{text}: {error}"))?;
    Ok(Timestamp::from_millis(time.as_millisecond().unsigned_abs()))
}

/// A dead-letter reason by its name.
///
/// # Errors
///
/// If there is none of this name.
pub fn reason(name: &str) -> Result<DeadLetterReason, String> {
    let found = DeadLetterReason::ALL
        .into_iter()
        .find(|reason| reason.as_str() == name);
    found.ok_or_else(|| format!("unknown reason {name}"))
}

/// An outcome by its name.
///
/// # Errors
///
/// If there is none of this name.
pub fn outcome(name: &str) -> Result<Outcome, String> {
    let found = Outcome::ALL
        .into_iter()
        .find(|outcome| outcome.as_str() == name);
    found.ok_or_else(|| format!("unknown outcome {name}"))
}

/// A kind of destination.
#[derive(Deserialize, Clone, Copy)]
#[allow(missing_docs)] // The letters of the specification.
pub enum Kind {
    W,
    R,
}

impl From<Kind> for DestinationKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::W => Self::Webhook,
            Kind::R => Self::Managed,
        }
    }
}

/// Writes out what a table abbreviates: `{"$repeat": ["x", 3]}` is `"xxx"`, `{"$list": [v, 3]}` is `[v, v, v]`.
///
/// # Errors
///
/// If an abbreviation is none of these.
pub fn expand(value: Value) -> Result<Value, String> {
    match value {
        Value::Array(list) => list.into_iter().map(expand).collect(),
        Value::Object(members) => {
            let mut pairs = members.iter();
            if let (Some((name, of)), None) = (pairs.next(), pairs.next())
                && name.starts_with('$')
            {
                let unknown = || format!("unknown abbreviation {name}: {of}");
                let [what, count] = of.as_array().map_or(&[][..], Vec::as_slice) else {
                    return Err(unknown());
                };
                let count = count.as_u64().ok_or_else(unknown)? as usize;
                return match (name.as_str(), what) {
                    ("$repeat", Value::String(text)) => Ok(Value::String(text.repeat(count))),
                    ("$list", what) => Ok(Value::Array(vec![expand(what.clone())?; count])),
                    _ => Err(unknown()),
                };
            }
            let members = members.into_iter();
            members
                .map(|(name, value)| Ok((name, expand(value)?)))
                .collect()
        }
        other => Ok(other),
    }
}

/// The same of JSON text, in which every number stays as it is written.
///
/// # Errors
///
/// If an abbreviation is none of these.
pub fn expand_text(raw: &RawValue) -> Result<String, String> {
    let text = raw.get();
    let unreadable = |error: serde_json::Error| error.to_string();
    match text.as_bytes().first() {
        Some(b'[') => {
            let list: Vec<&RawValue> = serde_json::from_str(text).map_err(unreadable)?;
            let list: Result<Vec<_>, _> = list.into_iter().map(expand_text).collect();
            Ok(format!("[{}]", list?.join(",")))
        }
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> =
                serde_json::from_str(text).map_err(unreadable)?;
            if members.keys().any(|name| name.starts_with('$')) {
                let value = serde_json::from_str(text).map_err(unreadable)?;
                return expand(value).map(|value| value.to_string());
            }
            let members = members.into_iter().map(|(name, value)| {
                let name = Value::String(name);
                Ok(format!("{name}:{}", expand_text(value)?))
            });
            let members: Result<Vec<_>, String> = members.collect();
            Ok(format!("{{{}}}", members?.join(",")))
        }
        _ => Ok(text.to_owned()),
    }
}
