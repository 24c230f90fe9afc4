//! Which test checks which requirement of the delivery specification, as the page `docs/reference/requirements.md` lists
//! it.
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

const PREFIX: &str = "ED-";
/// No requirement has a higher number.
const NUMBER_MAX: u16 = 325;
/// So many tests of a requirement are named; more are counted.
const NAMED_MAX: usize = 6;

/// The sections of the specification, and the numbers in each.
const SECTIONS: [(&str, &[RangeInclusive<u16>]); 44] = [
    ("0.3 Ground rules", &[1..=4, 317..=317]),
    ("0.4 Settings in commands and pages", &[322..=323]),
    ("1.1 Publish request", &[5..=11]),
    ("1.2 Authentication by key", &[12..=15]),
    ("1.3 Authentication by shared access signature", &[16..=25]),
    ("1.4 Bearer tokens and the order of checks", &[26..=29]),
    ("1.5 Input schemas", &[30..=39]),
    ("1.6 Fields of the Event Grid schema", &[40..=43]),
    ("1.7 Fields of CloudEvents", &[44..=47]),
    ("1.8 Custom input schemas", &[48..=56]),
    ("1.9 Sizes, rates and quotas", &[57..=63]),
    ("1.10 Responses", &[64..=67]),
    ("1.11 Domains", &[68..=78]),
    ("1.12 Namespace topics", &[79..=82]),
    ("2.1 Filters: structure", &[83..=85]),
    ("2.2 Event type and subject", &[86..=90]),
    ("2.3 Advanced operators", &[91..=99]),
    ("2.4 Types", &[100..=102]),
    ("2.5 Keys", &[103..=110]),
    ("2.6 Arrays", &[111..=115]),
    ("2.7 Limits", &[116..=119]),
    ("3.1 Webhook request", &[120..=129]),
    ("3.2 Delivery schemas and content types", &[130..=137]),
    ("3.3 Headers on every delivery", &[138..=142]),
    ("3.4 Custom delivery properties", &[143..=151]),
    ("3.5 Validation, Event Grid and custom schema", &[152..=163]),
    ("3.6 Validation, CloudEvents", &[164..=170]),
    ("3.7 Deletion notice", &[171..=173]),
    ("4 Acknowledgement", &[174..=190]),
    ("5 Retry", &[191..=210, 314..=315]),
    ("6 Output batching", &[211..=223, 321..=321]),
    ("7.1 Probation", &[224..=233, 324..=325]),
    ("7.2 Delayed delivery", &[234..=241]),
    ("8.1 When events are dead-lettered", &[242..=248, 319..=319]),
    ("8.2 Blob layout", &[249..=253]),
    ("8.3 Record formats", &[254..=261, 320..=320]),
    ("8.4 Reasons", &[262..=262]),
    ("8.5 Notification and replay", &[263..=265, 318..=318]),
    ("9.1 Destinations", &[266..=273, 316..=316]),
    ("9.3 Service Bus, Event Hubs, queues, Relay", &[274..=291]),
    ("9.7 Functions and webhook authentication", &[292..=296]),
    ("10.1 Metrics", &[297..=304]),
    ("10.2 Logs", &[305..=311]),
    ("11 What users complain about", &[312..=313]),
];

/// Why a requirement has no test here.
const WITHOUT: [(RangeInclusive<u16>, &str); 14] = [
    (
        2..=2,
        "a rule for tests, which assume no order but where one is asked for",
    ),
    (
        4..=4,
        "a rule for all sections; each default is checked where its rule is",
    ),
    (79..=82, "namespace topics are not built"),
    (
        129..=129,
        "deliveries speak HTTP/1.1; HTTP/2 is allowed, and not built",
    ),
    (140..=140, "namespace topics are not built"),
    (162..=162, "other destinations than webhooks are not built"),
    (170..=170, "namespace topics are not built"),
    (
        183..=183,
        "says why the table is as it is; its rows are checked as ED-182",
    ),
    (210..=210, "namespace topics are not built"),
    (253..=253, "namespace topics are not built"),
    (261..=261, "namespace topics are not built"),
    (266..=296, "other destinations than webhooks are not built"),
    (316..=316, "other destinations than webhooks are not built"),
    (323..=323, "the dashboard is not built"),
];

/// What checks a requirement.
#[derive(Debug, Default)]
struct Checks {
    /// `path of the file`, `name of the test`; no name stands for all of the file.
    tests: BTreeSet<(String, String)>,
    /// Cases of tables, by the table's folder.
    cases: BTreeMap<String, usize>,
}

