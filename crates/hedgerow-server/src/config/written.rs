//! The raw stage: what was written, each key with its value and its place. Knows no setting.

use std::ffi::OsString;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::{Place, Problem};
use super::{ENVIRONMENT_PREFIX, settings};

/// One key as it was written.
#[derive(Debug, Clone)]
pub struct Written {
    /// With its sections: `store.bytes_max`.
    pub key: String,
    /// What it was set to.
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

/// A value as it was written.
#[derive(Debug, Clone)]
pub enum Value {
    /// A text of the file.
    Text(String),
    /// A whole number of the file, in decimal digits.
    Integer(String),
    /// `true` or `false` of the file.
    Boolean(bool),
    /// A list of the file.
    List(Vec<Value>),
    /// A value of the environment: what it is depends on the setting.
    Environment(String),
    /// Something that no setting has.
    Other,
}

/// Reads a TOML file.
pub fn from_file(path: &Path, text: &str, written: &mut Vec<Written>, problems: &mut Vec<Problem>) {
    match DeTable::parse(text) {
        Ok(table) => flatten(path, text, "", table.get_ref(), written),
        Err(error) => {
            let line = error.span().map(|span| line_of(text, span.start));
            problems.push(Problem::file(path, line, error.message().to_owned()));
        }
    }
}

fn flatten(
    path: &Path,
    text: &str,
    section: &str,
    table: &DeTable<'_>,
    written: &mut Vec<Written>,
) {
    let first = written.len();
    for (name, value) in table {
        let key = if section.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{section}.{}", name.get_ref())
        };
        if let DeValue::Table(table) = value.get_ref()
            && !table.is_empty()
        {
            flatten(path, text, &key, table, written);
            continue;
        }
        let line = Some(line_of(text, name.span().start));
        let place = Place::File {
            path: path.to_owned(),
            line,
        };
        written.push(Written {
            key,
            value: Value::from_toml(value.get_ref()),
            place,
        });
    }
    // Problems are told in the order of the file.
    written[first..].sort_by_key(|written| match written.place {
        Place::File { line, .. } => line,
        Place::Environment(_) => None,
    });
}

/// Variables with the prefix that are no settings: the command line's, the tests' and the proofs'.
const NO_SETTINGS: [&str; 7] = [
    "ca_file",
    "failpoint",
    "log",
    "server",
    "slow",
    "token",
    "topic_key",
];

/// Takes the variables that begin with the prefix. One without `__` that neither names a setting nor nearly does is somebody
/// else's, such as those that Kubernetes sets for a service called hedgerow.
pub fn from_environment(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    written: &mut Vec<Written>,
) {
    let mut taken: Vec<Written> = environment
        .into_iter()
        .filter_map(|(name, value)| {
            let name = name.to_str()?;
            let rest = name.strip_prefix(ENVIRONMENT_PREFIX)?;
            let key = rest.to_ascii_lowercase().replace("__", ".");
            let is_ours = key.contains('.')
                || settings::is_known(&key)
                || !NO_SETTINGS.contains(&key.as_str()) && settings::is_mistyped(&key);
            is_ours.then(|| Written {
                key,
                value: Value::Environment(value.to_string_lossy().into_owned()),
                place: Place::Environment(name.to_owned()),
            })
        })
        .collect();
    taken.sort_by(|a, b| a.key.cmp(&b.key));
    written.extend(taken);
}

impl Value {
    fn from_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => {
                Self::Integer(number.as_str().to_owned())
            }
            DeValue::Boolean(value) => Self::Boolean(*value),
            DeValue::Array(list) => Self::List(
                list.iter()
                    .map(|entry| Self::from_toml(entry.get_ref()))
                    .collect(),
            ),
            _ => Self::Other,
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.split(|byte| *byte == b'\n').count()
}
