//! What no code may say: `unsafe`, placeholders, debugging output, work to do without an issue, tests left out without a
//! reason.

use crate::tidy::Findings;
use crate::tidy::source::{Line, has_word, words};
use crate::tidy::tree::{Tree, has_ending};

const PLACEHOLDERS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
const MARKERS: [&str; 2] = ["TODO", "FIXME"];

/// The rule `unsafe`.
pub fn check_unsafe(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        for line in file
            .lines
            .iter()
            .filter(|line| has_word(&line.code, "unsafe"))
        {
            findings.error(
                file.path,
                line.number,
                "unsafe code; use a safe crate that wraps it",
            );
        }
    }
}

/// The rule `unfinished`.
pub fn check_unfinished(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        for line in &file.lines {
            for name in PLACEHOLDERS
                .iter()
                .filter(|name| has_word(&line.code, name))
            {
                findings.error(
                    file.path,
                    line.number,
                    format!("`{name}` is left over; finish or remove it"),
                );
            }
            for marker in MARKERS
                .iter()
                .filter(|marker| lacks_issue(&line.comment, marker))
            {
                let message =
                    format!("{marker} without an issue; write {marker}(#NUMBER) or do it now");
                findings.error(file.path, line.number, message);
            }
        }
    }
    let others = tree
        .files()
        .filter(|(path, _)| has_ending(path, "toml") || path.starts_with(".ci/"));
    for (path, text) in others {
        for (index, line) in text.lines().enumerate() {
            for marker in MARKERS.iter().filter(|marker| lacks_issue(line, marker)) {
                let message =
                    format!("{marker} without an issue; write {marker}(#NUMBER) or do it now");
                findings.error(path, index + 1, message);
            }
        }
    }
}

/// The rule `ignored-tests`.
pub fn check_ignored(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        for line in file
            .lines
            .iter()
            .filter(|line| ignores_without_reason(line))
        {
            let message =
                "a test is left out without a reason; write #[ignore = \"reason\"] or let it run";
            findings.error(file.path, line.number, message);
        }
    }
}

/// Whether the marker stands somewhere without `(#number)` behind it.
fn lacks_issue(text: &str, marker: &str) -> bool {
    words(text, marker).any(|at| {
        let number = text[at + marker.len()..]
            .strip_prefix("(#")
            .and_then(|rest| rest.split_once(')'))
            .map_or("", |(number, _)| number);
        number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether the line has an `ignore` attribute with no reason or an empty one.
fn ignores_without_reason(line: &Line) -> bool {
    let code = line.code.replace(' ', "");
    let is_attribute =
        code.contains("#[ignore") || (code.contains("#[cfg_attr(") && code.contains(",ignore"));
    is_attribute
        && (!code.contains("ignore=\"") || line.raw.replace(' ', "").contains("ignore=\"\""))
}

#[cfg(test)]
mod tests {
    use super::{check_ignored, check_unfinished, check_unsafe};
    use crate::tidy::tests::found;

    const FILE: &str = "crates/hedgerow-core/src/a.rs";

    #[test]
    fn unsafe_code_is_found_and_talk_about_it_is_not() {
        let text = "// unsafe\n#![forbid(unsafe_code)]\nlet a = \"unsafe\";\nunsafe { b() }\n";
        assert_eq!(found(check_unsafe, &[(FILE, text)]), [format!("{FILE}:4")]);
    }

    #[test]
    fn placeholders_are_found_in_tests_too() {
        let text = "todo!()\nunimplemented!()\ndbg!(a)\n\"todo!()\"\n";
        let all = [1, 2, 3].map(|line| format!("{FILE}:{line}"));
        assert_eq!(found(check_unfinished, &[(FILE, text)]), all);
        let path = "crates/hedgerow-core/tests/it/main.rs";
        assert_eq!(
            found(check_unfinished, &[(path, "todo!()")]),
            [format!("{path}:1")]
        );
    }

    #[test]
    fn work_to_do_names_its_issue() {
        let text = "// TODO(#12): later\n// TODO: later\n// FIXME(soon)\n// TODO(#) x\nlet a = \"TODO\";\n";
        let all = [2, 3, 4].map(|line| format!("{FILE}:{line}"));
        assert_eq!(found(check_unfinished, &[(FILE, text)]), all);
        assert_eq!(
            found(check_unfinished, &[("deny.toml", "# FIXME\n")]),
            ["deny.toml:1"]
        );
    }

    #[test]
    fn ignored_tests_say_why() {
        let text = "#[ignore]\n#[ignore = \"\"]\n#[cfg_attr(windows, ignore)]\n\
                    #[ignore = \"a slow disk\"]\n#[cfg_attr(windows, ignore = \"no kill\")]\n// #[ignore]\n";
        let all = [1, 2, 3].map(|line| format!("{FILE}:{line}"));
        assert_eq!(found(check_ignored, &[(FILE, text)]), all);
    }
}
