//! `check`: everything that can be said about the tree without running it. All parts run, even when one fails, so that
//! one call shows all there is to mend.

use std::time::Duration;

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::setup::{self, CLIPPY, Component, RUSTFMT};
use crate::shell::{self, Workspace};
use crate::tidy;

/// How long the database of advisories may take to arrive. Without a network it never does.
const ADVISORIES_WAIT: Duration = Duration::from_secs(30);

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    Options::read(
        arguments,
        Accepted {
            flags: &[],
            values: &[],
        },
    )?;
    setup::ensure(workspace);
    let parts = [
        component(workspace, RUSTFMT, "fmt --all --check"),
        tidy::run(workspace, &[]),
        component(
            workspace,
            CLIPPY,
            "clippy --workspace --all-targets -- -D warnings",
        ),
        // What only the crash proofs build.
        component(
            workspace,
            CLIPPY,
            "clippy -p hedgerow-cli --features failpoints -- -D warnings",
        ),
        deny(workspace),
    ];
    let failures: Vec<Failure> = parts.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() {
        println!("\ncheck: nothing to mend");
        return Ok(());
    }
    Err(format!(
        "check found something to mend\n  - {}",
        failures.join("\n  - ")
    ))
}

fn component(workspace: &Workspace, component: Component, line: &str) -> Result<(), Failure> {
    if setup::is_present(workspace, component.command) {
        return shell::run(workspace.cargo(line.split_whitespace()));
    }
    println!("\nnote: {} is not installed; left out", component.name);
    Ok(())
}

fn deny(workspace: &Workspace) -> Result<(), Failure> {
    if !setup::is_present(workspace, "deny") {
        println!(
            "\nnote: cargo-deny is not installed; left out (`cargo xtask setup --deny` installs it)"
        );
        return Ok(());
    }
    shell::run(workspace.cargo(["deny", "check", "bans", "licenses", "sources"]))?;
    if shell::succeeds_within(
        &mut workspace.cargo(["deny", "fetch", "db"]),
        ADVISORIES_WAIT,
    ) {
        return shell::run(workspace.cargo(["deny", "check", "--disable-fetch", "advisories"]));
    }
    println!("\nnote: the database of advisories cannot be reached; left out");
    Ok(())
}
