//! Which values of events are looked at: the keys of any number of filters, and how all of them are found in one event at
//! once (ED-106 to ED-110, ED-115).
//!
//! Paths into `data` form a tree. An object is read once for all paths that lead into it, and what no path leads into is
//! only skipped; so the work grows with the event and with what is found, not with the number of filters.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::event::FilterEvent;
use super::key::Key;
use super::text::text_of_json;
use super::value::{LossyText, Scalar, Value, each_element};
use super::{FilterRules, fold};

/// Which of the values of an event. Given again when the last filter that uses it is gone.
pub(super) type Slot = u32;

type NodeId = usize;

type Text<'a> = Cow<'a, str>;

const ROOT: NodeId = 0;

/// The keys of filters.
#[derive(Debug, Clone)]
pub(super) struct KeyTable {
    paths_through_arrays: bool,
    /// How many filters use a slot.
    uses: Vec<u32>,
    free_slots: Vec<Slot>,
    /// By folded name.
    attributes: HashMap<Box<str>, Slot>,
    /// The tree of paths; the root is `data` itself.
    nodes: Vec<Node>,
    free_nodes: Vec<NodeId>,
}

/// A place in `data`.
#[derive(Debug, Clone, Default)]
struct Node {
    /// Whether somebody wants the value here.
    slot: Option<Slot>,
    /// By folded name, because a member is looked for whatever its case (ED-108).
    children: HashMap<Box<str>, Vec<Child>>,
}

#[derive(Debug, Clone)]
struct Child {
    /// As the key has it.
    name: Box<str>,
    node: NodeId,
}

/// The values of one event that are there, by slot.
#[derive(Debug, Default)]
pub(super) struct Values<'a>(Vec<(Slot, Value<'a>)>);

impl<'a> Values<'a> {
    pub(super) fn get(&self, slot: Slot) -> &Value<'a> {
        let at = self.0.binary_search_by_key(&slot, |(slot, _)| *slot);
        at.map_or(&Value::Absent, |at| &self.0[at].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Slot, Value<'a>)> {
        self.0.iter()
    }
}

impl KeyTable {
    pub(super) fn new(rules: FilterRules) -> Self {
        Self {
            paths_through_arrays: rules.paths_through_arrays,
            uses: Vec::new(),
            free_slots: Vec::new(),
            attributes: HashMap::new(),
            nodes: vec![Node::default()],
            free_nodes: Vec::new(),
        }
    }

    /// Where the value at a key will be found.
    pub(super) fn intern(&mut self, key: &Key) -> Slot {
        let slot = match key {
            Key::Attribute(name) => self.attributes.get(name.as_str()).copied(),
            Key::Data(path) => {
                let node = path.iter().fold(ROOT, |node, name| self.child(node, name));
                self.nodes[node].slot
            }
            // Nothing is ever found there.
            Key::Nothing { .. } => None,
        };
        let slot = slot.unwrap_or_else(|| {
            let slot = self.new_slot();
            match key {
                Key::Attribute(name) => drop(self.attributes.insert(name.as_str().into(), slot)),
                Key::Data(path) => {
                    let node = path.iter().fold(ROOT, |node, name| self.child(node, name));
                    self.nodes[node].slot = Some(slot);
                }
                Key::Nothing { .. } => {}
            }
            slot
        });
        self.uses[slot as usize] += 1;
        slot
    }

    fn new_slot(&mut self) -> Slot {
        self.free_slots.pop().unwrap_or_else(|| {
            self.uses.push(0);
            self.uses.len() as Slot - 1
        })
    }

