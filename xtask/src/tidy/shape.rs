//! The shape of a file: it begins with what it is for, and it has one subject, which shows in its length.

use crate::tidy::Findings;
use crate::tidy::tree::Tree;

/// Above this many lines, tests aside, a file probably has a second subject.
const LINES_WARNED: usize = 600;
/// Above this it certainly has.
const LINES_MAX: usize = 800;

/// The rule `module-docs`.
pub fn check_module_docs(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        let first = file.lines.iter().find(|line| {
            let raw = line.raw.trim();
            !raw.is_empty() && !raw.starts_with("#!")
        });
        let has_docs = first.is_some_and(|line| {
            let text = line.raw.trim().strip_prefix("//!");
            text.is_some_and(|text| !text.trim().is_empty())
        });
        if !has_docs {
            let line = first.map_or(1, |line| line.number);
            findings.error(
                file.path,
                line,
                "begin the file with `//!`: what it decides or does, what it does not",
            );
        }
    }
}

/// The rule `file-length`. Files of tests are only warned about.
pub fn check_length(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        let is_test = file.is_test();
        let count = if is_test {
            file.lines.len()
        } else {
            file.product_lines().count()
        };
        let message =
            format!("{count} lines; look for the second subject in it and give that a file");
        if count > LINES_MAX && !is_test {
            findings.error(file.path, 1, format!("{message} ({LINES_MAX} at most)"));
        } else if count > if is_test { LINES_MAX } else { LINES_WARNED } {
            findings.warning(file.path, 1, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check_length, check_module_docs};
    use crate::tidy::tests::found;
    use crate::tidy::tree::Tree;
    use crate::tidy::{Findings, Severity};

    #[test]
    fn files_begin_with_what_they_are_for() {
        for good in ["//! A.\n", "\n#![cfg(unix)]\n//! A.\n"] {
            assert!(
                found(check_module_docs, &[("a.rs", good)]).is_empty(),
                "{good}"
            );
        }
        for bad in ["", "//!\n", "// A.\n", "fn a() {}\n//! A.\n"] {
            assert_eq!(
                found(check_module_docs, &[("a.rs", bad)]),
                ["a.rs:1"],
                "{bad}"
            );
        }
    }

    fn severity(path: &str, text: &str) -> Option<Severity> {
        let mut findings = Findings {
            rule: "file-length",
            list: Vec::new(),
        };
        check_length(&Tree::from_texts(&[(path, text)]), &mut findings);
        findings.list.first().map(|finding| finding.severity)
    }

    #[test]
    fn long_files_are_warned_about_and_longer_ones_refused() {
        let path = "crates/hedgerow-core/src/a.rs";
        let line = "fn a() {}\n";
        assert_eq!(severity(path, &line.repeat(600)), None);
        assert_eq!(severity(path, &line.repeat(601)), Some(Severity::Warning));
        assert_eq!(severity(path, &line.repeat(800)), Some(Severity::Warning));
        assert_eq!(severity(path, &line.repeat(801)), Some(Severity::Error));
        let with_tests = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            line.repeat(500),
            line.repeat(500)
        );
        assert_eq!(severity(path, &with_tests), None);
        let test = "crates/hedgerow-core/tests/it/a.rs";
        assert_eq!(severity(test, &line.repeat(801)), Some(Severity::Warning));
    }
}
