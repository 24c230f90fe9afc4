//! Which test checks which requirement of the specifications, as the page `docs/reference/requirements.md` lists it.
//!
//! A test names the requirements that it checks by their numbers, in its documentation, its body, its name's table of cases, or
//! for all tests of a file in the file's first lines:
//!
//! ```text
//! /// ED-190: found in flight by three starts, a delivery is given up.      `ED-305 to ED-310` names all six.
//! #[test]
//! fn a_delivery_that_crashes_the_server_is_given_up() { … }
//! ```
//!
//! A case of a table names them in its `refs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::tidy::source;
use crate::tidy::tree::{Tree, has_ending};

mod delivery;
mod probes;

/// So many tests of a requirement are named; more are counted.
const NAMED_MAX: usize = 6;

/// A specification whose requirements are numbered.
#[derive(Debug)]
struct Specification {
    /// What stands before a number.
    prefix: &'static str,
    /// No requirement has a higher number.
    number_max: u16,
    /// The sections, and the numbers in each.
    sections: &'static [(&'static str, &'static [RangeInclusive<u16>])],
    /// Why a requirement has no test here. What is said of one that has a test is not shown.
    without: &'static [(RangeInclusive<u16>, &'static str)],
}

/// Each has a part `requirements NAME` on the page.
const SPECIFICATIONS: [(&str, &Specification); 2] = [
    ("delivery", &delivery::DELIVERY),
    ("probes", &probes::PROBES),
];

/// What checks a requirement.
#[derive(Debug, Default)]
struct Checks {
    /// `path of the file`, `name of the test`; no name stands for all of the file.
    tests: BTreeSet<(String, String)>,
    /// Cases of tables, by the table's folder.
    cases: BTreeMap<String, usize>,
}

/// The part of the page for the specification of this name.
pub fn tables(tree: &Tree, name: &str) -> Option<String> {
    let (_, specification) = SPECIFICATIONS.iter().find(|(known, _)| *known == name)?;
    Some(specification.tables(tree))
}

impl Specification {
    fn tables(&self, tree: &Tree) -> String {
        let checks = self.checks(tree);
        let mut text = String::new();
        let checked = self
            .numbers()
            .filter(|number| checks.contains_key(number))
            .count();
        let line = format!(
            "{checked} of {} requirements have a test that names them.\n",
            self.numbers().count()
        );
        text.push_str(&line);
        for (section, ranges) in self.sections {
            write!(
                text,
                "\n### {section}\n\n| requirement | checked by |\n| --- | --- |\n"
            )
            .expect(IN_MEMORY);
            for number in ranges.iter().cloned().flatten() {
                let said = checks
                    .get(&number)
                    .map_or_else(|| self.reason(number), said_of);
                writeln!(text, "| {}{number:03} | {said} |", self.prefix).expect(IN_MEMORY);
            }
        }
        text
    }

    fn numbers(&self) -> impl Iterator<Item = u16> {
        self.sections
            .iter()
            .flat_map(|(_, ranges)| ranges.iter().cloned().flatten())
    }

    fn reason(&self, number: u16) -> String {
        let reason = self
            .without
            .iter()
            .find(|(range, _)| range.contains(&number));
        reason.map_or_else(
            || "**no test names it**".to_owned(),
            |(_, why)| format!("none: {why}"),
        )
    }

