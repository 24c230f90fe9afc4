//! The key of an advanced filter: which value of an event it looks at (ED-103 to ED-108).

use super::fold;

/// A key, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// An attribute of the envelope, by its folded name.
    Attribute(String),
    /// The value of `data`, or the one at this path inside it.
    Data(Vec<String>),
    /// A path into an attribute, which has no members: always absent (ED-109).
    Nothing {
        /// Parts of it.
        levels: usize,
    },
}

impl Key {
    /// Takes a key apart. A dot separates two levels, unless a backslash stands before it (ED-106, ED-107).
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut levels = Self::levels_of(text);
        let first = fold(&levels[0]).into_owned();
        match levels.len() {
            _ if first == "data" => Self::Data(levels.split_off(1)),
            1 => Self::Attribute(first),
            levels => Self::Nothing { levels },
        }
    }

    /// The names that a key consists of, as they are written; at least one.
    #[must_use]
    pub fn levels_of(text: &str) -> Vec<String> {
        let mut levels = vec![String::new()];
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let is_escape = c == '\\' && rest.peek() == Some(&'.');
            match (c, levels.last_mut()) {
                ('.', _) => levels.push(String::new()),
                (c, Some(level)) => {
                    level.push(if is_escape { '.' } else { c });
                    if is_escape {
                        rest.next();
                    }
                }
                (_, None) => {}
            }
        }
        levels
    }

    /// How many levels it names.
    #[must_use]
    pub fn levels(&self) -> usize {
        match self {
            Self::Attribute(_) => 1,
            Self::Data(path) => 1 + path.len(),
            Self::Nothing { levels } => *levels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-103 to ED-108.
    #[test]
    fn keys_are_taken_apart() {
        let data =
            |path: &[&str]| Key::Data(path.iter().map(|level| (*level).to_owned()).collect());
        let rows = [
            ("SUBJECT", Key::Attribute("subject".into())),
            ("data", data(&[])),
            ("Data.Key1", data(&["Key1"])),
            (r"data.a\.b.c", data(&["a.b", "c"])),
            (r"data.a\b\\.c", data(&[r"a\b\.c"])),
            (r"data.a\", data(&[r"a\"])),
            ("data..a.", data(&["", "a", ""])),
            ("data.a[0].*", data(&["a[0]", "*"])),
            ("subject.x.y", Key::Nothing { levels: 3 }),
            ("database", Key::Attribute("database".into())),
            (r"data\.a", Key::Attribute("data.a".into())),
        ];
        for (text, key) in rows {
            assert_eq!(Key::parse(text), key, "{text}");
        }
    }
}
