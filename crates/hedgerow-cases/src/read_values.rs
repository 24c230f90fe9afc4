//! How values in the tables are read.

use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, DestinationKind, Outcome};
use hedgerow_core::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

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