    /// The node below another one by this name; made if there is none.
    fn child(&mut self, parent: NodeId, name: &str) -> NodeId {
        let folded = fold(name);
        let children = self.nodes[parent].children.get(&*folded);
        let found = children.and_then(|named| named.iter().find(|child| *child.name == *name));
        if let Some(child) = found {
            return child.node;
        }
        let node = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() - 1
        });
        let named = self.nodes[parent].children.entry((*folded).into());
        named.or_default().push(Child {
            name: name.into(),
            node,
        });
        node
    }

    /// A filter that used the key is gone.
    pub(super) fn release(&mut self, key: &Key, slot: Slot) {
        let uses = &mut self.uses[slot as usize];
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        self.free_slots.push(slot);
        match key {
            Key::Attribute(name) => drop(self.attributes.remove(name.as_str())),
            Key::Data(path) => self.release_path(ROOT, path),
            Key::Nothing { .. } => {}
        }
    }

    /// Takes a path off below a node, and every place that leads nowhere then.
    fn release_path(&mut self, node: NodeId, path: &[String]) {
        let Some((name, rest)) = path.split_first() else {
            self.nodes[node].slot = None;
            return;
        };
        let folded = fold(name);
        let children = self.nodes[node].children.get(&*folded);
        let child = children.and_then(|named| named.iter().find(|child| *child.name == **name));
        let Some(child) = child.map(|child| child.node) else {
            return;
        };
        self.release_path(child, rest);
        let is_empty = self.nodes[child].slot.is_none() && self.nodes[child].children.is_empty();
        if !is_empty {
            return;
        }
        self.free_nodes.push(child);
        if let Some(named) = self.nodes[node].children.get_mut(&*folded) {
            named.retain(|other| other.node != child);
            if named.is_empty() {
                self.nodes[node].children.remove(&*folded);
            }
        }
    }

    /// Finds the values at all keys.
    pub(super) fn find<'a>(&self, event: &FilterEvent<'a>) -> Values<'a> {
        let mut found = Vec::new();
        if !self.attributes.is_empty() {
            event.attributes(|name, value| {
                if let Some(slot) = self.attributes.get(name) {
                    found.push((*slot, value()));
                }
            });
        }
        if let Some(slot) = self.nodes[ROOT].slot {
            found.push((slot, event.data()));
        }
        if let Some(json) = event.data_json() {
            self.go_into(ROOT, json, &mut found);
        }
        found.sort_by_key(|(slot, _)| *slot);
        // Of two attributes by one name the first counts.
        found.dedup_by_key(|(slot, _)| *slot);
        Values(found)
    }

    /// Finds the texts at all keys that have one, by slot. No path leads through an array.
    pub(super) fn find_texts<'a>(&self, event: &FilterEvent<'a>) -> Vec<(Slot, Option<Text<'a>>)> {
        let mut found = Vec::new();
        if !self.attributes.is_empty() {
            event.attribute_texts(|name, text| {
                if let Some(slot) = self.attributes.get(name) {
                    found.push((*slot, text()));
                }
            });
        }
        if let Some(slot) = self.nodes[ROOT].slot {
            found.push((slot, event.data_text()));
        }
        if let Some(json) = event.data_json() {
            self.find_texts_below(ROOT, json, &mut found);
        }
        found.sort_by_key(|(slot, _)| *slot);
        // Of two attributes by one name the first counts.
        found.dedup_by_key(|(slot, _)| *slot);
        found
    }

    fn find_texts_below<'a>(
        &self,
        node: NodeId,
        json: &'a str,
        found: &mut Vec<(Slot, Option<Text<'a>>)>,
    ) {
        let children = &self.nodes[node].children;
        let is_object = json.trim_ascii_start().starts_with('{');
        if children.is_empty() || !is_object {
            return;
        }
        for (child, json) in members(json, children) {
            if let Some(slot) = self.nodes[child].slot {
                found.push((slot, text_of_json(json)));
            }
            self.find_texts_below(child, json, found);
        }
    }

    /// Finds what is wanted below a node, whose value is this.
    fn go_into<'a>(&self, node: NodeId, json: &'a str, found: &mut Vec<(Slot, Value<'a>)>) {
        let children = &self.nodes[node].children;
        if children.is_empty() {
            return;
        }
        match json.trim_ascii_start().as_bytes().first() {
            Some(b'{') => {
                for (child, json) in members(json, children) {
                    if let Some(slot) = self.nodes[child].slot {
                        found.push((slot, Value::of_json(json)));
                    }
                    self.go_into(child, json, found);
                }
            }
            Some(b'[') if self.paths_through_arrays => {
                let mut gathered = HashMap::new();
                self.gather_all(node, json, &mut gathered);
                // The path leads through an array, so there is one at its end, even if nothing is in it (ED-115).
                let mut below = vec![node];
                while let Some(node) = below.pop() {
                    let named = self.nodes[node].children.values().flatten();
                    for child in named {
                        below.push(child.node);
                        if let Some(slot) = self.nodes[child.node].slot {
                            let scalars = gathered.remove(&slot).unwrap_or_default();
                            found.push((slot, Value::of_elements(scalars)));
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Gathers what is wanted below a node out of the objects of an array.
    fn gather_all<'a>(
        &self,
        node: NodeId,
        array: &'a str,
        gathered: &mut HashMap<Slot, Vec<Scalar<'a>>>,
    ) {
        each_element(array, |element| {
            if element.starts_with('{') {
                self.gather(node, element, gathered);
            }
        });
    }

    fn gather<'a>(
        &self,
        node: NodeId,
        object: &'a str,
        gathered: &mut HashMap<Slot, Vec<Scalar<'a>>>,
    ) {
        for (child, json) in members(object, &self.nodes[node].children) {
            if let Some(slot) = self.nodes[child].slot {
                let scalars = Value::of_json(json);
                let into = gathered.entry(slot).or_default();
                into.extend_from_slice(scalars.scalars());
            }
            if self.nodes[child].children.is_empty() {
                continue;
            }
            match json.as_bytes().first() {
                Some(b'{') => self.gather(child, json, gathered),
                Some(b'[') => self.gather_all(child, json, gathered),
                _ => {}
            }
        }
    }
}

/// The member of an object that is taken for a child: the one of exactly this name, else the first of those whose name
/// differs in case only (ED-108). Of several members by one name the last counts (ED-039).
struct Choice<'a> {
    is_exact: bool,
    name: Cow<'a, str>,
    json: &'a str,
}

type Children = HashMap<Box<str>, Vec<Child>>;

/// Reads an object for the children that are looked for in it.
fn members<'a>(object: &'a str, children: &Children) -> Vec<(NodeId, &'a str)> {
    let mut choices = HashMap::new();
    let reader = Members {
        children,
        choices: &mut choices,
    };
    // What was accepted is valid; of anything else there is what came before the fault.
    let _ = serde_json::Deserializer::from_str(object).deserialize_map(reader);
    let choices = choices.into_iter();
    choices.map(|(node, choice)| (node, choice.json)).collect()
}

struct Members<'c, 'a> {
    children: &'c Children,
    choices: &'c mut HashMap<NodeId, Choice<'a>>,
}

impl<'a> Visitor<'a> for Members<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key_seed(Name)? {
            let json = members.next_value::<&'a RawValue>()?.get();
            let Some(named) = self.children.get(&*fold(&name)) else {
                continue;
            };
            for child in named {
                let is_exact = *child.name == *name;
                let is_better = self
                    .choices
                    .get(&child.node)
                    .is_none_or(|choice| is_exact || (!choice.is_exact && choice.name == name));
                if is_better {
                    let choice = Choice {
                        is_exact,
                        name: name.clone(),
                        json,
                    };
                    self.choices.insert(child.node, choice);
                }
            }
        }
        Ok(())
    }
}

/// The name of a member.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Cow<'de, str>, D::Error> {
        from.deserialize_bytes(LossyText)
    }
}
