//! Finds the mapped fields of an event by their paths (ED-054).
//!
//! All paths are looked for at once, each level of objects in one pass. Values that no path leads to are skipped.

use std::borrow::Cow;
use std::fmt;

use hedgerow_core::spec::InputSchemaMapping;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A member that a field can be mapped to. The number is its place in [`Found`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    Id,
    Topic,
    EventTime,
    EventType,
    Subject,
    DataVersion,
}

const MEMBERS: usize = 6;

impl Member {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Topic => "topic",
            Self::EventTime => "eventTime",
            Self::EventType => "eventType",
            Self::Subject => "subject",
            Self::DataVersion => "dataVersion",
        }
    }
}

/// The text of each member's field, if it is there and a string.
pub(super) type Found<'b> = [Option<Cow<'b, str>>; MEMBERS];

/// Where fields are, as a tree of names.
#[derive(Debug, Default)]
pub(super) struct Sources<'m> {
    root: Node<'m>,
}

/// A place in an event.
#[derive(Debug, Default)]
struct Node<'m> {
    /// The members whose field is here.
    members: Vec<Member>,
    /// What is looked for below, by name.
    below: Vec<(&'m str, Node<'m>)>,
}

impl<'m> Sources<'m> {
    pub fn new(mapping: &'m InputSchemaMapping) -> Self {
        let mut sources = Self::default();
        for (member, source) in [
            (Member::Id, &mapping.id),
            (Member::Topic, &mapping.topic),
            (Member::EventTime, &mapping.event_time),
            (Member::EventType, &mapping.event_type.source),
            (Member::Subject, &mapping.subject.source),
            (Member::DataVersion, &mapping.data_version.source),
        ] {
            let Some(source) = source else { continue };
            let mut node = &mut sources.root;
            for part in source.parts() {
                node = node.below(part);
            }
            node.members.push(member);
        }
        sources
    }

    /// Finds them in an event, which is a JSON object.
    ///
    /// # Errors
    ///
    /// If a name of an object on the way is no text.
    pub fn find<'b>(&self, event: &'b str) -> Result<Found<'b>, String> {
        let mut found = Found::default();
        self.root.look_into(event, &mut found)?;
        Ok(found)
    }
}

impl<'m> Node<'m> {
    fn below(&mut self, name: &'m str) -> &mut Self {
        let at = self.below.iter().position(|(of, _)| *of == name);
        let at = at.unwrap_or_else(|| {
            self.below.push((name, Node::default()));
            self.below.len() - 1
        });
        &mut self.below[at].1
    }

    /// Takes what is here. What an earlier member of the same name gave is forgotten: the last one counts.
    fn take<'b>(&self, value: &'b str, found: &mut Found<'b>) -> Result<(), String> {
        self.forget(found);
        if value.starts_with('"') {
            for member in &self.members {
                found[*member as usize] = text(value);
            }
        }
        if value.starts_with('{') && !self.below.is_empty() {
            self.look_into(value, found)?;
        }
        Ok(())
    }

    fn forget(&self, found: &mut Found<'_>) {
        for member in &self.members {
            found[*member as usize] = None;
        }
        for (_, node) in &self.below {
            node.forget(found);
        }
    }

    fn look_into<'b>(&self, object: &'b str, found: &mut Found<'b>) -> Result<(), String> {
        let mut json = serde_json::Deserializer::from_str(object);
        json.deserialize_map(Look { node: self, found })
            .map_err(|error| format!("it cannot be read: {error}"))?
    }
}

/// The text of a JSON string, borrowed if it has no escapes.
fn text(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(json).ok().map(Cow::Owned)
}

struct Look<'l, 'm, 'b> {
    node: &'l Node<'m>,
    found: &'l mut Found<'b>,
}

impl<'b> Visitor<'b> for Look<'_, '_, 'b> {
    type Value = Result<(), String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        while let Some(wanted) = members.next_key_seed(Name(self.node))? {
            let Some(node) = wanted else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let value: &RawValue = members.next_value()?;
            if let Err(fault) = node.take(value.get(), self.found) {
                return Ok(Err(fault));
            }
        }
        Ok(Ok(()))
    }
}

/// The node below that a name means.
struct Name<'l, 'm>(&'l Node<'m>);

impl<'l, 'b> DeserializeSeed<'b> for Name<'l, '_> {
    type Value = Option<&'l Node<'l>>;

    fn deserialize<D: Deserializer<'b>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'l> Visitor<'_> for Name<'l, '_> {
    type Value = Option<&'l Node<'l>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let below = self.0.below.iter();
        Ok(below
            .into_iter()
            .find_map(|(of, node)| (*of == name).then_some(node)))
    }
}