/// The page's generated part.
pub fn tables(tree: &Tree) -> String {
    let checks = checks(tree);
    let mut text = String::new();
    let numbers = || {
        SECTIONS
            .iter()
            .flat_map(|(_, ranges)| ranges.iter().cloned().flatten())
    };
    let checked = numbers()
        .filter(|number| checks.contains_key(number))
        .count();
    let line = format!(
        "{checked} of {} requirements have a test that names them.\n",
        numbers().count()
    );
    text.push_str(&line);
    for (section, ranges) in &SECTIONS {
        write!(
            text,
            "\n## {section}\n\n| requirement | checked by |\n| --- | --- |\n"
        )
        .expect(IN_MEMORY);
        for number in ranges.iter().cloned().flatten() {
            let said = checks.get(&number).map_or_else(|| reason(number), said_of);
            writeln!(text, "| {PREFIX}{number:03} | {said} |").expect(IN_MEMORY);
        }
    }
    text
}

const IN_MEMORY: &str = "writing to a String cannot fail";

fn reason(number: u16) -> String {
    let reason = WITHOUT.iter().find(|(range, _)| range.contains(&number));
    reason.map_or_else(
        || "**no test names it**".to_owned(),
        |(_, why)| format!("none: {why}"),
    )
}

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

fn checks(tree: &Tree) -> BTreeMap<u16, Checks> {
    let mut checks: BTreeMap<u16, Checks> = BTreeMap::new();
    for (path, text) in tree.files() {
        if has_ending(path, "rs") && !path.starts_with("xtask/") {
            for (number, name) in named_in_rust(path, text) {
                checks
                    .entry(number)
                    .or_default()
                    .tests
                    .insert((path.to_owned(), name));
            }
        } else if has_ending(path, "py") {
            for (number, name) in named_in_python(text) {
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
                for number in numbers_in(refs.map_or("", |(refs, _)| refs)) {
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
fn named_in_rust(path: &str, text: &str) -> Vec<(u16, String)> {
    let is_test_file = path.contains("/tests/") || path.ends_with("/tests.rs");
    let lines = source::lines(text);
    let mut found = Vec::new();
    // Of the documentation before an item, and whether the item is a test.
    let mut before: Vec<u16> = Vec::new();
    let mut is_test = false;
    let mut name = String::new();
    for line in lines.iter().filter(|line| is_test_file || line.is_test) {
        let code = line.code.trim();
        let numbers = numbers_in(&line.raw);
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

fn function_name(code: &str) -> Option<&str> {
    let rest = code.strip_prefix("pub ").unwrap_or(code);
    let rest = rest
        .strip_prefix("async ")
        .unwrap_or(rest)
        .strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

fn named_in_python(text: &str) -> Vec<(u16, String)> {
    let mut name = String::new();
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.trim_start().strip_prefix("def test_") {
            name = format!("test_{}", rest.split('(').next().unwrap_or_default());
        }
        found.extend(
            numbers_in(line)
                .into_iter()
                .map(|number| (number, name.clone())),
        );
    }
    found
}

/// The numbers of requirements in a text; `ED-001 to ED-003` has three.
fn numbers_in(text: &str) -> Vec<u16> {
    let mut numbers = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(PREFIX) {
        let behind = &rest[at + PREFIX.len()..];
        let digits = behind.len()
            - behind
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len();
        let number = behind[..digits]
            .parse()
            .ok()
            .filter(|number| (1..=NUMBER_MAX).contains(number));
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

#[cfg(test)]
mod tests {
    use super::{NUMBER_MAX, SECTIONS, named_in_python, named_in_rust, numbers_in, tables};
    use crate::tidy::tree::Tree;

    #[test]
    fn each_number_stands_in_one_section() {
        let mut numbers: Vec<u16> = SECTIONS
            .iter()
            .flat_map(|(_, ranges)| ranges.iter().cloned().flatten())
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=NUMBER_MAX).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_and_ranges_are_read() {
        assert_eq!(numbers_in("(ED-004, ED-010 to ED-012): x"), [4, 10, 11, 12]);
        assert_eq!(
            numbers_in("ED-9999, ED-, ED-000 and ED-326"),
            [] as [u16; 0]
        );
    }

    #[test]
    fn numbers_belong_to_the_test_that_they_stand_at() {
        let text = "//! All (ED-001).\n\n/// ED-002.\n#[test]\nfn a() {\n    // ED-003\n}\n\n/// ED-004.\nfn helper() {}\n";
        let of = |number, name: &str| (number, name.to_owned());
        let expected = [of(1, ""), of(2, "a"), of(3, "a"), of(4, "")];
        assert_eq!(
            named_in_rust("crates/hedgerow-core/tests/it/x.rs", text),
            expected
        );
        // Outside tests a number says what is built, not that it is checked.
        assert_eq!(named_in_rust("crates/hedgerow-core/src/x.rs", text), []);
        assert_eq!(
            named_in_python("def test_b(server):\n    # ED-005\n"),
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
        let page = tables(&tree);
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
    }
}
