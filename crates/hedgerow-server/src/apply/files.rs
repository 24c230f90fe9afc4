//! Declarations as people write them: TOML with the members of the API, in one file or several. A text may stand elsewhere:
//! `{ env = "NAME" }` is the value of an environment variable, `{ file = "PATH" }` the content of a file, which lies beside the
//! one that names it unless its path is absolute.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Fault;

/// Bytes of a file that a text stands in.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// The sections that declarations have, each a list.
pub const SECTIONS: [&str; 5] = [
    "topics",
    "domains",
    "eventSubscriptions",
    "originGroups",
    "routes",
];

/// Several files, read as one.
#[derive(Debug, Default)]
pub struct GridFiles {
    /// The lists that there are, by section.
    lists: BTreeMap<&'static str, Vec<Value>>,
    /// Sections that are none: whoever judges the declarations refuses them, beside every other fault.
    others: Map<String, Value>,
    /// Where each member stands, by its path.
    places: HashMap<String, (PathBuf, usize)>,
    problems: Vec<String>,
}

impl GridFiles {
    /// Reads files in their order.
    ///
    /// # Errors
    /// One line for each fault, with file, line and member. That the members are right is not judged here.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Vec<String>> {
        let mut files = Self::default();
        for path in paths {
            match std::fs::read_to_string(path) {
                Ok(text) => files.add(path, &text),
                Err(error) => {
                    let problem = format!("{}: cannot read it: {error}", path.display());
                    files.problems.push(problem);
                }
            }
        }
        if files.problems.is_empty() {
            Ok(files)
        } else {
            Err(files.problems)
        }
    }

    /// The declarations, for [`super::apply`] and its route.
    #[must_use]
    pub fn declarations(&self) -> Value {
        let mut declarations = json!({ "topics": [], "eventSubscriptions": [] });
        for (section, list) in &self.lists {
            declarations[section] = json!(list);
        }
        for (name, value) in &self.others {
            declarations[name] = value.clone();
        }
        declarations
    }

    /// A fault in a line, with file, line and member.
    #[must_use]
    pub fn locate(&self, fault: &Fault) -> String {
        let mut path = fault.path.as_str();
        loop {
            if let Some((file, line)) = self.places.get(path) {
                return format!(
                    "{}:{line}: {}: {}",
                    file.display(),
                    fault.path,
                    fault.message
                );
            }
            // What is missing stands where it should be.
            let Some(end) = path.rfind(['.', '[']) else {
                return format!("{}: {}", fault.path, fault.message);
            };
            path = &path[..end];
        }
    }

    fn add(&mut self, path: &Path, text: &str) {
        let line_of = |offset: usize| {
            let before = &text.as_bytes()[..offset.min(text.len())];
            before.split(|byte| *byte == b'\n').count()
        };
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(span.start));
                let problem = format!("{}:{line}: {}", path.display(), error.message());
                return self.problems.push(problem);
            }
        };
        for (name, value) in table.get_ref() {
            let line = line_of(name.span().start);
            let section = SECTIONS
                .into_iter()
                .find(|section| *section == name.get_ref());
            let Some(section) = section else {
                let other = name.get_ref().to_string();
                let place = self.places.entry(other.clone());
                place.or_insert_with(|| (path.to_owned(), line));
                self.others.insert(other, json!([]));
                continue;
            };
            let list = self.lists.get(section).map_or(0, Vec::len);
            let mut reader = Reader {
                path,
                line_of: &line_of,
                places: &mut self.places,
                problems: &mut self.problems,
            };
            let Some(items) = value.get_ref().as_array() else {
                let message = format!("must be a list; write [[{section}]]");
                reader.problem(line, section, &message);
                continue;
            };
            let mut read = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let of_item = format!("{}[{}]", name.get_ref(), list + index);
                read.push(reader.value(item, &of_item, line_of(item.span().start)));
            }
            let list = self.lists.entry(section).or_default();
            list.extend(read);
        }
    }
}

/// Reads the values of one file.
struct Reader<'a> {
    path: &'a Path,
    line_of: &'a dyn Fn(usize) -> usize,
    places: &'a mut HashMap<String, (PathBuf, usize)>,
    problems: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn problem(&mut self, line: usize, member: &str, message: &str) {
        let problem = format!("{}:{line}: {member}: {message}", self.path.display());
        self.problems.push(problem);
    }

    /// A value as JSON; `null` beside a problem.
    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &str, line: usize) -> Value {
        self.places
            .insert(path.to_owned(), (self.path.to_owned(), line));
        match value.get_ref() {
            DeValue::String(text) => json!(text),
            DeValue::Boolean(value) => json!(value),
            // The same moment as a text, as the API has it.
            DeValue::Datetime(time) => json!(time.to_string()),
            DeValue::Integer(number) => {
                let digits = number.as_str().replace('_', "");
                let read = i64::from_str_radix(&digits, number.radix());
                self.number(read.ok().map(Value::from), path, line)
            }
            DeValue::Float(number) => {
                let read = number.as_str().replace('_', "").parse::<f64>().ok();
                let read = read.and_then(serde_json::Number::from_f64);
                self.number(read.map(Value::from), path, line)
            }
            DeValue::Array(items) => {
                let items = items.iter().enumerate();
                let read = items.map(|(index, item)| {
                    let line = (self.line_of)(item.span().start);
                    self.value(item, &format!("{path}[{index}]"), line)
                });
                Value::Array(read.collect())
            }
            DeValue::Table(table) => self.table(table, path, line),
        }
    }

    fn number(&mut self, read: Option<Value>, path: &str, line: usize) -> Value {
        read.unwrap_or_else(|| {
            self.problem(line, path, "is no number that JSON has");
            Value::Null
        })
    }

    fn table(&mut self, table: &DeTable<'_>, path: &str, line: usize) -> Value {
        let mut members = table.iter();
        if let (Some((name, value)), None) = (members.next(), members.next())
            && let Some(place) = value.get_ref().as_str()
            && matches!(name.get_ref().as_ref(), "env" | "file")
        {
            let text = match name.get_ref().as_ref() {
                "env" => std::env::var(place).map_err(|_| {
                    format!("the environment variable {place} is not set, or is no text")
                }),
                _ => self.text_of(place),
            };
            return match text {
                Ok(text) => Value::from(text),
                Err(message) => {
                    self.problem(line, path, &message);
                    Value::Null
                }
            };
        }
        let names = |name: &str| table.iter().any(|(member, _)| member.get_ref() == name);
        if names("env") && names("file") {
            self.problem(line, path, "give env or file, and not both");
            return Value::Null;
        }
        let mut object = Map::new();
        for (name, value) in table {
            let line = (self.line_of)(name.span().start);
            let name = name.get_ref().to_string();
            let value = self.value(value, &format!("{path}.{name}"), line);
            object.insert(name, value);
        }
        Value::Object(object)
    }

    /// The content of a file, without the end of its last line.
    fn text_of(&self, place: &str) -> Result<String, String> {
        let beside = self.path.parent().unwrap_or_else(|| Path::new("."));
        let path = beside.join(place);
        let read = || {
            if std::fs::metadata(&path)?.len() > TEXT_BYTES_MAX {
                return Err(std::io::Error::other("it is larger than 64 KiB"));
            }
            std::fs::read_to_string(&path)
        };
        let text = read().map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

#[cfg(test)]
mod tests;
