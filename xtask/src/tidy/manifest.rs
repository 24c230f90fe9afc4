//! Reads `Cargo.toml` just far enough for the rules: entries with their section and line.
//!
//! It knows the spellings that people use for dependencies, not all of TOML.

/// A `Cargo.toml`, read.
#[derive(Debug, Default)]
pub struct Manifest {
    entries: Vec<Entry>,
}

/// `key = value` in a section. A value over several lines is put on one.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    line: usize,
    section: String,
    key: String,
    value: String,
}

/// A crate that another one asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Where.
    pub line: usize,
    /// The crate's own name, even where it is used under another.
    pub name: String,
    /// Whether only tests, examples and benches see it.
    pub is_dev: bool,
}

impl Manifest {
    /// Reads the text of a `Cargo.toml`.
    pub fn read(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = String::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let line = without_comment(line);
            if let Some(header) = line.strip_prefix('[') {
                let name = header.trim_matches(|sign| matches!(sign, '[' | ']' | ' '));
                name.clone_into(&mut section);
            } else if let Some((key, value)) = line.split_once('=') {
                let mut value = value.trim().to_owned();
                while is_open(&value) {
                    let Some((_, more)) = lines.next() else { break };
                    value.push(' ');
                    value.push_str(without_comment(more));
                }
                let key = key.trim().replace('"', "");
                let section = section.clone();
                manifest.entries.push(Entry {
                    line: index + 1,
                    section,
                    key,
                    value,
                });
            }
        }
        manifest
    }

    /// Whether the section has this entry.
    pub fn has(&self, section: &str, key: &str, value: &str) -> bool {
        self.entries.iter().any(|entry| {
            (entry.section.as_str(), entry.key.as_str()) == (section, key) && entry.value == value
        })
    }

    /// The line of the section's header or first entry; 1 if there is none.
    pub fn line_of(&self, section: &str) -> usize {
        self.entries
            .iter()
            .find(|entry| entry.section == section)
            .map_or(1, |entry| entry.line)
    }

    /// All crates asked for, of every kind and for every target.
    pub fn dependencies(&self) -> Vec<Dependency> {
        let mut found: Vec<Dependency> = Vec::new();
        for entry in &self.entries {
            let Some((is_dev, own_section)) = dependency_section(&entry.section) else {
                continue;
            };
            let name = match own_section {
                // [dependencies.name] with an entry for each of its parts
                Some(name) => self.package_of(&entry.section).unwrap_or(name),
                None => package(&entry.value)
                    .unwrap_or_else(|| entry.key.split('.').next().unwrap_or(&entry.key)),
            };
            let dependency = Dependency {
                line: entry.line,
                name: name.to_owned(),
                is_dev,
            };
            let is_known = found
                .iter()
                .any(|known| known.name == dependency.name && known.is_dev == is_dev);
            if !is_known {
                found.push(dependency);
            }
        }
        found
    }

    fn package_of(&self, section: &str) -> Option<&str> {
        let entry = self
            .entries
            .iter()
            .find(|entry| entry.section == section && entry.key == "package")?;
        Some(entry.value.trim_matches('"'))
    }
}

/// Whether the section holds dependencies: for tests only or not, and the name if the section is of one crate.
fn dependency_section(section: &str) -> Option<(bool, Option<&str>)> {
    // `target.'cfg(unix)'.dependencies`: what stands in quotes may hold anything.
    let section = match section.strip_prefix("target.") {
        Some(rest) => match rest.rfind('\'') {
            Some(quote) => rest[quote + 1..].strip_prefix('.')?,
            None => rest.split_once('.')?.1,
        },
        None => section,
    };
    let (kind, name) = match section.split_once('.') {
        Some((kind, name)) => (kind, Some(name.trim_matches('"'))),
        None => (section, None),
    };
    match kind {
        "dependencies" | "build-dependencies" => Some((false, name)),
        "dev-dependencies" => Some((true, name)),
        _ => None,
    }
}

/// The value of `package` in an inline table.
fn package(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("package")?;
    rest.trim_start().strip_prefix('=')?.split('"').nth(1)
}

fn is_open(value: &str) -> bool {
    let count = |sign: char| value.matches(sign).count();
    count('[') > count(']') || count('{') > count('}')
}

/// The line up to a `#` that is not in quotes.
fn without_comment(line: &str) -> &str {
    let mut is_quoted = false;
    for (at, sign) in line.char_indices() {
        match sign {
            '"' => is_quoted = !is_quoted,
            '#' if !is_quoted => return line[..at].trim(),
            _ => {}
        }
    }
    line.trim()
}

#[cfg(test)]
mod tests {
    use super::Manifest;

    #[test]
    fn dependencies_are_found_in_every_spelling() {
        let manifest = Manifest::read(
            "[package]\nname = \"x\"\n[dependencies]\na.workspace = true # why\n\
             b = { version = \"1\", features = [\n  \"f\",\n] }\nc2 = { package = \"c\", version = \"1\" }\n\
             [dependencies.d]\nversion = \"1\"\nfeatures = []\n\
             [target.'cfg(target_os = \"linux\")'.dependencies]\ne = \"1\"\n\
             [dev-dependencies]\na.workspace = true\n[build-dependencies]\nf = \"1\"\n\
             [features]\ng = [\"dep:a\"]\n",
        );
        let found: Vec<(usize, String, bool)> = manifest
            .dependencies()
            .into_iter()
            .map(|found| (found.line, found.name, found.is_dev))
            .collect();
        let expected = [
            (4, "a", false),
            (5, "b", false),
            (8, "c", false),
            (10, "d", false),
            (13, "e", false),
            (15, "a", true),
            (17, "f", false),
        ];
        assert_eq!(
            found,
            expected.map(|(line, name, is_dev)| (line, name.to_owned(), is_dev))
        );
    }

    #[test]
    fn entries_are_found_by_section() {
        let manifest =
            Manifest::read("[package]\npublish.workspace = true\n[lints]\nworkspace = true\n");
        assert!(manifest.has("package", "publish.workspace", "true"));
        assert!(manifest.has("lints", "workspace", "true"));
        assert!(!manifest.has("package", "workspace", "true"));
        assert_eq!(
            (manifest.line_of("lints"), manifest.line_of("none")),
            (4, 1)
        );
    }
}
