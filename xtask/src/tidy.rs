//! `tidy`: the house rules as checks. Each finding says where, which rule, and what to do.
//!
//! A rule is a function from the tree's text to findings; it reads no disk, so that each rule's tests can feed it a
//! small tree and show that it can fail. Rules look at text, not at types: they are there to remind, and clippy, the
//! lints and the crates' dependencies stand behind them.
//!
//! | file | holds |
//! | --- | --- |
//! | `tree.rs` | the text of the repository |
//! | `source.rs` | Rust text as lines of code and of comment |
//! | `manifest.rs` | the parts of `Cargo.toml` that rules ask about |
//! | `layers.rs` | which crate may use which |
//! | `purity.rs` | what the core may not touch |
//! | `clock.rs`, `network.rs` | who reads clocks and who opens connections |
//! | `words.rs` | what no code may say |
//! | `shape.rs` | module documentation and the length of files |
//! | `paths.rs` | text that points outside the repository |
//! | `pages.rs` | generated parts of pages |
//! | `requirements.rs` | which test checks which requirement |

mod clock;
mod layers;
mod manifest;
mod network;
mod pages;
mod paths;
mod purity;
mod requirements;
mod shape;
mod source;
mod tree;
mod words;

use std::fmt;

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::shell::Workspace;
use crate::tidy::tree::Tree;

/// A house rule.
struct Rule {
    /// Its name, shown with each finding.
    name: &'static str,
    /// What it asks for, in a sentence for the reference.
    about: &'static str,
    check: fn(&Tree, &mut Findings),
}

const RULES: [Rule; 11] = [
    Rule {
        name: "layers",
        about: "A crate uses crates of lower layers only, and of those only the ones that its row in the layer table names; nothing uses the tools. Dev-dependencies count too.",
        check: layers::check,
    },
    Rule {
        name: "manifest",
        about: "Every crate takes the workspace's lints and is not published.",
        check: layers::check_manifests,
    },
    Rule {
        name: "purity",
        about: "The core, the rules of origins and the dialects do no input or output, start nothing, log nothing and draw no chance, and have no dependency that could.",
        check: purity::check,
    },
    Rule {
        name: "clock",
        about: "Only hedgerow-io reads clocks. tokio's clock, which tests can pause, may be read in delivery, prober and server; the CLI, the tools and tests are free.",
        check: clock::check,
    },
    Rule {
        name: "network",
        about: "Sockets, name look-ups and HTTP clients are found in the guarded connector and its client only. The CLI's own client, the tools and tests are free; listeners belong to the server and the CLI.",
        check: network::check,
    },
    Rule {
        name: "unsafe",
        about: "There is no unsafe code.",
        check: words::check_unsafe,
    },
    Rule {
        name: "unfinished",
        about: "No placeholder macros and no debugging output; a TODO or FIXME names its issue, as in `TODO(#12)`.",
        check: words::check_unfinished,
    },
    Rule {
        name: "ignored-tests",
        about: "A test that is left out says why: `#[ignore = \"reason\"]`.",
        check: words::check_ignored,
    },
    Rule {
        name: "module-docs",
        about: "Every Rust file begins with what it decides or does, as `//!`.",
        check: shape::check_module_docs,
    },
    Rule {
        name: "file-length",
        about: "A file over 600 lines without its tests is looked at; one over 800 is refused.",
        check: shape::check_length,
    },
    Rule {
        name: "paths",
        about: "Nothing names a place outside the repository: a home folder, where a checkout happens to lie, a relative path that leads out or nowhere.",
        check: paths::check,
    },
];

/// The rule that is not in the list, because its pages show the list.
const GENERATED: &str = "generated";

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let options = Options::read(
        arguments,
        Accepted {
            flags: &["write"],
            values: &[],
        },
    )?;
    println!("\n> tidy");
    let mut tree = Tree::load(&workspace.root)?;
    if options.has("write") {
        for (path, text) in pages::renewed(&tree) {
            std::fs::write(workspace.root.join(&path), &text)
                .map_err(|error| format!("cannot write {path}: {error}"))?;
            println!("renewed {path}");
            tree.insert(&path, text);
        }
    }
    let findings = judge(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    if errors > 0 {
        return Err(format!("tidy: {errors} to mend"));
    }
    println!("tidy: {} files, nothing to mend", tree.len());
    Ok(())
}

/// All findings, in the order of files and lines.
fn judge(tree: &Tree) -> Vec<Finding> {
    let mut all = Vec::new();
    for rule in &RULES {
        let mut findings = Findings {
            rule: rule.name,
            list: Vec::new(),
        };
        (rule.check)(tree, &mut findings);
        all.append(&mut findings.list);
    }
    let mut findings = Findings {
        rule: GENERATED,
        list: Vec::new(),
    };
    pages::check(tree, &mut findings);
    all.append(&mut findings.list);
    all.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    all
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// Shown.
    Warning,
    /// Shown, and the check fails.
    Error,
}

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    path: String,
    /// Counts from 1.
    line: usize,
    rule: &'static str,
    severity: Severity,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let Self {
            path,
            line,
            rule,
            message,
            ..
        } = self;
        write!(f, "{path}:{line}: {severity}: {message} [{rule}]")
    }
}

/// Where a rule puts what it found.
struct Findings {
    rule: &'static str,
    list: Vec<Finding>,
}

impl Findings {
    /// Reports something that has to be mended. The message says what is wrong and what to do.
    fn error(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.add(path, line, Severity::Error, message.into());
    }

    /// Reports something to think about.
    fn warning(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.add(path, line, Severity::Warning, message.into());
    }

    fn add(&mut self, path: &str, line: usize, severity: Severity, message: String) {
        self.list.push(Finding {
            path: path.to_owned(),
            line,
            rule: self.rule,
            severity,
            message,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, Findings, RULES, Severity, Tree, judge};

    /// What a check finds in a small tree, as `path:line`.
    pub fn found(check: fn(&Tree, &mut Findings), files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Findings {
            rule: "under test",
            list: Vec::new(),
        };
        check(&Tree::from_texts(files), &mut findings);
        findings
            .list
            .iter()
            .map(|finding| format!("{}:{}", finding.path, finding.line))
            .collect()
    }

    #[test]
    fn a_finding_shows_where_what_and_which_rule() {
        let finding = Finding {
            path: "crates/a/src/b.rs".to_owned(),
            line: 7,
            rule: "clock",
            severity: Severity::Error,
            message: "reads a clock; take `Now` as an argument".to_owned(),
        };
        assert_eq!(
            finding.to_string(),
            "crates/a/src/b.rs:7: error: reads a clock; take `Now` as an argument [clock]"
        );
    }

    #[test]
    fn findings_of_all_rules_come_in_the_order_of_the_files() {
        let tree = Tree::from_texts(&[
            ("crates/hedgerow-core/src/b.rs", "fn b() {}\n"),
            (
                "crates/hedgerow-core/src/a.rs",
                "//! A.\nfn a() { dbg!(1) }\nunsafe fn c() {}\n",
            ),
        ]);
        let places: Vec<(String, usize, &str)> = judge(&tree)
            .into_iter()
            .map(|found| (found.path, found.line, found.rule))
            .collect();
        let a = "crates/hedgerow-core/src/a.rs".to_owned();
        let b = "crates/hedgerow-core/src/b.rs".to_owned();
        assert_eq!(
            places,
            [
                (a.clone(), 2, "unfinished"),
                (a, 3, "unsafe"),
                (b, 1, "module-docs")
            ]
        );
    }

    #[test]
    fn rule_names_are_unique() {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
