//! Only hedgerow-io reads clocks (design D4): everything else gets `Now`, or a clock, from outside, so that tests can
//! say what time it is.

use crate::tidy::Findings;
use crate::tidy::source::{has_word, uses};
use crate::tidy::tree::{RustFile, Tree};

/// The clock's own crate, and those that measure the product from outside.
const FREE: [&str; 5] = [
    "hedgerow-io",
    "hedgerow-cli",
    "hedgerow-sim",
    "hedgerow-simulator",
    "xtask",
];
/// Crates whose tests pause tokio's clock, so that reading it is no way around ours.
const TOKIO_CLOCK: [&str; 4] = [
    "hedgerow-delivery",
    "hedgerow-edge",
    "hedgerow-prober",
    "hedgerow-server",
];

/// Reads of a clock. `.elapsed(` reads one to compare with.
const READS: [&str; 8] = [
    "Instant::now",
    "SystemTime::now",
    "Utc::now",
    "Local::now",
    "Timestamp::now",
    "Zoned::now",
    "clock_gettime",
    ".elapsed(",
];

/// Reads that may be tokio's.
const OF_INSTANT: [&str; 2] = ["Instant::now", ".elapsed("];

/// The rule `clock`.
pub fn check(tree: &Tree, findings: &mut Findings) {
    for file in tree
        .rust()
        .filter(|file| !FREE.contains(&file.crate_name()))
    {
        let instant = Instant::of(&file);
        for line in file.product_lines() {
            for read in READS.iter().filter(|read| has_word(&line.code, read)) {
                let is_paused_by_tests =
                    OF_INSTANT.contains(read) && instant.is_tokio_on(&line.code);
                if !is_paused_by_tests {
                    let message = format!(
                        "`{read}` reads a clock; take `Now`, or hedgerow-io's clock, as an argument"
                    );
                    findings.error(file.path, line.number, message);
                }
            }
        }
    }
}

/// Which `Instant` a file means.
#[derive(Debug, Clone, Copy)]
struct Instant {
    may_be_tokio: bool,
    is_imported_from_tokio: bool,
}

impl Instant {
    fn of(file: &RustFile<'_>) -> Self {
        let may_be_tokio = TOKIO_CLOCK.contains(&file.crate_name());
        let is_imported_from_tokio = uses(file.product_lines())
            .iter()
            .any(|(_, path)| path == "tokio::time::Instant");
        Self {
            may_be_tokio,
            is_imported_from_tokio,
        }
    }

    fn is_tokio_on(self, code: &str) -> bool {
        self.may_be_tokio
            && !code.contains("std::time::Instant")
            && (self.is_imported_from_tokio || code.contains("tokio::time::Instant::now"))
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::found;

    const CORE: &str = "crates/hedgerow-core/src/a.rs";
    const DELIVERY: &str = "crates/hedgerow-delivery/src/a.rs";

    #[test]
    fn every_read_is_found() {
        for read in [
            "Instant::now()",
            "std::time::SystemTime::now()",
            "chrono::Utc::now()",
            "jiff::Timestamp::now()",
            "jiff::Zoned::now()",
            "tokio::time::Instant::now()",
            "start.elapsed()",
            "rustix::time::clock_gettime(id)",
            "map(Instant::now)",
        ] {
            let text = format!("//! A.\nfn a() {{ {read}; }}\n");
            assert_eq!(
                found(check, &[(CORE, &text)]),
                [format!("{CORE}:2")],
                "{read}"
            );
        }
    }

    #[test]
    fn tokios_clock_may_be_read_where_tests_pause_it() {
        let imported = "use tokio::time::{self, Instant};\nfn a() { Instant::now(); }\n";
        let spelled = "fn a() { tokio::time::Instant::now(); }\n";
        for text in [imported, spelled] {
            assert!(found(check, &[(DELIVERY, text)]).is_empty(), "{text}");
            let store = "crates/hedgerow-store/src/a.rs";
            assert_eq!(found(check, &[(store, text)]).len(), 1, "{text}");
        }
        let std = "use std::time::Instant;\nfn a() { Instant::now(); }\n";
        assert_eq!(found(check, &[(DELIVERY, std)]), [format!("{DELIVERY}:2")]);
    }

    #[test]
    fn the_clock_itself_tests_and_tools_are_free() {
        let read = "fn a() { Instant::now(); }\n";
        let files = [
            ("crates/hedgerow-io/src/clock.rs", read),
            ("crates/hedgerow-cli/src/dev.rs", read),
            ("crates/hedgerow-sim/src/main.rs", read),
            ("crates/hedgerow-core/tests/it/main.rs", read),
            (
                CORE,
                "// Instant::now\n#[cfg(test)]\nmod tests { fn a() { Instant::now(); } }\n",
            ),
        ];
        assert!(found(check, &files).is_empty());
    }
}
