//! `setup`: installs what `check` and `test` need and is missing.
//!
//! A compiler and a linker are there already, or this program would not run. rustfmt and clippy come from rustup;
//! where it cannot get them, that is said, and `check` leaves out what it cannot do. cargo-deny takes minutes to build,
//! so it is installed only when asked for.

use std::process::Command;

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::shell::{self, Workspace};

/// The line of cargo-deny that `deny.toml` is written for.
const DENY_VERSION: &str = "0.20";

/// A part of the toolchain that may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    /// What rustup calls it.
    pub name: &'static str,
    /// Its cargo command.
    pub command: &'static str,
}

/// rustfmt, as `cargo fmt`.
pub const RUSTFMT: Component = Component {
    name: "rustfmt",
    command: "fmt",
};
/// Clippy, as `cargo clippy`.
pub const CLIPPY: Component = Component {
    name: "clippy",
    command: "clippy",
};

const COMPONENTS: [Component; 2] = [RUSTFMT, CLIPPY];

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let options = Options::read(
        arguments,
        Accepted {
            flags: &["deny"],
            values: &[],
        },
    )?;
    ensure(workspace);
    for component in COMPONENTS {
        report(component.name, is_present(workspace, component.command));
    }
    if options.has("deny") && !is_present(workspace, "deny") {
        let version = format!("cargo-deny@{DENY_VERSION}");
        shell::run(workspace.cargo(["install", "--locked", &version]))?;
    }
    report("cargo-deny", is_present(workspace, "deny"));
    Ok(())
}

/// Installs the components that are missing, as far as rustup can. Says nothing when nothing is missing.
pub fn ensure(workspace: &Workspace) {
    let missing: Vec<&str> = COMPONENTS
        .iter()
        .filter(|component| !is_present(workspace, component.command))
        .map(|component| component.name)
        .collect();
    if missing.is_empty() {
        return;
    }
    let mut rustup = Command::new("rustup");
    rustup
        .current_dir(&workspace.root)
        .args(["component", "add"])
        .args(&missing);
    if let Err(failure) = shell::run(rustup) {
        println!(
            "note: {} could not be installed ({failure}); what needs it is left out",
            missing.join(" and ")
        );
    }
}

/// Whether cargo knows the command.
pub fn is_present(workspace: &Workspace, command: &str) -> bool {
    shell::succeeds(&mut workspace.cargo([command, "--version"]))
}

fn report(name: &str, is_present: bool) {
    println!(
        "{name:<12}{}",
        if is_present {
            "installed"
        } else {
            "not installed"
        }
    );
}
