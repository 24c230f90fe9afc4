//! The text of the repository, as the rules see it: paths with `/`, relative to the root, in order.
//!
//! What is built (`target`), what git keeps, and what is not text is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Failure;
use crate::tidy::source::{self, Line};

/// Folders that are no part of the source; what fuzzing found is bytes, whatever they look like.
const LEFT_OUT: [&str; 5] = [".git", "target", "node_modules", ".venv", "corpus"];
/// Endings of files that rules read; files without an ending are read too.
const READ: [&str; 12] = [
    "rs", "toml", "md", "json", "yml", "yaml", "sh", "py", "js", "mjs", "html", "service",
];
/// What is longer than this is data, not source.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Text files by path.
#[derive(Debug, Default)]
pub struct Tree {
    /// Where the checkout lies, without a `/` at the end. Only to find text that says so.
    pub root: String,
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository below `root`.
    pub fn load(root: &Path) -> Result<Self, Failure> {
        let mut tree = Self {
            root: root.to_string_lossy().into_owned(),
            files: BTreeMap::new(),
        };
        tree.load_folder(root, "")?;
        Ok(tree)
    }

    fn load_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), Failure> {
        let unreadable = |error| format!("cannot read {}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if kind.is_dir() && !LEFT_OUT.contains(&name.as_str()) {
                self.load_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() && is_read(&name) {
                let is_source = entry
                    .metadata()
                    .is_ok_and(|file| file.len() <= FILE_BYTES_MAX);
                if let (true, Ok(text)) = (is_source, fs::read_to_string(entry.path())) {
                    self.files.insert(path, text);
                }
            }
        }
        Ok(())
    }

    /// A tree of these files, for tests.
    #[cfg(test)]
    pub fn from_texts(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self {
            root: "/srv/checkouts/hedgerow".to_owned(),
            files: files.collect(),
        }
    }

    /// Adds or replaces a file.
    pub fn insert(&mut self, path: &str, text: String) {
        self.files.insert(path.to_owned(), text);
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether there is such a file, or a file below such a folder.
    pub fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = RustFile<'_>> {
        self.files()
            .filter(|(path, _)| has_ending(path, "rs"))
            .map(|(path, text)| RustFile {
                path,
                lines: source::lines(text),
            })
    }
}

/// Whether the path ends with a dot and `ending`.
pub fn has_ending(path: &str, ending: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, own)| own == ending)
}

fn is_read(name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((_, ending)) => READ.contains(&ending),
        None => true,
    }
}

/// A Rust file, read.
#[derive(Debug)]
pub struct RustFile<'a> {
    /// Where it lies.
    pub path: &'a str,
    /// Its lines.
    pub lines: Vec<Line>,
}

impl RustFile<'_> {
    /// The crate that it belongs to: the folder below `crates/`, or the first folder.
    pub fn crate_name(&self) -> &str {
        let path = self.path.strip_prefix("crates/").unwrap_or(self.path);
        path.split('/').next().unwrap_or(path)
    }

    /// Whether all of it is test code.
    pub fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }

    /// The lines that are built into the product.
    pub fn product_lines(&self) -> impl Iterator<Item = &Line> {
        let is_test = self.is_test();
        self.lines
            .iter()
            .filter(move |line| !is_test && !line.is_test)
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn a_tree_knows_its_files_and_folders() {
        let tree = Tree::from_texts(&[("docs/guide/a.md", ""), ("docs-old.md", "")]);
        assert!(tree.holds("docs/guide/a.md") && tree.holds("docs/guide") && tree.holds("docs"));
        assert!(!tree.holds("docs/gui") && !tree.holds("doc"));
    }

    #[test]
    fn a_file_knows_its_crate_and_whether_it_is_a_test() {
        let tree = Tree::from_texts(&[
            (
                "crates/hedgerow-io/src/clock.rs",
                "//! Clock.\nfn a() {}\n#[cfg(test)]\nmod tests {}\n",
            ),
            ("crates/hedgerow-io/tests/it/main.rs", "fn b() {}"),
            ("xtask/src/main.rs", ""),
        ]);
        let seen: Vec<(String, usize)> = tree
            .rust()
            .map(|file| (file.crate_name().to_owned(), file.product_lines().count()))
            .collect();
        let io = "hedgerow-io".to_owned();
        assert_eq!(seen, [(io.clone(), 2), (io, 0), ("xtask".to_owned(), 0)]);
    }
}
