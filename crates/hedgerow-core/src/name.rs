//! Names, parsed once and valid ever after.
//!
//! A name keeps the spelling it was created with and compares without regard to ASCII case, like the vendor's resource
//! ids: topic names are parts of host names, and delivery headers carry subscription names in upper case.
//!
//! One topic is built in and has a name that no other can have: [`DEAD_LETTER_TOPIC`].

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits;

/// The topic that tells of dead letters that were written (ED-263).
pub const DEAD_LETTER_TOPIC: &str = "$deadletter";

/// A text is no valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must have {} to {} characters from letters, digits and \"-\"", len.start(), len.end())]
pub struct NameError {
    what: &'static str,
    len: RangeInclusive<usize>,
}

/// The name of a topic: 3 to 50 ASCII letters, digits and hyphens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TopicName(Box<str>);

/// The name of a subscription, unique in its topic: 3 to 64 ASCII letters, digits and hyphens (ED-268).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SubscriptionName(Box<str>);

/// The name of a domain topic, unique in its domain: 3 to 128 ASCII letters, digits and hyphens (ED-078).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DomainTopicName(Box<str>);

/// The name of an origin group: 1 to 64 ASCII letters, digits and hyphens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OriginGroupName(Box<str>);

/// The name of a route: 1 to 64 ASCII letters, digits and hyphens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RouteName(Box<str>);

macro_rules! name {
    ($type:ident, $what:literal, $len:expr, $built_in:expr) => {
        impl $type {
            /// The spelling it was created with.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                let is_it = |built_in: &&str| built_in.eq_ignore_ascii_case(text);
                if let Some(built_in) = $built_in.into_iter().find(is_it) {
                    return Ok(Self(built_in.into()));
                }
                check(text, $what, $len)?;
                Ok(Self(text.into()))
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.into()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.0.eq_ignore_ascii_case(&other.0)
            }
        }

        impl Eq for $type {}

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                lower(&self.0).cmp(lower(&other.0))
            }
        }

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                lower(&self.0).for_each(|byte| state.write_u8(byte));
                state.write_u8(0xff);
            }
        }
    };
}

name!(
    TopicName,
    "a topic name",
    limits::TOPIC_NAME_LEN,
    [DEAD_LETTER_TOPIC]
);
name!(
    SubscriptionName,
    "a subscription name",
    limits::SUBSCRIPTION_NAME_LEN,
    <[&str; 0]>::default()
);

name!(
    DomainTopicName,
    "a domain topic's name",
    limits::DOMAIN_TOPIC_NAME_LEN,
    <[&str; 0]>::default()
);

name!(
    OriginGroupName,
    "an origin group's name",
    limits::ORIGIN_GROUP_NAME_LEN,
    <[&str; 0]>::default()
);

name!(
    RouteName,
    "a route's name",
    limits::ORIGIN_GROUP_NAME_LEN,
    <[&str; 0]>::default()
);

impl DomainTopicName {
    /// The same in lower case: two names are the same if these are.
    #[must_use]
    pub fn folded(&self) -> Box<str> {
        self.0.to_ascii_lowercase().into()
    }
}

impl TopicName {
    /// Whether it is the name of a topic that nobody declares.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        &*self.0 == DEAD_LETTER_TOPIC
    }
}

fn check(text: &str, what: &'static str, len: RangeInclusive<usize>) -> Result<(), NameError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if len.contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(());
    }
    Err(NameError { what, len })
}

fn lower(text: &str) -> impl Iterator<Item = u8> {
    text.bytes().map(|byte| byte.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-263, ED-268.
    #[test]
    fn one_name_has_a_sign_that_no_other_has() {
        for text in ["$deadletter", "$DeadLetter"] {
            let name: TopicName = text.parse().unwrap();
            assert_eq!((name.as_str(), name.is_built_in()), ("$deadletter", true));
        }
        assert!(!"deadletter".parse::<TopicName>().unwrap().is_built_in());
        for text in ["$deadletters", "$dead", "orders$", ""] {
            text.parse::<TopicName>().unwrap_err();
        }
        "$deadletter".parse::<SubscriptionName>().unwrap_err();
    }
}