    fn checks(&self, tree: &Tree) -> BTreeMap<u16, Checks> {
        let mut checks: BTreeMap<u16, Checks> = BTreeMap::new();
        for (path, text) in tree.files() {
            if has_ending(path, "rs") && !path.starts_with("xtask/") {
                for (number, name) in self.named_in_rust(path, text) {
                    checks
                        .entry(number)
                        .or_default()
                        .tests
                        .insert((path.to_owned(), name));
                }
            } else if has_ending(path, "py") {
                for (number, name) in self.named_in_python(text) {
                    checks
                        .entry(number)
                        .or_default()
                        .tests
                        .insert((path.to_owned(), name));
                }
            } else if let Some(kind) = path
                .strip_prefix("cases/")
                .and_then(|rest| rest.split_once('/'))
            {
                for line in text.lines().filter(|line| line.contains("\"refs\"")) {
                    let refs = line
                        .split_once("\"refs\"")
                        .and_then(|(_, rest)| rest.split_once(']'));
                    for number in self.numbers_in(refs.map_or("", |(refs, _)| refs)) {
                        *checks
                            .entry(number)
                            .or_default()
                            .cases
                            .entry(kind.0.to_owned())
                            .or_default() += 1;
                    }
                }
            }
        }
        checks
    }

    /// The numbers in tests, each with the test's name, or with none where all tests of the file are meant.
    fn named_in_rust(&self, path: &str, text: &str) -> Vec<(u16, String)> {
        let is_test_file = path.contains("/tests/") || path.ends_with("/tests.rs");
        let lines = source::lines(text);
        let mut found = Vec::new();
        // Of the documentation before an item, and whether the item is a test.
        let mut before: Vec<u16> = Vec::new();
        let mut is_test = false;
        let mut name = String::new();
        for line in lines.iter().filter(|line| is_test_file || line.is_test) {
            let code = line.code.trim();
            let numbers = self.numbers_in(&line.raw);
            if line.raw.starts_with("//!") {
                found.extend(numbers.into_iter().map(|number| (number, String::new())));
            } else if code.is_empty() && line.raw.trim_start().starts_with("///") {
                before.extend(numbers);
            } else if code.starts_with("#[") {
                is_test |= code.contains("test]") || code.contains("test(");
                before.extend(numbers);
            } else if let Some(function) = function_name(code) {
                function.clone_into(&mut name);
                if !std::mem::take(&mut is_test) {
                    // What a helper says of a requirement is said for the file's tests.
                    name.clear();
                }
                let all = before.drain(..).chain(numbers);
                found.extend(all.map(|number| (number, name.clone())));
            } else {
                found.extend(
                    before
                        .drain(..)
                        .chain(numbers)
                        .map(|number| (number, name.clone())),
                );
            }
        }
        found
    }

    fn named_in_python(&self, text: &str) -> Vec<(u16, String)> {
        let mut name = String::new();
        let mut found = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.trim_start().strip_prefix("def test_") {
                name = format!("test_{}", rest.split('(').next().unwrap_or_default());
            }
            found.extend(
                self.numbers_in(line)
                    .into_iter()
                    .map(|number| (number, name.clone())),
            );
        }
        found
    }

    /// The numbers of requirements in a text; `ED-001 to ED-003` has three.
    fn numbers_in(&self, text: &str) -> Vec<u16> {
        let mut numbers = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(self.prefix) {
            let behind = &rest[at + self.prefix.len()..];
            let digits = behind.len()
                - behind
                    .trim_start_matches(|c: char| c.is_ascii_digit())
                    .len();
            let number = behind[..digits]
                .parse()
                .ok()
                .filter(|number| (1..=self.number_max).contains(number));
            if let Some(number) = number {
                let first = numbers
                    .last()
                    .copied()
                    .filter(|first| *first < number && rest[..at].trim() == "to");
                numbers.extend(first.map_or(number, |first| first + 1)..=number);
            }
            rest = &behind[digits..];
        }
        numbers
    }
}

const IN_MEMORY: &str = "writing to a String cannot fail";

fn said_of(checks: &Checks) -> String {
    let tables = checks.cases.iter().map(|(kind, count)| match count {
        1 => format!("1 case of `{kind}`"),
        _ => format!("{count} cases of `{kind}`"),
    });
    let tests = checks.tests.iter().take(NAMED_MAX).map(|(path, name)| {
        let place = place_of(path);
        if name.is_empty() {
            format!("`{place}`")
        } else {
            format!("`{place}::{name}`")
        }
    });
    let mut said: Vec<String> = tables.chain(tests).collect();
    if let Some(more) = checks
        .tests
        .len()
        .checked_sub(NAMED_MAX)
        .filter(|more| *more > 0)
    {
        said.push(format!("{more} more"));
    }
    said.join(", ")
}

