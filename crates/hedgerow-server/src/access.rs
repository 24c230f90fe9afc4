//! What a bearer may do: rights, and the topics they hold for. Decides; reads no clock and no file.
//!
//! Rights stand beside each other, none includes another:
//!
//! | right | allows |
//! | --- | --- |
//! | `read` | to see what is declared and what became of events |
//! | `publish` | to publish with the token in place of a topic's key |
//! | `operate` | to steer deliveries: pause, resume, reset, purge, resend |
//! | `admin` | to declare, change and delete, and to see secrets |
//!
//! A grant holds for the topics whose names begin with its prefix, in any case; others are for its bearer as if they did not
//! exist. What is no topic's (tokens, the store) is for bearers without a prefix only.

use std::fmt;

use hedgerow_core::limits;

/// One of the things that a token may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    Read,
    Publish,
    Operate,
    Admin,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Publish, Self::Operate, Self::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Publish => "publish",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.as_str() == text)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u8);

impl Rights {
    pub fn all() -> Self {
        Right::ALL.into_iter().collect()
    }

    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names, in the order of the table.
    pub fn names(self) -> Vec<&'static str> {
        let held = Right::ALL.into_iter().filter(|right| self.has(*right));
        held.map(Right::as_str).collect()
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | right.bit()))
    }
}

/// With what a topic's name begins; empty for all topics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicPrefix(Box<str>);

impl TopicPrefix {
    /// Reads a prefix, or says what it must be.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if text.len() <= *limits::TOPIC_NAME_LEN.end() && text.bytes().all(is_sign) {
            Ok(Self(text.into()))
        } else {
            Err(
                "must have at most 50 characters from letters, digits and \"-\", as topic names have",
            )
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the beginning of every name.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names compare without regard to case, and so do their beginnings.
    pub fn begins(&self, topic: &str) -> bool {
        let beginning = topic.as_bytes().get(..self.0.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(self.0.as_bytes()))
    }
}

/// What the bearer of one token may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The token's name, for messages and the log.
    pub name: Box<str>,
    pub rights: Rights,
    pub prefix: TopicPrefix,
}

impl Grant {
    /// Whether a topic is there for the bearer.
    pub fn reaches(&self, topic: &str) -> bool {
        self.prefix.begins(topic)
    }

    /// Whether it holds for all topics, and for what is no topic's.
    pub const fn is_whole(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Whether events may be published to a topic.
    pub fn may_publish(&self, topic: &str) -> bool {
        self.rights.has(Right::Publish) && self.reaches(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_compared_as_names_are() {
        let prefix = TopicPrefix::parse("Team-a-").unwrap();
        for (topic, expect) in [
            ("team-a-orders", true),
            ("TEAM-A-x", true),
            ("team-a-", true),
            ("team-a", false),
            ("team-ab-orders", false),
            ("other", false),
            ("", false),
            ("ü", false),
        ] {
            assert_eq!(prefix.begins(topic), expect, "{topic}");
        }
        assert!(TopicPrefix::default().begins("anything"));
        for text in ["a b", "a/", "ü", &"a".repeat(51)] {
            TopicPrefix::parse(text).unwrap_err();
        }
    }

    #[test]
    fn no_right_includes_another() {
        for held in Right::ALL {
            let rights: Rights = [held].into_iter().collect();
            for right in Right::ALL {
                assert_eq!(rights.has(right), held == right, "{held} {right}");
            }
            assert_eq!(rights.names(), [held.as_str()]);
            assert_eq!(Right::parse(held.as_str()), Some(held));
        }
        assert_eq!(Rights::all().names().len(), 4);
        assert!(Rights::default().is_empty());
        assert_eq!(Right::parse("Read"), None);
    }
}
