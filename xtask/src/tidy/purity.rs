//! The core, the rules of origins and the dialects are pure: they get *now* and *chance* as arguments and give back values. Better than
//! forbidding a call is not to have the dependency, so both are looked at.

use crate::tidy::Findings;
use crate::tidy::manifest::Manifest;
use crate::tidy::source::{has_word, uses};
use crate::tidy::tree::Tree;

const PURE: [&str; 3] = ["hedgerow-core", "hedgerow-origin", "hedgerow-dialect"];

/// Crates that do input or output, know the time, draw chance, start something or log.
const IMPURE_CRATES: [&str; 20] = [
    "tokio",
    "hyper",
    "hyper-util",
    "axum",
    "reqwest",
    "ureq",
    "rustls",
    "fjall",
    "lsm-tree",
    "rustix",
    "libc",
    "mio",
    "socket2",
    "tempfile",
    "getrandom",
    "rand",
    "fastrand",
    "tracing",
    "log",
    "chrono",
];

/// Parts of the standard library that do the same. The clock has a rule of its own.
const IMPURE_PATHS: [&str; 6] = [
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "std::os",
    "std::io::stdin",
];

/// Macros that write to the terminal.
const IMPURE_MACROS: [&str; 4] = ["println!", "eprintln!", "print!", "eprint!"];

/// The rule `purity`.
pub fn check(tree: &Tree, findings: &mut Findings) {
    for name in PURE {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = tree.text(&path).map(Manifest::read).unwrap_or_default();
        for dependency in manifest.dependencies() {
            if !dependency.is_dev && IMPURE_CRATES.contains(&dependency.name.as_str()) {
                let message = format!(
                    "{name} is pure and may not use {}; let a shell do it",
                    dependency.name
                );
                findings.error(&path, dependency.line, message);
            }
        }
    }
    for file in tree.rust().filter(|file| PURE.contains(&file.crate_name())) {
        let mut report = |line: usize, what: &str| {
            let message = format!("{what} in a pure crate; return a value and let a shell act");
            findings.error(file.path, line, message);
        };
        for line in file.product_lines() {
            let is_use = line.code.trim_start().starts_with("use ");
            for path in IMPURE_PATHS
                .iter()
                .filter(|path| !is_use && has_word(&line.code, path))
            {
                report(line.number, path);
            }
            for name in IMPURE_MACROS
                .iter()
                .filter(|name| has_word(&line.code, name))
            {
                report(line.number, name);
            }
        }
        for (line, used) in uses(file.product_lines()) {
            for path in IMPURE_PATHS.iter().filter(|path| has_word(&used, path)) {
                report(line, path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::found;

    const MANIFEST: &str = "crates/hedgerow-core/Cargo.toml";
    const FILE: &str = "crates/hedgerow-dialect/src/a.rs";

    #[test]
    fn dependencies_that_act_are_found() {
        let files = [(MANIFEST, "[dependencies]\nbytes = \"1\"\ntokio = \"1\"\n")];
        assert_eq!(found(check, &files), [format!("{MANIFEST}:3")]);
        let dev = [(
            MANIFEST,
            "[dependencies]\nbytes = \"1\"\n[dev-dependencies]\ntempfile = \"3\"\n",
        )];
        assert!(found(check, &dev).is_empty());
    }

    #[test]
    fn code_that_acts_is_found() {
        let text = "//! A.\nuse std::{fmt, fs};\nfn a() { std::env::var(\"X\"); }\nfn b() { println!(); }\n";
        assert_eq!(
            found(check, &[(FILE, text)]),
            [
                format!("{FILE}:3"),
                format!("{FILE}:4"),
                format!("{FILE}:2")
            ]
        );
    }

    #[test]
    fn shells_and_tests_may_act() {
        let files = [
            ("crates/hedgerow-store/src/a.rs", "use std::fs;\n"),
            ("crates/hedgerow-core/tests/it/main.rs", "use std::fs;\n"),
            (
                FILE,
                "// std::fs\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n",
            ),
        ];
        assert!(found(check, &files).is_empty());
    }
}