/// `crates/hedgerow-core/tests/it/retry.rs` as `core/retry`.
fn place_of(path: &str) -> String {
    let short = path
        .trim_start_matches("crates/")
        .trim_start_matches("hedgerow-")
        .trim_end_matches(".rs");
    short
        .replace("/tests/it/", "/")
        .replace("/src/", "/")
        .trim_end_matches("/tests")
        .to_owned()
}

fn function_name(code: &str) -> Option<&str> {
    let rest = code.strip_prefix("pub ").unwrap_or(code);
    let rest = rest
        .strip_prefix("async ")
        .unwrap_or(rest)
        .strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::delivery::DELIVERY;
    use super::probes::PROBES;
    use super::tables;
    use crate::tidy::tree::Tree;

    #[test]
    fn each_number_stands_in_one_section() {
        let mut numbers: Vec<u16> = DELIVERY.numbers().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=DELIVERY.number_max).collect::<Vec<_>>());
        // Its numbers leave room behind each section.
        let numbers: Vec<u16> = PROBES.numbers().collect();
        assert!(numbers.is_sorted_by(|a, b| a < b));
        assert_eq!(numbers.last(), Some(&PROBES.number_max));
    }

    #[test]
    fn numbers_and_ranges_are_read() {
        assert_eq!(
            DELIVERY.numbers_in("(ED-004, ED-010 to ED-012): x"),
            [4, 10, 11, 12]
        );
        assert_eq!(
            DELIVERY.numbers_in("ED-9999, ED-, ED-000 and ED-326"),
            [] as [u16; 0]
        );
        assert_eq!(
            PROBES.numbers_in("HP-001, ED-002, HP-060 to HP-062"),
            [1, 60, 61, 62]
        );
    }

    #[test]
    fn numbers_belong_to_the_test_that_they_stand_at() {
        let text = "//! All (ED-001).\n\n/// ED-002.\n#[test]\nfn a() {\n    // ED-003\n}\n\n/// ED-004.\nfn helper() {}\n";
        let of = |number, name: &str| (number, name.to_owned());
        let expected = [of(1, ""), of(2, "a"), of(3, "a"), of(4, "")];
        assert_eq!(
            DELIVERY.named_in_rust("crates/hedgerow-core/tests/it/x.rs", text),
            expected
        );
        // Outside tests a number says what is built, not that it is checked.
        assert_eq!(
            DELIVERY.named_in_rust("crates/hedgerow-core/src/x.rs", text),
            []
        );
        assert_eq!(
            DELIVERY.named_in_python("def test_b(server):\n    # ED-005\n"),
            [of(5, "test_b")]
        );
    }

    #[test]
    fn the_page_names_tests_and_counts_cases() {
        let tree = Tree::from_texts(&[
            (
                "crates/hedgerow-core/tests/it/x.rs",
                "/// ED-001.\n#[test]\nfn a() {}\n",
            ),
            (
                "cases/filter/a.json",
                "{\"refs\": [\"ED-001\"], \"title\": \"not ED-003\"}\n",
            ),
        ]);
        let page = tables(&tree, "delivery").expect("there is one");
        assert!(page.starts_with("1 of 325 requirements"), "{page}");
        assert!(
            page.contains("| ED-001 | 1 case of `filter`, `core/x::a` |\n"),
            "{page}"
        );
        assert!(
            page.contains("| ED-003 | **no test names it** |\n"),
            "{page}"
        );
        assert!(page.contains("| ED-266 | none: "), "{page}");
        let page = tables(&tree, "probes").expect("there is one");
        assert!(page.contains("| HP-209 | "), "{page}");
        assert_eq!(tables(&tree, "gossip"), None);
    }
}
